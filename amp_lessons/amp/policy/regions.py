"""What autocast does in a region: its casts, its state, and both halves of a Function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from amp_lessons.core.messages import raised


class _CastShapes(TorchDispatchMode):
    """Notes the shape of each float32 tensor that is cast to 16 bits."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        # A cast is called aten.to in inference mode, and aten._to_copy everywhere else.
        if func.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten.to):
            low = result.dtype in (torch.float16, torch.bfloat16)
            if args[0].dtype == torch.float32 and low:
                self.shapes.append(" x ".join(str(size) for size in args[0].shape))
        return result


@contextmanager
def casts() -> Iterator[list[str]]:
    """List the casts from float32 to float16 or bfloat16 that run in a block.

    Those that autocast makes are among them. Each cast is one entry: the shape of the tensor, such
    as ``"64 x 16"``. It watches the ops below autocast, where the casts have become ops themselves.
    """
    with _CastShapes() as watch:
        yield watch.shapes


def autocast_state(device: str = "cpu") -> str:
    """Autocast in the calling thread: ``"off"``, or the dtype that it casts to."""
    if not torch.is_autocast_enabled(device):
        return "off"
    return str(torch.get_autocast_dtype(device))


@contextmanager
def autocast_put_back(device: str = "cpu") -> Iterator[None]:
    """Whatever a block does to the calling thread's autocast, it is as before afterwards."""
    before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device, before[0])
        torch.set_autocast_dtype(device, before[1])
        torch.clear_autocast_cache()


def both_halves(
    *,
    fwd: Callable[[Any], Any] = lambda function: function,
    bwd: Callable[[Any], Any] = lambda function: function,
    forward_in: torch.dtype | None = torch.float16,
    backward_in: torch.dtype | None = None,
) -> str:
    """What an autograd Function sees in its two halves, on a CPU: autocast's state, and a dtype.

    Args:
        fwd, bwd: decorators of the two halves, such as `torch.amp.custom_fwd` and `custom_bwd`.
        forward_in: the dtype of the region in which it is called, or None for no region.
        backward_in: the same for the backward pass.

    Returns:
        A line: the state in the forward, the dtype of the input there, the state in the backward.
    """
    seen: list[str] = []

    def state() -> str:
        on = torch.is_autocast_enabled("cpu")
        return str(torch.get_autocast_dtype("cpu")).removeprefix("torch.") if on else "off"

    class Looking(torch.autograd.Function):
        @staticmethod
        @fwd
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            seen.append(f"{state():9} input {str(x.dtype).removeprefix('torch.'):9}")
            return x * 1

        @staticmethod
        @bwd
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            seen.append(state())
            return gradient

    x = torch.ones(2, 2, dtype=torch.float16, requires_grad=True)
    with torch.autocast("cpu", dtype=forward_in, enabled=forward_in is not None):
        result = Looking.apply(x)
    with torch.autocast("cpu", dtype=backward_in, enabled=backward_in is not None):
        error = raised(lambda: result.sum().backward())
    return f"forward: {seen[0]}  backward: {seen[1] if len(seen) > 1 else error}"
