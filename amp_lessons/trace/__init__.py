"""What autocast does to a whole model, op by op, with no GPU and no data.

`explain_autocast` runs the model's forward once on fake tensors and watches from below autocast:
one row an op, what is cast and what the cast cache spares, totals, and hazards with their cures.
What a single op does in general is `policy`'s matter; here it is this model's ops, in its order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from amp_lessons.fakes.calls import gpu_attention
from amp_lessons.fakes.errors import TraceError, first_line, reason
from amp_lessons.fakes.models import check_inputs, check_model, fake_inputs, stand_in, tensors_in
from amp_lessons.fakes.modes import autocast_on, check_device, quiet, rng_kept
from amp_lessons.fakes.saved import SavedBytes
from amp_lessons.foundations.precision import dtype_name
from amp_lessons.trace import hazards as rules
from amp_lessons.trace.recorder import (
    Calls,
    CastCounter,
    Event,
    Recorder,
    caller_of,
    follow_modules,
    forward_pass,
)
from amp_lessons.trace.report import Cast, Explanation, Hazard, Input, Row, Totals

__all__ = [
    "Cast",
    "Explanation",
    "Hazard",
    "Input",
    "Row",
    "Totals",
    "TraceError",
    "explain_autocast",
]

DEVICES = ("cuda", "cpu")
DTYPES = {
    "float16": torch.float16,
    "fp16": torch.float16,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
}


def explain_autocast(
    model: nn.Module,
    *inputs: Any,
    device: str = "cuda",
    dtype: torch.dtype | str = torch.float16,
    kwargs: Mapping[str, Any] | None = None,
) -> Explanation:
    """Say what ``torch.autocast(device, dtype)`` does to a model, without running it for real.

    The model may live on any device, also on "meta"; so may the inputs, of which only shape and
    dtype matter. Nothing is allocated and nothing is changed: a copy of the model runs, with fake
    tensors for parameters and buffers, in the model's own training or evaluation mode and under
    the caller's `torch.no_grad`, if there is one.

    Args:
        model: any module whose forward does not depend on values.
        inputs: of its forward: tensors, or tuples, lists and dicts of them, or plain values.
        device: "cuda" or "cpu"; autocast's rules differ.
        dtype: float16 or bfloat16, as a torch.dtype or by name.
        kwargs: keyword inputs of the forward.

    Raises:
        TraceError: in one line, with the module path, the op and the line of code where there is
            one: a model on two devices, a branch on a value, a missing input, a device or dtype
            that is not known, an op that refuses its inputs.
    """
    low = _check(model, device, dtype)
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    kwargs = dict(kwargs or {})
    check_inputs(model, inputs, kwargs)
    check_device(device)
    with _no_inference_mode():
        amp = _Pass(model, device, low)
        amp.run(inputs, kwargs, enabled=True)
        if amp.error is not None:
            raise amp.as_trace_error() from amp.error
        plain = _Pass(model, device, low)
        plain.run(inputs, kwargs, enabled=False)
    return amp.explanation(plain)


class _Pass:
    """One forward of a stand-in on fake tensors, with or without autocast."""

    def __init__(self, model: nn.Module, device: str, dtype: torch.dtype) -> None:
        self.model, self.device, self.dtype = model, device, dtype
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)
        with rng_kept():
            self.copy = stand_in(model, self.mode, device)
        self.recorder = Recorder(self.copy, device)
        self.calls = Calls(device, self.recorder)
        self.saved = SavedBytes(self.copy)
        self.error: Exception | None = None
        self.functions: list[Hazard] = []
        self.backward_casts: int | None = None

    def run(self, inputs: tuple[Any, ...], kwargs: dict[str, Any], enabled: bool) -> None:
        """Run the forward; what it raises is kept in `error`."""
        args, named = fake_inputs((inputs, kwargs), self.mode, self.device)
        self.recorder.name_arguments(self.copy.forward, args, named)
        follow_modules(self.copy, self.recorder)
        with ExitStack() as stack:
            stack.enter_context(rng_kept())
            stack.enter_context(quiet())
            stack.enter_context(self.mode)
            stack.enter_context(autocast_on(self.device, self.dtype, enabled))
            stack.enter_context(self.saved.counted())
            stack.enter_context(gpu_attention(self.calls))
            stack.enter_context(self.recorder)
            stack.enter_context(self.calls)
            try:
                output = forward_pass(self.copy, args, named)
            except Exception as error:
                self.error = error
                return
        tensors = tensors_in(output)
        self.functions = rules.of_functions(tensors)
        if enabled:
            self.backward_casts = self._backward([t for t in tensors if t.grad_fn is not None])

    def _backward(self, outputs: list[Tensor]) -> int | None:
        """Casts in a backward pass from all outputs; None where fake tensors cannot do one."""
        if self.device == "cuda" and not torch.cuda.is_available():
            return None
        try:
            with rng_kept(), quiet(), self.mode, CastCounter() as casts:
                torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])
        except Exception:
            return None
        if not any(map(rules.dtypes_in_one_op, self.recorder.events)):  # otherwise it never ran
            self.functions += rules.of_backward(casts.refused)
        return casts.count

    def trouble(self) -> str:
        """Why this pass would not run with real tensors; "" if it would."""
        if self.error is not None:
            return first_line(self.error)
        refused = filter(None, map(rules.dtypes_in_one_op, self.recorder.events))
        return next((hazard.message for hazard in refused), "")

    def explanation(self, plain: _Pass | None) -> Explanation:
        """Rows, totals and hazards of this pass; ``plain`` is the one without autocast."""
        events = self.recorder.events
        found = [
            *rules.of_parameters(self.model),
            *rules.of_refused(self.calls.refusals),
            *rules.of_written(self.calls.written),
            *rules.without_refused(rules.find(events), self.calls.refusals),
            *self.functions,
        ]
        notes = _notes(events, self.device)
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
            tuple(event.row for event in events),
            _totals(self, fp32),
            rules.together(found),
            tuple(notes),
        )

    def as_trace_error(self) -> TraceError:
        """The error with the place where it came up."""
        error, path, op = self.recorder.failed
        if error is not self.error:
            path, op = "", ""
        assert self.error is not None, "a pass that ended well has no error to tell"
        where = caller_of(self.error)
        place = path or "the model itself"
        if path:
            place += f" ({type(self.copy.get_submodule(path)).__name__})"
        at = f", op {op}" if op else ""
        code = f" ({where})" if where else ""
        message = f"stopped in {place}{at}{code}: {reason(self.error)}"
        return TraceError(message, path, op, where, self.explanation(None))


def _check(model: Any, device: str, dtype: torch.dtype | str) -> torch.dtype:
    """The dtype, if everything about the call is in order. Raises `TraceError`."""
    if device not in DEVICES:
        raise TraceError(f"device {str(device)!r} is not known here; choose {' or '.join(DEVICES)}")
    low = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if low is None or low not in DTYPES.values():
        raise TraceError(
            f"autocast does not take {dtype_name(dtype) or dtype}; use float16 or bfloat16"
        )
    check_model(model)
    return low


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


def _totals(done: _Pass, fp32: int | None) -> Totals:
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


def _notes(events: list[Event], device: str) -> list[str]:
    """What a reader must know about how far the trace stands for a GPU."""
    notes = []
    ops = {event.row.op for event in events}
    if device == "cuda" and not torch.cuda.is_available():
        if any("flash_attention" in op or "efficient_attention" in op for op in ops):
            notes.append("attention is taken to run in a fused kernel, as on a GPU")
        if any("_thnn_fused" in op for op in ops):
            notes.append(
                "without cuDNN the RNN is shown step by step, with the casts and bytes of its "
                "steps; a GPU runs it as one op, in the same dtypes"
            )
    if "aten::mkldnn_rnn_layer" in ops and torch.is_grad_enabled():
        notes.append("oneDNN also keeps a workspace for the RNN's backward; it is not counted")
    return notes
