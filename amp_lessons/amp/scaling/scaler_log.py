"""Watching GradScaler: a log of what it did, and a simulator of what it will do.

PyTorch has no public method that says whether `step()` was skipped (pytorch issues 55585, 67590);
`ScalerLog` answers that. `simulate_scaler` gives torch's own scales with no scaler at all. What a
scale does to the gradients is counted in `loss_scale`.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

# How many unread numbers are kept one by one on a device before they are packed into one tensor.
# Each takes a block of 512 bytes there, however small it is.
PACK_AFTER = 256


@dataclass(frozen=True)
class ScalerRecord:
    """What one `update()` of a GradScaler came to.

    Attributes:
        step: number of the update, from 0.
        scale: after the update: what the next loss will be multiplied by. 1.0 if disabled.
        found_inf: whether a gradient was inf or NaN. False if disabled: then nobody looks.
        skipped: whether `step()` left out an optimizer's step for that reason.
        clean_steps: updates without inf since the last growth, backoff or start, after this one.
            Growth comes when they reach growth_interval. 0 if disabled.
        used: the scale before the update: what this step's loss was multiplied by.
    """

    step: int
    scale: float
    found_inf: bool
    skipped: bool
    clean_steps: int
    used: float


# ---- the log ---------------------------------------------------------------------------------

Number = float | Tensor  # a tensor is a number that nobody has read yet
Column = list[float] | Tensor


class ScalerLog:
    """A GradScaler that keeps a record of every `update()`.

    Use it wherever the scaler stood: ``scaler = ScalerLog(torch.amp.GradScaler("cpu"))``. Every
    method and attribute of the scaler is there and does the same. Nothing is read from a GPU
    until `records` is asked for, so a step synchronises as often as it did before.

    Args:
        scaler: any `torch.amp.GradScaler`, enabled or not, on any device.

    Attributes:
        scaler: the scaler that does the work.

    Raises:
        TypeError: if it is not a GradScaler.
    """

    def __init__(self, scaler: torch.amp.GradScaler) -> None:
        if not isinstance(scaler, torch.amp.GradScaler):
            raise TypeError(f"scaler must be a torch.amp.GradScaler, got {type(scaler).__name__}")
        self.scaler = scaler
        self._stepped: dict[torch.optim.Optimizer, bool] = {}  # checked for inf; stepped too?
        self._unread: list[tuple[Number, ...]] = []
        self._packed: list[list[Column]] = []

    def __getattr__(self, name: str) -> Any:
        """Everything else is the scaler's own: get_scale, state_dict, is_enabled and the rest."""
        if name == "scaler":  # while a copy of the log is being made, there is none yet
            raise AttributeError(name)
        return getattr(self.scaler, name)

    def scale(self, outputs: Any) -> Any:
        """`GradScaler.scale`: a tensor or several, multiplied by the scale."""
        return self.scaler.scale(outputs)

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """`GradScaler.unscale_`: divide the optimizer's gradients by the scale."""
        self.scaler.unscale_(optimizer)
        self._stepped[optimizer] = False

    def step(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        """`GradScaler.step`: the optimizer's step, unless one of its gradients is inf or NaN."""
        result = self.scaler.step(optimizer, *args, **kwargs)
        self._stepped[optimizer] = True
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """`GradScaler.update`: adapt the scale, then note what came of the step."""
        if self.scaler.is_enabled():
            found_inf, skipped = self._found_inf()  # before update() forgets it
            # An unused scaler has no scale yet, and update() refuses it.
            used = 0.0 if self.scaler._scale is None else _copy(self.scaler._scale)
            self.scaler.update(new_scale)
            scale, clean_steps = _copy(self.scaler._scale), _copy(self.scaler._growth_tracker)
            self._unread.append((scale, found_inf, skipped, clean_steps, used))
        else:
            self._unread.append((1.0, 0.0, 0.0, 0, 1.0))
        self._stepped.clear()
        if len(self._unread) == PACK_AFTER:
            self._pack()

    @property
    def records(self) -> list[ScalerRecord]:
        """A record of each update so far. On a GPU, to ask is to wait for it."""
        self._pack()
        columns = [[_read(column) for column in block] for block in self._packed]
        rows = [row for block in columns for row in zip(*block, strict=True)]
        return [
            ScalerRecord(step, scale, bool(found_inf), bool(skipped), int(clean_steps), used)
            for step, (scale, found_inf, skipped, clean_steps, used) in enumerate(rows)
        ]

    @property
    def skipped_steps(self) -> list[int]:
        """The numbers of the steps that were skipped, from 0."""
        return [record.step for record in self.records if record.skipped]

    def _found_inf(self) -> tuple[Number, Number]:
        """How many inf checks failed: of all, and of the optimizers whose step was asked for."""
        found: list[Tensor] = []
        skipped: list[Tensor] = []
        for optimizer, stepped in self._stepped.items():
            checks = self.scaler._found_inf_per_device(optimizer).values()
            found += checks
            skipped += checks if stepped else ()
        total = _total(found)
        return total, total if len(skipped) == len(found) else _total(skipped)

    def _pack(self) -> None:
        """Put the unread numbers into one tensor a column. Still nothing is read from a device."""
        if self._unread:
            self._packed.append([_column(values) for values in zip(*self._unread, strict=True)])
            self._unread.clear()


def _copy(number: Tensor | None) -> Number:
    """A number from the CPU's memory; a copy, unread, of one that lies on another device."""
    assert number is not None, "an enabled scaler has a scale once update() has run"
    return number.item() if _on_cpu(number) else number.clone()


def _on_cpu(tensor: Tensor) -> bool:
    return tensor.is_cpu


def _total(checks: list[Tensor]) -> Number:
    """The sum of inf checks, which may lie on several devices."""
    if len(checks) == 1:
        return _copy(checks[0])
    if all(map(_on_cpu, checks)):
        return sum(check.item() for check in checks)
    home = next(check.device for check in checks if not _on_cpu(check))
    return torch.stack([check.to(home, non_blocking=True) for check in checks]).sum()


def _column(values: tuple[Number, ...]) -> Column:
    tensors = [v for v in values if isinstance(v, Tensor)]
    if len(tensors) == len(values):
        return torch.stack(tensors)
    return [float(v) for v in values]


def _read(column: Column) -> list[float]:
    return column.tolist() if isinstance(column, Tensor) else [float(v) for v in column]


# ---- the simulator ---------------------------------------------------------------------------


def simulate_scaler(
    found_inf: Iterable[bool],
    *,
    init_scale: float = 2.0**16,
    growth_factor: float = 2.0,
    backoff_factor: float = 0.5,
    growth_interval: int = 2000,
) -> list[float]:
    """The scale after each update, exactly as `torch.amp.GradScaler` has it.

    Args:
        found_inf: for each step, whether a gradient was inf or NaN.
        init_scale: positive, at most float32's largest number, or inf.
        growth_factor: above 1.
        backoff_factor: above 0, below 1.
        growth_interval: clean steps in a row that make the scale grow, 1 or more.

    Raises:
        ValueError: if a setting is outside its range.
        TypeError: if a setting is not a number, or growth_interval is not an int.
    """
    settings = (init_scale, growth_factor, backoff_factor, growth_interval)
    return [record.scale for record in simulate_records(found_inf, *settings)]


def simulate_records(
    found_inf: Iterable[bool],
    init_scale: float = 2.0**16,
    growth_factor: float = 2.0,
    backoff_factor: float = 0.5,
    growth_interval: int = 2000,
) -> list[ScalerRecord]:
    """What a `ScalerLog` would record: `simulate_scaler` with the clean steps beside the scale.

    Source: ``_amp_update_scale_`` in ATen/native/cuda/AmpKernels.cu and ATen/native/AmpKernels.cpp:
    the scale is a float32, its product with a factor is taken in float64 and rounded to float32.
    """
    check_settings(init_scale, growth_factor, backoff_factor, growth_interval)
    check_pattern(found_inf)
    scale, clean_steps = _float32(init_scale), 0
    records = []
    for step, overflow in enumerate(bool(found) for found in found_inf):
        used = scale
        if overflow:
            scale, clean_steps = _float32(scale * backoff_factor), 0
        else:
            clean_steps += 1
            if clean_steps == growth_interval:
                grown, clean_steps = _float32(scale * growth_factor), 0
                if math.isfinite(grown):
                    scale = grown
        records.append(ScalerRecord(step, scale, overflow, overflow, clean_steps, used))
    return records


def _float32(number: float) -> float:
    """The nearest float32, ties to even, with subnormals and inf: C's own conversion."""
    return ctypes.c_float(number).value


def check_settings(
    init_scale: float, growth_factor: float, backoff_factor: float, growth_interval: int
) -> None:
    """Refuse settings that torch refuses, and those that can never adapt a scale.

    torch itself asserts growth_factor > 1 and backoff_factor < 1. A backoff_factor of 0 or less
    it accepts, and with a growth_interval of 0 or less the scale never grows.

    Raises:
        ValueError, TypeError: as for `simulate_scaler`.
    """
    numbers = {"init_scale": init_scale, "growth_factor": growth_factor}
    for name, value in (numbers | {"backoff_factor": backoff_factor}).items():
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    if isinstance(growth_interval, bool) or not isinstance(growth_interval, Integral):
        raise TypeError(f"growth_interval must be an int, got {type(growth_interval).__name__}")
    largest = torch.finfo(torch.float32).max
    if not (0 < init_scale <= largest or init_scale == math.inf):
        raise ValueError(f"init_scale must be a positive float32, got {init_scale}")
    if not growth_factor > 1:
        raise ValueError(f"growth_factor must be greater than 1, got {growth_factor}")
    if not 0 < backoff_factor < 1:
        raise ValueError(f"backoff_factor must be between 0 and 1, got {backoff_factor}")
    if growth_interval < 1:
        raise ValueError(f"growth_interval must be 1 or more, got {growth_interval}")
    if growth_interval >= 2**63:
        raise ValueError(f"growth_interval must fit in an int64, got {growth_interval}")


def check_pattern(found_inf: Iterable[bool]) -> None:
    """Reject anything that is not a sequence of booleans. Raises TypeError."""
    if isinstance(found_inf, str | bytes) or not isinstance(found_inf, Iterable):
        kind = type(found_inf).__name__
        raise TypeError(f"found_inf must be a list of True and False, one a step, not {kind}")


def torch_records(
    found_inf: Iterable[bool],
    init_scale: float = 2.0**16,
    growth_factor: float = 2.0,
    backoff_factor: float = 0.5,
    growth_interval: int = 2000,
) -> list[ScalerRecord]:
    """What a real `torch.amp.GradScaler("cpu")` does when gradients overflow in this pattern.

    Its one parameter gets the gradient 1, or inf where the pattern says so. Arguments and errors
    are those of `simulate_scaler`.
    """
    settings = (init_scale, growth_factor, backoff_factor, growth_interval)
    check_settings(*settings)
    check_pattern(found_inf)
    parameter = torch.nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    log = ScalerLog(torch.amp.GradScaler("cpu", *settings))
    log.scale(parameter)  # a scaler makes its scale when it is first used
    for overflow in found_inf:
        parameter.grad = torch.tensor(math.inf if overflow else 1.0)
        log.step(optimizer)
        log.update()
    return log.records
