"""Counting numbers by their power of two, and what a format makes of them.

Zero, subnormal and overflow mean what `formats.Format.round` does to each number. The counts are
exact for tensors of up to `MOST` numbers. Of a larger one a sample is counted, unless something
in it overflows. Nothing is kept but the counts.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from dataclasses import dataclass, field

import torch
from torch import Tensor

from amp_lessons.amp.monitor.tensors import numbers_of
from amp_lessons.amp.numbers.formats import Format
from amp_lessons.amp.scaling.loss_scale import ExponentHistogram, Fate

_BIAS = 127  # of float32, in which everything is counted
MOST = 1 << 16
"""Numbers. Of a tensor with more of them, a sample is counted."""
_PIECE = 1 << 17  # numbers at once on a CPU: what is made of them fits into its cache
# Primes: such a step doesn't stay in one column of a matrix.
_STEPS = (3, 5, 7, 11, 17, 23, 31, 43, 61, 89, 127, 179, 251, 359, 509, 719, 1021, 2039, 4093)


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
        thinned: those of them of which only a sample was counted. Each number of the sample
            stands for all that were left out up to the next, so the counts are estimates then.
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
    thinned: int = 0

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
        step = _step(found, edges.overflow * scale) if found.numel() > MOST else 1
        flat = found.reshape(-1)
        if step > 1:
            part = Tally(thinned=1)
            part._count(flat[::step].float(), edges, scale)
            self.merge(part, step)
            self.largest = max(self.largest, _largest(flat) / scale)
            return
        for piece in flat.split(_PIECE if found.is_cpu else max(found.numel(), 1)):
            self._count(piece.float(), edges, scale)

    def _count(self, flat: Tensor, edges: Edges, scale: float) -> None:
        shift = round(math.log2(scale)) if scale > 0 else 0
        # The sign leaves by the top when the shifted bits become a byte.
        fields = flat.view(torch.int32).bitwise_right_shift(23).to(torch.uint8)
        counts = torch.bincount(fields, minlength=256).tolist()
        zeros = flat.numel() - int(torch.count_nonzero(flat)) if counts[0] else 0
        nans = int(torch.count_nonzero(torch.isnan(flat))) if counts[255] else 0
        self.zeros += zeros
        self.nans += nans
        self.infs += counts[255] - nans
        counts[0] -= zeros
        for place, count in enumerate(counts[:255]):
            if count:
                self.exponents[place - _BIAS - shift] += count
        self._judge(_Sizes(flat, counts, zeros), edges, 2.0**shift)
        finite = flat[torch.isfinite(flat)] if counts[255] else flat
        self.largest = max(self.largest, _largest(finite) / scale)

    def _judge(self, sizes: _Sizes, edges: Edges, scale: float) -> None:
        """Count the three fates."""
        lost = sizes.below(edges.zero * scale, inclusive=True)
        self.underflow += lost
        self.subnormal += sizes.below(edges.normal * scale, inclusive=False) - lost
        kept = sizes.below(edges.overflow * scale, inclusive=edges.beyond)
        self.overflow += sum(sizes.counts[:255]) - kept

    def merge(self, other: Tally, times: int = 1) -> None:
        """Add what another tally has counted, each number of it so many times."""
        for exponent, count in other.exponents.items():
            self.exponents[exponent] += times * count
        for name in ("zeros", "infs", "nans", "underflow", "subnormal", "overflow"):
            setattr(self, name, getattr(self, name) + times * getattr(other, name))
        self.samples += other.samples
        self.thinned += other.thinned
        self.largest = max(self.largest, other.largest)
        self.dtypes |= other.dtypes


class _Sizes:
    """Magnitudes, to be compared with an edge. Most edges have nothing near: then no number is
    read, and the counts by power of two tell."""

    def __init__(self, flat: Tensor, counts: list[int], zeros: int) -> None:
        self.counts = counts
        self._flat, self._zeros = flat, zeros

    @functools.cached_property
    def _sizes(self) -> Tensor:
        return self._flat.abs()

    def below(self, edge: float, *, inclusive: bool) -> int:
        """How many finite, non-zero numbers have a magnitude below an edge, or at it."""
        place = min(max(math.frexp(edge)[1] - 1 + _BIAS, 0), 255)
        if place == 255 or not self.counts[place]:
            return sum(self.counts[:place])
        inside = self._sizes <= edge if inclusive else self._sizes < edge
        return int(torch.count_nonzero(inside)) - self._zeros


def _largest(flat: Tensor) -> float:
    if not flat.numel():
        return 0.0
    low, high = torch.aminmax(flat)
    return max(-float(low), float(high))


def _step(tensor: Tensor, overflow: float) -> int:
    """Count one number in so many of a large tensor; 1 if something in it overflows."""
    if not _largest(tensor) < overflow / 2:  # NaN too; the scale was rounded to a power of two
        return 1
    least = tensor.numel() / MOST
    return next((s for s in _STEPS if s >= least and all(n % s for n in tensor.shape)), 8191)


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
