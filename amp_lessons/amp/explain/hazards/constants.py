"""Numbers in the code that a 16-bit format cannot hold: guards that are 0, fills that are inf."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from amp_lessons.amp.explain.facts import is_mask
from amp_lessons.amp.explain.hazards.kinds import (
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
from amp_lessons.amp.explain.recorder import OpEvent
from amp_lessons.amp.explain.rows import Hazard
from amp_lessons.amp.fake_tensors.ops import LOW
from amp_lessons.core.precision import dtype_name

_GUARDED = {
    "log": 0, "log2": 0, "log10": 0, "rsqrt": 0, "reciprocal": 0, "sqrt": 0, "div": 1, "pow": 0,
    "xlogy": 1, "atan2": 1,
}  # fmt: skip
_FILLS = (
    "masked_fill", "fill", "full", "full_like", "new_full", "constant_pad_nd", "index_fill",
    "scatter", "threshold", "fill_diagonal", "linspace",
)  # fmt: skip
_ONE_BY_ONE = ("fill", "full", "full_like", "new_full")
_MARGINS = ("acosh", "atanh", "logit", "erfinv", "special_erfinv", "acos", "asin", "log1p")
_BOUNDS = ("clamp", "clamp_min", "clamp_max", "hardtanh")
_ADDED = ("nan_to_num", "add", "sub", "rsub", "where", "maximum", "minimum")
_SCALED = ("mul",)


def eps_vanishes(event: OpEvent) -> Hazard | None:
    """An epsilon that was added in 16 bit and is zero there."""
    name = base(event)
    fact = operand(event, _GUARDED[name]) if name in _GUARDED else None
    if fact is None or fact.lost is None or fact.low > 0:
        return None
    power = event.args[1] if name == "pow" else 0.5
    if name == "pow" and not (isinstance(power, int | float) and power < 1 and power != 0):
        return None
    eps, low = fact.lost
    op, root = event.row.short_op, name in ("sqrt", "pow") and power > 0
    if fact.made[0] == "one minus":
        lost = f"x may be 1 - {eps:.2g}, which is 1 in {dtype_name(low)}: then {op} gets 1 - x = 0"
    else:
        lost = f"{eps:g} is 0 in {dtype_name(low)}, so it does not keep {op} away from 0"
    return hazard(
        event,
        "eps vanishes",
        WRONG,
        lost + (", where its gradient is inf" if root else ""),
        _BEFORE if fact.made[0] == "one minus" else _at_least(low),
    )


_BEFORE = "compute 1 - x in float32 (x.float()), before anything is rounded to 16 bits"


def _at_least(low: torch.dtype) -> str:
    """The cure for a guard: float32, or a guard that is a normal number of the 16-bit format."""
    return f"compute it in float32 (x.float()), or take an eps of at least {_TINY[low]}"


_TINY = {torch.float16: "6.2e-05", torch.bfloat16: "1.2e-38"}
"""The least normal number, rounded up to two digits."""


def margin_vanishes(event: OpEvent) -> Hazard | None:
    """A bound of 1 - 1e-6 that is 1 in 16 bits, under a function that has no value or slope there.

    Of a cosine, `arc_of_cosine` speaks.
    """
    fact = operand(event, 0) if base(event) in _MARGINS else None
    if fact is None or fact.margin is None or fact.lost is None or fact.source == "cosine":
        return None
    if base(event) == "log1p" and fact.made[0] != "neg":
        return None
    margin, low = fact.lost
    op = base(event)
    harm = f"the gradient of {op}" if op in ("acos", "asin", "acosh") else op
    sign = "+" if base(event) == "acosh" else "-"
    return hazard(
        event,
        "eps vanishes",
        WRONG,
        f"a bound of 1 {sign} {margin:.2g} is 1 in {dtype_name(low)}, where {harm} is infinite",
        f"clamp in float32 (x.float()), or stay {torch.finfo(low).eps:.2g} away from 1",
    )


def constant_beyond_format(event: OpEvent) -> Hazard | None:
    """A mask fill or an added constant that the 16-bit format cannot hold."""
    name, dtype = base(event), dtype_out(event)
    if dtype not in LOW or dtype is None:
        return None
    limit = torch.finfo(dtype).max
    value = next((n for n in _numbers(event) if limit < abs(n) < math.inf), None)
    if value is None:
        return None
    # On CUDA the bounds are compared in float32: there they do no harm.
    on_cpu = event.outputs[0].device.type == "cpu"
    raises = name in _FILLS or (name in _BOUNDS and on_cpu)
    if on_cpu and name in _ONE_BY_ONE and event.outputs[0].numel() == 1:
        raises = False  # ATen/native/Fill.cpp (`fill_out`) writes one element without the check
    if raises:
        what, severity = "raises (value cannot be converted without overflow)", RAISES
    elif name in (*_ADDED, *_ONE_BY_ONE):
        what, severity = f"gives {'-' * (value < 0)}inf", WRONG
    elif name in _SCALED:
        what, severity = f"gives inf where |x| is above {limit / abs(value):.2g}", WATCH
    else:
        return None
    return hazard(
        event,
        "constant beyond the format",
        severity,
        f"{value:g} does not fit {dtype_name(dtype)} (largest: {limit:g}); {name} {what}",
        _cure(value),
        overflows=not raises,
    )


def _cure(number: float) -> str:
    """What to write instead of a number past the end. Most that are negative belong to a mask."""
    if number < 0:
        return ""  # the kind's
    return "keep it in float32, or stay below torch.finfo(x.dtype).max"


def _numbers(event: OpEvent) -> list[float]:
    """The constants of a call, as numbers and as tensors that were made from one."""
    args = event.args[:2] if base(event) == "linspace" else event.args  # its third is a count
    numbers = [a for a in (*args, *event.kwargs.values()) if isinstance(a, int | float)]
    return numbers + [f.number for f in event.facts if f.number is not None]


def known_beyond_format(event: OpEvent) -> Hazard | None:
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
            f"gives {'-' * (value < 0)}inf",
            _cure(value),
            overflows=True,
        )
    return None


def masks_that_add_up(event: OpEvent) -> Hazard | None:
    """Two masks that each fit, and whose sum does not: a row of -inf alone is nan."""
    dtype = dtype_out(event)
    if base(event) != "add" or dtype not in LOW or dtype is None or len(event.facts) != 2:
        return None
    limit = torch.finfo(dtype).max
    a, b = event.facts
    masks = [f.low for f in (a, b) if is_mask(f) and f.low >= -limit]
    if dtype == torch.bfloat16 and any(low > -limit / 2 for low in masks):
        return None
    if not masks or (len(masks) == 1 and "masked" not in (a.made[0], b.made[0])):
        return None
    total = sum(masks) if len(masks) == 2 else 2 * masks[0]
    if total >= -limit:
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


def of_written(
    written: Iterable[tuple[str, str, str, float, torch.dtype]], found: Iterable[Hazard]
) -> list[Hazard]:
    """Numbers that become inf on their way into a 16-bit tensor, before any op sees them.

    From 2.14 on torch gives some of them to an op that refuses them. That op is among the hazards
    ``found`` then, and nothing is added here.
    """
    told = {(h.paths, h.where) for h in found if h.kind == "constant beyond the format"}
    return [
        made(
            "constant beyond the format",
            WRONG,
            path,
            call,
            where,
            f"{number:g} does not fit {dtype_name(dtype)} (largest: {torch.finfo(dtype).max:g}); "
            f"{_WRITES.get(call, 'the new tensor holds')} {'-' * (number < 0)}inf",
            fix=_cure(number),
            overflows=True,
        )
        for path, where, call, number, dtype in written
        if ((path,), (where,)) not in told
    ]


_WRITES = {"__setitem__": "the assignment writes"}
