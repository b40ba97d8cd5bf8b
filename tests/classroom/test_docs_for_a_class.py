"""What an instructor reads: the plan's page and docs/classroom.md say the same, and code runs."""

from __future__ import annotations

import re
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

from amp_lessons.classroom.grading.report.pages import file_names
from amp_lessons.classroom.workshop import reading
from amp_lessons.core.catalogue import LESSONS
from amp_lessons.quiz.exports.commands import FORMATS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def names_in(command: str) -> set[str]:
    """The files and folders that a command is given, without its own words."""
    words = command.replace("$PWD/", "").replace("AMP_LESSONS_HOME=", "").split()
    own = {"amp-lessons", "lab", "grade", "doctor", "workshop", "progress", ">"}
    return {w for w in words if w not in own and not re.match(r"-|\{|\d", w)}


def test_the_plans_page_and_the_page_for_a_class_call_everything_by_the_same_name():
    around = tomllib.loads((reading.FOLDER / "around.toml").read_text(encoding="utf-8"))
    lists = "\n".join(line for each in around["list"] for line in each["item"])
    commands = [c for c in re.findall(r"`([^`]+)`", lists) if re.search(r"amp-lessons \w", c)]
    named = set().union(*map(names_in, commands))
    assert {"class_a", "submissions", "kept", "marks.csv", "pages", "teaching"} <= named
    known = page("classroom.md")
    assert {name for name in named if name not in known} <= {"teaching/plan.md"}


def test_windows_has_its_own_lines_wherever_an_environment_is_made():
    for name in ("classroom.md", "installing.md"):
        text = page(name)
        unix = re.findall(r"^    amp/bin/(.*)$", text, re.MULTILINE)
        windows = re.findall(r"^    amp\\Scripts\\(.*)$", text, re.MULTILINE)
        assert windows, name
        assert set(windows) <= set(unix), name


def test_the_pages_that_go_back_by_moodle_reach_their_learners(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people = {"Jane Doe": 7, "Žofie Nováková": 12}
    for (name, number), file in zip(people.items(), file_names(people), strict=True):
        Path(f"submissions/{name}_{number}_assignsubmission_file").mkdir(parents=True)
        Path("pages/learners").mkdir(parents=True, exist_ok=True)
        Path("pages/learners", file).write_text(name, encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page("grading.md"), re.DOTALL)
    exec(code, {})
    with zipfile.ZipFile("back.zip") as packed:
        sent = {each: packed.read(each).decode() for each in packed.namelist() if each[-1] != "/"}
    assert sent == {
        f"{name}_{number}_assignsubmission_file/results.html": name
        for name, number in people.items()
    }


def ignored(*names: str) -> set[str]:
    """Those of these paths in the checkout that git leaves out of its status."""
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", *names], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        pytest.skip("this is no checkout of git")
    return set(done.stdout.split())


def test_what_an_instructor_s_commands_write_in_a_checkout_is_no_matter_of_git():
    """Codes, submissions and marks, under the names that the pages give them."""
    written = {
        "class_a/exercises/x.ipynb",
        "class_a_codes.txt",
        "class_a.zip",
        "teaching/notebooks/x.ipynb",
        "teaching/plan.md",
        "teaching-progress/progress.json",
        "wheels/x.whl",
        "reports/ada.json",
        "roster.txt",
        "arriving/ada/x.ipynb",
        "submissions/ada/x.ipynb",
        "kept/ada.json",
        "marks.csv",
        "pages/learners/ada.html",
        "back/ada/results.html",
        "back.zip",
        "workshop_4h_slides.html",
        f"{LESSONS[6].id}_slides.html",
        *(each.file for each in FORMATS.values()),
    }
    assert ignored(*written) == written


def test_no_file_of_the_course_is_ignored():
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout == ""
