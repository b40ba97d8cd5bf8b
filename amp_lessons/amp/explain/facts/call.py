"""One call of an op, as the rules about values see it: operands with their facts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from amp_lessons.amp.explain.facts.fact import Fact, constant


@dataclass(frozen=True)
class OpCall:
    """One call of an op, with the facts of its operands.

    Attributes:
        name: without "aten::", such as "add_".
        of: gives the fact of a tensor.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: tuple[Tensor, ...]
    of: Callable[[Tensor], Fact]

    def fact(self, place: int) -> Fact:
        """Of the operand at this place: a tensor, or a number. Raises IndexError, TypeError."""
        value = self.args[place]
        if isinstance(value, Tensor):
            return self.of(value)
        if isinstance(value, int | float):
            return constant(float(value))
        raise TypeError(f"{self.name} has no operand at {place}")

    def number(self, place: int, default: float = math.nan) -> float:
        """The number at this place, also as a tensor that holds one."""
        if len(self.args) <= place or self.args[place] is None:
            return default
        fact = self.fact(place)
        return fact.low if fact.exact and fact.low == fact.high else default

    def scalar(self, name: str, place: int, default: float) -> float:
        value = self.kwargs.get(name, self.args[place] if len(self.args) > place else default)
        return float(value) if isinstance(value, int | float) else default

    @property
    def dtype(self) -> torch.dtype:
        return self.outputs[0].dtype

    @property
    def shared(self) -> int:
        """How many elements of the first operand go into one of the result; 0 if not known."""
        before, after = self.args[0].numel(), self.outputs[0].numel()
        if not isinstance(before, int) or not isinstance(after, int) or not after:
            return 0
        return max(1, before // after)


Rule = Callable[[OpCall], "Fact | tuple[Fact, ...]"]
"""Gives the facts of an op's results."""
