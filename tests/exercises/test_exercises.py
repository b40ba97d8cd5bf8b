"""Every exercise, as its file has it: the stub is not attempted, right answers pass, each wrong one
earns the sentence above it, and what a learner is shown as the solution passes in their notebook.
Whatever else they answer gets a verdict, and no wrong one passes.

What is missing in a file is found by `tools/check_exercises.py`, which names line and cure.
"""

from __future__ import annotations

import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from statistics import median
from typing import Any

import check_exercises
import nbformat
import odd_values
import pytest
from made import Taken

from amp_lessons.core import output_box
from amp_lessons.core.catalogue import LESSONS
from amp_lessons.exercises import checks
from amp_lessons.exercises.checks import display
from amp_lessons.exercises.checks.exercise import COMMON_DIAGNOSES, Exercise
from amp_lessons.exercises.checks.verdict import State, Verdict

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "amp_lessons" / "exercises"
FRAMEWORK = FOLDER / "checks"  # the only folder there that is no topic
TOPIC_FILES = [path for path in FOLDER.glob("*/*.py") if path.parent != FRAMEWORK]
EXERCISES = check_exercises.EXERCISES
SHEETS = [lesson for lesson in LESSONS if lesson.exercises]
each_lesson = pytest.mark.parametrize("lesson", SHEETS, ids=lambda lesson: lesson.slug)


def functions() -> list[str]:
    """The exercises whose answer is a function or a class of their name."""
    return [name for name in EXERCISES if checks.find_exercise(name).public.call == name]


# ---- no exercise can be forgotten ---------------------------------------------------------------


def test_each_file_is_in_the_catalogue_and_back():
    special = {"__init__", "sheet", "harness", "shared"}
    files = {
        (path.parent.name, path.stem)
        for path in TOPIC_FILES
        if path.stem not in special and not path.stem.startswith("harness_")
    }
    assert files == {(lesson.slug, info.name) for lesson in SHEETS for info in lesson.exercises}


def test_each_folder_has_a_sheet_and_a_stage():
    wanted = {f"{lesson.slug}/{n}" for lesson in SHEETS for n in ("__init__", "sheet", "harness")}
    there = {f"{path.parent.name}/{path.stem}" for path in TOPIC_FILES}
    assert wanted - there == set(), "write these files"


def test_lessons_have_at_least_four_exercises_each_from_01_on():
    for lesson in LESSONS:
        if lesson.slug in ("amp_in_20_minutes", "myths", "interview_room"):
            continue
        assert len(lesson.exercises) >= 4, lesson.id


def test_each_common_diagnosis_is_earned():
    mistakes = [
        m for name in EXERCISES for m in checks.find_exercise(name).answer_key.diagnosis.mistakes
    ]
    assert {m.slug for m in mistakes if m.answers} >= set(COMMON_DIAGNOSES)


def test_the_files_stay_small():
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in TOPIC_FILES}
    assert all(count <= check_exercises.MAX_LINES for count in lines.values()), max(lines.items())
    answers = [lines[checks.find_exercise(name).path] for name in EXERCISES]
    assert median(answers) <= 170


# ---- each file, in the ways that the tool checks ------------------------------------------------


@each_lesson
def test_exercise(lesson, subtests, record_property):
    right = wrong = proved = 0
    for info in lesson.exercises:
        with subtests.test(info.name):
            found = check_exercises.problems(info.name)
            assert not found, "\n".join(found)
            secret = checks.find_exercise(info.name).answer_key
            right += len(secret.right)
            wrong += sum(len(mistake.answers) for mistake in secret.diagnosis.mistakes)
            proved += 1
    record_property("exercises proved", proved)
    record_property("right answers", right)
    record_property("wrong answers", wrong)


# ---- as a learner meets it ----------------------------------------------------------------------


@cache
def cells(folder: str, lesson: str) -> tuple[nbformat.NotebookNode, ...]:
    notebook = nbformat.read(ROOT / folder / f"{lesson}_exercises.ipynb", as_version=4)
    return tuple(cell for cell in notebook.cells if cell.cell_type == "code")


def grade_id(cell: nbformat.NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def verdicts(lesson: str, folder: str, answers: dict[str, str] | None = None) -> dict[str, Verdict]:
    """Run a sheet from top to bottom, with other answers where they are given: all its verdicts."""
    taken = Taken()
    namespace: dict[str, object] = {"print": lambda *_, **__: None}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Exercise, "reporter", taken)
        for cell in cells(folder, lesson):
            source = (answers or {}).get(grade_id(cell), cell.source)
            exec(compile(source, f"<{grade_id(cell)}>", "exec"), namespace)
    return {
        name: checks.find_exercise(name).verdict(evidence)
        for name, evidence in taken.evidence.items()
    }


@pytest.mark.parametrize("folder", ["exercises", "solutions"])
def test_each_exercise_has_one_answer_cell_and_one_check_cell(folder, subtests):
    for lesson in SHEETS:
        with subtests.test(lesson.slug):
            ids = [grade_id(c) for c in cells(folder, lesson.id) if grade_id(c)]
            names = [info.name for info in lesson.exercises]
            assert ids == [x for name in names for x in (name, f"{name}_check")]


@each_lesson
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
    output_box: list[dict[str, str]] = []
    monkeypatch.setattr("amp_lessons.core.output_box._notebook", object)
    monkeypatch.setattr("IPython.display.display", lambda data, raw: output_box.append(data))
    exercise.solution(give_up=True)
    (box,) = output_box
    reader = _Preformatted()
    reader.feed(box["text/html"])
    return reader.text, box["text/plain"]


@each_lesson
def test_shown_solutions_pass(lesson, monkeypatch):
    shown = {}
    for info in lesson.exercises:
        in_box, in_terminal = shown_solution(checks.find_exercise(info.name), monkeypatch)
        assert in_terminal == f"# Solution: {info.title}\n{in_box}"
        assert not re.search("(BEGIN|END) SOLUTION", in_box)
        compile(in_terminal, f"<terminal: {info.name}>", "exec")
        shown[info.name] = in_box
    for verdict in verdicts(lesson.id, "exercises", shown).values():
        assert verdict.state is State.PASSED, verdict
        assert verdict.message, "a pass should say what was learned"


# ---- answers that try to fool the check ---------------------------------------------------------


def verdict_of(name: str, source: str) -> Verdict:
    exercise = checks.find_exercise(name)
    return exercise.evaluate(*exercise.public.answer(source))


def is_wrong(name: str, source: str) -> bool:
    """Whether an answer differs from the right one in a case, or breaks a rule: that is what a
    verdict begins with, before it looks for the mistake."""
    exercise = checks.find_exercise(name)
    evidence = exercise.evidence_of(*exercise.public.answer(source))
    if not isinstance(evidence, list):
        return True
    diagnosis = exercise.answer_key.diagnosis
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


def test_object_that_equals_everything_does_not_pass(subtests):
    for name in functions():
        with subtests.test(name):
            assert is_wrong(name, f"{LIAR}\ndef {name}(*args):\n    return Liar(1.0)\n")


def test_constant_answer_does_not_pass(subtests):
    for name in functions():
        for value in ("0.0", "1.0", "True", "'FP16'", "torch.zeros(())", "args[0]"):
            with subtests.test(f"{name}: {value}"):
                answer = f"import torch\ndef {name}(*args):\n    return {value}\n"
                assert is_wrong(name, answer)


def test_patched_allclose_and_equal_do_not_help(monkeypatch):
    import torch

    for function in ("allclose", "equal", "isclose"):
        monkeypatch.setattr(torch, function, lambda *_, **__: True)
    answer = "def log_softmax(logits):\n    return logits * 0\n"
    assert verdict_of("log_softmax", answer).state is State.WRONG


DAMAGED = (None, 7, [], {}, [1, 2], {"dict": 3}, [{"value": None}] * 9, "text", [None] * 13)


def test_damaged_evidence_never_passes_and_never_raises(subtests):
    for name in EXERCISES:
        with subtests.test(name):
            for evidence in DAMAGED:
                assert checks.find_exercise(name).verdict(evidence).state is not State.PASSED, (
                    evidence
                )


def test_exception_is_an_error_at_the_learners_line(subtests):
    for name in functions():
        with subtests.test(name):
            answer = f"def {name}(*args):\n    x = 1\n    return undefined_name\n"
            verdict = verdict_of(name, answer)
            assert verdict.state is State.ERROR
            assert "undefined_name" in verdict.message
            assert any("line 3" in line for line in verdict.seen), verdict.seen


# ---- answers that are hard to look at -----------------------------------------------------------

TAKES = {"stable_losses": 4, "fix_mismatches": 5}
"""How many functions a check takes, where it is more than one."""
SOME = ("survives", "classify_faults", "clip_step", "autocast_step", "read_roofline", "to_float8")


@pytest.fixture
def shown(monkeypatch) -> list[Verdict]:
    """The verdicts that a notebook shows. A note that the check itself failed is not one."""
    found: list[Verdict] = []
    show = display.show_verdict

    def show_and_keep(exercise, verdict, notes):
        found.append(verdict)
        show(exercise, verdict, notes)

    def publish(data, raw):
        json.dumps(data, ensure_ascii=False).encode()  # as a notebook's kernel does

    monkeypatch.setattr(output_box, "_notebook", object)
    monkeypatch.setattr(display, "show_verdict", show_and_keep)
    monkeypatch.setattr("IPython.display.display", publish)
    return found


def gets_a_verdict(name: str, value: Any, shown: list[Verdict]) -> None:
    """Give a value to a check, then a function that returns it; each gets a verdict that helps."""

    def returns_it(*_: object, **__: object) -> Any:
        return value

    exercise = checks.find_exercise(name)
    for answer in (value, returns_it):
        exercise.check(*[answer] * TAKES.get(name, 1))
        verdict = shown.pop()
        # A dict without the letters that were asked for is an answer that has not begun.
        unbegun = type(answer) is dict and verdict.state is State.NOT_ATTEMPTED
        assert verdict.state in (State.WRONG, State.ERROR) or unbegun, verdict
        assert verdict.message


@each_lesson
def test_each_check_gives_a_verdict_on_an_odd_answer(lesson, shown, subtests):
    for info in lesson.exercises:
        for what, value in (odd_values.MANY if info.name in SOME else odd_values.FEW).items():
            with subtests.test(f"{info.name}: {what}"):
                gets_a_verdict(info.name, value, shown)


def test_how_many_functions_a_check_takes_is_known():
    for name, count in TAKES.items():
        verdict = checks.find_exercise(name).evaluate(*[lambda: 0] * (count + 1))
        assert f"this check takes {count} functions" in verdict.message
