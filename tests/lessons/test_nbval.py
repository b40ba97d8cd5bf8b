"""nbval, as we configure it, refuses what it should: a lesson that drifts, fails or is outdated."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from outputs import CURVES

ROOT = Path(__file__).resolve().parents[2]
MARKED = "# NBVAL_CHECK_OUTPUT\n"


def picture(image: str, losses: str = "2 1", alt: str = "It falls.") -> dict[str, object]:
    """What a picture with a curve shows. The image is a word here, so that no torch is imported."""
    shown = f'<img src="data:image/png;base64,{image}" alt="{alt}">'
    curves = {CURVES: {"loss": losses}} if losses else {}
    return {"text/html": shown, "text/plain": f"Figure: {alt}"} | curves


def showing(data: dict[str, object]) -> str:
    return f"{MARKED}from IPython.display import display\ndisplay({data!r}, raw=True)"


SHOWN, BARE = showing(picture("AAAA")), showing(picture("AAAA", losses=""))
CASES = {
    "right": (f"{MARKED}print(1 + 1)", "2\n", "passed"),
    "changed_output": (f"{MARKED}print(1 + 1)", "3\n", "failed"),
    "silent": ("x = 1 + 1", "", "passed"),
    "not_silent_any_more": ("print(1 + 1)", "", "failed"),
    "raises": ("1 / 0", "", "failed"),
    "deprecated": ("import torch\nscaler = torch.cuda.amp.GradScaler()", "", "failed"),
    "other_bytes_same_curve": (SHOWN, picture("BBBB"), "passed"),
    "changed_curve": (SHOWN, picture("AAAA", losses="2 1.1"), "failed"),
    "changed_alt_text": (SHOWN, picture("AAAA", alt="It rises."), "failed"),
    "missing_curve": (BARE, picture("AAAA"), "failed"),
    "same_bytes_no_curve": (BARE, picture("AAAA", losses=""), "passed"),
    "other_bytes_no_curve": (BARE, picture("BBBB", losses=""), "failed"),
}


def stored(output: str | dict[str, object]) -> list[nbformat.NotebookNode]:
    if isinstance(output, dict):
        return [new_output("display_data", data=output)]
    return [new_output("stream", name="stdout", text=output)] if output else []


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> dict[str, str]:
    """One pytest run over a notebook with a cell for each case, with our own settings."""
    folder = tmp_path_factory.mktemp("nbval")
    (folder / "tests").mkdir()
    for name in (
        "pyproject.toml",
        "conftest.py",
        "tests/outputs.py",
        "tests/leftovers.py",
        "tests/warm_kernels.py",
    ):
        shutil.copy(ROOT / name, folder / name)
    cells = [
        new_code_cell(source, outputs=stored(output), execution_count=1)
        for source, output, _ in CASES.values()
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, folder / "cases.ipynb")
    command = [sys.executable, "-m", "pytest", "-rA", "--no-header", "-p", "no:cacheprovider"]
    run = subprocess.run([*command, "cases.ipynb"], cwd=folder, capture_output=True, text=True)
    found = re.findall(r"^(PASSED|FAILED|ERROR) cases\.ipynb::Cell (\d+)", run.stdout, re.MULTILINE)
    names = list(CASES)
    return {names[int(number)]: outcome.lower() for outcome, number in found}


@pytest.mark.parametrize("name", CASES)
def test_nbval_outcome(outcomes, name):
    assert outcomes[name] == CASES[name][2]
