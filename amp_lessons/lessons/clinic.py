"""Ways in which a mixed precision run goes wrong: message or symptom, cause, fix.

The clinic's deep notebook triggers each one that a CPU and this version of torch can show, prints
what torch says, and fixes it; `Clinic` keeps the record. The lesson itself shows `table`. Messages
are matched by pattern, since wordings change from version to version and from op to op.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from posixpath import dirname, relpath
from textwrap import shorten
from typing import Literal

from amp_lessons.core.catalogue import heading_anchor, lesson_called

Shown = Literal["triggered here", "cited"]

WIDTH = 160  # characters of a message that are printed; some go on for several sentences

PYTORCH = "https://github.com/pytorch/pytorch"
AMP_DOCS = "https://docs.pytorch.org/docs/stable/amp.html"
AMP_NOTES = "https://docs.pytorch.org/docs/stable/notes/amp_examples.html"


class Disagreement(AssertionError):
    """A cell found something else than the catalogue says. One of the two is wrong: read both."""


@dataclass(frozen=True)
class Pitfall:
    """One of them.

    Args:
        number: 1 to 30.
        section: the part of the lesson that shows it.
        name: a few words.
        symptom: what you see or search for, in Markdown.
        cause: what is behind it.
        cure: what to do.
        lesson: the number of the lesson that teaches it.
        pattern: a regular expression that finds the message; "" where nothing is said.
        shown: whether the lesson triggers it or, if that takes CUDA or another version, cites it.
        source: a primary source; every cited one has it.
    """

    number: int
    section: str
    name: str
    symptom: str
    cause: str
    cure: str
    lesson: int
    pattern: str = ""
    shown: Shown = "triggered here"
    source: str = ""

    @property
    def heading(self) -> str:
        """Its heading in the lesson."""
        return f"Pitfall {self.number}: {self.name}"


class Clinic:
    """The record of a notebook that shows the pitfalls one by one."""

    def __init__(self) -> None:
        self.seen: dict[int, Shown] = {}

    def read(self, number: int, message: str) -> None:
        """Print the line of a message by which a pitfall is recognised, if need be cut short.

        Raises:
            KeyError: no pitfall has this number.
            Disagreement: the message is another one, or the pitfall is a silent one.
        """
        pitfall = BY_NUMBER[number]
        lines = message.splitlines() if pitfall.pattern else []
        found = next((line for line in lines if re.search(pitfall.pattern, line)), None)
        if found is None:
            raise Disagreement(f"Pitfall {number} was not recognised in {message!r}")
        print(f"Pitfall {number} says: {shorten(found, WIDTH, placeholder=' …')}")
        self.seen[number] = "triggered here"

    def notice(self, number: int, symptom: str, *, present: bool) -> None:
        """Print the symptom of a silent pitfall.

        Raises:
            KeyError: no pitfall has this number.
            Disagreement: the symptom is not there.
        """
        if not present:
            raise Disagreement(f"Pitfall {number} did not show: {symptom}")
        self.seen[BY_NUMBER[number].number] = "triggered here"
        print(f"Pitfall {number} shows: {symptom}")

    def fix(self, number: int, cure: str, *, works: bool) -> None:
        """Print a fix.

        Raises:
            Disagreement: it did not help, or the pitfall was not triggered before.
        """
        if number not in self.seen:
            raise Disagreement(f"Pitfall {number} must be triggered before it is fixed")
        if not works:
            raise Disagreement(f"Pitfall {number} is not fixed by: {cure}")
        print(f"Fixed by: {cure}")

    def cite(self, number: int) -> None:
        """Print where a pitfall that cannot be triggered here is described."""
        pitfall = BY_NUMBER[number]
        self.seen[number] = "cited"
        print(f"Pitfall {number} is cited: {pitfall.source}")


def table() -> str:
    """The faults by their symptoms, with links to their places, as Markdown for the lesson."""
    lesson = lesson_called("clinic")
    page = relpath(lesson.deep_notebook, dirname(lesson.notebook))
    rows = [f"| {seen} | [{h}](#{heading_anchor(h)}) | {cure} |" for seen, h, cure in IN_THE_LESSON]
    rows += (
        f"| {p.symptom} | [{p.number}. {p.name}]({page}#{heading_anchor(p.heading)}) | {p.cure} |"
        for p in PITFALLS
    )
    return "\n".join(("| what you see | pitfall | what to do |", "|---|---|---|", *rows))


IN_THE_LESSON = (
    (
        "the loss explodes in the first steps, and no step is skipped",
        "Run d: a loss that explodes",
        "`scaler.step(optimizer)` in place of `optimizer.step()`",
    ),
    (
        "`eval()` gives NaN, training is fine, and all weights are finite",
        "One broken batch, and one skipped step",
        "look at the buffers; make BatchNorm's statistics again from clean batches",
    ),
    (
        "long texts or large images get worse in BF16",
        "Eight positions in BF16",
        "compute positions and angles in FP32, in a region with `enabled=False`",
    ),
    (
        "the scale isn't what you asked for in `torch.amp.GradScaler(1024.)`",
        "A deprecation warning",
        '`GradScaler("cuda", init_scale=1024.0)`',
    ),
)
"""Faults that the lesson itself shows: what you see, the heading, what to do."""

LOOP, SILENT, DTYPES = "What the scaler says", "Runs that say nothing", "Dtypes that do not match"
NUMBERS, MACHINERY, MACHINE = "Numbers that break", "Around the loop", "The machine"
SECTIONS = (LOOP, SILENT, DTYPES, NUMBERS, MACHINERY, MACHINE)

PITFALLS: tuple[Pitfall, ...] = (
    Pitfall(
        1,
        LOOP,
        "No inf checks were recorded for this optimizer",
        "`No inf checks were recorded for this optimizer`",
        "no parameter of this optimizer has a gradient",
        "call backward first, on a loss that depends on its parameters",
        6,
        pattern=r"No inf checks were recorded for this optimizer",
    ),
    Pitfall(
        2,
        LOOP,
        "No inf checks were recorded prior to update",
        "`No inf checks were recorded prior to update`",
        "update() without a step()",
        "leave out both or neither",
        6,
        pattern=r"No inf checks were recorded prior to update",
    ),
    Pitfall(
        3,
        LOOP,
        "unscale_ has already been called",
        "`unscale_() has already been called on this optimizer since the last update()`",
        "unscale_() twice before one update()",
        "call it once a step, after the last backward",
        6,
        pattern=r"unscale_\(\) has already been called on this optimizer",
    ),
    Pitfall(
        4,
        LOOP,
        "unscale_ is being called after step",
        "`unscale_() is being called after step()`",
        "update() is missing",
        "one update() at the end of each iteration",
        6,
        pattern=r"unscale_\(\) is being called after step\(\)",
    ),
    Pitfall(
        5,
        SILENT,
        "The loss is frozen",
        "the loss stays the same in every step, and no error",
        "the whole loop stands under one autocast: its casts are old",
        "a new region in each step, around the forward pass",
        5,
    ),
    Pitfall(
        6,
        LOOP,
        "Attempting to unscale FP16 gradients",
        "`Attempting to unscale FP16 gradients`",
        "the parameters were made FP16",
        "keep the parameters in FP32; autocast makes the 16-bit copies",
        6,
        pattern=r"Attempting to unscale FP16 gradients",
    ),
    Pitfall(
        7,
        MACHINERY,
        "Gradients missing after a no_grad pass",
        "no gradients, or `grad` is None, after a validation or another pass under `no_grad`",
        "old versions cached casts that had no history",
        "a region of its own for what runs without gradients",
        5,
        shown="cited",
        source=f"{PYTORCH}/issues/112583",
    ),
    Pitfall(
        8,
        DTYPES,
        "Expected the same dtype",
        "`mat1 and mat2 must have the same dtype`, `expected scalar type Float but found Half`",
        "a 16-bit tensor left its region",
        ".float() on what leaves the region",
        5,
        pattern=r"(?i)(have|has) the same dtype|expected scalar type",
    ),
    Pitfall(
        9,
        DTYPES,
        "scatter and index_copy_ refuse",
        "`scatter(): Expected self.dtype to be equal to src.dtype`, and `index_copy_()`",
        "two dtypes in an op that autocast doesn't cast, or in place",
        "cast to the dtype of the tensor that is written into",
        4,
        pattern=r"(?i)(scatter|index_copy_)\(\)?:? .*(same dtype|dtype to be equal)",
    ),
    Pitfall(
        10,
        DTYPES,
        "A custom Function without its decorators",
        "a dtype error in the `backward` of your own `autograd.Function`",
        "backward runs with autocast off, on tensors of two dtypes",
        "custom_fwd and custom_bwd with device_type",
        8,
        pattern=r"(?i)(have|has) the same dtype|expected scalar type",
        source=AMP_NOTES,
    ),
    Pitfall(
        11,
        NUMBERS,
        "BCELoss is unsafe to autocast",
        "`binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast`",
        "its gradient can exceed FP16's range",
        "binary_cross_entropy_with_logits",
        8,
        pattern=r"unsafe to autocast",
        source=AMP_DOCS,
    ),
    Pitfall(
        12,
        LOOP,
        "lr_scheduler.step before optimizer.step",
        "`Detected call of lr_scheduler.step() before optimizer.step()`, and your order is right",
        "the first step was skipped",
        "step the scheduler only if the scale did not fall",
        6,
        pattern=r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`",
    ),
    Pitfall(
        13,
        NUMBERS,
        "The scale sinks to nothing",
        "the scale falls in every step, down to 0; every step is skipped",
        "the forward pass overflows",
        "BF16, or FP32 for the part that overflows",
        6,
    ),
    Pitfall(
        14,
        SILENT,
        "Clipped before unscale_",
        "with SGD, the weights hardly move since you clip the gradients",
        "the norm is the true one times the scale",
        "unscale_, clip, step",
        6,
    ),
    Pitfall(
        15,
        LOOP,
        "Closures and LBFGS",
        "`Closure use is not currently supported`, LBFGS with a GradScaler",
        "the optimizer calls the closure, and the scaler can't check its gradients",
        "no closure with a scaler; LBFGS in FP32 or BF16",
        6,
        pattern=r"Closure use is not currently supported",
    ),
    Pitfall(
        16,
        SILENT,
        "Accumulation without division",
        "gradients too large with gradient accumulation",
        "gradients of micro-batches add up",
        "divide each loss; step and update once for all micro-batches",
        7,
        source=AMP_NOTES,
    ),
    Pitfall(
        17,
        SILENT,
        "Two optimizers and two updates",
        "GAN or two optimizers: wrong gradients after an overflow of the other one",
        "the second unscales with another scale",
        "one scaler, and one update after both steps",
        7,
        source=AMP_NOTES,
    ),
    Pitfall(
        18,
        NUMBERS,
        "Adam in pure FP16 divides by zero",
        "NaN or inf in the weights after one step of Adam in pure FP16",
        "eps of 1e-8 and g² are zero in FP16",
        "FP32 parameters and states",
        8,
    ),
    Pitfall(
        19,
        NUMBERS,
        "log of p plus 1e-8",
        "NaN from `p * (p + 1e-8).log()`, an entropy or a KL divergence in FP16",
        "1e-8 is zero in FP16",
        "log_softmax, or logsigmoid",
        8,
    ),
    Pitfall(
        20,
        DTYPES,
        "A mask of minus 1e9",
        "`value cannot be converted to type c10::Half without overflow`, an attention mask of -1e9",
        "beyond FP16's range",
        "torch.finfo(dtype).min",
        2,
        pattern=r"cannot be converted to type .*Half without overflow",
    ),
    Pitfall(
        21,
        NUMBERS,
        "BatchNorm in half precision",
        "BatchNorm outputs zeros, or its running variance is inf, in FP16",
        "its running variance overflows",
        "leave the model in FP32; under autocast the statistics stay FP32",
        8,
    ),
    Pitfall(
        22,
        MACHINERY,
        "RMSNorm has another dtype than before",
        "`rms_norm` returns float32 where it returned float16, or the reverse",
        "the op joined CUDA's FP32 list in 2.12",
        "ask the policy, and assert what you rely on",
        8,
        shown="cited",
        source=f"{PYTORCH}/issues/188955",
    ),
    Pitfall(
        23,
        MACHINE,
        "No speed-up",
        "AMP isn't faster, or even slower, on a GPU",
        "launches, the CPU, TF32 already on, no tensor cores, odd sizes",
        "find out first what the step waits for",
        10,
        shown="cited",
        source="https://docs.nvidia.com/deeplearning/performance/dl-performance-gpu-background/",
    ),
    Pitfall(
        24,
        MACHINE,
        "Memory unchanged",
        "AMP saves no memory",
        "weights and optimizer states dominate",
        "larger batches, or another technique than autocast",
        9,
    ),
    Pitfall(
        25,
        MACHINE,
        "Autocast on a CPU is slow",
        "autocast on a CPU is slower than FP32",
        "casts, and no native 16-bit arithmetic",
        "BF16 where the CPU has it, else FP32",
        10,
    ),
    Pitfall(
        26,
        MACHINERY,
        "Recomputed in another dtype",
        "wrong dtype or other gradients with your own activation checkpointing",
        "a hand-made checkpoint recomputes outside the region",
        "torch.utils.checkpoint, which restores the region",
        11,
        source=f"{PYTORCH}/pull/71169",
    ),
    Pitfall(
        27,
        MACHINERY,
        "A compiled backward ignores an inner region",
        "inf or wrong gradients only with `torch.compile`",
        "it is traced under the outer one",
        'backward_pass_autocast = "off"',
        11,
        source=f"{PYTORCH}/issues/153044",
    ),
    Pitfall(
        28,
        MACHINE,
        "The scaler on MPS needs float64",
        "`Cannot convert a MPS Tensor to float64 dtype`",
        "unscale_ went through float64 before 2.8",
        "torch 2.8 or later",
        6,
        shown="cited",
        source=f"{PYTORCH}/pull/150255",
        pattern=r"Cannot convert a MPS Tensor to float64",
    ),
    Pitfall(
        29,
        DTYPES,
        "NumPy has no bfloat16",
        "`Got unsupported ScalarType BFloat16` from `.numpy()`",
        "a BF16 tensor is handed to NumPy",
        ".float() before .numpy()",
        5,
        pattern=r"(?i)unsupported ScalarType BFloat16",
    ),
    Pitfall(
        30,
        SILENT,
        "Trained in one precision, evaluated in another",
        "validation looks fine, but the served model gives inf or NaN",
        "FP32 hides the overflow that FP16 has",
        "evaluate in the same region",
        7,
    ),
)
BY_NUMBER = {pitfall.number: pitfall for pitfall in PITFALLS}
