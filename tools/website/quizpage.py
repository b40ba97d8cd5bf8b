"""The page of questions: browse, drill, progress. It is `quiz.exports.page` inside the site."""

from __future__ import annotations

from typing import Any

from amp_lessons.quiz import bank
from amp_lessons.quiz.exports import page as exported
from website import places
from website.pages import Page


def data() -> dict[str, Any]:
    """The bank as the page shows and marks it."""
    return exported.data(bank.load())


def page() -> Page:
    content = (
        '<div class="amp-widget amp-page" id="page"><noscript><h1>AMP interview questions</h1>'
        "<p>These need JavaScript. The questions of each lesson can be read at its end.</p>"
        "</noscript></div>"
        '<div class="amp-widget amp-sheet" id="sheet"></div>'
        '<script type="application/json" id="data"></script>'
    )
    return Page(
        places.QUIZ,
        "Questions and drill",
        content,
        scripts=("bank.mjs",),
        wide=True,
        kind="quiz",
    )
