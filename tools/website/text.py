"""Markdown as HTML for a page: headings to link to, code in colours, maths as MathML.

The rules for code and maths are those of the slides (`classroom.slides.blocks`). Raw HTML is shown
as text; the course's Markdown has none.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from amp_lessons.classroom.slides import blocks

NAMED = re.compile(r"(?:amp_lessons\.)?(\w+)(?:\(.*\))?")
"""A name of the package in text: ``monitor``, ``amp_lessons.monitor`` or ``monitor(model)``."""


@dataclass(frozen=True)
class Heading:
    """A heading of a page: its level from 1 to 6, its anchor, and its words without markup."""

    level: int
    anchor: str
    text: str


@dataclass
class Text:
    """Markdown for one page. The anchors of its headings are unique on the page.

    Args:
        link: gives the address of a link on the page, or None for one that leads nowhere.
        anchor: makes an anchor from a heading's words: `jupyter_anchor` or `github_anchor`.
        names: addresses of names of the package. Each becomes a link where it first stands as code.

    Attributes:
        headings: those that were rendered, in order.
    """

    link: Callable[[str], str | None]
    anchor: Callable[[str], str]
    names: Mapping[str, str] = field(default_factory=dict)
    headings: list[Heading] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._linked: set[str] = set()
        made = MarkdownIt("commonmark", {"html": False}).enable("table")
        made.use(dollarmath_plugin, allow_digits=False, renderer=blocks.mathml)
        made.core.ruler.push("site", self._prepare)
        made.add_render_rule("fence", _fence)
        made.add_render_rule("code_block", _fence)
        made.add_render_rule("table_open", _table_open)
        made.add_render_rule("table_close", _table_close)
        self._markdown = made

    def render(self, source: str) -> str:
        return str(self._markdown.render(source)).strip()

    def inline(self, source: str) -> str:
        return str(self._markdown.renderInline(source)).strip()

    def _prepare(self, state: Any) -> None:
        for place, token in enumerate(state.tokens):
            if token.type == "heading_open":
                self._name(token, state.tokens[place + 1])
            if token.type == "th_open" and not state.tokens[place + 1].content:
                token.tag = state.tokens[place + 2].tag = "td"  # an empty corner is no heading
            lost: list[bool] = []
            for child in token.children or ():
                if child.type == "link_open":
                    address = self.link(str(child.attrs.get("href", "")))
                    lost.append(address is None)
                    child.attrs = {} if address is None else {"href": address}
                    child.tag = "span" if address is None else "a"
                elif child.type == "link_close":
                    child.tag = "span" if lost.pop() else "a"
                elif child.type == "image":
                    child.attrs["src"] = self.link(str(child.attrs.get("src", ""))) or ""
            if token.type == "inline" and state.tokens[place - 1].type != "heading_open":
                token.children = list(self._with_names(token.children or ()))

    def _with_names(self, children: Sequence[Token]) -> Iterator[Token]:
        """The tokens, with a link around each name of the package that stands here first."""
        inside = False
        for child in children:
            inside = child.type == "link_open" or (inside and child.type != "link_close")
            named = NAMED.fullmatch(child.content) if child.type == "code_inline" else None
            if not named or inside or named[1] not in self.names or named[1] in self._linked:
                yield child
                continue
            self._linked.add(named[1])
            opening = Token("link_open", "a", 1)
            opening.attrs = {"href": self.names[named[1]]}
            yield from (opening, child, Token("link_close", "a", -1))

    def _name(self, opening: Token, inline: Token) -> None:
        words = plain(inline)
        base = self.anchor(words)
        taken = {each.anchor for each in self.headings}
        anchor, number = base, 1
        while anchor in taken:
            number += 1
            anchor = f"{base}-{number}"
        self.headings.append(Heading(int(opening.tag[1]), anchor, words))
        opening.attrs["id"] = anchor
        if opening.tag != "h1":
            label = html.escape(f"Link to “{words}”")
            mark = Token("html_inline", "", 0)
            mark.content = (
                f' <a class="anchor" href="#{html.escape(anchor)}" aria-label="{label}">#</a>'
            )
            inline.children = [*(inline.children or ()), mark]


def plain(inline: Token) -> str:
    """What a line of Markdown says, without its markup."""
    parts = (
        child.content if child.type in ("text", "code_inline", "math_inline") else " "
        for child in inline.children or ()
        if child.type not in ("link_open", "link_close", "em_open", "em_close")
        and not child.type.startswith("strong")
    )
    return " ".join("".join(parts).split())


def jupyter_anchor(heading: str) -> str:
    """As JupyterLab names a heading; `catalogue.heading_anchor` quotes the same for a link."""
    return heading.replace(" ", "-")


def github_anchor(heading: str) -> str:
    """As GitHub names a heading of a Markdown file."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def code(source: str, language: str = "python") -> str:
    """Code in colours. The box scrolls, so `site.mjs` gives it to the keyboard where it has to."""
    return blocks.listing(source, language).html


def _fence(_: Any, tokens: Sequence[Token], place: int, *__: Any) -> str:
    return code(tokens[place].content, tokens[place].info.strip() or "text")


def _table_open(*_: Any) -> str:
    return '<div class="table"><table>'


def _table_close(*_: Any) -> str:
    return "</table></div>"
