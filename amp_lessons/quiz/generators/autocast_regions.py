"""Questions on the cast cache: how many casts a loop makes."""

from __future__ import annotations

import random
from dataclasses import dataclass

from amp_lessons.quiz.generators.base import Draft, generator, mistakes
from amp_lessons.quiz.generators.formatting import count

SOURCE = "torch 2.13, aten/src/ATen/autocast_mode.cpp, cached_cast; counted in the proof"


@dataclass(frozen=True)
class Loop:
    """A loop of forward passes under autocast, and how many casts it makes.

    Attributes:
        layers: linear layers, one after the other.
        bias: whether they have one.
        batches: forward passes.
        per_batch: whether each has a region of its own, instead of one around the loop.
        cached: whether autocast keeps its casts.
        frozen: how many of the layers, from the first, don't require grad.
        half_input: whether the input is BF16 already.
    """

    layers: int
    bias: bool
    batches: int
    per_batch: bool
    cached: bool
    frozen: int
    half_input: bool

    @property
    def regions(self) -> int:
        return self.batches if self.per_batch else 1

    @property
    def of_inputs(self) -> int:
        """The input is cast in each pass. Between the layers it's BF16 already."""
        return 0 if self.half_input else self.batches

    def of_parameters(self, *, cached: bool | None = None, frozen: int | None = None) -> int:
        """Casts of weights and biases, with the cache or the number of frozen layers changed."""
        cached = self.cached if cached is None else cached
        frozen = self.frozen if frozen is None else frozen
        each = 1 + self.bias
        trained = each * (self.layers - frozen) * (self.regions if cached else self.batches)
        return trained + each * frozen * self.batches

    @property
    def casts(self) -> int:
        return self.of_inputs + self.of_parameters()


@generator("autocast_regions.gen_casts", "How many casts a loop makes", level=3, kind="number")
def casts(rng: random.Random) -> Draft | None:
    layers = rng.randint(1, 5)
    loop = Loop(
        layers=layers,
        bias=rng.random() < 0.6,
        batches=rng.choice((2, 3, 4, 5, 6, 8, 10, 12, 20)),
        per_batch=rng.random() < 0.4,
        cached=rng.random() < 0.75,
        frozen=rng.randint(1, layers) if rng.random() < 0.5 else 0,
        half_input=rng.random() < 0.25,
    )
    each = 1 + loop.bias
    whole = count(each * loop.layers, "parameter")
    found = mistakes(loop.casts, 0.0, _wrong_counts(loop))
    if found is None:
        return None
    code = _code(loop)
    return {
        "prompt": "How many casts from FP32 to BF16 does the loop make?",
        "code": code,
        "hint": "Count the casts of the input and of the parameters apart. Which of them does the "
        "cache keep, and how long?",
        "source": SOURCE,
        "answer": loop.casts,
        "unit": "cast" if loop.casts == 1 else "casts",
        "explanation": _explained(loop, whole),
        "mistake": found,
        "proof": _PROOF,
    }


def _wrong_counts(loop: Loop) -> list[tuple[int, str]]:
    """Counts that people come to, and what they have overlooked."""
    wrong = [
        (
            loop.of_parameters() if loop.of_inputs else loop.casts + loop.batches,
            f"This leaves out the input. It's FP32, so each of the {loop.batches} batches is cast."
            if loop.of_inputs
            else "The input is BF16 already, so it needs no cast.",
        ),
        (
            loop.of_inputs + loop.of_parameters(cached=not loop.cached),
            "This uses the cache, but `cache_enabled=False` switches it off."
            if not loop.cached
            else "This casts each parameter in each pass. The cache keeps the casts of parameters "
            "that require grad until the outermost region ends.",
        ),
    ]
    if loop.frozen:
        wrong.append(
            (
                loop.of_inputs + loop.of_parameters(frozen=0),
                "This takes frozen parameters to be cached too. The cache holds only the casts of "
                "parameters that require grad.",
            )
        )
    if loop.per_batch and loop.cached:
        one = Loop(**(vars(loop) | {"per_batch": False}))
        wrong.append(
            (one.casts, "This keeps the cache between regions. It's cleared when a region ends.")
        )
    if loop.bias:
        bare = Loop(**(vars(loop) | {"bias": False}))
        wrong.append((bare.casts, "This forgets the biases. They are cast like the weights."))
    wrong.append(
        (
            loop.casts + loop.batches * (loop.layers - 1),
            "This casts the input of each layer. From the second layer on, it's BF16 already.",
        )
    )
    return wrong


def _explained(loop: Loop, whole: str) -> str:
    each = 1 + loop.bias
    if loop.half_input:
        first = "`x` is BF16 already and needs no cast."
    else:
        first = (
            f"`x` is FP32, so it's cast in each of the {loop.batches} passes: "
            f"{count(loop.batches, 'cast')}."
        )
    trained = each * (loop.layers - loop.frozen)
    parts = []
    if trained:
        if not loop.cached:
            parts.append(
                f"Without the cache, {_each(trained, 'parameter')} is cast in each of the "
                f"{loop.batches} passes: "
                f"{count(trained * loop.batches, 'cast')}."
            )
        else:
            often = f"once in each of the {loop.batches} regions" if loop.per_batch else "once"
            parts.append(
                f"{_each(trained, 'parameter').capitalize()} that "
                f"{'requires' if trained == 1 else 'require'} grad is cast {often}: "
                f"{count(trained * loop.regions, 'cast')}."
            )
    if loop.frozen:
        many = each * loop.frozen
        parts.append(
            f"{_the(many, 'frozen parameter')} {'is' if many == 1 else 'are'} never cached, so "
            f"{'it is' if many == 1 else 'they are'} cast in each pass: "
            f"{count(many * loop.batches, 'cast')}."
        )
    total = f"Together {loop.casts}." if len(parts) + (not loop.half_input) > 1 else ""
    return " ".join([first, *parts, total]).strip()


def _each(many: int, thing: str) -> str:
    return f"the one {thing}" if many == 1 else f"each of the {many} {thing}s"


def _the(many: int, thing: str) -> str:
    return f"The one {thing}" if many == 1 else f"The {many} {thing}s"


def _code(loop: Loop) -> str:
    bias = "" if loop.bias else ", bias=False"
    layers = "\n".join(f"    nn.Linear(8, 8{bias})," for _ in range(loop.layers))
    lines = ["import torch", "from torch import nn", "", "model = nn.Sequential("]
    lines += [layers, ")"]
    if loop.frozen == loop.layers:
        lines.append("model.requires_grad_(False)")
    elif loop.frozen:
        lines.append(f"model[:{loop.frozen}].requires_grad_(False)")
    lines.append(f"x = torch.ones(4, 8{', dtype=torch.bfloat16' * loop.half_input})")
    off = ", cache_enabled=False" * (not loop.cached)
    region = f'with torch.autocast("cpu", dtype=torch.bfloat16{off}):'
    around = f"for _ in range({loop.batches}):"
    outer, inner = (around, region) if loop.per_batch else (region, around)
    return "\n".join([*lines, "", outer, f"    {inner}", "        model(x)"])


_PROOF = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode

class Casts(TorchDispatchMode):
    seen = 0
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.seen += func is torch.ops.aten._to_copy.default and result.dtype is torch.bfloat16
        return result

with Casts() as casts:
    exec(code)
answer = casts.seen
"""

GENERATORS = (casts,)
