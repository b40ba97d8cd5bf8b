"""The log of answers survives crashes, foreign lines, other versions and other machines."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import filelock
import pytest

from amp_lessons.core.files import write_atomically
from amp_lessons.core.progress import ProgressError
from amp_lessons.quiz import log
from amp_lessons.quiz.log import LogEntry

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("AMP_LESSONS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def entry(minute: int = 0, item: str = "memory.it", score: float = 1.0, **more) -> LogEntry:
    return LogEntry(START + timedelta(minutes=minute), item, score, **more)


def line(**changes: object) -> str:
    return json.dumps(entry().to_json() | changes)


def set_aside(home: Path) -> list[Path]:
    return sorted(home.glob("quiz.broken-*.jsonl"))


def test_without_a_file_it_is_empty(home):
    assert log.read() == log.AnswerLog()
    assert not home.exists(), "reading makes no folder"


def test_what_is_appended_is_read_back_in_the_order_of_time():
    entries = [
        entry(3, "a.b", 0.5, sure=False, where="mock", seconds=12.34),
        entry(1),
        entry(2, score=0.0, where="lesson"),
    ]
    for each in entries:
        log.append(each)
    found = log.read()
    assert found.entries == sorted(entries)
    assert found.warnings == []
    assert [e.seconds for e in found.entries] == [None, None, 12.3]
    assert len(log.log_file().read_text().splitlines()) == 3


@pytest.mark.parametrize("cut", [1, 10, 40, -3])
def test_half_a_line_costs_that_line_alone(home, cut):
    log.append(entry(0))
    whole = log.log_file().read_text()
    with open(log.log_file(), "a") as stream:
        stream.write(line(item="lost.it")[:cut])
    log.append(entry(1))
    found = log.read()
    assert found.entries == [entry(0), entry(1)]
    (warning,) = found.warnings
    (aside,) = set_aside(home)
    assert str(aside) in warning
    assert warning.startswith("1 line of ")
    assert aside.read_text().startswith(whole)
    assert log.read() == log.AnswerLog([entry(0), entry(1)]), "it is set aside once"


def test_a_whole_line_without_its_end_is_not_lost():
    log.append(entry(0))
    path = log.log_file()
    path.write_text(path.read_text().rstrip("\n"))
    log.append(entry(1))
    assert log.read() == log.AnswerLog([entry(0), entry(1)])


JUNK = [
    "not json",
    "[]",
    "null",
    "3",
    '"text"',
    "{}",
    "[" * 100_000,
    "\x00" * 50,
    "\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
    "1" * 5000,
    line(v=None),
    line(v="1"),
    line(at="yesterday"),
    line(at=3),
    line(at="2026-03-01T12:00:00"),
    line(at="9999-12-31T23:59:59+00:00"),
    line(at="0001-01-01T00:00:00+14:00"),
    line(item=3),
    line(item=None),
    line(score=1.5),
    line(score=-0.1),
    line(score="1"),
    line(score=True),
    line(score=float("nan")),
    line(score=10**400),
    line(sure=1),
    line(where="elsewhere"),
    line(where=["quiz"]),
    line(seconds="12"),
    line(seconds=float("inf")),
    json.dumps({"v": 1}),
]


@pytest.mark.parametrize("junk", JUNK, ids=lambda text: repr(text[:40]))
def test_foreign_lines_are_set_aside_and_the_rest_is_used(home, junk):
    log.append(entry(0))
    with open(log.log_file(), "a") as stream:
        stream.write(junk + "\n")
    log.append(entry(1))
    found = log.read()
    assert found.entries == [entry(0), entry(1)]
    assert len(found.warnings) == len(set_aside(home)) == 1
    assert junk in set_aside(home)[0].read_text()


def test_bytes_that_are_no_text(home):
    home.mkdir()
    log.log_file().write_bytes(b"\xff\xfe\x00\n" + line().encode() + b"\n")
    assert log.read().entries == [entry()]


def test_lines_with_windows_ends_a_mark_and_gaps(home):
    home.mkdir()
    text = f"\ufeff{line()}\r\n\r\n  \n{line(item='b.c')}\r\n"
    log.log_file().write_bytes(text.encode())
    assert log.read() == log.AnswerLog(sorted([entry(), entry(item="b.c")]))


def test_a_newer_version_is_named_and_kept(home):
    log.append(entry())
    newer = line(v=2, mood="good")
    with open(log.log_file(), "a") as stream:
        stream.write(newer + "\n")
    found = log.read()
    assert found.entries == [entry()]
    assert "newer AMP Lessons" in found.warnings[0]
    assert newer in set_aside(home)[0].read_text()


def test_any_damage_anywhere_is_survived(home):
    """Random bytes at random places: it never raises, and never loses a line that is whole."""
    draw = random.Random(0)
    home.mkdir()
    lines = [line(item=f"memory.it{n}") for n in range(5)]
    for _ in range(60):
        data = bytearray("\n".join(lines).encode() + b"\n")
        place = draw.randrange(len(data))
        data[place : place + draw.randrange(1, 30)] = draw.randbytes(draw.randrange(8))
        log.log_file().write_bytes(data)
        whole = [text for text in lines if text.encode() in bytes(data).split(b"\n")]
        found = {e.item for e in log.read().entries}
        assert {json.loads(text)["item"] for text in whole} <= found
        for path in set_aside(home):
            path.unlink()


# ---- two machines -------------------------------------------------------------------------------


def test_merge_adds_what_is_new_once(tmp_path):
    log.append(entry(0))
    log.append(entry(5))
    other = tmp_path / "other.jsonl"
    theirs = [entry(0), entry(2, "a.b", 0.0), entry(9)]
    other.write_text("".join(json.dumps(e.to_json()) + "\n" for e in theirs))
    added, merged = log.merge(other)
    assert added == 2
    assert merged.entries == log.read().entries == sorted({*theirs, entry(5)})
    assert log.merge(other)[0] == 0, "a second merge adds nothing"
    assert log.merge(log.log_file())[0] == 0
    assert len(log.read().entries) == 4


def test_merge_both_ways_gives_one_log(tmp_path, monkeypatch):
    for name, minutes in (("one", (0, 1, 4)), ("two", (0, 2, 3))):
        monkeypatch.setenv("AMP_LESSONS_HOME", str(tmp_path / name))
        for minute in minutes:
            log.append(entry(minute))
    log.merge(tmp_path / "one" / "quiz.jsonl")
    two = log.read().entries
    monkeypatch.setenv("AMP_LESSONS_HOME", str(tmp_path / "one"))
    log.merge(tmp_path / "two" / "quiz.jsonl")
    assert log.read().entries == two == [entry(minute) for minute in range(5)]


def test_merge_into_nothing_and_out_of_half_a_file(tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text(line() + "\n" + line()[:30])
    added, merged = log.merge(other)
    assert (added, merged.entries) == (1, [entry()])
    assert "1 line could not be read" in merged.warnings[0]
    assert other.read_text().endswith(line()[:30]), "the other file stays as it is"


def test_merge_says_what_is_wrong(tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("hello\n")
    for path, word in ((tmp_path / "none", "not a file"), (tmp_path, "not a file"), (empty, "no")):
        with pytest.raises(ProgressError, match=word):
            log.merge(path)


APPENDS = """
import sys
from datetime import UTC, datetime, timedelta
from amp_lessons.quiz import log
for n in range(40):
    at = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=n)
    log.append(log.LogEntry(at, f"memory.from_{sys.argv[1]}_{n}", 1.0))
    log.read()
"""


def test_two_processes_append_and_read_at_once(home):
    started = [
        subprocess.Popen([sys.executable, "-c", APPENDS, name], stderr=subprocess.PIPE)
        for name in "ab"
    ]
    errors = [process.communicate()[1] for process in started]
    assert errors == [b"", b""]
    found = log.read()
    assert len({e.item for e in found.entries}) == 80
    assert found.warnings == []
    assert set_aside(home) == []


# ---- what cannot be written ---------------------------------------------------------------------


def test_a_folder_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AMP_LESSONS_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(ProgressError, match="cannot be written"):
        log.append(entry())
    assert log.read() == log.AnswerLog()


def test_a_log_that_is_a_folder(home):
    log.log_file().mkdir(parents=True)
    with pytest.raises(ProgressError, match="cannot be read"):
        log.read()
    with pytest.raises(ProgressError, match="cannot be written"):
        log.append(entry())


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied"), NotImplementedError("no locks here")]
)
def test_broken_lines_where_nothing_can_be_written(home, monkeypatch, error):
    home.mkdir()
    log.log_file().write_text(f"{line()}\nbroken\n")

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(log, "_locked", refuse)
    found = log.read()
    assert found.entries == [entry()]
    assert "left out" in found.warnings[0]
    with pytest.raises(ProgressError, match="cannot be written"):
        log.append(entry(1))
    assert log.log_file().read_text() == f"{line()}\nbroken\n"


def test_a_disk_that_fills_up_while_broken_lines_are_set_aside(home, monkeypatch):
    home.mkdir()
    log.log_file().write_text(f"{line()}\nbroken\n")

    def full(path: Path, content: bytes) -> None:
        if path.name == "quiz.jsonl":
            raise OSError(28, "No space left on device")
        write_atomically(path, content)

    monkeypatch.setattr(log, "write_atomically", full)
    assert log.read().entries == [entry()]
    assert log.log_file().read_text() == f"{line()}\nbroken\n", "nothing is lost"


def test_a_lock_that_another_process_holds(home, monkeypatch):
    lock = filelock.FileLock
    monkeypatch.setattr(filelock, "FileLock", lambda path, timeout: lock(path, timeout=0))
    home.mkdir()
    with (
        lock(home / "quiz.lock", thread_local=False),
        pytest.raises(ProgressError, match="another process is using it"),
    ):
        log.append(entry())
    log.append(entry())
    assert log.read().entries == [entry()]
