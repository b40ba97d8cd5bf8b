"""The ops of a forward pass as steps to predict: what goes in, what autocast casts, and why.

This module is plain data and plain functions; the page is left to `autocast_steps`. It holds no
list of ops either. `explain` says which ops run, in which dtype and after which casts, and `policy`
says what the rule of an op is. What is written here turns both into sentences.

The sentences on the cache follow ``cached_cast`` in PyTorch's aten/src/ATen/autocast_mode.cpp: only
casts of FP32 leaves that need a gradient are kept. ``autocast.__exit__`` in
torch/amp/autocast_mode.py empties the cache when the outermost region ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from amp_lessons.amp import policy
from amp_lessons.amp.explain import Explanation, Input, OpRow
from amp_lessons.amp.policy import OpPolicy, PolicyError
from amp_lessons.core.precision import brief

PLACES = {"cuda": "On CUDA", "cpu": "On a CPU"}
REFUSED = "refused"
OWN_CAST = "own cast"
"""The model converts a tensor itself, as ``x.float()`` does."""
INSIDE = "inside"
"""What is cast for the op is not what its own rule says: a larger op runs it."""
OFF = "off"
"""The op has a rule, but what the trace saw does not follow it."""
UNKNOWN = ""

Answer = Sequence[str]
"""The dtypes that were predicted: the op's, and its output's. Empty: shown without a prediction."""


@dataclass(frozen=True)
class Operand:
    """A tensor that an op takes.

    Attributes:
        name: of the parameter, the argument or the variable; "" if it has none.
        kind: "parameter" (buffers too), "input" (of the model), "result" (of an earlier op) or
            "constant".
        made_by: the number of the step that made it; 0 if none did.
        dtype: before autocast's cast.
        used_as: the dtype in which the op takes it.
        how: "" where nothing is cast; "new", "again" or "from cache", as for `trace.Cast`.
        cached: whether the cast is in autocast's cache.
    """

    name: str
    kind: str
    made_by: int
    dtype: str
    used_as: str
    how: str = ""
    cached: bool = False


@dataclass(frozen=True)
class CacheEntry:
    """A cast that autocast's cache holds.

    Attributes:
        name: of the parameter.
        dtype: of the copy. bytes: its size.
        state: "new" if this step made it, "used" if this step took it, otherwise "".
    """

    name: str
    dtype: str
    bytes: int
    state: str = ""


@dataclass(frozen=True)
class OpStep:
    """One op under autocast, with the answer to what is asked about it.

    Attributes:
        number: from 1.
        op: as the code calls it, such as "linear". kernel: what torch runs, such as "addmm".
        path: of the module, "" for the model itself.
        code: the line of the model's own code; "" if there is none.
        result: the name of the variable that the result goes to; "" if there is none.
        operands: the floating tensors that it takes: activations first, then parameters.
        runs_in: the widest floating dtype among the tensors that it takes and gives. How a kernel
            adds up inside is not asked.
        gives: dtype of its output.
        rule: what autocast does with it: one of `policy.GROUPS`, "own cast", "inside", "off",
            or "" where `policy` doesn't know the op.
        why: the reason, in sentences.
        casts: how many casts are made for it. spared: how many more the cache makes unnecessary.
        cache: what the cache holds afterwards.
    """

    number: int
    op: str
    kernel: str
    path: str
    code: str
    result: str
    operands: tuple[Operand, ...]
    runs_in: str
    gives: str
    rule: str
    why: tuple[str, ...]
    casts: int
    spared: int
    cache: tuple[CacheEntry, ...]


@dataclass(frozen=True)
class Score:
    """How many predictions were right, how many there were, and how many steps were shown."""

    right: int
    asked: int
    shown: int


def steps_of(explained: Explanation, parameters: Sequence[str] = ()) -> tuple[OpStep, ...]:
    """One step for each op of a trace.

    Args:
        explained: what `trace.explain_autocast` says of the model.
        parameters: names of parameters and buffers, in the order in which a step shows them.
    """
    names = _variables(explained.rows)
    steps: list[OpStep] = []
    held: tuple[CacheEntry, ...] = ()
    for row, name in zip(explained.rows, names, strict=True):
        held = _after(row, held)
        operands = tuple(
            _operand(given, names, parameters) for given in _in_order(row.inputs, parameters)
        )
        rule = _rule_of(row, explained.device, explained.dtype)
        steps.append(
            OpStep(
                number=row.number + 1,
                op=_spoken(row),
                kernel=row.short_op.strip("_"),
                path=row.path,
                code=row.code,
                result=name,
                operands=operands,
                runs_in=row.computed_in or row.dtype_out,
                gives=row.dtype_out or row.computed_in,
                rule=rule,
                why=_why(row, rule, operands, explained),
                casts=sum(cast.how != "from cache" for cast in row.casts),
                spared=sum(cast.how == "from cache" for cast in row.casts),
                cache=held,
            )
        )
    return tuple(steps)


# ---- predictions --------------------------------------------------------------------------------


def options(steps: Sequence[OpStep], low: str) -> tuple[str, ...]:
    """The dtypes that a prediction can name: the 16-bit one, float32, and any other that occurs."""
    found = [dtype for step in steps for dtype in (step.runs_in, step.gives) if dtype]
    return tuple(dict.fromkeys([low, "float32", *found]))


def verdict(step: OpStep, answer: Answer) -> str:
    """ "right", "wrong", or "shown" where nothing was predicted. Both dtypes must be right."""
    if not answer:
        return "shown"
    return "right" if tuple(answer) == (step.runs_in, step.gives) else "wrong"


def score(steps: Sequence[OpStep], answers: Sequence[Answer]) -> Score:
    """How the predictions went so far; ``answers`` may be fewer than the steps."""
    given = [verdict(step, answer) for step, answer in zip(steps, answers, strict=False)]
    asked = [word for word in given if word != "shown"]
    return Score(asked.count("right"), len(asked), given.count("shown"))


# ---- a row in other words -----------------------------------------------------------------------


def _spoken(row: OpRow) -> str:
    """The op as a person calls it: as the code did, or else by its name in ATen."""
    if _in_place(row):
        return row.short_op
    plain = row.short_op.strip("_").removeprefix("native_").removesuffix("_forward")
    return row.call.strip("_") or plain


def _in_place(row: OpRow) -> bool:
    return row.short_op.endswith("_")


_ASSIGNS = re.compile(r"(\w+)\s*[-+*/@]?=(?!=)")


def _variables(rows: Sequence[OpRow]) -> list[str]:
    """For each row the variable that its result goes to, read from the line of code.

    Where a line runs several ops, only the last one's result is what the line assigns.
    """
    names = []
    for place, row in enumerate(rows):
        found = _ASSIGNS.match(row.code)
        after = rows[place + 1 : place + 2]
        last = not any((r.where, r.code) == (row.where, row.code) for r in after)
        names.append(found[1] if found and last else "")
    return names


def _in_order(inputs: Sequence[Input], parameters: Sequence[str]) -> list[Input]:
    places = {name: place for place, name in enumerate(parameters)}
    return sorted(inputs, key=lambda given: places.get(given.name, -1))


def _operand(given: Input, names: Sequence[str], parameters: Sequence[str]) -> Operand:
    name, kind = given.name, "input" if given.name else "constant"
    if given.made_by >= 0:
        name, kind = names[given.made_by], "result"
    elif given.name in parameters:
        kind = "parameter"
    made_by, dtypes = given.made_by + 1, (given.dtype, given.used_as)
    return Operand(name, kind, made_by, *dtypes, given.how, given.cached)


def _after(row: OpRow, held: Sequence[CacheEntry]) -> tuple[CacheEntry, ...]:
    """The cache after an op: what it held, marked where the op used it, and what is new."""
    hits = {(cast.what, cast.target) for cast in row.casts if cast.how == "from cache"}
    kept = [
        CacheEntry(e.name, e.dtype, e.bytes, "used" if (e.name, e.dtype) in hits else "")
        for e in held
    ]
    new = [
        CacheEntry(cast.what, cast.target, cast.bytes, "new")
        for cast in row.casts
        if cast.cached and cast.how != "from cache"
    ]
    return (*kept, *new)


# ---- rules --------------------------------------------------------------------------------------


@cache
def _policy(names: tuple[str, ...], device: str, dtype: str) -> OpPolicy | None:
    """What `policy` says of the first of these names that it knows."""
    for name in names:
        try:
            return policy.op_policy(name, device, dtype)
        except PolicyError:
            continue
    return None


def _rule_of(row: OpRow, device: str, low: str) -> str:
    """The op's rule, if what the trace saw follows it. What works in place has none."""
    if row.op == "aten::_to_copy":
        return OWN_CAST
    if _in_place(row) and not row.casts:
        return "as given"
    names = dict.fromkeys(filter(None, (row.call, row.short_op, _spoken(row))))
    asked = _policy(tuple(names), device, low)
    if asked is None or asked.group == "not answerable":
        return UNKNOWN
    if asked.group == REFUSED or _FOLLOWS[asked.group](row, low):
        return asked.group
    return INSIDE if row.casts else OFF


_FOLLOWS: dict[str, Callable[[OpRow, str], bool]] = {
    "lower precision": lambda row, low: row.computed_in == low or _casts_to(row, low),
    "float32": lambda row, low: row.computed_in == "float32",
    "widest": lambda row, low: len({given.used_as for given in row.inputs}) == 1,
    "as given": lambda row, low: not row.casts,
}


def _casts_to(row: OpRow, dtype: str) -> bool:
    return any(cast.target == dtype for cast in row.casts)


# ---- reasons ------------------------------------------------------------------------------------


def _why(
    row: OpRow, rule: str, operands: Sequence[Operand], explained: Explanation
) -> tuple[str, ...]:
    op, low = _spoken(row), _short(explained.dtype)
    place = PLACES[explained.device]
    first = {
        "lower precision": f"{place}, autocast runs {op} in {low}.",
        "float32": f"{place}, autocast runs {op} in FP32.",
        "widest": f"{place}, autocast casts the inputs of {op} to the widest dtype among them.",
        "as given": f"{place}, autocast has no rule for {op}: it takes its inputs as they come.",
        REFUSED: f"{place}, autocast refuses {op}: a real run raises an error here. "
        "What you see is the op outside of autocast.",
        OWN_CAST: "The model casts this tensor itself. Autocast has no say in it.",
        INSIDE: f"{op} runs inside a larger op here, and that op's rule decides what is cast.",
        OFF: f"The rule of {op} has no effect here: autocast is off around it, or an input is "
        "FP64.",
        UNKNOWN: f"The policy browser doesn't list {op}; this is what a trace of it shows.",
    }[rule]
    return (first, *_about_casts(row, operands), *_about_no_casts(row, rule, operands, low))


def _about_casts(row: OpRow, operands: Sequence[Operand]) -> list[str]:
    """What is cast, what is cast again, what stays in the cache and what comes from it."""
    by_how = {
        how: _listed([_called(o) for o in operands if o.how == how])
        for how in ("new", "again", "from cache")
    }
    kept = [_called(o) for o in operands if o.cached and o.how != "from cache"]
    said = []
    if by_how["new"]:
        said.append(f"Autocast casts {by_how['new']}.")
    if by_how["again"]:
        said.append(
            f"It casts {by_how['again']} again: the cache keeps only casts of FP32 parameters that "
            "need a gradient."
        )
    if kept:
        said.append(f"The cache keeps the {_plural('cast', kept)} of {_listed(kept)}.")
    if by_how["from cache"]:
        said.append(f"The casts of {by_how['from cache']} come from the cache.")
    hidden = len(row.casts) - sum(bool(o.how) for o in operands)
    if hidden > 0:
        said.append(f"{hidden} more {_plural('cast', hidden)} happen inside {_spoken(row)}.")
    return said


def _about_no_casts(row: OpRow, rule: str, operands: Sequence[Operand], low: str) -> list[str]:
    """What is to be said where nothing is cast: why not, and what becomes of mixed input."""
    if row.casts:
        return []
    if not operands:
        return ["It takes no floating-point tensor, so there is nothing to cast."]
    dtypes = list(dict.fromkeys(o.used_as for o in operands))
    words = _listed([_short(dtype) for dtype in dtypes])
    gives = _short(row.dtype_out)
    if rule == "float32" and "float32" not in dtypes:
        return [f"It casts nothing: it asks the op for an FP32 result, and the op reads {words}."]
    if rule in ("lower precision", "float32", "widest"):
        have = "All its inputs are" if len(operands) > 1 else "Its input is"
        return [f"{have} {words} already, so nothing is cast."]
    if len(dtypes) == 1:
        return [f"{words} goes in, {gives} comes out."]
    if row.dtype_out == row.computed_in:
        return [f"{words} go in. PyTorch's type promotion makes the result {gives}."]
    return [
        f"{words} go in. It runs in {_short(row.computed_in)}, and its output has the dtype of "
        f"{_called(operands[0])}: {gives}."
    ]


def _called(operand: Operand) -> str:
    if operand.name:
        return operand.name
    return f"the result of op {operand.made_by}" if operand.made_by else "a constant"


def _short(dtype: str) -> str:
    return brief(dtype).upper() if dtype.startswith(("float", "bfloat")) else dtype


def _listed(words: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    words = list(dict.fromkeys(words))
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _plural(word: str, count: int | Sequence[str]) -> str:
    many = count if isinstance(count, int) else len(count)
    return word if many == 1 else f"{word}s"
