"""What in a trace will bite in 16 bit, and what to write instead.

Each rule reads one `OpEvent` (an op with its real arguments) and names at most one hazard. Rules
look at dtypes, at constants, and at what `explain.facts` knows of the values, and keep silent where
a value is bounded. One module for each family; `kinds` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from amp_lessons.amp.explain.hazards.constants import (
    constant_beyond_format,
    eps_vanishes,
    known_beyond_format,
    margin_vanishes,
    masks_that_add_up,
    of_written,
)
from amp_lessons.amp.explain.hazards.functions import of_functions, of_refused, without_refused
from amp_lessons.amp.explain.hazards.grids import angles, counter, counts, ids, positions
from amp_lessons.amp.explain.hazards.growth import (
    area,
    before_softmax,
    exponential,
    gram,
    large_factor,
    narrowed_growth,
    small_divisor,
    square,
    tiny_factor,
)
from amp_lessons.amp.explain.hazards.kernels import fft_in_low, solver_in_low
from amp_lessons.amp.explain.hazards.kinds import KINDS
from amp_lessons.amp.explain.hazards.mixed import (
    dtypes_in_one_op,
    mixed_in_place,
    of_backward,
    of_raised,
)
from amp_lessons.amp.explain.hazards.parameters import (
    came_back,
    float64,
    of_parameters,
    running_average,
)
from amp_lessons.amp.explain.hazards.probabilities import (
    arc_of_cosine,
    bce_after_sigmoid,
    cancellation,
    gamma_by_difference,
    log_of_probability,
    odds,
    variance_by_difference,
)
from amp_lessons.amp.explain.hazards.reductions import product_as_sum, sum_in_low, variance_in_low
from amp_lessons.amp.explain.recorder import OpEvent
from amp_lessons.amp.explain.rows import Hazard

__all__ = [
    "KINDS",
    "RULES",
    "dtypes_in_one_op",
    "find",
    "of_backward",
    "of_functions",
    "of_parameters",
    "of_raised",
    "of_refused",
    "of_written",
    "together",
    "without_refused",
]

Rule = Callable[[OpEvent], "Hazard | None"]
RULES: tuple[Rule, ...] = (
    bce_after_sigmoid,
    log_of_probability,
    odds,
    cancellation,
    variance_by_difference,
    gamma_by_difference,
    arc_of_cosine,
    eps_vanishes,
    margin_vanishes,
    constant_beyond_format,
    known_beyond_format,
    masks_that_add_up,
    square,
    area,
    gram,
    large_factor,
    exponential,
    narrowed_growth,
    small_divisor,
    tiny_factor,
    sum_in_low,
    product_as_sum,
    variance_in_low,
    positions,
    angles,
    counts,
    ids,
    counter,
    running_average,
    dtypes_in_one_op,
    mixed_in_place,
    solver_in_low,
    fft_in_low,
    float64,
)


def find(events: Iterable[OpEvent]) -> list[Hazard]:
    """All hazards of the ops, in their order."""
    events = list(events)
    meant, attends = came_back(events), before_softmax(events)
    return [
        hazard
        for event in events
        for rule in RULES
        if (hazard := rule(event)) is not None
        if not (rule is gram and event.row.number in attends)
        if not (rule is float64 and event.row.op == "aten::_to_copy" and event.row.path in meant)
    ]


def together(hazards: Iterable[Hazard]) -> tuple[Hazard, ...]:
    """One hazard for all places that have the same one; what raises comes first."""
    groups: dict[tuple[str, ...], Hazard] = {}
    for hazard in hazards:
        key = (hazard.kind, hazard.severity, hazard.op, hazard.message, hazard.fix)
        first = groups.get(key)
        if first is None:
            groups[key] = hazard
        else:
            groups[key] = replace(
                first,
                paths=tuple(dict.fromkeys(first.paths + hazard.paths)),
                where=tuple(dict.fromkeys(first.where + hazard.where)),
                count=first.count + hazard.count,
            )
    order = ("raises", "wrong numbers", "watch")
    return tuple(sorted(groups.values(), key=lambda hazard: order.index(hazard.severity)))
