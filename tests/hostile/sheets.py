"""What a submission of the corpus is made of: a sheet of the course that somebody spoiled."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from amp_lessons.core import catalogue, ipynb
from amp_lessons.core.catalogue import Lesson
from hostile.machine import Around

LESSON = catalogue.LESSONS[1]
NAMES = tuple(info.name for info in LESSON.exercises)  # as on the sheet
FIRST, SECOND, THIRD, FOURTH = "decode_bits", "next_float", "smallest_scale", "choose_format"
OTHER = catalogue.LESSONS[6]

Kind = Literal["broken", "hostile", "cheat"]
"""Broken: it happens to honest people. Hostile: it wants to harm. Cheat: it wants marks."""


class Sheet:
    """An exercise notebook of the course, with its cells by grade id.

    Args:
        solved: whether it holds the right answers; else the stubs.
        lesson: whose sheet.
    """

    def __init__(self, solved: bool = True, lesson: Lesson = LESSON) -> None:
        folder = lesson.solutions if solved else lesson.sheet
        self.lesson = lesson
        self.notebook = ipynb.read(catalogue.course_files() / folder)

    @property
    def cells(self) -> list[ipynb.Cell]:
        return self.notebook["cells"]

    def index(self, grade_id: str) -> int:
        return [ipynb.grade_id(cell) for cell in self.cells].index(grade_id)

    def cell(self, grade_id: str) -> ipynb.Cell:
        return self.cells[self.index(grade_id)]

    def check(self, exercise: str) -> ipynb.Cell:
        return self.cell(f"{exercise}_check")

    def source(self, grade_id: str) -> str:
        return ipynb.source_of(self.cell(grade_id))

    def write(self, grade_id: str, source: str) -> None:
        self.cell(grade_id)["source"] = source

    def take(self, grade_id: str) -> ipynb.Cell:
        """Take a cell out of the notebook."""
        return self.cells.pop(self.index(grade_id))

    def add(self, source: str, before: str = "", kind: str = "code") -> None:
        """Add a cell before another one, by default at the end."""
        cell: ipynb.Cell = {"cell_type": kind, "metadata": {}, "source": source}
        if kind == "code":
            cell |= {"outputs": [], "execution_count": None}
        self.cells.insert(self.index(before) if before else len(self.cells), cell)

    def at_the_top(self, source: str) -> None:
        """Add a cell below the imports, above the first exercise."""
        self.add(source, before=FIRST if self.lesson is LESSON else self.lesson.exercises[0].name)

    def to_bytes(self) -> bytes:
        return json.dumps(self.notebook).encode()


@dataclass(frozen=True)
class Outcome:
    """What must come out. Exercises that are not named must pass with full marks.

    Args:
        states: the states of the others; ``"error|wrong"`` if either will do.
        says: by exercise, words that its message must hold.
        problems: words of a line each, or several with ``|`` between them; with none, the notebook
            must be gradable.
        notes: words that the notes must hold.
        refused: words of the only problem of a file that has no marks at all.
        results: how many results the learner's folder gives.
        other_problems: whether it may have problems that are not named here.
    """

    states: Mapping[str, str] = field(default_factory=dict)
    says: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refused: str = ""
    results: int = 1
    other_problems: bool = False


@dataclass(frozen=True)
class Submission:
    """One submission of the corpus.

    Args:
        name: also the name of the learner's folder.
        tries: what it does, in words for the table.
        put: puts the files into the learner's folder.
        dangerous: whether it could harm a machine where no sandbox holds it; it is never run there.
        lesson: whose sheet it is.
        remains: why it still wins, if it does. The docs say the same.
    """

    name: str
    kind: Kind
    tries: str
    put: Callable[[Path, Around], None]
    outcome: Outcome
    dangerous: bool = False
    lesson: Lesson = LESSON
    remains: str = ""


def notebook(folder: Path, content: bytes, lesson: Lesson = LESSON) -> Path:
    """Put a notebook into a learner's folder under the sheet's own name."""
    path = folder / Path(lesson.sheet).name
    path.write_bytes(content)
    return path


def broken(
    name: str,
    tries: str,
    change: Callable[[Sheet], Any],
    outcome: Outcome | None = None,
    solved: bool = True,
) -> Submission:
    """A solved sheet to which something happened."""

    def put(folder: Path, _: Around) -> None:
        sheet = Sheet(solved)
        change(sheet)
        notebook(folder, sheet.to_bytes())

    return Submission(name, "broken", tries, put, outcome or Outcome())


# ---- attacks: they stand in the first exercise's cell of a solved sheet -------------------------

REPORT = '''
import os, sys, time
FOUND = []

def attempt(what, action):
    """Note what an attack got, if it got anything."""
    try:
        got = action()
    except BaseException:
        return None
    if got is not None and got is not False:
        FOUND.append(f"{what}: {got!r:.60}")
    return got

def machine_in_sight():
    try:
        os.kill(AROUND["process"], 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    try:
        return AROUND["mark"] in open(f"/proc/{AROUND['process']}/cmdline").read()
    except OSError:
        return True

def decode_bits(*args):
    raise RuntimeError("it won " + ("; ".join(FOUND) or "nothing"))
'''
GUARD = """
if machine_in_sight():
    raise RuntimeError("it won sight of the machine, so the attack was not fired")
"""
WON_NOTHING = Outcome({FIRST: "error"}, {FIRST: "it won nothing"})


def stopped(*words: str) -> Outcome:
    """The attack's cell is stopped and named; the other exercises count."""
    culprit = f"cell {Sheet().index(FIRST) + 1} "
    return Outcome({FIRST: "error"}, problems=tuple(culprit + word for word in words or ("",)))


def hostile(
    name: str,
    tries: str,
    code: str,
    outcome: Outcome = WON_NOTHING,
    dangerous: bool = False,
) -> Submission:
    """A sheet with three right answers, and an attack in place of the first."""

    def put(folder: Path, around: Around) -> None:
        sheet = Sheet()
        guard = GUARD if dangerous else ""
        sheet.write(FIRST, f"AROUND = {around.told()!r}\n{REPORT}{guard}{code}")
        notebook(folder, sheet.to_bytes())

    return Submission(name, "hostile", tries, put, outcome, dangerous)


# ---- cheats: the stubs, and a cell above them that wants the marks ------------------------------

NO_MARKS = Outcome(dict.fromkeys(NAMES, "not attempted|wrong|error"), other_problems=True)


def cheat(
    name: str,
    tries: str,
    code: str,
    outcome: Outcome = NO_MARKS,
    change: Callable[[Sheet], Any] | None = None,
    remains: str = "",
) -> Submission:
    """A sheet of stubs, and an attack that wants marks for them."""

    def put(folder: Path, around: Around) -> None:
        sheet = Sheet(solved=False)
        if change:
            change(sheet)
        known = f"AROUND = {around.told()!r}\nHOME = {around.evidence!r}\nNAMES = {NAMES!r}\n"
        sheet.at_the_top(f"from math import inf, nan\n{known}{code}")
        notebook(folder, sheet.to_bytes())

    return Submission(name, "cheat", tries, put, outcome, remains=remains)
