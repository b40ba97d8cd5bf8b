"""Logs and losses of probabilities that 16 bits rounded, and differences of numbers that are close.

0.9999 rounds to 1 in FP16 and 0.998 does in BF16; what is left of 1 - p is then 0.
"""

from __future__ import annotations

import math

from amp_lessons.amp.explain.facts import Fact
from amp_lessons.amp.explain.hazards.kinds import BITS, WATCH, WRONG, base, hazard, operand
from amp_lessons.amp.explain.recorder import OpEvent
from amp_lessons.amp.explain.rows import Hazard
from amp_lessons.amp.fake_tensors.ops import LOW
from amp_lessons.core.precision import dtype_name

_LOGS = ("log", "log2", "log10", "log1p", "logit", "special_xlog1py", "xlogy", "atanh")
_NEAREST = ("argmin", "argmax", "min", "amin", "max", "amax", "topk", "sort", "_softmax", "exp")
_ROOTS = ("sqrt", "rsqrt", "pow", "log", "log2", "log10", "reciprocal")
_BETTER = {
    "sigmoid": "use torch.nn.functional.logsigmoid",
    "softmax": "use torch.nn.functional.log_softmax",
    "tanh": "use torch.nn.functional.logsigmoid(2 * x), for (1 + tanh(x)) / 2 is sigmoid(2 * x)",
    "erf": "use torch.special.log_ndtr",
    "rand": "draw the noise in float32 (dtype=torch.float32) and keep it from 0 with clamp",
}


def bce_after_sigmoid(event: OpEvent) -> Hazard | None:
    """1 - p needs more digits than p in 16 bit has."""
    fact = operand(event, 0)
    if event.row.op != "aten::binary_cross_entropy" or fact is None:
        return None
    if fact.source not in ("sigmoid", "softmax") or fact.rounded is None:
        return None
    return hazard(
        event,
        "BCE after sigmoid",
        WRONG,
        f"the {fact.source} was rounded to 16 bit before the loss: 1 - p is 0 once p rounds to 1",
    )


def log_of_probability(event: OpEvent) -> Hazard | None:
    """The log of a sigmoid, a softmax or a uniform number that 16 bit rounded, perhaps to zero."""
    name = base(event)
    place = 1 if name in ("xlogy", "special_xlog1py") else 0
    fact = operand(event, place) if name in _LOGS else None
    if fact is None or fact.rounded is None or fact.lost is not None:
        return None
    if name == "xlogy" and event.facts[0].value == fact.value:
        return None  # p * log(p): xlogy(0, 0) is 0
    if name in ("log1p", "special_xlog1py"):
        return _of_minus(event, fact)
    if name in ("logit", "atanh"):
        return _inverse(event, fact)
    if fact.source not in _BETTER or fact.low > 0 or -math.inf < fact.low < 0:
        return None
    if fact.source in ("tanh", "erf"):
        return _log(event, fact, "-1 or 1 gives log(0) = -inf")
    return _log(event, fact, "1 gives log(0) = -inf" if fact.complement else "0 gives -inf")


def _of_minus(event: OpEvent, fact: Fact) -> Hazard | None:
    """log1p(-p), where p can be 1."""
    if fact.source not in ("sigmoid", "softmax") or fact.made[0] != "neg" or fact.low > -1:
        return None
    return _log(event, fact, "1 gives log(0) = -inf", complement=True)


def _inverse(event: OpEvent, fact: Fact) -> Hazard | None:
    """logit(sigmoid(x)) and atanh(tanh(x)), where the inner one rounds to 1."""
    eps = event.args[1] if len(event.args) > 1 else event.kwargs.get("eps")
    inner = ("tanh",) if base(event) == "atanh" else ("sigmoid", "softmax")
    if fact.source not in inner or fact.high < 1:
        return None
    if isinstance(eps, float) and 1 - eps < 1 and eps >= 2**-11:
        return None
    return _log(event, fact, f"1 gives an infinite {base(event)}")


def _log(event: OpEvent, fact: Fact, ends: str, complement: bool = False) -> Hazard:
    better = _BETTER[fact.source]
    if base(event) in ("atanh", "logit"):
        better = f"keep the value that {fact.source} was taken of"
    if (complement or fact.complement) and fact.source == "sigmoid":
        better = "use torch.nn.functional.logsigmoid(-x), for 1 - sigmoid(x) is sigmoid(-x)"
    what = "uniform noise" if fact.source == "rand" else f"the {fact.source}"
    return hazard(
        event,
        "log of a probability",
        WRONG,
        f"{what} was rounded to {_words(fact)} before the log; what rounds to {ends}",
        better,
    )


def odds(event: OpEvent) -> Hazard | None:
    """p / (1 - p), where p rounds to 1."""
    fact = operand(event, 1 if base(event) == "div" else 0)
    if base(event) not in ("div", "reciprocal") or fact is None or fact.lost is not None:
        return None
    if fact.source != "sigmoid" or not fact.complement or fact.rounded is None or fact.low > 0:
        return None
    return hazard(
        event,
        "log of a probability",
        WRONG,
        f"the sigmoid was rounded to {_words(fact)}: where it rounds to 1, this divides by 0",
        "use the logits: p / (1 - p) is exp(x)",
    )


def cancellation(event: OpEvent) -> Hazard | None:
    """A root or a log of 1 - c * c, with a c that has 11 or 8 bits."""
    name, fact = base(event), operand(event, 0)
    if fact is None or name not in (*_ROOTS, *_NEAREST, "log1p", "div"):
        return None
    if fact.made[0] == "distance":
        return _distance(event, name)
    if fact.rounded is None:
        return None
    if fact.made[0] == "minus exp" and name == "log1p":
        return _one_minus_exp(event, fact)
    if name not in (*_ROOTS, "div") or fact.low > _APART:
        return None
    if fact.made[0] == "one minus exp":
        return _one_minus_exp(event, fact)
    if name == "div":
        return None
    if fact.made[0] == "one minus square":
        return hazard(
            event,
            "cancellation",
            WRONG,
            f"c was rounded to {_words(fact)} before 1 - c * c: near |c| = 1 only the rounding "
            f"error is left, and its {name} is far off, or nan",
            "compute the cosine itself in float32, with autocast off, or use "
            "torch.linalg.cross or atan2 for the sine",
        )
    return None


_APART = 0.02
"""A difference beyond this has a few digits left after its operands were rounded."""


def _distance(event: OpEvent, name: str) -> Hazard:
    """|x|² + |y|² - 2xy, where the product was rounded to 16 bits."""
    roots = name in _ROOTS
    harm = f"its {name} is far off, or nan" if roots else "the nearest one may be another"
    return hazard(
        event,
        "cancellation",
        WRONG if roots else WATCH,
        "a squared distance is computed as |x|² + |y|² - 2xy, with a product in 16 bits: for close "
        f"points only the rounding error is left, and {harm}",
        "use torch.cdist, or compute the product in float32 too, with autocast off",
    )


def _one_minus_exp(event: OpEvent, fact: Fact) -> Hazard:
    return hazard(
        event,
        "cancellation",
        WRONG,
        f"exp(x) was rounded to {_words(fact)} before 1 - exp(x): for small |x| only the rounding "
        "error is left, or 0",
        "compute 1 - exp(x) in float32 as -torch.expm1(x)",
    )


def gamma_by_difference(event: OpEvent) -> Hazard | None:
    """lgamma(a + b) - lgamma(a) in 16 bits: both are large, and their difference is not."""
    if base(event) not in ("sub", "add", "rsub") or len(event.facts) != 2:
        return None
    a, b = event.facts
    if a.made[0] != "lgamma" or b.made[0] != "lgamma" or a.rounded is None or b.rounded is None:
        return None
    return hazard(
        event,
        "cancellation",
        WATCH,
        f"a difference of two lgamma in {_words(a)}: both are large (lgamma(200) is 858), and "
        "the rounding error of each stays in the difference",
        "compute it in float32: torch.lgamma(x.float())",
    )


def variance_by_difference(event: OpEvent) -> Hazard | None:
    """mean(x * x) - mean(x) ** 2, with means that have 11 or 8 bits."""
    if base(event) not in ("sub", "rsub", "add") or not event.made:
        return None
    if event.made[0].made[0] != "variance by difference":
        return None
    low = [f.rounded for f in event.facts if f.rounded in LOW]
    if not low:
        return None
    return hazard(
        event,
        "cancellation",
        WRONG,
        f"a variance is computed as mean(x * x) - mean(x)**2, with means in {dtype_name(low[0])}: "
        "where the mean is large it is mostly rounding error, and may be negative",
        "use x.float().var(), or subtract the mean first",
    )


def arc_of_cosine(event: OpEvent) -> Hazard | None:
    """acos of a cosine that a 16-bit product rounded, perhaps past 1."""
    fact = operand(event, 0)
    if base(event) not in ("acos", "asin") or fact is None or fact.rounded is None:
        return None
    if fact.source != "cosine" or fact.high < 1:
        return None
    return hazard(
        event,
        "cancellation",
        WATCH,
        f"a cosine that was rounded to {_words(fact)} is off by 2**-{BITS[fact.rounded]} and may "
        f"reach 1 or pass it, where the gradient of {base(event)} is infinite or nan",
        "compute the cosine in float32, with autocast off, and clamp it inside -1 and 1",
    )


def _words(fact: Fact) -> str:
    return dtype_name(fact.rounded) if fact.rounded is not None else "16 bit"
