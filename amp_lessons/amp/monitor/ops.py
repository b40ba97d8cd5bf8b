"""A log of the operations that run, and the search for the one where a number first broke.

The log sits below autograd and autocast, where torch dispatches the operations that really run.
For each it keeps a name, a line, where its inputs came from and the extremes of its result, but no
tensor. From a result that holds inf or NaN, `origin` goes back from op to op until it finds finite
inputs. A mask that the code filled with -inf on purpose is not blamed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from amp_lessons.amp.monitor.places import Mark, mark
from amp_lessons.amp.monitor.tensors import (
    FINITE,
    INF,
    NAN,
    Extremes,
    extremes,
    kind,
    largest,
    only_minus_inf,
    replaced,
)

_UNWRITTEN = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_")
_CONSTANT = (
    "masked_fill", "masked_fill_", "fill", "fill_", "full", "full_like", "new_full",
    "scalar_tensor", "constant_pad_nd", "index_fill", "index_fill_", "where",
    "lift_fresh", "lift_fresh_copy", "triu", "tril", "clamp",
)  # fmt: skip
_SMALL = 1 << 24
"""Numbers. The result of a larger op isn't computed again in higher precision."""


class CantRunAgain(Exception):
    """A second run would harm the first. The message says why."""


class _Source:
    """Which ops have written into one storage, in order, and what it held before the first."""

    __slots__ = ("before", "name", "ops")

    def __init__(self, name: str = "", before: Extremes | None = None) -> None:
        self.name = name
        self.before = before
        self.ops: list[Op] = []


@dataclass(eq=False)
class OpInput:
    """One tensor that went into an op.

    Attributes:
        source: the history of its storage.
        written: how many ops had written into it by then.
        found: its extremes, or None if only its history tells them.
    """

    source: _Source
    written: int
    found: Extremes | None = None

    def writers(self) -> Iterator[Op]:
        """The ops that wrote it, the last one first."""
        return reversed(self.source.ops[: self.written])

    def kind(self) -> str:
        if self.found is not None:
            return kind(self.found)
        last = next(self.writers(), None)
        return last.kind() if last else kind(self.source.before)

    def largest(self) -> float:
        """The largest finite magnitude that it held."""
        last = next(self.writers(), None)
        held = [self.found] if self.found or last is None else list(last.found)
        return max(largest(one or self.source.before) for one in held or [None])


@dataclass(eq=False)
class Op:
    """One operation that ran.

    Attributes:
        name: as torch's schema has it, without the namespace: "log", "_softmax".
        mark: the line of the user's code.
        module: path of the innermost module that ran, "" for the model itself or outside of it.
        sequence: number of autograd's node for it, by which the backward pass finds its line.
        node: autograd's node that ran the op in a backward pass, such as "LogBackward0"; else "".
        node_sequence: the number of that node; -1 outside of a backward pass.
        given: its tensors.
        found: the extremes of its result.
        constant: whether a number among its arguments is inf.
        beyond: a number among its arguments that float16 can't hold, where its result is float16.
        always: whether the result would break in float64 too. None if that was not tried.
        lost: share of the non-zero results that became zero in 16 bits; only where asked for.
        dtype: name of the result's dtype.
    """

    name: str
    mark: Mark | None
    module: str
    sequence: int
    node: str
    node_sequence: int
    given: list[OpInput] = field(default_factory=list)
    found: list[Extremes] = field(default_factory=list)
    constant: bool = False
    beyond: float | None = None
    always: bool | None = None
    lost: float = 0.0
    dtype: str = ""
    number: int = 0

    def kind(self) -> str:
        kinds = {kind(found) for found in self.found}
        return NAN if NAN in kinds else INF if INF in kinds else FINITE

    def on_purpose(self) -> bool:
        """Whether the code asked for this inf: a constant, as in a mask."""
        return self.constant and self.name in _CONSTANT and self.kind() == INF


@dataclass(frozen=True)
class FaultOrigin:
    """Where a broken number came from.

    Attributes:
        op: the op that made it, or the first op that was given it.
        kind: "inf" or "nan".
        outside: the name of the tensor that already held it before any op ran, such as
            "parameter fc.weight"; "" if the op made it.
        on_purpose: whether it is a constant -inf, as in a mask.
    """

    op: Op
    kind: str
    outside: str = ""
    on_purpose: bool = False


class OpLog(TorchDispatchMode):
    """Keeps a record of each op that runs while it is entered.

    Args:
        exact: also look at each input, and compute what broke again in float64. Without it, only
            results are looked at, and a GPU is not waited for.
        underflow: also count how many results became zero in float16, by computing them again in
            float32.
        stop: the function that runs the ops. Lines above it are not theirs.
        most: after so many ops the log stops listening.
    """

    def __init__(
        self,
        *,
        exact: bool = False,
        underflow: bool = False,
        stop: CodeType | None = None,
        most: int = 1 << 30,
    ):
        super().__init__()
        self.exact, self.underflow, self.stop, self.most = exact, underflow, stop, most
        self.ops: list[Op] = []
        self.modules: list[str] = []
        self.listening = True
        self._sources: dict[int, _Source] = {}
        self._lines: dict[int, Op] = {}

    def name(self, tensor: Tensor, name: str) -> None:
        """Say what a tensor from outside is called, and look at what it holds."""
        key = _storage(tensor)
        if key is not None and key not in self._sources:
            self._sources[key] = _Source(name, extremes(tensor))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not self.listening or func.is_view or len(self.ops) >= self.most:
            return func(*args, **kwargs)
        if self.exact and "c10d" in func.namespace:
            raise CantRunAgain("the model talks to other processes, which don't run it again")
        inputs = list(_inputs(args, kwargs))
        given = [self._given(tensor) for tensor in inputs]
        again = self._again(func, args, kwargs, inputs)
        result = func(*args, **kwargs)
        self._keep(func, args, kwargs, given, inputs, result, again)
        return result

    # ---- one op ------------------------------------------------------------------------------

    def _given(self, tensor: Tensor) -> OpInput:
        key = _storage(tensor)
        source = self._sources.get(key) if key is not None else None
        if source is None:
            source = _Source("", extremes(tensor))
            if key is not None:
                self._sources[key] = source
        return OpInput(source, len(source.ops), extremes(tensor) if self.exact else None)

    def _again(
        self, func: Any, args: Any, kwargs: Any, inputs: list[Tensor]
    ) -> Callable[[torch.dtype], Any] | None:
        """How to compute the op again with wider numbers, with the inputs that it has now."""
        if not self.exact or sum(t.numel() for t in inputs) > _SMALL:
            return None
        writes = func._schema.is_mutable
        kept = replaced((args, kwargs), torch.clone) if writes else (args, kwargs)

        def compute(dtype: torch.dtype) -> Any:
            wide = replaced(kept, lambda t: t.to(dtype) if t.is_floating_point() else t.clone())
            words = {k: dtype if isinstance(v, torch.dtype) else v for k, v in wide[1].items()}
            return func(*wide[0], **words)

        return compute

    def _keep(
        self,
        func: Any,
        args: Any,
        kwargs: Any,
        given: list[OpInput],
        inputs: list[Tensor],
        result: Any,
        again: Callable[[torch.dtype], Any] | None,
    ) -> None:
        name = func._schema.name.partition("::")[2]
        results = [t for t in _flat(result) if isinstance(t, Tensor)]
        written = results or [t for t in inputs[:1] if func._schema.is_mutable]
        old = {id(one.source) for one in given}
        sources = [self._written(t, old) for t in written]
        if name in _UNWRITTEN:
            return
        node: Any = torch._C._current_autograd_node()
        if node is not None and torch.is_grad_enabled():
            node = None  # reentrant checkpointing: a forward pass, inside of a backward pass
        op = Op(
            name,
            mark(self.stop) if node is None or _in_python(node) else None,
            self.modules[-1] if self.modules else "",
            torch._C._autograd._get_sequence_nr() - 1,
            node.name() if node is not None else "",
            node._sequence_nr() if node is not None else -1,
            given,
            [found for t in written if (found := extremes(t)) is not None],
            any(_is_infinite(a) for a in _flat(args) + list(kwargs.values())),
            number=len(self.ops),
            dtype=str(written[0].dtype).removeprefix("torch.") if written else "",
        )
        if op.dtype == "float16":
            op.beyond = next(filter(_beyond_half, _flat(args)), None)
        if again is not None:
            self._look_closer(op, results, again)
        self.ops.append(op)
        if node is None:
            self._lines.setdefault(op.sequence, op)
        for source in sources:
            source.ops.append(op)

    def _written(self, tensor: Tensor, old: set[int]) -> _Source:
        """The history that a result belongs to: its input's if they share memory, or a new one."""
        key = _storage(tensor)
        if key is None:
            return _Source()
        source = self._sources.get(key)
        if source is None or id(source) not in old:
            source = self._sources[key] = _Source()
        return source

    def _look_closer(
        self, op: Op, results: list[Tensor], again: Callable[[torch.dtype], Any]
    ) -> None:
        broken = op.kind() != FINITE and all(one.kind() == FINITE for one in op.given)
        counted = self.underflow and op.dtype == "float16" and bool(op.given)
        if not broken and not counted:
            return
        try:
            wide = _flat(again(torch.float64 if broken else torch.float32))
        except Exception:  # an op that refuses float64 tells us nothing about the fault
            return
        wide = [t for t in wide if isinstance(t, Tensor)]
        if broken:
            op.always = any(kind(extremes(t)) != FINITE for t in wide)
        elif wide and wide[0].shape == results[0].shape:
            there = wide[0] != 0
            lost = there & (results[0] == 0)
            op.lost = float(lost.sum()) / max(1, int(there.sum()))

    # ---- the search --------------------------------------------------------------------------

    def forward_of(self, op: Op) -> Op:
        """The op of the forward pass whose gradient an op of the backward pass computes."""
        return self._lines.get(op.node_sequence, op)

    def line_of(self, sequence: int) -> Op | None:
        """The op of the forward pass that made autograd's node with this number."""
        return self._lines.get(sequence)

    def origins(self, tensors: Iterable[Tensor]) -> list[FaultOrigin]:
        """Where what is broken in these tensors came from, the earliest op first."""
        found = []
        for tensor in tensors:
            source = self._sources.get(_storage(tensor) or 0)
            broken = kind(extremes(tensor))
            if source is None or broken == FINITE:
                continue
            last = _breaker(OpInput(source, len(source.ops), extremes(tensor)))
            if isinstance(last, Op):
                found.append(_origin(last, set()))
            elif self.ops:  # no op touched it: it was broken when it came
                found.append(_from_outside(self.ops[0], OpInput(source, 0, source.before)))
        return sorted(found, key=lambda origin: origin.op.number)

    def last_broken(self) -> FaultOrigin | None:
        """Where the last result came from, if it is broken."""
        last = next((op for op in reversed(self.ops) if op.kind() != FINITE), None)
        return _origin(last, set()) if last else None


def origin_of(op: Op) -> FaultOrigin:
    """Where the first broken number among an op's inputs came from, or its result."""
    return _origin(op, set())


def _breaker(given: OpInput) -> Op | None:
    """The op that wrote what is broken into a tensor, or None if it came broken."""
    for op in given.writers():
        if op.kind() != FINITE:
            return op
    return None


def _origin(op: Op, seen: set[int]) -> FaultOrigin:
    """Go back from a broken result to the op that broke it."""
    while True:
        seen.add(id(op))
        broken = [one for one in op.given if one.kind() != FINITE]
        if not broken:
            return FaultOrigin(op, op.kind(), on_purpose=op.on_purpose())
        nans = [one for one in broken if one.kind() == NAN]
        if op.kind() == NAN and not nans:
            return _of_new_nan(op, broken, seen)
        chosen = (nans or broken)[0]
        before = _breaker(chosen)
        if before is None or id(before) in seen:
            return _from_outside(op, chosen)
        op = before


def _of_new_nan(op: Op, infs: list[OpInput], seen: set[int]) -> FaultOrigin:
    """An op made NaN from inf. Blame what made the inf, unless the code put it there."""
    for one in infs:
        before = _breaker(one)
        if before is None:
            if not _is_mask(one):
                return _from_outside(op, one)
        elif id(before) not in seen:
            origin = _origin(before, seen)
            if not origin.on_purpose:
                return origin
    return FaultOrigin(op, NAN)


def _is_mask(given: OpInput) -> bool:
    """Whether a tensor from outside looks like a mask: -inf and nothing else that is broken."""
    held = given.found or given.source.before
    return only_minus_inf(held) and not given.source.name.startswith("parameter")


def _from_outside(op: Op, given: OpInput) -> FaultOrigin:
    name = given.source.name or "a tensor from outside the model"
    return FaultOrigin(op, given.kind(), outside=name, on_purpose=_is_mask(given))


def _in_python(node: Any) -> bool:
    """Whether a node of autograd runs a `backward()` written in Python, which has lines."""
    return isinstance(node, torch.autograd.function.BackwardCFunction)


# ---- arguments -------------------------------------------------------------------------------


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [x for item in value for x in (item if isinstance(item, list | tuple) else [item])]
    return [value]


def _inputs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    for value in _flat(args):
        if isinstance(value, Tensor):
            yield value
    for value in kwargs.values():
        if isinstance(value, Tensor):
            yield value


def _is_infinite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isinf(value)
    if isinstance(value, Tensor) and value.dim() == 0 and value.is_floating_point():
        return bool(torch.isinf(value)) if value.is_cpu else False
    return False


def _beyond_half(value: Any) -> bool:
    return isinstance(value, int | float) and 65504 < abs(value) < math.inf


def _storage(tensor: Tensor) -> int | None:
    """A number for the memory behind a tensor. Views of one tensor share it."""
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # a sparse tensor has no storage of its own
        return None
