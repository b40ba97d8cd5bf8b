"""Ops that pass elements on: copies, choices, joins, means, and the guards put under them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from amp_lessons.trace.facts.call import Call
from amp_lessons.trace.facts.fact import (
    Fact,
    union,
)


def same(call: Call) -> Fact:
    fact, source = call.fact(0), call.args[0]
    integers = not source.is_floating_point() and source.dtype != torch.bool and not fact.bounded
    return replace(fact, source="integers") if integers else fact


def some(call: Call) -> Fact:
    """A choice of the elements, or a mean of them: the bounds stay, and what they come from."""
    fact = call.fact(0)
    return replace(
        fact, value=None, exact=False, number=None, step=0.0, made=("", None), unit=False,
        root=None, power=1.0, factor=1.0,
    )  # fmt: skip


def copy(call: Call) -> Fact:
    return call.fact(1)


def one_of(*places: int) -> Callable[[Call], Fact]:
    """Elements of one operand or the other."""

    def rule(call: Call) -> Fact:
        facts = [call.fact(place) for place in places]
        low, high = union(*facts)
        first = replace(some(call), made=facts[0].made, unit=facts[0].unit)
        made = replace(first, low=low, high=high) if places[0] == 0 else Fact(low, high)
        return guarded(made, facts)

    return rule


def cat(call: Call) -> Fact:
    facts = [call.of(t) for t in call.args[0]]
    low, high = union(*facts)
    unit = all(f.unit for f in facts)
    learned = all(f.learned for f in facts)
    step = min(f.step for f in facts)
    return Fact(low, high, unit=unit, learned=learned, step=step)


def extreme(call: Call) -> Fact:
    """The largest or smallest element of each row: remembered, to know x - max(x)."""
    fact = call.fact(0)
    if fact.made[0] == "abs" and call.name in ("max", "amax"):
        return replace(some(call), made=("largest", fact.made[1]))
    return replace(some(call), made=(call.name.removeprefix("a"), fact.value))


def mean(call: Call) -> Fact:
    fact = call.fact(0)
    made = {"square": "mean of square"}.get(fact.made[0], "")
    made_of = (made, fact.made[1]) if made else ("mean", fact.value)
    return replace(some(call), made=made_of, guard=None, lost=None, rounded=None)


SMALL = 0.01


def guarded(made: Fact, facts: Any) -> Fact:
    """Note a constant operand that is small and positive: a guard against zero."""
    numbers = (f.number for f in facts if f.number is not None)
    return replace(made, guard=next((n for n in numbers if 0 < n < SMALL), None), lost=None)
