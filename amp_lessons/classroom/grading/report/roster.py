"""Who handed in what: a learner's notebooks together, and which of them counts.

A class is graded notebook by notebook, and reported learner by learner. Everything here works on
results alone: nothing is run or judged again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from amp_lessons.classroom.grading import whose
from amp_lessons.classroom.grading.marks import Graded, Mark
from amp_lessons.classroom.grading.report.class_list import Listed, matched
from amp_lessons.core.catalogue import LESSONS, Lesson
from amp_lessons.core.terminal import line

MOST_NAMED = 5
"""Notebooks that a remark names."""

_LESSONS: Mapping[str, Lesson] = {lesson.id: lesson for lesson in LESSONS}
_ORDER = {name: place for place, name in enumerate(_LESSONS)}


@dataclass(frozen=True)
class Learner:
    """One learner's results.

    Attributes:
        name: as the grader found it, so it may hold anything. For a notebook that tells nobody's
            name, what the notebook is called.
        known: whether ``name`` is a learner's.
        counted: the notebooks that count, in the catalogue's order: one of each lesson, and those
            that could not be read.
        notes: which notebooks do not count, and why.
        doubts: the same, where a person should look whether they are one learner's.
        canvas: the number that Canvas gave them, if their file has Canvas's name for a download.
        listed: who they are on the class's list, if there is one and they are on it.
    """

    name: str
    known: bool
    counted: tuple[Graded, ...]
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    canvas: str = ""
    listed: Listed | None = None

    @property
    def missing(self) -> bool:
        """Whether they are on the list, and nothing came from them."""
        return not self.counted

    @cached_property
    def marks(self) -> dict[str, Mark]:
        """By exercise, what counts."""
        return {mark.exercise: mark for graded in self.counted for mark in graded.marks}

    @property
    def points(self) -> int:
        return sum(graded.points for graded in self.counted)

    @property
    def problems(self) -> list[str]:
        """Why a person should look at their notebooks, each with the notebook's name."""
        told = [f"{graded.name}: {text}" for graded in self.counted for text in graded.problems]
        return [*told, *self.doubts]

    @property
    def gave_up(self) -> list[str]:
        """The exercises whose solution they opened without a pass."""
        return list(dict.fromkeys(name for graded in self.counted for name in graded.gave_up))


@dataclass(frozen=True)
class Column:
    """An exercise of a sheet that somebody handed in.

    Attributes:
        lesson: the id of its lesson.
        exercise: its name.
        title: a few words.
        number: its place on the sheet, from 1.
        of: what a pass is worth.
    """

    lesson: str
    exercise: str
    title: str
    number: int
    of: int


def roster(all_graded: Iterable[Graded], people: Sequence[Listed] = ()) -> tuple[Learner, ...]:
    """The learners, in the order of their names.

    Args:
        people: the class's list. Those on it of whom nothing came are learners, too.

    If a learner handed in several notebooks of one lesson, the one with the most points counts,
    as a whole, and a note says so. That is the highest attempt, as a gradebook calls it. Exercises
    are not picked from different notebooks: the sum would then be that of no notebook. A
    notebook that tells nobody's name stands for itself.
    """
    known: dict[tuple[str, str], list[Graded]] = defaultdict(list)
    nobodys = []
    for graded in all_graded:
        if graded.learner:
            known[graded.learner, _canvas(graded)].append(graded)
        else:
            nobodys.append(Learner(graded.name, False, (graded,)))
    found = [_learner(*who, notebooks) for who, notebooks in known.items()] + nobodys
    if people:
        found = _on_the_list(found, people)
    return tuple(
        sorted(found, key=lambda each: (line(each.name).casefold(), each.name, each.canvas))
    )


def _on_the_list(found: Sequence[Learner], people: Sequence[Listed]) -> list[Learner]:
    who = matched([(each.name, each.canvas) for each in found], people)
    here = [replace(each, listed=person) for each, person in zip(found, who, strict=True)]
    missing = (person for person in people if person not in who)
    return here + [Learner(person.name, True, (), listed=person) for person in missing]


_CANVAS = re.compile(r"(?:_LATE)?_(\d+)_\d+_")


def _canvas(graded: Graded) -> str:
    """A learner's number in Canvas, or "".

    Canvas names a file of a download ``doejane_123_456_sheet.ipynb``: the learner's name, the
    number, and that of the file (instructure/canvas-lms, ``lib/content_zipper.rb``). Two learners
    of one name differ in their numbers.
    """
    parts = (part for part in graded.name.split("/") if part.startswith(graded.learner))
    found = (_CANVAS.match(part, len(graded.learner)) for part in parts)
    return next((match[1] for match in found if match), "")


def _learner(name: str, canvas: str, notebooks: Sequence[Graded]) -> Learner:
    by_lesson: dict[str, list[Graded]] = defaultdict(list)
    for graded in notebooks:
        by_lesson[graded.lesson or ""].append(graded)
    counted = list(by_lesson.pop("", []))
    notes: list[str] = []
    doubts: list[str] = []
    for lesson, several in by_lesson.items():
        best = max(several, key=lambda graded: (graded.points, graded.gradable))
        counted.append(best)
        if len(several) > 1:
            of_one = all(_is_a_copy(each.name, best.name) for each in several)
            (notes if of_one else doubts).append(_passed_over(lesson, best, several))
    counted.sort(key=lambda graded: _ORDER.get(graded.lesson or "", len(_ORDER)))
    return Learner(name, True, tuple(counted), tuple(notes), tuple(doubts), canvas)


def _is_a_copy(one: str, other: str) -> bool:
    """Whether two notebooks lie beside each other, as two downloads do: then they are one
    learner's. In two folders, they may be two learners'."""
    (place, _, first), (beside, _, second) = one.rpartition("/"), other.rpartition("/")
    named = whose.told(first) and whose.told(second)
    return place == beside and bool(named or whose.sheet_of(first) == whose.sheet_of(second))


def _passed_over(lesson: str, best: Graded, several: Sequence[Graded]) -> str:
    rest = [f"{each.name} ({points(each.points)})" for each in several if each is not best]
    others = ", ".join(rest[:MOST_NAMED]) + (", …" if rest[MOST_NAMED:] else "")
    return (
        f"{len(several)} notebooks of {lesson} were handed in: {best.name} counts "
        f"({points(best.points)}), not {others}"
    )


def points(number: int) -> str:
    """``"1 point"`` or ``"3 points"``."""
    return f"{number} point{'' if number == 1 else 's'}"


def columns(learners: Iterable[Learner]) -> tuple[Column, ...]:
    """The exercises of all sheets that have marks, in the catalogue's order.

    Results of another version of the course may hold exercises that the catalogue does not have.
    They come last on their sheet.
    """
    worth: dict[str, dict[str, int]] = defaultdict(dict)
    for learner in learners:
        for graded in learner.counted:
            for mark in graded.marks:
                sheet = worth[graded.lesson or ""]
                sheet[mark.exercise] = max(mark.of, sheet.get(mark.exercise, 0))
    found = []
    for lesson in sorted(worth, key=lambda each: (_ORDER.get(each, len(_ORDER)), each)):
        infos = _LESSONS[lesson].exercises if lesson in _LESSONS else ()
        titles = {info.name: info.title for info in infos}
        numbers = {name: number for number, name in enumerate(titles | worth[lesson], start=1)}
        for exercise, number in numbers.items():
            if of := worth[lesson].get(exercise):
                title = titles.get(exercise, exercise)
                found.append(Column(lesson, exercise, title, number, of))
    return tuple(found)


def all_columns(only: Collection[str] | None = None) -> tuple[Column, ...]:
    """The exercises of the whole course, or those of them that were set."""
    return tuple(
        Column(lesson.id, info.name, info.title, number, info.points)
        for lesson in LESSONS
        for number, info in enumerate(lesson.exercises, start=1)
        if only is None or info.name in only
    )


def lesson_title(lesson: str) -> str:
    """A lesson's number and title, such as ``"06 GradScaler"``; an unknown id as it is."""
    found = _LESSONS.get(lesson)
    return f"{found.number:02} {found.title}" if found else lesson


def slug(lesson: str) -> str:
    """A lesson's name without its number, which may change: ``"grad_scaler"``."""
    found = _LESSONS.get(lesson)
    return found.slug if found else lesson
