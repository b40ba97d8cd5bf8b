"""Gradients to choose a scale for, a linear classifier with its loss, and runs to examine.

`harness_training` holds what the optimizer and the scaler of these exercises are handed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.probe import Case, Hidden
from amp_lessons.exercises.harness import as_play, from_seed, in_plain, name_of
from amp_lessons.exercises.varied import Varied
from amp_lessons.exercises.checks.serialize import plain

# ---- gradients to choose a scale for ------------------------------------------------------------

ABOVE, BELOW = "gradients that need a scale above 1", "gradients that need a scale below 1"


def gradient_cases() -> list[Case]:
    """Gradients with their largest in the first layer, in the last, negative, just below a power
    of two, and where FP16 rounds down to its largest number; some need a scale below 1. With a salt
    they are smaller by powers of two, and only the largest one isn't changed besides."""
    vary, random = Varied(33), from_seed(33)

    def case(label: str, headroom: int, *layers: Any, kind: str = ABOVE) -> Case:
        down = 0 if kind == BELOW else vary.more(0, 4)
        named = {}
        for i, layer in enumerate(layers):
            named[f"layer{i}"] = tensor = torch.as_tensor(layer) * 2.0**-down
            rest = tensor.abs() < max(torch.as_tensor(t).abs().max() for t in layers) * 2.0**-down
            tensor[rest] *= vary.near(1.0, 0.05)
        label = f"{label} (times 2**-{down})" if down else label
        return Case((named, headroom), f"{label}, headroom {headroom}", kind)

    spread = 2.0 ** (torch.randn(40, generator=random) * 4 - 20)
    signs = torch.sign(torch.randn(40, generator=random))
    weight, bias = (torch.randn(size, generator=random) for size in ((4, 3), (3,)))
    just_below = 2.0**-3 - 2.0**-26
    large = [vary.near(number, 0.2) for number in (3e4, 5e5, -2e6)]

    return [
        case("largest 0.001", 3, [1e-3, -2e-5], [3e-7]),
        case("largest 0.001", 0, [1e-3, -2e-5], [3e-7]),
        case("largest -0.0005", 2, [2e-6, -5e-4], [3e-6]),
        case("with zeros, largest 0.004", 4, [0.0, 1e-6], [4e-3, -1e-8, 0.0]),
        case("41 random gradients", 5, spread * signs, [1e-9]),
        case("two layers", 2, weight * 1e-3, bias * 0.3),
        case("largest exactly 2**-10", 0, [2.0**-10, 3e-6]),
        case("largest just below 2**-3", 0, [just_below, 1e-4]),
        case("largest just below 2**-3", 6, [just_below, 1e-4]),
        case("largest 65512 * 2**-20", 0, [65512 * 2.0**-20, 1e-5]),
        case("largest -65510 * 2**-30", 4, [1e-6], [-65510 * 2.0**-30]),
        case("largest 65520 * 2**-20", 0, [65520 * 2.0**-20, 1e-5]),
        case("largest -65520 * 2**-30", 4, [1e-6], [-65520 * 2.0**-30]),
        case("70 gradients of about 0.001", 1, [1e-3] * 40, [-9e-4] * 30),
        case("300 gradients of about 0.01", 3, [2e-2], [-1e-2] * 300),
        case(f"largest {large[0]:.0f}", 2, [large[0], -1.0], kind=BELOW),
        case(f"largest {large[1]:.0f}", 3, [large[1], -2.0], [7e4], kind=BELOW),
        case(f"largest {large[2]:.0f}", 1, [5e3, large[2]], [7e4, 1.0], kind=BELOW),
    ]


# ---- a linear classifier and its loss -----------------------------------------------------------


def loss_cases() -> list[Case]:
    """Batches of several sizes and shapes, with small and with large losses. With a salt also one
    with large biases."""
    vary, random = Varied(34), from_seed(34)

    def case(rows: int, inputs: int, classes: int, size: float, label: str, *shift: float) -> Case:
        images = torch.randn(rows, inputs, generator=random)
        weight = size * torch.randn(classes, inputs, generator=random) / math.sqrt(inputs)
        bias = torch.randn(classes, generator=random) / 2 + torch.tensor(shift or 0.0)
        labels = torch.randint(classes, (rows,), generator=random)
        return Case((images, weight, bias, labels), label)

    return [
        case(5, 3, 4, 1.0, "5 images, 4 classes"),
        case(37, 16, 10, 2.0, "37 images, 10 classes"),
        case(64, 24, 3, 0.1, "64 images, 3 classes, small weights"),
        case(500, 8, 5, 40.0, "500 images, 5 classes, large losses"),
        case(90, 6, 3, 60.0, "90 images, 3 classes, large losses"),
        *(case(60, 6, 3, 1.0, "60 images, 3 classes, biases of about 95 and 60", 95, 60, 60)
          for _ in vary.extra(1)),
    ]  # fmt: skip


@as_play
def forward_and_back(
    mixed_loss: Any, images: Tensor, weight: Tensor, bias: Tensor, labels: Tensor
) -> Any:
    """How a loss is used: it is called on FP32 parameters, and the backward pass follows."""
    given = [weight, bias]
    weight, bias = parameters = [t.clone().requires_grad_() for t in given]
    loss = mixed_loss(images, weight, bias, labels)
    if type(loss) is not Tensor:
        return loss
    early = any(p.grad is not None for p in parameters)
    left = [_left_as(p, was) for p, was in zip(parameters, given, strict=True)]
    if loss.requires_grad and loss.numel() == 1 and not early:
        loss.backward()
    return {
        "weight after the call": left[0],
        "bias after the call": left[1],
        "gradients before backward()": "there already" if early else "none",
        "loss": loss.detach(),
        "gradient of weight": weight.grad,
        "gradient of bias": bias.grad,
    }


def _left_as(parameter: Tensor, was: Tensor) -> str:
    if parameter.dtype != was.dtype:
        return name_of(parameter.dtype)
    if torch.equal(parameter.detach(), was):
        return "as before"
    rounded = torch.equal(parameter.detach(), was.half().float())
    return "rounded to float16" if rounded else "changed"


# ---- runs to examine ----------------------------------------------------------------------------

INGREDIENTS = ("loss scaling", "master weights", "wide accumulation", "nothing")
_SCALE = 2.0**10


@dataclass(frozen=True)
class Outcome:
    """What a training run shows.

    Attributes:
        loss: the mean loss of the last step, as the run computed it, without `loss_factor`.
        gradient: float32, shape (inputs,), of the last step, unscaled, as the update used it.
        before: float16, shape (inputs,): the weights that the first step computed with.
        after: float16, shape (inputs,): the weights that another step would compute with.
    """

    loss: float
    gradient: Tensor
    before: Tensor
    after: Tensor


@dataclass(frozen=True)
class SquaredErrorRun(Hidden):
    """A training run in FP16, of a model with one weight for each input and the squared error.

    Call it as often as you like. Each call begins with the same weights and the same 8 examples.

    Args of the call:
        steps: how many steps of SGD, 1 to 2000.
        lr: the learning rate.
        loss_factor: the loss is multiplied by it before anything else.
        repeats: how often the 8 examples stand in the batch, 1 to 5000.
    """

    _seed: int
    _scale: float
    _kept: type[np.floating[Any]]
    _wide: bool
    _dead_input: bool = False

    def __repr__(self) -> str:
        return "<a training run>"

    def __call__(
        self, steps: int = 1, lr: float = 2.0**-3, loss_factor: float = 1.0, repeats: int = 1
    ) -> Outcome:
        if not 1 <= steps <= 2000 or not 1 <= repeats <= 5000:
            raise ValueError("steps must be 1 to 2000 and repeats 1 to 5000")
        loss, *arrays = _trained(self, int(steps), float(lr), float(loss_factor), int(repeats))
        return Outcome(loss, *(torch.from_numpy(array.copy()) for array in arrays))

    def forget(self) -> None:
        _trained.cache_clear()

    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Inputs (8, 6), first weights (6,) and targets (8,), float32."""
        random = np.random.default_rng(draws.seed(self._seed, before=True))
        x = random.uniform(0.5, 1.5, (8, 6)) * random.choice((-1.0, 1.0), (8, 6))
        if self._dead_input:
            x[:, 2] = 0.0
        weights = random.uniform(1.0, 2.0, 6) * random.choice((-1.0, 1.0), 6)
        x, weights = (a.astype(np.float16).astype(np.float32) for a in (x, weights))
        error = random.uniform(1.2, 1.9, 8) * random.choice((-1.0, 1.0), 8)
        return x, weights, (x @ weights + error).astype(np.float32)

    def mean(self, values: np.ndarray, repeats: int) -> np.ndarray:
        """The mean over the batch: by a running sum in FP16 where wide accumulation is missing."""
        batch = np.concatenate([values] * repeats)
        if self._wide:
            total = batch.sum(axis=0, dtype=np.float32)
        else:
            total = np.add.accumulate(batch, axis=0)[-1].astype(np.float32)
        return total / np.float32(len(batch))


def run_without(missing: str, seed: int, dead_input: bool = False) -> SquaredErrorRun:
    """A run that lacks one of the ingredients, or nothing."""
    scale = 1.0 if missing == "loss scaling" else _SCALE
    kept = np.float16 if missing == "master weights" else np.float32
    return SquaredErrorRun(seed, scale, kept, missing != "wide accumulation", dead_input)


@lru_cache(maxsize=2048)  # each wrong answer that we know asks most of what the right one asks
def _trained(
    run: SquaredErrorRun, steps: int, lr: float, loss_factor: float, repeats: int
) -> tuple[Any, ...]:
    """The fields of the outcome."""
    x, weights, targets = run.data()
    weights = weights.astype(run._kept)
    before = weights.astype(np.float16)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(steps):
            copies = weights.astype(np.float16).astype(np.float32)
            error = (x @ copies - targets).astype(np.float16).astype(np.float32)
            signal = np.float32(2 * loss_factor * run._scale) * error
            parts = (signal.astype(np.float16)[:, None] * x).astype(np.float16)
            gradient = run.mean(parts, repeats) / np.float32(run._scale)
            weights = (weights - np.float32(lr) * gradient).astype(run._kept)
        loss = run.mean((error * error).astype(np.float16), repeats)
    return float(loss), gradient, before, weights.astype(np.float16)


def practice_runs() -> dict[str, SquaredErrorRun]:
    """A run for each missing ingredient, and one that lacks nothing, by what is missing."""
    return {missing: run_without(missing, 7 + i) for i, missing in enumerate(INGREDIENTS)}


def _drawn(which: int, seed: int) -> SquaredErrorRun:
    """A run with the data of this seed; with a salt, of the first of many that are as clear.

    Only an input that is always zero has a gradient close to zero. At 109 and 127, 64 examples are
    too few to make a sum overflow; from 200 on an input is always zero.
    """
    for number in itertools.count(seed, 1000):
        run = run_without(INGREDIENTS[which], number, dead_input=seed >= 200)
        gradient = run().gradient
        clear = gradient[gradient != 0].abs().min() > 0.1
        if seed in (109, 127):
            clear &= run(repeats=8).gradient.isfinite().all()
        if clear or not draws.salted():
            return run
    raise AssertionError("a count never ends")


def run_cases() -> list[Case]:
    """Runs of each sort, some with an input that is always zero: its weight has no gradient."""
    order = (0, 3, 1, 3, 2, 3, 1, 0, 2, 1, 0, 2, 3)
    seeds = (100, 101, 102, 200, 109, 104, 105, 106, 127, 201, 202, 203, 204)
    cases = []
    in_order = Varied(35, before=True).mixed(list(zip(order, seeds, strict=True)))
    for number, (which, seed) in enumerate(in_order, 1):
        run = _drawn(which, seed)
        dead = ", with an input that is always zero," if run._dead_input else ""
        cases.append(Case((run,), f"run {number}{dead}", f"runs that lack {INGREDIENTS[which]}"))
    return cases


@as_play
def examining(missing_ingredient: Any, run: SquaredErrorRun) -> Any:
    """How a function is used that examines runs: it gets something to call, and no run."""
    calls = []

    @lru_cache(maxsize=0)  # an object made in C: unlike a closure, it can't be read
    def closed(*args: Any, **kwargs: Any) -> Outcome:
        if args or kwargs:  # with the defaults every run looks healthy
            calls.append(1)
        return run(*args, **kwargs)

    del closed.__wrapped__
    answer = missing_ingredient(closed)
    said = plain(answer)
    if not isinstance(said, str):
        return answer
    return {"answer": in_plain(said.replace("_", " ")), "calls": len(calls)}
