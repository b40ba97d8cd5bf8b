"""An exercise sheet as cells: a topic's ``sheet.py``, then one exercise after another.

What a learner reads and runs comes from the exercises' files; the heading, the check and the help
cell of each are made here. The metadata is nbgrader's, so the solutions are an nbgrader source and
the exercises its release version.
"""

from __future__ import annotations

import copy

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from amp_lessons.core.catalogue import EXERCISES, ExerciseInfo, Lesson, lesson_of
from amp_lessons.exercises.checks import find_exercise
from amp_lessons.exercises.checks.authoring.exercise_parser import (
    ExerciseFileError,
    SourceCell,
    cut_solution,
    read_cells,
)
from amp_lessons.exercises.checks.parts import SHEET

CHECK_TAG = "nbval-check-output"
MORE_PRACTICE = """## More practice

You have solved the core of this sheet, and the next lesson needs nothing else of it. Pick what you
want to practise from the rest."""


def solved(lesson: Lesson) -> list[NotebookNode]:
    """The cells of a lesson's sheet, with the solutions in them."""
    cells = [_plain(cell) for cell in read_cells(EXERCISES / lesson.slug / SHEET)]
    for number, info in enumerate(lesson.exercises, start=1):
        if number == len(lesson.core) + 1:
            cells.append(new_markdown_cell(MORE_PRACTICE))
        cells += _exercise(number, info)
    return cells


def unsolved(cells: list[NotebookNode]) -> list[NotebookNode]:
    """The same cells with the stub in place of each solution."""
    cells = copy.deepcopy(cells)
    for cell in cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = cut_solution(cell.source).rstrip("\n")
    return cells


def whiteboard(name: str, heading: str) -> list[NotebookNode]:
    """One exercise alone, for another notebook: its statement under a heading, its stub, its check.

    Raises:
        ExerciseFileError: if its sheet shows something between the statement and the stub.
    """
    lesson = lesson_of(name)
    exercise = find_exercise(name)
    cells = [cell for cell in exercise.public.cells if cell.kind not in ("hints", "probe")]
    if [cell.kind for cell in cells] != ["statement", "answer"]:
        raise ExerciseFileError(f"{name} needs what stands between its statement and its stub")
    about = f"*about {exercise.info.minutes} minutes, from [[exercises {lesson.slug}]]*"
    statement = f"{heading} {exercise.info.title}\n\n{about}\n\n{_statement(cells[0])}"
    check = f"{lesson.slug}.{name}.check({_call(exercise.public.call)})"
    return [
        new_markdown_cell(statement),
        new_code_cell(exercise.public.stub),
        new_code_cell(check),
    ]


def _exercise(number: int, info: ExerciseInfo) -> list[NotebookNode]:
    exercise = find_exercise(info.name)
    cells = []
    for cell in exercise.answer_key.cells:
        if cell.kind == "statement":
            points = "1 point" if info.points == 1 else f"{info.points} points"
            head = f"## {number}. {info.title}\n\n*{points}, about {info.minutes} minutes*"
            cells.append(new_markdown_cell(f"{head}\n\n{_statement(cell)}"))
        elif cell.kind == "answer":
            answer = new_code_cell(cell.text.strip("\n"))
            answer.metadata["nbgrader"] = _nbgrader(info.name, solution=True)
            check = f"ex.{info.name}.check({_call(exercise.public.call)})"
            cells += [answer, _check(info, check), _help(info)]
        elif cell.kind in ("text", "demo", "given"):
            cells.append(_plain(cell))
    return cells


def _plain(cell: SourceCell) -> NotebookNode:
    if cell.kind in ("text", "statement"):
        return new_markdown_cell(cell.comment)
    return new_code_cell(cell.text.strip("\n"))


def _statement(cell: SourceCell) -> str:
    """A statement without its first line, which is the title."""
    return cell.comment.partition("\n")[2].strip("\n")


def _call(arguments: str) -> str:
    return ", ".join(arguments.split(","))


def _check(info: ExerciseInfo, source: str) -> NotebookNode:
    metadata = {
        "nbgrader": _nbgrader(f"{info.name}_check", points=info.points),
        "tags": [CHECK_TAG],
        "editable": False,
        "deletable": False,
    }
    return new_code_cell(source, metadata=metadata)


def _help(info: ExerciseInfo) -> NotebookNode:
    return new_code_cell(f"# ex.{info.name}.hint()\n# ex.{info.name}.solution()")


def _nbgrader(grade_id: str, *, solution: bool = False, points: int | None = None) -> dict:
    graded = {} if points is None else {"points": points}
    return graded | {
        "schema_version": 3,
        "grade_id": grade_id,
        "solution": solution,
        "grade": points is not None,
        "locked": points is not None,
        "task": False,
    }
