"""The code cells of a stored notebook by the headings above them, for the tests of its parts."""

from __future__ import annotations

import nbformat

from amp_lessons.core.ipynb import is_set_up

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
