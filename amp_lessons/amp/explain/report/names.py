"""Names of modules and numbers in few characters, the same in every form of the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from amp_lessons.amp.explain.rows import OpRow
from amp_lessons.amp.fake_tensors.not_run import pattern

ITSELF = "the model itself"


def op_name(row: OpRow) -> str:
    """An op as a reader knows it: "linear (addmm)", or "attention [flash]" for a fused kernel."""
    if row.kernel:
        return row.short_op.strip("_") if row.kernel == "math" else f"attention [{row.kernel}]"
    return row.shown_op


def place(paths: Iterable[str]) -> str:
    """The path if there is one, or the pattern that they have in common."""
    paths = list(dict.fromkeys(paths))
    return paths[0] if len(paths) == 1 else pattern(paths[0])


def shown(path: str) -> str:
    """A module's path, or words for the model itself."""
    return path or ITSELF


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers in order as ranges: 0, 1, 2, 5 as "0–2, 5"."""
    ordered = sorted(set(numbers))
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0])
    ]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def in_runs(items: Iterable[str]) -> list[str]:
    """Items with equal neighbours as one: ``fp32 ×3``."""
    counted = [(item, len(list(same))) for item, same in groupby(items)]
    return [item if count == 1 else f"{item} ×{count}" for item, count in counted]


def times(count: int) -> str:
    """ " ×24", or nothing for one."""
    return f" ×{count}" if count > 1 else ""


def plural(count: int, noun: str) -> str:
    """ "1 cast", "2 casts"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def short(number: float, base: int = 1000) -> str:
    """A count in at most five characters: 292_057 as "292K". Bytes take ``base=1024``."""
    if not number:
        return "0"
    for unit in ("", "K", "M", "G", "T", "P"):
        if number < (999.5 if unit else base):
            return f"{number:.1f}{unit}" if unit and number < 9.95 else f"{number:.0f}{unit}"
        number /= base
    return f"{number * base:.0f}P"


def count(number: float, base: int = 1000) -> str:
    """As `short`; nothing for none, so that the others stand out in a column."""
    return short(number, base) if number else ""


def flop(number: float) -> str:
    """FLOPs in words: "545 GFLOP"."""
    text = short(number)
    return f"{text[:-1]} {text[-1]}FLOP" if text[-1].isalpha() else f"{text} FLOP"


def percent(share: float) -> str:
    """A share of 0 to 1 in at most four characters: "0", "<1%", "61%"."""
    if share <= 0:
        return "0"
    if share < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= share < 1 else f"{share:.0%}"


def duration(seconds: float) -> str:
    """Seconds with three digits and a unit that fits: "2.22 ms"."""
    for unit, length in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def some(items: Sequence[str], most: int = 3) -> str:
    """The first of them, and how many more there are."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")
