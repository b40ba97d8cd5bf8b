"""Questions without end: each generator makes a new one from a seed, with its answer computed.

A generated question is an ordinary item, with a wrong answer for each mistake that people make
and the numbers of this question in its explanation. The same seed gives the same question. There
is one module a topic; making a question never imports torch.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from amp_lessons.quiz.bank import BankError
from amp_lessons.quiz.generators import (
    amp_from_scratch,
    autocast_ops,
    autocast_regions,
    fp8,
    grad_scaler,
    how_numbers_break,
    losses_and_ops,
    memory,
    myths_and_clinic,
    number_formats,
    speed,
    training_loops,
)
from amp_lessons.quiz.generators.base import Generator
from amp_lessons.quiz.items import Item

_TOPICS = (
    number_formats,
    how_numbers_break,
    amp_from_scratch,
    autocast_ops,
    autocast_regions,
    grad_scaler,
    training_loops,
    losses_and_ops,
    memory,
    speed,
    fp8,
    myths_and_clinic,
)

GENERATORS: dict[str, Generator] = {each.id: each for topic in _TOPICS for each in topic.GENERATORS}
"""All generators by id, in the order of the course."""

ENOUGH = 2_000
"""How many seeds `Fresh` tries in a row before it says that a generator has run dry."""

_MADE = re.compile(r"(?P<generator>.+)_(?P<seed>\d+)")


def find(name: str) -> Generator:
    """The generator with this id. Raises `BankError` with the nearest ids."""
    try:
        return GENERATORS[name]
    except KeyError:
        pass
    short = {each.partition(".")[2]: each for each in GENERATORS}
    if name in short:
        return GENERATORS[short[name]]
    near = difflib.get_close_matches(name, GENERATORS, n=3, cutoff=0.4)
    hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(GENERATORS)}"
    raise BankError(f"no generator is called {name!r}; {hint}")


def remake(item_id: str) -> Item:
    """The question that a generator made earlier, from its id.

    Raises:
        BankError: if no generator makes an id like this.
    """
    made = _MADE.fullmatch(item_id)
    if made is None:
        raise BankError(f"{item_id!r} is not the id of a generated question: it has no seed")
    return find(made["generator"]).make(int(made["seed"]))


def fingerprint(item: Item) -> str:
    """What somebody sees of a question. Two questions with the same one are a repeat."""
    return "\n\n".join((item.prompt, item.code, item.log))


class Fresh:
    """Gives a session new questions, none of them twice.

    Args:
        seed: where to start, 0 or more. Sessions with different seeds get different questions.
        seen: fingerprints of questions that were asked before.
    """

    def __init__(self, seed: int, seen: Iterable[str] = ()) -> None:
        self.seen = set(seen)
        self._start = seed
        self._next: dict[str, int] = {}

    def make(self, generator: Generator) -> Item:
        """A question that this session has not had.

        Raises:
            BankError: if the generator has no other question.
        """
        first = self._next.get(generator.id, self._start)
        for seed in range(first, first + ENOUGH):
            item = generator.make(seed)
            if fingerprint(item) not in self.seen:
                self.seen.add(fingerprint(item))
                self._next[generator.id] = seed + 1
                return item
        raise BankError(f"{generator.id} has no question left that you haven't seen")
