"""Sums, differences, products and powers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from amp_lessons.trace.facts.call import Call
from amp_lessons.trace.facts.elements import guarded
from amp_lessons.trace.facts.fact import (
    Fact,
    add,
    constant,
    inverse,
    multiply,
    negative,
    times,
)

_STAYS = ("norm", "largest", "sum", "mean", "max", "one minus square", "distance")
"""What is still known of a result after a small positive number was added to it."""


def added(call: Call) -> Fact:
    a, b = call.fact(0), times_constant(call.fact(1), call.scalar("alpha", 2, 1.0))
    return plus(call, a, b)


def sub(call: Call) -> Fact:
    a, b = call.fact(0), call.fact(1)
    if a.exact and a.low == a.high == 1:
        return one_minus(call, b)
    return minus(call, a, b)


def rsub(call: Call) -> Fact:
    a, b = call.fact(1), call.fact(0)
    if a.exact and a.low == a.high == 1:
        return one_minus(call, b)
    return minus(call, a, b)


def minus(call: Call, a: Fact, b: Fact) -> Fact:
    made = plus(call, a, times_constant(b, -1.0))
    if b.made in (("max", a.value), ("logsumexp", a.value)):
        return replace(made, high=0.0)
    if a.made[0] == "mean of square" and b.made == ("square of mean", a.made[1]):
        return replace(made, made=("variance by difference", a.made[1]))
    return made


def plus(call: Call, a: Fact, b: Fact) -> Fact:
    low, high = add(a, b)
    step = a.step or b.step
    numbers = [f for f in (a, b) if f.number is not None]
    if a.step and b.step:  # relative positions
        step = min(a.step, b.step)
    elif not numbers:
        step = 0.0
    made = Fact(low, high, exact=a.exact and b.exact, step=step)
    if len(numbers) == 1:
        other, number = (b, a.number) if a.number is not None else (a, b.number)
        made = replace(made, gain=other.gain, rounded=other.rounded, learned=other.learned)
        if number is not None and number >= 0 and other.made[0] in _STAYS:
            made = replace(made, made=other.made)
        if number == 1:
            made = replace(made, made=("one plus", other.value))
    if not numbers:
        made = replace(made, made=distance(a, b))
    return guarded(made, (a, b))


def one_minus(call: Call, b: Fact) -> Fact:
    low, high = add(constant(1.0), times_constant(b, -1.0))
    made = Fact(
        low, high, source=b.source, complement=not b.complement, rounded=b.rounded,
        made=("one minus", b.value),
    )  # fmt: skip
    if b.made[0] == "square":
        made = replace(made, made=("one minus square", b.made[1]))
    if b.margin is not None and b.lost is not None and not b.source:
        made = replace(made, lost=b.lost)
    return made


def distance(a: Fact, b: Fact) -> tuple[str, Any]:
    """Squared norms, less a product of 16 bits: the square of a distance, or a part of it."""
    names = {a.made[0]: a, b.made[0]: b}
    if set(names) == {"sum of square"}:
        return ("two sums of squares", None)
    less = names.get("product")
    if less is None or (less.factor < 0) is (less.made[1] == "-") or less.rounded is None:
        less = names.get("norm less product")
        return ("distance", None) if less is not None and "sum of square" in names else ("", None)
    if "two sums of squares" in names:
        return ("distance", None)
    return ("norm less product", None) if "sum of square" in names else ("", None)


def neg(call: Call) -> Fact:
    fact = call.fact(0)
    low, high = negative(fact)
    return replace(
        fact, low=low, high=high, value=None, number=None, made=("neg", fact.value),
        root=fact.of, factor=-fact.factor,
    )  # fmt: skip


def summed(call: Call) -> Fact:
    fact, count = call.fact(0), call.shared
    if not count:
        return Fact()
    low, high = times(count, fact.low), times(count, fact.high)
    if call.name == "cumsum":
        return running(call, fact)
    made = ("sum of square", fact.made[1]) if fact.made[0] == "square" else ("sum", fact.value)
    return Fact(low, high, made=made, learned=fact.learned)


def running(call: Call, fact: Fact) -> Fact:
    """A running sum; of booleans or of ones it counts, in steps of 1."""
    length = call.args[0].shape[call.args[1]]
    if not isinstance(length, int):
        return Fact()
    low = min(fact.low, times(length, fact.low))
    high = max(fact.high, times(length, fact.high))
    is_count = (fact.low, fact.high) in ((0.0, 1.0), (1.0, 1.0))
    whole = fact.exact or not call.args[0].is_floating_point()
    return Fact(low, high, step=1.0 if is_count and whole else 0.0, learned=fact.learned)


def length(call: Call) -> Fact:
    fact = call.fact(0)
    return Fact(0.0, math.inf, made=("norm", fact.value), learned=fact.learned)


def times_constant(fact: Fact, factor: float) -> Fact:
    low, high = multiply(fact, constant(factor))
    gain = fact.gain * abs(factor) if factor else 1.0
    number = fact.number * factor if fact.number is not None else None
    return replace(
        fact, low=low, high=high, gain=gain, number=number, step=fact.step * abs(factor),
        root=fact.of, factor=fact.factor * factor,
    )  # fmt: skip


def rescaled(scaled: Fact, before: Fact) -> Fact:
    """A value times a constant is another value, and still a square or an exponential."""
    kept = before.made if before.made[0] in ("square", "exp", "product") else ("", None)
    return replace(scaled, value=None, source="", made=kept, unit=False)


def mul(call: Call) -> Fact:
    a, b = call.fact(0), call.fact(1)
    for one, other in ((a, b), (b, a)):
        if one.exact and one.low == one.high:
            scaled = times_constant(other, one.low)
            return rescaled(scaled, other)
    if a.value == b.value:
        return replace(to_power(a, 2.0), root=a.of, power=2 * a.power, factor=a.factor * a.factor)
    if a.made[1] == b.made[1] and {a.made[0], b.made[0]} == {"one minus", "one plus"}:
        return Fact(*multiply(a, b), made=("one minus square", a.made[1]), rounded=a.rounded)
    low, high = multiply(a, b)
    made = Fact(low, high, learned=a.learned and b.learned, exact=a.exact and b.exact)
    if a.of is not None and a.of == b.of:
        power, factor = a.power + b.power, a.factor * b.factor
        return replace(made, root=a.of, power=power, factor=factor)
    return made


def div(call: Call) -> Fact:
    a, b = call.fact(0), call.fact(1)
    if b.exact and b.low == b.high and b.low:
        scaled = times_constant(a, 1 / b.low)
        return rescaled(scaled, a)
    if b.made == ("norm", a.value):
        return Fact(-1.0, 1.0, unit=True)
    if b.made in (("sum", a.value),) and a.low >= 0:
        return Fact(0.0, 1.0)
    if b.made == ("largest", a.value):
        return Fact(-1.0, 1.0)
    low, high = multiply(a, Fact(*inverse(b)))
    return Fact(low, high)


def to_power(fact: Fact, power: float) -> Fact:
    """A fact of ``fact ** power``."""
    known = fact.made[0]
    if power == 2:
        name = "square of mean" if known == "mean" else "square"
        of = fact.made[1] if known == "mean" else fact.value
        largest = times(fact.size, fact.size)
        low = fact.low * fact.low if fact.low > 0 else 0.0
        return Fact(low, largest, made=(name, of), rounded=fact.rounded, learned=fact.learned)
    if fact.low >= 0 and power > 0:
        top = math.inf if fact.high == math.inf else fact.high**power
        made = ("norm", fact.made[1]) if known == "sum of square" and power == 0.5 else ("", None)
        return Fact(fact.low**power, top, made=made, lost=fact.lost, learned=fact.learned)
    if power == int(power) and power > 0:
        top = fact.size**power if fact.bounded else math.inf
        low = 0.0 if power % 2 == 0 else -top
        return Fact(low, top, made=("power", power), learned=fact.learned)
    return Fact()


def raised(call: Call) -> Fact:
    base, power = call.fact(0), call.number(1)
    if math.isnan(power) and base.exact and base.low == base.high and base.low > 0:
        exponent = call.fact(1)
        ends = [power_of(base.low, x) for x in (exponent.low, exponent.high)]
        return Fact(min(ends), max(ends), exact=exponent.exact)
    if math.isnan(power):
        share = base.low >= 0 and base.high <= 1
        return Fact(0.0 if base.low >= 0 else -math.inf, 1.0 if share else math.inf)
    return to_power(base, power)


def power_of(base: float, exponent: float) -> float:
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf


def square(call: Call) -> Fact:
    return to_power(call.fact(0), 2.0)


def sqrt(call: Call) -> Fact:
    fact = call.fact(0)
    if fact.low < 0:
        made = Fact(0.0, math.sqrt(fact.high) if fact.high >= 0 else math.inf)
        return replace(made, made=root_of(fact))
    return replace(to_power(fact, 0.5), made=root_of(fact))


def root_of(fact: Fact) -> tuple[str, Any]:
    return ("norm", fact.made[1]) if fact.made[0] == "sum of square" else ("", None)


def matmul(first: int, second: int) -> Callable[[Call], Fact]:
    def rule(call: Call) -> Fact:
        a, b = call.fact(first), call.fact(second)
        if a.unit and b.unit:  # cosines
            return Fact(-1.0, 1.0, source="cosine")
        if first:  # with another term
            return Fact()
        low, high = products(call.args[first].shape[-1], a, b)
        sign = "-" if a.factor * b.factor < 0 else "+"  # of a number that multiplies one of them
        return Fact(low, high, made=("product", sign))

    return rule


def products(count: Any, a: Fact, b: Fact) -> tuple[float, float]:
    """Bounds of a sum of so many products, where the numbers themselves are known."""
    if not (a.exact and b.exact and isinstance(count, int)):
        return -math.inf, math.inf
    low, high = multiply(a, b)
    return low * count, high * count
