"""The limits of this machine, measured on the spot: FLOP/s of a large matmul, bytes/s of a copy.

What the maker promises is in `roofline`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from amp_lessons.amp.speed.timing.clocks import Clock, Step, clock_here
from amp_lessons.amp.speed.timing.method import take_turns, warm_up


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
    clock = clock or clock_here(device)
    where = torch.device(device)
    _check_size(size)
    if size is None:
        size = 8192 if where.type != "cpu" else 128 if dtype == torch.float16 else 1024
    a, b = (torch.randn(size, size, device=where).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    layouts = ((a, b.t()), (a, b), (a.t(), b))
    return 2 * size**3 / _fastest([partial(torch.mm, *ab, out=out) for ab in layouts], clock)


def measured_bandwidth(
    device: torch.device | str, *, size: int | None = None, clock: Clock | None = None
) -> float:
    """Bytes/s of a copy within the device's memory, the fastest of 10: the other roof.

    Each byte of the copy is read once and written once, so it counts twice. On CUDA the L2 cache
    is cleared before each copy, or a part of the bytes would come from there. On a CPU nothing is
    cleared: the default size is more than the caches of most CPUs hold.

    Args:
        device: to measure.
        size: bytes to copy; by default 256 MiB on a CPU and 1 GiB on a GPU, or a quarter of what
            it has free.
        clock: another clock than `clock_for(device, cold_cache=True)`.

    Raises:
        ValueError: if the size is under 1, or there is no such device here.
    """
    clock = clock or clock_here(device, cold_cache=True)
    where = torch.device(device)
    _check_size(size)
    if size is None:
        free = torch.cuda.mem_get_info(where)[0] if where.type == "cuda" else 2**30
        size = 2**28 if where.type == "cpu" else min(2**30, free // 4)
    source = torch.zeros(size, dtype=torch.uint8, device=where)
    target = torch.empty_like(source)
    return 2 * size / _fastest([lambda: target.copy_(source)], clock)


def _check_size(size: int | None) -> None:
    if size is not None and (type(size) is not int or size < 1):
        raise ValueError(f"size must be a whole number, 1 or more, got {size!r}")


def _fastest(steps: Sequence[Step], clock: Clock, repeats: int = 10) -> float:
    """Seconds of the fastest call of all. A roof is what the machine can do: no average is taken.

    Only the first step is warmed up, for the sake of the clock rate: a slow first call of another
    one can't be the fastest.
    """
    warm_up(steps[0], clock)
    named = {str(place): step for place, step in enumerate(steps)}
    return min(seconds for _, seconds in take_turns(named, clock, repeats))
