"""Whether a loop calls GradScaler's methods in the right order.

A wrong order raises no error in most cases. The gradients are finite, and too large or too small
by the loss scale, so the run trains badly or not at all. Three mistakes are noticed: clipping
before `unscale_`, `optimizer.step()` in place of `scaler.step()`, and a loss that isn't scaled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import OptState

from amp_lessons.amp.monitor.findings import Fault
from amp_lessons.amp.monitor.hooking import MOST_NODES
from amp_lessons.amp.monitor.inquiry import Inquiry
from amp_lessons.amp.monitor.places import Mark, look_up, mark

BY_HAND = 0.01
"""A bound of at least so much of the loss scale was multiplied by it on purpose."""


class ScalerUse:
    """Follows one GradScaler through the steps.

    Args:
        scaler: the scaler, enabled.
        inquiry: keeps what is found.
        owned: ids of the parameters that are watched.
    """

    def __init__(self, scaler: torch.amp.GradScaler, inquiry: Inquiry, owned: set[int]) -> None:
        self.scaler, self.inquiry, self.owned = scaler, inquiry, owned
        self.step = 0
        self._fresh: tuple[int, int] | None = None  # the first gradient, as backward() left it
        self._unscaled: Mark | None = None
        self._scaled = False

    def forget(self) -> None:
        """A step has ended: what comes next has gradients of its own."""
        self._fresh = self._unscaled = None

    # ---- backward ----------------------------------------------------------------------------

    def before_backward(
        self, roots: list[Tensor], edge: int, seeded: bool, where: Mark | None
    ) -> None:
        """Note whether the loss is scaled.

        Args:
            roots: the losses.
            edge: autograd's sequence number where the model ends and the code of the loss begins.
            seeded: whether they were given gradients of their own.
            where: the line.
        """
        self._scaled = seeded or self._is_scaled(roots, edge)
        if not self._scaled:
            self._unscaled = where

    def after_backward(self) -> None:
        """Remember the first gradient, to see whether anybody changes it."""
        self._fresh = self._first_gradient() if self._scaled else None

    def _first_gradient(self) -> tuple[int, int] | None:
        grads = (p.grad for p in self.inquiry.parameters.values())
        first = next((grad for grad in grads if grad is not None), None)
        return (id(first), first._version) if first is not None else None

    def _is_scaled(self, roots: list[Tensor], edge: int) -> bool:
        """Whether a product with the scale, or with a number, stands above a loss.

        Inside the model nobody looks: what autograd saved there may have to be computed again.
        """
        todo: list[Any] = [root.grad_fn for root in roots if root.grad_fn is not None]
        known: set[Any] = set()
        while todo and len(known) < MOST_NODES:
            node = todo.pop()
            if node in known or not edge <= node._sequence_nr() < 1 << 60:
                continue
            known.add(node)
            if node.name() == "MulBackward0" and self._by_scale(node):
                return True
            todo += [after for after, _ in node.next_functions if after is not None]
        return len(known) >= MOST_NODES

    def _by_scale(self, node: Any) -> bool:
        try:
            factors = node._saved_other, node._saved_self
        except RuntimeError:  # freed by another backward pass, or changed in place since
            return True
        for factor in factors:
            if factor is None or factor.dim() or not factor.is_floating_point():
                continue
            if not factor.is_cpu or factor is self.scaler._scale or float(factor) >= 2:
                return True
        return False

    # ---- what follows it ---------------------------------------------------------------------

    def before_clip(self, what: str, parameters: Iterable[Any], bound: float) -> None:
        """A clipping function was called with this bound."""
        unscaled = any(s["stage"] is OptState.UNSCALED for s in self._states().values())
        if self._fresh is None or unscaled or not any(id(p) in self.owned for p in parameters):
            return
        bound, scale = abs(float(bound)), self._scale()  # on a GPU, this waits for it
        if not math.isfinite(bound) or bound >= BY_HAND * scale:
            return
        told = f"{what} clipped gradients that hold the loss scale"
        detail = f"a bound of {bound:g} clips at {bound / scale:.2g} once the scale is divided out"
        self._add(told, mark(), detail)

    def after_optimizer(self, optimizer: torch.optim.Optimizer, where: Mark | None) -> bool:
        """An optimizer has stepped. Whether it used gradients that nobody had unscaled."""
        self._unscaled = None if id(optimizer) not in self._states() else self._unscaled
        if id(optimizer) in self._states() or hasattr(optimizer, "grad_scale"):
            return False
        if self._fresh is None or self._fresh != self._first_gradient():
            return False
        told = f"{type(optimizer).__name__}.step() used gradients that hold the loss scale"
        self._add(told, where, "optimizer.step() was called directly, past the scaler")
        return True

    def before_update(self) -> None:
        """`scaler.update()` comes: `scaler.step()` has divided all gradients by the scale."""
        if self._unscaled is not None:
            detail = f"scaler.step() divides its gradients by {self._scale():g} all the same"
            self._add("backward() ran on a loss that wasn't scaled", self._unscaled, detail)

    def _states(self) -> dict[int, Any]:
        return dict(self.scaler._per_optimizer_states)

    def _scale(self) -> float:
        return float(self.scaler.get_scale())

    def _add(self, told: str, where: Mark | None, detail: str) -> None:
        fault = Fault(self.step, "scale", "use", told, look_up(where), detail=detail)
        self.inquiry.add(fault, [], self._scale())
