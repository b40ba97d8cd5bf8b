"""The bank as one HTML file that works offline: search, browse, drill, print.

The file holds the questions as data, and the same ES modules that draw them in a notebook. Answers
are marked in the page (`static/marking.mjs`, under test against `marking`) and stay in the browser;
what it exports, `amp-lessons drill --merge` reads. The page's own policy forbids it every network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from itertools import pairwise
from typing import Any

from amp_lessons.core import catalogue
from amp_lessons.core.es_modules import join_modules, read_static
from amp_lessons.quiz import markup
from amp_lessons.quiz.bank import Bank
from amp_lessons.quiz.exports import contents
from amp_lessons.quiz.items import KINDS, ChoiceItem, Item, NumberItem, OpenQuestion, OrderItem

LEVEL_NAMES = {1: "1 Recall", 2: "2 Apply and predict", 3: "3 Diagnose and design"}
ALOUD = "Say your answer aloud, as you would in an interview, before you look."
STYLES = ("widgets.css", "question.css", "page.css")
FOLDERS = (contents.STATIC, markup.STATIC)


def build(bank: Bank) -> bytes:
    """The page as the bytes of an ``.html`` file."""
    script = join_modules("page.mjs", *FOLDERS)
    style = "\n".join(read_static(name, *FOLDERS) for name in STYLES)
    parts = {
        "POLICY": _policy(script),
        "STYLE": style,
        "DATA": _embedded(data(bank)),
        "SCRIPT": script,
    }
    page = _own("page.html")
    for name, text in parts.items():
        before, marker, after = page.partition(f"<!-- {name} -->")
        assert marker, f"page.html has no place for {name}"
        page = before + text + after
    return page.encode()


def _own(name: str) -> str:
    return (contents.STATIC / name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """Nothing is loaded from anywhere, and no script runs but this one."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = ("default-src 'none'", f"script-src 'sha256-{digest}'", "style-src 'unsafe-inline'")
    return "; ".join([*rules, "img-src data:", "base-uri 'none'", "form-action 'none'"])


def _embedded(found: dict[str, Any]) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


# ---- the data ------------------------------------------------------------------------------------


def data(bank: Bank) -> dict[str, Any]:
    """What the page shows and marks with, as plain data."""
    questions = [
        question_data(question) for _, found in contents.by_topic(bank) for question in found
    ]
    there = {question["topic"] for question in questions}
    kinds = {question["kind"]: question["kindName"] for question in questions}
    order = (*KINDS, "explain", "whiteboard", "design")
    return {
        "lessons": [
            {"name": f"{lesson.number:02} {lesson.title}", "topics": list(lesson.topics)}
            for lesson in catalogue.LESSONS
            if there & set(lesson.topics)
        ],
        "topics": {topic: contents.topic_title(topic) for topic in sorted(there)},
        "kinds": [[kind, kinds[kind]] for kind in order if kind in kinds],
        "levels": [[level, name] for level, name in LEVEL_NAMES.items()],
        "questions": questions,
    }


_TOKEN = re.compile(r'<span class="(\w+)">([^<]*)</span>')
_COLOURED = {"k", "kn", "kc", "ow", "s1", "s2", "sd", "sa", "si", "se", "mi", "mf", "mh"}
_COLOURED |= {"c1", "cm", "nf", "nc"}


def _lean(code: str) -> str:
    """Coloured code without the marks that question.css has no colour for: half of the size."""
    return _TOKEN.sub(lambda found: found[0] if found[1] in _COLOURED else found[2], code)


def question_data(question: Item | OpenQuestion) -> dict[str, Any]:
    """A question with all that marks and explains it, as HTML."""
    if isinstance(question, OpenQuestion):
        return _open_data(question)
    shown = markup.view(question)
    program = contents.proof_program(question)
    return shown | {
        "key": _key(question),
        "source": markup.inline_html(question.source),
        "proved": bool(program),
        "code": _lean(shown["code"]),
        "proof": _lean(markup.code_html(program)) if program else "",
    }


def _key(item: Item) -> dict[str, Any]:
    key: dict[str, Any] = {"explanation": markup.to_html(item.explanation)}
    if isinstance(item, ChoiceItem):
        why = [markup.to_html(choice.why) for choice in item.choices]
        return key | {"right": sorted(item.right), "why": why}
    if isinstance(item, NumberItem):
        mistakes = [{"value": m.value, "why": markup.to_html(m.why)} for m in item.mistakes]
        return key | {"answer": item.answer, "tolerance": item.tolerance, "mistakes": mistakes}
    return key | _order_key(item)


def _order_key(item: OrderItem) -> dict[str, Any]:
    count = len(item.lines)
    return {
        "count": count,
        "offered": [markup.line_html(line) for line in item.offered],
        "before": [list(pair) for pair in item.before or pairwise(range(count))],
        "distractors": [markup.to_html(distractor.why) for distractor in item.distractors],
        "slips": [
            {"early": slip.early, "late": slip.late, "why": markup.to_html(slip.why)}
            for slip in item.slips
        ],
    }


def _open_data(question: OpenQuestion) -> dict[str, Any]:
    return {
        "id": question.id,
        "kind": question.kind,
        "kindName": markup.KIND_NAMES[question.kind],
        "form": "open",
        "level": question.level,
        "topic": question.topic,
        "prompt": markup.to_html(question.prompt),
        "howTo": ALOUD,
        "answer": markup.open_html(question, rubric=False),
        "rubric": [markup.inline_html(point) for point in question.rubric],
    }
