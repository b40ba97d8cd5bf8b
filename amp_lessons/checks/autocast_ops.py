"""Lesson 04's exercises: what autocast does to each op, to a model, and to code around it.

Nothing here holds a table of autocast's rules. What an op gives is asked live: on the CPU, and for
CUDA on fake tensors, so the checks move with the PyTorch that is installed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial, reduce
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from amp_lessons.checks.cases import Case, Misconception, Rule, function_exercise, within
from amp_lessons.checks.evidence import DamagedEvidence, by_name, observe
from amp_lessons.checks.legacy import Exercise, Finding, error_verdict
from amp_lessons.checks.verdict import State, Verdict
from amp_lessons.checks.watch import watched

HALF, BFLOAT, SINGLE, DOUBLE = torch.float16, torch.bfloat16, torch.float32, torch.float64


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@contextmanager
def region(device: str, dtype: torch.dtype | None) -> Iterator[None]:
    """An autocast region on ``device``; for "cuda" one of fake tensors, which needs no GPU.

    ``torch.autocast("cuda")`` disables itself where there is no CUDA, so the state is set by hand.
    With ``dtype`` None no region is open.
    """
    if device == "cpu":
        with torch.autocast("cpu", dtype) if dtype else nullcontext():
            yield
        return
    before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    with FakeTensorMode():
        torch.set_autocast_enabled(device, dtype is not None)
        torch.set_autocast_dtype(device, dtype or before[1])
        try:
            yield
        finally:
            torch.set_autocast_enabled(device, before[0])
            torch.set_autocast_dtype(device, before[1])
            torch.clear_autocast_cache()


# ---- result_dtype -----------------------------------------------------------------------------

# Each op with how it is asked: it takes one or two 4 x 4 tensors.
_OPS: dict[str, tuple[int, Callable[..., Tensor]]] = {
    "matmul": (2, lambda a, b: torch.matmul(a, b)),
    "linear": (2, lambda a, b: F.linear(a, b)),
    "conv1d": (2, lambda a, b: F.conv1d(a.unsqueeze(0), b.unsqueeze(-1))),
    "softmax": (1, lambda a: torch.softmax(a, -1)),
    "layer_norm": (1, lambda a: F.layer_norm(a, (4,))),
    "exp": (1, lambda a: torch.exp(a)),
    "log": (1, lambda a: torch.log(a)),
    "sum": (1, lambda a: torch.sum(a)),
    "cumsum": (1, lambda a: torch.cumsum(a, 0)),
    "mse_loss": (2, lambda a, b: F.mse_loss(a, b)),
    "prod": (1, lambda a: torch.prod(a)),
    "mean": (1, lambda a: torch.mean(a)),
    "var": (1, lambda a: torch.var(a)),
    "sqrt": (1, lambda a: torch.sqrt(a)),
    "relu": (1, lambda a: torch.relu(a)),
    "sigmoid": (1, lambda a: torch.sigmoid(a)),
    "add": (2, lambda a, b: torch.add(a, b)),
    "cat": (2, lambda a, b: torch.cat([a, b])),
    "add_": (2, lambda a, b: a.add_(b)),
    "softmax, dtype=float32": (1, lambda a: torch.softmax(a, -1, dtype=SINGLE)),
}
_LOW = {"matmul", "linear", "conv1d"}
_FP32 = {"mse_loss", "prod"}
_FP32_ON_CUDA = {"softmax", "layer_norm", "exp", "log", "sum", "cumsum"}


@cache
def _asked(op: str, device: str, dtype: torch.dtype, inputs: tuple[torch.dtype, ...]):
    """What autocast gives, live: the result's dtype, or None where torch raises."""
    function = _OPS[op][1]
    with region(device, dtype):
        tensors = [torch.ones(4, 4, dtype=given, device=device) for given in inputs]
        try:
            return function(*tensors).dtype
        except RuntimeError:
            return None


@cache
def _oracle_cases() -> tuple[Case, ...]:
    """400 combinations drawn by chance, those that torch refuses left out."""
    draw = random.Random(4)
    drawn = {}
    while len(drawn) < 400:
        op = draw.choice(list(_OPS))
        device, dtype = draw.choice(("cpu", "cuda")), draw.choice((HALF, BFLOAT))
        inputs = tuple(draw.choices((HALF, BFLOAT, SINGLE), k=_OPS[op][0]))
        if (
            draw.random() < 0.1
        ):  # alone: fake tensors let mixtures with float64 pass that no GPU does
            inputs = (DOUBLE,) * len(inputs)
        if _asked(op, device, dtype, inputs) is not None:
            drawn[op, device, dtype, inputs] = Case((op, device, dtype, inputs))
    return tuple(drawn.values())


def _model(**changes: Any) -> Callable[..., torch.dtype]:
    """The oracle of somebody with one misconception; each change is one."""

    def oracle(op: str, device: str, dtype: torch.dtype, inputs: tuple[torch.dtype, ...]):
        widest = reduce(torch.promote_types, inputs)
        on_cuda = _FP32_ON_CUDA | changes.get("fp32_on_cuda", set())
        fp32 = _FP32 | (on_cuda if changes.get("everywhere", device) == "cuda" else set())
        fp32 = fp32 - changes.get("as_given", set())
        if op == "add_" and not changes.get("in_place"):
            return inputs[0]
        if op.endswith("dtype=float32"):
            return changes.get("explicit", lambda *_: SINGLE)(op, device, dtype, widest)
        if widest is DOUBLE and not changes.get("float64"):
            return widest
        if op in _LOW:
            return changes.get("low", lambda dtype, _: dtype)(dtype, inputs)
        if op in fp32:
            return SINGLE
        return changes.get("rest", lambda dtype, _: widest)(dtype, inputs)

    return oracle


def _if_two_halves(inputs: tuple[torch.dtype, ...], then: torch.dtype) -> torch.dtype:
    """``then`` for a float16 with a bfloat16, and what promotion gives for anything else."""
    return then if set(inputs) == {HALF, BFLOAT} else reduce(torch.promote_types, inputs)


def _same_dtype(expected: Any, seen: Any) -> bool:
    return isinstance(seen, dict) and seen.get("dtype") == expected["dtype"] and len(seen) == 1


# What tells nothing about autocast: arithmetic on dtypes, which torch dispatches like an op, and
# making the tensors that torch.result_type takes.
_HARMLESS = {
    f"aten::{name}"
    for name in (
        *("promote_types", "result_type", "can_cast", "empty", "empty_strided", "zeros", "ones"),
        *("full", "scalar_tensor", "zero_", "fill_", "lift_fresh", "detach", "_to_copy"),
    )
}

result_dtype = function_exercise(
    "result_dtype",
    cases=_oracle_cases,
    reference=_asked,
    same=_same_dtype,
    asked_for="a torch.dtype, such as torch.float32",
    rules={
        "asked-torch": Rule(
            "You ran the op and looked. That is how the check itself finds the answer, and a good "
            "habit. Here, write down what you know about the groups instead.",
            lambda ops: any(op["op"] not in _HARMLESS for op in ops),
        ),
    },
    misconceptions={
        "global-cast": Misconception(
            "You treat autocast as a cast of everything to the region's dtype. It is a policy for "
            "each op: most ops are on no list and give the dtype that they are given.",
            lambda op, device, dtype, inputs: dtype,
            _model(rest=lambda dtype, _: dtype),
            _model(rest=lambda dtype, inputs: dtype, float64=True),
        ),
        "cuda-rules-on-cpu": Misconception(
            "You gave the CPU CUDA's list. softmax, layer_norm, exp, log, sum and cumsum become "
            "float32 on CUDA only; on a CPU they give the dtype that they are given.",
            _model(everywhere="cuda"),
        ),
        "cpu-rules-on-cuda": Misconception(
            "You gave CUDA the CPU's list. softmax, layer_norm, exp, log, sum and cumsum are on "
            "CUDA's float32 list, whatever they are given.",
            _model(everywhere="cpu"),
        ),
        "reductions-in-float32": Misconception(
            "You took mean and var for float32 ops, as the saying 'reductions run in float32' "
            "suggests. sum, prod and cumsum are listed on CUDA; mean and var are on no list.",
            _model(fp32_on_cuda={"mean", "var"}),
        ),
        "loss-as-given": Misconception(
            "You let mse_loss or prod give the dtype of their input. Both are on the float32 list "
            "of both devices.",
            _model(as_given={"mse_loss", "prod"}),
            _model(as_given={"mse_loss"}),
            _model(as_given={"prod"}),
        ),
        "in-place-widened": Misconception(
            "You gave add_ the wider of its two dtypes. An in-place op writes into the tensor "
            "that is there, and that keeps its dtype.",
            _model(in_place=True),
        ),
        "float64-cast": Misconception(
            "You let autocast change float64. It casts float16, bfloat16 and float32 tensors only; "
            "whoever asked for float64 keeps it.",
            _model(float64=True),
        ),
        "explicit-dtype-ignored": Misconception(
            "softmax(x, dtype=torch.float32) says itself what it wants, and gets it on both "
            "devices. You gave it the dtype that softmax without dtype= has.",
            _model(
                explicit=lambda op, device, dtype, given: (
                    given if device == "cpu" or given is DOUBLE else SINGLE
                )
            ),
        ),
        "low-ops-as-given": Misconception(
            "You let matmul, linear and conv1d compute in their inputs' dtype. They are on "
            "the lower-precision list: their inputs are cast to the region's dtype, also float32 "
            "ones, and also those of the other 16-bit format.",
            _model(low=lambda dtype, inputs: reduce(torch.promote_types, inputs)),
            _model(low=lambda dtype, inputs: dtype if SINGLE in inputs else inputs[0]),
        ),
        "sixteen-with-sixteen": Misconception(
            "You let float16 and bfloat16 together give a 16-bit dtype. Neither can hold the "
            "other's numbers, so ordinary type promotion goes to float32.",
            _model(rest=lambda dtype, inputs: dtype if SINGLE not in inputs else SINGLE),
            _model(rest=lambda dtype, inputs: _if_two_halves(inputs, dtype)),
            _model(rest=lambda dtype, inputs: _if_two_halves(inputs, HALF)),
            _model(rest=lambda dtype, inputs: _if_two_halves(inputs, BFLOAT)),
            _model(rest=lambda dtype, inputs: _if_two_halves(inputs, inputs[0])),
        ),
        "first-input-wins": Misconception(
            "You gave an op with two inputs the dtype of the first. Outside the lists ordinary "
            "type promotion holds: the wider one wins, and float16 with bfloat16 gives float32.",
            _model(rest=lambda dtype, inputs: inputs[0]),
        ),
    },
    hints=(
        "Ask in this order: does the op write in place, or name its dtype? Is a float64 among the "
        "inputs? Is the op on the lower-precision list, or on this device's float32 list?",
        "What is on no list follows ordinary promotion: torch.promote_types(a, b).",
        "Three sets are enough: lower precision, float32 on both devices, float32 on CUDA only.",
    ),
    lesson_learned="You can say what autocast gives before you run it, on a device that you do "
    "not have.",
)

# ---- mend_mismatches --------------------------------------------------------------------------
# The functions as they stand in the sheet, before they are mended.


def _broken_update(memory: Tensor, rows: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    return memory.clone().index_add_(0, rows, x @ weight)


def _broken_project(x: Tensor, weight: Tensor, head: Tensor) -> Tensor:
    hidden = torch.relu(x @ weight)
    scores = torch.empty(len(x), head.shape[1])
    torch.matmul(hidden, head, out=scores)
    return scores


def _broken_classify(x: Tensor, weight: Tensor, head: Tensor, dtype: torch.dtype) -> Tensor:
    with torch.autocast("cpu", dtype):
        hidden = torch.relu(x @ weight)
    return hidden @ head


def _broken_energy(x: Tensor, weight: Tensor) -> Tensor:
    return ((x @ weight) ** 2).sum()


def _broken_predictions(x: Tensor, weight: Tensor) -> Any:
    return (x @ weight).detach().numpy()


_BROKEN = {
    "update_memory": _broken_update,
    "project": _broken_project,
    "classify": _broken_classify,
    "energy": _broken_energy,
    "predictions": _broken_predictions,
}
_PRODUCTS = {f"aten::{name}" for name in ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot")}
_MEND_TOLERANCE = 0.05  # of the largest value: two roundings to bfloat16 and a sum


def _mend_args(name: str, seed: int) -> tuple[Any, ...]:
    made = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=made)

    rows, width, out = 3 + seed, 5, 4
    x, weight, head = normal(rows, width), normal(width, out), normal(out, 2)
    if name == "update_memory":
        return normal(6, out), torch.arange(rows) % 3, x, weight
    if name in ("project", "classify"):
        return x, weight, head
    return (200 * x, weight) if name == "energy" else (x, weight)


_MEND_RUNS = [(dtype, seed) for dtype in (None, HALF, BFLOAT) for seed in (1, 4)]


def _run_mended(name: str, function: Any, dtype: torch.dtype | None, seed: int) -> dict[str, Any]:
    args = _mend_args(name, seed)
    if name == "classify":  # it opens its own region
        return watched(observe)(function, *args, dtype or BFLOAT)
    with region("cpu", dtype):
        before = _state("cpu")
        seen = watched(observe)(_as_array(function) if name == "predictions" else function, *args)
        is_kept = _state("cpu") == before
        _set_state("cpu", *before)
    return seen if is_kept else seen | {"region changed": True}


def _as_array(function: Any) -> Any:
    """The function, but a tensor becomes a list: as plain data it would pass for an array."""
    if function is ...:
        return function

    def predictions(*args: Any) -> Any:
        result = function(*args)
        return result.tolist() if isinstance(result, Tensor) else result

    return predictions


def _probe_mended(*functions: Any) -> dict[str, Any]:
    given = by_name(_BROKEN, functions)
    return {
        name: [_run_mended(name, function, *run) for run in _MEND_RUNS]
        for name, function in given.items()
    }


def _signature(seen: dict[str, Any]) -> tuple[Any, ...]:
    """What a call came to, without its digits: an error and its message, or a dtype."""
    if "error" in seen:
        return seen["error"].get("type"), seen["error"].get("message")
    value = seen.get("value")
    return ("value", value.get("dtype") if isinstance(value, dict) else type(value).__name__)


@cache
def _broken_signature(name: str) -> list[tuple[Any, ...]]:
    return [_signature(_run_mended(name, _BROKEN[name], *run)) for run in _MEND_RUNS]


def _mend_truth(name: str, seed: int) -> Any:
    args = [a.double() if a.is_floating_point() else a for a in _mend_args(name, seed)]
    if name == "classify":
        return (torch.relu(args[0] @ args[1]) @ args[2]).tolist()
    if name == "project":
        return _broken_project_in_double(*args).tolist()
    return _BROKEN[name](*args).tolist()


def _broken_project_in_double(x: Tensor, weight: Tensor, head: Tensor) -> Tensor:
    return torch.relu(x @ weight) @ head


def _near(expected: Any, seen: Any) -> bool:
    one, other = torch.tensor(expected), torch.tensor(seen, dtype=torch.float64)
    if one.shape != other.shape:
        return False
    return bool(((one - other).abs() <= _MEND_TOLERANCE * one.abs().max()).all())


def _multiplies_in(seen: dict[str, Any], dtype: torch.dtype | None) -> bool:
    """Whether a matrix product ran in this dtype: that of the region, or what classify opens."""
    name = _name(dtype or BFLOAT)
    return any(op["op"] in _PRODUCTS and op["dtype"] == name for op in seen.get("ops", []))


def _is_mismatch(error: dict[str, Any]) -> bool:
    """Wordings differ from op to op and from version to version; they all speak of types."""
    text = str(error.get("message", "")).lower()
    words = ("dtype", "scalar type", "scalartype", "c10::", "same type", "must match")
    return error.get("type") in ("RuntimeError", "TypeError") and any(w in text for w in words)


def _judge_mended(evidence: Any) -> Finding | Verdict:
    if not isinstance(evidence, dict) or set(evidence) != set(_BROKEN):
        raise DamagedEvidence("not one entry for each function")
    unmended = []
    for name, runs in ((name, evidence[name]) for name in _BROKEN):
        if len(runs) != len(_MEND_RUNS):
            raise DamagedEvidence("not one entry for each run")
        untouched = [tuple(_signature(seen)) for seen in runs] == _broken_signature(name)
        if untouched or any("unattempted" in seen for seen in runs):
            unmended.append(name)
            continue
        finding = _judge_one(name, runs)
        if finding is not None:
            return finding
    if unmended:
        message = f"{len(_BROKEN) - len(unmended)} of {len(_BROKEN)} mended; open: "
        return Verdict(State.NOT_ATTEMPTED, message + ", ".join(unmended) + ".")
    return Finding()


def _judge_one(name: str, runs: Sequence[dict[str, Any]]) -> Finding | Verdict | None:
    """What is wrong with one function; None if nothing is."""
    failed = [i for i, seen in enumerate(runs) if "error" in seen]
    if failed:
        return _judge_raised(name, runs, failed)
    for (dtype, seed), seen in zip(_MEND_RUNS, runs, strict=True):
        value, where = seen["value"], _where(name, dtype)
        if value is None:
            return Finding("returned-none", (where,))
        if not isinstance(value, dict) or "values" not in value:
            wanted = "a NumPy array" if name == "predictions" else "a float32 tensor"
            kind = "a tensor or a list" if isinstance(value, list) else repr(value)[:60]
            return Finding("wrong-type", (where,), {"got": kind, "expected": wanted})
        if (dtype or name == "classify") and not _multiplies_in(seen, dtype):
            other = HALF if (dtype or BFLOAT) is BFLOAT else BFLOAT
            slug = "other-format" if _multiplies_in(seen, other) else "autocast-switched-off"
            return Finding(slug, (where,))
        if value["dtype"] != "float32":
            return Finding("half-leaks", (f"{where}: {value['dtype']}",))
        if name == "classify" and not _multiplies_in(seen, SINGLE):
            return Finding("head-in-16-bits", (where,))
        if not _near(_mend_truth(name, seed), value["values"]):
            shown = torch.tensor(value["values"])
            slug = "cast-after-the-sum" if shown.isinf().any() else "wrong-value"
            expected = _mend_truth(name, seed)
            return Finding(slug, (f"{where}: expected {_digits(expected)}, got {_digits(shown)}",))
        if "changed" in seen:
            return Finding("changed-argument", (where,))
        if "region changed" in seen:
            return Finding("region-changed", (where,))
    return None


def _digits(values: Any) -> str:
    """A tensor or a nested list in few digits, cut where it gets long."""
    rounded = torch.as_tensor(values).double()
    text = " ".join(str(rounded.numpy().round(3)).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _judge_raised(name: str, runs: Sequence[Any], failed: list[int]) -> Finding | Verdict:
    own = BFLOAT if name == "classify" else None  # what it opens where no region is
    regions = {_MEND_RUNS[i][0] or own for i in failed}
    error = runs[failed[0]]["error"]
    line = f"{_where(name, _MEND_RUNS[failed[0]][0])}: {error.get('message')}"
    if not _is_mismatch(error):
        verdict = error_verdict(error)
        return Verdict(State.ERROR, verdict.message, seen=(f"in {name}", *verdict.seen))
    if regions in ({HALF}, {BFLOAT}):
        return Finding("one-format-only", (line,))
    if regions == {None}:
        return Finding("inside-a-region-only", (line,))
    return Finding("still-mismatched", (line,))


def _where(name: str, dtype: torch.dtype | None) -> str:
    if dtype is None and name != "classify":
        return f"{name}, with no region open"
    return f"{name}, in a region of {_name(dtype or BFLOAT)}"


mend_mismatches = Exercise(
    "mend_mismatches",
    probe=_probe_mended,
    judge=_judge_mended,
    diagnoses={
        "still-mismatched": "Two dtypes still meet in an op that autocast does not look after. "
        "Find the op in the message, ask which of its tensors is 16 bit and where that came from, "
        "and cast that one to float32 before the op.",
        "one-format-only": "It works for one 16-bit format and not for the other: a dtype is "
        "written into the function. float32 is what all of them can be cast to.",
        "inside-a-region-only": "It works inside a region and fails without one: you cast to the "
        "dtype of a region that may not be open. float32 is right in both.",
        "autocast-switched-off": "You got rid of the mismatch by doing everything in float32: the "
        "matrix product does not run in the region's dtype any more, and that was the point of the "
        "region. Cast only the tensor that leaves it.",
        "other-format": "The matrix product runs in a 16-bit format, and not in the one that was "
        "asked for. Hand the region's dtype on: torch.autocast without one takes the device's "
        "default, bfloat16 on a CPU.",
        "region-changed": "The caller's region is not as it was after your function. A switch that "
        "you throw by hand has to be put back; a `with` block does that by itself. Here a cast of "
        "one tensor is enough.",
        "half-leaks": "No error any more, and what comes out is still not float32. The next op "
        "outside the region will meet it.",
        "head-in-16-bits": "classify gives float32 now, but its head runs in 16 bits as well, in "
        "the region. A cast of the result does not bring the digits back: cast the features, and "
        "let the head run after the region, as it did.",
        "cast-after-the-sum": "The result is inf: the squares, or their sum, had to fit FP16 "
        "before anything was cast. Cast before the op that can overflow.",
    },
    hints=(
        "For each function: which tensor is 16 bit, and which op meets it that autocast does not "
        "look after?",
        "In-place ops and out= take the tensors as they are. Code after the region does too. In "
        "each of the five, one .float() at the right place is enough, or writing the op without "
        "out=.",
        "In energy nothing raises: what is the dtype of (x @ weight) ** 2 on a CPU, and how large "
        "may it become?",
    ),
    lesson_learned="Autocast looks after the ops on its lists. Where a tensor leaves them, in "
    "place, through out=, into NumPy or out of the region, the dtype is yours to choose.",
)

# ---- dtype_offenders --------------------------------------------------------------------------


class _Island(nn.Module):
    """A linear layer with a norm that runs outside autocast, in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, width), nn.GELU())
        self.norm = nn.LayerNorm(width)
        self.spare = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x)
        with torch.autocast(x.device.type, enabled=False):
            return self.norm(x.float())


class _Twice(nn.Module):
    """One activation module for two tensors: the first call is float32, the second 16 bit."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        self.lower, self.act, self.first = nn.Linear(5, 5), nn.Tanh(), first

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.lower(x)
        one, other = (x, hidden) if self.first else (hidden, x)
        return self.act(one).sum() + self.act(other).sum()


class _Tagger(nn.Module):
    """A recurrent layer, which returns a tuple, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        features, _ = self.rnn(x)
        return self.head(features)


@cache
def _offender_cases() -> tuple[Case, ...]:
    torch_state = torch.random.get_rng_state()
    torch.manual_seed(4)
    plain_stack = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))
    nested = nn.Sequential(_Island(5), nn.Sequential(nn.Linear(5, 4), nn.Softmax(-1)))
    nested[0].norm.eval()  # as a fine-tuned model has it: some parts in one mode, some in the other
    cases = (
        Case(
            (plain_stack, torch.randn(3, 6), {"0": BFLOAT, "1": BFLOAT, "2": BFLOAT}, BFLOAT),
            "a stack of layers, all as expected",
        ),
        Case(
            (plain_stack, torch.randn(7, 6), {"0": BFLOAT, "2": SINGLE}, BFLOAT),
            "the same, its last layer expected in float32",
        ),
        Case(
            (
                nested,
                torch.randn(2, 5),
                {"0": HALF, "0.body.0": SINGLE, "0.norm": HALF, "1.0": HALF, "1": BFLOAT},
                HALF,
            ),
            "nested modules with a norm in float32",
        ),
        Case(
            (nested, torch.randn(4, 5), {"0.spare": HALF, "0.norm": SINGLE}, HALF),
            "a module that does not run",
        ),
        Case(
            (_Twice(True), torch.randn(3, 5), {"lower": HALF, "act": HALF}, HALF),
            "a module that runs twice",
        ),
        Case(
            (_Twice(False), torch.randn(3, 5), {"lower": HALF, "act": HALF}, HALF),
            "a module that runs twice, the other way round",
        ),
        Case(
            (_Tagger(), torch.randn(3, 5, 4), {"rnn": SINGLE, "head": BFLOAT}, BFLOAT),
            "a recurrent model",
        ),
    )
    torch.random.set_rng_state(torch_state)
    return cases


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
_LEFT = {
    "ran-several-times": "model(x) ran more than once",
    "hooks-left": "hooks are left on the model",
    "hooks-lost": "a hook that was on the model before is gone",
    "mode-changed": "a module is in another mode",
    "parameters-changed": "the parameters are not as they were",
    "region-left-open": "autocast is on after the call",
}


def _hooks_on(model: nn.Module) -> set[int]:
    found = {id(h) for m in model.modules() for kind in _HOOKS for h in getattr(m, kind).values()}
    return found | {id(m) for m in model.modules() if "forward" in vars(m)}


def _parameters_of(model: nn.Module) -> list[Any]:
    return [(p.dtype, p.requires_grad, p.detach().tolist()) for p in model.parameters()]


def _call_offenders(function: Callable[..., Any], model: nn.Module, *rest: Any) -> Any:
    """The answer, or in words what the function did to the model."""
    calls: list[int] = []
    counter = model.register_forward_hook(lambda *_: calls.append(1))
    hooks, parameters = _hooks_on(model), _parameters_of(model)
    modes = [module.training for module in model.modules()]
    with region("cpu", None):
        result = function(model, *rest)
        is_on = torch.is_autocast_enabled("cpu")
        torch.set_autocast_enabled("cpu", False)
    faults = {
        "ran-several-times": len(calls) > 1,
        "hooks-left": bool(_hooks_on(model) - hooks),
        "hooks-lost": bool(hooks - _hooks_on(model)),
        "mode-changed": [module.training for module in model.modules()] != modes,
        "parameters-changed": _parameters_of(model) != parameters,
        "region-left-open": is_on,
    }
    counter.remove()
    return next((_LEFT[slug] for slug, is_so in faults.items() if is_so), result)


def _judge_what_is_left(exercise: Exercise) -> Exercise:
    """The exercise, with a judge that asks first how each call left the model."""

    def judge(evidence: Any) -> Finding | Verdict:
        calls = zip(_offender_cases(), evidence, strict=False) if evidence else ()
        for case, seen in calls:
            for slug, words in _LEFT.items():
                if seen.get("value") == words:
                    return Finding(slug, (f"{case}: {words}",))
        return exercise.judge(evidence)

    return replace(exercise, judge=judge)


def _offenders(
    pick: Callable[[nn.Module, Any, Any], torch.dtype] | None = None,
    choose: Callable[[list[torch.dtype], torch.dtype], torch.dtype | None] | None = None,
    never_run: bool = True,
    with_region: bool = True,
    children_only: bool = False,
) -> Callable[..., Any]:
    """The reference, and with a change each the models of the misconceptions."""

    def first_tensor(output: Any) -> Tensor:
        return output[0] if isinstance(output, tuple) else output

    pick = pick or (lambda module, args, output: first_tensor(output).dtype)
    choose = choose or (lambda dtypes, want: next((d for d in dtypes if d is not want), want))

    def dtype_offenders(model, x, expected, dtype):
        seen: dict[str, list[torch.dtype]] = {path: [] for path in expected}
        handles = []
        for path in expected:
            if children_only and "." in path:
                continue
            module = model.get_submodule(path)
            handles.append(
                module.register_forward_hook(
                    lambda module, args, output, path=path: seen[path].append(
                        pick(module, args, output)
                    )
                )
            )
        with torch.no_grad(), region("cpu", dtype if with_region else None):
            model(x)
        for handle in handles:
            handle.remove()
        found = {p: choose(seen[p], want) if seen[p] else None for p, want in expected.items()}
        return {
            path: dtype
            for path, dtype in found.items()
            if dtype is not expected[path] and (never_run or dtype is not None)
        }

    return dtype_offenders


def _of_parameters(model, x, expected, dtype):
    found = {
        path: next((p.dtype for p in model.get_submodule(path).parameters()), None)
        for path in expected
    }
    return {path: dtype for path, dtype in found.items() if dtype not in (None, expected[path])}


def _same_mapping(expected: Any, seen: Any) -> bool:
    return seen == expected


dtype_offenders = function_exercise(
    "dtype_offenders",
    cases=_offender_cases,
    reference=_offenders(),
    play=lambda answer: partial(_call_offenders, answer),
    same=_same_mapping,
    asked_for="a dict from path to dtype",
    misconceptions={
        "parameters-not-outputs": Misconception(
            "You looked at the parameters. They are float32 under autocast as without it, so they "
            "say nothing. What a module gives is seen by a forward hook.",
            _of_parameters,
        ),
        "inputs-not-outputs": Misconception(
            "You looked at what goes into a module. A linear layer takes float32 and gives 16 "
            "bit: a forward hook gets the output as its third argument.",
            _offenders(pick=lambda module, args, output: args[0].dtype),
        ),
        "no-region": Misconception(
            "You ran the model without autocast, so everything came out float32. Open the region "
            "around the call of the model.",
            _offenders(with_region=False),
        ),
        "children-only": Misconception(
            "Only the outermost modules are watched: '0.body.0' lies deeper. get_submodule(path) "
            "and named_modules() reach all of them, named_children() does not.",
            _offenders(children_only=True),
            _offenders(children_only=True, never_run=False),
        ),
        "never-ran": Misconception(
            "A module that did not run is missing from your report. An assertion that never runs "
            "proves nothing, as in the recipe: report it with None.",
            _offenders(never_run=False),
        ),
        "one-call-only": Misconception(
            "A module can run several times, and you kept the dtype of one call. Collect all of "
            "them, and report the first that is not the expected one.",
            _offenders(choose=lambda dtypes, want: dtypes[-1]),
            _offenders(choose=lambda dtypes, want: dtypes[0]),
        ),
        "hooks-left": Misconception(
            "Your hooks, or your own forward, are still on the model when the function returns. "
            "They would run at every later step: take them off again, also if the model raises.",
        ),
        "hooks-lost": Misconception(
            "You took off hooks that were not yours: one that was on the model before is gone. "
            "Keep the handle that registering gives, and remove that one.",
        ),
        "mode-changed": Misconception(
            "The model comes back in another mode than it came. After eval() its next training "
            "step runs without dropout, and train() wakes the parts that were in eval mode. For a "
            "look at dtypes no mode has to change.",
        ),
        "ran-several-times": Misconception(
            "You ran the model more than once. Each run in training mode moves the statistics of "
            "a BatchNorm and draws from the random numbers: hook all modules first, run once.",
        ),
        "parameters-changed": Misconception(
            "The model's parameters, their dtype or their requires_grad are not what they were. "
            "Autocast needs no cast model, and a look at dtypes changes nothing.",
        ),
        "region-left-open": Misconception(
            "Autocast is still on when your function returns, and what the caller runs next is "
            "cast too. A `with torch.autocast(...)` block ends by itself.",
        ),
    },
    hints=(
        "module.register_forward_hook(hook) calls hook(module, args, output) after each forward, "
        "and returns a handle with remove().",
        "A hook must know its path: make it in a function that takes the path, or give the path "
        "as a default argument, because a closure in a loop sees the last one.",
        "Keep a list of dtypes for each path, empty at first. An empty list afterwards means that "
        "the module did not run.",
    ),
    lesson_learned="Now a change of autocast's rules, or of the model, fails a test and not a "
    "training run: assert not dtype_offenders(...).",
)
dtype_offenders = _judge_what_is_left(dtype_offenders)

# ---- gram -------------------------------------------------------------------------------------


@cache
def _gram_cases() -> tuple[Case, ...]:
    made = torch.Generator().manual_seed(4)

    def case(device: str, dtype: torch.dtype | None, rows: int, given: torch.dtype) -> Case:
        x = torch.randint(1, 200, (rows, 6), generator=made).to(given)
        weight = torch.randint(1, 10, (3 + rows % 2, 6), generator=made).float()
        if dtype is None:
            weight = weight.to(given)
        name = _name(dtype) if dtype else "no region"
        return Case((x, weight, device, dtype), f"{rows} rows, {device}, {name}")

    return (
        case("cpu", HALF, 4, SINGLE),
        case("cpu", HALF, 5, HALF),
        case("cpu", BFLOAT, 3, SINGLE),
        case("cpu", None, 4, SINGLE),
        case("cuda", HALF, 4, SINGLE),
        case("cuda", BFLOAT, 5, BFLOAT),
    )


_PRODUCT_CALLS = ("matmul", "__matmul__", "mm", "einsum", "linear", "inner", "tensordot")
_NO_GUARD = "not linked with support for cuda"  # what indexing of a fake CUDA tensor ends in
_UNANSWERED = "not answerable here"


class _LastProduct(TorchFunctionMode):
    """Remembers the last matrix product above autocast: with which dtype, and was autocast on?"""

    last = ""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        tensors = [a for a in args if isinstance(a, Tensor)]
        if getattr(func, "__name__", "") in _PRODUCT_CALLS and tensors:
            on = "on" if torch.is_autocast_enabled(tensors[0].device.type) else "off"
            self.last = f", from a product of {_name(tensors[0].dtype)} with autocast {on}"
        return func(*args, **(kwargs or {}))


def _state(device: str) -> tuple[bool, torch.dtype, bool]:
    return (
        torch.is_autocast_enabled(device),
        torch.get_autocast_dtype(device),
        torch.is_autocast_cache_enabled(),
    )


def _set_state(device: str, enabled: bool, dtype: torch.dtype, cached: bool) -> None:
    torch.set_autocast_enabled(device, enabled)
    torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(cached)


def _call_gram(function: Callable[..., Any], x: Tensor, weight: Tensor, device: str, dtype) -> Any:
    """Call in the case's region. On CUDA there are only fake tensors: no values, but a dtype.

    A 16-bit result is wrong whatever is in it, and what counts is how it came about.
    """
    with region(device, dtype), _LastProduct() as product:
        if device == "cuda":
            x, weight = (torch.empty(t.shape, dtype=t.dtype, device=device) for t in (x, weight))
        before = _state(device)
        try:
            result = function(x, weight)
        except RuntimeError as error:
            if device == "cuda" and _NO_GUARD in str(error):
                return _UNANSWERED  # no fault of the answer: a GPU would have computed it
            raise
        finally:
            after = _state(device)
            _set_state(device, *before)
        if dtype and not after[0]:
            return "autocast is off after the call"
        if after != before:
            return "autocast is not as it was after the call"
    if type(result) is Tensor and result.dtype in (HALF, BFLOAT):
        return f"{_name(result.dtype)}{product.last}"
    if device == "cuda" and isinstance(result, Tensor):
        return f"{_name(result.dtype)} on {device}"
    return result


def _true_gram(x: Tensor, weight: Tensor) -> Tensor:
    hidden = F.linear(x, weight)
    with torch.autocast(x.device.type, enabled=False):
        return hidden.float() @ hidden.float().T


def _gram_region_only(x: Tensor, weight: Tensor) -> Tensor:
    hidden = F.linear(x, weight)
    with torch.autocast(x.device.type, enabled=False):
        return hidden @ hidden.T


def _gram_cast_only(x: Tensor, weight: Tensor) -> Tensor:
    hidden = F.linear(x, weight).float()
    return hidden @ hidden.T


def _gram_cast_after(x: Tensor, weight: Tensor) -> Tensor:
    hidden = F.linear(x, weight)
    return (hidden @ hidden.T).float()


def _gram_all_single(x: Tensor, weight: Tensor) -> Tensor:
    with torch.autocast(x.device.type, enabled=False):
        hidden = F.linear(x.float(), weight.float())
        return hidden @ hidden.T


def _gram_cpu_only(x: Tensor, weight: Tensor) -> Tensor:
    hidden = F.linear(x, weight).float()
    with torch.autocast("cpu", enabled=False):
        return hidden @ hidden.T


def _gram_double(x: Tensor, weight: Tensor) -> Tensor:
    hidden = F.linear(x, weight).double()
    return hidden @ hidden.T


def _gram_left_off(x: Tensor, weight: Tensor) -> Tensor:
    hidden = F.linear(x, weight).float()
    torch.set_autocast_enabled(x.device.type, False)
    return hidden @ hidden.T


def _gram_other_region(x: Tensor, weight: Tensor) -> Tensor:
    torch.set_autocast_cache_enabled(False)
    return _true_gram(x, weight)


def _gram_left_on(x: Tensor, weight: Tensor) -> Tensor:
    result = _true_gram(x, weight)
    torch.set_autocast_enabled(x.device.type, True)
    return result


def _same_relative(expected: Any, seen: Any) -> bool:
    """Tensors of one dtype and shape, every number right to 1e-6 of itself; text as it is."""
    if not isinstance(expected, dict):
        return seen in (expected, _UNANSWERED)
    if not isinstance(seen, dict) or any(
        seen.get(key) != expected[key] for key in ("dtype", "shape")
    ):
        return False
    one, other = (torch.tensor(data["values"], dtype=DOUBLE) for data in (expected, seen))
    return torch.allclose(other, one, rtol=1e-6, atol=0.0)  # an inf is close to an inf only


gram = function_exercise(
    "gram",
    cases=_gram_cases,
    reference=_true_gram,
    play=lambda answer: partial(_call_gram, answer),
    same=_same_relative,
    asked_for="a float32 tensor",
    misconceptions={
        "cast-only": Misconception(
            "You cast to float32, and the product casts back: matmul is on the lower-precision "
            "list, so inside the region its inputs become 16 bit whatever they were. Autocast has "
            "to be off for the op as well.",
            _gram_cast_only,
        ),
        "region-only": Misconception(
            "You switched autocast off, and the tensor is still 16 bit: a disabled region casts "
            "nothing, in either direction. Cast it to float32 as well.",
            _gram_region_only,
        ),
        "cast-after": Misconception(
            "You cast the result of a 16-bit product. By then it is rounded to 16 bits, and in "
            "FP16 it is inf. Cast the features, and switch autocast off for the product.",
            _gram_cast_after,
        ),
        "all-in-float32": Misconception(
            "The linear layer runs in float32 too now. Only the product of the features with "
            "themselves is fragile; the rest should stay in the region's dtype.",
            _gram_all_single,
        ),
        "one-device": Misconception(
            "You switched autocast off for the CPU only. Each device type has its own switch: "
            "x.device.type names the one that is needed.",
            _gram_cpu_only,
        ),
        "float64-returned": Misconception(
            "Autocast leaves float64 alone, so this does avoid the cast. But float64 is what you "
            "return now, and on most GPUs it is many times slower than float32.",
            _gram_double,
        ),
        "autocast-left-off": Misconception(
            "Autocast is still off when your function returns, so the caller's region has lost "
            "its effect. A `with torch.autocast(..., enabled=False)` block gives it back.",
            _gram_left_off,
        ),
        "region-changed": Misconception(
            "Autocast is not as it was when your function returns: on where it was off, or with "
            "another dtype or cache setting. Each of the three has to be put back, and a "
            "`with torch.autocast(..., enabled=False)` block does it.",
            _gram_other_region,
            _gram_left_on,
        ),
        "as-it-was": Misconception(
            "The product still runs in 16 bits, and overflows in FP16.",
            lambda x, weight: F.linear(x, weight) @ F.linear(x, weight).T,
        ),
    },
    hints=(
        "A disabled region inside the region: with torch.autocast(device_type, enabled=False).",
        "Inside it nothing is cast any more, so the 16-bit features have to be cast by you.",
        "The device type is x.device.type.",
    ),
    lesson_learned="It takes both: autocast off, and a .float(). The rest of the region stays in "
    "16 bits.",
)

# ---- low_flop_share ---------------------------------------------------------------------------


class _Attention(nn.Module):
    """One head, written with functions: its products are no modules."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.transpose(1, 2), dim=-1) @ v


class _HeadInSingle(nn.Module):
    """A body under autocast and a head outside it."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 7), nn.ReLU(), nn.Linear(7, 5))
        self.head = nn.Linear(5, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x)
        with torch.autocast(x.device.type, enabled=False):
            return self.head(x.float())


class _DoubleDetour(nn.Module):
    """A convolution, and a product in float64 that autocast leaves alone."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 2)
        self.register_buffer("basis", torch.ones(4, 6, dtype=DOUBLE))

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).mean(-1).double() @ self.basis


class _ScoresInSingle(nn.Module):
    """Attention whose scores are computed in float32, and whose values are not."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.v = nn.Linear(6, 4), nn.Linear(6, 9)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x).float()
        with torch.autocast(x.device.type, enabled=False):
            weights = torch.softmax(q @ q.transpose(1, 2), dim=-1)
        return weights @ self.v(x)


@cache
def _share_cases() -> tuple[Case, ...]:
    state = torch.random.get_rng_state()
    torch.manual_seed(4)
    stack = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 2))
    cases = (
        Case((stack, torch.randn(3, 6), BFLOAT), "a stack of two layers"),
        Case((_HeadInSingle(6, 11), torch.randn(5, 6), HALF), "a head in float32"),
        Case((_Attention(4), torch.randn(2, 5, 4), BFLOAT), "attention"),
        Case((_ScoresInSingle(), torch.randn(2, 7, 6), HALF), "attention, scores in float32"),
        Case((_DoubleDetour(), torch.randn(2, 3, 8), BFLOAT), "a product in float64"),
        Case((_HeadInSingle(3, 40), torch.randn(9, 3), BFLOAT), "a large head in float32"),
    )
    torch.random.set_rng_state(state)
    return cases


class _Counter(TorchDispatchMode):
    """Adds up the FLOPs of each op that has a formula, by the dtype of its result."""

    def __init__(self, weigh: Callable[[int], int] = lambda flops: flops) -> None:
        super().__init__()
        self.flops: dict[torch.dtype, int] = {}
        self.weigh = weigh

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket in flop_registry:
            flops = flop_registry[func.overloadpacket](*args, **(kwargs or {}), out_val=out)
            self.flops[out.dtype] = self.flops.get(out.dtype, 0) + self.weigh(flops)
        return out


def _share(counted: dict[torch.dtype, int]) -> float:
    return sum(n for d, n in counted.items() if d in (HALF, BFLOAT)) / sum(counted.values())


def _true_share(model: nn.Module, x: Tensor, dtype: torch.dtype, **changes: Any) -> float:
    counter = _Counter(changes.get("weigh", lambda flops: flops))
    with torch.no_grad(), region("cpu", changes.get("dtype", lambda d: d)(dtype)), counter:
        model(x)
    return _share(counter.flops)


def _share_by_modules(pick: Callable[[Any, Any, Any], torch.dtype]) -> Callable[..., float]:
    """Forward hooks on the layers, which see no product outside a module."""

    def low_flop_share(model: nn.Module, x: Tensor, dtype: torch.dtype) -> float:
        counted: dict[torch.dtype, int] = {}

        def hook(module: nn.Module, args: Any, out: Tensor) -> None:
            kind = pick(module, args, out)
            weight = module.weight
            rows = out.numel() // weight.shape[0]
            counted[kind] = counted.get(kind, 0) + 2 * rows * weight.numel()

        layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv1d)]
        handles = [layer.register_forward_hook(hook) for layer in layers]
        with torch.no_grad(), region("cpu", dtype):
            model(x)
        for handle in handles:
            handle.remove()
        return _share(counted)

    return low_flop_share


def _share_of_all_ops(model: nn.Module, x: Tensor, dtype: torch.dtype) -> float:
    class Every(TorchDispatchMode):
        low = total = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if isinstance(out, Tensor):
                self.total += 1
                self.low += out.dtype in (HALF, BFLOAT)
            return out

    with torch.no_grad(), region("cpu", dtype), Every() as every:
        model(x)
    return every.low / every.total


low_flop_share = function_exercise(
    "low_flop_share",
    cases=_share_cases,
    reference=_true_share,
    misconceptions={
        "always-zero": Misconception(
            "Your share is 0 for every model. Nothing is in 16 bits where no region is open, nor "
            "are the parameters where one is; and in inference_mode you see no op that has a "
            "formula. Run the model in the region, and look at what its ops give.",
            lambda model, x, dtype: _true_share(model, x, dtype, dtype=lambda _: None),
            lambda model, x, dtype: 0.0,
        ),
        "counts-ops": Misconception(
            "You counted matrix products, not their FLOPs: a large product weighs as much as a "
            "small one in your share.",
            lambda model, x, dtype: _true_share(model, x, dtype, weigh=lambda flops: 1),
        ),
        "counts-every-op": Misconception(
            "You counted ops of every kind, the casts and views among them. Ask for the FLOPs of "
            "those that flop_registry has a formula for; nearly all the work is there.",
            _share_of_all_ops,
        ),
        "modules-only": Misconception(
            "You counted layers, with hooks or by their weights. q @ k is a product without a "
            "layer, and you missed it: a TorchDispatchMode sees every op.",
            _share_by_modules(lambda module, args, out: out.dtype),
        ),
        "inputs-before-the-cast": Misconception(
            "You took the dtype of what goes into a layer. The cast comes after that, inside "
            "the layer's call: below it, a TorchDispatchMode sees what is computed.",
            _share_by_modules(lambda module, args, out: args[0].dtype),
        ),
        "one-format-only": Misconception(
            "You counted one 16-bit format only. The region may be float16 or bfloat16.",
            lambda model, x, dtype: _true_share(model, x, dtype) if dtype is BFLOAT else 0.0,
            lambda model, x, dtype: _true_share(model, x, dtype) if dtype is HALF else 0.0,
        ),
        "percent": Misconception(
            "You returned a percentage. Return the share, a number between 0 and 1.",
            lambda model, x, dtype: 100 * _true_share(model, x, dtype),
        ),
    },
    hints=(
        "The dtype in which an op computed is the dtype of its result: below autocast the casts "
        "are ops of their own, and have been made.",
        "func.overloadpacket in flop_registry says whether there is a formula, and "
        "flop_registry[func.overloadpacket](*args, **kwargs, out_val=out) gives the FLOPs.",
        "Call the op first, then look at out.dtype, add the FLOPs to one of two sums, and return "
        "out.",
    ),
    same=within(1e-6),
    lesson_learned="Few of autocast's rules cast to 16 bits, and those few do most of the FLOPs.",
)
