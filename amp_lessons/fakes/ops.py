"""One op on fake tensors, with the results that a real kernel gives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

LOW = (torch.float16, torch.bfloat16)


def op_name(func: Any) -> str:
    """``aten::addmm`` as "addmm"."""
    return func._schema.name.partition("::")[2]


def run_op(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An op on fake tensors, with the results that a real kernel gives."""
    name = op_name(func)
    if name == "_thnn_fused_gru_cell":
        return _gru_cell(args)
    result = func(*args, **kwargs)
    if name in ("native_batch_norm", "native_group_norm"):
        return _real_statistics(args, result)
    return result


def _gru_cell(args: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """The results of the GRU's CUDA cell, which alone among the RNNs' has no fake kernel."""
    hidden = args[2]
    return torch.empty_like(hidden), hidden.new_empty(hidden.shape[0], 5 * hidden.shape[1])


def _real_statistics(args: tuple[Any, ...], result: Any) -> Any:
    """The CPU kernel saves mean and variance in the weight's dtype; the fake one says 16 bit."""
    images, weight = args[:2]
    if images.device.type != "cpu" or weight is None or images.dtype == weight.dtype:
        return result
    return (result[0], *(saved.to(weight.dtype) for saved in result[1:]))


def storage_id(tensor: Tensor) -> int:
    """Views share it. Sparse tensors have no storage, and go by themselves."""
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else id(tensor)


def is_cached(source: Tensor, result: Tensor) -> bool:
    """Whether autocast's cache keeps this cast: of a float32 leaf that needs a gradient.

    The rule of ``cached_cast`` in aten/src/ATen/autocast_mode.cpp.
    """
    leaf = source.is_leaf and source.requires_grad and not source._is_view()
    narrows = source.dtype == torch.float32 and result.dtype in LOW
    return leaf and narrows and torch.is_autocast_cache_enabled()
