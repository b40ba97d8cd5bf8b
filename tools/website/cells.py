"""A stored notebook as the parts of a page: text, code, results, questions and widgets.

The result below a prediction is folded together with all that follows it, up to the next heading,
question or widget: text and further cells give the result away too. It's a plain ``<details>``, so
it works without JavaScript, and `questions.mjs` opens it when the reader has answered.
"""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from nbformat import NotebookNode

from amp_lessons.core import ipynb

Kind = Literal["text", "code", "output", "predict", "ask", "widget", "not stored"]
LINKS = re.compile(r"^\[[^\n]*\]\([^\n]*\)( · \[[^\n]*\]\([^\n]*\))*$")
"""A paragraph of links, which the builder writes at both ends. The site has its own."""
MARKED_AS_DONE = "home.finished("
QUESTIONS = ("predict", "ask")


@dataclass(frozen=True)
class Part:
    """One piece of a page.

    Attributes:
        kind: what it is.
        source: Markdown or Python.
        outputs: of a cell, as they are stored.
        ids: of the questions that are asked.
        cell: the notebook's id of the cell.
        about: the prediction that it answers; "" if it may be seen at once.
    """

    kind: Kind
    source: str = ""
    outputs: tuple[NotebookNode, ...] = ()
    ids: tuple[str, ...] = ()
    cell: str = ""
    about: str = ""


def parts_of(notebook: NotebookNode) -> list[Part]:
    """The parts in order, without what only a notebook needs: set-up, links, the last cell."""
    return list(_folded(_parts(_shown(notebook.cells))))


def _shown(cells: Sequence[NotebookNode]) -> list[NotebookNode]:
    kept: list[NotebookNode] = []
    for cell in cells:
        if ipynb.SET_UP in cell.metadata.get("tags", []):
            continue
        if cell.cell_type == "code" and MARKED_AS_DONE in cell.source:
            kept.pop()  # the sentence that asks to run it
            continue
        kept.append(cell)
    return kept


def _parts(cells: Sequence[NotebookNode]) -> Iterator[Part]:
    for cell in cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type == "markdown":
            for section in sections_of(without_links(cell.source)):
                yield Part("text", section, cell=cell.id)
            continue
        if cell.cell_type != "code":
            continue
        asked = _asked(cell.source) if "question" in tags else None
        if asked:
            yield Part(asked[0], cell.source, tuple(cell.outputs), asked[1], cell.id)
        elif widget_in(cell.source):
            yield Part("code", cell.source, cell=cell.id)
            yield Part("widget", cell.source, tuple(cell.outputs), cell=cell.id)
        else:
            yield Part("code", cell.source, cell=cell.id)
            if "live" in tags:
                yield Part("not stored", cell.source, cell=cell.id)
            elif cell.outputs:
                yield Part("output", cell.source, tuple(cell.outputs), cell=cell.id)


def _folded(parts: Iterator[Part]) -> Iterator[Part]:
    about, seen = "", False
    for part in parts:
        if part.kind == "predict":
            about, seen = part.ids[0], False
        elif part.kind in ("ask", "widget", "not stored"):
            about = ""
        elif part.kind == "code" and seen and about:
            part = _about(part, about)
        elif part.kind == "output" and about:
            seen = True
            part = _about(part, about)
        elif part.kind == "text" and seen:
            if part.source.lstrip().startswith("#"):
                about, seen = "", False
            elif about:
                part = _about(part, about)
        yield part


def _about(part: Part, about: str) -> Part:
    return Part(part.kind, part.source, part.outputs, part.ids, part.cell, about)


def without_links(source: str) -> str:
    """Markdown without the lines of links that the builder adds."""
    paragraphs = source.split("\n\n")
    return "\n\n".join(each for each in paragraphs if not LINKS.match(each.strip()))


def sections_of(source: str) -> list[str]:
    """Markdown, cut before each heading."""
    found, fenced = [""], False
    for line in source.splitlines(keepends=True):
        fenced ^= line.startswith("```")
        if line.startswith("#") and not fenced and found[-1].strip():
            found.append("")
        found[-1] += line
    return found


def _asked(source: str) -> tuple[Literal["predict", "ask"], tuple[str, ...]] | None:
    """What a question's cell calls, and the ids that it names."""
    call = _last_call(source)
    if call is None or not isinstance(call.func, ast.Name) or call.func.id not in QUESTIONS:
        return None
    ids = tuple(str(each.value) for each in call.args if isinstance(each, ast.Constant))
    return ("predict" if call.func.id == "predict" else "ask"), ids


def widget_in(source: str) -> str:
    """The name of the widget that a cell shows, such as ``"BitExplorer"``; "" if there is none."""
    from amp_lessons.lessons import widgets

    call = _last_call(source)
    name = call.func.id if call is not None and isinstance(call.func, ast.Name) else ""
    return name if name in widgets.__all__ else ""


def _last_call(source: str) -> ast.Call | None:
    try:
        body = ast.parse(source).body
    except SyntaxError:  # a magic of IPython
        return None
    last = body[-1].value if body and isinstance(body[-1], ast.Expr) else None
    return last if isinstance(last, ast.Call) else None


# ---- outputs ------------------------------------------------------------------------------------


def output_html(outputs: Sequence[NotebookNode]) -> str:
    """What a cell has shown: its HTML where there is some, otherwise its text."""
    return "\n".join(filter(None, map(_one, outputs)))


def _one(output: NotebookNode) -> str:
    if output.output_type == "stream":
        return _printed(output.text)
    data = output.get("data", {})
    if "text/html" in data:
        return str(data["text/html"])
    text = data.get("text/plain", "")
    return _printed(text) if text else ""


def _printed(text: str) -> str:
    """What a cell has printed. A narrow screen wraps its lines, unless they are columns."""
    columns = re.search(r"\S {2,}\S|^ ", text, re.MULTILINE)
    opening = "<pre>" if columns else '<pre class="prose">'
    return f"{opening}{html.escape(text.rstrip())}</pre>"
