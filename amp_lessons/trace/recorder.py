"""Watching a forward pass from below autocast: which ops really run, in which dtype, after what.

`Recorder` is a dispatch mode: it sees each op after autocast and autograd have had their turn, and
so sees autocast's casts as ops of their own (`aten::_to_copy`). `Calls` is a function mode: it
sees the call as the model wrote it. `SavedBytes` counts what autograd keeps for backward.
"""

from __future__ import annotations

import contextlib
import inspect
import linecache
import math
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import torch
import torch.utils.checkpoint
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

from amp_lessons import fakes
from amp_lessons.fakes.calls import GpuCalls
from amp_lessons.fakes.ops import LOW, is_cached, op_name, run_op, storage_id
from amp_lessons.foundations.precision import dtype_name
from amp_lessons.trace.report import Cast, Input, Row

_KEYS = {
    "cuda": torch._C.DispatchKey.AutocastCUDA,
    "cpu": torch._C.DispatchKey.AutocastCPU,
}
_CONVERSIONS = ("to", "float", "half", "bfloat16", "double", "type", "type_as")
_NO_WORK = ("detach", "alias", "lift_fresh", "_unsafe_view", "device", "empty", "empty_like")
_PASS_ON = ("aten::_to_copy", "aten::abs", "aten::gather", "aten::index", "aten::index_select")
_CONSTANTS = {"aten::scalar_tensor": 0, "aten::full": 1, "aten::full_like": 1, "aten::new_full": 2}
_ADD_EPS = ("aten::add", "aten::add_", "aten::clamp", "aten::clamp_", "aten::clamp_min",
            "aten::clamp_min_", "aten::maximum")  # fmt: skip
_SUBTRACT_EPS = ("aten::sub", "aten::sub_")
_FILL_EPS = {"aten::masked_fill": 2, "aten::masked_fill_": 2, "aten::where": 3}
_ONE_DTYPE = (
    "mm", "addmm", "addmm_", "mv", "addmv", "addmv_", "addbmm", "linalg_cross", "index_add",
    "index_add_", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put", "convolution",
)  # fmt: skip
_NORMS = ("native_layer_norm", "native_group_norm", "native_batch_norm")


@dataclass
class Origin:
    """Where a tensor's storage comes from, as far as a later row needs to know it.

    Attributes:
        dtype: before autocast cast it; otherwise its own.
        name: of the parameter or buffer; "" for an activation.
        argument: of the model's forward that it came in by; "" for all others.
        op: the op that made it, e.g. "aten::sigmoid".
        made_by: the number of the row that made it, before a cast by autocast; -1 if none did.
        row: the number of the row it was cast for; -1 if it was not cast by autocast.
        how: as for `Cast`; "" if it was not cast by autocast.
        lost_eps: a positive constant that was added and that this dtype rounds to zero.
        constant: the number in a tensor that was made from one.
        complement: whether it is 1 minus what ``op`` made.
        before: the origin of what was cast.
        cached: whether autocast keeps the cast until its region ends.
    """

    dtype: torch.dtype
    name: str = ""
    argument: str = ""
    op: str = ""
    made_by: int = -1
    row: int = -1
    how: str = ""
    lost_eps: float | None = None
    constant: float | None = None
    before: Origin | None = None
    cached: bool = False
    complement: bool = False


@dataclass(frozen=True)
class Event:
    """A row together with what the hazard rules need: never kept after the trace."""

    row: Row
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: tuple[tuple[Tensor, Origin], ...]
    outputs: tuple[Tensor, ...]


class Recorder(TorchDispatchMode):
    """Turns the ops of a forward pass into rows.

    Attributes:
        events: one for each op that computes, in order.
        path: the module that runs now; "" for the model itself.
        failed: the latest error, with the module path and the op ("" if no op raised it).
        recomputes: whether a cast was made in a part that `torch.utils.checkpoint` runs twice.
    """

    def __init__(self, model: nn.Module, device: str) -> None:
        super().__init__()
        self.key = _KEYS[device]
        self.events: list[Event] = []
        self.path: list[str] = [""]
        self.failed: tuple[BaseException | None, str, str] = (None, "", "")
        self.call = ""
        self.acting_as_autocast = False
        self.recomputes = False
        self._in_autocast = False
        self._pending: list[Cast] = []
        self._origins: dict[int, Origin] = {}
        self._storages: list[Any] = []  # alive, so that no address comes twice
        self._cast_from: set[tuple[int, torch.dtype]] = set()
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            self._remember(tensor, Origin(tensor.dtype, name))

    def name_arguments(
        self, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """Remember what the forward calls its inputs. Without a signature they have no names."""
        try:
            given = inspect.signature(forward).bind(*args, **kwargs).arguments
        except (TypeError, ValueError):  # the call itself will say what is wrong
            return
        for name, value in given.items():
            for tensor in tree_leaves(value):
                if isinstance(tensor, Tensor) and storage_id(tensor) not in self._origins:
                    self._remember(tensor, Origin(tensor.dtype, argument=name))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func._schema.name
        if name == "prim::device":  # autocast asks for it before each cast, inside its kernel
            self._in_autocast = torch._C._dispatch_tls_is_dispatch_key_excluded(self.key)
            return func(*args, **kwargs)
        by_autocast = self._in_autocast and self.call not in _CONVERSIONS
        by_autocast = by_autocast or self.acting_as_autocast
        try:
            result = run_op(func, args, kwargs)
        except Exception as error:
            self.failed = (error, self.path[-1], name)
            raise
        outputs = tuple(t for t in tree_leaves(result) if isinstance(t, Tensor))
        if name == "aten::_to_copy" and by_autocast and _changes_dtype(args[0], result):
            self._note_cast(args[0], result)
        elif name in ("aten::clone", "aten::contiguous"):
            self._remember(result, self.origin(args[0]))
        elif name == "aten::lift_fresh":
            self._remember(result, Origin(result.dtype, constant=_number_in(args[0])))
        elif not _is_quiet(func, name) and _has_floats(args, kwargs, outputs):
            self._note_op(func, name, args, kwargs, outputs, flops_of(func, args, kwargs, result))
        return result

    def _note_cast(self, source: Tensor, result: Tensor) -> None:
        origin = self.origin(source)
        self.recomputes = self.recomputes or _is_checkpointed()
        key = (storage_id(source), result.dtype)
        how = "again" if key in self._cast_from else "new"
        self._cast_from.add(key)
        cast = Cast(
            origin.name or "activation",
            dtype_name(source.dtype),
            dtype_name(result.dtype),
            how,
            cached=is_cached(source, result),
            differentiable=torch.is_grad_enabled() and source.requires_grad,
            bytes=result.numel() * result.element_size(),
        )
        self._pending.append(cast)
        made = replace(
            origin,
            dtype=source.dtype,
            op="aten::_to_copy",
            row=len(self.events),
            how=how,
            before=origin,
            cached=cast.cached,
        )
        self._remember(result, made)

    def _note_op(self, func, name, args, kwargs, outputs, flops) -> None:
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        inputs = tuple((t, self.origin(t)) for t in tensors)
        now = len(self.events)
        cached = [
            Cast(
                o.name or "activation",
                dtype_name(o.dtype),
                dtype_name(t.dtype),
                "from cache",
                True,
            )
            for t, o in inputs
            if o.cached and o.row < now
        ]
        floats = [t for t in tensors if t.is_floating_point()]
        where, code = caller()
        row = Row(
            number=now,
            path=self.path[-1],
            op=name,
            call=self.call,
            where=where,
            code=code,
            dtypes_in=tuple(dtype_name(o.dtype) for t, o in inputs if t.is_floating_point()),
            computed_in=dtype_name(computed_in(name, floats, outputs)),
            dtype_out=dtype_name(outputs[0].dtype) if outputs else "",
            casts=(*self._pending, *cached),
            inputs=tuple(_as_input(t, o, now) for t, o in inputs if t.is_floating_point()),
            flops=flops,
            grad_casts=sum(cast.differentiable for cast in self._pending)
            + promoted(func, floats, outputs)
            + _converted(name, args, outputs),
        )
        self._pending = []
        self.events.append(Event(row, func, args, kwargs, inputs, outputs))
        self._follow(func, name, args, inputs, outputs)

    def _follow(self, func, name, args, inputs, outputs) -> None:
        """Remember what made the outputs, and whether a constant got lost in them."""
        constants = [o.constant for _, o in inputs if o.constant is not None]
        eps, now = lost_eps(name, args, constants, outputs), len(self.events) - 1
        for out in outputs:
            if func._schema.is_mutable and any(out is t for t, _ in inputs):
                before = self.origin(out)
                self._remember(out, replace(before, lost_eps=eps, constant=None, made_by=now))
                continue
            origin = Origin(out.dtype, op=name, made_by=now, lost_eps=eps)
            if name in _PASS_ON and inputs:
                origin.before = inputs[0][1]
                origin.lost_eps = origin.before.lost_eps
                origin.constant = origin.before.constant
            if _is_complement(name, args) and inputs:
                origin.before, origin.complement = inputs[0][1], True
            if name in _CONSTANTS:
                origin.constant = _held(name, args[_CONSTANTS[name]], out.dtype)
            self._remember(out, origin)

    def origin(self, tensor: Tensor) -> Origin:
        """Where this tensor comes from; views share their base's origin."""
        return self._origins.get(storage_id(tensor)) or Origin(tensor.dtype)

    def _remember(self, tensor: Tensor, origin: Origin) -> None:
        strided = tensor.layout is torch.strided
        self._storages.append(tensor.untyped_storage() if strided else tensor)
        self._origins[storage_id(tensor)] = origin


class Calls(GpuCalls):
    """Tells the recorder each call that the model wrote.

    Attributes:
        refusals: (module path, where, torch's message) of each BCE that autocast refuses.
        written: (module path, where, number, dtype) of each ``x[mask] = number`` that becomes inf:
            below, it is a tensor that holds inf already.
    """

    def __init__(self, device: str, recorder: Recorder) -> None:
        super().__init__(device)
        self.recorder = recorder
        self.refusals: list[tuple[str, str, str]] = []
        self.written: list[tuple[str, str, float, torch.dtype]] = []

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = "" if isinstance(func, FunctionType) else getattr(func, "__name__", "")
        self.recorder.call = name
        if func is Tensor.__setitem__:
            self._note_number(args[0], args[2])
        try:
            return super().run(func, args, kwargs)
        finally:
            self.recorder.call = ""

    def refused(self, message: str) -> None:
        self.refusals.append((self.recorder.path[-1], caller()[0], message))

    def _note_number(self, target: Tensor, number: Any) -> None:
        if target.dtype not in LOW or not isinstance(number, int | float):
            return
        if torch.finfo(target.dtype).max < abs(number) < math.inf:
            path = self.recorder.path[-1]
            self.written.append((path, caller()[0], float(number), target.dtype))

    @contextmanager
    def casting(self, call: str) -> Iterator[None]:
        """Count the casts made in here as autocast's, in a call of this name."""
        before = self.recorder.call
        self.recorder.call, self.recorder.acting_as_autocast = call, True
        try:
            yield
        finally:
            self.recorder.call, self.recorder.acting_as_autocast = before, False


class CastCounter(TorchDispatchMode):
    """Counts the casts between floating dtypes.

    Attributes:
        refused: ops that got two dtypes and take one, which only a real kernel refuses.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.refused: dict[str, list[str]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default:
            self.count += _changes_dtype(args[0], result)
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        dtypes = dtypes_that_differ(func, tensors)
        if dtypes:
            self.refused.setdefault(op_name(func), dtypes)
        if func is torch.ops.aten.native_group_norm_backward.default:
            # The real kernel gives each gradient in the dtype of what it is the gradient of.
            like = (args[1], args[4], args[4])
            pairs = zip(result, like, strict=True)
            result = tuple(
                g.to(t.dtype) if g is not None and t is not None else g for g, t in pairs
            )
        return result


def follow_modules(model: nn.Module, recorder: Recorder) -> None:
    """Keep `Recorder.path` at the module whose forward runs. Adds hooks: give it a stand-in."""
    for name, module in model.named_modules():
        if not name:
            continue

        def enter(*_: Any, name: str = name) -> None:
            recorder.path.append(name)

        def leave(*_: Any) -> None:
            path, error = recorder.path.pop(), sys.exc_info()[1]
            if error is not None and recorder.failed[0] is not error:
                recorder.failed = (error, path, "")

        module.register_forward_pre_hook(enter, prepend=True)
        module.register_forward_hook(leave, always_call=True)


# ---- reading one op -----------------------------------------------------------------------------


def _as_input(tensor: Tensor, origin: Origin, now: int) -> Input:
    """What the report keeps of a floating tensor that the op of row ``now`` takes."""
    how = origin.how if origin.row == now else ""
    if origin.cached and origin.row < now:
        how = "from cache"
    return Input(
        name=origin.name or origin.argument,
        made_by=origin.made_by,
        dtype=dtype_name(origin.dtype if how else tensor.dtype),
        used_as=dtype_name(tensor.dtype),
        how=how,
        cached=bool(how) and origin.cached,
    )


def computed_in(name: str, inputs: list[Tensor], outputs: tuple[Tensor, ...]) -> torch.dtype | None:
    """The widest floating dtype among the inputs and the first result.

    Tensors of no dimension do not count next to others, as in type promotion. Further results,
    such as attention's log-sum-exp, say nothing about the op's own arithmetic.
    """
    if name == "aten::_to_copy":
        return outputs[0].dtype
    floats = [t for t in (*inputs, *outputs[:1]) if t.is_floating_point()]
    with_size = [t for t in floats if t.dim()] or floats
    widest: torch.dtype | None = None
    for tensor in with_size:
        try:
            widest = torch.promote_types(widest, tensor.dtype) if widest else tensor.dtype
        except RuntimeError:  # float8 promotes with nothing
            widest = tensor.dtype
    return widest


def promoted(func: Any, inputs: list[Tensor], outputs: tuple[Tensor, ...]) -> int:
    """Gradients that autograd casts because type promotion widened their input in the forward.

    ``fp32 + fp16`` runs as one kernel without a cast; the engine casts the fp16 input's gradient.
    """
    if torch.Tag.pointwise not in func.tags or not outputs or not torch.is_grad_enabled():
        return 0
    return sum(t.requires_grad and t.dtype != outputs[0].dtype for t in inputs)


def dtypes_that_differ(func: Any, tensors: Iterable[Tensor]) -> list[str]:
    """The dtypes of the inputs, if they are two or more and the op takes but one; otherwise [].

    A CPU's norms take parameters of the input's dtype, and of float32 with a 16-bit input.
    """
    name, floats = op_name(func), [t for t in tensors if t.is_floating_point()]
    dtypes = list(dict.fromkeys(t.dtype for t in floats))
    if name in _NORMS and floats[0].device.type == "cpu":
        one_dtype = not (dtypes[0] in LOW and dtypes[1:] == [torch.float32])
    else:
        one_dtype = name in _ONE_DTYPE
    return [dtype_name(dtype) for dtype in dtypes] if one_dtype and len(dtypes) > 1 else []


def _converted(name: str, args: tuple[Any, ...], outputs: tuple[Tensor, ...]) -> int:
    """1 if the model's own conversion makes backward convert the gradient."""
    if name != "aten::_to_copy" or not torch.is_grad_enabled():
        return 0
    return int(args[0].requires_grad and _changes_dtype(args[0], outputs[0]))


def lost_eps(
    name: str, args: tuple[Any, ...], constants: list[float], outputs: tuple[Tensor, ...]
) -> float | None:
    """The positive constant that an op adds, bounds by or fills in, and the dtype cannot hold.

    ``constants`` are those that arrive as tensors.
    """
    known = (*_ADD_EPS, *_SUBTRACT_EPS, *_FILL_EPS)
    if name not in known or not outputs or outputs[0].dtype not in LOW:
        return None
    sign, place = -1 if name in _SUBTRACT_EPS else 1, _FILL_EPS.get(name, 1)
    found = (*args[place : place + 1], *constants)
    numbers = [sign * n for n in found if isinstance(n, int | float)]
    limit = smallest(outputs[0].dtype) / 2
    return next((eps for eps in numbers if 0 < eps <= limit), None)


def _held(name: str, number: Any, dtype: torch.dtype) -> float | None:
    """The number that a tensor is filled with; None if that raises, as past a format's end."""
    if not isinstance(number, int | float):
        return None
    if name == "aten::scalar_tensor":  # which rounds it to inf
        return float(number)
    raises = dtype in LOW and torch.finfo(dtype).max < abs(number) < math.inf
    return None if raises else float(number)


def _is_complement(name: str, args: tuple[Any, ...]) -> bool:
    """Whether this is 1 - p, or the -p of log1p(-p)."""
    return name == "aten::neg" or (name == "aten::rsub" and args[1] == 1)


def _number_in(tensor: Tensor) -> float | None:
    """The number that ``torch.tensor(number)`` wraps, if it is real and one."""
    real = tensor.constant if isinstance(tensor, FakeTensor) else tensor
    if real is None or real.numel() != 1 or real.is_complex() or real.device.type != "cpu":
        return None
    with _disable_current_modes():
        return float(real)


def _is_checkpointed() -> bool:
    """Whether `torch.utils.checkpoint` runs the part that makes this op."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not forward_pass.__code__:
        if frame.f_code.co_filename == _CHECKPOINT:
            return True
        frame = frame.f_back
    return False


def smallest(dtype: torch.dtype) -> float:
    """The smallest positive (subnormal) number of a dtype."""
    info = torch.finfo(dtype)
    return info.tiny * info.eps


def flops_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    """Operations of a matrix multiplication, convolution, attention or RNN; 0 for the rest."""
    name = func._schema.name
    if name == "aten::_scaled_dot_product_flash_attention_for_cpu":
        return sdpa_flop_count(*(t.shape for t in args[:3]))
    if name == "aten::mkldnn_rnn_layer":
        return 2 * math.prod(args[0].shape[:-1]) * (args[1].numel() + args[2].numel())
    if name in ("aten::_cudnn_rnn", "aten::miopen_rnn"):
        return 2 * math.prod(args[0].shape[:-1]) * sum(w.numel() for w in args[1] if w.dim() > 1)
    formula = flop_registry.get(func.overloadpacket)
    return int(formula(*args, **kwargs, out_val=result)) if formula else 0


def forward_pass(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the model. Its frame tells the recorder where the model's own code begins."""
    return model(*args, **kwargs)


def caller() -> tuple[str, str]:
    """The line of the model's own code that runs now: file and number, and its text.

    Both are "" if all the code that runs is torch's.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not forward_pass.__code__:
        path, number = frame.f_code.co_filename, frame.f_lineno
        if _is_models_own(path):
            return _line(path, number), linecache.getline(path, number).strip()
        frame = frame.f_back
    return "", ""


def caller_of(error: BaseException) -> str:
    """File and line of the model's own code that raised; "" if none of it was running."""
    steps = list(traceback.walk_tb(error.__traceback__))
    for frame, number in reversed(steps):
        if frame.f_code is forward_pass.__code__:
            break
        if _is_models_own(frame.f_code.co_filename):
            return _line(frame.f_code.co_filename, number)
    return ""


def _is_models_own(path: str) -> bool:
    return not path.startswith((*_HERE, _TORCH, _LIBRARY, "<"))


def _line(path: str, number: int) -> str:
    return f"{'cell' if 'ipykernel' in path else Path(path).name}:{number}"


_HERE = (str(Path(__file__).parent), str(Path(fakes.__file__).parent))
_TORCH = str(Path(torch.__file__).parent)
_LIBRARY = str(Path(contextlib.__file__))
_CHECKPOINT = torch.utils.checkpoint.__file__


def _changes_dtype(source: Tensor, result: Tensor) -> bool:
    return source.dtype != result.dtype and source.is_floating_point()


def _is_quiet(func: Any, name: str) -> bool:
    return func.is_view or name.partition("::")[2] in _NO_WORK


def _has_floats(args: Any, kwargs: Any, outputs: tuple[Tensor, ...]) -> bool:
    leaves = (*tree_leaves((args, kwargs)), *outputs)
    return any(isinstance(t, Tensor) and t.is_floating_point() for t in leaves)
