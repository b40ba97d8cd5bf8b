"""Where a link may lead to in a page or a notebook."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import nbformat

from amp_lessons.core.catalogue import heading_anchor

ROOT = Path(__file__).resolve().parents[1]


def texts(path: str) -> tuple[list[str], list[str]]:
    """The Markdown of a notebook, and the HTML that its cells have stored."""
    cells = nbformat.read(ROOT / path, as_version=4).cells
    stored = [o.get("data", {}) for c in cells for o in c.get("outputs", [])]
    written = [c.source for c in cells if c.cell_type == "markdown"]
    written += [data["text/markdown"] for data in stored if "text/markdown" in data]
    return written, [data.get("text/html", "") for data in stored]


def anchors(path: str) -> set[str]:
    """The headings of a notebook, as JupyterLab names them."""
    lines = "\n".join(texts(path)[0]).splitlines()
    headings = [line.lstrip("#").strip() for line in lines if re.match(r"#{1,6} ", line)]
    return {unquote(heading_anchor(heading)) for heading in headings}
