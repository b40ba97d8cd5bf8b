"""A `Fact`: bounds of a tensor's elements, where they come from, and how a 16-bit format rounds.

Interval arithmetic, with the rounding of the format that the op's result is stored in. A bound
that nothing gives is infinite, and then nothing follows from it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace

import torch

LOW = (torch.float16, torch.bfloat16)
_LIMITS = {dtype: torch.finfo(dtype) for dtype in LOW}
LITTLE = 0.01
"""A guard or a margin is smaller than this."""
_BITS = {torch.float16: 11, torch.bfloat16: 8}  # of the significand, with the leading one


@dataclass(frozen=True)
class Fact:
    """What is known of the elements of one tensor.

    Attributes:
        low, high: bounds; infinite where nothing is known.
        exact: whether both bounds are elements: the numbers themselves are known.
        number: the one number that it was made from, before any rounding; None if none was.
        value: names the value, and stays the same in a cast or a copy.
        made: the op that made it and the value it was made from, such as ("square", v).
        step: distance of neighbours, for a grid such as arange makes; 0 if it is none.
        gain: product of the constant factors since an activation of unknown size.
        root, power, factor: it is factor * root ** power; a root of None stands for itself.
        source: "sigmoid", "softmax", "tanh", "rand" or "cosine", as long as it is that op's result,
            or 1 minus it; "integers" for what was converted from an integer dtype, and
            "scaled integers" for that times another number.
        complement: whether it is 1 minus the result of `source`.
        rounded: the 16-bit dtype that its value passed through; None if it passed through none.
        guard: a small positive constant that was added or bounds it.
        margin: how far from 1 a clamp or known numbers keep it, if that is little.
        lost: a guard that the dtype (second) rounds to zero, or a margin that it rounds to 1.
        wide: the fact before the cast that made this tensor, if it was one to fewer bits.
        learned: whether it is a parameter, or made of nothing else.
        unit: whether rows were divided by their norm.
    """

    low: float = -math.inf
    high: float = math.inf
    exact: bool = False
    number: float | None = None
    value: Hashable = None
    made: tuple[str, Hashable] = ("", None)
    step: float = 0.0
    gain: float = 1.0
    root: Hashable = None
    power: float = 1.0
    factor: float = 1.0
    source: str = ""
    complement: bool = False
    rounded: torch.dtype | None = None
    guard: float | None = None
    margin: float | None = None
    lost: tuple[float, torch.dtype] | None = None
    wide: Fact | None = None
    learned: bool = False
    unit: bool = False

    @property
    def size(self) -> float:
        """The largest magnitude that an element can have."""
        return max(abs(self.low), abs(self.high))

    @property
    def bounded(self) -> bool:
        return math.isfinite(self.size)

    @property
    def of(self) -> Hashable:
        """The value that this is a power of."""
        return self.root if self.root is not None else self.value

    def in_dtype(self, dtype: torch.dtype) -> Fact:
        """The same values, stored in this dtype."""
        if dtype not in LOW:
            return self
        low, high = rounded(self.low, dtype), rounded(self.high, dtype)
        lost, guard = self.lost, self.guard
        if guard is None and self.exact and 0 < self.low < LITTLE:
            guard = self.low
        if guard is not None and rounded(guard, dtype) == 0:
            lost = (guard, dtype)
        margin = self.margin
        if margin is None and self.exact and 0 < 1 - self.high < LITTLE:
            margin = 1 - self.high
        side = 1 if self.low >= 1 else -1
        if margin is not None and rounded(1 + side * margin, dtype) == 1:
            lost = (margin, dtype)
        return replace(self, low=low, high=high, rounded=dtype, margin=margin, lost=lost)


def constant(number: float) -> Fact:
    """The fact of a tensor filled with one number."""
    return Fact(number, number, exact=True, number=number)


def rounded(number: float, dtype: torch.dtype) -> float:
    """The number that a 16-bit dtype stores for this one: to nearest, ties to even."""
    if number == 0 or not math.isfinite(number):
        return number
    info = _LIMITS[dtype]
    _, exponent = math.frexp(number)
    least = math.frexp(info.tiny)[1]
    unit = 2.0 ** (max(exponent, least) - _BITS[dtype])
    result = round(number / unit) * unit
    return math.copysign(math.inf, number) if abs(result) > info.max else result


def spacing(number: float, dtype: torch.dtype) -> float:
    """The distance of the two stored numbers around this one."""
    if number == 0:
        return float(_LIMITS[dtype].tiny * _LIMITS[dtype].eps)
    return 2.0 ** (math.frexp(abs(number) * (1 - 2**-20))[1] - _BITS[dtype])


def times(a: float, b: float) -> float:
    """A product in which an unknown factor of zero stays zero."""
    return 0.0 if a == 0 or b == 0 else a * b


def add(a: Fact, b: Fact) -> tuple[float, float]:
    return _ordered(_sum(a.low, b.low, -math.inf), _sum(a.high, b.high, math.inf))


def negative(a: Fact) -> tuple[float, float]:
    return -a.high, -a.low


def multiply(a: Fact, b: Fact) -> tuple[float, float]:
    ends = [times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(ends), max(ends)


def inverse(a: Fact) -> tuple[float, float]:
    """Bounds of 1 / a; unknown where a can be zero or change its sign."""
    if a.low > 0 or a.high < 0:
        return (1 / a.high if a.high else 0.0), (1 / a.low if a.low else math.inf)
    if a.low >= 0:
        return 0.0, math.inf
    return -math.inf, math.inf


def union(*facts: Fact) -> tuple[float, float]:
    return min(f.low for f in facts), max(f.high for f in facts)


def _sum(a: float, b: float, unknown: float) -> float:
    total = a + b
    return unknown if math.isnan(total) else total


def _ordered(low: float, high: float) -> tuple[float, float]:
    return (low, high) if low <= high else (-math.inf, math.inf)
