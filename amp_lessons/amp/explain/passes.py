"""One forward pass that is watched: how it is set up, and what is told of it afterwards.

A pass runs a stand-in of the model, on fake tensors or on real copies; `explain_autocast` compares
one under autocast with one without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from amp_lessons.amp.explain import hazards as rules
from amp_lessons.amp.explain.recorder import (
    Calls,
    CastCounter,
    OpEvent,
    Recorder,
    caller_of,
    follow_modules,
    forward_pass,
)
from amp_lessons.amp.explain.report import Explanation
from amp_lessons.amp.explain.rows import Hazard, Totals
from amp_lessons.amp.fake_tensors.attention import notes as kernel_notes
from amp_lessons.amp.fake_tensors.calls import on_gpu
from amp_lessons.amp.fake_tensors.errors import (
    CANNOT_FOLLOW,
    TraceError,
    first_line,
    kind_of,
    reason,
)
from amp_lessons.amp.fake_tensors.known import KnownValues
from amp_lessons.amp.fake_tensors.models import check_loss, fake_inputs, stand_in, tensors_in
from amp_lessons.amp.fake_tensors.modes import (
    as_in_a_run,
    autocast_on,
    ctrl_c_between_ops,
    fake_mode,
    quiet,
    rng_kept,
)
from amp_lessons.amp.fake_tensors.saved import SavedBytes
from amp_lessons.core.precision import dtype_name


@dataclass(frozen=True)
class TraceRequest:
    """What `explain_autocast` was asked: its arguments, checked.

    Attributes:
        loss: called as ``loss(output, target)`` inside the autocast region; None for none.
        train: the mode that the stand-in is put into; None leaves it as the model is.
        grad: False runs the pass under `torch.no_grad`.
        gpu: whose attention kernels run for "cuda"; None for this machine's, or an H200.
        floats: the dtype that the model and its inputs are converted to first; None for none.
    """

    model: nn.Module
    inputs: tuple[Any, ...]
    device: str
    dtype: torch.dtype
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    loss: Callable[[Any, Any], Any] | None = None
    target: Any = None
    train: bool | None = None
    grad: bool = True
    gpu: str | None = None
    floats: torch.dtype | None = None


FAKE, REAL, UNBACKED = "fake", "real", "unbacked"
"""What a pass runs on: fake tensors that know integers; real values (on the CPU for "cpu", and
beside fake CUDA tensors for "cuda"); fakes whose sizes may depend on values that no one knows."""


class ForwardPass:
    """One forward of a stand-in, with or without autocast."""

    def __init__(self, asked: TraceRequest, values: str = FAKE) -> None:
        self.asked, self.values = asked, values
        self.model, self.device, self.dtype = asked.model, asked.device, asked.dtype
        self.mode = _mode(asked.device, values)
        with rng_kept():
            self.copy = stand_in(
                self.model, self.mode, self.device, asked.floats, values=values == REAL
            )
            self.loss = self._loss(asked.loss)
        if asked.train is not None:
            self.copy.train(asked.train)
        self.recorder = Recorder(self.copy, self.device)
        self.recorder.real = self.mode is None
        self.recorder.values.learn(self.model, self.copy)
        self.calls = Calls(self.device, self.recorder, asked.gpu)
        self.saved = SavedBytes(self.copy, self.recorder.keep)
        self.error: Exception | SystemExit | None = None
        self.functions: list[Hazard] = []
        self.backward_casts: int | None = None
        self.trains = False
        self.enabled = False
        self.in_loss = False  # whether the forward is done, and the loss is computed

    def _loss(self, loss: Callable[[Any, Any], Any] | None) -> Callable[[Any, Any], Any] | None:
        """The loss; of one that is a module, such as a weighted one, a stand-in on the device."""
        if not isinstance(loss, nn.Module):
            return loss
        floats, real = self.asked.floats, self.values == REAL
        return stand_in(loss, self.mode, self.device, floats, values=real)

    def run(self, enabled: bool) -> None:
        """Run the forward and the loss; what they raise is kept in `error`."""
        self.enabled = enabled
        given = (self.asked.inputs, dict(self.asked.kwargs), self.asked.target)
        real = self.values == REAL
        args, named, target = fake_inputs(
            given, self.mode, self.device, self.asked.floats, values=real
        )
        self.recorder.name_arguments(self.copy.forward, args, named)
        self.trains = self.recorder.trains = self.asked.grad and torch.is_grad_enabled()
        follow_modules(self.copy, self.recorder)
        with ExitStack() as stack:
            stack.enter_context(rng_kept())
            stack.enter_context(quiet())
            stack.enter_context(torch.set_grad_enabled(self.trains))
            if self.mode is not None:
                stack.enter_context(self.mode)
                stack.enter_context(KnownValues(self.mode, floats=real))
                stack.enter_context(as_in_a_run(self.copy, self.loss))
            stack.enter_context(autocast_on(self.device, self.dtype, enabled))
            stack.enter_context(self.saved.counted())
            stack.enter_context(on_gpu(self.calls))
            stack.enter_context(self.recorder)
            stack.enter_context(self.calls)
            try:
                output = forward_pass(self.copy, args, named)
                if self.loss is not None:
                    self.in_loss = True
                    output = _loss_of(self.loss, output, target)
            except TraceError:
                raise
            except (Exception, SystemExit) as error:
                self.error = error
                return
        self.recorder.modules.left("", output)
        tensors = tensors_in(output)
        self.functions = rules.of_functions(tensors)
        if enabled:
            self.backward_casts = self._backward([t for t in tensors if t.grad_fn is not None])

    def _backward(self, outputs: list[Tensor]) -> int | None:
        """Casts in a backward pass from all outputs; None where fake tensors cannot do one."""
        if self.device == "cuda" and not torch.cuda.is_available():
            return None
        try:
            with rng_kept(), quiet(), self.mode or nullcontext(), CastCounter() as casts:
                torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])
        except Exception:
            return None
        refused = any(map(rules.dtypes_in_one_op, self.recorder.events)) or self.recorder.refused
        if not refused:  # otherwise it never ran
            self.functions += rules.of_backward(casts.refused)
        return casts.count

    def trouble(self) -> str:
        """Why this pass would not run with real tensors; "" if it would."""
        if self.error is not None:
            return first_line(self.error)
        refused = filter(None, map(rules.dtypes_in_one_op, self.recorder.events))
        raised = (*rules.of_raised(self.recorder.refused), *refused)
        return next((hazard.message for hazard in raised), "")

    def raises(self) -> str:
        """What stops a step with real tensors that fake ones let pass, or ""; as a report says it.

        With no autocast there is no GradScaler either, which alone refuses 16-bit parameters.
        """
        if self.error is not None:
            return ""
        stopped = (h for h in self.explanation(None).hazards if h.severity == "raises")
        scaled = self.asked.dtype == torch.float16 and self.enabled
        found = (h for h in stopped if scaled or h.kind != "16-bit parameters")
        return next((f"{h.message}; {h.fix}" for h in found), "")

    def explanation(self, plain: ForwardPass | None) -> Explanation:
        """Rows, totals and hazards of this pass; ``plain`` is the one without autocast."""
        events = self.recorder.events
        of_ops = rules.find(events)
        found = [
            *rules.of_parameters(self.copy, self.trains),
            *rules.of_refused(self.calls.refusals),
            *rules.of_written(self.calls.written, of_ops),
            *rules.of_raised(self.recorder.refused),
            *rules.without_refused(of_ops, self.calls.refusals),
            *self.functions,
        ]
        named = self.asked.gpu is not None
        kernels = kernel_notes(self.calls.choices, self.calls.gpu, named)
        notes = [*kernels, *_notes(events, self.device)]
        if self.recorder.recomputes and self.backward_casts is None:
            notes.append("a checkpointed part casts again in backward; that is not counted")
        trouble = plain.trouble() if plain is not None else ""
        if trouble:
            notes.append(f"without autocast the model does not run: {trouble}")
        fp32 = plain.saved.total if plain is not None and not trouble else None
        return Explanation(
            type(self.model).__name__,
            self.device,
            dtype_name(self.dtype),
            torch.__version__,
            self.recorder.rows(),
            _totals(self, fp32),
            rules.together(found),
            tuple(notes),
            self.recorder.modules.of(self.model),
            gpu=self.calls.gpu,
            values=REAL if self.values == REAL else FAKE,
            not_run=self.recorder.used.not_run(
                self.model.forward, self.asked.inputs, self.asked.kwargs
            ),
        )

    def as_trace_error(self) -> TraceError:
        """The error with the place where it came up, and whether it is the model's."""
        error, path, op = self.recorder.failed
        if error is not self.error:
            path, op = "", ""
        assert self.error is not None, "a pass that ended well has no error to tell"
        where, kind = caller_of(self.error), kind_of(self.error)
        place = path or ("the loss" if self.in_loss else "the model itself")
        if path:
            place += f" ({type(self.copy.get_submodule(path)).__name__})"
        at = f", op {op}" if op else ""
        code = f" ({where})" if where else ""
        what = "loss" if self.in_loss and not path else "model"
        raises = f"the {what} raises"
        who = f"the trace cannot follow this {what}" if kind == CANNOT_FOLLOW else raises
        message = f"{who}: stopped in {place}{at}{code}: {reason(self.error)}"
        return TraceError(message, path, op, where, self.explanation(None), kind)


def explained(asked: TraceRequest, values: str = FAKE) -> Explanation:
    """What a pass under autocast shows, beside one without. Raises `TraceError` if it stops."""
    with _no_inference_mode(), ctrl_c_between_ops():
        amp = ForwardPass(asked, values)
        amp.run(enabled=True)
        if amp.error is not None:
            raise amp.as_trace_error() from amp.error
        plain = ForwardPass(asked, values)
        plain.run(enabled=False)
        return amp.explanation(plain)


def what_raises(asked: TraceRequest, autocast: bool) -> str:
    """What stops a training step with real tensors that fake ones let pass."""
    with _no_inference_mode(), ctrl_c_between_ops():
        done = ForwardPass(asked)
        done.run(enabled=autocast)
        return done.raises()


def _loss_of(loss: Callable[[Any, Any], Any], output: Any, target: Any) -> Any:
    """The loss's value. Raises `TraceError` where it is not a tensor, for nothing could learn."""
    value = forward_pass(loss, (output, target), {})
    check_loss(value)
    return value


def _mode(device: str, values: str) -> FakeTensorMode | None:
    if values == REAL and device == "cpu":
        return None
    if values != UNBACKED:
        return fake_mode(None)
    from torch.fx.experimental.symbolic_shapes import ShapeEnv  # with sympy, most of a second

    return fake_mode(ShapeEnv())


@contextmanager
def _no_inference_mode() -> Iterator[None]:
    """Under `torch.inference_mode` record as under no_grad, with the cache out of use.

    There torch hands composite ops to a dispatch mode before autocast has seen their parts; and
    autocast's cache is not used there, so that each use casts again.
    """
    if not torch.is_inference_mode_enabled():
        yield
        return
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with torch.inference_mode(False), torch.no_grad():
            yield
    finally:
        torch.set_autocast_cache_enabled(before)


def _totals(done: ForwardPass, fp32: int | None) -> Totals:
    rows = [event.row for event in done.recorder.events]
    casts = [cast for row in rows for cast in row.casts]
    ran = [cast for cast in casts if cast.how != "from cache"]
    low = ("float16", "bfloat16")
    parameters = list(done.model.parameters())
    counted = done.backward_casts
    return Totals(
        ops=len(rows),
        flops=sum(row.flops for row in rows),
        flops_16bit=sum(row.flops for row in rows if row.computed_in in low),
        casts_forward=len(ran),
        casts_cached=len(casts) - len(ran),
        casts_backward=sum(row.grad_casts for row in rows) if counted is None else counted,
        backward_counted=counted is not None,
        cached_bytes=sum(cast.bytes for cast in ran if cast.cached),
        saved_fp32=fp32,
        saved_amp=done.saved.total,
        parameters=sum(p.numel() for p in parameters),
        parameter_bytes=sum(p.numel() * p.element_size() for p in parameters),
    )


def _notes(events: list[OpEvent], device: str) -> list[str]:
    """What a reader must know about how far the trace stands for a GPU."""
    notes = []
    ops = {event.row.op for event in events}
    if device == "cuda" and any("_thnn_fused" in op for op in ops):
        notes.append(
            "without cuDNN the RNN is shown step by step, with the casts and bytes of its steps; "
            "a GPU runs it as one op, in the same dtypes"
        )
    recurrent = [e for e in events if e.row.op == "aten::mkldnn_rnn_layer"]
    if torch.is_grad_enabled() and any(e.args[-1] and not e.outputs[-1].numel() for e in recurrent):
        notes.append(
            "this CPU's oneDNN has no such RNN: the workspace that it would keep for backward is "
            "not counted"
        )
    return notes
