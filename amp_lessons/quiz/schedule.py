"""Which questions come back today: FSRS over the log of what was answered.

Nothing but the log is stored. The cards are made by replaying it, so two merged logs give one
schedule. What was missed or guessed comes back tomorrow; each right answer makes the wait longer,
and the first one makes it two days. There are no waits of minutes: `drill` asks again at its end
what it saw missed. The package ``fsrs`` is loaded only when cards are made; nothing here imports
torch.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, Protocol

from amp_lessons.quiz.bank import Bank, topics_there
from amp_lessons.quiz.log import LogEntry

if TYPE_CHECKING:
    from fsrs import Card

NEW_A_DAY = 10
"""How many new questions a drill asks in one day, unless somebody wants more."""

_GENERATED = re.compile(r"(?P<card>[a-z0-9_]+\.gen_[a-z0-9_]*?)_\d+")
_GUESS = 0.5
"""What a right guess is worth when a topic's weakness is estimated."""
_MEMORY = 0.9
"""How much less each older answer says about a topic than the one after it."""
_DOUBT = 2.0
"""How many answers the assumption is worth that half of a topic is known."""


class Asks(Protocol):
    """What can be drilled: an item of the bank, or a generator."""

    @property
    def id(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def level(self) -> int: ...


@dataclass(frozen=True)
class Due:
    """What there is to do on one day.

    Attributes:
        now: the cards that are due, the most overdue first.
        new: questions that were never asked, as many as this day still allows.
        unseen: how many were never asked, with those in ``new``.
        introduced: how many new ones this day's drills have asked already.
        next_day: the next day on which a card is due, or None if no card waits.
        next_count: how many are due on that day.
    """

    now: tuple[str, ...]
    new: tuple[str, ...]
    unseen: int
    introduced: int
    next_day: date | None
    next_count: int


def card_of(item_id: str) -> str:
    """The card that a question belongs to: all questions of one generator share one."""
    made = _GENERATED.fullmatch(item_id)
    return made["card"] if made else item_id


def rating(entry: LogEntry) -> int:
    """FSRS's grade: 1 (again) for wrong, 2 (hard) for partly right or guessed, 3 (good) for right.

    Nobody is asked how easy it was, so 4 is never given.
    """
    if entry.score == 0:
        return 1
    return 3 if entry.right and entry.sure else 2


def replay(entries: Iterable[LogEntry], predictions: Iterable[str] = ()) -> dict[str, Card]:
    """The cards as the answers have left them, by their id.

    Args:
        entries: the log, in any order.
        predictions: ids that become cards only once they were missed.
    """
    from fsrs import Card, Rating, Scheduler

    scheduler = Scheduler(learning_steps=(), relearning_steps=(), enable_fuzzing=False)
    only_missed = frozenset(predictions)
    cards: dict[str, Card] = {}
    for entry in sorted(entries):
        name = card_of(entry.item)
        if name not in cards:
            if name in only_missed and entry.right:
                continue
            cards[name] = Card(card_id=len(cards), due=entry.at)
        cards[name], _ = scheduler.review_card(cards[name], Rating(rating(entry)), entry.at)
    return cards


def due(
    entries: Sequence[LogEntry],
    bank: Bank,
    generators: Mapping[str, Any],
    *,
    now: datetime,
    new: int = NEW_A_DAY,
    known: Iterable[str] = (),
) -> Due:
    """What is due on the day of ``now``, and which new questions may join.

    A card is due from the midnight before its time on: somebody who practises a little earlier
    than yesterday still gets it.

    Args:
        generators: by their ids, as `generators.GENERATORS`.
        now: with a time zone. Days end at midnight of the machine's own time zone.
        new: the most new questions for this day.
        known: topics whose lessons were taken; their new questions come first.
    """
    cards = replay(entries, (item.id for item in bank.predictions))
    there = {each.id for each in (*bank.items, *bank.predictions)} | set(generators)
    days = {name: _day(card.due) for name, card in cards.items() if name in there}
    today = _day(now)
    waiting = [name for name, day in days.items() if day <= today]
    later = Counter(day for day in days.values() if day > today)
    next_day = min(later, default=None)
    seen = {card_of(entry.item) for entry in entries}
    topics = {name.partition(".")[0] for name in seen} | set(known)
    unseen = [each.id for each in _in_turn((*bank.items, *generators.values()), topics)]
    unseen = [name for name in unseen if name not in seen]
    introduced = _introduced(entries, today)
    return Due(
        now=tuple(sorted(waiting, key=lambda name: (cards[name].due, name))),
        new=tuple(unseen[: max(0, new - introduced)]),
        unseen=len(unseen),
        introduced=introduced,
        next_day=next_day,
        next_count=later[next_day] if next_day else 0,
    )


def _day(moment: datetime) -> date:
    return moment.astimezone().date()


def _introduced(entries: Iterable[LogEntry], today: date) -> int:
    """How many cards had their very first answer in a drill of this day."""
    first: dict[str, LogEntry] = {}
    for entry in sorted(entries):
        first.setdefault(card_of(entry.item), entry)
    return sum(e.where == "drill" and _day(e.at) == today for e in first.values())


def _in_turn(questions: Iterable[Asks], known: Iterable[str]) -> Iterator[Asks]:
    """New questions: known topics in turn, so that they mix; then the others, topic by topic.

    Within a topic, easier ones come first.
    """
    by_topic: dict[str, list[Asks]] = defaultdict(list)
    for each in questions:
        by_topic[each.topic].append(each)
    for found in by_topic.values():
        found.sort(key=lambda each: each.level)
    order = [topic for topic in topics_there() if topic in by_topic]
    familiar = set(known)
    rows = zip_longest(*(by_topic[topic] for topic in order if topic in familiar))
    yield from (each for each in chain.from_iterable(rows) if each is not None)
    for topic in order:
        if topic not in familiar:
            yield from by_topic[topic]


def in_words(day: date, today: date) -> str:
    """A day as somebody says it: ``tomorrow``, ``on Thursday``, ``on 5 March``."""
    ahead = (day - today).days
    if ahead <= 0:
        return "today"
    if ahead == 1:
        return "tomorrow"
    if ahead < 7:
        return f"on {day:%A}"
    year = f" {day.year}" if ahead > timedelta(days=300).days else ""
    return f"on {day.day} {day:%B}{year}"


def weakness(entries: Iterable[LogEntry]) -> dict[str, float]:
    """For each topic, the estimated share that is not known yet, from 0 to 1.

    A topic without answers has 0.5. Newer answers count more than older ones, and a right guess
    counts as half.
    """
    missed = dict.fromkeys(topics_there(), 0.0)
    asked = dict.fromkeys(topics_there(), 0.0)
    for entry in sorted(entries):
        topic = entry.item.partition(".")[0]
        if topic in missed:
            gained = entry.score * (1.0 if entry.sure else _GUESS)
            missed[topic] = missed[topic] * _MEMORY + (1 - gained)
            asked[topic] = asked[topic] * _MEMORY + 1
    return {t: (missed[t] + _DOUBT / 2) / (asked[t] + _DOUBT) for t in missed}
