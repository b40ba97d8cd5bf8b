"""The box on the home page: paste an error, and read its cause and its cure.

`amp_lessons.amp.errors` finds the entries, as it does for ``amp-lessons lookup``. The page in
`static/` sends the text and shows the answer, which is HTML made here: every word is escaped.
"""

from __future__ import annotations

import html
from typing import Any

import anywidget
import traitlets

from amp_lessons.amp.errors import Match, UnreadableText, catalogue, lookup, pasted
from amp_lessons.amp.errors.catalogue import Entry
from amp_lessons.lessons.widgets.files import module, style
from amp_lessons.quiz.markup import inline_html

NOTHING = "Nothing here matches this text."
_MESSAGES = ("unscale-fp16-gradients", "expected-scalar-type", "no-inf-checks-for-this-optimizer")
EXAMPLES = (
    *(catalogue.entry(name).title for name in _MESSAGES),
    "loss is nan in fp16",
    "AMP is not faster than FP32",
)
"""What a learner without an error can try: a click looks it up."""


class ErrorLookup(anywidget.AnyWidget):
    """A box to paste an error into, and below it the entries of the catalogue that fit.

    Args:
        text: what stands in the box. If it isn't empty, it's looked up at once.

    Attributes:
        text: what was looked up last. Of a very long text the page sends both ends.
        answer: what the page shows: ``number``, that of the question; ``status``, one line in
            plain text; ``html``; ``found``, the ids of the entries, the best one first; and
            ``sure``, whether the best one fits.
    """

    _esm = module("error_lookup.mjs")
    _css = style("widgets.css")

    text = traitlets.Unicode("").tag(sync=True)
    examples = traitlets.List(list(EXAMPLES)).tag(sync=True)
    length = traitlets.Int(0).tag(sync=True)  # of the text before the page cut it
    asked = traitlets.Int(0).tag(sync=True)  # how often the button was pressed
    ends = traitlets.List(traitlets.Int()).tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)

    def __init__(self, text: str = "") -> None:
        super().__init__(ends=[pasted.HEAD, pasted.TAIL])
        if text:
            self.text, self.length = text, len(text)
            self.asked = 1

    @traitlets.observe("asked")
    def _look_up(self, _: Any) -> None:
        try:
            found = lookup(self.text)
        except UnreadableText as error:
            told = f"{str(error)[:1].upper()}{str(error)[1:]}."
            nothing = {"html": "", "found": [], "sure": False}
            self.answer = {"number": self.asked, "status": told} | nothing
            return
        sure = [each for each in found if each.confident]
        cut = pasted.what_was_read(self.length)
        self.answer = {
            "number": self.asked,
            "status": f"Found: {sure[0].entry.title}" if sure else NOTHING,
            "html": _as_html(sure, found, f"{cut[:1].upper()}{cut[1:]}." if cut else ""),
            "found": [each.entry.id for each in sure or found],
            "sure": bool(sure),
        }


def _as_html(sure: list[Match], found: list[Match], note: str) -> str:
    parts = [f'<p class="amp-note">{html.escape(note)}</p>'] if note else []
    if sure:
        best, *others = sure
        parts += [_details(best)]  # the status says its title
        parts += [_heading("It may also be one of these")] if others else []
    else:
        others = found
        parts += [_heading("The nearest entries")] if others else []
    parts += [
        f"<details><summary>{html.escape(each.entry.title)}</summary>{_details(each)}</details>"
        for each in others
    ]
    return "".join(parts)


def _heading(text: str) -> str:
    return f'<p class="amp-heading">{html.escape(text)}</p>'


def _details(found: Match) -> str:
    entry = found.entry
    rows = [
        ("Cause", inline_html(entry.cause)),
        ("Cure", inline_html(entry.cure)),
        ("Wrong cure", inline_html(entry.wrong_cure)),
        ("Raised by", inline_html(entry.raised_by)),
        ("Versions", inline_html(entry.versions)),
        ("Lesson", _link(f"../{entry.notebook}", f"lesson {entry.lesson_title}")),
        ("Links", _links(entry)),
        ("Found by", html.escape(found.why)),
    ]
    terms = "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in rows if text)
    return f'<dl class="amp-answer">{terms}</dl>'


def _links(entry: Entry) -> str:
    return "<br>".join(_link(link, link.removeprefix("https://")) for link in entry.links)


def _link(address: str, text: str) -> str:
    return f'<a href="{html.escape(address)}" target="_blank">{html.escape(text)}</a>'
