"""Joining ES modules into the one text that a notebook needs; importing only what is asked for."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pages
import pytest
import torch

from amp_lessons.core.es_modules import join_modules
from amp_lessons.lessons.widgets import (
    AutocastSteps,
    BitExplorer,
    BlockExplorer,
    ErrorLookup,
    GradientHistogram,
    LossScaleLab,
    MemoryCalculator,
    OrderTheCalls,
    PolicyBrowser,
    PublishedExplorer,
    RooflineExplorer,
    ScalerLab,
    WholeLoop,
)
from amp_lessons.lessons.widgets.files import FOLDERS, STATIC, module

ENTRIES = [
    "autocast_steps",
    "bit_explorer",
    "block_explorer",
    "error_lookup",
    "gradient_histogram",
    "loss_scale_lab",
    "memory_calculator",
    "order_calls",
    "policy_browser",
    "published_explorer",
    "roofline_explorer",
    "scaler_lab",
    "whole_loop",
]
ENTRIES = [f"{name}.mjs" for name in ENTRIES]


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_joined_widget_imports_nothing(entry: str) -> None:
    text = module(entry)
    assert not re.search(r"^\s*import\b|\bimport\(|\bfetch\(|https?://(?!www\.w3\.org)", text, re.M)
    assert re.findall(r"^export .*", text, re.M) == ["export default { render };"]
    assert text.count("export function") == 0


def test_a_module_is_joined_once_and_after_what_it_needs(tmp_path: Path) -> None:
    write(tmp_path, "base.mjs", "export const one = 1;\n")
    write(tmp_path, "left.mjs", 'import { one } from "./base.mjs";\nexport const two = one + 1;\n')
    imports = 'import { one } from "./base.mjs";\nimport {\n  two,\n} from "./left.mjs";\n'
    write(tmp_path, "top.mjs", imports + "use(one, two);\n")
    joined = join_modules("top.mjs", tmp_path)
    assert joined == "const one = 1;\n\nconst two = one + 1;\n\nuse(one, two);\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('import { one as two } from "./base.mjs";\n', "renames"),
        ('import * as base from "./base.mjs";\n', "cannot join"),
        ('import "https://example.com/x.mjs";\n', "cannot join"),
        ('const base = await import("./base.mjs");\n', "cannot join"),
        (
            'import { one } from "./base.mjs";\nfunction one() {}\n',
            "two of the joined modules: one",
        ),
    ],
)
def test_what_cannot_be_joined_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    write(tmp_path, "base.mjs", "export const one = 1;\n")
    write(tmp_path, "top.mjs", text)
    with pytest.raises(ValueError, match=complaint):
        join_modules("top.mjs", tmp_path)


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.browser
@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (AutocastSteps, ()),
        (BitExplorer, (0.1,)),
        (BlockExplorer, ()),
        (ErrorLookup, ()),
        (GradientHistogram, (torch.ones(2),)),
        (LossScaleLab, ()),
        (MemoryCalculator, ()),
        (OrderTheCalls, ()),
        (PolicyBrowser, ()),
        (PublishedExplorer, ()),
        (RooflineExplorer, ()),
        (ScalerLab, ()),
        (WholeLoop, ()),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_joined_widget_runs_from_a_blob(
    open_page: Callable[..., Any], kind: type, arguments: tuple
) -> None:
    """As in a notebook: the text as a blob, and Python's own state in the model."""
    widget: Any = kind(*arguments)
    page = open_page()
    state = {name: value for name, value in widget.get_state().items() if name[0] != "_"}
    for heavy in ("layout", "tabbable", "tooltip"):
        state.pop(heavy, None)
    listening = pages.value_of(
        page,
        """async ([text, state]) => {
          let listeners = 0;
          const model = {
            get: (name) => state[name],
            on: () => (listeners += 1),
            off: () => (listeners -= 1),
          };
          const blob = new Blob([text], { type: "text/javascript" });
          const module = await import(URL.createObjectURL(blob));
          const stop = module.default.render({ model, el: document.getElementById("widget") });
          const during = listeners;
          stop();
          return [Object.keys(module).join(), during > 0, listeners];
        }""",
        [widget._esm, state],
    )
    assert listening == ["default", True, 0]
    assert page.locator(".amp-widget").count() == 1


def test_no_page_names_another_machine() -> None:
    pages = [path for folder in FOLDERS for path in folder.glob("*.*s*")]
    pages += STATIC.glob("*.html")
    assert len(pages) >= 6
    for page in pages:
        text = page.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|@import|url\(['\"]?//", text), page.name


@pytest.mark.parametrize(
    "widget",
    [
        "BitExplorer",
        "BlockExplorer",
        "ErrorLookup",
        "LossScaleLab",
        "PublishedExplorer",
        "RooflineExplorer",
    ],
)
def test_it_does_not_need_torch(widget: str) -> None:
    code = f"import sys; from amp_lessons.lessons.widgets import {widget}; "
    code += "print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_an_unknown_widget() -> None:
    import amp_lessons.lessons.widgets

    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = amp_lessons.lessons.widgets.Nothing
