"""What a learner has done, kept between sessions in one small JSON file.

The file lives in the platform's data folder (or in ``$AMP_LESSONS_HOME``), so it survives a new
workspace and an upgrade of the package. A write is atomic and keeps the version before it; a file
that cannot be read is set aside, never deleted. Nothing here imports torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.files import data_folder, write_atomically

VERSION = 1


class ProgressError(AmpLessonsError):
    """Progress could not be read or saved. The message is one line with the cure."""


_TYPES: dict[str, tuple[type, ...]] = {
    "state": (str,),
    "checks": (int,),
    "hints": (int,),
    "passed_at": (str, type(None)),
    "gave_up_at": (str, type(None)),
}


@dataclass
class ExerciseRecord:
    """What is known about one exercise.

    Attributes:
        state: of the latest check, such as "passed" or "wrong"; the words are in `core.states`.
        checks: how often it was checked.
        hints: the highest hint that was opened.
        passed_at: when it first passed (ISO 8601, UTC), or None.
        gave_up_at: when the solution was opened without a pass, or None.
        extra: fields that this version does not know; kept as they are.
    """

    state: str = "not attempted"
    checks: int = 0
    hints: int = 0
    passed_at: str | None = None
    gave_up_at: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return self.passed_at is not None

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ExerciseRecord:
        known = {k: data[k] for k in ("state", "checks", "hints", "passed_at", "gave_up_at")}
        for name, value in known.items():
            if type(value) not in _TYPES[name]:
                raise ValueError(f"{name} cannot be {value!r}")
        return cls(**known, extra={k: v for k, v in data.items() if k not in known})

    def to_json(self) -> dict[str, Any]:
        known = {k: v for k, v in self.__dict__.items() if k != "extra"}
        return known | self.extra


@dataclass
class Progress:
    """All entries by exercise name, and what went wrong while reading them.

    Attributes:
        entries: by the exercise's name; unknown names are kept.
        lessons: by the lesson's slug, when its last cell first ran (ISO 8601, UTC).
        path: the key of the path that the learner chose, or None. It may be one that this version
            doesn't know: `standing.chosen_path` has the path.
        warnings: lines for the learner.
        extra: fields beside the exercises that this version does not know; kept as they are.
    """

    entries: dict[str, ExerciseRecord] = field(default_factory=dict)
    lessons: dict[str, str] = field(default_factory=dict)
    path: str | None = None
    warnings: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, exercise: str) -> ExerciseRecord:
        return self.entries.get(exercise, ExerciseRecord())


def progress_file() -> Path:
    return data_folder() / "progress.json"


def load() -> Progress:
    """Read the progress file. A missing file is an empty one.

    A broken file is moved to ``progress.broken-<time>.json`` beside it, and the version before it
    is used instead; `Progress.warnings` says so.

    Raises:
        ProgressError: if the file may not be read, or a newer version of the course wrote it.
    """
    path = progress_file()
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return Progress()
    except UnicodeDecodeError:
        return _recover(path)
    except OSError as error:
        raise ProgressError(f"{path} cannot be read: {error.strerror}") from error
    try:
        return _parse(text, path)
    except _BROKEN:
        return _recover(path)


# What reading a file can raise whose text is not what this module writes.
_BROKEN = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


def parse(content: bytes, name: str | Path) -> Progress:
    """The progress in a file that may be anybody's, such as one that a learner handed in.

    Raises:
        ProgressError: if it is not a progress file, or one of a newer version of the course.
    """
    try:
        return _parse(content.decode("utf-8-sig"), name)
    except _BROKEN as error:
        raise ProgressError(f"{name} is not a progress file of AMP Lessons") from error


def _parse(text: str, path: str | Path) -> Progress:
    data = json.loads(text)
    version = data["version"]
    if type(version) is not int:
        raise ValueError("the version is not a number")
    if version > VERSION:
        raise ProgressError(
            f"{path} was written by a newer AMP Lessons (its version is {version}, this one knows "
            f"{VERSION}): upgrade the package, or move the file away to start again"
        )
    if version < VERSION:
        raise ValueError("no version of the course writes this")
    entries = {name: ExerciseRecord.from_json(entry) for name, entry in data["exercises"].items()}
    lessons = {str(slug): str(when) for slug, when in data["lessons"].items()}
    chosen = data.get("path")
    chosen = chosen if isinstance(chosen, str) else None  # a broken choice is none
    known = ("version", "exercises", "lessons", "path")
    extra = {name: value for name, value in data.items() if name not in known}
    return Progress(entries, lessons, chosen, extra=extra)


def _recover(path: Path) -> Progress:
    """Set a broken file aside and go on from the version before it."""
    aside = path.with_name(f"progress.broken-{datetime.now(UTC):%Y%m%dT%H%M%S%f}.json")
    try:
        path.replace(aside)
    except FileNotFoundError:  # another process has just set it aside
        return load()
    except OSError as error:
        raise ProgressError(f"{path} is broken and cannot be moved: {error.strerror}") from error
    progress = Progress()
    outcome = "you start with an empty one"
    previous = _previous(path)
    if previous.exists():
        try:
            progress = _parse(previous.read_text(encoding="utf-8"), previous)
            outcome = "the version before it is used"
            _write(path, progress)
        except (OSError, ProgressError, *_BROKEN):
            progress = Progress()
    progress.warnings.append(f"the progress file was broken: kept as {aside}, {outcome}")
    return progress


def _previous(path: Path) -> Path:
    return path.with_name("progress.previous.json")


def update(exercise: str, change: Callable[[ExerciseRecord], None]) -> Progress:
    """Change one entry and save. Raises `ProgressError`; the file on the disk is then as it was."""
    return _rewrite(
        lambda progress: change(progress.entries.setdefault(exercise, ExerciseRecord()))
    )


def forget(exercises: Iterable[str]) -> Progress:
    """Drop all that is known about these exercises. Raises `ProgressError`."""
    names = list(exercises)

    def drop(progress: Progress) -> None:
        for name in names:
            progress.entries.pop(name, None)

    return _rewrite(drop)


def _rewrite(change: Callable[[Progress], object]) -> Progress:
    """Load, change and save under a lock, so that two notebooks can be open at once."""
    import filelock

    path = progress_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(path.with_name("progress.lock"), timeout=5):
            progress = load()
            change(progress)
            _write(path, progress)
            return progress
    except filelock.Timeout as error:
        raise ProgressError(f"{path} is in use by another process: check again") from error
    except (OSError, NotImplementedError) as error:  # the latter: a disk without file locks
        reason = getattr(error, "strerror", None) or error
        raise ProgressError(f"{path} cannot be written: {reason}") from error


def _write(path: Path, progress: Progress) -> None:
    if path.exists():
        write_atomically(_previous(path), path.read_bytes())
    write_atomically(path, to_bytes(progress))


def to_bytes(progress: Progress) -> bytes:
    """The text of a progress file."""
    entries = {name: entry.to_json() for name, entry in sorted(progress.entries.items())}
    data = {"version": VERSION, "exercises": entries, "lessons": progress.lessons}
    chosen = {"path": progress.path} if progress.path else {}
    data |= chosen | progress.extra
    return (json.dumps(data, indent=1) + "\n").encode()


def record_check(exercise: str, state: str) -> Progress:
    """Note the outcome of a check. Raises `ProgressError`."""

    def change(entry: ExerciseRecord) -> None:
        entry.state = state
        entry.checks += 1
        if state == "passed" and entry.passed_at is None:
            entry.passed_at = _now()

    return update(exercise, change)


def record_hint(exercise: str, number: int) -> Progress:
    """Note that hint ``number`` (from 1) was opened. Raises `ProgressError`."""

    def change(entry: ExerciseRecord) -> None:
        entry.hints = max(entry.hints, number)

    return update(exercise, change)


def record_give_up(exercise: str) -> Progress:
    """Note that the solution was opened without a pass. Raises `ProgressError`."""

    def change(entry: ExerciseRecord) -> None:
        entry.gave_up_at = entry.gave_up_at or _now()

    return update(exercise, change)


def record_lesson(slug: str) -> Progress:
    """Note that a lesson was read to its end. Raises `ProgressError`."""
    return _rewrite(lambda progress: progress.lessons.setdefault(slug, _now()))


def choose_path(key: str | None) -> Progress:
    """Keep the learner's path, by its key, or that there is none. Raises `ProgressError`."""

    def change(progress: Progress) -> None:
        progress.path = key

    return _rewrite(change)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
