"""What is set around a run on fake tensors: autocast, silence, the random numbers."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from amp_lessons.amp.fake_tensors.caches import caches_kept_clean
from amp_lessons.amp.fake_tensors.cuda import ensure_cuda_guard, failures_unlogged, without_cudnn
from amp_lessons.amp.fake_tensors.errors import TraceError
from amp_lessons.amp.fake_tensors.known import value_of
from amp_lessons.core.interrupts import held


def fake_mode(sizes: Any = None) -> FakeTensorMode:
    """A mode in which tensors are fake, and real ones that a model brings along are taken too.

    For the first one torch imports its compiler, which takes half a second. Ctrl+C waits for that:
    otherwise half of the compiler would be left, and every later mode would fail.

    Args:
        sizes: a `ShapeEnv`, if sizes may depend on values.
    """
    with held():
        return FakeTensorMode(allow_non_fake_inputs=True, shape_env=sizes)


def ctrl_c_between_ops() -> AbstractContextManager[None]:
    """While it is open, Ctrl+C stops a run between two calls of torch and not inside one."""
    return held(("__torch_function__", "__torch_dispatch__", "_backward", "add", "__del__"))


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
    with available, bf16, without_cudnn(), torch.autocast(device, dtype=dtype, enabled=enabled):
        yield


@contextmanager
def as_in_a_run(model: nn.Module, *functions: Any) -> Iterator[None]:
    """Have a model on fake tensors go the way of a real run, and leave nothing fake behind.

    transformers leaves out its looks at a mask's values where it sees a fake tensor, and then
    builds masks that a real run does without. Fakes whose values are known can be looked at.
    ``module.to(dtype)`` inside a forward swaps fake parameters, which torch refuses for most.
    ``functions`` run beside the model, such as a loss.
    """
    with ExitStack() as stack:
        library = sys.modules.get("transformers.utils.import_utils")
        asks = getattr(library, "is_fake_tensor", None)
        if asks is not None:
            known = mock.patch.object(
                library, "is_fake_tensor", lambda x: asks(x) and value_of(x) is None
            )
            stack.enter_context(known)
        stack.enter_context(mock.patch.object(nn.Module, "_apply", _apply))
        stack.enter_context(caches_kept_clean(model, *functions))
        yield


def _apply(self: nn.Module, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
    """`nn.Module._apply`, with new parameters in the place of those that change."""
    for module in self.modules() if recurse else (self,):
        for name, parameter in module._parameters.items():
            if parameter is not None:
                changed = fn(parameter)
                if changed is not parameter:
                    new = nn.Parameter(changed.detach(), parameter.requires_grad)
                    module._parameters[name] = new
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = fn(buffer)
    return self


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
