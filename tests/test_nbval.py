"""nbval, as we configure it, refuses what it should: a lesson that drifts, fails or is outdated."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parent.parent
CASES = {
    "right": ("# NBVAL_CHECK_OUTPUT\nprint(1 + 1)", "2\n", "passed"),
    "changed_output": ("# NBVAL_CHECK_OUTPUT\nprint(1 + 1)", "3\n", "failed"),
    "silent": ("x = 1 + 1", "", "passed"),
    "not_silent_any_more": ("print(1 + 1)", "", "failed"),
    "raises": ("1 / 0", "", "failed"),
    "deprecated": ("import torch\nscaler = torch.cuda.amp.GradScaler()", "", "failed"),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> dict[str, str]:
    """One pytest run over a notebook for each case, with our own settings."""
    folder = tmp_path_factory.mktemp("nbval")
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copy(ROOT / "conftest.py", folder)
    for name, (source, text, _) in CASES.items():
        outputs = [new_output("stream", name="stdout", text=text)] if text else []
        cell = new_code_cell(source, outputs=outputs, execution_count=1)
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = new_notebook(cells=[cell], metadata={"kernelspec": kernel})
        nbformat.write(notebook, folder / f"{name}.ipynb")
    command = [sys.executable, "-m", "pytest", "-rA", "--no-header", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, *(f"{name}.ipynb" for name in CASES)],
        cwd=folder,
        env=os.environ,
        capture_output=True,
        text=True,
    )
    found = re.findall(r"^(PASSED|FAILED|ERROR) (\w+)\.ipynb::Cell 0", run.stdout, re.MULTILINE)
    return {name: outcome.lower() for outcome, name in found}


@pytest.mark.parametrize("name", CASES)
def test_nbval_outcome(outcomes, name):
    assert outcomes[name] == CASES[name][2]
