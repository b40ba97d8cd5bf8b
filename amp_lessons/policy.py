"""What autocast does to each operation, asked live: on the CPU, and on CUDA with or without a GPU.

No rule is written down here. The table at the end says only how to *call* each operation; its
answer comes from running it under autocast with 16-bit, float32 and mixed input, beside a run
without autocast. Where there is no GPU, CUDA's rules are asked on fake tensors, which have a
device, a dtype and a shape but no data: autocast's dispatch keys work on them as on real ones.
Whole models are left to `trace`.
"""

from __future__ import annotations

import dataclasses
import difflib
import html
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from amp_lessons.fakes.cuda import ensure_cuda_guard, failures_unlogged
from amp_lessons.foundations.errors import AmpLessonsError

Group = Literal["lower precision", "float32", "widest", "as given", "refused", "not answerable"]
GROUPS: tuple[Group, ...] = (
    "lower precision",
    "float32",
    "widest",
    "as given",
    "refused",
    "not answerable",
)
DEVICES = ("cuda", "cpu")
DTYPES = {
    "fp16": torch.float16,
    "float16": torch.float16,
    "half": torch.float16,
    "bf16": torch.bfloat16,
    "bfloat16": torch.bfloat16,
}


class PolicyError(AmpLessonsError, ValueError):
    """An op, a device or a dtype that this module has no answer for."""


@dataclass(frozen=True)
class OpPolicy:
    """What autocast does to one operation.

    Attributes:
        op: its name in `OPS`.
        device: ``"cuda"`` or ``"cpu"``.
        dtype: the 16-bit dtype that autocast was asked for.
        low: dtype of the result for input of ``dtype``; None where there is none, and ``note``
            says why.
        full: the same for float32 input.
        mixed: the same where the first floating-point tensor is 16 bit and the others are
            float32; None also for an op that takes only one.
        group: what autocast does:
            ``"lower precision"`` casts to ``dtype``, ``"float32"`` computes in float32,
            ``"widest"`` casts to the widest input's dtype, ``"as given"`` does nothing,
            ``"refused"`` raises, ``"not answerable"`` here.
        measured: ``"measured"`` on real tensors, or ``"fake tensors"``.
        note: why, with torch's own message for what raises.
        double: dtype of the result for float64 input, which autocast leaves alone.
        listed: whether autocast has a rule for this very op; an op without one still changes if
            what it calls has one.
        inputs: how many floating-point tensors the call takes; with one there is nothing to mix.
    """

    op: str
    device: str
    dtype: torch.dtype
    low: torch.dtype | None
    full: torch.dtype | None
    mixed: torch.dtype | None
    group: Group
    measured: Literal["measured", "fake tensors"]
    note: str
    double: torch.dtype | None = None
    listed: bool = False
    inputs: int = 1


def op_policy(op: str, device: Any = "cuda", dtype: Any = torch.float16) -> OpPolicy:
    """What autocast does to one operation, asked now.

    Args:
        op: a name in `OPS`, such as ``"softmax"``. Prefixes (``torch.``, ``F.``, ``aten::``), the
            name of an overload at the end and, where only one op can be meant, case and
            underscores do not matter, except the last one of an op in place.
        device: ``"cuda"`` or ``"cpu"``, or a `torch.device`.
        dtype: `torch.float16` or `torch.bfloat16`, or ``"fp16"``, ``"bf16"``.

    Raises:
        PolicyError: (a ValueError) for an unknown op, device or dtype; the message has near
            matches.
    """
    name, device, dtype = find_op(op), _checked_device(device), find_dtype(dtype)
    with _sandbox(device, dtype) as bench:
        return _judge(name, bench)


def policy_table(device: Any = "cuda", dtype: Any = torch.float16) -> list[OpPolicy]:
    """`op_policy` of every op in `OPS`, in their order; a second or two.

    Raises:
        PolicyError: as `op_policy`.
    """
    device, dtype = _checked_device(device), find_dtype(dtype)
    with _sandbox(device, dtype) as bench:
        return [_judge(name, bench) for name in OPS]


def counts(table: Iterable[OpPolicy]) -> dict[Group, int]:
    """How many ops are in each group, in the order of `GROUPS`."""
    found = Counter(policy.group for policy in table)
    return {group: found[group] for group in GROUPS}


def rules(device: Any) -> set[str]:
    """The operators that autocast has a rule for on a device, from torch's own dispatcher.

    Names as in ATen, overloads left out: ``"softmax"``, ``"cross_entropy_loss"``.

    Raises:
        PolicyError: for another device than ``"cuda"`` or ``"cpu"``.
    """
    key = {"cuda": "AutocastCUDA", "cpu": "AutocastCPU"}[_checked_device(device)]
    registered = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return {name.removeprefix("aten::").split(".")[0] for name in registered}


# ---- names --------------------------------------------------------------------------------------


def find_op(op: str) -> str:
    """The name in `OPS` that is meant.

    Raises:
        PolicyError: if there is none; the message has near matches.
    """
    if not isinstance(op, str):
        raise PolicyError(f"op must be a name such as 'softmax', got {type(op).__name__}")
    spellings = _spellings(op)
    for name in spellings:
        if name in _CALLS:
            return name
        for known, operator in _OPERATORS.items():
            if name == operator:
                return known
    last = op.strip().replace("::", ".").rpartition(".")[2]
    bare = (spellings or [last])[-1]
    written = bare.endswith(("_", "(out=)"))  # that mark is no matter of spelling
    loose = [] if written else _alike(spellings)
    if len(loose) == 1:
        return loose[0]
    near = loose or _near(bare) or _near(last)
    hint = f"near it: {', '.join(near)}" if near else _ELSEWHERE
    if written:
        hint = f"autocast leaves alone what works in place or with out=; {hint}"
    raise PolicyError(f"no op called {op!r} among the {len(OPS)} that can be asked; {hint}")


def _near(name: str) -> list[str]:
    return difflib.get_close_matches(name.lower(), OPS, n=3, cutoff=0.6)


_ELSEWHERE = (
    "amp_lessons.policy.OPS has the names, and amp_lessons.trace.explain_autocast shows any op in "
    "a model that has it"
)
# Where the functions of the table live. One of the same name elsewhere (torch.sparse.mm,
# torch.ao.nn.quantized.functional.linear) is another function.
_HOMES = {"torch", "nn", "functional", "F", "ops", "aten", "Tensor", "modules", "special"}
_FAMILIES = ("linalg", "fft")


def _spellings(op: str) -> list[str]:
    """The names that a dotted one can stand for, the most exact first; none if its home is other.

    ``aten.addmm.default``, as a dispatch mode or a profiler prints it, ends in an overload, and
    ``torch.fft.rfft`` is ``fft_rfft`` in ATen and in the table.
    """
    parts = op.strip().replace("::", ".").split(".")
    while len(parts) > 1 and parts[0] in _HOMES:
        del parts[0]
    match parts:
        case [name]:
            return [name]
        case [family, name] if family in _FAMILIES:
            return [f"{family}_{name}", name]
        case [name, "out"]:
            return [f"{name}(out=)"]
        case [name, _overload]:
            return [name]
    return []


def _alike(names: Iterable[str]) -> list[str]:
    """The ops of the table that differ from one of these in case and underscores alone."""
    loose = {_loosely(name) for name in names}
    return [name for name in OPS if _loosely(name) in loose]


def _loosely(name: str) -> str:
    return name.replace("_", "").lower()


def _checked_device(device: Any) -> str:
    name = str(device).split(":")[0].lower()
    if name in DEVICES:
        return name
    near = difflib.get_close_matches(name, DEVICES, n=1, cutoff=0.5)
    hint = f"; near it: {near[0]!r}" if near else ""
    raise PolicyError(f"device must be 'cuda' or 'cpu', got {str(device)!r}{hint}")


def find_dtype(dtype: Any) -> torch.dtype:
    """The 16-bit dtype that is meant: itself, or by a name such as ``"fp16"`` or ``"bfloat16"``.

    Raises:
        PolicyError: if autocast does not compute in it.
    """
    known = dtype if isinstance(dtype, torch.dtype) else DTYPES.get(_bare_dtype(dtype))
    if known in (torch.float16, torch.bfloat16):
        return known
    near = difflib.get_close_matches(_bare_dtype(dtype), DTYPES, n=1)
    hint = f"; near it: {near[0]!r}" if near and known is None else ""
    raise PolicyError(f"autocast computes in torch.float16 or torch.bfloat16, not {dtype}{hint}")


def _bare_dtype(dtype: Any) -> str:
    return str(dtype).lower().removeprefix("torch.")


# ---- asking -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Bench:
    """Where ops are tried: a device and a dtype, with real or fake tensors."""

    device: str
    dtype: torch.dtype
    measured: Literal["measured", "fake tensors"]
    rules: frozenset[str]

    @property
    def low(self) -> str:
        return short(self.dtype)

    @property
    def place(self) -> str:
        return "on fake tensors" if self.measured == "fake tensors" else f"on this {self.device}"


_LOCK = threading.RLock()  # the default dtype, the RNG and the warning filters are the process's


@contextmanager
def _sandbox(device: str, dtype: torch.dtype) -> Iterator[_Bench]:
    """Everything that a trial could disturb, set aside and put back, also after an exception.

    Autocast's cache of casts is switched off rather than emptied, so that an autocast region
    around the caller keeps its own.
    """
    real = device == "cpu" or torch.cuda.is_available()
    known = frozenset(rules(device))
    gpus = list(range(torch.cuda.device_count())) if device == "cuda" and real else []
    with ExitStack() as stack:
        stack.enter_context(_LOCK)
        stack.enter_context(_disable_current_modes())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # deprecated ops are asked too
        stack.enter_context(torch.random.fork_rng(devices=gpus))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.no_grad())
        stack.enter_context(_default_float32())
        stack.enter_context(_autocast_state_kept())
        for other in DEVICES:
            torch.set_autocast_enabled(other, False)
        torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(False)
        if not real:
            from torch._subclasses.fake_tensor import FakeTensorMode

            ensure_cuda_guard()
            stack.enter_context(failures_unlogged())
            stack.enter_context(FakeTensorMode())
        yield _Bench(device, dtype, "measured" if real else "fake tensors", known)


@contextmanager
def _default_float32() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def _autocast_state_kept() -> Iterator[None]:
    """Put back what a region of `torch.autocast` would, without opening one.

    `torch.autocast("cuda")` switches itself off on a machine without CUDA, so this module sets
    the state that it would set.
    """
    before = [
        (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
        for device in DEVICES
    ]
    cached = torch.is_autocast_cache_enabled()
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(cached)
        for device, enabled, dtype in before:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)


class _Inputs:
    """Makes the tensors of a call, and counts those of a floating-point dtype.

    The first gets the first dtype, all others the second. What they hold is valid for every op
    of the table: 0.5 is in the domain of acos, log and erfinv alike.
    """

    def __init__(self, device: str, first: torch.dtype, others: torch.dtype) -> None:
        self.device = device
        self.dtypes = (first, others)
        self.made = 0

    def __call__(self, *shape: int) -> Tensor:
        """A floating-point tensor."""
        return torch.full(shape, 0.5, dtype=self._next(), device=self.device)

    def eye(self, n: int) -> Tensor:
        """The identity, for what needs a matrix that can be inverted."""
        return torch.eye(n, dtype=self._next(), device=self.device)

    def ints(self, value: int, *shape: int) -> Tensor:
        """int64: targets and indices."""
        return torch.full(shape, value, dtype=torch.int64, device=self.device)

    def _next(self) -> torch.dtype:
        self.made += 1
        return self.dtypes[self.made > 1]


class _Casts(TorchDispatchMode):
    """Collects the casts between floating-point dtypes, as (from, to).

    It stands below autocast, so it sees the casts that autocast makes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[tuple[torch.dtype, torch.dtype]] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and args[0].is_floating_point():
            self.seen[args[0].dtype, result.dtype] += 1
        return result


@dataclass(frozen=True)
class _Trial:
    """One run of an op: the dtype of its result or why there is none, and the casts it made."""

    dtype: torch.dtype | None
    error: str
    casts: Counter[tuple[torch.dtype, torch.dtype]]
    tensors: int

    def casts_to(self, dtype: torch.dtype, without: _Trial) -> bool:
        """Whether it casts to ``dtype``, and does so more often than without autocast."""
        return any(to is dtype for _, to in self.casts - without.casts)


def _try(
    call: Callable[[_Inputs], Any], bench: _Bench, first: torch.dtype, others: torch.dtype, on: bool
) -> _Trial:
    """Run an op once, under autocast or not."""
    inputs = _Inputs(bench.device, first, others)
    casts, result, error = _Casts(), None, ""
    torch.set_autocast_enabled(bench.device, on)
    try:
        with casts:
            result = _first_tensor(call(inputs))
    except Exception as problem:  # whatever torch raises is the answer
        error = _told(problem)
    finally:
        torch.set_autocast_enabled(bench.device, False)
    dtype = result.dtype if result is not None else None
    return _Trial(dtype, error, casts.seen, inputs.made)


def _first_tensor(result: Any) -> Tensor:
    """The tensor that an op returns, or the first of several."""
    while isinstance(result, tuple | list):
        result = result[0]
    if not isinstance(result, Tensor):
        raise TypeError(f"gives {type(result).__name__}, not a tensor")
    return result


def _told(problem: Exception) -> str:
    """torch's own words, without the advice for developers that follows them."""
    text = str(problem).split("\nException raised from")[0].strip()
    return text or type(problem).__name__


# ---- judging ------------------------------------------------------------------------------------


def _judge(name: str, bench: _Bench) -> OpPolicy:
    """Try an op with every kind of input, with and without autocast, and say what changed."""
    call, low, full = _CALLS[name], bench.dtype, torch.float32
    kinds = {"low": (low, low), "full": (full, full), "mixed": (low, full)}
    off = {kind: _try(call, bench, *dtypes, on=False) for kind, dtypes in kinds.items()}
    on = {kind: _try(call, bench, *dtypes, on=True) for kind, dtypes in kinds.items()}
    double = _try(call, bench, torch.float64, torch.float64, on=True)
    group = _group(on, off, low)
    single = on["full"].tensors < 2
    return OpPolicy(
        op=name,
        device=bench.device,
        dtype=low,
        low=on["low"].dtype,
        full=on["full"].dtype,
        mixed=None if single else on["mixed"].dtype,
        group=group,
        measured=bench.measured,
        note=_note(name, group, on, off, bench),
        double=double.dtype,
        listed=_operator(name) in bench.rules,
        inputs=on["full"].tensors,
    )


def _group(on: Mapping[str, _Trial], off: Mapping[str, _Trial], low: torch.dtype) -> Group:
    """What autocast does, from what differs between a run under it and one without.

    Casts count even where the op then fails, so a kernel that cannot run here still tells.
    """
    if on["full"].casts_to(low, off["full"]):
        return "lower precision"
    if on["low"].casts_to(torch.float32, off["low"]) or _widened(on["low"], off["low"], low):
        return "float32"
    if on["mixed"].casts_to(torch.float32, off["mixed"]):
        return "widest"
    if on["low"].error and on["full"].error:
        works_without = not (off["low"].error and off["full"].error)
        return "refused" if works_without else "not answerable"
    return "as given"


def _widened(on: _Trial, off: _Trial, low: torch.dtype) -> bool:
    """Whether the op was asked for a float32 result, which takes no cast of its input."""
    return on.dtype is torch.float32 and off.dtype is low


def _operator(name: str) -> str:
    """The ATen operator that an op of the table calls."""
    return _OPERATORS.get(name, name)


# ---- saying why ---------------------------------------------------------------------------------


def _note(
    name: str, group: Group, on: Mapping[str, _Trial], off: Mapping[str, _Trial], bench: _Bench
) -> str:
    """Why, in a sentence or two, with torch's own message for what raises."""
    if group == "refused":
        return f"raises: {on['full'].error}"
    broken = _sentence(on["full"].error) if on["low"].error and on["full"].error else ""
    if group == "not answerable":
        return f"does not run {bench.place}, with or without autocast: {broken}"
    parts = [_reason(group, on, off, bench)]
    if group != "as given" and _operator(name) not in bench.rules:
        parts.append(
            f"no rule for {_operator(name)} itself, but for some of what it calls; "
            "the rest runs in the dtype it is given"
        )
    if broken:
        return "; ".join(
            [*parts, f"told by its casts, for it does not run {bench.place}: {broken}"]
        )
    if group == "lower precision" and on["full"].dtype is torch.float32:
        parts.append("the result for float32 input is float32 again: not all of it is cast")
    for kind, words in (("low", bench.low), ("full", "float32")):
        if on[kind].error:
            parts.append(f"{words} input raises: {_sentence(on[kind].error)}")
    return "; ".join([*parts, *_about_mixed(name, group, on, bench)])


def _reason(
    group: Group, on: Mapping[str, _Trial], off: Mapping[str, _Trial], bench: _Bench
) -> str:
    if group == "lower precision":
        return f"casts float32 input to {bench.low}"
    if group == "float32" and on["low"].casts_to(torch.float32, off["low"]):
        return f"casts {bench.low} input to float32"
    if group == "float32":
        return "asks for a float32 result, with no cast of the input"
    if group == "widest":
        return "casts all input to the widest dtype among it"
    return "autocast leaves it alone"


def _about_mixed(name: str, group: Group, on: Mapping[str, _Trial], bench: _Bench) -> list[str]:
    mixed = on["mixed"]
    if on["full"].tensors < 2:
        return ["takes one floating-point tensor, so no mixed input"]
    if mixed.error:
        return [f"mixed input raises: {_sentence(mixed.error)}"]
    if group != "as given":
        return []
    if bench.measured == "fake tensors" and _cpu_refuses_mixed(name, bench.dtype):
        return ["mixed input passes here, but a kernel may refuse it, as the CPU's does"]
    if mixed.dtype is torch.float32:
        return ["it promotes mixed input by itself"]
    if bench.measured == "fake tensors":
        return ["mixed input passes here, but a kernel may refuse it"]
    return ["it takes mixed input as it is"]


def _cpu_refuses_mixed(name: str, low: torch.dtype) -> bool:
    """Whether the op raises on real CPU tensors of two dtypes: fake tensors check less."""
    with _disable_current_modes():
        cpu = _Bench("cpu", low, "measured", frozenset())
        return bool(_try(_CALLS[name], cpu, low, torch.float32, on=False).error)


def _sentence(message: str) -> str:
    """The first sentence of a message of torch's; advice for its developers may follow."""
    return message.splitlines()[0].split(". ")[0].rstrip(".")


# ---- showing ------------------------------------------------------------------------------------

_HEADINGS = ("op", "16-bit", "float32", "mixed", "group", "why")


def _cells(policy: OpPolicy) -> tuple[str, ...]:
    """A policy as the cells of a row; the note in one line."""
    dtypes = (short(d) for d in (policy.low, policy.full, policy.mixed))
    return (policy.op, *dtypes, policy.group, " ".join(policy.note.split()))


def short(dtype: torch.dtype | None) -> str:
    """``"float16"`` for `torch.float16`, and a dash for no answer."""
    return "-" if dtype is None else str(dtype).removeprefix("torch.")


def caption(table: Iterable[OpPolicy]) -> str:
    """One line: which device and dtype, how it was asked, and how many ops are in each group."""
    table = list(table)
    if not table:
        return "no ops"
    first = table[0]
    found = ", ".join(f"{n} {group}" for group, n in counts(table).items() if n)
    return (
        f"autocast({first.device!r}, {first.dtype}), torch {torch.__version__}, "
        f"{first.measured}: {len(table)} ops: {found}"
    )


def as_text(table: Iterable[OpPolicy], width: int = 100) -> str:
    """The table in plain text, a line an op, cut to ``width`` columns; the counts come last."""
    table = list(table)
    rows = [_HEADINGS, *(_cells(policy) for policy in table)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADINGS) - 1)]
    lines = []
    for row in rows:
        start = "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=False))
        line = f"{start}  {row[-1]}"
        lines.append(line if len(line) <= width else line[: width - 1] + "…")
    return "\n".join([*lines, "", caption(table)])


def as_json(table: Iterable[OpPolicy]) -> list[dict[str, Any]]:
    """The table as plain data, a dict an op, with dtypes as ``"float16"``, ``"float32"``, None."""
    return [
        {key: _plain(value) for key, value in dataclasses.asdict(policy).items()}
        for policy in table
    ]


def _plain(value: Any) -> Any:
    return short(value) if isinstance(value, torch.dtype) else value


def as_html(table: Iterable[OpPolicy]) -> str:
    """The table as an HTML ``<table>`` with a caption, for a notebook."""
    table = list(table)
    head = "".join(f'<th scope="col">{title}</th>' for title in _HEADINGS)
    body = []
    for policy in table:
        first, *rest = (html.escape(cell) for cell in _cells(policy))
        cells = "".join(f"<td>{cell}</td>" for cell in rest)
        body.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    return (
        f"<table><caption>{html.escape(caption(table))}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    )


# ---- how to call each op ------------------------------------------------------------------------
# From here on: names and calls, and not a word on dtypes. `t(2, 3)` is a floating-point tensor.

_A = torch.ops.aten
_NN = torch._C._nn
_Call = Callable[[_Inputs], Any]


def _each(home: Any, names: str, *shapes: tuple[int, ...], prefix: str = "") -> dict[str, _Call]:
    """Ops of one home that all take tensors of these shapes, and nothing else."""

    def caller(function: Callable[..., Any]) -> _Call:
        return lambda t: function(*(t(*shape) for shape in shapes))

    return {prefix + name: caller(getattr(home, name)) for name in names.split()}


def _inverting(home: Any, names: str, prefix: str = "") -> dict[str, _Call]:
    """Ops of one home that take a matrix which can be inverted."""

    def caller(function: Callable[..., Any]) -> _Call:
        return lambda t: function(t.eye(3))

    return {prefix + name: caller(getattr(home, name)) for name in names.split()}


def _along(names: str) -> dict[str, _Call]:
    """Functions of torch that take a matrix and a dimension."""

    def caller(function: Callable[..., Any]) -> _Call:
        return lambda t: function(t(4, 4), 1)

    return {name: caller(getattr(torch, name)) for name in names.split()}


def _cell(f: Callable[..., Any], chunks: int, states: int = 1) -> _Call:
    """A recurrent cell: input, hidden states, two weights and two biases."""

    def call(t: _Inputs) -> Any:
        x, *h = (t(2, 3) for _ in range(1 + states))
        weights = [t(chunks * 3, 3), t(chunks * 3, 3), t(chunks * 3), t(chunks * 3)]
        return f(x, tuple(h) if states > 1 else h[0], *weights)

    return call


def _rnn(f: Callable[..., Any], chunks: int, states: int = 1) -> _Call:
    """A recurrent layer of one direction, as `torch.nn.LSTM` and its kin call it."""

    def call(t: _Inputs) -> Any:
        x, *h = t(2, 5, 3), *(t(1, 2, 3) for _ in range(states))
        weights = [t(chunks * 3, 3), t(chunks * 3, 3), t(chunks * 3), t(chunks * 3)]
        hidden = tuple(h) if states > 1 else h[0]
        return f(x, hidden, weights, True, 1, 0.0, False, False, True)

    return call


def _attention(t: _Inputs) -> Any:
    """`torch.nn.MultiheadAttention`'s function: embedding of 4, two heads."""
    query, key, value = t(5, 2, 4), t(5, 2, 4), t(5, 2, 4)
    weights = (t(12, 4), t(12), None, None, False, 0.0, t(4, 4), t(4))
    return F.multi_head_attention_forward(
        query, key, value, 4, 2, *weights, training=False, need_weights=False
    )


def _ctc(t: _Inputs) -> Any:
    lengths = t.ints(6, 2), t.ints(3, 2)
    return F.ctc_loss(t(6, 2, 5), t.ints(1, 2, 3), *lengths)


_LINEAR_ALGEBRA: dict[str, _Call] = {
    "linear": lambda t: F.linear(t(2, 4), t(3, 4), t(3)),
    "matmul": lambda t: torch.matmul(t(2, 3), t(3, 4)),
    "__matmul__": lambda t: t(2, 3) @ t(3, 4),
    "mm": lambda t: torch.mm(t(2, 3), t(3, 4)),
    "mv": lambda t: torch.mv(t(2, 3), t(3)),
    "bmm": lambda t: torch.bmm(t(2, 3, 4), t(2, 4, 3)),
    "addmm": lambda t: torch.addmm(t(2, 4), t(2, 3), t(3, 4)),
    "_addmm_activation": lambda t: torch._addmm_activation(t(4), t(2, 3), t(3, 4)),
    "addmv": lambda t: torch.addmv(t(2), t(2, 3), t(3)),
    "addr": lambda t: torch.addr(t(2, 3), t(2), t(3)),
    "addbmm": lambda t: torch.addbmm(t(3, 3), t(2, 3, 4), t(2, 4, 3)),
    "baddbmm": lambda t: torch.baddbmm(t(2, 3, 3), t(2, 3, 4), t(2, 4, 3)),
    "einsum": lambda t: torch.einsum("ij,jk->ik", t(2, 3), t(3, 4)),
    "chain_matmul": lambda t: torch.chain_matmul(t(2, 3), t(3, 4), t(4, 2)),
    "multi_dot": lambda t: torch.linalg.multi_dot([t(2, 3), t(3, 4), t(4, 2)]),
    "linalg_vecdot": lambda t: torch.linalg.vecdot(t(2, 3), t(2, 3)),
    "dot": lambda t: torch.dot(t(4), t(4)),
    "vdot": lambda t: torch.vdot(t(4), t(4)),
    "tensordot": lambda t: torch.tensordot(t(2, 3), t(3, 2), dims=1),
    "inner": lambda t: torch.inner(t(2, 3), t(4, 3)),
    "outer": lambda t: torch.outer(t(3), t(4)),
    "kron": lambda t: torch.kron(t(2, 2), t(2, 2)),
    "cross": lambda t: torch.cross(t(2, 3), t(2, 3), dim=1),
    "bilinear": lambda t: F.bilinear(t(2, 3), t(2, 4), t(5, 3, 4), t(5)),
    "matrix_power": lambda t: torch.linalg.matrix_power(t.eye(3), 2),
    **_inverting(torch, "cholesky cholesky_inverse inverse pinverse trace qr svd geqrf"),
    **_inverting(torch, "_lu_with_info"),
    "cholesky_solve": lambda t: torch.cholesky_solve(t(3, 2), t.eye(3)),
    "lu_solve": lambda t: torch.lu_solve(t(3, 2), t.eye(3), t.ints(1, 3).int()),
    "triangular_solve": lambda t: torch.triangular_solve(t(3, 2), t.eye(3)),
    "orgqr": lambda t: torch.orgqr(t.eye(3), t(3)),
    "ormqr": lambda t: torch.ormqr(t.eye(3), t(3), t(3, 2)),
    **_inverting(torch.linalg, "cholesky cholesky_ex cond eig eigh eigvals eigvalsh", "linalg_"),
    **_inverting(torch.linalg, "inv inv_ex matrix_rank qr svd svdvals det slogdet", "linalg_"),
    "linalg_householder_product": lambda t: torch.linalg.householder_product(t.eye(3), t(3)),
    "linalg_lstsq": lambda t: torch.linalg.lstsq(t.eye(3), t(3, 2)),
    "linalg_solve": lambda t: torch.linalg.solve(t.eye(3), t(3, 2)),
    "linalg_tensorinv": lambda t: torch.linalg.tensorinv(t.eye(3), ind=1),
    "linalg_tensorsolve": lambda t: torch.linalg.tensorsolve(t.eye(3), t(3)),
}

_LAYERS: dict[str, _Call] = {
    "conv1d": lambda t: F.conv1d(t(2, 3, 8), t(4, 3, 3), t(4)),
    "conv2d": lambda t: F.conv2d(t(2, 3, 8, 8), t(4, 3, 3, 3), t(4)),
    "conv3d": lambda t: F.conv3d(t(1, 2, 4, 4, 4), t(3, 2, 3, 3, 3), t(3)),
    "conv_tbc": lambda t: torch.conv_tbc(t(8, 2, 3), t(3, 3, 4), t(4)),
    "conv_transpose1d": lambda t: F.conv_transpose1d(t(2, 3, 8), t(3, 4, 3), t(4)),
    "conv_transpose2d": lambda t: F.conv_transpose2d(t(2, 3, 8, 8), t(3, 4, 3, 3), t(4)),
    "conv_transpose3d": lambda t: F.conv_transpose3d(t(1, 2, 4, 4, 4), t(2, 3, 3, 3, 3), t(3)),
    "convolution": lambda t: torch.convolution(
        *(t(2, 3, 8, 8), t(4, 3, 3, 3), t(4)), *([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    ),
    "_convolution": lambda t: torch._convolution(
        *(t(2, 3, 8, 8), t(4, 3, 3, 3), t(4)),
        *([1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, True, True),
    ),
    "cudnn_convolution": lambda t: torch.cudnn_convolution(
        *(t(2, 3, 8, 8), t(4, 3, 3, 3)), *([0, 0], [1, 1], [1, 1], 1, False, True, True)
    ),
    "cudnn_convolution_transpose": lambda t: torch.cudnn_convolution_transpose(
        *(t(2, 3, 8, 8), t(3, 4, 3, 3)), *([0, 0], [0, 0], [1, 1], [1, 1], 1, False, True, True)
    ),
    "LSTMCell": _cell(torch.lstm_cell, 4, states=2),
    "GRUCell": _cell(torch.gru_cell, 3),
    "RNNCell": _cell(torch.rnn_tanh_cell, 1),
    "rnn_relu_cell": _cell(torch.rnn_relu_cell, 1),
    "_thnn_fused_lstm_cell": lambda t: _A._thnn_fused_lstm_cell(
        t(2, 12), t(2, 12), t(2, 3), t(12), t(12)
    ),
    "_thnn_fused_gru_cell": lambda t: _A._thnn_fused_gru_cell(
        t(2, 9), t(2, 9), t(2, 3), t(9), t(9)
    ),
    "lstm": _rnn(torch.lstm, 4, states=2),
    "gru": _rnn(torch.gru, 3),
    "rnn_tanh": _rnn(torch.rnn_tanh, 1),
    "mkldnn_rnn_layer": lambda t: torch.mkldnn_rnn_layer(
        *(t(5, 2, 3), t(12, 3), t(12, 3), t(12), t(12), t(2, 3), t(2, 3)),
        *(False, [], 2, 3, 1, True, False, False, False),
    ),
    "scaled_dot_product_attention": lambda t: F.scaled_dot_product_attention(
        t(1, 2, 4, 8), t(1, 2, 4, 8), t(1, 2, 4, 8)
    ),
    "_scaled_dot_product_flash_attention": lambda t: _A._scaled_dot_product_flash_attention(
        t(1, 2, 4, 8), t(1, 2, 4, 8), t(1, 2, 4, 8)
    ),
    "_native_multi_head_attention": lambda t: torch._native_multi_head_attention(
        *(t(2, 3, 4), t(2, 3, 4), t(2, 3, 4), 4, 2, t(12, 4), t(12), t(4, 4), t(4))
    ),
    "multi_head_attention": _attention,
    "embedding": lambda t: F.embedding(t.ints(1, 2, 3), t(5, 4)),
    "embedding_bag": lambda t: F.embedding_bag(t.ints(1, 2, 3), t(5, 4)),
    "prelu": lambda t: F.prelu(t(2, 3), t(3)),
    "layer_norm": lambda t: F.layer_norm(t(2, 4), (4,), t(4), t(4)),
    "native_layer_norm": lambda t: torch.native_layer_norm(t(2, 4), (4,), t(4), t(4), 1e-5),
    "rms_norm": lambda t: F.rms_norm(t(2, 4), (4,), t(4)),
    "group_norm": lambda t: F.group_norm(t(2, 4, 3), 2, t(4), t(4)),
    "batch_norm": lambda t: F.batch_norm(t(4, 3), None, None, t(3), t(3), training=True),
    "instance_norm": lambda t: F.instance_norm(t(2, 3, 5)),
    "local_response_norm": lambda t: F.local_response_norm(t(2, 4, 5), 2),
    "normalize": lambda t: F.normalize(t(2, 4)),
    "dropout": lambda t: F.dropout(t(4, 4)),
}

_POINTWISE: dict[str, _Call] = {
    **_each(torch, "acos asin atan cosh sinh tan sin cos erf erfinv exp exp2 expm1 log", (4, 4)),
    **_each(torch, "log10 log1p log2 reciprocal rsqrt sqrt square abs neg sigmoid tanh", (4, 4)),
    **_each(torch, "logit clone", (4, 4)),
    **_each(F, "relu gelu silu mish elu selu leaky_relu relu6 hardswish hardsigmoid", (4, 4)),
    **_each(F, "hardtanh softplus softsign logsigmoid tanhshrink glu", (4, 4)),
    **_each(torch, "add sub mul div maximum minimum fmod hypot atan2", (4, 4), (4, 4)),
    **_each(torch, "eq ne ge gt le lt", (4, 4), (4, 4)),
    "pow": lambda t: torch.pow(t(4), 2.5),
    "__pow__": lambda t: t(4) ** 2.5,
    "__rpow__": lambda t: 2.5 ** t(4),
    "__rdiv__": lambda t: t(4).__rdiv__(2.0),
    "__rtruediv__": lambda t: 2.0 / t(4),
    "clamp": lambda t: torch.clamp(t(4), 0.0, 1.0),
    "where": lambda t: torch.where(t.ints(1, 4).bool(), t(4), t(4)),
    "masked_fill": lambda t: t(4).masked_fill(t.ints(1, 4).bool(), 0.0),
    "lerp": lambda t: torch.lerp(t(4), t(4), 0.5),
    "addcdiv": lambda t: torch.addcdiv(t(4), t(4), t(4)),
    "addcmul": lambda t: torch.addcmul(t(4), t(4), t(4)),
    "polar": lambda t: torch.polar(t(4), t(4)),
    "view_as_complex": lambda t: torch.view_as_complex(t(4, 2)),
    "fake_quantize_per_tensor_affine": lambda t: torch.fake_quantize_per_tensor_affine(
        t(4), 0.1, 0, 0, 255
    ),
}

_REDUCTIONS: dict[str, _Call] = {
    **_each(torch, "sum prod mean median amax amin max min norm var std argmax nansum", (4, 4)),
    **_each(torch, "count_nonzero diff", (4, 4)),
    **_along("cumsum cumprod logsumexp logcumsumexp cummax sort argsort"),
    "topk": lambda t: torch.topk(t(4), 2),
    "quantile": lambda t: torch.quantile(t(4), 0.5),
    "nanquantile": lambda t: torch.nanquantile(t(4), 0.5),
    "frobenius_norm": lambda t: torch.frobenius_norm(t(4, 4), [0, 1]),
    "nuclear_norm": lambda t: torch.nuclear_norm(t(4, 4)),
    "linalg_vector_norm": lambda t: torch.linalg.vector_norm(t(4)),
    "linalg_matrix_norm": lambda t: torch.linalg.matrix_norm(t(4, 4)),
    "renorm": lambda t: torch.renorm(t(4, 4), 2, 0, 1.0),
    "dist": lambda t: torch.dist(t(4), t(4)),
    "cdist": lambda t: torch.cdist(t(3, 4), t(3, 4)),
    "pdist": lambda t: F.pdist(t(3, 4)),
    "cosine_similarity": lambda t: F.cosine_similarity(t(3, 4), t(3, 4)),
    "softmax": lambda t: F.softmax(t(4, 4), dim=1),
    "log_softmax": lambda t: F.log_softmax(t(4, 4), dim=1),
    "softmin": lambda t: F.softmin(t(4, 4), dim=1),
}

_LOSSES: dict[str, _Call] = {
    **_each(F, "mse_loss l1_loss smooth_l1_loss huber_loss kl_div", (4, 4), (4, 4)),
    **_each(F, "poisson_nll_loss binary_cross_entropy", (4, 4), (4, 4)),
    **_each(F, "binary_cross_entropy_with_logits", (4, 4), (4, 4)),
    "soft_margin_loss": lambda t: F.soft_margin_loss(t(4), t.ints(1, 4)),
    "hinge_embedding_loss": lambda t: F.hinge_embedding_loss(t(4), t.ints(1, 4)),
    "margin_ranking_loss": lambda t: F.margin_ranking_loss(t(4), t(4), t(4)),
    "triplet_margin_loss": lambda t: F.triplet_margin_loss(t(3, 4), t(3, 4), t(3, 4)),
    "cosine_embedding_loss": lambda t: F.cosine_embedding_loss(t(3, 4), t(3, 4), t.ints(1, 3)),
    "multi_margin_loss": lambda t: F.multi_margin_loss(t(3, 4), t.ints(1, 3)),
    "multilabel_margin_loss": lambda t: F.multilabel_margin_loss(t(3, 4), t.ints(1, 3, 4)),
    "multilabel_margin_loss_forward": lambda t: _A.multilabel_margin_loss_forward(
        t(3, 4), t.ints(1, 3, 4), 1
    ),
    "multilabel_soft_margin_loss": lambda t: F.multilabel_soft_margin_loss(t(3, 4), t(3, 4)),
    "gaussian_nll_loss": lambda t: F.gaussian_nll_loss(t(4), t(4), t(4)),
    "nll_loss": lambda t: F.nll_loss(t(3, 4), t.ints(1, 3)),
    "nll_loss2d": lambda t: _NN.nll_loss2d(t(2, 3, 4, 4), t.ints(1, 2, 4, 4)),
    "cross_entropy": lambda t: F.cross_entropy(t(3, 4), t.ints(1, 3)),
    "ctc_loss": _ctc,
}

_SHAPES: dict[str, _Call] = {
    "cat": lambda t: torch.cat([t(4), t(4)]),
    "stack": lambda t: torch.stack([t(4), t(4)]),
    "flatten": lambda t: torch.flatten(t(2, 3)),
    "transpose": lambda t: torch.transpose(t(2, 3), 0, 1),
    "gather": lambda t: torch.gather(t(2, 3), 1, t.ints(0, 2, 3)),
    "index_select": lambda t: torch.index_select(t(3, 4), 0, t.ints(1, 2)),
    "index_put": lambda t: torch.index_put(t(4), (t.ints(1, 2),), t(2)),
    "index_copy": lambda t: torch.index_copy(t(4), 0, t.ints(1, 1), t(1)),
    "index_add": lambda t: torch.index_add(t(4), 0, t.ints(1, 1), t(1)),
    "scatter": lambda t: torch.scatter(t(2, 3), 1, t.ints(0, 2, 3), t(2, 3)),
    "scatter_add": lambda t: torch.scatter_add(t(2, 3), 1, t.ints(0, 2, 3), t(2, 3)),
    "pad": lambda t: F.pad(t(2, 3), (1, 1)),
    "reflection_pad1d": lambda t: F.pad(t(1, 2, 4), (1, 1), mode="reflect"),
    "reflection_pad2d": lambda t: F.pad(t(1, 2, 4, 4), (1, 1, 1, 1), mode="reflect"),
    "replication_pad1d": lambda t: F.pad(t(1, 2, 4), (1, 1), mode="replicate"),
    "replication_pad2d": lambda t: F.pad(t(1, 2, 4, 4), (1, 1, 1, 1), mode="replicate"),
    "replication_pad3d": lambda t: F.pad(t(1, 2, 4, 4, 4), (1,) * 6, mode="replicate"),
    "max_pool1d": lambda t: F.max_pool1d(t(1, 2, 4), 2),
    "max_pool2d": lambda t: F.max_pool2d(t(1, 2, 4, 4), 2),
    "max_pool3d": lambda t: F.max_pool3d(t(1, 2, 4, 4, 4), 2),
    "avg_pool1d": lambda t: F.avg_pool1d(t(1, 2, 4), 2),
    "avg_pool2d": lambda t: F.avg_pool2d(t(1, 2, 4, 4), 2),
    "avg_pool3d": lambda t: F.avg_pool3d(t(1, 2, 4, 4, 4), 2),
    "adaptive_avg_pool2d": lambda t: F.adaptive_avg_pool2d(t(1, 2, 4, 4), 1),
    "adaptive_avg_pool3d": lambda t: F.adaptive_avg_pool3d(t(1, 2, 4, 4, 4), 2),
    "adaptive_max_pool3d": lambda t: F.adaptive_max_pool3d(t(1, 2, 4, 4, 4), 2),
    "fractional_max_pool2d": lambda t: F.fractional_max_pool2d(
        t(1, 2, 6, 6), 2, output_size=3, _random_samples=t(1, 2, 2)
    ),
    "fractional_max_pool3d": lambda t: F.fractional_max_pool3d(
        t(1, 2, 6, 6, 6), 2, output_size=3, _random_samples=t(1, 2, 3)
    ),
    "max_unpool2d": lambda t: F.max_unpool2d(t(1, 1, 2, 2), t.ints(0, 1, 1, 2, 2), 2),
    "max_unpool3d": lambda t: F.max_unpool3d(t(1, 1, 2, 2, 2), t.ints(0, 1, 1, 2, 2, 2), 2),
    "interpolate": lambda t: F.interpolate(t(1, 2, 4, 4), scale_factor=2.0),
    "upsample_nearest1d": lambda t: _NN.upsample_nearest1d(t(1, 2, 4), [8]),
    "upsample_nearest2d": lambda t: _NN.upsample_nearest2d(t(1, 2, 4, 4), [8, 8]),
    "upsample_nearest3d": lambda t: _NN.upsample_nearest3d(t(1, 2, 4, 4, 4), [8, 8, 8]),
    "_upsample_nearest_exact1d": lambda t: _NN._upsample_nearest_exact1d(t(1, 2, 4), [8]),
    "_upsample_nearest_exact2d": lambda t: _NN._upsample_nearest_exact2d(t(1, 2, 4, 4), [8, 8]),
    "_upsample_nearest_exact3d": lambda t: _NN._upsample_nearest_exact3d(
        t(1, 2, 4, 4, 4), [8, 8, 8]
    ),
    "upsample_linear1d": lambda t: _NN.upsample_linear1d(t(1, 2, 4), [8], False),
    "upsample_bilinear2d": lambda t: _NN.upsample_bilinear2d(t(1, 2, 4, 4), [8, 8], False),
    "_upsample_bilinear2d_aa": lambda t: _NN._upsample_bilinear2d_aa(t(1, 2, 4, 4), [8, 8], False),
    "upsample_trilinear3d": lambda t: _NN.upsample_trilinear3d(t(1, 2, 4, 4, 4), [8, 8, 8], False),
    "upsample_bicubic2d": lambda t: _NN.upsample_bicubic2d(t(1, 2, 4, 4), [8, 8], False),
    "_upsample_bicubic2d_aa": lambda t: _NN._upsample_bicubic2d_aa(t(1, 2, 4, 4), [8, 8], False),
    "grid_sample": lambda t: F.grid_sample(t(1, 2, 4, 4), t(1, 3, 3, 2), align_corners=False),
    "grid_sampler_2d": lambda t: torch.grid_sampler_2d(t(1, 2, 4, 4), t(1, 3, 3, 2), 0, 0, False),
    "_grid_sampler_2d_cpu_fallback": lambda t: torch._grid_sampler_2d_cpu_fallback(
        t(1, 2, 4, 4), t(1, 3, 3, 2), 0, 0, False
    ),
    "grid_sampler_3d": lambda t: torch.grid_sampler_3d(
        t(1, 2, 4, 4, 4), t(1, 3, 3, 3, 3), 0, 0, False
    ),
    "stft": lambda t: torch.stft(t(32), 8, return_complex=True, onesided=True),
    **_each(torch.fft, "fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2", (4, 4), prefix="fft_"),
    **_each(torch.fft, "irfft2 rfftn irfftn hfft ihfft", (4, 4), prefix="fft_"),
}

# What autocast never touches: the same ops in place, with out=, with an explicit dtype=.
_VARIANTS: dict[str, _Call] = {
    "addmm_": lambda t: t(2, 4).addmm_(t(2, 3), t(3, 4)),
    "baddbmm_": lambda t: t(2, 3, 3).baddbmm_(t(2, 3, 4), t(2, 4, 3)),
    "exp_": lambda t: t(4).exp_(),
    "pow_": lambda t: t(4).pow_(2.0),
    "add_": lambda t: t(4).add_(t(4)),
    "index_put_": lambda t: t(4).index_put_((t.ints(1, 2),), t(2)),
    "scatter_add_": lambda t: t(2, 3).scatter_add_(1, t.ints(0, 2, 3), t(2, 3)),
    "mm(out=)": lambda t: torch.mm(t(2, 3), t(3, 4), out=t(2, 4)),
    "addmm(out=)": lambda t: torch.addmm(t(2, 4), t(2, 3), t(3, 4), out=t(2, 4)),
    "exp(out=)": lambda t: torch.exp(t(4), out=t(4)),
    "softmax(dtype=)": lambda t: F.softmax(t(4, 4), dim=1, dtype=torch.float64),
    "log_softmax(dtype=)": lambda t: F.log_softmax(t(4, 4), dim=1, dtype=torch.float64),
    "sum(dtype=)": lambda t: torch.sum(t(4, 4), dtype=torch.float64),
    "cumsum(dtype=)": lambda t: torch.cumsum(t(4, 4), 1, dtype=torch.float64),
}

_CALLS: dict[str, _Call] = {
    **_LINEAR_ALGEBRA,
    **_LAYERS,
    **_POINTWISE,
    **_REDUCTIONS,
    **_LOSSES,
    **_SHAPES,
    **_VARIANTS,
}

OPS: tuple[str, ...] = tuple(_CALLS)
"""The names of the ops that can be asked, in the order of the table."""

VARIANTS: tuple[str, ...] = tuple(_VARIANTS)
"""Those that are an op in place, with ``out=`` or with an explicit ``dtype=``."""

# The operator behind a name, where it is called otherwise.
_OPERATORS = {
    "__matmul__": "matmul",
    "__pow__": "pow",
    "__rpow__": "pow",
    "multi_dot": "linalg_multi_dot",
    "LSTMCell": "lstm_cell",
    "GRUCell": "gru_cell",
    "RNNCell": "rnn_tanh_cell",
    "cross_entropy": "cross_entropy_loss",
    "grid_sample": "grid_sampler",
}
