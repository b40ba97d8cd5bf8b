"""What autograd keeps for the backward pass, in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from amp_lessons.amp.fake_tensors.ops import storage_id


class SavedBytes:
    """Bytes that autograd keeps for backward: each storage once, the model's own left out.

    Args:
        model: whose parameters and buffers are not counted.
        heard: called with each tensor that brings a new storage, and its bytes.

    Attributes:
        sizes: bytes of each storage that was saved, by its identity.
    """

    def __init__(
        self, model: nn.Module, heard: Callable[[Tensor, int], None] | None = None
    ) -> None:
        self.sizes: dict[int, int] = {}
        self._heard = heard
        self._own = {storage_id(tensor) for tensor in (*model.parameters(), *model.buffers())}
        self._storages: list[Any] = []

    @property
    def total(self) -> int:
        return sum(self.sizes.values())

    def add(self, tensor: Tensor) -> Tensor:
        """Count a tensor, unless its storage was counted before or is the model's."""
        if tensor.layout is not torch.strided:  # no single storage to count
            return tensor.detach()
        key, storage = storage_id(tensor), tensor.untyped_storage()
        if key not in self._own and key not in self.sizes:
            count = storage.nbytes()
            self.sizes[key] = count if isinstance(count, int) else 0  # a size nobody knows
            self._storages.append(storage)  # while it lives, no other storage can have its key
            if self._heard is not None:
                self._heard(tensor, self.sizes[key])
        if not (tensor.is_floating_point() or tensor.is_complex()):
            return tensor  # a real one stays real: a packed sequence's sizes are read in C++
        return tensor.detach()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what is saved while this is open."""
        with torch.autograd.graph.saved_tensors_hooks(self.add, lambda tensor: tensor):
            yield
        self._storages.clear()
