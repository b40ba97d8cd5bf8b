"""Two dtypes in one op: what raises, and what is rounded to the tensor that it is written to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

from amp_lessons.amp.explain.dtype_recovery import DtypeRefusal
from amp_lessons.amp.explain.hazards.kinds import RAISES, WATCH, base, hazard, made
from amp_lessons.amp.explain.recorder import OpEvent, dtypes_that_differ
from amp_lessons.amp.explain.rows import Hazard
from amp_lessons.amp.fake_tensors.ops import LOW
from amp_lessons.core.precision import dtype_name


def dtypes_in_one_op(event: OpEvent) -> Hazard | None:
    """Real kernels of some ops refuse two dtypes. The fake ones, which ran here, do not look."""
    dtypes = dtypes_that_differ(event.func, (t for t, _ in event.inputs))
    if not dtypes:
        return None
    message = f"{_meeting(dtypes, event.row.short_op)}, and autocast casts nothing here: it raises"
    return hazard(event, "dtypes that differ", RAISES, message)


def of_raised(refused: Iterable[DtypeRefusal]) -> list[Hazard]:
    """Calls that torch refuses for their dtypes; the trace went on with one dtype."""
    return [_raised(refusal) for refusal in refused]


def _raised(refusal: DtypeRefusal) -> Hazard:
    op = refusal.op.strip("_").removesuffix("_ex")
    if len(refusal.dtypes) > 1:
        kind = "dtypes that differ"
        message = f"{_meeting(list(refusal.dtypes), op)}: it raises ({refusal.message})"
    else:
        kind = "no 16-bit kernel"
        message = f"{op} does not take {refusal.dtypes[0]}: it raises ({refusal.message})"
    return made(kind, RAISES, refusal.path, op, refusal.where, message)


def of_backward(refused: Mapping[str, list[str]]) -> list[Hazard]:
    """Ops of the backward pass that get two dtypes: autocast is off there."""
    return [
        made(
            "dtypes that differ",
            RAISES,
            "",
            op,
            "",
            f"{_meeting(dtypes, op)}, in the backward pass: it raises",
            entry="custom-function-backward",
        )
        for op, dtypes in refused.items()
    ]


def _meeting(dtypes: list[str], op: str) -> str:
    return f"{op.strip('_')} takes one dtype and gets {' and '.join(dtypes)}"


def mixed_in_place(event: OpEvent) -> Hazard | None:
    """In-place and out= are not autocast: the result keeps the dtype of what it is written to."""
    if not event.func._schema.is_mutable or not _asked_for(event) or dtypes_in_one_op(event):
        return None
    tensors = [t for t, _ in event.inputs if t.is_floating_point() and t.dim()]
    written = _written(event)
    if written is None or written.dtype not in LOW or base(event) == "copy":
        return None
    others = sorted({dtype_name(t.dtype) for t in tensors} - {dtype_name(written.dtype)})
    if not others:
        return None
    return hazard(
        event,
        "in-place or out= mix",
        WATCH,
        f"a {', '.join(others)} value is written into a {dtype_name(written.dtype)} tensor: "
        "autocast leaves in-place ops and out= alone, so the result is rounded to "
        f"{dtype_name(written.dtype)}",
    )


def _asked_for(event: OpEvent) -> bool:
    """Whether the model itself wrote in place; torch's own ops do so inside as they see fit."""
    call = event.row.call
    return call.startswith("__") or call in (event.row.short_op, f"{event.row.short_op}_")


def _written(event: OpEvent) -> Tensor | None:
    out = event.kwargs.get("out")
    if isinstance(out, Tensor):
        return out
    for argument, value in zip(event.func._schema.arguments, event.args, strict=False):
        if argument.alias_info is not None and argument.alias_info.is_write:
            return value if isinstance(value, Tensor) and value.is_floating_point() else None
    return None
