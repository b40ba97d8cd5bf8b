"""Where a learner stands: which lessons are done, and what comes next.

`catalogue` says what there is and `progress` what was recorded; this module puts the two together.
All that says "next" asks here: the home page, the boxes of lessons and exercises, the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from amp_lessons.core.catalogue import LESSONS, LearningPath, Lesson, UnknownPath, after, find_path
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


def solved(lesson: Lesson, done: Progress) -> bool:
    """Whether no core exercise of a lesson is open: each has passed, or was given up."""
    entries = [done[info.name] for info in lesson.core]
    return all(entry.passed or entry.gave_up_at for entry in entries)


@dataclass(frozen=True)
class Step:
    """Something to do next: a lesson, or the core exercises of its sheet."""

    lesson: Lesson
    is_sheet: bool = False

    @property
    def notebook(self) -> str:
        """As a path in the course and in a workspace."""
        return self.lesson.sheet if self.is_sheet else self.lesson.notebook

    def __str__(self) -> str:
        kind = "exercises" if self.is_sheet else "lesson"
        return f"{kind} {self.lesson.number:02}, {self.lesson.title}"

    def is_open(self, done: Progress) -> bool:
        if self.is_sheet:
            return not solved(self.lesson, done)
        return state_of(self.lesson, done) != "done"


def chosen_path(done: Progress) -> LearningPath | None:
    """The path that the learner chose. A choice that this version doesn't know counts as none."""
    try:
        return find_path(done.path) if done.path else None
    except UnknownPath:
        return None


def steps_of(path: LearningPath) -> Iterator[Step]:
    """The lessons of a path in their order, each followed by its sheet if it has one."""
    for lesson in path.lessons:
        yield Step(lesson)
        if lesson.core:
            yield Step(lesson, is_sheet=True)


def next_step(done: Progress) -> Step | None:
    """Where to go on: the first open step of the chosen path.

    Without a path, or after its end, it's the first lesson of the course that was started, else the
    first that is open. None if every lesson is done.
    """
    path = chosen_path(done)
    on_path = [step for step in steps_of(path) if step.is_open(done)] if path else []
    lessons = [
        Step(lesson)
        for wanted in ("started", "open")
        for lesson in LESSONS
        if state_of(lesson, done) == wanted
    ]
    return next(iter([*on_path, *lessons]), None)


def step_after(lesson: Lesson, done: Progress) -> Step | None:
    """What to do after a lesson: the next open step of the chosen path, from this lesson on.

    Without a path it's the lesson that comes next in the course. None after the last.
    """
    path = chosen_path(done)
    if path is None:
        following = after(lesson)
        return Step(following) if following else None
    steps = list(steps_of(path))
    here = steps.index(Step(lesson)) + 1 if lesson in path.lessons else 0
    return next((step for step in steps[here:] if step.is_open(done)), next_step(done))


def ways_on(lesson: Lesson, done: Progress) -> tuple[Step, ...]:
    """What to do after a lesson: the next step, and behind a sheet the lesson too."""
    step, path = step_after(lesson, done), chosen_path(done)
    if step is None or path is None or not step.is_sheet:
        return (step,) if step else ()
    steps = list(steps_of(path))
    behind = (each for each in steps[steps.index(step) :] if not each.is_sheet)
    return step, *[each for each in behind if each.is_open(done)][:1]


def points(lessons: Iterable[Lesson], done: Progress) -> tuple[int, int]:
    """Points won, and points there are."""
    infos = [info for lesson in lessons for info in lesson.exercises]
    won = sum(info.points for info in infos if done[info.name].passed)
    return won, sum(info.points for info in infos)
