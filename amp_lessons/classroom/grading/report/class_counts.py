"""What a class did, counted: exercises, misconceptions, points, and answers worth showing.

Everything is counted by learner, over the notebooks that count (see `roster`).
"""

from __future__ import annotations

import builtins
import itertools
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from amp_lessons.classroom.grading.marks import Mark
from amp_lessons.classroom.grading.report import anonymous
from amp_lessons.classroom.grading.report.anonymous import Names, Veil
from amp_lessons.classroom.grading.report.roster import Column, Learner, columns, slug
from amp_lessons.core.states import State

UNNAMED = "wrong-value"
"""The diagnosis of a check that sees a wrong result and does not know the mistake."""

TO_SHOW = 10
LINES = 30
"""Lines of an answer that fit on a screen in a room."""

TRIED = 50
"""Answers with one mistake, the shortest first, of which one is shown."""

BARS = 10


@dataclass(frozen=True)
class ExerciseCount:
    """How many learners ended in which state, of those who handed the sheet in."""

    column: Column
    states: dict[State, int]

    @property
    def learners(self) -> int:
        return sum(self.states.values())

    @property
    def held_up(self) -> int:
        """Those who tried and did not pass, and those who did not try."""
        return self.learners - self.states[State.PASSED] - self.states[State.SKIPPED]


@dataclass(frozen=True)
class Misconception:
    """A mistake that a check recognised.

    Attributes:
        column: the exercise.
        slug: the diagnosis, such as ``"bias-forgotten"``.
        sentence: what the learners were told.
        learners: how many have it.
        of: how many handed the sheet in.
    """

    column: Column
    slug: str
    sentence: str
    learners: int
    of: int


@dataclass(frozen=True)
class SampleAnswer:
    """An answer to show, with nothing in it that tells whose it is.

    Attributes:
        code: the source, or "" if no answer with this mistake can be shown.
        seen: what the check saw.
    """

    misconception: Misconception
    code: str
    seen: tuple[str, ...]


def exercise_counts(learners: Sequence[Learner]) -> list[ExerciseCount]:
    """Every exercise, the one that held up most learners first."""
    found = []
    for column in columns(learners):
        states = dict.fromkeys(State, 0)
        for learner in learners:
            if (mark := learner.marks.get(column.exercise)) is not None:
                states[mark.verdict.state] += 1
        found.append(ExerciseCount(column, states))
    return sorted(found, key=lambda each: -each.held_up / max(each.learners, 1))


def misconceptions(learners: Sequence[Learner]) -> list[Misconception]:
    """The mistakes that the checks recognised, the most frequent first.

    Two mistakes in one answer count as two. Wrong answers that no diagnosis fits are left out.
    """
    held: Counter[tuple[str, str]] = Counter()
    said: dict[tuple[str, str], Counter[tuple[bool, str]]] = defaultdict(Counter)
    sheets = Counter(name for learner in learners for name in learner.marks)
    for mark in (mark for learner in learners for mark in learner.marks.values()):
        sentences = named_mistakes(mark)
        for mistake, sentence in sentences.items():
            held[mark.exercise, mistake] += 1
            said[mark.exercise, mistake][len(sentences) == 1, sentence] += 1
    by_name = {column.exercise: column for column in columns(learners)}
    found = []
    for (exercise, mistake), count in held.items():
        alone_first = sorted(
            said[exercise, mistake].items(), key=lambda each: (each[0][0], each[1])
        )
        sentence = alone_first[-1][0][1]
        column = by_name[exercise]
        found.append(Misconception(column, mistake, sentence, count, sheets[exercise]))
    place = {name: number for number, name in enumerate(by_name)}
    return sorted(found, key=lambda m: (-m.learners, place[m.column.exercise], m.slug))


def unnamed(learners: Sequence[Learner]) -> int:
    """Wrong answers whose mistake no check recognised."""
    marks = (mark for learner in learners for mark in learner.marks.values())
    wrong = [mark for mark in marks if mark.verdict.state is State.WRONG]
    return sum(not named_mistakes(mark) for mark in wrong)


def exceptions(learners: Sequence[Learner]) -> list[tuple[str, int]]:
    """Python's exceptions that ended answers, the most frequent first. A learner can name an
    exception as they like, so only Python's own are told apart."""
    found: Counter[str] = Counter()
    for mark in (mark for learner in learners for mark in learner.marks.values()):
        if mark.verdict.state is State.ERROR and not mark.verdict.check_failed:
            name = mark.verdict.message.partition(":")[0]
            found[name if hasattr(builtins, name) else "others"] += 1
    return found.most_common()


_BOTH = "Two mistakes at once. The first: "
_SECOND = " The second: "
_PARTLY = " your answer does the same as one with this mistake: "
_REST = " That doesn't explain every wrong result"


def named_mistakes(mark: Mark) -> dict[str, str]:
    """By the name of each mistake that a verdict gives, its sentence.

    The message is taken apart as `checks.exercise` puts it together.
    """
    verdict = mark.verdict
    if verdict.state is not State.WRONG or verdict.diagnosis in ("", UNNAMED):
        return {}
    slugs, message = verdict.diagnosis.split(" + "), verdict.message
    if len(slugs) > 1 and message.startswith(_BOTH) and _SECOND in message:
        both = message.removeprefix(_BOTH).split(_SECOND, 1)
        return dict(zip(slugs, both, strict=False))
    if _PARTLY in message:
        message = message.split(_PARTLY, 1)[1].split(_REST, 1)[0]
    return dict.fromkeys(slugs, message)


def answers_to_show(
    learners: Sequence[Learner], found: Sequence[Misconception]
) -> list[SampleAnswer]:
    """For the most frequent misconceptions, one short answer each, without its author.

    The answer has this one mistake, and it is the shortest that nothing gives away (see
    `anonymous`). If there is none, the sentence is shown alone.
    """
    names = Names.of(learner.name for learner in learners if learner.known)
    return [_to_show(each, learners, names) for each in found[:TO_SHOW]]


def _to_show(
    misconception: Misconception, learners: Sequence[Learner], names: Names
) -> SampleAnswer:
    spared = anonymous.vocabulary(slug(misconception.column.lesson))
    sentence = Veil(names, Names(), spared).words(misconception.sentence)
    bare = replace(misconception, sentence=sentence)
    shortest = sorted(_answers(misconception, learners), key=_length)[:TRIED]
    for source, mark, learner in shortest:
        veil = Veil(names, Names.of([learner.name]), spared)
        code = veil.code(source)
        if code and code.count("\n") < LINES:
            return SampleAnswer(bare, code, tuple(map(veil.words, mark.verdict.seen)))
    return SampleAnswer(bare, "", ())


def _answers(
    misconception: Misconception, learners: Sequence[Learner]
) -> list[tuple[str, Mark, Learner]]:
    exercise = misconception.column.exercise
    found = []
    for learner in learners:
        for graded in learner.counted:
            source = (graded.answers or {}).get(exercise, "")
            for mark in graded.marks:
                fits = mark.exercise == exercise and mark.verdict.diagnosis == misconception.slug
                if fits and source.strip():
                    found.append((source, mark, learner))
    return found


def _length(answer: tuple[str, Mark, Learner]) -> tuple[int, int, str]:
    source, _, learner = answer
    return source.count("\n"), len(source), learner.name


@dataclass(frozen=True)
class Bar:
    """Learners with this many points, from the least to the most."""

    least: int
    most: int
    learners: int


@dataclass(frozen=True)
class Points:
    """The points of the learners of whom at least one notebook was graded.

    Attributes:
        of: what all sheets are worth that the class handed in.
        all: everybody's points.
        bars: their distribution; a point each, or ten equal steps.
    """

    of: int
    all: tuple[int, ...]
    bars: tuple[Bar, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.all) if self.all else 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.all) if self.all else 0.0

    @property
    def full(self) -> int:
        return sum(points == self.of for points in self.all)


def points(learners: Sequence[Learner]) -> Points:
    """The distribution of points. A sheet that was not handed in counts as 0."""
    of = sum(column.of for column in columns(learners))
    everybodys = tuple(learner.points for learner in learners if learner.marks)
    edges = list(range(of + 2))
    if of + 1 > BARS + 5:
        edges = sorted({round(step * of / BARS) for step in range(BARS)} | {of + 1})
    bars = [
        Bar(least, end - 1, sum(least <= points < end for points in everybodys))
        for least, end in itertools.pairwise(edges)
    ]
    return Points(of, everybodys, tuple(bars))
