"""What lessons need to look behind the scenes, so that their cells show the idea and not the trick.

Each of these changes something in torch for as long as its ``with`` block runs, and puts it back.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
        The first sentence of the message, or ``"no error"``.
    """
    weight, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight if trained else other])
    scaler, loss = torch.amp.GradScaler("cpu"), weight.sum()
    (scaler.scale(loss) if scaled else loss).backward()
    try:
        for call in calls:
            arguments = [] if call == "update" else [optimizer]
            getattr(scaler, call)(*arguments)
    except (AssertionError, RuntimeError) as error:
        return str(error).partition(". ")[0]
    return "no error"
