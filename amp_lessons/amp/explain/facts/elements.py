"""Ops that pass elements on: copies, choices, joins, means, and the guards put under them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from amp_lessons.amp.explain.facts.call import OpCall
from amp_lessons.amp.explain.facts.fact import LITTLE, Fact, union


def same(call: OpCall) -> Fact:
    fact, source = call.fact(0), call.args[0]
    integers = not source.is_floating_point() and source.dtype != torch.bool and not fact.bounded
    if integers and source.dtype in (torch.uint8, torch.int8):
        low, high = (0.0, 255.0) if source.dtype == torch.uint8 else (-128.0, 127.0)
        return replace(fact, low=low, high=high)
    return replace(fact, source="integers") if integers else fact


def some(call: OpCall) -> Fact:
    """A choice of the elements, or a mean of them: the bounds stay, and what they come from."""
    fact = call.fact(0)
    return replace(
        fact, value=None, exact=False, number=None, step=0.0, made=("", None), unit=False,
        root=None, power=1.0, factor=1.0,
    )  # fmt: skip


def diagonal(call: OpCall) -> Fact:
    """Of a product of a tensor with itself it holds squared norms."""
    fact = call.fact(0)
    made = ("diagonal", fact.value) if fact.made[0] == "product" else ("", None)
    return replace(some(call), made=made)


def copy(call: OpCall) -> Fact:
    return call.fact(1)


def one_of(*places: int) -> Callable[[OpCall], Fact]:
    """Elements of one operand or the other, such as scores and what a mask puts in their place."""

    def rule(call: OpCall) -> Fact:
        facts = [call.fact(place) for place in places]
        low, high = union(*facts)
        first = replace(some(call), made=facts[0].made, unit=facts[0].unit)
        made = replace(first, low=low, high=high) if places[0] == 0 else Fact(low, high)
        if any(is_mask(fact) for fact in facts):
            made = replace(made, made=("masked", None))
        return guarded(made, facts)

    return rule


def cat(call: OpCall) -> Fact:
    facts = [call.of(t) for t in call.args[0]]
    low, high = union(*facts)
    unit = all(f.unit for f in facts)
    learned = all(f.learned for f in facts)
    step = min(f.step for f in facts)
    source = "integers" if any(f.source == "integers" for f in facts) else ""
    return Fact(low, high, unit=unit, learned=learned, step=step, source=source)


def extreme(call: OpCall) -> Fact:
    """The largest or smallest element of each row: remembered, to know x - max(x)."""
    fact = call.fact(0)
    if fact.made[0] == "abs" and call.name in ("max", "amax"):
        return replace(some(call), made=("largest", fact.made[1]))
    return replace(some(call), made=(call.name.removeprefix("a"), fact.value))


def mean(call: OpCall) -> Fact:
    fact = call.fact(0)
    made = {"square": "mean of square"}.get(fact.made[0], "")
    made_of = (made, fact.made[1]) if made else ("mean", fact.value)
    return replace(some(call), made=made_of, guard=None, lost=None, rounded=None)


MASK = -30000.0
"""What a mask adds to hide a score: this or less, two of which pass FP16's end."""


def is_mask(fact: Fact) -> bool:
    """Whether a tensor hides scores that it is added to, or holds the number that does."""
    return -math.inf < fact.low <= MASK and fact.high <= 0


def filtered(call: OpCall) -> Fact:
    """A convolution with known weights that are at least 0, as SSIM's window: a weighted mean."""
    fact, window = call.fact(0), call.fact(1)
    if window.learned or not 0 <= window.low <= window.high < math.inf:
        return Fact()
    made = mean(call)
    return Fact(0.0 if fact.low >= 0 else -math.inf, made=made.made)


def guarded(made: Fact, facts: Any) -> Fact:
    """Note a constant operand that is small and positive: a guard against zero."""
    numbers = (f.number for f in facts if f.number is not None)
    return replace(made, guard=next((n for n in numbers if 0 < n < LITTLE), None), lost=None)
