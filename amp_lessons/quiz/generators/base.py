"""What a generator is, and how its choices are drawn.

A generator's function gets a `random.Random` and gives the fields of an item, without id, kind and
level. Where a draw makes no good question (two answers that are the same, for example) the function
gives None and is asked again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal

from amp_lessons.quiz.bank import BankError
from amp_lessons.quiz.items import ChoiceItem, Item, Kind, NumberItem, OrderItem

Draft = dict[str, Any]
Level = Literal[1, 2, 3]
Draw = Callable[[random.Random], "Draft | None"]

TRIES = 500


@dataclass(frozen=True)
class Generator:
    """Makes a new question from each seed.

    Attributes:
        id: topic, dot, and a name that starts with ``gen_``.
        title: a few words for a list.
        level: 1 to recall, 2 to apply and predict, 3 to diagnose, design and defend.
        kind: one of `items.KINDS`.
        draw: makes the fields of an item.
    """

    id: str
    title: str
    level: Level
    kind: Kind
    draw: Draw = field(repr=False)

    @property
    def topic(self) -> str:
        return self.id.partition(".")[0]

    def make(self, seed: int) -> Item:
        """The question of this seed: the same one each time.

        Raises:
            BankError: for a seed that is not a whole number of 0 or more.
        """
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise BankError(f"a seed is a whole number, 0 or more; got {seed!r}")
        rng = random.Random(f"{self.id}:{seed}")
        for _ in range(TRIES):
            draft = self.draw(rng)
            if draft is not None:
                return self._item(draft, seed)
        raise BankError(f"{self.id} found no question for the seed {seed}")

    def _item(self, draft: Draft, seed: int) -> Item:
        models: dict[str, type[Item]] = {"number": NumberItem, "order": OrderItem}
        model = models.get(self.kind, ChoiceItem)
        fields = {"id": f"{self.id}_{seed}", "kind": self.kind, "level": self.level, **draft}
        return model.model_validate(fields)


def generator(name: str, title: str, *, level: Level, kind: Kind) -> Callable[[Draw], Generator]:
    """Makes a `Generator` of a function that draws."""
    return lambda draw: Generator(name, title, level, kind, draw)


# ---- choices ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    """A choice before it is known whether it will be shown.

    Attributes:
        text, why, holds: as in `items.Choice`.
        value: where it stands among numeric choices.
    """

    text: str
    why: str
    holds: str = ""
    value: float = 0.0


def choices(
    rng: random.Random,
    right: Option,
    wrong: Iterable[Option],
    *,
    count: int = 3,
    ascending: bool = False,
    must: Sequence[Option] = (),
) -> list[Draft] | None:
    """The right choice among wrong ones, so that neither place nor length gives it away.

    Args:
        wrong: the candidates. Of two with the same text the first counts, and one with the text
            of the right choice is left out.
        count: how many choices in all. Fewer are shown if there are too few candidates.
        ascending: numeric choices stand in the order of their values, others in any.
        must: wrong ones that are shown in any case.

    Returns:
        The choices as fields of an item, or None if there are not even two wrong ones, or no
        room for those that must be shown.
    """
    found: dict[str, Option] = {}
    for option in wrong:
        if option.text != right.text:
            found.setdefault(option.text, option)
    if len(found) < 2:
        return None
    sets = list(combinations(found.values(), min(count - 1, len(found))))
    needed = {option.text for option in must if option.text != right.text}
    sets = [chosen for chosen in sets if needed <= {option.text for option in chosen}]
    if not sets:
        return None
    if ascending:
        sets = _with(sets, lambda chosen: _rank(right, chosen), rng.randrange(count))
    longest = rng.random() < 1 / count
    sets = _with(sets, lambda chosen: _is_longest(right, chosen), longest)
    shown = [right, *rng.choice(sets)]
    if ascending:
        shown.sort(key=_place)
    else:
        rng.shuffle(shown)
    return [_as_fields(option, option is right) for option in shown]


def _with(
    sets: list[tuple[Option, ...]], measure: Callable[[Sequence[Option]], int], wanted: int
) -> list[tuple[Option, ...]]:
    """The sets nearest to what is wanted."""
    nearest = min(abs(measure(chosen) - wanted) for chosen in sets)
    return [chosen for chosen in sets if abs(measure(chosen) - wanted) == nearest]


def _rank(right: Option, chosen: Sequence[Option]) -> int:
    return sum(_place(option) < _place(right) for option in chosen)


def _is_longest(right: Option, chosen: Sequence[Option]) -> int:
    return int(all(len(option.text) <= len(right.text) for option in chosen))


def _place(option: Option) -> tuple[bool, float]:
    """Where it stands: NaN comes last."""
    return (option.value != option.value, option.value)


def _as_fields(option: Option, right: bool) -> Draft:
    found: Draft = {"text": option.text, "why": option.why, "right": right}
    return found | ({"holds": option.holds} if option.holds else {})


def mistakes(
    answer: float, tolerance: float, candidates: Iterable[tuple[float, str]]
) -> list[Draft] | None:
    """Wrong numbers with their thinking, without those that are near the answer or each other.

    Returns:
        The mistakes as fields of an item, or None if none is left.
    """
    kept: list[tuple[float, str]] = []
    for value, why in candidates:
        others = [answer, *(seen for seen, _ in kept)]
        if all(
            abs(value - other) > 1.5 * tolerance * max(abs(other), abs(value)) for other in others
        ):
            kept.append((value, why))
    return [{"value": value, "why": why} for value, why in kept] or None
