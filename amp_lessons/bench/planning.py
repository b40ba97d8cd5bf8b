"""What a workload will take, worked out on fake tensors before a byte of it is allocated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.attention import SDPBackend, sdpa_kernel

from amp_lessons import device as machine
from amp_lessons.bench.modes import Mode
from amp_lessons.bench.workloads import BenchError, Workload
from amp_lessons.timing import count_bytes, count_flops


@dataclass(frozen=True)
class Plan:
    """What a workload takes.

    Attributes:
        step_flops: of the matmuls and convolutions of a step; attention counted as plain matmuls,
            so that it does not depend on the kernel.
        step_bytes: for each autocast dtype, bytes that the eager ops of a step read and write.
        batch_bytes: of one preloaded batch.
        data_bytes: of all batches.
        state_bytes: parameters and optimizer state of all modes, which stay side by side.
        work_bytes: gradients, what the largest mode saves for its backward, and room to compute.
    """

    step_flops: int
    step_bytes: dict[torch.dtype | None, int]
    batch_bytes: int
    data_bytes: int
    state_bytes: int
    work_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.data_bytes + self.state_bytes + self.work_bytes


def plan(workload: Workload, modes: Sequence[Mode]) -> Plan:
    """Trace one step in each autocast dtype. Raises `BenchError` for a size past any memory.

    The fakes are of the CPU whatever the bench runs on, for only there can a fake go backward
    without a GPU. The FLOPs are the same; of the bytes, CUDA's softmax and norms in float32 take
    some more than this counts.
    """
    try:
        with torch.random.fork_rng(devices=[]), FakeTensorMode():
            return _trace(workload, modes)
    except (RuntimeError, OverflowError) as error:
        if "overflow" not in str(error).lower():
            raise
        raise BenchError(
            f"{workload.name} is larger than any memory: take a smaller size"
        ) from None


def check_fits(workload: Workload, plan: Plan, free: int | None) -> None:
    """Raise `BenchError` with the estimate if a workload takes more than ``free`` bytes."""
    if free is None or plan.total_bytes <= free:
        return
    room = (free - plan.state_bytes - plan.work_bytes) // plan.batch_bytes
    cure = "take a smaller size"
    if 1 <= room < workload.batches:
        cure = f"take --batches {room}, or a smaller size"
    raise BenchError(
        f"{workload.name} needs about {gib(plan.total_bytes)} "
        f"({gib(plan.data_bytes)} of them preloaded data), {gib(free)} are free: {cure}"
    )


def free_bytes(device: torch.device) -> int | None:
    """Free memory of the device, for a CPU what the machine or its container has left."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return machine.cpu().free


def gib(count: int) -> str:
    """Bytes in words, such as ``"6.25 GiB"``."""
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


def _trace(workload: Workload, modes: Sequence[Mode]) -> Plan:
    model = workload.build()
    optimizer = workload.optimizer(model.parameters())
    x, target = workload.batch()
    dtype: torch.dtype | None = None

    def step() -> None:
        with torch.autocast("cpu", dtype, enabled=dtype is not None):
            loss = workload.loss(model(x), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    with sdpa_kernel(SDPBackend.MATH):
        flops = count_flops(step)
    moved, saved = {}, []
    for dtype in dict.fromkeys(mode.autocast for mode in modes):  # `step` reads it
        moved[dtype] = count_bytes(step)
        saved.append(_saved_bytes(step, model))
    parameters = sum(map(_size, model.parameters()))
    state = [v for s in optimizer.state.values() for v in s.values() if isinstance(v, Tensor)]
    batch = _size(x) + _size(target)
    return Plan(
        step_flops=flops,
        step_bytes=moved,
        batch_bytes=batch,
        data_bytes=batch * workload.batches,
        state_bytes=len(modes) * (parameters + sum(map(_size, state))),
        work_bytes=parameters + max(saved),
    )


def _saved_bytes(step: object, model: nn.Module) -> int:
    """Bytes kept for the backward pass, parameters apart, and twice the largest for gradients."""
    known = {p.untyped_storage()._cdata for p in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in known:
            kept[storage._cdata] = storage
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        step()
    sizes = [storage.nbytes() for storage in kept.values()]
    return sum(sizes) + 2 * max(sizes, default=0)


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
