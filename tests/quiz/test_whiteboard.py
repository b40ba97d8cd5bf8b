"""Coding tasks in a blank file: what stands in it, and what its check says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from amp_lessons.core import catalogue, ipynb, progress
from amp_lessons.quiz import whiteboard
from amp_lessons.quiz.bank import topics_there
from amp_lessons.quiz.whiteboard import TASKS, WhiteboardError


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("AMP_LESSONS_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def solution(name: str) -> str:
    cells = ipynb.read(catalogue.course_files() / catalogue.lesson_of(name).solutions)["cells"]
    return next(ipynb.source_of(cell) for cell in cells if ipynb.grade_id(cell) == name)


def answered(name: str, answer: str, folder: Path) -> Path:
    """A task's file with this in place of its stub."""
    asked = whiteboard.task(name)
    path = whiteboard.write(asked, folder)
    path.write_text(path.read_text().replace(asked.stub, answer))
    return path


def test_there_are_ten():
    assert len(set(TASKS)) == 10
    assert len({whiteboard.log_id(name) for name in TASKS}) == 10
    assert {whiteboard.topic_of(name) for name in TASKS} <= set(topics_there())


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_whole(name):
    asked = whiteboard.task(name)
    assert f"`{name}" in asked.statement
    assert "##" not in asked.statement
    assert "minutes*" not in asked.statement
    assert "YOUR CODE HERE" in asked.stub
    text = whiteboard.program(asked)
    assert max(map(len, text.splitlines())) <= 100
    assert "amp_lessons" not in text, "nothing of the course is needed to answer"
    names = [n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    assert names == [name]


@pytest.mark.parametrize("name", TASKS)
def test_the_courses_solution_passes_in_the_file_alone(name, own_place):
    path = answered(name, solution(name), own_place)
    assert whiteboard._check_here(name, path).state == "passed"


@pytest.mark.parametrize("name", TASKS)
def test_the_stub_is_not_attempted(name, own_place):
    path = whiteboard.write(whiteboard.task(name), own_place)
    assert whiteboard._check_here(name, path).state == "not attempted"


def test_an_unknown_task():
    with pytest.raises(WhiteboardError, match="train_any"):
        whiteboard.task("train_nothing")


def test_without_the_sheets_it_says_what_to_do(own_place, monkeypatch):
    monkeypatch.setattr(catalogue, "course_files", lambda: own_place)
    with pytest.raises(WhiteboardError, match=r"does not exist: (run make|install)"):
        whiteboard.task("clip_step")


def test_no_file_is_overwritten(own_place):
    asked = whiteboard.task("clip_step")
    (own_place / "whiteboard_clip_step.py").write_text("mine")
    (own_place / "whiteboard_clip_step_2.py").symlink_to("nowhere")
    path = whiteboard.write(asked, own_place)
    assert path.name == "whiteboard_clip_step_3.py"
    assert (own_place / "whiteboard_clip_step.py").read_text() == "mine"
    assert not (own_place / "nowhere").exists()
    assert whiteboard.write(asked, own_place).name == "whiteboard_clip_step_4.py"


def test_a_folder_that_cannot_be_written(own_place, monkeypatch):
    with pytest.raises(WhiteboardError, match="cannot be written"):
        whiteboard.write(whiteboard.task("clip_step"), own_place / "missing")
    monkeypatch.setattr(whiteboard, "_MOST", 1)
    whiteboard.write(whiteboard.task("clip_step"), own_place)
    with pytest.raises(WhiteboardError, match="remove some"):
        whiteboard.write(whiteboard.task("clip_step"), own_place)


# ---- what is wrong with a file ------------------------------------------------------------------

FAULTS = [
    ("def clip_step(:\n", "Syntax error in line 1"),
    ("import torch\nprint(1 / 0)\n", "stopped in line 2: ZeroDivisionError"),
    ("clip_steps = 3\n", "defines nothing called clip_step"),
    ("raise SystemExit(3)\n", "stopped in line 1: SystemExit"),
    ("\x00", "yntax"),
]


@pytest.mark.parametrize(("source", "words"), FAULTS)
def test_a_file_that_does_not_run(own_place, source, words):
    path = own_place / "answer.py"
    path.write_text(source)
    checked = whiteboard._check_here("clip_step", path)
    assert checked.state == "error"
    assert words in checked.message
    assert "Traceback" not in checked.message


def test_a_file_that_is_gone(own_place):
    checked = whiteboard._check_here("clip_step", own_place / "gone.py")
    assert checked.state == "error"
    assert "No such file" in checked.message


def test_a_wrong_answer_gets_the_checks_own_diagnosis(own_place):
    answer = "def clip_step(scaler, optimizer, loss, max_norm):\n    return 1.0"
    checked = whiteboard._check_here("clip_step", answered("clip_step", answer, own_place))
    assert checked.state == "wrong"
    assert checked.message
    assert progress.load()["clip_step"].checks == 1


# ---- in a process of its own --------------------------------------------------------------------


def test_a_pass_is_kept_in_the_progress(own_place):
    path = answered("summarise_times", solution("summarise_times"), own_place)
    path.write_text("print('grüße', __name__)\n" + path.read_text())
    (own_place / "torch.py").write_text("raise RuntimeError('the wrong torch')")
    checked = whiteboard.check("summarise_times", path)
    assert checked.passed, checked
    assert checked.printed == "grüße whiteboard"
    assert progress.load()["summarise_times"].passed


def test_an_endless_loop_is_stopped(own_place):
    path = own_place / "answer.py"
    path.write_text("while True: pass\n")
    checked = whiteboard.check("clip_step", path, seconds=0.5)
    assert checked.state == "error"
    assert "more than 0.5 seconds" in checked.message


def test_a_crash_costs_nothing_here(own_place):
    path = own_place / "answer.py"
    path.write_text("import os\nprint('so far', flush=True)\nos._exit(7)\n")
    checked = whiteboard.check("clip_step", path)
    assert checked == whiteboard.Checked(
        "error", "Your program ended early, with exit status 7.", printed="so far"
    )
