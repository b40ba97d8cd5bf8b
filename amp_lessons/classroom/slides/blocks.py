"""Markdown as blocks that can be cut: each paragraph, list, table or listing knows its pieces.

Maths becomes MathML (latex2mathml), code is coloured by Pygments, and a link to another notebook
of the course becomes plain text: on a slide there is nothing it could open.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

TABLE = 94.0
"""How wide a table is at most, in letters of its type."""
PADDING = 2.0
"""Of a table's cell, in the same letters."""
MORE = ' <span class="more">…</span>'
"""Stands where sentences were left out. They are in the speaker notes."""


@dataclass(frozen=True)
class TextPiece:
    """What a block is never cut within: a sentence, an item, a row or a line.

    Attributes:
        html: as it stands on a slide.
        text: what it says without markup, for estimates of its size.
        cells: the texts of a table row's cells.
        keep: whether a sentence may not be left out: it defines a term or stresses something.
    """

    html: str
    text: str
    cells: tuple[str, ...] = ()
    keep: bool = False


@dataclass(frozen=True)
class TextBlock:
    """A part of a text: ``head``, its pieces, ``tail``.

    Attributes:
        kind: "heading", "paragraph", "list", "table", "code", or "other" for what is never cut.
        level: of a heading, 1 to 6.
        header: the texts of a table's header cells.
        widths: of a table's columns, in letters.
        start: the number of an ordered list's first item, 0 for any other block.
    """

    kind: str
    head: str
    pieces: tuple[TextPiece, ...]
    tail: str
    level: int = 0
    header: tuple[str, ...] = ()
    widths: tuple[float, ...] = ()
    start: int = 0

    @property
    def html(self) -> str:
        between = {"paragraph": " ", "code": "\n"}.get(self.kind, "")
        head = self.head
        if self.start > 1:
            head = head.replace("<ol>", f'<ol start="{self.start}">')
        return head + between.join(piece.html for piece in self.pieces) + self.tail

    @property
    def text(self) -> str:
        return " ".join(piece.text for piece in self.pieces)

    def cut(self, count: int) -> tuple[TextBlock, TextBlock]:
        """The first ``count`` pieces, and the others, as two blocks."""
        start = self.start + count if self.start else 0
        return (
            replace(self, pieces=self.pieces[:count]),
            replace(self, pieces=self.pieces[count:], start=start),
        )

    def shorter(self) -> TextBlock:
        """A paragraph without its last sentence."""
        tail = self.tail if self.tail.startswith(MORE) else MORE + self.tail
        return replace(self, pieces=self.pieces[:-1], tail=tail)


def read(source: str) -> list[TextBlock]:
    """The blocks of a Markdown text, in order."""
    root = SyntaxTreeNode(_markdown().parse(source))
    return [_block(node) for node in root.children]


def to_html(source: str) -> str:
    """A Markdown text as HTML."""
    return str(_markdown().render(source)).strip()


def listing(code: str, language: str = "python", css: str = "code") -> TextBlock:
    """Code as a block whose pieces are its lines."""
    coloured = _coloured(code.strip("\n"), language).split("\n")
    plain = code.strip("\n").split("\n")
    pieces = tuple(TextPiece(a, b) for a, b in zip(coloured, plain, strict=True))
    return TextBlock("code", f'<pre class="{css}"><code>', pieces, "</code></pre>")


# ---- the renderer -------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _markdown() -> MarkdownIt:
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    made = MarkdownIt("commonmark", {"html": False}).enable("table")
    made.use(dollarmath_plugin, allow_digits=False, renderer=mathml)
    made.core.ruler.push("plain_links", _plain_links)
    made.add_render_rule("fence", _fence)
    return made


def mathml(content: str, options: dict[str, Any]) -> str:
    """LaTeX as MathML; what cannot be converted stays as it is written."""
    from latex2mathml.converter import convert

    try:
        return str(convert(content, display="block" if options["display_mode"] else "inline"))
    except Exception:  # latex2mathml raises many types, also IndexError
        return f"<code>{html.escape(content)}</code>"


def _plain_links(state: Any) -> None:
    """Links to files of the course become spans; others open in a tab of their own."""
    for token in state.tokens:
        inside = ""
        for child in token.children or ():
            if child.type == "link_open":
                outside = str(child.attrs.get("href", "")).startswith(("https:", "http:"))
                inside = "a" if outside else "span"
                term = "#" in str(child.attrs.get("href", "")) and not outside
                new = {"target": "_blank", "rel": "noopener"} if outside else {"class": "link"}
                child.attrs = {**child.attrs, **new} if outside else new
                child.meta["term"] = term
            if child.type in ("link_open", "link_close"):
                child.tag = inside


def _fence(_: Any, tokens: Sequence[Token], place: int, *__: Any) -> str:
    token = tokens[place]
    return listing(token.content, token.info.strip() or "text").html


def _coloured(code: str, language: str) -> str:
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import TextLexer, get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        lexer = TextLexer(stripnl=False)
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True))).removesuffix("\n")


# ---- blocks -------------------------------------------------------------------------------------


def _render(nodes: Sequence[SyntaxTreeNode]) -> str:
    made = _markdown()
    tokens = [token for node in nodes for token in node.to_tokens()]
    return str(made.renderer.render(tokens, made.options, {})).strip()


def _text(node: SyntaxTreeNode) -> str:
    """What a node says, without markup."""
    if node.type in ("text", "code_inline", "fence", "code_block", "math_inline", "math_block"):
        return node.content
    if node.type in ("softbreak", "hardbreak"):
        return " "
    between = "\n" if node.type in ("list_item", "bullet_list", "ordered_list") else ""
    return between.join(_text(child) for child in node.children)


def _block(node: SyntaxTreeNode) -> TextBlock:
    if node.type == "heading":
        inline = _markdown().renderInline(node.children[0].content) if node.children else ""
        return TextBlock(
            "heading", "", (TextPiece(inline, _text(node)),), "", level=int(node.tag[1])
        )
    if node.type == "paragraph":
        return TextBlock("paragraph", "<p>", tuple(sentences(node.children[0].content)), "</p>")
    if node.type in ("bullet_list", "ordered_list"):
        items = tuple(TextPiece(_render([item]), _text(item)) for item in node.children)
        start = int(node.attrs.get("start", 1)) if node.tag == "ol" else 0
        return TextBlock("list", f"<{node.tag}>", items, f"</{node.tag}>", start=start)
    if node.type == "table":
        return _table(node)
    if node.type in ("fence", "code_block"):
        return listing(node.content, node.info.strip() or "text")
    return TextBlock("other", "", (TextPiece(_render([node]), _text(node)),), "")


def _table(node: SyntaxTreeNode) -> TextBlock:
    head, *bodies = node.children
    rows = tuple(
        TextPiece(_render([row]), _text(row), tuple(_text(cell) for cell in row.children))
        for body in bodies
        for row in body.children
    )
    header = tuple(_text(cell) for row in head.children for cell in row.children)
    widths = _widths([header, *(row.cells for row in rows)])
    shares = "".join(f'<col style="width:{100 * width / sum(widths):.0f}%">' for width in widths)
    wide = 100 * min(1.0, (sum(widths) + PADDING * len(widths)) / TABLE)
    opening = (
        f'<table style="width:{wide:.0f}%"><colgroup>{shares}</colgroup>{_render([head])}<tbody>'
    )
    return TextBlock("table", opening, rows, "</tbody></table>", header=header, widths=widths)


def _widths(rows: Sequence[tuple[str, ...]]) -> tuple[float, ...]:
    """Narrow columns get what their longest cell asks for. The others share what is left, by the
    roots of what they ask for: one with four times the text gets twice the width."""
    wanted = [max(map(len, column)) + 1.0 for column in zip(*rows, strict=False)]
    roots = [math.sqrt(each) for each in wanted]
    widths = [0.0] * len(wanted)
    left = TABLE - PADDING * len(wanted)
    narrow_first = sorted(range(len(wanted)), key=wanted.__getitem__)
    for place, column in enumerate(narrow_first):
        others = sum(roots[each] for each in narrow_first[place:])
        widths[column] = min(wanted[column], left * roots[column] / others)
        left -= widths[column]
    return tuple(widths)


# ---- sentences ----------------------------------------------------------------------------------

_END = re.compile(r'(?<=[.?!])["”)]?\s+(?=[A-Z0-9`*_"“(\[$])')
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|vs|cf|etc|about|No)\.$")


def sentences(source: str) -> list[TextPiece]:
    """A paragraph's sentences. A full stop inside code, a link or brackets ends none."""
    found: list[str] = []
    begun = 0
    for end in _END.finditer(source):
        before = source[begun : end.end()].strip()
        if _closed(before) and not _ABBREVIATION.search(before):
            found.append(before)
            begun = end.end()
    found.append(source[begun:].strip())
    return [_sentence(each) for each in found if each]


def _closed(text: str) -> bool:
    """Whether all that opens in a text is closed in it."""
    if text.count("`") % 2 or text.count("**") % 2 or text.count("$") % 2:
        return False
    plain = re.sub(r"`[^`]*`", "", text)
    return all(plain.count(a) == plain.count(b) for a, b in ("()", "[]"))


def _sentence(source: str) -> TextPiece:
    root = SyntaxTreeNode(_markdown().parseInline(source))
    links = (node.nester_tokens for node in root.walk() if node.type == "link")
    term = any(pair.opening.meta.get("term") for pair in links if pair)
    keep = term or "**" in source
    return TextPiece(_markdown().renderInline(source).strip(), _text(root), keep=keep)
