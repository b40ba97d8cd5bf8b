"""Watching a training loop with real values: what breaks, where, and what FP16 would make of it.

Begin with `amp_lessons.monitor(model, scaler)`. `watching` holds the monitor, `report` what it
tells; the rest is how it finds out.
"""

from __future__ import annotations

import torch
from torch import nn

from amp_lessons.amp.monitor.arguments import MonitorError
from amp_lessons.amp.monitor.diagnosis import Advice
from amp_lessons.amp.monitor.findings import Fault, Sample, Seen, Skip
from amp_lessons.amp.monitor.watching import Monitor
from amp_lessons.amp.numbers.formats import Format
from amp_lessons.amp.scaling.scaler_log import ScalerLog

__all__ = ["Advice", "Fault", "Monitor", "MonitorError", "Sample", "Seen", "Skip", "monitor"]


def monitor(
    model: nn.Module,
    scaler: torch.amp.GradScaler | ScalerLog | None = None,
    *,
    every: int = 50,
    format: str | torch.dtype | Format = "float16",
    reruns: int = 5,
    loss: bool = True,
) -> Monitor:
    """Watch a training loop: what underflows and overflows, and which line made inf or NaN.

    Use it as a context, ``with amp_lessons.monitor(model, scaler) as seen:``, or keep what it
    returns and call its ``close()``. Then ``print(seen)``, ``seen.live()`` or ``seen.to_json()``.

    Args:
        model: the `torch.nn.Module` that trains.
        scaler: its `torch.amp.GradScaler` or `ScalerLog`, or None.
        every: one step in so many is sampled: all its activations and gradients are counted.
        format: the format to judge them by, as for `formats.get_format`. It doesn't have to be
            the one that the model trains in.
        reruns: how many bad steps are run once more, to find the op and the line. 0 for none.
        loss: also note the ops between the model's output and ``backward()``.

    Returns:
        A `Monitor`, which is already watching.

    Raises:
        MonitorError: if something else watches the model, or it can't be watched.
        ValueError: if there is no such format.
    """
    return Monitor(model, scaler, every=every, format=format, reruns=reruns, loss=loss)
