"""Hand-written cases, varied where the inputs are secret.

An exercise's cases are the same for everybody in a notebook. While a class is graded they are
other ones of the same kinds: a harness writes each case once, and asks this module for what in it
may vary. Without a salt every method gives back what it was given.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TypeVar

from amp_lessons.exercises.checks import draws

T = TypeVar("T")


class Varied:
    """What may vary in hand-written cases, drawn in the order in which it is asked for.

    Args:
        seed: as for `draws.seed`: one for each list of cases.
        before: as for `draws.seed`: where the cases in their order would tell the answers.
    """

    def __init__(self, seed: int, before: bool = False) -> None:
        self.on = draws.salted()
        self.random = random.Random(draws.seed(seed, before))

    def near(self, number: float, share: float = 0.1) -> float:
        """A number at most this share larger or smaller, with 7 digits."""
        if not self.on or not math.isfinite(number):
            return number
        return float(f"{number * (1 + self.random.uniform(-share, share)):.7g}")

    def note(self, share: float) -> str:
        """For the label of a case whose numbers are near the listed ones."""
        return f" (numbers changed by up to {share:.0%})" if self.on else ""

    def shifted(self, number: float, lowest: int = -3, highest: int = 3) -> float:
        """The number times a power of two with an exponent between these, ends included."""
        return number * 2.0 ** self.random.randint(lowest, highest) if self.on else number

    def more(self, number: int, most: int = 3) -> int:
        """A count, or one that is larger by at most ``most``."""
        return number + self.random.randint(0, most) if self.on else number

    def mixed(self, items: Sequence[T]) -> list[T]:
        """The items in another order."""
        return self.random.sample(items, len(items)) if self.on else list(items)

    def extra(self, count: int) -> range:
        """For a loop that draws further cases: so many rounds, and none without a salt."""
        return range(count if self.on else 0)
