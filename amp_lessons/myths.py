"""The 36 doubtful claims of four AMP pages that are found most easily, each with its verdict.

The claims are told in our own words. Lesson 12 puts each to the test: a cell tries the claim in one
case or several, and the verdict follows from what was found. `Trials` holds the two against each
other, so a claim cannot be passed over and a verdict cannot be merely asserted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from amp_lessons.catalogues import Disagreement, Table, gaps

Verdict = Literal["true", "false", "true only when"]
Seed = Literal["question page", "quiz page", "guide", "benchmark"]
"""Which kind of page a claim comes from: an interview question, a quiz with answers, a guide with a
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
        number: 1 to 36.
        theme: the part of lesson 12 that tests it.
        claim: in our own words.
        seed: the kind of page that it comes from.
        verdict: what the test finds.
        why: for "true only when" the end of that sentence, otherwise what is true instead.
        lesson: the number of the lesson that teaches it.
        source: a primary source, where there is one.
    """

    number: int
    theme: str
    claim: str
    seed: Seed
    verdict: Verdict
    why: str
    lesson: int
    source: str = ""

    @property
    def heading(self) -> str:
        """The heading of its test in lesson 12."""
        return f"Myth {self.number}: {self.claim}"

    @property
    def ruling(self) -> str:
        """The verdict as a sentence: ``"true only when …"``, ``"false: …"``."""
        link = " " if self.verdict == "true only when" else ": "
        return f"{self.verdict}{link}{self.why}"


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


class Trials:
    """The record of a notebook that tests the claims one by one."""

    def __init__(self) -> None:
        self.found: dict[int, Verdict] = {}

    def test(self, number: int, cases: Mapping[str, bool]) -> None:
        """Print in which cases a claim holds, and the verdict that follows.

        Args:
            number: of the claim.
            cases: for each case tried, whether the claim holds there.

        Raises:
            KeyError: no claim has this number.
            Disagreement: the verdict that follows is not the catalogue's.
        """
        myth, verdict = BY_NUMBER[number], verdict_of(cases)
        width = max(map(len, cases))
        for case, holds in cases.items():
            print(f"{case:{width}}  {'holds' if holds else 'does not hold'}")
        if verdict != myth.verdict:
            raise Disagreement(
                f"Myth {number} is {verdict!r} by this test and {myth.verdict!r} in the catalogue"
            )
        print(f"Myth {number} is {myth.ruling}")
        self.found[number] = verdict

    def table(self) -> Table:
        """All claims with their verdicts, linked to their tests.

        Raises:
            Disagreement: if a claim was not tested.
        """
        missing = gaps(BY_NUMBER, self.found)
        if missing:
            raise Disagreement(f"not tested in this notebook: {missing}; run all cells above")
        return Table(
            ("claim", "page", "verdict", "lesson"),
            tuple(
                (m.heading, (f"{m.number}. {m.claim}", m.seed, m.ruling, f"{m.lesson:02}"))
                for m in MYTHS
            ),
        )


API, OPS, SCALER = "The API", "What autocast does", "Scaling"
INFERENCE, MEMORY, SPEED = "Inference and devices", "Memory", "Speed and quality"
THEMES = (API, OPS, SCALER, INFERENCE, MEMORY, SPEED)

MYTHS: tuple[Myth, ...] = (
    Myth(
        1, API, "The CUDA autocast takes a device type", "question page", "false",
        "torch.cuda.amp.autocast has no such argument; torch.autocast has", 5, AMP_DOCS,
    ),
    Myth(
        2, API, "AMP is imported from torch.cuda.amp", "question page", "false",
        "these names are deprecated since 2.4; torch.autocast and torch.amp take a device type",
        5, AMP_DOCS,
    ),
    Myth(
        3, OPS, "Autocast runs most operations in FP16", "question page", "true only when",
        "you count what runs, in ops or FLOPs; few rules cast down, the rest keep what they get",
        4, f"{AMP_DOCS}#autocast-op-reference",
    ),
    Myth(
        4, OPS, "AMP keeps a master copy of the weights", "question page", "false",
        "the parameters themselves are the FP32 weights; the 16-bit copies come and go", 3, PAPER,
    ),
    Myth(
        5, OPS, "BF16 has no underflow risk", "question page", "true only when",
        "the range is meant: with 8 significant bits, small updates of BF16 weights are lost", 1,
    ),
    Myth(
        6, SCALER, "A forward pass under BF16 is BF16 training", "question page", "false",
        "without a backward pass and a step nothing is trained",
        7, AMPERE,
    ),
    Myth(
        7, API, "Printing the type of the loss shows its precision", "quiz page", "false",
        "type(loss) is torch.Tensor for every dtype; ask for loss.dtype", 4,
    ),
    Myth(
        8, OPS, "The loss is kept in FP32 under autocast", "quiz page", "true only when",
        "the loss ends in an op that autocast runs in FP32, such as mse_loss", 4,
        f"{AMP_DOCS}#autocast-op-reference",
    ),
    Myth(
        9, SCALER, "A loss that was not scaled raises an error", "quiz page", "true only when",
        "the scaler is enabled and has never scaled anything", 6,
    ),
    Myth(
        10, SCALER, "Only the optimizer step belongs outside autocast", "quiz page", "false",
        "backward belongs outside too; a step of SGD or Adam inside changes nothing, gains nothing",
        5, f"{AMP_DOCS}#torch.autocast",
    ),
    Myth(
        11, SPEED, "AMP costs no accuracy", "quiz page", "true only when",
        "nothing in the model leaves the range of FP16, which a comparison with FP32 shows", 7,
        PAPER,
    ),
    Myth(
        12, OPS, "Mixed precision means FP16 and FP32", "guide", "true only when",
        "the device's default is FP16 and no dtype is named; BF16 is the other choice", 4, AMP_DOCS,
    ),
    Myth(
        13, MEMORY, "AMP makes the model smaller", "guide", "true only when",
        "what is saved for the backward pass is meant; parameters and gradients stay in FP32", 9,
    ),
    Myth(
        14, SCALER, "The basic FP16 loop needs no scaler", "guide", "true only when",
        "no gradient that matters is below FP16's smallest number", 6,
        f"{AMP_DOCS}#gradient-scaling",
    ),
    Myth(
        15, SCALER, "Scale, step and update make a whole loop", "guide", "false",
        "without zero_grad one overflow stays in the gradients for ever", 6, AMP_NOTES,
    ),
    Myth(
        16, SCALER, "The scaler makes a scaled optimizer step", "guide", "false",
        "it unscales, looks for inf and NaN, and perhaps steps", 6,
        f"{AMP_DOCS}#torch.amp.GradScaler.step",
    ),
    Myth(
        17, INFERENCE, "Autocast and inference_mode are all it takes to serve", "guide", "false",
        "the casts are made anew in each call, and eval() is missing; cast the model once", 7,
    ),
    Myth(
        18, INFERENCE, "CPU tensors under CUDA autocast raise an error", "guide", "false",
        "a region of one device leaves the tensors of another alone", 4,
    ),
    Myth(
        19, SCALER, "NaN in the loss comes from underflow", "guide", "true only when",
        "a logarithm or a quotient then gets the 0; gradients that underflow only stand still", 2,
    ),
    Myth(
        20, OPS, "Autocast mends dtype mismatches", "guide", "true only when",
        "the op is on one of its lists, stands inside the region and allocates its own result", 4,
        f"{AMP_DOCS}#autocast-op-reference",
    ),
    Myth(
        21, OPS, "Softmax and reductions run in FP32", "guide", "true only when",
        "the device is CUDA, and then not for mean, var and std", 4,
        f"{AMP_DOCS}#autocast-op-reference",
    ),
    Myth(
        22, SCALER, "Autocast scales the gradients", "guide", "true only when",
        "you add a GradScaler; autocast alone scales nothing", 6, f"{AMP_DOCS}#gradient-scaling",
    ),
    Myth(
        23, INFERENCE, "AMP needs an NVIDIA GPU of capability 7", "guide", "false",
        "autocast works on CPU, XPU and MPS too, and CUDA's means ROCm as well", 4, AMP_DOCS,
    ),
    Myth(
        24, OPS, "An op without FP16 support rules AMP out", "guide", "false",
        "a disabled region, or custom_fwd with cast_inputs, runs that one op in FP32", 8,
        f"{AMP_NOTES}#autocast-and-custom-autograd-functions",
    ),
    Myth(
        25, MEMORY, "AMP saves 30 to 50 per cent of the memory", "guide", "true only when",
        "activations dominate; with small batches the 16-bit weights come on top", 9,
    ),
    Myth(
        26, SPEED, "AMP gives 1.5 to 2 times on Volta and 2 to 3 on Ampere", "guide",
        "true only when",
        "GPU, sizes and baseline are such: an A100's peaks allow 2 times over TF32, 16 over FP32",
        10, BLOG,
    ),
    Myth(
        27, SCALER, "Always use a GradScaler", "guide", "true only when",
        "the dtype is FP16 and the trouble is in small gradients", 6,
        f"{AMP_DOCS}#gradient-scaling",
    ),
    Myth(
        28, SCALER, "Skipped steps mean that the scaling is broken", "guide", "false",
        "the first skips are how the scaler finds its scale", 6,
        f"{AMP_DOCS}#torch.amp.GradScaler",
    ),
    Myth(
        29, API, "The TF32 switch speeds AMP up", "guide", "true only when",
        "FP32 products remain; its name today is fp32_precision", 10,
        f"{CUDA_NOTES}#tensorfloat-32-tf32-on-ampere-and-later-devices",
    ),
    Myth(
        30, API, "custom_fwd is a precision rule", "guide", "true only when",
        "it is given cast_inputs; alone it only carries the autocast state to backward", 8,
        f"{AMP_DOCS}#torch.amp.custom_fwd",
    ),
    Myth(
        31, SPEED, "The speed-up is nearly free", "guide", "true only when",
        "lines of code are the price; a step pays in casts, reads and skipped steps", 10,
    ),
    Myth(
        32, API, "Call reset_max_memory_allocated before a measurement", "benchmark", "false",
        "it is a deprecated name of reset_peak_memory_stats, which resets all peaks", 9,
        "https://docs.pytorch.org/docs/stable/generated/"
        "torch.cuda.memory.reset_max_memory_allocated.html",
    ),
    Myth(
        33, MEMORY, "The benchmark shows that AMP reduces memory", "benchmark", "false",
        "its own peak rises, by the FP16 copies of all weights", 9, RECIPE,
    ),
    Myth(
        34, SPEED, "The benchmark shows what AMP gains", "benchmark", "false",
        "its method finds a gain between equals, and its figures fit several GPUs", 10,
    ),
    Myth(
        35, API, "A device variable makes the script run anywhere", "benchmark", "true only when",
        "every line uses it; a GradScaler of another device is a no-op", 6,
    ),
    Myth(
        36, API, "set_to_none makes zero_grad faster", "benchmark", "false",
        "it has been the default since 2.0; naming it changes nothing", 9,
        "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html",
    ),
)  # fmt: skip
BY_NUMBER = {myth.number: myth for myth in MYTHS}
