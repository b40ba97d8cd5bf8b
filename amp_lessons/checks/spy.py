"""Watching which operations a learner's code runs, and in which dtype.

The watch sits below autograd and autocast, where torch dispatches the operations that really run,
so it does not matter how the code is written or what its variables are called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


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


def watched(observe: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Wrap `evidence.observe` so that its answer also lists the operations, under ``"ops"``.

    Each is ``{"op": "aten::add", "dtype": "float16"}``, in alphabetical order, each kind once.
    """

    def observe_and_watch(function: Callable[..., Any], *args: Any) -> dict[str, Any]:
        spy = _Spy()

        def under_watch(*given: Any) -> Any:
            with spy:
                return function(*given)

        if function is ...:
            return observe(function)
        seen = observe(under_watch, *args)
        return seen | {"ops": [{"op": op, "dtype": dtype} for op, dtype in sorted(spy.seen)]}

    return observe_and_watch
