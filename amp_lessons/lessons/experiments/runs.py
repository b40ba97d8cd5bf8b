"""Whole runs and passes: interrupted, compiled, recomputed, on one of several ranks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg  # makes the backend "fake" known

from amp_lessons.lessons.experiments.kept import saved_for_backward

Run = dict[str, Any]
"""The parts of a training run by name, each with a state_dict(); ``"scaler"`` is a ScalerLog."""


def resumed(
    start: Callable[[int], Run],
    go_on: Callable[[Run, int], list[float]],
    before: int,
    after: int,
    *,
    without: str,
) -> tuple[list[float], list[Any]]:
    """Interrupt a run, and resume it without one of its parts.

    Args:
        start: makes the parts of a new run from a seed.
        go_on: trains them for some epochs and returns an error for each step.
        before: epochs until the interruption.
        after: epochs after it.
        without: the part whose state isn't loaded, or ``"random numbers"``, or anything else.

    Returns:
        The errors of all steps, and the `ScalerRecord` of each, from both scalers.
    """
    first = start(0)
    errors = go_on(first, before)
    saved = {name: copy.deepcopy(part.state_dict()) for name, part in first.items()}
    numbers = torch.get_rng_state(), torch.cuda.get_rng_state_all()
    second = start(1)
    for name, part in second.items():
        if name != without:
            part.load_state_dict(saved[name])
    if without != "random numbers":
        torch.set_rng_state(numbers[0])
        torch.cuda.set_rng_state_all(numbers[1])
    errors += go_on(second, after)
    records = [*first["scaler"].records, *second["scaler"].records]
    return errors, [replace(record, step=step) for step, record in enumerate(records)]


@dataclass(frozen=True)
class OnePass:
    """What a forward and a backward pass came to.

    Attributes:
        kept: bytes that autograd kept from the forward pass for the backward pass.
        dtypes: of what the first layer put out, once for each time that it ran.
        gradients: of all parameters, in one flat tensor.
    """

    kept: int
    dtypes: tuple[str, ...]
    gradients: torch.Tensor


def fp16_pass(
    model: torch.nn.Sequential,
    inputs: torch.Tensor,
    forward: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> OnePass:
    """One forward pass under float16 autocast, and a backward pass outside of it.

    Args:
        model: whose first layer is watched and whose gradients are returned.
        inputs: also what the model should put out.
        forward: what to run in place of the model, such as a checkpoint around it.
    """
    dtypes: list[str] = []
    outputs: list[torch.Tensor] = []
    inputs = inputs.detach().clone().requires_grad_()
    model.zero_grad()

    def note(layer: torch.nn.Module, given: object, output: torch.Tensor) -> None:
        dtypes.append(str(output.dtype).removeprefix("torch."))

    def under_autocast() -> torch.Tensor:
        with torch.autocast(inputs.device.type, dtype=torch.float16):
            outputs.append((forward or model)(inputs))
        return outputs[0]

    hook = model[0].register_forward_hook(note)
    kept = sum(tensor.nbytes for tensor in saved_for_backward(under_autocast))
    torch.nn.functional.mse_loss(outputs[0].float(), inputs.detach()).backward()
    hook.remove()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return OnePass(kept, tuple(dtypes), torch.cat(gradients))


@contextmanager
def one_of_ranks(ranks: int) -> Iterator[None]:
    """Be rank 0 of a process group whose other ranks do not exist.

    Its collectives do nothing and wait for nobody. It is enough to see in which dtype something
    is sent, or what PyTorch refuses.
    """
    dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=ranks)
    try:
        yield
    finally:
        dist.destroy_process_group()


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function or module, compiled with `torch.compile` and no C++ compiler.

    The backend ``"aot_eager"`` records the forward and the backward pass as every compile does, and
    runs the recording without optimizing it. What was compiled before is forgotten, so the settings
    of this moment count at the first call.
    """
    torch.compiler.reset()
    return torch.compile(function, backend="aot_eager")


def deep_painter(layers: int = 16) -> torch.nn.Sequential:
    """A painter of digits with more layers: pictures of 64 pixels through layers of width 64.

    Args:
        layers: how many linear layers; all but the last are followed by a tanh.
    """
    nn = torch.nn
    blocks = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(layers - 1)]
    return nn.Sequential(*blocks, nn.Linear(64, 64))
