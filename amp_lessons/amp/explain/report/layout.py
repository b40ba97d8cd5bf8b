"""Tables and paragraphs that fit a terminal: nothing is cut off, and no word that fits is broken.

A table's first column is text, and the others are short. Where the text has no room beside them it
goes on in further lines; in a very narrow terminal the numbers stand below it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

NARROWEST = 40
_LEAST = 20  # columns for the text, or the numbers go below it


def paragraph(text: str, width: int, indent: str = "", hanging: str | None = None) -> list[str]:
    """Text in lines of at most ``width``, broken at spaces, and in longer names after a dot."""
    hanging = indent if hanging is None else hanging
    lines, line = [], indent
    empty = True
    for word in _words(text, width - max(len(indent), len(hanging))):
        if not empty and len(line) + len(word.rstrip()) > width:
            lines.append(line.rstrip())
            line, empty = hanging, True
        line += word
        empty = False
    return [*lines, line.rstrip()]


def _words(text: str, room: int) -> Iterable[str]:
    """Pieces between which a line may end; each carries the space behind it.

    A word that is longer than a line ends after a dot or a dash, and if need be anywhere.
    """
    for word in re.findall(r"\S+\s*", text):
        if len(word.rstrip()) <= room:
            yield word
            continue
        for piece in re.findall(r"[^._/-]*[._/-]+|[^._/-]+", word):
            yield from (piece[start : start + room] for start in range(0, len(piece), room))


def pairs(items: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Labels and texts, the texts in a column of their own."""
    items = list(items)
    column = max((len(label) for label, _ in items), default=0) + 2
    lines = []
    for label, text in items:
        lines += paragraph(text, width, label.ljust(column), " " * column)
    return lines


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> list[str]:
    """A head and rows; the first column is text, and the others stand to the right."""
    rows = [list(row) for row in rows]
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(1, len(heads))]
    room = width - sum(widths) - 2 * len(widths)
    if room < _LEAST:
        return _stacked(heads, rows, width)
    text = min(room, max(len(row[0]) for row in (heads, *rows)))
    lines = []
    for row in (heads, *rows):
        first, *more = _label(row[0], text)
        cells = "".join("  " + cell.rjust(w) for cell, w in zip(row[1:], widths, strict=True))
        lines += [(first.ljust(text) + cells).rstrip(), *more]
    return lines


def _label(text: str, width: int) -> list[str]:
    indent = text[: len(text) - len(text.lstrip())]
    return paragraph(text.lstrip(), width, indent, indent + "  ")


def _stacked(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Each row's text, and below it its numbers with their heads."""
    lines = []
    for row in rows:
        lines += _label(row[0], width)
        indent = " " * (len(row[0]) - len(row[0].lstrip()) + 4)
        named = ", ".join(
            f"{head} {cell}" for head, cell in zip(heads[1:], row[1:], strict=True) if cell
        )
        lines += textwrap.wrap(named, width, initial_indent=indent, subsequent_indent=indent)
    return lines
