"""What is set around a run on fake tensors: autocast, silence, the random numbers."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import torch

from amp_lessons.fakes.cuda import ensure_cuda_guard, failures_unlogged
from amp_lessons.fakes.errors import TraceError


def check_device(device: str) -> None:
    """Make fake tensors of this device possible. Raises `TraceError` where they are not."""
    if device == "cuda" and not ensure_cuda_guard():
        raise TraceError(
            "this CPU build of torch cannot hold fake CUDA tensors; "
            'use device="cpu", or install a build of torch with CUDA (no GPU is needed)'
        )


@contextmanager
def autocast_on(device: str, dtype: torch.dtype, enabled: bool) -> Iterator[None]:
    """`torch.autocast`, which for "cuda" also works where there is no GPU.

    Torch's own switches itself off there. Regions inside the model are covered as well: while this
    is open, ``torch.autocast("cuda")`` means what it means on a GPU.
    """
    missing = "torch.cuda.amp.common.amp_definitely_not_available"
    available = mock.patch(missing, return_value=False)
    bf16 = mock.patch("torch.cuda.is_bf16_supported", return_value=True)
    with available, bf16, torch.autocast(device, dtype=dtype, enabled=enabled):
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Keep torch's warnings and its log of failed fake ops off the reader's screen."""
    with failures_unlogged(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def rng_kept() -> Iterator[None]:
    """Put the random states of torch, Python and NumPy back at the end."""

    python, numpy = random.getstate(), np.random.get_state()
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    try:
        with torch.random.fork_rng(devices=gpus):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
