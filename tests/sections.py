"""The code cells of a stored notebook by the headings above them, for the tests of its parts."""

from __future__ import annotations

import nbformat

from amp_lessons.core.ipynb import is_set_up
from amp_lessons.core.pictures import CURVES

PRIMARY = (
    "https://docs.pytorch.org/",
    "https://pytorch.org/blog/",
    "https://github.com/pytorch/pytorch/",
    "https://developer.nvidia.com/",
    "https://docs.nvidia.com/",
    "https://arxiv.org/abs/",
)
"""Where a primary source may be found."""


def sections(lesson: nbformat.NotebookNode) -> dict[str, list[nbformat.NotebookNode]]:
    """The code cells under each heading, by the heading's text. The set-up cell has none."""
    found: dict[str, list[nbformat.NotebookNode]] = {}
    heading = ""
    for cell in lesson.cells:
        if cell.cell_type == "code" and not is_set_up(cell):
            found.setdefault(heading, []).append(cell)
        for line in cell.source.splitlines() if cell.cell_type == "markdown" else ():
            if line.startswith("#"):
                heading = line.lstrip("#").strip()
                assert heading not in found, f"two headings {heading!r}"
                found[heading] = []
    return found


def printed(cells: list[nbformat.NotebookNode]) -> str:
    return "".join(o.text for c in cells for o in c.outputs if o.output_type == "stream")


def text_after(cells: list[nbformat.NotebookNode], words: str) -> str:
    """What the cell printed whose source contains these words."""
    cell = next(c for c in cells if c.cell_type == "code" and words in c.source)
    return "".join(output.get("text", "") for output in cell.outputs)


def curves_of(cells: list[nbformat.NotebookNode], title: str) -> dict[str, list[float]]:
    """The numbers behind the picture with this title."""
    shown = next(
        output.data[CURVES]
        for cell in cells
        if cell.cell_type == "code" and title in cell.source
        for output in cell.outputs
        if CURVES in output.get("data", {})
    )
    return {name: [float(word) for word in words.split()] for name, words in shown.items()}
