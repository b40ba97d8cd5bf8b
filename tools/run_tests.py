"""Run the tests, and leave nothing running behind, also when Ctrl+C ends them.

`make test` is the gate, `make test-all` adds the rest, `make test-long` takes what needs an hour.

A browser, a JupyterLab or a sandbox that a test has started is below this process, whatever becomes
of the test: so it can be ended here. What goes into the folder for temporary files goes with it.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
WHICH = {"gate": "not slow and not long", "rest": "slow and not long", "long": "long"}
# One thread a process: two test processes with two threads each spend their time in waiting. In the
# order of the files, for xdist's own order puts the few tests that take long at the end.
PARALLEL = ["--dist", "loadscope", "--no-loadscope-reorder", "--numprocesses"]
# For two cores. Among the rest are the tests that wait: for a server, a browser, a time limit.
PROCESSES = {"gate": "2", "rest": "3"}
HARNESSES = "amp_lessons/exercises/*/harness*.py"
PATIENCE = 10.0  # seconds for a process to end by itself
STOPPED = 130  # the status of a shell's command that Ctrl+C has ended


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("which", choices=WHICH, help="which of the tests")
    chosen, further = parser.parse_known_args(arguments)
    heed_signals()
    adopt_orphans()
    name = "amp-lessons-tests-"
    folder = tempfile.mkdtemp(prefix=name)
    try:
        status = run(chosen.which, further, folder)
    except KeyboardInterrupt:
        status = STOPPED
    end_all_below(at_once=status == STOPPED)
    remove(folder)
    return status


def remove(folder: str) -> None:
    """Remove a folder of any depth. A notebook that makes folders within folders, interrupted, can
    leave more of them than Python's own `rmtree` gets through."""
    if shutil.which("rm"):
        subprocess.call(["rm", "-rf", folder])
    else:
        shutil.rmtree(folder, ignore_errors=True)


def run(which: str, further: list[str], folder: str) -> int:
    """Run ruff and mypy, if it's the gate, and pytest; give the first status that isn't 0."""
    python = [sys.executable, "-m"]
    started = []
    if which == "gate":
        harnesses = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(HARNESSES))
        for words in (["check", "."], ["format", "--check", ".", *harnesses]):
            if status := subprocess.call([*python, "ruff", *words], cwd=ROOT):
                return status
        started.append(subprocess.Popen([*python, "mypy"], cwd=ROOT))
    tests = [*python, "pytest", "-m", WHICH[which]]
    tests += [*PARALLEL, PROCESSES[which]] if which in PROCESSES else []
    tests += ["tests"] if which != "gate" and not any(map(names_tests, further)) else []
    # pytest keeps what its last runs wrote, for anyone who looks into a failure.
    kept = {"PYTEST_DEBUG_TEMPROOT": tempfile.gettempdir(), "OMP_NUM_THREADS": "1"}
    own = os.environ | kept | {"TMPDIR": folder}
    # Each of some hundred processes would else compile the course and the tests again.
    own.pop("PYTHONDONTWRITEBYTECODE", None)
    started.append(subprocess.Popen([*tests, *further], cwd=ROOT, env=own))
    try:
        return next(filter(None, ends_of(started)), 0)
    except KeyboardInterrupt:
        started[-1].send_signal(signal.SIGINT)  # in a terminal it has come there too
        with suppress(subprocess.TimeoutExpired):
            started[-1].wait(PATIENCE)
        raise


def names_tests(argument: str) -> bool:
    return (ROOT / argument.split("::")[0]).exists()


def heed_signals() -> None:
    """Take each signal that ends a program as Ctrl+C, and Ctrl+C also where the shell that runs us
    in the background has us ignore it: some tests are about it. The first one counts: nothing may
    interrupt us while we clean up."""
    numbers = [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]

    def stop(*_: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, stop)


def adopt_orphans() -> None:
    """On Linux a process whose parent has ended becomes our child, in whatever session it is."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def ends_of(started: list[subprocess.Popen]) -> list[int]:
    """Wait for processes and give their statuses; let orphans that end meanwhile be gone."""
    own = {process.pid for process in started}
    while any(process.poll() is None for process in started):
        for child in psutil.Process().children():
            with suppress(psutil.NoSuchProcess, ChildProcessError):
                if child.pid not in own and child.status() == psutil.STATUS_ZOMBIE:
                    os.waitpid(child.pid, os.WNOHANG)
        time.sleep(0.5)
    return [process.returncode for process in started]


def end_all_below(at_once: bool) -> None:
    """End each process below this one, and first let it end by itself where there is time."""
    for order in (None, psutil.Process.terminate, psutil.Process.kill)[at_once:]:
        for process in below():
            with suppress(psutil.NoSuchProcess):
                if order is not None:
                    order(process)
        until = time.monotonic() + PATIENCE
        while below() and time.monotonic() < until:
            time.sleep(0.05)
    with suppress(ChildProcessError):  # raised when no child is left
        while sys.platform == "linux" and os.waitpid(-1, os.WNOHANG)[0]:
            pass


def below() -> list[psutil.Process]:
    """What runs below this process. One that has ended is a zombie until its parent notices."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


if __name__ == "__main__":
    sys.exit(main())
