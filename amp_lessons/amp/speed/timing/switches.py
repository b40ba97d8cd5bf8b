"""TF32 on or off for a while, by the switches that PyTorch has since 2.9.

The old ``allow_tf32`` switches are kept in step with them, so that libraries may read either.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

import torch

from amp_lessons.amp.speed.timing.clocks import Prepared, Step

Fp32Precision = Literal["ieee", "tf32"]


@contextmanager
def fp32_precision(precision: Fp32Precision) -> Iterator[None]:
    """Let float32 matmuls and convolutions on CUDA run as IEEE float32 or as TF32, for a while.

    Sets the ``fp32_precision`` switches; afterwards they are as before, after an error too. On a
    CPU matmuls run as IEEE float32 meanwhile.

    Torch 2.13 raises when an old switch that disagrees with the new ones is read: for
    ``cudnn.allow_tf32`` inside "ieee", for ``cuda.matmul.allow_tf32`` and
    `torch.get_float32_matmul_precision` inside "tf32" (pytorch issue 166387). Inductor reads the
    last one. So the old switches are set first, to the same, and put back. Only if they disagreed
    before, and so could not be read, are they left as they are.
    Source: ``Context::allowTF32CuDNN`` and its neighbours in aten/src/ATen/Context.cpp.
    """
    mkldnn: Any = torch.backends.mkldnn
    switches = {**_switches(), "mkldnn.matmul": mkldnn.matmul}
    before = {name: switch.fp32_precision for name, switch in switches.items()}
    old = _old_switches()
    try:
        if old:  # these set the new switches as well, so they come first
            torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
            torch.backends.cudnn.allow_tf32 = precision == "tf32"
        for name, switch in switches.items():
            switch.fp32_precision = "ieee" if name.startswith("mkldnn") else precision
        yield
    finally:
        if old:
            torch.set_float32_matmul_precision(old[0])
            torch.backends.cudnn.allow_tf32 = old[1]
        for name, switch in switches.items():
            switch.fp32_precision = before[name]


def in_precision(precision: Fp32Precision, step: Step) -> Prepared:
    """The step with its float32 matmuls as IEEE or as TF32, switched before the clock starts."""
    return Prepared(step, partial(fp32_precision, precision))


def fp32_state() -> dict[str, str]:
    """The ``fp32_precision`` switches as they are now, for a record."""
    return {name: switch.fp32_precision for name, switch in _switches().items()}


def _switches() -> dict[str, Any]:
    """What holds each ``fp32_precision``, by its name below `torch.backends`."""
    cudnn: Any = torch.backends.cudnn
    return {
        "cuda.matmul": torch.backends.cuda.matmul,
        "cudnn.conv": cudnn.conv,
        "cudnn.rnn": cudnn.rnn,
    }


def _old_switches() -> tuple[str, bool] | None:
    """Matmul precision and cuDNN's ``allow_tf32``; None if they disagree with the new switches."""
    try:
        return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    except RuntimeError:
        return None
