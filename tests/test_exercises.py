"""Every exercise, three ways: the stub is not attempted, the solution passes, each wrong answer is
wrong with the diagnosis written for it; and a second correct answer passes too. The solution also
passes as a learner is shown it.

The answers run in the exercise's own notebook, in place of the stub. The tests hold the catalogue,
the check modules, the notebooks and the files of mutants against each other, so that no exercise
can be forgotten.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest

from amp_lessons.checks import display
from amp_lessons.checks.exercise import COMMON_DIAGNOSES, Exercise, recording
from amp_lessons.checks.verdict import State, Verdict
from amp_lessons.course import LESSONS, lesson_of

ROOT = Path(__file__).resolve().parent.parent
MUTANTS = Path(__file__).resolve().parent / "mutants"
EXERCISES = [info.name for lesson in LESSONS for info in lesson.exercises]
HEADER = re.compile(
    r"^# === (?P<kind>mutant|correct): (?P<name>\w+)(?: -> (?P<diagnosis>[\w-]+))?$", re.MULTILINE
)


@dataclass(frozen=True)
class Answer:
    exercise: str
    kind: str
    name: str
    diagnosis: str
    source: str

    def __str__(self) -> str:
        return f"{self.exercise}-{self.name}"


@cache
def answers(exercise: str) -> tuple[Answer, ...]:
    """The answers in an exercise's file, in order."""
    text = (MUTANTS / f"{exercise}.py").read_text(encoding="utf-8")
    heads = list(HEADER.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return tuple(
        Answer(exercise, h["kind"], h["name"], h["diagnosis"] or "", text[h.end() : end])
        for h, end in zip(heads, ends, strict=True)
    )


ALL_ANSWERS = [
    answer for name in EXERCISES if (MUTANTS / f"{name}.py").exists() for answer in answers(name)
]
WRONG = [answer for answer in ALL_ANSWERS if answer.kind == "mutant"]
CORRECT = [answer for answer in ALL_ANSWERS if answer.kind == "correct"]


@cache
def cells(folder: str, lesson: str) -> tuple[nbformat.NotebookNode, ...]:
    notebook = nbformat.read(ROOT / folder / f"{lesson}_exercises.ipynb", as_version=4)
    return tuple(cell for cell in notebook.cells if cell.cell_type == "code")


def grade_id(cell: nbformat.NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def exercise(name: str) -> Exercise:
    module = importlib.import_module(f"amp_lessons.checks.{lesson_of(name).slug}")
    return getattr(module, name)


def is_one_function(name: str) -> bool:
    """Whether the answer is a function of the exercise's name, not a dict or several functions."""
    return any(
        c.source == f"ex.{name}.check({name})" for c in cells("exercises", lesson_of(name).id)
    )


FUNCTIONS = [name for name in EXERCISES if is_one_function(name)]


def verdict_in_notebook(
    name: str, answer: str | None = None, folder: str = "exercises", with_others: bool = False
) -> Verdict:
    """Run an exercise's notebook up to its check, with an answer in place of the stub.

    With ``with_others`` the cells of the exercises above it run too, as in a learner's kernel.
    """
    seen: dict[str, object] = {}
    namespace: dict[str, object] = {"print": lambda *_, **__: None}
    with recording(lambda exercise, evidence: seen.__setitem__(exercise, evidence)):
        for cell in cells(folder, lesson_of(name).id):
            others = grade_id(cell).removesuffix("_check") not in ("", name)
            if others and not with_others:
                continue
            replaced = grade_id(cell) == name and answer is not None
            exec(compile(answer if replaced else cell.source, f"<{name}>", "exec"), namespace)
            if grade_id(cell) == f"{name}_check":
                return exercise(name).verdict(seen[name])
    raise AssertionError(f"{folder}/{lesson_of(name).id}_exercises.ipynb has no check of {name}")


# ---- no exercise can be forgotten -----------------------------------------------------------


def test_there_are_exercises_and_mutants_at_all():
    assert len(EXERCISES) >= 9
    assert len(WRONG) >= 3 * len(EXERCISES)


def test_each_exercise_of_a_check_module_is_in_the_catalogue_and_back():
    defined = set()
    for lesson in LESSONS:
        if lesson.exercises:
            module = importlib.import_module(f"amp_lessons.checks.{lesson.slug}")
            found = {n: v for n, v in vars(module).items() if isinstance(v, Exercise)}
            assert all(n == v.name for n, v in found.items())
            assert set(found) == {info.name for info in lesson.exercises}
            defined |= set(found)
    assert defined == set(EXERCISES)


@pytest.mark.parametrize("folder", ["exercises", "solutions"])
def test_each_exercise_has_one_answer_cell_and_one_check_cell(folder):
    for lesson in LESSONS:
        if lesson.exercises:
            ids = [grade_id(c) for c in cells(folder, lesson.id) if grade_id(c)]
            expected = [x for info in lesson.exercises for x in (info.name, f"{info.name}_check")]
            assert ids == expected


def test_each_file_of_mutants_belongs_to_an_exercise_and_back():
    assert {path.stem for path in MUTANTS.glob("*.py")} == set(EXERCISES)


@pytest.mark.parametrize("name", EXERCISES)
def test_exercise_has_enough_mutants_and_a_second_correct_answer(name):
    kinds = [answer.kind for answer in answers(name)]
    assert kinds.count("mutant") >= 3
    assert kinds.count("correct") >= 1
    names = [answer.name for answer in answers(name)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", EXERCISES)
def test_each_diagnosis_is_earned_by_a_mutant(name):
    earned = {answer.diagnosis for answer in answers(name) if answer.kind == "mutant"}
    assert set(exercise(name).diagnoses) <= earned


def test_each_common_diagnosis_is_earned_by_a_mutant():
    assert {answer.diagnosis for answer in WRONG} >= set(COMMON_DIAGNOSES)


def test_lessons_have_at_least_four_exercises_each_from_01_on():
    for lesson in LESSONS:
        if lesson.slug in ("amp_in_20_minutes", "interview_room"):  # one small one; those of others
            continue
        assert len(lesson.exercises) >= 4, lesson.id


@pytest.mark.parametrize("name", EXERCISES)
def test_exercise_has_hints_and_no_hint_is_the_solution(name):
    hints = exercise(name).hints
    assert len(hints) >= 2
    solution = next(c.source for c in cells("solutions", lesson_of(name).id) if grade_id(c) == name)
    assert not any(hint in solution for hint in hints if len(hint) > 40)


# ---- the three ways --------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXERCISES)
def test_stub_is_not_attempted(name):
    assert verdict_in_notebook(name).state is State.NOT_ATTEMPTED


@pytest.mark.parametrize("name", EXERCISES)
def test_solution_passes(name):
    verdict = verdict_in_notebook(name, folder="solutions")
    assert verdict.state is State.PASSED, verdict
    assert verdict.message, "a pass should say what was learned"


class _Preformatted(HTMLParser):
    """The text of a box's ``<pre>``, as a browser gives it to the clipboard."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.text = False, ""

    def handle_starttag(self, tag, attrs):
        self.inside |= tag == "pre"

    def handle_endtag(self, tag):
        self.inside &= tag != "pre"

    def handle_data(self, data):
        if self.inside:
            self.text += data


def shown_solutions(name: str, monkeypatch) -> tuple[str, str]:
    """What ``solution(give_up=True)`` lets a learner copy: from the box, and from a terminal."""
    boxes: list[dict[str, str]] = []
    monkeypatch.setattr(display, "_notebook", object)
    monkeypatch.setattr("IPython.display.display", lambda data, raw: boxes.append(data))
    exercise(name).solution(give_up=True)
    (box,) = boxes
    reader = _Preformatted()
    reader.feed(box["text/html"])
    return reader.text, box["text/plain"]


@pytest.mark.parametrize("name", EXERCISES)
def test_shown_solution_passes(name, monkeypatch):
    in_box, in_terminal = shown_solutions(name, monkeypatch)
    assert in_terminal == f"# Solution: {exercise(name).info.title}\n{in_box}"
    assert not re.search("(BEGIN|END) SOLUTION", in_box)
    compile(in_terminal, f"<terminal: {name}>", "exec")
    verdict = verdict_in_notebook(name, in_box, with_others=True)
    assert verdict.state is State.PASSED, verdict


@pytest.mark.parametrize("answer", WRONG, ids=str)
def test_mutant_is_wrong_with_its_diagnosis(answer):
    verdict = verdict_in_notebook(answer.exercise, answer.source)
    assert (verdict.state, verdict.diagnosis) == (State.WRONG, answer.diagnosis), verdict


@pytest.mark.parametrize("answer", CORRECT, ids=str)
def test_second_correct_answer_passes(answer):
    verdict = verdict_in_notebook(answer.exercise, answer.source)
    assert verdict.state is State.PASSED, verdict


# ---- answers that try to fool the check --------------------------------------------------------

LIAR = """
class Liar(float):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __bool__(self): return True
"""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_object_that_equals_everything_does_not_pass(name):
    answer = f"{LIAR}\ndef {name}(*args):\n    return Liar(1.0)\n"
    assert verdict_in_notebook(name, answer).state is State.WRONG


@pytest.mark.parametrize("name", FUNCTIONS)
def test_constant_answer_does_not_pass(name):
    for value in ("0.0", "1.0", "True", "'FP16'", "torch.zeros(())", "args[0]"):
        answer = f"def {name}(*args):\n    return {value}\n"
        assert verdict_in_notebook(name, answer).state is not State.PASSED, value


def test_patched_allclose_and_equal_do_not_help(monkeypatch):
    import torch

    for function in ("allclose", "equal", "isclose"):
        monkeypatch.setattr(torch, function, lambda *_, **__: True)
    answer = "def log_softmax(logits):\n    return logits * 0\n"
    assert verdict_in_notebook("log_softmax", answer).state is State.WRONG


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize(
    "evidence", [None, 7, [], {}, [1, 2], {"dict": 3}, [{"value": None}] * 9, "text", [None] * 13]
)
def test_damaged_evidence_never_passes_and_never_raises(name, evidence):
    assert exercise(name).verdict(evidence).state is not State.PASSED


@pytest.mark.parametrize("name", FUNCTIONS)
def test_exception_is_an_error_at_the_learners_line(name):
    answer = f"def {name}(*args):\n    x = 1\n    return undefined_name\n"
    verdict = verdict_in_notebook(name, answer)
    assert verdict.state is State.ERROR
    assert "undefined_name" in verdict.message
    assert any("line 3" in line for line in verdict.seen), verdict.seen
