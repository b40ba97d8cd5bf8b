"""Numbers in a block-scaled format: small elements, and a scale for each block of them.

    q = quantize_blocks(weights, NVFP4)
    q.elements, q.scales, q.tensor_scale      # what a GPU stores
    q.dequantize()                            # what is left of the weights

    block_matmul(quantize_blocks(x, MXFP8), quantize_blocks(weights, MXFP8).T)

Nothing is packed into bits here: elements and scales are float32 tensors that hold numbers of their
formats only. `Format.encode` gives the bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

import torch
from torch import Tensor
from torch.nn.functional import pad

from amp_lessons.amp.numbers.blocks.scales import (
    Arithmetic,
    E4M3Scale,
    E8M0Scale,
    FixedScale,
    FP32Scale,
    floor_log2,
    power_of_two,
)
from amp_lessons.amp.numbers.blocks.tensor_core import Accumulator
from amp_lessons.amp.numbers.formats import (
    FP4_E2M1,
    FP6_E2M3,
    FP6_E3M2,
    FP8_E4M3,
    FP8_E5M2,
    Format,
)


class ElementRounding(Enum):
    """How a scaled number becomes an element."""

    NEAREST_EVEN = "to the nearest, ties to the even mantissa"
    STOCHASTIC = "up or down, with odds such that the mean is right"


@dataclass(frozen=True)
class BlockFormat:
    """A block-scaled format: its elements, its blocks, and how it scales them.

    Args:
        name: what learners call it.
        element: the format of the elements.
        block: rows and columns of a block; None for all that there are.
        scale: the format of the scales, and how they are computed.
        rounding: of the elements.
        saturate: whether an element that overflows becomes the largest number. Otherwise it
            follows the format's own rule; FP6 and FP4 saturate in any case.
    """

    name: str
    element: Format
    block: tuple[int | None, int | None]
    scale: E8M0Scale | E4M3Scale | FP32Scale | FixedScale
    rounding: ElementRounding = ElementRounding.NEAREST_EVEN
    saturate: bool = True

    @property
    def bits(self) -> float:
        """Bits for a number, with its share of the block's scale: 4.5 for NVFP4."""
        rows, columns = self.block
        numbers = math.inf if rows is None or columns is None else rows * columns
        return self.element.bits + self.scale.bits / numbers


MXFP8 = BlockFormat("MXFP8", FP8_E4M3, (1, 32), E8M0Scale())
MXFP8_E5M2 = replace(MXFP8, name="MXFP8 E5M2", element=FP8_E5M2)
MXFP6_E2M3 = replace(MXFP8, name="MXFP6 E2M3", element=FP6_E2M3)
MXFP6_E3M2 = replace(MXFP8, name="MXFP6 E3M2", element=FP6_E3M2)
MXFP4 = replace(MXFP8, name="MXFP4", element=FP4_E2M1)
NVFP4 = BlockFormat("NVFP4", FP4_E2M1, (1, 16), E4M3Scale())
FP8_TENSORWISE = BlockFormat("FP8 tensor-wise", FP8_E4M3, (None, None), FP32Scale())
FP8_TENSORWISE_E5M2 = replace(FP8_TENSORWISE, name="FP8 tensor-wise E5M2", element=FP8_E5M2)
FP8_ROWWISE = BlockFormat("FP8 row-wise", FP8_E4M3, (1, None), FP32Scale())
# As DeepSeek-V3 has them: the first for activations and gradients, the second for weights.
FP8_1X128 = BlockFormat("FP8 1x128", FP8_E4M3, (1, 128), FP32Scale(Arithmetic.DIVIDE, 1e-4))
FP8_128X128 = replace(FP8_1X128, name="FP8 128x128", block=(128, 128))


@dataclass(frozen=True)
class BlockTensor:
    """A matrix in a block-scaled format.

    Args:
        elements: numbers of the element format, in the shape of the matrix.
        scales: one for each block, in rows and columns of blocks.
        tensor_scale: the second scale, a scalar; 1 in formats that have none.
        block: rows and columns of a block.
        element: the format of the elements.
    """

    elements: Tensor
    scales: Tensor
    tensor_scale: Tensor
    block: tuple[int, int]
    element: Format

    def dequantize(self) -> Tensor:
        """The numbers that are left, in float32."""
        scales = self.tensor_scale * self.scales
        return self.elements * _spread(scales, self.block, self.elements.shape)

    @property
    def T(self) -> BlockTensor:
        """The transpose: the same numbers, so a row of blocks becomes a column of them."""
        rows, columns = self.block
        return replace(self, elements=self.elements.T, scales=self.scales.T, block=(columns, rows))


def quantize_blocks(
    matrix: Tensor, format: BlockFormat, generator: torch.Generator | None = None
) -> BlockTensor:
    """Find the scale of each block, scale its numbers, and round them.

    Args:
        matrix: any float dtype, of shape (m, k). If blocks don't fit, the last ones are smaller.
        format: such as `MXFP8` or `NVFP4`, or one of them with `dataclasses.replace`.
        generator: for stochastic rounding.

    Raises:
        ValueError: if it isn't a matrix.
    """
    if matrix.ndim != 2:
        raise ValueError(f"blocks are cut from a matrix, got the shape {tuple(matrix.shape)}")
    matrix = matrix.detach().float()
    rows, columns = (size or whole for size, whole in zip(format.block, matrix.shape, strict=True))
    block = (rows, columns)
    amax = _amax(matrix, block)
    scales = format.scale.of(amax, amax.max(), format.element)
    factor = _spread(scales.factor, block, matrix.shape)
    scaled = matrix / factor if scales.divide else matrix * factor
    elements = round_elements(scaled, format, generator)
    return BlockTensor(elements, scales.blocks, scales.tensor, block, format.element)


def round_elements(
    scaled: Tensor, format: BlockFormat, generator: torch.Generator | None = None
) -> Tensor:
    """Numbers of the element format, once they are scaled."""
    element = format.element
    if format.rounding is ElementRounding.STOCHASTIC:
        scaled = _round_stochastically(scaled, element, generator)
    elements = element.round(scaled, saturate=format.saturate)
    return elements if element.has_nan else elements.nan_to_num(0.0)  # their scale is NaN


def _round_stochastically(
    values: Tensor, element: Format, generator: torch.Generator | None
) -> Tensor:
    """One of the two neighbours: the upper one as often as the value is close to it."""
    exponent = floor_log2(values.abs()).clamp(min=element.min_exponent)
    ulp = power_of_two(exponent - element.mantissa_bits).float()
    steps = values / ulp
    below = steps.floor()
    up = torch.rand(values.shape, generator=generator) < steps - below
    return (below + up) * ulp


def block_matmul(a: BlockTensor, b: BlockTensor, accumulator: Accumulator | None = None) -> Tensor:
    """The product of two matrices in block-scaled formats, (m, k) and (k, n), in float32.

    Args:
        a: with blocks along its rows.
        b: with blocks along its columns: the `BlockTensor.T` of a quantised transpose.
        accumulator: how the products are added up; in float32 by default.

    Raises:
        ValueError: if the blocks of ``a`` and ``b`` don't cut k in the same places, or the
            accumulator's promotion falls inside a block.
    """
    along, k = a.block[1], a.elements.shape[1]
    if along != b.block[0] or along == 1 < k:
        raise ValueError(
            "both scales must hold along k, the dimension that is summed over, and the blocks "
            f"are of {a.block} and {b.block}: quantize b's transpose, and take its .T"
        )
    if accumulator is None:
        return a.dequantize() @ b.dequantize()
    step = min(accumulator.promote or along, k)
    if along < k and along % step:
        raise ValueError(f"the sum is promoted every {step} products, in blocks of {along}")
    formats = a.element, b.element
    total = torch.zeros(a.elements.shape[0], b.elements.shape[1])
    for start in range(0, k, step):
        part = slice(start, start + step)
        partial = accumulator.add_up(a.elements[:, part], b.elements[part], formats)
        left = _spread(a.scales[:, [start // along]], (a.block[0], 1), (len(total), 1))
        right = _spread(b.scales[[start // along]], (1, b.block[1]), (1, total.shape[1]))
        total += partial * left * right
    return total * a.tensor_scale * b.tensor_scale


# ---- cutting into blocks ------------------------------------------------------------------------


def _amax(matrix: Tensor, block: tuple[int, int]) -> Tensor:
    """The largest magnitude of each block; NaN where there is one."""
    rows, columns = block
    m, k = matrix.shape
    whole = pad(matrix.abs(), (0, -k % columns, 0, -m % rows))
    return whole.unflatten(1, (-1, columns)).unflatten(0, (-1, rows)).amax((1, 3))


def _spread(scales: Tensor, block: tuple[int, int], shape: torch.Size | tuple[int, int]) -> Tensor:
    """Each block's scale at each of its numbers; one that all share is left to broadcast."""
    for dimension, (size, whole) in enumerate(zip(block, shape, strict=True)):
        if scales.shape[dimension] > 1:
            scales = scales.repeat_interleave(size, dimension).narrow(dimension, 0, whole)
    return scales
