"""What all tests share: a progress file of their own, and the counts in the closing lines."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import nbformat
import nbval.kernel
import pytest
import warm_kernels
from jupyter_core.utils import ensure_event_loop
from nbval.plugin import IPyNbCell
from outputs import Output, settled
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parent
pytest_plugins = ["leftovers"]


def pytest_configure(config: pytest.Config) -> None:
    """Keep the notebooks that nbval runs away from the progress of the person who tests, and look
    for garbage more rarely: among all that tests load, that takes a tenth of the time."""
    gc.set_threshold(100_000, 20, 50)
    folder = tempfile.TemporaryDirectory(prefix="amp-lessons-tests-")
    config.add_cleanup(folder.cleanup)
    os.environ["AMP_LESSONS_HOME"] = folder.name
    config.add_cleanup(ensure_event_loop().close)  # the one in which nbval talks to its kernels


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Start nbval's kernels with warnings of deprecation as errors: a lesson must not teach what
    is on its way out."""
    if item.path.suffix != ".ipynb":
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONWARNINGS", "error::DeprecationWarning,error::FutureWarning")
        warm_kernels.start_warm(patch)
        # nbval opens a null device for a kernel's errors, and leaves it open.
        patch.setattr(nbval.kernel, "open", lambda *_: subprocess.DEVNULL, raising=False)
        return (yield)


class InOneLab(LoadScopeScheduling):
    """xdist's way to hand out whole files, with all browser tests as one: they share a server."""

    def _split_scope(self, nodeid: str) -> str:
        browser = "tests/browser/"
        return browser if nodeid.startswith(browser) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> InOneLab | None:
    return InOneLab(config, log) if config.getoption("dist") == "loadscope" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a name with an address in it: it is another one in each process, and xdist, which
    compares the names, runs no test at all then."""
    if named := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"give this test ids, for its own hold an address: {named[0]}")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Have nbval compare a picture that brings its numbers by them, and the rest as it does; and
    let it wait for what a cell has shown, which takes a busy machine longer than its 5 seconds."""
    if isinstance(item, IPyNbCell):
        item.compare_outputs = partial(compare_outputs, item)
        item.output_timeout = 120


def compare_outputs(cell: IPyNbCell, shown: list[Output], stored: list[Output]) -> bool:
    try:
        shown = [nbformat.from_dict(output) for output in settled(shown, stored)]
    except AssertionError as difference:
        cell.comparison_traceback = [str(difference)]
        return False
    return IPyNbCell.compare_outputs(cell, shown, stored)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """nbval compares what is stored; a cell that is stored with nothing has to stay silent too."""
    result = yield
    if item.path.suffix == ".ipynb":
        silent = not item.cell.outputs and "live" not in item.cell.metadata.get("tags", [])
        if silent and item.test_outputs:
            pytest.fail(f"a cell that was silent shows something:\n{item.cell.source}")
    return result


@pytest.fixture(autouse=True)
def own_progress_file(tmp_path, monkeypatch):
    """No test reads or writes the progress of the person who runs it."""
    monkeypatch.setenv("AMP_LESSONS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def checked_cells() -> int:
    """Cells with stored output that nbval compares."""
    count = 0
    for folder in ("notebooks", "solutions"):
        for path in (ROOT / folder).rglob("*.ipynb"):
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
                marked = "NBVAL_CHECK_OUTPUT" in "".join(cell["source"])
                marked |= "nbval-check-output" in cell["metadata"].get("tags", [])
                count += bool(marked and cell.get("outputs"))
    return count


def pytest_terminal_summary(terminalreporter) -> None:
    """Say what was proved, so that a run that tested nothing cannot look like a good one."""
    reports = terminalreporter.stats
    passed = [report.nodeid for report in reports.get("passed", [])]
    # What a test has recorded with `record_property`, over all tests, failed ones too.
    ended = [report for outcome in ("passed", "failed") for report in reports.get(outcome, [])]
    proved: Counter[str] = Counter()
    for name, count in (each for report in ended for each in report.user_properties):
        proved[name] += count if isinstance(count, int) else 0

    def in_browser(outcome: str) -> int:
        return sum("browser" in report.keywords for report in reports.get(outcome, []))

    write = terminalreporter.write_line
    notebooks = {node.split("::")[0] for node in passed if ".ipynb::" in node}
    lessons = sum(name.startswith("notebooks/") for name in notebooks)
    write(f"lessons run:            {lessons}, and {len(notebooks) - lessons} solution notebooks")
    write(f"checked cells:          {checked_cells()} with stored output")
    for what in ("exercises proved", "right answers", "wrong answers", "questions proved"):
        write(f"{what + ':':<23} {proved[what]}")
    write(f"browser tests passed:   {in_browser('passed')}, skipped: {in_browser('skipped')}")
