"""A box in a notebook, plain text in a terminal: how the course speaks to a learner.

A box takes its colours from the theme around it (light or dark) and only tints its edge. Every
word in it is escaped.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from amp_lessons.core.states import GREEN

_receivers: list[Callable[[str], None]] = []


@dataclass(frozen=True)
class Links:
    """A line of a box that ends in links.

    Args:
        text: what stands before them.
        to: label and address of each; an address is relative to a folder of the course.
    """

    text: str
    to: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return self.text + ", or ".join(f"{label} ({href})" for label, href in self.to)

    def as_html(self) -> str:
        links = [
            f'<a href="{html.escape(href)}" style="text-decoration:underline">'
            f"{html.escape(label)}</a>"
            for label, href in self.to
        ]
        return html.escape(self.text) + " · ".join(links)


def show_box(
    heading: str,
    message: str,
    foot: Sequence[str | Links] = (),
    *,
    lines: Sequence[str] = (),
    edge: str = GREEN,
    data: Mapping[str, Any] | None = None,
) -> None:
    """Show a box, or its text where there is no notebook.

    Args:
        heading: in bold.
        message: running text.
        foot: lines for the foot: what comes next, a full disk.
        lines: shown as they are, in a fixed-width font.
        edge: the colour of the edge, such as one of `core.states`.
        data: the same for a program, by MIME type. It is stored with the notebook and not shown.
    """
    markup, text = (
        as_html(heading, message, lines, foot, edge),
        as_text(heading, message, lines, foot),
    )
    show(markup, text, data)


def show(markup: str, text: str, data: Mapping[str, Any] | None = None) -> None:
    """Show HTML in a notebook, and the text where there is none. ``data`` is for programs."""
    if _receivers:
        _receivers[-1](markup)
        return
    if _notebook() is None:
        _print(text)
        return
    from IPython.display import display

    display({"text/html": markup, "text/plain": text, **(data or {})}, raw=True)


@contextmanager
def shown_to(receiver: Callable[[str], None]) -> Iterator[None]:
    """Within this context each box goes to ``receiver``, as HTML, and is not shown."""
    _receivers.append(receiver)
    try:
        yield
    finally:
        _receivers.pop()


def in_a_page() -> bool:
    """Whether somebody runs this cell in JupyterLab or a page like it. Programs that run notebooks,
    such as nbval and nbgrader, don't say in which cell a request comes."""
    try:
        parent = _notebook().kernel.get_parent("shell")
        return bool(parent["metadata"].get("cellId"))
    except (AttributeError, KeyError):
        return False


def _with_code(text: str) -> str:
    """Escaped, and what stands in backticks set as code."""
    style = "font-size:0.95em;background:rgba(128,128,128,0.14);padding:0 3px;border-radius:3px"
    return re.sub("`([^`]+)`", rf'<code style="{style};color:inherit">\1</code>', html.escape(text))


def _notebook() -> Any:
    """The IPython shell, if it can show HTML."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    shell = get_ipython()
    return shell if shell is not None and hasattr(shell, "kernel") else None


def _print(text: str) -> None:
    """Print, also where the terminal's encoding lacks the symbols."""
    try:
        print(text)
    except UnicodeEncodeError:
        print(text.encode("ascii", "replace").decode())


def as_text(
    heading: str, message: str, lines: Sequence[str] = (), foot: Sequence[str | Links] = ()
) -> str:
    """The plain-text form of a box, as a terminal shows it."""
    parts = [heading]
    if message:
        parts.append(textwrap.fill(message, 88, initial_indent="  ", subsequent_indent="  "))
    parts += [f"    {line}" for line in lines]
    parts += [textwrap.fill(str(f), 88, initial_indent="  ", subsequent_indent="  ") for f in foot]
    return "\n".join(parts)


def as_html(
    heading: str, message: str, lines: Sequence[str], foot: Sequence[str | Links], edge: str
) -> str:
    """The box. Every word in it is escaped: some of them are the learner's own."""
    parts = [f'<div style="font-weight:600">{html.escape(heading)}</div>']
    if message:
        parts.append(f'<div style="margin-top:4px">{_with_code(message)}</div>')
    if lines:
        code = html.escape("\n".join(lines))
        parts.append(
            '<pre tabindex="0" aria-label="Details" style="margin:6px 0 0 0;padding:6px 8px;'
            "overflow-x:auto;background:rgba(128,128,128,0.12);color:inherit;font-size:0.92em;"
            f'line-height:1.45">{code}</pre>'
        )
    for line in foot:
        shown = line.as_html() if isinstance(line, Links) else _with_code(line)
        parts.append(f'<div style="margin-top:6px;font-size:0.92em">{shown}</div>')
    return (
        f'<div role="group" aria-label="{html.escape(heading)}" class="amp-lessons-box" '
        f'style="border:1px solid rgba(128,128,128,0.45);border-left:6px solid {edge};'
        "border-radius:4px;padding:8px 12px;margin:4px 0;max-width:52em;line-height:1.5;"
        'color:inherit">' + "".join(parts) + "</div>"
    )
