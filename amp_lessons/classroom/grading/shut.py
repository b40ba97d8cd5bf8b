"""What is closed while a sheet is graded: in the notebook's process, and in the files that it sees.

The course's functions that do a task of the sheet raise from the first cell to the last
(`checks.closed`). Their files are covered by copies without them, so that another Python, which a
notebook starts, has nothing more. What a notebook needs besides, such as torch's `GradScaler` on a
sheet about it, is closed only while an exercise is checked that asks for the like.
"""

from __future__ import annotations

import ast
from pathlib import Path

from amp_lessons.classroom.grading.apart import keep_apart
from amp_lessons.core import catalogue
from amp_lessons.exercises.checks import closed, draws, find_exercise
from amp_lessons.exercises.checks.closed import ClosedModule, room
from amp_lessons.exercises.checks.probe import Case, Probe

_REFUSAL = "from amp_lessons.exercises.checks.closed import refuse\nrefuse()"
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def probes(slug: str) -> dict[str, Probe]:
    """The probes of a lesson's exercises, by name."""
    return {
        info.name: find_exercise(info.name).probe for info in catalogue.find_lesson(slug).exercises
    }


def for_good(slug: str) -> list[ClosedModule]:
    """The rooms of the course that no exercise of a lesson may use."""
    own = {name for probe in probes(slug).values() for name in probe.own}
    lent = {name for probe in probes(slug).values() for name in probe.lent}
    return [room(name) for name in sorted(own - lent) if room(name).ours]


def while_checked(slug: str) -> dict[str, list[str]]:
    """By exercise, the rooms that are closed only while its answer runs."""
    always = {each.name for each in for_good(slug)}
    return {name: sorted(set(probe.closed) - always) for name, probe in probes(slug).items()}


def get_ready(slug: str) -> None:
    """Find all functions that this lesson closes, and make all its calls."""
    of_all = probes(slug).values()
    names = {name for probe in of_all for name in probe.closed}
    closed.look_through(room(name) for name in sorted(names))
    for probe in of_all:
        _ = probe.all_cases


def shut(slug: str) -> None:
    """Close the lesson's rooms for good, in this process."""
    closed.close(for_good(slug))


def open_all(slug: str) -> None:
    """Close nothing in this process: the instructor trusts this learner."""
    for probe in probes(slug).values():
        vars(probe).update(own=(), closed=())


def hide(slug: str) -> None:
    """Leave of each call what it is called with, and what answers must not look into in another
    process. The labels are for the judge."""
    for probe in probes(slug).values():
        cases = keep_apart([Case(case.args) for case in probe.all_cases])
        vars(probe)["all_cases"] = tuple(cases)
    draws.forget_before()


# ---- the files ----------------------------------------------------------------------------------


def cut_files(slug: str, folder: Path) -> dict[str, str]:
    """Write the files of a lesson's rooms into a folder, without what is closed.

    Returns:
        what each of them is to cover.
    """
    texts: dict[str, str] = {}
    for each in for_good(slug):
        for path in each.files:
            text = texts.get(path) or _text_of(path)
            texts[path] = _cut(text, each) if path.endswith(".py") else ""
    covers = {}
    for number, (path, text) in enumerate(texts.items()):
        copy = folder / f"{slug}-{number}"
        copy.write_text(text, encoding="utf-8")
        covers[str(copy)] = path
    return covers


def _text_of(path: str) -> str:
    return Path(path).read_text(encoding="utf-8") if path.endswith(".py") else ""


def _cut(text: str, closed: ClosedModule) -> str:
    """A module's source in which the functions of a room refuse."""
    tree = ast.parse(text)
    _refuse_in(tree.body, "", closed)
    return ast.unparse(tree)


def _refuse_in(body: list[ast.stmt], around: str, closed: ClosedModule) -> None:
    for node in body:
        if isinstance(node, ast.ClassDef):
            _refuse_in(node.body, f"{around}{node.name}.", closed)
        elif isinstance(node, _FUNCTIONS) and closed.holds(f"{around}{node.name}"):
            node.body = ast.parse(_REFUSAL).body
