"""What `amp-lessons explain` prints and writes about one trace.

The command's options come in as an `Output`; where they ask for an exit status, the line that says
why is returned, for the command to print.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from amp_lessons.amp.explain.report import changes_page, changes_text
from amp_lessons.amp.explain.report.changes import compare
from amp_lessons.amp.explain.report.data import read
from amp_lessons.amp.explain.report.digest import hazard_name
from amp_lessons.amp.explain.report.explanation import Explanation, in_colour
from amp_lessons.amp.explain.report.text import ALL, ReportOptions
from amp_lessons.amp.explain.rows import Hazard, Trace
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.files import write_atomically
from amp_lessons.core.terminal import console


class CannotWrite(AmpLessonsError, OSError):
    """A page that cannot be written where it was asked for."""


@dataclass(frozen=True)
class Output:
    """What to show of a trace.

    Args:
        options: of the text.
        json: print JSON, and no text.
        html: a file for a page of its own; with `before`, a page of the differences.
        before: the trace to compare with.
        fail_on: "raises" and "overflow": hazards that end the command with status 1.
    """

    options: ReportOptions = ALL
    json: bool = False
    html: Path | None = None
    before: Trace | None = None
    fail_on: tuple[str, ...] = ()


def earlier(path: Path | None) -> Trace | None:
    """The trace in a file, if there is one to compare with. Raises `NotAReport`."""
    return None if path is None else read(path)


def show(explained: Explanation, output: Output) -> str:
    """Print the trace, or what changed; and write the page.

    Returns:
        The first hazard that `Output.fail_on` asks about, in one line; "" if there is none.

    Raises:
        OtherModel: if the trace to compare with is another model's.
        CannotWrite: if the page cannot be written.
    """
    changes = compare(output.before, explained) if output.before is not None else None
    if output.html is not None:
        page = explained.to_html() if changes is None else changes_page.whole(changes)
        _write(output.html, page)
    if changes is not None:
        screen = console()
        if output.json:
            print(changes.to_json())
        else:
            lines = changes_text.lines_of(changes, screen.width, output.options.top)
            screen.print(in_colour(lines), soft_wrap=True)
    elif output.json:
        print(explained.to_json())
    else:
        screen = console()
        screen.print(explained.renderable(screen.width, output.options), soft_wrap=True)
    return first_failure(explained.hazards, output.fail_on)


def _write(path: Path, page: str) -> None:
    try:
        write_atomically(path.expanduser(), page.encode())
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: {error.strerror or error}") from error


_FAILS: dict[str, Callable[[Hazard], bool]] = {
    "raises": lambda hazard: hazard.severity == "raises",
    "overflow": lambda hazard: hazard.overflows,
}


def first_failure(hazards: Iterable[Hazard], fail_on: Iterable[str]) -> str:
    """The first hazard of a kind that fails, in one line; "" if there is none."""
    kinds = tuple(fail_on)
    for hazard in hazards:
        for kind in kinds:
            if _FAILS[kind](hazard):
                return f"--fail-on {kind}: {hazard_name(hazard)}. Fix: {hazard.fix}"
    return ""
