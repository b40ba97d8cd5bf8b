"""Watching which operations a learner's code runs, and in which dtype.

One watch sits below autograd and autocast, where torch dispatches the operations that really run,
so it does not matter how the code is written or what its variables are called. A second one sees
the ways out of torch, such as `tolist`, which are no operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_WAYS_OUT = ("tolist", "numpy", "__array__")


class _Spy(TorchDispatchMode):
    """Collects each kind of operation once: its name and the dtype of its first result."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[str, str]] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        first = result[0] if isinstance(result, tuple | list) and result else result
        dtype = str(first.dtype) if isinstance(first, torch.Tensor) else type(first).__name__
        self.seen.add((func.overloadpacket._qualified_op_name, dtype.removeprefix("torch.")))
        return result


class _Exits(TorchFunctionMode):
    """Adds the ways out of torch to what a spy has seen."""

    def __init__(self, spy: _Spy) -> None:
        super().__init__()
        self.spy = spy

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in _WAYS_OUT:
            self.spy.seen.add((name, "python"))
        return func(*args, **(kwargs or {}))


def watched(observe: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Wrap `evidence.observe` so that its answer also lists the operations, under ``"ops"``.

    Each is ``{"op": "aten::add", "dtype": "float16"}``, in alphabetical order, each kind once.
    """

    def observe_and_watch(function: Callable[..., Any], *args: Any) -> dict[str, Any]:
        spy = _Spy()

        def under_watch(*given: Any) -> Any:
            with spy, _Exits(spy):
                return function(*given)

        if function is ...:
            return observe(function)
        seen = observe(under_watch, *args)
        return seen | {"ops": [{"op": op, "dtype": dtype} for op, dtype in sorted(spy.seen)]}

    return observe_and_watch
