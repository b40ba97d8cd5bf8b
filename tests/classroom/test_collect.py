"""What counts as handed in, and whose it is: folders, zip files, names, links and traps."""

from __future__ import annotations

import io
import os
import random
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from amp_lessons.classroom.grading import places
from amp_lessons.classroom.grading.collect import NothingToGrade, TwoPlaces, collect
from amp_lessons.core.ipynb import NotebookError

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
            message = "read"
        except NotebookError as error:
            message = str(error)
        found.setdefault(each.learner, []).append(message)
    return {learner: " + ".join(message) for learner, message in found.items()}


def test_folders_of_learners_and_loose_files(tmp_path):
    put(tmp_path / "ada/06.ipynb")
    put(tmp_path / "ada/deep/er/01.ipynb")
    put(tmp_path / "ada/.ipynb_checkpoints/06-checkpoint.ipynb")
    put(tmp_path / "bob.IPYNB")
    put(tmp_path / "doejane_LATE_123_456_sheet.ipynb")
    put(tmp_path / "Jane Roe_77_assignsubmission_file/sheet.ipynb")
    put(tmp_path / "marks.csv")
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
    monkeypatch.setattr("amp_lessons.core.ipynb.LARGEST", 2**20)
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
    monkeypatch.setattr(places, "MOST_FILES", 100)
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
    from amp_lessons.classroom.grading.scratch import remove

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


# ---- a learner is a folder, always --------------------------------------------------------------

SHEET = "01_number_formats_exercises.ipynb"
OTHER = "06_grad_scaler_exercises.ipynb"


def rows(*paths: Path, known: tuple[str, ...] = ()) -> set[tuple[str, str]]:
    """The learners with their sheets, whatever the folders are called."""
    return {(each.learner, each.name.rpartition("/")[2]) for each in collect(paths, known)}


@pytest.fixture
def of_six(tmp_path) -> Path:
    """A class in which people hand in what people hand in."""
    top = tmp_path / "sub"
    put(top / "ada" / SHEET)
    put(top / "ben/exercises" / SHEET)
    put(top / "ben/exercises" / OTHER)
    put(top / "ben/notebooks/06_grad_scaler.ipynb")
    put(top / "cem/work/homework" / SHEET)
    put(top / f"dora_{SHEET}")
    put(top / "eva.zip", zipped({f"amp/exercises/{SHEET}": NB}))
    put(top / "finn.tar.gz", tarred({f"finn/{SHEET}": NB}))
    return top


def tarred(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def test_a_folder_of_a_class_and_the_list_that_the_shell_makes_of_it_are_the_same(of_six):
    assert rows(of_six) == {
        ("ada", SHEET),
        ("ben", SHEET),
        ("ben", OTHER),
        ("cem", SHEET),
        ("dora", f"dora_{SHEET}"),
        ("eva", SHEET),
        ("finn", SHEET),
    }
    assert rows(*sorted(of_six.iterdir())) == rows(of_six)
    names = {each.name for each in collect([of_six])}
    assert {each.name for each in collect(sorted(of_six.iterdir()))} == names


def test_one_folder_of_a_class_keeps_its_learner(of_six):
    for learner in ("ada", "ben"):
        of_one = {row for row in rows(of_six) if row[0] == learner}
        assert rows(of_six / learner) == of_one
    assert rows(of_six / "ben/exercises") == {("ben", SHEET), ("ben", OTHER)}
    assert rows(of_six / "cem", known=("Cem",)) == {("cem", SHEET)}
    assert rows(of_six / "ada" / SHEET, known=("ada",)) == {("ada", SHEET)}
    put(of_six / "gil/my answers.ipynb")
    assert rows(of_six / "gil") == {("gil", "my answers.ipynb")}


def test_archives_of_a_class_of_its_learners_and_a_folder_of_them(tmp_path):
    learners = {name: {f"{name}/{SHEET}": NB} for name in ("ada", "ben")}
    together = {path: NB for files in learners.values() for path in files}
    expected = {("ada", SHEET), ("ben", SHEET)}
    for top in ("", "sub/"):
        whole = {f"{top}{path}": NB for path in together}
        assert rows(put(tmp_path / "class.zip", zipped(whole))) == expected
        assert rows(put(tmp_path / "class.tgz", tarred(whole))) == expected
    for name, files in learners.items():
        put(tmp_path / f"zips/{name}.zip", zipped(files))
        put(tmp_path / f"flat/{name}.zip", zipped({SHEET: NB}))
        put(tmp_path / f"own/{name}.zip", zipped({f"exercises/{SHEET}": NB}))
    for folder in ("zips", "flat", "own"):
        assert rows(tmp_path / folder) == expected
        assert rows(*(tmp_path / folder).iterdir()) == expected
        assert rows(tmp_path / folder / "ada.zip") == {("ada", SHEET)}
    of_zips = {f"{name}.zip": zipped(files) for name, files in learners.items()}
    assert rows(put(tmp_path / "class.zip", zipped(of_zips))) == expected


def test_one_learner_with_a_sheet_in_two_places_is_refused_by_name(tmp_path):
    for day in ("mon", "tue"):
        put(tmp_path / day / "ada" / SHEET)
    with pytest.raises(TwoPlaces) as refused:
        collect([tmp_path / "mon/ada", tmp_path / "tue/ada"])
    (message,) = str(refused.value).splitlines()
    assert message.startswith("ada has the same sheet in two places, ")
    assert f"mon/ada/{SHEET}" in message
    assert f"tue/ada/{SHEET}" in message
    put(tmp_path / "tue/ada" / SHEET).rename(tmp_path / "tue/ada" / OTHER)
    assert rows(tmp_path / "mon/ada", tmp_path / "tue/ada") == {("ada", SHEET), ("ada", OTHER)}


def test_an_archive_beside_the_folder_it_was_unpacked_to_is_refused(tmp_path):
    put(tmp_path / "sub/ada" / SHEET)
    put(tmp_path / "sub/ada.zip", zipped({SHEET: NB}))
    for paths in ([tmp_path / "sub"], sorted((tmp_path / "sub").iterdir())):
        with pytest.raises(TwoPlaces, match=r"ada\.zip.*leave one out"):
            collect(paths)


def test_classes_that_are_named_together_are_refused(tmp_path):
    for group in ("a", "b"):
        for learner in ("ada", "ben"):
            put(tmp_path / group / learner / SHEET)
    with pytest.raises(TwoPlaces, match="looks like a class: grade one class at a time"):
        collect([tmp_path / "a", tmp_path / "b"])


def test_what_one_learner_packs_stops_nobody(tmp_path):
    """Only names that the instructor gave can be refused."""
    put(tmp_path / "sub/ada" / SHEET)
    put(tmp_path / "sub/ben/old" / SHEET)
    put(tmp_path / "sub/ben/new" / SHEET)
    put(tmp_path / "sub/cem" / SHEET)
    put(tmp_path / "sub/cem/all.zip", zipped({SHEET: NB}))
    for paths in ([tmp_path / "sub"], sorted((tmp_path / "sub").iterdir())):
        assert told(*paths) == {"ada": "read", "ben": "read + read", "cem": "read + read"}


def test_everything_at_the_top_has_a_row_that_says_why(tmp_path):
    top = tmp_path / "sub"
    put(top / "ada" / SHEET)
    put(top / "lea.7z", b"7z\xbc\xaf\x27\x1c")
    put(top / "mo.tar.gz", b"\x1f\x8b broken")
    put(top / "kim.zip", b"")
    put(top / "liv.pdf", b"%PDF")
    put(top / "nia/answers.rar", b"Rar!")
    (top / "eve").mkdir()
    (top / "j.doe").symlink_to(tmp_path / "home")
    for name in (".DS_Store", "marks.csv", "Thumbs.db", "class_a_codes.txt", "kept/batch.json"):
        put(top / name)
    put(top / "__MACOSX/ada" / SHEET)
    expected = {
        "ada": "read",
        "lea": "is packed as .7z, which can't be read: it has to be sent as a zip file",
        "kim": "is empty (0 bytes): it has to be sent again",
        "liv": "is not a notebook (*.ipynb) or a zip file",
        "nia": "has only answers.rar, which is packed as .rar, which can't be read: it has to be "
        "sent as a zip file",
        "eve": "has no notebook (*.ipynb) in it",
        "j.doe": "is a link, and links are not followed",
    }
    for paths in ([top], sorted(top.iterdir())):
        found = {e.learner: e for e in collect(paths, without=[top / "kept"])}
        message = {}
        for learner, each in found.items():
            try:
                each.read()
                message[learner] = "read"
            except NotebookError as error:
                message[learner] = str(error)
        assert message.pop("mo").startswith("is not a tar file that can be read")
        assert message == expected


def test_tar_files_keep_to_the_limits_of_zip_files(tmp_path, monkeypatch):
    monkeypatch.setattr("amp_lessons.core.ipynb.LARGEST", 2**20)
    monkeypatch.setattr(places, "LARGEST_UNPACKED", 2**22)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, kind in (("06.ipynb", tarfile.SYMTYPE), ("07.ipynb", tarfile.LNKTYPE)):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, "/etc/passwd"
            archive.addfile(link)
        device = tarfile.TarInfo("08.ipynb")
        device.type = tarfile.CHRTYPE
        archive.addfile(device)
    put(tmp_path / "links.tar.gz", stream.getvalue())
    put(tmp_path / "bomb.tgz", tarred({"06.ipynb": b" " * 2**24}))
    put(tmp_path / "large.tar", tarred({"06.ipynb": b" " * 2**21}, "w"))
    put(tmp_path / "many.tar", tarred({f"{n}.txt": b"" for n in range(6000)}, "w"))
    put(tmp_path / "evil.tar", tarred({"../../evil.ipynb": NB, "/etc/x.ipynb": NB}, "w"))
    put(tmp_path / "half.tar.gz", tarred({"06.ipynb": os.urandom(5000)})[:2000])
    before = sorted(tmp_path.rglob("*"))
    found = told(tmp_path)
    link = "is a link, and links are not followed"
    assert found["links"] == f"{link} + {link} + is not an ordinary file"
    assert found["bomb"] == "unpacks to more than 4 MB"
    assert found["large"] == "is larger than 1 MB"
    assert found["many"] == "holds more than 5,000 files"
    assert found["evil"] == "read + read"
    assert found["half"].startswith("is not a tar file that can be read")
    assert sorted(tmp_path.rglob("*")) == before


def test_hundreds_of_archives_are_not_held_open(tmp_path):
    for number in range(40):
        put(tmp_path / f"l{number}.zip", zipped({SHEET: NB}))
    before = len(os.listdir("/proc/self/fd"))
    found = collect([tmp_path])
    assert len(found) == 40
    assert len(os.listdir("/proc/self/fd")) == before
    assert {each.read() for each in found} == {NB}


def test_two_people_of_one_name_in_moodle_stay_two(tmp_path):
    for number in (77, 78):
        put(tmp_path / f"sub/Jane Roe_{number}_assignsubmission_file" / SHEET)
    expected = {("Jane Roe (77)", SHEET), ("Jane Roe (78)", SHEET)}
    assert rows(tmp_path / "sub") == rows(*(tmp_path / "sub").iterdir()) == expected


def test_small_text_beside_a_notebook_travels_with_it(tmp_path):
    files = {
        "helper.py": b"def half(x): return x / 2",
        "data.csv": b"1,2",
        "large.py": b"#" * (256 * 2**10 + 1),
        "binary.py": b"\xff\xfe",
        "image.png": b"x",
        "progress.json": b"{}",
        SHEET: NB,
        "deeper/other.py": b"x = 1",
    }
    for name, content in files.items():
        put(tmp_path / "sub/ada" / name, content)
    put(tmp_path / "sub/ben.zip", zipped(files))
    put(tmp_path / f"sub/eve_{SHEET}")
    put(tmp_path / "sub/helper.py", b"")
    (tmp_path / "sub/ada/link.py").symlink_to("/etc/passwd")
    found = {each.learner: dict(each.beside()) for each in collect([tmp_path / "sub"])}
    text = {"helper.py": "def half(x): return x / 2", "data.csv": "1,2", "deeper/other.py": "x = 1"}
    assert (found["ada"], found["ben"], found["eve"]) == (text, text, {})


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_damaged_tar_files_never_raise_anything_else(tmp_path, monkeypatch, mode):
    monkeypatch.setattr(places, "LARGEST_UNPACKED", 2**22)
    draw, original = (
        random.Random(7),
        tarred({f"ada/{SHEET}": NB, "ada/progress.json": b"{}"}, mode),
    )
    put(tmp_path / "zoe" / SHEET)
    for _ in range(200):
        content = bytearray(original)
        for _ in range(draw.randint(1, 8)):
            content[draw.randrange(min(len(content), 1600))] = draw.randrange(256)
        put(tmp_path / "eve.tar", bytes(content[: draw.choice((None, len(content) - 5))]))
        found = collect([tmp_path])
        for each in found:
            with suppress(NotebookError):
                each.read()
            each.progress()
        assert [each.learner for each in found].count("zoe") == 1
