"""The monitor itself: it follows a training loop step by step, and knows where each step ends.

In each step it notes the model's calls and checks the gradients once. In a sampled step it also
hooks every module and counts. After a bad step it asks for an inquiry. The parts: `hooking` and
`taps` (how it listens), `steps` (what belongs to one step), `sampling` (what it counts), `inquiry`
(what it looks into), `report`.
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
from amp_lessons.amp.monitor.steps import RunningCall, StepEvent, TrainingStep
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
        self._by_hand = False  # whether `step` was ever called
        self._optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._rounds = 0  # optimizers that take turns
        self._trains = False  # whether any call of the model was seen that trains
        self._called = False  # whether any call of the model was seen
        self._step = TrainingStep()
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
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._hooks.remove()
        self._sampler.keep(self.steps, self._scale)
        self._inquiry.look_at_buffers(self.model, max(self.steps - 1, 0))
        self._forget_step()
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
        first, self._by_hand = not self._by_hand, True
        if first:
            self.steps = min(self.steps, 1)
            if self.steps == 1:
                return
        self._end_step()

    def _ends_with(self, event: StepEvent, past_scaler: bool = False) -> bool:
        """Whether this event ends the step that runs, as `step` says.

        Args:
            past_scaler: whether an optimizer stepped without asking the scaler.
        """
        if self._by_hand:
            return False
        if event is StepEvent.SCALER_UPDATE:
            return self._scaled
        if event is StepEvent.BACKWARD_END:
            return not self._scaled and self._step.updated_in_backward
        made_by_hand = self._trains and bool(self._step.passes)  # by torch.autograd.grad
        return (not self._scaled or past_scaler) and (self._step.has_gradients or made_by_hand)

    @property
    def _scaled(self) -> bool:
        return self.scaler is not None and self.scaler.is_enabled()

    @property
    def _scale(self) -> float:
        return self.scaler.get_scale() if self._scaled and self.scaler else 1.0

    @_guarded
    def _after_optimizer(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if optimizer not in self._optimizers:
            groups = optimizer.param_groups
            if not any(id(p) in self._ids for group in groups for p in group["params"]):
                return
            self._optimizers.add(optimizer)
            self._rounds += not taps.depth
            if self._rounds > 1 and not self._scaled:
                self._sample_until = self.steps + 1 + self._rounds
        if not self._called:
            self._note_once(
                "The optimizer stepped, but no call of the model was seen. The monitor can't look "
                "into a compiled training step: compile the model alone."
            )
        line = mark()
        self._inquiry.updated = type(optimizer).__name__, line
        past = self._use is not None and self._use.after_optimizer(optimizer, line)
        step = self._step
        if taps.depth:  # each parameter is updated as soon as it has its gradient
            step.updated_in_backward = True
        elif self._ends_with(StepEvent.OPTIMIZER_STEP, past):
            if not step.has_gradients:
                self._inquiry.after_backward(self.steps, step.passes)
            self._end_step()

    @_guarded
    def _end_step(self) -> None:
        if not self._trains and self._step.passes:
            self._inquiry.after_backward(self.steps, self._step.passes)
        self._sampler.keep(self.steps, self._scale)
        if self.sampling:
            self._inquiry.look_at_buffers(self.model, self.steps)
        self.steps += 1
        if self._use is not None:
            self._use.step = self.steps
            self._use.forget()
        self._forget_step()
        self._hooks.place(everywhere=self.sampling)
        if self._live is not None:
            self._live()

    def _forget_step(self) -> None:
        """Let go of everything that belongs to one step: inputs, gradients, hooks on tensors."""
        self._step.remove_hooks()
        self._step = TrainingStep()
        self._sampler.forget()

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
        running = self._step.call
        if running is not None or taps.depth:
            if running is not None and running.module is module:
                running.depth += 1
            return
        if not self._wanted(module) or self._is_transformed():
            return
        self._called = True
        self._hooks.entries.add(path)
        taps.between.close()
        device = next((t.device for t in tensors_in((args, kwargs))), torch.device("cpu"))
        call = noted(path, module, args, kwargs, mark(), device)
        self._step.call = RunningCall(module, call)

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
        step = self._step
        if self.sampling and (step.call is not None or taps.depth):
            for seen, tensor in self._sampler.outputs(path, module, output):
                count = functools.partial(self._count_gradient, seen)
                step.handles.append(tensor.register_hook(count))
        running = step.call
        if running is None or running.module is not module or taps.depth:
            return
        running.depth -= 1
        if running.depth:
            return
        step.call = None
        if output is not None:
            self._note(running.call, output)

    @_guarded
    def _count_gradient(self, seen: Seen, grad: Tensor) -> None:
        self._sampler.gradient(seen, grad, self._scale)

    def _note(self, call: ModuleCall, output: Any) -> None:
        """Keep a call that has ended, and ask for the gradients of its outputs."""
        call.last = torch._C._autograd._get_sequence_nr()
        step = self._step
        current = step.passes[-1] if step.passes else None
        if current is None or current.backward or not self._trains:
            current = BackwardPass()
            step.passes = [*step.passes[-MOST_CALLS:], current] if self._trains else [current]
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
                step.handles.append(tensor.register_hook(silent(keep)))
        if self._watch_loss and any(t.requires_grad for t in tensors):
            log = current.log = taps.between.open(follow=follow)
            if log is not None:
                for tensor in tensors:
                    log.name(tensor, OUTPUT)

    # ---- backward ----------------------------------------------------------------------------

    @_guarded
    def before_backward(self, roots: list[Tensor], seeded: bool) -> None:
        """Look at the loss, and hook autograd's nodes between it and the model."""
        step = self._step
        step.backward = None
        if not step.passes:
            return
        last = step.passes[-1]
        current = BackwardPass(last.calls, last.log) if last.backward else last
        nodes = [root.grad_fn for root in roots if root.grad_fn is not None]
        step.handles += hook_nodes(current, nodes)
        if not reaches(current, roots):  # the backward pass of something else
            return
        step.backward = current
        step.handles += hook_between(current)
        if current is not last:  # a second loss of the same calls
            step.passes.append(current)
        current.loss = [found for root in roots if (found := extremes(root)) is not None]
        current.loss_mark = mark()
        if self._use is not None:
            edge = min(call.last for call in current.calls)
            self._use.before_backward(roots, edge, seeded, current.loss_mark)

    @_guarded
    def after_backward(self) -> None:
        """Check the gradients, unless the scaler will; count them in a sampled step."""
        step = self._step
        current, step.backward = step.backward, None
        if current is None:
            if step.passes and step.passes[-1].log is not None and not step.passes[-1].backward:
                taps.between.open(follow=True)  # the model's own loss is still to come
            return
        second = self._is_second(current)
        current.backward = step.has_gradients = True
        if self._use is not None:
            self._use.after_backward()
        if self.sampling and not second:
            self._sampler.weights(self.model, self._scale)
            if self._sampler.sinking:
                scale = self._scale if self._scaled else None
                self._inquiry.after_underflow(self.steps, current, scale)
        if not self._scaled:
            self._inquiry.after_backward(self.steps, [current])
            step.passes = [current]  # the ones before it were fine
            if self._ends_with(StepEvent.BACKWARD_END):
                self._end_step()

    def _is_second(self, current: BackwardPass) -> bool:
        """Whether these calls had a backward pass before, and were counted then."""
        return any(one.calls is current.calls for one in self._step.passes[:-1])

    @_guarded
    def before_clip(self, what: str, parameters: list[Any], bound: float) -> None:
        if self._use is not None:
            self._use.before_clip(what, parameters, bound)

    # ---- the scaler --------------------------------------------------------------------------

    @_guarded
    def _before_update(self) -> None:
        if not self._scaled or self.scaler is None:
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
            self._inquiry.after_skip(self.steps, self._step.passes, scale, self.skips)
        else:
            self._inquiry.after_update(self.steps, self._step.passes, scale)

    @_guarded
    def _after_update(self) -> None:
        if self._ends_with(StepEvent.SCALER_UPDATE):
            self._end_step()


__all__ = ["Monitor", "MonitorError"]
