"""Which bad steps are looked into, and which findings are news. `search` does the looking.

To run a step once more costs time, so there is only a small number of second runs. A step that
GradScaler skips is normal, so most of those don't get one.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from amp_lessons.amp.monitor.findings import Fault, Skip
from amp_lessons.amp.monitor.places import Mark
from amp_lessons.amp.monitor.search import BackwardPass, Search
from amp_lessons.amp.monitor.tensors import FINITE, INF, NAN, kind, kind_of, numbers_of

NAMED = 5
"""Names of parameters that a fault lists."""


class Inquiry:
    """Looks into bad steps, and keeps the faults.

    Attributes:
        faults: what was found.
        bad_steps: the steps in which something was inf or NaN and should not have been.
        parameters: of the model, by name.
        stale: whether the gradients were broken before the step that runs now.
        updated: the name of the last optimizer that stepped, and where.
    """

    def __init__(self, model: nn.Module, reruns: int) -> None:
        self.faults: list[Fault] = []
        self.bad_steps: list[int] = []
        self.parameters: dict[str, Tensor] = dict(model.named_parameters())
        self.stale = False
        self.updated: tuple[str, Mark | None] = ("", None)
        self._held = frozenset(n for n, p in self.parameters.items() if kind_of(p) != FINITE)
        self._buffers = {n for n, b in model.named_buffers() if kind_of(b) != FINITE}
        self._reruns = reruns
        self._of_skips = min(reruns, 2)
        self._worked = 0.0  # the largest loss scale at which a step was finite
        self._of_underflow = min(reruns, 2)

    def forget(self) -> None:
        """Let go of the model."""
        self.parameters = {}
        self.updated = ("", None)

    def _search(self, step: int) -> Search:
        return Search(step, self.parameters, self.stale, *self.updated, self._held)

    def broken_gradients(self) -> list[str]:
        """Names of the parameters whose gradients hold inf or NaN."""
        grads = {n: p.grad for n, p in self.parameters.items() if p.grad is not None}
        if any(g.is_cuda for g in grads.values()):
            total = get_total_norm(
                [n for g in grads.values() if (n := numbers_of(g)) is not None],
                norm_type=float("inf"),
            )
            if bool(torch.isfinite(total)):  # the one wait for the GPU
                return []
        return [name for name, grad in grads.items() if kind_of(grad) != FINITE]

    def add(self, fault: Fault | None, broken: list[str], scale: float | None) -> None:
        """Keep a fault that is not known yet."""
        if fault is None:
            return
        fault = replace(fault, parameters=tuple(broken[:NAMED]), broken=len(broken), scale=scale)
        known = {(f.phase, f.op, f.place) for f in self.faults}
        in_this_step = any(f.step == fault.step for f in self.faults)
        after_another = in_this_step or (self.faults and fault.phase in ("parameter", "gradient"))
        if (fault.phase, fault.op, fault.place) not in known and not after_another:
            self.faults.append(fault)

    def _investigate(
        self, step: int, passes: list[BackwardPass], broken: list[str]
    ) -> Fault | None:
        """Run what can be run again, and name the op. None if there were enough of these."""
        if self._reruns <= 0:
            return None
        self._reruns -= 1
        return self._search(step).run(passes, broken)

    def look_at_buffers(self, model: nn.Module, step: int) -> None:
        """Running statistics can break while each output is finite, and stay broken."""
        for name, buffer in model.named_buffers() if not self.faults else ():
            found = kind_of(buffer) if name not in self._buffers else FINITE
            if found == NAN or (found == INF and name.rpartition(".")[2].startswith("running_")):
                dtype = str(buffer.dtype).removeprefix("torch.")
                op = f"buffer {name}"
                self.add(Fault(step, found, "buffer", op, module=name, dtype=dtype), [], None)

    # ---- when to look ------------------------------------------------------------------------

    def after_backward(self, step: int, passes: list[BackwardPass]) -> None:
        """After a backward pass without a scaler, or a call without gradients: is all finite?"""
        current = passes[-1]
        broken = self.broken_gradients()
        loss = any(kind(found) != FINITE for found in current.loss)
        if (broken or loss) and self.bad_steps[-1:] != [step]:
            self.bad_steps.append(step)
            self.add(self._investigate(step, passes, broken), broken, None)
        self.stale = bool(broken)

    def after_update(self, step: int, passes: list[BackwardPass], scale: float) -> None:
        """A loss can be NaN while every gradient is finite, as when each label is ignored."""
        self.stale = False
        self._worked = max(self._worked, scale)
        bad = [p for p in passes if any(kind(found) != FINITE for found in p.loss)]
        bad = [p for p in bad if not self._search(step).only_scaled(p)]
        if bad:
            self.bad_steps.append(step)
            self.add(self._investigate(step, bad, []), [], scale)

    def after_skip(
        self, step: int, passes: list[BackwardPass], scale: float, skips: list[Skip]
    ) -> None:
        """Add a skipped step to the list. If the scale isn't to blame, there is a fault too."""
        broken = self.broken_gradients()
        strange = scale <= self._worked
        cause = self._why_skipped(step, passes, broken, len(skips), strange)
        known = cause is not None and (cause.phase != "backward" or cause.always is not None)
        skips.append(
            Skip(step, scale, tuple(broken[:NAMED]), len(broken), cause, strange and not known)
        )
        self.stale = bool(broken)
        if cause is not None and (cause.phase != "backward" or cause.always or scale <= 1):
            self.bad_steps.append(step)
            self.add(cause, broken, scale)

    def _why_skipped(
        self, step: int, passes: list[BackwardPass], broken: list[str], before: int, strange: bool
    ) -> Fault | None:
        """What overflowed. To skip a step is normal, so only the first few are looked into.

        Args:
            before: how many steps were skipped before this one.
            strange: whether a step was finite at this loss scale before.
        """
        loss = any(kind(found) != FINITE for p in passes for found in p.loss)
        if not loss and not strange:
            if self._of_skips <= 0 and before % 10:
                return None
            self._of_skips -= 1
        return self._investigate(step, passes, broken)

    def after_underflow(self, step: int, current: BackwardPass, scale: float | None) -> None:
        """Half of the gradients are zero: see whether float16 lost them."""
        if self._of_underflow <= 0:
            return
        self._of_underflow -= 1
        fault = self._search(step).underflow(current)
        if fault is not None:
            self.add(fault, [], scale)
