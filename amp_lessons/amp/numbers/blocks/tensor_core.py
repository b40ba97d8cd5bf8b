"""How Hopper's tensor cores add up FP8 products, simulated.

Sources: DeepSeek-V3 (arXiv 2412.19437), sections 3.3.2 and 3.5.2, which reports about 14 bits and
adds the sum to one in FP32 every 128 products; MMA-Sim (arXiv 2511.10909), whose authors compared
this arithmetic with an H100 bit by bit. NVIDIA doesn't document it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from amp_lessons.amp.numbers.blocks.scales import floor_log2, power_of_two
from amp_lessons.amp.numbers.formats import Format


@dataclass(frozen=True)
class Accumulator:
    """A sum that keeps few bits, and is added to one in FP32 now and then.

    Args:
        bits: significant bits of the sum. While products are added to it, all of them are cut off
            below the last bit of whatever has the largest exponent.
        at_once: how many products one instruction adds.
        promote: after how many products the sum is added to one in FP32 and starts again at 0.
            None if it never is.
    """

    bits: int = 14
    at_once: int = 32
    promote: int | None = 128

    def add_up(self, a: Tensor, b: Tensor, formats: tuple[Format, Format]) -> Tensor:
        """The product of two matrices of elements, (m, k) and (k, n), with no promotion.

        Args:
            formats: of the elements of ``a`` and of ``b``.
        """
        total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64)
        for start in range(0, a.shape[1], self.at_once):
            now = slice(start, start + self.at_once)
            left, right = a[:, now, None].double(), b[None, now].double()
            exponents = _exponent(left, formats[0]) + _exponent(right, formats[1])
            largest = torch.maximum(exponents.amax(1), floor_log2(total))
            products = self._cut(left * right, largest[:, None])
            total = products.sum(1) + self._cut(total, largest)
            total = self._cut(total, floor_log2(total))
        return total.float()

    def _cut(self, values: Tensor, exponent: Tensor) -> Tensor:
        """Drop the bits that a number with this exponent doesn't keep: towards zero."""
        last_bit = power_of_two(exponent.clamp(min=-500) - self.bits + 1)
        return (values / last_bit).trunc() * last_bit


def _exponent(elements: Tensor, element: Format) -> Tensor:
    """The exponent that is stored: subnormals share that of the smallest normal number."""
    exponent = floor_log2(elements.abs())
    return torch.where(elements == 0, exponent, exponent.clamp(min=element.min_exponent))
