"""Questions on a page: a form that works without JavaScript, and the data of the live box.

The data is that of the page of questions (`quiz.exports.page`), and the box and the marking are the
modules of `quiz.static` and `quiz.exports.static`, as they are. `questions.mjs` puts them together.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any

from amp_lessons.quiz import bank, markup
from amp_lessons.quiz.exports import page
from amp_lessons.quiz.items import Item

SHOW = "Show the result"


def box(kind: str, ids: Sequence[str]) -> str:
    """The place of a box on the page."""
    items = [_item(each) for each in ids]
    forms = [
        markup.static_html(
            item, f"Question {number} of {len(items)}" if len(items) > 1 else "Predict"
        )
        for number, item in enumerate(items, 1)
    ]
    shown = "".join(f'<div class="question">{form}</div>' for form in forms)
    data = embedded({"kind": kind, "questions": [page.question_data(item) for item in items]})
    return (
        f'<div class="asked" data-questions>{shown}'
        f'<script type="application/json">{data}</script></div>'
    )


def folded(about: str, content: str) -> str:
    """What shows or explains the result of a prediction."""
    return (
        f'<details class="result" data-about="{html.escape(about)}"><summary>{SHOW}</summary>\n'
        f"{content}\n</details>"
    )


def embedded(data: Any) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _item(wanted: str) -> Item:
    found = bank.load().find(wanted)
    assert isinstance(found, Item), f"{wanted} is an open question"
    return found
