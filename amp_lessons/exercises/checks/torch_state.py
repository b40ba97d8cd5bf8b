"""Torch's global state around a check: the same for every answer, and afterwards as it was.

A notebook may have changed the default dtype, an answer may leave autocast on or seed the random
numbers, and a reference seeds them too and watches every optimizer. None of it may reach a
verdict, or the learner's next cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch

_one_at_a_time = RLock()  # the state belongs to the process, and the grader judges in threads
_DEVICES = ("cpu", "cuda")


@contextmanager
def usual_torch() -> Iterator[None]:
    """Within this context torch is as after its import: float32 and the CPU by default, gradients
    on, no inference mode, no autocast; and one thread for an op, since the tensors of a check are
    small, and sums in several threads are other sums. Then these are put back as they were before,
    and with them the random numbers.
    """
    with _one_at_a_time, _put_back(), torch.inference_mode(False), torch.enable_grad():
        torch.set_default_dtype(torch.float32)
        _set_default_device(torch.device("cpu"))
        torch.set_num_threads(1)
        for device in _DEVICES:
            torch.set_autocast_enabled(device, False)
        yield


@contextmanager
def _put_back() -> Iterator[None]:
    dtype, device = torch.get_default_dtype(), torch.get_default_device()
    threads, random = torch.get_num_threads(), torch.get_rng_state()
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    autocast = [(d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in _DEVICES]
    cached, depth = torch.is_autocast_cache_enabled(), _autocast_depth()
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        _set_default_device(device)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.set_rng_state(random)
        if on_gpus:
            torch.cuda.set_rng_state_all(on_gpus)
        for name, enabled, to in autocast:
            torch.set_autocast_enabled(name, enabled)
            torch.set_autocast_dtype(name, to)
        torch.set_autocast_cache_enabled(cached)
        if _autocast_depth() > depth:  # a region was entered and never left
            while _autocast_depth() > depth:
                torch.autocast_decrement_nesting()
            torch.clear_autocast_cache()


def _set_default_device(device: torch.device) -> None:
    """Only where it has to change: setting it makes every call that makes a tensor slower."""
    if torch.get_default_device() != device:
        torch.set_default_device(None if device.type == "cpu" else device)


def _autocast_depth() -> int:
    """How many autocast regions are open around this line."""
    depth = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return depth
