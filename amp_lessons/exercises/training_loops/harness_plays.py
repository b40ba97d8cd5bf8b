"""How the loops that take or return more than a plain one are used, and on which cases."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises import harness
from amp_lessons.exercises.harness import LARGE, SMALL, TOO_LARGE, Batch, Setting, as_play, name_of
from amp_lessons.exercises.training_loops.harness import LoopRun, few_rows, in_runs


def numbers(result: Any) -> Any:
    """Numbers as a list, in which inf and NaN are one thing; anything else as it is."""
    found = harness.numbers(result)
    return result if found is None else [x if math.isfinite(x) else "not finite" for x in found]


def epochs_of(count: int, batches: list[Batch]) -> list[list[Batch]]:
    return [batches[i : i + count] for i in range(0, len(batches), count)]


# ---- clipping: train(model, optimizer, scaler, loss_fn, batches, max_norm) ----------------------


def norm_cases() -> list[Case]:
    """Most norms are above 0.25; above 0.65 only some are. With a small scale it shows which
    gradients are clipped: with a large one the model hardly moves, or not at all."""
    low, high, twice = (0.25,), (0.65,), {0: TOO_LARGE, 3: TOO_LARGE}
    return [
        few_rows("3 batches, a max_norm of 0.25", 1, 3, init_scale=8.0, more=low),
        few_rows("3 batches, a max_norm of 1.5", 1, 3, init_scale=4.0, more=(1.5,)),
        few_rows("4 batches, the second overflows", 2, 4, {1: TOO_LARGE}, more=low),
        few_rows("5 batches, two overflow", 3, 5, twice, init_scale=16.0, more=low),
        few_rows("4 batches, gradients of one overflow", 5, 4, {2: LARGE}, more=high),
        few_rows("5 batches, gradients of one overflow", 4, 5, {3: LARGE}, more=low),
    ]


@as_play
def use_with_norms(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    run = LoopRun(setting)
    given = run.loss_fn, run.batches, *setting.more
    norms = numbers(train(run.model, run.optimizer, run.scaler, *given))
    count = len(norms) if isinstance(norms, list) else "no list"
    return {"how many norms": count, "norms returned": norms, **run.left_behind()}


# ---- several epochs: train(model, optimizer, loss_fn, epochs, init_scale) -----------------------

GROWTH_INTERVAL = 4


def epoch_cases() -> list[Case]:
    """``more`` is the number of batches in an epoch."""

    def epochs(seed: int, count: int, each: int, scale: int, *bad: int) -> Case:
        label = f"{count} epochs of {each} batches, from a scale of 2**{scale} on"
        label += ", the eighth overflows" if bad else ""
        settings: dict[str, Any] = {"init_scale": 2.0**scale, "more": (each,)}
        weight = 1.0 if scale < 10 else SMALL
        spoiled = dict.fromkeys(bad, TOO_LARGE)
        return few_rows(label, seed, count * each, spoiled, weight=weight, **settings)

    return [
        epochs(9, 2, 3, 2),
        epochs(10, 2, 3, 1),
        epochs(4, 2, 5, 43),
        epochs(5, 2, 5, 42),
        epochs(6, 2, 3, 20),
        epochs(7, 2, 5, 18, 7),
        epochs(8, 2, 6, 19, 7),
    ]


@contextlib.contextmanager
def scales_that_grow_soon() -> Iterator[None]:
    """Within this context each new scaler grows after `GROWTH_INTERVAL` clean steps."""
    made = torch.amp.GradScaler.__init__

    def make(scaler: torch.amp.GradScaler, *args: Any, **options: Any) -> None:
        made(scaler, *args, **options)
        if scaler.is_enabled():
            scaler.set_growth_interval(GROWTH_INTERVAL)

    with mock.patch.object(torch.amp.GradScaler, "__init__", make):
        yield


@as_play
def use_by_epoch(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    run = LoopRun(setting)
    parts = epochs_of(setting.more[0], run.batches)
    with scales_that_grow_soon():
        scale = train(run.model, run.optimizer, run.loss_fn, parts, setting.init_scale)
    left = run.left_behind()
    del left["scale at the end"]  # of the run's own scaler, which nobody was handed
    return {"scale returned": scale, **left}


# ---- validation: train(model, optimizer, scaler, loss_fn, epochs, validation) -------------------


def evaluation_cases() -> list[Case]:
    """After an overflow in the forward pass the statistics of batch norm are NaN for good."""

    def epochs(label: str, seed: int, *bad: int, **settings: Any) -> Case:
        spoiled = dict.fromkeys(bad, TOO_LARGE)
        return few_rows(f"2 epochs of 2 batches{label}", seed, 4, spoiled, rate=0.3, **settings)

    return [
        epochs(", a scale of 4", 7, init_scale=4.0),
        epochs(", a scale of 2", 8, init_scale=2.0),
        epochs(", a scale of 2**24", 9, init_scale=2.0**24),
        epochs(", a scale of 2**23", 10, init_scale=2.0**23),
        epochs(", the third overflows", 11, 2),
        epochs(", the last overflows", 12, 3),
        epochs(", a small loss", 13, init_scale=2.0**16, weight=SMALL),
    ]


@as_play
def use_with_validation(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    run, seed, size = LoopRun(setting, noisy=True), setting.seed, setting.sizes[0]
    validation = Setting(seed + 30, (size + 5,)).batches()[0]
    parts = epochs_of(2, run.batches)
    trained, evaluated = [], []

    # Asked of the model and not of the loss: a graph is recorded whether or not the logits are
    # detached. The number of images says which of the two it is.
    def look(module: nn.Module, given: tuple[Tensor, ...], logits: Tensor) -> None:
        _, norm, dropout, *_ = module.children()
        named = {"batch norm": norm, "dropout": dropout}
        left = [name for name, layer in named.items() if layer.training]
        mode = f"with {left[0]} in training mode" if len(left) == 1 else "in training mode"
        mode = mode if left else "in eval mode"
        graph = "recorded for a backward pass" if logits.requires_grad else "not recorded"
        if len(logits) == size:
            trained.append(f"{mode}, {name_of(logits.dtype)}")
        else:
            evaluated.append(f"{mode}, {name_of(logits.dtype)}, {graph}")

    run.model.register_forward_hook(look)
    torch.default_generator.manual_seed(draws.seed(seed))  # much cheaper than torch.manual_seed
    losses = train(run.model, run.optimizer, run.scaler, run.loss_fn, parts, validation)
    left = run.left_behind()
    del left["dtype of the model's outputs"]
    return {
        "forward passes in training": in_runs(trained),
        "forward passes in validation": in_runs(evaluated),
        "losses returned": numbers(losses),
        **left,
        "running mean of batch norm": run.model[1].state_dict()["running_mean"].clone(),
    }


# ---- micro-batches: train(model, optimizer, scaler, loss_fn, batches, every) --------------------


def accumulate_cases() -> list[Case]:
    twice = {0: TOO_LARGE, 6: TOO_LARGE}
    return [
        few_rows("6 small batches, 2 a step", 8, 6, more=(2,)),
        few_rows("6 small batches, 3 a step", 16, 6, more=(3,)),
        few_rows("9 small batches, 3 a step, the fifth overflows", 9, 9, {4: TOO_LARGE}, more=(3,)),
        few_rows("8 small batches, 2 a step, two overflow", 10, 8, twice, more=(2,)),
        few_rows("6 small batches, 2 a step, gradients overflow", 14, 6, {2: LARGE}, more=(2,)),
        few_rows("6 small batches, 3 a step, gradients overflow", 17, 6, {4: LARGE}, more=(3,)),
    ]


@as_play
def use_in_groups(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    run = LoopRun(setting)
    sizes: list[int] = []
    run.model.register_forward_hook(lambda *seen: sizes.append(len(seen[-1])))
    given = run.loss_fn, run.batches, *setting.more
    train(run.model, run.optimizer, run.scaler, *given)
    return {"images in the largest batch": max(sizes, default=0), **run.left_behind()}


# ---- two models: train(models, optimizers, scaler, loss_fn, batches) ----------------------------


def two_cases() -> list[Case]:
    """``more`` are the second model's batches that overflow."""
    return [
        few_rows("4 batches, none overflows", 11, 4),
        few_rows("5 batches, the second model overflows twice", 12, 5, more=(1, 3)),
        few_rows("5 batches, each model overflows once", 13, 5, {2: TOO_LARGE}, more=(3,)),
        few_rows("5 batches, gradients of the first model overflow", 15, 5, {3: LARGE}),
        few_rows("4 batches, gradients of the first model overflow", 19, 4, {1: LARGE}),
        few_rows("4 batches, the first model overflows", 18, 4, {2: TOO_LARGE}),
    ]


@as_play
def use_for_two(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    spoiled = dict.fromkeys(setting.more, TOO_LARGE)
    twos = replace(setting, seed=setting.seed + 70, spoiled=spoiled).batches()
    a, b = LoopRun(setting), LoopRun(replace(setting, seed=setting.seed + 50, width=12, rate=0.3))
    given = [(x, z, y) for (x, y), (z, _) in zip(a.batches, twos, strict=True)]
    train((a.model, b.model), (a.optimizer, b.optimizer), a.scaler, a.loss_fn, given)
    # A guess may be computed again for the second loss, before the first model has stepped.
    first, second = a.left_behind(every_forward=False), b.left_behind()
    second["scale at the end"] = first["scale at the end"]
    return {
        f"{name} ({which} model)" if name != "scale at the end" else name: parts[name]
        for name in first
        for which, parts in (("first", first), ("second", second))
    }


# ---- three precisions: train(model, optimizer, loss_fn, batches, precision, max_norm) -----------


def any_cases() -> list[Case]:
    """The losses of a small weight are not clipped: beside such gradients the 1e-6 that
    ``clip_grad_norm_`` adds would count."""

    def run(label: str, seed: int, max_norm: float, weight: float = 1.0, **spoiled: Any) -> Case:
        kind = label[:4]
        return few_rows(label, seed, 4, kind=kind, weight=weight, more=(kind, max_norm), **spoiled)

    return [
        run("fp32", 31, 0.2),
        run("fp32, a max_norm of 0.4", 37, 0.4),
        run("bf16", 32, 0.2),
        run("bf16, a loss with a small weight", 35, 1.0, SMALL),
        run("fp16, the third batch overflows", 33, 0.2, spoiled={2: TOO_LARGE}),
        run("fp16, two batches overflow", 38, 0.4, spoiled={0: TOO_LARGE, 3: TOO_LARGE}),
        run("fp16, gradients of the second overflow", 36, 1.5, spoiled={1: LARGE}),
        run("fp16, gradients of two overflow", 42, 0.4, spoiled={1: LARGE, 3: LARGE}),
        run("fp16, a loss with a small weight", 34, 1.0, SMALL),
    ]


@as_play
def use_in_any(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    run = LoopRun(setting)
    scale = train(run.model, run.optimizer, run.loss_fn, run.batches, *setting.more)
    left = run.left_behind()
    del left["scale at the end"]  # of the run's own scaler, which nobody was handed
    parameters = left.pop("parameters at the end")
    return {**left, "scale returned": scale, "parameters at the end": parameters}
