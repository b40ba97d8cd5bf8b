"""Driving a real JupyterLab: start it as a learner does, open notebooks, run cells, look."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pages
from playwright.sync_api import Browser, Locator, Page, TimeoutError
from waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = Path(os.environ.get("AMP_LESSONS_SCREENSHOTS", ROOT / "build" / "screenshots"))
WARM = f"""import sys
sys.path.append({str(ROOT / "tests")!r})
import pytest, warm_kernels
warm_kernels.start_warm(pytest.MonkeyPatch())
"""
CONNECTED = """path => {
  const shown = window.jupyterapp?.shell?.currentWidget;
  const kernel = shown?.sessionContext?.session?.kernel;
  const read = shown?.context?.isReady && shown.content.model?.cells.length > 0;
  return read && shown.context.path === path && kernel?.connectionStatus === "connected";
}"""
OUTPUTS = """() => {
  const cells = jupyterapp.shell.currentWidget.content.model.cells;
  const found = [];
  for (let i = 0; i < cells.length; i++) {
    const cell = cells.get(i);
    if (cell.type !== "code") continue;
    found.push({ source: cell.sharedModel.getSource(), outputs: cell.outputs.toJSON() });
  }
  return found;
}"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass(frozen=True)
class Lab:
    """A JupyterLab that runs: its address, and the folder that it shows."""

    address: str
    workspace: Path


@contextmanager
def running_lab(workspace: Path, home: Path) -> Iterator[Lab]:
    """`amp-lessons lab`, with nothing of this user's own Jupyter."""
    port = free_port()
    command = [sys.executable, "-m", "amp_lessons.app.cli", "lab", str(workspace)]
    command += ["--no-browser", "--port", str(port), "--"]
    command += ["--IdentityProvider.token=", "--LabApp.expose_app_in_browser=True"]
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    own = {name: str(home / name.lower()) for name in names} | {"AMP_LESSONS_HOME": str(home)}
    (home / "jupyter_config_dir").mkdir(parents=True, exist_ok=True)
    (home / "jupyter_config_dir" / "jupyter_server_config.py").write_text(WARM)
    log = home / "lab.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            command, env=os.environ | own, stdout=out, stderr=out, start_new_session=True
        )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: answers(f"{address}/api"), server, lambda: log.read_text()[-2000:])
        yield Lab(address, workspace)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def answers(address: str) -> bool:
    """Whether a server answers at an address, with whatever it says."""
    with suppress(OSError), urllib.request.urlopen(address):
        return True
    return False


class Notebook:
    """One notebook, open in JupyterLab in a page of its own."""

    def __init__(self, browser: Browser, address: str, path: str, **options: Any) -> None:
        viewport = {"width": 1280, "height": 900}
        self.context = browser.new_context(**({"viewport": viewport} | options))
        self.page: Page = self.context.new_page()
        self.page.goto(f"{address}/lab/tree/{path}?reset")
        self.page.wait_for_function(CONNECTED, arg=path)

    def turn_to(self, path: str, end_kernels: bool = True) -> None:
        """Close all that is open here, unsaved, and open another notebook in the same page, which
        saves the seconds that JupyterLab takes to load. The style sheets that our widgets brought
        along go too: what the next one needs it has to bring itself."""
        self.wait_for(
            """async ([path, endKernels]) => {
              const { commands, shell } = jupyterapp;
              for (const shown of [...shell.widgets("main")]) {
                if (endKernels) await shown.sessionContext?.shutdown();
                shown.dispose(); // to close it would ask what to do with the outputs
              }
              document.querySelectorAll("head style[id^='amp_lessons']").forEach(s => s.remove());
              await commands.execute("docmanager:open", { path });
            }""",
            [path, end_kernels],
        )
        self.page.wait_for_function(CONNECTED, arg=path)

    def come_to_rest(self) -> None:
        """Wait until the notebook has kept its place for 10 frames: JupyterLab scrolls, measures
        what has come into view, and scrolls again."""
        self.wait_for(
            """async () => {
              const { node } = jupyterapp.shell.currentWidget;
              const scrolled = node.querySelector(".jp-WindowedPanel-outer");
              for (let place = scrolled.scrollTop, still = 0; still < 10; still++) {
                await new Promise(requestAnimationFrame);
                if (scrolled.scrollTop !== place) [place, still] = [scrolled.scrollTop, 0];
              }
            }"""
        )

    def close(self) -> None:
        self.context.close()

    def wait_for(self, function: str, given: object = None) -> None:
        """Call an asynchronous JavaScript function with an argument, and wait for its end."""
        pages.wait_for(self.page, function, given)

    def execute(self, command: str, **arguments: object) -> None:
        """Let JupyterLab execute a command, and wait for its end."""
        execute = "([command, given]) => jupyterapp.commands.execute(command, given)"
        self.wait_for(execute, [command, arguments])

    def run_all(self) -> list[dict[str, Any]]:
        """Run every cell; give source and outputs of the code cells."""
        self.execute("notebook:run-all-cells")
        return self.page.evaluate(OUTPUTS)

    def run_until(self, text: str) -> None:
        """Run every cell down to the one whose source holds ``text``, and that one."""
        self._at(text, "notebook:run-all-above")
        self.run_cell(text)

    def _at(self, text: str, command: str) -> None:
        """Execute one of JupyterLab's commands at a cell, and wait for its end. The cell is made
        active in the same moment: a box that has just been drawn may have taken the focus."""
        self.cell(text)
        self.wait_for(
            """([index, command]) => {
              jupyterapp.shell.currentWidget.content.activeCellIndex = index;
              return jupyterapp.commands.execute(command);
            }""",
            [self.index_of(text), command],
        )

    def index_of(self, text: str) -> int:
        """The number of the first cell whose source holds ``text``."""
        found = self.page.evaluate(
            """text => {
              const cells = jupyterapp.shell.currentWidget.content.model.cells;
              for (let i = 0; i < cells.length; i++)
                if (cells.get(i).sharedModel.getSource().includes(text)) return i;
              return -1;
            }""",
            text,
        )
        assert found >= 0, f"no cell holds {text!r}"
        return found

    def cell(self, text: str) -> Locator:
        """The cell whose source holds ``text``, scrolled into view.

        JupyterLab takes a cell that is out of view out of the page. Outputs above that are still to
        be drawn can push it there after we scrolled, so we look until it has stayed for 10 frames.
        """
        index = self.index_of(text)
        self.wait_for(
            """async i => {
              const notebook = jupyterapp.shell.currentWidget.content;
              notebook.activeCellIndex = i;
              await notebook.scrollToItem(i, "start");
              for (let frames = 0; frames < 10; frames++) {
                await new Promise(requestAnimationFrame);
                if (notebook.widgets[i].node.isConnected) continue;
                await notebook.scrollToItem(i, "start");
                frames = 0;
              }
            }""",
            index,
        )
        return self.page.locator(f".jp-Notebook .jp-Cell[data-windowed-list-index='{index}']")

    def shown(self, text: str, selector: str) -> Locator:
        """What a cell shows for a CSS selector, as soon as it's to be seen. The cell is brought
        back into view as often as what is drawn above it pushes it out."""
        for _ in range(60):
            found = self.cell(text).locator(selector).first
            with suppress(TimeoutError):
                found.wait_for(timeout=5000)
                return found
        raise AssertionError(f"the cell with {text!r} shows no {selector} within 5 minutes")

    def type_into(self, text: str, source: str) -> None:
        """Replace a cell's source as a learner does: click into it, select all, type."""
        cell = self.cell(text)
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(source)

    def run_cell(self, text: str) -> None:
        """Run one cell and wait until it has finished."""
        self._at(text, "notebook:run-cell")

    def theme(self, name: str) -> None:
        self.execute("apputils:change-theme", theme=name)
        light = "true" if "Light" in name else "false"
        self.page.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{light}'")
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")


def save(target: Page | Locator, name: str) -> None:
    """Keep a screenshot, for people to look at."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    target.screenshot(path=SCREENSHOTS / f"{name}.png")
