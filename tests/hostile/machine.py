"""What an attack must not reach: a process, a home, a neighbour, sockets and a secret to watch."""

from __future__ import annotations

import ctypes
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

PREFIX = "secret-of-the-machine-"
"""What every secret begins with, so that an attack can look for it without knowing it."""
TOKEN = "GITHUB_TOKEN"
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37


@dataclass(frozen=True)
class Around:
    """What an attack is told about the machine, so that it need not search.

    Attributes:
        process: the id of a process that it may try to kill.
        mark: a word of that process's command line.
        home: a folder with a file of secrets.
        neighbour: a solved notebook of somebody else.
        victim: a folder that a link might lead a clean-up into.
        port: of a TCP listener on 127.0.0.1.
        abstract: the name of a listening abstract Unix socket.
        course: the folder of the course, with its solutions.
        package: the folder of the package.
        evidence: by exercise, what the checks of the right answers see at home.
        secret: what nobody may get; attacks are told `PREFIX` alone.
    """

    process: int = 0
    mark: str = ""
    home: str = ""
    neighbour: str = ""
    victim: str = ""
    results: str = ""
    port: int = 0
    abstract: str = ""
    course: str = ""
    package: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict, repr=False)
    secret: str = field(default="", repr=False)

    def told(self) -> dict[str, Any]:
        """What goes into an attack's cell. The prefix is in two parts: the cell is no find."""
        hidden = ("evidence", "secret")
        known = {name: value for name, value in vars(self).items() if name not in hidden}
        return known | {"prefix": (PREFIX[:7], PREFIX[7:])}


@contextmanager
def machine(folder: Path, evidence: Mapping[str, Any], reached: list[str]) -> Iterator[Around]:
    """A process, folders and sockets to attack, for as long as the context lasts.

    Args:
        folder: for the folders to attack.
        evidence: by exercise, what the checks of the right answers see at home.
        reached: gets a line for each of them that an attack reached.
    """
    secret, mark = PREFIX + secrets.token_hex(16), f"attack-me-{secrets.token_hex(8)}"
    home, victim = folder / "home", folder / "victim"
    for place in (home, victim):
        place.mkdir()
        (place / "secrets.txt").write_text(secret)
    with (
        _process(mark, secret) as process,
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        abstract.bind(f"\0{mark}")
        abstract.listen()
        for each in (tcp, abstract):
            each.setblocking(False)
        from amp_lessons.classroom.grading.sandbox import rootfs
        from amp_lessons.core import catalogue

        yield Around(
            process=process.pid,
            mark=mark,
            home=str(home),
            neighbour=str(folder / "class" / "neighbour" / "sheet.ipynb"),
            victim=str(victim),
            results=str(folder / "results"),
            port=tcp.getsockname()[1],
            abstract=mark,
            course=str(catalogue.course_files()),
            package=str(rootfs.PACKAGE),
            evidence=evidence,
            secret=secret,
        )
        if process.poll() is not None:
            reached.append("a process of the machine was killed")
        elif psutil.Process(process.pid).status() == psutil.STATUS_STOPPED:
            reached.append("a process of the machine was stopped")
        for each in (tcp, abstract):
            with suppress(BlockingIOError):
                each.accept()[0].close()
                reached.append(f"the socket {each.getsockname()!r} was reached")
        for place in (home, victim):
            files = {path.name: path.read_text() for path in place.iterdir()}
            if files != {"secrets.txt": secret}:
                reached.append(f"{place.name} was changed")


@contextmanager
def _process(mark: str, secret: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", "import time\nwhile True: time.sleep(60)", mark]
    process = subprocess.Popen(command, env=os.environ | {TOKEN: secret})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def no_process_left(reached: list[str]) -> Iterator[None]:
    """A line for each process that was started in this context and is alive when it ends.

    On Linux this process becomes the parent of every orphan below it, so a daemon shows too.
    """
    libc, before = ctypes.CDLL(None), ctypes.c_int(0)
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    own = psutil.Process()
    known = {child.pid for child in own.children(recursive=True)}
    try:
        yield
        left = [child for child in own.children(recursive=True) if child.pid not in known]
        _, alive = psutil.wait_procs(left, timeout=5)
        reached += [f"this process outlived the grader: {_in_words(child)}" for child in alive]
        for child in alive:
            with suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(alive, timeout=5)
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def _in_words(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return f"{process.pid} ({process.status()}): {' '.join(process.cmdline())[:120]}"
    return str(process.pid)


def everything_in(*folders: Path, deepest: int = 8) -> dict[str, tuple[int, int, int]]:
    """Each file below these folders, not too deep, with its size, mode and time of change."""
    found, left = {}, [(str(folder), 0) for folder in folders]
    while left:
        folder, depth = left.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                state = entry.stat(follow_symlinks=False)
                if not entry.is_dir(follow_symlinks=False):
                    found[entry.path] = state.st_size, state.st_mode, state.st_mtime_ns
                elif entry.name != "__pycache__" and depth < deepest:
                    left.append((entry.path, depth + 1))
    return found
