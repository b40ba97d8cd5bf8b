"""What the monitor tells about a run: faults, skipped steps, modules, samples. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from amp_lessons.amp.monitor.counting import Tally
from amp_lessons.amp.monitor.places import NOWHERE, CodeLine
from amp_lessons.amp.numbers.formats import Format

Phase = Literal["forward", "loss", "backward", "input", "parameter", "gradient", "buffer", "use"]


@dataclass(frozen=True)
class Fault:
    """A number that broke, and where.

    Attributes:
        step: number of the step, from 0.
        kind: "inf", "nan", "underflow", or "scale" for gradients with a wrong loss scale in them.
        phase: where it broke: in the model's forward pass, in the code between the model and
            `backward()`, in the backward pass, or before: in an input, in a parameter, or in a
            gradient that was not cleared. "buffer": in running statistics. "use": the scaler's
            methods were called in a wrong order.
        op: the operation, as torch calls it, such as "log" or "_softmax"; for "use", the call.
        place: the line of the user's code. For a backward pass, the line of the forward op.
        module: path of the module that ran the op, "" for the model itself or for code outside it.
        always: whether it would break in float64 too; None if nobody knows.
        parameters: names of parameters whose gradients were inf or NaN, the first ones.
        broken: how many parameters had such a gradient.
        scale: the loss scale of the step; None without a scaler.
        detail: more to know, one thing a line; "" if there is nothing.
        dtype: of the op's result or of the parameter, such as "float16"; "" if nobody knows.
        reached: the largest finite magnitude that went into the op; 0.0 if nobody knows.
    """

    step: int
    kind: str
    phase: Phase
    op: str
    place: CodeLine = NOWHERE
    module: str = ""
    always: bool | None = None
    parameters: tuple[str, ...] = ()
    broken: int = 0
    scale: float | None = None
    detail: str = ""
    dtype: str = ""
    reached: float = 0.0


@dataclass(frozen=True)
class Skip:
    """A step that GradScaler skipped.

    Attributes:
        step: number of the step, from 0.
        scale: the loss scale at which it overflowed.
        parameters: names of parameters whose gradients were inf or NaN, the first ones.
        broken: how many parameters had such a gradient.
        cause: the op behind it, if the monitor looked for it.
        unexplained: whether steps at this scale were finite before, and no cause is known that
            says whether a smaller scale would help.
    """

    step: int
    scale: float
    parameters: tuple[str, ...]
    broken: int
    cause: Fault | None = None
    unexplained: bool = False


@dataclass
class Seen:
    """What was counted in one module.

    Attributes:
        path: of the module in the model; "" is the model itself.
        kind: the name of its class.
        activations: its outputs.
        gradients: the gradients of its outputs, the loss scale divided out.
        weights: the gradients of its own parameters, the loss scale divided out.
    """

    path: str
    kind: str
    activations: Tally = field(default_factory=Tally)
    gradients: Tally = field(default_factory=Tally)
    weights: Tally = field(default_factory=Tally)

    @property
    def all_gradients(self) -> Tally:
        """Gradients of outputs and of parameters together."""
        both = Tally()
        both.merge(self.gradients)
        both.merge(self.weights)
        return both


@dataclass(frozen=True)
class Sample:
    """One sampled step, all modules together.

    Attributes:
        step: number of the step, from 0.
        scale: the loss scale, 1.0 without a scaler.
        activation: the largest finite activation.
        gradient: the largest finite gradient, the loss scale divided out.
        lost: share of the gradients that are zero, or would be in the format at scale 1.
        subnormal: share of the gradients that would be subnormal.
        overflow: share of the activations that would overflow.
    """

    step: int
    scale: float
    activation: float
    gradient: float
    lost: float
    subnormal: float
    overflow: float


class Findings:
    """Everything that a monitor has found. `watching.Monitor` fills it.

    Attributes:
        model: the model that is watched.
        every: one step in so many is sampled.
        format: the format by which numbers are judged.
        steps: how many steps have ended.
        modules: what was counted, by the module's path.
        samples: the sampled steps, all modules together.
        faults: numbers that broke, and where.
        skips: the steps that GradScaler skipped.
        scales: the loss scale of each step; empty without a scaler.
        bad_steps: the steps in which something was inf or NaN and should not have been.
        notes: what the monitor can't see in this model.
        closed: whether it has stopped watching.
    """

    model: Any
    every: int
    format: Format
    steps: int
    modules: dict[str, Seen]
    samples: list[Sample]
    faults: list[Fault]
    skips: list[Skip]
    scales: list[float]
    bad_steps: list[int]
    notes: list[str]
    closed: bool

    @property
    def gradients(self) -> Tally:
        """Every gradient that was counted, of outputs and of parameters."""
        both = Tally()
        for part in self.modules.values():
            both.merge(part.all_gradients)
        return both
