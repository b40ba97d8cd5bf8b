"""The calls of a training step as cards, and the ways to arrange them.

A card is a line of code. An arrangement says which cards stand before the loop over the
micro-batches, which stand in it, which stand after it, and which are left out.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from textwrap import indent

from amp_lessons.core.errors import AmpLessonsError


class OrderError(AmpLessonsError, ValueError):
    """An arrangement that uses a card twice, or one that doesn't exist."""


@dataclass(frozen=True)
class Card:
    """One call.

    Attributes:
        id: how an `Order` names it.
        name: how a sentence names it.
        code: what runs.
    """

    id: str
    name: str
    code: str


MAX_NORM = 1.0
CARDS = (
    Card("zero_grad", "zero_grad()", "optimizer.zero_grad()"),
    Card(
        "forward",
        "the forward pass",
        'with torch.autocast("cpu", dtype=torch.float16):\n    loss = loss_of(model, piece)',
    ),
    Card("divide", "the division", "loss = loss / len(pieces)"),
    Card("backward", "backward()", "scaler.scale(loss).backward()"),
    Card("unscale", "unscale_()", "scaler.unscale_(optimizer)"),
    Card(
        "clip",
        "clipping",
        f"nn.utils.clip_grad_norm_(model.parameters(), max_norm={MAX_NORM})",
    ),
    Card("step", "scaler.step()", "scaler.step(optimizer)"),
    Card("update", "update()", "scaler.update()"),
    Card("schedule", "scheduler.step()", "scheduler.step()"),
)
BY_ID = {card.id: card for card in CARDS}
ZONES = ("before", "each", "after")


def _checked_ids(zone: str, given: Iterable[str]) -> tuple[str, ...]:
    """What stands in a zone, as a tuple."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise OrderError(f"{zone} must be a list of cards, got {given!r}")
    return tuple(given)


@dataclass(frozen=True)
class Order:
    """An arrangement of the cards, by their ids. A card that is nowhere is left out.

    Attributes:
        before: once a step, before the loop over the micro-batches.
        each: for each micro-batch.
        after: once a step, after that loop.

    Raises:
        OrderError: if a card is used twice, or doesn't exist.
    """

    before: tuple[str, ...] = ()
    each: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for zone in ZONES:
            object.__setattr__(self, zone, _checked_ids(zone, getattr(self, zone)))
        for card in self.used:
            if not isinstance(card, str) or card not in BY_ID:
                raise OrderError(f"no card is called {card!r}: choose from {', '.join(BY_ID)}")
            if self.used.count(card) > 1:
                raise OrderError(f"the card {card!r} is used twice")

    @property
    def used(self) -> tuple[str, ...]:
        """The cards that run, from the top of the step to its end."""
        return self.before + self.each + self.after

    @property
    def unused(self) -> tuple[str, ...]:
        """The cards that are left out, in the usual order."""
        return tuple(card for card in BY_ID if card not in self.used)

    @property
    def program(self) -> str:
        """The whole loop as Python code."""
        before, each, after = (_code(getattr(self, zone)) for zone in ZONES)
        return (
            "for pictures in batches:\n"
            "    pieces = pictures.split(len(pictures) // 4)\n"
            f"{indent(before, ' ' * 4)}"
            "    for piece in pieces:\n"
            f"{indent(each or 'pass', ' ' * 8).rstrip()}\n"
            f"{indent(after, ' ' * 4)}"
        )

    def as_dict(self) -> dict[str, list[str]]:
        """The arrangement in plain data, as `read_order` takes it."""
        return {zone: list(getattr(self, zone)) for zone in ZONES}


def read_order(given: Order | Mapping[str, Iterable[str]]) -> Order:
    """An `Order` from one, or from ids by zone; a zone that isn't named is empty.

    Raises:
        OrderError: if it is neither, or is refused by `Order`.
    """
    if isinstance(given, Order):
        return given
    if not isinstance(given, Mapping):
        raise OrderError(f"an order must be an Order or a dict, got {type(given).__name__}")
    unknown = [str(zone) for zone in given if zone not in ZONES]
    if unknown:
        raise OrderError(f"an order has no {unknown[0]!r}: use {', '.join(ZONES)}")
    return Order(*(_checked_ids(zone, given.get(zone, ())) for zone in ZONES))


USUAL = Order(
    before=("zero_grad",),
    each=("forward", "divide", "backward"),
    after=("unscale", "clip", "step", "update", "schedule"),
)


def mixed_order(seed: int = 0) -> Order:
    """All cards in an order drawn from a seed, some of them before, in and after the loop."""
    draw = random.Random(seed)
    cards = list(BY_ID)
    draw.shuffle(cards)
    first, second = sorted(draw.sample(range(1, len(cards)), 2))
    return Order(tuple(cards[:first]), tuple(cards[first:second]), tuple(cards[second:]))


def _code(cards: Iterable[str]) -> str:
    return "".join(f"{BY_ID[card].code}\n" for card in cards)
