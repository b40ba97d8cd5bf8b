"""The sheets are nbgrader assignments: the solutions its source, the exercises its release.

nbgrader grades a small class here, with the settings in `hub/`, and so does our own grader.
Where the two give different points, and why, is said in one test and on `docs/grading.md`.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import pytest
import warm_kernels
from jupyter_core.utils import ensure_event_loop
from nbgrader.apps import NbGraderAPI
from nbgrader.plugins import CsvExportPlugin
from traitlets.config import PyFileConfigLoader

from amp_lessons.classroom.grading import Graded, grade
from amp_lessons.core.catalogue import LESSONS

ROOT = Path(__file__).resolve().parents[2]
SHEET = LESSONS[1]
SHEET_NAME = Path(SHEET.sheet).name
POINTS = {info.name: info.points for info in SHEET.exercises}
NONE = dict.fromkeys(POINTS, 0)

# What each learner wrote in place of the right answer. None: the stub stays.
CLASS: dict[str, dict[str, str | None]] = {
    "ada": {},
    "bob": dict.fromkeys(POINTS),
    "cleo": {
        "next_float": "def next_float(x):\n    return x + 2.0**-24\nex.next_float.hint()",
        "choose_format": "def choose_format(values, tolerance):\n    return 'FP32'",
    },
    "dan": {},  # but he deleted the check of next_float
    "eve": {
        "decode_bits": "def decode_bits(code, exponent_bits, mantissa_bits):\n    return 1 / 0",
        "smallest_scale": "def smallest_scale(gradients)\n    return 1.0",  # a syntax error
    },
}
EXPECTED = {
    "ada": POINTS,
    "bob": NONE,
    "cleo": POINTS | {"next_float": 0, "choose_format": 0},
    "eve": POINTS | {"decode_bits": 0, "smallest_scale": 0},
}


@dataclass
class Marked:
    """What nbgrader gave: points by exercise and learner, and what it exported."""

    root: Path
    theirs: dict[str, dict[str, float | None]] = field(default_factory=dict)
    exported: dict[str, dict[str, str]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def apart() -> Iterator[Callable]:
    """Call a function in a thread of nbgrader's own, with an event loop of its own: both end with
    these tests."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(ensure_event_loop).result()
        yield lambda function, *words, **named: thread.submit(function, *words, **named).result()
        thread.submit(lambda: ensure_event_loop().close()).result()


@pytest.fixture(scope="module")
def course(tmp_path_factory, apart) -> Iterator[tuple[NbGraderAPI, Path]]:
    """A course folder with our settings and one assignment, released and handed in by the class."""
    root = tmp_path_factory.mktemp("course")
    (root / "source/sheet").mkdir(parents=True)
    shutil.copy(ROOT / "hub/nbgrader_config.py", root)
    shutil.copy(ROOT / "solutions" / SHEET_NAME, root / "source/sheet")
    with pytest.MonkeyPatch.context() as patch:
        warm_kernels.start_warm(patch)
        for name in ("PATH", "AMP_LESSONS_HOME"):  # the settings change both
            patch.setenv(name, os.environ[name])
        config = PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()
        api = apart(NbGraderAPI, config=config)
        generated = apart(api.generate_assignment, "sheet")
        assert generated["success"], generated
        for learner, answers in CLASS.items():
            hand_in(root, learner, answers)
        yield api, root


def hand_in(root: Path, learner: str, answers: dict[str, str | None]) -> None:
    """Put the right answers, or these, into the sheet as nbgrader released it."""
    solution = nbformat.read(ROOT / "solutions" / SHEET_NAME, as_version=4)
    right = {cell.metadata.nbgrader.grade_id: cell.source for cell in graded_cells(solution)}
    notebook = nbformat.read(root / "release/sheet" / SHEET_NAME, as_version=4)
    for cell in graded_cells(notebook):
        name = cell.metadata.nbgrader.grade_id
        cell.source = answers.get(name, right[name]) or cell.source
    if learner == "dan":
        notebook.cells = [cell for cell in notebook.cells if "next_float.check" not in cell.source]
    path = root / "submitted" / learner / "sheet" / SHEET_NAME
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)


def graded_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if "nbgrader" in cell.metadata]


@pytest.fixture(scope="module")
def marked(course, apart) -> Marked:
    """nbgrader's marks of the whole class, and its export."""
    api, root = course
    result = Marked(root)
    for learner in CLASS:
        graded = apart(api.autograde, "sheet", learner)
        assert graded["success"], graded["log"]
        result.theirs[learner] = apart(points_of, api, learner)
    table = root / "grades.csv"
    with api.gradebook as gradebook:
        CsvExportPlugin(to=str(table), parent=api).export(gradebook)
    with table.open() as rows:
        result.exported = {row["student_id"]: row for row in csv.DictReader(rows)}
    return result


def points_of(api: NbGraderAPI, learner: str) -> dict[str, float | None]:
    with api.gradebook as gradebook:
        name = SHEET_NAME.removesuffix(".ipynb")
        submission = gradebook.find_submission_notebook(name, "sheet", learner)
        return {grade.name.removesuffix("_check"): grade.auto_score for grade in submission.grades}


@pytest.fixture(scope="module")
def ours(course) -> dict[str, Graded]:
    """Our own grader's marks of the same files."""
    _, root = course
    return {
        learner: grade(root / "submitted" / learner / "sheet" / SHEET_NAME) for learner in CLASS
    }


def points(graded: Graded) -> dict[str, int]:
    return {mark.exercise: mark.points for mark in graded.marks}


def test_release_version_is_our_exercise_notebook(course):
    _, root = course
    ours = nbformat.read(ROOT / SHEET.sheet, as_version=4)
    release = nbformat.read(root / "release/sheet" / SHEET_NAME, as_version=4)
    assert [cell.source for cell in release.cells] == [cell.source for cell in ours.cells]


@pytest.mark.slow
@pytest.mark.parametrize("learner", EXPECTED)
def test_nbgrader_and_our_grader_give_the_same_points_for_each_exercise(marked, ours, learner):
    assert marked.theirs[learner] == points(ours[learner]) == EXPECTED[learner]
    assert ours[learner].gradable


@pytest.mark.slow
def test_a_deleted_check_has_no_score_in_nbgrader_and_is_put_back_by_our_grader(marked, ours):
    assert marked.theirs["dan"] == POINTS | {"next_float": None}
    assert points(ours["dan"]) == POINTS
    assert any("the check of next_float is missing" in text for text in ours["dan"].notes)


@pytest.mark.slow
def test_the_export_has_a_row_for_each_learner_with_the_total(marked, ours):
    totals = {learner: float(row["score"]) for learner, row in marked.exported.items()}
    lost = {"dan": POINTS["next_float"]}
    assert totals == {name: ours[name].points - lost.get(name, 0) for name in CLASS}
    assert {float(row["max_score"]) for row in marked.exported.values()} == {SHEET.points}


@pytest.mark.slow
def test_what_a_learners_notebook_notes_about_progress_stays_in_the_course_folder(marked):
    """Cleo asked for a hint. Without our settings that would be the instructor's hint."""
    (noted,) = (marked.root / ".amp-lessons").glob("*.json")
    assert "next_float" in noted.read_text()


@pytest.mark.long
def test_the_steps_on_the_page_work_as_they_stand_there(tmp_path):
    """From an empty home folder, but for the installation, which `make` did."""
    page = (ROOT / "docs/grading.md").read_text(encoding="utf-8")
    install, *blocks = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    assert "pip install" in install
    hand_it_in = (
        "for learner in ada bob; do mkdir -p submitted/$learner; "
        "cp -r release/number_formats submitted/$learner/; done\n"
        f"cp {ROOT}/solutions/{SHEET_NAME} submitted/ada/number_formats/\n"
    )
    make_folder, release, grade_and_export, with_ours = blocks
    script = "set -e\n" + make_folder + release + hand_it_in + grade_and_export + with_ours
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT,
        env=os.environ | {"HOME": str(tmp_path), "PATH": path},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    course = tmp_path / "amp-course"
    assert len(list(course.glob("source/*/*.ipynb"))) == len(list((ROOT / "solutions").iterdir()))
    for table, key in ((course / "grades.csv", "score"), (course / "marks.csv", "points")):
        with table.open(encoding="utf-8-sig") as rows:
            assert [float(row[key]) for row in csv.DictReader(rows)] == [SHEET.points, 0]
