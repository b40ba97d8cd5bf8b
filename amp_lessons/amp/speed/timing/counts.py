"""What a step computes and moves: FLOPs and bytes, counted and not timed.

Peaks to hold them against are measured in `roofs`, and quoted from data sheets in `roofline`.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from amp_lessons.amp.speed.timing.clocks import Step


def count_flops(step: Step) -> int:
    """Floating-point operations of the matmuls and convolutions in one call of a step.

    By `torch.utils.flop_counter`: a multiply and an add are two. Elementwise work and reductions
    are not counted; beside a matmul they are next to nothing, in operations but not in time.
    """
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()


def count_bytes(step: Step) -> int:
    """Bytes that the ops of one call read and write, if none is fused and no cache helps.

    A view moves nothing. FLOPs divided by these bytes are the arithmetic intensity of the eager
    program; a compiler that fuses moves fewer.
    """
    with _Traffic() as traffic:
        step()
    return traffic.bytes


class _Traffic(TorchDispatchMode):
    """Adds up the bytes of each op's inputs and outputs."""

    bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        result = func(*args, **(kwargs or {}))
        # `empty` and its like write nothing yet: what fills them is an op of its own.
        if not func.is_view and "empty" not in str(func):
            for leaf in tree_leaves((args, kwargs, result)):
                if isinstance(leaf, Tensor):
                    self.bytes += leaf.numel() * leaf.element_size()
        return result
