"""Clocks: what reads the time before and after a step, and what happens outside these readings.

A GPU works through a queue while Python runs ahead, so each clock waits for the device. Settings
that a step needs, and the clearing of a cache, lie outside the timed window.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

Step = Callable[[], object]

LEAST_CLEARED = 2**28
"""Bytes that are written to clear a cache: 256 MiB at least, about what Triton's ``do_bench``
clears (256 MB; python/triton/testing.py), and twice the L2 cache where that is more."""


@dataclass(frozen=True)
class Prepared:
    """A step, and the settings that it runs under, which are no part of its time.

    A switch that is flipped inside the timed window adds the same constant to every step, and
    draws their ratio towards 1. So `timed` sets it before the clock starts.

    Args:
        step: what is timed.
        around: makes the context that the step runs in, a new one for each reading of the clock,
            such as ``partial(fp32_precision, "tf32")``.
    """

    step: Step
    around: Callable[[], AbstractContextManager[Any]]

    def __call__(self) -> object:
        """Run the step once within its settings, without a clock."""
        with self.around():
            return self.step()


class Clock(Protocol):
    """Something that times calls of a step."""

    name: str

    def time(self, step: Step, calls: int) -> float:
        """Seconds a call, over ``calls`` calls in a row."""


def timed(step: Step, clock: Clock, calls: int = 1) -> float:
    """Seconds a call of a step; a `Prepared` one has its settings before the clock starts."""
    if isinstance(step, Prepared):
        with step.around():
            return clock.time(step.step, calls)
    return clock.time(step, calls)


class WallClock:
    """A clock on the wall. Work that was only queued counts too: it waits for the device first.

    Args:
        synchronise: waits until the device has done what was queued.
        now: seconds since any moment.
    """

    name = "perf_counter"

    def __init__(
        self,
        synchronise: Callable[[], object] = lambda: None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.synchronise, self.now = synchronise, now

    def time(self, step: Step, calls: int = 1) -> float:
        self.synchronise()
        start = self.now()
        for _ in range(calls):
            step()
        self.synchronise()
        return (self.now() - start) / calls


class DeviceClock:
    """Two marks in the GPU's own queue, and the time that it saw pass between them.

    The marks are `torch.cuda.Event`: they leave out the way of the last answer back to the CPU. A
    GPU that waits for the CPU between them is on the clock, as it should be.

    Args:
        device: the GPU.
        cold_cache: whether its L2 cache is cleared before each call. A step that is timed again
            and again on small tensors finds them in the cache; in a real program they may have to
            come from memory. Each call then has its own two marks. The GPU is still clearing while
            the CPU queues the step, so the launches of a short step are not on this clock.
    """

    name = "cuda events"

    def __init__(self, device: torch.device | str = "cuda", cold_cache: bool = False) -> None:
        self.device, self.cold_cache = torch.device(device), cold_cache

    def time(self, step: Step, calls: int = 1) -> float:
        with torch.cuda.device(self.device):
            if self.cold_cache:
                return self._cold(step, calls)
            torch.cuda.synchronize()
            return self._between_marks(step, calls) / calls

    def _cold(self, step: Step, calls: int) -> float:
        properties = torch.cuda.get_device_properties(self.device)
        size = max(LEAST_CLEARED, 2 * properties.L2_cache_size)
        filler = torch.empty(size, dtype=torch.uint8, device=self.device)
        torch.cuda.synchronize()
        total = 0.0
        for _ in range(calls):
            filler.zero_()
            total += self._between_marks(step, 1)
        return total / calls

    @staticmethod
    def _between_marks(step: Step, calls: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            step()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1000  # it counts milliseconds


def clock_for(device: torch.device | str, cold_cache: bool = False) -> Clock:
    """Device events on CUDA; elsewhere a clock on the wall that waits for the device.

    Args:
        device: that the steps run on.
        cold_cache: see `DeviceClock`. Without CUDA nothing is cleared.

    Raises:
        ValueError: if torch knows no such device.
    """
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError):
        raise ValueError(f"no device is called {str(device)!r}: try cpu or cuda") from None
    if kind == "cuda":
        return DeviceClock(device, cold_cache)
    return WallClock() if kind == "cpu" else WallClock(torch.accelerator.synchronize)


def clock_here(device: torch.device | str, cold_cache: bool = False) -> Clock:
    """`clock_for` a device that this machine has. Raises ValueError if it doesn't have one."""
    clock, kind = clock_for(device, cold_cache), torch.device(device).type
    here = torch.accelerator.current_accelerator(check_available=True)
    if kind != "cpu" and (here is None or here.type != kind):
        raise ValueError(f"PyTorch finds no {kind} device here: try {here.type if here else 'cpu'}")
    return clock
