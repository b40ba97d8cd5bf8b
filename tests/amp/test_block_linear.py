"""Linear layers in block-scaled formats: three products, each scaled along its own sum."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from amp_lessons.amp.numbers import (
    BLOCKWISE,
    FP8_E4M3,
    FP8_TENSORWISE,
    MXFP8,
    NVFP4,
    ROWWISE,
    TENSORWISE,
    BlockFormat,
    BlockLinear,
    ElementRounding,
    FixedScale,
    Recipe,
    block_matmul,
    in_block_format,
    quantize_blocks,
    relative_error,
)

NOTHING = Recipe("nothing", None, None, None)
MX = Recipe("MXFP8", MXFP8, MXFP8, MXFP8)
EACH = pytest.mark.parametrize("recipe", [TENSORWISE, ROWWISE, BLOCKWISE, MX], ids=lambda r: r.name)


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def through(recipe: Recipe, x: torch.Tensor, back: torch.Tensor, width: int = 96):
    """A layer's output, and the gradients of its input and its parameters."""
    torch.manual_seed(0)
    layer = BlockLinear(nn.Linear(x.shape[-1], width), recipe)
    x = x.clone().requires_grad_()
    y = layer(x)
    y.backward(back)
    return layer, y.detach(), x.grad, layer.weight.grad, layer.bias.grad


def test_with_nothing_quantised_it_is_linear():
    x, back = randn(48, 64), randn(48, 96, seed=1)
    layer, *ours = through(NOTHING, x, back)
    x = x.requires_grad_()
    layer.weight.grad = layer.bias.grad = None
    y = nn.functional.linear(x, layer.weight, layer.bias)
    y.backward(back)
    for mine, exact in zip(ours, (y, x.grad, layer.weight.grad, layer.bias.grad), strict=True):
        torch.testing.assert_close(mine, exact)


@EACH
def test_each_product_is_one_of_blocks_along_its_own_sum(recipe):
    x, back = randn(160, 64), randn(160, 96, seed=1)
    layer, y, for_x, for_weight, for_bias = through(recipe, x, back)
    weight = layer.weight.detach()

    def product(a, a_format, b, b_format):
        return block_matmul(quantize_blocks(a, a_format), quantize_blocks(b, b_format).T)

    exactly = {"rtol": 1e-6, "atol": 1e-5}
    forward = product(x, recipe.inputs, weight, recipe.weights) + layer.bias
    torch.testing.assert_close(y, forward.detach(), **exactly)
    torch.testing.assert_close(
        for_x, product(back, recipe.gradients, weight.T, recipe.weights), **exactly
    )
    torch.testing.assert_close(
        for_weight, product(back.T, recipe.gradients, x.T, recipe.inputs), **exactly
    )
    torch.testing.assert_close(for_bias, back.sum(0))


@EACH
def test_all_gradients_are_off_by_a_few_percent(recipe):
    x, back = randn(160, 64), randn(160, 96, seed=1)
    _, *ours = through(recipe, x, back)
    _, *exact = through(NOTHING, x, back)
    errors = [relative_error(a, b) for a, b in zip(ours, exact, strict=True)]
    assert all(0.005 < error < 0.09 for error in errors[:3]), errors


def test_only_what_the_recipe_names_is_quantised():
    x, back = randn(32, 64), randn(32, 96, seed=1)
    _, *exact = through(NOTHING, x, back)
    touched = {
        "inputs": (True, False, True),
        "weights": (True, True, False),
        "gradients": (False, True, True),
    }
    for name, expected in touched.items():
        _, *ours = through(replace(NOTHING, **{name: FP8_TENSORWISE}), x, back)
        pairs = zip(ours[:3], exact[:3], strict=True)
        assert tuple(relative_error(a, b) > 1e-3 for a, b in pairs) == expected, name


def test_no_scale_at_all_is_a_plain_cast():
    plain = BlockFormat("plain", FP8_E4M3, (None, None), FixedScale())
    x = randn(32, 64) * 30
    x[0, 0] = 1000.0
    found = quantize_blocks(x, plain).dequantize()
    assert torch.equal(found, x.to(torch.float8_e4m3fn).float())
    shifted = replace(plain, scale=FixedScale(2.0**-4))
    assert quantize_blocks(x, shifted).dequantize()[0, 0] == 1024.0
    assert plain.bits == 8


def test_hadamard_spreads_an_outlier_in_the_weights_gradient_alone():
    """A few rows of the batch have an outlier each; NVFP4 loses their blocks without it."""
    x, back = randn(64, 64), randn(64, 96, seed=1)
    x[::16] *= 50.0
    four_bits = Recipe("NVFP4", NVFP4, NVFP4, NVFP4)
    _, *exact = through(NOTHING, x, back)
    _, *plain = through(four_bits, x, back)
    _, *spread = through(replace(four_bits, hadamard=True), x, back)
    for number in (0, 1, 3):
        assert torch.equal(plain[number], spread[number])
    without, with_it = relative_error(plain[2], exact[2]), relative_error(spread[2], exact[2])
    assert with_it != without
    assert with_it < 0.25


def test_hadamard_changes_nothing_but_rounding_for_a_batch_of_any_size():
    x, back = randn(37, 64), randn(37, 96, seed=1)
    _, *exact = through(NOTHING, x, back)
    _, *ours = through(replace(NOTHING, hadamard=True), x, back)
    torch.testing.assert_close(ours[2], exact[2], rtol=1e-4, atol=1e-4)


def test_stochastic_gradients_follow_torchs_seed():
    format = replace(NVFP4, rounding=ElementRounding.STOCHASTIC)
    recipe = Recipe("stochastic", NVFP4, NVFP4, format)
    x, back = randn(32, 64), randn(32, 96, seed=1)
    first, again, other = (
        through(recipe, x, back if i < 2 else back.roll(1))[2] for i in range(3)
    )  # `through` sets the seed
    assert torch.equal(first, again)
    assert not torch.equal(first, other.roll(-1))


def test_any_leading_shape_and_a_frozen_input():
    layer = BlockLinear(nn.Linear(64, 8), BLOCKWISE)
    x = randn(2, 3, 5, 64)
    y = layer(x)
    assert y.shape == (2, 3, 5, 8)
    assert torch.equal(y, layer(x.flatten(0, 2)).unflatten(0, (2, 3, 5)))
    y.sum().backward()
    assert x.grad is None
    assert layer.weight.grad is not None


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32, bias=False))
        self.attention = nn.MultiheadAttention(32, 2)
        self.head = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def test_layers_are_replaced_in_place_and_keep_names_and_parameters():
    model = Net()
    before = {name: id(parameter) for name, parameter in model.named_parameters()}
    state = list(model.state_dict())
    assert in_block_format(model, TENSORWISE, keep={"head"}) is model
    assert {name: id(parameter) for name, parameter in model.named_parameters()} == before
    assert list(model.state_dict()) == state
    replaced = {n for n, m in model.named_modules() if isinstance(m, BlockLinear)}
    assert replaced == {"body.0", "body.2"}
    assert "FP8 tensor-wise" in repr(model)
    assert model(randn(5, 32)).shape == (5, 4)


def test_a_name_to_keep_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="no linear layer is called 'haed'"):
        in_block_format(Net(), TENSORWISE, keep={"haed"})
