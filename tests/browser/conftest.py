"""The one JupyterLab of all browser tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab import Lab, Notebook, running_lab

from amp_lessons.app.workspace import START_PAGE


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab on a fresh workspace. `make test` gives these tests to one process, so that one
    server is started for them all."""
    folder: Path = tmp_path_factory.mktemp("learner")
    with running_lab(folder / "workspace", folder / "home") as lab:
        yield lab


@pytest.fixture(scope="session")
def reader(chromium, lab) -> Iterator[Notebook]:
    """A page of JupyterLab in which one notebook is read after the other."""
    notebook = Notebook(chromium, lab.address, START_PAGE)
    yield notebook
    notebook.close()


@pytest.fixture
def open_notebook(reader) -> Callable[[str], Notebook]:
    """Opens a notebook alone in the one page, as its file has it. Its kernel runs on from an
    earlier test, as it does for a learner who closes a tab and comes back."""

    def open_(path: str) -> Notebook:
        reader.turn_to(path, end_kernels=False)
        return reader

    return open_
