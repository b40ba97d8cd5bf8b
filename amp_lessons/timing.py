"""How long it takes: the method behind every time in this course.

A step is a function without arguments. It is warmed up until its time no longer changes, then all
steps take turns, many times, and the median is reported with its spread. What is timed, in which
precisions, is the business of `bench`; runs that were kept are in `records`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

Step = Callable[[], object]

WINDOW = 3
TOLERANCE = 0.05
WARM_UP_LIMIT = 30


@dataclass(frozen=True)
class Timing:
    """What timing one step came to.

    Attributes:
        name: of the step.
        samples: seconds a call, one for each turn, in order; two or more.
        clock: what measured them, "cuda events" or "perf_counter".
        calls: calls of the step between two readings of the clock.
        warm_up: turns that were thrown away before the first sample.
        settled: whether the warm-up ended because the time had stopped changing. If False, it
            ended at its limit, and the samples may still drift.
    """

    name: str
    samples: tuple[float, ...]
    clock: str
    calls: int = 1
    warm_up: int = 0
    settled: bool = True

    def __post_init__(self) -> None:
        if len(self.samples) < 2:
            raise ValueError(f"{self.name}: a spread needs two or more samples")

    @property
    def median(self) -> float:
        """Seconds a call; half of the samples were faster."""
        return statistics.median(self.samples)

    @property
    def iqr(self) -> float:
        """Interquartile range in seconds: the middle half of the samples lies within it."""
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return high - low

    @property
    def spread(self) -> float:
        """The interquartile range as a share of the median: 0.03 is 3%."""
        return self.iqr / self.median if self.median else 0.0


# ---- clocks ----------------------------------------------------------------------------------


class Clock(Protocol):
    """Something that times calls of a step."""

    name: str

    def time(self, step: Step, calls: int) -> float:
        """Seconds a call, over ``calls`` calls in a row."""


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

    The marks are `torch.cuda.Event`: they leave out the way of the last answer back to the CPU,
    but a GPU that waits for the CPU between them is on the clock, as it should be.
    """

    name = "cuda events"

    def __init__(self, device: torch.device | str = "cuda") -> None:
        self.device = torch.device(device)

    def time(self, step: Step, calls: int = 1) -> float:
        with torch.cuda.device(self.device):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            for _ in range(calls):
                step()
            end.record()
            end.synchronize()
            return start.elapsed_time(end) / 1000 / calls  # it counts milliseconds


def clock_for(device: torch.device | str) -> Clock:
    """Device events on CUDA; elsewhere a clock on the wall that waits for the device.

    Raises:
        ValueError: if torch knows no such device.
    """
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError):
        raise ValueError(f"no device is called {str(device)!r}: try cpu or cuda") from None
    if kind == "cuda":
        return DeviceClock(device)
    return WallClock() if kind == "cpu" else WallClock(torch.accelerator.synchronize)


def _clock_here(device: torch.device | str) -> Clock:
    """`clock_for`, of a device that this machine has. Raises ValueError if it has none such."""
    clock, kind = clock_for(device), torch.device(device).type
    here = torch.accelerator.current_accelerator(check_available=True)
    if kind != "cpu" and (here is None or here.type != kind):
        raise ValueError(f"PyTorch finds no {kind} device here: try {here.type if here else 'cpu'}")
    return clock


# ---- the method ------------------------------------------------------------------------------


def compare(
    steps: Mapping[str, Step],
    device: torch.device | str = "cpu",
    repeats: int = 15,
    *,
    calls: int = 1,
    clock: Clock | None = None,
) -> dict[str, Timing]:
    """Time several steps side by side, so that a slow moment of the machine hits them all.

    Each is warmed up until it is stable (see `warm_up`). Then they take turns, and every round
    turns the order round.

    Args:
        steps: by name; each is called without arguments, and what it returns is dropped.
        device: that the steps run on. On CUDA its events are the clock.
        repeats: samples of each step, 2 or more.
        calls: calls of a step in one sample. Take more for steps under a millisecond.
        clock: another clock than `clock_for(device)`.

    Raises:
        ValueError: if there are no steps, under 2 repeats, no calls, or no such device here.
    """
    whole = isinstance(repeats, int) and isinstance(calls, int)
    if not steps or not whole or repeats < 2 or calls < 1:
        raise ValueError("compare needs a step, 2 or more repeats, and 1 or more calls")
    if not isinstance(steps, Mapping) or not all(map(callable, steps.values())):
        raise ValueError("steps must be functions by name: {'fp32': step, ...}")
    clock = clock or _clock_here(device)
    warmed = {name: warm_up(step, clock, calls) for name, step in steps.items()}
    samples: dict[str, list[float]] = {name: [] for name in steps}
    for name, seconds in take_turns(steps, clock, repeats, calls):
        samples[name].append(seconds)
    return {
        name: Timing(name, tuple(samples[name]), clock.name, calls, *warmed[name]) for name in steps
    }


def warm_up(step: Step, clock: Clock, calls: int = 1) -> tuple[int, bool]:
    """Run a step until its time is stable: compilers, caches and clock rates have settled then.

    Stable means that the medians of the last 3 turns and of the 3 before them differ by at most
    5%. It gives up after 30 turns.

    Returns:
        The turns it took, and whether the time became stable.
    """
    seen: list[float] = []
    while len(seen) < WARM_UP_LIMIT:
        seen.append(clock.time(step, calls))
        if len(seen) >= 2 * WINDOW:
            before = statistics.median(seen[-2 * WINDOW : -WINDOW])
            now = statistics.median(seen[-WINDOW:])
            if abs(before - now) <= TOLERANCE * now:
                return len(seen), True
    return len(seen), False


def take_turns(
    steps: Mapping[str, Step], clock: Clock, repeats: int, calls: int = 1
) -> Iterator[tuple[str, float]]:
    """Time the steps in turn, forwards and backwards by rounds: (name, seconds a call).

    What was yielded stays measured, whatever happens to a later turn.
    """
    order = list(steps)
    for _ in range(repeats):
        for name in order:
            yield name, clock.time(steps[name], calls)
        order.reverse()


# ---- work and roofs --------------------------------------------------------------------------


def count_flops(step: Step) -> int:
    """Floating-point operations of the matmuls and convolutions in one call of a step.

    By `torch.utils.flop_counter`: a multiply and an add are two. Elementwise work and reductions
    are not counted; beside a matmul they are next to nothing, in operations but not in time.
    """
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()


def count_bytes(step: Step) -> int:
    """Bytes that the ops of one call read and write, if none is fused and no cache helps.

    A view moves nothing. FLOPs divided by these bytes are the arithmetic intensity of the eager
    program; a compiler that fuses moves fewer.
    """
    with _Traffic() as traffic:
        step()
    return traffic.bytes


class _Traffic(TorchDispatchMode):
    """Adds up the bytes of each op's inputs and outputs."""

    bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        result = func(*args, **(kwargs or {}))
        # `empty` and its like write nothing yet: what fills them is an op of its own.
        if not func.is_view and "empty" not in str(func):
            for leaf in tree_leaves((args, kwargs, result)):
                if isinstance(leaf, Tensor):
                    self.bytes += leaf.numel() * leaf.element_size()
        return result


Fp32Precision = Literal["ieee", "tf32"]


@contextmanager
def fp32_precision(precision: Fp32Precision) -> Iterator[None]:
    """Let float32 matmuls and convolutions on CUDA run as IEEE float32 or as TF32, for a while.

    By the ``fp32_precision`` switches that PyTorch has since 2.9; afterwards they are as before,
    after an error too. The old ``allow_tf32`` switches must not be mixed with them: inside "tf32",
    torch 2.13 raises for whoever reads them or `torch.get_float32_matmul_precision` (pytorch issue
    166387), and Inductor reads the latter. So compile only inside "ieee".
    """
    switches = _switches().values()
    before = [switch.fp32_precision for switch in switches]
    try:
        for switch in switches:
            switch.fp32_precision = precision
        yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.fp32_precision = value


def fp32_state() -> dict[str, str]:
    """The ``fp32_precision`` switches as they are now, for a record."""
    return {name: switch.fp32_precision for name, switch in _switches().items()}


def _switches() -> dict[str, Any]:
    """What holds each ``fp32_precision``, by its name below `torch.backends`."""
    cudnn: Any = torch.backends.cudnn
    return {
        "cuda.matmul": torch.backends.cuda.matmul,
        "cudnn.conv": cudnn.conv,
        "cudnn.rnn": cudnn.rnn,
    }


def measured_peak(
    dtype: torch.dtype,
    device: torch.device | str,
    *,
    size: int | None = None,
    clock: Clock | None = None,
) -> float:
    """FLOP/s of a large square matmul, the fastest of 10: the roof that arithmetic has here.

    All three layouts that training needs are tried: of the forward pass and of both gradients.

    Args:
        dtype: of both matrices and the result. For float32 the precision is the one that is set
            (see `fp32_precision`).
        device: to measure.
        size: of the matrices; by default 8192 on a GPU, 1024 on a CPU, and 128 for float16 there,
            which few CPUs multiply natively.
        clock: another clock than `clock_for(device)`.

    Raises:
        ValueError: if the size is under 1, or there is no such device here.
    """
    clock = clock or _clock_here(device)
    where = torch.device(device)
    _check_size(size)
    if size is None:
        size = 8192 if where.type != "cpu" else 128 if dtype == torch.float16 else 1024
    a, b = (torch.randn(size, size, device=where).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    layouts = ((a, b.t()), (a, b), (a.t(), b))
    return 2 * size**3 / min(_fastest(partial(torch.mm, *ab, out=out), clock) for ab in layouts)


def measured_bandwidth(
    device: torch.device | str, *, size: int | None = None, clock: Clock | None = None
) -> float:
    """Bytes/s of a copy within the device's memory, the fastest of 10: the other roof.

    Each byte of the copy is read once and written once, so it counts twice.

    Args:
        device: to measure.
        size: bytes to copy; by default 256 MiB on a CPU and 1 GiB on a GPU, or a quarter of what
            it has free: more than caches hold.
        clock: another clock than `clock_for(device)`.

    Raises:
        ValueError: if the size is under 1, or there is no such device here.
    """
    clock = clock or _clock_here(device)
    where = torch.device(device)
    _check_size(size)
    if size is None:
        free = torch.cuda.mem_get_info(where)[0] if where.type == "cuda" else 2**30
        size = 2**28 if where.type == "cpu" else min(2**30, free // 4)
    source = torch.zeros(size, dtype=torch.uint8, device=where)
    target = torch.empty_like(source)
    return 2 * size / _fastest(lambda: target.copy_(source), clock)


def _check_size(size: int | None) -> None:
    if size is not None and (type(size) is not int or size < 1):
        raise ValueError(f"size must be a whole number, 1 or more, got {size!r}")


def _fastest(step: Step, clock: Clock, repeats: int = 10) -> float:
    """Seconds of the fastest call. A roof is what the machine can do, so nothing is averaged."""
    warm_up(step, clock)
    return min(seconds for _, seconds in take_turns({"": step}, clock, repeats))
