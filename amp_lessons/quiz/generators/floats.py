"""Rounding to a format in pure Python, for questions that are made without NumPy or torch.

`amp_lessons.amp.numbers.formats` is where the formats are explained, for arrays and with every bit;
the tests hold this module against it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Float:
    """A binary floating-point format.

    Args:
        name: as people say it, such as ``"FP16"``.
        dtype: as torch calls it.
        exponent_bits, mantissa_bits: stored bits.
        has_inf: whether numbers beyond the largest become inf. Otherwise they become the largest,
            as a cast to E4M3 does since PyTorch 2.13.
    """

    name: str
    dtype: str
    exponent_bits: int
    mantissa_bits: int
    has_inf: bool = True

    @property
    def a_number(self) -> str:
        """``an FP16 number``, ``a BF16 number``."""
        return f"{'a' if self.name == 'BF16' else 'an'} {self.name} number"

    @property
    def bias(self) -> int:
        return 2 ** (self.exponent_bits - 1) - 1

    @property
    def min_exponent(self) -> int:
        return 1 - self.bias

    @property
    def max(self) -> float:
        """The largest number."""
        if self.has_inf:
            return math.ldexp(2 - 2.0**-self.mantissa_bits, self.bias)
        return math.ldexp(2 - 2.0 ** (1 - self.mantissa_bits), self.bias + 1)

    @property
    def min_normal(self) -> float:
        return 2.0**self.min_exponent

    @property
    def tiny(self) -> float:
        """The smallest positive number."""
        return math.ldexp(1.0, self.min_exponent - self.mantissa_bits)

    @property
    def eps(self) -> float:
        """The gap at 1."""
        return 2.0**-self.mantissa_bits

    @property
    def first_inf(self) -> float:
        """From here on, numbers round to inf: half a gap above the largest."""
        return self.max + self.gap(self.max) / 2

    def gap(self, value: float) -> float:
        """From the numbers of this value's binade to the next larger ones."""
        exponent = math.frexp(abs(value))[1] - 1 if value else self.min_exponent
        return math.ldexp(1.0, max(exponent, self.min_exponent) - self.mantissa_bits)

    def round(self, value: float) -> float:
        """The nearest number of the format, ties to the even one."""
        if math.isnan(value) or value == 0:
            return value
        if math.isinf(value):
            return value if self.has_inf else math.copysign(self.max, value)
        gap = self.gap(value)
        rounded = round(value / gap) * gap  # Python's round takes ties to even; the rest is exact
        if abs(rounded) > self.max:
            rounded = math.copysign(math.inf if self.has_inf else self.max, value)
        return rounded

    def below(self, value: float) -> float:
        """The largest number that is not above a positive value."""
        gap = self.gap(value)
        return min(math.floor(value / gap) * gap, self.max)

    def above(self, value: float) -> float:
        """The smallest number that is above a positive value."""
        return self.below(value) + self.gap(value)


FP32 = Float("FP32", "torch.float32", 8, 23)
FP16 = Float("FP16", "torch.float16", 5, 10)
BF16 = Float("BF16", "torch.bfloat16", 8, 7)
E4M3 = Float("E4M3", "torch.float8_e4m3fn", 4, 3, has_inf=False)
E5M2 = Float("E5M2", "torch.float8_e5m2", 5, 2)
