"""The difference of two runs in a terminal, on one screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amp_lessons.amp.explain.report.changes import Figure, OpChange, TraceDiff
from amp_lessons.amp.explain.report.digest import hazard_name
from amp_lessons.amp.explain.report.layout import NARROWEST, pairs, paragraph, table
from amp_lessons.amp.explain.report.names import plural, shown, times
from amp_lessons.amp.explain.report.text import ReportLine
from amp_lessons.amp.explain.rows import Hazard, Trace
from amp_lessons.core.precision import brief
from amp_lessons.core.states import look

TOP = 3
"""Entries of each list, unless another number is asked for."""
NOTHING_CHANGED = (
    "Nothing changed: the same ops in the same dtypes, casts, saved bytes and hazards."
)


def lines_of(changes: TraceDiff, width: int = 80, top: int | None = None) -> list[ReportLine]:
    """What changed, in lines of at most ``width`` characters."""
    width, top = max(width, NARROWEST), top or TOP
    runs = (("before", run_in_words(changes.before)), ("after", run_in_words(changes.after)))
    found = [ReportLine(line, "title") for line in pairs(runs, width)]
    if changes.empty:
        return [*found, ReportLine(""), *map(ReportLine, paragraph(NOTHING_CHANGED, width))]
    found += _figures("", changes.figures, width, len(changes.figures))
    found += _ops(changes, width, top)
    found += _figures("Casts by module", changes.casts, width, top)
    found += _figures("Saved for backward by module", changes.saved, width, top)
    found += _hazards("Hazards that are gone", changes.hazards_gone, width, top)
    found += _hazards("New hazards", changes.hazards_new, width, top, cured=False)
    return found


def run_in_words(trace: Trace) -> str:
    """What a run was made with: the model, the device, the dtype, the GPU and torch."""
    gpu = f", {trace.gpu.upper()}" if trace.gpu else ""
    return f"{trace.model}, {trace.device}, {trace.dtype}{gpu}, torch {trace.torch}"


def _figures(title: str, figures: Sequence[Figure], width: int, top: int) -> Iterator[ReportLine]:
    if not figures:
        return
    yield ReportLine("")
    heads = (title, "before", "after")
    rows = [(shown(f.name), f.before, f.after) for f in figures[:top]]
    first, *others = table(heads, rows, width)
    yield ReportLine(first, "heading")
    yield from map(ReportLine, others)
    yield from _more(len(figures) - top, "module")


def _ops(changes: TraceDiff, width: int, top: int) -> Iterator[ReportLine]:
    if changes.swapped or changes.dtypes:
        yield ReportLine("")
        yield ReportLine("Ops in another dtype", "heading")
    if changes.swapped:
        low = (brief(changes.before.dtype), brief(changes.after.dtype))
        yield ReportLine(f"  {plural(changes.swapped, 'op')}: {low[0]} → {low[1]}")
    yield from _list(changes.dtypes, width, top)
    for title, ops in (("Ops that are gone", changes.gone), ("New ops", changes.new)):
        if ops:
            yield ReportLine("")
            yield ReportLine(title, "heading")
            yield from _list(ops, width, top)


def _list(ops: Sequence[OpChange], width: int, top: int) -> Iterator[ReportLine]:
    for change in ops[:top]:
        dtypes = " → ".join(filter(None, (change.before, change.after)))
        text = f"{shown(change.module)}: {change.op}{times(change.count)}, {dtypes}"
        yield from map(ReportLine, paragraph(text, width, "  ", "    "))
    yield from _more(len(ops) - top, "line")


def _hazards(
    title: str, hazards: Sequence[Hazard], width: int, top: int, cured: bool = True
) -> Iterator[ReportLine]:
    """Hazards by name; with what goes wrong and its fix, unless they are ``cured``."""
    if not hazards:
        return
    yield ReportLine("")
    yield ReportLine(title, "heading")
    for hazard in hazards[:top]:
        mark = f"{look(hazard.severity).symbol} "
        for text in paragraph(f"{hazard.severity}: {hazard_name(hazard)}", width, mark, "  "):
            yield ReportLine(text, hazard.severity)
        for words in () if cured else (hazard.message, f"Fix: {hazard.fix}"):
            yield from map(ReportLine, paragraph(words, width, "    "))
    yield from _more(len(hazards) - top, "hazard")


def _more(count: int, noun: str) -> Iterator[ReportLine]:
    if count > 0:
        yield ReportLine(f"  and {plural(count, noun).replace(' ', ' more ')} (--top)", "faint")
