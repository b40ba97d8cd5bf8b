"""What fake CUDA tensors need on a machine with no GPU.

A fake tensor (`torch._subclasses.fake_tensor`) has a device, a dtype and a shape, and no data:
autocast treats it as a real one, so CUDA's rules can be asked anywhere. `policy` asks them of one
op and `explain` of a whole model.
"""

from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

_CUDA, _META = 1, 14  # c10::DeviceType
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"


def ensure_cuda_guard() -> bool:
    """Let fake CUDA tensors have gradients and be indexed in a torch without CUDA.

    Autograd asks the device's *guard* for the current stream whenever it records an op. A build
    with CUDA but no GPU gets a guard that does nothing from torch itself (`FakeTensorMode` calls
    ``torch._C._ensureCUDADeviceGuardSet``; before 2.10 it has CUDA's own, which asks the driver). A
    CPU build has none at all: some ops raise, and recording one for autograd *aborts* the process.
    So the guard of the meta device, which does nothing either, is lent to CUDA. It stays, as
    torch's own does: real CUDA tensors remain impossible, with the message as before.

    Returns:
        Whether there is a guard now; False if this build of torch does not let itself be helped.
    """
    ensure = getattr(torch._C, "_ensureCUDADeviceGuardSet", None)
    if ensure is not None:
        ensure()
    if torch.backends.cuda.is_built() and (ensure is not None or torch.cuda.is_available()):
        return True
    libraries = Path(torch.__file__).parent / "lib"
    name = "libc10.dylib" if sys.platform == "darwin" else "libc10.so"
    try:
        library = ctypes.CDLL(str(libraries / name))
        guards = (ctypes.c_void_p * (_META + 1)).in_dll(library, _REGISTRY)
    except (OSError, ValueError):
        return False
    if guards[_META] and (ensure is None or not guards[_CUDA]):
        guards[_CUDA] = guards[_META]
    return bool(guards[_CUDA])


@contextmanager
def without_cudnn() -> Iterator[None]:
    """Have RNNs run step by step, as they do in a build without CUDA.

    A CUDA build without a GPU would choose cuDNN, and that asks for the driver. Does nothing where
    there is a GPU.
    """
    before = torch._C._get_cudnn_enabled()
    torch._C._set_cudnn_enabled(before and torch.cuda.is_available())
    try:
        yield
    finally:
        torch._C._set_cudnn_enabled(before)


@contextmanager
def failures_unlogged() -> Iterator[None]:
    """Keep torch from logging a traceback for each op that raises on fake tensors."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
