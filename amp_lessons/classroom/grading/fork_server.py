"""Forks one process for each submission, from a process that has torch and the probes loaded.

That costs milliseconds where a new Python with torch costs seconds. The server enters the sandbox's
root file system before it imports torch, never starts a thread (a fork of a process with threads
may hang), and never reads a submission: the job reaches the forked process through a pipe of its
own. Started as ``python -m amp_lessons.classroom.grading.fork_server``, it takes requests on the
socket that is its standard input.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

PIPES = 5
"""File descriptors of a request: job, reports, output, status, lifeline."""

_STATUS = 3
_REQUEST = 1024 * 1024
_covers: dict[str, dict[str, str]] = {}  # by lesson, what covers which file of the course
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def main() -> None:
    """Move in, load what all submissions need, say so, and serve until the socket ends."""
    grader = socket.socket(fileno=os.dup(0))
    order = json.loads(grader.recv(_REQUEST))
    for name in _ONE_THREAD:
        os.environ[name] = "1"
    try:
        _move_in(order)
        importlib.invalidate_caches()  # the package is another one now, in the same place
        _load(order["lessons"], order["modules"], order.pop("salt"))
    except OSError as error:
        grader.send(json.dumps({"failed": str(error.strerror or error)}).encode())
        return
    grader.send(json.dumps({"ready": True}).encode())
    _serve(grader)


def _move_in(order: dict[str, Any]) -> None:
    from amp_lessons.classroom.grading.sandbox import rootfs

    rootfs.enter(Path(order["package"]), Path(order["place"]))


def _load(lessons: list[str], modules: list[str], salt: str) -> None:
    """Import what the notebooks of these lessons need, and make the inputs of every check."""
    import torch

    from amp_lessons.classroom.grading import shut
    from amp_lessons.classroom.grading.child import shell_without_kernel
    from amp_lessons.classroom.grading.sandbox import cell, rootfs  # noqa: F401 - for the forks
    from amp_lessons.exercises.checks import evidence, exercise  # noqa: F401 - for the forks
    from amp_lessons.exercises.checks.draws import use_salt

    torch.set_num_threads(1)
    use_salt(salt)
    folder = rootfs.scratch() / "cut"
    folder.mkdir()
    for slug in lessons:
        importlib.import_module(f"amp_lessons.exercises.{slug}")
        shut.get_ready(slug)
        _covers[slug] = shut.cut_files(slug, folder)
    shell_without_kernel()
    _import(modules)


def _import(modules: list[str]) -> None:
    for name in modules:
        if name not in sys.modules:
            with suppress(Exception):  # then the notebook's own import says so
                importlib.import_module(name)
    if (threads := len(os.listdir("/proc/self/task"))) > 1:
        raise OSError(f"the fork server has {threads} threads, and a fork of it may hang")
    gc.collect()
    gc.freeze()  # what is loaded by now stays: a fork need not copy the pages it lies in


def _serve(grader: socket.socket) -> None:
    from amp_lessons.classroom.grading.sandbox import cell, linux

    signal.signal(signal.SIGCHLD, _bury)
    while True:
        data, pipes, _, _ = socket.recv_fds(grader, _REQUEST, PIPES)
        if not data:
            return
        request = json.loads(data)
        if "import" in request:
            _import(request["import"])
            continue
        try:
            pid = linux.fork_into(cell.NAMESPACES)
            told: dict[str, Any] = {"pid": pid}
        except OSError as error:  # too many processes: it may be better in a moment
            pid, told = -1, {"busy": str(error.strerror or error)}
        if pid == 0:
            grader.close()
            _become_submission(request, pipes)
        with suppress(BrokenPipeError):
            os.write(pipes[_STATUS], json.dumps(told).encode() + b"\n")
        for pipe in pipes:
            os.close(pipe)


def _bury(*_: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _become_submission(request: dict[str, Any], pipes: list[int]) -> None:
    """In the fork: be locked in, take the job and run it. Never returns."""
    from amp_lessons.classroom.grading import child
    from amp_lessons.classroom.grading.sandbox.cell import lock_in
    from amp_lessons.classroom.grading.sandbox.limits import Limits

    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        job, reports, output, status, lifeline = pipes
        nothing = os.open(os.devnull, os.O_RDONLY)
        for target, source in enumerate((nothing, output, output)):
            os.dup2(source, target)
        os.close(output)
        covers = _covers.get(request["closed"], {})
        lock_in(Limits(**request["limits"]), status, lifeline, covers)
        with open(job, "rb") as file:
            order = json.load(file)
        child.run(order, reports)
    finally:
        os._exit(1)


if __name__ == "__main__":
    sys.argv[1:] = []
    main()
