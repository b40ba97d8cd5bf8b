"""Trying an operation: a place where nothing is disturbed, and one run in it."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from amp_lessons.amp.fake_tensors.cuda import ensure_cuda_guard, failures_unlogged, without_cudnn
from amp_lessons.amp.policy.answer import short
from amp_lessons.amp.policy.calls import Inputs
from amp_lessons.amp.policy.names import find_device
from amp_lessons.amp.policy_record.asked import DEVICES


def rules(device: Any) -> set[str]:
    """The operators that autocast has a rule for on a device, from torch's own dispatcher.

    Names as in ATen, overloads left out: ``"softmax"``, ``"cross_entropy_loss"``.

    Raises:
        PolicyError: for another device than ``"cuda"`` or ``"cpu"``.
    """
    key = {"cuda": "AutocastCUDA", "cpu": "AutocastCPU"}[find_device(device)]
    registered = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return {name.removeprefix("aten::").split(".")[0] for name in registered}


@dataclass(frozen=True)
class Sandbox:
    """Where ops are tried: a device and a dtype, with real or fake tensors."""

    device: str
    dtype: torch.dtype
    measured: Literal["measured", "fake tensors"]
    rules: frozenset[str]

    @property
    def low(self) -> str:
        return short(self.dtype)

    @property
    def place(self) -> str:
        return "on fake tensors" if self.measured == "fake tensors" else f"on this {self.device}"


_LOCK = threading.RLock()  # the default dtype, the RNG and the warning filters are the process's


@contextmanager
def sandbox(device: str, dtype: torch.dtype) -> Iterator[Sandbox]:
    """Everything that a trial could disturb, set aside and put back, also after an exception.

    Autocast's cache of casts is switched off rather than emptied, so that an autocast region
    around the caller keeps its own.
    """
    real = device == "cpu" or torch.cuda.is_available()
    known = frozenset(rules(device))
    gpus = list(range(torch.cuda.device_count())) if device == "cuda" and real else []
    with ExitStack() as stack:
        stack.enter_context(_LOCK)
        stack.enter_context(_disable_current_modes())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # deprecated ops are asked too
        stack.enter_context(torch.random.fork_rng(devices=gpus))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.no_grad())
        stack.enter_context(_default_float32())
        stack.enter_context(_autocast_state_kept())
        for other in DEVICES:
            torch.set_autocast_enabled(other, False)
        torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(False)
        if not real:
            from torch._subclasses.fake_tensor import FakeTensorMode

            ensure_cuda_guard()
            stack.enter_context(without_cudnn())
            stack.enter_context(failures_unlogged())
            stack.enter_context(FakeTensorMode())
        yield Sandbox(device, dtype, "measured" if real else "fake tensors", known)


@contextmanager
def _default_float32() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def _autocast_state_kept() -> Iterator[None]:
    """Put back what a region of `torch.autocast` would, without opening one.

    `torch.autocast("cuda")` switches itself off on a machine without CUDA, so this module sets
    the state that it would set.
    """
    before = [
        (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
        for device in DEVICES
    ]
    cached = torch.is_autocast_cache_enabled()
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(cached)
        for device, enabled, dtype in before:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)


class _CastPairs(TorchDispatchMode):
    """Collects the casts between floating-point dtypes, as (from, to).

    It stands below autocast, so it sees the casts that autocast makes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[tuple[torch.dtype, torch.dtype]] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and args[0].is_floating_point():
            self.seen[args[0].dtype, result.dtype] += 1
        return result


@dataclass(frozen=True)
class Trial:
    """One run of an op: the dtype of its result or why there is none, and the casts it made."""

    dtype: torch.dtype | None
    error: str
    casts: Counter[tuple[torch.dtype, torch.dtype]]
    tensors: int

    def casts_to(self, dtype: torch.dtype, without: Trial) -> bool:
        """Whether it casts to ``dtype``, and does so more often than without autocast."""
        return any(to is dtype for _, to in self.casts - without.casts)


def attempt(
    call: Callable[[Inputs], Any], box: Sandbox, first: torch.dtype, others: torch.dtype, on: bool
) -> Trial:
    """Run an op once, under autocast or not."""
    inputs = Inputs(box.device, first, others)
    casts, result, error = _CastPairs(), None, ""
    torch.set_autocast_enabled(box.device, on)
    try:
        with casts:
            result = _first_tensor(call(inputs))
    except Exception as problem:  # whatever torch raises is the answer
        error = _told(problem)
    finally:
        torch.set_autocast_enabled(box.device, False)
    dtype = result.dtype if result is not None else None
    return Trial(dtype, error, casts.seen, inputs.made)


def _first_tensor(result: Any) -> Tensor:
    """The tensor that an op returns, or the first of several."""
    while isinstance(result, tuple | list):
        result = result[0]
    if not isinstance(result, Tensor):
        raise TypeError(f"gives {type(result).__name__}, not a tensor")
    return result


def _told(problem: Exception) -> str:
    """torch's own words, without the advice for developers that follows them."""
    text = str(problem).split("\nException raised from")[0].strip()
    return text or type(problem).__name__
