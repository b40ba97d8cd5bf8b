"""The learner's copy of the course: nothing of theirs is ever lost."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from jupyterlab_server.config import get_federated_extensions

from amp_lessons.app import lab, workspace
from amp_lessons.app.lab import LabError
from amp_lessons.app.workspace import WorkspaceError, copy_course, copying, reset
from amp_lessons.app.workspace.trust import trust, was_trusted
from amp_lessons.core import catalogue, ipynb, progress
from amp_lessons.core.catalogue import UnknownExercise

SHEET = "exercises/01_number_formats_exercises.ipynb"
LESSON = "notebooks/01_number_formats.ipynb"
HUGE = "9" * 5_000  # Python reads integers of at most 4,300 digits


@pytest.fixture(autouse=True)
def own_jupyter(tmp_path, monkeypatch):
    """Signatures of trusted notebooks go to a folder of the test."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "ws"


@pytest.fixture
def newer(tmp_path, monkeypatch):
    """A course whose files can be changed, as an upgrade would."""
    root = tmp_path / "course"
    for name in workspace.FOLDERS:
        shutil.copytree(catalogue.course_files() / name, root / name)
    monkeypatch.setattr(catalogue, "course_files", lambda: root)
    return root


def files_in(folder: Path) -> dict[str, bytes]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def scraps(folder: Path) -> list[Path]:
    return [path for path in folder.rglob(".*") if path.name != workspace.MANIFEST]


def cell_of(path: Path, grade_id: str) -> ipynb.Cell:
    cells = ipynb.read(path)["cells"]
    return next(cell for cell in cells if ipynb.grade_id(cell) == grade_id)


def change(path: Path, grade_id: str, source: str) -> None:
    notebook = ipynb.read(path)
    next(c for c in notebook["cells"] if ipynb.grade_id(c) == grade_id)["source"] = source
    path.write_bytes(ipynb.to_bytes(notebook))


# ---- copying ------------------------------------------------------------------------------------


def test_the_copy_holds_the_lessons_and_exercises_and_no_solutions(folder):
    copied = copy_course(folder)
    found = files_in(folder)
    for lesson in catalogue.LESSONS:
        assert lesson.notebook in found
        if lesson.exercises:
            assert lesson.sheet in found
    assert set(copied.written) == set(found) - {workspace.MANIFEST}
    assert not any("solution" in name for name in found)


def test_a_second_copy_changes_nothing(folder):
    copy_course(folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    copied = copy_course(folder)
    assert (copied.written, copied.kept) == ([], [])
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_changed_file_is_kept_and_a_deleted_one_put_back(folder):
    copy_course(folder)
    (folder / SHEET).write_text("mine")
    (folder / LESSON).unlink()
    copied = copy_course(folder)
    assert (copied.kept, copied.written) == ([SHEET], [LESSON])
    assert (folder / SHEET).read_text() == "mine"


def test_a_notebook_with_a_number_that_python_cannot_read_is_kept(folder):
    copy_course(folder)
    with_number = (
        (folder / SHEET).read_text().replace('"nbformat": 4', f'"n": {HUGE}, "nbformat": 4')
    )
    (folder / SHEET).write_text(with_number)
    assert copy_course(folder).kept == [SHEET]
    assert (folder / SHEET).read_text() == with_number
    (note,) = reset(folder, "next_float").notes
    assert "holds a number of more than 4,300 digits" in note


def test_an_upgrade_replaces_what_was_not_changed(folder, newer):
    copy_course(folder)
    (folder / SHEET).write_text("mine")
    (newer / SHEET).write_bytes(b"{}")
    (newer / LESSON).write_bytes(b'{"newer": 1}')
    copied = copy_course(folder)
    assert (copied.written, copied.kept_older) == ([LESSON], [SHEET])
    assert (folder / LESSON).read_bytes() == b'{"newer": 1}'
    assert (folder / SHEET).read_text() == "mine"
    assert copy_course(folder).kept_older == [SHEET], "the news must come again"


def run_and_save(path: Path) -> bytes:
    """Do to a notebook what JupyterLab does when it is run and saved."""
    notebook = ipynb.read(path)
    notebook["metadata"]["language_info"] = {"name": "python", "version": "3.99"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"] = 77
    path.write_bytes(ipynb.to_bytes(notebook))
    return path.read_bytes()


def test_to_run_a_notebook_is_not_to_change_it(folder):
    copy_course(folder)
    saved = run_and_save(folder / LESSON)
    copied = copy_course(folder)
    assert (copied.kept, copied.written) == ([], [])
    assert (folder / LESSON).read_bytes() == saved


def test_an_upgrade_keeps_the_outputs_of_a_run_beside(folder, newer):
    copy_course(folder)
    saved = run_and_save(folder / LESSON)
    (newer / LESSON).write_bytes(b"{}")
    copied = copy_course(folder)
    assert copied.written == [LESSON]
    assert (folder / LESSON).read_bytes() == b"{}"
    assert (folder / "notebooks" / copied.kept_beside[LESSON]).read_bytes() == saved


def test_an_interrupted_upgrade_goes_on(folder, newer, monkeypatch):
    """Killed at the second file: not even the manifest is written."""
    copy_course(folder)
    (folder / SHEET).write_text("mine")
    others = (LESSON, "notebooks/02_how_numbers_break.ipynb")
    for name in (*others, SHEET):
        (newer / name).write_bytes(b"{}")
    left = iter([copying.write_atomically])

    def until_killed(path, content):
        if (write := next(left, None)) is None:
            raise KeyboardInterrupt
        write(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(copying, "write_atomically", until_killed)
        patch.setattr(copying, "write_manifest", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            copy_course(folder)
    copied = copy_course(folder)
    assert (copied.kept_older, copied.foreign) == ([SHEET], [])
    assert (folder / SHEET).read_text() == "mine"
    assert all((folder / name).read_bytes() == b"{}" for name in others)


def test_a_file_that_was_there_before_is_kept(folder):
    (folder / "exercises").mkdir(parents=True)
    (folder / SHEET).write_text("from last year")
    (folder / "notes.txt").write_text("untouched")
    copied = copy_course(folder)
    assert copied.foreign == [SHEET]
    assert (folder / SHEET).read_text() == "from last year"
    assert (folder / "notes.txt").read_text() == "untouched"


@pytest.mark.parametrize(
    "manifest",
    ["", "{", "[]", '{"version": "x", "files": {}}', "[" * 100_000, f'{{"version": {HUGE}}}'],
    ids=["empty", "half", "list", "version", "nested", "huge number"],
)
def test_a_broken_manifest_loses_nothing(folder, manifest):
    copy_course(folder)
    (folder / SHEET).write_text("mine")
    (folder / workspace.MANIFEST).write_text(manifest)
    assert copy_course(folder).foreign == [SHEET]
    assert (folder / SHEET).read_text() == "mine"


def test_a_newer_manifest_is_untouched(folder):
    copy_course(folder)
    newer = '{"version": 9, "files": {}}'
    (folder / workspace.MANIFEST).write_text(newer)
    with pytest.raises(WorkspaceError, match="newer"):
        copy_course(folder)
    assert (folder / workspace.MANIFEST).read_text() == newer


@pytest.mark.parametrize("name", ["next_float", SHEET])
def test_reset_in_the_workspace_of_a_newer_course_changes_nothing(worked_on, name):
    (worked_on / workspace.MANIFEST).write_text('{"version": 9, "files": {}}')
    before = files_in(worked_on)
    with pytest.raises(WorkspaceError, match="newer"):
        reset(worked_on, name)
    assert files_in(worked_on) == before


def test_lessons_are_handed_out_without_the_outputs_that_answer_their_predictions(folder):
    copy_course(folder)
    reset(folder, LESSON)
    stored = ipynb.read(catalogue.course_files() / LESSON)["cells"]
    copied = ipynb.read(folder / LESSON)["cells"]
    assert any(cell.get("outputs") for cell in stored)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in copied)
    assert [ipynb.source_of(cell) for cell in copied] == [ipynb.source_of(cell) for cell in stored]


def test_a_failing_signature_is_silent(folder, tmp_path, monkeypatch, capfd):
    (tmp_path / "jupyter").write_text("a file where Jupyter wants a folder")
    copy_course(folder)
    workspace.trust(folder / SHEET)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("names", "short"),
    [
        ([LESSON], LESSON),
        ([LESSON, SHEET], "lesson 01, sheet 01"),
        (
            [f"exercises/{n:02}_x.ipynb" for n in (0, 2, 3, 4, 6, 7)],
            "sheets 00, 02 to 04, 06 and 07",
        ),
        ([f"notebooks/{n:02}_x.ipynb" for n in (5, 6)], "lessons 05 and 06"),
        (["notebooks/home.ipynb", LESSON], "lesson 01, notebooks/home.ipynb"),
    ],
)
def test_many_files_are_named_in_short(names, short):
    assert workspace.in_short(names) == short


# ---- places that cannot be a workspace ----------------------------------------------------------


@pytest.mark.parametrize("inside", [".", "below", "below/deeper"])
def test_a_path_that_is_a_file(tmp_path, inside):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(WorkspaceError, match="is a file"):
        copy_course(tmp_path / "file" / inside)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_file_where_a_folder_must_be(folder):
    folder.mkdir()
    (folder / "notebooks").write_text("mine")
    with pytest.raises(WorkspaceError, match="in the way"):
        copy_course(folder)
    assert files_in(folder) == {"notebooks": b"mine"}


def test_a_folder_where_a_file_must_be(folder):
    (folder / SHEET).mkdir(parents=True)
    with pytest.raises(WorkspaceError, match="directory"):
        copy_course(folder)


def test_the_course_itself_is_refused():
    with pytest.raises(WorkspaceError, match="the course itself"):
        copy_course(catalogue.course_files())
    assert not (catalogue.course_files() / workspace.MANIFEST).exists()


def test_a_folder_that_may_not_be_written(folder, monkeypatch):
    folder.mkdir()
    monkeypatch.setattr(copying.os, "access", lambda *_: False)
    with pytest.raises(WorkspaceError, match="cannot be written"):
        copy_course(folder)
    assert files_in(folder) == {}


def test_a_read_only_disk_that_looks_writable(folder, monkeypatch):
    def read_only(self, *args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system", str(self))

    monkeypatch.setattr(Path, "mkdir", read_only)
    with pytest.raises(WorkspaceError, match="Read-only"):
        copy_course(folder)
    assert not folder.exists()


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs root on Linux")
def test_an_immutable_folder_stops_even_root(folder):
    folder.mkdir()
    if subprocess.run(["chattr", "+i", folder], capture_output=True).returncode:
        pytest.skip("this file system has no immutable folders")
    try:
        with pytest.raises(WorkspaceError, match="cannot be written"):
            copy_course(folder)
    finally:
        subprocess.run(["chattr", "-i", folder], check=True)


def test_no_space_left_part_way(folder, monkeypatch):
    """The third file does not fit: nothing is half written, and the next call goes on."""
    real, calls = os.fsync, []

    def fills_up(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) >= 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fills_up)
        with pytest.raises(WorkspaceError, match="No space left"):
            copy_course(folder)
    assert scraps(folder) == []
    copy_course(folder.with_name("whole"))
    whole = files_in(folder.with_name("whole"))
    assert len(files_in(folder)) == 2
    assert all(whole[name] == content for name, content in files_in(folder).items())
    assert len(copy_course(folder).written) == len(files_in(folder)) - 3


def test_no_space_left_keeps_the_old_files(folder, newer, monkeypatch):
    copy_course(folder)
    before = files_in(folder)
    (newer / SHEET).write_bytes(b"{}")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(WorkspaceError):
            copy_course(folder)
        (folder / SHEET).write_text("mine")
        with pytest.raises(WorkspaceError):
            reset(folder, SHEET)
    assert files_in(folder) == before | {SHEET: b"mine"}


def test_a_course_without_notebooks_says_how_to_get_them(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "course_files", lambda: tmp_path / "nothing")
    with pytest.raises(WorkspaceError, match=r"make notebooks|pip install"):
        copy_course(folder)


# ---- reset --------------------------------------------------------------------------------------


@pytest.fixture
def worked_on(folder):
    """A workspace with two answers written, and the learner's own cell at the end."""
    copy_course(folder)
    change(folder / SHEET, "next_float", "def next_float(x): return 3")
    change(folder / SHEET, "decode_bits", "def decode_bits(*args): return 4")
    notebook = ipynb.read(folder / SHEET)
    own = {"cell_type": "code", "id": "own", "metadata": {}, "outputs": [], "source": "mine = 1"}
    notebook["cells"].append(own | {"execution_count": 3})
    (folder / SHEET).write_bytes(ipynb.to_bytes(notebook))
    return folder


def backups(folder: Path) -> list[Path]:
    return sorted((folder / "exercises").glob("*.before-reset-*.ipynb"))


def test_reset_of_an_exercise_touches_no_other_cell(worked_on):
    old = (worked_on / SHEET).read_bytes()
    done = reset(worked_on, "next_float")
    after, before = ipynb.read(worked_on / SHEET), ipynb.parse(old)
    master = catalogue.course_files() / SHEET
    assert cell_of(worked_on / SHEET, "next_float") == cell_of(master, "next_float")
    differ = [a for a, b in zip(after["cells"], before["cells"], strict=True) if a != b]
    assert [ipynb.grade_id(cell) for cell in differ] == ["next_float"]
    assert done.exercises == ("next_float",)
    assert backups(worked_on) == [done.kept_as]
    assert done.kept_as.read_bytes() == old


def test_reset_of_what_is_not_changed_writes_nothing(worked_on):
    before = files_in(worked_on)
    assert reset(worked_on, "smallest_scale").kept_as is None
    assert files_in(worked_on) == before


def test_two_resets_in_one_second_keep_both_copies(worked_on):
    reset(worked_on, "next_float")
    reset(worked_on, "decode_bits")
    change(worked_on / SHEET, "decode_bits", "third = 3")
    reset(worked_on, "decode_bits")
    assert len(backups(worked_on)) == 3


def test_reset_mends_missing_and_copied_cells(worked_on):
    notebook = ipynb.read(worked_on / SHEET)
    cells = notebook["cells"]
    at = next(i for i, cell in enumerate(cells) if ipynb.grade_id(cell) == "next_float")
    cells[at + 1 : at + 2] = []  # the check is deleted, the answer copied
    cells.insert(at, dict(cells[at]))
    (worked_on / SHEET).write_bytes(ipynb.to_bytes(notebook))
    done = reset(worked_on, "next_float")
    assert len(done.notes) == 2
    names = [ipynb.grade_id(cell) for cell in ipynb.read(worked_on / SHEET)["cells"]]
    at = names.index("next_float")
    assert names[at : at + 2] == ["next_float", "next_float_check"]
    assert names.count("next_float") == 1


def test_reset_finds_cells_that_lost_their_metadata(worked_on):
    notebook = ipynb.read(worked_on / SHEET)
    for cell in notebook["cells"]:
        cell["metadata"] = {}
    count = len(notebook["cells"])
    (worked_on / SHEET).write_bytes(ipynb.to_bytes(notebook))
    assert reset(worked_on, "next_float").notes == ()
    assert len(ipynb.read(worked_on / SHEET)["cells"]) == count
    assert "return 3" not in (worked_on / SHEET).read_text()


@pytest.mark.parametrize(
    "name", ["01_number_formats_exercises", SHEET, "01_number_formats_exercises.ipynb"]
)
def test_reset_of_a_whole_sheet(worked_on, name):
    old = (worked_on / SHEET).read_bytes()
    done = reset(worked_on, name)
    assert (worked_on / SHEET).read_bytes() == (catalogue.course_files() / SHEET).read_bytes()
    assert done.kept_as.read_bytes() == old
    assert set(done.exercises) == {info.name for info in catalogue.LESSONS[1].exercises}
    assert copy_course(worked_on).kept == []


def test_reset_of_a_lesson(worked_on):
    (worked_on / LESSON).write_text("mine")
    done = reset(worked_on, LESSON.removesuffix(".ipynb"))
    assert done.file == worked_on / LESSON
    assert done.exercises == ()


@pytest.mark.parametrize(
    "content",
    ["{ half", "", "[]", '{"nbformat": 4, "cells": 3}', f'{{"nbformat": 4, "cells": [{HUGE}]}}'],
    ids=["half", "empty", "list", "cells", "huge number"],
)
def test_reset_in_a_broken_notebook_restores_all_of_it(worked_on, content):
    (worked_on / SHEET).write_text(content)
    done = reset(worked_on, "next_float")
    assert done.kept_as.read_text() == content
    assert (worked_on / SHEET).read_bytes() == (catalogue.course_files() / SHEET).read_bytes()
    assert "all of it was put back" in done.notes[0]


def test_reset_of_an_unknown_name_offers_the_nearest(worked_on):
    before = files_in(worked_on)
    with pytest.raises(UnknownExercise, match="did you mean next_float"):
        reset(worked_on, "next_flaot")
    assert files_in(worked_on) == before


def test_reset_of_an_unknown_notebook_offers_the_nearest(worked_on):
    with pytest.raises(UnknownExercise, match="did you mean 01_number_formats"):
        reset(worked_on, "01_number_format")


def test_reset_without_a_workspace(tmp_path):
    with pytest.raises(WorkspaceError, match="amp-lessons lab"):
        reset(tmp_path / "none", "next_float")


def test_a_reset_notebook_stays_trusted(worked_on):
    workspace.trust(worked_on / SHEET)
    reset(worked_on, "next_float")
    assert was_trusted((worked_on / SHEET).read_bytes())


HOME = catalogue.HOME


def with_a_cell(page: Path) -> None:
    notebook = ipynb.read(page)
    cell = {"cell_type": "code", "id": "mine", "metadata": {}, "source": "1", "outputs": []}
    notebook["cells"].append(cell | {"execution_count": None})
    page.write_bytes(ipynb.to_bytes(notebook))


def test_jupyterlab_trusts_the_home_page_as_the_course_wrote_it(folder):
    copy_course(folder)
    assert was_trusted((folder / HOME).read_bytes())
    progress.record_lesson("amp_in_20_minutes")
    copy_course(folder)
    assert was_trusted((folder / HOME).read_bytes())


@pytest.mark.parametrize("ran", [True, False])
def test_a_home_page_with_other_cells_is_trusted_only_if_it_was(folder, ran):
    """Jupyter trusts what was run here, and not what came with somebody's files."""
    copy_course(folder)
    with_a_cell(folder / HOME)
    if ran:
        trust(folder / HOME)
    progress.record_lesson("amp_in_20_minutes")
    copy_course(folder)
    assert was_trusted((folder / HOME).read_bytes()) == ran


def test_the_current_folder_wins_if_it_is_a_workspace(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert workspace.current_folder() == workspace.default_folder()
    copy_course(folder)
    monkeypatch.chdir(folder / "exercises")
    assert workspace.current_folder() == folder


# ---- JupyterLab ---------------------------------------------------------------------------------


def test_the_command_opens_the_start_page_with_this_python(folder):
    words = lab.command(folder, browser=False, port=1234, ip="0.0.0.0", extra=["--x=1"])
    assert words[:3] == [sys.executable, "-m", "jupyterlab"]
    assert f"--LabApp.default_url=/lab/tree/{workspace.START_PAGE}" in words
    assert "--ServerApp.port_retries=0" in words
    assert "--no-browser" in words
    assert f"--LabApp.extra_labextensions_path={lab.EXTENSIONS}" in words
    assert words[-1] == "--x=1"


def test_our_extension_is_one_that_jupyterlab_finds():
    found = get_federated_extensions([str(lab.EXTENSIONS)])
    (name,) = found
    built = found[name]["jupyterlab"]["_build"]
    entry = Path(found[name]["ext_path"], built["load"])
    assert f'["{name}"] = container' in entry.read_text(encoding="utf-8")


def test_only_instructors_get_the_menus_of_nbgrader(monkeypatch):
    monkeypatch.delenv("JUPYTER_CONFIG_PATH", raising=False)

    def turned_off(**chosen: bool) -> set[str]:
        folders = lab.environment(**chosen)["JUPYTER_CONFIG_PATH"].split(os.pathsep)
        pages = [Path(folder, "labconfig/page_config.json") for folder in folders]
        return {
            name for page in pages for name in json.loads(page.read_text())["disabledExtensions"]
        }

    news = "@jupyterlab/apputils-extension:announcements"
    assert turned_off() == {news, "@jupyter/nbgrader"}
    assert turned_off(nbgrader=True) == {news}


def test_root_is_allowed_explicitly(folder, monkeypatch):
    monkeypatch.setattr(lab, "as_root", lambda: False)
    assert "--allow-root" not in lab.command(folder)
    monkeypatch.setattr(lab, "as_root", lambda: True)
    assert "--allow-root" in lab.command(folder)


def test_without_jupyterlab_the_cure_is_told(folder, monkeypatch):
    monkeypatch.setattr(lab, "find_spec", lambda name: None)
    with pytest.raises(LabError, match="pip install"):
        lab.command(folder)


def test_a_port_in_use_is_refused():
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        with pytest.raises(LabError, match=f"port {port} is in use"):
            lab.check_port(port)
    lab.check_port(port)


@pytest.mark.parametrize("ip", ["nowhere.invalid", "203.0.113.7"])
def test_an_address_of_another_machine_is_refused(ip):
    with pytest.raises(LabError, match=ip):
        lab.check_port(0, ip)


def test_the_manifest_is_readable(folder):
    copy_course(folder)
    data = json.loads((folder / workspace.MANIFEST).read_text())
    assert data["version"] == workspace.MANIFEST_VERSION
    assert SHEET in data["files"]


@pytest.mark.parametrize("changed", [False, True])
def test_what_the_course_has_elsewhere_now_goes_unless_it_was_changed(folder, newer, changed):
    copy_course(folder)
    elsewhere = Path(LESSON).with_stem("moved").as_posix()
    (newer / LESSON).rename(newer / elsewhere)
    if changed:
        run_and_save(folder / LESSON)
    copied = copy_course(folder)
    assert copied.written == [elsewhere]
    assert (folder / LESSON).exists() == changed
    assert copy_course(folder).written == []


def test_a_manifest_cannot_name_files_outside_the_course(folder):
    copy_course(folder)
    outside = folder.parent / "mine.txt"
    outside.write_text("mine")
    known = json.loads((folder / workspace.MANIFEST).read_text())
    whole = hashlib.sha256(b"mine").hexdigest()
    known["files"][f"{Path(LESSON).parent}/../../mine.txt"] = {"sha256": whole, "text": whole}
    (folder / workspace.MANIFEST).write_text(json.dumps(known))
    copy_course(folder)
    assert outside.read_text() == "mine"
