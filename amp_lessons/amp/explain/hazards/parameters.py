"""What the model stores in 16 or 64 bits: parameters, running averages, tensors from NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from amp_lessons.amp import errors
from amp_lessons.amp.explain.hazards.kinds import (
    BITS,
    RAISES,
    WATCH,
    WRONG,
    base,
    dtype_out,
    hazard,
    operand,
)
from amp_lessons.amp.explain.recorder import OpEvent
from amp_lessons.amp.explain.rows import Hazard
from amp_lessons.amp.fake_tensors.ops import LOW
from amp_lessons.core.precision import dtype_name


def of_parameters(model: nn.Module, trains: bool = True) -> list[Hazard]:
    """Parameters that are not float32 and are to be trained.

    Args:
        model: as the caller gave it.
        trains: whether gradients are recorded; without them 16-bit weights are no hazard.
    """
    found = []
    for dtype in (*LOW, torch.float64):
        names = [
            name
            for name, p in model.named_parameters()
            if p.dtype == dtype and (dtype == torch.float64 or (p.requires_grad and trains))
        ]
        if names:
            found.append(_stored(model, dtype, names))
    return found


_STORED = {
    torch.float16: ("fp16-weights", "GradScaler refuses their gradients"),
    torch.bfloat16: ("pure-bf16-training-stalls", "updates below 2**-9 of a weight are lost"),
    torch.float64: ("float64-input", "they take no part in autocast"),
}
"""Parameters of these dtypes: the entry of the catalogue, and the trouble with them."""


def _stored(model: nn.Module, dtype: torch.dtype, names: list[str]) -> Hazard:
    entry, trouble = _STORED[dtype]
    raises = dtype == torch.float16 and model.training
    known = errors.entry(entry)
    fix = known.fix if dtype in LOW else "make the parameters float32: model.float()"
    return Hazard(
        "16-bit parameters" if dtype in LOW else "float64",
        RAISES if raises else WATCH,
        tuple(name.rpartition(".")[0] for name in names),
        "",
        (),
        f"parameters stored in {dtype_name(dtype)}: {trouble} "
        f"({len(names)}: {', '.join(names[:3])}{', …' if names[3:] else ''})",
        fix + ("" if raises or dtype not in LOW else "; for inference, requires_grad_(False)"),
        lesson=known.lesson,
        entry=known.id,
    )


def running_average(event: OpEvent) -> Hazard | None:
    """A 16-bit buffer that moves by a small share of the difference stops before it arrives."""
    dtype = dtype_out(event)
    if dtype not in LOW or dtype is None or not event.inputs:
        return None
    tensor, origin = event.inputs[0]
    if not origin.name or event.facts[0].learned or tensor.dtype not in LOW:
        return None
    share = _share(event)
    off = 2.0 ** -BITS[dtype] / share if 0 < share < 0.5 else 0.0
    if off < 0.02:
        return None
    return hazard(
        event,
        "running average in 16 bit",
        WRONG,
        f"{origin.name} is {dtype_name(dtype)} and moves by {share:.2g} of the difference: it "
        f"stops up to {min(off, 1):.0%} away from the average",
    )


def _share(event: OpEvent) -> float:
    """By what share of the difference this op moves a buffer; 0 if it does not do so.

    The forms are ``b * 0.999``, ``b.lerp(x, 0.001)`` and ``b += 0.001 * (x - b)``.
    """
    name = base(event)
    if name == "mul":
        factor = operand(event, 1)
        exact = factor is not None and factor.exact and factor.low == factor.high
        return 1 - factor.low if factor is not None and exact else 0.0
    if name == "lerp":
        weight = operand(event, 2)
        return weight.low if weight is not None and weight.exact else 0.0
    if name == "add" and event.func._schema.is_mutable and event.facts[0].factor == 1:
        moved, alpha = operand(event, 1), event.kwargs.get("alpha", 1)
        known = moved is not None and not moved.bounded and isinstance(alpha, int | float)
        return moved.gain * alpha if moved is not None and known else 0.0
    return 0.0


def float64(event: OpEvent) -> Hazard | None:
    """A float64 tensor that enters the model, or one that the model makes.

    A tensor without dimensions takes no part in type promotion, and does no harm.
    """
    if not any(t.dtype == torch.float64 and t.dim() for t in event.outputs):
        return None
    doubles = [
        (t, o, f)
        for (t, o), f in zip(event.inputs, event.facts, strict=False)
        if t.dtype == torch.float64 and t.dim()
    ]
    here = event.row.number  # float_power converts to float64 inside, as if it were a cast for it
    if any((o.made_by >= 0 and o.row != here) or f.learned for _, o, f in doubles):
        return None  # said where it came in
    return hazard(
        event,
        "float64",
        WATCH,
        "autocast never casts float64: this op and what follows run in double precision, slowly",
    )


def came_back(events: Sequence[OpEvent]) -> set[str]:
    """Modules that convert float64 back to fewer bits: they meant what they did."""
    return {
        event.row.path
        for event in events
        if base(event) == "_to_copy"
        and event.inputs[0][0].dtype == torch.float64
        and event.outputs[0].dtype in (torch.float32, *LOW)
    }
