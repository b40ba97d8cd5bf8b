"""What stands under each heading of a lesson's notebook: cells, questions, widgets, outputs.

A workshop shows some sections of a lesson and skips others. `needed_first` finds the skipped cells
that a shown section can't run without. Notebooks are read as they are stored; nothing is run here.
"""

from __future__ import annotations

import html
import json
import re
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from amp_lessons.core import catalogue, ipynb
from amp_lessons.core.catalogue import Lesson

_HEADING = re.compile(r"^(#{1,6}) +(.+?) *$")
_PREDICT = re.compile(r'^predict\("([\w.]+)"\)', re.MULTILINE)
_WIDGET = re.compile(r"^from amp_lessons\.lessons\.widgets import (\w+)", re.MULTILINE)
_PICTURE = re.compile(r'<img\b[^>]*\balt="([^"]+)"')
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class LearnerCell:
    """A code cell that a learner runs.

    Attributes:
        source: its Python.
        shown: what is stored of its output: lines of text, and what its pictures show.
    """

    source: str
    shown: tuple[str, ...] = ()

    @cached_property
    def _names(self) -> tuple[frozenset[str], frozenset[str]]:
        return _defined_and_used(self.source)

    @property
    def defines(self) -> frozenset[str]:
        return self._names[0]

    @property
    def uses(self) -> frozenset[str]:
        """Names that it needs and doesn't define itself."""
        return self._names[1] - self._names[0]


@dataclass(frozen=True)
class Section:
    """What stands from one heading to the next.

    Attributes:
        heading: without its ``#``. The first section of a lesson has the lesson's title.
        cells: the code cells, without the set-up cell and the questions.
        predictions: ids of the questions that it asks before a result.
        widgets: names of the widgets that it draws.
    """

    heading: str
    cells: list[LearnerCell] = field(default_factory=list)
    predictions: list[str] = field(default_factory=list)
    widgets: list[str] = field(default_factory=list)


@lru_cache(maxsize=len(catalogue.LESSONS))
def sections(lesson: Lesson) -> tuple[Section, ...]:
    """The sections of a lesson, in order.

    Raises:
        OSError: if the notebook can't be read.
    """
    path = catalogue.course_files() / lesson.notebook
    notebook = json.loads(path.read_text(encoding="utf-8"))
    found: list[Section] = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        tags = cell["metadata"].get("tags", [])
        if cell["cell_type"] == "markdown":
            found += [Section(heading) for heading in _headings(source)]
        elif cell["cell_type"] == "code" and ipynb.SET_UP not in tags and found:
            found[-1].predictions.extend(_PREDICT.findall(source))
            found[-1].widgets.extend(_WIDGET.findall(source))
            if "question" not in tags:
                found[-1].cells.append(LearnerCell(source, tuple(_shown(cell.get("outputs", [])))))
    return tuple(found)


def _headings(markdown: str) -> Iterator[str]:
    """The headings of a Markdown cell."""
    return (heading for _, heading in lines_and_headings(markdown) if heading)


def lines_and_headings(markdown: str) -> Iterator[tuple[str, str]]:
    """Each line, with the heading that it is, or "". A line with # inside a fence is no heading."""
    fenced = False
    for line in markdown.splitlines():
        fenced ^= line.startswith("```")
        match = _HEADING.match(line)
        yield line, match[2] if match and not fenced else ""


def _shown(outputs: list[dict]) -> Iterator[str]:
    for output in outputs:
        if output["output_type"] == "stream":
            yield from _COLOURS.sub("", "".join(output["text"])).rstrip("\n").split("\n")
        elif page := "".join(output.get("data", {}).get("text/html", "")):
            yield from (f"[picture: {html.unescape(alt)}]" for alt in _PICTURE.findall(page))


def needed_first(lesson: Lesson, shown: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Which skipped sections must run before which shown one.

    Args:
        lesson: the lesson.
        shown: headings, in the order of the workshop. The cells above the first of the lesson's
            headings count as run.

    Returns:
        For each shown heading that needs any: the headings of the skipped sections, in the
        lesson's order. A section that is named once counts as run from then on.
    """
    there = sections(lesson)
    run = {there[0].heading}
    found: dict[str, tuple[str, ...]] = {}
    for heading in shown:
        place = next(n for n, section in enumerate(there) if section.heading == heading)
        missing = _missing(there[: place + 1], run | {heading})
        if missing:
            found[heading] = tuple(each.heading for each in there if each.heading in missing)
        run |= {heading, *missing}
    return found


def _missing(there: Sequence[Section], run: set[str]) -> set[str]:
    """The sections outside ``run`` whose names the last section's cells use, directly or not."""
    missing: set[str] = set()
    waiting = [(len(there) - 1, name) for cell in there[-1].cells for name in cell.uses]
    while waiting:
        place, name = waiting.pop()
        source = next(
            (
                (number, section)
                for number, section in reversed(list(enumerate(there[: place + 1])))
                for cell in reversed(section.cells)
                if name in cell.defines
            ),
            None,
        )
        if source is None:
            continue  # a builtin
        number, section = source
        if section.heading not in run | missing:
            missing.add(section.heading)
            waiting += [(number, used) for each in section.cells for used in each.uses]
    return missing


def _defined_and_used(source: str) -> tuple[frozenset[str], frozenset[str]]:
    """The global names that a cell binds, and those that it reads."""
    try:
        table = symtable.symtable(source, "cell", "exec")
    except SyntaxError:  # a line for IPython alone
        return frozenset(), frozenset()
    symbols = table.get_symbols()
    defined = {each.get_name() for each in symbols if each.is_assigned() or each.is_imported()}
    used = {each.get_name() for each in symbols if each.is_referenced()}
    inner = list(table.get_children())
    while inner:
        scope = inner.pop()
        inner += scope.get_children()
        symbols = scope.get_symbols()
        used |= {s.get_name() for s in symbols if s.is_global() and s.is_referenced()}
    return frozenset(defined), frozenset(used)
