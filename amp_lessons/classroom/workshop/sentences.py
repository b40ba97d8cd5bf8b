"""What an exercise's file and a poll hold for an instructor: mistakes, hints and a right answer.

A plan names a mistake and adds what helps, so that its page can't drift from the checks.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from amp_lessons.classroom.workshop.model import Stuck
from amp_lessons.core import catalogue
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.exercises.checks.authoring.exercise_parser import (
    SourceCell,
    bullets,
    read_cells,
    without_markers,
)
from amp_lessons.quiz import bank
from amp_lessons.quiz.items import ChoiceItem, NumberItem

SHARED = "shared.py"
_BLANK = re.compile(r"\{\w+")


class PlanError(AmpLessonsError):
    """A workshop plan contradicts the course or itself. The message is one line with the cure."""


def unknown(what: str, name: str, there: Iterable[str]) -> str:
    """One line about a name that doesn't exist, with the nearest that do."""
    names = list(there)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names[:5]
    return f"no {what} is called {name!r}; did you mean {' or '.join(map(repr, close))}?"


def mistakes(exercise: str) -> dict[str, str]:
    """The sentences that an exercise's wrong answers earn, by the names of the mistakes.

    Raises:
        UnknownExercise: with the nearest names.
    """
    own = _cells(exercise)
    folder = catalogue.EXERCISES / catalogue.lesson_of(exercise).slug
    common = read_cells(folder / SHARED) if (folder / SHARED).exists() else []
    shared = {cell.name: cell.sentence for cell in common if cell.kind == "wrong"}
    found = {
        cell.name: cell.sentence or shared.get(cell.name, "")
        for cell in own
        if cell.kind in ("wrong", "rule")
    }
    return {name: sentence for name, sentence in found.items() if sentence}


def help_with(exercise: str) -> tuple[tuple[str, ...], str]:
    """An exercise's hints, from gentle to almost the answer, and the course's own right answer.

    Raises:
        UnknownExercise: with the nearest names.
    """
    by_kind = {cell.kind: cell for cell in _cells(exercise)}
    answer = without_markers(by_kind["answer"].text).strip("\n")
    return bullets(by_kind["hints"].comment), answer


def _cells(exercise: str) -> list[SourceCell]:
    return read_cells(catalogue.EXERCISES / catalogue.lesson_of(exercise).slug / f"{exercise}.py")


def wrong_answers(poll: str) -> dict[str | float, str]:
    """Why each wrong answer to a poll is wrong: by a choice's text, or by the number.

    Raises:
        BankError: if there is no such question.
    """
    item = bank.load().find(poll)
    if isinstance(item, ChoiceItem):
        return {choice.text: choice.why for choice in item.choices if not choice.right}
    if isinstance(item, NumberItem):
        return {mistake.value: mistake.why for mistake in item.mistakes}
    return {}


def sentence(stuck: Stuck) -> str:
    """What the mistake earns, in Markdown.

    Raises:
        PlanError: if the exercise's check or the poll knows no such mistake.
    """
    if stuck.exercise:
        there = mistakes(stuck.exercise)
        if stuck.mistake not in there:
            raise PlanError(unknown(f"mistake of {stuck.exercise}", stuck.mistake, there))
        if _BLANK.search(there[stuck.mistake]):
            raise PlanError(
                f"the sentence of {stuck.exercise}/{stuck.mistake} has a blank that a check fills "
                "in: choose another mistake"
            )
        return there[stuck.mistake]
    answers = wrong_answers(stuck.poll)
    if stuck.answer not in answers:
        what = f"wrong answer to {stuck.poll}"
        raise PlanError(unknown(what, str(stuck.answer), map(str, answers)))
    return answers[stuck.answer]
