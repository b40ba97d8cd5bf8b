"""Training runs in pure Python, small and exact enough that a fault shows in their logs.

The model is one linear layer with a squared error, trained as autocast and GradScaler would: the
product and the gradients are rounded to 16 bits, the weights are FP32, and the scale follows the
overflows. A fault is a setting here, and the log is what comes out. The tests hold a run without
a fault against torch itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from amp_lessons.quiz.generators.floats import FP16, FP32, Float
from amp_lessons.quiz.generators.formatting import short


@dataclass(frozen=True)
class SimulatedRun:
    """What is trained, and how.

    Attributes:
        inputs: a row for each sample.
        targets: one for each sample.
        weights: to start with.
        lr: learning rate of plain SGD.
        fmt: what autocast computes in.
        scale: to start with; None for a run without GradScaler.
        growth_interval: clean steps in a row that double the scale.
        max_norm: to which gradients are clipped.
        copies: how often each sample counts: it makes the gradient of each output so much smaller,
            as in a loss that is a mean over many pixels.
        weight_fmt: what the weights are stored in.
        relu: whether a ReLU follows the layer.
        clip_early: clip before the gradients are unscaled.
        stale: multiply with the casts of the first weights, as in a region around the whole loop.
        keep_grads: never clear the gradients.
        bad_step: the step whose first input is inf.
    """

    inputs: tuple[tuple[float, ...], ...]
    targets: tuple[float, ...]
    weights: tuple[float, ...]
    lr: float
    fmt: Float = FP16
    scale: float | None = 65536.0
    growth_interval: int = 2000
    max_norm: float = math.inf
    copies: int = 1
    weight_fmt: Float = FP32
    relu: bool = False
    clip_early: bool = False
    stale: bool = False
    keep_grads: bool = False
    bad_step: int = -1

    def change(self, **settings: object) -> SimulatedRun:
        """The same run with other settings."""
        return replace(self, **settings)  # type: ignore[arg-type]


@dataclass(frozen=True)
class LogRow:
    """One line of a log: what was printed after a step."""

    step: int
    loss: float
    scale: float
    norm: float
    skipped: bool


def train(run: SimulatedRun, steps: int, every: int = 1) -> list[LogRow]:
    """The rows of a log, every so many steps."""
    weights = [run.weight_fmt.round(weight) for weight in run.weights]
    casts = [run.fmt.round(weight) for weight in weights]
    inputs = [[run.fmt.round(value) for value in row] for row in run.inputs]
    kept = [0.0] * len(weights)
    scale, clean, rows = run.scale or 1.0, 0, []
    for step in range(steps):
        if not run.stale:
            casts = [run.fmt.round(weight) for weight in weights]
        loss, grads = _backward(run, inputs, casts, scale, bad=step == run.bad_step)
        if run.keep_grads:
            grads = [old + new for old, new in zip(kept, grads, strict=True)]
        if run.clip_early:
            norm, grads = _clip(grads, run.max_norm)
            grads = [grad / scale for grad in grads]
        else:
            grads = [grad / scale for grad in grads]
            norm, grads = _clip(grads, run.max_norm)
        kept = grads
        overflow = run.scale is not None and not all(map(math.isfinite, grads))
        if not overflow:
            weights = [
                run.weight_fmt.round(weight - run.lr * grad)
                for weight, grad in zip(weights, grads, strict=True)
            ]
        if run.scale is not None:
            clean = 0 if overflow else clean + 1
            scale = scale / 2 if overflow else scale
            if clean == run.growth_interval:
                scale, clean = 2 * scale, 0
        if step % every == 0:
            rows.append(LogRow(step, loss, scale, norm, overflow))
    return rows


def _backward(
    run: SimulatedRun,
    inputs: Sequence[Sequence[float]],
    casts: Sequence[float],
    scale: float,
    *,
    bad: bool,
) -> tuple[float, list[float]]:
    """The loss, and the gradients of the scaled loss."""
    many = len(run.inputs) * run.copies
    loss, grads = 0.0, [0.0] * len(casts)
    for place, (values, target) in enumerate(zip(inputs, run.targets, strict=True)):
        if bad and place == 0:
            values = [math.inf, *values[1:]]
        output = run.fmt.round(sum(v * cast for v, cast in zip(values, casts, strict=True)))
        active = not run.relu or output > 0
        output = output if active else 0.0
        error = output - target
        loss += error * error / len(run.inputs)
        outgoing = run.fmt.round(2 * error / many * scale) if active else 0.0
        grads = [grad + outgoing * v for grad, v in zip(grads, values, strict=True)]
    return loss, [run.fmt.round(run.copies * grad) for grad in grads]


def _clip(grads: list[float], max_norm: float) -> tuple[float, list[float]]:
    """The norm, and the gradients made smaller if it is too large, as `clip_grad_norm_` does."""
    norm = math.sqrt(sum(grad * grad for grad in grads))
    factor = min(1.0, max_norm / (norm + 1e-6))
    return norm, [grad * factor for grad in grads]


def curvature(inputs: Sequence[Sequence[float]]) -> float:
    """The largest curvature of the loss: plain SGD diverges from a rate of 2 divided by it on."""
    vector = [1.0] * len(inputs[0])
    size = 0.0
    for _ in range(50):
        products = [sum(a * b for a, b in zip(row, vector, strict=True)) for row in inputs]
        vector = [
            2 / len(inputs) * sum(row[i] * p for row, p in zip(inputs, products, strict=True))
            for i in range(len(vector))
        ]
        size = math.sqrt(sum(v * v for v in vector))
        vector = [v / size for v in vector]
    return size


def text(rows: Sequence[LogRow]) -> str:
    """The log as the loop prints it."""
    lines = [f"{'step':>5}  {'loss':>10}  {'scale':>9}  {'grad norm':>10}"]
    for row in rows:
        loss, scale, norm = loss_text(row.loss), scale_text(row.scale), norm_text(row.norm)
        lines.append(f"{row.step:>5}  {loss:>10}  {scale:>9}  {norm:>10}")
    return "\n".join(lines)


def scale_text(scale: float) -> str:
    return f"{scale:.0f}" if scale >= 1 else f"{scale:g}"


def loss_text(loss: float) -> str:
    return f"{loss:.4f}" if not math.isfinite(loss) or loss < 1e6 else short(f"{loss:.4e}")


def norm_text(norm: float) -> str:
    if norm == 0:
        return "0.0"
    return f"{norm:.1f}" if norm >= 1000 and math.isfinite(norm) else f"{norm:.4f}"
