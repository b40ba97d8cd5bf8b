"""The parent's side of a run: start the child, keep the time, stop it for good, start it again.

A cell that runs too long or takes the process down is left out of the next attempt, so the other
exercises still count. Nothing that the child sends is trusted to be well-formed, and nothing that
it prints is kept but the end.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from amp_lessons.grading.notebook import Submission
from amp_lessons.grading.scratch import scratch_folder

LONGEST_REPORT = 64 * 2**20
"""Bytes of one line from the child. A probe that saw 100,000 numbers stays far below."""

MANY_LINES, MANY_BYTES = 50_000, 4 * 2**20
"""What a notebook may print before the report says so. None of it is kept either way."""

PACKAGE = Path(__file__).resolve().parent.parent


class Stopped(Exception):
    """The whole grading was called off."""


@dataclass(frozen=True)
class Limits:
    """How long a notebook may take.

    Args:
        cell: seconds for one cell.
        total: seconds for the notebook, with all its attempts.
        start: seconds until the child has imported torch.
        attempts: how often a notebook is run at most.
    """

    cell: float = 30.0
    total: float = 300.0
    start: float = 120.0
    attempts: int = 6


@dataclass
class Run:
    """What came of running a notebook.

    Attributes:
        evidence: by exercise, from the last of its checks that reported.
        errors: by step, the exception that a cell ended with, as plain data.
        stopped: by step, why its cell was left out, such as ``"cell 5 ran longer than 30 s"``.
        unreached: why the cells after a point were never run, or "".
        problems: lines for the report.
        notes: lines for the report that change nothing.
    """

    evidence: dict[str, Any] = field(default_factory=dict)
    errors: dict[int, dict[str, Any]] = field(default_factory=dict)
    stopped: dict[int, str] = field(default_factory=dict)
    unreached: str = ""
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def run(submission: Submission, limits: Limits, stop: threading.Event) -> Run:
    """Run a notebook until it comes to its end, leaving out the cells that stop it.

    Raises:
        OSError: if no process or temporary folder can be made.
        Stopped: if ``stop`` was set.
    """
    result = Run()
    deadline = time.monotonic() + limits.total
    for _ in range(limits.attempts):
        attempt = _Attempt(submission, result, limits, deadline, stop)
        attempt.go()
        if attempt.finished:
            return result
        if attempt.out_of_time or attempt.step is None:
            result.unreached = attempt.reason
            result.problems.append(attempt.reason)
            return result
        result.stopped[attempt.step] = attempt.reason
        result.problems.append(attempt.reason)
    result.unreached = f"{limits.attempts} of its cells stopped the notebook"
    result.problems.append(f"it was given up after {limits.attempts} attempts")
    return result


class _Attempt:
    """One child process, from its start to its end.

    After `go`: ``finished`` if the last cell came to its end; else ``reason`` in words, and
    ``step``, the one that ran (None if none had begun).
    """

    def __init__(
        self,
        submission: Submission,
        result: Run,
        limits: Limits,
        deadline: float,
        stop: threading.Event,
    ) -> None:
        self.submission, self.result, self.limits = submission, result, limits
        self.deadline, self.stop = deadline, stop
        self.finished = self.out_of_time = False
        self.step: int | None = None
        self.reason = ""

    def go(self) -> None:
        left_behind: list[Path] = []
        with scratch_folder(left_behind) as folder:
            with _child(folder) as process:
                output, reports = _Output(process.stderr), _Reports(process.stdout)
                _hand_over(process, self._job())
                self._follow(process, reports)
            output.join()
            if self.step is None and self.reason and output.last_line():
                self.reason += f" ({output.last_line()})"
            self._note_output(output)
        for path in left_behind:
            self.result.notes.append(f"its temporary folder could not be removed: {path}")

    def _job(self) -> bytes:
        steps = [
            {"source": step.source, "checks": step.checks, "run": i not in self.result.stopped}
            for i, step in enumerate(self.submission.steps)
        ]
        return json.dumps({"lesson": self.submission.lesson.slug, "steps": steps}).encode()

    def _follow(self, process: subprocess.Popen[bytes], reports: _Reports) -> None:
        """Take in reports until the notebook is done, or has to be stopped."""
        patience = time.monotonic() + self.limits.start
        while not self.finished:
            message = self._next(process, reports, patience)
            if message is None:
                return
            if "ready" in message or "end" in message or "begin" in message:
                patience = time.monotonic() + self.limits.cell
            self._take(message)

    def _next(
        self, process: subprocess.Popen[bytes], reports: _Reports, patience: float
    ) -> dict[str, Any] | None:
        """The next report; None, with `reason` set, when there will be none in time."""
        ending = False
        while True:
            now = time.monotonic()
            if self.stop.is_set():
                raise Stopped
            if now > self.deadline:
                self.out_of_time = True
                self.reason = f"the notebook ran longer than {self.limits.total:g} s in all"
                return None
            if now > patience:
                self.reason = self._too_long()
                return None
            message = reports.next(timeout=0.0 if ending else 0.1)
            if message is not None:
                return message
            if ending or reports.flooded:
                self.reason = self._died(process, reports)
                return None
            if process.poll() is not None:
                reports.settle()
                ending = True

    def _take(self, message: dict[str, Any]) -> None:
        steps = self.submission.steps
        match message:
            case {"begin": int(step)} if 0 <= step < len(steps):
                self.step = step
            case {"step": int(step), "exercise": str(name), "evidence": evidence}:
                if step == self.step and steps[step].checks == name:
                    self.result.evidence[name] = evidence
            case {"end": int(step), "error": error} if 0 <= step < len(steps):
                self.result.errors.pop(step, None)
                if isinstance(error, dict):
                    self.result.errors[step] = error
            case {"done": True}:
                self.finished = True

    # ---- words ----

    def _where(self) -> str:
        """The cell that ran, such as ``"cell 5 (the check of next_float)"``."""
        if self.step is None:
            return "the start of the process that runs the notebook"
        step = self.submission.steps[self.step]
        of = f" (the check of {step.checks})" if step.checks else ""
        of = of or (f" (the answer to {step.solves})" if step.solves else "")
        return step.where if step.where.startswith("the check") else step.where + of

    def _too_long(self) -> str:
        limit = self.limits.start if self.step is None else self.limits.cell
        return f"{self._where()} ran longer than {limit:g} s"

    def _died(self, process: subprocess.Popen[bytes], reports: _Reports) -> str:
        if reports.flooded:
            return f"{self._where()} reported more than {LONGEST_REPORT // 2**20} MB"
        status = process.poll()
        if status is None:
            return f"{self._where()} closed its connection to the grader"
        if status >= 0:
            return f"{self._where()} ended the process (exit status {status})"
        with suppress(ValueError):
            name = signal.Signals(-status).name
            hint = ", as when memory runs out" if name == "SIGKILL" else ""
            return f"{self._where()} crashed the process ({name}{hint})"
        return f"{self._where()} crashed the process (signal {-status})"

    def _note_output(self, output: _Output) -> None:
        """A flood costs no marks, but a person should look at what floods."""
        flood = "it printed far too much"
        known = any(problem.startswith(flood) for problem in self.result.problems)
        if (output.lines >= MANY_LINES or output.bytes >= MANY_BYTES) and not known:
            amount = f"{output.lines:,} lines, {output.bytes / 2**20:.1f} MB"
            self.result.problems.append(f"{flood} ({amount}): take the print out of its loop")


# ---- the process --------------------------------------------------------------------------------


@contextmanager
def _child(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The child in a session of its own; at the end it and all that it started are killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "amp_lessons.grading.runner"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=_environment(folder),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _kill(process)


def _environment(folder: Path) -> dict[str, str]:
    """The child's environment: nothing of Jupyter, of nbgrader or of the user's own progress.

    Nor may output be unbuffered: a notebook that prints 200,000 lines would take seconds.
    """
    unwanted = ("JUPYTER", "IPYTHON", "NBGRADER", "PYTHONUNBUFFERED")
    env = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    paths = [str(PACKAGE.parent), *filter(None, [env.get("PYTHONPATH")])]
    return env | {
        "AMP_LESSONS_HOME": str(folder / ".home"),
        "IPYTHONDIR": str(folder / ".ipython"),
        "MPLBACKEND": "Agg",
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONIOENCODING": "utf-8",
    }


def _hand_over(process: subprocess.Popen[bytes], job: bytes) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(job)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the child, its process group, and its children that left the group."""
    strays = _descendants(process.pid) if process.poll() is None else []
    if os.name == "posix":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    for stray in strays:
        with suppress(Exception):
            stray.kill()
    process.wait()


def _descendants(pid: int) -> list[Any]:
    import psutil

    with suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []


# ---- its two streams ----------------------------------------------------------------------------


class _Output:
    """Reads all that the notebook prints, and keeps the end."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        assert stream is not None
        self.bytes, self.lines, self._tail, self._stream = 0, 0, b"", stream
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError, ValueError):
            while chunk := os.read(self._stream.fileno(), 2**16):
                self.bytes += len(chunk)
                self.lines += chunk.count(b"\n")
                self._tail = (self._tail + chunk)[-2000:]

    def join(self) -> None:
        """Wait for the end; a process that escaped may hold the pipe, so not for ever."""
        self._thread.join(timeout=1.0)
        if not self._thread.is_alive():
            self._stream.close()

    def last_line(self) -> str:
        lines = self._tail.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


class _Reports:
    """Reads the child's JSON lines into a queue."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        assert stream is not None
        self.flooded = False
        self._stream = stream
        self._queue: queue.Queue[dict[str, Any]] = queue.Queue(maxsize=1000)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError, ValueError, queue.Full), self._stream:
            while text := self._stream.readline(LONGEST_REPORT):
                if len(text) >= LONGEST_REPORT:
                    self.flooded = True
                    return
                with suppress(ValueError, RecursionError):
                    message = json.loads(text)
                    if isinstance(message, dict):
                        self._queue.put(message, timeout=60)

    def next(self, timeout: float) -> dict[str, Any] | None:
        with suppress(queue.Empty):
            return self._queue.get(timeout=timeout) if timeout else self._queue.get_nowait()
        return None

    def settle(self) -> None:
        """Let the reader come to the end; a fork that lives on may hold the pipe open."""
        self._thread.join(timeout=1.0)
