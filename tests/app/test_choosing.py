"""Where `amp-lessons lab` may make a copy, and what it says to type where it may not."""

from __future__ import annotations

import os
import shlex
import subprocess
import zipfile
from pathlib import Path

import pytest

from amp_lessons.app import cli, lab, workspace
from amp_lessons.app.workspace import MANIFEST, WorkspaceError, choosing, refuse_elsewhere
from amp_lessons.core import catalogue
from amp_lessons.core.handout import FILE

HANDOUT = f"exercises/{FILE}"


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(*files: str) -> None:
    for name in files:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if name.endswith("/") else path.write_text("{}")


def zipped(packed: str, *names: str) -> None:
    with zipfile.ZipFile(packed, "w") as file:
        for name in names:
            file.writestr(name, "{}")


# ---- refused, with the command to type ----------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "place", "command"),
    [
        ([f"class_a/class_a/{HANDOUT}"], "class_a", "amp-lessons lab class_a/class_a"),
        # the zip in Downloads had a number behind its name
        ([f"a/class a (1)/{HANDOUT}"], "a", 'amp-lessons lab "a/class a (1)"'),
        # beside what macOS adds, and beside the zip
        (
            [f"class_a/class_a/{HANDOUT}", "class_a/__MACOSX/x", "class_a/class_a.zip"],
            "class_a",
            "amp-lessons lab class_a/class_a",
        ),
        # a hand-out comes before an open copy
        (
            [f"it/a/{MANIFEST}", f"it/b/{HANDOUT}"],
            "it",
            "amp-lessons lab it/b",
        ),
        ([f"courses/mine/{MANIFEST}"], "courses", "amp-lessons lab courses/mine"),
        (["photos/cat.png"], "photos", "amp-lessons lab photos/amp-lessons"),
        (["thesis/notebooks/plot.ipynb"], "thesis", "amp-lessons lab thesis/amp-lessons"),
        (["amp/bin/python"], ".", "amp-lessons lab amp-lessons"),
    ],
)
def test_a_folder_of_something_else_says_what_to_type(files, place, command):
    make(*files)
    with pytest.raises(WorkspaceError) as refused:
        refuse_elsewhere(Path(place))
    assert str(refused.value).endswith(f": {command.replace('/', os.sep)}")
    assert "\n" not in str(refused.value)
    again = Path(shlex.split(command)[-1])
    refuse_elsewhere(again)  # what it says to type is not refused


def test_within_a_handout_no_open_copy_is_made(tmp_path):
    make(HANDOUT)
    with pytest.raises(WorkspaceError, match="within the hand-out") as refused:
        refuse_elsewhere(Path("class_a"))
    assert str(refused.value).endswith(f": amp-lessons lab {tmp_path}")


@pytest.mark.parametrize("names", [[f"class_a/{HANDOUT}"], [HANDOUT, "notebooks/home.ipynb"]])
def test_a_handout_that_is_still_packed_is_unzipped_by_the_command_it_says(names):
    zipped("class_a.zip", *names)
    with pytest.raises(WorkspaceError, match="Unzip it first: ") as refused:
        refuse_elsewhere(Path("class_a"))
    command = str(refused.value).partition("Unzip it first: ")[2]
    subprocess.run(shlex.split(command), check=True)
    assert Path("class_a", HANDOUT).is_file()
    refuse_elsewhere(Path("class_a"))


# ---- whom it does not stop ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "files",
    [
        [],
        ["mine/"],
        [f"elsewhere/class_a/{HANDOUT}"],
        # a copy, whatever else was put into it, a hand-out of one's own included
        [f"mine/{MANIFEST}", f"mine/class_a/{HANDOUT}", "mine/notes.txt"],
        [f"mine/{HANDOUT}", "mine/class_a/notes.txt"],
        # a copy that lost its manifest, because its name begins with a dot
        [f"mine/{catalogue.HOME}", "mine/notes.txt"],
        [f"mine/{catalogue.LESSONS[1].sheet}"],
        # a first copy that was interrupted before its first file
        ["mine/notebooks/", "mine/exercises/"],
        ["mine/.venv/bin/python", "mine/.DS_Store"],
        # other zips
        ["mine.zip"],
    ],
)
def test_a_new_folder_and_a_copy_of_the_course_are_welcome(files):
    make(*files)
    refuse_elsewhere(Path("mine"))
    refuse_elsewhere(Path("a/new/folder"))


def test_a_zip_of_something_else_is_nobodys_business():
    zipped("mine.zip", "mine/photo.jpg")
    refuse_elsewhere(Path("mine"))


def test_a_folder_that_cannot_be_read_is_left_to_the_copy(monkeypatch):
    def unreadable(*_):
        raise PermissionError

    monkeypatch.setattr(choosing, "_visible", unreadable)
    make("mine/")
    refuse_elsewhere(Path("mine"))


# ---- in the command -----------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("--make-only",)])
def test_lab_on_a_nested_handout_writes_nothing(words, monkeypatch, capsys):
    monkeypatch.setattr(lab, "start", lambda *_, **__: pytest.fail("JupyterLab was started"))
    make(f"class_a/class_a/{HANDOUT}")
    with pytest.raises(SystemExit) as leaving:
        cli.main(["lab", "class_a", *words])
    assert leaving.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f": amp-lessons lab {Path('class_a', 'class_a')}")
    assert [path.name for path in Path("class_a").iterdir()] == ["class_a"]


def test_lab_makes_a_copy_in_the_default_folder_beside_a_handout(monkeypatch):
    monkeypatch.setattr(workspace, "default_folder", lambda: Path("amp-lessons").absolute())
    make(f"class_a/{HANDOUT}")
    with pytest.raises(SystemExit) as leaving:
        cli.main(["lab", "--make-only"])
    assert leaving.value.code == 0
    assert Path("amp-lessons", catalogue.HOME).is_file()
