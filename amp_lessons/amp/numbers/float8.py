"""FP8 by hand: a tensor times its scale, rounded to a grid of 256 numbers.

This is what FP8 training does around each matmul, with the arithmetic of `formats` so that it can
be looked at. There are no FP8 tensor cores here: the products are formed in float32. The
conventions are torchao's: a scale multiplies *before* the cast, so that the largest magnitude lands
on the format's largest number.

Sources: FP8 Formats for Deep Learning (arXiv 2209.05433); torchao's ``torchao.float8``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import torch
from torch import Tensor

from amp_lessons.amp.numbers.formats import FP8_E4M3, Format


def scale_for(amax: Tensor, format: Format = FP8_E4M3) -> Tensor:
    """The scale that brings a largest magnitude to the format's own.

    Args:
        amax: largest magnitudes, float32, any shape; a tensor of zeros has amax 0 and scale 1.
        format: the target.

    Returns:
        Scales of the shape of ``amax``, float32, finite; NaN for NaN.
    """
    amax = amax.float()
    # A number over a tensor is computed as the number times a reciprocal, and rounds twice.
    scale = torch.full_like(amax, format.max) / amax
    return torch.where(amax == 0, 1.0, scale.clamp(max=torch.finfo(torch.float32).max))


def quantise(tensor: Tensor, scale: Tensor | float, format: Format = FP8_E4M3) -> Tensor:
    """Multiply, round to the format, and saturate.

    Args:
        tensor: any float dtype and shape.
        scale: one for all, or one that broadcasts, such as one a row.
        format: the target.

    Returns:
        float32, of the same shape, with numbers of the format only. Divide by the scale to come
        back.
    """
    return format.round(tensor.float() * scale, saturate=True)


def float8_matmul(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor | float,
    scale_b: Tensor | float,
    format: Format = FP8_E4M3,
) -> Tensor:
    """The product of two quantised matrices, (m, k) and (k, n), added up in float32.

    The scales are divided out of the result, once, and not of the inputs.
    """
    return (quantise(a, scale_a, format) @ quantise(b, scale_b, format)) / (scale_a * scale_b)


def relative_error(result: Tensor, exact: Tensor) -> float:
    """The norm of the difference over the norm of what is exact."""
    return ((result.double() - exact.double()).norm() / exact.double().norm()).item()


class DelayedScale:
    """A scale from the largest magnitudes of the last tensors, known before the next one is.

    Args:
        length: how many magnitudes to remember.
        format: the target.

    Raises:
        ValueError: if ``length`` is not a whole number of 1 or more.
    """

    def __init__(self, length: int = 16, format: Format = FP8_E4M3) -> None:
        if not isinstance(length, int) or length < 1:
            raise ValueError(f"length must be a whole number, 1 or more, got {length!r}")
        self.history: deque[Tensor] = deque(maxlen=length)
        self.format = format

    def next(self, tensor: Tensor) -> Tensor:
        """The scale for this tensor, from those before it; 1 for the first. Then remember it."""
        past = torch.stack(list(self.history)).max() if self.history else torch.zeros(())
        self.history.append(tensor.abs().max())
        return scale_for(past, self.format)


def errors_by_scale(
    weights: Tensor, inputs: Tensor, exponents: Iterable[int], format: Format = FP8_E4M3
) -> list[float]:
    """The relative error of ``weights @ inputs`` in FP8, for scales of the weights that are wrong.

    Args:
        weights, inputs: of shapes (m, k) and (k, n).
        exponents: the weights' scale is off by these powers of two. The inputs' scale is right.
        format: of both.
    """
    exact = weights.double() @ inputs.double()
    right = scale_for(weights.abs().max(), format), scale_for(inputs.abs().max(), format)
    return [
        relative_error(
            float8_matmul(weights, inputs, right[0] * 2.0**exponent, right[1], format), exact
        )
        for exponent in exponents
    ]
