"""A whole training step, timed in each precision that this machine has: the bench for a notebook.

`time_training` measures your model, or the recipe's network, by the method of `bench`. `step_table`
prints one line a mode, and a mode that the machine can't do says why. For records and pictures use
the command ``amp-lessons bench``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Optimizer

from amp_lessons.amp.speed import bench
from amp_lessons.amp.speed.bench import modes as precisions
from amp_lessons.amp.speed.bench.report import A_CPU, STEADY
from amp_lessons.core.sizes import size

MODES = ("fp32", "tf32", "fp16", "bf16")


def sgd(parameters: Iterable[nn.Parameter]) -> Optimizer:
    """Plain SGD at a learning rate of 0.05."""
    return SGD(parameters, lr=0.05)


@dataclass(frozen=True)
class StepRow:
    """One mode of a report.

    Attributes:
        mode: "FP32", "TF32", "AMP FP16" or "AMP BF16".
        milliseconds: of a step, the median; None if the mode was not measured.
        spread: interquartile range divided by the median.
        speedup: FP32's median divided by this one.
        share: of the rate that a large matmul reached here in this precision, 0 to 1.
        peak_bytes: the most memory allocated at once, without the batches; None on a CPU.
        last_loss: of the training run; None if it was not finite.
        note: why the mode was not measured, or what to know about its figures.
    """

    mode: str
    milliseconds: float | None = None
    spread: float | None = None
    speedup: float | None = None
    share: float | None = None
    peak_bytes: int | None = None
    last_loss: float | None = None
    note: str = ""


def time_training(
    make_model: Callable[[], nn.Module] | None = None,
    make_batch: Callable[[], tuple[Tensor, Tensor]] | None = None,
    *,
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer] = sgd,
    modes: Sequence[str] = MODES,
    device: str | None = None,
    batches: int = 8,
    repeats: int | None = None,
) -> bench.BenchReport:
    """Train in each mode for the losses and the memory, then let the modes take turns on the clock.

    Each step is forward, loss, backward and optimizer step. The 16-bit modes run under autocast,
    and FP16 with a `GradScaler`. All modes start from the same weights and see the same batches.

    Args:
        make_model: builds your model on the default device. Without one, it is the network of
            PyTorch's AMP recipe: 4096 wide on CUDA, 64 wide on a CPU.
        make_batch: makes an input and a target on the default device.
        loss: of the output and the target.
        optimizer: of the parameters.
        modes: keys of `bench.MODES`.
        device: "cuda" or "cpu"; by default CUDA if there is a GPU.
        batches: made beforehand; the time is that of a step, not of loading data.
        repeats: samples of each mode, 2 or more; by default 15 on CUDA, 5 on a CPU.

    Raises:
        BenchError: for a model without a batch, an unknown mode, or too little memory.
    """
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if (make_model is None) != (make_batch is None):
        raise bench.BenchError("time_training needs both a model and a batch, or neither")
    if make_model is None or make_batch is None:
        shape = (4096, 4096) if where.type == "cuda" else (64, 64)
        workload = bench.mlp(*shape, batches=batches)
    else:
        widest = _widest(make_model)
        workload = bench.Workload(
            make_model.__name__, make_model, make_batch, loss, optimizer, widest, batches
        )
    repeats = repeats or (15 if where.type == "cuda" else 5)
    return bench.run([workload], precisions.chosen(list(modes)), where, repeats=repeats)


def _widest(make_model: Callable[[], nn.Module]) -> int:
    """The longest side of a weight: what a CPU without native float16 can't multiply in time."""
    with torch.device("meta"):
        return max((max(p.shape, default=1) for p in make_model().parameters()), default=1)


def step_rows(report: bench.BenchReport) -> list[StepRow]:
    """A row a mode, in the order of `bench.MODES`, those that were not measured included."""
    measured = {row.mode: row for row in report.read()}
    reasons = {note["mode"]: note["reason"] for note in report.not_measured}
    base = measured["FP32"].median_s if "FP32" in measured else None
    rows = []
    for mode in bench.MODES:
        if mode.name in reasons:
            rows.append(StepRow(mode.name, note=f"not measured: {reasons[mode.name]}"))
        if mode.name not in measured:
            continue
        row = measured[mode.name]
        spread = row.spread or 0.0
        unsteady = spread > STEADY or not row.details["settled"]
        notes = [row.departs or "", "unsteady: run it again" if unsteady else ""]
        rows.append(
            StepRow(
                mode.name,
                1e3 * row.median_s,
                spread,
                base / row.median_s if base else None,
                row.share,
                row.step_peak_bytes,
                row.losses[-1],
                "; ".join(filter(None, notes)),
            )
        )
    return rows


def step_table(report: bench.BenchReport) -> str:
    """The rows as text: one line a mode, and below them where and how it was measured."""
    lines = [
        f"{'mode':10} {'ms a step':>10} {'spread':>7} {'x FP32':>7} {'of peak':>8} "
        f"{'memory':>10} {'last loss':>10}"
    ]
    for row in step_rows(report):
        if row.milliseconds is None:
            lines.append(f"{row.mode:10} {row.note}")
            continue
        loss = "not finite" if row.last_loss is None else f"{row.last_loss:.4f}"
        memory = "not here" if row.peak_bytes is None else size(row.peak_bytes)
        cells = (
            f"{row.mode:10} {row.milliseconds:10.3f} {row.spread:7.1%} "
            f"{_or_blank(row.speedup, '.2f'):>7} {_or_blank(row.share, '.0%'):>8} "
            f"{memory:>10} {loss:>10}"
        )
        lines.append(f"{cells}  {row.note}".rstrip())
    place = report.host["gpu"] or f"{report.host['machine']['cpu']}, a CPU"
    lines.append(f"measured on {place}, torch {report.host['torch']}, by {report.clock}")
    if report.stopped:
        lines.append(f"ended early: {report.stopped}")
    return "\n".join(lines if report.host["gpu"] else [*lines, A_CPU])


def _or_blank(number: float | None, spec: str) -> str:
    return "" if number is None else format(number, spec)
