"""What an instructor reads: the plan's page and docs/classroom.md say the same, and code runs."""

from __future__ import annotations

import re
import tomllib
import zipfile
from pathlib import Path

from amp_lessons.classroom.grading.report.pages import file_names
from amp_lessons.classroom.workshop import reading

DOCS = Path(__file__).resolve().parents[2] / "docs"


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
