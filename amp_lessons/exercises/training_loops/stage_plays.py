"""How the loops that take or return more than a plain one are used, and on which cases."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from amp_lessons.checks.probe import Case
from amp_lessons.exercises import stage
from amp_lessons.exercises.stage import (
    LARGE,
    SMALL,
    TOO_LARGE,
    Batch,
    Setting,
    as_play,
    case,
    name_of,
)
from amp_lessons.exercises.training_loops.stage import Run, few_rows, in_runs


def numbers(result: Any) -> Any:
    """Numbers as a list, in which inf and NaN are one thing; anything else as it is."""
    found = stage.numbers(result)
    return result if found is None else [x if math.isfinite(x) else "not finite" for x in found]


def epochs_of(count: int, batches: list[Batch]) -> list[list[Batch]]:
    return [batches[i : i + count] for i in range(0, len(batches), count)]


# ---- clipping: train(model, optimizer, scaler, loss_fn, batches, max_norm) ----------------------


def norm_cases() -> list[Case]:
    """Most norms are above 0.25; above 0.65 only some are. With a small scale it shows which
    gradients are clipped: with a large one the model hardly moves, or not at all."""
    low, high = (0.25,), (0.65,)
    wide: dict[str, Any] = {"rows": 16, "width": 12, "init_scale": 16.0, "more": low}
    two, third, fourth = {0: TOO_LARGE, 5: TOO_LARGE}, {2: LARGE}, {3: LARGE}
    return [
        few_rows("6 batches, a max_norm of 0.25", 1, 6, init_scale=8.0, more=low),
        few_rows("6 batches, a max_norm of 0.65", 1, 6, init_scale=4.0, more=high),
        few_rows("7 batches, the second overflows", 2, 7, {1: TOO_LARGE}, more=low),
        case("8 batches, the first and the sixth overflow", 3, 8, two, **wide),
        few_rows("6 batches, gradients of one overflow", 5, 6, third, more=high),
        few_rows("7 batches, gradients of one overflow", 4, 7, fourth, more=low),
    ]


@as_play
def use_with_norms(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    run = Run(setting)
    given = run.loss_fn, run.batches, *setting.more
    norms = train(run.model, run.optimizer, run.scaler, *given)
    return {"norms returned": numbers(norms), **run.left_behind()}


# ---- several epochs: train(model, optimizer, loss_fn, epochs, init_scale) -----------------------

GROWTH_INTERVAL = 4


def epoch_cases() -> list[Case]:
    """``more`` is the number of batches in an epoch."""

    def epochs(
        label: str, seed: int, count: int, each: int, scale: float, *bad: int, **more: Any
    ) -> Case:
        settings: dict[str, Any] = {
            "rows": 8,
            "init_scale": scale,
            "weight": SMALL,
            "more": (each,),
        } | more
        return case(label, seed, count * each, dict.fromkeys(bad, TOO_LARGE), **settings)

    wide: dict[str, Any] = {"rows": 16, "width": 12}
    return [
        epochs("2 epochs of 3 batches, from a scale of 4 on", 9, 2, 3, 4.0, weight=1.0),
        epochs("3 epochs of 3 batches, from a scale of 2 on", 10, 3, 3, 2.0, weight=1.0),
        epochs("2 epochs of 9 batches, from a scale of 2**45 on", 4, 2, 9, 2.0**45),
        epochs("3 epochs of 9 batches, from a scale of 2**44 on", 5, 3, 9, 2.0**44, **wide),
        epochs("4 epochs of 3 batches, from a scale of 2**20 on", 6, 4, 3, 2.0**20),
        epochs("3 epochs of 5 batches, the eighth batch overflows", 7, 3, 5, 2.0**18, 7),
        epochs("2 epochs of 6 batches, one overflows in each", 8, 2, 6, 2.0**19, 1, 8),
    ]


@contextlib.contextmanager
def scales_that_grow_soon() -> Iterator[None]:
    """Within this context each new scaler grows after `GROWTH_INTERVAL` clean steps."""
    made = torch.amp.GradScaler.__init__

    def make(scaler: torch.amp.GradScaler, *args: Any, **options: Any) -> None:
        made(scaler, *args, **options)
        if scaler.is_enabled():
            scaler.set_growth_interval(GROWTH_INTERVAL)

    torch.amp.GradScaler.__init__ = make  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        torch.amp.GradScaler.__init__ = made  # type: ignore[method-assign]


@as_play
def use_by_epoch(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    run = Run(setting)
    parts = epochs_of(setting.more[0], run.batches)
    with scales_that_grow_soon():
        scale = train(run.model, run.optimizer, run.loss_fn, parts, setting.init_scale)
    left = run.left_behind()
    del left["scale at the end"]  # of the run's own scaler, which nobody was handed
    return {"scale returned": scale, **left}


# ---- validation: train(model, optimizer, scaler, loss_fn, epochs, validation) -------------------


def evaluation_cases() -> list[Case]:
    """After an overflow in the forward pass the statistics of batch norm are NaN for good."""

    def epochs(
        label: str, seed: int, count: int, rows: int = 12, *bad: int, **settings: Any
    ) -> Case:
        spoiled = dict.fromkeys(bad, TOO_LARGE)
        label = f"{count} epochs of 4 batches{label}"
        return case(label, seed, 4 * count, spoiled, rows=rows, rate=0.3, **settings)

    return [
        epochs("", 6, 2),
        epochs(", a scale of 4", 7, 3, 20, width=16, init_scale=4.0),
        epochs(", a scale of 2", 8, 2, 10, init_scale=2.0),
        epochs(", a scale of 2**24", 9, 2, init_scale=2.0**24),
        epochs(", a scale of 2**23", 10, 3, init_scale=2.0**23),
        epochs(", the seventh overflows", 11, 2, 12, 6),
        epochs(", the tenth overflows", 12, 3, 12, 9),
        epochs(", a small loss", 13, 2, init_scale=2.0**16, weight=SMALL),
    ]


@as_play
def use_with_validation(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    run, seed, size = Run(setting, noisy=True), setting.seed, setting.sizes[0]
    validation = Setting(seed + 30, (size + 5,)).batches()[0]
    parts = epochs_of(4, run.batches)
    trained, evaluated = [], []

    # Asked of the model and not of the loss: a graph is recorded whether or not the logits are
    # detached. The number of images says which of the two it is.
    def look(module: nn.Module, given: tuple[Tensor, ...], logits: Tensor) -> None:
        named = {"batch norm": module[1], "dropout": module[2]}  # type: ignore[index]
        still = [name for name, layer in named.items() if not layer.training]
        mode = f"with {still[0]} in eval mode" if len(still) == 1 else "in eval mode"
        mode = mode if still else "in training mode"
        graph = "recorded" if logits.requires_grad else "not recorded"
        if len(logits) == size:
            trained.append(f"{mode}, {name_of(logits.dtype)}")
        else:
            evaluated.append(f"{mode}, {name_of(logits.dtype)}, {graph}")

    run.model.register_forward_hook(look)
    torch.default_generator.manual_seed(seed)  # much cheaper than torch.manual_seed
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
    two = {0: TOO_LARGE, 9: TOO_LARGE}
    wide: dict[str, Any] = {"rows": 4, "width": 12, "more": (3,)}
    third, fifth = {2: LARGE}, {4: LARGE}
    return [
        few_rows("8 small batches, 2 a step", 8, 8, more=(2,)),
        case("9 small batches, 3 a step", 16, 9, rows=6, more=(3,)),
        case("12 small batches, 3 a step, the fifth overflows", 9, 12, {4: TOO_LARGE}, **wide),
        case("16 small batches, 4 a step, two overflow", 10, 16, two, rows=6, more=(4,)),
        few_rows("6 small batches, 2 a step, gradients overflow", 14, 6, third, more=(2,)),
        case("9 small batches, 3 a step, gradients overflow", 17, 9, fifth, rows=6, more=(3,)),
    ]


@as_play
def use_in_groups(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    run = Run(setting)
    sizes: list[int] = []
    run.model.register_forward_hook(lambda *seen: sizes.append(len(seen[-1])))
    given = run.loss_fn, run.batches, *setting.more
    train(run.model, run.optimizer, run.scaler, *given)
    return {"images in the largest batch": max(sizes, default=0), **run.left_behind()}


# ---- two models: train(models, optimizers, scaler, loss_fn, batches) ----------------------------


def two_cases() -> list[Case]:
    """``more`` are the second model's batches that overflow."""
    return [
        case("6 batches, none overflows", 11, 6),
        case("9 batches, the second model overflows twice", 12, 9, more=(1, 4)),
        case("9 batches, each model overflows once", 13, 9, {2: TOO_LARGE}, more=(5,)),
        case("8 batches, gradients of the first model overflow", 15, 8, {3: LARGE}),
        case("7 batches, gradients of the first model overflow", 19, 7, {1: LARGE}),
        case("8 batches, the first model overflows", 18, 8, {4: TOO_LARGE}),
    ]


@as_play
def use_for_two(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    spoiled = dict.fromkeys(setting.more, TOO_LARGE)
    twos = replace(setting, seed=setting.seed + 70, spoiled=spoiled).batches()
    a, b = Run(setting), Run(replace(setting, seed=setting.seed + 50, width=12, rate=0.3))
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
        return case(label, seed, 7, kind=kind, weight=weight, more=(kind, max_norm), **spoiled)

    return [
        run("fp32", 31, 0.2),
        run("fp32, a max_norm of 0.4", 37, 0.4),
        run("bf16", 32, 0.2),
        run("bf16, a loss with a small weight", 35, 1.0, SMALL),
        run("fp16, the third batch overflows", 33, 0.2, spoiled={2: TOO_LARGE}),
        run("fp16, two batches overflow", 38, 0.4, spoiled={0: TOO_LARGE, 4: TOO_LARGE}),
        run("fp16, gradients of the second overflow", 36, 0.2, spoiled={1: LARGE}),
        run("fp16, gradients of the fourth overflow", 39, 0.4, spoiled={3: LARGE}),
        run("fp16, a loss with a small weight", 34, 1.0, SMALL),
        run("fp16, another loss with a small weight", 40, 2.0, SMALL),
    ]


@as_play
def use_in_any(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    run = Run(setting)
    scale = train(run.model, run.optimizer, run.loss_fn, run.batches, *setting.more)
    left = run.left_behind()
    del left["scale at the end"]  # of the run's own scaler, which nobody was handed
    parameters = left.pop("parameters at the end")
    return {**left, "scale returned": scale, "parameters at the end": parameters}
