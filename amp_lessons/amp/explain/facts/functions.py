"""Functions of one value, bounds, and norms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

from amp_lessons.amp.explain.facts.call import OpCall
from amp_lessons.amp.explain.facts.elements import guarded, some
from amp_lessons.amp.explain.facts.fact import LITTLE, Fact, constant, union


def rising(function: Callable[[float], float], floor: float, top: float, made: str = "") -> Any:
    """A rising function: bounds go through it."""

    def rule(call: OpCall) -> Fact:
        fact = call.fact(0)
        low = floor if fact.low == -math.inf else function(fact.low)
        high = top if fact.high == math.inf else function(fact.high)
        return Fact(low, high, made=(made, fact.value), learned=fact.learned, exact=fact.exact)

    return rule


def exp_of(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def log_of(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def sigmoid(call: OpCall) -> Fact:
    return Fact(0.0, 1.0, source="sigmoid")


def softmax(call: OpCall) -> Fact:
    return Fact(0.0, 1.0, source="softmax")


def relu(call: OpCall) -> Fact:
    fact = call.fact(0)
    return replace(some(call), low=max(0.0, fact.low), high=max(0.0, fact.high))


def absolute(call: OpCall) -> Fact:
    fact = call.fact(0)
    low = fact.low if fact.low > 0 else -fact.high if fact.high < 0 else 0.0
    return replace(fact, low=low, high=fact.size, value=None, made=("abs", fact.value))


def clamp(call: OpCall) -> Fact:
    low = bound(call, "min", 1, -math.inf)
    high = bound(call, "max", 2, math.inf)
    return clamped(call, low, high)


def bound(call: OpCall, name: str, place: int, default: float) -> float:
    value = call.kwargs.get(name, call.args[place] if len(call.args) > place else None)
    if value is None:
        return default
    fact = call.of(value) if isinstance(value, Tensor) else constant(float(value))
    return fact.low if name == "min" else fact.high


def clamp_min(call: OpCall) -> Fact:
    return clamped(call, call.fact(1).low, math.inf)


def clamp_max(call: OpCall) -> Fact:
    return clamped(call, -math.inf, call.fact(1).high)


def hardtanh(call: OpCall) -> Fact:
    return clamped(call, call.number(1, -1.0), call.number(2, 1.0))


def clamped(call: OpCall, low: float, high: float) -> Fact:
    return clamp_of(call.fact(0), low, high)


def clamp_of(fact: Fact, low: float, high: float) -> Fact:
    """A fact of the value between two bounds."""
    made = replace(
        fact, low=min(max(fact.low, low), high), high=max(min(fact.high, high), low), exact=False,
        value=None, number=None, step=0.0,
    )  # fmt: skip
    if fact.made[0] == "exp":
        made = replace(made, made=("", None))
    if 0 < low < LITTLE:
        made = replace(made, guard=low, lost=None)
    if 0 < low - 1 < LITTLE:
        return replace(made, margin=low - 1, lost=None)
    return replace(made, margin=1 - high, lost=None) if 0 < 1 - high < LITTLE else made


def maximum(call: OpCall) -> Fact:
    a, b = call.fact(0), call.fact(1)
    for fact, bound in ((a, b), (b, a)):
        if bound.number is not None:
            return clamp_of(fact, bound.number, math.inf)
    made = Fact(max(a.low, b.low), max(a.high, b.high), made=a.made)
    return guarded(made, (a, b))


def minimum(call: OpCall) -> Fact:
    a, b = call.fact(0), call.fact(1)
    for fact, bound in ((a, b), (b, a)):
        if bound.number is not None:
            return clamp_of(fact, -math.inf, bound.number)
    return Fact(min(a.low, b.low), min(a.high, b.high))


def layer_norm(call: OpCall) -> tuple[Fact, ...]:
    """A norm's output is at most the root of what it shares; its weight is taken to be about 1."""
    shape = call.args[0].shape
    count = math.prod(s for s in shape[-len(call.args[1]) :] if isinstance(s, int))
    return normed(call, count)


def group_norm(call: OpCall) -> tuple[Fact, ...]:
    _, c, hw, group = call.args[3:7]
    return normed(call, c * hw // group)


def batch_norm(call: OpCall) -> tuple[Fact, ...]:
    shape = call.args[0].shape
    numel = call.args[0].numel()
    return normed(call, numel // shape[1] if isinstance(numel, int) else 0)


def normed(call: OpCall, count: int) -> tuple[Fact, ...]:
    bound = math.sqrt(count) if isinstance(count, int) and count else math.inf
    return (Fact(-bound, bound), *(Fact() for _ in call.outputs[1:]))


def above(low: float) -> Callable[[OpCall], Fact]:
    """An activation function that keeps large values and has a least one."""

    def rule(call: OpCall) -> Fact:
        fact = call.fact(0)
        return Fact(max(low, min(fact.low, 0.0)), max(0.0, fact.high), gain=fact.gain)

    return rule


def elu(call: OpCall) -> Fact:
    return above(-call.number(1, 1.0) * call.number(2, 1.0))(call)


def spread(call: OpCall) -> tuple[Fact, ...]:
    """A variance or a standard deviation: it grows with what it is taken of."""
    made = Fact(0.0, math.inf, made=("spread", call.fact(0).value))
    return (made, *(Fact() for _ in call.outputs[1:]))


def lgamma(call: OpCall) -> Fact:
    return Fact(made=("lgamma", call.fact(0).value))


def logsumexp(call: OpCall) -> Fact:
    return Fact(made=("logsumexp", call.fact(0).value))


def dropout(call: OpCall) -> tuple[Fact, ...]:
    fact = call.fact(0)
    low, high = union(fact, constant(0.0))
    keep = 1 - call.number(1, 0.5)
    made = Fact(low / keep, high / keep, gain=fact.gain) if keep else Fact()
    return (made, *(Fact(0.0, 1.0) for _ in call.outputs[1:]))
