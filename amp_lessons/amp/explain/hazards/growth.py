"""Results that pass 65504 though the inputs are ordinary: squares, exponentials, large factors.

Each rule asks first whether the input is bounded: a probability, a cosine, what a norm or a clamp
gives. BF16 has almost float32's range, so only FP16 is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from amp_lessons.amp.explain.facts import Fact
from amp_lessons.amp.explain.facts.fact import times
from amp_lessons.amp.explain.hazards.kinds import (
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
from amp_lessons.amp.explain.recorder import OpEvent
from amp_lessons.amp.explain.rows import Hazard
from amp_lessons.amp.fake_tensors.ops import storage_id

_PRODUCTS = {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "dot": (0, 1),
             "vdot": (0, 1), "mv": (0, 1)}  # fmt: skip
_EXPONENTIALS = {"exp": math.log(LARGEST), "expm1": math.log(LARGEST), "exp2": 16.0,
                 "sinh": math.log(2 * LARGEST), "cosh": math.log(2 * LARGEST), "i0": 13.3,
                 "special_i0": 13.3, "special_i1": 13.3}  # fmt: skip
"""The x from which on each of them passes 65504."""
_NORMALISERS = (
    "sum", "mean", "max", "largest", "norm", "sum of square", "mean of square", "spread", "root",
    "abs", "product",
)  # fmt: skip
_LARGE_FACTOR = 1000.0
"""From here on a factor is a hazard of itself: activations of 65 are common, and overflow."""
_TINY_FACTOR = 1e-6
"""Below this a factor leaves an x of 1 at most four bits in FP16."""
_LEAST, _SUBNORMAL = 2.0**-25, 2.0**-14
"""FP16 rounds numbers below the first to 0, and has fewer digits below the second."""
_COLUMNS = 8
"""A tensor of boxes or points has at most so many columns."""
_SAFE = 500.0
"""An activation beyond this is rare: what overflows only there is not worth a word."""


def square(event: OpEvent) -> Hazard | None:
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
        f"compute it in float32 (x.float() ** {power:g}), or scale x down first",
    )


def _monomial(event: OpEvent) -> tuple[float, float, float] | None:
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


def gram(event: OpEvent) -> Hazard | None:
    """A matrix times itself in FP16: sums of squares."""
    name = base(event)
    if name not in _PRODUCTS or dtype_out(event) != torch.float16:
        return None
    first, second = _PRODUCTS[name]
    fact, other = operand(event, first), operand(event, second)
    if fact is None or other is None or fact.value is None or fact.value != other.value:
        return None
    count = event.args[first].shape[-1]
    known = fact.learned or fact.unit or fact.made[0] == "standard"
    if known or not isinstance(count, int) or not count:
        return None
    limit = math.sqrt(LARGEST / count)
    if fact.size <= limit or limit / fact.gain >= 250:
        return None
    return _overflow(
        event,
        f"the product of a tensor with itself adds up {count} squares in float16: inf once all "
        f"|x| are about {brief(limit)}",
        "normalise or scale the tensor before the product, or compute it in float32 with "
        "autocast off",
    )


def before_softmax(events: Sequence[OpEvent]) -> set[int]:
    """Rows whose result goes to a softmax, past scales and masks: scores of attention.

    They overflow as other scores do, and of those no rule speaks.
    """
    wanted: set[int] = set()
    for event in reversed(events):
        name = base(event)
        if name in _SOFTMAX or (event.row.number in wanted and name in _KEEPS_SCORES):
            wanted.update(origin.made_by for _, origin in event.inputs[:2])
    return wanted


_SOFTMAX = ("_softmax", "_safe_softmax")
_KEEPS_SCORES = ("mul", "div", "add", "sub", "masked_fill", "where", "_to_copy", "fill", "copy",
                 "index_put", "native_dropout", "clone")  # fmt: skip


def large_factor(event: OpEvent) -> Hazard | None:
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
    if fact.made[0] == "one minus" or (factor < 0 and fact.source == "integers"):
        return None  # (1 - mask) * -1e4: a mask is 0 or 1
    limit = LARGEST / abs(factor)
    return _overflow(
        event,
        f"{shown} is inf in float16 where |x| is above {brief(limit)}",
        "compute it in float32 (x.float()), or choose a factor that keeps the result below 65504",
        certain=fact.exact,
    )


def tiny_factor(event: OpEvent) -> Hazard | None:
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


def _factor(event: OpEvent) -> tuple[Fact, float, str] | None:
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


def exponential(event: OpEvent) -> Hazard | None:
    """exp and its kin, where they stay in FP16."""
    name = base(event)
    if name not in _EXPONENTIALS or dtype_out(event) != torch.float16:
        return None
    fact, limit = operand(event, 0), _EXPONENTIALS[name]
    if fact is None or fact.learned or fact.high <= limit or limit > 100 * fact.gain:
        return None
    return _overflow(
        event,
        f"{name.removeprefix('special_')} is inf in float16 where x is above {brief(limit)}",
        "subtract the maximum first (softmax, logsumexp), clamp, or compute it in float32",
        certain=fact.exact,
    )


def narrowed_growth(event: OpEvent) -> Hazard | None:
    """A square, an exponential or a scaled value that is brought from float32 to FP16."""
    for fact, dtype in narrowed(event):
        if dtype != torch.float16 or fact.learned or fact.bounded:
            continue  # bounds that do not fit: `known_beyond_format` says so
        what, limit = _grown(fact, base(event) in ("_to_copy", "copy"))
        if what:
            return _overflow(
                event,
                f"{what} is converted to float16: inf where {_above(what)} {brief(limit)}"
                + (f", and 0 where x is below {math.log(_LEAST):.0f}" if "exp" in what else ""),
                "keep the result in float32, with autocast off for a product of it, or bound it "
                "first (clamp, subtract the maximum)",
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
        return "exp(x)", math.log(LARGEST)
    if made == "square":
        return "x * x", math.sqrt(LARGEST)
    if made == "power" and isinstance(power, float):
        return f"x ** {power:g}", LARGEST ** (1 / power)
    if fact.gain >= _LARGE_FACTOR and made == "sum":
        return f"a sum of {fact.gain:.4g} numbers of one sign", LARGEST / fact.gain
    if fact.gain >= _LARGE_FACTOR:
        return f"{fact.gain:g} * x", LARGEST / fact.gain
    return "", 0.0


def _above(what: str) -> str:
    return "they are on average above" if what.startswith("a sum") else "x is above"


def small_divisor(event: OpEvent) -> Hazard | None:
    """1 / (x + 1e-5) and p / q.clamp(1e-5) in FP16: the guard is there, and its inverse is inf."""
    if dtype_out(event) != torch.float16 or base(event) not in ("div", "reciprocal"):
        return None
    divides = base(event) == "div"
    above = operand(event, 0) if divides else Fact(1.0, 1.0, exact=True)
    below = operand(event, 1 if divides else 0)
    if above is None or below is None or below.exact or not 0 < below.low < 1:
        return None
    if not above.bounded:
        return _any_number_divided(event, above, below)
    if fits(above.size / below.low):
        return None
    constant = above.exact and above.low == above.high
    if not constant and below.made[0] in _NORMALISERS:
        return None  # it grows with what is divided
    shown = f"{above.low:g} / x" if constant else f"a / x, with an a up to {above.size:g},"
    return _overflow(
        event,
        f"{shown} is inf in float16 where x is near its least value, {below.low:.2g}",
        f"compute it in float32 (x.float()), or take an eps above {brief(above.size / LARGEST)}",
    )


def _any_number_divided(event: OpEvent, above: Fact, below: Fact) -> Hazard | None:
    """a / (relu(b) + 1e-7): ordinary numbers over a guard that is not 0 and still too small."""
    limit = LARGEST * below.low
    if below.made[0] in _NORMALISERS or above.of == below.of or limit >= 1:
        return None
    return _overflow(
        event,
        f"a / b is inf in float16 where b is at its least value, {below.low:.2g}, and a is above "
        f"{brief(limit)}",
        f"compute it in float32 (x.float()), or take an eps of at least {1 / LARGEST:.1g}",
    )


def area(event: OpEvent) -> Hazard | None:
    """(x2 - x1) * (y2 - y1), or width * height, of boxes in FP16."""
    if base(event) != "mul" or dtype_out(event) != torch.float16 or len(event.facts) != 2:
        return None
    a, b = event.facts
    if a.bounded or b.bounded or a.value == b.value or min(a.gain, b.gain) < 0.5:
        return None
    extents = a.made[0] == b.made[0] == "extent" and a.made[1] == b.made[1]
    if not extents and not _two_columns(event):
        return None
    return _overflow(
        event,
        "width * height, or a product of two other columns of one tensor, is inf in float16 where "
        "both are above 256",
        "compute it in float32 (boxes.float()), or from coordinates between 0 and 1",
    )


def _two_columns(event: OpEvent) -> bool:
    """Whether two columns of one tensor are multiplied, such as ``wh[:, 0] * wh[:, 1]``."""
    (a, _), (b, _) = event.inputs
    if not a.dim() or a.shape != b.shape or a.stride() != b.stride():
        return False
    if storage_id(a) != storage_id(b):
        return False
    first, second, step = a.storage_offset(), b.storage_offset(), a.stride()[-1]
    if not (isinstance(first, int) and isinstance(second, int) and isinstance(step, int)):
        return False
    return bool(0 < abs(first - second) < step <= _COLUMNS)


def _overflow(event: OpEvent, message: str, fix: str, certain: bool = False) -> Hazard:
    severity = WRONG if certain else WATCH
    return hazard(event, "overflow", severity, message, fix, overflows=True)
