"""What autocast does to a whole model, op by op, with no GPU and no data.

`explain_autocast` runs the model's forward once on fake tensors and watches from below autocast:
one row an op, what is cast and what the cast cache spares, totals, and hazards with their cures.
What a single op does in general is `policy`'s matter; here it is this model's ops, in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from amp_lessons.amp.explain.passes import TraceRequest
from amp_lessons.amp.explain.real import VALUES, best
from amp_lessons.amp.explain.report import Explanation
from amp_lessons.amp.explain.rows import Cast, Hazard, Input, Module, OpRow, Totals
from amp_lessons.amp.fake_tensors.errors import TraceError
from amp_lessons.amp.fake_tensors.models import check_inputs, check_model
from amp_lessons.amp.fake_tensors.modes import check_device
from amp_lessons.core.precision import AUTOCAST_DTYPES, dtype_name

__all__ = [
    "Cast",
    "Explanation",
    "Hazard",
    "Input",
    "Module",
    "OpRow",
    "Totals",
    "TraceError",
    "explain_autocast",
]

DEVICES = ("cuda", "cpu")
DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, full) for name, full in AUTOCAST_DTYPES.items()
}


def explain_autocast(
    model: nn.Module,
    *inputs: Any,
    device: str = "cuda",
    dtype: torch.dtype | str = torch.float16,
    kwargs: Mapping[str, Any] | None = None,
    loss: Callable[[Any, Any], Any] | None = None,
    target: Any = None,
    train: bool | None = None,
    grad: bool = True,
    values: str = "auto",
    gpu: str | None = None,
) -> Explanation:
    """Say what ``torch.autocast(device, dtype)`` does to a model, with no GPU.

    The model may live on any device, also on "meta", and so may the inputs. Nothing is changed: a
    copy of the model runs, with fake tensors for parameters and buffers, under the caller's
    `torch.no_grad` if there is one. Where a model asks for a value that fake tensors don't have, a
    run with real values on the CPU follows it, if the model and the inputs hold values.

    Args:
        model: any module.
        inputs: of its forward: tensors, or tuples, lists and dicts of them, or plain values.
        device: "cuda" or "cpu"; autocast's rules differ.
        dtype: float16 or bfloat16, as a torch.dtype or by name.
        kwargs: keyword inputs of the forward.
        loss: called as ``loss(output, target)`` in the autocast region; its ops are rows too.
        target: tensors for the loss.
        train: the mode of the copy, training or evaluation; None: as the model stands.
        grad: False for a run under `torch.no_grad`.
        values: "auto"; "fake": never run with real values; "real": always.
        gpu: whose attention kernels are shown for "cuda", such as "a100", "t4" or "sm90"; None for
            this machine's GPU, or an H200 if there is none.

    Raises:
        TraceError: in one line, with the module path, the op and the line of code where there is
            one. Its `kind` tells apart what was given wrongly, what a trace cannot follow, and a
            model that raises.
        AttentionError: for a GPU that is not known, with a list of those that are.
    """
    low = _check(model, device, dtype)
    if values not in VALUES:
        raise TraceError(f"values={values!r} is not known here; choose {', '.join(VALUES)}")
    if loss is not None and not callable(loss):
        raise TraceError(f"loss must be called as loss(output, target); got {loss!r}")
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    kwargs = dict(kwargs or {})
    check_inputs(model, inputs, kwargs)
    check_device(device)
    asked = TraceRequest(model, inputs, device, low, kwargs, loss, target, train, grad, gpu)
    return best(asked, values)


def _check(model: Any, device: str, dtype: torch.dtype | str) -> torch.dtype:
    """The dtype, if everything about the call is in order. Raises `TraceError`."""
    if device not in DEVICES:
        raise TraceError(f"device {str(device)!r} is not known here; choose {' or '.join(DEVICES)}")
    low = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if low is None or low not in DTYPES.values():
        raise TraceError(
            f"autocast does not take {dtype_name(dtype) or dtype}; use float16 or bfloat16"
        )
    check_model(model)
    return low
