"""Train the digits in mixed precision on any number of ranks: the script to take home.

The same file runs everywhere; only the command differs.

Two processes on a laptop, no GPU (gloo):

    torchrun --nproc-per-node 2 -m amp_lessons.amp.distributed.train --parallel ddp --precision fp16

One machine with 8 GPUs (NCCL, a GPU each):

    torchrun --nproc-per-node 8 -m amp_lessons.amp.distributed.train --parallel fsdp2 \\
        --precision bf16

Two such machines; the same line on both, HOST being the name of one of them:

    torchrun --nnodes 2 --nproc-per-node 8 --rdzv-id 11 --rdzv-backend c10d \\
        --rdzv-endpoint HOST:29500 -m amp_lessons.amp.distributed.train --parallel fsdp2

DDP runs under autocast; FSDP2 brings its own `MixedPrecisionPolicy`, which casts whole modules.
The scaler is the same in both, and is switched off where the precision is not FP16.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from amp_lessons.amp.training.loops import Batches, digits_network, load_digits

if TYPE_CHECKING:  # half a second to import, and few need it
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy

PARALLEL = ("ddp", "fsdp2")
DTYPES = {"fp32": None, "fp16": torch.float16, "bf16": torch.bfloat16}
TORCHRUN = "python -m torch.distributed.run --nproc-per-node 2"
Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Hooks:
    """Where an experiment may interfere with a step; a real run leaves both alone.

    Args:
        loss: takes the number of the step and the loss; returns the loss to go on with.
        gradients: takes the number of the step and the model, between backward and the scaler.
    """

    loss: Callable[[int, Tensor], Tensor] = lambda step, loss: loss
    gradients: Callable[[int, nn.Module], None] = lambda step, model: None


def started_by_torchrun() -> bool:
    """Whether the environment says which rank this is, of how many, here and in all."""
    return {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"} <= os.environ.keys()


@contextmanager
def process_group() -> Iterator[torch.device]:
    """Join the other ranks; gives this rank's device. torchrun has set the environment.

    A GPU for each rank of this machine if there are enough (and NCCL), else the CPU.
    """
    enough = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    if enough and dist.is_nccl_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device, timeout=timedelta(minutes=5))
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo", timeout=timedelta(minutes=5))
    try:
        yield device
        dist.barrier()  # no rank leaves while another still talks to it
    finally:
        # Models hold the group, and gloo's threads hold tensors. Both must go before Python itself
        # does, or the process sometimes aborts at its end (pytorch PR 179291).
        gc.collect()
        dist.destroy_process_group()


def policy_for(precision: str) -> MixedPrecisionPolicy:
    """FSDP2's policy: compute in 16 bits, add gradients up and return outputs in FP32."""
    from torch.distributed.fsdp import MixedPrecisionPolicy

    if DTYPES[precision] is None:
        return MixedPrecisionPolicy()
    return MixedPrecisionPolicy(
        param_dtype=DTYPES[precision], reduce_dtype=torch.float32, output_dtype=torch.float32
    )


def distribute(model: nn.Module, parallel: str, precision: str, device: torch.device) -> nn.Module:
    """The model on its device: a replica on each rank (DDP), or a shard of it (FSDP2)."""
    model = model.to(device)
    if parallel == "ddp":
        return DistributedDataParallel(
            model, device_ids=[device] if device.index is not None else None
        )
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    fully_shard(model, mesh=mesh, mp_policy=policy_for(precision))
    return model


def is_sharded(model: nn.Module) -> TypeGuard[FSDPModule]:
    """Whether it's one of FSDP2's."""
    from torch.distributed.fsdp import FSDPModule

    return isinstance(model, FSDPModule)


def forward_context(model: nn.Module, precision: str, device: torch.device) -> Any:
    """Autocast for DDP in 16 bits; nothing where FSDP2's policy does the casting."""
    dtype = DTYPES[precision]
    if dtype is None or is_sharded(model):
        return nullcontext()
    return torch.autocast(device.type, dtype=dtype)


def gradient_sync(model: nn.Module, wanted: bool) -> AbstractContextManager[None]:
    """Forward and backward under this context send gradients to the other ranks, or keep them."""
    if is_sharded(model):
        model.set_requires_gradient_sync(wanted)
        return nullcontext()
    return (
        nullcontext()
        if wanted or not isinstance(model, DistributedDataParallel)
        else model.no_sync()
    )


def take_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    micro_batches: Sequence[Batch],
    context: Callable[[], AbstractContextManager[Any]],
    hooks: Hooks,
    step: int,
) -> dict[str, Any]:
    """One optimizer step over some micro-batches; what this rank saw of it."""
    optimizer.zero_grad()
    for number, (images, labels) in enumerate(micro_batches, 1):
        with gradient_sync(model, wanted=number == len(micro_batches)):
            with context():
                loss = cross_entropy(model(images), labels) / len(micro_batches)
            scaler.scale(hooks.loss(step, loss)).backward()
    hooks.gradients(step, model)
    finite = local_gradients_finite(model)
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    after = scaler.get_scale()
    return {"step": step, "finite": finite, "skipped": after < before, "scale": after}


def local(tensor: Tensor) -> Tensor:
    """What this rank holds of a tensor: the shard of a DTensor, all of any other."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def local_gradients_finite(model: nn.Module) -> bool:
    """Whether the gradients that this rank holds have no inf and no NaN."""
    gradients = [local(p.grad) for p in model.parameters() if p.grad is not None]
    return all(bool(gradient.isfinite().all()) for gradient in gradients)


def train(
    device: torch.device,
    *,
    parallel: str = "ddp",
    precision: str = "fp16",
    steps: int = 20,
    micro_batches: int = 1,
    hooks: Hooks | None = None,
) -> tuple[nn.Module, list[dict[str, Any]]]:
    """Train a small network on the digits, each rank on its own share of the images.

    Args:
        device: this rank's, from `process_group`.
        parallel: "ddp" or "fsdp2".
        precision: "fp32", "fp16" or "bf16".
        steps: optimizer steps.
        micro_batches: batches of 16 images a rank and step.
        hooks: for experiments.

    Returns:
        The distributed model, and for each step ``step``, ``finite`` (whether the gradients that
        this rank holds are), ``skipped`` and ``scale`` after it.
    """
    digits = load_digits()
    share = slice(dist.get_rank(), None, dist.get_world_size())
    images, labels = digits.train_images[share], digits.train_labels[share]
    batches = iter(Batches(images.to(device), labels.to(device), size=16))
    model = distribute(digits_network(width=32), parallel, precision, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16")

    def context() -> Any:
        return forward_context(model, precision, device)

    records = []
    for step in range(steps):
        group = [next(batches) for _ in range(micro_batches)]
        record = take_step(model, optimizer, scaler, group, context, hooks or Hooks(), step)
        records.append(record)
    return model, records


def accuracy(model: nn.Module, device: torch.device) -> float:
    """Share of the validation images that the model gets right. Every rank must call it."""
    digits = load_digits()
    with torch.no_grad():
        guesses = model(digits.validation_images.to(device)).argmax(1)
    return (guesses == digits.validation_labels.to(device)).float().mean().item()


def main(argv: Sequence[str] | None = None) -> int:
    """Train, and let rank 0 say how it went."""
    parser = argparse.ArgumentParser(prog="train", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parallel", choices=PARALLEL, default="ddp")
    parser.add_argument("--precision", choices=tuple(DTYPES), default="fp16")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--micro-batches", type=int, default=1)
    options = parser.parse_args(argv)
    if options.steps < 1 or options.micro_batches < 1:
        parser.error("--steps and --micro-batches must be at least 1")
    if not started_by_torchrun():
        parser.error(f"start me with torchrun: {TORCHRUN} -m amp_lessons.amp.distributed.train")
    with process_group() as device:
        model, records = train(device, **vars(options))
        share = accuracy(model, device)
        if dist.get_rank() == 0:
            skipped = sum(record["skipped"] for record in records)
            print(
                f"{options.parallel} on {dist.get_world_size()} ranks ({device.type}), "
                f"{options.precision}: {share:.0%} right, {skipped} steps skipped"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
