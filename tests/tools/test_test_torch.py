"""tools/test_torch.py: what it installs, what it runs, and what it says of a version it can't have.

A stand-in for pip prints what pip prints. `make test-torch` itself is among the long tests.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import test_torch as tool
from install import VISION_OPS, InstallError
from test_install import make_environment

ROOT = Path(__file__).resolve().parents[2]
PYTEST = """
import os, pathlib, sys

pathlib.Path("tested").write_text(" ".join(sys.argv[1:]))
sys.exit(3)
"""


@pytest.fixture
def project(tmp_path):
    """A checkout with an environment for torch 2.15.0, in which pip, torch and pytest are fake."""
    tools = "tools/install.py", "tools/test_torch.py"
    for name in ("pyproject.toml", "constraints.txt", *tools, VISION_OPS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "tests/amp").mkdir(parents=True)
    (tmp_path / "tests/amp/test_policy.py").touch()
    (tmp_path / "manner").write_text("succeed")
    make_environment(tmp_path)
    (tmp_path / ".venvs").mkdir()
    (tmp_path / ".venv").rename(tmp_path / ".venvs" / "torch-2.15.0")
    packages = next(tmp_path.glob(".venvs/*/lib/python*/site-packages"))
    (packages / "torch.py").write_text("__version__ = '2.15.0+fake'")
    (packages / "pytest.py").write_text(PYTEST)
    return tmp_path


def run(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, project / "tools" / "test_torch.py", *words]
    return subprocess.run(command, cwd=project, capture_output=True, text=True)


@pytest.mark.slow
def test_it_installs_that_torch_and_runs_what_depends_on_it(project):
    first = run(project, "2.15.0")
    assert (first.returncode, first.stderr) == (3, "")  # what pytest says
    assert (
        "Installing torch 2.15.0 and what the tests need into .venvs/torch-2.15.0" in first.stdout
    )
    assert first.stdout.endswith("torch 2.15.0+fake\n")
    called = (project / "called").read_text()
    assert " install --progress-bar off torch==2.15.0 pytest>=" in called
    assert called.endswith("--editable .[course]")
    assert "models" not in called  # torchvision would ask for its own torch
    tested = (project / "tested").read_text().split()
    assert tested[-3:] == ["tests/amp/test_policy.py", "notebooks", "solutions"]


@pytest.mark.slow
def test_everything_else_is_pinned_as_ever(project):
    run(project, "2.15.0")
    pins = (project / ".venvs" / "torch-2.15.0" / "constraints.txt").read_text().splitlines()
    ours = (project / "constraints.txt").read_text().splitlines()
    assert [line for line in ours if line not in pins] == ["torch==2.13.0"]
    assert set(pins) < set(ours)


@pytest.mark.slow
def test_the_environment_is_used_again(project):
    run(project, "2.15.0")
    (project / "called").unlink()
    second = run(project, "2.15.0")
    assert second.stdout.startswith("Using .venvs/torch-2.15.0, which is up to date\n")
    assert not (project / "called").exists()


@pytest.mark.slow
def test_an_environment_may_be_a_link(project, tmp_path_factory):
    """It used to count as one that had moved, and was made again: 7 GB."""
    run(project, "2.15.0")
    disk = tmp_path_factory.mktemp("disk")
    link = project / ".venvs" / "torch-2.15.0"
    place = tool.TorchPlace(project, disk, "2.15.0")
    link.rename(place.venv)
    link.symlink_to(place.venv)
    place.note_ready("tests")  # it was made there
    assert "which is up to date" in run(project, "2.15").stdout


@pytest.mark.parametrize(
    ("asked", "tested"),
    [
        (["tests/amp/test_policy.py", "-x"], "tests/amp/test_policy.py -x"),
        (["-x"], "tests/amp/test_policy.py notebooks solutions -x"),
    ],
)
@pytest.mark.slow
def test_something_else_can_be_asked_for(project, asked, tested):
    run(project, "2.15.0", "--", *asked)
    assert (project / "tested").read_text().endswith(tested)


def test_a_version_that_does_not_exist_is_one_line(project):
    words = "ERROR: Could not find a version that satisfies the requirement torch==2.15.0 "
    (project / "manner").write_text(f"fail {words}(from versions: none, 2.13.0, 2.14.1)")
    done = run(project, "2.15.0")
    assert done.returncode == 1
    last = done.stdout.splitlines()[-1]
    assert "torch 2.15.0 doesn't exist for Python 3." in last
    assert last.endswith("there are: 2.13.0, 2.14.1")
    assert not (project / ".venvs" / "torch-2.15.0").exists()


@pytest.mark.slow
def test_another_failure_of_pip_names_its_log(project):
    (project / "manner").write_text("fail OSError: [Errno 28] No space left on device")
    done = run(project, "2.15.0")
    assert done.returncode == 1
    assert "make room on this disk" in done.stdout
    assert (project / ".venvs" / "torch-2.15.0" / "install.log").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Name a version of torch: make test-torch TORCH="),
        ("  ", "Name a version"),
        ("new", "'new' is not a version of torch"),
        ("2", "'2' is not a version"),
        ("2.15.0; rm", "is not a version"),
        ("1.13.1", r"doesn't support torch 1\.13\.1: pyproject\.toml asks for torch>=2\.\d+,<3"),
        ("3.0.0", "doesn't support torch 3.0.0"),
    ],
)
def test_what_is_no_version_is_one_line(text, message):
    with pytest.raises(InstallError, match=message):
        tool.read_version(text)


@pytest.mark.parametrize("text", ["2.13.0", " 2.15.0 ", "2.16.0rc1", "2.13.0+cpu"])
def test_a_version_is_taken_as_it_is(text):
    assert tool.read_version(text) == text.strip()


def test_a_version_without_its_last_number_shares_an_environment():
    assert tool.read_version("2.15") == "2.15.0"


def test_the_ends_of_the_range_are_those_of_pyproject():
    least, below = tool.supported()
    assert f'"torch>={least},<{below}"' in (ROOT / "pyproject.toml").read_text()
    assert tool.read_version(least) == f"{least}.0"


def test_what_it_runs_is_there():
    assert {"test_policy", "test_policy_record", "test_trace"} <= set(tool.TESTS)
    assert list(tool.TESTS) == sorted(tool.TESTS)
    assert [name for name in tool.TESTS if not list(ROOT.glob(f"tests/*/{name}.py"))] == []


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_the_newest_torch_passes():
    command = ["make", "test-torch", "TORCH=2.15.0", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]
