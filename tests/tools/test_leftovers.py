"""A test that leaves something open fails itself, and one that does not is left in peace."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from leftovers import everything_open, left_open

LEAVES = """
import asyncio, subprocess, sys, threading

kept, event = [], threading.Event()

def test_leaves_an_event_loop():
    kept.append(asyncio.new_event_loop())

def test_leaves_a_process():
    kept.append(subprocess.Popen([sys.executable, "-c", ""]))

def test_leaves_a_thread():
    kept.append(threading.Thread(target=event.wait, daemon=True))
    kept[-1].start()

def test_leaves_nothing():
    event.set()
    kept[-1].join()
    kept[0].close()
    assert kept[1].wait() == 0
"""


def test_whoever_leaves_something_open_fails_by_name(tmp_path):
    (tmp_path / "test_leaves.py").write_text(LEAVES)
    (tmp_path / "conftest.py").write_text("import leftovers\nleftovers.GRACE = 1")
    (tmp_path / "pytest.ini").write_text("[pytest]")
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "leftovers", "-p", "no:cacheprovider"]
    tests = str(Path(__file__).parents[1])
    run = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": tests, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    failed = set(re.findall(r"^ERROR test_leaves.py::(\w+)", run.stdout, re.MULTILINE))
    assert failed == {"test_leaves_an_event_loop", "test_leaves_a_process", "test_leaves_a_thread"}
    assert "4 passed, 3 errors" in run.stdout
    assert re.search(
        r"file \d+: anon_inode:\[eventpoll\], held by <selectors.EpollSelector", run.stdout
    )


def waiting_thread() -> threading.Timer:
    timer = threading.Timer(3600, list)
    timer.start()
    return timer


@pytest.mark.parametrize(
    ("make", "close"),
    [
        (socket.socket, lambda made: made.close()),
        (asyncio.new_event_loop, lambda made: made.close()),
        (Path(os.devnull).open, lambda made: made.close()),
        (lambda: subprocess.Popen([sys.executable, "-c", ""]), lambda made: made.wait()),
        (waiting_thread, lambda made: (made.cancel(), made.join())),
    ],
    ids=["socket", "event loop", "file", "process", "thread"],
)
@pytest.mark.slow
def test_what_is_open_is_told_until_it_is_closed(make, close):
    before = everything_open()
    made = make()
    assert left_open(before, looks=1)
    close(made)
    assert left_open(before, looks=1) == []


def test_what_a_library_keeps_below_python_is_its_own():
    before = everything_open()
    number = os.open(os.devnull, os.O_RDONLY)
    try:
        assert everything_open() != before
        assert left_open(before, looks=1) == []
    finally:
        os.close(number)
