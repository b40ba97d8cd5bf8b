"""`explain_autocast` beside a real run: do they tell the same ops, dtypes, casts and bytes?

The real run comes from `real_models.recorder`. Nothing is rounded and nothing is left out: one
op, cast or byte that differs makes the model "differ".
"""

from __future__ import annotations

import difflib
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from amp_lessons.amp.explain import Explanation, TraceError, explain_autocast
from real_models import recorder
from real_models.recorder import Op, Run
from real_models.zoo import Model


@dataclass(frozen=True)
class Outcome:
    """How one model came out.

    Attributes:
        verdict, why: of the call that a user writes, ``values="auto"``. The verdict is "agree";
            "differ"; "refused", where the trace stops and the real run works; "both refuse"; or
            "told only", where only the real run fails. ``why`` is "" where all agree.
        values: what that trace was made with: "fake", or "real" where fake tensors did not do.
        on_fakes, on_fakes_why: the same of ``values="fake"``.
        ops, casts, casts_backward, saved: of the real run.
    """

    verdict: str
    why: str
    values: str
    on_fakes: str
    on_fakes_why: str
    ops: int = 0
    casts: int = 0
    casts_backward: int = 0
    saved: int = 0


def compare(model: Model) -> Outcome:
    """Build the model, explain it on fake tensors and as a user would, run it, and compare."""
    recorder.seed()
    module, args, kwargs = model.build()
    module.train(model.train)
    with torch.set_grad_enabled(model.grad):
        on_fakes = _told(model, module, args, kwargs, "fake")
        output = on_fakes
        if isinstance(on_fakes, TraceError) or _leaves_sizes_open(on_fakes):
            output = _told(model, module, args, kwargs, "auto")
        try:
            real: Run | Exception = recorder.run(module, args, kwargs, model.dtype)
        except Exception as error:
            real = error
    values = "" if isinstance(output, TraceError) else output.values
    counts = (
        () if isinstance(real, Exception)
        else (len(real.ops), real.casts, real.casts_backward, real.saved)
    )  # fmt: skip
    return Outcome(*_judged(output, real), values, *_judged(on_fakes, real), *counts)


def _told(
    model: Model, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], values: str
) -> Explanation | TraceError:
    recorder.seed()
    try:
        return explain_autocast(
            module, *args, device="cpu", dtype=model.dtype, kwargs=kwargs, values=values
        )
    except TraceError as error:
        return error


def _leaves_sizes_open(output: Explanation) -> bool:
    """Whether the trace says that it didn't know some sizes, as ``values="auto"`` would."""
    return any("sizes that depend on values" in note for note in output.notes)


def _judged(output: Explanation | TraceError, real: Run | Exception) -> tuple[str, str]:
    """The verdict on one trace, and why."""
    if isinstance(real, Exception):
        first = str(real).partition("\n")[0]
        words = f"real: {type(real).__name__}: {first}"
        if not isinstance(output, TraceError) and _raises(output):
            return "agree", f"raises, as a hazard says; {words}"
        if isinstance(output, TraceError):
            return "both refuse", f"told: {output}; {words}"
        where = traceback.extract_tb(real.__traceback__)[-1]
        return "told only", f"{words} ({Path(where.filename).name}:{where.lineno})"
    if isinstance(output, TraceError):
        return "refused", str(output)
    found = differences(output, real)
    return ("differ" if found else "agree"), "; ".join(found)


def differences(output: Explanation, real: Run) -> list[str]:
    """What the trace tells otherwise than the real run, in words."""
    found = _ops_that_differ(told_ops(output), real.ops)
    found += [f"told to raise, and runs: {message}" for message in _raises(output)]
    totals = output.totals
    for name, reported, happened in (
        ("casts forward", told_casts(output), real.casts),
        ("casts backward", totals.casts_backward, real.casts_backward),
        ("saved bytes", totals.saved_amp, real.saved),
    ):
        if reported != happened:
            found.append(f"{name}: told {reported:,}, real {happened:,}")
    return found


def told_ops(output: Explanation) -> list[Op]:
    """The rows of a report as the recorder would list them."""
    return [
        Op(row.op, tuple(i.used_as for i in row.inputs), row.dtype_out)
        for row in output.rows
        if not _is_cast(row)
    ]


def told_casts(output: Explanation) -> int:
    """The casts of a report: autocast's that ran, and the model's own conversions."""
    by_autocast = [cast for row in output.rows for cast in row.casts if cast.how != "from cache"]
    return len(by_autocast) + sum(map(_is_cast, output.rows))


def _is_cast(row: Any) -> bool:
    if row.op != "aten::_to_copy" or not row.inputs:
        return False
    floats = row.dtype_out.startswith(("float", "bfloat"))
    return floats and row.inputs[0].used_as != row.dtype_out


def _raises(output: Explanation) -> list[str]:
    """What a report says would raise in the forward or backward pass.

    A hazard without an op is about the optimizer's step, which the recorder doesn't take.
    """
    return [f"{h.op}: {h.message}" for h in output.hazards if h.severity == "raises" and h.op]


def _ops_that_differ(output: Sequence[Op], real: Sequence[Op]) -> list[str]:
    """The first place where the lists part, and how much there is of it; [] if they are equal."""
    if list(output) == list(real):
        return []
    parts: list[str] = []
    matcher = difflib.SequenceMatcher(None, output, real, autojunk=False)
    counted: Counter[str] = Counter()
    for kind, i, j, k, m in matcher.get_opcodes():
        if kind != "equal":
            counted[f"told [{_few(output[i:j])}], real [{_few(real[k:m])}]"] += 1
    for text, times in counted.most_common(3):
        parts.append(f"{text}, {times} times" if times > 1 else text)
    more = f" and {len(counted) - 3} other places" if len(counted) > 3 else ""
    return [f"ops: {' | '.join(parts)}{more}"]


def _few(ops: Sequence[Op]) -> str:
    shown = ", ".join(map(str, ops[:4]))
    return f"{shown}, … {len(ops)} in all" if len(ops) > 4 else shown
