"""Two steps with one model, whose gradients should agree: `changed_gradients`.

The second stands in for a compiled step. Nothing is compiled: its forward pass is that of the
first, and what a compiler may do to a gradient is done to it on its way to the parameter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import Answer, as_play, from_seed, seeded
from amp_lessons.exercises.varied import Varied

ROUNDED, NOT_ZERO, NO_GRADIENT = "rounded", "not zero", "missing"
WEIGHTS = ["embed.weight", "block.weight", "head.weight"]
BIASES = ["embed.bias", "block.bias", "head.bias"]
TINY = 1e-12
Faults = dict[str, str]
"""By the name of a parameter, what the compiled step does to its gradient: see `FAULTS`."""


class Net(nn.Module):
    """With a parameter that gets no gradient, and one whose gradient is zero. The names don't stand
    in the order of the alphabet."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(6, 8)
        self.block = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.4)
        self.head = nn.Linear(8, 2)
        self.gate = nn.Parameter(torch.ones(4))
        self.bare = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.block(torch.relu(self.embed(x))))
        return self.head(self.drop(hidden)) + 0 * self.gate.sum()


def _noise(gradient: Tensor) -> Tensor:
    """As another order of additions may leave it: 2e-7 of the norm off, in each element."""
    signs = torch.ones(gradient.numel()).view_as(gradient)
    signs.view(-1)[::2] = -1
    return gradient + signs * 2e-7 * gradient.norm()


FAULTS: dict[str, Callable[[Tensor], Tensor]] = {
    ROUNDED: _noise,
    "in FP16": lambda g: g.half().float(),
    "in BF16": lambda g: g.bfloat16().float(),
    "negated": lambda g: -g,
    "in another order": lambda g: g.roll(1, 0),
    "doubled": lambda g: 2 * g,
    "too low": lambda g: g - 0.3 * g.abs(),
    "with a NaN": lambda g: g.index_fill(0, torch.tensor([1]), math.nan),
    "with an inf": lambda g: g.index_fill(0, torch.tensor([0]), math.inf),
    NOT_ZERO: lambda g: g + 1e-6,
}


def gradient_cases() -> list[Case]:
    """What is changed, the tolerance, and a factor of the loss. With the smallest factor, all
    gradients are far below 1e-8."""
    vary = Varied(31)
    rounded = dict.fromkeys([*WEIGHTS, *BIASES], ROUNDED)
    low = ["embed.weight", "embed.bias", "block.weight", "block.bias"]
    made: list[Case] = []

    def case(kind: str, faults: Faults, tolerance: float, size: float = 1.0) -> None:
        mixed = [*vary.mixed(WEIGHTS), *vary.mixed(BIASES)]
        others = dict(zip([*WEIGHTS, *BIASES], mixed, strict=True))
        faults = {others.get(name, name): fault for name, fault in faults.items()}
        label = f"{in_words_of(faults)}; loss times {size:g}, tolerance {tolerance:g}"
        made.append(Case((1 + len(made), faults, tolerance, size), label, kind))

    kind = "equal gradients"
    case(kind, {}, 1e-5)
    case(kind, {}, 1e-3, TINY)
    kind = "gradients that were rounded"
    case(kind, rounded, 1e-4)
    case(kind, rounded, 1e-3, TINY)
    kind = "tiny gradients"
    case(kind, dict.fromkeys(low, "in FP16"), 1e-2, TINY)
    case(kind, {"block.weight": "doubled"}, 1e-2, TINY)
    kind = "small gradients"
    case(kind, {"embed.weight": "doubled"}, 1e-2, 1e-4)
    case(kind, dict.fromkeys(low, "doubled"), 1e-2, 2e-4)
    kind = "coarse gradients"
    case(kind, {"embed.weight": "in BF16"}, 1e-5)
    case(kind, rounded | {"head.bias": "in BF16"}, 1e-5, 7.3)
    kind = "gradients of the same norm"
    case(kind, {"block.bias": "negated"}, 1e-3)
    case(kind, {"head.weight": "in another order"}, 1e-3, 40.0)
    case(kind, {"block.bias": "in another order"}, 1e-2)
    kind = "gradients that are too large or too small"
    case(kind, {"head.weight": "doubled"}, 1e-2)
    case(kind, {"block.weight": "too low"}, 1e-3)
    case(kind, {"embed.weight": "too low", "head.bias": "too low"}, 1e-2, 3.0)
    kind = "an inf or a NaN"
    case(kind, {"block.weight": "with a NaN"}, 1e-2)
    case(kind, {"embed.bias": "with an inf"}, 1e-3)
    case(kind, {"head.bias": "with a NaN", "head.weight": "with an inf"}, 1e-3, 5.0)
    kind = "a gradient that only one step has"
    case(kind, {"embed.bias": NO_GRADIENT}, 1e-3)
    case(kind, {"head.weight": NO_GRADIENT, "block.bias": NO_GRADIENT}, 1e-4)
    kind = "a gradient that is zero in eager mode"
    case(kind, {"gate": NOT_ZERO}, 1e-3)
    case(kind, {"gate": NOT_ZERO, "block.bias": "in BF16"}, 1e-6)
    return made


def in_words_of(faults: Faults) -> str:
    """What is changed, as "embed.weight and head.bias doubled"."""
    names: dict[str, list[str]] = {}
    for name, fault in faults.items():
        names.setdefault(fault, []).append(name)
    parts = [f"{' and '.join(names[fault])} {fault}" for fault in names if fault != ROUNDED]
    if ROUNDED in names:
        parts.append("the others rounded" if parts else "all gradients rounded")
    return ", ".join(parts) or "equal gradients"


class Changed(torch.autograd.Function):
    """The identity, with something done to the gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, fault: str) -> Tensor:
        ctx.fault = fault
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return FAULTS[ctx.fault](gradients[0]), None


class Step:
    """One of the two steps with a model, and how often it ran backward."""

    def __init__(self, model: Net, faults: Faults, size: float) -> None:
        self.model, self.faults, self.size = model, faults, size
        self.backward = 0
        self.training = True

    def __call__(self, batch: Tensor) -> Tensor:
        """The loss of a batch."""
        self.training = self.model.training
        tensors: dict[str, Tensor] = {**dict(self.model.named_parameters())}
        for name, fault in self.faults.items():
            whole = tensors[name]
            tensors[name] = whole.detach() if fault == NO_GRADIENT else Changed.apply(whole, fault)
        loss: Tensor = self.size * functional_call(self.model, tensors, (batch,)).square().sum()
        if loss.requires_grad:
            loss.register_hook(self._ran)
        return loss

    def _ran(self, gradient: Tensor) -> None:
        self.backward += 1


@as_play
def play_gradients(answer: Answer, seed: int, faults: Faults, tolerance: float, size: float) -> Any:
    model = seeded(seed, Net)
    batch = torch.randn(7, 6, generator=from_seed(seed))
    batch[:, 0] *= 1e-5  # so some elements of a gradient are small beside the others
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draws.seed(seed))
        eager, compiled = (Step(model, each, size) for each in ({}, faults))
        found = answer(model, eager, compiled, batch, tolerance)
    left = [name for name, p in model.named_parameters() if p.grad is not None]
    if not isinstance(found, list | tuple):
        return {"returned": type(found).__name__}
    names = list(found) if all(isinstance(name, str) for name in found) else "not only names"
    return {
        "returned": "a list",
        "dropout": "on" if eager.training and compiled.training and model.training else "off",
        "steps whose gradients were computed": sum(s.backward > 0 for s in (eager, compiled)),
        "names": names,
        "gradients left on the model": "some" if left else "none",
    }
