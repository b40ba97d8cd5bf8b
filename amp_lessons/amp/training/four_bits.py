"""The painter trained in MXFP8, MXFP4 and NVFP4, and in NVFP4 with one ingredient left out.

A run takes some seconds, and lesson 14 compares 36, so it shows those that
`tools/record_four_bits.py` made. To add one, add a `Run` to `RUNS` and record again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import mse_loss

from amp_lessons.amp.numbers.blocks.linear import Recipe, in_block_format
from amp_lessons.amp.numbers.blocks.quantize import (
    MXFP4,
    MXFP8,
    NVFP4,
    BlockFormat,
    ElementRounding,
)
from amp_lessons.amp.numbers.blocks.scales import E4M3Scale, FixedScale, FP32Scale
from amp_lessons.amp.numbers.formats import BF16
from amp_lessons.amp.training.loops import autoencoder, load_digits

FILE = Path(__file__).with_name("four_bits.json")
STEPS, SEEDS = 150, (0, 1, 2)
BIG = 100_000_000
"""The loss is the summed squared error divided by this: the big pictures of lesson 00."""

IN_BF16 = BlockFormat("BF16", BF16, (None, None), FixedScale())
ONE_SCALE = BlockFormat("FP4, one scale", NVFP4.element, (None, None), FP32Scale())


@dataclass(frozen=True)
class Run:
    """One way to train.

    Attributes:
        name: in the figure.
        recipe: of the linear layers; None for FP32.
        last_in_bf16: whether the last layer stays in BF16.
    """

    name: str
    recipe: Recipe | None
    last_in_bf16: bool = False


def same(name: str, format: BlockFormat) -> Recipe:
    """A recipe with one format for inputs, weights and gradients."""
    return Recipe(name, format, format, format)


def stochastic(format: BlockFormat) -> BlockFormat:
    """The format with its elements rounded up or down at random."""
    return replace(format, rounding=ElementRounding.STOCHASTIC)


def square(format: BlockFormat) -> BlockFormat:
    """The format with blocks as high as they are wide."""
    return replace(format, block=(format.block[1], format.block[1]))


def one_level(format: BlockFormat) -> BlockFormat:
    """NVFP4 without the scale of the tensor."""
    return replace(format, scale=E4M3Scale(two_levels=False))


WHOLE = Recipe("NVFP4 recipe", NVFP4, square(NVFP4), stochastic(NVFP4), hadamard=True)
"""NVIDIA's pre-training recipe (arXiv 2509.25149, section 4)."""

RUNS = (
    Run("FP32", None),
    Run("BF16", same("BF16", IN_BF16)),
    Run("MXFP8", same("MXFP8", MXFP8)),
    Run("MXFP4", same("MXFP4", MXFP4)),
    Run("FP4, one scale for a tensor", same("FP4", ONE_SCALE)),
    Run("NVFP4, nothing else", same("NVFP4", NVFP4)),
    Run("NVFP4 recipe", WHOLE, last_in_bf16=True),
    Run("... nearest rounding", replace(WHOLE, gradients=NVFP4), last_in_bf16=True),
    Run("... no Hadamard", replace(WHOLE, hadamard=False), last_in_bf16=True),
    Run("... blocks of 1x16 for weights", replace(WHOLE, weights=NVFP4), last_in_bf16=True),
    Run("... last layer in NVFP4 too", WHOLE),
    Run(
        "... no second scale",
        replace(
            WHOLE,
            inputs=one_level(NVFP4),
            weights=one_level(square(NVFP4)),
            gradients=one_level(stochastic(NVFP4)),
        ),
        last_in_bf16=True,
    ),
)
"""What the lesson shows, in its order."""


def train(run: Run, seed: int, steps: int = STEPS) -> Iterator[float]:
    """Train the painter on 600 digits, as if they were big pictures.

    Args:
        run: how.
        seed: of the initial weights and of stochastic rounding.
        steps: how many.

    Yields:
        The error per pixel of each step, before its update.
    """
    model, pictures = autoencoder(seed), load_digits().train_images[:600]
    if run.recipe is not None:
        last = [name for name, part in model.named_modules() if isinstance(part, nn.Linear)][-1:]
        in_block_format(model, run.recipe, keep=last if run.last_in_bf16 else ())
        in_block_format(model, same("BF16", IN_BF16))  # what is left
    rate = BIG / pictures.numel()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in range(steps):
            optimizer.zero_grad()
            error = mse_loss(model(pictures), pictures, reduction="sum")
            (error / BIG).backward()
            optimizer.step()
            yield error.item() / pictures.numel()


@cache
def recorded() -> dict[str, Any]:
    """What `tools/record_four_bits.py` wrote: ``about`` and ``runs``, a list of curves by name."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found
