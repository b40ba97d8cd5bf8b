"""Training in FP16 with a loss scale that never moves, and what that does to the gradients.

`GradScaler` picks a scale, and skips a step that overflows. Here the scale is fixed and no step is
skipped, so that the harm of a wrong one can be seen. What is trained is one `SetUp`. To show
another network, write another and record it with `tools/record_loss_scale.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from amp_lessons.amp.scaling.loss_scale import ExponentHistogram, exponent_histogram
from amp_lessons.amp.training.loops import autoencoder, load_digits

EXPONENTS = (*(quarter / 4 for quarter in range(16)), *(float(whole) for whole in range(4, 41)))
"""log2 of each loss scale that is recorded: quarter steps up to 2^4, then whole ones up to 2^40."""


@dataclass(frozen=True)
class SetUp:
    """A network that paints its own inputs, and how it is trained.

    Attributes:
        model: makes the network, each time with the same initial weights.
        inputs: the batch, float32 of shape (n, height x width) with values from 0 to 1. It is the
            target too, and every step sees all of it.
        picture: height and width of one picture.
        shown: says which pictures of the batch the widget shows, by their places.
        divisor: the loss is the summed squared error divided by this.
        learning_rate, momentum: of SGD.
        steps: how many.
        snapshots: after how many steps the gradients and pictures are kept; ascending, from 0 to
            ``steps``.
    """

    model: Callable[[], nn.Module]
    inputs: Callable[[], Tensor]
    picture: tuple[int, int]
    shown: Callable[[], list[int]]
    divisor: float
    learning_rate: float
    momentum: float
    steps: int
    snapshots: tuple[int, ...]


def _one_of_each(labels: list[int]) -> list[int]:
    return [labels.index(label) for label in sorted(set(labels))]


DIGITS = SetUp(
    model=autoencoder,
    inputs=lambda: load_digits().train_images[:600],
    picture=(8, 8),
    shown=lambda: _one_of_each(load_digits().train_labels[:600].tolist()),
    divisor=100_000_000,
    learning_rate=100_000_000 / (600 * 64),
    momentum=0.9,
    steps=150,
    snapshots=(0, 10, 50, 150),
)
"""Lesson 00: 600 digits, whose loss is divided as if they were photographs of one megapixel."""


SHOWN = DIGITS
"""What the loss scale lab shows: recorded by the tool, and trained again in a learner's kernel."""


@dataclass(frozen=True)
class Group:
    """What FP16 makes of some gradients. Those that are 0 in FP32 too are left out.

    Attributes:
        exact: by binary exponent in FP32, without the loss scale.
        found: the same in FP16, divided by the loss scale. Zeros and inf have no exponent.
        total: how many there are.
        largest: the magnitude of the largest one in FP32.
        zero: how many became 0.
        inf: how many became inf.
    """

    exact: ExponentHistogram
    found: ExponentHistogram
    total: int
    largest: float
    zero: int
    inf: int


@dataclass(frozen=True)
class Snapshot:
    """The gradients and pictures after some steps.

    Attributes:
        between: gradients of the loss with respect to what each layer with weights puts out.
        weights: gradients with respect to the parameters.
        pictures: float32 of shape (shown, height, width).
    """

    between: Group
    weights: Group
    pictures: Tensor


def train(
    setup: SetUp, scale: float = 1.0, *, fp16: bool = True
) -> Iterator[tuple[float, Snapshot | None]]:
    """Train on the CPU, step by step.

    Args:
        setup: what.
        scale: the loss is multiplied by this before the backward pass, and each gradient divided
            by it after.
        fp16: inside FP16 autocast; otherwise all in FP32.

    Yields:
        After 0, 1, ... ``setup.steps`` steps: the error per number of the batch, and a `Snapshot`
        if one is due. There is none once a gradient is NaN.
    """
    inputs, model = setup.inputs(), setup.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=setup.learning_rate, momentum=setup.momentum)
    for step in range(setup.steps + 1):
        outputs = _Outputs(model) if step in setup.snapshots else None
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16, enabled=fp16):
            painted = model(inputs)
            error = mse_loss(painted, inputs, reduction="sum")
            loss = error / setup.divisor
        (loss * scale).backward()
        snapshot = None
        if outputs is not None:
            between, weights = outputs.gradients(), _parameter_gradients(model)
            snapshot = _snapshot(setup, model, inputs, (between, weights), painted, scale)
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad /= scale
        optimizer.step()
        yield error.item() / inputs.numel(), snapshot


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread: sums come in one order, and products this small are faster so."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Outputs:
    """Keeps what the layers with weights put out during one forward pass."""

    def __init__(self, model: nn.Module) -> None:
        self._kept: list[Tensor] = []
        layers = [m for m in model.modules() if isinstance(getattr(m, "weight", None), Tensor)]
        self._hooks = [layer.register_forward_hook(self._keep) for layer in layers]

    def _keep(self, _: nn.Module, __: tuple[Tensor, ...], output: Tensor) -> None:
        output.retain_grad()
        self._kept.append(output)

    def gradients(self) -> Tensor:
        """Of all of them, flat; the hooks are gone after that."""
        for hook in self._hooks:
            hook.remove()
        return torch.cat([out.grad.flatten().float() for out in self._kept if out.grad is not None])


def _parameter_gradients(model: nn.Module) -> Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def _snapshot(
    setup: SetUp,
    model: nn.Module,
    inputs: Tensor,
    found: tuple[Tensor, Tensor],
    painted: Tensor,
    scale: float,
) -> Snapshot | None:
    """Set what was found beside the exact gradients, at these same weights."""
    if any(gradients.isnan().any() for gradients in found):
        return None
    kept = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    outputs = _Outputs(model)
    (mse_loss(model(inputs), inputs, reduction="sum") / setup.divisor).backward()
    exact = outputs.gradients(), _parameter_gradients(model)
    for parameter, gradient in zip(model.parameters(), kept, strict=True):
        parameter.grad = gradient
    between, weights = (_group(*pair, scale) for pair in zip(exact, found, strict=True))
    pictures = painted[setup.shown()].detach().float().reshape(-1, *setup.picture)
    return Snapshot(between, weights, pictures)


def _group(exact: Tensor, found: Tensor, scale: float) -> Group:
    alive = exact != 0
    exact, found = exact[alive], found[alive]
    kept = found[(found != 0) & found.isfinite()].double() / scale
    zero, inf = int((found == 0).sum()), int(found.isinf().sum())
    histograms = exponent_histogram(exact), exponent_histogram(kept)
    return Group(*histograms, exact.numel(), exact.abs().max().item(), zero, inf)
