"""The search for what broke a step: which op, at which line, in which part of the step.

The order is that of the step itself: parameters, forward pass, loss, backward pass. Where only a
second run can tell, `calls.run_again` makes one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from amp_lessons.amp.monitor.calls import ModuleCall, run_again
from amp_lessons.amp.monitor.findings import Fault, Phase
from amp_lessons.amp.monitor.ops import CantRunAgain, FaultOrigin, Op, OpLog, origin_of
from amp_lessons.amp.monitor.places import NOWHERE, CodeLine, Mark, look_up
from amp_lessons.amp.monitor.tensors import (
    FINITE,
    INF,
    NAN,
    Extremes,
    extremes,
    kind,
    kind_of,
    largest,
)

OUTPUT = "output of the model"
"""What the log of the loss calls the tensors that it got from the model."""
ABSURD = 1e30
"""No loss scale makes a gradient of this size."""
HALF = 0.5
"""With this share of the gradients lost, an underflow counts as a fault."""


@dataclass
class GraphNode:
    """A node of autograd's graph between the loss and the model's outputs, or between two calls.

    Attributes:
        leads_to: the numbers of the nodes that it gives its gradients to.
        at_edge: whether one of them belongs to a call.
        came: the extremes of the gradients that it was given.
    """

    name: str
    sequence: int
    leads_to: tuple[int, ...]
    at_edge: bool
    came: list[Extremes] = field(default_factory=list)


@dataclass
class BackwardPass:
    """What belongs to one `backward()`: the calls before it, and what flowed."""

    calls: list[ModuleCall] = field(default_factory=list)
    log: OpLog | None = None
    loss: list[Extremes] = field(default_factory=list)
    loss_mark: Mark | None = None
    nodes: dict[int, GraphNode] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    backward: bool = False

    @property
    def last(self) -> int:
        """Autograd's sequence number when the last call ended."""
        return max(call.last for call in self.calls)

    def in_a_call(self, sequence: int) -> bool:
        """Whether the node with this number was made inside a call."""
        return any(call.first <= sequence < call.last for call in self.calls)

    @property
    def by_hand(self) -> bool:
        """Whether gradients were made without `backward()`, as by `torch.autograd.grad`."""
        return not self.backward and any(call.gradients for call in self.calls)


@dataclass(frozen=True)
class Search:
    """Looks for what broke one step.

    Attributes:
        step: its number, from 0.
        parameters: of the model, by name.
        stale: whether the gradients were broken before the step.
        optimizer: the name of the last optimizer that stepped, "" if none did.
        optimizer_line: where it did.
        held: names of the parameters that were broken when the monitor began.
    """

    step: int
    parameters: dict[str, Tensor]
    stale: bool
    optimizer: str
    optimizer_line: Mark | None
    held: frozenset[str] = frozenset()

    def run(self, passes: list[BackwardPass], broken: list[str]) -> Fault | None:
        """Name what broke. ``broken``: names of the parameters with a broken gradient."""
        if passes and passes[-1].by_hand:
            return next(filter(None, map(self._in_loss, passes)), None) or self._unknown(
                passes[-1], broken, "no backward() ran: the monitor can't follow such gradients"
            )
        weights = [n for n, p in self.parameters.items() if kind_of(p) != FINITE]
        changed = [name for name in weights if name not in self.held]
        if changed:
            return self._of_parameter(changed)
        trouble = ""
        for current in passes:
            loss = any(kind(found) != FINITE for found in current.loss)
            backward = partial(self._in_backward, broken=broken)
            for search in (self._in_forward, self._in_loss) if loss else (backward,):
                try:
                    fault = search(current)
                except CantRunAgain as error:
                    trouble = f"the step isn't run again to find the op: {error}"
                    continue
                except Exception as error:
                    trouble = f"the step can't be run again: {type(error).__name__}: {error}"
                    continue
                if fault is not None:
                    return fault
        came = (one for one in passes if any(map(_came_broken, one.calls)))
        return self._unknown(next(came, passes[-1] if passes else BackwardPass()), broken, trouble)

    def only_scaled(self, current: BackwardPass) -> bool:
        """Whether the loss is inf only because it was multiplied, as by a large loss scale."""
        origin = current.log.last_broken() if current.log is not None else None
        if origin is None or origin.outside:
            return False
        return origin.op.name == "mul" and {kind(found) for found in current.loss} == {INF}

    def _of_parameter(self, names: list[str]) -> Fault:
        held = self.parameters[names[0]]
        op, place = "other code", NOWHERE
        detail = "it is frozen, so no optimizer broke it: other code wrote it between the steps"
        if held.requires_grad:
            op = f"{self.optimizer}.step" if self.optimizer else "other code"
            place = look_up(self.optimizer_line)
            detail = f"{names[0]} was broken before this step"
        return Fault(
            self.step, kind_of(held), "parameter", op, place, names[0],
            detail=detail, dtype=str(held.dtype).removeprefix("torch."),
        )  # fmt: skip

    def _in_forward(self, current: BackwardPass) -> Fault | None:
        for call in current.calls:
            fault = self._before(call, current.log)
            if fault is not None:
                return fault
            again = run_again(call, call.path, backward=False)
            found = [o for o in again.log.origins(again.outputs) if not o.on_purpose]
            if found:
                return self._of_origin(found[0], again.log, call, "forward")
        return None

    def _before(self, call: ModuleCall, log: OpLog | None) -> Fault | None:
        """The op that broke an input of this call, if it ran since the call before."""
        found = log.origins(call.inputs()) if log is not None else []
        made = [o for o in found if not o.outside and not o.on_purpose]
        return self._of_origin(made[0], log, None, "forward") if made and log is not None else None

    def _in_loss(self, current: BackwardPass) -> Fault | None:
        origin = current.log.last_broken() if current.log is not None else None
        if origin is None or current.log is None or origin.outside == OUTPUT:
            return None
        return self._of_origin(origin, current.log, None, "loss")

    def _in_backward(self, current: BackwardPass, broken: list[str]) -> Fault | None:
        hit = {id(self.parameters[name]) for name in broken}
        reached = [c for c in current.calls if any(id(p) in hit for p in c.module.parameters())]
        node = _breaking_node(current, reached)
        if node is not None:
            return self._of_node(current, node)
        for call in reversed(current.calls):
            if not call.grads:
                continue
            again = run_again(call, call.path, backward=True)
            found = again.log.origins(again.gradients.values())
            found = [o for o in found if not o.on_purpose] or found
            if _came_broken(call):
                found = [o for o in found if not o.outside]
            if found:
                return self._of_origin(found[0], again.log, call, "backward")
        return None

    def _of_origin(
        self, origin: FaultOrigin, log: OpLog, call: ModuleCall | None, phase: Phase
    ) -> Fault:
        op = origin.op
        line = log.forward_of(op) if op.node and op.mark is None else op
        place = look_up(line.mark or (call.mark if call is not None else None))
        detail = ""
        if call is not None and call.changed():
            detail = "an input was changed in place after the call; the second run saw the change"
        if origin.outside:
            return self._of_outside(origin, line, place, call, detail)
        if op.beyond is not None:
            detail = f"{op.beyond:g} is beyond float16, which ends at 65504"
        detail = detail or _of_large_parameter(op)
        always, reached = op.always, max((one.largest() for one in op.given), default=0.0)
        if op.node and always is None:
            always = _at_any_scale(origin.kind, op.dtype, reached)
        name = line.name if line is not op else op.name
        if op.node and line is op and op.mark is None:
            name = _of_node_name(op.node)
        module = log.forward_of(op).module
        return Fault(
            self.step, origin.kind, phase, name, place, module, always, detail=detail,
            dtype=op.dtype, reached=reached,
        )  # fmt: skip

    def _of_outside(
        self, origin: FaultOrigin, line: Op, place: CodeLine, call: ModuleCall | None, detail: str
    ) -> Fault:
        where = origin.outside
        phase: Phase = "input"
        if where.startswith("input") and call is not None:
            place = look_up(call.mark)
        elif where.startswith(("parameter", "buffer")):
            phase = "parameter"
        elif call is None:
            where = "a tensor given to the loss"
        return Fault(
            self.step, origin.kind, phase, where, place, line.module,
            detail=detail or f"it first met {line.name}",
        )  # fmt: skip

    def _of_node(self, current: BackwardPass, node: GraphNode) -> Fault:
        op = current.log.line_of(node.sequence) if current.log is not None else None
        if op is not None:  # an inf that it was given in the forward pass is the real reason
            origin = origin_of(op)
            op = op if origin.outside or origin.on_purpose else origin.op
        name = op.name if op is not None else _of_node_name(node.name)
        place = look_up(op.mark if op is not None else current.loss_mark)
        kinds, dtype = _given_away(current, node)
        found = NAN if NAN in kinds else INF
        reached = max(map(largest, node.came), default=0.0)
        detail = "in the code of the loss"
        if node.sequence < current.last:
            detail = "between two calls of the model's parts"
        return Fault(
            self.step, found, "backward", name, place, always=_at_any_scale(found, dtype, reached),
            detail=detail, dtype=dtype,
        )  # fmt: skip

    def _unknown(self, current: BackwardPass, broken: list[str], trouble: str) -> Fault | None:
        if self.stale and broken:
            detail = "they were inf or NaN before this step: nothing cleared them (zero_grad)"
            return Fault(self.step, "nan", "gradient", "gradients", module=broken[0], detail=detail)
        if any(call.too_large for call in current.calls):
            trouble = trouble or "the model's outputs are too large to keep their gradients"
        came = [call.path or "the model" for call in current.calls if _came_broken(call)]
        if came and not trouble:
            trouble = f"the gradient that reached {came[-1]} was broken already"
        detail = trouble or "when the step ran once more, everything stayed finite"
        if not trouble and _processes() > 1:
            detail += ": look at the other processes, whose gradients are averaged with these"
        loss = any(kind(found) != FINITE for found in current.loss)
        phase: Phase = "forward" if loss else "backward"
        place = look_up(current.loss_mark)
        return Fault(self.step, "nan", phase, "unknown op", place, detail=detail)

    def underflow(self, current: BackwardPass) -> Fault | None:
        arrived = [g for call in current.calls for g in call.grads.values()]
        zeros = sum(int((g == 0).sum()) for g in arrived)
        count = sum(g.numel() for g in arrived)
        loss = (current.nodes[s] for s in current.order if s >= current.last)
        edge = [node for node in loss if node.at_edge]
        if count and zeros >= HALF * count and edge:
            fault = self._of_node(current, edge[-1])
            return replace(fault, kind="underflow", detail=f"{zeros / count:.0%} became zero")
        for call in reversed(current.calls):
            try:
                again = run_again(call, call.path, backward=True, underflow=True)
            except Exception:
                continue
            lossy = (op for op in again.log.ops if op.node and op.lost >= HALF)
            op = next(lossy, None)
            if op is not None:
                fault = self._of_origin(FaultOrigin(op, "underflow"), again.log, call, "backward")
                return replace(fault, detail=f"{op.lost:.0%} of its results became zero")
        return None


def _of_large_parameter(op: Op) -> str:
    """A word about a parameter that is too large for the format it is cast to."""
    names = [one.source.name for one in op.given if one.source.name.startswith("parameter ")]
    return f"it was given {names[0]}" if names and op.name == "_to_copy" else ""


def _processes() -> int:
    ready = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if ready else 1


def _breaking_node(current: BackwardPass, reached: list[ModuleCall]) -> GraphNode | None:
    """The node outside of the calls that got finite gradients and gave away broken ones.

    Those that end in a call without a broken parameter, as at a padded row of an embedding, did no
    harm: ``reached`` are the calls that have one.
    """
    ran = [current.nodes[sequence] for sequence in current.order]
    first = next((node for node in ran if _is_broken(node)), None)
    if first is not None:
        before = [n for n in ran if first.sequence in n.leads_to and not _is_broken(n)]
        if not before and first.sequence < current.last:
            return None  # a call gave it broken gradients
        return before[-1] if before else first
    for call in reversed(reached):
        if _came_broken(call):
            edge = [n for n in ran if any(call.first <= s < call.last for s in n.leads_to)]
            return edge[-1] if edge else None
    return None


def _is_broken(node: GraphNode) -> bool:
    return any(kind(found) != FINITE for found in node.came)


def _came_broken(call: ModuleCall) -> bool:
    """Whether the gradients of a call's outputs were broken before they reached the call."""
    return any(kind_of(grad) != FINITE for grad in call.grads.values())


def _given_away(current: BackwardPass, node: GraphNode) -> tuple[set[str], str]:
    """What the broken gradients hold that a node gave away, and the name of their dtype."""
    came = [found for s in node.leads_to if s in current.nodes for found in current.nodes[s].came]
    for call in current.calls:
        if any(call.first <= s < call.last for s in node.leads_to):
            grads = map(extremes, call.grads.values())
            came += [found for found in grads if found is not None]
    broken = [found for found in came if kind(found) != FINITE]
    dtype = str(broken[0][0].dtype).removeprefix("torch.") if broken else ""
    return {kind(found) for found in broken}, dtype


def _at_any_scale(found: str, dtype: str, reached: float) -> bool | None:
    """Whether an op of the backward pass breaks at any loss scale. None if that isn't known.

    It was given finite gradients. A scale can make them overflow FP16, and that gives inf. FP32 and
    BF16 reach 3e38, so there the op's slope is infinite; and NaN comes from 0 / 0 or 0 × inf.
    """
    if found == NAN or dtype not in ("float16", ""):
        return True if reached < ABSURD else None
    return None


def _of_node_name(name: str) -> str:
    """ "SqrtBackward0" as "sqrt"."""
    return name.rpartition("::")[2].partition("Backward")[0].lower() or name
