"""The kinds of hazards, and which entry of the catalogue of faults says what to do about each.

The rules beside this module find them; `docs/hazards.md` is written from this list.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from amp_lessons.amp import errors
from amp_lessons.amp.explain.facts import Fact
from amp_lessons.amp.explain.facts.fact import constant
from amp_lessons.amp.explain.recorder import OpEvent
from amp_lessons.amp.explain.rows import Hazard
from amp_lessons.amp.fake_tensors.ops import LOW

RAISES, WRONG, WATCH = "raises", "wrong numbers", "watch"
BITS = {torch.float16: 11, torch.bfloat16: 8}
"""Bits of the significand, with the leading one."""


KINDS = {
    "BCE after sigmoid": "bce-unsafe-to-autocast",
    "log of a probability": "log-of-a-probability",
    "cancellation": "cancellation",
    "eps vanishes": "eps-zero-in-fp16",
    "constant beyond the format": "value-cannot-be-converted-to-half",
    "overflow": "activation-overflow",
    "underflow": "activation-underflow",
    "reduction in 16 bit": "sum-overflow",
    "positions in 16 bit": "integers-round-in-16-bits",
    "running average in 16 bit": "running-average-stalls",
    "dtypes that differ": "two-dtypes-under-autocast",
    "in-place or out= mix": "in-place-keeps-16-bits",
    "no 16-bit kernel": "op-not-implemented-for-half",
    "16-bit parameters": "fp16-weights",
    "float64": "float64-input",
    "custom Function": "custom-function-backward",
}
"""Each kind, as `Hazard.kind` names it, and its entry in the catalogue of `amp.errors`."""


def hazard(
    event: OpEvent, kind: str, severity: str, message: str, fix: str = "", overflows: bool = False
) -> Hazard:
    """A hazard of one op. Without ``fix`` the fix is that of its kind's entry."""
    row = event.row
    return made(
        kind, severity, row.path, row.short_op, row.where, message, fix=fix, overflows=overflows
    )


def made(
    kind: str,
    severity: str,
    path: str,
    op: str,
    where: str,
    message: str,
    *,
    fix: str = "",
    entry: str = "",
    overflows: bool = False,
) -> Hazard:
    """A hazard of this kind, with the fix and the lesson of its entry, by default the kind's."""
    known = errors.entry(entry or KINDS[kind])
    return Hazard(
        kind,
        severity,
        (path,),
        op,
        (where,),
        message,
        fix or known.fix,
        lesson=known.lesson,
        overflows=overflows,
        entry=known.id,
    )


def base(event: OpEvent) -> str:
    """The op's name without "aten::" and without the underscore of the in-place form."""
    name = event.row.op.partition("::")[2]
    return name if name.startswith("_") else name.rstrip("_")


def operand(event: OpEvent, place: int) -> Fact | None:
    """What is known of the argument at this place: a tensor, or a number. None for the rest."""
    if len(event.args) <= place:
        return None
    value = event.args[place]
    if isinstance(value, Tensor):
        return next(
            (f for (t, _), f in zip(event.inputs, event.facts, strict=False) if t is value), None
        )
    if isinstance(value, int | float) and not isinstance(value, bool):
        return constant(float(value))
    return None


def dtype_out(event: OpEvent) -> torch.dtype | None:
    return event.outputs[0].dtype if event.outputs else None


def narrowed(event: OpEvent) -> Iterator[tuple[Fact, torch.dtype]]:
    """What was brought to 16 bits at this op, by the model or for it by autocast, and to what."""
    name, low = base(event), dtype_out(event)
    if name in ("_to_copy", "copy") and low in LOW and low is not None:
        source = event.inputs[-1][0] if name == "copy" and len(event.inputs) > 1 else None
        source = event.inputs[0][0] if source is None else source
        fact = operand(event, 1 if name == "copy" else 0)
        if fact is not None and source.dtype not in LOW:
            yield fact, low
    for (tensor, origin), fact in zip(event.inputs, event.facts, strict=False):
        cast = origin.row == event.row.number or (origin.row >= 0 and _is_attention(event))
        if cast and tensor.dtype in LOW and fact.wide is not None:
            yield fact.wide, tensor.dtype


def _is_attention(event: OpEvent) -> bool:
    """Whether this is a step of attention, for which as a whole its mask was cast."""
    return event.row.call == "scaled_dot_product_attention"


def brief(number: float) -> str:
    """A bound as a person reads it: two digits."""
    return f"{number:.2g}" if abs(number) < 100 else f"{number:.0f}"


LARGEST = float(torch.finfo(torch.float16).max)
"""65504: past it FP16 has inf."""


def fits(number: float) -> bool:
    return math.isfinite(number) and abs(number) <= LARGEST
