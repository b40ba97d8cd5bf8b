"""What a workload will take, worked out on fake tensors before a byte of it is allocated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel

from amp_lessons.amp.fake_tensors.modes import quiet
from amp_lessons.amp.memory.training import optimizer_bytes, training_memory
from amp_lessons.amp.speed import device as machine
from amp_lessons.amp.speed.bench.modes import Mode
from amp_lessons.amp.speed.bench.workloads import BenchError, Workload
from amp_lessons.amp.speed.timing import count_bytes, count_flops
from amp_lessons.core.sizes import size

PRECISION = {None: "fp32", torch.float16: "amp fp16", torch.bfloat16: "amp bf16"}


@dataclass(frozen=True)
class WorkloadCost:
    """What a workload takes.

    Attributes:
        step_flops: of the matmuls and convolutions of a step; attention counted as plain matmuls,
            so that it does not depend on the kernel.
        step_bytes: for each autocast dtype, bytes that the eager ops of a step read and write.
        batch_bytes: of one preloaded batch.
        data_bytes: of all batches.
        state_bytes: parameters and optimizer state of all modes, which stay side by side.
        work_bytes: gradients, what the largest mode saves for its backward (its weights' copies
            included), and room for three more outputs: gradients on their way, the loss's own.
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


def plan(workload: Workload, modes: Sequence[Mode], device: str = "cpu") -> WorkloadCost:
    """Trace one step in each autocast dtype. Raises `BenchError` for a size past any memory.

    The memory follows the device's autocast rules. FLOPs and bytes moved are counted with those of
    the CPU, for only there can a fake tensor go backward without a GPU: the FLOPs are the same; of
    the bytes, CUDA's softmax and norms in float32 move some more.
    """
    try:
        with quiet():
            return _plan(workload, modes, device)
    except (RuntimeError, OverflowError) as error:
        if "overflow" not in str(error).lower():
            raise
        raise BenchError(
            f"{workload.name} is larger than any memory: take a smaller size"
        ) from None


def check_fits(workload: Workload, plan: WorkloadCost, free: int | None) -> None:
    """Raise `BenchError` with the estimate if a workload takes more than ``free`` bytes."""
    if free is None or plan.total_bytes <= free:
        return
    room = (free - plan.state_bytes - plan.work_bytes) // plan.batch_bytes
    cure = "take a smaller size"
    if 1 <= room < workload.batches:
        cure = f"take --batches {room}, or a smaller size"
    raise BenchError(
        f"{workload.name} needs about {size(plan.total_bytes)} "
        f"({size(plan.data_bytes)} of them preloaded data), {size(free)} are free: {cure}"
    )


def free_bytes(device: torch.device) -> int | None:
    """Free memory of the device, for a CPU what the machine or its container has left."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return machine.cpu().free


def _plan(workload: Workload, modes: Sequence[Mode], device: str) -> WorkloadCost:
    dtypes = tuple(dict.fromkeys(mode.autocast for mode in modes))
    with torch.random.fork_rng(devices=[]), FakeTensorMode():
        flops, moved, state = _count(workload, dtypes)
    with torch.device("meta"):
        model, (x, target) = workload.build(), workload.batch()
        output = model(x)
    needed = [
        training_memory(
            model, x, target=target, loss=workload.loss, precision=PRECISION[dtype], device=device
        )
        for dtype in dtypes
    ]
    first = needed[0]
    kept = max(memory.activations + memory.cast_cache for memory in needed)
    return WorkloadCost(
        step_flops=flops,
        step_bytes=moved,
        batch_bytes=first.data,
        data_bytes=first.data * workload.batches,
        state_bytes=len(modes) * (first.parameters + state),
        work_bytes=first.gradients + kept + 3 * output.numel() * output.element_size(),
    )


def _count(
    workload: Workload, dtypes: Sequence[torch.dtype | None]
) -> tuple[int, dict[torch.dtype | None, int], int]:
    """FLOPs of a step, the bytes that it moves by autocast dtype, bytes of the optimizer state."""
    model = workload.build()
    optimizer = workload.optimizer(model.parameters())
    x, target = workload.batch()

    def step(dtype: torch.dtype | None) -> None:
        with torch.autocast("cpu", dtype, enabled=dtype is not None):
            loss = workload.loss(model(x), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    with sdpa_kernel(SDPBackend.MATH):
        flops = count_flops(partial(step, None))
    moved = {dtype: count_bytes(partial(step, dtype)) for dtype in dtypes}
    return flops, moved, optimizer_bytes(optimizer)
