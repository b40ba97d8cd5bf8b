"""The one JupyterLab of all browser tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab import Lab, running_lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab on a fresh workspace. `make test` gives these tests to one process, so that one
    server is started for them all."""
    folder: Path = tmp_path_factory.mktemp("learner")
    with running_lab(folder / "workspace", folder / "home") as lab:
        yield lab
