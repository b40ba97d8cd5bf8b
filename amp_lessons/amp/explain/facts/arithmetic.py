"""Sums, differences, products and powers."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from amp_lessons.amp.explain.facts.call import OpCall
from amp_lessons.amp.explain.facts.elements import guarded, is_mask
from amp_lessons.amp.explain.facts.fact import (
    Fact,
    add,
    constant,
    inverse,
    multiply,
    negative,
    times,
)

_STAYS = ("norm", "largest", "sum", "mean", "max", "one minus square", "one minus exp", "distance",
          "spread", "root", "abs", "masked", "lgamma")  # fmt: skip
"""What is still known of a result after a small positive number was added to it."""


def added(call: OpCall) -> Fact:
    a, b = call.fact(0), times_constant(call.fact(1), call.scalar("alpha", 2, 1.0))
    return plus(call, a, b)


def sub(call: OpCall) -> Fact:
    a, b = call.fact(0), call.fact(1)
    if a.exact and a.low == a.high == 1:
        return one_minus(call, b)
    return minus(call, a, b)


def rsub(call: OpCall) -> Fact:
    a, b = call.fact(1), call.fact(0)
    if a.exact and a.low == a.high == 1:
        return one_minus(call, b)
    return minus(call, a, b)


def minus(call: OpCall, a: Fact, b: Fact) -> Fact:
    made = plus(call, a, times_constant(b, -1.0))
    if b.made == ("mean", a.value):
        return replace(made, made=("centred", a.value))
    if b.made in (("max", a.value), ("logsumexp", a.value)):
        return replace(made, high=0.0)
    if part_of(a) is not None and part_of(a) == part_of(b):
        return replace(made, made=("extent", part_of(a)))
    if a.made[0] == "mean of square" and b.made == ("square of mean", a.made[1]):
        return replace(made, made=("variance by difference", a.made[1]))
    return made


def part_of(fact: Fact) -> Hashable:
    """The value that a view shows a part of; None for a whole tensor."""
    return fact.value[0] if isinstance(fact.value, tuple) else None


def plus(call: OpCall, a: Fact, b: Fact) -> Fact:
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
        if other.low < 0 <= low < 0.5:  # (1 + tanh(x)) / 2 is a probability
            made = replace(made, source=other.source)
    if not numbers:
        made = replace(made, made=distance(a, b))
        if source := both_shares(a, b):
            made = replace(made, source=source, rounded=a.rounded)
    if any(is_mask(f) or f.made[0] == "masked" for f in (a, b)):
        made = replace(made, made=("masked", None))
    return guarded(made, (a, b))


def one_minus(call: OpCall, b: Fact) -> Fact:
    low, high = add(constant(1.0), times_constant(b, -1.0))
    made = Fact(
        low, high, source=b.source, complement=not b.complement, rounded=b.rounded,
        made=("one minus", b.value),
    )  # fmt: skip
    if b.made[0] in ("square", "exp"):
        made = replace(made, made=(f"one minus {b.made[0]}", b.made[1]))
    if b.margin is not None and b.lost is not None and not b.source:
        made = replace(made, lost=b.lost)
    return made


def distance(a: Fact, b: Fact) -> tuple[str, Any]:
    """Squared norms, less a product of 16 bits: the square of a distance, or a part of it."""
    names = {a.made[0]: a, b.made[0]: b}
    if set(names) == {"sum of square"} or are_diagonals(a, b):
        return ("two sums of squares", None)
    less = names.get("product")
    if less is None or (less.factor < 0) is (less.made[1] == "-") or less.rounded is None:
        less = names.get("norm less product")
        return ("distance", None) if less is not None and "sum of square" in names else ("", None)
    if "two sums of squares" in names:
        return ("distance", None)
    return ("norm less product", None) if "sum of square" in names else ("", None)


def both_shares(a: Fact, b: Fact) -> str:
    """The source of p * y + (1 - p) * (1 - y), which is a probability again; "" for another sum."""
    shares = [f.made[1] for f in (a, b) if f.made[0] == "share" and isinstance(f.made[1], tuple)]
    if len(shares) < 2 or shares[0][1] == shares[1][1]:
        return ""
    return str(shares[0][0])


def are_diagonals(a: Fact, b: Fact) -> bool:
    """Whether both are parts of one product, such as its diagonal and the transpose of that."""
    if a.made[0] == "diagonal":
        return a.made == b.made
    products = a.made[0] == b.made[0] == "product" and part_of(a) is not None
    return products and part_of(a) == part_of(b) and a.factor > 0 and b.factor > 0


def neg(call: OpCall) -> Fact:
    fact = call.fact(0)
    low, high = negative(fact)
    made = {"distance": fact.made, "exp": ("minus exp", fact.made[1])}.get(fact.made[0])
    return replace(
        fact, low=low, high=high, value=None, number=None, made=made or ("neg", fact.value),
        root=fact.of, factor=-fact.factor,
    )  # fmt: skip


def summed(call: OpCall) -> Fact:
    fact, count = call.fact(0), call.shared
    if not count:
        return Fact()
    low, high = times(count, fact.low), times(count, fact.high)
    if call.name == "cumsum":
        return running(call, fact)
    made = ("sum of square", fact.made[1]) if fact.made[0] == "square" else ("sum", fact.value)
    if fact.made[0] == "unit product":
        return Fact(-1.0, 1.0, source="cosine", rounded=fact.rounded)
    if fact.made[0] == "lgamma":
        return Fact(made=fact.made, rounded=fact.rounded)
    gain = fact.gain * count if fact.low >= 0 else 1.0  # with one sign the sum grows with the count
    return Fact(low, high, made=made, learned=fact.learned, gain=gain)


def running(call: OpCall, fact: Fact) -> Fact:
    """A running sum; of booleans or of ones it counts, in steps of 1."""
    length = call.args[0].shape[call.args[1]]
    if not isinstance(length, int):
        return Fact()
    low = min(fact.low, times(length, fact.low))
    high = max(fact.high, times(length, fact.high))
    is_count = (fact.low, fact.high) in ((0.0, 1.0), (1.0, 1.0))
    whole = fact.exact or not call.args[0].is_floating_point()
    return Fact(low, high, step=1.0 if is_count and whole else 0.0, learned=fact.learned)


def length(call: OpCall) -> Fact:
    fact = call.fact(0)
    return Fact(0.0, math.inf, made=("norm", fact.value), learned=fact.learned)


_SCALED = ("square", "exp", "product", "distance", "masked", "lgamma")
"""What a value still is after it was multiplied with a number."""


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
    kept = before.made if before.made[0] in _SCALED else ("", None)
    source = "scaled integers" if before.source.endswith("integers") else before.source
    return replace(scaled, value=None, source=source, made=kept, unit=False)


def mul(call: OpCall) -> Fact:
    a, b = call.fact(0), call.fact(1)
    for one, other in ((a, b), (b, a)):
        if one.exact and one.low == one.high:
            scaled = times_constant(other, one.low)
            if one.low <= -1000 and other.made[0] == "one minus" and not other.bounded:
                return Fact(one.low, 0.0)  # (1 - mask) * -65504: a mask is 0 or 1
            return rescaled(scaled, other)
    if a.value == b.value:
        return replace(to_power(a, 2.0), root=a.of, power=2 * a.power, factor=a.factor * a.factor)
    if a.made[1] == b.made[1] and {a.made[0], b.made[0]} == {"one minus", "one plus"}:
        return Fact(*multiply(a, b), made=("one minus square", a.made[1]), rounded=a.rounded)
    low, high = multiply(a, b)
    made = Fact(low, high, learned=a.learned and b.learned, exact=a.exact and b.exact)
    if a.source.endswith("integers") or b.source.endswith("integers"):
        made = replace(made, source="scaled integers")
    if a.source == b.source in ("sigmoid", "softmax"):  # a probability of both
        made = replace(made, source=a.source, complement=a.complement and b.complement)
    for one, other in ((a, b), (b, a)):
        if one.source in ("sigmoid", "softmax") and not other.source and not other.bounded:
            share = ("share", (one.source, one.complement))
            return replace(made, made=share, rounded=one.rounded)
    if a.unit and b.unit:
        return replace(made, low=-1.0, high=1.0, made=("unit product", None))
    if a.of is not None and a.of == b.of:
        power, factor = a.power + b.power, a.factor * b.factor
        return replace(made, root=a.of, power=power, factor=factor)
    return made


def div(call: OpCall) -> Fact:
    a, b = call.fact(0), call.fact(1)
    if b.exact and b.low == b.high and b.low:
        scaled = times_constant(a, 1 / b.low)
        return rescaled(scaled, a)
    if b.made == ("norm", a.value):
        return Fact(-1.0, 1.0, unit=True)
    if a.made[0] == "centred" and b.made == ("spread", a.made[1]):
        return Fact(made=("standard", a.made[1]))
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


def raised(call: OpCall) -> Fact:
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


def square(call: OpCall) -> Fact:
    return to_power(call.fact(0), 2.0)


def sqrt(call: OpCall) -> Fact:
    fact = call.fact(0)
    if fact.low < 0:
        made = Fact(0.0, math.sqrt(fact.high) if fact.high >= 0 else math.inf)
        return replace(made, made=root_of(fact))
    made = to_power(fact, 0.5)
    return replace(made, made=root_of(fact), margin=fact.margin)


def root_of(fact: Fact) -> tuple[str, Any]:
    known = {"sum of square": ("norm", fact.made[1]), "spread": fact.made}
    return known.get(fact.made[0], ("root", fact.value))


def matmul(first: int, second: int) -> Callable[[OpCall], Fact]:
    def rule(call: OpCall) -> Fact:
        a, b = call.fact(first), call.fact(second)
        if a.unit and b.unit:  # cosines
            return Fact(-1.0, 1.0, source="cosine", made=("product", "+"))
        if first:  # with another term
            return Fact()
        low, high = products(call.args[first].shape[-1], a, b)
        sign = "-" if a.factor * b.factor < 0 else "+"  # of a number that multiplies one of them
        known = next((f for f in (a, b) if f.exact and not f.learned), None)
        gain = max(1.0, known.size) * a.gain * b.gain if known is not None else 1.0
        return Fact(low, high, made=("product", sign), gain=gain)

    return rule


def products(count: Any, a: Fact, b: Fact) -> tuple[float, float]:
    """Bounds of a sum of so many products, where the numbers themselves are known."""
    if not (a.exact and b.exact and isinstance(count, int)):
        return -math.inf, math.inf
    low, high = multiply(a, b)
    return low * count, high * count
