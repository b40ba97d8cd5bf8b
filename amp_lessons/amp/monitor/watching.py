"""The monitor itself: it follows a training loop step by step, and knows where each step ends.

In each step it notes the model's calls and checks the gradients once. In a sampled step it also
hooks every module and counts. After a bad step it asks for an inquiry. The parts: `hooking` and
`taps` (how it listens), `sampling` (what it counts), `inquiry` (what it looks into), `report`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from amp_lessons.amp.monitor import taps
from amp_lessons.amp.monitor.arguments import (
    MonitorError,
    checked_count,
    checked_flag,
    checked_model,
    checked_scaler,
)
from amp_lessons.amp.monitor.calls import KEPT_BYTES, ModuleCall, is_sharded, noted
from amp_lessons.amp.monitor.counting import Edges
from amp_lessons.amp.monitor.findings import Seen, Skip
from amp_lessons.amp.monitor.hooking import (
    ModuleHooks,
    hook_between,
    hook_nodes,
    is_compiled,
    parts_of,
    reaches,
    silent,
)
from amp_lessons.amp.monitor.inquiry import Inquiry
from amp_lessons.amp.monitor.places import mark
from amp_lessons.amp.monitor.report import MonitorReport
from amp_lessons.amp.monitor.sampling import Sampler
from amp_lessons.amp.monitor.scaler_use import ScalerUse
from amp_lessons.amp.monitor.search import OUTPUT, BackwardPass
from amp_lessons.amp.monitor.tensors import extremes, tensors_in
from amp_lessons.amp.numbers.formats import Format, get_format
from amp_lessons.amp.scaling.scaler_log import ScalerLog

MOST_CALLS = 64
"""Calls of the model in one step that are kept to be run again."""

_watched: weakref.WeakSet[nn.Module] = weakref.WeakSet()


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    """A fault of the monitor must not stop the training: it closes, and the summary says why."""

    @functools.wraps(method)
    def call(self: Monitor, *args: Any, **kwargs: Any) -> Any:
        if self.closed or taps.quiet:
            return None
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            self.notes.append(f"The monitor stopped: {type(error).__name__}: {error}")
            self._failure = error
            self.close()
            return None

    return call


class Monitor(MonitorReport):
    """Watches a training loop; `amp_lessons.monitor` makes one, and says what to give it.

    What it has seen so far is in its attributes: see `findings.Findings`.
    """

    def __init__(
        self,
        model: nn.Module,
        scaler: torch.amp.GradScaler | ScalerLog | None = None,
        *,
        every: int = 50,
        format: str | torch.dtype | Format = "float16",
        reruns: int = 5,
        loss: bool = True,
    ) -> None:
        self.closed = True  # until everything is in place
        self.model = checked_model(model)
        self.scaler = checked_scaler(scaler)
        self.every = checked_count("every", every, 1, "a whole number of steps")
        self._watch_loss = checked_flag("loss", loss)
        checked_count("reruns", reruns, 0, "a whole number")
        self.format = get_format(format)
        self.steps = 0
        self.skips: list[Skip] = []
        self.scales: list[float] = []
        self.notes: list[str] = []
        self._failure: Exception | None = None
        self._manual = 0
        self._optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._rounds = 0  # optimizers that take turns
        self._trains = False
        self._called = False  # whether any call of the model was seen
        self._forget_step()
        self._sample_until = 0
        self._handles: list[Any] = []
        self._live: Any = None
        self._use: ScalerUse | None = None
        self._refuse_a_second()
        self._sampler = Sampler(Edges.of(self.format))
        self.modules, self.samples = self._sampler.modules, self._sampler.samples
        self._inquiry = Inquiry(model, reruns)
        self.faults, self.bad_steps = self._inquiry.faults, self._inquiry.bad_steps
        self._hooks = ModuleHooks(model, self._before_call, self._after_call)
        self._open()

    # ---- opening and closing -----------------------------------------------------------------

    def _refuse_a_second(self) -> None:
        if any(part in _watched for part in self.model.modules()):
            raise MonitorError(
                "a monitor already watches this model, or a part of it: close that one first "
                "(seen.close(), or leave its with block)"
            )

    def _open(self) -> None:
        self._say_what_is_hidden()
        self._ids = {id(p) for p in self._inquiry.parameters.values()}
        if self.scaler is not None and self.scaler.is_enabled():
            self._use = ScalerUse(self.scaler, self._inquiry, self._ids)
        _watched.update(self.model.modules())
        self.closed = False
        taps.listen(self)
        self._handles.append(register_optimizer_step_post_hook(self._after_optimizer))
        if self.scaler is not None:
            tap = taps.ScalerTap.on(self.scaler)
            tap.add(self._before_update, self._after_update)
        self._hooks.place(everywhere=self.sampling)

    def close(self) -> None:
        """Stop watching, and take every hook away. What was seen stays. Safe to repeat."""
        if self.closed:
            return
        self.closed = True
        taps.stop_listening(self)
        if self.scaler is not None:
            taps.ScalerTap.on(self.scaler).remove(self._before_update, self._after_update)
        for handle in [*self._handles, *self._step_handles]:
            handle.remove()
        self._handles.clear()
        self._hooks.remove()
        self._sampler.keep(self.steps, self._scale)
        self._inquiry.look_at_buffers(self.model, max(self.steps - 1, 0))
        self._forget_step()
        self._sampler.forget()
        self._inquiry.forget()
        for part in self.model.modules():
            _watched.discard(part)
        self._ids = set()
        if self._live is not None:
            self._live()

    def __enter__(self) -> Monitor:
        if self.closed and self._failure is None:
            raise MonitorError("this monitor is closed: make a new one with amp_lessons.monitor")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _say_what_is_hidden(self) -> None:
        hidden = [name or "the model" for name, part in parts_of(self.model) if is_compiled(part)]
        if hidden:
            self._watch_loss = False
            shown = ", ".join(hidden[:3]) + (", …" if len(hidden) > 3 else "")
            self.notes.append(
                f"torch.compile hides what happens inside {shown}: only outputs and gradients of "
                "parameters are counted there. After a bad step, the op is looked for without the "
                "compiler, and the loss isn't watched op by op."
            )
        if is_sharded(self.model):
            self.notes.append(
                "Parameters are sharded: each process counts its own share of their gradients. A "
                "bad step isn't run again, so an op inside the model isn't named."
            )

    # ---- steps -------------------------------------------------------------------------------

    def step(self) -> None:
        """Say that a step has ended. Needed only where the monitor can't tell by itself.

        By itself it takes `scaler.update()` for the end of a step, or without a scaler the first
        `optimizer.step()` after a backward pass. From the first call of this method on, only
        these calls count.
        """
        if self.closed:
            return
        self._manual += 1
        if self._manual == 1:
            self.steps = min(self.steps, 1)
            if self.steps == 1:
                return
        self._end_step()

    @property
    def _ends_by_update(self) -> bool:
        return self.scaler is not None and self.scaler.is_enabled()

    @property
    def _scale(self) -> float:
        return self.scaler.get_scale() if self._ends_by_update and self.scaler else 1.0

    @_guarded
    def _after_optimizer(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if optimizer not in self._optimizers:
            groups = optimizer.param_groups
            if not any(id(p) in self._ids for group in groups for p in group["params"]):
                return
            self._optimizers.add(optimizer)
            self._rounds += not taps.depth
            if self._rounds > 1 and not self._ends_by_update:
                self._sample_until = self.steps + 1 + self._rounds
        if not self._called:
            self._note_once(
                "The optimizer stepped, but no call of the model was seen. The monitor can't look "
                "into a compiled training step: compile the model alone."
            )
        line = mark()
        self._inquiry.updated = type(optimizer).__name__, line
        past = self._use is not None and self._use.after_optimizer(optimizer, line)
        if self._manual or (self._ends_by_update and not past):
            return
        if taps.depth:  # each parameter is updated as soon as it has its gradient
            self._steps_in_backward = True
        elif self._trains and self._passes and not self._backward_since:  # torch.autograd.grad
            self._inquiry.after_backward(self.steps, self._passes)
            self._end_step()
        elif self._backward_since:
            self._end_step()

    @_guarded
    def _end_step(self) -> None:
        if not self._trains and self._passes:
            self._inquiry.after_backward(self.steps, self._passes)
        self._sampler.keep(self.steps, self._scale)
        if self.sampling:
            self._inquiry.look_at_buffers(self.model, self.steps)
        self.steps += 1
        if self._use is not None:
            self._use.step = self.steps
            self._use.forget()
        for handle in self._step_handles:
            handle.remove()
        self._forget_step()
        self._sampler.forget()
        self._hooks.place(everywhere=self.sampling)
        if self._live is not None:
            self._live()

    def _forget_step(self) -> None:
        """Let go of everything that belongs to one step: inputs, gradients, hooks on tensors."""
        self._passes: list[BackwardPass] = []
        self._step_handles: list[Any] = []
        self._ours = False  # whether the backward pass that runs comes to this model
        self._backward_since = False
        self._steps_in_backward = False
        self._active: nn.Module | None = None
        self._depth = 0
        self._call: ModuleCall | None = None

    @property
    def sampling(self) -> bool:
        """Whether the step that runs now is a sampled one.

        With two optimizers, as in a GAN, two steps in a row are sampled, one of each. The
        second is only known once it has stepped, so the first round may come a step later.
        """
        count = max(1, self._rounds)
        return self.steps % self.every < count or self.steps < self._sample_until

    # ---- calls of the model ------------------------------------------------------------------

    @_guarded
    def _before_call(self, path: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        if self._active is not None or taps.depth:
            self._depth += self._active is module
            return
        if not self._wanted(module) or self._is_transformed():
            return
        self._called = True
        self._hooks.entries.add(path)
        self._active, self._depth = module, 1
        taps.between.close()
        device = next((t.device for t in tensors_in((args, kwargs))), torch.device("cpu"))
        self._call = noted(path, module, args, kwargs, mark(), device)

    def _wanted(self, module: nn.Module) -> bool:
        """Whether a call belongs to training; if nothing trains, each call does."""
        if torch.is_grad_enabled() and module.training:
            self._trains = True
        return not self._trains or torch.is_grad_enabled()

    def _is_transformed(self) -> bool:
        """Whether torch.func (vmap, grad) runs the call: its tensors can't be read."""
        if torch._C._functorch.maybe_current_level() is None:
            return False
        self._called = True
        self._note_once("Calls of the model inside torch.func (vmap, grad) can't be watched.")
        return True

    def _note_once(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    @_guarded
    def _after_call(self, path: str, module: nn.Module, args: Any, output: Any) -> None:
        if self.sampling and (self._active is not None or taps.depth):
            for seen, tensor in self._sampler.outputs(path, module, output):
                count = functools.partial(self._count_gradient, seen)
                self._step_handles.append(tensor.register_hook(count))
        if self._active is not module or taps.depth:
            return
        self._depth -= 1
        if self._depth:
            return
        call, self._active, self._call = self._call, None, None
        if call is not None and output is not None:
            self._note(call, output)

    @_guarded
    def _count_gradient(self, seen: Seen, grad: Tensor) -> None:
        self._sampler.gradient(seen, grad, self._scale)

    def _note(self, call: ModuleCall, output: Any) -> None:
        """Keep a call that has ended, and ask for the gradients of its outputs."""
        call.last = torch._C._autograd._get_sequence_nr()
        current = self._passes[-1] if self._passes else None
        if current is None or current.backward or not self._trains:
            current = BackwardPass()
            self._passes = [*self._passes[-MOST_CALLS:], current] if self._trains else [current]
        follow = bool(current.calls)
        current.calls = [*current.calls[-MOST_CALLS + 1 :], call]
        tensors = list(tensors_in(output))
        if not call.gradients:
            current.loss += [found for t in tensors if (found := extremes(t)) is not None]
            return
        size = sum(t.numel() * t.element_size() for t in tensors)
        call.too_large = size > KEPT_BYTES
        for place, tensor in enumerate(tensors):
            if tensor.requires_grad and not call.too_large:
                keep = functools.partial(call.grads.__setitem__, place)
                self._step_handles.append(tensor.register_hook(silent(keep)))
        if self._watch_loss and any(t.requires_grad for t in tensors):
            log = current.log = taps.between.open(follow=follow)
            if log is not None:
                for tensor in tensors:
                    log.name(tensor, OUTPUT)

    # ---- backward ----------------------------------------------------------------------------

    @_guarded
    def before_backward(self, roots: list[Tensor], seeded: bool) -> None:
        """Look at the loss, and hook autograd's nodes between it and the model."""
        self._ours = False
        if not self._passes:
            return
        last = self._passes[-1]
        current = BackwardPass(last.calls, last.log) if last.backward else last
        nodes = [root.grad_fn for root in roots if root.grad_fn is not None]
        self._step_handles += hook_nodes(current, nodes)
        if not reaches(current, roots):  # the backward pass of something else
            return
        self._ours = True
        self._step_handles += hook_between(current)
        if current is not last:  # a second loss of the same calls
            self._passes.append(current)
        current.loss = [found for root in roots if (found := extremes(root)) is not None]
        current.loss_mark = mark()
        if self._use is not None:
            edge = min(call.last for call in current.calls)
            self._use.before_backward(roots, edge, seeded, current.loss_mark)

    @_guarded
    def after_backward(self) -> None:
        """Check the gradients, unless the scaler will; count them in a sampled step."""
        if not self._ours:
            if self._passes and self._passes[-1].log is not None and not self._passes[-1].backward:
                taps.between.open(follow=True)  # the model's own loss is still to come
            return
        current = self._passes[-1]
        second = self._is_second(current)
        current.backward = self._backward_since = True
        self._ours = False
        if self._use is not None:
            self._use.after_backward()
        if self.sampling and not second:
            self._sampler.weights(self.model, self._scale)
            if self._sampler.sinking:
                scale = self._scale if self._ends_by_update else None
                self._inquiry.after_underflow(self.steps, current, scale)
        if not self._ends_by_update:
            self._inquiry.after_backward(self.steps, [current])
            self._passes = [current]  # the ones before it were fine
            if self._steps_in_backward:
                self._end_step()

    def _is_second(self, current: BackwardPass) -> bool:
        """Whether these calls had a backward pass before, and were counted then."""
        return any(one.calls is current.calls for one in self._passes[:-1])

    @_guarded
    def before_clip(self, what: str, parameters: list[Any], bound: float) -> None:
        if self._use is not None:
            self._use.before_clip(what, parameters, bound)

    # ---- the scaler --------------------------------------------------------------------------

    @_guarded
    def _before_update(self) -> None:
        if not self._ends_by_update or self.scaler is None:
            return
        scale = self.scaler.get_scale()
        self.scales.append(scale)
        if self._use is not None:
            self._use.before_update()
        found = [
            found_inf
            for state in self.scaler._per_optimizer_states.values()
            for found_inf in state["found_inf_per_device"].values()
        ]
        if any(float(one) for one in found):
            self._inquiry.after_skip(self.steps, self._passes, scale, self.skips)
        else:
            self._inquiry.after_update(self.steps, self._passes, scale)

    @_guarded
    def _after_update(self) -> None:
        if self._ends_by_update and not self._manual:
            self._end_step()


__all__ = ["Monitor", "MonitorError"]
