"""What an instructor shows and reads about a class: where it was held up, and by what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amp_lessons.classroom.grading.marks import Graded
from amp_lessons.classroom.grading.report import class_counts
from amp_lessons.classroom.grading.report.console import short
from amp_lessons.classroom.grading.report.roster import Learner, lesson_title
from amp_lessons.core.states import State

SHOWN, MOST = 12, 100
"""Misconceptions in the open table, and in all. The rest is told in a number."""

PROBLEMS = 2
LONGEST_PROBLEM = 240

STATES = (State.PASSED, State.WRONG, State.ERROR, State.NOT_ATTEMPTED, State.SKIPPED)


def content(
    learners: Sequence[Learner], all_graded: Sequence[Graded], links: Sequence[str]
) -> dict[str, Any]:
    """What the template ``class.html`` shows.

    Args:
        links: the address of each learner's page.
    """
    exercises = class_counts.exercise_counts(learners)
    mistakes = class_counts.misconceptions(learners)
    lessons = dict.fromkeys(each.column.lesson for each in exercises)
    return {
        "title": "Class report",
        "learners": sum(not learner.missing for learner in learners),
        "missing": sum(learner.missing for learner in learners),
        "notebooks": len(all_graded),
        "sheets": [lesson_title(lesson) for lesson in sorted(lessons)],
        "points": class_counts.points(learners),
        "states": [s for s in STATES if s is not State.SKIPPED or _any_skipped(exercises)],
        "exercises": exercises,
        "misconceptions": mistakes,
        "shown": SHOWN,
        "most": MOST,
        "unnamed": class_counts.unnamed(learners),
        "exceptions": class_counts.exceptions(learners),
        "answers": class_counts.answers_to_show(learners, mistakes),
        "to_look_at": [
            _to_look_at(graded, href)
            for learner, href in zip(learners, links, strict=True)
            for graded in learner.counted
            if graded.problems
        ],
    }


def _any_skipped(exercises: Sequence[class_counts.ExerciseCount]) -> bool:
    return any(each.states[State.SKIPPED] for each in exercises)


def _to_look_at(graded: Graded, href: str) -> dict[str, Any]:
    return {
        "name": graded.name,
        "href": href,
        "problems": [short(text, LONGEST_PROBLEM) for text in graded.problems[:PROBLEMS]],
        "more": max(len(graded.problems) - PROBLEMS, 0),
    }
