"""What `amp_lessons.monitor` is given, checked: each refusal is one line with its cure."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from amp_lessons.amp.scaling.scaler_log import ScalerLog
from amp_lessons.core.errors import AmpLessonsError


class MonitorError(AmpLessonsError, ValueError):
    """The monitor can't watch this model, or not in this way."""


def checked_model(model: Any) -> nn.Module:
    """The model, if it is one that can be watched."""
    if not isinstance(model, nn.Module):
        raise MonitorError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    if any(isinstance(part, nn.DataParallel) for part in model.modules()):
        raise MonitorError(
            "DataParallel runs copies of the model that the monitor can't follow: use "
            "DistributedDataParallel, or monitor a run on one GPU"
        )
    return model


def checked_scaler(scaler: Any) -> torch.amp.GradScaler | None:
    """The scaler itself, also where a `ScalerLog` stands around it."""
    found = scaler.scaler if isinstance(scaler, ScalerLog) else scaler
    if found is not None and not isinstance(found, torch.amp.GradScaler):
        raise MonitorError(
            f"scaler must be a torch.amp.GradScaler or None, not {type(scaler).__name__}"
        )
    return found


def checked_count(name: str, value: Any, least: int, what: str) -> int:
    """A whole number that is large enough; ``what`` is how the message calls it."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise MonitorError(f"{name} must be {what}, {least} or more, not {value!r}")
    return value


def checked_flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise MonitorError(f"{name} must be True or False, not {value!r}")
    return value
