"""Record what each widget of the notebooks starts with, for the site: `tools/website/recorded/`.

Run it when a widget, its cell or what it shows has changed. It takes some minutes, most of them for
the orders of calls. A widget's cell runs alone where that works. Otherwise the cells above it run
first, but not those that ask.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import torch
from website import cells
from website.widgets import RECORDED, key

from amp_lessons.core.catalogue import LESSONS

ROOT = Path(__file__).resolve().parent.parent
OF_JUPYTER = {"layout", "tabbable", "tooltip", "_esm", "_css", "_anywidget_id", "_dom_classes"}
ELSEWHERE = {"LossScaleLab"}
"""Widgets whose data the package keeps as a file already."""


def main() -> None:
    RECORDED.mkdir(exist_ok=True)
    made = record()
    for path in RECORDED.glob("*.json"):
        if path.name not in made and path.name != "wrong_answers.json":
            path.unlink()
    for name, text in made.items():
        (RECORDED / name).write_text(text, encoding="utf-8")
        print(f"{name}: {len(text):,} characters")


def record(only: set[str] | None = None, alone: bool = False) -> dict[str, str]:
    """The files, by name: ``widgets.json``, and one for the data of each widget.

    Args:
        only: names of widgets, to leave the others out. All of them by default.
        alone: leave out the cells that need others before them.
    """
    index: dict[str, Any] = {}
    files: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AMP_LESSONS_HOME"] = folder
        for notebook, cell, name, source, above in widget_cells():
            if only is not None and name not in only:
                continue
            widget = made_by(source, None if alone else above)
            if widget is None:
                continue
            values = plain_values(widget)
            data = values.pop("data", None)
            if name == "AutocastSteps":
                values, data = {}, autocast_steps()
            if name == "OrderTheCalls":
                data = {"data": data, "results": order_results(widget)}
                values = {}
            entry: dict[str, Any] = {"widget": name, "values": values, "data": []}
            if name == "PolicyBrowser":
                entry["torch"] = torch.__version__
            if name in ELSEWHERE:
                entry["data"] = ["loss_scale.json"]
            elif data is not None:
                file = f"{Path(notebook).stem.partition('_')[2]}_{name}.json"
                files[file] = as_text(data)
                entry["data"] = [file]
            index[key(notebook, cell)] = entry
    files["widgets.json"] = json.dumps(index, indent=1, ensure_ascii=False) + "\n"
    return files


def as_text(data: Any) -> str:
    """Compact, since readers load it, with a line for each top-level part."""
    if not isinstance(data, dict):
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n"
    parts = (
        f"{json.dumps(name)}:{json.dumps(value, ensure_ascii=False, separators=(',', ':'))}"
        for name, value in data.items()
    )
    return "{" + ",\n".join(parts) + "}\n"


def widget_cells() -> Iterator[tuple[str, str, str, str, list[str]]]:
    """Notebook, cell, widget, source, and the sources of the cells above it."""
    for lesson in LESSONS:
        for path in (lesson.notebook, *([lesson.deep_notebook] if lesson.deep else [])):
            above: list[str] = []
            for cell in nbformat.read(ROOT / path, as_version=4).cells:
                tags = cell.metadata.get("tags", [])
                if cell.cell_type != "code" or "setup" in tags or "question" in tags:
                    continue
                if name := cells.widget_in(cell.source):
                    yield path, cell.id, name, cell.source, list(above)
                elif "live" not in tags:
                    above.append(cell.source)


def made_by(source: str, above: list[str] | None) -> Any:
    """The widget that a cell makes, after those above it if it needs them; or None without them."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            return _run(source, {"__name__": "recorded"})
        except NameError:
            if above is None:
                return None
            namespace: dict[str, Any] = {"__name__": "recorded"}
            for each in above:
                _run(each, namespace)
            return _run(source, namespace)


def _run(source: str, namespace: dict[str, Any]) -> Any:
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), namespace)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)


def plain_values(widget: Any) -> dict[str, Any]:
    """The values of a widget's own traits, as its page gets them."""
    state = widget.get_state()
    return {
        name: value
        for name, value in state.items()
        if name not in OF_JUPYTER and not name.startswith("_")
    }


def autocast_steps() -> dict[str, Any]:
    """Every step of the small model with its answer, for both devices and both dtypes."""
    from dataclasses import asdict

    from amp_lessons.lessons.widgets.autocast_steps import DTYPES, AutocastSteps

    found: dict[str, Any] = {"torch": torch.__version__, "rules": {}}
    for device in ("cuda", "cpu"):
        for dtype in DTYPES:
            widget = AutocastSteps(device=device, dtype=dtype)
            found["model"] = widget.view["model"]
            found["rules"][f"{device} {dtype}"] = {
                "options": widget.view["options"],
                "steps": [asdict(step) for step in widget.steps],
            }
    return found


def order_results(widget: Any) -> list[dict[str, Any]]:
    """What comes of the usual order, of each order one move away from it, and of the first one."""
    from amp_lessons.lessons import call_order
    from amp_lessons.lessons.widgets.order_calls import plain_result

    wanted = [call_order.USUAL.as_dict(), *one_move_from(call_order.USUAL.as_dict()), widget.order]
    known: dict[str, dict[str, Any]] = {}
    for order in wanted:
        name = json.dumps(order)
        if name not in known:
            known[name] = plain_result(call_order.run_order(call_order.read_order(order)))
    return list(known.values())


def one_move_from(order: dict[str, list[str]]) -> Iterator[dict[str, list[str]]]:
    """Each order in which one card lies at another place, or is left out."""
    for card in [each for zone in order.values() for each in zone]:
        without = {zone: [each for each in there if each != card] for zone, there in order.items()}
        yield without
        for zone, there in without.items():
            for place in range(len(there) + 1):
                yield without | {zone: [*there[:place], card, *there[place:]]}


if __name__ == "__main__":
    sys.exit(main())
