"""Finding learners' files in a folder that strangers write into.

Links are not followed and only ordinary files are opened. What is read is bounded in size, number
and depth. Whatever is wrong with one file or folder becomes one line, and the others are read all
the same.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from amp_lessons.classroom.grading import whose
from amp_lessons.core.catalogue import LESSONS
from amp_lessons.core.errors import AmpLessonsError

LARGEST = 10 * 2**20
"""Bytes. A sheet with its outputs has about 100 KB; larger files are named and not read."""
LARGEST_ARCHIVE = 32 * 2**20
DEEPEST = 6
"""Folders from the class's folder down."""
MOST_ENTRIES = 5000
"""Of one folder."""
MOST_FILES = 20_000
"""In all."""
MOST_PROBLEMS = 100

SHEETS = {Path(lesson.sheet).stem: lesson.id for lesson in LESSONS if lesson.exercises}
"""The stems of the sheets, with their lessons' ids."""
_KEPT = re.compile(r"\.before-(upgrade|reset)-|-checkpoint\.ipynb$")
"""Old copies that the course and JupyterLab keep beside a notebook."""
_GAP = r"[_. -]+"
_PROGRESS = re.compile(rf"(?:(?P<learner>.+?){_GAP})?progress\.json", re.DOTALL)
_SHEET = re.compile(
    rf"(?:(?P<before>.+?){_GAP})?(?P<sheet>{'|'.join(SHEETS)})(?:{_GAP}(?P<after>.+))?", re.DOTALL
)


class ClassError(AmpLessonsError):
    """The class cannot be shown. The message is one line with the cure."""


@dataclass(frozen=True)
class FoundFile:
    """One file of a learner.

    Attributes:
        learner: the name of the folder, or what the file's name says beside the sheet's.
        parts: its path below the class's folder.
        stamp: it changes when the file does.
        when: when it was last changed, in seconds since 1970.
    """

    learner: str
    parts: tuple[str, ...]
    stamp: tuple[int, ...]
    when: float

    @property
    def name(self) -> str:
        return "/".join(self.parts)

    @property
    def is_progress(self) -> bool:
        return self.parts[-1].endswith(".json")

    @property
    def is_archive(self) -> bool:
        return whose.is_archive(PurePosixPath(self.parts[-1]))

    @property
    def lesson(self) -> str:
        """The id of the lesson whose sheet it is by its name, or ""."""
        return lesson_of(self.parts[-1])


def lesson_of(name: str) -> str:
    """The id of the lesson whose sheet a file is by its name, or ""."""
    named = _SHEET.fullmatch(name.removesuffix(".ipynb"))
    return SHEETS[named["sheet"]] if named else ""


@dataclass
class Listing:
    """What is in a class's folder.

    Attributes:
        files: the learners' notebooks and progress files.
        learners: the names of the learners' folders, also of those with nothing in them.
        problems: a line for each thing that could not be used.
    """

    files: list[FoundFile] = field(default_factory=list)
    learners: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def complain(self, parts: tuple[str, ...], what: str) -> None:
        self.problems.append(f"{'/'.join(parts) or 'the folder'}: {what}")


def list_files(folder: Path) -> Listing:
    """The files of a class.

    ``DIR/<learner>/…`` holds a learner's files, in folders of any name. Directly in DIR lie
    ``<learner>.ipynb``, ``<learner>_<sheet>.ipynb`` and ``<learner>_progress.json``.

    Raises:
        ClassError: if the folder cannot be read at all.
    """
    found = Listing()
    try:
        os.listdir(folder)
    except OSError as error:
        raise ClassError(
            f"{folder} cannot be read: {error.strerror or error}. Name the folder in which the "
            "learners' files arrive"
        ) from error
    _walk(folder, (), found)
    return found


def _walk(folder: Path, way: tuple[str, ...], found: Listing) -> None:
    for name, status in _entries(folder.joinpath(*way), way, found):
        parts, kind = (*way, name), status.st_mode
        wanted = _is_of_interest(name)
        if stat.S_ISLNK(kind):
            if wanted or not way:
                found.complain(parts, "is a link, and links are not followed")
        elif stat.S_ISDIR(kind):
            if not way:
                found.learners.add(name)
            if len(parts) < DEEPEST:
                _walk(folder, parts, found)
            else:
                found.complain(parts, "lies too deep and was not read")
        elif wanted and not stat.S_ISREG(kind):
            found.complain(parts, "is not an ordinary file")
        elif wanted:
            _note(parts, status, found)


def _entries(
    folder: Path, way: tuple[str, ...], found: Listing
) -> Iterator[tuple[str, os.stat_result]]:
    """Name and status of each entry that is not hidden, in order."""
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith((".", "__")))
    except OSError as error:
        found.complain(way, error.strerror or str(error))
        return
    if len(names) > MOST_ENTRIES:
        found.complain(way, f"has {len(names)} entries, and the first {MOST_ENTRIES} were read")
    for name in names[:MOST_ENTRIES]:
        try:
            yield name, os.lstat(folder / name)
        except FileNotFoundError:
            continue  # it was moved away meanwhile
        except OSError as error:
            found.complain((*way, name), error.strerror or str(error))


def _is_of_interest(name: str) -> bool:
    file = PurePosixPath(name)
    notebook = name.endswith(".ipynb") and not _KEPT.search(name)
    packed = whose.is_archive(file) or whose.is_packed(file)
    return notebook or packed or bool(_PROGRESS.fullmatch(name))


def _note(parts: tuple[str, ...], status: os.stat_result, found: Listing) -> None:
    learner = parts[0] if len(parts) > 1 else _owner(parts[0])
    file = PurePosixPath(parts[-1])
    most = LARGEST_ARCHIVE if whose.is_archive(file) else LARGEST
    if learner and (whose.is_archive(file) or whose.is_packed(file)):
        found.learners.add(learner)
    if whose.is_packed(file):
        found.complain(parts, "cannot be read: it has to be sent as a zip file")
    elif not learner:
        found.complain(parts, "names no learner: put it into a folder with the learner's name")
    elif len(found.files) >= MOST_FILES:
        if len(found.files) == MOST_FILES:
            found.complain((), f"has more than {MOST_FILES} files, and the rest was not read")
    elif status.st_size > most:
        found.complain(parts, f"is larger than {most // 2**20} MB and was not read")
    else:
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        found.files.append(FoundFile(learner, parts, stamp, status.st_mtime))


def _owner(name: str) -> str:
    """Whose file it is that lies directly in the class's folder, or ""."""
    if named := _PROGRESS.fullmatch(name):
        return named["learner"] or ""
    file = PurePosixPath(name)
    if whose.is_archive(file) or whose.is_packed(file):
        return whose.of_file(name)
    stem = name.removesuffix(".ipynb")
    if named := _SHEET.fullmatch(stem):
        return named["before"] or named["after"] or ""
    return stem


def read(folder: Path, found: FoundFile) -> bytes:
    """A file's bytes.

    It is opened folder by folder, so that nobody can lead us elsewhere by putting a link into the
    path after we have looked.

    Raises:
        OSError: if it cannot be read, or is no longer an ordinary file.
    """
    if os.open not in os.supports_dir_fd:  # Windows
        with open(folder.joinpath(*found.parts), "rb") as stream:
            return stream.read(LARGEST_ARCHIVE if found.is_archive else LARGEST)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in found.parts[:-1]:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = below
        # Without O_NONBLOCK, opening a named pipe would wait for somebody to write into it.
        options = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(found.parts[-1], options, dir_fd=handle), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise OSError("is not an ordinary file")
            return stream.read(LARGEST_ARCHIVE if found.is_archive else LARGEST)
    finally:
        os.close(handle)
