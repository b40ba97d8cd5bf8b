"""Questions as HTML, SVG and plain text, for whatever shows them.

`view` gives a front end everything but the key; `static_html` is a whole question with its answer
folded away, for pages on which nothing can be pressed. Markdown comes from markdown-it and colours
for code from Pygments, curves from `curves`. Nothing here imports torch.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from amp_lessons.quiz.curves import plot_svg, plot_table
from amp_lessons.quiz.items import ChoiceItem, Item, NumberItem, OpenQuestion, OrderItem
from amp_lessons.quiz.marking import NAMES, Marked, Remark, shuffled, with_unit
from amp_lessons.quiz.typed_numbers import forms

STATIC = Path(__file__).parent / "static"
"""A question as a page draws it: its module and its style, for the widget and for the exports."""

KIND_NAMES = {
    "single": "One answer",
    "several": "Several answers",
    "number": "A number",
    "output": "What does it print?",
    "bug": "Find the fault",
    "order": "Put in order",
    "trace": "Read the run",
    "prediction": "Predict",
    "explain": "Explain",
    "whiteboard": "Whiteboard",
    "design": "Design",
}


@lru_cache(maxsize=1)
def _markdown() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False})


def to_html(text: str) -> str:
    """Markdown as HTML, a paragraph or more. Raw HTML in it is shown as text."""
    return _markdown().render(text).strip()


def inline_html(text: str) -> str:
    """Markdown of one line, without the paragraph around it."""
    return _markdown().renderInline(text.strip())


def code_html(code: str) -> str:
    """Python as coloured HTML, for a `<pre>`: spans with Pygments' short class names."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    return highlight(code.strip("\n"), PythonLexer(), HtmlFormatter(nowrap=True)).rstrip("\n")


def choice_html(item: ChoiceItem, text: str) -> str:
    """A choice: what an *output* item prints is shown as it is."""
    if item.kind == "output":
        return f"<pre>{html.escape(text)}</pre>"
    return inline_html(text)


# ---- for front ends ------------------------------------------------------------------------------


def view(item: Item) -> dict[str, Any]:
    """All that a front end needs to ask a question, and nothing of the answer."""
    shown: dict[str, Any] = {
        "id": item.id,
        "kind": item.kind,
        "kindName": KIND_NAMES[item.kind],
        "form": item.form,
        "level": item.level,
        "topic": item.topic,
        "prompt": to_html(item.prompt),
        "code": code_html(item.code) if item.code else "",
        "log": item.log,
        "plot": plot_svg(item.plot) if item.plot else "",
        "hint": to_html(item.hint),
        "proved": item.proved,
    }
    if isinstance(item, ChoiceItem):
        shown["choices"] = [choice_html(item, choice.text) for choice in item.choices]
    elif isinstance(item, NumberItem):
        shown |= {"unit": item.unit, "forms": forms(item.unit)}
    else:
        places = shuffled(item)
        shown["lines"] = [
            {"place": place, "html": line_html(item.offered[place])} for place in places
        ]
        shown["wanted"] = len(item.lines)
    return shown


def line_html(line: str) -> str:
    """A line to put in order, as code. One that is prose is written with a leading ``# ``."""
    if line.startswith("# "):
        return inline_html(line[2:])
    return f"<code>{code_html(line)}</code>"


def feedback(item: Item, marked: Marked) -> dict[str, Any]:
    """A verdict as HTML, for a front end."""
    return {
        "right": marked.right,
        "score": marked.score,
        "remarks": [remark_view(item, remark) for remark in marked.remarks],
        "source": inline_html(item.source),
        "key": key_view(item),
    }


def remark_view(item: Item, remark: Remark) -> dict[str, str]:
    answer, name = remark.answer, ""
    if isinstance(item, ChoiceItem) and answer:
        name = NAMES[[choice.text for choice in item.choices].index(answer)]
        answer = choice_html(item, answer)
    elif isinstance(item, OrderItem) and answer:
        answer = line_html(answer)
    else:
        answer = html.escape(answer)
    text = to_html(remark.text)
    return {"role": remark.role, "name": name, "answer": answer, "text": text}


def key_view(item: Item) -> Any:
    """The right answer in the form in which answers are given."""
    if isinstance(item, ChoiceItem):
        return sorted(item.right)
    if isinstance(item, NumberItem):
        return item.answer
    return list(range(len(item.lines)))


def key_text(item: Item) -> str:
    """The right answer in words."""
    if isinstance(item, ChoiceItem):
        return "; ".join(f"({NAMES[p]}) {item.choices[p].text}" for p in sorted(item.right))
    if isinstance(item, NumberItem):
        return with_unit(item.answer, item.unit)
    return "\n".join(f"{number}. {line}" for number, line in enumerate(item.lines, 1))


# ---- static --------------------------------------------------------------------------------------


def question_html(item: Item) -> str:
    """The question alone, with what there is to read and to choose from."""
    parts = [to_html(item.prompt)]
    if item.code:
        parts.append(f"<pre><code>{code_html(item.code)}</code></pre>")
    if item.log:
        parts.append(f"<pre>{html.escape(item.log)}</pre>")
    if item.plot:
        parts.append(plot_svg(item.plot))
    if isinstance(item, ChoiceItem):
        shown = "".join(f"<li>{choice_html(item, choice.text)}</li>" for choice in item.choices)
        parts.append(f"<ol>{shown}</ol>")
    elif isinstance(item, OrderItem):
        lines = [item.offered[place] for place in shuffled(item)]
        parts.append("<ul>" + "".join(f"<li>{line_html(line)}</li>" for line in lines) + "</ul>")
    elif item.unit:
        parts.append(f"<p>Answer in {html.escape(item.unit)}.</p>")
    return "\n".join(parts)


def answer_html(item: Item) -> str:
    """The right answer, and what each of the others gets wrong."""
    parts = []
    if isinstance(item, ChoiceItem):
        for right in (True, False):
            for place, choice in enumerate(item.choices):
                if choice.right is right:
                    word = "right" if right else "not right"
                    parts.append(
                        f"<p><b>({NAMES[place]}), {word}.</b> {inline_html(choice.why)}</p>"
                    )
        if item.explanation:
            parts.append(to_html(item.explanation))
    elif isinstance(item, NumberItem):
        parts.append(f"<p><b>{html.escape(with_unit(item.answer, item.unit))}.</b></p>")
        parts.append(to_html(item.explanation))
        for mistake in item.mistakes:
            value = html.escape(with_unit(mistake.value, item.unit))
            parts.append(f"<p><b>Not {value}.</b> {inline_html(mistake.why)}</p>")
    else:
        lines = "".join(f"<li>{line_html(line)}</li>" for line in item.lines)
        parts.append(f"<ol>{lines}</ol>{to_html(item.explanation)}")
        for distractor in item.distractors:
            parts.append(f"<p>{line_html(distractor.text)} {inline_html(distractor.why)}</p>")
    parts.append(f"<p><small>Source: {inline_html(item.source)}</small></p>")
    return "\n".join(parts)


def static_html(item: Item, heading: str = "") -> str:
    """A question with its answer folded away, for a page on which nothing can be pressed."""
    title = f"<p><b>{html.escape(heading)}</b></p>\n" if heading else ""
    return (
        f"{title}{question_html(item)}\n"
        f"<details><summary>Answer</summary>\n{answer_html(item)}\n</details>"
    )


def static_text(item: Item, heading: str = "") -> str:
    """The question as plain text, with no answer: where there is not even HTML."""
    parts = [heading] if heading else []
    parts.append(item.prompt)
    parts += [text for text in (item.code, item.log) if text]
    if item.plot:
        parts.append(plot_table(item.plot))
    if isinstance(item, ChoiceItem):
        parts += [f"({NAMES[p]}) {choice.text}" for p, choice in enumerate(item.choices)]
    elif isinstance(item, OrderItem):
        parts += [f"- {item.offered[place]}" for place in shuffled(item)]
    return "\n\n".join(parts)


def form(items: Sequence[Item], title: str) -> dict[str, str]:
    """Questions where no widget can be drawn, by MIME type: as HTML with folded answers, and as
    plain text without them."""
    headings = [""] if len(items) == 1 else [f"{n}." for n in range(1, len(items) + 1)]
    pairs = list(zip(items, headings, strict=True))
    shown = "\n".join(static_html(item, heading) for item, heading in pairs)
    box = f'<div class="amp-lessons-question" aria-label="{html.escape(title)}">{shown}</div>'
    text = "\n\n".join(static_text(item, heading) for item, heading in pairs)
    return {"text/html": box, "text/plain": text}


def heading(text: str) -> str:
    """A heading inside a box. It's no `<h3>`: boxes stand in pages with headings of their own."""
    return f'<p class="amp-heading"><b>{html.escape(text)}</b></p>'


def open_html(question: OpenQuestion, *, rubric: bool = True) -> str:
    """What a good answer to an open question has in it, with its rubric or without."""
    points = "".join(f"<li>{inline_html(point)}</li>" for point in question.rubric)
    listed = f"{heading('What a good answer has in it')}<ul>{points}</ul>"
    asked = "".join(
        f"<p><b>{inline_html(f.question)}</b> {inline_html(f.answer)}</p>"
        for f in question.follow_ups
    )
    return (
        f"{heading('In 30 seconds')}{to_html(question.short)}"
        f"{heading('In 2 minutes')}{to_html(question.long)}"
        f"{listed if rubric else ''}"
        f"{heading('Follow-ups')}{asked}"
        f"{heading('Often heard, and wrong')}{to_html(question.often_heard)}"
        f"<p><small>Source: {inline_html(question.source)}</small></p>"
    )
