"""What a mock interview asks, and what its report says."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import combinations, product

import pytest
from interview_room import choice_item, fake_generators, number_item, open_question, small_bank

from amp_lessons.core import catalogue
from amp_lessons.quiz import bank, mock
from amp_lessons.quiz.bank import Bank, BankError
from amp_lessons.quiz.items import OpenQuestion
from amp_lessons.quiz.log import LogEntry
from amp_lessons.quiz.mock import Coding, StepScore, YourQuestion

BANK = small_bank()
GENERATORS = fake_generators().GENERATORS
AT = datetime(2026, 3, 4, tzinfo=UTC)


def compose(seed: int = 0, entries=(), **more) -> mock.Mock:
    return mock.compose(BANK, entries, seed=seed, generators=GENERATORS, **more)


def part(composed: mock.Mock, name: str) -> mock.Part:
    return next(each for each in composed.parts if each.name == name)


def test_45_minutes_are_as_in_the_outline():
    composed = compose()
    assert [(p.name, p.minutes, p.points, len(p.steps)) for p in composed.parts] == [
        ("warm_up", 5, 10, 5),
        ("estimates", 8, 20, 2),
        ("faults", 10, 25, 2),
        ("code", 12, 20, 1),
        ("open", 8, 20, 2),
        ("yours", 2, 5, 1),
    ]
    kinds = {p.name: [getattr(s.asks, "kind", "") for s in p.steps] for p in composed.parts}
    assert kinds["estimates"] == ["number"] * 2
    assert set(kinds["faults"]) == {"bug", "trace"}
    assert Counter(kinds["warm_up"]) == {"single": 2, "output": 2, "several": 1}
    assert isinstance(part(composed, "code").steps[0].asks, Coding)
    assert all(isinstance(step.asks, OpenQuestion) for step in part(composed, "open").steps)
    assert isinstance(composed.steps[-1].asks, YourQuestion)


LENGTHS = (10, 17, 20, 29, 30, 44, 45, 60, 74, 75, 90)


def test_every_length_and_role(subtests):
    for minutes, role in product(LENGTHS, mock.ROLES):
        with subtests.test(f"{minutes} minutes, {role}"):
            composed = compose(minutes=minutes, role=role)
            assert sum(p.points for p in composed.parts) == 100
            assert sum(p.minutes for p in composed.parts) == minutes
            assert abs(sum(step.points for step in composed.steps) - 100) < 1e-9
            assert all(p.steps and p.minutes > 0 and p.points > 0 for p in composed.parts)
            questions = 1 if minutes < 30 else 2 if minutes < 75 else 3
            names = [p.name for p in composed.parts]
            assert ("code" in names) == (minutes >= 30)
            assert ("yours" in names) == (minutes >= 20)
            assert questions == len(part(composed, "open").steps)
            ids = [step.id for step in composed.steps]
            assert len(set(ids)) == len(ids)
            if minutes >= 30:
                assert len(composed.topics) >= mock.TOPICS_WANTED
            for step in composed.steps:
                if isinstance(step.asks, Coding):
                    assert step.asks.minutes <= part(composed, "code").minutes + 4


def test_at_least_six_topics_and_no_question_twice(subtests):
    for seed in range(25):
        with subtests.test(f"seed {seed}"):
            composed = compose(seed)
            assert len(composed.topics) >= mock.TOPICS_WANTED
            ids = [step.id for step in composed.steps]
            assert len(set(ids)) == len(ids)


def test_a_longer_mock_asks_more():
    counts = [len(compose(minutes=minutes).steps) for minutes in (10, 20, 45, 60, 90)]
    assert counts == sorted(set(counts))


def test_the_seed_decides():
    ids = [[s.id for s in compose(seed).steps] for seed in (1, 1, 2, 3)]
    assert ids[0] == ids[1]
    assert len(set(map(tuple, ids))) == 3


def test_points_follow_the_role():
    points = {role: {p.name: p.points for p in compose(role=role).parts} for role in mock.ROLES}
    assert points["systems"]["estimates"] == 30
    assert points["research"]["open"] == 30
    assert points["performance"]["estimates"] == 40
    kinds = [s.asks.kind for s in part(compose(role="research"), "faults").steps]
    assert set(kinds) == {"trace"}
    code = part(compose(role="performance"), "code").steps[0].asks
    assert isinstance(code, Coding)
    assert code.name == "summarise_times"
    opens = part(compose(role="research"), "open").steps
    assert [s.asks.kind for s in opens] == ["design", "design"]


def answers(topic: str, score: float, count: int = 20) -> list[LogEntry]:
    return [LogEntry(AT + timedelta(minutes=n), f"{topic}.x{n}", score) for n in range(count)]


def test_weak_topics_come_more_often():
    strong = [e for topic in bank.topics_there() if topic != "memory" for e in answers(topic, 1.0)]
    log = [*strong, *answers("memory", 0.0)]
    plain, weak = (
        Counter(step.asks.topic for seed in range(40) for step in compose(seed, entries).steps)[
            "memory"
        ]
        for entries in ((), log)
    )
    assert weak > 1.5 * plain


def test_what_was_known_comes_less_often():
    known = [LogEntry(AT, item.id, 1.0) for item in BANK.items if item.id.endswith("number_it")]
    fresh = [LogEntry(AT, f"{e.item.partition('.')[0]}.other", 1.0) for e in known]
    asked = [
        sum(s.id.endswith("number_it") for seed in range(40) for s in compose(seed, log).steps)
        for log in (known, fresh)
    ]
    assert asked[0] < asked[1]


def test_never_two_enemies():
    topics = bank.topics_there()
    names = [f"{topic}.number_it" for topic in topics]
    items = [number_item(name) for name in names]
    # each is the enemy of all but itself and its neighbour, and half of the pairs say so
    for n, item in enumerate(items):
        foes = tuple(x for m, x in enumerate(names) if abs(m - n) > 1 and m > n)
        items[n] = item.model_copy(update={"enemies": foes})
    small = Bank(
        (*items, *(choice_item(f"{topic}.bug_it", "bug") for topic in topics)),
        (),
        tuple(open_question(f"{topic}.open_it") for topic in topics),
    )
    pairs = {frozenset((i.id, foe)) for i in items for foe in i.enemies}
    for seed in range(30):
        ids = [step.id for step in mock.compose(small, seed=seed, minutes=90).steps]
        assert not any(frozenset(pair) in pairs for pair in combinations(ids, 2))
        assert sum(name in names for name in ids) in (1, 2)


def test_generators_take_part():
    asked = {s.id for seed in range(60) for s in compose(seed).steps if ".gen_" in s.id}
    assert {name.rpartition("_")[0] for name in asked} == set(GENERATORS)


def test_a_part_without_questions_is_left_out():
    few = Bank((number_item("memory.number_it"),))
    composed = mock.compose(few, minutes=45)
    assert [p.name for p in composed.parts] == ["estimates", "code", "yours"]
    assert sum(p.points for p in composed.parts) == 100
    assert len(part(composed, "estimates").steps) == 1
    with pytest.raises(BankError, match="no questions"):
        mock.compose(Bank())


@pytest.mark.parametrize("minutes", [9, 91, 0, -5])
def test_another_length_is_refused(minutes):
    with pytest.raises(BankError, match="10 to 90 minutes"):
        compose(minutes=minutes)


def test_another_role_is_refused():
    with pytest.raises(BankError, match="ml, systems, research, performance"):
        compose(role="boss")


# ---- the report ---------------------------------------------------------------------------------


def results(composed: mock.Mock, score: float) -> dict[str, StepScore]:
    return {step.id: StepScore(score) for step in composed.steps}


@pytest.mark.parametrize(
    ("points", "band"),
    [
        (0, "not yet"),
        (44.4, "not yet"),
        (44.94, "not yet"),
        (44.95, "recites the recipe"),
        (64, "recites the recipe"),
        (65, "has debugged it"),
        (80, "can defend it"),
        (100, "can defend it"),
    ],
)
def test_bands(points, band):
    assert mock.band(points) == band


@pytest.mark.parametrize(
    ("points", "words"),
    [(66.5, "66.5"), (6.25, "6.3"), (6.35, "6.4"), (99.99999999, "100"), (0, "0"), (20.0, "20")],
)
def test_points_in_words(points, words):
    assert mock.in_words(points) == words


def test_a_short_mock_has_no_band():
    for minutes, there in ((19, False), (20, True)):
        composed = compose(minutes=minutes)
        assert bool(mock.report(composed, results(composed, 1.0)).band) == there


def test_a_report_adds_up():
    composed = compose(3)
    half = mock.report(composed, results(composed, 0.5))
    assert half.points == pytest.approx(50)
    assert half.of == pytest.approx(100)
    assert half.band == "recites the recipe"
    assert sum(row.points for row in half.parts) == pytest.approx(50)
    assert [row.name for row in half.parts] == [p.name for p in composed.parts]
    assert {row.name for row in half.topics} == set(composed.topics)
    assert sum(row.of for row in half.topics) == pytest.approx(95), "all but your question to us"
    places = [mock.course_place(row.name) for row in half.topics]
    assert places == sorted(places)


def test_what_to_read_next():
    composed = compose(3)
    best, worst = (mock.report(composed, results(composed, score)) for score in (1.0, 0.0))
    assert best.read_next == ()
    assert best.band == "can defend it"
    assert len(worst.read_next) == 3
    lost = sorted((row.of for row in worst.topics), reverse=True)[:3]
    of = {row.name: row.of for row in worst.topics}
    assert [of[reading.topic] for reading in worst.read_next] == lost
    for reading in worst.read_next:
        lesson = catalogue.lesson_of_topic(reading.topic)
        assert (reading.notebook, reading.sheet) == (lesson.notebook, lesson.sheet)
        assert lesson.title in reading.title


def test_a_mock_that_ran_out_of_time_counts_the_rest_as_missed():
    composed = compose()
    first = composed.steps[:5]
    found = mock.report(composed, {step.id: StepScore(1.0) for step in first})
    assert (found.points, found.of) == (pytest.approx(10), pytest.approx(100))
    assert found.unasked == len(composed.steps) - 5
    assert found.band == "not yet"


def test_a_mock_that_was_broken_off_counts_only_what_was_answered():
    composed = compose()
    done = {step.id: StepScore(1.0) for step in composed.steps[:5]}
    found = mock.report(composed, done, finished=False)
    assert (found.points, found.of) == (pytest.approx(10), pytest.approx(10))
    assert found.band == ""
    assert [row.name for row in found.parts] == ["warm_up"]


def test_a_report_as_json():
    composed = compose(7, role="systems", minutes=60)
    found = mock.report(composed, results(composed, 0.25))
    data = json.loads(json.dumps(found.to_json()))
    assert data["seed"] == 7
    assert (data["role"], data["minutes"], data["points"]) == ("systems", 60, 25.0)
    assert len(data["answers"]) == len(composed.steps)
    assert {"name", "title", "points", "of"} == set(data["parts"][0])
    assert {"topic", "title", "notebook", "sheet"} == set(data["read_next"][0])


def test_the_courses_own_bank_makes_a_mock():
    composed = mock.compose(bank.load())
    assert composed.steps
