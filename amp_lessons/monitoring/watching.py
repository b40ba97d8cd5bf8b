"""The monitor itself: what it hooks, when it counts, and what it does after a bad step.

In each step it notes the model's calls and checks the gradients once. In a sampled step it also
hooks every module and counts. After a bad step it runs the call again, below a log of operations,
to find the op and the line. The parts: `calls` (the second run), `ops` (the log and the search),
`taps` (what PyTorch has no hook for), `counting`, `report` and `chart`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from amp_lessons.formats import Format, get_format
from amp_lessons.foundations.errors import AmpLessonsError
from amp_lessons.monitoring import taps
from amp_lessons.monitoring.calls import KEPT_BYTES, Call, noted
from amp_lessons.monitoring.counting import Edges, Tally
from amp_lessons.monitoring.findings import Fault, Sample, Seen, Skip
from amp_lessons.monitoring.places import Mark, mark
from amp_lessons.monitoring.report import Report
from amp_lessons.monitoring.search import HALF, OUTPUT, Node, Pass, Search
from amp_lessons.monitoring.tensors import (
    FINITE,
    extremes,
    kind,
    kind_of,
    numbers_of,
    tensors_in,
)
from amp_lessons.scaler_log import ScalerLog

MOST_CALLS = 64
"""Calls of the model in one step that are kept to be run again."""
MOST_NODES = 512
NAMED = 5
"""Names of parameters that a fault lists."""

_watched: weakref.WeakSet[nn.Module] = weakref.WeakSet()


class MonitorError(AmpLessonsError, ValueError):
    """The monitor can't watch this model, or not in this way."""


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


class Monitor(Report):
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
        self.model = _checked_model(model)
        self.scaler = _checked_scaler(scaler)
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise MonitorError(f"every must be a whole number of steps, 1 or more, not {every!r}")
        if isinstance(reruns, bool) or not isinstance(reruns, int) or reruns < 0:
            raise MonitorError(f"reruns must be a whole number, 0 or more, not {reruns!r}")
        self.every = every
        self.format = get_format(format)
        self.edges = Edges.of(self.format)
        self.steps = 0
        self.modules: dict[str, Seen] = {}
        self.samples: list[Sample] = []
        self.faults: list[Fault] = []
        self.skips: list[Skip] = []
        self.scales: list[float] = []
        self.bad_steps: list[int] = []
        self.notes: list[str] = []
        if not isinstance(loss, bool):
            raise MonitorError(f"loss must be True or False, not {loss!r}")
        self._watch_loss = loss
        self._reruns = reruns
        self._skip_reruns = min(reruns, 2)
        self._underflow_reruns = min(reruns, 2)
        self._failure: Exception | None = None
        self._manual = 0
        self._optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._optimizer_line: tuple[str, Mark | None] | None = None
        self._trains = False
        self._stale = False
        self._forget_step()
        self._entries: set[str] = {""}
        self._hooked: frozenset[str] | None = None  # None: all
        self._sample_until = 0
        self._handles: list[Any] = []
        self._sampling: list[Any] = []
        self._now: dict[str, Tally] = {}
        self._counted: dict[int, weakref.ref[Tensor]] = {}
        self._live: Any = None
        self._open()

    # ---- opening and closing -----------------------------------------------------------------

    def _open(self) -> None:
        if any(part in _watched for part in self.model.modules()):
            raise MonitorError(
                "a monitor already watches this model, or a part of it: close that one first "
                "(seen.close(), or leave its with block)"
            )
        self._say_what_is_hidden()
        self._parameters = dict(self.model.named_parameters())
        self._ids = {id(p) for p in self._parameters.values()}
        self._held = frozenset(n for n, p in self._parameters.items() if kind_of(p) != FINITE)
        _watched.update(self.model.modules())
        self.closed = False
        taps.listen(self)
        self._handles.append(register_optimizer_step_post_hook(self._after_optimizer))
        if self.scaler is not None:
            tap = taps.ScalerTap.on(self.scaler)
            tap.add(self._before_update, self._after_update)
        self._hook_step()

    def close(self) -> None:
        """Stop watching, and take every hook away. What was seen stays. Safe to repeat."""
        if self.closed:
            return
        self.closed = True
        taps.stop_listening(self)
        if self.scaler is not None:
            taps.ScalerTap.on(self.scaler).remove(self._before_update, self._after_update)
        for handle in [*self._handles, *self._sampling, *self._step_handles]:
            handle.remove()
        self._handles.clear()
        self._sampling.clear()
        self._keep_sample()
        self._forget_step()
        self._optimizer_line = None
        for part in self.model.modules():
            _watched.discard(part)
        self._parameters, self._ids = {}, set()
        if self._live is not None:
            self._live()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _say_what_is_hidden(self) -> None:
        hidden = [name or "the model" for name, part in self._parts() if _is_compiled(part)]
        if hidden:
            self._watch_loss = False
            shown = ", ".join(hidden[:3]) + (", …" if len(hidden) > 3 else "")
            self.notes.append(
                f"torch.compile hides what happens inside {shown}: only outputs and gradients of "
                "parameters are counted there. After a bad step, the op is looked for without the "
                "compiler, and the loss isn't watched op by op."
            )
        if any(type(p).__name__ == "DTensor" for p in self.model.parameters()):
            self.notes.append("Parameters are sharded: each process sees its own share of them.")

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

    @_guarded
    def _after_optimizer(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if optimizer not in self._optimizers:
            groups = optimizer.param_groups
            if not any(id(p) in self._ids for group in groups for p in group["params"]):
                return
            self._optimizers.add(optimizer)
            if len(self._optimizers) > 1 and not self._ends_by_update:
                self._sample_until = self.steps + 1 + len(self._optimizers)
        self._optimizer_line = (type(optimizer).__name__, mark())
        if not self._manual and not self._ends_by_update and self._backward_since:
            self._end_step()

    @_guarded
    def _end_step(self) -> None:
        if not self._trains and self._passes:
            self._check(self._passes)
        self._keep_sample()
        self.steps += 1
        for handle in self._step_handles:
            handle.remove()
        self._forget_step()
        self._hook_step()
        if self._live is not None:
            self._live()

    def _forget_step(self) -> None:
        """Let go of everything that belongs to one step: inputs, gradients, hooks on tensors."""
        self._passes: list[Pass] = []
        self._step_handles: list[Any] = []
        self._backward_since = False
        self._active: nn.Module | None = None
        self._depth = 0
        self._call: Call | None = None
        self._counted = {}

    @property
    def sampling(self) -> bool:
        """Whether the step that runs now is a sampled one.

        With two optimizers, as in a GAN, two steps in a row are sampled, one of each. The
        second is only known once it has stepped, so the first round may come a step later.
        """
        count = max(1, len(self._optimizers))
        return self.steps % self.every < count or self.steps < self._sample_until

    def _hook_step(self) -> None:
        """Hook every module for a sampled step, else only those that the user's code calls."""
        wanted = None if self.sampling else frozenset(self._entries)
        if wanted is not None and wanted == self._hooked:
            return  # as in the step before
        self._hooked = wanted
        for handle in self._sampling:
            handle.remove()
        self._sampling.clear()
        for path, part in self._parts():
            if wanted is not None and path not in wanted:
                continue
            before = functools.partial(self._before_call, path)
            after = functools.partial(self._after_call, path)
            if _is_compiled(part) and "_orig_mod" not in part._modules:
                before, after = torch._dynamo.disable(before), torch._dynamo.disable(after)
            self._sampling += [
                part.register_forward_pre_hook(before, with_kwargs=True),
                part.register_forward_hook(after, always_call=True),
            ]

    def _parts(self) -> Iterator[tuple[str, nn.Module]]:
        """Every module once, under its first path; nothing inside of what is compiled."""
        hidden: set[int] = set()
        for path, part in self.model.named_modules():
            if id(part) in hidden:
                continue
            yield path, part
            if _is_compiled(part):
                hidden |= {id(inner) for inner in part.modules()}

    # ---- calls of the model ------------------------------------------------------------------

    @_guarded
    def _before_call(self, path: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        if self._active is not None or taps.depth:
            self._depth += self._active is module
            return
        if not self._wanted(module):
            return
        self._entries.add(path)
        self._active, self._depth = module, 1
        taps.between.close()
        device = next((t.device for t in tensors_in((args, kwargs))), torch.device("cpu"))
        self._call = noted(path, module, args, kwargs, mark(), device)

    def _wanted(self, module: nn.Module) -> bool:
        """Whether a call belongs to training; if nothing trains, each call does."""
        if torch.is_grad_enabled() and module.training:
            self._trains = True
        return not self._trains or torch.is_grad_enabled()

    @_guarded
    def _after_call(self, path: str, module: nn.Module, args: Any, output: Any) -> None:
        if self._active is not None or taps.depth:
            self._count_outputs(path, module, output)
        if self._active is not module or taps.depth:
            return
        self._depth -= 1
        if self._depth:
            return
        call, self._active, self._call = self._call, None, None
        if call is not None and output is not None:
            self._note(call, output)

    def _note(self, call: Call, output: Any) -> None:
        """Keep a call that has ended, and ask for the gradients of its outputs."""
        call.last = torch._C._autograd._get_sequence_nr()
        current = self._passes[-1] if self._passes else None
        if current is None or current.backward or not self._trains:
            current = Pass()
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
                self._step_handles.append(tensor.register_hook(_silent(keep)))
        if self._watch_loss and any(t.requires_grad for t in tensors):
            log = current.log = taps.between.open(follow=follow)
            for tensor in tensors if log is not None else ():
                log.name(tensor, OUTPUT)  # type: ignore[union-attr]

    # ---- backward ----------------------------------------------------------------------------

    @_guarded
    def before_backward(self, roots: list[Tensor]) -> None:
        """Look at the loss, and hook autograd's nodes between it and the model."""
        if not self._passes or self._passes[-1].backward:
            return
        current = self._passes[-1]
        current.loss = [found for root in roots if (found := extremes(root)) is not None]
        current.loss_mark = mark()
        self._hook_nodes(current, [root.grad_fn for root in roots if root.grad_fn is not None])

    def _hook_nodes(self, current: Pass, todo: list[Any]) -> None:
        edge = max(call.last for call in current.calls)
        while todo and len(current.nodes) < MOST_NODES:
            node = todo.pop()
            sequence = node._sequence_nr()
            if not edge <= sequence < 1 << 60 or sequence in current.nodes:
                continue  # inside the model, or a leaf, which has no number of its own
            after = [n for n, _ in node.next_functions if n is not None]
            leads_to = tuple(n._sequence_nr() for n in after)
            at_edge = any(s < edge for s in leads_to)
            current.nodes[sequence] = Node(node.name(), sequence, leads_to, at_edge)
            came = functools.partial(_came, current, sequence)
            self._step_handles.append(node.register_prehook(came))
            todo += after

    @_guarded
    def after_backward(self) -> None:
        """Check the gradients, unless the scaler will; count them in a sampled step."""
        if not self._passes or self._passes[-1].backward:
            return
        current = self._passes[-1]
        current.backward = self._backward_since = True
        if self.sampling:
            self._count_weights(current)
        if not self._ends_by_update:
            self._check([current])
            self._passes = [current]  # the ones before it were fine

    def _broken_gradients(self) -> list[str]:
        """Names of the parameters whose gradients hold inf or NaN."""
        grads = {n: p.grad for n, p in self._parameters.items() if p.grad is not None}
        if any(g.is_cuda for g in grads.values()):
            total = torch.nn.utils.get_total_norm(
                [n for g in grads.values() if (n := numbers_of(g)) is not None],
                norm_type=float("inf"),
            )
            if bool(torch.isfinite(total)):  # the one wait for the GPU
                return []
        return [name for name, grad in grads.items() if kind_of(grad) != FINITE]

    def _check(self, passes: list[Pass]) -> None:
        """After a backward pass without a scaler, or a call without gradients: is all finite?"""
        current = passes[-1]
        broken = self._broken_gradients() if current.backward else []
        loss = any(kind(found) != FINITE for found in current.loss)
        if broken or loss:
            self.bad_steps.append(self.steps)
            self._add(self._investigate(passes, broken), broken, None)
        self._stale = bool(broken)

    # ---- the scaler --------------------------------------------------------------------------

    @_guarded
    def _before_update(self) -> None:
        if not self._ends_by_update or self.scaler is None:
            return
        scale = self.scaler.get_scale()
        self.scales.append(scale)
        found = [
            found_inf
            for state in self.scaler._per_optimizer_states.values()
            for found_inf in state["found_inf_per_device"].values()
        ]
        if not any(float(one) for one in found):
            self._stale = False
            self._check_losses(scale)
            return
        broken = self._broken_gradients()
        cause = self._why_skipped(broken)
        skip = Skip(self.steps, scale, tuple(broken[:NAMED]), len(broken), cause)
        self.skips.append(skip)
        self._stale = bool(broken)
        if cause is not None and (cause.phase != "backward" or cause.always or scale <= 1):
            self.bad_steps.append(self.steps)
            self._add(cause, broken, scale)

    def _check_losses(self, scale: float) -> None:
        """A loss can be NaN while every gradient is finite, as when each label is ignored."""
        bad = [p for p in self._passes if any(kind(found) != FINITE for found in p.loss)]
        bad = [p for p in bad if not self._search().only_scaled(p)]
        if bad:
            self.bad_steps.append(self.steps)
            self._add(self._investigate(bad, []), [], scale)

    def _why_skipped(self, broken: list[str]) -> Fault | None:
        """What overflowed. To skip a step is normal, so only the first few are looked into."""
        loss = any(kind(found) != FINITE for p in self._passes for found in p.loss)
        if not loss:
            if self._skip_reruns <= 0 and len(self.skips) % 10:
                return None
            self._skip_reruns -= 1
        return self._investigate(self._passes, broken)

    @_guarded
    def _after_update(self) -> None:
        if self._ends_by_update and not self._manual:
            self._end_step()

    # ---- what broke, and where ---------------------------------------------------------------

    def _add(self, fault: Fault | None, broken: list[str], scale: float | None) -> None:
        """Keep a fault that is not known yet."""
        if fault is None:
            return
        fault = replace(fault, parameters=tuple(broken[:NAMED]), broken=len(broken), scale=scale)
        known = {(f.phase, f.op, f.place) for f in self.faults}
        in_this_step = any(f.step == fault.step for f in self.faults)
        after_another = in_this_step or (self.faults and fault.phase in ("parameter", "gradient"))
        if (fault.phase, fault.op, fault.place) not in known and not after_another:
            self.faults.append(fault)

    def _investigate(self, passes: list[Pass], broken: list[str]) -> Fault | None:
        """Run what can be run again, and name the op. None if there were enough of these."""
        if self._reruns <= 0:
            return None
        self._reruns -= 1
        return self._search().run(passes, broken)

    def _search(self) -> Search:
        who, line = self._optimizer_line or ("", None)
        return Search(self.steps, self._parameters, self._stale, who, line, self._held)

    # ---- counting ----------------------------------------------------------------------------

    def _seen(self, path: str, module: nn.Module) -> Seen:
        found = self.modules.get(path)
        if found is None:
            found = self.modules[path] = Seen(path, type(module).__name__)
        return found

    def _count_outputs(self, path: str, module: nn.Module, output: Any) -> None:
        """Count a module's outputs, and later their gradients. Each tensor counts once."""
        if not self.sampling:
            return
        for tensor in tensors_in(output):
            known = self._counted.get(id(tensor))
            if not tensor.is_floating_point() or (known is not None and known() is tensor):
                continue  # it came out of a part of this module, where it was counted
            self._counted[id(tensor)] = weakref.ref(tensor)
            seen = self._seen(path, module)
            if not taps.depth:  # else checkpointing computes it for the second time
                self._tally(seen.activations, "activations", tensor, 1.0)
            if tensor.requires_grad:
                count = functools.partial(self._count_gradient, seen)
                self._step_handles.append(tensor.register_hook(count))

    @_guarded
    def _count_gradient(self, seen: Seen, grad: Tensor) -> None:
        self._tally(seen.gradients, "gradients", grad, self._scale)

    @property
    def _scale(self) -> float:
        return self.scaler.get_scale() if self._ends_by_update and self.scaler else 1.0

    def _tally(self, tally: Tally, what: str, tensor: Tensor, scale: float) -> None:
        one = Tally()
        one.add(tensor, self.edges, scale)
        tally.merge(one)
        self._now.setdefault(what, Tally()).merge(one)

    def _count_weights(self, current: Pass) -> None:
        scale = self._scale
        for path, module in self._parts():
            own = module.parameters(recurse=_is_compiled(module))
            grads = [p.grad for p in own if p.grad is not None]
            for grad in grads:
                self._tally(self._seen(path, module).weights, "weights", grad, scale)
        self._look_for_underflow(current)

    def _look_for_underflow(self, current: Pass) -> None:
        """If half of the parameters' gradients are zero, see whether float16 lost them."""
        weights = self._now.get("weights", Tally())
        low = "float16" in self._now.get("gradients", Tally()).dtypes | weights.dtypes
        if not low or weights.share(weights.zeros) < HALF or self._underflow_reruns <= 0:
            return
        self._underflow_reruns -= 1
        fault = self._search().underflow(current)
        if fault is not None:
            self._add(fault, [], self._scale if self._ends_by_update else None)

    def _keep_sample(self) -> None:
        """Put what this step counted into one line of the history."""
        if not self._now:
            return
        activations = self._now.get("activations", Tally())
        gradients = Tally()
        for what in ("gradients", "weights"):
            gradients.merge(self._now.get(what, Tally()))
        self._now = {}
        self.samples.append(
            Sample(
                self.steps,
                self._scale,
                activations.largest,
                gradients.largest,
                gradients.share(gradients.zeros + gradients.underflow),
                gradients.share(gradients.subnormal),
                activations.share(activations.overflow),
            )
        )


# ---- small helpers ---------------------------------------------------------------------------


def _checked_model(model: Any) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise MonitorError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    if any(isinstance(part, nn.DataParallel) for part in model.modules()):
        raise MonitorError(
            "DataParallel runs copies of the model that the monitor can't follow: use "
            "DistributedDataParallel, or monitor a run on one GPU"
        )
    return model


def _checked_scaler(scaler: Any) -> torch.amp.GradScaler | None:
    found = scaler.scaler if isinstance(scaler, ScalerLog) else scaler
    if found is not None and not isinstance(found, torch.amp.GradScaler):
        raise MonitorError(
            f"scaler must be a torch.amp.GradScaler or None, not {type(scaler).__name__}"
        )
    return found


def _is_compiled(module: nn.Module) -> bool:
    """Whether torch.compile runs this module."""
    return "_orig_mod" in module._modules or module._compiled_call_impl is not None


def _silent(keep: Callable[[Tensor], Any]) -> Callable[[Tensor], None]:
    """A tensor's hook that changes nothing: what a hook returns would replace the gradient."""

    def hook(grad: Tensor) -> None:
        keep(grad.detach())

    return hook


def _came(current: Pass, sequence: int, grads: tuple[Tensor | None, ...]) -> None:
    node = current.nodes[sequence]
    current.order.append(sequence)
    node.came += [found for g in grads if g is not None and (found := extremes(g)) is not None]
