"""tools/install.py: what a person sees during the first two minutes, and what survives Ctrl+C.

A stand-in for pip prints what pip prints, as fast or as slowly as a test needs.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent
PIP = """
import os, pathlib, sys, time

if "install" in sys.argv:
    manner = pathlib.Path("manner").read_text().strip()
    pathlib.Path("called").write_text(" ".join(sys.argv[1:]))
    pathlib.Path("pid").write_text(str(os.getpid()))
    print("WARNING: Location 'somewhere' is ignored: it is not a folder.", file=sys.stderr)
    print("Collecting torch==2.13.0 (from amp-lessons==0.1.0)")
    print("  Downloading torch-2.13.0-cp311-cp311-linux_x86_64.whl (190.5 MB)")
    if manner == "hang":
        pathlib.Path("hanging").touch()
        time.sleep(600)
    if manner.startswith("fail"):
        print(manner.partition(" ")[2])
        print("ERROR: No matching distribution found for torch==2.13.0")
        print("ERROR: ResolutionImpossible: for help visit some page")
        sys.exit(1)
    print("Installing collected packages: torch, numpy")
"""


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install", ROOT / "tools" / "install.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


install = load()


@pytest.fixture
def project(tmp_path):
    """A checkout with a virtual environment in which the stand-in is pip."""
    for name in ("pyproject.toml", "constraints.txt", "tools/install.py", install.VISION_OPS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "manner").write_text("succeed")
    make_environment(tmp_path)
    return tmp_path


def make_environment(project: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", "--symlinks", project / ".venv"],
        check=True,
    )
    packages = next(project.glob(".venv/lib/python*/site-packages"))
    (packages / "pip").mkdir()
    (packages / "pip" / "__init__.py").touch()
    (packages / "pip" / "__main__.py").write_text(PIP)


def run(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, project / "tools" / "install.py", *words]
    return subprocess.run(command, capture_output=True, text=True)


def test_it_says_what_it_does_and_then_has_nothing_to_do(project):
    first = run(project)
    assert (first.returncode, first.stderr) == (0, "")
    assert "usually 1 to 3 minutes" in first.stdout
    assert "WARNING" not in first.stdout
    assert max(map(len, first.stdout.splitlines())) <= 80
    called = (project / "called").read_text()
    assert called.startswith("--disable-pip-version-check --no-input install ")
    assert called.endswith("--constraint constraints.txt --editable .")
    assert "WARNING" in (project / ".venv" / "install.log").read_text()
    (project / "called").unlink()
    second = run(project)
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert not (project / "called").exists()


def test_what_the_tests_need_includes_what_the_course_needs(project):
    assert run(project, "tests").returncode == 0
    assert (project / "called").read_text().endswith("--editable .[tests]")
    assert run(project, "lab").stdout == ""
    (project / ".venv" / ".tests").unlink()
    assert "what the tests need" in run(project, "tests").stdout


def test_only_the_environment_of_the_tests_gets_the_repair_of_torchvision(project):
    run(project)
    assert not list(project.glob(".venv/**/*vision_ops*"))
    run(project, "tests")
    repaired = next(project.glob(".venv/**/amp_lessons_vision_ops.pth"))
    asked = "import sys; print(any('DeclaresOps' in str(finder) for finder in sys.meta_path))"
    python = project / ".venv" / "bin" / "python"
    done = subprocess.run([python, "-c", asked], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")
    assert run(project, "tests").stdout == ""
    repaired.unlink()
    assert "Installed" in run(project, "tests").stdout
    assert repaired.exists()


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_changed_requirements_are_installed(project, name):
    run(project)
    with (project / name).open("a") as file:
        file.write("# changed\n")
    assert "up to date" in run(project).stdout
    assert run(project).stdout == ""


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_broken_note_of_what_is_installed_counts_as_none(project, content):
    run(project)
    (project / ".venv" / ".lab").write_text(content)
    assert "Installed" in run(project).stdout
    assert run(project).stdout == ""


# ---- interrupted --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopped_during_pip(project, number):
    (project / "manner").write_text("hang")

    def heed() -> None:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_DFL)

    process = subprocess.Popen(
        [sys.executable, project / "tools" / "install.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed,
    )
    wait_until((project / "hanging").exists, process)
    process.send_signal(number)
    out, errors = process.communicate()
    assert (process.returncode, errors) == (128 + number, "")
    assert out.splitlines()[-1].startswith("Stopped. Run the same command again")
    with pytest.raises(ProcessLookupError):
        os.kill(int((project / "pid").read_text()), 0)
    assert not (project / ".venv" / "tmp").exists()
    (project / "manner").write_text("succeed")
    assert run(project).returncode == 0
    assert run(project).stdout == ""


def distribution(packages: Path, name: str, record: str | None) -> Path:
    folder = packages / f"{name}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    if record is not None:
        (folder / "RECORD").write_text(record)
    return folder


def test_packages_that_pip_left_half_installed_are_installed_again(project):
    run(project)
    packages = next(project.glob(".venv/lib/python*/site-packages"))
    whole = distribution(packages, "whole", "whole.py,,\nwhole-1.0.dist-info/INSTALLER,sha256=x,4")
    half = [distribution(packages, "half", "half.py,,\n"), distribution(packages, "bare", None)]
    (packages / "~orch").mkdir()
    (project / ".venv" / ".lab").unlink()
    (project / ".venv" / ".unfinished").touch()
    assert run(project).returncode == 0
    assert whole.exists()
    assert not any(each.exists() for each in (*half, packages / "~orch"))
    assert not (project / ".venv" / ".unfinished").exists()


def place_of(project: Path) -> install.Place:
    return install.Place(project, project / ".venv")


def test_an_environment_without_pip_is_made_again(project):
    """What an interrupted `python -m venv` leaves: a link to Python, and no pip."""
    shutil.rmtree(next(project.glob(".venv/lib/python*/site-packages/pip")))
    place = place_of(project)
    reason = place.trouble()
    assert reason == ".venv is not complete"
    with install.Signals() as signals:
        install.make_environment(place, reason, signals)
    assert place.trouble() is None
    assert list(place.packages().glob("pip-*.dist-info")), "the real pip, from ensurepip"


def test_when_an_environment_has_to_be_made_again(project, tmp_path_factory):
    place = place_of(project)
    assert place.trouble() is None
    assert run(project).returncode == 0
    moved = tmp_path_factory.mktemp("moved") / "here"
    shutil.copytree(project, moved, symlinks=True)
    assert place_of(moved).trouble() == "This folder has moved"
    assert not place_of(moved).is_ready("lab")
    place.python.unlink()
    place.python.symlink_to("/nowhere/python")
    assert "Python of .venv has changed" in place.trouble()
    (place.venv / ".lab").unlink()
    assert "no Python that runs" in place.trouble()
    shutil.rmtree(place.venv)
    assert place.trouble() == ""


def test_two_at_once_take_turns(project):
    with install.Signals() as signals, install.OneAtATime(project, signals):
        second = subprocess.Popen(
            [sys.executable, project / "tools" / "install.py"], stdout=subprocess.PIPE, text=True
        )
        assert second.stdout.readline().startswith("Another make is installing")
        assert not (project / "called").exists()
    second.communicate()
    assert second.returncode == 0
    assert (project / "called").exists()


# ---- when it fails ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "cure"),
    [
        ("WARNING: Retrying after NewConnectionError('x: Connection refused')", "network"),
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "room"),
        ("ERROR: Could not find a version (from versions: none)", "make lab PYTHON=python3.12"),
        ("PermissionError: [Errno 13] Permission denied: '/x'", "yours"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "damaged"),
    ],
)
def test_a_failure_names_the_error_the_cure_and_the_log(project, output, cure):
    (project / "manner").write_text(f"fail {output}")
    done = run(project)
    assert done.returncode == 1
    error, what_to_do, log = done.stdout.splitlines()[-3:]
    assert error == "pip failed: No matching distribution found for torch==2.13.0"
    assert what_to_do.startswith("What to do: ")
    assert cure in what_to_do
    assert log.endswith("install.log")
    assert output in (project / ".venv" / "install.log").read_text()
    (project / "manner").write_text("succeed")
    assert run(project).returncode == 0


def test_a_missing_venv_module_has_its_own_cure():
    output = "The virtual environment was not created because ensurepip is not\navailable."
    assert "apt install python3-venv" in install.cure_for(output)


def test_an_old_python_is_told_the_way_in_one_line(monkeypatch):
    monkeypatch.setattr(install.sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(install.shutil, "which", lambda name: name == "python3.12")
    with pytest.raises(install.InstallError) as refused:
        install.require_python()
    assert str(refused.value) == (
        "AMP Lessons needs Python 3.11 or newer, and this is 3.9: make lab PYTHON=python3.12"
    )


def test_an_old_python_can_read_the_file():
    ast.parse((ROOT / "tools" / "install.py").read_text(), feature_version=(3, 6))


def test_a_place_that_cannot_be_written(project):
    shutil.rmtree(project / ".venv")
    (project / ".venv").write_text("a file in the way")
    done = run(project)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert ".venv" in done.stdout.splitlines()[-2]


# ---- what it shows ------------------------------------------------------------------------------


class Told:
    """A step of which pip has printed some lines."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Collecting torch<3,>=2.13 (from x)", "looking for torch"),
        ("  Downloading rich-15.0.0-py3-none-any.whl (300 kB)", "downloading rich-15.0.0"),
        (
            "  Using cached rich-15.0.0-py3-none-any.whl (1 kB)",
            "taking rich-15.0.0 from pip's cache",
        ),
        ("Processing /w/rich-15.0.0-py3-none-any.whl", "taking rich-15.0.0 from this machine"),
        ("Something else", "starting pip"),
    ],
)
def test_what_pip_does_now(project, line, shown):
    assert install.PipWatch(place_of(project), Told(line)).now() == shown


def test_a_long_download_shows_how_much_has_arrived(project):
    place = place_of(project)
    (place.scratch / "pip-unpack-x").mkdir(parents=True)
    (place.scratch / "pip-unpack-x" / "torch.whl").write_bytes(bytes(7 * 10**6))
    line = "  Downloading https://x.example/torch-2.13.0-cp311-linux.whl (190.5 MB)"
    watch = install.PipWatch(place, Told(line))
    assert watch.now() == "downloading torch-2.13.0 (7 of 190 MB)"


def test_installing_shows_how_many_are_done(project):
    place = place_of(project)
    distribution(place.packages(), "there_before", "")
    watch = install.PipWatch(place, Told("Installing collected packages: a, b, c"))
    assert watch.now() == "installing 3 packages (0 done)"
    distribution(place.packages(), "a", "")
    assert watch.now() == "installing 3 packages (1 done)"


def test_a_terminal_gets_one_line_that_changes(project):
    (project / "manner").write_text("hang")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, project / "tools" / "install.py"],
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "60"},
    )
    os.close(theirs)
    shown = b""
    while b"downloading torch-2.13.0 (0 of 190 MB)" not in shown:
        shown += os.read(ours, 4096)
    process.terminate()
    while b"Stopped." not in shown:
        shown += os.read(ours, 4096)
    assert process.wait() == 143
    os.close(ours)
    assert b"\r\x1b[2K  0:0" in shown


def test_the_makefile_calls_it():
    # `make test ARGS=...` hands its own arguments on to a make that a test starts.
    outer = ("ARGS", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL")
    dry = subprocess.run(
        ["make", "--no-print-directory", "-n", "lab", "PYTHON=some-python"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in outer},
        capture_output=True,
        text=True,
    )
    assert dry.stdout.splitlines() == [
        "some-python tools/install.py lab --venv .venv",
        ".venv/bin/amp-lessons lab ",
    ]
