"""What changed between two traces of one model: before and after a fix, two dtypes, two versions.

Rows are matched module by module, in their order. A row whose op has a partner is compared by the
dtype that it runs in and the one that it gives; the others are gone or new.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from difflib import SequenceMatcher

from amp_lessons.amp.explain.report.digest import Digest, hazards_in_words
from amp_lessons.amp.explain.report.names import duration, pattern, place
from amp_lessons.amp.explain.rows import Hazard, OpRow, Trace
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.precision import brief
from amp_lessons.core.sizes import size


class OtherModel(AmpLessonsError, ValueError):
    """Two traces of models that have little in common."""


@dataclass(frozen=True)
class OpChange:
    """Ops that changed alike.

    Attributes:
        module: the path, with ``*`` for numbers. op: its name.
        before, after: what it runs in and gives, such as "fp32"; "" where there is no such op.
        count: how many.
    """

    module: str
    op: str
    before: str
    after: str
    count: int


@dataclass(frozen=True)
class Figure:
    """One number of the whole model, or of a module, before and after, in words."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class TraceDiff:
    """Everything in which two traces differ.

    Attributes:
        before, after: the traces.
        figures: totals that differ.
        swapped: ops that went from the one run's 16-bit dtype to the other's, as is expected.
        dtypes: other ops that run in another dtype. gone, new: ops.
        casts, saved: modules whose casts, or bytes saved for backward, differ; the most first.
        hazards_gone, hazards_new: by kind, op and place.
    """

    before: Trace
    after: Trace
    figures: tuple[Figure, ...]
    swapped: int
    dtypes: tuple[OpChange, ...]
    gone: tuple[OpChange, ...]
    new: tuple[OpChange, ...]
    casts: tuple[Figure, ...]
    saved: tuple[Figure, ...]
    hazards_gone: tuple[Hazard, ...]
    hazards_new: tuple[Hazard, ...]

    def to_json(self) -> str:
        """The differences as JSON; of the two traces only what they were made with."""
        told = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("before", "after"):
            trace = told[name]
            told[name] = {key: getattr(trace, key) for key in _MADE_WITH}
        told["empty"] = self.empty
        return json.dumps(told, indent=1, default=asdict)

    @property
    def empty(self) -> bool:
        """Whether nothing that the report shows has changed."""
        lists = (self.figures, self.dtypes, self.gone, self.new, self.casts, self.saved)
        return not (any(lists) or self.swapped or self.hazards_gone or self.hazards_new)


_MADE_WITH = ("model", "device", "dtype", "torch", "gpu", "values")


def compare(before: Trace, after: Trace) -> TraceDiff:
    """What changed from one trace to the other.

    Raises:
        OtherModel: if the models have another class, and fewer than half their modules in common.
    """
    _check(before, after)
    matched, gone, new = _matched(before.rows, after.rows)
    low = (brief(before.dtype), brief(after.dtype))
    other = [(a, b) for a, b in matched if _runs(a) != _runs(b)]
    swapped = [(a, b) for a, b in other if low[0] != low[1] and _is_swap(_runs(a), _runs(b), low)]
    expected = set(map(id, (a for a, _ in swapped)))
    dtypes = [(a.path, a.shown_op, _runs(a), _runs(b)) for a, b in other if id(a) not in expected]
    hazards_gone, hazards_new = _hazards(before, after)
    return TraceDiff(
        before,
        after,
        tuple(_figures(Digest(before), Digest(after))),
        len(swapped),
        _counted(dtypes),
        _counted((row.path, row.shown_op, _runs(row), "") for row in gone),
        _counted((row.path, row.shown_op, "", _runs(row)) for row in new),
        _by_module(before, after, _casts, str),
        _by_module(before, after, lambda row: row.saved, size),
        hazards_gone,
        hazards_new,
    )


def _check(before: Trace, after: Trace) -> None:
    old, new = ({(m.path, m.kind) for m in trace.modules if m.path} for trace in (before, after))
    alike = 2 * len(old & new) >= min(len(old), len(new)) > 0
    if before.model != after.model and not alike:
        raise OtherModel(
            f"the file describes {before.model}, and this run {after.model}: they have few modules "
            "in common; compare two runs of one model"
        )


# ---- ops ----------------------------------------------------------------------------------------


def _matched(
    before: Iterable[OpRow], after: Iterable[OpRow]
) -> tuple[list[tuple[OpRow, OpRow]], list[OpRow], list[OpRow]]:
    """Pairs of the same op in the same module; rows without a partner before, and after."""
    old, new = _of_modules(before), _of_modules(after)
    pairs: list[tuple[OpRow, OpRow]] = []
    alone: tuple[list[OpRow], list[OpRow]] = ([], [])
    for path in dict.fromkeys((*old, *new)):
        left, right = old.get(path, []), new.get(path, [])
        names = [[row.shown_op for row in rows] for rows in (left, right)]
        matcher = SequenceMatcher(None, names[0], names[1], autojunk=False)
        for tag, i, k, m, n in matcher.get_opcodes():
            if tag == "equal":
                pairs += zip(left[i:k], right[m:n], strict=True)
            else:
                alone[0].extend(left[i:k])
                alone[1].extend(right[m:n])
    return pairs, *alone


def _of_modules(rows: Iterable[OpRow]) -> dict[str, list[OpRow]]:
    found: dict[str, list[OpRow]] = defaultdict(list)
    for row in rows:
        found[row.path].append(row)
    return found


def _runs(row: OpRow) -> str:
    """What an op runs in, and what it gives if that is something else."""
    inside, out = brief(row.computed_in), brief(row.dtype_out)
    return inside if inside == out else f"{inside}, gives {out}"


def _is_swap(before: str, after: str, low: tuple[str, str]) -> bool:
    """Whether one run's 16-bit dtype took the place of the other's, and nothing else changed."""
    return before.replace(low[0], low[1]) == after


def _counted(changes: Iterable[tuple[str, str, str, str]]) -> tuple[OpChange, ...]:
    """Changes that are alike in modules that are alike, the most frequent first."""
    groups: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    for path, op, before, after in changes:
        groups[pattern(path), op, before, after].append(path)
    found = [
        OpChange(place(paths), op, before, after, len(paths))
        for (_, op, before, after), paths in groups.items()
    ]
    return tuple(sorted(found, key=lambda change: -change.count))


# ---- numbers ------------------------------------------------------------------------------------


def _figures(before: Digest, after: Digest) -> Iterator[Figure]:
    """The totals in words, where they differ."""
    old, new = _totals(before), _totals(after)
    for name, words in old.items():
        if words != new[name]:
            yield Figure(name, words, new[name])


def _totals(digest: Digest) -> dict[str, str]:
    totals = digest.trace.totals
    return {
        "ops": str(totals.ops),
        "FLOPs": f"{totals.flops:,}",
        "FLOPs in 16 bit": f"{totals.share_16bit:.1%}",
        "forward at peak rates": _time(digest),
        "casts, forward": str(totals.casts_forward),
        "casts, backward": str(totals.casts_backward),
        "casts spared": str(totals.casts_cached),
        "moved by casts": size(digest.casting.bytes_moved),
        "cast cache": size(totals.cached_bytes),
        "saved for backward": size(totals.saved_amp),
        "parameters": f"{totals.parameters:,}",
        "hazards": hazards_in_words(digest.trace.hazards),
    }


def _time(digest: Digest) -> str:
    if digest.costs is None:
        return "not known"
    gpu = digest.costs.gpu.name
    if digest.launches_decide:
        return f"launches decide on {gpu}"
    return f"{duration(digest.seconds)} on {gpu}"


def _casts(row: OpRow) -> int:
    return sum(cast.how != "from cache" for cast in row.casts)


def _by_module(
    before: Trace, after: Trace, count: Callable[[OpRow], int], words: Callable[[int], str]
) -> tuple[Figure, ...]:
    """Modules in which a number differs, the largest difference first."""
    sums: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for total, trace in zip(sums, (before, after), strict=True):
        for row in trace.rows:
            total[pattern(row.path)] += count(row)
    old, new = sums
    differ = [path for path in dict.fromkeys((*old, *new)) if old[path] != new[path]]
    differ.sort(key=lambda path: -abs(old[path] - new[path]))
    return tuple(Figure(path, words(old[path]), words(new[path])) for path in differ)


# ---- hazards ------------------------------------------------------------------------------------


def _hazards(before: Trace, after: Trace) -> tuple[tuple[Hazard, ...], tuple[Hazard, ...]]:
    """Hazards that only the first trace has, and only the second."""
    old, new = _places(before), _places(after)
    gone = {id(h): h for key, h in old.items() if key not in new}
    more = {id(h): h for key, h in new.items() if key not in old}
    return tuple(gone.values()), tuple(more.values())


def _places(trace: Trace) -> dict[tuple[str, ...], Hazard]:
    return {
        (hazard.kind, hazard.severity, hazard.op, pattern(path)): hazard
        for hazard in trace.hazards
        for path in hazard.paths or ("",)
    }
