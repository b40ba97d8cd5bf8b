"""Positions, coordinates and counts that need more digits than 16 bits have."""

from __future__ import annotations

from amp_lessons.fakes.ops import LOW
from amp_lessons.foundations.precision import dtype_name
from amp_lessons.trace.facts import Fact, spacing
from amp_lessons.trace.hazards.kinds import (
    BITS,
    WATCH,
    WRONG,
    base,
    dtype_out,
    hazard,
    narrowed,
    operand,
)
from amp_lessons.trace.recorder import Event
from amp_lessons.trace.rows import Hazard

_MAKES = ("arange", "linspace")
_ANGLES = ("sin", "cos", "tan")
_ROUGH = 0.25
"""An error of an angle, in radians, from which on its sine means little."""
_MIXES = ("mul", "add", "sub", "rsub", "div")
_COUNTS = {"index_add": 3, "scatter_add": 3, "scatter_reduce": 3}


def positions(event: Event) -> Hazard | None:
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
            f"{_words(fact)} go to {fact.size:g} in {dtype_name(low)}, where neighbours are "
            f"{spacing(fact.size, low):g} apart: several of them become one number",
        )
    return None


def _integers(event: Event) -> list[Fact]:
    """Integer operands with dimensions: an op with 16-bit numbers converts them to 16 bits."""
    pairs = zip(event.inputs, event.facts, strict=False)
    return [f for (t, _), f in pairs if not (t.is_floating_point() or t.is_complex()) and t.dim()]


def angles(event: Event) -> Hazard | None:
    """The sine of an angle that is so large that 16 bits round it by a good part of a turn."""
    fact = operand(event, 0) if base(event) in _ANGLES else None
    if fact is None or fact.rounded is None:
        return None
    size = fact.size if fact.bounded else fact.gain
    if spacing(size, fact.rounded) < _ROUGH:
        return None
    low = dtype_name(fact.rounded)
    size_of = f"go to {size:.4g}" if fact.bounded else f"are {size:.3g} times an activation"
    return hazard(
        event,
        "positions in 16 bit",
        WRONG if fact.bounded else WATCH,
        f"angles {size_of} in {low}, where neighbours of {size:.4g} are "
        f"{spacing(size, fact.rounded):g} apart: the {base(event)} is noise",
        "compute the angle in float32 from float32 positions, with autocast off for the product",
    )


def _words(fact: Fact) -> str:
    return "integers" if fact.step == int(fact.step) else f"steps of {fact.step:.2g}"


def counts(event: Event) -> Hazard | None:
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
        f"{count} times {fact.low:g} is added one by one in {dtype_name(dtype)}: a count stops "
        f"at {most}",
        "count in int64 or float32: torch.bincount, or a float32 tensor to add to",
    )
