"""What the findings mean, in words: what happened and where. `amp.errors` says what to do."""

from __future__ import annotations

import math
from dataclasses import dataclass

from amp_lessons.amp import errors
from amp_lessons.amp.monitor.counting import Tally, largest_safe_scale, smallest_saving_scale
from amp_lessons.amp.monitor.entries import entry_of
from amp_lessons.amp.monitor.findings import Fault, Findings
from amp_lessons.amp.numbers.formats import BF16, FP32, Format

NEAR = 4
"""An FP16 activation within this factor of the largest number is worth a look."""
SINKING = 8
"""So many skipped steps among the last ten are not a scaler that settles."""


@dataclass(frozen=True)
class Advice:
    """One finding in words.

    Attributes:
        severity: "wrong numbers" (something broke), "watch" (something nearly does) or "note".
        title: what happened, in one line.
        text: where, and why.
        entry_id: of the fault in the catalogue of `amp.errors`.
    """

    severity: str
    title: str
    text: str
    entry_id: str

    @property
    def alarm(self) -> bool:
        """Whether it asks for something to be done."""
        return self.severity != "note"

    @property
    def entry(self) -> errors.Entry:
        """What the catalogue says of it: what to do, and which lesson explains it."""
        return errors.entry(self.entry_id)


def diagnoses(seen: Findings) -> list[Advice]:
    """Everything there is to say about a run, the worst first."""
    found = [of_fault(fault) for fault in seen.faults]
    found += _of_scaler(seen)
    found += _near_the_end(seen)
    found += _what_the_format_would_do(seen)
    return found


# ---- faults ----------------------------------------------------------------------------------


def of_fault(fault: Fault) -> Advice:
    """One fault in words."""
    return Advice("wrong numbers", title(fault), _where(fault), entry_of(fault))


_PLACES = {
    "forward": "in the forward pass",
    "loss": "in the loss",
    "backward": "in the backward pass",
}


def title(fault: Fault) -> str:
    """One line: which op made what, in which step."""
    step = f"Step {fault.step}: "
    word = {"nan": "NaN", "inf": "inf"}.get(fault.kind, fault.kind)
    if fault.phase == "use":
        return f"{step}{fault.op}"
    if fault.phase == "buffer":
        return f"{step}{fault.op} became {word}"
    if fault.phase == "gradient":
        return f"{step}the gradients were inf or NaN before the step began"
    if fault.phase == "parameter":
        named = fault.op.startswith(("parameter ", "buffer "))
        held = fault.op if named else fault.module
        return f"{step}{held} already held {word} before the forward pass"
    if fault.phase == "input":
        owner = " of the model" if fault.op.startswith("input") else ""
        return f"{step}{fault.op}{owner} already held {word}"
    if fault.kind == "underflow":
        return f"{step}gradients underflow to 0 in {fault.op} {_PLACES[fault.phase]}"
    return f"{step}{fault.op} made {word} {_PLACES[fault.phase]}"


def _where(fault: Fault) -> str:
    parts = []
    if fault.place.line:
        parts.append(f"{fault.place}   {fault.place.code}".rstrip())
    if fault.module and fault.phase not in ("parameter", "gradient", "buffer"):
        parts.append(f"in module {fault.module}")
    if fault.detail:
        parts.append(fault.detail)
    if fault.phase == "backward" and fault.always and fault.kind != "underflow":
        parts.append("it breaks at any loss scale")
    if fault.reached >= 1e4:
        reached = f"{fault.reached:,.0f}" if fault.reached < 1e9 else f"{fault.reached:.3g}"
        parts.append(f"its inputs reach {reached}; its result is {fault.dtype}")
    if fault.broken:
        names = ", ".join(fault.parameters[:2]) + (", …" if fault.broken > 2 else "")
        parts.append(f"inf or NaN in the gradients of {parameters(fault.broken)}: {names}")
    if fault.op == "unknown op":
        parts.append("with every=1, the table of the modules shows where the numbers grow")
    if fault.scale is not None and fault.phase in ("backward", "use"):
        parts.append(f"loss scale {power(fault.scale)}")
    return "\n".join(parts)


def parameters(count: int) -> str:
    """ "1 parameter", "6 parameters"."""
    return f"{count} parameter{'' if count == 1 else 's'}"


# ---- the scaler ------------------------------------------------------------------------------


def _of_scaler(seen: Findings) -> list[Advice]:
    if not seen.skips or not seen.scales:
        return []
    last = {skip.step for skip in seen.skips if skip.step >= seen.steps - 10}
    sunk = min(seen.scales) < 1
    if len(last) < SINKING and not sunk:
        return []
    cause = next((skip.cause for skip in reversed(seen.skips) if skip.cause), None)
    why = f"The last one: {title(cause)} ({cause.place})." if cause else "No op was found."
    return [
        Advice(
            "wrong numbers",
            f"GradScaler skipped {len(seen.skips)} of {len(seen.scales)} steps and doesn't settle",
            f"The scale went from {power(seen.scales[0])} to {power(min(seen.scales))}.\n{why}",
            "scale-keeps-falling",
        )
    ]


# ---- ranges ----------------------------------------------------------------------------------


def _near_the_end(seen: Findings) -> list[Advice]:
    """FP16 activations that are close to 65504."""
    close = [
        (part.activations.largest, part.path or "the model")
        for part in seen.modules.values()
        if "float16" in part.activations.dtypes and part.activations.largest >= 65504 / NEAR
    ]
    if not close:
        return []
    largest, path = max(close)
    return [
        Advice(
            "watch",
            f"FP16 activations reach {largest:,.0f}; FP16 ends at 65,504",
            f"The largest come out of {path}.",
            "activation-overflow",
        )
    ]


def _what_the_format_would_do(seen: Findings) -> list[Advice]:
    """What the format that was asked for would do to a run in a wider one."""
    format = seen.format
    if format in (BF16, FP32):
        return []
    found = []
    over = sorted(
        ((p.activations.share(p.activations.overflow), p) for p in seen.modules.values()),
        key=lambda pair: -pair[0],
    )
    if over and over[0][0] > 0:
        worst = over[0][1]
        found.append(
            Advice(
                "note",
                f"In {format.name} some activations would overflow",
                f"{worst.path or 'the model'} reaches {worst.activations.largest:.3g}; "
                f"{format.name} ends at {format.max:g}.",
                "activation-overflow",
            )
        )
    text = scale_advice(seen.gradients, format)
    if text and any(fault.kind == "underflow" for fault in seen.faults):
        text += " Gradients that were 0 before they could be counted are left out of this."
    if text:
        found.append(Advice("note", f"Loss scales for {format.name}", text, "gradient-underflow"))
    return found


def power(value: float) -> str:
    """ "2^7" for 128.0, "2^-3.5" for what is between two powers; "0" for 0."""
    if value <= 0 or not math.isfinite(value):
        return f"{value:g}"
    exponent = math.log2(value)
    near = round(exponent)
    return f"2^{near}" if abs(exponent - near) < 0.05 else f"2^{exponent:.1f}"


def scale_advice(gradients: Tally, format: Format) -> str:
    """Which loss scales keep these gradients in the format; "" if there are no gradients."""
    if not gradients.nonzero:
        return ""
    lost = gradients.underflow / gradients.nonzero
    share = "none" if not lost else "less than 0.1%" if lost < 0.001 else f"{lost:.1%}"
    first = f"With no scale, {share} of the non-zero gradients become 0 in {format.name}."
    saving = smallest_saving_scale(gradients, format)
    nearly = smallest_saving_scale(gradients, format, 0.001)
    safe = largest_safe_scale(gradients, format)
    if safe is None:
        return f"{first} Even without a scale, the largest ({gradients.largest:.3g}) overflows."
    if saving is not None and saving <= safe:
        return f"{first} Scales from {power(saving)} to {power(safe)} lose nothing."
    if nearly is not None and nearly <= safe:
        return (
            f"{first} Scales from {power(nearly)} to {power(safe)} lose less than 0.1%; above "
            "that, the largest overflows."
        )
    return f"{first} No one scale keeps them all; {power(safe)} is the largest that is safe."
