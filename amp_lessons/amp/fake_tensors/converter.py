"""The double of a tensor: a fake one on a device, or a real copy on the CPU.

One tensor has one double, however often it is met, and views of one storage stay views of one: a
copy that lost this would be cast twice where the model's tensor is cast once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from amp_lessons.amp.fake_tensors.errors import CANNOT_FOLLOW, TraceError
from amp_lessons.amp.fake_tensors.known import learn


class TensorConverter:
    """Makes doubles, each tensor's once.

    Args:
        tensors: all that will be doubled: those that share a storage go on sharing one.
        mode: of the fake tensors; None for real copies on the CPU.
        floats: the dtype that tensors of floating point get, as by ``.to(floats)``.
        values: whether a fake also knows the values of a tensor of floating point.
    """

    def __init__(
        self,
        tensors: Iterable[Tensor] = (),
        mode: FakeTensorMode | None = None,
        floats: torch.dtype | None = None,
        values: bool = False,
    ) -> None:
        self.mode, self.floats, self.values = mode, floats, values
        self.made: dict[int, Tensor] = {}
        self._storages: dict[tuple[int, str], Any] = {}
        users: dict[int, set[int]] = {}
        for tensor in tensors:
            if _has_storage(tensor):
                users.setdefault(tensor.untyped_storage()._cdata, set()).add(id(tensor))
        self._shared = {storage for storage, ids in users.items() if len(ids) > 1}

    def __call__(self, tensor: Tensor, device: str) -> Tensor:
        """The tensor's double: its shape, strides, dtype, `requires_grad`; a parameter stays one.

        Raises:
            TraceError: for a sparse or nested tensor that must become a fake.
        """
        if id(tensor) not in self.made:
            self.made[id(tensor)] = self._make(tensor, device)
        return self.made[id(tensor)]

    def _make(self, tensor: Tensor, device: str) -> Tensor:
        double = self._copy(tensor) if self.mode is None else self._fake(tensor, device)
        if isinstance(tensor, nn.Parameter):
            double = nn.Parameter(double, requires_grad=tensor.requires_grad)
        else:
            double.requires_grad_(tensor.requires_grad)
        if self.mode is not None and double.dtype == tensor.dtype:
            learn(double, tensor, self.values)
        return double

    def _copy(self, tensor: Tensor) -> Tensor:
        """A real copy on the CPU."""
        with torch.no_grad(), _disable_current_modes():
            if not _has_storage(tensor):
                return tensor.detach().to("cpu", copy=True)
            key = tensor.untyped_storage()._cdata
            if key not in self._shared:
                copied = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
                return copied.copy_(tensor.detach())
            if (key, "cpu") not in self._storages:
                flat = torch.empty(0, dtype=torch.uint8, device=tensor.device)
                flat.set_(tensor.untyped_storage())
                self._storages[key, "cpu"] = flat.to("cpu", copy=True).untyped_storage()
            empty = torch.empty(0, dtype=tensor.dtype)
            return empty.set_(
                self._storages[key, "cpu"], tensor.storage_offset(), tensor.shape, tensor.stride()
            )

    def _fake(self, tensor: Tensor, device: str) -> Tensor:
        if not _has_storage(tensor):
            raise TraceError(
                f"a {tensor.layout} tensor cannot be traced; use a dense one", kind=CANNOT_FOLLOW
            )
        convert = self.floats is not None and tensor.is_floating_point()
        dtype = self.floats if convert and self.floats is not None else tensor.dtype
        place = torch.device("cuda", 0) if device == "cuda" else torch.device(device)
        with _disable_current_modes(), torch.device("meta"):
            meta = self._meta(tensor, dtype, device)
            return FakeTensor(self.mode, meta, place)

    def _meta(self, tensor: Tensor, dtype: torch.dtype, device: str) -> Tensor:
        shape, strides = tuple(tensor.shape), tensor.stride()
        key = tensor.untyped_storage()._cdata
        if key not in self._shared or dtype != tensor.dtype:
            return torch.empty_strided(shape, strides, dtype=dtype)
        if (key, device) not in self._storages:
            whole = torch.empty(tensor.untyped_storage().nbytes(), dtype=torch.uint8)
            self._storages[key, device] = whole.untyped_storage()
        empty = torch.empty(0, dtype=dtype)
        return empty.set_(self._storages[key, device], tensor.storage_offset(), shape, strides)


def _has_storage(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_nested
