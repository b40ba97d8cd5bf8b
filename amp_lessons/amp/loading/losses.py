"""``--loss torch.nn.functional:mse_loss --target 32,10``: a loss from a command line."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from amp_lessons.amp.loading import targets
from amp_lessons.amp.loading.inputs import parse
from amp_lessons.amp.loading.model_spec import LoadError
from amp_lessons.amp.loading.target_words import read
from amp_lessons.core.errors import AmpLessonsError

Loss = Callable[[Any, Any], Any]


def named(text: str, target: str = "", real: bool = False) -> tuple[Loss | None, Any]:
    """A loss to be called as ``loss(output, target)``, and its target.

    Args:
        text: a function, or a module class such as ``torch.nn:CrossEntropyLoss``; "" for none.
        target: the shape of its second argument; "" if it takes the output alone.
        real: whether the target must hold numbers.

    Raises:
        LoadError: if there is no such loss, or a target without one.
    """
    if not text:
        if target:
            raise LoadError("--target goes with --loss: name the loss that takes it")
        return None, None
    if hasattr(nn.functional, text):
        raise LoadError(f"--loss {text} names no module: write --loss torch.nn.functional:{text}")
    if isinstance(getattr(nn, text, None), type):
        raise LoadError(f"--loss {text} names no module: write --loss torch.nn:{text}")
    named = read(text)
    found = targets.find(named)
    if isinstance(found, type) and issubclass(found, nn.Module):
        found = targets.make(found, named, real)
    if not callable(found):
        raise LoadError(f"--loss {text} names {type(found).__name__}, which can't be called")
    if not target:
        if _needs_two(found):
            raise LoadError(f"{named.path} takes a target: add --target SHAPE")
        return lambda output, _: found(output), None
    return found, parse(target).tensor(real)


@contextlib.contextmanager
def with_fix(target: str) -> Iterator[None]:
    """Add to an error what to write, where the loss wanted class numbers. Raises `LoadError`."""
    try:
        yield
    except AmpLessonsError as error:
        if target and "takes 1 positional argument but 2 were given" in str(error):
            raise LoadError(f"{error}; leave out --target") from error
        if not target or "Expected dtype int32/int64 for index" not in str(error):
            raise
        sizes = ",".join(map(str, parse(target).shape))
        raise LoadError(f"{error}; try --target {sizes}:int64") from error


def _needs_two(loss: Callable[..., Any]) -> bool:
    """Whether a call with the output alone lacks an argument, which one more would give."""
    try:
        signature = inspect.signature(loss.forward if isinstance(loss, nn.Module) else loss)
    except (TypeError, ValueError):  # a function of C
        return False
    needed = [
        p
        for p in signature.parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return len(needed) > 1
