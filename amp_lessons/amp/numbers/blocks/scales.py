"""The scale of a block, from the largest magnitude in it.

Libraries agree on the idea and not on every bit. Where they differ, there is an option with a name.

Sources: OCP Microscaling Formats (MX) Specification 1.0, section 6.3 (E8M0); torchao 0.18
(``prototype/mx_formats``, ``float8``); NVIDIA Transformer Engine (``reference_nvfp4.py``,
``ptx.cuh``, ``quantize_scale_calc.py``); Pretraining Large Language Models with NVFP4 (arXiv
2509.25149); DeepSeek-V3 (arXiv 2412.19437, ``inference/kernel.py``); DeepGEMM (``utils/math.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from amp_lessons.amp.numbers.float8 import scale_for
from amp_lessons.amp.numbers.formats import FP8_E4M3, Format


class Scales(NamedTuple):
    """What is stored beside the elements, and what to do before they are rounded.

    A number is stored as ``element * blocks * tensor``. All are float32.
    """

    blocks: Tensor
    """One for each block."""
    tensor: Tensor
    """The second scale, one for the whole tensor; 1 in formats that have none."""
    factor: Tensor
    """What a block's numbers are multiplied by, or divided by."""
    divide: bool = False


class ScaleRounding(Enum):
    """How a block's largest magnitude, amax, becomes a power of two.

    ``max`` is the largest number of the element format, and ``emax`` its exponent: 448 and 8 for
    E4M3, 6 and 2 for E2M1.
    """

    FLOOR = "2**(floor(log2(amax)) - emax)"
    """OCP MX 1.0, section 6.3. An amax between max and 2**(emax + 1) saturates."""
    CEIL = "2**(ceil(log2(amax)) - emax)"
    """torchao's CEIL: nothing saturates, and up to one exponent is given away."""
    RCEIL = "2**ceil(log2(amax / max))"
    """The smallest power of two with which nothing saturates: cuBLAS, Transformer Engine."""
    EVEN = "2**(floor(log2(round(amax))) - emax)"
    """torchao's EVEN: FLOOR, once amax is rounded to the element's mantissa, ties up."""


@dataclass(frozen=True)
class E8M0Scale:
    """A power of two in 8 bits, 2**-127 to 2**127 or NaN: the scale of MX formats.

    A block of zeros has 2**-127. A NaN makes the scale NaN, and with it the whole block.

    Args:
        rounding: how amax becomes a power of two.
        nan_for_inf: whether an inf makes the whole block NaN, as in torchao since August 2026.
            By default (torchao 0.18, Transformer Engine) the inf saturates.
    """

    bits: ClassVar[int] = 8
    rounding: ScaleRounding = ScaleRounding.FLOOR
    nan_for_inf: bool = False

    def of(self, amax: Tensor, tensor_amax: Tensor, element: Format) -> Scales:
        """The scales for blocks with these largest magnitudes, in the format of the elements."""
        emax = element.max_exponent
        match self.rounding:
            case ScaleRounding.FLOOR:
                exponent = floor_log2(amax) - emax
            case ScaleRounding.CEIL:
                exponent = ceil_log2(amax) - emax
            case ScaleRounding.RCEIL:
                exponent = ceil_log2(amax / element.max)
            case ScaleRounding.EVEN:
                half_ulp = power_of_two(floor_log2(amax) - element.mantissa_bits - 1)
                exponent = floor_log2(amax.double() + half_ulp) - emax
        scale = power_of_two(exponent.clamp(-127, 127)).float()
        is_nan = ~amax.isfinite() if self.nan_for_inf else amax.isnan()
        scale = torch.where(is_nan, torch.nan, scale)
        return Scales(scale, torch.ones_like(tensor_amax), scale, divide=True)


class Arithmetic(Enum):
    """In which order max, amax and x are divided: mathematically the same, and not to the bit."""

    MULTIPLY = "x * (max / amax)"
    """Transformer Engine; torchao's FP8."""
    DIVIDE = "x / (amax / max)"
    """DeepSeek-V3's kernel; torchao's NVFP4."""
    RECIPROCAL = "x * (1 / (amax / max))"
    """DeepGEMM."""


@dataclass(frozen=True)
class E4M3Scale:
    """An FP8 number for a block, and a second scale in FP32 for the tensor: NVFP4.

    The tensor's scale is amax / (6 * 448), so that the largest block's scale is 448.

    Args:
        two_levels: whether there is a scale for the tensor. Without it a block's scale is
            amax / 6, and blocks above 6 * 448 = 2688 saturate.
        smallest: the least that a block's scale may be: 0 in Transformer Engine, where small
            blocks get subnormal scales, and 2**-6, the smallest normal number, in torchao.
        arithmetic: MULTIPLY is Transformer Engine's and the paper's order, in which a tensor of
            zeros stays zero. DIVIDE is torchao's, in which it becomes NaN.
    """

    bits: ClassVar[int] = 8
    two_levels: bool = True
    smallest: float = 0.0
    arithmetic: Arithmetic = Arithmetic.MULTIPLY

    def of(self, amax: Tensor, tensor_amax: Tensor, element: Format) -> Scales:
        """The scales for blocks with these largest magnitudes, in the format of the elements."""
        largest = torch.finfo(torch.float32).max
        one = torch.ones_like(tensor_amax)
        if self.arithmetic is Arithmetic.MULTIPLY:
            up = (FP8_E4M3.max * element.max * one / tensor_amax).clamp(max=largest)
            up = torch.where(up == 0, 1.0, up) if self.two_levels else one
            down = 1 / up
            blocks = self._stored((amax * (up * (one / element.max))).clamp(max=largest))
            factor = (1 / (blocks * down)).clamp(max=largest)
        else:
            down = tensor_amax / (FP8_E4M3.max * element.max) if self.two_levels else one
            blocks = self._stored(amax / element.max / down)
            factor = 1 / down / blocks
        return Scales(blocks, down, factor)

    def _stored(self, scale: Tensor) -> Tensor:
        return FP8_E4M3.round(scale.clamp(self.smallest, FP8_E4M3.max))


@dataclass(frozen=True)
class FP32Scale:
    """A scale in FP32, for a tensor, a row, or blocks of 128: FP8 as on Hopper.

    Args:
        arithmetic: the order of the divisions.
        smallest_amax: what a smaller amax counts as: 1e-12 in torchao and 1e-4 in DeepSeek-V3. In
            Transformer Engine it is 0 by default, and a block of zeros has scale 1.
        power_of_two: whether the scale is rounded up to a power of two, which then fits E8M0.
    """

    bits: ClassVar[int] = 32
    arithmetic: Arithmetic = Arithmetic.MULTIPLY
    smallest_amax: float = 0.0
    power_of_two: bool = False

    def of(self, amax: Tensor, tensor_amax: Tensor, element: Format) -> Scales:
        """The scales for blocks with these largest magnitudes, in the format of the elements."""
        amax = amax.clamp(min=self.smallest_amax)
        if self.arithmetic is Arithmetic.MULTIPLY:
            up = scale_for(amax, element)
            up = power_of_two(floor_log2(up)).float() if self.power_of_two else up
            return Scales(1 / up, torch.ones_like(tensor_amax), up)
        down = amax / element.max
        down = power_of_two(ceil_log2(down)).float() if self.power_of_two else down
        divide = self.arithmetic is Arithmetic.DIVIDE
        return Scales(down, torch.ones_like(tensor_amax), down if divide else 1 / down, divide)


@dataclass(frozen=True)
class FixedScale:
    """The same scale whatever the numbers are: a plain cast with 1, or a loss scale.

    Args:
        up: what the numbers are multiplied by before they are rounded.
    """

    bits: ClassVar[int] = 0
    up: float = 1.0

    def of(self, amax: Tensor, tensor_amax: Tensor, element: Format) -> Scales:
        """The scales for blocks with these largest magnitudes, in the format of the elements."""
        up = torch.full_like(amax, self.up)
        return Scales(1 / up, torch.ones_like(tensor_amax), up)


# ---- exact powers of two ------------------------------------------------------------------------


def floor_log2(values: Tensor) -> Tensor:
    """The exponents of positive numbers, exactly. Zero gives -1000, and inf or NaN 128."""
    mantissa, exponent = torch.frexp(values.double())  # mantissa is in [0.5, 1)
    exponent = torch.where(mantissa == 0, -1000, exponent - 1)
    return torch.where(mantissa.isfinite(), exponent, 128)


def ceil_log2(values: Tensor) -> Tensor:
    """As `floor_log2`, and one more for what is not a power of two itself."""
    mantissa, _ = torch.frexp(values.double())
    return floor_log2(values) + ((mantissa > 0.5) & mantissa.isfinite()).int()


def power_of_two(exponent: Tensor) -> Tensor:
    """2**exponent, in float64."""
    return torch.ldexp(torch.ones_like(exponent, dtype=torch.float64), exponent)
