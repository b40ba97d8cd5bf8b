"""Starting the process that runs one notebook: forked and locked in, or as good as the machine can.

`ForkServer` is for Linux with user namespaces. `Spawner` starts a new Python for each notebook, in
bubblewrap where that is installed and works, else with no protection but limits; its ``missing``
says in one line what is not protected then. `open_starter` chooses.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from amp_lessons.classroom.grading import notebook
from amp_lessons.classroom.grading.sandbox import bubblewrap, rootfs
from amp_lessons.classroom.grading.sandbox.limits import Limits
from amp_lessons.classroom.grading.scratch import scratch_folder
from amp_lessons.core import catalogue
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.ipynb import NotebookError

_KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SYSTEMROOT", "LD_LIBRARY_PATH")
"""The variables that a notebook gets to see. All others may be somebody's secret."""

_PATIENCE = 2.0  # seconds for the first process of a namespace to end by itself

UNPROTECTED = (
    "without a sandbox: notebooks can read your files, write where you can, reach the network, "
    "and outlive the grader"
)


class SandboxError(AmpLessonsError):
    """The machine does not allow the sandbox that was asked for."""


class Running(Protocol):
    """A process that runs a notebook.

    Attributes:
        reports: a file descriptor with its frames.
        output: one with what it prints.
        busy: whether it did not start because the machine has too much to do.
    """

    reports: int
    output: int
    busy: bool

    def how_it_ended(self) -> str | None:
        """In words, such as ``"ended the process (exit status 7)"``; None while it lives."""
        ...

    def end(self) -> list[str]:
        """Kill it with all that it started. Returns notes for the report."""
        ...


class Starter(Protocol):
    """Starts processes for notebooks.

    Attributes:
        name: how notebooks are kept apart, in a word or two.
        missing: what is missing of the best sandbox, in one line, or "".
    """

    name: str
    missing: str

    def start(self, job: dict[str, Any], limits: Limits) -> Running: ...

    def get_ready(self, modules: list[str]) -> None:
        """Before a lesson's first notebook: have at hand what its right answers import, which
        takes seconds."""
        ...


@contextmanager
def open_starter(
    lessons: Iterable[str], salt: str, limits: Limits, sandbox: str = "auto"
) -> Iterator[Starter]:
    """The best starter that this machine allows, for as long as the context lasts.

    Args:
        lessons: the slugs of the lessons whose notebooks will be run.
        sandbox: ``"auto"``, ``"required"`` (nothing less than a sandbox), ``"fork"``,
            ``"bubblewrap"`` or ``"none"``.

    Raises:
        SandboxError: if a sandbox is asked for that the machine does not allow.
    """
    with tempfile.TemporaryDirectory(prefix="amp-grade-", ignore_cleanup_errors=True) as folder:
        package = rootfs.copy_without_secrets(Path(folder))
        why = []
        if sandbox in ("auto", "required", "fork") and sys.platform == "linux":
            try:
                server = ForkServer(list(lessons), salt, package, Path(folder))
            except (SandboxError, OSError) as error:
                why.append(f"namespaces: {error}")
            else:
                try:
                    server.try_out(limits)
                    yield server
                    return
                except SandboxError as error:
                    why.append(f"namespaces: {error}")
                finally:
                    server.close()
        if sandbox in ("auto", "required", "bubblewrap") and sys.platform == "linux":
            prefix = bubblewrap.command(package, limits)
            if prefix and bubblewrap.works(prefix):
                spawner = Spawner(salt, package, prefix)
                if why:
                    spawner.missing = f"in bubblewrap, seconds slower a notebook ({'; '.join(why)})"
                yield spawner
                return
            why.append("bubblewrap: " + ("not allowed here" if prefix else "not installed"))
        if sandbox not in ("auto", "none"):
            told = "; ".join(why) or "only Linux has one"
            raise SandboxError(
                f"no sandbox can be made here ({told}). Install bubblewrap, run this on a Linux "
                "machine that allows user namespaces, or grade without --require-sandbox"
            )
        yield Spawner(salt, package)


def environment(package: Path, home: str) -> dict[str, str]:
    """The environment of a process that runs a notebook: by allow-list, and nothing inherited."""
    env = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return env | {
        "AMP_LESSONS_HOME": f"{home}/amp-lessons",
        "HOME": home,
        "IPYTHONDIR": f"{home}/.ipython",
        "MALLOC_ARENA_MAX": "2",  # else each thread reserves 64 MiB of address space
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": f"{home}/.matplotlib",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONIOENCODING": "utf-8",
        "PYTHONNOUSERSITE": "1",
        "PYTHONPATH": str(package.parent),
        "PYTHONSAFEPATH": "1",
    }


def _modules(lessons: Sequence[str]) -> list[str]:
    """What the sheets of these lessons import, so that the server can import it beforehand."""
    found = set()
    for slug in lessons:
        with suppress(NotebookError):  # each submission will say so
            found |= notebook.modules_of(catalogue.find_lesson(slug))
    return sorted(found)


# ---- forked ------------------------------------------------------------------------------------


class ForkServer:
    """The grader's side of `fork_server`.

    Raises:
        SandboxError: if the server cannot enter its root file system.
    """

    name, missing = "fork server with namespaces", ""

    def __init__(self, lessons: Sequence[str], salt: str, package: Path, folder: Path) -> None:
        place = folder / "rootfs"
        place.mkdir()
        self._folder, self._lock = folder, threading.Lock()
        self._order = {
            "lessons": lessons,
            "modules": _modules(lessons),
            "salt": salt,
            "package": str(package),
            "place": str(place),
        }
        self._boot()

    def _boot(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own = rootfs.scratch()
        inside = environment(rootfs.PACKAGE, f"{own}/home") | {"TMPDIR": f"{own}/tmp"}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "amp_lessons.classroom.grading.fork_server"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd=self._folder,
                env=inside,
                start_new_session=True,
            )
        try:
            self._socket.send(json.dumps(self._order).encode())
            answer = self._socket.recv(2**16)
        except OSError:
            answer = b""
        found = json.loads(answer or b"{}")
        if "ready" not in found:
            reason = found.get("failed") or self._last_words()
            self.close()
            raise SandboxError(reason)

    def _last_words(self) -> str:
        assert self._process.stderr is not None
        lines = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "the fork server ended"

    def try_out(self, limits: Limits) -> None:
        """Run an empty notebook. Raises `SandboxError` if the sandbox cannot be made."""
        running = self.start({"lesson": self._order["lessons"][0], "steps": []}, limits)
        try:
            told = running.wait()
        finally:
            running.end()
        if why := told.get("failed") or told.get("busy"):
            raise SandboxError(why)
        if told.get("exit") != 0:
            raise SandboxError(f"an empty notebook did not run ({told})")

    def start(self, job: dict[str, Any], limits: Limits) -> Forked:
        ends = [os.pipe() for _ in range(4)]
        (job_end, job_pipe), (reports, theirs), (output, their_output), (status, told) = ends
        lifeline, held = os.pipe()
        try:
            self._request(job, limits, [job_end, theirs, their_output, told, lifeline])
        except (OSError, SandboxError) as error:
            for pipe in (job_pipe, reports, output, status, held):
                os.close(pipe)
            raise SandboxError(f"the fork server ended ({error})") from error
        finally:
            for pipe in (job_end, theirs, their_output, told, lifeline):
                os.close(pipe)
        return Forked(job, job_pipe, reports, output, status, held)

    def get_ready(self, modules: list[str]) -> None:
        # A module of ours may hold a secret, and none of the others does.
        others = [name for name in modules if not name.startswith("amp_lessons")]
        with self._lock, suppress(OSError):  # a server that has ended is noticed at the next start
            self._socket.send(json.dumps({"import": others}).encode())

    def _request(self, job: dict[str, Any], limits: Limits, pipes: list[int]) -> None:
        """Ask for a fork; if the server has ended, of a new one."""
        closed = "" if job.get("trusted") else job["lesson"]
        request = json.dumps({"limits": asdict(limits), "closed": closed}).encode()
        with self._lock:
            try:
                socket.send_fds(self._socket, [request], pipes)
            except OSError:
                self.close()
                self._boot()
                socket.send_fds(self._socket, [request], pipes)

    def close(self) -> None:
        self._socket.close()
        try:
            self._process.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()


class Forked:
    """A notebook's process that the fork server made, and the pipes to it."""

    busy = False

    def __init__(
        self, job: dict[str, Any], to_job: int, reports: int, output: int, status: int, held: int
    ) -> None:
        self.reports, self.output = reports, output
        self._status, self._held = _Status(status), held
        with suppress(BrokenPipeError), os.fdopen(to_job, "wb") as file:
            file.write(json.dumps(job).encode())

    def how_it_ended(self) -> str | None:
        ended = self._status.how_it_ended()
        self.busy = "busy" in self._status.told
        return ended or ("ended the process" if self._status.over else None)

    def wait(self) -> dict[str, Any]:
        """What the first process of the namespace had to say, once it has ended."""
        self._status.wait()
        return self._status.told

    def end(self) -> list[str]:
        """Let go of the lifeline. The first process of the namespace ends, and all others with it.

        When its pipe comes to its end, the kernel has killed every one of them.
        """
        os.close(self._held)
        if not self._status.wait(_PATIENCE):
            with suppress(OSError, KeyError):
                os.kill(self._status.told["pid"], signal.SIGKILL)
        with suppress(OSError):
            self._status.wait()
        for pipe in (self.reports, self.output, self._status.pipe):
            os.close(pipe)
        return []


class _Status:
    """The pipe through which the first process of a namespace tells how a notebook ended.

    Attributes:
        told: what it said so far.
        over: whether the pipe has come to its end.
    """

    def __init__(self, pipe: int) -> None:
        self.pipe, self.over = pipe, False
        self.told: dict[str, Any] = {}
        self._heard = b""
        os.set_blocking(pipe, False)

    def how_it_ended(self) -> str | None:
        """In words; None if nothing was said."""
        self._listen()
        match self.told:
            case {"busy": str(why)}:
                return f"could not be started ({why})"
            case {"failed": str(why)}:
                return f"could not be locked into the sandbox ({why})"
            case {"too_much": str(words)}:
                return f"took more than {words}"
            case {"exit": int(status)}:
                return exit_words(status)
        return None

    def wait(self, patience: float | None = None) -> bool:
        """Wait until it is over, at most so many seconds if told; whether something came."""
        self._listen()
        if not self.over and not select.select([self.pipe], [], [], patience)[0]:
            return False
        if patience is None:
            os.set_blocking(self.pipe, True)
            self._listen()
        return True

    def _listen(self) -> None:
        with suppress(BlockingIOError):
            while not self.over:
                data = os.read(self.pipe, 4096)
                self.over = not data
                self._heard += data
        *lines, self._heard = self._heard.split(b"\n")
        for text in lines:
            self.told |= json.loads(text)


def exit_words(status: int) -> str:
    """How a process ended, such as ``"crashed the process (SIGSEGV)"``. Negative for a signal."""
    if status >= 0:
        return f"ended the process (exit status {status})"
    with suppress(ValueError):
        name = signal.Signals(-status).name
        hints = {"SIGKILL": ", as when memory runs out", "SIGXCPU": ": too much CPU time"}
        return f"crashed the process ({name}{hints.get(name, '')})"
    return f"crashed the process (signal {-status})"


# ---- spawned -----------------------------------------------------------------------------------


class Spawner:
    """Starts a new Python for each notebook.

    Args:
        package: a copy of this package without secrets.
        prefix: words before the command, which lock it in; none for no sandbox.
    """

    def __init__(self, salt: str, package: Path, prefix: Sequence[str] = ()) -> None:
        self.name = "bubblewrap" if prefix else "no sandbox"
        self.missing = "" if prefix else UNPROTECTED
        self._salt, self._package, self._prefix = salt, package, prefix

    def get_ready(self, modules: list[str]) -> None:
        """Nothing lasts from one process to the next."""

    def start(self, job: dict[str, Any], limits: Limits) -> Spawned:
        order = {**job, "salt": self._salt, "limits": asdict(limits)}
        return Spawned(order, self._package, self._prefix)


class Spawned:
    """A notebook's process that was started as a new Python, in a session of its own."""

    busy = False

    def __init__(self, order: dict[str, Any], package: Path, prefix: Sequence[str]) -> None:
        self._left: list[Path] = []
        self._status: _Status | None = None
        theirs: tuple[int, ...] = ()
        if prefix:
            told, status = os.pipe()
            lifeline, self._held = os.pipe()
            self._status, theirs = _Status(told), (status, lifeline)
        self._context = scratch_folder(self._left)
        folder = self._context.__enter__()
        own = rootfs.scratch() if prefix else folder
        env = environment(rootfs.PACKAGE if prefix else package, f"{own}/home")
        self._process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "amp_lessons.classroom.grading.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=env | {"TMPDIR": f"{own}/tmp" if prefix else str(own)},
            start_new_session=True,
            pass_fds=theirs,
        )
        for pipe in theirs:
            os.close(pipe)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.reports, self.output = self._process.stdout.fileno(), self._process.stderr.fileno()
        with suppress(BrokenPipeError), self._process.stdin:
            self._process.stdin.write(json.dumps({**order, "watch": theirs}).encode())

    def how_it_ended(self) -> str | None:
        if self._status is not None and (ended := self._status.how_it_ended()):
            return ended
        status = self._process.poll()
        return None if status is None else exit_words(status)

    def end(self) -> list[str]:
        """Kill the process, its group, and what left the group, as far as it can be found."""
        if self._status is not None:
            os.close(self._held)
            self._status.wait(_PATIENCE)
            os.close(self._status.pipe)
        strays = _descendants(self._process.pid) if self._process.poll() is None else []
        if os.name == "posix":
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        for stray in strays:
            with suppress(Exception):
                stray.kill()
        self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()
        self._context.__exit__(None, None, None)
        return [f"its temporary folder could not be removed: {path}" for path in self._left]


def _descendants(pid: int) -> list[Any]:
    import psutil

    with suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []
