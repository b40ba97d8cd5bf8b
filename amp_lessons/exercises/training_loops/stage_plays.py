"""How the loops that take or return more than a plain one are used, and on which cases."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from amp_lessons.plain_data.compare import as_number
from amp_lessons.plain_data import plain
from amp_lessons.checks.probe import Case
from amp_lessons.exercises.training_loops.stage import (
    LARGE,
    SMALL,
    TOO_LARGE,
    Batch,
    Run,
    batches,
    dtype,
    in_runs,
)


def numbers(result: Any) -> Any:
    """Numbers in a list, a tuple, a tensor or an array, as a list; inf and NaN are one thing."""
    described = plain(result)
    if isinstance(described, dict) and isinstance(described.get("values"), list):
        described = described["values"]
    if not isinstance(described, list):
        return result
    found = [as_number(x) for x in described]
    if None in found:
        return result
    return [x if math.isfinite(x) else "not finite" for x in found]


# ---- clipping: train(model, optimizer, scaler, loss_fn, batches, max_norm) ----------------------


def norm_cases() -> list[Case]:
    """Most norms are above 0.25; above 0.65 only some are. With a small scale it shows which
    gradients are clipped: with a large one the model hardly moves, or not at all."""
    return [
        Case((1, 8, 8, 6, 0.25, 8.0), "6 batches, a max_norm of 0.25"),
        Case((1, 8, 8, 6, 0.65, 4.0), "6 batches, a max_norm of 0.65"),
        Case((2, 8, 8, 7, 0.25, 2.0**10, (1,)), "7 batches, the second overflows"),
        Case((3, 12, 16, 8, 0.25, 16.0, (0, 5)), "8 batches, the first and the sixth overflow"),
        Case((5, 8, 8, 6, 0.65, 2.0**10, (2,), LARGE), "6 batches, gradients of one overflow"),
        Case((4, 8, 8, 7, 0.25, 2.0**10, (3,), LARGE), "7 batches, gradients of one overflow"),
    ]


def use_with_norms(train: Callable[..., Any]) -> Callable[..., Any]:
    def play(
        seed: int,
        width: int,
        size: int,
        count: int,
        max_norm: float,
        init_scale: float,
        overflows: tuple[int, ...] = (),
        too_large: float = TOO_LARGE,
    ) -> dict[str, Any]:
        run = Run(seed, width, init_scale=init_scale)
        given = batches(seed, count, size, overflows, too_large)
        norms = train(run.model, run.optimizer, run.scaler, run.loss_fn, given, max_norm)
        return {"norms returned": numbers(norms), **run.left_behind()}

    return play


# ---- several epochs: train(model, optimizer, loss_fn, epochs, init_scale) -----------------------

GROWTH_INTERVAL = 4


def epoch_cases() -> list[Case]:
    return [
        Case((9, 8, 8, 2, 3, 4.0, (), 1.0), "2 epochs of 3 batches, from a scale of 4 on"),
        Case((10, 8, 8, 3, 3, 2.0, (), 1.0), "3 epochs of 3 batches, from a scale of 2 on"),
        Case((4, 8, 8, 2, 9, 2.0**45), "2 epochs of 9 batches, from a scale of 2**45 on"),
        Case((5, 12, 16, 3, 9, 2.0**44), "3 epochs of 9 batches, from a scale of 2**44 on"),
        Case((6, 8, 8, 4, 3, 2.0**20), "4 epochs of 3 batches, from a scale of 2**20 on"),
        Case((7, 8, 8, 3, 5, 2.0**18, (7,)), "3 epochs of 5 batches, the eighth batch overflows"),
        Case((8, 8, 8, 2, 6, 2.0**19, (1, 8)), "2 epochs of 6 batches, one overflows in each"),
    ]


@contextlib.contextmanager
def scales_that_grow_soon() -> Iterator[None]:
    """Within this context each new scaler grows after `GROWTH_INTERVAL` clean steps."""
    made = torch.amp.GradScaler.__init__

    def make(scaler: torch.amp.GradScaler, *args: Any, **options: Any) -> None:
        made(scaler, *args, **options)
        if scaler.is_enabled():
            scaler.set_growth_interval(GROWTH_INTERVAL)

    torch.amp.GradScaler.__init__ = make  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.amp.GradScaler.__init__ = made  # type: ignore[method-assign]


def use_by_epoch(train: Callable[..., Any]) -> Callable[..., Any]:
    def play(
        seed: int,
        width: int,
        size: int,
        epochs: int,
        count: int,
        init_scale: float,
        overflows: tuple[int, ...] = (),
        weight: float = SMALL,
    ) -> dict[str, Any]:
        run = Run(seed, width, weight=weight)
        all_ = batches(seed, count * epochs, size, overflows)
        parts = [all_[count * i : count * (i + 1)] for i in range(epochs)]
        with scales_that_grow_soon():
            scale = train(run.model, run.optimizer, run.loss_fn, parts, init_scale)
        left = run.left_behind()
        del left["scale at the end"]  # of the run's own scaler, which nobody was handed
        return {"scale returned": scale, **left}

    return play


# ---- validation: train(model, optimizer, scaler, loss_fn, epochs, validation) -------------------


def evaluation_cases() -> list[Case]:
    """After an overflow in the forward pass the statistics of batch norm are NaN for good."""
    return [
        Case((6, 8, 12, 2, 2.0**10), "2 epochs of 4 batches"),
        Case((7, 16, 20, 3, 4.0), "3 epochs of 4 batches, a scale of 4"),
        Case((8, 8, 10, 2, 2.0), "2 epochs of 4 batches, a scale of 2"),
        Case((9, 8, 12, 2, 2.0**24), "2 epochs of 4 batches, a scale of 2**24"),
        Case((10, 8, 12, 3, 2.0**23), "3 epochs of 4 batches, a scale of 2**23"),
        Case((11, 8, 12, 2, 2.0**10, (6,)), "2 epochs of 4 batches, the seventh overflows"),
        Case((12, 8, 12, 3, 2.0**10, (9,)), "3 epochs of 4 batches, the tenth overflows"),
        Case((13, 8, 12, 2, 2.0**16, (), SMALL), "2 epochs of 4 batches, a small loss"),
    ]


def use_with_validation(train: Callable[..., Any]) -> Callable[..., Any]:
    def play(
        seed: int,
        width: int,
        size: int,
        epochs: int,
        init_scale: float,
        overflows: tuple[int, ...] = (),
        weight: float = 1.0,
    ) -> dict[str, Any]:
        run = Run(seed, width, noisy=True, rate=0.3, weight=weight, init_scale=init_scale)
        all_ = batches(seed, 4 * epochs, size, overflows)
        validation = batches(seed + 30, 1, size + 5)[0]
        parts = [all_[4 * i : 4 * i + 4] for i in range(epochs)]
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
                trained.append(f"{mode}, {dtype(logits)}")
            else:
                evaluated.append(f"{mode}, {dtype(logits)}, {graph}")

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
            "running mean of batch norm": run.model[1].running_mean.clone(),
        }

    return play


# ---- micro-batches: train(model, optimizer, scaler, loss_fn, batches, every) --------------------


def accumulate_cases() -> list[Case]:
    return [
        Case((8, 8, 8, 8, (), 2), "8 small batches, 2 a step"),
        Case((16, 8, 6, 9, (), 3), "9 small batches, 3 a step"),
        Case((9, 12, 4, 12, (4,), 3), "12 small batches, 3 a step, the fifth overflows"),
        Case((10, 8, 6, 16, (0, 9), 4), "16 small batches, 4 a step, two overflow"),
        Case((14, 8, 8, 6, (2,), 2, LARGE), "6 small batches, 2 a step, gradients overflow"),
        Case((17, 8, 6, 9, (4,), 3, LARGE), "9 small batches, 3 a step, gradients overflow"),
    ]


def use_in_groups(train: Callable[..., Any]) -> Callable[..., Any]:
    def play(
        seed: int,
        width: int,
        size: int,
        count: int,
        overflows: tuple[int, ...],
        every: int,
        too_large: float = TOO_LARGE,
    ) -> dict[str, Any]:
        run = Run(seed, width)
        sizes: list[int] = []
        run.model.register_forward_hook(lambda *seen: sizes.append(len(seen[-1])))
        given = batches(seed, count, size, overflows, too_large)
        train(run.model, run.optimizer, run.scaler, run.loss_fn, given, every)
        return {"images in the largest batch": max(sizes, default=0), **run.left_behind()}

    return play


# ---- two models: train(models, optimizers, scaler, loss_fn, batches) ----------------------------


def two_cases() -> list[Case]:
    return [
        Case((11, 6, (), ()), "6 batches, none overflows"),
        Case((12, 9, (), (1, 4)), "9 batches, the second model overflows twice"),
        Case((13, 9, (2,), (5,)), "9 batches, each model overflows once"),
        Case((15, 8, (3,), (), LARGE), "8 batches, gradients of the first model overflow"),
        Case((19, 7, (1,), (), LARGE), "7 batches, gradients of the first model overflow"),
        Case((18, 8, (4,), ()), "8 batches, the first model overflows"),
    ]


def use_for_two(train: Callable[..., Any]) -> Callable[..., Any]:
    def play(
        seed: int,
        count: int,
        first: tuple[int, ...],
        second: tuple[int, ...],
        too_large: float = TOO_LARGE,
    ) -> dict[str, Any]:
        a, b = Run(seed, 8), Run(seed + 50, 12, rate=0.3)
        ones = batches(seed, count, 10, first, too_large)
        twos = batches(seed + 70, count, 10, second)
        given = [(x, z, y) for (x, y), (z, _) in zip(ones, twos, strict=True)]
        train((a.model, b.model), (a.optimizer, b.optimizer), a.scaler, a.loss_fn, given)
        # A guess may be computed again for the second loss, before the first model has stepped.
        seen = {"first": a.left_behind(every_forward=False), "second": b.left_behind()}
        del seen["second"]["scale at the end"]
        names = list(seen["first"])
        return {
            f"{name} ({which} model)" if name != "scale at the end" else name: parts[name]
            for name in names
            for which, parts in seen.items()
            if name in parts
        }

    return play


# ---- three precisions: train(model, optimizer, loss_fn, batches, precision, max_norm) -----------


def any_cases() -> list[Case]:
    """The losses of a small weight are not clipped: beside such gradients the 1e-6 that
    ``clip_grad_norm_`` adds would count."""
    return [
        Case(("fp32", 31, 1.0, (), 0.2), "fp32", "fp32"),
        Case(("fp32", 37, 1.0, (), 0.4), "fp32, a max_norm of 0.4", "fp32"),
        Case(("bf16", 32, 1.0, (), 0.2), "bf16", "bf16"),
        Case(("bf16", 35, SMALL, (), 1.0), "bf16, a loss with a small weight", "bf16"),
        Case(("fp16", 33, 1.0, (2,), 0.2), "fp16, the third batch overflows", "fp16"),
        Case(("fp16", 38, 1.0, (0, 4), 0.4), "fp16, two batches overflow", "fp16"),
        Case(("fp16", 36, 1.0, (1,), 0.2, LARGE), "fp16, gradients of the second overflow", "fp16"),
        Case(("fp16", 39, 1.0, (3,), 0.4, LARGE), "fp16, gradients of the fourth overflow", "fp16"),
        Case(("fp16", 34, SMALL, (), 1.0), "fp16, a loss with a small weight", "fp16"),
        Case(("fp16", 40, SMALL, (), 2.0), "fp16, another loss with a small weight", "fp16"),
    ]


def use_in_any(train: Callable[..., Any]) -> Callable[..., Any]:
    def play(
        precision: str,
        seed: int,
        weight: float,
        overflows: tuple[int, ...],
        max_norm: float,
        too_large: float = TOO_LARGE,
    ) -> dict[str, Any]:
        run = Run(seed, weight=weight)
        given: list[Batch] = batches(seed, 7, 10, overflows, too_large)
        scale = train(run.model, run.optimizer, run.loss_fn, given, precision, max_norm)
        left = run.left_behind()
        del left["scale at the end"]  # of the run's own scaler, which nobody was handed
        parameters = left.pop("parameters at the end")
        return {**left, "scale returned": scale, "parameters at the end": parameters}

    return play
