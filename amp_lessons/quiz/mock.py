"""A mock interview as data: which questions it asks, and what its report says.

`compose` picks the questions for a length, a role and a seed, and `report` turns the scores into
points by part and by topic, with what to read next. Neither prints or reads anything: the terminal
(`interview`) and the notebook both stand on them. Nothing here imports torch.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from amp_lessons.core import catalogue
from amp_lessons.quiz.bank import Bank, BankError
from amp_lessons.quiz.items import Item, OpenQuestion
from amp_lessons.quiz.log import LogEntry
from amp_lessons.quiz.schedule import card_of, weakness
from amp_lessons.quiz.whiteboard import TASKS, log_id, topic_of

SHORTEST, USUAL, LONGEST = 10, 45, 90
"""Minutes."""
LEAST_FOR_BAND = 20
"""Minutes. A shorter mock asks too few questions to judge somebody by."""
TOPICS_WANTED = 6
"""So many topics, if there are enough questions."""

WARM_UP, ESTIMATES, FAULTS, CODE, OPEN, YOURS = (
    "warm_up",
    "estimates",
    "faults",
    "code",
    "open",
    "yours",
)


@dataclass(frozen=True)
class Coding:
    """A whiteboard task, as `whiteboard.task` knows it by name."""

    name: str

    @property
    def id(self) -> str:
        return log_id(self.name)

    @property
    def topic(self) -> str:
        return topic_of(self.name)

    @property
    def title(self) -> str:
        return catalogue.exercise_info(self.name).title

    @property
    def minutes(self) -> int:
        return catalogue.exercise_info(self.name).minutes


@dataclass(frozen=True)
class YourQuestion:
    """The end of an interview: what do you want to know from us? Marked by oneself."""

    id: str = "yours"
    topic: str = ""
    prompt: str = "The last minutes are yours. What do you want to ask us?"
    rubric: tuple[str, ...] = (
        "It can't be answered from the company's website",
        "It's about the work: how models are trained, debugged or paid for here",
        "The answer would help you decide whether you want this job",
    )
    examples: tuple[str, ...] = (
        "When did a training run last diverge here, and how did you find out why?",
        "Which precision do you train in, and who may change that?",
        "What is your measured utilisation, and what holds it back?",
    )


Asked = Item | OpenQuestion | Coding | YourQuestion


@dataclass(frozen=True)
class MockStep:
    """One question of a mock, and what it is worth."""

    asks: Asked
    points: float

    @property
    def id(self) -> str:
        return self.asks.id


@dataclass(frozen=True)
class Part:
    """A part of a mock.

    Attributes:
        name: one of the constants above, such as ``"warm_up"``.
        minutes: what is planned for it.
        points: of its steps together.
        looks_for: what an interviewer looks for here.
    """

    name: str
    title: str
    looks_for: str
    minutes: int
    points: int
    steps: tuple[MockStep, ...]


@dataclass(frozen=True)
class Mock:
    """A whole interview. The same arguments of `compose` give the same one."""

    minutes: int
    role: str
    seed: int
    parts: tuple[Part, ...]

    @property
    def steps(self) -> tuple[MockStep, ...]:
        return tuple(step for part in self.parts for step in part.steps)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics it asks about, each once."""
        return tuple(dict.fromkeys(step.asks.topic for step in self.steps if step.asks.topic))


@dataclass(frozen=True)
class Role:
    """What one kind of interview weighs differently.

    Attributes:
        points: for each part.
        faults: kinds of the third part, taken in turn.
        topics: preferred in estimates and open questions.
        tasks: preferred coding tasks.
        open_kinds: preferred kinds of open questions.
    """

    title: str
    points: Mapping[str, int]
    faults: tuple[str, ...] = ("bug", "trace")
    topics: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    open_kinds: tuple[str, ...] = ()


def _points(warm_up: int, estimates: int, faults: int, code: int, open_: int) -> dict[str, int]:
    return {
        WARM_UP: warm_up,
        ESTIMATES: estimates,
        FAULTS: faults,
        CODE: code,
        OPEN: open_,
        YOURS: 5,
    }


ROLES: dict[str, Role] = {
    "ml": Role("ML engineer", _points(10, 20, 25, 20, 20)),
    "systems": Role(
        "training systems",
        _points(10, 30, 20, 15, 20),
        topics=("compile_and_checkpoint", "ranks", "fp8", "memory"),
        tasks=("accumulate", "OwnScaler"),
    ),
    "research": Role(
        "research engineer",
        _points(10, 20, 25, 10, 30),
        faults=("trace",),
        tasks=("log_softmax", "masked_softmax", "MasterSGD"),
        open_kinds=("design",),
    ),
    "performance": Role(
        "performance engineer",
        _points(5, 40, 25, 15, 10),
        faults=("trace",),
        topics=("speed", "memory"),
        tasks=("summarise_times",),
    ),
}

_TITLES = {
    WARM_UP: ("Warm-up", "facts at hand"),
    ESTIMATES: ("Estimates", "units, a model, and whether the result is plausible"),
    FAULTS: ("Bugs and logs", "hypothesis, test, cause, and a guard against it"),
    CODE: ("Coding task", "code that runs: the right calls, in order, in the right dtypes"),
    OPEN: ("Open questions", "the mechanism, its limits, and when it depends"),
    YOURS: ("Your question to us", "a question that probes the job"),
}
_WARM_UP_KINDS = ("single", "output", "single", "output", "several")


# ---- composing ----------------------------------------------------------------------------------


def compose(
    bank: Bank,
    entries: Iterable[LogEntry] = (),
    *,
    minutes: int = USUAL,
    role: str = "ml",
    seed: int = 0,
    generators: Mapping[str, Any] | None = None,
) -> Mock:
    """Pick the questions of an interview, weighted to the topics that the log shows as weak.

    No question comes twice, none answers another (`enemies`), and at least six topics occur where
    the length allows it. The log, the bank and these arguments decide everything.

    Args:
        entries: the log.
        minutes: 10 to 90. From 30 on there is a coding task and a second open question.
        role: one of `ROLES`.
        generators: by their ids; they take part beside the bank's items.

    Raises:
        BankError: for another length or role, or if the bank has nothing to ask.
    """
    if not SHORTEST <= minutes <= LONGEST:
        raise BankError(f"a mock takes {SHORTEST} to {LONGEST} minutes, not {minutes}")
    if role not in ROLES:
        raise BankError(f"no role is called {role!r}; there are {', '.join(ROLES)}")
    plan = _plan(minutes, ROLES[role])
    draw = _Draw(bank, list(entries), ROLES[role], f"{seed}:{minutes}:{role}", generators or {})
    found: dict[str, list[Asked]] = {}
    for name in (CODE, OPEN, FAULTS, ESTIMATES, WARM_UP, YOURS):  # what there is least of, first
        if name in plan:
            found[name] = draw.questions(name, plan[name])
    if not any(found[name] for name in found if name not in (CODE, YOURS)):
        raise BankError("the bank has no questions for a mock")
    names = [name for name in _TITLES if found.get(name)]
    points = _share(100, [ROLES[role].points[name] for name in names])
    planned = _share(minutes, [plan[name].minutes for name in names])
    parts = []
    for name, worth, time in zip(names, points, planned, strict=True):
        each = worth / len(found[name])
        steps = tuple(MockStep(asks, each) for asks in found[name])
        parts.append(Part(name, *_TITLES[name], time, worth, steps))
    return Mock(minutes, role, seed, tuple(parts))


@dataclass(frozen=True)
class _Planned:
    minutes: float
    count: int


def _plan(minutes: int, role: Role) -> dict[str, _Planned]:
    """How long each part takes, and how many questions fit in."""
    long = minutes >= 30
    plan = {}
    if long:
        plan[CODE] = _Planned(12 if minutes < 60 else 20 if minutes < 75 else 25, 1)
    opens = 1 if not long else 2 if minutes < 75 else 3
    plan[OPEN] = _Planned(4 * opens, opens)
    if minutes >= 20:
        plan[YOURS] = _Planned(2, 1)
    rest = minutes - sum(part.minutes for part in plan.values())
    usual = ROLES["ml"].points
    weights = {
        name: weight * role.points[name] / usual[name]
        for name, weight in ((WARM_UP, 5), (ESTIMATES, 8), (FAULTS, 10))
    }
    for name, each, least in ((WARM_UP, 1.0, 2), (ESTIMATES, 4.0, 1), (FAULTS, 5.0, 1)):
        time = rest * weights[name] / sum(weights.values())
        plan[name] = _Planned(time, max(least, round(time / each)))
    return plan


def _share(total: int, weights: Sequence[float]) -> list[int]:
    """A whole number split by weights: the parts add up to it."""
    exact = [total * weight / sum(weights) for weight in weights]
    parts = [int(value) for value in exact]
    by_rest = sorted(range(len(exact)), key=lambda n: parts[n] - exact[n])
    for place in by_rest[: total - sum(parts)]:
        parts[place] += 1
    return parts


class _Draw:
    """Draws questions one after the other, and knows what was drawn before."""

    def __init__(
        self,
        bank: Bank,
        entries: list[LogEntry],
        role: Role,
        seed: str,
        generators: Mapping[str, Any],
    ) -> None:
        self.bank, self.role, self.generators = bank, role, generators
        self.random = random.Random(seed)
        self.weak = weakness(entries)
        latest = {card_of(entry.item): entry.right for entry in sorted(entries)}
        self.known = {card for card, right in latest.items() if right}
        self.topics: Counter[str] = Counter()
        self.chosen: list[Any] = []
        self.enemies: set[str] = set()

    def questions(self, part: str, plan: _Planned) -> list[Asked]:
        if part == YOURS:
            return [YourQuestion()]
        found: list[Asked] = []
        turn = self.random.randrange(len(self.role.faults))
        for number in range(plan.count):
            pools_of: dict[str, list[Any]] = {
                CODE: [self._tasks(plan.minutes)],
                OPEN: [self._open(), list(self.bank.open)],
                FAULTS: [
                    self._kind(self.role.faults[(turn + number) % len(self.role.faults)]),
                    [*self._kind("bug"), *self._kind("trace")],
                ],
                ESTIMATES: [self._kind("number")],
                WARM_UP: [
                    self._kind(_WARM_UP_KINDS[number % len(_WARM_UP_KINDS)], hardest=2),
                    [each for kind in _WARM_UP_KINDS[-3:] for each in self._kind(kind)],
                ],
            }
            pools = pools_of[part]
            for pool in pools:
                drawn = self._draw(pool, part)
                if drawn is not None:
                    found.append(drawn)
                    break
        return found

    def _kind(self, kind: str, hardest: int = 3) -> list[Any]:
        there = (*self.bank.items, *self.generators.values())
        return [each for each in there if each.kind == kind and each.level <= hardest]

    def _open(self) -> list[OpenQuestion]:
        kinds = self.role.open_kinds
        return [each for each in self.bank.open if not kinds or each.kind in kinds]

    def _tasks(self, minutes: float) -> list[Coding]:
        fitting = [Coding(name) for name in TASKS if Coding(name).minutes <= minutes + 3]
        preferred = [each for each in fitting if each.name in self.role.tasks]
        return preferred or fitting

    def _draw(self, pool: Sequence[Any], part: str) -> Asked | None:
        free = [each for each in pool if self._may_come(each)]
        if not free:
            return None
        others = [each for each in free if each.topic not in self.topics]
        if len(self.topics) < TOPICS_WANTED and others:
            free = others
        weights = [self._weight(each, part) for each in free]
        (drawn,) = self.random.choices(free, weights)
        self.topics[drawn.topic] += 1
        self.chosen.append(drawn)
        self.enemies.update(getattr(drawn, "enemies", ()))
        if drawn.id in self.generators:
            return drawn.make(self.random.randrange(10**6))
        return drawn

    def _may_come(self, each: Any) -> bool:
        if each.id in self.enemies or any(each.id == other.id for other in self.chosen):
            return False
        return not any(other.id in getattr(each, "enemies", ()) for other in self.chosen)

    def _weight(self, each: Any, part: str) -> float:
        """Weak topics come up to some 16 times as often as strong ones."""
        weight = max(self.weak.get(each.topic, 0.5), 0.05) ** 2 * 0.3 ** self.topics[each.topic]
        if each.id in self.known:
            weight *= 0.3
        if part in (ESTIMATES, OPEN) and each.topic in self.role.topics:
            weight *= 4
        return weight


# ---- the report ---------------------------------------------------------------------------------

BANDS = ((80, "can defend it"), (65, "has debugged it"), (45, "recites the recipe"), (0, "not yet"))
"""From how many points of 100 on, and what an interviewer would note."""
_READ_BELOW = 0.75
_MOST_TO_READ = 3


@dataclass(frozen=True)
class StepScore:
    """What came of one step: a score from 0 to 1."""

    score: float
    sure: bool = True
    seconds: float | None = None


@dataclass(frozen=True)
class Scored:
    """Points of a part or of a topic. ``name`` is its constant or slug, ``title`` is for people."""

    name: str
    title: str
    points: float
    of: float

    @property
    def share(self) -> float:
        return self.points / self.of if self.of else 0.0


@dataclass(frozen=True)
class Reading:
    """What to read next: a lesson and its sheet, as paths in the course and in a workspace."""

    topic: str
    title: str
    notebook: str
    sheet: str


@dataclass(frozen=True)
class MockReport:
    """The outcome of a mock.

    Attributes:
        points, of: won, and possible.
        band: what an interviewer would note; "" if the mock was broken off or too short.
        finished: whether it went to its end. If not, only what was answered counts.
        unasked: how many steps the time did not allow. They count as missed if it is finished.
        parts, topics: in their order.
        read_next: the topics that cost the most points, at most three.
    """

    points: float
    of: float
    band: str
    finished: bool
    unasked: int
    parts: tuple[Scored, ...]
    topics: tuple[Scored, ...]
    read_next: tuple[Reading, ...]
    mock: Mock = field(repr=False)
    results: Mapping[str, StepScore] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "v": 1,
            "minutes": self.mock.minutes,
            "role": self.mock.role,
            "seed": self.mock.seed,
            "finished": self.finished,
            "points": tenths(self.points),
            "of": tenths(self.of),
            "band": self.band,
            "parts": [_scored_json(part) for part in self.parts],
            "topics": [_scored_json(topic) for topic in self.topics],
            "read_next": [vars(reading) for reading in self.read_next],
            "answers": [
                {"item": name, "score": round(r.score, 4), "sure": r.sure, "seconds": r.seconds}
                for name, r in self.results.items()
            ],
        }


def _scored_json(scored: Scored) -> dict[str, Any]:
    points = {"points": tenths(scored.points), "of": tenths(scored.of)}
    return {"name": scored.name, "title": scored.title} | points


def report(mock: Mock, results: Mapping[str, StepScore], *, finished: bool = True) -> MockReport:
    """Points by part and topic, and what to read next.

    Args:
        results: by the steps' ids, for those that were answered.
        finished: whether the mock went to its end. Then what has no result counts as missed;
            otherwise it counts neither way, and there is no band. A mock that is shorter than
            `LEAST_FOR_BAND` has none either.
    """
    counted = [step for step in mock.steps if finished or step.id in results]
    won = {step.id: step.points * _score(results, step) for step in counted}
    ids = set(won)
    parts = [
        _sum(part.name, part.title, [step for step in part.steps if step.id in ids], won)
        for part in mock.parts
    ]
    topics = [
        _sum(topic, _title(topic), [s for s in counted if s.asks.topic == topic], won)
        for topic in mock.topics
    ]
    topics = sorted((t for t in topics if t.of), key=lambda t: course_place(t.name))
    points = sum(won.values())
    return MockReport(
        points=points,
        of=sum(step.points for step in counted),
        band=band(points) if finished and mock.minutes >= LEAST_FOR_BAND else "",
        finished=finished,
        unasked=sum(step.id not in results for step in mock.steps),
        parts=tuple(part for part in parts if part.of),
        topics=tuple(topics),
        read_next=_read_next(topics),
        mock=mock,
        results=dict(results),
    )


def _score(results: Mapping[str, StepScore], step: MockStep) -> float:
    return results[step.id].score if step.id in results else 0.0


def _sum(name: str, title: str, steps: Sequence[MockStep], won: Mapping[str, float]) -> Scored:
    return Scored(name, title, sum(won[s.id] for s in steps), sum(s.points for s in steps))


def band(points: float) -> str:
    """What an interviewer would note beside so many points of 100, as `in_words` shows them."""
    return next(words for least, words in BANDS if tenths(points) >= least)


def tenths(points: float) -> float:
    """Points with one decimal; halves are rounded up."""
    return math.floor(points * 10 + 0.5 + 1e-9) / 10


def in_words(points: float) -> str:
    """Points for people: with a decimal only where they are not whole."""
    return f"{tenths(points):g}"


def course_place(topic: str) -> int:
    """A topic's place in the course."""
    return [t for lesson in catalogue.LESSONS for t in lesson.topics].index(topic)


def _title(topic: str) -> str:
    return catalogue.lesson_of_topic(topic).title


def _read_next(topics: Iterable[Scored]) -> tuple[Reading, ...]:
    """What lost the most points comes first."""
    weak = [topic for topic in topics if topic.share < _READ_BELOW]
    weak.sort(key=lambda topic: (topic.points - topic.of, course_place(topic.name)))
    return tuple(reading(topic.name) for topic in weak[:_MOST_TO_READ])


def reading(topic: str) -> Reading:
    """The lesson of a topic, as something to read next."""
    lesson = catalogue.lesson_of_topic(topic)
    title = f"lesson {lesson.number:02}, {lesson.title}"
    return Reading(topic, title, lesson.notebook, lesson.sheet)
