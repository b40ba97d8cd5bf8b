"""The progress file survives what happens to files: halves, newer versions, full disks, races."""

from __future__ import annotations

import errno
import json
import subprocess
import sys

import pytest

from amp_lessons.core import files, progress
from amp_lessons.core.progress import ProgressError


@pytest.fixture
def file(own_progress_file):
    return own_progress_file / "progress.json"


def test_a_pass_is_kept_through_later_checks(file):
    progress.record_check("next_float", "wrong")
    progress.record_check("next_float", "passed")
    first = progress.load()["next_float"].passed_at
    progress.record_check("next_float", "wrong")
    entry = progress.load()["next_float"]
    assert (entry.state, entry.checks, entry.passed, entry.passed_at) == ("wrong", 3, True, first)


def test_hints_and_giving_up_are_recorded(file):
    progress.record_hint("next_float", 2)
    progress.record_hint("next_float", 1)
    progress.record_give_up("next_float")
    entry = progress.load()["next_float"]
    assert entry.hints == 2
    assert entry.gave_up_at is not None
    assert not entry.passed


def test_no_file_is_an_empty_one(file):
    assert progress.load().entries == {}
    assert not file.exists()


BROKEN = {
    "half a line": b'{"version": 1, "exercises": {"next_fl',
    "empty": b"",
    "a list": b"[1, 2]",
    "a number": b"3",
    "no version": b'{"exercises": {}}',
    "version as text": b'{"version": "1", "exercises": {}}',
    "version 0": b'{"version": 0, "exercises": {}}',
    "no lessons": b'{"version": 1, "exercises": {}}',
    "exercises as a list": b'{"version": 1, "exercises": [], "lessons": {}}',
    "an entry without fields": b'{"version": 1, "exercises": {"next_float": {}}, "lessons": {}}',
    "checks as text": json.dumps(
        {
            "version": 1,
            "exercises": {"next_float": progress.ExerciseRecord().to_json() | {"checks": "x"}},
            "lessons": {},
        }
    ).encode(),
    "not UTF-8": b'{"version": 1, "exercises": {"\xff": {}}}',
    "nested without end": b"[" * 100_000,
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_set_aside_and_the_one_before_used(file, content):
    progress.record_check("next_float", "passed")
    progress.record_check("decode_bits", "wrong")
    file.write_bytes(content)
    loaded = progress.load()
    (aside,) = file.parent.glob("progress.broken-*.json")
    assert aside.read_bytes() == content
    assert loaded["next_float"].passed, "the version before it was not used"
    (warning,) = loaded.warnings
    assert str(aside) in warning
    assert progress.load().warnings == []


def test_a_broken_file_alone_starts_anew(file):
    file.parent.mkdir()
    file.write_text("{")
    assert "empty" in progress.load().warnings[0]
    progress.record_check("next_float", "passed")
    assert progress.load()["next_float"].passed


def test_a_broken_file_with_a_newer_one_before_it_starts_anew(file):
    progress.record_check("next_float", "passed")
    (file.parent / "progress.previous.json").write_text('{"version": 99, "exercises": {}}')
    file.write_text("{")
    assert "empty" in progress.load().warnings[0]


def test_a_newer_file_is_untouched(file):
    file.parent.mkdir()
    newer = b'{"version": 2, "exercises": {}}'
    file.write_bytes(newer)
    with pytest.raises(ProgressError, match="newer"):
        progress.load()
    with pytest.raises(ProgressError, match="newer"):
        progress.record_check("next_float", "passed")
    assert file.read_bytes() == newer
    assert not list(file.parent.glob("progress.broken*"))


def test_unknown_fields_and_exercises_survive(file):
    progress.record_check("next_float", "wrong")
    data = json.loads(file.read_text())
    data["exercises"]["next_float"]["mood"] = "good"
    data["exercises"]["of_another_course"] = data["exercises"]["next_float"]
    data["streak"] = [1, 2]
    file.write_text(json.dumps(data))
    progress.record_check("next_float", "passed")
    after = json.loads(file.read_text())
    assert after["exercises"]["next_float"]["mood"] == "good"
    assert after["exercises"]["of_another_course"]["checks"] == 1
    assert after["streak"] == [1, 2]


def test_forget_drops_only_what_it_is_told(file):
    progress.record_check("next_float", "passed")
    progress.record_check("decode_bits", "passed")
    progress.forget(["next_float", "never_seen"])
    loaded = progress.load()
    assert not loaded["next_float"].passed
    assert loaded["decode_bits"].passed


def test_a_full_disk_leaves_the_old_file(file, monkeypatch):
    progress.record_check("next_float", "passed")
    before = file.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(ProgressError, match="No space left"):
        progress.record_check("next_float", "wrong")
    assert file.read_bytes() == before
    assert not list(file.parent.glob(".*.tmp")), "a scrap was left"


def test_a_folder_that_cannot_be_made_is_one_clear_error(file, monkeypatch):
    file.parent.write_text("I am a file")
    assert progress.load().entries == {}
    with pytest.raises(ProgressError, match="cannot be written"):
        progress.record_check("next_float", "passed")


def test_a_file_that_cannot_be_read_is_one_clear_error(file):
    file.mkdir(parents=True)
    with pytest.raises(ProgressError, match="cannot be read"):
        progress.load()


def test_a_read_only_folder_is_one_clear_error(file, monkeypatch):
    progress.record_check("next_float", "passed")
    before = file.read_bytes()

    def read_only(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(files.os, "replace", read_only)
    with pytest.raises(ProgressError, match="Read-only"):
        progress.record_check("next_float", "wrong")
    assert file.read_bytes() == before
    assert not list(file.parent.glob(".*.tmp"))


def test_two_processes_at_once_lose_nothing(file):
    code = (
        "import sys, filelock; from amp_lessons.core import progress\n"
        "lock = filelock.FileLock\n"  # a busy machine may well keep one of the two waiting for 5 s
        "filelock.FileLock = lambda path, timeout: lock(path, timeout=500)\n"
        "for _ in range(25): progress.record_check('next_float', 'wrong')\n"
        "progress.record_check(sys.argv[1], 'passed')"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, name]) for name in ("left", "right")]
    assert [process.wait() for process in both] == [0, 0]
    loaded = progress.load()
    assert loaded["next_float"].checks == 50
    assert loaded["left"].passed
    assert loaded["right"].passed


def test_the_chosen_path_is_kept_and_can_be_dropped(file):
    assert progress.load().path is None
    progress.choose_path("1-day")
    progress.record_check("next_float", "passed")
    assert progress.load().path == "1-day"
    progress.choose_path(None)
    assert progress.load().path is None
    assert "path" not in json.loads(file.read_text())


@pytest.mark.parametrize("stored", [7, None, ["1-day"], {}])
def test_a_broken_choice_is_none(file, stored):
    progress.record_check("next_float", "passed")
    data = json.loads(file.read_text()) | {"path": stored}
    file.write_text(json.dumps(data))
    done = progress.load()
    assert (done.path, done.warnings) == (None, [])
    assert done["next_float"].passed
