"""Both widgets in a real JupyterLab: its shortcuts, its themes, and the way back to Python."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

CELLS = [
    "from amp_lessons.widgets import BitExplorer, GradientHistogram\n"
    "explorer = BitExplorer(0.1)\n"
    "explorer",
    "import torch\n"
    "histogram = GradientHistogram(torch.tensor([1e-3, 1e-6, 1e-9, 0]), scale=65536)\n"
    "histogram",
    "print(explorer.value, explorer.format, hex(explorer.code), histogram.scale_exponent)",
    "explorer.format = 'FP8 E4M3'; explorer.value = float('inf'); histogram.format = 'BF16'",
]
CONNECTED = (
    "() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel"
    "?.connectionStatus === 'connected'"
)


def notebook() -> dict[str, Any]:
    cells = [
        {
            "cell_type": "code",
            "id": f"cell-{i}",
            "metadata": {},
            "source": source,
            "outputs": [],
            "execution_count": None,
        }
        for i, source in enumerate(CELLS)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """The address of the notebook in a JupyterLab of its own."""
    (tmp_path / "widgets.ipynb").write_text(json.dumps(notebook()), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", f"--port={port}"]
    command += ["--ServerApp.port_retries=0", "--IdentityProvider.token=", "--allow-root"]
    command += [f"--ServerApp.root_dir={tmp_path}", "--LabApp.expose_app_in_browser=True"]
    log = tmp_path / "lab.log"
    with log.open("w") as out:
        server = subprocess.Popen(command, env=os.environ | own, stdout=out, stderr=out)
    try:
        wait_for(f"http://127.0.0.1:{port}/api", server, log)
        yield f"http://127.0.0.1:{port}/lab/tree/widgets.ipynb"
    finally:
        server.terminate()
        server.wait(timeout=20)


def wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and server.poll() is None:
        try:
            urllib.request.urlopen(address).close()
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")


def run_cell(page: Any, index: int) -> None:
    """Run a cell and wait until its prompt shows a new number."""
    page.evaluate("i => { jupyterapp.shell.currentWidget.content.activeCellIndex = i }", index)
    prompt = page.locator(".jp-InputPrompt").nth(index).element_handle()
    before = prompt.text_content()
    page.evaluate("() => jupyterapp.commands.execute('notebook:run-cell')")
    page.wait_for_function(
        "([e, before]) => /\\d/.test(e.textContent) && e.textContent !== before",
        arg=[prompt, before],
    )


def what_python_reads(page: Any, expected: str) -> str:
    """What the third cell prints. A widget sends its next change when the last one has arrived,
    so a cell that is run within milliseconds may still read the one before."""
    for _ in range(5):
        run_cell(page, 2)
        text = page.locator(".jp-OutputArea-output pre").last.inner_text().strip()
        if text == expected:
            break
        page.wait_for_timeout(300)
    return text


def widget_problems(page: Any) -> list[str]:
    response = Axe().run(page, context=".amp-widget").response
    assert response["passes"], "axe checked nothing"
    return [f"{v['id']}: {v['nodes'][0]['html'][:160]}" for v in response["violations"]]


@pytest.mark.browser
def test_both_widgets(chromium: Any, lab: str) -> None:
    # The system prefers dark and JupyterLab starts light: the widgets must follow JupyterLab.
    context = chromium.new_context(color_scheme="dark", viewport={"width": 1300, "height": 1500})
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(lab)
    page.wait_for_function(CONNECTED)
    run_cell(page, 0)
    run_cell(page, 1)
    page.wait_for_selector(".amp-exact")
    page.wait_for_selector(".amp-picture")

    bit = page.get_by_role("button", name="mantissa bit 0")
    bit.focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert bit.get_attribute("aria-label") == "mantissa bit 0, value 1"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")
    assert page.locator(".amp-exact").inner_text() == "0.09991455078125"

    value = page.get_by_label("Value", exact=True)
    value.focus()
    for text, complaint in (("a third", "“a third” is not a number"), ("1e-3", "")):
        page.keyboard.press("Control+A")
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        assert page.locator(".amp-error").inner_text().startswith(complaint)
    slider = page.get_by_role("slider", name="Loss scale")
    slider.focus()
    for key in ("ArrowRight", "ArrowUp", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    assert slider.get_attribute("aria-valuetext") == "scale 2^18 = 262144"

    assert what_python_reads(page, "0.001 FP16 0x1419 18") == "0.001 FP16 0x1419 18"
    run_cell(page, 3)
    page.wait_for_function("() => document.querySelector('.amp-exact').textContent === 'NaN'")
    assert page.get_by_label("Format").nth(1).input_value() == "BF16"

    card = page.locator(".amp-card").first
    title, count = (card.locator(part).bounding_box() for part in ("dt", ".amp-count"))
    assert title["y"] + title["height"] <= count["y"], "JupyterLab's own style of lists shows"
    assert ground(page) > 600, "JupyterLab is light, so the widgets are"
    assert widget_problems(page) == []
    dark = "jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })"
    page.evaluate(dark)
    page.wait_for_function("() => document.body.dataset.jpThemeLight === 'false'")
    page.wait_for_function(f"() => ({GROUND})() < 200")
    assert widget_problems(page) == []
    context.close()


# The red, green and blue of the widget's ground, added up.
GROUND = """() => {
  const colour = getComputedStyle(document.querySelector(".amp-widget")).backgroundColor;
  return colour.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
}"""


def ground(page: Any) -> int:
    return page.evaluate(GROUND)
