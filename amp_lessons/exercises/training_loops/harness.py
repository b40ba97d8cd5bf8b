"""What a training loop is handed, and what it leaves behind.

A loop gets a small model with all that belongs to it, a `LoopRun`. Some batches hold an input that
FP16 cannot store, so their step must be skipped. A loop is judged by what it leaves behind: the
parameters, how often the optimizer really stepped, the scale, the dtypes of the model's outputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import (
    BFLOAT,
    HALF,
    LARGE,
    SMALL,
    TOO_LARGE,
    Setting,
    as_play,
    case,
    flat,
    in_words,
    name_of,
    network,
)
from amp_lessons.exercises.checks.serialize.compare import noted

few_rows = partial(case, rows=8)


def never_in_float16(seen: dict[str, Any], right: dict[str, Any]) -> bool:
    """A rule of most loops: the model did run, and never in FP16."""
    dtypes = noted(seen, "dtype of the model's outputs")
    return bool(dtypes) and "x float16" not in dtypes


class LoopRun:
    """A model with its optimizer, scaler and loss, and a record of what they go through."""

    def __init__(self, setting: Setting, *, noisy: bool = False) -> None:
        self.model = network(setting.seed, setting.width, noisy=noisy)
        self.weight, self.batches = setting.weight, setting.batches()
        self.optimizer, self.scaler = setting.optimizer(self.model), setting.scaler()
        self.outputs: list[str] = []
        self.rates: list[float] = []
        self.optimizer.register_step_post_hook(lambda *_: self.rates.append(self._rate()))
        # A model that is cast to half and back has rounded weights before a step, and not after it.
        self.kept: list[str] = []
        first = [next(self.model.parameters())]
        self.optimizer.register_step_pre_hook(lambda *_: self.kept.append(kept_in(first)))
        # Asked of the model and not in the loss, since a loop may cast the logits to float32. A
        # function, so that a deep copy of the model reports here too.
        self.model[-1].register_forward_hook(
            lambda *seen: self.outputs.append(name_of(seen[-1].dtype))
        )

    def _rate(self) -> float:
        """The learning rate as it would be for a loss of weight 1, without rounding errors."""
        return round(self.optimizer.param_groups[0]["lr"] * self.weight, 6)

    def loss_fn(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross entropy times the weight of the loss."""
        return cross_entropy(logits.float(), labels) * self.weight

    def _kept(self, parameters: Sequence[Tensor]) -> str:
        """How the parameters are kept at the end, or before a step if that is not in float32."""
        before = [f"{kept} before a step" for kept in self.kept if kept != "float32"]
        at_the_end = kept_in(parameters)
        return before[0] if before and at_the_end == "float32" else at_the_end

    def left_behind(self, *, every_forward: bool = True) -> dict[str, Any]:
        """What every loop leaves, in the order in which it is compared. Without `every_forward` it
        doesn't count how often the model was run, but only in which dtypes."""
        parameters = list(self.model.parameters())
        return {
            "optimizer steps": len(self.rates),
            "dtype of the model's outputs": (in_runs if every_forward else in_words)(self.outputs),
            "dtype of the parameters": self._kept(parameters),
            "learning rates": sorted({*self.rates, self._rate()}),
            "scale at the end": self.scaler.get_scale(),
            "parameters at the end": flat(parameters),
        }


def in_runs(words: Iterable[Any]) -> str:
    """A sequence in short: ``"4 x float16, 1 x float32"``."""
    return ", ".join(f"{len(list(same))} x {word}" for word, same in itertools.groupby(words))


def kept_in(parameters: Sequence[Tensor]) -> str:
    """The dtypes of the parameters; told apart from float32 are values that 16 bits can hold."""
    dtypes = in_words(name_of(p.dtype) for p in parameters)
    for narrow in (HALF, BFLOAT):
        if dtypes == "float32" and all((p.to(narrow).float() == p).all() for p in parameters):
            return f"float32, rounded to {name_of(narrow)}"
    return dtypes


@dataclass
class InterruptibleTraining:
    """A run that can be interrupted: it holds all that the next step depends on but one thing.

    Attributes:
        model: has batch norm and dropout, which draws from torch's global random numbers.
        optimizer: SGD with momentum.
        scaler: for FP16.
        scheduler: lowers the learning rate every second epoch; an epoch has three steps.
        order: the generator that shuffles the images.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    scheduler: Any
    order: torch.Generator

    @classmethod
    def fresh(cls, seed: int) -> InterruptibleTraining:
        """A run at its beginning, with weights and data order from ``seed``."""
        drawn = draws.seed(seed)
        torch.default_generator.manual_seed(drawn)  # much cheaper than torch.manual_seed
        model = network(seed, 10, noisy=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
        return cls(
            model,
            optimizer,
            torch.amp.GradScaler("cpu", init_scale=2.0**22, growth_interval=3),
            torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5),
            torch.Generator().manual_seed(drawn),
        )

    def steps(self, images: Tensor, labels: Tensor, count: int) -> list[float]:
        """Train ``count`` steps on 16 random images each; return the losses."""
        losses = []
        for number in range(count):
            chosen = torch.randperm(len(labels), generator=self.order)[:16]
            self.optimizer.zero_grad()
            with torch.autocast("cpu", dtype=HALF):
                loss = cross_entropy(self.model(images[chosen]), labels[chosen])
            self.scaler.scale(loss).backward()
            before = self.scaler.get_scale()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            if number % 3 == 2 and self.scaler.get_scale() >= before:
                self.scheduler.step()
            losses.append(loss.item())
        return losses


# ---- a plain loop: train(model, optimizer, scaler, loss_fn, batches) ----------------------------


def loop_cases(**usual: Any) -> list[Case]:
    """Runs with and without overflows, in the loss or in the gradients alone; some in which old
    gradients weigh as much as scaled ones; one whose gradients are zero unless they are scaled.
    The first three have the `usual` settings."""
    twice, gradients = {0: TOO_LARGE, 3: TOO_LARGE}, {1: LARGE, 3: LARGE}
    return [
        few_rows("3 batches, none overflows", 1, 3, **usual),
        few_rows("4 batches, the second overflows", 2, 4, {1: TOO_LARGE}, **usual),
        few_rows("5 batches, the first and the fourth overflow", 3, 5, twice, **usual),
        few_rows("4 batches, gradients of the third overflow", 5, 4, {2: LARGE}),
        few_rows("5 batches, gradients of two overflow", 6, 5, gradients),
        few_rows("3 batches, a scale of 2", 4, 3, init_scale=2.0),
        few_rows("3 batches, a scale of 4", 9, 3, init_scale=4.0),
        few_rows("3 batches, a small loss", 7, 3, weight=SMALL, init_scale=2.0**16),
    ]


@as_play
def plain_loop(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    """How a plain loop is used."""
    run = LoopRun(setting)
    train(run.model, run.optimizer, run.scaler, run.loss_fn, run.batches)
    return run.left_behind()
