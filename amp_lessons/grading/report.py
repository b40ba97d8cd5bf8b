"""Marks, and how they are shown: a table per notebook for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from amp_lessons.terminal import line, state_text

if TYPE_CHECKING:
    from rich.table import Table

    from amp_lessons.checks.verdict import Verdict


@dataclass(frozen=True)
class Mark:
    """The verdict on one exercise, and its points."""

    exercise: str
    verdict: Verdict
    points: int
    of: int

    @property
    def message(self) -> str:
        """What the verdict says; for an error, with the learner's line."""
        seen = self.verdict.seen if self.verdict.state == "error" else ()
        where = f" ({'; '.join(seen)})" if seen else ""
        return line(self.verdict.message + where)


@dataclass(frozen=True)
class Graded:
    """One notebook's marks.

    Attributes:
        lesson: its id, or None if the notebook could not be read.
        problems: why a person should look at it; with any, it counts as not gradable.
        notes: what is worth knowing and changes nothing.
    """

    path: Path
    lesson: str | None = None
    marks: tuple[Mark, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def gradable(self) -> bool:
        return not self.problems

    @property
    def points(self) -> int:
        return sum(mark.points for mark in self.marks)

    @property
    def of(self) -> int:
        return sum(mark.of for mark in self.marks)


def table(graded: Graded) -> Table:
    """The marks of one notebook, for a console."""
    from rich.table import Table
    from rich.text import Text

    result = Table(title=str(graded.path), title_justify="left", title_style="bold", expand=True)
    result.show_footer = True
    result.add_column("exercise", footer="total", no_wrap=True)
    result.add_column("state", no_wrap=True)
    points = f"{graded.points}/{graded.of}"
    result.add_column("points", footer=points, justify="right", no_wrap=True)
    result.add_column("what the check says", overflow="fold", ratio=1)
    for mark in graded.marks:
        said = "" if mark.verdict.passed else mark.message
        row = (
            Text(mark.exercise),
            state_text(mark.verdict.state),
            Text(f"{mark.points}/{mark.of}"),
        )
        result.add_row(*row, Text(said))
    return result


def as_json(all_graded: Sequence[Graded]) -> dict[str, Any]:
    """Every notebook's marks in JSON's types, with totals."""
    return {
        "notebooks": [_notebook_json(graded) for graded in all_graded],
        "points": sum(graded.points for graded in all_graded),
        "of": sum(graded.of for graded in all_graded),
        "gradable": all(graded.gradable for graded in all_graded),
    }


class JsonWriter:
    """Writes what `as_json` gives, a notebook per line as soon as it is graded.

    If the grader is killed, the lines that it has written are the notebooks it had finished. The
    document becomes valid JSON with `close`.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.totals = as_json([])
        del self.totals["notebooks"]
        self._write('{"notebooks": [')
        self._between = "\n"

    def add(self, graded: Graded) -> None:
        self.totals["points"] += graded.points
        self.totals["of"] += graded.of
        self.totals["gradable"] &= graded.gradable
        self._write(self._between + json.dumps(_notebook_json(graded)))
        self._between = ",\n"

    def close(self) -> None:
        self._write("\n],\n" + json.dumps(self.totals).removeprefix("{") + "\n")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


def _notebook_json(graded: Graded) -> dict[str, Any]:
    return {
        "notebook": str(graded.path),
        "lesson": graded.lesson,
        "exercises": {mark.exercise: _mark_json(mark) for mark in graded.marks},
        "points": graded.points,
        "of": graded.of,
        "problems": list(graded.problems),
        "notes": list(graded.notes),
        "gradable": graded.gradable,
    }


def _mark_json(mark: Mark) -> dict[str, Any]:
    return {
        "state": str(mark.verdict.state),
        "points": mark.points,
        "of": mark.of,
        "diagnosis": mark.verdict.diagnosis,
        "message": mark.message,
        "seen": list(mark.verdict.seen),
    }
