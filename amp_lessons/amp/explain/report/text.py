"""The report in a terminal: the summary, hazards, the tree by module, FP32 islands, sizes, ops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from amp_lessons.amp.explain.report.digest import (
    SMALL,
    WORTH,
    Digest,
    hazard_name,
    headline,
    island_name,
    made_with,
    misfit_in_words,
)
from amp_lessons.amp.explain.report.layout import NARROWEST, pairs, paragraph, table
from amp_lessons.amp.explain.report.lessons import lesson_words
from amp_lessons.amp.explain.report.names import count, duration, in_runs, percent, times
from amp_lessons.amp.explain.report.tree import ModuleNode, cut, levels
from amp_lessons.amp.explain.rows import Cast, Hazard, OpRow
from amp_lessons.core.precision import brief
from amp_lessons.core.sizes import size
from amp_lessons.core.states import look

LINES = 30
"""Lines that the tree takes at most, unless a depth is asked for."""
TOP = 5
"""Entries of each list, unless another number is asked for."""
_FIRST = 3  # hazards in the summary


@dataclass(frozen=True)
class ReportOptions:
    """What a report shows.

    Args:
        summary: only the summary.
        depth: of the tree below the model; None for as deep as fits on a screen.
        top: entries of each list, and children of each module; None for 5 and for all.
        ops: every op. None shows them for a small model.
    """

    summary: bool = False
    depth: int | None = None
    top: int | None = None
    ops: bool | None = None


ALL = ReportOptions()
"""The whole report, as deep as fits on a screen."""


@dataclass(frozen=True)
class ReportLine:
    """A line of the report and what it is: "", "title", "heading", "faint", or a severity."""

    text: str
    role: str = ""


def lines_of(digest: Digest, width: int = 80, options: ReportOptions = ALL) -> list[ReportLine]:
    """The report, in lines of at most ``width`` characters."""
    width = max(width, NARROWEST)
    found = list(_summary(digest, width))
    if options.summary:
        return found
    found += _hazards(digest, width)
    found += _tree(digest, width, options)
    found += _islands(digest, width, options.top or TOP)
    found += _misfits(digest, width, options.top or TOP)
    ops = options.ops if options.ops is not None else len(digest.trace.rows) <= SMALL
    return found + (list(_ops(digest, width)) if ops else [])


# ---- its parts ----------------------------------------------------------------------------------


def _summary(digest: Digest, width: int) -> Iterator[ReportLine]:
    trace = digest.trace
    yield from (ReportLine(text, "title") for text in paragraph(headline(trace), width))
    yield from (ReportLine(t, "faint") for t in paragraph(made_with(trace, digest.costs), width))
    yield ReportLine("")
    yield from map(ReportLine, pairs(digest.summary(), width))
    serious = [hazard for hazard in trace.hazards if hazard.severity != "watch"]
    for hazard in serious[:_FIRST]:
        mark = f"{look(hazard.severity).symbol} "
        for text in paragraph(hazard_name(hazard), width, mark, "  "):
            yield ReportLine(text, hazard.severity)
    for note in digest.notes:
        yield from (
            ReportLine(text, "faint") for text in paragraph(f"Note: {note}", width, "", "  ")
        )


def _heading(text: str, width: int, about: str = "") -> Iterator[ReportLine]:
    yield ReportLine("")
    yield ReportLine(text, "heading")
    if about:
        yield from (ReportLine(line, "faint") for line in paragraph(about, width))


def _hazards(digest: Digest, width: int) -> Iterator[ReportLine]:
    hazards = digest.trace.hazards
    if not hazards:
        return
    yield from _heading("Hazards", width)
    for hazard in hazards:
        mark = f"{look(hazard.severity).symbol} "
        for text in paragraph(f"{hazard.severity}: {hazard_name(hazard)}", width, mark, "  "):
            yield ReportLine(text, hazard.severity)
        more = f"More: amp-lessons lookup {hazard.entry}" if hazard.entry else ""
        for words in (hazard.message, f"Fix: {hazard.fix}", lesson_words(hazard.lesson), more):
            if words:
                yield from map(ReportLine, paragraph(words, width, "    "))


def _tree(digest: Digest, width: int, options: ReportOptions) -> Iterator[ReportLine]:
    tree = digest.tree
    if not tree.children:
        return
    shown_tree = _that_fits(tree, options)
    yield from _heading("By module", width, _legend(digest))
    marked = ["hazards"] if digest.trace.hazards else []
    heads = ["module", *(["time"] if digest.costs else []), *_HEADS, *marked]
    whole = digest.seconds or 1.0
    rows = []
    for depth, node in _walk(shown_tree):
        time = [percent(node.total.seconds / whole)] if digest.costs else []
        found = [marks(node.met_below())] if marked else []
        rows.append(["  " * depth + label_of(node), *time, *_cells(node), *found])
    yield from map(ReportLine, table(heads, rows, width))
    hidden = levels(tree) - levels(shown_tree)
    if hidden > 0:
        more = levels(shown_tree) + 1
        yield ReportLine(f"--depth {more} goes one level deeper (of {levels(tree)})", "faint")


_HEADS = ("FLOP", "16-bit", "casts", "moved", "saved", "out")


def _legend(digest: Digest) -> str:
    time = "time: share of the forward at peak rates. " if digest.costs else ""
    if digest.launches_decide:
        time = "time: share of the forward at peak rates, without launches. "
    return (
        f"{time}FLOP: of the forward. moved: bytes that casts read and write. "
        "saved: bytes kept for backward. ×N: N equal modules, added up."
    )


def _that_fits(tree: ModuleNode, options: ReportOptions) -> ModuleNode:
    """The tree to the depth that was asked for, or to the deepest that fits on a screen."""
    top = options.top
    if options.depth is not None:
        return cut(tree, max(options.depth, 0), top)
    depth = levels(tree)
    while depth > 1 and len(list(_walk(cut(tree, depth, top)))) > LINES:
        depth -= 1
    best = cut(tree, depth, top)
    return best if len(list(_walk(best))) <= LINES or top else cut(tree, depth, LINES // 2)


def _walk(node: ModuleNode, depth: int = 0) -> Iterator[tuple[int, ModuleNode]]:
    """Nodes with their depth. A parent's own ops come as a node before its children."""
    yield depth, node
    if node.children and node.own.ops:
        yield depth + 1, ModuleNode(node.paths, f"own ops: {node.own_ops}", "", node.own, node.own)
    for child in node.children:
        yield from _walk(child, depth + 1)


def label_of(node: ModuleNode) -> str:
    """Path, repeats and class."""
    kind = f" {node.kind}" if node.kind else ""
    return f"{node.label}{times(node.count) if node.kind else ''}{kind}"


def _cells(node: ModuleNode) -> list[str]:
    total = node.total
    share = total.share_16bit
    return [
        count(total.flops),
        "" if share is None else percent(share),
        count(total.casts),
        count(total.cast_bytes, 1024),
        count(total.saved, 1024),
        brief(node.dtype_out),
    ]


def marks(hazards: list[Hazard]) -> str:
    """A symbol and a count for each severity: "✘1 ○2"."""
    severities = [hazard.severity for hazard in hazards]
    return " ".join(
        f"{look(kind).symbol}{severities.count(kind)}" for kind in dict.fromkeys(severities)
    )


def _islands(digest: Digest, width: int, top: int) -> Iterator[ReportLine]:
    islands = [island for island in digest.islands[:top] if island.share >= WORTH]
    if not islands:
        return
    about = "Ops that run in float32 inside the 16-bit model, with the casts into them. Share of "
    about += "the forward's time at peak rates" if digest.costs else "the bytes that all ops move"
    about += _of(len(islands), len(digest.islands))
    if any("*" in island.module for island in islands):
        about += " * is any number."
    yield from _heading("FP32 islands", width, about)
    timed = digest.costs and not digest.launches_decide
    for island in islands:
        took = f"{duration(island.seconds)}, " if timed else ""
        head = f"{percent(island.share):>4}  "
        where = f" ({island.where})" if island.where else ""
        text = f"{island_name(island)}: {took}{size(island.bytes_moved)}; {island.why}{where}"
        yield from map(ReportLine, paragraph(text, width, head, "      "))


def _misfits(digest: Digest, width: int, top: int) -> Iterator[ReportLine]:
    misfits = [misfit for misfit in digest.misfits[:top] if misfit.share >= WORTH]
    if not misfits:
        return
    about = "In 16 bit, tensor cores work best on multiples of 8 elements (NVIDIA's guide). "
    about += "Share of the FLOPs" + _of(len(misfits), len(digest.misfits))
    yield from _heading("Sizes to pad", width, about)
    for misfit in misfits:
        head = f"{percent(misfit.share):>4}  "
        yield from map(ReportLine, paragraph(misfit_in_words(misfit), width, head, "      "))


def _of(shown_now: int, all_of_them: int) -> str:
    return f", the largest {shown_now} of {all_of_them}." if shown_now < all_of_them else "."


def _ops(digest: Digest, width: int) -> Iterator[ReportLine]:
    yield from _heading("Ops", width)
    rows = [
        (f"{row.number:>3} {row.path or '.'} {row.shown_op}", *dtypes(row), casts_of(row))
        for row in digest.trace.rows
    ]
    heads = ("  # module and op", "in", "runs in", "out", "casts")
    numbers = [row[:4] for row in rows]
    for line, row in _with_casts(heads, numbers, rows, width):
        yield ReportLine(line)
        if row and row[4]:
            yield from (ReportLine(t, "faint") for t in paragraph(row[4], width, " " * 6))


def _with_casts(heads, numbers, rows, width) -> Iterator[tuple[str, tuple[str, ...] | None]]:
    """The lines of the table, each row's last line with the row."""
    made = table(heads[:4], numbers, width)
    starts = [number for number, line in enumerate(made) if line[:3].strip().isdigit()]
    ends = {start - 1: place - 1 for place, start in enumerate(starts) if place}
    ends[len(made) - 1] = len(rows) - 1
    for number, line in enumerate(made):
        yield line, rows[ends[number]] if number in ends else None


def dtypes(row: OpRow) -> tuple[str, str, str]:
    """The dtypes that go in, in which it computes, and that come out, in few characters."""
    given = ", ".join(in_runs(brief(dtype) for dtype in row.dtypes_in))
    return given, brief(row.computed_in), brief(row.dtype_out)


def casts_of(row: OpRow) -> str:
    """The casts of a row in words."""
    return "; ".join(in_runs(cast_text(cast, row.path) for cast in row.casts))


def cast_text(cast: Cast, path: str = "") -> str:
    """One cast in words, such as ``weight → fp16``; the name as the module at ``path`` says it."""
    note = {"new": "", "again": " again", "from cache": " from cache"}[cast.how]
    return f"{cast.what.removeprefix(f'{path}.')} → {brief(cast.target)}{note}"
