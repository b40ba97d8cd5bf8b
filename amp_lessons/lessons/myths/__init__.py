"""The doubtful claims of four pages on AMP that people find on the web, each with its verdict.

The claims are told in our own words. `proofs` tries each of them in one case or several, and the
verdict follows from what was found. A test holds the two against each other, so no claim can be
passed over, and no verdict rests on our word. Lesson 15 shows the numbers behind them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from amp_lessons.core.catalogue import heading_anchor

Verdict = Literal["true", "false", "true only when"]
Page = Literal["interview question", "quiz", "guide", "benchmark"]
"""What kind of page a claim comes from: an interview question, a quiz with answers, a guide with a
FAQ, and a notebook that runs the official recipe at batch 4096."""

AMP_DOCS = "https://docs.pytorch.org/docs/stable/amp.html"
AMP_NOTES = "https://docs.pytorch.org/docs/stable/notes/amp_examples.html"
CUDA_NOTES = "https://docs.pytorch.org/docs/stable/notes/cuda.html"
BLOG = (
    "https://pytorch.org/blog/"
    "accelerating-training-on-nvidia-gpus-with-pytorch-automatic-mixed-precision/"
)
AMPERE = "https://developer.nvidia.com/blog/nvidia-ampere-architecture-in-depth/"
PAPER = "https://arxiv.org/abs/1710.03740"
RECIPE = "https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html"


@dataclass(frozen=True)
class Myth:
    """One claim.

    Args:
        number: from 1, in the order of the pages.
        page: the kind of page that it comes from.
        claim: a sentence in our own words, without its full stop.
        verdict: what the proof finds.
        why: for "true only when" the end of that sentence, otherwise what is true instead.
            In Markdown.
        lesson: the number of the lesson that teaches it.
        source: a primary source, where there is one.
    """

    number: int
    page: Page
    claim: str
    verdict: Verdict
    why: str
    lesson: int
    source: str = ""

    @property
    def heading(self) -> str:
        """Its heading in lesson 15."""
        return f"{self.number}. {self.claim}"

    @property
    def ruling(self) -> str:
        """The verdict as a sentence, in Markdown: ``"**true only when** …"``."""
        link = " " if self.verdict == "true only when" else ": "
        return f"**{self.verdict}**{link}{self.why}"


def verdict_of(cases: Mapping[str, bool]) -> Verdict:
    """True if the claim holds in every case, false if in none, otherwise true only when.

    Raises:
        ValueError: without a case.
    """
    if not cases:
        raise ValueError("a claim without a case is not tested; give at least one")
    if all(cases.values()):
        return "true"
    return "true only when" if any(cases.values()) else "false"


def table() -> str:
    """All claims with their verdicts, linked to their places in lesson 15, as Markdown."""
    rows = (
        f"| {m.number} | [{m.claim}](#{heading_anchor(m.heading)}) | {m.ruling} |" for m in MYTHS
    )
    return "\n".join(("| | somebody says | it is |", "|---:|---|---|", *rows))


QUESTION: Page = "interview question"
QUIZ: Page = "quiz"
GUIDE: Page = "guide"
BENCHMARK: Page = "benchmark"

MYTHS: tuple[Myth, ...] = (
    Myth(
        1, QUESTION, "torch.cuda.amp.autocast takes a device_type", "false",
        "it has no such argument; `torch.autocast` has", 5, AMP_DOCS,
    ),
    Myth(
        2, QUESTION, "AMP is imported from torch.cuda.amp", "true only when",
        "you mean that it works",
        5, AMP_DOCS,
    ),
    Myth(
        3, QUESTION, "Autocast runs most operations in FP16", "true only when",
        "you count what a network runs, in ops or FLOPs", 4,
        f"{AMP_DOCS}#autocast-op-reference",
    ),
    Myth(
        4, QUESTION, "AMP keeps a master copy of the weights", "true only when",
        "you mean the paper's recipe for an FP16 model",
        3, PAPER,
    ),
    Myth(
        5, QUESTION, "BF16 has no underflow risk", "true only when",
        "all numbers stay above 1e-38, as gradients mostly do",
        1,
    ),
    Myth(
        6, QUESTION, "A forward pass under BF16 autocast is BF16 training", "false",
        "without a backward pass and a step nothing is trained", 7, AMPERE,
    ),
    Myth(
        7, QUIZ, "Printing the type of the loss shows its precision", "false",
        "`type(loss)` is `torch.Tensor` for every dtype; print `loss.dtype`", 4,
    ),
    Myth(
        8, QUIZ, "Autocast keeps the loss in FP32", "true only when",
        "the loss ends in an op that autocast runs in FP32, such as `mse_loss`", 4,
        f"{AMP_DOCS}#autocast-op-reference",
    ),
    Myth(
        9, QUIZ, "A loss that was not scaled raises an error", "true only when",
        "the scaler is enabled and has never scaled anything", 6,
    ),
    Myth(
        10, QUIZ, "Only the optimizer step belongs outside autocast", "false",
        "`backward()` belongs outside too; inside, it can change gradients", 5,
        f"{AMP_DOCS}#torch.autocast",
    ),
    Myth(
        11, QUIZ, "AMP costs no accuracy", "true only when",
        "all values fit into the 16-bit dtype and its rounding does no harm", 7,
        PAPER,
    ),
    Myth(
        12, GUIDE, "Mixed precision means FP16 and FP32", "true only when",
        "the region's dtype is FP16: CUDA's default, but not a CPU's", 4,
        AMP_DOCS,
    ),
    Myth(
        13, GUIDE, "AMP makes the model smaller", "true only when",
        "you mean the activations", 9,
    ),
    Myth(
        14, GUIDE, "The basic FP16 loop needs no scaler", "true only when",
        "no gradient that matters is too small for FP16", 6, f"{AMP_DOCS}#gradient-scaling",
    ),
    Myth(
        15, GUIDE, "Scale, step and update make a whole loop", "false",
        "without `zero_grad` one inf stays in `.grad`, and every later step is skipped", 6,
        AMP_NOTES,
    ),
    Myth(
        16, GUIDE, "The scaler makes a scaled optimizer step", "false",
        "it divides by the scale, looks for inf and NaN, and then steps or skips", 6,
        f"{AMP_DOCS}#torch.amp.GradScaler.step",
    ),
    Myth(
        17, GUIDE, "Autocast and inference_mode are all it takes to serve a model", "false",
        "`eval()` is missing, and a model that you cast once needs no autocast", 7,
    ),
    Myth(
        18, GUIDE, "CPU tensors under CUDA autocast raise an error", "false",
        "autocast for one device leaves tensors on another alone", 4,
    ),
    Myth(
        19, GUIDE, "NaN in the loss comes from underflow", "true only when",
        "a logarithm or a quotient meets the zeros", 2,
    ),
    Myth(
        20, GUIDE, "Autocast fixes dtype mismatches", "true only when",
        "the op is on one of its lists, runs inside the region and returns a new tensor", 4,
        f"{AMP_DOCS}#autocast-op-reference",
    ),
    Myth(
        21, GUIDE, "Softmax and reductions run in FP32", "true only when",
        "you mean softmax, `sum` or `norm` on a GPU",
        4, f"{AMP_DOCS}#autocast-op-reference",
    ),
    Myth(
        22, GUIDE, "Autocast scales the gradients", "true only when",
        "you add a GradScaler", 6, f"{AMP_DOCS}#gradient-scaling",
    ),
    Myth(
        23, GUIDE, "AMP needs an NVIDIA GPU of compute capability 7", "false",
        "autocast also works on CPU, XPU and MPS, and CUDA's on AMD's GPUs", 4, AMP_DOCS,
    ),
    Myth(
        24, GUIDE, "An op without FP16 support rules AMP out", "false",
        "a disabled region, or `custom_fwd` with `cast_inputs`, runs that one op in FP32", 8,
        f"{AMP_NOTES}#autocast-and-custom-autograd-functions",
    ),
    Myth(
        25, GUIDE, "AMP saves 30 to 50 per cent of the memory", "true only when",
        "activations fill most of the memory", 9,
    ),
    Myth(
        26, GUIDE, "AMP is 1.5 to 2 times as fast on Volta and 2 to 3 times on Ampere",
        "true only when",
        "the products are large and the baseline doesn't use TF32", 10, BLOG,
    ),
    Myth(
        27, GUIDE, "Always use a GradScaler", "true only when",
        "the dtype is FP16 and the trouble is in small gradients", 6,
        f"{AMP_DOCS}#gradient-scaling",
    ),
    Myth(
        28, GUIDE, "Skipped steps mean that the scaling is broken", "false",
        "a few skips at the start are how the scaler finds its scale", 6,
        f"{AMP_DOCS}#torch.amp.GradScaler",
    ),
    Myth(
        29, GUIDE, "The TF32 switch makes AMP faster", "true only when",
        "FP32 products are left in the model", 10,
        f"{CUDA_NOTES}#tensorfloat-32-tf32-on-ampere-and-later-devices",
    ),
    Myth(
        30, GUIDE, "custom_fwd sets the precision of your Function", "true only when",
        "you give it `cast_inputs`", 8,
        f"{AMP_DOCS}#torch.amp.custom_fwd",
    ),
    Myth(
        31, GUIDE, "The speed-up is nearly free", "true only when",
        "the products are large",
        10,
    ),
    Myth(
        32, BENCHMARK, "Call reset_max_memory_allocated before you measure", "true only when",
        "you mean that it works", 9,
        "https://docs.pytorch.org/docs/stable/generated/"
        "torch.cuda.memory.reset_max_memory_allocated.html",
    ),
    Myth(
        33, BENCHMARK, "The benchmark shows that AMP reduces memory", "false",
        "its own peak rises, by the FP16 copies of the weights", 9, RECIPE,
    ),
    Myth(
        34, BENCHMARK, "The benchmark shows what AMP gains", "false",
        "its method finds a gain between equal programs, and it names no GPU", 10,
    ),
    Myth(
        35, BENCHMARK, "With a device variable the script runs anywhere", "true only when",
        "every line uses it", 6,
    ),
    Myth(
        36, BENCHMARK, "set_to_none makes zero_grad faster", "true only when",
        "you compare it with `set_to_none=False`", 9,
        "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html",
    ),
)  # fmt: skip
BY_NUMBER = {myth.number: myth for myth in MYTHS}
