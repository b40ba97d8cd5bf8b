"""What the casts of a forward pass cost: bytes, time, and what autocast's cache spares."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from amp_lessons.amp.explain.report.costs import Costs
from amp_lessons.amp.explain.report.names import pattern
from amp_lessons.amp.explain.rows import Cast, Trace
from amp_lessons.core.precision import brief

_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


@dataclass(frozen=True)
class Casting:
    """All casts of a forward pass.

    Attributes:
        count, bytes_moved, seconds: of the casts that ran; 0 seconds without a GPU to ask.
        repeats, repeat_bytes: of those that cast the same tensor once more, as for the query, the
            key and the value of an attention.
        spared, spared_bytes: that the cache made unnecessary, and what they would have moved.
        places: the costliest first.
    """

    count: int
    bytes_moved: int
    seconds: float
    repeats: int
    repeat_bytes: int
    spared: int
    spared_bytes: int
    places: tuple[CastPlace, ...]


@dataclass(frozen=True)
class CastPlace:
    """Casts alike.

    Attributes:
        module: the path, with ``*`` for numbers. what: "weights" or "activations".
        change: such as "fp32 → fp16".
        count, bytes_moved: of all of them.
    """

    module: str
    what: str
    change: str
    count: int
    bytes_moved: int


def casting_of(trace: Trace, costs: Costs | None = None) -> Casting:
    """What the casts of a trace cost."""
    casts = [(row.path, cast) for row in trace.rows for cast in row.casts]
    ran = [(path, cast) for path, cast in casts if cast.how != "from cache"]
    spared = [cast for _, cast in casts if cast.how == "from cache"]
    again = [cast.bytes_moved for _, cast in ran if cast.how == "again"]
    moved = sum(cast.bytes_moved for _, cast in ran)
    return Casting(
        len(ran),
        moved,
        costs.of_bytes(moved) if costs else 0.0,
        len(again),
        sum(again),
        len(spared),
        sum(map(_would_move, spared)),
        _places(ran),
    )


def _places(ran: list[tuple[str, Cast]]) -> tuple[CastPlace, ...]:
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for path, cast in ran:
        what = "activations" if cast.what == "activation" else "weights"
        change = f"{brief(cast.source)} → {brief(cast.target)}"
        groups[pattern(path), what, change].append(cast.bytes_moved)
    found = [CastPlace(*key, len(moved), sum(moved)) for key, moved in groups.items()]
    return tuple(sorted(found, key=lambda place: -place.bytes_moved))


def _would_move(cast: Cast) -> int:
    """What a cast that the cache spared would have read and written."""
    source, target = _BYTES.get(cast.source, 4), _BYTES.get(cast.target, 2)
    return cast.bytes + cast.bytes * source // target
