"""Reports as files: each is written whole or not at all, and what fails is one clear line."""

from __future__ import annotations

from pathlib import Path

from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.files import write_atomically


class ReportError(AmpLessonsError):
    """A report could not be written. The message is one line with the cure."""


def write(path: Path, content: bytes, option: str) -> None:
    """Write a report.

    Args:
        option: the option of `amp-lessons grade` that named the file, for the message.

    Raises:
        ReportError: if it cannot be written. An older file is then still there.
    """
    try:
        write_atomically(path, content)
    except OSError as error:
        raise cannot_write(path, error, option) from error


def cannot_write(path: Path, error: OSError, option: str) -> ReportError:
    """What to say if a file or a folder cannot be written."""
    reason = error.strerror or str(error)
    return ReportError(f"cannot write {path}: {reason}; choose another place with {option}")
