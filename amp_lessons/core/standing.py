"""Where a learner stands: which lessons are done, and which comes next.

`catalogue` says what there is and `progress` what was recorded; this module puts the two together,
for the home page and for `amp-lessons progress`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from amp_lessons.core.catalogue import LESSONS, Lesson
from amp_lessons.core.progress import Progress

State = Literal["done", "started", "open"]


def passes(lesson: Lesson, done: Progress) -> int:
    """How many of a lesson's exercises have passed."""
    return sum(done[info.name].passed for info in lesson.exercises)


def core_passes(lesson: Lesson, done: Progress) -> int:
    """How many of its core exercises have passed."""
    return sum(done[info.name].passed for info in lesson.core)


def state_of(lesson: Lesson, done: Progress) -> State:
    """A lesson is done when its last cell has run, or when its core exercises have passed."""
    of = len(lesson.core)
    if lesson.slug in done.lessons or (of and core_passes(lesson, done) == of):
        return "done"
    return "started" if any(done[info.name].checks for info in lesson.exercises) else "open"


def next_lesson(done: Progress) -> Lesson | None:
    """Where to go on: the first lesson that was started, else the first that is open."""
    for wanted in ("started", "open"):
        for lesson in LESSONS:
            if state_of(lesson, done) == wanted:
                return lesson
    return None


def points(lessons: Iterable[Lesson], done: Progress) -> tuple[int, int]:
    """Points won, and points there are."""
    infos = [info for lesson in lessons for info in lesson.exercises]
    won = sum(info.points for info in infos if done[info.name].passed)
    return won, sum(info.points for info in infos)
