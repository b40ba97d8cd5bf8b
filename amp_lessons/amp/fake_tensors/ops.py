"""One op on fake tensors, with the results that a real kernel gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from amp_lessons.amp.fake_tensors.known import value_of
from amp_lessons.amp.fake_tensors.recurrent import workspace_bytes

LOW = (torch.float16, torch.bfloat16)


def op_name(func: Any) -> str:
    """``aten::addmm`` as "addmm"."""
    return func._schema.name.partition("::")[2]


def run_op(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An op on fake tensors, with the results that a real kernel gives."""
    own = _OWN.get(op_name(func))
    fakes = own is not None and any(isinstance(t, FakeTensor) for t in tree_leaves((args, kwargs)))
    if own is not None and fakes:
        return own(func, args, kwargs)
    return func(*args, **kwargs)


def _gru_cell(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, ...]:
    """The results of the GRU's CUDA cell, which alone among the RNNs' has no fake kernel."""
    hidden = args[2]
    return torch.empty_like(hidden), hidden.new_empty(hidden.shape[0], 5 * hidden.shape[1])


def _norm(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A CPU's norm saves mean and variance in its parameters' dtype; the fake one says 16 bit."""
    result, name, images = func(*args, **kwargs), op_name(func), args[0]
    if images.device.type != "cpu":
        return result
    among = args[2:4] if name == "native_layer_norm" else args[1:3]
    if name == "native_batch_norm":
        among = args[1:5]
        result = (_in_usual_order(images, result[0]), *result[1:])
    wide = next((t.dtype for t in among if t is not None), images.dtype)
    if wide == images.dtype:
        return result
    return (result[0], *(saved.to(wide) for saved in result[1:]))


def _in_usual_order(images: Tensor, result: Tensor) -> Tensor:
    """A CPU's batch norm gives contiguous results, or channels last for such images."""
    channels_last = images.dim() == 4 and images.is_contiguous(memory_format=torch.channels_last)
    if channels_last or result.is_contiguous():
        return result
    return result.new_empty(result.shape)


def _roll(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A CPU's roll keeps channels last."""
    result, images = func(*args, **kwargs), args[0]
    keeps = images.device.type == "cpu" and images.dim() == 4
    if keeps and images.is_contiguous(memory_format=torch.channels_last):
        return torch.empty_like(images)
    return result


def _ctc_loss(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, ...]:
    """Each sequence's loss, and the alphas: one for each blank and each label of the longest.

    ``log_alpha`` of ctc_loss_cpu_template in aten/src/ATen/native/LossCTC.cpp. Where the lengths
    are not known, the targets' own size bounds them.
    """
    log_probs, targets, lengths = args[0], args[1], args[3]
    longest = targets.shape[-1]
    if isinstance(lengths, Tensor):
        known = value_of(lengths)
        with _disable_current_modes():
            lengths = None if known is None else known.tolist()
    if lengths:
        longest = max(lengths)
    steps, batch = (log_probs.shape[0], 1) if log_probs.dim() == 2 else log_probs.shape[:2]
    losses = log_probs.new_empty(() if log_probs.dim() == 2 else (batch,))
    return losses, log_probs.new_empty(batch, steps, 2 * longest + 1)


def _grouped_mm(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """A product for each group, in any floating dtype: the fake kernel takes bfloat16 alone.

    Shapes and strides by ``create_grouped_gemm_output_tensor``, dtypes by
    ``_grouped_mm_validate_inputs``, both in aten/src/ATen/native/GroupedMMUtils.h.
    """
    left, right = args[:2]
    dtype = kwargs.get("out_dtype") or (args[4] if len(args) > 4 else None) or left.dtype
    floats = (torch.bfloat16, torch.float16, torch.float32)
    if left.dtype == right.dtype == torch.bfloat16 or left.dtype not in floats:
        return func(*args, **kwargs)
    if left.shape[-1] != right.shape[-2] and (left.dim(), right.dim()) != (2, 2):
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    offsets: Any = args[2] if len(args) > 2 else kwargs.get("offs")
    rows, columns, step = left.shape[-2], right.shape[-1], 16 // dtype.itemsize
    padded = (columns + step - 1) // step * step
    shape: tuple[int, ...] = (rows, columns)
    strides: tuple[int, ...] = (padded, 1)
    if left.dim() == right.dim():
        groups = left.shape[0] if left.dim() == 3 else offsets.shape[0]
        shape, strides = (groups, *shape), (rows * padded, *strides)
    return torch.empty_strided(shape, strides, dtype=dtype, device=left.device)


def _recurrent(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An RNN of oneDNN, with the workspace that it keeps for backward; the fake one has none."""
    *results, space = func(*args, **kwargs)
    count = workspace_bytes(func, args, kwargs)
    return (*results, space if count is None else space.new_empty(count))


def _embedding_bag(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, ...]:
    """A CPU's kernel makes two of its lists one longer than needed, and then cuts them to size.

    They are each index's bag and, if the last offset is given too, each bag's size.
    """
    result, bags, sizes, most = func(*args, **kwargs)
    if bags.device.type == "cpu":
        bags = bags.new_empty(bags.numel() + 1)[:-1] if bags.numel() else bags
        sizes = sizes.new_empty(args[2].numel())[: sizes.numel()]
    return result, bags, sizes, most


def _encoder_layer(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """The layer of `nn.TransformerEncoder` in one op, its fast path; it has no fake kernel."""
    return torch.empty_like(args[0])


def _multi_head(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The fast path of `nn.MultiheadAttention`: its output, and the weights if they are wanted.

    Source: ``native_multi_head_attention_cpu`` in aten/src/ATen/native/transformers/attention.cpp.
    """
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    query, key, heads = given["query"], given["key"], given["num_head"]
    shape: tuple[int, ...] = (query.shape[0], query.shape[1], key.shape[1])
    if not given.get("average_attn_weights", True):
        shape = (shape[0], heads, *shape[1:])
    weights = query.new_empty(shape if given.get("need_weights", True) else 0)
    return torch.empty_like(query), weights


_OWN: dict[str, Callable[..., Any]] = {
    "_embedding_bag": _embedding_bag,
    "_native_multi_head_attention": _multi_head,
    "_transformer_encoder_layer_fwd": _encoder_layer,
    "_thnn_fused_gru_cell": _gru_cell,
    "native_batch_norm": _norm,
    "native_group_norm": _norm,
    "native_layer_norm": _norm,
    "roll": _roll,
    "_ctc_loss": _ctc_loss,
    # cuDNN's kernel takes only a flat list of 32-bit targets; the other one is shown.
    "_use_cudnn_ctc_loss": lambda func, args, kwargs: False,
    "_use_miopen_ctc_loss": lambda func, args, kwargs: False,
    "_grouped_mm": _grouped_mm,
    "mkldnn_rnn_layer": _recurrent,
}


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
