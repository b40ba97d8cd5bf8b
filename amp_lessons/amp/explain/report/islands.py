"""FP32 islands: runs of ops that compute in float32 while the model around them runs in 16 bit.

An op in float32 moves twice the bytes, and the tensors that enter and leave it are often cast. The
islands that take the longest are where a fused kernel, or a cast less, would gain the most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from amp_lessons.amp.explain.report.costs import Costs
from amp_lessons.amp.explain.report.names import in_runs, op_name, pattern, place
from amp_lessons.amp.explain.rows import LOW_NAMES, OpRow, Trace
from amp_lessons.core.precision import brief

WIDE = ("float32", "float64")
_CONVERSIONS = ("", "to", "float", "double", "type", "type_as")


@dataclass(frozen=True)
class Island:
    """The same run of ops in float32, wherever the model has it.

    Attributes:
        module: the path, with ``*`` for numbers that differ.
        ops: in their order, equal neighbours together.
        why: what brought the first op to float32.
        where: the line of code of the first op, if it is the same in all.
        count: how often the run occurs.
        seconds: the least time of all of them, with their casts; 0 without a GPU to ask.
        share: of the forward's time at peak rates, or of its bytes where there is no time.
        bytes_moved: by all of them, with their casts.
    """

    module: str
    ops: tuple[str, ...]
    why: str
    where: str
    count: int
    seconds: float
    share: float
    bytes_moved: int


def find_islands(trace: Trace, costs: Costs | None = None) -> tuple[Island, ...]:
    """All islands of a model that computes in 16 bit somewhere, the slowest first."""
    if not any(row.computed_in in LOW_NAMES for row in trace.rows):
        return ()
    groups: dict[tuple[str, tuple[str, ...], str], list[list[OpRow]]] = {}
    for run in _runs(trace.rows):
        ops = tuple(in_runs(map(op_name, run)))
        groups.setdefault((pattern(run[0].path), ops, _why(run[0])), []).append(run)
    whole = sum(_weight([row], costs) for row in trace.rows) or 1.0
    found = [_island(key, runs, costs, whole) for key, runs in groups.items()]
    return tuple(sorted(found, key=lambda island: -island.share))


def _runs(rows: Sequence[OpRow]) -> Iterator[list[OpRow]]:
    """Neighbours in float32 in the same module. A call of attention stands by itself."""

    def alike(row: OpRow) -> tuple[bool, str, str]:
        return row.computed_in in WIDE, row.path, row.kernel

    for (wide, _, _), run in groupby(rows, key=alike):
        if wide:
            yield list(run)


def _island(
    key: tuple[str, tuple[str, ...], str],
    runs: list[list[OpRow]],
    costs: Costs | None,
    whole: float,
) -> Island:
    rows = [row for run in runs for row in run]
    _, ops, why = key
    lines = {run[0].where for run in runs}
    return Island(
        place(run[0].path for run in runs),
        ops,
        why,
        lines.pop() if len(lines) == 1 else "",
        len(runs),
        sum(map(costs.with_casts, rows)) if costs else 0.0,
        _weight(rows, costs) / whole,
        _bytes(rows),
    )


def _weight(rows: Sequence[OpRow], costs: Costs | None) -> float:
    return sum(map(costs.with_casts, rows)) if costs else float(_bytes(rows))


def _bytes(rows: Sequence[OpRow]) -> int:
    casts = sum(cast.bytes_moved for row in rows for cast in row.casts)
    return casts + sum(row.bytes_moved for row in rows)


def _why(row: OpRow) -> str:
    """What brought this op to float32."""
    wide = brief(row.computed_in)
    if row.kernel:
        return f"attention's {row.kernel} kernel computes in {wide}"
    if any(cast.target in WIDE for cast in row.casts):
        return f"autocast runs {row.short_op.strip('_')} in {wide}"
    if row.op == "aten::_to_copy" and row.call in _CONVERSIONS:
        return f"the model's own code converts to {wide}"
    kinds = set(row.dtypes_in)
    if kinds & set(LOW_NAMES) and kinds & set(WIDE):
        return f"a 16-bit tensor meets an {wide} one"
    if kinds & set(LOW_NAMES):
        return f"autocast, or a dtype in the call, asks for an {wide} result"
    return f"its inputs are {wide}" if kinds else f"it creates an {wide} tensor"
