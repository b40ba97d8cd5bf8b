"""The room: every learner's claims joined, and what they add up to.

"Now" means the last 20 minutes: an exercise that somebody left unsolved in the morning isn't what
the room works on in the afternoon.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from amp_lessons.classroom.class_view.reading import Claim, Read, joined
from amp_lessons.core.catalogue import LESSONS, ExerciseInfo, Lesson, lesson_of
from amp_lessons.core.states import State

RECENT = 20 * 60.0
"""Seconds."""
UNKNOWN = ""
"""In place of a state: no file tells about this lesson."""


@dataclass(frozen=True)
class LearnerState:
    """One learner, as their files have it.

    Attributes:
        name: of the folder, or from the file's name.
        claims: by exercise.
        lessons: the ids of the lessons of which there is a sheet or a claim.
        last: when a file last changed, in seconds since 1970, or 0.
    """

    name: str
    claims: Mapping[str, Claim]
    lessons: frozenset[str]
    last: float

    def state(self, lesson: Lesson, exercise: str) -> str:
        """One of the five states, or `UNKNOWN`."""
        if exercise in self.claims:
            return self.claims[exercise].state
        return str(State.NOT_ATTEMPTED) if lesson.id in self.lessons else UNKNOWN

    @property
    def here(self) -> Claim | None:
        """The exercise at which the learner is, in the lesson in which they checked last.

        That is what failed last; if nothing fails, the first that isn't passed; else the last one.
        Run All checks every exercise at once, so the time of a check alone says little.
        """
        last = max(self.claims.values(), key=lambda c: (c.when, PLACE[c.exercise]), default=None)
        if last is None:
            return None
        names = [info.name for info in lesson_of(last.exercise).exercises]
        claims = [self.claims.get(name) or Claim(name, State.NOT_ATTEMPTED, 0.0) for name in names]
        failing = [claim for claim in claims if claim.fails]
        if failing:
            return max(failing, key=lambda claim: (claim.when, -PLACE[claim.exercise]))
        done = (State.PASSED, State.SKIPPED)
        return next((claim for claim in claims if claim.state not in done), claims[-1])


PLACE = {
    info.name: place
    for place, info in enumerate(info for lesson in LESSONS for info in lesson.exercises)
}


@dataclass(frozen=True)
class ClassState:
    """A class at one moment.

    Attributes:
        learners: by name.
        now: the moment, in seconds since 1970.
        lessons: those that are shown: all that somebody has begun, or the one that was asked for.
        problems: a line for each file that could not be used.
    """

    learners: tuple[LearnerState, ...]
    now: float
    lessons: tuple[Lesson, ...]
    problems: tuple[str, ...] = ()


def room(
    reads: Iterable[tuple[str, float, Read]],
    names: Iterable[str],
    now: float,
    only: Lesson | None = None,
    problems: Iterable[str] = (),
) -> ClassState:
    """Join what the files say.

    Args:
        reads: the learner's name, the time of the file and what it says, for each file.
        names: of all learners, also of those without a file.
        now: in seconds since 1970.
        only: the one lesson to show, or None for all that somebody has begun.
        problems: lines about files that could not be used.
    """
    by_learner: dict[str, list[tuple[float, Read]]] = {name: [] for name in names}
    for name, when, read in reads:
        by_learner.setdefault(name, []).append((when, read))
    learners = tuple(
        _learner(name, found) for name, found in sorted(by_learner.items(), key=_order)
    )
    begun = {
        lesson.id
        for lesson in LESSONS
        if any(info.name in each.claims for each in learners for info in lesson.exercises)
    }
    shown = tuple(x for x in LESSONS if (x is only if only else x.id in begun))
    return ClassState(learners, now, shown, tuple(problems))


def _order(item: tuple[str, object]) -> tuple[str, str]:
    return item[0].casefold(), item[0]


def _learner(name: str, found: list[tuple[float, Read]]) -> LearnerState:
    claims: dict[str, list[Claim]] = defaultdict(list)
    for _, read in found:
        for claim in read.claims:
            claims[claim.exercise].append(claim)
    lessons = frozenset[str]().union(*(read.lessons for _, read in found))
    last = max((when for when, read in found if read.lessons), default=0.0)
    return LearnerState(name, {k: joined(v) for k, v in claims.items()}, lessons, last)


# ---- what it adds up to -------------------------------------------------------------------------


@dataclass(frozen=True)
class Standing:
    """How the room stands with one exercise.

    Attributes:
        counts: learners by state; `UNKNOWN` for those of whom nothing is known.
        failing: the learners whose latest check failed within the last 20 minutes.
        earlier: those whose latest check failed before that.
        gave_up: how many opened the solution without a pass.
    """

    lesson: Lesson
    info: ExerciseInfo
    number: int
    counts: Mapping[str, int]
    failing: tuple[str, ...]
    earlier: tuple[str, ...]
    gave_up: int


def standings(room: ClassState) -> list[Standing]:
    """One for each exercise that is shown, in the order of the course."""
    return [
        _standing(room, lesson, info, number)
        for lesson in room.lessons
        for number, info in enumerate(lesson.exercises, 1)
    ]


def _standing(room: ClassState, lesson: Lesson, info: ExerciseInfo, number: int) -> Standing:
    counts = Counter(learner.state(lesson, info.name) for learner in room.learners)
    claims = [(each.name, each.claims.get(info.name)) for each in room.learners]
    fails = [(name, claim) for name, claim in claims if claim and claim.fails]
    return Standing(
        lesson,
        info,
        number,
        counts,
        tuple(name for name, claim in fails if is_recent(claim, room.now)),
        tuple(name for name, claim in fails if not is_recent(claim, room.now)),
        sum(claim.gave_up for _, claim in claims if claim),
    )


def is_recent(claim: Claim, now: float) -> bool:
    return claim.when >= now - RECENT


def hardest(found: Iterable[Standing]) -> list[Standing]:
    """The exercises that somebody fails, those first that most fail now."""
    failed = [each for each in found if each.failing or each.earlier]
    return sorted(failed, key=lambda each: (-len(each.failing), -len(each.earlier)))


@dataclass
class CommonMistake:
    """One thing that goes wrong in one exercise.

    Attributes:
        name: the misconception's, the exception's, or "" where the check knows no name.
        said: what most boxes said about it.
        now: the learners who made it within the last 20 minutes.
        earlier: the others whose latest answer has it.
    """

    lesson: Lesson
    info: ExerciseInfo
    number: int
    name: str
    said: str = ""
    now: list[str] = field(default_factory=list)
    earlier: list[str] = field(default_factory=list)


def mistakes(room: ClassState) -> list[CommonMistake]:
    """The mistakes in the latest answers, those first that most learners make now."""
    found: dict[tuple[str, str], CommonMistake] = {}
    said: dict[tuple[str, str], Counter[tuple[bool, str]]] = defaultdict(Counter)
    places = {
        info.name: (lesson, info, number)
        for lesson in room.lessons
        for number, info in enumerate(lesson.exercises, 1)
    }
    for learner in room.learners:
        for claim in learner.claims.values():
            if not claim.fails or claim.exercise not in places:
                continue
            for name in _names(claim):
                key = claim.exercise, name
                each = found.setdefault(key, CommonMistake(*places[claim.exercise], name))
                (each.now if is_recent(claim, room.now) else each.earlier).append(learner.name)
                alone = " + " not in claim.diagnosis  # else the box speaks of two mistakes at once
                said[key][bool(claim.message) and alone, claim.message] += 1
    for key, each in found.items():
        each.said = max(said[key].items(), key=lambda item: (item[0][0], item[1]))[0][1]
    return sorted(found.values(), key=lambda each: (-len(each.now), -len(each.earlier)))


def _names(claim: Claim) -> list[str]:
    if claim.state == "error":
        return [claim.message.partition(":")[0][:60] or "an exception"]
    return claim.diagnosis.split(" + ")[:2]
