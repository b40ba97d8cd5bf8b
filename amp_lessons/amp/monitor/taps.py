"""Listening to what PyTorch has no hook for: `backward()`, clipping, and GradScaler's `update()`.

A tap replaces one function by another that calls it and then its listeners. It exists once,
however many monitors listen, and goes when the last one stops. Whatever order they stop in, the
original is back at the end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

import torch

from amp_lessons.amp.monitor.ops import OpLog

MOST_LOSS_OPS = 512
"""After so many ops between the model's last call and `backward()`, no more are noted."""


class Listener(Protocol):
    """What a monitor does when the program reaches one of these points."""

    def before_backward(self, roots: list[torch.Tensor], seeded: bool) -> None: ...

    def after_backward(self) -> None: ...

    def before_clip(self, what: str, parameters: list[Any], bound: float) -> None: ...


# ---- backward --------------------------------------------------------------------------------

_listeners: list[Listener] = []
_original: Callable[..., Any] | None = None
_installed = False
quiet = 0
"""Above 0 while a monitor runs a step once more: nobody listens then."""
depth = 0
"""How many `backward()` are running inside each other: checkpointing runs one within another."""


def listen(listener: Listener) -> None:
    """Call the listener before and after each outermost `torch.autograd.backward`."""
    global _original, _installed
    if not _installed:
        _original = torch.autograd.backward
        torch.autograd.backward = _backward  # type: ignore[assignment]  # that is the tap
        _installed = True
    if not _listeners:
        _tap_clipping()
    _listeners.append(listener)


def stop_listening(listener: Listener) -> None:
    """Undo `listen`."""
    global _installed
    _listeners.remove(listener)
    if not _listeners:
        _untap_clipping()
        between.forget()
        if torch.autograd.backward is _backward:  # else somebody has wrapped ours: it stays inert
            torch.autograd.backward = _original  # type: ignore[assignment]
            _installed = False


def _backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
    """`torch.autograd.backward`, with a word to the monitors before and after it."""
    global depth
    assert _original is not None
    if depth or quiet or not _listeners:
        return _original(tensors, *args, **kwargs)
    roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    seeds = args[0] if args else kwargs.get("grad_tensors")
    seeded = any(s is not None for s in (seeds if isinstance(seeds, list | tuple) else [seeds]))
    between.close()
    for listener in list(_listeners):
        listener.before_backward(roots, seeded)
    depth += 1
    try:
        result = _original(tensors, *args, **kwargs)
    finally:
        depth -= 1
    for listener in list(_listeners):
        listener.after_backward()
    return result


@contextmanager
def unheard() -> Iterator[None]:
    """Within this context, no monitor listens to anything."""
    global quiet
    quiet += 1
    try:
        yield
    finally:
        quiet -= 1


# ---- clipping --------------------------------------------------------------------------------

# Each: where the name stands, the name, what the user calls it. The first is what clip_grad_norm_
# itself calls, so it is met however that was imported.
_CLIPPING = (
    (torch.nn.utils.clip_grad, "_clip_grads_with_norm_", "clip_grad_norm_"),
    (torch.nn.utils.clip_grad, "clip_grad_value_", "clip_grad_value_"),
    (torch.nn.utils, "clip_grad_value_", "clip_grad_value_"),
)
_clipping: list[tuple[Any, str, Any, Any]] = []


def _tap_clipping() -> None:
    for owner, name, told in _CLIPPING:
        original = getattr(owner, name, None)
        if original is not None:
            ours = _clip_tap(original, told)
            setattr(owner, name, ours)
            _clipping.append((owner, name, original, ours))


def _untap_clipping() -> None:
    for owner, name, original, ours in _clipping:
        if getattr(owner, name) is ours:  # else somebody has wrapped ours: it stays inert
            setattr(owner, name, original)
    _clipping.clear()


def _clip_tap(original: Any, told: str) -> Any:
    @functools.wraps(original)
    def clip(parameters: Any, bound: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(parameters, torch.Tensor):
            parameters = list(parameters)  # a generator runs only once
        for listener in [] if quiet else list(_listeners):
            one = isinstance(parameters, torch.Tensor)
            listener.before_clip(told, [parameters] if one else parameters, bound)
        return original(parameters, bound, *args, **kwargs)

    return clip


# ---- between the model and backward ----------------------------------------------------------


class Between:
    """The `OpLog` that listens from the end of the model's call until `backward()`.

    It stands on PyTorch's stack of dispatch modes. It goes there only while the stack is empty,
    and leaves only while it is on top, so that it never takes somebody else's place.
    """

    def __init__(self) -> None:
        self.log: OpLog | None = None
        self._entered: OpLog | None = None

    def open(self, *, follow: bool) -> OpLog | None:
        """Begin to listen; ``follow`` continues the log of the last call."""
        if self._entered is not None:
            self.close()
        if torch._C._len_torch_dispatch_stack():
            self.log = None
            return None
        if self.log is None or not follow:
            self.log = OpLog(most=MOST_LOSS_OPS)
        self.log.listening = True
        self.log.__enter__()
        self._entered = self.log
        return self.log

    def close(self) -> None:
        """Stop to listen. The mode itself leaves as soon as it is on top of the stack."""
        entered = self._entered
        if entered is None:
            return
        entered.listening = False
        count = torch._C._len_torch_dispatch_stack()
        if count and torch._C._get_dispatch_stack_at(count - 1) is entered:
            entered.__exit__(None, None, None)
            self._entered = None

    def forget(self) -> None:
        self.close()
        self.log = None


between = Between()


# ---- the scaler ------------------------------------------------------------------------------


class _Update:
    """A scaler's `update()` with listeners. A copy of the scaler gets the plain method."""

    def __init__(self, tap: ScalerTap) -> None:
        self.tap, self.original = tap, tap.scaler.update
        functools.update_wrapper(self, self.original)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for before, _ in list(self.tap.listeners):
            before()
        result = self.original(*args, **kwargs)
        for _, after in list(self.tap.listeners):
            after()
        return result

    def __reduce__(self) -> Any:
        return getattr, (self.tap.scaler, "update")


class ScalerTap:
    """Calls ``before`` and ``after`` around a GradScaler's `update()`."""

    _taps: ClassVar[dict[int, ScalerTap]] = {}

    def __init__(self, scaler: torch.amp.GradScaler) -> None:
        self.scaler = scaler
        self.listeners: list[tuple[Callable[[], None], Callable[[], None]]] = []

    @classmethod
    def on(cls, scaler: torch.amp.GradScaler) -> ScalerTap:
        """The tap of this scaler, a new one if there is none."""
        tap = cls._taps.get(id(scaler))
        if tap is None:
            tap = cls._taps[id(scaler)] = cls(scaler)
            tap._install()
        return tap

    def _install(self) -> None:
        self.scaler.update = _Update(self)  # type: ignore[method-assign]  # that is the tap

    def add(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        self.listeners.append((before, after))

    def remove(self, before: Callable[[], None], after: Callable[[], None]) -> None:
        self.listeners.remove((before, after))
        if not self.listeners:
            vars(self.scaler).pop("update", None)  # the class's own method is back
            del self._taps[id(self.scaler)]
