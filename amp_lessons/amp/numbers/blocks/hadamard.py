"""The random Hadamard transform: it spreads an outlier over its block.

Source: Pretraining Large Language Models with NVFP4 (arXiv 2509.25149): size 16, for the inputs of
the weight gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor


def hadamard(size: int = 16) -> Tensor:
    """The orthogonal matrix of entries ±1 / sqrt(size).

    Raises:
        ValueError: if ``size`` isn't a power of two.
    """
    if size < 1 or size & (size - 1):
        raise ValueError(f"size must be a power of two, got {size}")
    matrix = torch.ones(1, 1)
    while len(matrix) < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix / size**0.5


def random_hadamard(matrix: Tensor, signs: Tensor) -> Tensor:
    """Flip signs and transform, 16 numbers of a row at a time.

    If both inputs of a product are transformed along the dimension that is summed over, with the
    same signs, the product stays the same but for rounding.

    Args:
        matrix: of shape (m, k), where k is a multiple of 16.
        signs: 16 of them, 1 or -1.
    """
    transform = signs[:, None] * hadamard(len(signs))
    return (matrix.unflatten(-1, (-1, len(signs))) @ transform).flatten(-2)


def random_signs(size: int = 16, generator: torch.Generator | None = None) -> Tensor:
    """Ones and minus ones."""
    return torch.randint(2, (size,), generator=generator) * 2.0 - 1
