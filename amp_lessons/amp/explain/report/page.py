"""The report as HTML: a fragment for a notebook, and a page of its own.

Parts unfold with ``<details>``, which the keyboard and screen readers know. Colours come from the
theme around it, with tints that a light and a dark one both bear. Every word is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from amp_lessons.amp.explain.report.digest import (
    SMALL,
    Digest,
    hazard_name,
    headline,
    island_name,
    made_with,
    misfit_in_words,
)
from amp_lessons.amp.explain.report.lessons import lesson_link, lesson_words
from amp_lessons.amp.explain.report.names import count, duration, percent
from amp_lessons.amp.explain.report.text import casts_of, dtypes, label_of, marks
from amp_lessons.amp.explain.report.tree import ModuleNode, cut, levels
from amp_lessons.amp.explain.rows import LOW_NAMES, Hazard, OpRow
from amp_lessons.core.precision import brief
from amp_lessons.core.sizes import size
from amp_lessons.core.states import look

_MANY = 400  # ops that a notebook can store
_OPEN_LINES = 24  # of the tree that are unfolded at first

_STYLE = """
.amp-report { color: inherit; line-height: 1.5; max-width: 72rem; }
.amp-report summary { cursor: pointer; padding: 2px 0; }
.amp-report summary:focus-visible { outline: 2px solid #4a7fc1; outline-offset: 1px; }
.amp-report > details > summary, .amp-report .inner > details > summary { font-weight: 600;
  margin-top: 8px; }
.amp-report .inner { border-left: 3px solid rgba(128,128,128,0.35); padding-left: 14px; }
.amp-report table { border-collapse: collapse; color: inherit; font-size: 0.92em; margin: 4px 0; }
.amp-report.amp-lessons-box th, .amp-report.amp-lessons-box td { text-align: left;
  padding: 2px 8px; vertical-align: top;
  background: transparent; border-bottom: 1px solid rgba(128,128,128,0.25); }
.amp-report.amp-lessons-box td.low { background: rgba(46,139,87,0.14); }
.amp-report .scroll { max-height: 28em; overflow: auto; border: 1px solid rgba(128,128,128,0.45); }
.amp-report .hazard { border-left: 6px solid; padding: 4px 10px; margin: 4px 0; max-width: 60em; }
.amp-report .node { margin-left: 1.3em; }
.amp-report .leaf { padding: 2px 0 2px 1.05em; }
.amp-report .made { font-size: 0.88em; }
.amp-report .line { display: inline-flex; flex-wrap: wrap; width: calc(100% - 1.2em);
  vertical-align: top; border-bottom: 1px dotted rgba(128,128,128,0.35); }
.amp-report .heads .line, .amp-report .leaf .line { width: 100%; }
.amp-report th { white-space: nowrap; }
.amp-report .heads { font-size: 0.92em; padding-left: 1.05em; }
.amp-report .name { flex: 1 1 14em; overflow-wrap: anywhere; }
.amp-report .facts { display: grid; grid-template-columns: 7.5em repeat(6, 4em); text-align: right;
  font-size: 0.88em; font-variant-numeric: tabular-nums; align-items: baseline; }
.amp-report .hidden { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); white-space: nowrap; }
.amp-report .share { display: inline-block; width: 2.8em; }
.amp-report .bar { display: inline-block; width: 3.5em; height: 0.6em; margin-right: 0.4em;
  border: 1px solid rgba(128,128,128,0.6); border-radius: 2px; overflow: hidden; }
.amp-report .bar i { display: block; height: 100%; background: #4a7fc1; }
.amp-report a { color: inherit; text-decoration: underline; }
@media (max-width: 600px) { /* no room for columns: each number with its unit */
  .amp-report .facts { display: block; text-align: left; flex: 1 1 100%; }
  .amp-report .hidden { position: static; width: auto; height: auto; clip-path: none;
    white-space: normal; }
  .amp-report .heads, .amp-report .bar { display: none; }
  .amp-report .share { display: inline; }
  .amp-report .node { margin-left: 0.6em; }
  .amp-report .fact td, .amp-report .hazard { overflow-wrap: anywhere; }
}
"""

_PAGE = """
:root { color-scheme: light dark; }
body { font-family: system-ui, sans-serif; margin: 1.5rem; background: Canvas; color: CanvasText; }
h1 { font-size: 1.25rem; }
"""


def whole(digest: Digest) -> str:
    """One page, complete in itself."""
    return document(headline(digest.trace), fragment(digest, heading="h1"))


def document(title: str, inner: str) -> str:
    """A page of its own around markup that `boxed` made."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_PAGE}</style></head><body><main>{inner}</main></body></html>\n"
    )


def boxed(inner: str) -> str:
    """Markup with the look of the report."""
    return (
        f'<div class="amp-lessons-box amp-report" style="color:inherit"><style>{_STYLE}</style>'
        f"{inner}</div>"
    )


def fragment(digest: Digest, heading: str = "strong", linked: bool = False) -> str:
    """The report for a page that is there already, such as a notebook.

    Args:
        digest: what to show.
        heading: the element of the headline.
        linked: whether the lessons' notebooks lie beside the page.
    """
    return boxed(report(digest, heading, linked))


def report(digest: Digest, heading: str = "", linked: bool = False) -> str:
    """What `fragment` shows, for a page that has the look already; "" leaves the headline out."""
    trace = digest.trace
    parts = [
        f"<{heading}>{escape(headline(trace))}</{heading}>" if heading else "",
        f'<div class="made">{escape(made_with(trace, digest.costs))}</div>',
        facts(digest.summary()),
        *(f"<p>Note: {escape(note)}</p>" for note in digest.notes),
        hazard_list("Hazards", trace.hazards, linked),
        _tree(digest, most=_MANY // 2 if linked else None),
        _islands(digest),
        _sizes(digest),
        _ops(digest, most=_MANY if linked else len(trace.rows)),
    ]
    return "".join(parts)


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Labels and texts."""
    rows = "".join(
        f'<tr class="fact"><th scope="row">{escape(label)}</th><td>{escape(text)}</td></tr>'
        for label, text in pairs
    )
    return f"<table><tbody>{rows}</tbody></table>"


def unfolding(title: str, inner: str, unfolded: bool = False) -> str:
    """A title that shows and hides ``inner``, which is markup."""
    state = " open" if unfolded else ""
    return f"<details{state}><summary>{escape(title)}</summary>{inner}</details>"


def hazard_list(title: str, hazards: Sequence[Hazard], linked: bool = False) -> str:
    """Hazards with their cures; nothing if there are none."""
    if not hazards:
        return ""
    inner = "".join(_hazard(hazard, linked) for hazard in hazards)
    return unfolding(f"{title}: {len(hazards)}", inner, unfolded=True)


def _hazard(hazard: Hazard, linked: bool) -> str:
    seen, lesson = look(hazard.severity), escape(lesson_words(hazard.lesson))
    if lesson and linked:
        lesson = f'<a href="{escape(lesson_link(hazard.lesson))}">{lesson}</a>'
    return (
        f'<div class="hazard" style="border-left-color:{seen.edge}">{seen.symbol} '
        f"<em>{escape(hazard.severity)}</em>: {escape(hazard_name(hazard))}<br>"
        f"{escape(hazard.message)}<br>Fix: {escape(hazard.fix)}"
        + (f"<br>{lesson}" if lesson else "")
        + (f" <code>amp-lessons lookup {escape(hazard.entry)}</code>" if hazard.entry else "")
        + "</div>"
    )


# ---- the tree -----------------------------------------------------------------------------------


def _tree(digest: Digest, most: int | None) -> str:
    """The tree, as deep as ``most`` nodes reach."""
    tree = whole_tree = digest.tree
    if not tree.children:
        return ""
    depth = levels(tree)
    while most is not None and depth > 1 and len(list(tree.walk())) > most:
        depth -= 1
        tree = cut(whole_tree, depth)
    unfolded = 1
    while unfolded < depth and _lines(tree, unfolded + 1) <= _OPEN_LINES:
        unfolded += 1
    heads = "".join(f"<span>{escape(text)}</span>" for text in _HEADS)
    inner = (
        '<div class="heads" aria-hidden="true"><span class="line"><span class="name">module</span>'
        f'<span class="facts">{heads}</span></span></div>' + _node(tree, digest.seconds, unfolded)
    )
    if depth < levels(whole_tree):
        inner += f"<p>{depth} of {levels(whole_tree)} levels. to_html() gives a page with all.</p>"
    return unfolding("By module", inner, unfolded=True)


def _lines(node: ModuleNode, depth: int) -> int:
    """Lines of the tree with so many levels unfolded below the model."""
    return 1 + (sum(_lines(child, depth - 1) for child in node.children) if depth else 0)


def _node(node: ModuleNode, whole: float, unfolded: int) -> str:
    line = _line(label_of(node), node, whole)
    own = ""
    if node.own_ops and node.children:
        alone = ModuleNode(node.paths, "", "", node.own, node.own)
        own = f'<div class="leaf">{_line(f"own ops: {node.own_ops}", alone, whole)}</div>'
    if not node.children:
        return f'<div class="leaf">{line}</div>'
    below = own + "".join(_node(child, whole, unfolded - 1) for child in node.children)
    state = " open" if unfolded > 0 else ""
    return f'<details{state}><summary>{line}</summary><div class="node">{below}</div></details>'


_HEADS = ("time", "FLOP", "16-bit", "casts", "moved", "saved", "out")


def _line(label: str, node: ModuleNode, whole: float) -> str:
    """A node's name, and its numbers in columns; each with its unit for who hears the page."""
    total, share = node.total, node.total.share_16bit
    part = total.seconds / whole if whole else 0.0
    bar = f'<span class="bar" aria-hidden="true"><i style="width:{part:.0%}"></i></span>'
    facts = (
        (percent(part) if whole else "", "of the time"),
        (count(total.flops), "FLOP"),
        ("" if share is None else percent(share), "of them in 16 bit"),
        (count(total.casts), "casts"),
        (count(total.cast_bytes, 1024), "bytes moved by casts"),
        (count(total.saved, 1024), "bytes saved for backward"),
        (brief(node.dtype_out), "out"),
    )
    cells = [
        f'<span>{escape(text)}<span class="hidden"> {unit}, </span></span>'
        if text
        else "<span></span>"
        for text, unit in facts
    ]
    if whole:
        cells[0] = f'<span>{bar}<span class="share">{cells[0]}</span></span>'
    found = marks(node.met_below())
    hazards = f" <em>hazards {escape(found)}</em>" if found else ""
    return (
        f'<span class="line"><span class="name">{escape(label)}{hazards}</span>'
        f'<span class="facts">{"".join(cells)}</span></span>'
    )


# ---- tables -------------------------------------------------------------------------------------


def _islands(digest: Digest) -> str:
    if not digest.islands:
        return ""
    timed = digest.costs is not None and not digest.launches_decide
    heads: tuple[str, ...] = ("share", "time", "moved", "where and which ops", "why", "line")
    rows: list[tuple[str, ...]] = [
        (
            percent(island.share),
            duration(island.seconds) if timed else "",
            size(island.bytes_moved),
            island_name(island),
            island.why,
            island.where,
        )
        for island in digest.islands
    ]
    title = f"FP32 islands: {len(rows)}, {percent(sum(i.share for i in digest.islands))} of "
    title += "the time at peak rates" if digest.costs else "the bytes"
    if not timed:  # no column of times
        heads, rows = heads[:1] + heads[2:], [row[:1] + row[2:] for row in rows]
    return unfolding(title, table(heads, rows, "FP32 islands"))


def _sizes(digest: Digest) -> str:
    if not digest.misfits:
        return ""
    rows = [(percent(misfit.share), misfit_in_words(misfit)) for misfit in digest.misfits]
    inner = table(("of the FLOPs", "size"), rows, "Sizes to pad")
    return unfolding(f"Sizes to pad for tensor cores: {len(rows)}", inner)


def _ops(digest: Digest, most: int) -> str:
    rows = digest.trace.rows
    if len(rows) > most:
        return f"<p>Ops: {len(rows)}, too many for a cell. to_html() gives a page with all.</p>"
    heads = ("#", "module", "op", "in", "computed in", "out", "casts")
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    body = "".join(map(_op, rows))
    label = escape(f"Ops of {digest.trace.model}")
    inner = (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    return unfolding(f"Ops: {len(rows)}", inner, unfolded=len(rows) <= SMALL)


def _op(row: OpRow) -> str:
    low = ' class="low"' if row.computed_in in LOW_NAMES else ""
    cells = (str(row.number), row.path or ".", row.shown_op, *dtypes(row), casts_of(row))
    inner = "".join(f"<td{low}>{escape(cell)}</td>" for cell in cells)
    return f'<tr class="op" title="{escape(row.where or row.op)}">{inner}</tr>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], label: str) -> str:
    """A table that scrolls; ``label`` names it for screen readers."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
