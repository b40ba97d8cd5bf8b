"""Every answer of the course, taken from where it is written, for the tests that look for leaks.

What the public part of an exercise or its sheet shows as well is no part of an answer: the
solution of "fix this loop" is mostly the loop that everybody is given.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from leaks import Files, Search, runs

import amp_lessons
from amp_lessons.classroom.workshop import reading
from amp_lessons.core import catalogue
from amp_lessons.exercises import checks
from amp_lessons.exercises.checks.authoring.exercise_parser import (
    BEGIN,
    END,
    OPEN,
    SECRET,
    SourceCell,
    read_cells,
)
from amp_lessons.exercises.checks.parts import SHARED, SHEET
from amp_lessons.quiz import bank
from amp_lessons.quiz.generators import GENERATORS

EXERCISES = [
    checks.find_exercise(info.name) for each in catalogue.LESSONS for info in each.exercises
]
_SOLUTION = re.compile(rf"{BEGIN}.*?{END}", re.DOTALL)


@cache
def all_answers() -> dict[str, str]:
    """Each answer's text, by a label such as ``"solution: clip_step"``. Before the colon stands its
    kind, behind it first the exercise, question, generator or block that it belongs to."""
    found: dict[str, str] = {}
    for label, text in (*_of_exercises(), *_of_questions(), *_of_workshops()):
        assert label not in found, f"two answers are called {label!r}"
        if text:
            found[label] = text
    return found


@cache
def search() -> Search:
    """Looks for what is in each answer and in nothing that a learner is given."""
    given: set[int] = set().union(*map(runs, _given()))
    return Search({label: runs(text) - given for label, text in all_answers().items()})


def kind(label: str) -> str:
    return label.partition(":")[0]


def owner(label: str) -> str:
    return label.partition(": ")[2].partition(" ")[0]


def files_in(folder: Path) -> Files:
    """Everything in a folder, by paths from it."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), path.read_bytes()


def files_of_the_package() -> Files:
    """The same of the package, but for what Python keeps of modules that it ran."""
    package = files_in(Path(amp_lessons.__file__).parent)
    return ((name, content) for name, content in package if "__pycache__" not in name)


def _given() -> Iterator[str]:
    for topic in {each.path.parent for each in EXERCISES}:
        yield (topic / SHEET).read_text(encoding="utf-8")
    for exercise in EXERCISES:
        for cell in read_cells(exercise.path):
            if cell.kind in OPEN:
                yield from _SOLUTION.split(cell.text)


def _of_exercises() -> Iterator[tuple[str, str]]:
    for exercise in EXERCISES:
        yield from _blocks(f"solution: {exercise.name}", exercise.answer_key.solution)
        for cell in read_cells(exercise.path):
            if cell.kind in SECRET:
                yield from _parts(f"{cell.kind} cell: {exercise.name} {cell.line}", cell)
    for path in sorted(catalogue.EXERCISES.glob(f"*/{SHARED}")):
        for cell in read_cells(path):
            yield from _parts(f"shared cell: {path.parent.name} {cell.line}", cell)


def _parts(label: str, cell: SourceCell) -> Iterator[tuple[str, str]]:
    """What it says and what it does: each is an answer by itself."""
    yield f"{label} in words", cell.comment
    yield from _blocks(f"{label} in code", cell.code)


def _blocks(label: str, code: str) -> Iterator[tuple[str, str]]:
    """A program, and each of its functions: one method of a class gives away as much as it does."""
    yield label, code
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef):
            yield f"{label} line {node.lineno}", ast.get_source_segment(code, node) or ""


def _of_questions() -> Iterator[tuple[str, str]]:
    questions = bank.load()
    for each in (*questions.items, *questions.predictions, *questions.open):
        for name in ("explanation", "short", "long", "often_heard"):
            yield f"question: {each.id} {name}", getattr(each, name, "")
        for name in ("choices", "mistakes", "distractors", "slips"):
            for number, part in enumerate(getattr(each, name, ())):
                yield f"question: {each.id} {name} {number}", part.why
        for number, point in enumerate(getattr(each, "rubric", ())):
            yield f"question: {each.id} rubric {number}", point
        for number, part in enumerate(getattr(each, "follow_ups", ())):
            yield f"question: {each.id} follow-up {number}", part.answer
    for name, generator in GENERATORS.items():
        yield f"generator: {name}", inspect.getsource(generator.draw)


def _of_workshops() -> Iterator[tuple[str, str]]:
    """What an instructor says after a vote or an exercise, and where the room is stuck."""
    blocks = {each.id: each for name in reading.NAMES for each in reading.load(name).blocks}
    steps = {(block.id, step.id): step for block in blocks.values() for step in block.steps}
    for (block, name), step in steps.items():
        yield f"workshop: {block} {name}", step.then
    for block in blocks.values():
        for number, stuck in enumerate(block.stuck):
            yield f"workshop: {block.id} stuck {number}", stuck.say
