"""Every exercise, as its file has it: the stub is not attempted, right answers pass, each wrong one
earns the sentence above it, and what a learner is shown as the solution passes in their notebook.

What is missing in a file is found by `tools/check_exercises.py`, which names line and cure.
"""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from statistics import median

import check_exercises
import nbformat
import pytest

from amp_lessons import checks, course, renamed
from amp_lessons.checks.exercise import COMMON_DIAGNOSES, Exercise, recording
from amp_lessons.checks.verdict import State, Verdict
from amp_lessons.course import LESSONS

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "amp_lessons" / "exercises"
EXERCISES = check_exercises.EXERCISES
SHEETS = [lesson for lesson in LESSONS if lesson.exercises]
FUNCTIONS = [name for name in EXERCISES if checks.find(name).learners.call == name]
"""Those whose answer is a function or a class of the exercise's name."""


# ---- no exercise can be forgotten ---------------------------------------------------------------


def test_each_file_is_in_the_catalogue_and_back():
    special = {"__init__", "sheet", "stage", "shared"}
    files = {
        (path.parent.name, path.stem)
        for path in FOLDER.glob("*/*.py")
        if path.stem not in special and not path.stem.startswith("stage_")
    }
    assert files == {(lesson.slug, info.name) for lesson in SHEETS for info in lesson.exercises}


@pytest.mark.parametrize("lesson", SHEETS, ids=lambda lesson: lesson.slug)
def test_each_folder_has_a_sheet_and_a_stage(lesson):
    for name in ("__init__.py", "sheet.py", "stage.py"):
        assert (FOLDER / lesson.slug / name).is_file(), f"{lesson.slug} has no {name}: write one"


def test_lessons_have_at_least_four_exercises_each_from_01_on():
    for lesson in LESSONS:
        if lesson.slug in ("amp_in_20_minutes", "myths", "interview_room"):
            continue
        assert len(lesson.exercises) >= 4, lesson.id


def test_each_common_diagnosis_is_earned():
    mistakes = [m for name in EXERCISES for m in checks.find(name).secret.diagnosis.mistakes]
    assert {m.slug for m in mistakes if m.answers} >= set(COMMON_DIAGNOSES)


def test_the_files_stay_small():
    lines = {
        path: len(path.read_text(encoding="utf-8").splitlines()) for path in FOLDER.glob("*/*.py")
    }
    assert all(count <= check_exercises.MAX_LINES for count in lines.values()), max(lines.items())
    answers = [lines[checks.find(name).path] for name in EXERCISES]
    assert median(answers) <= 170


# ---- each file, in the ways that the tool checks ------------------------------------------------


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize("check", check_exercises.CHECKS, ids=lambda check: check.__name__)
def test_exercise(name, check):
    assert check_exercises.problems(name, (check,)) == []


# ---- as a learner meets it ----------------------------------------------------------------------


@cache
def cells(folder: str, lesson: str) -> tuple[nbformat.NotebookNode, ...]:
    notebook = nbformat.read(ROOT / folder / f"{lesson}_exercises.ipynb", as_version=4)
    return tuple(cell for cell in notebook.cells if cell.cell_type == "code")


def grade_id(cell: nbformat.NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def verdicts(lesson: str, folder: str, answers: dict[str, str] | None = None) -> dict[str, Verdict]:
    """Run a sheet from top to bottom, with other answers where they are given: all its verdicts."""
    seen: dict[str, object] = {}
    namespace: dict[str, object] = {"print": lambda *_, **__: None}
    with recording(lambda exercise, evidence: seen.__setitem__(exercise, evidence)):
        for cell in cells(folder, lesson):
            source = (answers or {}).get(grade_id(cell), cell.source)
            exec(compile(source, f"<{grade_id(cell)}>", "exec"), namespace)
    return {name: checks.find(name).verdict(evidence) for name, evidence in seen.items()}


@pytest.mark.parametrize("lesson", SHEETS, ids=lambda lesson: lesson.slug)
@pytest.mark.parametrize("folder", ["exercises", "solutions"])
def test_each_exercise_has_one_answer_cell_and_one_check_cell(lesson, folder):
    ids = [grade_id(c) for c in cells(folder, lesson.id) if grade_id(c)]
    assert ids == [x for info in lesson.exercises for x in (info.name, f"{info.name}_check")]


@pytest.mark.parametrize("lesson", SHEETS, ids=lambda lesson: lesson.slug)
def test_stubs_are_not_attempted(lesson):
    found = verdicts(lesson.id, "exercises")
    assert {name: v.state for name, v in found.items()} == {
        info.name: State.NOT_ATTEMPTED for info in lesson.exercises
    }


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


def shown_solution(exercise: Exercise, monkeypatch) -> tuple[str, str]:
    """What ``solution(give_up=True)`` lets a learner copy: from the box, and from a terminal."""
    boxes: list[dict[str, str]] = []
    monkeypatch.setattr("amp_lessons.boxes._notebook", object)
    monkeypatch.setattr("IPython.display.display", lambda data, raw: boxes.append(data))
    exercise.solution(give_up=True)
    (box,) = boxes
    reader = _Preformatted()
    reader.feed(box["text/html"])
    return reader.text, box["text/plain"]


@pytest.mark.parametrize("lesson", SHEETS, ids=lambda lesson: lesson.slug)
def test_shown_solutions_pass(lesson, monkeypatch):
    shown = {}
    for info in lesson.exercises:
        in_box, in_terminal = shown_solution(checks.find(info.name), monkeypatch)
        assert in_terminal == f"# Solution: {info.title}\n{in_box}"
        assert not re.search("(BEGIN|END) SOLUTION", in_box)
        compile(in_terminal, f"<terminal: {info.name}>", "exec")
        shown[info.name] = in_box
    for verdict in verdicts(lesson.id, "exercises", shown).values():
        assert verdict.state is State.PASSED, verdict
        assert verdict.message, "a pass should say what was learned"


# ---- answers that try to fool the check ---------------------------------------------------------


def verdict_of(name: str, source: str) -> Verdict:
    exercise = checks.find(name)
    return exercise.evaluate(*exercise.learners.answer(source))


def is_wrong(name: str, source: str) -> bool:
    """Whether an answer differs from the right one in a case, or breaks a rule: that is what a
    verdict begins with, before it looks for the mistake."""
    exercise = checks.find(name)
    evidence = exercise.evidence(*exercise.learners.answer(source))
    if not isinstance(evidence, list):
        return True
    diagnosis = exercise.secret.diagnosis
    return (
        bool(check_exercises.failing(diagnosis, evidence)) or not exercise.verdict(evidence).passed
    )


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
    assert is_wrong(name, answer)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_constant_answer_does_not_pass(name):
    for value in ("0.0", "1.0", "True", "'FP16'", "torch.zeros(())", "args[0]"):
        answer = f"import torch\ndef {name}(*args):\n    return {value}\n"
        assert is_wrong(name, answer), value


def test_patched_allclose_and_equal_do_not_help(monkeypatch):
    import torch

    for function in ("allclose", "equal", "isclose"):
        monkeypatch.setattr(torch, function, lambda *_, **__: True)
    answer = "def log_softmax(logits):\n    return logits * 0\n"
    assert verdict_of("log_softmax", answer).state is State.WRONG


DAMAGED = (None, 7, [], {}, [1, 2], {"dict": 3}, [{"value": None}] * 9, "text", [None] * 13)


@pytest.mark.parametrize("name", EXERCISES)
def test_damaged_evidence_never_passes_and_never_raises(name):
    for evidence in DAMAGED:
        assert checks.find(name).verdict(evidence).state is not State.PASSED, evidence


@pytest.mark.parametrize("name", FUNCTIONS)
def test_exception_is_an_error_at_the_learners_line(name):
    answer = f"def {name}(*args):\n    x = 1\n    return undefined_name\n"
    verdict = verdict_of(name, answer)
    assert verdict.state is State.ERROR
    assert "undefined_name" in verdict.message
    assert any("line 3" in line for line in verdict.seen), verdict.seen


# ---- former names -------------------------------------------------------------------------------


@pytest.mark.parametrize("former", renamed.EXERCISES)
def test_an_exercise_is_found_by_its_former_name(former):
    name = renamed.EXERCISES[former]
    assert checks.find(former) is checks.find(name)
    topic = getattr(checks, course.lesson_of(name).slug)  # as sheets once imported it
    assert getattr(topic, former) is checks.find(name)
