"""The widgets of the notebooks on a page: the same modules, with recorded values and no Python.

What a widget starts with is in `recorded/`, by the cell that shows it; `tools/record_widgets.py`
writes that. `widgets.mjs` mounts the module. What needs Python says so in a sentence below.
"""

from __future__ import annotations

import html
import json
from functools import cache
from pathlib import Path
from typing import Any

from amp_lessons.lessons.widgets import MODULES

RECORDED = Path(__file__).parent / "recorded"

NEEDS_PYTHON = {
    "LossScaleLab": "These are recorded runs. To train one yourself, open the notebook in Jupyter.",
    "ScalerLab": "The real GradScaler was recorded for these settings. Change them, and only the "
    "simulator answers. In Jupyter, a real GradScaler runs each time.",
    "AutocastSteps": "The steps are those of a small model. In Jupyter, you can give it your own.",
    "OrderTheCalls": "The usual order is recorded here, and each order that is one move away. "
    "In Jupyter, every order runs.",
    "PolicyBrowser": "These are the answers of torch {torch}. In Jupyter, it asks your own torch.",
    "GradientHistogram": "These are the gradients of one network. In Jupyter, you can draw others.",
}
"""What a widget can't do without Python."""


@cache
def recorded() -> dict[str, Any]:
    """What each widget's cell starts with: its name, its values, and the file of its data."""
    return json.loads((RECORDED / "widgets.json").read_text(encoding="utf-8"))


def place(cell: str, to_root: str) -> str:
    """The place of a cell's widget on a page, with a sentence for readers without JavaScript.

    Args:
        cell: the notebook's path and the cell's id, as `key` gives them.
        to_root: the way from the page to the root of the site, such as ``"../"``.
    """
    return _place(cell, to_root, {})


def _place(cell: str, to_root: str, changed: dict[str, Any]) -> str:
    found = recorded()[cell]
    name = found["widget"]
    said = NEEDS_PYTHON.get(name, "").format(torch=found.get("torch", ""))
    files = [f"{to_root}data/{each}" for each in found["data"]]
    given = {"values": found["values"] | changed, "data": files}
    text = html.escape(json.dumps(given, separators=(",", ":")), quote=True)
    note = f'<p class="without-kernel">{html.escape(said)}</p>' if said else ""
    return (
        f'<div class="live" data-widget="{MODULES[name]}" data-given="{text}">'
        "<noscript><p>This widget needs JavaScript.</p></noscript></div>"
        f"{note}"
    )


def key(notebook: str, cell: str) -> str:
    """Names a widget's cell in the record."""
    return f"{notebook}#{cell}"


def lab(to_root: str) -> str:
    """The loss scale lab of the front page: ready to drag, without its questions."""
    cell = next(cell for cell, found in recorded().items() if found["widget"] == "LossScaleLab")
    return _place(cell, to_root, {"stage": "live"})
