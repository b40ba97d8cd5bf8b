"""Sums and variances that stay in FP16 and may pass its end.

A mean, a softmax and a norm add up in float32 inside the kernel and give a result of the inputs'
size, so they are no hazard.
"""

from __future__ import annotations

import math

import torch

from amp_lessons.amp.explain.facts.fact import times
from amp_lessons.amp.explain.hazards.kinds import (
    LARGEST,
    WATCH,
    base,
    brief,
    dtype_out,
    hazard,
    operand,
)
from amp_lessons.amp.explain.recorder import OpEvent
from amp_lessons.amp.explain.rows import Hazard

_SUMS = ("sum", "nansum", "cumsum", "_fft_r2c", "_fft_c2c", "_fft_c2r")
_VARIANCES = ("var", "var_mean")
_PRODUCTS = {"mm": (0, 1), "bmm": (0, 1), "mv": (0, 1), "dot": (0, 1)}
_MANY = 4096
"""A product of so many numbers that are at least 0 grows with their count."""
_ORDINARY = 100.0
"""A sum that overflows only where the elements are on average beyond this is left alone."""


def sum_in_low(event: OpEvent) -> Hazard | None:
    """A sum of so many FP16 numbers that ordinary ones overflow."""
    if base(event) not in _SUMS or dtype_out(event) not in (torch.float16, torch.complex32):
        return None
    fact, count = operand(event, 0), _count(event)
    if fact is None or fact.learned or not count:
        return None
    limit = LARGEST / count
    if fact.size <= limit or limit > _ORDINARY:
        return None
    return hazard(
        event,
        "reduction in 16 bit",
        WATCH,
        f"{base(event).strip('_')} adds up {count} numbers into float16: inf once they are above "
        f"{brief(limit)} on average",
        overflows=True,
    )


def product_as_sum(event: OpEvent) -> Hazard | None:
    """A product that adds up with one sign: with ones, or of masks and probabilities."""
    places = _PRODUCTS.get(base(event))
    if places is None or dtype_out(event) != torch.float16:
        return None
    a, b = (operand(event, place) for place in places)
    count = event.args[0].shape[-1]
    if a is None or b is None or not isinstance(count, int) or a.learned or b.learned:
        return None
    if "softmax" in (a.source, b.source) or not count:
        return None  # its rows add up to 1
    same = [f for f in (a, b) if f.exact and f.low == f.high and f.low]
    at_least_0 = sum(f.low >= 0 for f in (a, b))
    enough = {2: _MANY, 1: LARGEST}.get(at_least_0, math.inf)
    if not same and count < enough:
        return None
    if a.value == b.value and not same:
        return None  # squares: `gram` says so
    scale = abs(same[0].low) if same else 1.0
    limit = LARGEST / count / scale
    largest = times(a.size, b.size) / scale
    if largest <= limit or limit > _ORDINARY:
        return None
    what = "numbers" if same else "products"
    return hazard(
        event,
        "reduction in 16 bit",
        WATCH,
        f"{base(event)} adds up {count} {what} into float16: inf once they are above "
        f"{brief(limit)} on average",
        "sum in float32 with x.float().sum(), or compute the product with autocast off",
        overflows=True,
    )


def _count(event: OpEvent) -> int:
    """How many elements go into one of the result; 0 if that is not known."""
    source = event.args[0]
    name = base(event)
    if name == "cumsum":
        count = source.shape[event.args[1]]
        return count if isinstance(count, int) else 0
    if name.startswith("_fft"):
        sizes = [source.shape[d] for d in event.args[1]]
        total = 1
        for size in sizes:
            total *= size if isinstance(size, int) else 0
        return total
    before, after = source.numel(), event.outputs[0].numel()
    if not isinstance(before, int) or not isinstance(after, int) or not after:
        return 0
    return before // after


def variance_in_low(event: OpEvent) -> Hazard | None:
    """A variance in FP16 is a square of the spread."""
    if base(event) not in _VARIANCES or dtype_out(event) != torch.float16:
        return None
    fact = operand(event, 0)
    if fact is None or fact.learned or fact.size <= 256 or fact.gain <= 0.5:
        return None
    return hazard(
        event,
        "reduction in 16 bit",
        WATCH,
        "the variance is stored in float16: inf where the standard deviation is above 256",
        "compute it in float32: x.float().var()",
        overflows=True,
    )
