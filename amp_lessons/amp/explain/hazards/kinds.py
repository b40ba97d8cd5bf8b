"""The kinds of hazards: what goes wrong with the number, the cure, and the lesson that shows it.

The rules beside this module find them; `docs/hazards.md` is written from this list.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from amp_lessons.amp.explain.facts import Fact
from amp_lessons.amp.explain.facts.fact import constant
from amp_lessons.amp.explain.recorder import OpEvent
from amp_lessons.amp.explain.rows import Hazard
from amp_lessons.amp.fake_tensors.ops import LOW

RAISES, WRONG, WATCH = "raises", "wrong numbers", "watch"
BITS = {torch.float16: 11, torch.bfloat16: 8}
"""Bits of the significand, with the leading one."""


@dataclass(frozen=True)
class Kind:
    """One kind of hazard.

    Attributes:
        name: as `Hazard.kind` says it.
        harm: what happens to the number.
        cure: what to write instead.
        lesson: topic slug of `amp_lessons.core.catalogue`.
    """

    name: str
    harm: str
    cure: str
    lesson: str


_ALL = (
    Kind(
        "BCE after sigmoid",
        "CUDA's autocast refuses `binary_cross_entropy`. Where it runs, `1 - p` is 0 once `p` "
        "rounds to 1: for a target of 0 the loss is 100, and the gradient is 0 or NaN.",
        "drop the sigmoid and use binary_cross_entropy_with_logits (BCEWithLogitsLoss)",
        "losses_and_ops",
    ),
    Kind(
        "log of a probability",
        "A sigmoid or softmax that 16 bits round to 0 gives log(0) = -inf. So does `1 - p` where "
        "`p` rounds to 1, and uniform noise that rounds to 0.",
        "use logsigmoid, log_softmax or a loss with logits; draw noise in float32",
        "losses_and_ops",
    ),
    Kind(
        "cancellation",
        "`1 - cos²`, or the mean square minus the squared mean, keeps only the rounding error "
        "where the two are close. It may be negative, and its root NaN.",
        "compute both parts in float32 from float32 values, with autocast off; use var()",
        "how_numbers_break",
    ),
    Kind(
        "eps vanishes",
        "A guard such as 1e-8 is 0 in FP16. Then log(0) is -inf, 0/0 is NaN, and the gradient of "
        "a root at 0 is inf.",
        "compute it in float32 (x.float()), or take a larger eps",
        "losses_and_ops",
    ),
    Kind(
        "constant beyond the format",
        "A number past 65504, such as -1e9 in a mask, raises or becomes inf in FP16.",
        "mask with torch.finfo(x.dtype).min, or work in float32 (x.float())",
        "how_numbers_break",
    ),
    Kind(
        "overflow",
        "Squares, exponentials and large factors of ordinary activations pass 65504 and become "
        "inf in FP16.",
        "compute it in float32 (x.float()), or scale down first",
        "how_numbers_break",
    ),
    Kind(
        "underflow",
        "A factor such as 1e-8 takes ordinary activations below 2.9e-8, half of FP16's smallest "
        "number: the result is 0.",
        "compute it in float32 (x.float()), or scale the loss and not the activation",
        "how_numbers_break",
    ),
    Kind(
        "reduction in 16 bit",
        "A sum of many FP16 numbers, or their variance, passes 65504 and becomes inf.",
        "reduce in float32: x.float().sum(), or dtype=torch.float32 where there is one",
        "how_numbers_break",
    ),
    Kind(
        "positions in 16 bit",
        "FP16 holds every integer to 2048, BF16 to 256. Above that neighbouring positions, "
        "coordinates and counts round to the same number.",
        "keep positions and counts in int64 or float32, with autocast off for the product",
        "losses_and_ops",
    ),
    Kind(
        "running average in 16 bit",
        "The update is smaller than half the distance to the next number, so the average stops "
        "moving.",
        "keep the buffer in float32 and convert where it is read",
        "losses_and_ops",
    ),
    Kind(
        "dtypes that differ",
        "The op needs equal dtypes, gets two different ones, and raises. Autocast casts nothing "
        "here.",
        "bring both to one dtype by hand: x.float() before a region where autocast is off, "
        "value.to(target.dtype) before a write",
        "autocast_ops",
    ),
    Kind(
        "in-place or out= mix",
        "Autocast leaves in-place ops and out= alone: a float32 result is rounded to the 16-bit "
        "tensor that it is written to.",
        "write it out of place (x = x + y), or allocate in the dtype that you want",
        "autocast_ops",
    ),
    Kind(
        "no 16-bit kernel",
        "Solvers, decompositions, quantiles and some transforms have no 16-bit kernel and raise.",
        "compute it in float32: with autocast off, on x.float()",
        "autocast_ops",
    ),
    Kind(
        "16-bit parameters",
        "GradScaler refuses FP16 gradients, and a BF16 weight loses updates below 2**-9 of it.",
        "keep parameters in float32 (model.float()) and let autocast cast them",
        "amp_from_scratch",
    ),
    Kind(
        "float64",
        "Autocast never casts float64. A float64 tensor with dimensions turns sums and products "
        "with it to double precision, which is slow on a GPU. A matrix product with float32 "
        "raises.",
        "make inputs and constants float32, for instance torch.from_numpy(array).float()",
        "autocast_ops",
    ),
    Kind(
        "custom Function",
        "Its backward runs without the autocast state of its forward.",
        "decorate forward and backward with torch.amp.custom_fwd and custom_bwd",
        "losses_and_ops",
    ),
)
KINDS = {kind.name: kind for kind in _ALL}


def hazard(
    event: OpEvent, kind: str, severity: str, message: str, fix: str = "", overflows: bool = False
) -> Hazard:
    """A hazard of one op. Without ``fix`` the cure is its kind's."""
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
    overflows: bool = False,
) -> Hazard:
    """A hazard of this kind, with the cure and the lesson of the kind."""
    known = KINDS[kind]
    return Hazard(
        kind,
        severity,
        (path,),
        op,
        (where,),
        message,
        fix or known.cure,
        lesson=known.lesson,
        overflows=overflows,
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
