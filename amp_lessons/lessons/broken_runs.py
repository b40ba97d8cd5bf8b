"""Four runs of the digit painter, each with one mistake that raises no error, and a healthy one.

The clinic shows their curves first and their code later. All of them train the same network on the
same pictures, from the same weights. Only the training loop differs, or the pixels that it gets.
"""

from __future__ import annotations

import difflib
import inspect
import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from amp_lessons.amp.scaling.scaler_log import ScalerLog, ScalerRecord
from amp_lessons.amp.training.loops import autoencoder, load_digits

STEPS = 150
BIG = 100_000_000
"""The loss is divided by so many pixels, as if the pictures were large: see lesson 00."""
MAX_NORM = 0.001
"""Far above the true norm of the gradients, so that clipping should change nothing."""


@dataclass(frozen=True)
class PatientRun:
    """What one run came to.

    Attributes:
        errors: squared error per pixel, one for each step: the loss of the lesson.
        records: what the scaler did at each `update()`; empty if it was never called.
        scale: the loss scale at the end.
    """

    errors: list[float]
    records: list[ScalerRecord]
    scale: float

    @property
    def skipped(self) -> int:
        """How many steps the scaler skipped."""
        return sum(record.skipped for record in self.records)

    def __str__(self) -> str:
        first = ", ".join(map(_short, self.errors[:3]))
        scale = f"{self.scale:,.0f}" if self.scale > 1 else f"{self.scale:.0e}"
        return (
            f"loss {first} … {_short(self.errors[-1])}; "
            f"{self.skipped} of {len(self.errors)} steps skipped; scale {scale}"
        )


def _short(error: float) -> str:
    """Three significant digits; two of a large number, with commas."""
    return f"{float(f'{error:.2g}'):,.0f}" if 1000 < error < math.inf else f"{error:.3g}"


def fp16_region(pictures: Tensor) -> torch.autocast:
    """FP16 autocast on the device of the pictures."""
    return torch.autocast(pictures.device.type, dtype=torch.float16)


def squared_error(model: nn.Module, pictures: Tensor) -> Tensor:
    """The sum of the squared errors of the painted pixels, computed under FP16 autocast."""
    with fp16_region(pictures):
        return mse_loss(model(pictures), pictures, reduction="sum")


# ---- the loops, each as its owner wrote it ------------------------------------------------------


def healthy(model, optimizer, scaler, pictures):
    errors = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with fp16_region(pictures):
            error = mse_loss(model(pictures), pictures, reduction="sum")
        scaler.scale(error / BIG).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        scaler.step(optimizer)
        scaler.update()
        errors.append(error.item() / pictures.numel())
    return errors


def run_a(model, optimizer, scaler, pictures):
    errors = []
    with fp16_region(pictures):
        for _ in range(STEPS):
            optimizer.zero_grad()
            error = mse_loss(model(pictures), pictures, reduction="sum")
            scaler.scale(error / BIG).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
            scaler.step(optimizer)
            scaler.update()
            errors.append(error.item() / pictures.numel())
    return errors


def run_b(model, optimizer, scaler, pictures):
    errors = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with fp16_region(pictures):
            error = mse_loss(model(65_535 * pictures), pictures, reduction="sum")
        scaler.scale(error / BIG).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        scaler.step(optimizer)
        scaler.update()
        errors.append(error.item() / pictures.numel())
    return errors


def run_c(model, optimizer, scaler, pictures):
    errors = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with fp16_region(pictures):
            error = mse_loss(model(pictures), pictures, reduction="sum")
        scaler.scale(error / BIG).backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        scaler.step(optimizer)
        scaler.update()
        errors.append(error.item() / pictures.numel())
    return errors


def run_d(model, optimizer, scaler, pictures):
    errors = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with fp16_region(pictures):
            error = mse_loss(model(pictures), pictures, reduction="sum")
        scaler.scale(error / BIG).backward()
        optimizer.step()
        errors.append(error.item() / pictures.numel())
    return errors


# ---- what the lesson calls ----------------------------------------------------------------------


def examine(loop: Callable[..., list[float]], device: str = "cpu") -> PatientRun:
    """Train a new digit painter with one of the loops, 150 steps on 600 pictures.

    Args:
        loop: `healthy` or one of `run_a` to `run_d`.
        device: where.
    """
    pictures = load_digits().train_images[:600].to(device)
    model = autoencoder().to(device)
    rate = BIG / pictures.numel()  # with exact numbers, as if nothing had been divided
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    scaler = ScalerLog(torch.amp.GradScaler(device))
    return PatientRun(loop(model, optimizer, scaler, pictures), scaler.records, scaler.get_scale())


def compared(loop: Callable[..., list[float]]) -> str:
    """A loop beside the healthy one: ``-`` is only in the loop, ``+`` only in the healthy one."""
    ours, good = (
        textwrap.dedent("".join(inspect.getsourcelines(each)[0][2:-1])).splitlines()
        for each in (loop, healthy)
    )
    bare = [[line.strip() for line in lines] for lines in (ours, good)]
    matcher = difflib.SequenceMatcher(None, bare[0], bare[1])
    lines = []
    for group in matcher.get_grouped_opcodes(n=1):
        for tag, i, j, k, m in group:
            if tag == "equal":
                lines += [f"  {line}" for line in ours[i:j]]
            else:
                lines += [f"- {line}" for line in ours[i:j]] + [f"+ {line}" for line in good[k:m]]
    return "\n".join(lines)
