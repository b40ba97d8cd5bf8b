"""What was answered, one line for each answer, in a file that only grows.

The file lies beside the progress. Each line is a JSON object of its own, so half a line, left by a
crash, costs that line and no other. Logs of two machines merge into one: what is in both counts
once, and `schedule` reads them in the order of time. Nothing here imports torch.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from amp_lessons.core.files import data_folder, write_atomically
from amp_lessons.core.progress import ProgressError

VERSION = 1
Where = Literal["quiz", "drill", "mock", "lesson", "page"]


@dataclass(frozen=True, order=True)
class LogEntry:
    """One answer.

    Attributes:
        at: when (UTC).
        item: the question's id.
        score: from 0 to 1.
        sure: whether it was answered without guessing.
        where: what asked.
        seconds: how long it took, or None.
    """

    at: datetime
    item: str
    score: float
    sure: bool = True
    where: Where = "quiz"
    seconds: float | None = field(default=None, compare=False)

    @property
    def right(self) -> bool:
        return self.score == 1.0

    def to_json(self) -> dict[str, Any]:
        return {
            "v": VERSION,
            "at": self.at.isoformat(timespec="milliseconds"),
            "item": self.item,
            "score": round(self.score, 4),
            "sure": self.sure,
            "where": self.where,
            "seconds": None if self.seconds is None else round(self.seconds, 1),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LogEntry:
        """Raises one of `_NOT_OURS` for what `to_json` doesn't write."""
        if data["v"] != VERSION:
            raise ValueError(f"version {data['v']!r}")
        at = datetime.fromisoformat(data["at"])
        if at.tzinfo is None or not _FIRST_YEAR <= at.year <= _LAST_YEAR:
            raise ValueError("not a time of an answer")
        item, score, seconds = data["item"], _number(data["score"]), data["seconds"]
        if not isinstance(item, str) or not 0 <= score <= 1:
            raise ValueError("not an entry")
        if data["where"] not in get_args(Where) or type(data["sure"]) is not bool:
            raise ValueError("not an entry")
        seconds = None if seconds is None else _number(seconds)
        return cls(at.astimezone(UTC), item, score, data["sure"], data["where"], seconds)


_NOT_OURS = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What reading a line can raise that this module did not write."""
_FIRST_YEAR, _LAST_YEAR = 2000, 2199
"""Beyond them a clock was wrong, and adding an interval to the time could overflow."""


def _number(value: Any) -> float:
    """A finite number. Raises `ValueError`, or `OverflowError` for one that no float holds."""
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError("not a number")
    return float(value)


@dataclass
class AnswerLog:
    """All entries in the order of time, and a line for each thing that was wrong."""

    entries: list[LogEntry] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def log_file() -> Path:
    return data_folder() / "quiz.jsonl"


def now() -> datetime:
    return datetime.now(UTC)


def append(entry: LogEntry) -> None:
    """Add an answer. Raises `ProgressError` if it cannot be written."""
    _add_lines([json.dumps(entry.to_json())])


def read() -> AnswerLog:
    """All answers. A line that this version cannot read is set aside, and the rest is used.

    Raises:
        ProgressError: if the file may not be read.
    """
    path = log_file()
    content = _content(path)
    entries, broken = _parse(content)
    if not broken:
        return AnswerLog(entries)
    with suppress(ProgressError):
        return _set_aside(path)
    left_out = f"{_lines(broken)} could not be read, and {_were(broken)} left out"
    return AnswerLog(entries, [f"{path}: {left_out}"])


def merge(other: Path) -> tuple[int, AnswerLog]:
    """Add the entries of another machine's log that are not here yet.

    Returns:
        How many were new, and the log as it is now.

    Raises:
        ProgressError: if the other file cannot be read, or holds no entry.
    """
    if not other.is_file():
        raise ProgressError(f"{other} is not a file: name the other machine's quiz.jsonl")
    found, broken = _parse(_content(other))
    if not found:
        raise ProgressError(f"{other} holds no answers that this version can read")
    here = read()
    new = sorted(set(found) - set(here.entries))
    if new:
        _add_lines([json.dumps(entry.to_json()) for entry in new])
    warnings = [*here.warnings]
    if broken:
        left_out = f"{_lines(broken)} could not be read, and {_were(broken)} left out"
        warnings.append(f"{other}: {left_out}")
    return len(new), AnswerLog(sorted({*here.entries, *new}), warnings)


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise ProgressError(f"{path} cannot be read: {error.strerror}") from error


def _parse(content: str) -> tuple[list[LogEntry], list[str]]:
    """The entries in order of time, each once, and the lines that are none."""
    entries: set[LogEntry] = set()
    broken = []
    for line in content.splitlines():
        if not line.strip():
            continue
        try:
            entries.add(LogEntry.from_json(json.loads(line)))
        except _NOT_OURS:
            broken.append(line)
    return sorted(entries), broken


def _set_aside(path: Path) -> AnswerLog:
    """Keep the whole file under another name, and go on with the lines that can be read."""
    aside = path.with_name(f"quiz.broken-{now():%Y%m%dT%H%M%S%f}.jsonl")
    try:
        with _locked(path):
            content = _content(path)
            entries, broken = _parse(content)
            if not broken:  # another process was in the middle of writing it, or has set it aside
                return AnswerLog(entries)
            write_atomically(aside, content.encode())
            lines = [json.dumps(entry.to_json()) for entry in entries]
            write_atomically(path, "".join(f"{line}\n" for line in lines).encode())
    except (OSError, NotImplementedError) as error:
        raise ProgressError(_cannot_write(path, error)) from error
    newer = sum(_is_newer(line) for line in broken)
    why = "written by a newer AMP Lessons" if newer == len(broken) else "broken"
    return AnswerLog(
        entries, [f"{_lines(broken)} of {path} {_were(broken)} {why}: kept in {aside}"]
    )


def _is_newer(line: str) -> bool:
    try:
        return bool(json.loads(line)["v"] > VERSION)
    except _NOT_OURS:
        return False


def _lines(broken: list[str]) -> str:
    return "1 line" if len(broken) == 1 else f"{len(broken)} lines"


def _were(broken: list[str]) -> str:
    return "was" if len(broken) == 1 else "were"


def _add_lines(lines: Iterable[str]) -> None:
    path = log_file()
    text = "".join(f"{line}\n" for line in lines)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path), open(path, "ab+") as stream:
            if stream.tell():
                stream.seek(-1, os.SEEK_END)
                if stream.read(1) != b"\n":  # half a line of a run that was killed
                    text = "\n" + text
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
    except (OSError, NotImplementedError) as error:
        raise ProgressError(_cannot_write(path, error)) from error


def _cannot_write(path: Path, error: Exception) -> str:
    """A full disk, a folder that is read-only, a lock that is taken, a disk without locks."""
    taken = "another process is using it" if isinstance(error, TimeoutError) else ""
    reason = taken or getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"{path} cannot be written: {reason}"


def _locked(path: Path) -> Any:
    import filelock

    path.parent.mkdir(parents=True, exist_ok=True)
    return filelock.FileLock(path.with_name("quiz.lock"), timeout=5)
