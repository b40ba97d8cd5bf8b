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

ROUNDED = "rounded"
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
    "rolled": lambda g: g.roll(1, 0),
    "doubled": lambda g: 2 * g,
    "lowered": lambda g: g - 0.3 * g.abs(),
    "with a NaN": lambda g: g.index_fill(0, torch.tensor([1]), math.nan),
    "with an inf": lambda g: g.index_fill(0, torch.tensor([0]), math.inf),
    "added to": lambda g: g + 1e-6,
}
NO_GRADIENT = "missing"


def gradient_cases() -> list[Case]:
    """What is changed, the tolerance, and a factor of the loss. With the smallest factor, all
    gradients are below 1e-8."""
    tiny, low = 1e-9, ["embed.weight", "embed.bias", "block.weight", "block.bias"]
    used = [*low, "head.weight", "head.bias"]
    rounded = dict.fromkeys(used, ROUNDED)
    made: list[Case] = []

    def case(kind: str, label: str, faults: Faults, tolerance: float, size: float = 1.0) -> None:
        args = (1 + len(made), faults, tolerance, size)
        made.append(Case(args, f"{label}, tolerance {tolerance:g}", kind))

    kind = "equal gradients"
    case(kind, "all equal", {}, 1e-5)
    case(kind, "all equal, below 1e-8", {}, 1e-3, tiny)
    kind = "gradients that were rounded"
    case(kind, "all rounded in another way", rounded, 1e-4)
    case(kind, "all rounded in another way, below 1e-8", rounded, 1e-3, tiny)
    kind = "tiny gradients"
    case(kind, "embed and block in FP16, below 1e-8", dict.fromkeys(low, "in FP16"), 1e-2, tiny)
    case(kind, "block.weight doubled, below 1e-8", {"block.weight": "doubled"}, 1e-3, tiny)
    kind = "small gradients"
    case(kind, "embed.weight doubled, below 1e-2", {"embed.weight": "doubled"}, 1e-2, 1e-4)
    small = dict.fromkeys(low, "doubled")
    case(kind, "embed and block doubled, below 1e-2", small, 1e-2, 2e-4)
    kind = "coarse gradients"
    case(kind, "embed.weight in BF16", {"embed.weight": "in BF16"}, 1e-5)
    coarse_bias = rounded | {"head.bias": "in BF16"}
    case(kind, "head.bias in BF16, the others rounded", coarse_bias, 1e-5, 7.3)
    kind = "gradients of the same norm"
    case(kind, "block.bias negated", {"block.bias": "negated"}, 1e-3)
    case(kind, "head.weight with other rows", {"head.weight": "rolled"}, 1e-3, 40.0)
    case(kind, "block.bias with other rows", {"block.bias": "rolled"}, 1e-2)
    kind = "gradients that are too large or too small"
    case(kind, "head.weight doubled", {"head.weight": "doubled"}, 1e-2)
    case(kind, "all elements of block.weight lower", {"block.weight": "lowered"}, 1e-3)
    lower = {"embed.weight": "lowered", "head.bias": "lowered"}
    case(kind, "all elements of embed.weight and head.bias lower", lower, 1e-2, 3.0)
    kind = "an inf or a NaN"
    case(kind, "a NaN in block.weight", {"block.weight": "with a NaN"}, 1e-2)
    case(kind, "an inf in embed.bias", {"embed.bias": "with an inf"}, 1e-3)
    both = {"head.bias": "with a NaN", "head.weight": "with an inf"}
    case(kind, "a NaN in head.bias, an inf in head.weight", both, 1e-3, 5.0)
    kind = "a gradient that only one step has"
    case(kind, "no gradient for embed.bias", {"embed.bias": NO_GRADIENT}, 1e-3)
    two = dict.fromkeys(["head.weight", "block.bias"], NO_GRADIENT)
    case(kind, "no gradient for head.weight and block.bias", two, 1e-4)
    kind = "a gradient of zero in eager mode"
    case(kind, "gate isn't zero", {"gate": "added to"}, 1e-3)
    case(kind, "gate and block.bias differ", {"gate": "added to", "block.bias": "in BF16"}, 1e-6)
    return made


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
