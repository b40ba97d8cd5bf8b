"""A learner's notebook, made ready to run: whose it is, and which cell checks what.

A cell is found by nbgrader's metadata, else by its id, else by what stands in it. What learners
break most often is repaired here: a check cell that is deleted, copied or emptied, and an answer
that stands below its check. A check cell that was changed runs as it is, and the course's own runs
below it: what counts is what a check saw, and not how it was called.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from amp_lessons.core import catalogue, ipynb
from amp_lessons.core.catalogue import Lesson
from amp_lessons.core.ipynb import NotebookError

SUFFIX = "_check"
"""Added to an exercise's name, it is the grade id of its check cell."""

NO_EXERCISE = "has no exercise of the course: hand in a notebook of the exercises folder"
"""What is said of a notebook that is none of ours."""

LONGEST_CELL = 1_000_000
"""Characters of a cell that are looked through for what it defines. It runs whatever its length."""

LONGEST_ANSWER = 20_000
"""Characters of an answer that a report keeps."""

_GIVEN_UP = re.compile(r"^[^#\n]*\.(\w+)\.solution\(\s*(?:give_up\s*=\s*)?True", re.MULTILINE)


@dataclass(frozen=True)
class CellToRun:
    """One code cell to run.

    Attributes:
        source: what runs.
        where: what to call it in a message, such as ``"cell 5"``.
        checks: the exercise whose check it is, or "".
        solves: the exercise whose answer it holds, as far as its metadata tells, or "".
        again: whether this check runs once more: an answer stands below the first one, or that was
            changed. It counts if the first one didn't pass.
    """

    source: str
    where: str
    checks: str = ""
    solves: str = ""
    again: bool = False

    def again_of(self, exercise: str) -> bool:
        return self.again and self.checks == exercise


@dataclass(frozen=True)
class Submission:
    """A notebook that can be run, and what had to be repaired for it.

    Attributes:
        problems: repairs that a person should look at.
        notes: what is worth knowing and changes no mark.
        gave_up: the exercises whose solution a cell asks for with ``give_up=True``.
        beside: the small text files beside and below the notebook, by their path from its folder.
    """

    lesson: Lesson
    steps: tuple[CellToRun, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    gave_up: tuple[str, ...] = ()
    beside: Mapping[str, str] = field(default_factory=dict)

    def steps_of(self, exercise: str) -> list[int]:
        """The steps that hold an exercise's answer, then those that check it."""
        answers = [i for i, step in enumerate(self.steps) if step.solves == exercise]
        return answers + [i for i, step in enumerate(self.steps) if step.checks == exercise]

    def answer(self, exercise: str) -> str:
        """The source of the cells that hold an exercise's answer, or its beginning."""
        text = "\n\n".join(step.source for step in self.steps if step.solves == exercise)
        return text if len(text) <= LONGEST_ANSWER else f"{text[:LONGEST_ANSWER]}\n… (cut)"


def read(path: Path) -> Submission:
    """Read a learner's notebook from a file; see `parse`."""
    return parse(path.read_bytes())


def parse(content: bytes) -> Submission:
    """Read a learner's notebook and put the course's checks in.

    Raises:
        NotebookError: if it is not a notebook, or no exercise of the course is in it.
    """
    notebook = ipynb.parse(content)
    steps = _recognise(notebook["cells"])
    lesson, others = _lesson(steps)
    problems = [f"it also has exercises of {other.id}, which were not graded" for other in others]
    master = checks_of(lesson)
    steps = _with_masters_checks(steps, master)
    steps = _find_answers(steps, answers_of(lesson))
    notes = _duplicates(steps)
    steps = _put_back_missing(steps, master, notes)
    steps = _check_again_below(steps)
    gave_up = tuple(_given_up(steps, set(master)))
    return Submission(
        lesson,
        tuple(steps),
        tuple(problems),
        tuple(notes),
        gave_up,
    )


def _text(source: str) -> str:
    """A cell without what editors change by themselves: the ends of its lines."""
    return "\n".join(line.rstrip() for line in source.strip().splitlines())


def _given_up(steps: Sequence[CellToRun], known: set[str]) -> Iterator[str]:
    text = "\n".join(step.source for step in steps)
    return (name for name in dict.fromkeys(_GIVEN_UP.findall(text)) if name in known)


@cache
def _own_cells(lesson: Lesson) -> list[ipynb.Cell]:
    path = catalogue.course_files() / lesson.sheet
    try:
        return ipynb.read(path)["cells"]
    except NotebookError as error:
        raise NotebookError(f"cannot be graded, for the course's own {path} {error}") from error


def answers_of(lesson: Lesson) -> dict[str, set[str]]:
    """The names that the answer's cell of each exercise defines, as the course hands it out."""
    return {
        ipynb.grade_id(cell): _defined(ipynb.source_of(cell))
        for cell in _own_cells(lesson)
        if ipynb.is_solution(cell)
    }


def modules_of(lesson: Lesson) -> set[str]:
    """The modules that the cells of a lesson's sheet import, as the course hands it out.

    Raises:
        NotebookError: if the course's own notebook is missing.
    """
    found = set()
    for cell in _own_cells(lesson):
        if cell["cell_type"] == "code" and not ipynb.is_set_up(cell):
            for node in ast.walk(ast.parse(ipynb.source_of(cell))):
                if isinstance(node, ast.Import):
                    found |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    found.add(node.module)
    return found


def checks_of(lesson: Lesson) -> dict[str, str]:
    """The source of each check cell as the course hands it out, by exercise.

    Raises:
        NotebookError: if the course's own notebook is missing or not complete.
    """
    path = catalogue.course_files() / lesson.sheet
    found = {
        ipynb.grade_id(cell).removesuffix(SUFFIX): ipynb.source_of(cell)
        for cell in _own_cells(lesson)
        if ipynb.is_check(cell)
    }
    missing = [info.name for info in lesson.exercises if info.name not in found]
    if missing:
        raise NotebookError(
            f"cannot be graded, for the course's own {path} has no check of {', '.join(missing)}"
        )
    return found


def _recognise(cells: list[ipynb.Cell]) -> list[CellToRun]:
    """The code cells as steps, each with the exercise that it answers or checks."""
    known = {info.name for lesson in catalogue.LESSONS for info in lesson.exercises}
    ids = {name.replace("_", "-"): name for name in known}
    ids |= {f"{cell_id}-check": f"{name}{SUFFIX}" for cell_id, name in ids.items()}
    steps = []
    for number, cell in enumerate(cells, start=1):
        if cell["cell_type"] != "code":
            continue
        by_id = ids.get(str(cell.get("id")), "") if not ipynb.grade_id(cell) else ""
        name = ipynb.grade_id(cell) or by_id
        is_check = ipynb.is_check(cell) or by_id.endswith(SUFFIX)
        checks = name.removesuffix(SUFFIX) if is_check else ""
        solves = name if ipynb.is_solution(cell) or (by_id and not is_check) else ""
        steps.append(
            CellToRun(
                source=ipynb.source_of(cell),
                where=f"cell {number}",
                checks=checks if checks in known else "",
                solves=solves if solves in known else "",
            )
        )
    return _recognise_by_source(steps, known)


def _recognise_by_source(steps: list[CellToRun], known: set[str]) -> list[CellToRun]:
    """Find check cells whose metadata an editor dropped, where no cell with metadata is left.

    A cell with the call alone comes first, then one in which an answer stands above it.
    """
    for alone in (True, False):
        marked = {step.checks for step in steps}
        found = []
        for step in steps:
            name = "" if step.checks or step.solves else _checked_by(step.source, alone)
            if name in known and name not in marked:
                step = replace(step, checks=name)
            found.append(step)
        steps = found
    return steps


def _checked_by(source: str, alone: bool) -> str:
    """The exercise of a cell that calls one check, or "".

    Args:
        alone: whether nothing else may stand in it.
    """
    statements = _parsed(source)
    checked = {name for name in map(_checked_in, statements) if name}
    return checked.pop() if len(checked) == 1 and (len(statements) == 1 or not alone) else ""


def _checked_in(statement: ast.stmt) -> str:
    """The exercise of a statement that is ``ex.<exercise>.check(…)``, or ""."""
    match statement:
        case (
            ast.Expr(ast.Call(ast.Attribute(ast.Attribute(ast.Name(), exercise), "check")))
            | ast.Assign(
                value=ast.Call(ast.Attribute(ast.Attribute(ast.Name(), exercise), "check"))
            )
        ):
            return exercise
    return ""


def _parsed(source: str) -> list[ast.stmt]:
    """The statements of a cell; none if it is not Python, or far longer than any of the course."""
    if len(source) > LONGEST_CELL:
        return []
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _find_answers(steps: list[CellToRun], answers: Mapping[str, set[str]]) -> list[CellToRun]:
    """Mark the cells without metadata that define what an exercise asks for."""
    result = []
    for step in steps:
        if not step.checks and not step.solves:
            defined = _defined(step.source)
            name = next((name for name, wanted in answers.items() if wanted & defined), "")
            step = replace(step, solves=name)
        result.append(step)
    return result


def _defined(source: str) -> set[str]:
    """The names that a cell defines at its top level."""
    found = set()
    for node in _parsed(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def _lesson(steps: list[CellToRun]) -> tuple[Lesson, list[Lesson]]:
    """The lesson that most of the exercises belong to, and the other lessons found."""
    exercises = {name for step in steps for name in (step.checks, step.solves) if name}
    counts = Counter(catalogue.lesson_of(name).id for name in exercises)
    if not counts:
        raise NotebookError(NO_EXERCISE)
    found = [lesson for lesson in catalogue.LESSONS if lesson.id in counts]
    best = max(found, key=lambda lesson: counts[lesson.id])
    return best, [lesson for lesson in found if lesson is not best]


def _with_masters_checks(steps: list[CellToRun], master: Mapping[str, str]) -> list[CellToRun]:
    """Add the course's own check below each one that was changed. Checks of other lessons become
    plain cells."""
    result: list[CellToRun] = []
    for step in steps:
        if step.checks not in master:
            result.append(replace(step, checks=""))
            continue
        own = replace(step, source=master[step.checks])
        if _text(step.source) == _text(own.source):
            result.append(own)
            continue
        where = f"the course's own check of {step.checks}, below {step.where}"
        solves = step.checks if _defined(step.source) else ""
        result += [replace(step, solves=solves), replace(own, where=where, again=True)]
    return result


def _duplicates(steps: list[CellToRun]) -> list[str]:
    cells: dict[str, list[str]] = {}
    for step in steps:
        if step.checks and not step.again:
            cells.setdefault(step.checks, []).append(step.where.removeprefix("cell "))
    return [
        f"the check of {name} is there {len(numbers)} times, in cells {' and '.join(numbers)}: "
        "the last one counts"
        for name, numbers in cells.items()
        if len(numbers) > 1
    ]


def _put_back_missing(
    steps: list[CellToRun], master: Mapping[str, str], notes: list[str]
) -> list[CellToRun]:
    """Add each check that is gone: after the exercise's answer, or at the end."""
    steps = list(steps)
    for name, source in master.items():
        if any(step.checks == name for step in steps):
            continue
        notes.append(f"the check of {name} is missing: it was put back")
        answers = [i for i, step in enumerate(steps) if step.solves == name]
        place = answers[-1] + 1 if answers else len(steps)
        steps.insert(place, CellToRun(source, f"the check of {name}", checks=name))
    return steps


def _check_again_below(steps: list[CellToRun]) -> list[CellToRun]:
    """Where an answer stands below the last check of its exercise, check once more below it."""
    last_check = {step.checks: i for i, step in enumerate(steps) if step.checks}
    last_answer = {step.solves: i for i, step in enumerate(steps) if step.solves}
    below = {
        place: steps[last_check[name]]
        for name, place in last_answer.items()
        if name in last_check and place > last_check[name]
    }
    result = []
    for place, step in enumerate(steps):
        result.append(step)
        if place in below:
            where = f"the check of {below[place].checks}, once more below {step.where}"
            result.append(replace(below[place], where=where, again=True))
    return result
