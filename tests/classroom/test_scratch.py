"""The grader's temporary folders, and what notebooks leave in them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from amp_lessons.classroom.grading import scratch

NOBODY = 65534


@pytest.fixture
def ordinary_user(monkeypatch) -> Iterator[None]:
    """Rights count for whoever runs the tests: root becomes an ordinary user for a while."""
    if os.geteuid() != 0:
        yield
        return
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")  # where everyone may make a folder
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def nest(folder: Path, levels: int, name: str = "d") -> None:
    """Make nested folders whose path is longer than the system's limit for a path."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def test_it_is_a_new_folder_that_is_gone_afterwards():
    with scratch.scratch_folder() as folder:
        (folder / "notes.txt").write_text("mine")
        (folder / "sub" / "below").mkdir(parents=True)
        assert folder.stat().st_mode & 0o077 == 0, "others may look into it"
    assert not folder.exists()


def test_it_is_gone_after_an_exception_too():
    with pytest.raises(ZeroDivisionError), scratch.scratch_folder() as folder:
        raise ZeroDivisionError
    assert not folder.exists()


def test_thousands_of_nested_folders_are_removed():
    with scratch.scratch_folder() as folder:
        nest(folder, 3000)
        nest(folder, 40, "n" * 255)
    assert not folder.exists()


def test_names_as_long_as_they_may_be_and_odd_ones_are_removed():
    with scratch.scratch_folder() as folder:
        (folder / ("n" * 255)).mkdir()
        (folder / ("n" * 255) / ("m" * 255)).write_text("x")
        for name in (b"\xff\xfe", b"new\nline", b"-rf", b" "):
            os.mkdir(os.fsencode(folder) + b"/" + name)
        os.mkfifo(folder / "pipe")
    assert not folder.exists()


def test_links_are_removed_and_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o750)
    (outside / "kept.txt").write_text("kept")
    before = outside.stat().st_mode
    with scratch.scratch_folder() as folder:
        (folder / "sub").mkdir()
        for place in (folder, folder / "sub"):
            (place / "to a folder").symlink_to(outside)
            (place / "to a file").symlink_to(outside / "kept.txt")
            (place / "to nothing").symlink_to(place / "nowhere")
    assert not folder.exists()
    assert (outside / "kept.txt").read_text() == "kept"
    assert outside.stat().st_mode == before


def test_a_folder_that_was_replaced_by_a_link_is_not_followed(tmp_path):
    (tmp_path / "kept.txt").write_text("kept")
    with scratch.scratch_folder() as folder:
        folder.rmdir()
        folder.symlink_to(tmp_path)
    assert (tmp_path / "kept.txt").read_text() == "kept"
    folder.unlink()


def test_folders_without_any_rights_are_removed(ordinary_user):
    with scratch.scratch_folder() as folder:
        for name in ("above", "beside"):
            inner = folder / name / "inner"
            inner.mkdir(parents=True)
            (inner / "file").write_text("x")
            for path in (inner, folder / name):
                path.chmod(0)
        folder.chmod(0o500)
    assert not folder.exists()


WRITES_FOR_A_MOMENT = """
import itertools, os, sys, time
end = time.monotonic() + 0.5
print("begun", flush=True)
for number in itertools.count():
    if time.monotonic() > end:
        break
    try:
        os.makedirs(f"sub/{number % 7}/below", exist_ok=True)
        open(f"file {number % 7}", "w").close()
    except OSError:
        pass
"""


def test_a_process_that_still_writes_for_a_moment_does_no_harm():
    with scratch.scratch_folder() as folder:
        command = [sys.executable, "-c", WRITES_FOR_A_MOMENT]
        writer = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE)
        with writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            gone = scratch.remove(folder)
        assert gone or scratch.remove(folder)
    assert not folder.exists()


def test_a_folder_that_cannot_be_emptied_is_left_behind_and_named(monkeypatch):
    left_behind: list[Path] = []

    def refuse(*_, **__):
        raise PermissionError

    with scratch.scratch_folder(left_behind) as folder:
        (folder / "file").write_text("x")
        with monkeypatch.context() as patch:
            patch.setattr(scratch, "_PAUSE", 0.0)
            patch.setattr(scratch.os, "unlink", refuse)
            patch.setattr(scratch.os, "supports_dir_fd", os.supports_dir_fd | {refuse})
            assert not scratch.remove(folder)
    assert left_behind == []
    assert not folder.exists()
    with scratch.scratch_folder(left_behind) as folder:
        monkeypatch.setattr(scratch, "remove", lambda _: False)
    assert left_behind == [folder]
    folder.rmdir()
