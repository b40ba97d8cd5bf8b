"""What lessons need to look behind the scenes, so that their cells show the idea and not the trick.

Some change torch, for as long as a ``with`` block runs, and put it back. The others run something
and say what came of it.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import torch


@contextmanager
def item_calls() -> Iterator[list[str]]:
    """Count how often `Tensor.item()` is called from Python: one entry each time.

    On a GPU each such call waits until all work that was queued before it is done.
    """
    seen: list[str] = []
    item = torch.Tensor.item

    def counted(tensor: torch.Tensor) -> float:
        seen.append(str(tensor.dtype))
        return item(tensor)

    with mock.patch.object(torch.Tensor, "item", counted):
        yield seen


@contextmanager
def without_cuda() -> Iterator[None]:
    """Make torch believe that this machine has no CUDA, whatever it has."""
    with mock.patch("torch.cuda.is_available", return_value=False):
        yield


def warned(call: Callable[[], object]) -> str:
    """The first sentence of the first warning that a call gives, or ``"no warning"``."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return str(caught[0].message).partition(". ")[0] if caught else "no warning"


def raised(call: Callable[[], object]) -> str:
    """The type and the first sentence of the exception that a call raises, or ``"no error"``."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition('. ')[0]}"
    return "no error"


def scaler_error(*calls: str, scaled: bool = True, trained: bool = True) -> str:
    """What a new GradScaler raises when these methods are called after one backward pass.

    Args:
        calls: such as ``"unscale_", "step", "update"``.
        scaled: whether the loss was scaled before the backward pass.
        trained: whether the optimizer holds the parameter that got a gradient.

    Returns:
        What `raised` gives.
    """
    weight, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight if trained else other])
    scaler, loss = torch.amp.GradScaler("cpu"), weight.sum()
    (scaler.scale(loss) if scaled else loss).backward()

    def make_the_calls() -> None:
        for call in calls:
            arguments = [] if call == "update" else [optimizer]
            getattr(scaler, call)(*arguments)

    return raised(make_the_calls)


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


def rounded_at_random(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Round float32 numbers to bfloat16 at random: stochastic rounding.

    Each number goes to one of its two neighbours in bfloat16, and the closer one is more likely. So
    on average nothing is lost. A bfloat16 number stays as it is.

    Args:
        values: float32, finite, on a CPU.
        generator: gives the random numbers.
    """
    noise = torch.randint(0, 1 << 16, values.shape, generator=generator, dtype=torch.int32)
    bits = (values.contiguous().view(torch.int32) + noise) & ~0xFFFF
    return bits.view(torch.float32).bfloat16()


def raised_by(line: str, names: dict[str, Any]) -> str:
    """What a line of code raises, as `raised` puts it.

    Args:
        line: a statement, such as ``"memory[rows] = features"``.
        names: what it may use; a cell gives its own ``globals()``.
    """
    return raised(lambda: exec(line, names))


def saved_for_backward(forward: Callable[[], object]) -> list[torch.Tensor]:
    """The tensors that autograd keeps during a forward pass, until the backward pass needs them.

    Each comes once, in the order in which ops saved it, also where several ops keep the same one.
    Parameters and inputs are among them.
    """
    saved: dict[tuple[int, torch.dtype, torch.Size], torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        same = (tensor.data_ptr(), tensor.dtype, tensor.shape)
        saved.setdefault(same, tensor)  # it stays alive, so no other tensor gets its address
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        graph = forward()
    del graph
    return list(saved.values())
