"""One `Fact` for each tensor of a trace, kept up to date as the ops go by."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from amp_lessons.amp.explain.facts.fact import Fact, constant, union
from amp_lessons.amp.explain.facts.ops import OpCall, of_call
from amp_lessons.amp.fake_tensors.ops import op_name, storage_id

_THE_SAME = ("detach", "alias", "_unsafe_view", "lift")  # they share their argument's storage
_LARGEST = 2**20  # elements of a buffer that are looked at


class Values:
    """What is known of the values of each tensor, by its storage."""

    def __init__(self) -> None:
        self._facts: dict[int, tuple[Fact, Any]] = {}  # with the storage, to keep its id its own
        self._count = 0
        self._made: dict[Hashable, int] = {}  # the same op of the same values gives the same value

    def learn(self, real: nn.Module, copy: nn.Module) -> None:
        """Take over what the buffers of the real model hold; of parameters only that they are."""
        for tensor in copy.parameters():
            self._set(tensor, Fact(learned=True))
        with _disable_current_modes(), torch.no_grad():
            held = [(name, _held(tensor)) for name, tensor in real.named_buffers()]
        copies = dict(copy.named_buffers())
        for name, fact in held:
            if fact is not None and name in copies:
                self._set(copies[name], fact)

    def of(self, tensor: Tensor) -> Fact:
        """What is known of a tensor; views share their base's fact, and have a value of their own.

        Nothing is known of integers either, but of booleans that they are 0 or 1.
        """
        if storage_id(tensor) not in self._facts:
            self._set(tensor, Fact(0.0, 1.0) if tensor.dtype == torch.bool else Fact())
        fact = self._facts[storage_id(tensor)][0]
        return fact if _is_whole(tensor) else replace(fact, value=_name_of_part(tensor, fact))

    def note(self, func: Any, args: Any, kwargs: Any, outputs: Iterable[Tensor]) -> None:
        """Learn what an op tells about its results. It never raises: then nothing is known."""
        outputs = tuple(outputs)
        name = op_name(func)
        if name == "lift_fresh":  # torch.tensor(numbers)
            self._set(outputs[0], _lifted(args[0]) or Fact())
        if func.is_view or not outputs:
            return
        same = self._key(func, args, kwargs)
        try:
            facts = of_call(OpCall(name, args, kwargs, outputs, self.of))
        except (ArithmeticError, IndexError, TypeError, ValueError, RuntimeError):
            facts = tuple(Fact() for _ in outputs)
        if same is not None and outputs and facts[0].value is None:
            self._count += 1
            value = self._made.setdefault(same, self._count)
            facts = (replace(facts[0], value=value), *facts[1:])
        written = func._schema.is_mutable
        for tensor, fact in zip(outputs, facts, strict=False):
            if name not in _THE_SAME:
                self._note_one(name, tensor, fact, written)

    def _key(self, func: Any, args: Any, kwargs: Any) -> Hashable:
        """Names an op with its operands; None if it draws random numbers or reads none at all."""
        if torch.Tag.nondeterministic_seeded in func.tags:
            return None
        leaves = tree_leaves((args, kwargs))
        if not any(isinstance(leaf, Tensor) for leaf in leaves):
            return None
        operands = [
            self.of(leaf).value if isinstance(leaf, Tensor) else str(leaf) for leaf in leaves
        ]
        return (func._schema.name.rstrip("_"), *operands)

    def _note_one(self, name: str, tensor: Tensor, fact: Fact, written: bool) -> None:
        if written and not _is_whole(tensor):  # a part of a tensor: the rest is as it was
            before = self.of(tensor)
            low, high = union(before, fact)
            self._set(tensor, Fact(low, high))
            return
        if tensor.dtype == torch.bool:
            fact = Fact(0.0, 1.0, value=fact.value)
        if tensor.is_floating_point():
            wide = fact
            fact = fact.in_dtype(tensor.dtype)
            if fact.number is not None and math.isinf(fact.low) and name != "scalar_tensor":
                fact = replace(fact, number=None)  # it is inf now, and that was said
            if name in ("_to_copy", "copy_"):
                fact = replace(fact, wide=wide)
        self._set(tensor, fact)

    def _set(self, tensor: Tensor, fact: Fact) -> None:
        if fact.value is None:
            self._count += 1
            fact = replace(fact, value=self._count)
        strided = tensor.layout is torch.strided
        keep = tensor.untyped_storage() if strided else tensor
        self._facts[storage_id(tensor)] = (fact, keep)


def _name_of_part(tensor: Tensor, fact: Fact) -> Hashable:
    """A view that leaves elements out, or repeats them, has another value than its base."""
    shape = tuple(sorted(map(str, tensor.shape)))
    return fact.value, str(tensor.storage_offset()), shape


def _is_whole(tensor: Tensor) -> bool:
    """Whether a tensor holds each element of its storage once."""
    if tensor.layout is not torch.strided:
        return True
    numel = tensor.numel()
    if not isinstance(numel, int):
        return True
    size = tensor.untyped_storage().nbytes()
    return not isinstance(size, int) or numel * tensor.element_size() == size


def _lifted(tensor: Tensor) -> Fact | None:
    """What ``torch.tensor(numbers)`` holds, if that can be read."""
    real = tensor.constant if isinstance(tensor, FakeTensor) else tensor
    if real is None or real.device.type != "cpu":
        return None
    with _disable_current_modes():
        return _held(real)


def _held(tensor: Tensor) -> Fact | None:
    """The least and the largest element of a real tensor, and its step if it is a grid."""
    if isinstance(tensor, FakeTensor) or tensor.device.type == "meta" or tensor.is_complex():
        return None
    if tensor.layout is not torch.strided or not 0 < tensor.numel() <= _LARGEST:
        return None
    try:
        numbers = tensor.detach().double()
        low, high = numbers.min().item(), numbers.max().item()
    except RuntimeError:
        return None
    if math.isnan(low) or math.isnan(high):
        return None
    if low == high:
        return constant(low)
    return Fact(low, high, exact=True, step=_step(numbers))


def _step(numbers: Tensor) -> float:
    """The step of an evenly spaced row of numbers; 0 if they are none."""
    if numbers.dim() != 1 or numbers.numel() < 3:
        return 0.0
    steps = numbers.diff()
    even = (steps - steps[0]).abs().max() <= 1e-3 * steps[0].abs()
    return abs(steps[0].item()) if even else 0.0
