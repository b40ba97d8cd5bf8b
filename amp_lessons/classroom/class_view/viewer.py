"""Looking at the folder again and again: only files that changed are read again."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from functools import partial
from io import BytesIO
from pathlib import Path

from amp_lessons.classroom.class_view.folder import (
    MOST_PROBLEMS,
    FoundFile,
    lesson_of,
    list_files,
    read,
)
from amp_lessons.classroom.class_view.reading import (
    Read,
    joined_reads,
    read_notebook,
    read_progress,
)
from amp_lessons.classroom.class_view.room import ClassState, room
from amp_lessons.core.catalogue import Lesson
from amp_lessons.core.errors import AmpLessonsError

PAUSE = 1.0
"""Seconds between two looks, however many pages are open."""


def read_archive(found: FoundFile, content: bytes, when: float) -> Read | str:
    """What a learner's zip or tar file says: all of its notebooks together, or why it says nothing.

    Raises:
        AmpLessonsError: if one of them cannot be read.
    """
    from amp_lessons.classroom.grading.collect import in_archive
    from amp_lessons.classroom.grading.whose import sheet_of

    inside = in_archive(partial(BytesIO, content), found.parts[-1], found.learner)
    files = [each.name.rpartition("/") for each in inside]
    folders: dict[str, set[str]] = defaultdict(set)
    for folder, _, file in files:
        folders[sheet_of(file)].add(folder)
    if twice := next((sheet for sheet, some in folders.items() if len(some) > 1), ""):
        return f"holds {twice} in two folders: unpack it, if it is a whole class's"
    reads = []
    for each, (_, _, file) in zip(inside, files, strict=True):
        reads.append(read_notebook(each.read(), when, lesson_of(file)))
        if record := each.progress():
            reads.append(read_progress(record, when))
    return joined_reads(reads)


class Viewer:
    """What is known about a class's folder.

    Args:
        folder: where the learners' files arrive.
        only: the one lesson to show, or None for all that somebody has begun.
    """

    def __init__(self, folder: Path, only: Lesson | None = None) -> None:
        self.folder, self.only = folder, only
        self._known: dict[tuple[str, ...], tuple[tuple[int, ...], Read | str]] = {}
        self._lock = threading.Lock()
        self._last: tuple[float, ClassState] | None = None

    def look(self) -> ClassState:
        """The room as it is now. Raises `ClassError` if the folder cannot be read."""
        with self._lock:
            if self._last is None or time.monotonic() - self._last[0] > PAUSE:
                seen = self._look()
                self._last = time.monotonic(), seen
            return self._last[1]

    def _look(self) -> ClassState:
        listing, now = list_files(self.folder), time.time()
        known, reads, problems = {}, [], list(listing.problems)
        for found in listing.files:
            before = self._known.get(found.parts)
            said = before[1] if before and before[0] == found.stamp else self._read(found, now)
            known[found.parts] = found.stamp, said
            if isinstance(said, Read):
                reads.append((found.learner, min(found.when, now), said))
            else:
                problems.append(f"{found.name}: {said}")
        self._known = known
        if len(problems) > MOST_PROBLEMS:
            problems[MOST_PROBLEMS:] = [f"and {len(problems) - MOST_PROBLEMS} more"]
        return room(reads, listing.learners, now, self.only, problems)

    def _read(self, found: FoundFile, now: float) -> Read | str:
        """What a file says, or why it can't be used. Nothing in it may stop the view."""
        when = min(found.when, now)
        try:
            content = read(self.folder, found)
            if found.is_archive:
                return read_archive(found, content, when)
            if found.is_progress:
                return read_progress(content, when)
            return read_notebook(content, when, found.lesson)
        except OSError as error:
            return error.strerror or str(error)
        except AmpLessonsError as error:
            return str(error)
        except Exception as error:  # whatever strangers think of
            return f"cannot be read ({type(error).__name__})"
