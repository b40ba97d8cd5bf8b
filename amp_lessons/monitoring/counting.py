"""Counting numbers by their power of two, and what a format makes of them.

The counts are exact for the tensors that are looked at: zero, subnormal and overflow mean what
`formats.Format.round` does to each number. Nothing is kept but the counts.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import torch
from torch import Tensor

from amp_lessons.formats import Format
from amp_lessons.loss_scale import ExponentHistogram, Fate
from amp_lessons.monitoring.tensors import numbers_of

_BIAS = 127  # of float32, in which everything is counted


@dataclass(frozen=True)
class Edges:
    """Where a format begins to lose numbers.

    Attributes:
        zero: numbers up to here round to zero. A power of two.
        normal: numbers from here on keep every bit of the significand.
        overflow: numbers from here on become inf or NaN...
        beyond: ...only from above here, if this is True (a tie that rounds down).
    """

    zero: float
    normal: float
    overflow: float
    beyond: bool

    @classmethod
    def of(cls, format: Format) -> Edges:
        """The edges of a format, with rounding to nearest, ties to even."""
        step = format.min_subnormal
        top = format.max + format.ulp(format.max) / 2
        return cls(step / 2, format.min_normal - step / 2, top, math.isfinite(format.round(top)))


@dataclass
class Tally:
    """What was seen of one kind of tensor, in one module.

    Attributes:
        exponents: how many numbers have a magnitude in [2**e, 2**(e+1)). Gradients are counted
            with the loss scale divided out, to the nearest power of two.
        zeros: exact zeros.
        infs, nans: numbers that are not finite.
        underflow, subnormal, overflow: finite, non-zero numbers that become zero, subnormal or
            inf in the format that was asked for, at a loss scale of 1.
        largest: the largest finite magnitude, the loss scale divided out.
        dtypes: names of the dtypes that were seen.
        samples: tensors that were counted.
    """

    exponents: Counter[int] = field(default_factory=Counter)
    zeros: int = 0
    infs: int = 0
    nans: int = 0
    underflow: int = 0
    subnormal: int = 0
    overflow: int = 0
    largest: float = 0.0
    dtypes: set[str] = field(default_factory=set)
    samples: int = 0

    @property
    def numbers(self) -> int:
        """How many numbers were counted, NaN and inf included."""
        return self.nonzero + self.zeros + self.infs + self.nans

    @property
    def nonzero(self) -> int:
        """How many were finite and not zero."""
        return sum(self.exponents.values())

    def share(self, count: int) -> float:
        """A count as a share of all numbers; 0.0 if there were none."""
        return count / self.numbers if self.numbers else 0.0

    @property
    def histogram(self) -> ExponentHistogram:
        """The counts by power of two, from the smallest that occurs to the largest."""
        if not self.exponents:
            return ExponentHistogram((), (), self.zeros)
        span = range(min(self.exponents), max(self.exponents) + 1)
        return ExponentHistogram(tuple(span), tuple(self.exponents[e] for e in span), self.zeros)

    def add(self, tensor: Tensor, edges: Edges, scale: float = 1.0) -> None:
        """Count a tensor. ``scale`` is the loss scale that its numbers were multiplied by."""
        found = numbers_of(tensor)
        if found is None:
            return
        self.dtypes.add(str(tensor.dtype).removeprefix("torch."))
        self.samples += 1
        flat = found.reshape(-1).float()
        shift = round(math.log2(scale)) if scale > 0 else 0
        # The sign leaves by the top when the shifted bits become a byte.
        fields = flat.view(torch.int32).bitwise_right_shift(23).to(torch.uint8)
        counts = torch.bincount(fields, minlength=256).tolist()
        zeros = int((flat == 0).sum()) if counts[0] else 0
        nans = int(torch.isnan(flat).sum()) if counts[255] else 0
        self.zeros += zeros
        self.nans += nans
        self.infs += counts[255] - nans
        counts[0] -= zeros
        for place in range(255):
            if counts[place]:
                self.exponents[place - _BIAS - shift] += counts[place]
        self._judge(flat, fields, counts, edges, 2.0**shift)
        self.largest = max(self.largest, _largest(flat, counts) / scale)

    def _judge(
        self, flat: Tensor, fields: Tensor, counts: list[int], edges: Edges, scale: float
    ) -> None:
        """Count the three fates: whole powers of two at once, those on an edge number by number."""
        zero, normal, over = edges.zero * scale, edges.normal * scale, edges.overflow * scale
        lost = _below(flat, fields, counts, zero, inclusive=True)
        self.underflow += lost
        self.subnormal += _below(flat, fields, counts, normal, inclusive=False) - lost
        kept = _below(flat, fields, counts, over, inclusive=edges.beyond)
        self.overflow += sum(counts[:255]) - kept

    def merge(self, other: Tally) -> None:
        """Add what another tally has counted."""
        self.exponents.update(other.exponents)
        for name in ("zeros", "infs", "nans", "underflow", "subnormal", "overflow", "samples"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.largest = max(self.largest, other.largest)
        self.dtypes |= other.dtypes


def _below(flat: Tensor, fields: Tensor, counts: list[int], edge: float, *, inclusive: bool) -> int:
    """How many finite, non-zero numbers have a magnitude below an edge, or at it."""
    place = min(max(math.frexp(edge)[1] - 1 + _BIAS, 0), 255)
    below = sum(counts[:place])
    if place == 255 or not counts[place]:
        return below
    size = flat[fields == place].abs()  # the only numbers that can be on either side
    inside = (size <= edge) if inclusive else (size < edge)
    return below + int((inside & (size > 0)).sum())


def _largest(flat: Tensor, counts: list[int]) -> float:
    if counts[255]:
        flat = flat[torch.isfinite(flat)]
    if not flat.numel():
        return 0.0
    low, high = torch.aminmax(flat)
    return max(-float(low), float(high))


# ---- loss scales -----------------------------------------------------------------------------


def fates_by_scale(tally: Tally, format: Format, top: int = 40) -> list[Fate]:
    """What a loss scale of 2**0, 2**1, … 2**top does to the gradients that were counted.

    Only their powers of two are known. A number on the edge of the format can be off by one place:
    what is exactly half of the smallest subnormal number counts as saved.
    """
    lowest = round(math.log2(format.min_subnormal)) - 1
    found = []
    for k in range(top + 1):
        zero = sum(n for e, n in tally.exponents.items() if e + k < lowest)
        below = sum(n for e, n in tally.exponents.items() if e + k < format.min_exponent)
        over = sum(n for e, n in tally.exponents.items() if e + k > format.max_exponent)
        normal = tally.nonzero - below - over
        found.append(Fate(2.0**k, zero, below - zero, normal, over))
    return found


def largest_safe_scale(tally: Tally, format: Format, top: int = 40) -> float | None:
    """The largest power of two at which no gradient overflows; None if there isn't one."""
    if not tally.nonzero:
        return None
    fits = [k for k in range(top + 1) if math.isfinite(format.round(tally.largest * 2.0**k))]
    return 2.0 ** fits[-1] if fits else None


def smallest_saving_scale(tally: Tally, format: Format, share: float = 0.0) -> float | None:
    """The smallest power of two that leaves at most this share of the gradients to underflow."""
    if not tally.nonzero:
        return None
    for fate in fates_by_scale(tally, format):
        if fate.zero <= share * tally.nonzero:
            return fate.scale
    return None
