"""Arithmetic that PyTorch has no function for."""

from __future__ import annotations

import torch


def rounded_at_random(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Round float32 numbers to bfloat16 at random: stochastic rounding.

    Each number goes to one of its two neighbours in bfloat16, and the closer one is more likely. So
    on average nothing is lost. A bfloat16 number stays as it is.

    Args:
        values: float32, finite, on a CPU.
        generator: gives the random numbers.
    """
    noise = torch.randint(0, 1 << 16, values.shape, generator=generator, dtype=torch.int32)
    bits = (values.contiguous().view(torch.int32) + noise) & ~0xFFFF
    return bits.view(torch.float32).bfloat16()


def rotated(vectors: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Vectors whose pairs of numbers are turned by angles, as rotary position embeddings do it.

    Number i and number i + n/2 of a vector are a pair. The rotation runs in float32, so an error of
    the result comes from the angles.

    Args:
        vectors: of shape (..., n).
        angles: in radians, of shape (..., n/2).
    """
    first, second = vectors.float().chunk(2, dim=-1)
    cos, sin = angles.float().cos(), angles.float().sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)
