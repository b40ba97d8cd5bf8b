"""Results that pass 65504 though the inputs are ordinary: squares, exponentials, large factors.

Each rule asks first whether the input is bounded: a probability, a cosine, what a norm or a clamp
gives. BF16 has float32's range, so only FP16 is looked at.
"""

from __future__ import annotations

import math

import torch

from amp_lessons.trace.facts import Fact
from amp_lessons.trace.facts.fact import times
from amp_lessons.trace.hazards.kinds import (
    LARGEST,
    WATCH,
    WRONG,
    base,
    brief,
    dtype_out,
    fits,
    hazard,
    narrowed,
    operand,
)
from amp_lessons.trace.recorder import Event
from amp_lessons.trace.rows import Hazard

_PRODUCTS = {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "dot": (0, 1),
             "vdot": (0, 1), "mv": (0, 1)}  # fmt: skip
_EXPONENTIALS = {"exp": math.e, "expm1": math.e, "exp2": 2.0, "sinh": math.e, "cosh": math.e}
_NORMALISERS = ("sum", "mean", "max", "largest", "norm", "sum of square", "mean of square")
_LARGE_FACTOR = 1000.0
"""From here on a factor is a hazard of itself: activations of 65 are common, and overflow."""
_TINY_FACTOR = 1e-6
"""Below this a factor leaves an x of 1 at most four bits in FP16."""
_LEAST, _SUBNORMAL = 2.0**-25, 2.0**-14
"""FP16 rounds numbers below the first to 0, and has fewer digits below the second."""
_SAFE = 500.0
"""An activation beyond this is rare: what overflows only there is not worth a word."""


def square(event: Event) -> Hazard | None:
    """x * x, x ** n, c * x * x * x and addcmul(a, x, x) in FP16."""
    if dtype_out(event) != torch.float16:
        return None
    found = _monomial(event)
    if found is None:
        return None
    bound, power, factor = found
    limit = _limit(power, factor)
    if power < 2 or fits(bound) or limit > _SAFE:
        return None
    shown = "x * x" if power == 2 else f"x ** {power:g}"
    shown = shown if abs(factor) == 1 else f"{factor:.3g} * {shown}"
    return _overflow(
        event,
        f"{shown} is inf in float16 where |x| is above {brief(limit)}",
        "square in float32 (x.float() ** 2), or divide before you square",
    )


def _monomial(event: Event) -> tuple[float, float, float] | None:
    """Bound, power and factor of a result that is factor * x ** power; None if it is none."""
    name = base(event)
    if name == "pow":
        fact, exponent = operand(event, 0), operand(event, 1)
        if fact is None or exponent is None or not exponent.exact or fact.learned:
            return None
        power = exponent.low
        bound = math.inf if not fact.bounded or power < 0 else fact.size**power
        return bound, power * fact.power, fact.factor**power if fact.factor > 0 else 1.0
    if name not in ("mul", "addcmul"):
        return None
    first = 1 if name == "addcmul" else 0
    a, b = operand(event, first), operand(event, first + 1)
    if a is None or b is None or a.of is None or a.of != b.of or a.learned:
        return None
    if any(f.power >= 2 and not f.bounded and _limit(f.power, f.factor) <= _SAFE for f in (a, b)):
        return None  # said of that one
    return times(a.size, b.size), a.power + b.power, a.factor * b.factor


def _limit(power: float, factor: float) -> float:
    """The |x| above which factor * x ** power passes 65504."""
    return float((LARGEST / abs(factor)) ** (1 / power)) if factor and power > 0 else math.inf


def gram(event: Event) -> Hazard | None:
    """A matrix times itself in FP16: sums of squares."""
    name = base(event)
    if name not in _PRODUCTS or dtype_out(event) != torch.float16:
        return None
    first, second = _PRODUCTS[name]
    fact, other = operand(event, first), operand(event, second)
    if fact is None or other is None or fact.value is None or fact.value != other.value:
        return None
    count = event.args[first].shape[-1]
    if fact.learned or fact.unit or not isinstance(count, int) or not count:
        return None
    limit = math.sqrt(LARGEST / count)
    if fact.size <= limit or limit / fact.gain >= 250:
        return None
    return _overflow(
        event,
        f"a product of a tensor with itself adds up {count} squares in float16: inf where |x| is "
        f"above {brief(limit)} throughout",
        "normalise or scale the tensor before the product, or compute it in float32 with "
        "autocast off",
    )


def large_factor(event: Event) -> Hazard | None:
    """x * 1e4 and x / 1e-5 in FP16."""
    if dtype_out(event) != torch.float16 or base(event) not in ("mul", "div"):
        return None
    found = _factor(event)
    if found is None:
        return None
    fact, factor, shown = found
    if abs(factor) <= 1 or fact.learned or fits(fact.size * abs(factor)):
        return None
    if not fact.bounded and fact.gain * abs(factor) < _LARGE_FACTOR:
        return None
    if base(event) == "mul" and abs(factor) > LARGEST and fact.number is None:
        return None  # `constant_beyond_format` says so
    if fact.exact and fact.low == fact.high:
        return None  # the constant itself: said where it is used
    if factor < 0 and (fact.source == "integers" or fact.made[0] == "one minus"):
        return None  # (1 - mask) * -1e4: a mask is 0 or 1
    limit = LARGEST / abs(factor)
    return _overflow(
        event,
        f"{shown} is inf in float16 where |x| is above {brief(limit)}",
        "compute it in float32 (x.float()), or choose a factor that keeps the result below 65504",
        certain=fact.exact,
    )


def tiny_factor(event: Event) -> Hazard | None:
    """x * 1e-8 and x / (H * W) in FP16: an ordinary number falls below the least one."""
    if dtype_out(event) != torch.float16 or base(event) not in ("mul", "div"):
        return None
    found = _factor(event)
    if found is None or found[0].exact or found[0].learned or not found[0].size:
        return None
    fact, factor, shown = found
    gain = (fact.size if fact.bounded else fact.gain) * abs(factor)
    if gain >= _TINY_FACTOR or abs(factor) >= 1 or fact.source == "integers":
        return None
    if fact.gain < _TINY_FACTOR:
        return None  # that op was named
    return hazard(
        event,
        "underflow",
        WATCH,
        f"{shown} is 0 in float16 where |x| is below {brief(_LEAST / abs(factor))}, and keeps few "
        f"digits below {brief(_SUBNORMAL / abs(factor))}",
    )


def _factor(event: Event) -> tuple[Fact, float, str] | None:
    """The operand that is scaled, the factor, and how to show it."""
    a, b = operand(event, 0), operand(event, 1)
    if a is None or b is None:
        return None
    if b.exact and b.low == b.high and b.low:
        if base(event) == "div":
            return a, 1 / b.low, f"x / {b.low:g}"
        return a, b.low, f"x * {b.low:g}"
    if base(event) == "mul" and a.exact and a.low == a.high:
        return b, a.low, f"x * {a.low:g}"
    return None


def exponential(event: Event) -> Hazard | None:
    """exp and its kin, where they stay in FP16."""
    name = base(event)
    if name not in _EXPONENTIALS or dtype_out(event) != torch.float16:
        return None
    fact, limit = operand(event, 0), math.log(LARGEST, _EXPONENTIALS[name])
    if fact is None or fact.learned or fact.high <= limit or limit > 100 * fact.gain:
        return None
    return _overflow(
        event,
        f"{name} is inf in float16 where x is above {brief(limit)}",
        "subtract the maximum first (softmax, logsumexp), clamp, or compute it in float32",
        certain=fact.exact,
    )


def narrowed_growth(event: Event) -> Hazard | None:
    """A square, an exponential or a scaled value that is brought from float32 to FP16."""
    for fact, dtype in narrowed(event):
        if dtype != torch.float16 or fact.learned or fact.bounded:
            continue  # bounds that do not fit: `known_beyond_format` says so
        what, limit = _grown(fact, base(event) in ("_to_copy", "copy"))
        if what:
            return _overflow(
                event,
                f"{what} is brought to float16: inf where x is above {brief(limit)}",
                "keep the result in float32, or bound it first (clamp, subtract the maximum)",
            )
    return None


def _grown(fact: Fact, asked: bool) -> tuple[str, float]:
    """What grew, and the input above which it is inf; "" if nothing did.

    A mean or a sum of squares counts only where the model itself ``asked`` for 16 bits.
    """
    made, power = fact.made
    if asked and made in ("mean of square", "sum of square"):
        return f"a {made}s", math.sqrt(LARGEST)
    if made == "exp":
        return "an exponential", math.log(LARGEST)
    if made == "square":
        return "a square", math.sqrt(LARGEST)
    if made == "power" and isinstance(power, float):
        return f"a power of {power:g}", LARGEST ** (1 / power)
    if fact.gain >= _LARGE_FACTOR:
        return f"a value times {fact.gain:g}", LARGEST / fact.gain
    return "", 0.0


def small_divisor(event: Event) -> Hazard | None:
    """1 / (x + 1e-5) and p / q.clamp(1e-5) in FP16: the guard is there, and its inverse is inf."""
    if dtype_out(event) != torch.float16 or base(event) not in ("div", "reciprocal"):
        return None
    divides = base(event) == "div"
    above = operand(event, 0) if divides else Fact(1.0, 1.0, exact=True)
    below = operand(event, 1 if divides else 0)
    if above is None or below is None or below.exact or not above.bounded:
        return None
    if not 0 < below.low < 1 or fits(above.size / below.low):
        return None
    constant = above.exact and above.low == above.high
    if not constant and below.made[0] in _NORMALISERS:
        return None  # it grows with what is divided
    shown = f"{above.low:g}" if constant else f"a number up to {above.size:g}"
    return _overflow(
        event,
        f"{shown} / x is inf in float16 where x is near its least value, {below.low:.2g}",
        f"compute it in float32 (x.float()), or take an eps above {brief(above.size / LARGEST)}",
    )


def _overflow(event: Event, message: str, fix: str, certain: bool = False) -> Hazard:
    severity = WRONG if certain else WATCH
    return hazard(event, "overflow", severity, message, fix, overflows=True)
