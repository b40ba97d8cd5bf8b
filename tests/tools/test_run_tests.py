"""`tools/run_tests.py` leaves no process and no file behind, however a run ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from run_tests import STOPPED
from waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
# A server in a session of its own: it writes to the folder for temporary files, also folders within
# folders, deeper than Python can remove them, and nothing but SIGKILL ends it.
STUBBORN = """
import os, signal, sys, tempfile
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
name = tempfile.mkstemp()[1]
os.chdir(tempfile.mkdtemp())
for _ in range(1200):
    os.mkdir("d")
    os.chdir("d")
with open(sys.argv[1] + ".part", "w") as told:
    told.write(f"{os.getpid()} {name}")
os.rename(sys.argv[1] + ".part", sys.argv[1])
signal.pause()
"""
TESTS = """
import pathlib, subprocess, sys, time, pytest
told = pathlib.Path({told!r})

@pytest.mark.slow
def test_starts_a_server():
    command = [sys.executable, "-c", {stubborn!r}, str(told)]
    server = subprocess.Popen(command, start_new_session=True)
    while not told.exists():
        time.sleep(0.05)
    if {waits}:
        server.wait()
"""
RUN = "import run_tests; run_tests.PATIENCE = 1.0; raise SystemExit(run_tests.main({arguments!r}))"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Path]:
    """The file in which the server says its number and the name of its temporary file."""
    path = tmp_path / "told"
    yield path
    if path.exists() and psutil.pid_exists(number := int(path.read_text().split()[0])):
        os.kill(number, signal.SIGKILL)


def start(told: Path, waits: bool) -> subprocess.Popen:
    """Run one test that starts the server, in a process group of its own as a shell does."""
    tests = told.with_name("test_server.py")
    tests.write_text(TESTS.format(told=str(told), stubborn=STUBBORN, waits=waits))
    options = ["-p", "xdist", "-p", "no:cacheprovider", "--numprocesses", "1", str(tests)]
    run = RUN.format(arguments=["rest", *options])
    tools = {"PYTHONPATH": str(ROOT / "tools"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", run],
        env=os.environ | tools,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def what_stays(run: subprocess.Popen, told: Path) -> list[object]:
    """The server, other processes of the run, and the folder for its temporary files."""
    server, file = told.read_text().split()
    left = [psutil.Process(p) for p in psutil.pids() if p == int(server) or group_of(p) == run.pid]
    return [*left, *Path(file).parent.parent.glob(Path(file).parent.name)]


def group_of(process: int) -> int | None:
    try:
        return os.getpgid(process)
    except ProcessLookupError:
        return None


@pytest.mark.parametrize("how", ["Ctrl+C", "kill", "Ctrl+C twice", "a closed terminal"])
@pytest.mark.slow
def test_an_interrupted_run_leaves_nothing(told: Path, how: str) -> None:
    run = start(told, waits=True)
    wait_until(told.exists, run)
    if how == "kill":
        run.terminate()
    elif how == "a closed terminal":
        os.killpg(run.pid, signal.SIGHUP)
    else:
        os.killpg(run.pid, signal.SIGINT)
    if how == "Ctrl+C twice":
        while run.poll() is None:
            os.killpg(run.pid, signal.SIGINT)
    assert run.wait() == STOPPED
    assert what_stays(run, told) == []


def test_a_run_that_ends_leaves_nothing(told: Path) -> None:
    run = start(told, waits=False)
    assert run.wait() == 0
    assert what_stays(run, told) == []
