"""The sandbox from outside: what a notebook sees, which kind is taken, and what is said of it.

What attackers try in it is in `test_hostile`. That no answer is in the copy that it shows is in
`test_secrets`; here a notebook looks for answers in every file that it can open.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import leaks
import pytest
from answers import search
from grading_class import LESSON, Sheet, open_class, states
from leaks import runs

from amp_lessons.classroom import grading
from amp_lessons.classroom.grading import launch
from amp_lessons.classroom.grading.launch import UNPROTECTED, SandboxError
from amp_lessons.classroom.grading.sandbox import bubblewrap, rootfs
from amp_lessons.core import catalogue

LOOKS_AROUND = """
import json, os
def walk(top):
    return sorted(os.path.join(d, f) for d, _, files in os.walk(top) for f in files)
report = {
    "environment": [name for name in os.environ if "TOKEN" in name or "SECRET" in name],
    "root": sorted(os.listdir("/")),
    "own": [f for f in walk("/tmp") + walk("/scratch") if "/.ipython/" not in f][:5],
    "processes": [p for p in os.listdir("/proc") if p.isdigit()],
    "user": [os.getuid(), os.geteuid()],
    "writable": [place for place in ("/", "/dev", "/usr", "/etc") if os.access(place, os.W_OK)],
}
raise RuntimeError(json.dumps(report))
"""

LOOKS_INTO_FILES = """
package, opened = os.path.dirname(amp_lessons.__file__), []
def noted(files):
    for path, content in files:
        opened.append(path)
        yield path, content
search = Search({label: set(runs) for label, runs in json.loads(answers).items()})
found = search.leaks(noted(within_reach()))
texts = {path: [label for label in labels if label != UNREADABLE or path.startswith(package)]
         for path, labels in found.items()}
inside = {path for path in opened if path.startswith(package)}
told = [(path, labels[0]) for path, labels in sorted(texts.items()) if labels]
report = {"with answers": len(told), "first": told[:2],  # a mark's message is short
          "package": len(inside), "elsewhere": len({*opened} - inside)}
raise RuntimeError(json.dumps(report))
"""


def searching() -> str:
    """A cell that looks for the course's answers, and for a text that it has to find."""
    shown = {"shown": runs(rootfs.__doc__)}
    answers = {label: [*some] for label, some in {**search().answers, **shown}.items()}
    given = f"answers = {json.dumps(answers)!r}\n"
    return Path(leaks.__file__).read_text(encoding="utf-8") + given + LOOKS_INTO_FILES


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    return rootfs.copy_without_secrets(tmp_path_factory.mktemp("copy"))


def test_the_copy_is_a_package_whose_answer_keys_say_that_they_are_missing(copy):
    from amp_lessons.exercises.checks.authoring.exercise_parser import ExerciseFileError
    from amp_lessons.exercises.checks.parts import AnswerKey, PublicPart

    files = [p for p in (copy / "exercises").glob("*/*.py") if p.stem in _names()]
    assert len(files) == sum(len(lesson.exercises) for lesson in catalogue.LESSONS)
    for file in files:
        with pytest.raises(ExerciseFileError, match="the answer key is not here"):
            AnswerKey(PublicPart(file))


def _names() -> set[str]:
    return {info.name for lesson in catalogue.LESSONS for info in lesson.exercises}


needs_bubblewrap = pytest.mark.skipif(
    not shutil.which("bwrap") and os.environ.get("AMP_LESSONS_REQUIRE_SANDBOX") != "1",
    reason="bubblewrap is not installed",
)


@pytest.fixture(scope="module")
def batch() -> Iterator[grading.Batch]:
    """A sandbox, started where the environment has secrets."""
    with secrets_around(), open_class(jobs=1) as batch:
        yield batch


@contextmanager
def secrets_around() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITHUB_TOKEN", "secret")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield


def test_a_notebook_sees_python_and_itself_and_no_answer(tmp_path, copy, batch):
    sees_python_and_itself_and_no_answer(tmp_path, copy, batch)


@needs_bubblewrap
@pytest.mark.slow
def test_a_notebook_in_bubblewrap_sees_no_more(tmp_path, copy):
    with secrets_around(), open_class("bubblewrap", jobs=1) as batch:
        sees_python_and_itself_and_no_answer(tmp_path, copy, batch)


def sees_python_and_itself_and_no_answer(tmp_path: Path, copy: Path, batch: grading.Batch) -> None:
    first, second, third = (info.name for info in LESSON.exercises[:3])
    sheet = Sheet(tmp_path / "curious.ipynb", batch)
    sheet.write(first, LOOKS_AROUND)
    sheet.write(second, searching())
    graded = sheet.grade()
    seen, files = (
        json.loads(mark.verdict.message.split(": ", 1)[1])
        for name in (first, second)
        for mark in graded.marks
        if mark.exercise == name
    )
    assert seen["environment"] == []
    assert all(file.startswith(sys.prefix) for file in seen["own"]), seen["own"]
    assert len(seen["processes"]) <= 3
    assert "home" not in seen["root"]
    assert seen["writable"] == []
    assert states(graded)[third] == "passed"
    assert files["first"] == [[rootfs.__file__, "shown"]], files
    assert files["with answers"] == 1
    assert files["package"] == sum(path.is_file() for path in copy.rglob("*"))
    assert files["elsewhere"] > 10


def test_what_is_missing_is_said_in_one_line(batch):
    with open_class("none", jobs=1) as unprotected:
        assert unprotected.missing == UNPROTECTED
        assert "\n" not in unprotected.missing
    assert batch.missing == ""


@pytest.fixture
def nothing_allowed(monkeypatch):
    """A machine that forbids namespaces and has no bubblewrap."""

    def refuse(*_):
        raise SandboxError("new namespaces: Operation not permitted")

    monkeypatch.setattr(launch, "ForkServer", refuse)
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda _: None)


def test_a_required_sandbox_is_not_replaced(nothing_allowed):
    options = grading.GradingOptions(sandbox="required")
    with (
        pytest.raises(SandboxError, match=r"Operation not permitted.*not installed") as error,
        grading.open_batch(options),
    ):
        pass
    assert "\n" not in str(error.value)
    assert "--require-sandbox" in str(error.value)


@pytest.mark.slow
def test_without_one_the_grader_goes_on_and_says_so(nothing_allowed, tmp_path):
    with grading.open_batch(grading.GradingOptions(), [LESSON.slug]) as batch:
        assert batch.missing == UNPROTECTED
        assert batch.about["sandbox"] == "no sandbox"
        (graded,) = batch.grade(grading.collect([Sheet(tmp_path / "a.ipynb").save()]))
    assert graded.points == graded.of


GRADES = """
import sys
from pathlib import Path
from amp_lessons.classroom import grading
from amp_lessons.classroom.grading.sandbox import rootfs
with grading.open_batch(grading.GradingOptions(sandbox="fork"), ["number_formats"]) as batch:
    (graded,) = batch.grade(grading.collect([Path(sys.argv[1])]))
print(rootfs.scratch(), graded.points, graded.of)
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["/tmp", "/var/tmp"])
def test_a_course_below_tmp_has_the_same_sandbox(place, tmp_path):
    """A clone or an environment may lie where a submission has its own folder elsewhere."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        copy = Path(folder, rootfs.PACKAGE.name)
        shutil.copytree(rootfs.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / "_course").symlink_to(catalogue.course_files())
        sheet = Sheet(tmp_path / "a.ipynb").save()
        run = subprocess.run(
            [sys.executable, "-c", GRADES, str(sheet)],
            capture_output=True,
            text=True,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": folder},
        )
    scratch = "/scratch" if place == "/tmp" or rootfs.scratch() == Path("/scratch") else "/tmp"
    assert run.stdout == f"{scratch} {LESSON.points} {LESSON.points}\n", run.stderr[-2000:]


@pytest.mark.slow
def test_a_fork_server_that_ends_is_started_again(tmp_path):
    with open_class(jobs=1) as batch:
        batch._starter._process.kill()
        batch._starter._process.wait()
        graded = Sheet(tmp_path / "a.ipynb", batch).grade()
    assert graded.points == graded.of


# ---- what a sheet closes ------------------------------------------------------------------------

ASKS_ANOTHER_PYTHON = """
import subprocess, sys
program = "from amp_lessons.amp.numbers.formats import FP16; print(FP16.{}(1.0))"
def ask(name):
    command = [sys.executable, "-c", program.format(name)]
    run = subprocess.run(command, capture_output=True, text=True)
    return (run.stdout + run.stderr).strip().splitlines()[-1]
raise RuntimeError(ask("round") + "; " + ask("next_up"))
"""


def test_another_python_that_a_notebook_starts_has_nothing_more(tmp_path, batch):
    sheet = Sheet(tmp_path / "a.ipynb", batch)
    sheet.write(LESSON.exercises[0].name, ASKS_ANOTHER_PYTHON)
    message = {mark.exercise: mark.message for mark in sheet.grade().marks}
    output = message[LESSON.exercises[0].name]
    assert (
        "RuntimeError: 1.0; amp_lessons.exercises.checks.closed.Closed: `Format.next_up` is closed"
        in output
    )


def test_the_files_of_closed_functions_are_cut_and_their_data_is_empty(tmp_path):
    from amp_lessons.classroom.grading import shut

    covers = shut.cut_files("autocast_ops", tmp_path)
    by_target = {target: Path(source).read_text() for source, target in covers.items()}
    assert all(Path(target).is_relative_to(rootfs.PACKAGE) for target in by_target)
    data = {path: text for path, text in by_target.items() if not path.endswith(".py")}
    assert data
    assert set(data.values()) == {""}
    source = by_target[str(rootfs.PACKAGE / "amp/policy/__init__.py")]
    assert "def op_policy(" in source
    assert source.count("refuse()") == source.count("    def ") + source.count("\ndef ")
