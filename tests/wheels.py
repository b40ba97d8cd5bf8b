"""The wheel of this checkout, for the tests that install it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def pip(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, cwd=cwd)


def built_wheel(folder: Path) -> Path:
    """The wheel of this checkout. Without hatchling in the environment, pip has to fetch it."""
    isolation = ["--no-build-isolation"] if find_spec("hatchling") else []
    built = pip("wheel", "--no-deps", *isolation, "--wheel-dir", folder, ROOT, cwd=folder)
    if built.returncode and "connection broken by" in built.stderr:
        pytest.skip("hatchling is not installed, and there is no network to fetch it from")
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("amp_lessons-*.whl")
    return path
