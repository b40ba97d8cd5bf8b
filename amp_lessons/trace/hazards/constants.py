"""Numbers in the code that a 16-bit format cannot hold: guards that are 0, fills that are inf."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache

import torch
from torch.utils._python_dispatch import _disable_current_modes

from amp_lessons.fakes.ops import LOW
from amp_lessons.foundations.precision import dtype_name
from amp_lessons.trace.hazards.kinds import (
    RAISES,
    WATCH,
    WRONG,
    base,
    dtype_out,
    hazard,
    made,
    narrowed,
    operand,
)
from amp_lessons.trace.recorder import Event
from amp_lessons.trace.rows import Hazard

_GUARDED = {
    "log": 0, "log2": 0, "log10": 0, "rsqrt": 0, "reciprocal": 0, "sqrt": 0, "div": 1, "pow": 0,
    "xlogy": 1, "atan2": 1,
}  # fmt: skip
_FILLS = (
    "masked_fill", "fill", "full", "full_like", "new_full", "constant_pad_nd", "index_fill",
    "scatter", "threshold", "fill_diagonal", "linspace",
)  # fmt: skip
_MARGINS = ("atanh", "logit", "erfinv", "special_erfinv", "acos", "asin", "log1p")
_BOUNDS = ("clamp", "clamp_min", "clamp_max", "hardtanh")
_ADDED = ("add", "sub", "rsub", "where", "maximum", "minimum")
_SCALED = ("mul",)


def eps_vanishes(event: Event) -> Hazard | None:
    """An epsilon that was added in 16 bit and is zero there."""
    name = base(event)
    fact = operand(event, _GUARDED[name]) if name in _GUARDED else None
    if fact is None or fact.lost is None or fact.low > 0:
        return None
    power = event.args[1] if name == "pow" else 0.5
    if name == "pow" and not (isinstance(power, int | float) and power < 1 and power != 0):
        return None
    eps, low = fact.lost
    harm = "the gradient is inf at 0" if name in ("sqrt", "pow") and power > 0 else ""
    return hazard(
        event,
        "eps vanishes",
        WRONG,
        f"{eps:g} was added in {dtype_name(low)}, where it is 0: nothing guards "
        f"{event.row.short_op} from 0" + (f", where {harm}" if harm else ""),
        f"compute it in float32 (x.float()), or take an eps of at least {torch.finfo(low).tiny:g}",
    )


def margin_vanishes(event: Event) -> Hazard | None:
    """A bound of 1 - 1e-6 that is 1 in 16 bits, under a function that has no value or slope there.

    Of a cosine, `arc_of_cosine` speaks.
    """
    fact = operand(event, 0) if base(event) in _MARGINS else None
    if fact is None or fact.margin is None or fact.lost is None or fact.source == "cosine":
        return None
    if base(event) == "log1p" and fact.made[0] != "neg":
        return None
    margin, low = fact.lost
    harm = "the gradient" if base(event) in ("acos", "asin") else base(event)
    return hazard(
        event,
        "eps vanishes",
        WRONG,
        f"a bound of 1 - {margin:.2g} was set in {dtype_name(low)}, where it is 1: {harm} is "
        "infinite there",
        f"clamp in float32 (x.float()), or stay {torch.finfo(low).eps:.2g} away from 1",
    )


def constant_beyond_format(event: Event) -> Hazard | None:
    """A mask fill or an added constant that the 16-bit format cannot hold."""
    name, dtype = base(event), dtype_out(event)
    if dtype not in LOW or dtype is None:
        return None
    limit = torch.finfo(dtype).max
    value = next((n for n in _numbers(event) if limit < abs(n) < math.inf), None)
    if value is None:
        return None
    # On CUDA the bounds are compared in float32: there they do no harm.
    raises = name in _FILLS or (name in _BOUNDS and event.outputs[0].device.type == "cpu")
    if raises:
        what, severity = "raises: value cannot be converted without overflow", RAISES
    elif name in _ADDED:
        what, severity = "gives inf", WRONG
    elif name in _SCALED:
        what, severity = f"gives inf where |x| is above {limit / abs(value):.2g}", WATCH
    else:
        return None
    return hazard(
        event,
        "constant beyond the format",
        severity,
        f"{value:g} does not fit {dtype_name(dtype)} (largest: {limit:g}); {name} {what}",
        overflows=not raises,
    )


def _numbers(event: Event) -> list[float]:
    """The constants of a call, as numbers and as tensors that were made from one."""
    args = event.args[:2] if base(event) == "linspace" else event.args  # its third is a count
    numbers = [a for a in (*args, *event.kwargs.values()) if isinstance(a, int | float)]
    return numbers + [f.number for f in event.facts if f.number is not None]


def known_beyond_format(event: Event) -> Hazard | None:
    """A conversion to 16 bits of numbers with known bounds that do not fit: a mask of -1e9."""
    for fact, dtype in narrowed(event):
        limit = torch.finfo(dtype).max
        if not limit < fact.size < math.inf:
            continue
        value = fact.low if abs(fact.low) >= abs(fact.high) else fact.high
        return hazard(
            event,
            "constant beyond the format",
            WRONG if fact.exact else WATCH,
            f"{value:g} does not fit {dtype_name(dtype)} (largest: {limit:g}); the conversion "
            "gives inf",
            overflows=True,
        )
    return None


def masks_that_add_up(event: Event) -> Hazard | None:
    """Two masks that each fit, and whose sum does not: a row of -inf alone is nan."""
    dtype = dtype_out(event)
    if base(event) != "add" or dtype not in LOW or dtype is None or len(event.facts) != 2:
        return None
    limit = torch.finfo(dtype).max
    total = sum(fact.low for fact in event.facts)
    if not all(-limit <= f.low < -limit / 2 and f.high <= 0 for f in event.facts):
        return None
    return hazard(
        event,
        "constant beyond the format",
        WATCH,
        f"two masks add up to {total:g}, which is -inf in {dtype_name(dtype)}; softmax of a row "
        "that is masked everywhere is then nan",
        "combine the masks as booleans (a & b) and fill once, or take torch.minimum of both",
        overflows=True,
    )


@cache
def _assignments_raise() -> bool:
    """Whether this torch refuses to assign a number that 16 bits cannot hold."""
    with _disable_current_modes():
        try:
            torch.zeros(2, dtype=torch.float16)[:] = 1e9  # a single element takes another way
        except RuntimeError:
            return True
    return False


def of_written(written: Iterable[tuple[str, str, float, torch.dtype]]) -> list[Hazard]:
    """Numbers that an assignment to a part of a 16-bit tensor turns into inf.

    Newer versions of torch refuse the number instead (2.15 does). There the op below the
    assignment, a fill, is the hazard, and nothing is added here.
    """
    if _assignments_raise():
        return []
    return [
        made(
            "constant beyond the format",
            WRONG,
            path,
            "__setitem__",
            where,
            f"{number:g} does not fit {dtype_name(dtype)} (largest: "
            f"{torch.finfo(dtype).max:g}); written into a part of a tensor it becomes inf",
            overflows=True,
        )
        for path, where, number, dtype in written
    ]
