"""Grading other people's notebooks: each in a process of its own, locked in where that is possible.

`batch` grades many and is what the command uses; `grade` and `grade_all` are its short forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from amp_lessons.classroom.grading.batch import Batch, GradingOptions, open_batch
from amp_lessons.classroom.grading.collect import HandedIn, collect
from amp_lessons.classroom.grading.marks import Graded, Mark
from amp_lessons.classroom.grading.sandbox.limits import Limits

__all__ = [
    "Batch",
    "Graded",
    "GradingOptions",
    "HandedIn",
    "Limits",
    "Mark",
    "collect",
    "grade",
    "grade_all",
    "open_batch",
]


def grade_all(paths: Sequence[Path], options: GradingOptions | None = None) -> Iterator[Graded]:
    """Grade everything at these paths, each notebook yielded as soon as it is done.

    Raises:
        NothingToGrade: if no notebook is there.
        SandboxError, ResultsError: see `open_batch`.
    """
    handed_in = collect(paths)
    with open_batch(options or GradingOptions()) as batch:
        yield from batch.grade(handed_in)


def grade(path: Path, limits: Limits | None = None) -> Graded:
    """Grade one notebook. What goes wrong with it is told in the result, and never raised."""
    return next(iter(grade_all([path], GradingOptions(limits or Limits()))))
