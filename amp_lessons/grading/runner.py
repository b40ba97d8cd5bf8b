"""The child process of the grader: runs a notebook's cells and reports what the probes saw.

It reads one job from standard input and writes one JSON line after another to what was standard
output: which cell begins, which ended with what exception, which check saw what. It judges
nothing. What the notebook prints goes to standard error, which the parent throws away but for the
end. Started by `watch` as ``python -m amp_lessons.grading.runner``.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from contextlib import suppress
from typing import Any

_CALL = re.compile(r"^(\w+)\.\w+\.check\(", re.MULTILINE)


class Reporter:
    """Writes JSON lines to the parent, and only from the process that made it."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.pipe = os.dup(1)  # not inherited by programs that a notebook starts

    def send(self, **message: Any) -> None:
        if os.getpid() != self.process:
            return  # a fork of the notebook's own
        data = (json.dumps(message) + "\n").encode()
        while data:
            data = data[os.write(self.pipe, data) :]


def main() -> None:
    """Run the job on standard input, then end without waiting for threads."""
    _be_the_first_to_go()
    job = json.load(sys.stdin.buffer)
    reporter = Reporter()
    _redirect()
    from amp_lessons.checks.exercise import recording

    lesson = importlib.import_module(f"amp_lessons.exercises.{job['lesson']}")
    shell = _shell()
    reporter.send(ready=True)
    for number, step in enumerate(job["steps"]):
        if not step["run"]:
            continue
        reporter.send(begin=number)

        def record(name: str, evidence: Any, number: int = number) -> None:
            reporter.send(step=number, exercise=name, evidence=evidence)

        with recording(record):
            error = _run(shell, step, lesson)
        if os.getpid() != reporter.process:
            os._exit(0)
        reporter.send(end=number, error=error)
    reporter.send(done=True)
    sys.stdout.flush()
    os._exit(0)


def _run(shell: Any, step: dict[str, Any], lesson: Any) -> dict[str, Any] | None:
    """Run one cell; describe its exception. A check finds the lesson even if ``ex`` was reused."""
    namespace = shell.user_ns
    call = _CALL.search(step["source"]) if step["checks"] else None
    alias = call[1] if call else ""
    before = namespace.get(alias, namespace)
    if alias:
        namespace[alias] = lesson
    result = shell.run_cell(step["source"], store_history=False)
    if alias and before is not namespace:
        namespace[alias] = before
    error = result.error_before_exec or result.error_in_exec
    return None if error is None else _describe(error)


def _describe(error: BaseException) -> dict[str, Any]:
    from amp_lessons.checks.evidence import describe_error

    data = describe_error(error)
    if isinstance(error, SyntaxError) and "line" not in data:
        text = error.text if isinstance(error.text, str) else ""
        data |= {"line": error.lineno, "source": text.strip(), "function": "<module>"}
        data["message"] = str(error.msg)
    return data


def _shell() -> Any:
    """IPython without a kernel: magics and a top-level await work, nothing is saved."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.xmode = "Minimal"
    return InteractiveShell.instance(config=config)


def _redirect() -> None:
    """No input; output to standard error, so that nothing disturbs the reports."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)


def _be_the_first_to_go() -> None:
    """When memory runs out, Linux ends the notebook and not the grader."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


if __name__ == "__main__":
    main()
