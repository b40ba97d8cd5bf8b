"""What the table knows about one model: how it is made, what goes in, and in which mode it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Built = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Model:
    """One line of the table.

    Attributes:
        name: of this line; a test's id.
        package: to import it from.
        kind: what is special about it, for the reader of the table.
        build: makes the module and its positional and keyword inputs.
        train, grad: the mode it runs in, and whether autograd is on.
        dtype: autocast's.
        gate: whether `make test` runs it; the others wait for `make test-long`.
    """

    name: str
    package: str
    kind: str
    build: Callable[[], Built]
    train: bool = True
    grad: bool = True
    dtype: torch.dtype = torch.bfloat16
    gate: bool = False


def ids(*shape: int, below: int = 96) -> Tensor:
    """Random token ids: int64 of this shape, from 1 (0 is often padding) to ``below`` - 1."""
    return torch.randint(1, below, shape)


def image(batch: int = 2, size: int = 32, channels: int = 3) -> Tensor:
    """A random batch of images, float32 [batch, channels, size, size]."""
    return torch.rand(batch, channels, size, size)
