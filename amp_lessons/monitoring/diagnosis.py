"""What the findings mean, in words: what happened, what to do, and which lesson explains it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from amp_lessons.course import Lesson, lesson_called
from amp_lessons.formats import BF16, FP32, Format
from amp_lessons.monitoring.counting import Tally, largest_safe_scale, smallest_saving_scale
from amp_lessons.monitoring.findings import Fault, Findings

NEAR = 4
"""An FP16 activation within this factor of the largest number is worth a look."""
SINKING = 8
"""So many skipped steps among the last ten are not a scaler that settles."""


@dataclass(frozen=True)
class Diagnosis:
    """One finding in words.

    Attributes:
        severity: "wrong numbers" (something broke), "watch" (something nearly does) or "note".
        title: what happened, in one line.
        text: where, and why.
        cure: what to do; "" for a note.
        lesson: the slug of the lesson that explains it, as in `course.py`.
    """

    severity: str
    title: str
    text: str
    cure: str
    lesson: str

    @property
    def alarm(self) -> bool:
        """Whether it asks for something to be done."""
        return self.severity != "note"

    @property
    def reading(self) -> Lesson:
        """The lesson in the catalogue."""
        return lesson_called(self.lesson)


_PRODUCTS = (
    "mm", "addmm", "bmm", "baddbmm", "linear", "convolution", "mv", "dot", "addmv", "matmul",
    "mkldnn_linear", "mkldnn_convolution", "_scaled_dot_product", "mul", "square", "pow", "einsum",
)  # fmt: skip
# The first line whose ops begin the name of the op wins. Each: ops, cure, lesson.
_CURES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("binary_cross_entropy_with", "log_sigmoid"),
        "Look at the logits: they are not finite, or too large to be compared.",
        "losses_and_ops",
    ),
    (
        ("binary_cross_entropy",),
        "Drop the sigmoid, and use binary_cross_entropy_with_logits.",
        "losses_and_ops",
    ),
    (
        ("logsumexp", "_log_softmax", "_softmax", "_safe_softmax", "_scaled_dot_product"),
        "Keep at least one position of each row unmasked, or fill the mask with "
        "torch.finfo(scores.dtype).min. Scores that overflow belong in float32.",
        "how_numbers_break",
    ),
    (
        ("log", "xlogy"),
        "The log of 0 is -inf, and of a negative number NaN. Use log_softmax or logsigmoid for "
        "probabilities, or clamp the argument in float32 first.",
        "losses_and_ops",
    ),
    (
        ("div", "reciprocal", "rsqrt"),
        "Divide in float32, by a number that can't be 0 there: an eps below 6e-8 is 0 in FP16.",
        "losses_and_ops",
    ),
    (
        ("exp", "expm1", "sinh", "cosh"),
        "Subtract the maximum before exp, or use softmax or logsumexp. In FP16 exp overflows "
        "above 11.09.",
        "how_numbers_break",
    ),
    (
        ("sqrt", "linalg_vector_norm", "norm", "dist", "_cdist", "acos", "asin"),
        "The slope is infinite there. Add an eps inside the root, sqrt(x + eps), or keep the "
        "argument away from the end of the function's range.",
        "losses_and_ops",
    ),
    (
        ("cumsum", "sum", "mean", "cumprod", "prod", "var", "std"),
        "Add up in float32: x.cumsum(0, dtype=torch.float32), or x.float().sum().",
        "how_numbers_break",
    ),
    (
        _PRODUCTS,
        "Make the inputs smaller before the op (normalise or scale them), or run it in float32 "
        "with autocast off. If the weights keep growing, lower the learning rate.",
        "how_numbers_break",
    ),
)


# What makes NaN of finite numbers in a forward pass.
_OF_NAN: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("sqrt", "rsqrt"),
        "The root of a negative number is NaN. Rounding makes E[x^2] - E[x]^2 negative: use "
        "torch.var, or clamp the argument at 0.",
        "losses_and_ops",
    ),
    (
        ("nll_loss",),
        "If each target is ignored (ignore_index), the mean is 0 / 0. Leave such batches out, or "
        'use reduction="sum" and divide by max(count, 1).',
        "losses_and_ops",
    ),
    (
        ("var", "std"),
        "The variance of one number is 0 / 0. Pass correction=0, or leave out a last batch of "
        "one with drop_last=True.",
        "losses_and_ops",
    ),
    (
        ("mean", "nanmean"),
        "The mean of nothing is NaN. Check that what you selected isn't empty, or divide the "
        "sum by max(count, 1).",
        "losses_and_ops",
    ),
)


def diagnoses(seen: Findings) -> list[Diagnosis]:
    """Everything there is to say about a run, the worst first."""
    found = [of_fault(fault) for fault in seen.faults]
    found += _of_scaler(seen)
    found += _near_the_end(seen)
    found += _what_the_format_would_do(seen)
    return found


# ---- faults ----------------------------------------------------------------------------------


def of_fault(fault: Fault) -> Diagnosis:
    """One fault in words."""
    cure, lesson = _cure(fault)
    return Diagnosis("wrong numbers", title(fault), _where(fault), cure, lesson)


_PLACES = {
    "forward": "in the forward pass",
    "loss": "in the loss",
    "backward": "in the backward pass",
}


def title(fault: Fault) -> str:
    """One line: which op made what, in which step."""
    step = f"Step {fault.step}: "
    word = {"nan": "NaN", "inf": "inf"}.get(fault.kind, fault.kind)
    if fault.phase == "gradient":
        return f"{step}the gradients were inf or NaN before the step began"
    if fault.phase == "parameter":
        held = fault.module if fault.op.endswith(".step") else fault.op
        return f"{step}{held} already held {word} before the forward pass"
    if fault.phase == "input":
        return f"{step}{fault.op} of the model already held {word}"
    if fault.kind == "underflow":
        return f"{step}gradients underflow to 0 in {fault.op} {_PLACES[fault.phase]}"
    return f"{step}{fault.op} made {word} {_PLACES[fault.phase]}"


def _where(fault: Fault) -> str:
    parts = []
    if fault.place.line:
        parts.append(f"{fault.place}   {fault.place.code}".rstrip())
    if fault.module and fault.phase not in ("parameter", "gradient"):
        parts.append(f"in module {fault.module}")
    if fault.detail:
        parts.append(fault.detail)
    if fault.broken:
        names = ", ".join(fault.parameters[:2]) + (", …" if fault.broken > 2 else "")
        parts.append(f"inf or NaN in the gradients of {parameters(fault.broken)}: {names}")
    if fault.scale is not None and fault.phase == "backward":
        parts.append(f"loss scale {power(fault.scale)}")
    return "\n".join(parts)


def parameters(count: int) -> str:
    """ "1 parameter", "6 parameters"."""
    return f"{count} parameter{'' if count == 1 else 's'}"


def _cure(fault: Fault) -> tuple[str, str]:
    if fault.kind == "underflow":
        return (
            "Scale the loss: torch.amp.GradScaler multiplies it before backward() and divides "
            "the gradients after. BF16 doesn't need it.",
            "grad_scaler",
        )
    if fault.phase == "gradient":
        return (
            "Call optimizer.zero_grad() in each step, also after a skipped one.",
            "training_loops",
        )
    if fault.phase == "parameter" and fault.op.startswith("parameter "):
        return (
            "It was there before the first step: look at the checkpoint and the initialisation.",
            "training_loops",
        )
    if fault.phase == "parameter" and fault.op.startswith("buffer "):
        return (
            "A checkpoint or an earlier batch left it there: running statistics keep what they "
            "were given. Reset it, and leave such batches out.",
            "training_loops",
        )
    if fault.phase == "parameter":
        return (
            "An earlier update broke it: lower the learning rate, clip the gradients, and look "
            "at the optimizer's eps.",
            "training_loops",
        )
    if fault.phase == "input":
        return "Clean the batch before the model sees it, or leave it out.", "how_numbers_break"
    table = _CURES
    if fault.kind == "nan" and fault.phase in ("forward", "loss"):
        table = _OF_NAN + _CURES
    for ops, cure, lesson in table:
        if fault.op.strip("_").startswith(tuple(op.strip("_") for op in ops)):
            return cure, lesson
    return (
        "Run the op in float32 (with torch.autocast(..., enabled=False) and x.float()), and "
        "look at what goes into it.",
        "how_numbers_break",
    )


# ---- the scaler ------------------------------------------------------------------------------


def _of_scaler(seen: Findings) -> list[Diagnosis]:
    if not seen.skips or not seen.scales:
        return []
    last = {skip.step for skip in seen.skips if skip.step >= seen.steps - 10}
    sunk = min(seen.scales) < 1
    if len(last) < SINKING and not sunk:
        return []
    cause = next((skip.cause for skip in reversed(seen.skips) if skip.cause), None)
    why = f"The last one: {title(cause)} ({cause.place})." if cause else "No op was found."
    return [
        Diagnosis(
            "wrong numbers",
            f"GradScaler skipped {len(seen.skips)} of {len(seen.scales)} steps and doesn't settle",
            f"The scale went from {power(seen.scales[0])} to {power(min(seen.scales))}.\n{why}",
            "An overflow that stays at every scale doesn't come from the scale: fix the op, or "
            "clear the gradients in each step.",
            "grad_scaler",
        )
    ]


# ---- ranges ----------------------------------------------------------------------------------


def _near_the_end(seen: Findings) -> list[Diagnosis]:
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
        Diagnosis(
            "watch",
            f"FP16 activations reach {largest:,.0f}; FP16 ends at 65,504",
            f"The largest come out of {path}.",
            "Normalise or scale before this module, or run it in float32 with autocast off.",
            "how_numbers_break",
        )
    ]


def _what_the_format_would_do(seen: Findings) -> list[Diagnosis]:
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
            Diagnosis(
                "note",
                f"In {format.name} some activations would overflow",
                f"{worst.path or 'the model'} reaches {worst.activations.largest:.3g}; "
                f"{format.name} ends at {format.max:g}.",
                "",
                "how_numbers_break",
            )
        )
    text = scale_advice(seen.gradients, format)
    if text:
        found.append(Diagnosis("note", f"Loss scales for {format.name}", text, "", "grad_scaler"))
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
