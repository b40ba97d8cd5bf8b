"""What belongs to one step of a training loop, and what may end it.

`watching` makes a `TrainingStep` when the one before has ended. Nothing of an old step stays: its
calls, its backward passes and its hooks on tensors go with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from torch import nn

from amp_lessons.amp.monitor.calls import ModuleCall
from amp_lessons.amp.monitor.search import BackwardPass


class StepEvent(Enum):
    """What may end a step by itself, where nobody calls `Monitor.step`."""

    SCALER_UPDATE = auto()
    OPTIMIZER_STEP = auto()
    BACKWARD_END = auto()


@dataclass
class RunningCall:
    """A call of the model that has begun.

    Attributes:
        module: what was called.
        call: what is noted of it.
        depth: how many calls of this module run inside each other.
    """

    module: nn.Module
    call: ModuleCall
    depth: int = 1


@dataclass
class TrainingStep:
    """A step that has begun.

    Attributes:
        passes: its backward passes. The last one may still lack its `backward()`.
        handles: of its hooks on tensors and on autograd's nodes.
        call: the call of the model that runs now.
        backward: the backward pass that runs now, if it comes to this model.
        has_gradients: whether such a pass has ended.
        updated_in_backward: whether an optimizer updated parameters while a pass ran.
    """

    passes: list[BackwardPass] = field(default_factory=list)
    handles: list[Any] = field(default_factory=list)
    call: RunningCall | None = None
    backward: BackwardPass | None = None
    has_gradients: bool = False
    updated_in_backward: bool = False

    def remove_hooks(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
