"""The two parts of an exercise's file, loaded apart.

The public part holds the statement, the stub, the hints and the probe. The answer key holds
the solution, other right answers, the mistakes and the judge; it is read only when a verdict or
the solution is asked for. Where a process must not know it, the file is cut (`write_public_parts`).
"""

from __future__ import annotations

import ast
import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import amp_lessons
from amp_lessons.core import catalogue
from amp_lessons.exercises.checks.authoring.exercise_parser import (
    ExerciseFileError,
    SourceCell,
    bullets,
    has_solution,
    public_part,
    read_cells,
    without_markers,
)

if TYPE_CHECKING:
    from amp_lessons.exercises.checks.diagnosis import Breaks, Diagnosis, Mistake, WrongAnswer
    from amp_lessons.exercises.checks.probe import Probe

SHEET, SHARED = "sheet.py", "shared.py"


class PublicPart:
    """What a learner may see of an exercise, and what runs next to their code.

    Args:
        path: the exercise's file.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.stem
        self.cells = read_cells(path, public_part(path.read_text(encoding="utf-8")))

    def one(self, kind: str) -> SourceCell:
        """The only cell of a kind.

        Raises:
            ExerciseFileError: if there is none, or several.
        """
        return _one(self.cells, kind, self.path)

    @property
    def hints(self) -> tuple[str, ...]:
        return bullets(self.one("hints").comment)

    @property
    def call(self) -> str:
        """What goes into the parentheses of ``check``."""
        return self.one("answer").options.get("check", self.name)

    @property
    def stub(self) -> str:
        return self.one("answer").text.strip("\n")

    @cached_property
    def probe(self) -> Probe:
        """It closes what the other exercises of the sheet close in the course, too."""
        probe = self.names["probe"]
        beside = _closed_on_sheet(self.path.parent) - set(probe.lent)
        return replace(probe, closed=tuple(sorted(beside.union(probe.own))))

    @cached_property
    def names(self) -> dict[str, Any]:
        """What the probe's cell defines."""
        from amp_lessons.exercises.checks.probe import Case, Probe

        cell = self.one("probe")
        namespace: dict[str, Any] = {"Case": Case, "Probe": Probe, "math": math, "partial": partial}
        namespace["__name__"] = f"{_module(self.path)}.probe"
        _run(cell, namespace)
        if "probe" not in namespace:
            raise ExerciseFileError(f"{cell.where}: define `probe = Probe(…)` in this cell.")
        return namespace

    @cached_property
    def given(self) -> dict[str, Any]:
        """The names that an answer finds in the sheet: imports and helpers, no demonstrations."""
        namespace: dict[str, Any] = {"__name__": _module(self.path)}
        for cell in [*read_cells(self.path.with_name(SHEET)), *self.cells]:
            if cell.kind == "given":
                _run(cell, namespace)
        return namespace

    def answer(self, source: str) -> tuple[Any, ...]:
        """What ``check`` is given if this program stands in the answer's cell."""
        from amp_lessons.exercises.checks.diagnosis import compiled

        namespace = dict(self.given)
        del namespace["__name__"]  # up to 2.11, torch.compile imports the module that this names
        exec(compiled(source, self.name), namespace)
        given = eval(self.call, namespace)
        return given if "," in self.call else (given,)


class AnswerKey:
    """What nobody sees before a pass.

    Args:
        public: the other part.
    """

    def __init__(self, public: PublicPart) -> None:
        self.public, self.path = public, public.path
        self.cells = read_cells(self.path)
        try:
            if has_solution(self._answer.text):
                return
        except ValueError as error:
            raise ExerciseFileError(f"{self._answer.where}: {error}.") from error
        raise ExerciseFileError(
            f"{self._answer.where}: the answer key is not here: no solution stands between the "
            "markers."
        )

    @property
    def _answer(self) -> SourceCell:
        return _one(self.cells, "answer", self.path)

    @property
    def solution(self) -> str:
        return without_markers(self._answer.text)

    @property
    def passed(self) -> str:
        return _one(self.cells, "passed", self.path).sentence

    @cached_property
    def right(self) -> dict[str, str]:
        """The right answers by name; that of the course is ``""``."""
        found = {"": self.solution + "\n"}
        for cell in self.cells:
            if cell.kind == "right":
                if not cell.name or cell.name in found:
                    raise ExerciseFileError(f"{cell.where}: give each right answer its own name.")
                found[cell.name] = cell.text.strip("\n") + "\n"
        return found

    @cached_property
    def diagnosis(self) -> Diagnosis:
        from amp_lessons.exercises.checks.diagnosis import Diagnosis, Judge

        public = self.public
        names = {**_words_of_a_judge(), **public.names}
        for cell in self.cells:
            if cell.kind == "judge":
                _run(cell, names)
        judge = names.get("judge", Judge())
        mistakes = tuple(self._mistakes(names))
        return Diagnosis(public.name, public.probe, judge, self.right, mistakes, public.answer)

    def _mistakes(self, names: dict[str, Any]) -> Iterator[Mistake]:
        from amp_lessons.exercises.checks.diagnosis import Mistake

        shared = shared_mistakes(self.path.parent)
        groups: list[tuple[SourceCell, list[SourceCell]]] = []
        for cell in self.cells:
            if cell.kind in ("wrong", "rule"):
                groups.append((cell, []))
            elif cell.kind == "program":
                if not groups:
                    raise ExerciseFileError(f"{cell.where}: put a cell 'wrong' above this program.")
                groups[-1][1].append(cell)
        for head, programs in groups:
            breaks = self._rule(head, names) if head.kind == "rule" else None
            answers = [*self._edits(head, breaks is not None), *map(_whole, programs)]
            sentence = head.sentence
            if head.name in shared:
                also = shared.pop(head.name)
                sentence = sentence or also.sentence
                answers += self._edits(also, fits_only=True)
            yield Mistake(head.name, sentence, tuple(answers), breaks, head.where)
        for also in shared.values():
            answers = list(self._edits(also, fits_only=True))
            if answers:
                yield Mistake(also.name, also.sentence, tuple(answers), where=also.where)

    def _rule(self, cell: SourceCell, names: dict[str, Any]) -> Breaks:
        namespace = dict(names)
        tree = ast.parse(cell.code)
        _run(cell, namespace, [n for n in tree.body if not isinstance(n, ast.Expr)])
        if "breaks" not in namespace:
            raise ExerciseFileError(f"{cell.where}: define `breaks(seen, right)` in this rule.")
        return namespace["breaks"]

    def _edits(
        self, cell: SourceCell, of_rule: bool = False, fits_only: bool = False
    ) -> Iterator[WrongAnswer]:
        """The wrong answers that a cell writes as edits, one statement each."""
        from amp_lessons.exercises.checks.authoring.edits import EDITS, Edit, EditError
        from amp_lessons.exercises.checks.diagnosis import WrongAnswer

        for node in ast.parse(cell.code).body:
            if not isinstance(node, ast.Expr):
                if of_rule:
                    continue
                raise ExerciseFileError(
                    f"{_at(cell, node)}: below '{cell.kind}' stand edits, such as drop(…); a whole "
                    "program gets a cell '# %% program NAME'."
                )
            text = ast.unparse(node)
            edit = eval(compile(ast.Expression(node.value), "<edits>", "eval"), dict(EDITS))
            if not isinstance(edit, Edit) or edit.of not in self.right:
                raise ExerciseFileError(f"{_at(cell, node)}: {text} is no edit of a right answer.")
            try:
                source = edit(self.right[edit.of])
            except EditError as error:
                if fits_only:
                    continue
                raise ExerciseFileError(
                    f"{_at(cell, node)}: this edit does not fit any more: {error}. Write it for "
                    "the answer as it stands now, or remove it."
                ) from error
            yield WrongAnswer(text, source, _at(cell, node), edit)


def _words_of_a_judge() -> dict[str, Any]:
    """What a cell of the answer key may use without an import."""
    from amp_lessons.exercises.checks import diagnosis, messages, verdict
    from amp_lessons.exercises.checks.serialize import compare

    of_compare = "exactly within within_ulps as_number is_dict is_tensor differing noted"
    words: dict[str, Any] = {name: getattr(compare, name) for name in of_compare.split()}
    words |= {"math": math, "describe": messages.describe, "line": messages.line}
    words |= {"Judge": diagnosis.Judge, "Finding": verdict.Finding}
    return words | {"State": verdict.State, "Verdict": verdict.Verdict}


def shared_mistakes(folder: Path) -> dict[str, SourceCell]:
    """The mistakes that all exercises of a topic share, where their edits fit."""
    path = folder / SHARED
    if not path.exists():
        return {}
    return {cell.name: cell for cell in read_cells(path) if cell.kind == "wrong"}


def _whole(cell: SourceCell) -> WrongAnswer:
    from amp_lessons.exercises.checks.diagnosis import WrongAnswer

    source = cell.text.strip("\n") + "\n"
    return WrongAnswer(cell.name, source, cell.where, proof="proof" in cell.flags)


def _one(cells: list[SourceCell], kind: str, path: Path) -> SourceCell:
    found = [cell for cell in cells if cell.kind == kind]
    if len(found) != 1:
        raise ExerciseFileError(
            f"{path.parent.name}/{path.name}: has {len(found)} cells '# %% {kind}'; write one."
        )
    return found[0]


def _at(cell: SourceCell, node: ast.stmt) -> str:
    return f"{cell.where.rpartition(':')[0]}:{cell.code_line + node.lineno - 1}"


def _module(path: Path) -> str:
    return f"amp_lessons.exercises.{path.parent.name}.{path.stem}"


def _run(cell: SourceCell, namespace: dict[str, Any], body: list[ast.stmt] | None = None) -> None:
    """Run a cell's code, with the lines of the file in its tracebacks."""
    tree = ast.parse(cell.code)
    if body is not None:
        tree.body = body
    ast.increment_lineno(tree, cell.code_line - 1)
    exec(compile(tree, cell.where.rpartition(":")[0], "exec"), namespace)


@cache
def _closed_on_sheet(folder: Path) -> set[str]:
    """What the exercises in a folder close in the course. Torch's functions are not among it: they
    are closed only while an exercise is checked that asks for the like."""
    from amp_lessons.exercises.checks.closed import room

    own = {name for path in _exercises_in(folder) for name in PublicPart(path).names["probe"].own}
    return {name for name in own if room(name).ours}


def _exercises_in(folder: Path) -> list[Path]:
    others = {"__init__.py", SHEET, SHARED}
    files = sorted(folder.glob("*.py"))
    return [f for f in files if f.name not in others and not f.name.startswith("harness")]


def write_public_parts(package: Path) -> None:
    """Cut every exercise's file below a copy of the package to its public part.

    Raises:
        FileNotFoundError: if the copy has no exercises where the package has them.
    """
    exercises = package / catalogue.EXERCISES.relative_to(
        Path(amp_lessons.__file__).resolve().parent
    )
    framework = Path(__file__).resolve().parent.name  # beside the topics lies this package
    for folder in (each for each in exercises.iterdir() if each.is_dir()):
        if folder.name == framework:
            continue
        for path in _exercises_in(folder):
            path.write_text(public_part(path.read_text(encoding="utf-8")), encoding="utf-8")
        (folder / SHARED).unlink(missing_ok=True)
    shutil.rmtree(exercises / "__pycache__", ignore_errors=True)
