"""The workspace that oneDNN's RNN keeps for its backward.

Its size follows from the instruction set as much as from the shapes, and fake tensors have none. So
oneDNN itself is asked: it runs the layer on zeros, and no longer than it takes to see the growth.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

_STEPS = 32
_ELEMENTS = 2**26
"""Of inputs and weights: larger layers are not asked about."""


def workspace_bytes(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """Bytes of the fourth result of `aten::mkldnn_rnn_layer`; None if this CPU cannot tell.

    Up to 64 steps the layer runs as it is, with zeros. Beyond, 32 and 64 steps tell what one step
    adds: the result is then right to within a memory page for each part of the workspace.
    """
    if kwargs or not all(_is_plain(a) for a in args):
        return None
    shapes = tuple((tuple(a.shape), a.dtype) if isinstance(a, Tensor) else None for a in args)
    rest = tuple(tuple(a) if isinstance(a, list) else a for a in args[7:])
    steps, *others = shapes[0][0] if shapes[0] else (0,)
    if steps <= 2 * _STEPS or args[8]:  # packed sequences have a batch size for each step
        return _asked(func, shapes, rest, torch.is_grad_enabled())
    few, more = (
        _asked(
            func,
            (((n, *others), args[0].dtype), *shapes[1:]),
            rest,
            torch.is_grad_enabled(),
        )
        for n in (_STEPS, 2 * _STEPS)
    )
    if few is None or more is None:
        return None
    return more + (more - few) * (steps - 2 * _STEPS) // _STEPS


def _is_plain(value: Any) -> bool:
    if not isinstance(value, Tensor):
        return isinstance(value, bool | int | list | tuple)
    return all(isinstance(n, int) for n in value.shape)


@lru_cache(maxsize=256)
def _asked(func: Any, shapes: tuple[Any, ...], rest: tuple[Any, ...], grad: bool) -> int | None:
    """Run the layer on zeros of these shapes, and measure its workspace: none without ``grad``."""
    count = sum(torch.Size(shape).numel() for shape, _ in filter(None, shapes))
    if count > _ELEMENTS:
        return None
    with _disable_current_modes(), torch.set_grad_enabled(grad):
        zeros = [torch.zeros(shape, dtype=dtype) for shape, dtype in shapes[:7]]
        plain = [list(value) if isinstance(value, tuple) else value for value in rest]
        try:
            result = func(*zeros, *plain)
        except RuntimeError:  # a dtype that this CPU's oneDNN has no RNN for
            return None
    kept = result[3]  # None where no gradient is wanted
    return 0 if kept is None else int(kept.untyped_storage().nbytes())
