"""What counts as handed in, and whose it is: folders, zip files, names, links and traps."""

from __future__ import annotations

import io
import os
import sys
import zipfile
from pathlib import Path

import pytest

from amp_lessons.grading.collect import NothingToGrade, collect
from amp_lessons.ipynb import NotebookError

NB = b'{"nbformat": 4, "cells": []}'


def put(file: Path, content: bytes = NB) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def zipped(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def told(*paths: Path) -> dict[str, str]:
    """By learner: "read", or why not; several of one learner are joined."""
    found: dict[str, list[str]] = {}
    for each in collect(paths):
        try:
            each.read()
            said = "read"
        except NotebookError as error:
            said = str(error)
        found.setdefault(each.learner, []).append(said)
    return {learner: " + ".join(said) for learner, said in found.items()}


def test_folders_of_learners_and_loose_files(tmp_path):
    put(tmp_path / "ada/06.ipynb")
    put(tmp_path / "ada/deep/er/01.ipynb")
    put(tmp_path / "ada/.ipynb_checkpoints/06-checkpoint.ipynb")
    put(tmp_path / "bob.IPYNB")
    put(tmp_path / "doejane_LATE_123_456_sheet.ipynb")
    put(tmp_path / "Jane Roe_77_assignsubmission_file/sheet.ipynb")
    put(tmp_path / "notes.txt")
    assert told(tmp_path) == {
        "ada": "read + read",
        "bob": "read",
        "doejane": "read",
        "Jane Roe": "read",
    }


def test_the_root_of_an_nbgrader_course_stands_for_what_was_submitted(tmp_path):
    put(tmp_path / "source/sheet/06.ipynb")
    put(tmp_path / "submitted/ada/sheet/06.ipynb")
    assert told(tmp_path) == told(tmp_path / "submitted") == {"ada": "read"}


def test_a_learner_with_nothing_to_grade_gets_a_line(tmp_path):
    put(tmp_path / "ada/06.ipynb")
    put(tmp_path / "bob/answers.docx")
    (tmp_path / "eve").mkdir()
    put(tmp_path / "zoe/answers.zip", zipped({}))
    nothing = "has no notebook (*.ipynb) in it"
    assert told(tmp_path) == {"ada": "read", "bob": nothing, "eve": nothing, "zoe": nothing}


def test_zip_files_of_a_class_and_of_a_learner(tmp_path):
    inner = zipped({"06.ipynb": NB, "work/01.ipynb": NB})
    of_class = {
        "ada/06.ipynb": NB,
        "Jane Roe_77_assignsubmission_file/answers.zip": inner,
        "doe_12_34_06.ipynb": NB,
        "__MACOSX/ada/._06.ipynb": b"x",
    }
    file = put(tmp_path / "class.zip", zipped(of_class))
    put(tmp_path / "folder/zoe/all.zip", inner)
    assert told(file) == {"ada": "read", "Jane Roe": "read + read", "doe": "read"}
    assert told(tmp_path / "folder") == {"zoe": "read + read"}


def test_a_zip_file_can_write_nowhere_and_holds_no_third_one(tmp_path):
    evil = {"../../evil.ipynb": NB, "/etc/x.ipynb": NB, "a\\..\\b.ipynb": NB}
    deep = zipped({"deep.zip": zipped({"inner.zip": zipped({"06.ipynb": NB})})})
    put(tmp_path / "in/eve.zip", zipped(evil))
    put(tmp_path / "in/dan.zip", deep)
    before = sorted(tmp_path.rglob("*"))
    found = told(tmp_path / "in")
    assert found["eve"] == "read + read + read"
    assert "unpack it first" in found["dan"]
    assert sorted(tmp_path.rglob("*")) == before


def test_bombs_and_broken_zip_files_are_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("amp_lessons.ipynb.LARGEST", 2**20)
    put(tmp_path / "bomb/big.zip", zipped({"06.ipynb": b" " * 2**24}))
    put(tmp_path / "broken/x.zip", b"PK\x03\x04 and nothing more")
    lying = bytearray(zipped({"06.ipynb": b" " * 2**24}))
    place = lying.index(b"PK\x01\x02")
    lying[place + 24 : place + 28] = (1000).to_bytes(4, "little")  # its size, as it says
    put(tmp_path / "lying/x.zip", bytes(lying))
    put(tmp_path / "many/x.zip", zipped({f"{n}.txt": b"" for n in range(6000)}))
    found = told(tmp_path)
    assert found["bomb"] == "is larger than 1 MB"
    assert found["broken"].startswith("is not a zip file that can be read")
    assert found["lying"] != "read"
    assert found["many"] == "holds more than 5,000 files"


def test_links_and_devices_are_not_followed(tmp_path):
    secret = put(tmp_path / "home/secret.ipynb")
    put(tmp_path / "home/secret.zip", zipped({"a.ipynb": NB}))
    top = tmp_path / "in"
    for learner in ("file", "zip", "folder", "fifo", "fifozip"):
        (top / learner).mkdir(parents=True)
    (top / "file/06.ipynb").symlink_to(secret)
    (top / "zip/06.zip").symlink_to(secret.with_suffix(".zip"))
    (top / "folder/06").symlink_to(tmp_path / "home")
    os.mkfifo(top / "fifo/06.ipynb")
    os.mkfifo(top / "fifozip/06.zip")
    link = "is a link, and links are not followed"
    assert told(top) == {
        "file": link,
        "zip": link,
        "folder": "has no notebook (*.ipynb) in it",
        "fifo": "is not an ordinary file",
        "fifozip": "is not an ordinary file",
    }


def test_a_folder_that_becomes_a_link_is_not_followed(tmp_path):
    put(tmp_path / "home/06.ipynb")
    put(tmp_path / "in/eve/sub/06.ipynb")
    (found,) = collect([tmp_path / "in"])
    (tmp_path / "in/eve/sub/06.ipynb").unlink()
    (tmp_path / "in/eve/sub").rmdir()
    (tmp_path / "in/eve/sub").symlink_to(tmp_path / "home")
    with pytest.raises(NotebookError, match="cannot be read"):
        found.read()


def test_one_learner_crowds_out_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[collect.__module__], "MOST_FILES", 100)
    for number in range(60):
        put(tmp_path / f"aaa/{number}.ipynb")
    for number in range(200):
        put(tmp_path / f"bbb/{number}.txt")
    deep = tmp_path / "ccc"
    for _ in range(30):
        deep = deep / "d"
    put(deep / "06.ipynb")
    put(tmp_path / "zoe/06.ipynb")
    found = told(tmp_path)
    assert "more than 50 notebooks" in found["aaa"]
    assert "more than 100 files" in found["bbb"]
    assert "folders more than 12 deep" in found["ccc"]
    assert found["zoe"] == "read"


def test_thousands_of_nested_folders_are_one_line(tmp_path):
    (tmp_path / "eve").mkdir()
    here = os.open(tmp_path / "eve", os.O_RDONLY)
    for _ in range(1900):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    put(tmp_path / "zoe/06.ipynb")
    found = told(tmp_path)
    assert "deep" in found["eve"]
    assert found["zoe"] == "read"
    from amp_lessons.grading.scratch import remove

    assert remove(tmp_path / "eve")  # pytest cannot


def test_names_are_one_line_and_short(tmp_path):
    put(tmp_path / "e\x1b[2Jve\n\u202e" / ("x" * 200 + ".ipynb"))
    (found,) = collect([tmp_path])
    assert found.learner.isprintable()
    assert found.name.isprintable()
    assert len(found.name) <= 200


def test_progress_beside_the_notebooks_comes_along(tmp_path):
    put(tmp_path / "in/ada/exercises/06.ipynb")
    put(tmp_path / "in/ada/progress.json", b"{}")
    put(tmp_path / "in/bob/06.ipynb")
    put(tmp_path / "in/progress.json", b"{}")
    put(tmp_path / "in/eve/06.ipynb")
    (tmp_path / "in/eve/progress.json").symlink_to("/etc/passwd")
    found = {each.learner: each.progress() for each in collect([tmp_path / "in"])}
    assert found == {"ada": b"{}", "bob": None, "eve": None}
    put(tmp_path / "z.zip", zipped({"ada/progress.json": b"1", "ada/x/06.ipynb": NB}))
    (zipped_one,) = collect([tmp_path / "z.zip"])
    assert zipped_one.progress() == b"1"


def test_the_lessons_in_a_whole_folder_are_not_sheets(tmp_path):
    put(tmp_path / "ada/exercises/06_grad_scaler_exercises.ipynb")
    put(tmp_path / "ada/notebooks/06_grad_scaler.ipynb")
    put(tmp_path / "ada/notebooks/home.ipynb")
    put(tmp_path / "bob/notebooks/06_grad_scaler.ipynb")
    put(tmp_path / "ada/exercises/progress.json", b"{}")
    assert told(tmp_path) == {"ada": "read", "bob": "read"}
    (ada,) = collect([tmp_path / "ada"])
    assert (ada.learner, ada.progress()) == ("ada", b"{}")


@pytest.mark.parametrize("top", ["", "handout/"])
def test_a_zipped_copy_of_the_course_is_whose_name_the_file_has(tmp_path, top):
    names = ["exercises/06_grad_scaler_exercises.ipynb", "notebooks/06_grad_scaler.ipynb"]
    for learner in ("ada", "bob"):
        put(tmp_path / f"{learner}.zip", zipped({f"{top}{name}": NB for name in names}))
    assert told(tmp_path / "ada.zip", tmp_path / "bob.zip") == {"ada": "read", "bob": "read"}


def test_nothing_at_all_is_one_clear_line(tmp_path):
    with pytest.raises(NothingToGrade, match=r"has no notebook \(\*\.ipynb\) in it"):
        collect([tmp_path])
