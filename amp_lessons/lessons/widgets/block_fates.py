"""What becomes of a block in each format of the block explorer, counted in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from amp_lessons.amp.numbers.blocks.quantize import (
    FP8_ROWWISE,
    MXFP4,
    MXFP8,
    NVFP4,
    BlockFormat,
    quantize_blocks,
)
from amp_lessons.amp.numbers.blocks.scales import E4M3Scale, E8M0Scale, ScaleRounding
from amp_lessons.amp.numbers.formats import Format

CLOSE = {"FP8": 0.06, "MXFP8": 0.06, "MXFP4": 0.2, "NVFP4": 0.2}
"""How far off rounding leaves a normal number at most, as a share of it."""


class Fates(NamedTuple):
    """How many of the numbers become 0, stay close or saturate; the rest are further off."""

    name: str
    scales: list[float]
    kept: list[float]
    zero: int
    close: int
    cut: int


def formats(rounding: str) -> dict[str, BlockFormat]:
    """The four formats by the names that the explorer has for them."""
    scale = E8M0Scale(ScaleRounding[rounding])
    return {
        "FP8": FP8_ROWWISE,
        "MXFP8": replace(MXFP8, scale=scale),
        "MXFP4": replace(MXFP4, scale=scale),
        "NVFP4": replace(NVFP4, scale=E4M3Scale(two_levels=False)),
    }


def larger(element: Format) -> Format:
    """The same format with larger numbers: what saturates in the one does not in the other."""
    exponent_bits = element.exponent_bits + 1
    return replace(element, exponent_bits=exponent_bits, has_inf=True, has_nan=True)


def fates(numbers: Sequence[float], marked: int, rounding: str) -> list[Fates]:
    """What each format makes of all numbers but the marked one."""
    block = torch.tensor([numbers])
    others = torch.arange(len(numbers)) != marked
    return [_fates(name, block, others, format) for name, format in formats(rounding).items()]


def _fates(name: str, block: torch.Tensor, others: torch.Tensor, format: BlockFormat) -> Fates:
    stored = quantize_blocks(block, format)
    kept = stored.dequantize()
    zero = (kept == 0) & (block != 0)
    scales = stored.scales.repeat_interleave(stored.block[1], 1)[:, : block.shape[1]]
    rounded = larger(format.element).round(block.double() / scales)
    cut = (rounded.abs() > format.element.max) & ~zero
    close = ((kept.double() - block).abs() <= CLOSE[name] * block.double().abs()) & ~zero & ~cut
    counts = [int((fate[0] & others).sum()) for fate in (zero, close, cut)]
    return Fates(name, stored.scales.flatten().tolist(), kept[0].tolist(), *counts)
