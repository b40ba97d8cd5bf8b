"""Tensors that the code fills with numbers: constants, grids, random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from amp_lessons.amp.explain.facts.call import OpCall
from amp_lessons.amp.explain.facts.fact import LOW, Fact, constant, rounded


def filled(place: int) -> Callable[[OpCall], Fact]:
    def rule(call: OpCall) -> Fact:
        number = call.number(place)
        if math.isnan(number) or (place and math.isinf(in_dtype(number, call.dtype))):
            return Fact()  # a fill raises where the dtype cannot hold the number
        return constant(number)

    return rule


def in_dtype(number: float, dtype: torch.dtype) -> float:
    return rounded(number, dtype) if dtype in LOW and math.isfinite(number) else 0.0


def always(number: float) -> Callable[[OpCall], Fact]:
    return lambda call: constant(number)


def between(low: float, high: float, source: str = "") -> Callable[[OpCall], Fact]:
    return lambda call: Fact(low, high, source=source)


def arange(call: OpCall) -> Fact:
    numbers = [float(a) for a in call.args if isinstance(a, int | float)]
    start, end, step = (0.0, numbers[0], 1.0) if len(numbers) == 1 else (*numbers, 1.0)[:3]
    count = math.ceil((end - start) / step)
    last = start + step * (count - 1)
    return Fact(min(start, last), max(start, last), exact=True, step=abs(step))


def linspace(call: OpCall) -> Fact:
    start, end, count = call.number(0), call.number(1), call.number(2)
    step = abs(end - start) / (count - 1)
    return Fact(min(start, end), max(start, end), exact=True, step=step)


def randint(call: OpCall) -> Fact:
    numbers = [float(a) for a in call.args if isinstance(a, int)]
    return Fact(0.0 if len(numbers) == 1 else numbers[0], numbers[-1] - 1)
