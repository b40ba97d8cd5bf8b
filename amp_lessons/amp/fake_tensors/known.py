"""Values that a trace knows although its tensors are fake.

Integers, masks and constants decide which way a model goes: padding, positions, an edge list. So
`KnownValues` computes them for real, on the CPU, beside the fake ones. With ``floats`` it computes
every tensor so, and a model that asks for an activation's value can be followed as well.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from amp_lessons.amp.fake_tensors.packed import PACK, packed

MOST_INTEGERS = 2**20
MOST_FLOATS = 2**12
_CPU = torch.device("cpu")
_NO_NAME = object()
_ATTENTION = (
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
)


def value_of(tensor: Any) -> Tensor | None:
    """The real tensor beside a fake one, on the CPU; None where its values are not known."""
    return getattr(tensor, "_known_value", None)


_stale: dict[int, Any] = {}
"""Storages of values that were overwritten with what nobody knows, in the run that is going on."""


def is_stale(value: Tensor) -> bool:
    """Whether a known value was overwritten since, so that it is no longer known."""
    return value.layout is torch.strided and value.untyped_storage()._cdata in _stale


def numbers_in(data: Any) -> Any:
    """What `torch.tensor` is given, with numbers in the place of fakes that hold a known one."""

    def number(leaf: Any) -> Any:
        value = value_of(leaf) if isinstance(leaf, Tensor) else None
        return leaf if value is None or value.numel() != 1 else leaf.item()

    return tree_map(number, data)


def learn(fake: Tensor, real: Tensor, floats: bool = False) -> None:
    """Note what a fake's values are: those of ``real``, of which a copy is kept.

    Without ``floats`` a tensor of floating point is left out unless it holds a single number.
    """
    if isinstance(real, FakeTensor) or real.device.type == "meta" or real.is_quantized:
        return
    limit = sys.maxsize if floats else 1 if _is_float(real) else MOST_INTEGERS
    if real.numel() > limit:
        return
    with _disable_current_modes(), torch.no_grad():
        copied = torch.empty_strided(real.shape, real.stride(), dtype=real.dtype)
        _give(fake, copied.copy_(real.detach()))


def _give(fake: Any, value: Tensor) -> None:
    """Put a value where `value_of` finds it, on the fake itself, so that both end together."""
    fake._known_value = value


_DRAWN = ("aten::rand", "aten::rand_like")
"""A number drawn from 0 to 1 is taken to be 0.5, so that every trace goes the likelier way: a layer
that is dropped with a probability of 0.1 runs."""


class KnownValues(TorchDispatchMode):
    """Computes what can be known of each op's results, and answers what is asked of a value.

    It belongs above the `FakeTensorMode` and below every mode that looks on.

    Args:
        mode: of the fake tensors.
        floats: whether tensors of floating point are computed too, whatever their size.
    """

    def __init__(self, mode: FakeTensorMode, floats: bool = False) -> None:
        super().__init__()
        self.mode, self.floats = mode, floats
        _stale.clear()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        _check_range(func, args, self.value)
        if not self._is_known(func, tensors, args, kwargs):
            self._forget_written(func, args, kwargs)
            shaped = _SHAPED_BY.get(func)
            return shaped(self, func, args) if shaped and not kwargs else func(*args, **kwargs)
        real = self._compute(func, args, kwargs)
        if real is None:
            self._forget_written(func, args, kwargs)
            return func(*args, **kwargs)
        if not isinstance(real, Tensor | tuple | list):  # .item(), torch.equal
            return real
        result = self._fakes(func, args, kwargs, tensors, real)
        for fake, value in zip(tree_leaves(result), tree_leaves(real), strict=True):
            if isinstance(fake, FakeTensor) and self._is_kept(value) and fake.shape == value.shape:
                _give(fake, value)
        return result

    def _is_known(self, func: Any, tensors: list[Tensor], args: Any, kwargs: Any) -> bool:
        """Whether every input's values are known, or there is none and the result is small."""
        if func._schema.name.startswith("prim::"):
            return False
        if tensors:
            return all(self.value(tensor) is not None for tensor in tensors)
        if any(isinstance(leaf, torch.Generator) for leaf in tree_leaves((args, kwargs))):
            return False
        return self.floats or _room(args, kwargs) <= MOST_INTEGERS

    def value(self, tensor: Tensor) -> Tensor | None:
        """What is known of a tensor. A real one that the model made itself is known."""
        if not isinstance(tensor, FakeTensor):
            small = self.floats or tensor.numel() <= MOST_INTEGERS
            return tensor if tensor.device.type == "cpu" and small else None
        value = value_of(tensor)
        if value is None or value.layout is not torch.strided:
            return value
        return None if is_stale(value) else value

    def _is_kept(self, value: Any) -> bool:
        if not isinstance(value, Tensor) or value.layout is not torch.strided:
            return False
        most = MOST_FLOATS if _is_float(value) else MOST_INTEGERS
        stored = value.untyped_storage().nbytes() // value.element_size()  # few, if expanded
        return self.floats or min(stored, value.numel()) <= most

    def _compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The op on the values, on the CPU; None where the CPU has no such op."""

        def real(leaf: Any) -> Any:
            if isinstance(leaf, Tensor):
                return self.value(leaf)
            return _CPU if isinstance(leaf, torch.device) else leaf

        args, kwargs = tree_map(real, (args, kwargs))
        kwargs.pop("pin_memory", None)
        with _disable_current_modes(), torch.no_grad():
            try:
                if func._schema.name in _ATTENTION:
                    return _attention(func, args, kwargs)
                result = _on_the_cpu(func, args, kwargs)
                if func._schema.name in _DRAWN and not self.floats:
                    result.fill_(0.5)
                return result
            except (RuntimeError, NotImplementedError, ValueError, IndexError):
                return None  # the fake op says what is wrong, if something is

    def _fakes(self, func: Any, args: Any, kwargs: Any, tensors: list[Tensor], real: Any) -> Any:
        """The op's fake results; where only values tell their shapes, like the real ones."""
        if func is PACK:
            return _packed(self, func, args)
        if torch.Tag.dynamic_output_shape not in func.tags:
            return func(*args, **kwargs)
        place = next((t.device for t in tensors if isinstance(t, FakeTensor)), _CPU)
        return tree_map(lambda leaf: self.like(leaf, place), real)

    def like(self, leaf: Any, place: torch.device) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        with _disable_current_modes(), torch.device("meta"):
            meta = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype)
            return FakeTensor(self.mode, meta, place)

    def _forget_written(self, func: Any, args: Any, kwargs: Any) -> None:
        """A known tensor that an op overwrites with something unknown, with all its views."""
        if not func._schema.is_mutable:
            return
        for place, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            given = args[place] if place < len(args) else kwargs.get(argument.name)
            for tensor in tree_leaves(given):
                value = value_of(tensor)
                if value is not None and value.layout is torch.strided:
                    storage = value.untyped_storage()
                    _stale[storage._cdata] = storage


def _is_float(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _room(args: Any, kwargs: Any) -> int:
    """An upper bound of the elements that a factory such as zeros or arange makes."""
    sizes = [x for x in tree_leaves((args, kwargs)) if isinstance(x, int | float)]
    big = [abs(x) for x in sizes if math.isfinite(x) and abs(x) > 1]
    return int(min(math.prod(big), 2**62))


def _on_the_cpu(func: Any, args: Any, kwargs: Any) -> Any:
    """An op's result. What a GPU computes in 16 bits and a CPU does not, is computed in float32."""
    if func in _SOFTMAXES and args[2]:  # from 16 bits to float32 in one kernel, on a GPU alone
        return func(args[0].float(), args[1], False)
    try:
        return func(*args, **kwargs)
    except (RuntimeError, NotImplementedError):
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        dtypes = {tensor.dtype for tensor in tensors if _is_float(tensor)}
        low = next(iter(dtypes)) if len(dtypes) == 1 else None
        if low not in (torch.float16, torch.bfloat16) or func._schema.is_mutable:
            raise
        wide, more = tree_map_only(Tensor, _widened, (args, kwargs))
        return tree_map_only(
            Tensor, lambda t: t.to(low) if t.is_floating_point() else t, func(*wide, **more)
        )


def _widened(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


_SOFTMAXES = (torch.ops.aten._softmax.default, torch.ops.aten._log_softmax.default)


def _attention(func: Any, args: Any, kwargs: Any) -> Any:
    """A GPU's attention kernel by the plain formula; only the first result is known."""
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    query, key, value = given["query"], given["key"], given["value"]
    out = nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        given.get("attn_bias"),
        given.get("dropout_p", 0.0),
        given.get("is_causal", False),
        scale=given.get("scale"),
        enable_gqa=query.shape[-3] != key.shape[-3],
    )
    return (out, *[_NO_NAME] * (len(func._schema.returns) - 1))


def _check_range(func: Any, args: Any, value: Any) -> None:
    """Refuse an index that a real embedding would refuse; a fake one takes any."""
    if func._schema.name != "aten::embedding" or not isinstance(args[1], Tensor):
        return
    indices, rows = value(args[1]), args[0].shape[0]
    if indices is not None and indices.numel():
        check_indices(indices, rows)


def check_indices(indices: Tensor, rows: int) -> None:
    """Raise IndexError if an index lies outside a table of so many rows."""
    with _disable_current_modes():
        low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= rows:
        wrong = low if low < 0 else high
        raise IndexError(f"index {wrong} is out of range for an embedding of {rows} rows")


# ---- results whose shape follows from values that are known, and whose numbers do not -----------


def _index(known: KnownValues, func: Any, args: Any) -> Any:
    """``x[mask]``: each mask whose values are known becomes the indices that it stands for."""
    tensor, indices, found = args[0], args[1], []
    for index in indices:
        is_mask = isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8)
        mask = known.value(index) if is_mask else None
        if mask is None:
            found.append(index)
            continue
        with _disable_current_modes():
            columns = mask.nonzero().unbind(1)
        found += [known.like(column, tensor.device) for column in columns]
    return func(tensor, found)


def _masked_select(known: KnownValues, func: Any, args: Any) -> Any:
    """As many elements as the mask has True, if that is known."""
    tensor, mask = args[0], known.value(args[1])
    if mask is None:
        return func(*args)
    with _disable_current_modes():
        count = int(mask.expand(torch.broadcast_shapes(tensor.shape, mask.shape)).sum())
    return tensor.new_empty(count)


def _packed(known: KnownValues, func: Any, args: Any) -> Any:
    lengths = known.value(args[1])
    return func(*args) if lengths is None else packed(args[0], lengths, args[2])


_SHAPED_BY: dict[Any, Callable[[KnownValues, Any, Any], Any]] = {
    torch.ops.aten.index.Tensor: _index,
    torch.ops.aten.masked_select.default: _masked_select,
    PACK: _packed,
}
