"""Looking at a GradScaler from outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import torch

from amp_lessons.core.messages import raised


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
