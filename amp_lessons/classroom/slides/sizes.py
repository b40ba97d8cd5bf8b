"""How much room things take on a slide, in CSS pixels of a frame of 1280 by 720, by estimate.

No browser is at hand when slides are cut, so letters are counted. The page corrects the rest: it
measures each slide when it opens and makes the type a little smaller where something sticks out
(`static/deck.js`). The numbers here belong to the sizes in `static/deck.css`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from amp_lessons.classroom.slides.blocks import TextBlock
from amp_lessons.classroom.slides.parts import CellOutput

WIDTH = 1152
"""Of a slide's body, between its margins."""
BODY = 560
"""The height below the heading."""
PROSE = 490
"""How much of it text may fill: a full slide is hard to read."""

LINE, LETTER = 39.0, 13.4
"""Height of a line of text, and the mean width of a letter in it."""
CODE_LINE, CODE_LETTER = 26.5, 11.4
ROW_LINE = 31.0
GAP = 14
LONGEST_LINE = 118
"""Letters of the longest line of code or output that still fits when the type is made smaller."""
LEAST_PICTURE = 170
"""The least height that a picture asks for. Larger ones ask for nine tenths of their own."""
ALONE = 572
"""The largest height of a picture on a slide of its own."""


def height(block: TextBlock) -> float:
    """Of one block, in pixels."""
    if block.kind == "list":
        return sum(_lines(piece.text, WIDTH - 44) * LINE + 8 for piece in block.pieces) + GAP
    if block.kind == "table":
        return _table_height(block)
    if block.kind == "code":
        return len(block.pieces) * CODE_LINE + 24 + GAP
    return _lines(block.text, WIDTH) * LINE + GAP


def total(blocks: Iterable[TextBlock]) -> float:
    """Of blocks one below the other, in pixels."""
    return sum(height(block) for block in blocks)


def result_height(result: CellOutput) -> float:
    """Of a stored output, in pixels; of a picture, the least that shows it well."""
    if result.kind == "picture":
        return max(LEAST_PICTURE, result.size[1] * 0.9) + GAP
    if result.kind == "text":
        lines = result.body.split("\n")
        wrapped = sum(max(1, math.ceil(len(line) / LONGEST_LINE)) for line in lines)
        return wrapped * CODE_LINE + 24 + GAP
    return _lines(result.body, WIDTH) * LINE / 2 + GAP


def picture_height(result: CellOutput, width: float, most: float) -> float:
    """The height at which a picture fits a width and a height; at most half as large again."""
    wide, high = result.size
    return max(1.0, min(most, high * width / wide, high * 1.5))


def _lines(text: str, width: float, letter: float = LETTER) -> int:
    fit = max(1, int(width / letter))
    return sum(max(1, math.ceil(len(line) / fit)) for line in text.split("\n"))


def _table_height(block: TextBlock) -> float:
    rows = [block.header, *(piece.cells for piece in block.pieces)]
    found = 0.0
    for row in rows:
        pairs = zip(row, block.widths, strict=False)
        found += max((_lines(cell, width, 1) for cell, width in pairs), default=1) * ROW_LINE + 15
    return found + GAP
