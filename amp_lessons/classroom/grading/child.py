"""Runs a notebook's cells and reports what the probes saw: the room where strangers' code runs.

It reports which cell begins, which ended with what exception, and which check saw what. It judges
nothing and has nothing to give away: the answer keys of the exercises are not in its
root file system.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from amp_lessons.classroom.grading import frames

if TYPE_CHECKING:
    from amp_lessons.exercises.checks.reporters import CheckedExercise

BETWEEN_STEPS = -1
"""The step of a check that a thread runs while no cell does. The grader takes no evidence of it."""

_CALL = re.compile(r"^(\w+)\.\w+\.check\(", re.MULTILINE)


class ToGrader:
    """Writes frames to the grader, and only from the process that made it.

    Args:
        pipe: the file descriptor to write to.
    """

    def __init__(self, pipe: int) -> None:
        self.process, self.pipe, self.step = os.getpid(), pipe, BETWEEN_STEPS

    def report(self, exercise: CheckedExercise, evidence: Any) -> None:
        """Send what a check saw in the step that runs. Nothing is judged, saved or shown here."""
        from amp_lessons.exercises.checks.serialize import as_json

        self.send(as_json(evidence).encode(), step=self.step, exercise=exercise.name)

    def send(self, evidence: bytes = b"", **header: Any) -> None:
        if os.getpid() != self.process:
            return  # a fork of the notebook's own
        if len(evidence) > frames.LONGEST_EVIDENCE:
            header, evidence = {**header, "too_long": len(evidence)}, b""
        frames.write(self.pipe, frames.packed(header, evidence))


def run(job: dict[str, Any], pipe: int) -> None:
    """Run a job's cells, then end the process without waiting for threads.

    Args:
        job: ``{"lesson": slug, "steps": [{"source", "checks", "run"}, …]}``; with
            ``"trusted": true``, nothing of the course is closed to the notebook. ``"files"`` holds
            the text of what lies beside it, by name.
        pipe: the file descriptor for the frames.
    """
    from amp_lessons.exercises.checks.closed import without
    from amp_lessons.exercises.checks.exercise import Exercise

    reporter = Exercise.reporter = ToGrader(pipe)
    lesson = importlib.import_module(f"amp_lessons.exercises.{job['lesson']}")
    shell = shell_without_kernel()
    while_checked = _close(job["lesson"], job.get("trusted", False))
    _put_beside(job.get("files", {}))
    output = _StandardStreams()
    reporter.send(ready=True)
    for number, step in enumerate(job["steps"]):
        if not step["run"]:
            continue
        reporter.send(begin=number)
        also = while_checked.get(step["checks"], ())
        importlib.invalidate_caches()  # for what the last cell may have written
        reporter.step = number
        error, used = without(also, partial(_run, shell, step, lesson), libraries=True)
        reporter.step = BETWEEN_STEPS
        if os.getpid() != reporter.process:
            os._exit(0)
        reporter.send(end=number, error=error, spoiled=output.put_back(), used=used[:3])
    reporter.send(done=True)
    with suppress(Exception):
        sys.stdout.flush()
    os._exit(0)


def _put_beside(files: dict[str, str]) -> None:
    """Put these files into the working folder, whose modules can be imported, after all others:
    none of the learner's takes the place of one that is installed."""
    here = Path.cwd()
    for name, text in files.items():
        path = (here / name).resolve()
        if path.is_relative_to(here):
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("x", encoding="utf-8") as file:
                    file.write(text)
    sys.path.append(str(here))


def _close(slug: str, trusted: bool) -> dict[str, list[str]]:
    """Close what a lesson's answers must not use. Gives what else is closed in which check."""
    from amp_lessons.classroom.grading import shut

    shut.get_ready(slug)
    shut.hide(slug)
    if trusted:
        shut.open_all(slug)
        return {}
    while_checked = shut.while_checked(slug)
    shut.shut(slug)
    return while_checked


def _run(shell: Any, step: dict[str, Any], lesson: Any) -> dict[str, Any] | None:
    """Run one cell; describe its exception. A check finds the lesson even if ``ex`` was reused."""
    namespace = shell.user_ns
    call = _CALL.search(step["source"]) if step["checks"] else None
    alias = call[1] if call else ""
    before = namespace.get(alias, namespace)
    if alias:
        namespace[alias] = lesson
    error = _run_on(shell, step["source"])
    if alias and before is not namespace:
        namespace[alias] = before
    return None if error is None else _describe(error)


def _run_on(shell: Any, source: str) -> BaseException | None:
    """Run a cell. A statement that calls what is closed doesn't end it: those below run too, as far
    as they can do without."""
    from amp_lessons.exercises.checks.closed import Closed

    first: BaseException | None = None
    while True:
        result = shell.run_cell(source, store_history=False)
        error = result.error_before_exec or result.error_in_exec
        if isinstance(error, Closed):
            first = first or error
        if first is None or error is None:
            return first or error
        source = _below(shell.transform_cell(source), error)


def _below(source: str, error: BaseException) -> str:
    """What stands below the statement that raised, at the same lines; "" if that can't be told."""
    modules = (line for frame, line in walk_tb(error.__traceback__) if _is_a_cells(frame))
    raised = next(modules, None)
    for node in ast.parse(source).body:
        if raised is not None and node.lineno <= raised <= (node.end_lineno or 0):
            lines = source.splitlines(keepends=True)
            return "\n" * (node.end_lineno or 0) + "".join(lines[node.end_lineno :])
    return ""


def _is_a_cells(frame: FrameType) -> bool:
    """Whether this is a cell itself, and not a function or an imported module."""
    return frame.f_code.co_name == "<module>" and "__file__" not in frame.f_globals


def _describe(error: BaseException) -> dict[str, Any]:
    from amp_lessons.exercises.checks.evidence import describe_error

    data = describe_error(error)
    if isinstance(error, SyntaxError) and "line" not in data:
        text = error.text if isinstance(error.text, str) else ""
        data |= {"line": error.lineno, "source": text.strip()[:500], "function": "<module>"}
        data["message"] = str(error.msg)[:500]
    return data


def shell_without_kernel() -> Any:
    """IPython without a kernel: magics and a top-level await work, nothing is saved."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Shell(InteractiveShell):
        def system(self, cmd: str) -> None:
            """For ``!ls``. A pseudo-terminal is not to be had in the sandbox."""
            self.system_raw(cmd)

        def enable_gui(self, gui: str | None = None) -> None:
            """For ``%matplotlib``, which asks for what only a kernel has."""

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.xmode = "Minimal"
    if InteractiveShell.initialized():
        return InteractiveShell.instance()
    return Shell.instance(config=config)


class _StandardStreams:
    """Puts the standard streams back after each cell, and says which ones it had spoiled."""

    def __init__(self) -> None:
        self.pipe = os.dup(1)
        for number, name in ((1, "stdout"), (2, "stderr")):
            setattr(sys, name, _stream(number))
        self.streams: dict[str, Any] = {"stdout": sys.stdout, "stderr": sys.stderr}

    def put_back(self) -> list[str]:
        """The names of the streams that the last cell replaced or closed."""
        spoiled = []
        for number, name in enumerate(self.streams, start=1):
            stream: Any = self.streams[name]
            closed = _is_closed(number)
            if closed:
                with suppress(OSError):
                    os.dup2(self.pipe, number)
            replaced = getattr(sys, name, None) is not stream
            if replaced or closed or stream.closed:
                spoiled.append(name)
                if stream.closed:
                    self.streams[name] = _stream(number)
                setattr(sys, name, self.streams[name])
        return spoiled


def _stream(number: int) -> TextIO:
    return os.fdopen(number, "w", encoding="utf-8", errors="replace", closefd=False)


def _is_closed(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return True
    return False


# ---- a process of its own, where there is no fork server ----------------------------------------


def main() -> None:
    """Run the job on standard input. Frames go to what is standard output at the start."""
    from amp_lessons.classroom.grading.sandbox.limits import Limits
    from amp_lessons.exercises.checks.draws import use_salt

    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # when memory runs out, Linux ends the notebook and not the grader
    job = json.load(sys.stdin.buffer)
    use_salt(job.pop("salt"))
    pipe = os.dup(1)  # not inherited by programs that a notebook starts
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    import torch  # noqa: F401  # what it takes does not count against the learner

    if sys.platform == "linux":
        from amp_lessons.classroom.grading.sandbox import cell, limits, linux

        linux.die_with_parent()
        if job["watch"]:
            cell.watch_over(Limits(**job["limits"]), *job["watch"])
        else:
            limits.apply(Limits(**job["limits"]))
    run(job, pipe)


if __name__ == "__main__":
    main()
