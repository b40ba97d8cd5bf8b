"""The error search: the box of the home page with its matching in JavaScript, and every entry.

Without JavaScript the page is a list of all entries, by section.
"""

from __future__ import annotations

import html
import re
from typing import Any

from amp_lessons.amp.errors import catalogue, pasted, search, similarity
from amp_lessons.amp.errors.catalogue import Entry
from amp_lessons.lessons.widgets.error_lookup import EXAMPLES
from amp_lessons.quiz.markup import inline_html
from website import places
from website.pages import Page
from website.places import Places
from website.text import Heading

SECTIONS = {
    "scaler": "GradScaler",
    "dtypes": "Dtypes that don't fit together",
    "precision": "Precision",
    "numerics": "inf, NaN and lost numbers",
    "compile": "torch.compile",
    "distributed": "Several GPUs",
}


def data() -> dict[str, Any]:
    """What the search in JavaScript needs: the entries, and the words of the one in Python."""
    return {
        "entries": [_plain(each) for each in catalogue.load()],
        "words": similarity.plain_data(),
        "examples": list(EXAMPLES),
        "ends": [pasted.HEAD, pasted.TAIL],
    }


def for_javascript(pattern: str) -> str:
    """A pattern as JavaScript writes it: only named groups differ in what the entries use."""
    return re.sub(r"\(\?P=(\w+)\)", r"\\k<\1>", pattern.replace("(?P<", "(?<"))


def _plain(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "title": entry.title,
        "kind": entry.kind,
        "patterns": [for_javascript(each) for each in entry.patterns],
        "general": [for_javascript(each.pattern) for each in search.general_patterns(entry)],
        "words": list(entry.words),
        "seen": entry.seen,
        "parts": search.parts(entry),
        "rows": _rows(entry),
    }


def _rows(entry: Entry) -> list[list[str]]:
    """What is told of an entry, as names and HTML."""
    lesson = f"lesson {html.escape(entry.lesson_title)}"
    links = "<br>".join(
        f'<a href="{html.escape(link)}">{html.escape(link.removeprefix("https://"))}</a>'
        for link in entry.links
    )
    rows = [
        ["Cause", inline_html(entry.cause)],
        ["Cure", inline_html(entry.cure)],
        ["Wrong cure", inline_html(entry.wrong_cure)],
        ["Raised by", inline_html(entry.raised_by)],
        ["Versions", inline_html(entry.versions)],
        [
            "Lesson",
            f'<a href="{places.lesson_page(entry.lesson)}">{lesson}</a>',
        ],
        ["Links", links],
    ]
    return [row for row in rows if row[1]]


def page(to: Places) -> Page:
    headings = []
    shown = []
    for section in catalogue.SECTIONS:
        headings.append(Heading(2, section, SECTIONS[section]))
        shown.append(f'<h2 id="{section}">{html.escape(SECTIONS[section])}</h2>')
        shown += map(_entry, catalogue.in_section(catalogue.load(), section))
    opening = (
        "<h1>Look up an error</h1><p>Paste the message or the whole traceback, or say what you "
        "see. You get the cause and the cure, and for some errors the popular cure that doesn't "
        "work.</p>"
    )
    given = html.escape('{"values":{},"data":["data/errors.json"]}', quote=True)
    box = f'<div class="live" data-widget="error_lookup" data-given="{given}"></div>'
    return Page(
        places.ERRORS, "Look up an error", opening + box + "\n".join(shown), headings, kind="errors"
    )


def _entry(entry: Entry) -> str:
    rows = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in _rows(entry))
    return (
        f'<details class="entry" id="{entry.id}"><summary>{html.escape(entry.title)}</summary>'
        f"<dl>{rows}</dl></details>"
    )
