"""What two ranks do when one of them overflows: lesson 12's experiments, in one torchrun.

Each experiment runs on every rank, and what a rank saw goes back to the notebook by `report`.
They need at least two ranks; rank 1 is the one that things happen to.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

from amp_lessons.amp.distributed.launch import report
from amp_lessons.amp.distributed.train import (
    TORCHRUN,
    Hooks,
    distribute,
    forward_context,
    local,
    process_group,
    started_by_torchrun,
    train,
)
from amp_lessons.amp.scaling.scaler_log import ScalerLog
from amp_lessons.amp.training.loops import autoencoder, load_digits

if TYPE_CHECKING:  # half a second to import, and few need it
    from torch.distributed.fsdp import MixedPrecisionPolicy

SPOILED_STEP = 40
PIXELS, BIG = 38_400, 100_000_000
"""The pixels of 600 pictures, and how many we pretend that they have, as in lesson 00."""


def paint_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: ScalerLog,
    batch: Tensor,
    context: Callable[[], AbstractContextManager[Any]],
    hooks: Hooks,
    step: int,
) -> None:
    """The step that lesson 12 shows, and where an experiment interferes with it."""
    optimizer.zero_grad()
    with context():
        error = mse_loss(model(batch), batch)
    loss = error * PIXELS / BIG
    scaler.scale(hooks.loss(step, loss)).backward()
    hooks.gradients(step, model)
    scaler.step(optimizer)
    scaler.update()


def paint(parallel: str, hooks: Hooks, device: torch.device, steps: int = 150) -> dict[str, Any]:
    """Train the painter of lesson 00, each rank on its own half of the 600 pictures.

    Args:
        parallel: "ddp" or "fsdp2", both in FP16.
        hooks: what happens to a loss or to gradients on the way.
        device: this rank's.
        steps: optimizer steps.

    Returns:
        ``errors``: per pixel over all pictures, at each step, of this rank's model (DDP only: a
        shard paints nothing by itself). ``records``: of the scaler. ``apart``: the largest
        difference between the same weight on two ranks, at the end.
    """
    pictures = load_digits().train_images[:600].to(device)
    batch = pictures[dist.get_rank() :: dist.get_world_size()]
    model = distribute(autoencoder(), parallel, "fp16", device)
    optimizer = torch.optim.SGD(model.parameters(), lr=BIG / PIXELS, momentum=0.9)
    log = ScalerLog(torch.amp.GradScaler(device.type))

    def context() -> Any:
        return forward_context(model, "fp16", device)

    errors = []
    for step in range(steps):
        if isinstance(model, DistributedDataParallel):
            with torch.no_grad():  # without DDP's wrapper and without autocast, which is quicker
                errors.append(mse_loss(model.module(pictures), pictures).item())
        paint_step(model, optimizer, log, batch, context, hooks, step)
    records = [asdict(record) for record in log.records]
    return {"errors": errors, "records": records, "apart": apart(model)}


def apart(model: nn.Module) -> float:
    """The largest difference between the same weight of two ranks' models."""
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    high = torch.cat([p.detach().flatten() for p in whole])
    low = high.clone()
    dist.all_reduce(high, dist.ReduceOp.MAX)
    dist.all_reduce(low, dist.ReduceOp.MIN)
    return (high - low).max().item()


def loss_spoiled(step: int, loss: Tensor) -> Tensor:
    """On rank 1, in one step: an inf in place of the loss."""
    return loss * math.inf if step == SPOILED_STEP and dist.get_rank() == 1 else loss


def gradient_spoiled(step: int, model: nn.Module) -> None:
    """On rank 1, in one step, after the ranks have exchanged gradients: one becomes inf."""
    if step == SPOILED_STEP and dist.get_rank() == 1:
        gradient = next(model.parameters()).grad
        assert gradient is not None
        local(gradient).view(-1)[0] = math.inf


def fsdp2_dtypes(device: torch.device) -> dict[str, str]:
    """Where FSDP2 has which dtype, in one step under a policy of FP16."""
    found: dict[str, str] = {}

    def look(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if isinstance(layer, nn.Linear) and layer.in_features == 64:  # the first one
            found["parameter in the forward"] = _name(layer.weight)
            found["input of the first layer"] = _name(inputs[0])

    def look_at_loss(step: int, loss: Tensor) -> Tensor:
        found["loss"] = _name(loss)
        return loss

    def look_at_gradients(step: int, model: nn.Module) -> None:
        found["gradient"] = _name(next(model.parameters()).grad)

    hook = nn.modules.module.register_module_forward_hook(look)
    hooks = Hooks(look_at_loss, look_at_gradients)
    model, _ = train(device, parallel="fsdp2", steps=1, hooks=hooks)
    hook.remove()
    found["parameter between steps"] = _name(next(model.parameters()))
    return found


def _name(tensor: Tensor | None) -> str:
    assert tensor is not None
    kind = "a shard of " if hasattr(tensor, "to_local") else ""
    return kind + str(tensor.dtype).removeprefix("torch.")


def reduced(
    policy: MixedPrecisionPolicy, gradients: tuple[float, float], device: torch.device
) -> float:
    """The mean of one gradient over two ranks, as FSDP2 computes it."""
    from torch.distributed.fsdp import fully_shard

    ranks = dist.get_world_size()
    layer = nn.Linear(1, ranks, bias=False, device=device)  # a row for each rank
    fully_shard(layer, mesh=init_device_mesh(device.type, (ranks,)), mp_policy=policy)
    own = gradients[dist.get_rank() % 2]
    layer(torch.full((1, 1), own, device=device)).sum().backward()
    assert layer.weight.grad is not None
    return local(layer.weight.grad).item()


def reduce_dtypes(device: torch.device) -> list[list[Any]]:
    """For each case: param_dtype, the gradients of two ranks, and their mean with that as
    reduce_dtype and with FP32.

    Up to torch 2.14 a reduce_dtype that is left out is the param_dtype; since 2.15 it is the
    parameters' own dtype (`MixedPrecisionPolicy`, "versionchanged:: 2.15").
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy

    found = []
    for param, pair in ((torch.bfloat16, (256.0, 1.0)), (torch.float16, (2.0**-24, 2.0**-24))):
        policies = [MixedPrecisionPolicy(param, reduce) for reduce in (param, torch.float32)]
        means = [reduced(policy, pair, device) for policy in policies]
        found.append([str(param).removeprefix("torch."), list(pair), *means])
    return found


def mixed_gradients(device: torch.device) -> str:
    """What the scaler says to an optimizer with sharded and with plain parameters."""
    from torch.distributed.fsdp import fully_shard

    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).to(device)
    fully_shard(model[0], mesh=init_device_mesh(device.type, (dist.get_world_size(),)))
    optimizer = torch.optim.SGD(model.parameters())
    scaler = torch.amp.GradScaler(device.type)
    scaler.scale(model(torch.ones(1, 4, device=device)).sum()).backward()
    try:
        scaler.step(optimizer)
    except RuntimeError as error:
        return str(error)
    return "no error"


def all_reduces(loop: str, device: torch.device) -> list[int]:
    """How many times DDP has all-reduced after each of four micro-batches of an accumulation.

    Args:
        loop: "plain", "no_sync" (all but the last batch under `no_sync`), or "no_sync too late"
            (only the backward passes under it).
        device: this rank's.
    """
    model: Any = distribute(nn.Linear(4, 4), "ddp", "fp32", device)
    x = torch.ones(1, 4, device=device)
    count = [0]

    def counted(group, bucket):  # DDP refuses annotations that are text, as all are here
        count[0] += 1
        return allreduce_hook(group, bucket)

    model.register_comm_hook(None, counted)
    counts = []
    for number in range(4):
        keep = number < 3 and loop != "plain"
        if keep and loop == "no_sync":
            with model.no_sync():
                model(x).sum().backward()
        elif keep:
            loss = model(x).sum()
            with model.no_sync():
                loss.backward()
        else:
            model(x).sum().backward()
        counts.append(count[0])
    return counts


def main() -> None:
    """Run every experiment on this rank."""
    if not started_by_torchrun() or int(os.environ["WORLD_SIZE"]) < 2:
        sys.exit(f"start me on two ranks: {TORCHRUN} -m amp_lessons.amp.distributed.experiments")
    with process_group() as device:
        spoiled_loss, spoiled_gradient = Hooks(loss=loss_spoiled), Hooks(gradients=gradient_spoiled)
        report("ddp loss", paint("ddp", spoiled_loss, device))
        report("ddp gradient", paint("ddp", spoiled_gradient, device))
        report("fsdp2 gradient", paint("fsdp2", spoiled_gradient, device, steps=60))
        report("reduce", reduce_dtypes(device))
        loops = ("plain", "no_sync", "no_sync too late")
        report("all-reduces", {loop: all_reduces(loop, device) for loop in loops})


if __name__ == "__main__":
    main()
