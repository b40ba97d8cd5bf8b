"""Watching which operations a learner's code runs, and in which dtype.

One watch sits below autograd and autocast, where torch dispatches the operations that really run,
so it does not matter how the code is written or what its variables are called. A second one sees
the ways out of torch, such as `tolist`, which aren't operations. Torch keeps both for each thread
by itself, so threads that the code starts are watched too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_WAYS_OUT = ("tolist", "numpy", "__array__", "__dlpack__", "untyped_storage", "storage")


class _Spy(TorchDispatchMode):
    """Collects each kind of operation once: its name, the dtypes that went in, what came out."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[tuple[str, str, tuple[str, ...], bool]] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        first = result[0] if isinstance(result, tuple | list) and result else result
        inputs = [t for t in _flatten(args) if isinstance(t, torch.Tensor)]
        largest = max((t.numel() for t in inputs), default=0)
        shrinks = isinstance(first, torch.Tensor) and first.numel() < largest
        taken = tuple(sorted({_dtype(t) for t in inputs}))
        self.seen.add((func.overloadpacket._qualified_op_name, _dtype(first), taken, shrinks))
        return result


def _flatten(args: Any) -> list[Any]:
    return [x for arg in args for x in (arg if isinstance(arg, tuple | list) else [arg])]


def _dtype(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return str(value.dtype).removeprefix("torch.")
    return type(value).__name__


class _Exits(TorchFunctionMode):
    """Adds the ways out of torch to what a spy has seen."""

    def __init__(self, spy: _Spy) -> None:
        super().__init__()
        self.spy = spy

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in _WAYS_OUT:
            self.spy.seen.add((name, "python", (), False))
        return func(*args, **(kwargs or {}))


@contextmanager
def _also_in_threads(spy: _Spy) -> Iterator[None]:
    """Within this context each thread that is started is watched by the same spy."""
    start = threading.Thread.start

    def start_watched(thread: threading.Thread) -> None:
        run = thread.run

        def run_watched() -> None:
            with spy, _Exits(spy):
                run()

        thread.run = run_watched  # type: ignore[method-assign]
        start(thread)

    with mock.patch.object(threading.Thread, "start", start_watched):
        yield


def watched(observe: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Wrap `evidence.observe` so that its answer also lists the operations, under ``"ops"``.

    Each is ``{"op": "aten::add", "dtype": "float16", "takes": ["float16"], "shrinks": False}``:
    the dtype of the result (a Python type for a number), the dtypes of the tensors that went in,
    and whether the result has fewer elements than the largest of them. Each kind comes once.
    """

    def observe_and_watch(function: Callable[..., Any], *args: Any) -> dict[str, Any]:
        spy = _Spy()

        def under_watch(*given: Any) -> Any:
            with _also_in_threads(spy), spy, _Exits(spy):
                return function(*given)

        if function is ...:
            return observe(function)
        seen = observe(under_watch, *args)
        keys = ("op", "dtype", "takes", "shrinks")
        return seen | {"ops": [dict(zip(keys, op, strict=True)) for op in sorted(spy.seen)]}

    return observe_and_watch
