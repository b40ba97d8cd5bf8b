"""A notebook's cells as a room needs them: text, code with its stored result, polls, things to try.

Cells that only prepare or check something (set-up, imports, assertions, checks of exercises, the
mark at the end) have no place on a slide and are left out. What stays keeps its order.
"""

from __future__ import annotations

import ast
import base64
import binascii
import html
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from amp_lessons.core import ipynb

ASKING = ("predict", "ask")
"""The calls that put questions of the bank into a lesson."""
PRACTICE = ("quiz", "practise", "drill", "mock")
"""The calls that draw other questions each time, or plan them for one person."""
WIDGETS = "amp_lessons.lessons.widgets"


@dataclass(frozen=True)
class Text:
    """A Markdown cell."""

    source: str


@dataclass(frozen=True)
class CellOutput:
    """One stored output of a code cell.

    Attributes:
        kind: plain text, a picture, HTML, or Markdown.
        body: the text, HTML or Markdown; of a picture, its address ``data:image/png;base64,…``.
        alt: what a picture shows, in words.
        size: a picture's width and height in pixels.
    """

    kind: Literal["text", "picture", "html", "markdown"]
    body: str
    alt: str = ""
    size: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Code:
    """A code cell with what it printed and drew when the notebook was built.

    Attributes:
        source: Python, without the imports that opened the lesson.
        results: in order.
        imports: those imports. They go into the speaker notes.
    """

    source: str
    results: tuple[CellOutput, ...] = ()
    imports: str = ""


@dataclass(frozen=True)
class Poll:
    """Questions of the bank, by their ids."""

    ids: tuple[str, ...]


@dataclass(frozen=True)
class Try:
    """A cell without a stored result, such as a widget: the room opens the lesson for it.

    Attributes:
        what: a widget's name, such as ``"scaler lab"``, or "" for any other cell.
        source: the cell's code.
    """

    what: str
    source: str


Part = Text | Code | Poll | Try


def parts(notebook: dict[str, Any]) -> list[Part]:
    """What a room is shown of a notebook, in order."""
    found: list[Part] = []
    cells = [cell for cell in notebook["cells"] if not ipynb.is_set_up(cell)]
    opened = False
    for cell in cells:
        source = ipynb.source_of(cell).strip("\n")
        if cell["cell_type"] == "markdown":
            found.append(Text(source))
            continue
        if cell["cell_type"] != "code" or _is_hidden(cell):
            continue
        tree = _parsed(source)
        if _marks_the_end(tree):
            if found and isinstance(found[-1], Text):
                found.pop()  # "Run this cell when you have finished": an order to a learner
            continue
        part = _part(source, tree, cell, imports_apart=not opened)
        opened = True
        if part is not None:
            found.append(part)
    return found


def _part(source: str, tree: ast.Module, cell: ipynb.Cell, imports_apart: bool) -> Part | None:
    if not source or _only_prepares(tree) or _is_a_check(tree):
        return None
    if ids := _asked(tree):
        return Poll(ids)
    if "live" in _tags(cell):
        return Try(_widget(tree), source)
    if _calls(tree) & set(PRACTICE):
        return Try("", source)
    imports = ""
    if imports_apart:
        imports, source = _without_imports(source, tree)
    return Code(source, tuple(_results(cell)), imports)


def _tags(cell: ipynb.Cell) -> list[str]:
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    return tags if isinstance(tags, list) else []


def _is_hidden(cell: ipynb.Cell) -> bool:
    """Whether JupyterLab hides a cell's text."""
    jupyter = (cell.get("metadata") or {}).get("jupyter")
    return isinstance(jupyter, dict) and jupyter.get("source_hidden") is True


# ---- what a cell's code does --------------------------------------------------------------------


def _parsed(source: str) -> ast.Module:
    """A cell's tree; of a cell that is not plain Python, an empty one."""
    try:
        return ast.parse(source)
    except SyntaxError:
        return ast.Module([], [])


def _only_prepares(tree: ast.Module) -> bool:
    """Whether a cell holds nothing but imports and assertions."""
    kinds = (ast.Import, ast.ImportFrom, ast.Assert)
    return bool(tree.body) and all(isinstance(node, kinds) for node in tree.body)


def _called(node: ast.stmt) -> ast.Call | None:
    """The call that a statement consists of."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return node.value
    return None


def _calls(tree: ast.Module) -> set[str]:
    """The plain names that a cell's statements call."""
    called = [_called(node) for node in tree.body]
    return {call.func.id for call in called if call and isinstance(call.func, ast.Name)}


def _methods(tree: ast.Module) -> set[str]:
    """The last names of what a cell's statements call on something, such as ``check``."""
    called = [_called(node) for node in tree.body]
    return {call.func.attr for call in called if call and isinstance(call.func, ast.Attribute)}


def _is_a_check(tree: ast.Module) -> bool:
    """Whether a cell checks exercises and does nothing else."""
    return bool(tree.body) and len(tree.body) == sum(
        1 for node in tree.body if _methods(ast.Module([node], [])) & {"check", "hint", "solution"}
    )


def _marks_the_end(tree: ast.Module) -> bool:
    """Whether it's the cell that saves a learner's progress."""
    return "finished" in _methods(tree)


def _asked(tree: ast.Module) -> tuple[str, ...]:
    """The ids in a cell that asks questions of the bank."""
    if len(tree.body) != 1 or not _calls(tree) & set(ASKING):
        return ()
    call = _called(tree.body[0])
    constants = [arg.value for arg in call.args if isinstance(arg, ast.Constant)] if call else []
    return tuple(value for value in constants if isinstance(value, str))


def _widget(tree: ast.Module) -> str:
    """The widget that a cell imports, in words: ``ScalerLab`` is the scaler lab."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(WIDGETS):
            return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", node.names[0].name).lower()
    return ""


def _without_imports(source: str, tree: ast.Module) -> tuple[str, str]:
    """The imports at a cell's beginning, and the rest of it."""
    end = 0
    for node in tree.body:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            break
        end = node.end_lineno or 0
    lines = source.splitlines()
    return "\n".join(lines[:end]), "\n".join(lines[end:]).strip("\n")


# ---- what a cell has stored ---------------------------------------------------------------------

_LISTING = re.compile(r"\s*<pre>([^<]*)</pre>")
_IMAGE = re.compile(r'<img\s[^>]*?src="(data:image/png;base64,([^"]+))"[^>]*>')
_ALT = re.compile(r'\salt="([^"]*)"')


def _results(cell: ipynb.Cell) -> Iterator[CellOutput]:
    for output in cell.get("outputs") or []:
        if output.get("output_type") == "stream":
            yield from _plain(_joined(output.get("text")))
            continue
        data = output.get("data") or {}
        if "image/png" in data:
            yield _picture(f"data:image/png;base64,{_joined(data['image/png']).strip()}", "")
        elif "text/html" in data:
            yield from _from_html(_joined(data["text/html"]))
        elif "text/markdown" in data:
            yield CellOutput("markdown", _joined(data["text/markdown"]))
        elif "text/plain" in data:
            yield from _plain(_joined(data["text/plain"]))


def _joined(text: str | Iterable[str] | None) -> str:
    """A file may hold a text as one string or as a list of lines."""
    return text if isinstance(text, str) else "".join(text or ())


def _plain(text: str) -> Iterator[CellOutput]:
    if text.strip():
        yield CellOutput("text", text.rstrip("\n"))


def _from_html(text: str) -> Iterator[CellOutput]:
    if image := _IMAGE.fullmatch(text.strip()):
        alt = _ALT.search(image[0])
        yield _picture(image[1], html.unescape(alt[1]) if alt else "")
        return
    if listing := _LISTING.match(text):  # it may need a slide of its own
        yield CellOutput("text", html.unescape(listing[1]))
        text = text[listing.end() :]
    if text.strip():
        yield CellOutput("html", text)


def _picture(address: str, alt: str) -> CellOutput:
    return CellOutput("picture", address, alt, _png_size(address))


def _png_size(address: str) -> tuple[int, int]:
    """Width and height, from the header chunk that every PNG file begins with (RFC 2083, 4.1.1)."""
    head = address.partition("base64,")[2][:64]
    try:
        width, height = struct.unpack(">II", base64.b64decode(head)[16:24])
    except (struct.error, binascii.Error):
        return 800, 320
    return width, height
