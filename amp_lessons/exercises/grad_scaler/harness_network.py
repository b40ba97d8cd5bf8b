"""A small network under FP16; as in `harness`, each batch is a letter of a pattern."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.grad_scaler.harness import listed, told
from amp_lessons.exercises.harness import as_play, flat, from_seed, in_plain, seeded
from amp_lessons.exercises.varied import Varied

FAULTS = {
    "o": "the gradients overflow",
    "l": "the loss overflows",
    "b": "one gradient of four overflows",
    "n": "a target is NaN",
}
BAD_TARGETS = {"o": (0, 0, 4e4), "l": (1, 1, 1e25), "n": (2, 1, math.nan)}


def network(seed: int) -> nn.Sequential:
    return seeded(seed, lambda: nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)))


def batches(pattern: str, seed: int) -> list[tuple[Tensor, Tensor]]:
    """A batch for each letter: a clean one, or one with a target that spoils the step."""
    drawn = from_seed(seed)
    made = []
    for letter in pattern:
        x, y = (torch.randn(4, size, generator=drawn) for size in (4, 2))
        if letter == "b":  # with a scale of 1024, only the last bias overflows: it adds up a batch
            y[:, 0] = 90.0
        elif letter in BAD_TARGETS:
            row, column, value = BAD_TARGETS[letter]
            y[row, column] = value
        made.append((x, y))
    return made


# ---- skipped_steps(model, optimizer, scaler, batches) -------------------------------------------


def log_cases() -> list[Case]:
    rows = [
        ("..o", 99, 0.1),
        ("o..", 2, 0.1),
        (".lo", 99, 0.1),
        ("l.l", 99, 0.1),
        (".o.", 99, 0.0),
        ("o..", 99, 0.0),
        ("..o", 2, 0.05),
        (".b.", 99, 0.1),
        ("b.b", 99, 0.1),
        (".n.", 99, 0.1),
        ("n.o", 99, 0.1),
    ]
    vary, found = Varied(13), []
    rows += [("".join(vary.random.choices(".oln", k=4)), 99, 0.1) for _ in vary.extra(3)]
    for seed, (pattern, interval, lr) in enumerate(vary.mixed(rows)):
        label = f"{told(pattern, FAULTS, first=0)} (counted from 0)"
        label += ", the learning rate is 0" if lr == 0 else ""
        label += f", the scale grows every {interval} steps" if interval < 9 else ""
        found.append(Case((seed, pattern, interval, lr), label))
    return found


@as_play
def play_log(
    skipped_steps: Callable[..., Any], seed: int, pattern: str, interval: int, lr: float
) -> dict[str, Any]:
    model = network(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=interval)
    result = skipped_steps(model, optimizer, scaler, batches(pattern, seed))
    return {
        "list that you returned": listed(result),
        "scale at the end": scaler.get_scale(),
        "parameters at the end": flat(model.parameters()),
    }


# ---- schedule_step(scaler, optimizer, scheduler) ------------------------------------------------


def schedule_cases() -> list[Case]:
    # Each begins with another scale than the one before ends with: one may not be kept.
    rows = [
        ("...", 99, 2.0**10),
        ("oo.", 99, 2.0**9),
        (".o.l", 99, 2.0**7),
        ("..o.", 2, 2.0**10),
        ("...", 1, 2.0**6),
        ("b.", 99, 2.0**10),
        (".b.", 99, 2.0**10),
        ("n.", 99, 2.0**8),
        (".n.", 99, 2.0**7),
    ]
    found = []
    for seed, (pattern, interval, init_scale) in enumerate(rows):
        grows = "in every step" if interval == 1 else f"every {interval} steps"
        label = told(pattern, FAULTS) + (f", the scale grows {grows}" if interval < 9 else "")
        found.append(Case((seed, pattern, interval, init_scale), label))
    return found


@as_play
def play_schedule(
    schedule_step: Callable[..., Any], seed: int, pattern: str, interval: int, init_scale: float
) -> dict[str, Any]:
    model = network(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with warnings.catch_warnings():  # a scheduler that runs ahead warns; the rates tell too
        warnings.simplefilter("ignore")
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, growth_interval=interval)
        rates, answers, places = [], [], [flat(model.parameters())]
        for x, y in batches(pattern, seed):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            answers.append(schedule_step(scaler, optimizer, scheduler))
            rates.append(optimizer.param_groups[0]["lr"])
            places.append(flat(model.parameters()))
    return {
        "learning rate after each step": rates,
        "what you returned": answers,
        "how often the scheduler stepped": scheduler.last_epoch,
        "scale at the end": scaler.get_scale(),
        "how far each step moved the parameters": list(map(math.dist, places, places[1:])),
    }


# ---- why_skipped(model, x, target, scale) -------------------------------------------------------


class Root(nn.Module):
    """The square root of the magnitude: finite everywhere, with an infinite gradient at 0."""

    def forward(self, x: Tensor) -> Tensor:
        return x.abs().sqrt()


def why_cases() -> list[Case]:
    """Steps in which one thing goes wrong, or two of which the first counts."""
    vary, inf, nan, left = Varied(14), math.inf, math.nan, "left in .grad"

    def scene(what: str, value: float, scale: float, **more: float) -> tuple[str, float, Any]:
        """A value in one place, near the listed one, and what is wrong besides."""
        value = vary.near(value)
        written = f"{value:,.0f}" if abs(value) < 1e7 else f"{value:g}"
        places = {"row": "an input", "bias": "a last bias"}
        return f"{places.get(what, 'a target')} of {written}", scale, {what: value, **more}

    def also(label: str, scene: tuple[str, float, Any]) -> tuple[str, float, Any]:
        return f"{label}, and {scene[0]}", *scene[1:]

    scenes = [
        ("a clean batch", 2.0**10, {}),
        scene("target", 4e4, 1.0),
        scene("target", 4e4, 2.0**10),
        ("a clean batch", 2.0**30, {}),
        scene("target", 1e5, 1.0),
        scene("target", -9e4, 1.0),
        scene("target", 1e6, 1.0),
        scene("target", 2e6, 2.0**10),
        scene("target", 1e25, 1.0),
        scene("target", -1e22, 2.0**10),
        scene("row", 1e5, 1.0),
        scene("row", -8e4, 2.0**4),
        ("large weights and inputs", 2.0**10, {"factor": vary.near(4e2)}),
        scene("bias", 8e4, 1.0),
        ("an inf among the inputs", 2.0**10, {"input": inf}),
        ("an inf among the inputs", 1.0, {"input": -inf}),
        ("a NaN among the targets", 2.0**10, {"target": nan}),
        ("a NaN among the inputs", 2.0**4, {"input": nan}),
        ("an inf among the targets", 1.0, {"target": inf}),
        ("a square root of zero", 2.0**16, {"root": 0.0}),
        ("a square root of zero", 2.0**3, {"root": 0.0}),
        ("finite gradients left in .grad, and a clean batch", 2.0**10, {"old": 1.0}),
        also(f"finite gradients {left}", scene("target", 4e4, 2.0**10, old=2)),
        ("an inf left in .grad, and a clean batch", 2.0**10, {"old": inf}),
        also(f"a NaN {left}", scene("target", 4e4, 2.0**10, old=nan)),
        ("an inf left in .grad, and a NaN among the targets", 2.0**10, {"old": inf, "target": nan}),
        ("a NaN left in .grad, and an inf among the inputs", 1.0, {"old": nan, "input": inf}),
    ]
    return [
        Case((seed, scale, spoilt), f"{label}; a scale of {scale:g}")
        for seed, (label, scale, spoilt) in enumerate(vary.mixed(scenes))
    ]


@as_play
def play_why(
    why_skipped: Callable[..., Any], seed: int, scale: float, spoilt: dict[str, float]
) -> Any:
    model, ((x, y),) = network(seed), batches(".", seed)
    lower, _, upper = model
    weight, bias = upper.parameters()
    for what, value in spoilt.items():
        with torch.no_grad():
            if what == "target":
                y[0, 0] = value
            elif what == "input":
                x[2, 1] = value
            elif what == "row":
                x[0] = value
            elif what == "old":
                for parameter in model.parameters():
                    parameter.grad = torch.ones_like(parameter)
                bias.grad = torch.tensor([1.0, value])
            elif what == "factor":
                model[1] = nn.ReLU()
                next(lower.parameters()).mul_(value)
                x *= 2 * value
            elif what == "bias":
                bias[1] = value
            elif what == "root":
                model.append(Root())
                weight[0] = bias[0] = value
    result = why_skipped(model, x, y, scale)
    return in_plain(result) if type(result) is str else result
