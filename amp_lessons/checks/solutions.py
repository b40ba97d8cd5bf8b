"""Where a solution's text comes from: the generated notebooks, and nowhere else."""

from __future__ import annotations

import re

from amp_lessons.course import course_files, lesson_of

# The whole line of a marker, and nothing of the lines around it: their indent is part of the code.
_MARKERS = re.compile(r"^[ \t]*### (?:BEGIN|END) SOLUTION[ \t]*(?:\n|\Z)", re.MULTILINE)


class SolutionMissing(FileNotFoundError):
    """The solution notebook is not where it should be. The message says what to do."""


def solution_of(exercise: str) -> str:
    """The source of an exercise's solved cell, without nbgrader's markers: it runs as it is.

    Raises:
        SolutionMissing: if the course's files are not complete.
    """
    import nbformat

    path = course_files() / lesson_of(exercise).solutions
    try:
        cells = nbformat.read(path, as_version=4).cells
    except FileNotFoundError as error:
        raise SolutionMissing(f"{path} is missing: install the course again") from error
    for cell in cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == exercise:
            return _MARKERS.sub("", cell.source).strip("\n")
    raise SolutionMissing(f"{path} has no solution of {exercise}: run make notebooks")
