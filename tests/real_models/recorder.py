"""What autocast really does: a forward and a backward pass on the CPU, watched from below.

This is the other side of the comparison with `explain_autocast`. It imports nothing of
`amp_lessons`: what counts as an op, a cast or a saved byte is decided here a second time.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

SEED = 14
# Ops that give a tensor without computing anything: they copy, view or allocate.
COPIES = frozenset(
    f"aten::{name}"
    for name in (
        "detach", "alias", "lift_fresh", "clone", "contiguous", "_unsafe_view", "_reshape_alias",
        "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Op:
    """One op that ran: its floating inputs' dtypes, after autocast's casts, and its result's."""

    name: str
    dtypes_in: tuple[str, ...]
    dtype_out: str

    def __str__(self) -> str:
        return f"{self.name.partition('::')[2]}({', '.join(self.dtypes_in)}) -> {self.dtype_out}"


@dataclass
class Run:
    """What one training step, or one forward pass without gradients, really did.

    Attributes:
        ops: those that compute on floating or complex numbers, in order; casts are left out.
        casts, casts_backward: conversions from one floating dtype to another.
        saved: bytes that autograd kept for backward, each storage once, without the model's own.
    """

    ops: list[Op] = field(default_factory=list)
    casts: int = 0
    casts_backward: int = 0
    saved: int = 0


class _Forward(TorchDispatchMode):
    """Lists the ops below autocast and counts the casts among them."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[Op] = []
        self.casts = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        # In-place ops keep their dtype, but a tensor's own flags may change: read before the call.
        given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        dtypes = tuple(_name(t.dtype) for t in given if _has_numbers(t))
        result = func(*args, **kwargs)
        made = [t for t in tree_leaves(result) if isinstance(t, Tensor)]
        if is_cast(func, given, made):
            self.casts += 1
        elif computes(func) and any(map(_has_numbers, (*given, *made))):
            out = _name(made[0].dtype) if made else ""
            self.ops.append(Op(func._schema.name, dtypes, out))
        return result


class _Casts(TorchDispatchMode):
    """Counts casts only."""

    def __init__(self) -> None:
        super().__init__()
        self.casts = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.casts += is_cast(func, [t for t in args if isinstance(t, Tensor)], [result])
        return result


class _Saved:
    """Counts what autograd saves; use `pack` and `unpack` as its hooks."""

    def __init__(self, model: nn.Module) -> None:
        own = (*model.parameters(), *model.buffers())
        self.known = {t.untyped_storage().data_ptr() for t in own}
        self.alive: list[Any] = []  # so that no address is given out twice
        self.bytes = 0

    def pack(self, tensor: Tensor) -> Tensor:
        if tensor.layout is torch.strided:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self.known:
                self.known.add(storage.data_ptr())
                self.alive.append(storage)
                self.bytes += storage.nbytes()
        return tensor.detach()


def is_cast(func: Any, given: list[Tensor], made: list[Any]) -> bool:
    """Whether this op converts one floating dtype to another, as ``x.to(dtype)`` does."""
    if func._schema.name != "aten::_to_copy":
        return False
    before, after = given[0], made[0]
    floats = before.is_floating_point() and after.is_floating_point()
    return floats and before.dtype != after.dtype


def computes(func: Any) -> bool:
    """Whether an op does arithmetic or moves numbers into a new place, rather than views them."""
    if func._schema.name in COPIES or func._schema.name.startswith("prim::"):
        return False
    results = [r.alias_info for r in func._schema.returns]
    is_view = any(info is not None and not info.is_write for info in results)
    return not is_view


def run(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype) -> Run:
    """Run the model under ``torch.autocast("cpu", dtype)`` and say what happened.

    The backward pass starts from ones at every output that has a gradient; there is none where
    gradients are off. The model's buffers may change.
    """
    seed()
    forward, saved = _Forward(), _Saved(model)
    hooks = torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda tensor: tensor)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autocast("cpu", dtype=dtype), hooks, forward:
            output = model(*args, **kwargs)
        ends = [t for t in tensors_of(output) if t.grad_fn is not None]
        with _Casts() as backward:
            if ends:
                torch.autograd.backward(ends, [torch.ones_like(t) for t in ends])
    return Run(forward.ops, forward.casts, backward.casts, saved.bytes)


def seed() -> None:
    """The same random numbers for each run: dropout, layer drop, routing noise."""
    torch.manual_seed(SEED)
    random.seed(SEED)
    np.random.seed(SEED)


def tensors_of(value: Any, seen: set[int] | None = None) -> Iterator[Tensor]:
    """Every tensor in an output, each once: in containers, and in the attributes of objects."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_of(item, seen)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_of(item, seen)
    elif hasattr(value, "__dict__") and not isinstance(value, type | nn.Module):
        yield from tensors_of(vars(value), seen)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _has_numbers(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
