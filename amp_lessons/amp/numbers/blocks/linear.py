"""Linear layers that train in a block-scaled format, as a recipe says.

    model = in_block_format(model, Recipe("MXFP8", MXFP8, MXFP8, MXFP8))

A linear layer has three matrix products: one forward, one for the gradient of its input, and one
for the gradient of its weight. Each sums over another dimension. Scales must hold along that
dimension, so each of the three tensors is quantised twice, once in each direction. Parameters stay
as they are, and the sums are in float32.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from amp_lessons.amp.numbers.blocks.hadamard import random_hadamard, random_signs
from amp_lessons.amp.numbers.blocks.quantize import (
    FP8_ROWWISE,
    FP8_TENSORWISE,
    FP8_TENSORWISE_E5M2,
    BlockFormat,
    quantize_blocks,
)
from amp_lessons.amp.numbers.blocks.scales import FP32Scale
from amp_lessons.amp.numbers.formats import FP8_E4M3

Model = TypeVar("Model", bound=nn.Module)

SIGNS = random_signs(generator=torch.Generator().manual_seed(0))
"""Drawn once and used by all layers in all steps, as NVIDIA does (arXiv 2509.25149)."""


@dataclass(frozen=True)
class Recipe:
    """What a linear layer quantises, and to which format.

    Args:
        name: what learners call it.
        inputs: the format of the layer's input; None if it stays as it is.
        weights: the format of its weight, likewise.
        gradients: the format of the gradient that comes back from the next layer, likewise.
        hadamard: whether a random Hadamard transform spreads outliers before the product for the
            weight's gradient.
    """

    name: str
    inputs: BlockFormat | None
    weights: BlockFormat | None
    gradients: BlockFormat | None
    hadamard: bool = False


TENSORWISE = Recipe("FP8 tensor-wise", FP8_TENSORWISE, FP8_TENSORWISE, FP8_TENSORWISE_E5M2)
"""E4M3 forward and E5M2 for gradients, as in the paper that proposed both (arXiv 2209.05433)."""

_ROWS = replace(FP8_ROWWISE, scale=FP32Scale(smallest_amax=1e-12, power_of_two=True))
ROWWISE = Recipe(FP8_ROWWISE.name, _ROWS, _ROWS, _ROWS)
"""As torchao's ``rowwise``: E4M3 for all three, and powers of two as scales."""

_TILES = BlockFormat("FP8 1x128", FP8_E4M3, (1, 128), FP32Scale(power_of_two=True))
_SQUARES = replace(_TILES, name="FP8 128x128", block=(128, 128))
BLOCKWISE = Recipe("FP8 block-wise", _TILES, _SQUARES, _TILES)
"""As Transformer Engine's ``Float8BlockScaling``, after DeepSeek-V3 (arXiv 2412.19437): E4M3 for
all three. `FP8_1X128` can't train on tiny gradients: in DeepSeek's kernel for inference, an amax
counts as 1e-4 at least."""


class BlockLinear(nn.Linear):
    """A linear layer whose three matrix products take inputs in block-scaled formats.

    Args:
        layer: whose parameters it shares.
        recipe: which formats.
    """

    def __init__(self, layer: nn.Linear, recipe: Recipe) -> None:
        super().__init__(layer.in_features, layer.out_features, bias=False, device="meta")
        self.weight, self.bias = layer.weight, layer.bias
        self.recipe = recipe

    def forward(self, x: Tensor) -> Tensor:
        product = _Products.apply(x.flatten(0, -2), self.weight, self.recipe)
        return product.unflatten(0, x.shape[:-1]) + (0 if self.bias is None else self.bias)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, recipe={self.recipe.name!r}"


def in_block_format(model: Model, recipe: Recipe, keep: Collection[str] = ()) -> Model:
    """Replace each `nn.Linear` inside the model by a `BlockLinear` with the same parameters.

    Subclasses of `nn.Linear` stay: their forward is their own.

    Args:
        model: is changed and returned.
        recipe: for all layers that are replaced.
        keep: names of layers to leave as they are, as in `named_modules`.

    Raises:
        ValueError: if a name in ``keep`` isn't that of a linear layer, so that a typo is noticed.
    """
    linear = {name: part for name, part in model.named_modules() if type(part) is nn.Linear}
    if unknown := sorted({*keep} - linear.keys()):
        raise ValueError(f"no linear layer is called {unknown[0]!r}; there are {sorted(linear)}")
    for name in linear.keys() - {*keep}:
        model.set_submodule(name, BlockLinear(linear[name], recipe))
    return model


class _Products(torch.autograd.Function):
    """``x @ weight.T`` and the two products of its backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, recipe: Recipe) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.recipe = recipe
        return _rounded(x, recipe.inputs) @ _rounded(weight, recipe.weights).T

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), recipe = ctx.saved_tensors, ctx.recipe
        for_x = for_weight = None
        if ctx.needs_input_grad[0]:  # sums over the outputs
            for_x = _rounded(gradient, recipe.gradients) @ _rounded(weight.T, recipe.weights).T
        if ctx.needs_input_grad[1]:  # sums over the batch
            left, right = gradient.T, x.T
            if recipe.hadamard:
                left, right = _spread_out(left), _spread_out(right)
            for_weight = _rounded(left, recipe.gradients) @ _rounded(right, recipe.inputs).T
        return for_x, for_weight, None


def _rounded(matrix: Tensor, format: BlockFormat | None) -> Tensor:
    """What is left of a matrix; a row of blocks lies along its last dimension."""
    return matrix if format is None else quantize_blocks(matrix, format).dequantize()


def _spread_out(matrix: Tensor) -> Tensor:
    """Transformed along its last dimension, which zeros fill up to a multiple of 16."""
    return random_hadamard(pad(matrix, (0, -matrix.shape[-1] % len(SIGNS))), SIGNS)
