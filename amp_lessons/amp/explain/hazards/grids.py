"""Positions, coordinates and counts that need more digits than 16 bits have."""

from __future__ import annotations

import torch

from amp_lessons.amp.explain.facts import Fact, spacing
from amp_lessons.amp.explain.hazards.kinds import (
    BITS,
    WATCH,
    WRONG,
    base,
    dtype_out,
    hazard,
    narrowed,
    operand,
)
from amp_lessons.amp.explain.recorder import OpEvent
from amp_lessons.amp.explain.rows import Hazard
from amp_lessons.amp.fake_tensors.ops import LOW
from amp_lessons.core.precision import dtype_name

_MAKES = ("arange", "linspace")
_ANGLES = ("sin", "cos", "tan")
_ROUGH = 0.25
"""An error of an angle, in radians, from which on its sine means little."""
_MIXES = ("mul", "add", "sub", "rsub", "div")
_INTEGERS = (torch.int64, torch.int32, torch.int16)
_COUNTS = {"index_add": 3, "scatter_add": 3, "scatter_reduce": 3}


def positions(event: OpEvent) -> Hazard | None:
    """A grid whose step is smaller than the distance of two 16-bit numbers."""
    dtype = dtype_out(event)
    grids = list(narrowed(event))
    if base(event) in _MAKES and dtype in LOW and dtype is not None:
        grids.append((event.made[0], dtype))
    if base(event) in _MIXES and dtype in LOW and dtype is not None:
        grids += [(f, dtype) for f in _integers(event)]
    for fact, low in grids:
        if not fact.step or not fact.bounded or fact.step >= spacing(fact.size, low):
            continue
        return hazard(
            event,
            "positions in 16 bit",
            WRONG,
            f"{_words(fact)} up to {fact.size:g} are stored in {dtype_name(low)}, where numbers "
            f"of that size are {spacing(fact.size, low):g} apart: several become the same",
        )
    return None


def _integers(event: OpEvent) -> list[Fact]:
    """Integer operands with dimensions: an op with 16-bit numbers converts them to 16 bits."""
    pairs = zip(event.inputs, event.facts, strict=False)
    return [f for (t, _), f in pairs if not (t.is_floating_point() or t.is_complex()) and t.dim()]


def angles(event: OpEvent) -> Hazard | None:
    """The sine of an angle that is so large that 16 bits round it by a good part of a turn."""
    fact = operand(event, 0) if base(event) in _ANGLES else None
    if fact is None or fact.rounded is None:
        return None
    if fact.source.endswith("integers") and not fact.bounded:
        return _angles_of_integers(event, fact.rounded)
    size = fact.size if fact.bounded else fact.gain
    if spacing(size, fact.rounded) < _ROUGH:
        return None
    low = dtype_name(fact.rounded)
    size_of = f"up to {size:.4g}" if fact.bounded else f"of {size:.3g} times an activation"
    return hazard(
        event,
        "positions in 16 bit",
        WRONG if fact.bounded else WATCH,
        f"angles {size_of} are stored in {low}, where numbers around {size:.4g} are "
        f"{spacing(size, fact.rounded):g} apart: their {base(event)} is noise",
        "compute the angle in float32 from float32 positions, with autocast off for the product",
    )


def _angles_of_integers(event: OpEvent, low: torch.dtype) -> Hazard:
    """Timesteps or positions whose size no trace knows, in 16 bits."""
    rough = 2.0 ** (BITS[low] - 1)
    return hazard(
        event,
        "positions in 16 bit",
        WATCH,
        f"angles are computed from integers in {dtype_name(low)}: above {rough:g} they are at "
        f"least 1 radian apart, and their {base(event)} is noise",
        "compute the angle in float32 from integer positions (t.float()), with autocast off for "
        "a product",
    )


def ids(event: OpEvent) -> Hazard | None:
    """Ids or positions that went through 16 bits and became integers again."""
    dtype = dtype_out(event)
    if base(event) != "_to_copy" or dtype not in _INTEGERS:
        return None
    (source, _), *_ = event.inputs
    fact = operand(event, 0)
    if fact is None or source.dtype not in LOW or fact.source != "integers":
        return None
    return hazard(
        event,
        "positions in 16 bit",
        WATCH,
        f"integers were stored in {dtype_name(source.dtype)} and are read back: above "
        f"{2 ** BITS[source.dtype]} some of them became their neighbours",
        "keep ids and positions in an integer tensor of their own, or in float32",
    )


def counter(event: OpEvent) -> Hazard | None:
    """A 16-bit buffer that is counted up by 1 stops at 2048, or at 256."""
    dtype = dtype_out(event)
    if base(event) != "add" or dtype not in LOW or dtype is None or not event.inputs:
        return None
    step, (_, origin) = operand(event, 1), event.inputs[0]
    if not origin.name or step is None or not event.func._schema.is_mutable:
        return None
    if step.number is None or step.number < 1 or step.number != int(step.number):
        return None
    return hazard(
        event,
        "positions in 16 bit",
        WRONG,
        f"{origin.name} is {dtype_name(dtype)} and counts up by {step.number:g}: it stops at "
        f"{2 ** BITS[dtype] * step.number:g}",
        "keep the counter in int64: register_buffer(name, torch.zeros((), dtype=torch.int64))",
    )


def _words(fact: Fact) -> str:
    return "integers" if fact.step == int(fact.step) else f"steps of {fact.step:.2g}"


def counts(event: OpEvent) -> Hazard | None:
    """Ones that are added up one after another in 16 bits stop at 2048 or 256."""
    name, dtype = base(event), dtype_out(event)
    if name not in _COUNTS or dtype not in LOW or dtype is None:
        return None
    fact = operand(event, _COUNTS[name])
    if fact is None or not fact.exact or fact.low != fact.high or not fact.low:
        return None
    count, most = event.args[2].numel(), 2 ** BITS[dtype]
    if not isinstance(count, int) or count <= most:
        return None
    return hazard(
        event,
        "positions in 16 bit",
        WATCH,
        f"{fact.low:g} is added {count} times in {dtype_name(dtype)}: the count stops at {most}",
        "count in int64 or float32: torch.bincount, or a float32 tensor to add to",
    )
