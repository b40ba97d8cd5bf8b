"""A stand-in for `torch.cuda`, so that the code that only CUDA runs can be tested on a CPU.

CPU tensors do the arithmetic. Around them stands a GPU whose times, memory and caches are known,
because they are made up: a queue that the CPU runs ahead of, an allocator that knows which tensors
are alive, a cuBLAS workspace for each thread, an L2 cache, and switches that take time to flip.
It stands in for the names of `torch.cuda` that the bench uses, and says nothing about a real GPU.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils import _device
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

MIB = 2**20
BLOCK = 512
"""The caching allocator rounds sizes up to this (c10/cuda/CUDACachingAllocator, kMinBlockSize)."""


class PretendCuda:
    """A GPU with known properties. `installed` puts it in the place of `torch.cuda`.

    Attributes:
        flops: FLOP/s by what multiplies: "ieee", "tf32" or "16 bit".
        bandwidth: bytes/s of its memory; data in the L2 cache comes ten times as fast.
        l2: bytes of the L2 cache.
        memory: bytes in all.
        workspace: bytes that cuBLAS takes for each thread at its first matrix product.
        launch: seconds that it takes the CPU to queue an op.
        flip: seconds that it takes the CPU to set an ``fp32_precision`` switch.
        slow_until: seconds of work during which the GPU takes 20 times as long for everything.
    """

    def __init__(self, **settings: Any) -> None:
        # Slow, so that few real steps fill a sample.
        self.flops = {"ieee": 1e8, "tf32": 4e8, "16 bit": 8e8}
        self.bandwidth, self.l2, self.memory = 1e10, 4 * MIB, 256 * MIB
        self.workspace, self.launch, self.flip = 3 * MIB, 1e-6, 2e-3
        self.slow_until = 0.0
        self.capability = (9, 0)
        vars(self).update(settings)
        self.host = self.device = self.worked = 0.0
        self.alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.workspaces: set[str] = set()
        self.peak = 0
        self.cached: OrderedDict[int, int] = OrderedDict()

    # ---- time: the CPU queues work, and the GPU works through it ------------------------------

    def run(self, seconds: float) -> None:
        """Queue work of this length. It starts when the GPU is free, and has been told of it."""
        self.host += self.launch
        slow = 20 if self.worked < self.slow_until else 1
        self.worked += seconds * slow
        self.device = max(self.device, self.host) + seconds * slow

    def synchronize(self, _: object = None) -> None:
        self.host = max(self.host, self.device)

    # ---- memory: which tensors are alive -------------------------------------------------------

    def allocated(self, _: object = None) -> int:
        """Bytes of all tensors that are alive, and of the workspaces."""
        self.alive = {key: one for key, one in self.alive.items() if not one[0].expired()}
        tensors = sum(size for _, size in self.alive.values())
        return tensors + self.workspace * len(self.workspaces)

    def note(self, made: list[Tensor]) -> None:
        """Take tensors that an op has made into the books."""
        for tensor in made:
            storage = tensor.untyped_storage()
            size = -(-storage.nbytes() // BLOCK) * BLOCK
            self.alive[storage._cdata] = (StorageWeakRef(storage), size)
        self.peak = max(self.peak, self.allocated())

    def reset_peak(self, _: object = None) -> None:
        self.peak = self.allocated()

    # ---- ops -----------------------------------------------------------------------------------

    def moved_seconds(self, tensors: list[Tensor]) -> float:
        """Seconds to move the tensors' bytes; what lies in the L2 cache moves faster."""
        seconds = 0.0
        for tensor in tensors:
            storage = tensor.untyped_storage()._cdata
            size = tensor.numel() * tensor.element_size()
            seconds += size / self.bandwidth / (10 if storage in self.cached else 1)
            self.cached.pop(storage, None)
            self.cached[storage] = size
        while sum(self.cached.values()) > self.l2:
            self.cached.popitem(last=False)
        return seconds

    def product_seconds(self, func: Any, args: Any, kwargs: Any, result: Any) -> float:
        """Seconds of a matrix product or convolution. It takes its thread's workspace."""
        # On CUDA autograd runs backward in a thread of its own, with its own cuBLAS handle.
        backward = torch._C._current_graph_task_id() != -1
        self.workspaces.add("autograd's thread" if backward else "main thread")
        kind = "16 bit" if args[0].dtype != torch.float32 else ""
        if not kind:
            conv = "conv" in str(func)
            switches: Any = torch.backends.cudnn.conv if conv else torch.backends.cuda.matmul
            kind = "tf32" if switches.fp32_precision == "tf32" else "ieee"
        flops = flop_registry[func.overloadpacket](*args, **kwargs, out_val=result)
        return flops / self.flops[kind]


class _Ops(TorchDispatchMode):
    """Has each op take its time and its memory on the pretended GPU."""

    def __init__(self, gpu: PretendCuda) -> None:
        super().__init__()
        self.gpu = gpu

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        kwargs = kwargs or {}
        if torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None:
            return func(*args, **kwargs)
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if any(tensor.is_meta for tensor in inputs):
            return func(*args, **kwargs)
        # Bytes are moved and never read: a large copy or fill need not be done.
        idle = bool(inputs) and inputs[0].dtype == torch.uint8 and func._schema.is_mutable
        result = args[0] if idle else func(*args, **kwargs)
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        if made and made[0].is_meta:
            return result
        if not func.is_view:
            before = {tensor.untyped_storage()._cdata for tensor in inputs}
            new = [one for one in made if one.untyped_storage()._cdata not in before]
            self.gpu.note(new)
            if "empty" not in str(func):
                self.gpu.run(self._seconds(func, args, kwargs, result, [*inputs, *new]))
        return result

    def _seconds(
        self, func: Any, args: Any, kwargs: Any, result: Any, touched: list[Tensor]
    ) -> float:
        moving = self.gpu.moved_seconds(touched)
        if func.overloadpacket not in flop_registry:
            return moving
        return max(moving, self.gpu.product_seconds(func, args, kwargs, result))


class _OnCpu(TorchFunctionMode):
    """Has ``device="cuda"`` in a call mean the CPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        kwargs = dict(kwargs or {})
        if _is_cuda(kwargs.get("device")):
            kwargs["device"] = torch.device("cpu")
        return func(*args, **kwargs)


def _is_cuda(device: object) -> bool:
    return device is not None and str(device).startswith("cuda")


class _Event:
    """A mark in the queue, as `torch.cuda.Event`."""

    def __init__(self, gpu: PretendCuda, enable_timing: bool) -> None:
        assert enable_timing, "an event without timing can't be asked for a time"
        self.gpu, self.at = gpu, None

    def record(self) -> None:
        self.at = max(self.gpu.device, self.gpu.host)

    def synchronize(self) -> None:
        self.gpu.host = max(self.gpu.host, self.at)

    def elapsed_time(self, end: _Event) -> float:
        assert end.at <= self.gpu.host, "asked before the GPU had passed the mark"
        return 1000 * (end.at - self.at)


@contextmanager
def installed(gpu: PretendCuda) -> Iterator[PretendCuda]:
    """Put the GPU in the place of `torch.cuda`, and everything back at the end."""
    with pytest.MonkeyPatch.context() as patch:
        _patch_cuda(patch, gpu)
        _patch_the_rest(patch, gpu)
        with _OnCpu(), _Ops(gpu):
            yield gpu


def _patch_cuda(patch: pytest.MonkeyPatch, gpu: PretendCuda) -> None:
    properties = SimpleNamespace(
        name="Pretend GPU",
        major=gpu.capability[0],
        minor=gpu.capability[1],
        total_memory=gpu.memory,
        L2_cache_size=gpu.l2,
        uuid="0",
    )
    native = gpu.capability >= (8, 0)
    names = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "device": lambda _: nullcontext(),
        "synchronize": gpu.synchronize,
        "Event": lambda enable_timing=False: _Event(gpu, enable_timing),
        "get_device_properties": lambda _: properties,
        "get_device_name": lambda *_: properties.name,
        "get_device_capability": lambda *_: gpu.capability,
        "is_bf16_supported": lambda including_emulation=True: native or including_emulation,
        "mem_get_info": lambda _: (gpu.memory - gpu.allocated(), gpu.memory),
        "memory_allocated": gpu.allocated,
        "max_memory_allocated": lambda _: gpu.peak,
        "reset_peak_memory_stats": gpu.reset_peak,
        "empty_cache": lambda: None,
        "get_rng_state": lambda _: torch.get_rng_state(),
        "set_rng_state": lambda state, _: torch.set_rng_state(state),
    }
    for name, stand_in in names.items():
        patch.setattr(torch.cuda, name, stand_in)


def _patch_the_rest(patch: pytest.MonkeyPatch, gpu: PretendCuda) -> None:
    cuda = torch.device("cuda")
    patch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: cuda)
    # `with torch.device("cuda")` makes one of these.
    entered = _device.DeviceContext.__init__
    patch.setattr(
        _device.DeviceContext,
        "__init__",
        lambda self, device: entered(self, "cpu" if _is_cuda(device) else device),
    )
    # Autocast and its scaler ask for the tensors' device, which is the CPU underneath.
    for module, name in ((torch, "autocast"), (torch.amp, "GradScaler")):
        patch.setattr(module, name, _for_the_cpu(getattr(module, name)))
    set_switch = torch._C._set_fp32_precision_setter

    def flip(*args: str) -> None:
        gpu.host += gpu.flip
        set_switch(*args)

    patch.setattr(torch._C, "_set_fp32_precision_setter", flip)


def _for_the_cpu(kind: type) -> type:
    """A subclass that takes "cuda" for the CPU, but lets fake CUDA tensors be planned with."""

    class OnCpu(kind):
        def __init__(self, device_type: str = "cuda", *args: Any, **kwargs: Any) -> None:
            fakes = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)
            real = _is_cuda(device_type) and fakes is None
            super().__init__("cpu" if real else device_type, *args, **kwargs)

    return OnCpu
