"""`amp-lessons grade`: its options, and what it prints and writes.

`cli` registers it. The grading itself is in `batch`, the reports are in `report`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from amp_lessons.terminal import console, say, warn

if TYPE_CHECKING:
    from amp_lessons.grading import Graded, HandedIn, Options


MOST_JOBS = 256


class Layout(StrEnum):
    PLAIN = "plain"
    CANVAS = "canvas"
    MOODLE = "moodle"


class Per(StrEnum):
    EXERCISE = "exercise"
    SHEET = "sheet"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(grade)


def grade(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="Notebooks, folders of them, zip files, or nbgrader's folder `submitted`.",
        ),
    ],
    json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON: a line for each notebook, as soon as it is done."),
    ] = False,
    csv: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a table of learners and exercises."),
    ] = None,
    layout: Annotated[
        Layout, typer.Option(help="How --csv is laid out, for the gradebook that imports it.")
    ] = Layout.PLAIN,
    per: Annotated[
        Per, typer.Option(help="Whether --csv has a column for each exercise or each sheet.")
    ] = Per.EXERCISE,
    html: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a page for each learner and one for the class."),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep each result here as soon as it is there. Run it again with the same DIR "
            "after an interruption, and it goes on.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Notebooks to run at the same time. Default: one for each core."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one cell.")] = 30.0,
    total: Annotated[float, typer.Option(min=0.1, help="Seconds for one notebook.")] = 300.0,
    memory: Annotated[
        int, typer.Option(min=64, help="MiB of memory for one notebook, besides torch.")
    ] = 2048,
    seed: Annotated[
        str,
        typer.Option(
            help="Draw the checks' inputs from this text, as a former batch did. Default: a new "
            "secret for each batch.",
        ),
    ] = "",
    require_sandbox: Annotated[
        bool, typer.Option("--require-sandbox", help="Refuse to run where there is no sandbox.")
    ] = False,
    no_sandbox: Annotated[
        bool,
        typer.Option("--no-sandbox", help="Run without one: only for notebooks that you trust."),
    ] = False,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust",
            help="Give points also to notebooks whose cells reach into the check. Look at them "
            "first.",
        ),
    ] = False,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Send the notebooks to this Dask scheduler."),
    ] = None,
) -> None:
    """Run learners' notebooks in a sandbox, and give points.

    The exit status is 0 only if all could be graded. A wrong answer can; a
    notebook that is broken, or a cell that never ends, cannot.
    """
    from amp_lessons import grading

    if require_sandbox and no_sandbox:
        raise typer.BadParameter("--require-sandbox and --no-sandbox exclude each other")
    _check_outputs(csv, html)
    handed_in = grading.collect(paths)
    options = grading.Options(
        grading.Limits(cell=timeout, total=total, memory=memory),
        min(jobs or os.cpu_count() or 1, len(handed_in), MOST_JOBS),
        seed,
        "required" if require_sandbox else "none" if no_sandbox else "auto",
        results,
        trust,
    )
    with _ended_as_on_ctrl_c(), _grading(handed_in, options, dask) as (about, found):
        all_graded = _shown_as_they_come(found, len(handed_in), about if json else None)
    place = {each.name: number for number, each in enumerate(handed_in)}
    all_graded.sort(key=lambda graded: place[graded.name])
    if not json:
        _print(all_graded)
    _write(all_graded, about, csv, (layout, per), html, warn if json else say)
    raise typer.Exit(0 if all(graded.gradable for graded in all_graded) else 1)


def _check_outputs(csv: Path | None, html: Path | None) -> None:
    """Before minutes of grading: can the reports be written?"""
    if csv is not None and (csv.is_dir() or not csv.absolute().parent.is_dir()):
        raise typer.BadParameter(f"--csv: {csv} cannot be written: no such folder")
    if html is not None:
        try:
            html.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise typer.BadParameter(f"--html: {html}: {error.strerror}") from None


@contextmanager
def _grading(
    handed_in: list[HandedIn], options: Options, dask: str | None
) -> Iterator[tuple[dict[str, Any], Iterator[Graded]]]:
    """What is known of the batch, and its results as they come, from here or from a cluster."""
    from amp_lessons import grading

    today = {"date": f"{datetime.now(UTC):%Y-%m-%d}"}
    if dask is not None:
        from amp_lessons.grading import cluster

        with cluster.open_batch(dask, options) as batch:
            yield {**batch.about, **today}, batch.grade(handed_in)
        return
    with grading.open_batch(options) as batch:
        if batch.missing:
            warn(batch.missing)
        yield {**batch.about, **today}, batch.grade(handed_in)


def _shown_as_they_come(
    found: Iterator[Graded], total: int, about: dict[str, Any] | None
) -> list[Graded]:
    """Collect the results; with ``about``, write each as JSON at once."""
    from amp_lessons.grading import report

    document = report.JsonWriter(sys.stdout, about) if about is not None else None
    all_graded = []
    drawn = document is None or not sys.stdout.isatty()
    for graded in report.with_progress(found, total, drawn):
        all_graded.append(graded)
        if document is not None:
            document.add(graded)
            _warn_of(graded.name, graded.problems)
    if document is not None:
        document.close()
    return all_graded


def _print(all_graded: list[Graded]) -> None:
    from amp_lessons.grading import report

    screen = console()
    for table in report.tables(all_graded):
        screen.print(table)
    if len(all_graded) <= report.FEW:
        for graded in all_graded:
            _warn_of(graded.name, [*graded.problems, *(f"note: {n}" for n in graded.notes)])
    if len(all_graded) > 1:
        points = sum(graded.points for graded in all_graded)
        of = sum(graded.of for graded in all_graded)
        say(f"{points} of {of} points in {len(all_graded)} notebooks")


def _warn_of(name: str, texts: Sequence[str]) -> None:
    for text in texts:
        warn(f"{name}: {text}")


def _write(
    all_graded: list[Graded],
    about: dict[str, Any],
    csv: Path | None,
    layout: tuple[Layout, Per],
    html: Path | None,
    tell: Callable[[str], None],
) -> None:
    """Write the reports. Where they lie is told with ``tell``: standard output may hold JSON."""
    from amp_lessons.grading import report

    if csv is not None:
        for text in report.write_csv(all_graded, csv, layout[0].value, layout[1].value):
            warn(text)
        tell(f"marks: {csv}")
    if html is not None:
        tell(f"pages: {report.write_pages(all_graded, html, about)}")


@contextmanager
def _ended_as_on_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack, so that no notebook is left running."""

    def leave(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), leave)
    yield
