"""The one JupyterLab of all browser tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab import Lab, Notebook, running_lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab on a fresh workspace. `make test` gives these tests to one process, so that one
    server is started for them all."""
    folder: Path = tmp_path_factory.mktemp("learner")
    with running_lab(folder / "workspace", folder / "home") as lab:
        yield lab


@pytest.fixture
def open_notebook(chromium, lab) -> Iterator[Callable[..., Notebook]]:
    """Opens a notebook in JupyterLab, in a page of its own that is closed at the end."""
    opened: list[Notebook] = []

    def open_(path: str, **options: object) -> Notebook:
        opened.append(Notebook(chromium, lab.address, path, **options))
        return opened[-1]

    yield open_
    for notebook in opened:
        notebook.close()
