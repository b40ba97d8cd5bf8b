"""Questions on bytes: what a training state takes, and what the logits take."""

from __future__ import annotations

import random
from dataclasses import dataclass

from amp_lessons.quiz.generators.base import Draft, generator, mistakes
from amp_lessons.quiz.generators.formatting import amount, count, listed, params

SIZES = (60e6, 110e6, 125e6, 350e6, 770e6, 1.1e9, 1.3e9, 1.5e9, 2.7e9, 3e9, 6.7e9, 7e9, 8e9, 13e9)
LARGE = (14e9, 20e9, 30e9, 34e9, 65e9, 70e9)
MOMENTS = {"plain SGD": 0, "SGD with momentum": 1, "Adam": 2, "AdamW": 2}
"""Tensors that an optimizer keeps for each parameter."""


@dataclass(frozen=True)
class Recipe:
    """How a model is trained, as bytes for each parameter.

    Attributes:
        words: how a question says it.
        weight, gradient: bytes of one each.
        master: bytes of a second, wider copy of the weight.
        moment: bytes of one number of the optimizer's state.
        why: one sentence that says which dtype each part has.
    """

    words: str
    weight: int
    gradient: int
    master: int
    moment: int
    why: str

    def each(self, optimizer: str) -> int:
        """Bytes for each parameter that is trained."""
        return self.weight + self.gradient + self.master + self.moment * MOMENTS[optimizer]


RECIPES = (
    Recipe(
        "in FP32",
        4, 4, 0, 4,
        "Everything is FP32: 4 bytes each.",
    ),
    Recipe(
        "under `torch.autocast` with FP16 and a GradScaler",
        4, 4, 0, 4,
        "Under torch.autocast, parameters, gradients and optimizer state stay in FP32.",
    ),
    Recipe(
        "under `torch.autocast` with BF16",
        4, 4, 0, 4,
        "Under torch.autocast, parameters, gradients and optimizer state stay in FP32.",
    ),
    Recipe(
        "in pure BF16 (`model.bfloat16()`, nothing in FP32)",
        2, 2, 0, 2,
        "Gradients and optimizer state have the dtype of the parameters: 2 bytes each.",
    ),
    Recipe(
        "with BF16 weights, BF16 gradients, and an FP32 copy of the weights",
        2, 2, 4, 4,
        "BF16 numbers take 2 bytes each, and FP32 ones take 4.",
    ),
    Recipe(
        "with BF16 weights, FP32 gradients, and an FP32 copy of the weights",
        2, 4, 4, 4,
        "BF16 numbers take 2 bytes each, and FP32 ones take 4.",
    ),
)  # fmt: skip


@generator("memory.gen_state_bytes", "Bytes of a training state", level=2, kind="number")
def state_bytes(rng: random.Random) -> Draft | None:
    recipe, optimizer = rng.choice(RECIPES), rng.choice(tuple(MOMENTS))
    many, kept = rng.choice(SIZES + LARGE), MOMENTS[optimizer]
    total = many * recipe.each(optimizer)
    tolerance = 0.02
    wrong = [(value / 1e9, why) for value, why in _wrong_totals(recipe, optimizer, many)]
    found = mistakes(total / 1e9, tolerance, wrong)
    if found is None:
        return None
    parts = [f"{recipe.weight} bytes for the weight", f"{recipe.gradient} for the gradient"]
    if recipe.master:
        parts.append(f"{recipe.master} for the FP32 copy")
    if kept:
        parts.append(f"{recipe.moment * kept} for the optimizer's state")
    return {
        "prompt": f"A model with {params(many)} parameters is trained {recipe.words}. The "
        f"optimizer is {_optimizer(recipe, optimizer)}. How many GB (10⁹ bytes) do parameters, "
        "gradients and optimizer state take together, without activations?",
        "hint": "Bytes for each parameter: what is kept of it between two steps, and in which "
        "dtype? Then times the parameters.",
        "source": "torch 2.13, torch/optim; Rajbhandari et al. 2020, arXiv 1910.02054, section 3.1",
        "answer": total / 1e9,
        "unit": "GB",
        "tolerance": tolerance,
        "explanation": f"{recipe.why} With {optimizer} that makes {listed(parts)}: "
        f"{recipe.each(optimizer)} bytes for each parameter, and {amount(total / 1e9)} GB in all.",
        "mistake": found,
    }


def _wrong_totals(recipe: Recipe, optimizer: str, many: float) -> list[tuple[float, str]]:
    """Bytes that people come to, and what they have overlooked."""
    kept, total = MOMENTS[optimizer], many * recipe.each(optimizer)
    wide = recipe.master or recipe.weight == 4
    wrong = [
        (
            many * recipe.weight,
            "That is the weights alone. Gradients and optimizer state come on top.",
        ),
        (
            total - many * recipe.gradient,
            f"This leaves out the gradients: {recipe.gradient} bytes for each parameter.",
        ),
        (
            many * (4 + 4 + 4 * kept),
            "That would be FP32 throughout: 4 bytes for each number.",
        ),
        (
            many * (2 + 2 + 2 * kept),
            "This takes everything to be 16 bits. " + (recipe.why if wide else ""),
        ),
    ]
    if kept:
        wrong.append(
            (
                many * recipe.moment * kept,
                f"That is the optimizer's state alone: {count(kept, 'number')} for each parameter.",
            )
        )
    if kept == 2:
        wrong.append(
            (
                total - many * recipe.moment,
                f"{optimizer} keeps two numbers for each parameter, and this counts one.",
            )
        )
    if recipe.master:
        wrong.append(
            (
                total - many * recipe.master,
                "This leaves out the FP32 copy of the weights, which the optimizer updates.",
            )
        )
    elif "autocast" in recipe.words:
        wrong.append(
            (
                total + 2 * many,
                "This counts 16-bit weights too. Autocast makes such copies only for a while, and "
                "they are not part of the state.",
            )
        )
    return wrong


def _optimizer(recipe: Recipe, optimizer: str) -> str:
    """The optimizer, with what decides the size of its state."""
    if optimizer == "plain SGD":
        return "plain SGD, without momentum"
    return f"{optimizer}, with its state in FP32" if recipe.master else optimizer


@generator("memory.gen_logits", "Bytes of the logits", level=1, kind="number")
def logits(rng: random.Random) -> Draft | None:
    batch = rng.choice((1, 2, 4, 8, 16, 32))
    tokens = rng.choice((512, 1024, 2048, 4096, 8192))
    words = rng.choice((32_000, 50_257, 100_000, 128_000, 128_256, 151_936, 256_000))
    dtype, size = rng.choice((("FP32", 4), ("BF16", 2), ("FP16", 2)))
    total = batch * tokens * words * size / 1e9
    if total < 0.1:
        return None
    other = 2 if size == 4 else 4
    wrong = [
        (
            total / size * other,
            f"That is {other} bytes for each number. {dtype} takes {size}.",
        ),
        (total / tokens, "This leaves out the tokens: each of them has logits of its own."),
        (total / size, f"This counts the numbers. Each takes {size} bytes."),
    ]
    if batch > 1:
        wrong.insert(1, (total / batch, f"This leaves out the batch of {batch}."))
    found = mistakes(total, 0.03, wrong)
    if found is None:
        return None
    return {
        "prompt": f"A language model with a vocabulary of {words:,} gets "
        f"{_batch(batch, tokens)}. How many GB (10⁹ bytes) do its "
        f"logits take in {dtype}?",
        "hint": "Each token has one logit for each word of the vocabulary.",
        "source": "arithmetic: batch · tokens · vocabulary · bytes",
        "answer": total,
        "unit": "GB",
        "tolerance": 0.03,
        "explanation": f"{batch} · {tokens:,} · {words:,} numbers of {size} bytes each are "
        f"{amount(total)} GB. Their gradient takes as much again.",
        "mistake": found,
        "proof": "import torch\n\nlogits = torch.empty("
        f"{batch}, {tokens}, {words}, dtype=torch.{_TORCH[dtype]}, device='meta')\n"
        "answer = logits.numel() * logits.element_size() / 1e9",
    }


def _batch(batch: int, tokens: int) -> str:
    if batch == 1:
        return f"one sequence of {tokens:,} tokens"
    return f"{batch} sequences of {tokens:,} tokens each"


_TORCH = {"FP32": "float32", "BF16": "bfloat16", "FP16": "float16"}

GENERATORS = (state_bytes, logits)
