"""Following a notebook while it runs: take in what it reports, keep the time, stop it for good.

A cell that runs too long or takes the process down is left out of the next attempt, so the other
exercises still count. Nothing that the notebook sends is trusted to be well-formed, and nothing
that it prints is kept but the end.
"""

from __future__ import annotations

import json
import os
import select
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from amp_lessons.classroom.grading import frames
from amp_lessons.classroom.grading.launch import Running, Starter
from amp_lessons.classroom.grading.notebook import Submission
from amp_lessons.classroom.grading.sandbox.limits import Limits

MANY_LINES, MANY_BYTES = 150_000, 4 * 2**20
"""What a notebook may print before the report says so. None of it is kept either way."""

TOO_LONG = json.dumps(
    {"error": {"type": "TooLong", "message": "what this check saw is too long to be judged"}}
).encode()
"""What counts as evidence in place of one that is longer than `frames.LONGEST_EVIDENCE`."""

_PAUSE = 1.0  # seconds before the next attempt, where the machine had too much to do
_LOOK = 0.1  # seconds between two looks at the clock
_AT_ONCE = 2**18  # bytes
_TAIL = 2000  # bytes of output that are kept


class Stopped(Exception):
    """The whole grading was called off."""


@dataclass
class NotebookRun:
    """What came of running a notebook.

    Attributes:
        evidence: by exercise, from the last of its checks that reported; JSON as it came.
        again: by exercise, from a check that ran once more below its answer.
        errors: by step, the exception that a cell ended with, as plain data.
        stopped: by step, why its cell was left out, such as ``"cell 5 ran longer than 30 s"``.
        unreached: why the cells after a point were never run, or "".
        problems: lines for the report.
        notes: lines for the report that change nothing.
    """

    evidence: dict[str, bytes] = field(default_factory=dict)
    again: dict[str, bytes] = field(default_factory=dict)
    errors: dict[int, dict[str, Any]] = field(default_factory=dict)
    stopped: dict[int, str] = field(default_factory=dict)
    unreached: str = ""
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def run(
    submission: Submission,
    starter: Starter,
    limits: Limits,
    stop: threading.Event,
    trusted: bool = False,
) -> NotebookRun:
    """Run a notebook until it comes to its end, leaving out the cells that stop it.

    Args:
        stop: ends it.
        trusted: whether the course's own functions are open to it, also those that do a task.

    Raises:
        OSError: if no process can be made.
        SandboxError: if the sandbox is no longer there.
        Stopped: if ``stop`` was set.
    """
    result, too_busy = NotebookRun(), ""
    deadline = time.monotonic() + limits.total
    for _ in range(limits.attempts):
        attempt = _Attempt(submission, result, limits, deadline, stop, trusted)
        attempt.go(starter)
        if attempt.finished:
            return result
        if attempt.busy and stop.wait(_PAUSE):
            raise Stopped
        if attempt.busy:
            too_busy = attempt.reason
            continue
        if attempt.out_of_time or attempt.step is None:
            result.unreached = attempt.reason
            result.problems.append(attempt.reason)
            return result
        result.stopped[attempt.step] = attempt.reason
        result.problems.append(attempt.reason)
    result.unreached = too_busy or f"{limits.attempts} of its cells stopped the notebook"
    result.problems.append(too_busy or f"it was given up after {limits.attempts} attempts")
    return result


class _Attempt:
    """One process, from its start to its end.

    After `go`: ``finished`` if the last cell came to its end; else ``reason`` in words, and
    ``step``, the one that ran (None if none had begun).
    """

    def __init__(
        self,
        submission: Submission,
        result: NotebookRun,
        limits: Limits,
        deadline: float,
        stop: threading.Event,
        trusted: bool,
    ) -> None:
        self.submission, self.result, self.limits = submission, result, limits
        self.deadline, self.stop, self.trusted = deadline, stop, trusted
        self.finished = self.out_of_time = self.busy = False
        self.step: int | None = None
        self.reason = ""
        self.output = _PrintedTail()

    def go(self, starter: Starter) -> None:
        running = starter.start(self._job(), self.limits)
        try:
            self._follow(running)
        finally:
            self.busy = running.busy
            self.result.notes += running.end()
        if self.step is None and self.reason and self.output.last_line():
            self.reason += f" ({self.output.last_line()})"
        self._note_output()

    def _job(self) -> dict[str, Any]:
        stopped = self.result.stopped
        steps = [
            {"source": step.source, "checks": step.checks, "run": i not in stopped}
            for i, step in enumerate(self.submission.steps)
        ]
        return {
            "lesson": self.submission.lesson.slug,
            "steps": steps,
            "files": dict(self.submission.beside),
            "trusted": self.trusted,
        }

    def _follow(self, running: Running) -> None:
        """Take in reports until the notebook is done, or has to be stopped."""
        reader = frames.FrameReader()
        self.patience = time.monotonic() + self.limits.start
        open_ends = {running.reports, running.output}
        while not self.finished:
            if self.stop.is_set():
                raise Stopped
            late = self._out_of_time()  # what came in time is taken all the same
            ended = running.how_it_ended()
            ready, _, _ = select.select(open_ends, [], [], 0.0 if ended or late else _LOOK)
            for pipe in ready:
                data = os.read(pipe, _AT_ONCE)
                if not data:
                    open_ends.discard(pipe)
                elif pipe == running.output:
                    self.output.add(data)
                elif not self._take_all(reader, data):
                    return
            if self.finished or (late and self._out_of_time()):
                return
            if ended and not ready:
                self.reason = f"{self._where()} {ended}"
                return
            if running.reports not in open_ends and not ended:
                self._give_it_time_to_end(running)
                return

    def _give_it_time_to_end(self, running: Running) -> None:
        """The reports have ended. Perhaps the process has too, in a moment."""
        until = time.monotonic() + 1.0
        while (ended := running.how_it_ended()) is None and time.monotonic() < until:
            time.sleep(0.01)
        self.reason = f"{self._where()} {ended or 'closed its connection to the grader'}"

    def _out_of_time(self) -> bool:
        self.reason, now = "", time.monotonic()
        if now > self.deadline:
            self.out_of_time = True
            self.reason = f"the notebook ran longer than {self.limits.total:g} s in all"
        elif now > self.patience:
            limit = self.limits.start if self.step is None else self.limits.cell
            self.reason = f"{self._where()} ran longer than {limit:g} s"
        return bool(self.reason)

    def _take_all(self, reader: frames.FrameReader, data: bytes) -> bool:
        try:
            for header, evidence in reader.feed(data):
                self._take(header, evidence)
        except frames.TooLong as error:
            self.reason = f"{self._where()} reported too much ({error})"
            return False
        return True

    def _take(self, header: dict[str, Any], evidence: bytes) -> None:
        steps = self.submission.steps
        match header:
            case {"ready": True}:
                self._begin_to_count()
            case {"begin": int(step)} if (
                (-1 if self.step is None else self.step) < step < len(steps)
            ):
                self.step = step
                self._begin_to_count()
            case {"step": int(step), "exercise": str(name)}:
                if step == self.step and steps[step].checks == name:
                    once_more = steps[step].again
                    found = self.result.again if once_more else self.result.evidence
                    found[name] = TOO_LONG if "too_long" in header else evidence
            case {"end": int(step)} if 0 <= step < len(steps):
                self._take_end(step, header)
            case {"done": True}:
                self.finished = True

    def _before(self) -> int:
        """The last step that began: cells run in their order, whatever a notebook says."""
        return -1 if self.step is None else self.step

    def _begin_to_count(self) -> None:
        self.patience = time.monotonic() + self.limits.cell

    def _take_end(self, step: int, header: dict[str, Any]) -> None:
        self._begin_to_count()
        self.result.errors.pop(step, None)
        if isinstance(error := header.get("error"), dict):
            self.result.errors[step] = error
        if header.get("spoiled"):
            self._note("replaced or closed the standard output: it was put back")
        used = header.get("used")
        if isinstance(used, list) and used and not self.submission.steps[step].checks:
            names = ", ".join(str(name)[:60] for name in used[:3])
            self._note(f"called {names}, which this sheet asks for: that is closed in the grader")

    def _note(self, words: str) -> None:
        note = f"{self._where()} {words}"
        if note not in self.result.notes and len(self.result.notes) < 20:
            self.result.notes.append(note)

    # ---- words ----

    def _where(self) -> str:
        """The cell that ran, such as ``"cell 5 (the check of next_float)"``."""
        if self.step is None:
            return "the start of the process that runs the notebook"
        step = self.submission.steps[self.step]
        of = f" (the check of {step.checks})" if step.checks else ""
        of = of or (f" (the answer to {step.solves})" if step.solves else "")
        return step.where if step.where.startswith("the check") else step.where + of

    def _note_output(self) -> None:
        """A flood costs no marks, but a person should look at what floods."""
        flood, output = "it printed far too much", self.output
        known = any(problem.startswith(flood) for problem in self.result.problems)
        if (output.lines >= MANY_LINES or output.bytes >= MANY_BYTES) and not known:
            amount = f"{output.lines:,} lines, {output.bytes / 2**20:.1f} MB"
            self.result.problems.append(f"{flood} ({amount}): take the print out of its loop")


class _PrintedTail:
    """Counts what the notebook prints, and keeps the end."""

    def __init__(self) -> None:
        self.bytes, self.lines, self._tail = 0, 0, b""

    def add(self, data: bytes) -> None:
        self.bytes += len(data)
        self.lines += data.count(b"\n")
        self._tail = (self._tail + data)[-_TAIL:]

    def last_line(self) -> str:
        lines = self._tail.decode(errors="replace").strip().splitlines()
        with suppress(IndexError):
            return lines[-1]
        return ""
