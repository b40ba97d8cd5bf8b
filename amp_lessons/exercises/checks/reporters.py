"""Who is told what a check saw: a learner or nbgrader here, the grader in `grading.child`.

A reporter is handed an exercise and its probe's evidence. What follows from that, from the verdict
to the box below the cell, is a straight line in its `report`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

from amp_lessons.core import handout, output_box, progress
from amp_lessons.core.catalogue import ExerciseInfo
from amp_lessons.exercises.checks import display
from amp_lessons.exercises.checks.verdict import Verdict


class CheckedExercise(Protocol):
    """What a reporter needs of an exercise, with what the buttons of a box need."""

    name: str

    @property
    def info(self) -> ExerciseInfo: ...

    @property
    def hints(self) -> tuple[str, ...]: ...

    def verdict(self, evidence: Any) -> Verdict: ...

    def hint(self) -> None: ...

    def solution(self, give_up: bool = False) -> None: ...


class Reporter(Protocol):
    """Takes the evidence of a check."""

    def report(self, exercise: CheckedExercise, evidence: Any) -> None: ...


def of_notebook() -> Reporter:
    """Who is told in a notebook that somebody runs, which may be nbgrader."""
    return ToNbgrader() if "NBGRADER_EXECUTION" in os.environ else ToLearner()


class ToLearner:
    """Saves the verdict and shows it in a box, or in a terminal."""

    def report(self, exercise: CheckedExercise, evidence: Any) -> None:
        info, verdict = exercise.info, exercise.verdict(evidence)
        if verdict.check_failed:  # it says nothing about the learner: their progress stays
            display.show_note(info, "! Error in the check", verdict.message)
            return
        done, notes = saved(
            info.name, lambda: progress.record_check(info.name, verdict.state), verdict.diagnosis
        )
        way = [display.after_a_pass(info, done)] if verdict.passed and done else []
        display.show_verdict(info, verdict, [*way, *notes])
        if output_box.in_a_page():
            from amp_lessons.exercises.checks import help_buttons

            help_buttons.show(exercise)


class CheckFailed(AssertionError):
    """Raised instead of a box when nbgrader runs the notebook: that is how it takes marks off."""


class ToNbgrader:
    """Raises `CheckFailed` unless the answer passes. Nothing is saved or shown."""

    def report(self, exercise: CheckedExercise, evidence: Any) -> None:
        verdict = exercise.verdict(evidence)
        if not verdict.passed:
            raise CheckFailed(display.as_text(exercise.info, verdict))


def saved(
    name: str, action: Callable[[], progress.Progress], diagnosis: str | None = None
) -> tuple[progress.Progress | None, list[str]]:
    """Save progress; what went wrong becomes a note under the box, never an exception.

    Args:
        name: the exercise's.
        action: what saves.
        diagnosis: of a check, for the hand-out's record.
    """
    try:
        done = action()
    except progress.ProgressError as error:
        return None, [f"Progress was not saved. {error}"]
    return done, done.warnings + handout.keep(name, done[name], diagnosis)
