"""What comes back, and when: FSRS over the log."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta

import pytest
from interview_room import fake_generators, small_bank

from amp_lessons.quiz import schedule
from amp_lessons.quiz.bank import topics_there
from amp_lessons.quiz.log import LogEntry

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
BANK = small_bank()
GENERATORS = fake_generators().GENERATORS
ITEM, OTHER, PREDICTION = "memory.single_it", "speed.bug_it", "memory.predict_it"


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    """Days that end at midnight UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def entry(item: str = ITEM, score: float = 1.0, days: float = 0.0, **more) -> LogEntry:
    return LogEntry(NOON + timedelta(days=days), item, score, **{"where": "drill"} | more)


def due(*entries: LogEntry, days: float = 0.0, **more) -> schedule.Due:
    return schedule.due(entries, BANK, GENERATORS, now=NOON + timedelta(days=days), **more)


@pytest.mark.parametrize(
    ("score", "sure", "rating"),
    [(0, True, 1), (0, False, 1), (0.5, True, 2), (0.5, False, 2), (1, False, 2), (1, True, 3)],
)
def test_ratings(score, sure, rating):
    assert schedule.rating(entry(score=score, sure=sure)) == rating


@pytest.mark.parametrize(
    ("item", "card"),
    [
        ("memory.gen_bytes_123", "memory.gen_bytes"),
        ("memory.gen_bytes_2_123", "memory.gen_bytes_2"),
        ("memory.gen_bytes", "memory.gen_bytes"),
        ("memory.bytes_7", "memory.bytes_7"),
        ("memory.regen_bytes_7", "memory.regen_bytes_7"),
    ],
)
def test_a_generators_questions_share_a_card(item, card):
    assert schedule.card_of(item) == card


@pytest.mark.parametrize(
    ("score", "sure", "days"), [(0, True, 1), (0.5, True, 1), (1, False, 1), (1, True, 2)]
)
def test_the_first_wait(score, sure, days):
    first = entry(score=score, sure=sure)
    assert due(first).now == ()
    assert due(first).next_day == date(2026, 3, 4 + days)
    assert due(first, days=days - 1).now == ()
    assert due(first, days=days - 0.4).now == (ITEM,), "a little earlier in the day is early enough"
    assert due(first, days=days + 30).now == (ITEM,)


def test_waits_grow_with_right_answers_and_shrink_with_a_wrong_one():
    answers, waits = [entry()], []
    for _ in range(4):
        there = due(*answers).next_day
        assert there is not None
        waits.append((there - answers[-1].at.date()).days)
        answers.append(entry(days=(there - NOON.date()).days))
    assert waits == sorted(set(waits)), waits
    answers[-1] = entry(score=0, days=(answers[-1].at - NOON).days)
    last = due(*answers).next_day
    assert last is not None
    assert (last - answers[-1].at.date()).days < waits[-1]


def test_the_order_of_the_log_does_not_matter():
    answers = [entry(days=day, score=day % 2) for day in range(6)]
    assert schedule.replay(answers) == schedule.replay(answers[::-1])


def test_nothing_is_drawn_by_lot():
    answers = [entry(days=2 * day) for day in range(8)]
    assert len({schedule.replay(answers)[ITEM].due for _ in range(5)}) == 1


def test_the_most_overdue_comes_first():
    found = due(entry(OTHER), entry(ITEM, 0, days=3), days=9)
    assert found.now == (OTHER, ITEM)
    assert (found.next_day, found.next_count) == (None, 0)


def test_a_generator_comes_back_as_itself():
    found = due(entry("memory.gen_bytes_2_55", 0), entry("memory.gen_bytes_2_56", 0), days=1)
    assert found.now == ("memory.gen_bytes_2",)


def test_a_prediction_is_drilled_only_once_it_was_missed():
    right = entry(PREDICTION, where="lesson")
    assert due(right, days=9).now == ()
    assert due(right, days=9).next_day is None
    missed = entry(PREDICTION, 0, days=1, where="lesson")
    assert due(right, missed, days=2).now == (PREDICTION,)
    again = entry(PREDICTION, days=2)
    assert due(right, missed, again, days=2).now == ()
    assert due(right, missed, again, days=30).now == (PREDICTION,)
    assert PREDICTION not in due(new=1000).new


def test_what_the_bank_no_longer_has_is_left_out():
    found = due(entry("memory.gone", 0), entry("gone.it", 0), entry("memory.whiteboard_x", 0))
    assert (found.now, found.next_day) == ((), None)


# ---- new ones -----------------------------------------------------------------------------------


def test_new_ones_up_to_the_days_limit():
    first = due()
    assert len(first.new) == schedule.NEW_A_DAY == 10
    assert first.unseen == len(BANK.items) + len(GENERATORS)
    answers = [entry(name) for name in first.new[:4]]
    later = due(*answers)
    assert later.introduced == 4
    assert later.new == first.new[4:]
    assert due(*answers, new=2).new == ()
    assert len(due(*answers, days=1).new) == 10
    assert due(new=0).new == ()


def test_only_drills_use_up_the_days_limit():
    quiz = [entry(item.id, where="quiz") for item in BANK.items[:20]]
    assert len(due(*quiz).new) == 10
    assert not {e.item for e in quiz} & set(due(*quiz).new)
    again = [entry(e.item, days=0.01) for e in quiz]
    assert due(*quiz, *again).introduced == 0, "they were not new to the drill"


def test_a_generator_that_was_asked_is_not_new():
    asked = entry("memory.gen_bytes_2_55")
    assert "memory.gen_bytes_2" not in due(asked, new=1000).new


def test_everything_is_seen_at_some_time():
    found = due(new=1000)
    assert set(found.new) == {item.id for item in BANK.items} | set(GENERATORS)
    assert len(found.new) == found.unseen


def test_new_ones_of_known_lessons_come_first_and_mix():
    found = due(new=1000, known=["speed", "memory"])
    topics = [name.partition(".")[0] for name in found.new]
    assert set(topics[:14]) == {"speed", "memory"}
    assert topics[:4] == ["memory", "speed", "memory", "speed"]
    assert topics[-1] == topics_there()[-1]
    answered = due(entry("speed.single_it"), new=3)
    assert {name.partition(".")[0] for name in answered.new} == {"speed"}


def test_easier_ones_come_first():
    levels = {each.id: each.level for each in (*BANK.items, *GENERATORS.values())}
    found = [levels[name] for name in due(new=1000, known=["memory"]).new[:8]]
    assert found == sorted(found)


def test_days_end_at_the_machines_own_midnight(monkeypatch):
    monkeypatch.setenv("TZ", "Etc/GMT-10")  # which is ten hours ahead
    time.tzset()
    late = LogEntry(datetime(2026, 3, 4, 13, 30, tzinfo=UTC), ITEM, 0.0, where="drill")
    at = datetime(2026, 3, 4, 14, 30, tzinfo=UTC)  # after midnight there: a new day
    found = schedule.due([late], BANK, GENERATORS, now=at)
    assert found.now == (ITEM,)
    assert found.introduced == 0


@pytest.mark.parametrize(
    ("day", "words"),
    [
        (date(2026, 3, 4), "today"),
        (date(2026, 3, 5), "tomorrow"),
        (date(2026, 3, 6), "on Friday"),
        (date(2026, 3, 11), "on 11 March"),
        (date(2027, 3, 11), "on 11 March 2027"),
    ],
)
def test_a_day_in_words(day, words):
    assert schedule.in_words(day, date(2026, 3, 4)) == words


# ---- weakness -----------------------------------------------------------------------------------


def test_weakness_by_topic():
    found = schedule.weakness(
        [
            *(entry("memory.it", 0, days=day) for day in range(5)),
            *(entry("speed.it", 1, days=day) for day in range(5)),
            *(entry("grad_scaler.it", 1, days=day, sure=False) for day in range(5)),
            entry("gone.it", 0),
        ]
    )
    assert set(found) == set(topics_there())
    assert found["number_formats"] == 0.5
    assert found["memory"] > 0.75 > 0.5 == found["grad_scaler"] > 0.25 > found["speed"]


def test_newer_answers_say_more():
    better = [entry("memory.it", day >= 5, days=day) for day in range(10)]
    worse = [entry("memory.it", day < 5, days=day) for day in range(10)]
    assert schedule.weakness(better)["memory"] < 0.5 < schedule.weakness(worse)["memory"]


def test_a_long_log_is_replayed():
    items = [item.id for item in BANK.items]
    answers = [entry(items[n % 91], n % 3 > 0, days=n / 50) for n in range(3000)]
    found = due(*answers, days=60)
    assert found.now
    assert set(found.now) <= set(items)


def test_fsrs_and_torch_are_loaded_only_when_needed():
    code = (
        "import sys\nfrom amp_lessons.quiz import schedule, log\n"
        "assert 'fsrs' not in sys.modules\n"
        "schedule.weakness([]); schedule.replay([log.LogEntry(log.now(), 'a.b', 1.0)])\n"
        "assert 'fsrs' in sys.modules and 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == ""
