"""``--loss torch.nn.functional:mse_loss --target 32,10``: a loss from a command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from amp_lessons.doors import targets
from amp_lessons.doors.given import DoorError
from amp_lessons.doors.inputs import parse

Loss = Callable[[Any, Any], Any]


def named(text: str, target: str = "", real: bool = False) -> tuple[Loss | None, Any]:
    """A loss to be called as ``loss(output, target)``, and its target.

    Args:
        text: a function, or a module class such as ``torch.nn:CrossEntropyLoss``; "" for none.
        target: the shape of its second argument; "" if it takes the output alone.
        real: whether the target must hold numbers.

    Raises:
        DoorError: if there is no such loss, or a target without one.
    """
    if not text:
        if target:
            raise DoorError("--target goes with --loss: name the loss that takes it")
        return None, None
    named = targets.read(text)
    found = targets.find(named)
    if isinstance(found, type) and issubclass(found, nn.Module):
        found = targets.make(found, named, real)
    if not callable(found):
        raise DoorError(f"--loss {text} names {type(found).__name__}, which can't be called")
    if not target:
        return lambda output, _: found(output), None
    return found, parse(target).tensor(real)
