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
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from amp_lessons.amp import fake_tensors
from amp_lessons.amp.attention import KernelChoice, forward_flops
from amp_lessons.amp.explain.dtype_recovery import DtypeRefusal, refusal, run_in_one_dtype
from amp_lessons.amp.explain.facts import Fact, Values
from amp_lessons.amp.explain.rows import Cast, Input, OpRow
from amp_lessons.amp.explain.tensor_sizes import (
    UNKNOWN,
    ModuleCalls,
    keeps_result,
    moved,
    nbytes,
    sizes,
)
from amp_lessons.amp.fake_tensors.calls import GpuCalls
from amp_lessons.amp.fake_tensors.not_run import Used
from amp_lessons.amp.fake_tensors.ops import LOW, is_cached, op_name, run_op, storage_id
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.precision import dtype_name

_KEYS = {
    "cuda": torch._C.DispatchKey.AutocastCUDA,
    "cpu": torch._C.DispatchKey.AutocastCPU,
}
_CONVERSIONS = ("to", "float", "half", "bfloat16", "double", "type", "type_as")
_NO_WORK = (
    "detach", "alias", "lift_fresh", "_unsafe_view", "device", "empty", "empty_like", "new_empty",
    "empty_strided", "new_empty_strided", "_use_cudnn_ctc_loss", "_use_miopen_ctc_loss",
)  # fmt: skip
_ONE_DTYPE = (
    "mm", "addmm", "addmm_", "mv", "addmv", "addmv_", "addbmm", "linalg_cross", "index_add",
    "index_add_", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put", "convolution",
    "index_copy", "index_copy_", "index_reduce", "index_reduce_", "put", "put_", "heaviside",
    "heaviside_", "complex", "polar", "grid_sampler_2d", "grid_sampler_3d", "_embedding_bag",
    "_embedding_bag_forward_only",
)  # fmt: skip
_NEW_TENSORS = (torch.tensor, torch.as_tensor, torch.asarray, Tensor.new_tensor)
_NORMS = ("native_layer_norm", "native_group_norm", "native_batch_norm")


@dataclass
class StorageOrigin:
    """Where a tensor's storage comes from, as far as a later row needs to know it.

    Attributes:
        dtype: before autocast cast it; otherwise its own.
        name: of the parameter or buffer; "" for an activation.
        argument: of the model's forward that it came in by; "" for all others.
        op: the op that made it, e.g. "aten::sigmoid".
        made_by: the number of the row that made it, before a cast by autocast; -1 if none did.
        row: the number of the row it was cast for; -1 if it was not cast by autocast.
        how: as for `Cast`; "" if it was not cast by autocast.
        cached: whether autocast keeps the cast until its region ends.
    """

    dtype: torch.dtype
    name: str = ""
    argument: str = ""
    op: str = ""
    made_by: int = -1
    row: int = -1
    how: str = ""
    cached: bool = False


@dataclass(frozen=True)
class OpEvent:
    """A row together with what the hazard rules need: never kept after the trace.

    Attributes:
        facts: what was known of the values of each of `inputs` before the op ran.
        made: what is known of each of `outputs`.
    """

    row: OpRow
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: tuple[tuple[Tensor, StorageOrigin], ...]
    outputs: tuple[Tensor, ...]
    facts: tuple[Fact, ...] = ()
    made: tuple[Fact, ...] = ()


class Recorder(TorchDispatchMode):
    """Turns the ops of a forward pass into rows.

    Attributes:
        events: one for each op that computes, in order.
        path: the module that runs now; "" for the model itself.
        failed: the latest error, with the module path and the op ("" if no op raised it).
        recomputes: whether a cast was made in a part that `torch.utils.checkpoint` runs twice.
        saved: bytes that autograd keeps for backward, by the number of the row that it does so for.
        modules: how often each module ran, and what came out.
        kernel: of the call of attention that runs now, and why it was taken; ("", "") for none.
        values: what is known of each tensor's values.
        refused: calls that raise because of their inputs' dtypes; the trace went on.
        used: which parameters were given to an op.
    """

    def __init__(self, model: nn.Module, device: str) -> None:
        super().__init__()
        self.key = _KEYS[device]
        self.events: list[OpEvent] = []
        self.path: list[str] = [""]
        self.failed: tuple[BaseException | None, str, str] = (None, "", "")
        self.call = ""
        self.acting_as_autocast = False
        self.real = False  # real tensors: autocast does not ask them for their device
        self.autocast_is_on = False
        self.trains = True  # whether the pass may have gradients; autocast turns them on inside
        self.recomputes = False
        self.saved: dict[int, int] = {}
        self.modules = ModuleCalls()
        self.kernel = ("", "")
        self.values = Values()
        self.refused: list[DtypeRefusal] = []
        self.used = Used(model)
        self._in_autocast = False
        self._pending: list[Cast] = []
        self._origins: dict[int, StorageOrigin] = {}
        self._storages: list[Any] = []  # alive, so that no address comes twice
        self._cast_from: set[tuple[int, torch.dtype]] = set()
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            self._remember(tensor, StorageOrigin(tensor.dtype, name))

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
                    self._remember(tensor, StorageOrigin(tensor.dtype, argument=name))

    def keep(self, tensor: Tensor, count: int) -> None:
        """Put bytes that autograd saves to the row that keeps them: the latest or the next."""
        number = len(self.events)
        if self.events and keeps_result(self.events[-1].outputs, tensor):
            number -= 1
        self.saved[number] = self.saved.get(number, 0) + count

    def rows(self) -> tuple[OpRow, ...]:
        """All rows, with the bytes saved for each; what comes after the last is the last's."""
        last = len(self.events) - 1
        late = sum(count for number, count in self.saved.items() if number > last)
        saved = self.saved | {last: self.saved.get(last, 0) + late}
        return tuple(replace(e.row, saved=saved.get(e.row.number, 0)) for e in self.events)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func._schema.name
        if name == "prim::device":  # autocast asks for it before each cast, inside its kernel
            self._in_autocast = torch._C._dispatch_tls_is_dispatch_key_excluded(self.key)
            return func(*args, **kwargs)
        self.used.note(func, args, kwargs)
        inside = self.autocast_is_on if self.real else self._in_autocast
        by_autocast = inside and self.call not in _CONVERSIONS and not self.kernel[0]
        by_autocast = by_autocast or self.acting_as_autocast
        try:
            result = run_op(func, args, kwargs)
        except Exception as error:
            self.failed = (error, self.path[-1], name)
            result, args, kwargs = self._run_refused(func, args, kwargs, error)
        outputs = tuple(t for t in tree_leaves(result) if isinstance(t, Tensor))
        if name == "aten::_to_copy" and by_autocast and _changes_dtype(args[0], result):
            self._note_cast(args[0], result)
            self.values.note(func, args, kwargs, outputs)
        elif name in ("aten::clone", "aten::contiguous"):
            self._remember(result, self.origin(args[0]))
            self.values.note(func, args, kwargs, outputs)
        elif name == "aten::lift_fresh":
            self._remember(result, StorageOrigin(result.dtype))
            self.values.note(func, args, kwargs, outputs)
        elif (
            not _is_quiet(func, name)
            and not name.startswith("prim::")
            and _has_floats(args, kwargs, outputs)
        ):
            self._note_op(func, name, args, kwargs, outputs, flops_of(func, args, kwargs, result))
        else:
            self.values.note(func, args, kwargs, outputs)
        return result

    def _run_refused(self, func, args, kwargs, error) -> tuple[Any, tuple[Any, ...], dict]:
        """Go on after an op that refuses its dtypes. Raises ``error`` for any other reason."""
        name, writes = op_name(func), func._schema.is_mutable
        done = run_in_one_dtype(lambda *a, **k: run_op(func, a, k), args, kwargs, error, writes)
        self.refused.append(refusal(self.path[-1], caller()[0], name, args, kwargs, error))
        return done

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
            differentiable=self.trains and torch.is_grad_enabled() and source.requires_grad,
            bytes=nbytes(result),
            bytes_moved=nbytes(source) + nbytes(result),
        )
        self._pending.append(cast)
        made = replace(
            origin,
            dtype=source.dtype,
            op="aten::_to_copy",
            row=len(self.events),
            how=how,
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
                bytes=nbytes(t),
            )
            for t, o in inputs
            if o.cached and o.row < now
        ]
        floats = [t for t in tensors if has_fraction(t)]
        where, code = caller()
        row = OpRow(
            number=now,
            path=self.path[-1],
            op=name,
            call=self.call,
            where=where,
            code=code,
            dtypes_in=tuple(dtype_name(o.dtype) for t, o in inputs if has_fraction(t)),
            computed_in=dtype_name(computed_in(name, floats, outputs)),
            dtype_out=dtype_name(outputs[0].dtype) if outputs else "",
            casts=(*self._pending, *cached),
            inputs=tuple(_as_input(t, o, now) for t, o in inputs if has_fraction(t)),
            flops=flops,
            grad_casts=sum(cast.differentiable for cast in self._pending)
            + promoted(func, floats, outputs)
            + _converted(name, args, outputs),
            shapes_in=tuple(map(sizes, tensors)),
            shape_out=sizes(outputs[0]) if outputs else (),
            bytes_moved=moved(name, tensors, outputs),
            kernel=self.kernel[0],
            kernel_why=self.kernel[1],
        )
        self._pending = []
        facts = tuple(map(self.values.of, tensors))
        self.values.note(func, args, kwargs, outputs)
        made = tuple(map(self.values.of, outputs))
        self.events.append(OpEvent(row, func, args, kwargs, inputs, outputs, facts, made))
        self._follow(func, name, inputs, outputs)

    def _follow(self, func, name, inputs, outputs) -> None:
        """Remember what made the outputs."""
        now = len(self.events) - 1
        for out in outputs:
            if func._schema.is_mutable and any(out is t for t, _ in inputs):
                self._remember(out, replace(self.origin(out), made_by=now))
            else:
                self._remember(out, StorageOrigin(out.dtype, op=name, made_by=now))

    def origin(self, tensor: Tensor) -> StorageOrigin:
        """Where this tensor comes from; views share their base's origin."""
        return self._origins.get(storage_id(tensor)) or StorageOrigin(tensor.dtype)

    def _remember(self, tensor: Tensor, origin: StorageOrigin) -> None:
        strided = tensor.layout is torch.strided
        self._storages.append(tensor.untyped_storage() if strided else tensor)
        self._origins[storage_id(tensor)] = origin


class Calls(GpuCalls):
    """Tells the recorder each call that the model wrote.

    Attributes:
        refusals: (module path, where, torch's message) of each BCE that autocast refuses.
        written: (module path, where, call, number, dtype) of each ``x[mask] = number`` and
            ``torch.tensor(number, dtype=...)`` that becomes inf: the op below gets inf already.
    """

    def __init__(self, device: str, recorder: Recorder, gpu: str | None = None) -> None:
        super().__init__(device, gpu)
        self.recorder = recorder
        self.refusals: list[tuple[str, str, str]] = []
        self.written: list[tuple[str, str, str, float, torch.dtype]] = []

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = "" if isinstance(func, FunctionType) else getattr(func, "__name__", "")
        self.recorder.call = name
        self.recorder.autocast_is_on = torch.is_autocast_enabled(self.device)
        if func is Tensor.__setitem__:
            self._note_number(name, args[0].dtype, args[2])
        elif func in _NEW_TENSORS:
            of = args[0].dtype if func is Tensor.new_tensor else torch.get_default_dtype()
            self._note_number(name, kwargs.get("dtype") or of, args[-1] if args else None)
        rows = len(self.recorder.events)
        try:
            return super().run(func, args, kwargs)
        except Exception as error:
            computed = any(event.inputs for event in self.recorder.events[rows:])
            by_an_op = self.recorder.failed[0] is error  # which was tried again already
            if computed or by_an_op or isinstance(error, AmpLessonsError):
                raise
            del self.recorder.events[rows:]  # constants of the call, which runs again
            return self._run_refused(func, args, kwargs, error)
        finally:
            self.recorder.call = ""

    def _run_refused(self, func: Any, args: Any, kwargs: Any, error: Exception) -> Any:
        """Go on after a call whose dtypes torch refuses before it dispatches any op."""
        name = getattr(func, "__name__", "")
        writes = name == "__setitem__" or (name.endswith("_") and not name.startswith("_"))
        again = super().run

        def run(*args: Any, **kwargs: Any) -> Any:
            return again(func, args, kwargs)

        result, *_ = run_in_one_dtype(run, args, kwargs, error, writes)
        at = (self.recorder.path[-1], caller()[0])
        self.recorder.refused.append(refusal(*at, name.strip("_"), args, kwargs, error))
        return result

    def refused(self, message: str) -> None:
        self.refusals.append((self.recorder.path[-1], caller()[0], message))

    def _note_number(self, call: str, dtype: torch.dtype, data: Any) -> None:
        if dtype not in LOW:
            return
        numbers = [n for n in tree_leaves(data) if isinstance(n, int | float)]
        largest = max(numbers, key=abs, default=0)
        if torch.finfo(dtype).max < abs(largest) < math.inf:
            path = self.recorder.path[-1]
            self.written.append((path, caller()[0], call, float(largest), dtype))

    @contextmanager
    def casting(self, call: str) -> Iterator[None]:
        """Count the casts made in here as autocast's, in a call of this name."""
        before = self.recorder.call
        self.recorder.call, self.recorder.acting_as_autocast = call, True
        try:
            yield
        finally:
            self.recorder.call, self.recorder.acting_as_autocast = before, False

    @contextmanager
    def attending(self, choice: KernelChoice) -> Iterator[None]:
        """Mark the rows made in here as those of a call of attention, with its kernel."""
        before = self.recorder.call
        self.recorder.call = "scaled_dot_product_attention"
        self.recorder.kernel = (choice.kernel, choice.why)
        try:
            yield
        finally:
            self.recorder.call, self.recorder.kernel = before, ("", "")


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
        result = run_op(func, args, kwargs or {})
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
    """Keep `Recorder.path` at the module whose forward runs. Adds hooks: give it a stand-in.

    A module with a fast path on a CPU gets none, nor what is inside it: with hooks it takes none.
    """
    hidden = set(_with_fast_path(model, recorder))
    for name, module in model.named_modules():
        if not name or module in hidden:
            continue

        def enter(*_: Any, name: str = name) -> None:
            recorder.path.append(name)

        def leave(_module: nn.Module, _args: Any, output: Any) -> None:
            path, error = recorder.path.pop(), sys.exc_info()[1]
            recorder.modules.left(path, output)
            if error is not None and recorder.failed[0] is not error:
                recorder.failed = (error, path, "")

        module.register_forward_pre_hook(enter, prepend=True)
        module.register_forward_hook(leave, always_call=True)


def _with_fast_path(model: nn.Module, recorder: Recorder) -> Iterator[nn.Module]:
    """Modules that run as one op in evaluation, with those inside. On a GPU autocast forbids it."""
    if recorder.trains or recorder.key is not _KEYS["cpu"]:
        return
    for module in model.modules():
        if isinstance(module, _FAST) and not module.training:
            yield from module.modules()


_FAST = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)


# ---- reading one op -----------------------------------------------------------------------------


def _as_input(tensor: Tensor, origin: StorageOrigin, now: int) -> Input:
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
    """The widest floating or complex dtype among the inputs and the first result.

    Tensors of no dimension do not count next to others, as in type promotion. Further results,
    such as attention's log-sum-exp, say nothing about the op's own arithmetic.
    """
    if name == "aten::_to_copy":
        return outputs[0].dtype
    floats = [t for t in (*inputs, *outputs[:1]) if has_fraction(t)]
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


def _is_checkpointed() -> bool:
    """Whether `torch.utils.checkpoint` runs the part that makes this op."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not forward_pass.__code__:
        if frame.f_code.co_filename == _CHECKPOINT:
            return True
        frame = frame.f_back
    return False


def flops_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    """Operations of a matrix multiplication, convolution, attention or RNN; 0 for the rest."""
    name = func._schema.name
    if name == "aten::_grouped_mm":
        return _grouped_flops(*(sizes(t) for t in args[:2]))
    if name.startswith("aten::_scaled_dot_product_"):
        shapes = [sizes(t) for t in args[:3]]
        return 0 if any(UNKNOWN in shape for shape in shapes) else forward_flops(*shapes)
    if name == "aten::mkldnn_rnn_layer":
        return 2 * math.prod(args[0].shape[:-1]) * (args[1].numel() + args[2].numel())
    if name in ("aten::_cudnn_rnn", "aten::miopen_rnn"):
        return 2 * math.prod(args[0].shape[:-1]) * sum(w.numel() for w in args[1] if w.dim() > 1)
    formula = flop_registry.get(func.overloadpacket)
    count = formula(*args, **kwargs, out_val=result) if formula else 0
    return 0 if isinstance(count, torch.SymInt) else int(count)


def _grouped_flops(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """Of a product for each group: each row of ``left`` meets one group's matrix."""
    if UNKNOWN in (*left, *right):
        return 0
    rows = left[1:] if len(left) > len(right) else left
    return 2 * math.prod(rows) * right[-1]


def forward_pass(model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the model, or the loss. Its frame tells the recorder where their own code begins."""
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


_HERE = (str(Path(__file__).parent), str(Path(fake_tensors.__file__).parent))
_TORCH = str(Path(torch.__file__).parent)
_LIBRARY = str(Path(contextlib.__file__))
_CHECKPOINT = torch.utils.checkpoint.__file__


def _changes_dtype(source: Tensor, result: Tensor) -> bool:
    """Whether a conversion goes from one floating dtype to another."""
    floats = source.is_floating_point() and result.is_floating_point()
    return floats and source.dtype != result.dtype


def _is_quiet(func: Any, name: str) -> bool:
    return func.is_view or name.partition("::")[2] in _NO_WORK


def _has_floats(args: Any, kwargs: Any, outputs: tuple[Tensor, ...]) -> bool:
    leaves = (*tree_leaves((args, kwargs)), *outputs)
    return any(isinstance(t, Tensor) and has_fraction(t) for t in leaves)


def has_fraction(tensor: Tensor) -> bool:
    """Whether a tensor is of floating or complex numbers."""
    return tensor.is_floating_point() or tensor.is_complex()
