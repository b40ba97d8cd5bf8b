"""The sheets are nbgrader assignments: the solutions its source, the exercises its release."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from jupyter_core.utils import ensure_event_loop
from nbgrader.apps import NbGraderAPI
from traitlets.config import Config

from amp_lessons.course import LESSONS

ROOT = Path(__file__).resolve().parent.parent
SHEET = LESSONS[1]


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
    """A class with one assignment, handed in by one who solved it and one who did not begin."""
    root = tmp_path_factory.mktemp("course")
    name = Path(SHEET.sheet).name
    for folder, handed_in in (
        ("source/sheet", "solutions"),
        ("submitted/ada/sheet", "solutions"),
        ("submitted/bob/sheet", "exercises"),
    ):
        (root / folder).mkdir(parents=True)
        shutil.copy(ROOT / handed_in / name, root / folder / name)
    # nbgrader calls alembic by its bare name.
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    config = Config()
    config.CourseDirectory.root = str(root)
    api = apart(NbGraderAPI, config=config)
    generated = apart(api.generate_assignment, "sheet")
    assert generated["success"], generated
    yield api, root
    monkeypatch.undo()


def test_release_version_is_our_exercise_notebook(course):
    _, root = course
    ours = nbformat.read(ROOT / SHEET.sheet, as_version=4)
    release = nbformat.read(root / "release/sheet" / Path(SHEET.sheet).name, as_version=4)
    assert [cell.source for cell in release.cells] == [cell.source for cell in ours.cells]


@pytest.mark.parametrize(("student", "score"), [("ada", SHEET.points), ("bob", 0)])
def test_autograde_gives_full_marks_to_the_solution_and_none_to_the_stub(
    course, apart, student, score
):
    api, _ = course
    graded = apart(api.autograde, "sheet", student)
    assert graded["success"], graded
    submission = apart(api.get_submission, "sheet", student)
    assert (submission["score"], submission["max_score"]) == (score, SHEET.points)
