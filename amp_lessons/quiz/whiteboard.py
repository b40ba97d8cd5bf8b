"""Coding tasks from memory: exercises of the course, in a blank file, graded by their own checks.

`task` reads a task from the exercise sheet, `write` puts it into a file to edit, and `check` runs
that file in a process of its own. Only that process imports torch, and its crash or endless loop
costs nothing here.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amp_lessons.core import catalogue, ipynb
from amp_lessons.core.catalogue import Lesson
from amp_lessons.quiz.bank import BankError

TASKS = (
    "train_any",
    "clip_step",
    "accumulate",
    "schedule_step",
    "OwnScaler",
    "MasterSGD",
    "log_softmax",
    "masked_softmax",
    "autocast_step",
    "summarise_times",
)
"""Exercises that stand alone: the statement and the imports of their sheet are enough."""

SECONDS = 120.0
"""How long a check may take, with the import of torch."""
_MOST = 99
"""Files of one task in one folder."""


class WhiteboardError(BankError):
    """A task cannot be read, or its file cannot be written. The message is one line."""


@dataclass(frozen=True)
class Task:
    """One coding task.

    Attributes:
        name: of the exercise, and of what to write.
        statement: Markdown, without the heading.
        stub: where the answer goes.
        before: imports that belong above the stub.
    """

    name: str
    title: str
    lesson: Lesson
    minutes: int
    statement: str
    stub: str
    before: str

    @property
    def id(self) -> str:
        return log_id(self.name)


@dataclass(frozen=True)
class Checked:
    """What a check said.

    Attributes:
        state: one of the five states of `checks.verdict.State`.
        message: the check's own words, in one paragraph.
        seen: lines of evidence, which keep their form.
        printed: what the learner's program printed.
    """

    state: str
    message: str
    seen: tuple[str, ...] = ()
    printed: str = ""

    @property
    def passed(self) -> bool:
        return self.state == "passed"


def topic_of(name: str) -> str:
    """The topic that a task counts for."""
    return catalogue.lesson_of(name).topics[0]


def log_id(name: str) -> str:
    """What the log calls a task: a question of its topic."""
    return f"{topic_of(name)}.whiteboard_{name.lower()}"


def task(name: str) -> Task:
    """The task with this name.

    Raises:
        WhiteboardError: if there is none, or the course's sheets are missing.
    """
    if name not in TASKS:
        raise WhiteboardError(f"no coding task is called {name!r}; there are {', '.join(TASKS)}")
    lesson, info = catalogue.lesson_of(name), catalogue.exercise_info(name)
    path = catalogue.course_files() / lesson.sheet
    try:
        cells = ipynb.read(path)["cells"]
    except ipynb.NotebookError as error:
        cure = "run make notebooks" if catalogue.checkout() else "install amp-lessons again"
        raise WhiteboardError(f"{path} {error}: {cure}") from error
    place = next((n for n, cell in enumerate(cells) if ipynb.grade_id(cell) == name), None)
    if place is None:
        raise WhiteboardError(f"{path} has no exercise called {name!r}")
    return Task(
        name=name,
        title=info.title,
        lesson=lesson,
        minutes=info.minutes,
        statement=_statement(cells, place),
        stub=ipynb.source_of(cells[place]).strip(),
        before=_imports(cells[:place]),
    )


def _statement(cells: list[ipynb.Cell], place: int) -> str:
    """The text above the stub, without its heading and the line with the points."""
    above = next(cell for cell in reversed(cells[:place]) if cell["cell_type"] == "markdown")
    lines = ipynb.source_of(above).strip().splitlines()
    kept = [line for line in lines if not re.match(r"#+ |\*\d+ points?, about", line)]
    return "\n".join(kept).strip()


def _imports(cells: list[ipynb.Cell]) -> str:
    """The imports of the sheet's first code cell after its set-up, without the course's own."""
    code = (c for c in cells if c["cell_type"] == "code" and not ipynb.is_set_up(c))
    first = next(code, None)
    if first is None:
        return ""
    nodes = ast.parse(ipynb.source_of(first)).body
    found = [ast.unparse(n) for n in nodes if isinstance(n, ast.Import | ast.ImportFrom)]
    return "\n".join(line for line in found if "amp_lessons" not in line)


# ---- the file -----------------------------------------------------------------------------------


def program(asked: Task) -> str:
    """What the file holds at first: the statement as comments, the imports and the stub."""
    lines = [f"Whiteboard: {asked.title} (about {asked.minutes} minutes)", ""]
    for line in asked.statement.splitlines():
        lines += textwrap.wrap(line, 98, break_long_words=False) or [""]
    comments = "\n".join(f"# {line}".rstrip() for line in lines)
    head = "\n\n".join(part for part in (comments, asked.before) if part)
    return f"{head}\n\n\n{asked.stub}\n"


def write(asked: Task, folder: Path) -> Path:
    """Write the task into a new file of this folder, and give its path.

    Raises:
        WhiteboardError: if it cannot be written.
    """
    text = program(asked).encode()
    for number in range(1, _MOST + 1):
        suffix = "" if number == 1 else f"_{number}"
        path = folder / f"whiteboard_{asked.name}{suffix}.py"
        try:
            with open(path, "xb") as stream:
                stream.write(text)
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise WhiteboardError(f"{path} cannot be written: {error.strerror}") from error
    raise WhiteboardError(f"{folder} already has {_MOST} files for {asked.name}: remove some")


# ---- the check ----------------------------------------------------------------------------------


def check(name: str, path: Path, seconds: float = SECONDS) -> Checked:
    """Run a file and check what it defines under the task's name, in a process of its own.

    A pass is kept in the learner's progress, as it is in the exercise sheet.
    """
    with tempfile.TemporaryDirectory(prefix="amp-lessons-") as folder:
        outcome = Path(folder) / "outcome.json"
        command = [sys.executable, "-P", "-m", "amp_lessons.quiz.whiteboard", name, path, outcome]
        try:
            run = subprocess.run(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                env=os.environ | {"PYTHONUTF8": "1", "PYTHONPATH": _search_path()},
            )
        except subprocess.TimeoutExpired:
            said = f"Your program was stopped: it ran for more than {seconds:g} seconds."
            return Checked("error", said)
        printed = run.stdout.decode("utf-8", "replace").strip()
        try:
            found = json.loads(outcome.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            said = f"Your program ended early, with exit status {run.returncode}."
            return Checked("error", said, printed=printed)
    return Checked(found["state"], found["message"], tuple(found["seen"]), printed)


def _search_path() -> str:
    """Where this process finds its packages, the course's own first."""
    ours = str(Path(catalogue.__file__).parent.parent)
    return os.pathsep.join(
        [ours, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    )


def _check_here(name: str, path: Path) -> Checked:
    """Runs in the child process, and imports torch once the file itself has run."""
    import runpy

    try:
        names: dict[str, Any] = runpy.run_path(str(path), run_name="whiteboard")
    except BaseException as error:
        return Checked("error", _what_stopped(error, path))
    if name not in names:
        return Checked("error", f"The file defines nothing called {name}.")
    from amp_lessons.core import progress
    from amp_lessons.exercises import checks

    exercise = checks.find_exercise(name)
    verdict = exercise.verdict(exercise.evidence_of(names[name]))
    message = verdict.message
    if not verdict.check_failed:
        try:
            progress.record_check(name, verdict.state)
        except progress.ProgressError as error:
            message += f" Progress was not saved. {error}"
    return Checked(str(verdict.state), message, verdict.seen)


def _what_stopped(error: BaseException, path: Path) -> str:
    """An exception of the learner's file in one or two lines."""
    if isinstance(error, SyntaxError):
        return f"Syntax error in line {error.lineno}: {error.msg}"
    if isinstance(error, OSError) and error.filename == str(path):
        return f"{path} cannot be read: {error.strerror}"
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    where = f" in line {lines[-1]}" if lines else ""
    return f"Your file stopped{where}: {type(error).__name__}: {error}"


def _main() -> None:
    name, path, outcome = sys.argv[1:]
    checked = _check_here(name, Path(path))
    sys.stdout.flush()
    Path(outcome).write_text(json.dumps(vars(checked)), encoding="utf-8")


if __name__ == "__main__":
    _main()
