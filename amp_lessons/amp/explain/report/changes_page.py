"""The difference of two runs as one HTML page: what changed on top, both reports folded below.

It takes its look from `page`. What changed is in `changes`, and the same words as text are in
`changes_text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from amp_lessons.amp.explain.report import page
from amp_lessons.amp.explain.report.changes import Figure, OpChange, TraceDiff
from amp_lessons.amp.explain.report.changes_text import NOTHING_CHANGED, run_in_words
from amp_lessons.amp.explain.report.digest import Digest, headline
from amp_lessons.amp.explain.report.names import plural, shown, times
from amp_lessons.amp.explain.rows import Trace
from amp_lessons.core.precision import brief


def whole(changes: TraceDiff) -> str:
    """One page, complete in itself: the differences, then the two reports."""
    title = f"What changed in {changes.after.model}"
    runs = (("before", run_in_words(changes.before)), ("after", run_in_words(changes.after)))
    parts = [
        f"<h1>{escape(title)}</h1>",
        page.facts(runs),
        *_differences(changes),
        *(_report(name, getattr(changes, name)) for name in ("before", "after")),
    ]
    return page.document(title, page.boxed("".join(parts)))


def _differences(changes: TraceDiff) -> Iterable[str]:
    if changes.empty:
        return (f"<p>{escape(NOTHING_CHANGED)}</p>",)
    return (
        _figures("Totals that differ", "total", changes.figures),
        _ops(changes),
        _figures("Casts by module", "module", changes.casts),
        _figures("Saved for backward by module", "module", changes.saved),
        page.hazard_list("Hazards that are gone", changes.hazards_gone),
        page.hazard_list("New hazards", changes.hazards_new),
    )


def _figures(title: str, what: str, figures: Sequence[Figure]) -> str:
    rows = [(shown(figure.name), figure.before, figure.after) for figure in figures]
    return _listed(title, (what, "before", "after"), rows, unfolded=what == "total")


def _ops(changes: TraceDiff) -> str:
    dtypes = [_op(change) for change in changes.dtypes]
    if changes.swapped:
        low = (brief(changes.before.dtype), brief(changes.after.dtype))
        swapped = ("the whole model", plural(changes.swapped, "op"), *low)
        dtypes = [swapped, *dtypes]
    gone = [_op(change)[:3] for change in changes.gone]
    new = [(*_op(change)[:2], change.after) for change in changes.new]
    heads = ("module", "op")
    return (
        _listed("Ops in another dtype", (*heads, "before", "after"), dtypes, unfolded=True)
        + _listed("Ops that are gone", (*heads, "runs in"), gone, unfolded=True)
        + _listed("New ops", (*heads, "runs in"), new, unfolded=True)
    )


def _op(change: OpChange) -> tuple[str, str, str, str]:
    name = f"{change.op}{times(change.count)}"
    return shown(change.module), name, change.before, change.after


def _listed(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], unfolded: bool = False
) -> str:
    if not rows:
        return ""
    return page.unfolding(f"{title}: {len(rows)}", page.table(heads, rows, title), unfolded)


def _report(name: str, trace: Trace) -> str:
    """A whole report, folded away."""
    inner = f'<div class="inner">{page.report(Digest(trace))}</div>'
    return page.unfolding(f"{name.capitalize()}: {headline(trace)}", inner)
