"""What was handed in: notebooks, folders, zip files or an nbgrader tree, each with its learner.

Learners name and pack their files, so nothing here is trusted. Nothing is unpacked to the disk, a
link inside a folder or a zip file is never followed, and what cannot be read becomes the problem of
that one learner. The names that learning platforms give to downloads tell whose a file is.
"""

from __future__ import annotations

import io
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path, PurePosixPath

from amp_lessons import course, ipynb
from amp_lessons.foundations.errors import AmpLessonsError
from amp_lessons.ipynb import NotebookError
from amp_lessons.terminal import line

PROGRESS = "progress.json"
"""Beside a learner's notebooks, it tells which solutions were opened without a pass."""

MOST_OF_A_LEARNER = 50
"""Notebooks. The course has thirteen sheets."""

MOST_FILES = 5_000
"""Files and folders that are looked through in one learner's folder or zip file."""

MOST_LEARNERS = 20_000
DEEPEST = 12
"""Folders inside each other, below the one that was named."""

_LARGEST_PROGRESS = 2**20
_LARGEST_INNER_ZIP = 32 * 2**20
_LONGEST_NAME = 200
_CANVAS = re.compile(r"^(?P<who>[^_]+)(?:_LATE)?_\d+_\d+_")
_MOODLE = re.compile(r"^(?P<who>.+)_\d+_assignsubmission_\w+$")
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)

Read = Callable[[int], bytes]
"""Reads a file of at most so many bytes, or raises NotebookError."""


class NothingToGrade(AmpLessonsError):
    """The paths that were named hold no notebook. The message says what was looked for."""


@dataclass(frozen=True)
class HandedIn:
    """One notebook that a learner handed in.

    Attributes:
        name: what to call it: its path as it was found, on one line.
        learner: whose it is, as far as folders and names tell.
        read: its content; raises NotebookError, which says why it cannot be read.
        progress: the content of the progress file beside it, or None.
    """

    name: str
    learner: str
    read: Callable[[], bytes] = field(repr=False)
    progress: Callable[[], bytes | None] = field(default=lambda: None, repr=False)


def collect(paths: Iterable[Path]) -> list[HandedIn]:
    """All notebooks at these paths, in the order given, and by name inside a folder.

    A learner's folder or zip file without a notebook is in the list too: reading it says so.

    Raises:
        NothingToGrade: if there is none.
    """
    paths = list(paths)
    found = [each for path in paths for each in _at(path)]
    if not found:
        looked = ", ".join(map(str, paths))
        raise NothingToGrade(
            f"{line(looked)} has no notebook (*.ipynb) in it: name notebooks, a folder of "
            "submissions, a zip file, or nbgrader's folder `submitted`"
        )
    return found


def _at(path: Path) -> Iterator[HandedIn]:
    """What the instructor named. A link is followed here, for it is the instructor's own."""
    if path.is_dir():
        if (path / "submitted").is_dir() and (path / "source").is_dir():
            path = path / "submitted"  # the root of an nbgrader course
        whole = (path / "exercises").is_dir() and (path / "notebooks").is_dir()
        of_one = path.resolve().name if whole else ""  # a learner's copy of the course
        yield from _sorted_out(_Folder(path), str(path), of_one)
    elif path.suffix.lower() == ".zip":
        yield from _from_zip(lambda: os.open(path, _FLAGS), line(str(path)), "", path.stem)
    else:
        yield HandedIn(line(str(path)), _named(PurePosixPath(path.name)), lambda: _named_file(path))


def _named_file(path: Path) -> bytes:
    with _told():
        if path.is_dir():
            raise NotebookError("is a folder: name the notebooks in it")
        return _read(os.open(path, _FLAGS), ipynb.LARGEST)


@contextmanager
def _told() -> Iterator[None]:
    """What the system says becomes a `NotebookError`."""
    try:
        yield
    except NotebookError:
        raise
    except FileNotFoundError as error:
        raise NotebookError("does not exist") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise NotebookError(f"cannot be read: {reason}") from error


def _read(descriptor: int, most: int) -> bytes:
    """Read an open file, if it is an ordinary one, and close it."""
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise NotebookError("is not an ordinary file")
        content = file.read(most + 1) if found.st_size <= most else None
        if content is None or len(content) > most:
            raise NotebookError(f"is larger than {most // 2**20} MB")
        return content


# ---- whose it is --------------------------------------------------------------------------------


def _named(file: PurePosixPath) -> str:
    """Whose a file is by its own name: Canvas says ``doejane_123_456_sheet.ipynb``."""
    match = _CANVAS.match(file.name)
    return line(match["who"] if match else file.stem)[:_LONGEST_NAME]


def _folder_of(name: str) -> str:
    """Whose a folder is: Moodle says ``Jane Doe_123_assignsubmission_file``."""
    match = _MOODLE.match(name)
    return line(match["who"] if match else name)[:_LONGEST_NAME]


def _sorted_out(place: _Folder | _Zip, name: str, learner: str = "") -> Iterator[HandedIn]:
    """The notebooks in a folder or zip file, by learner.

    Args:
        name: what to call the place.
        learner: whose all of it is; "" if its folders say so.
    """
    try:
        learners = place.learners(bool(learner))
    except NotebookError as error:
        yield _unreadable(line(name), learner, str(error))
        return
    for first, files in learners.items():
        whose = learner or (_folder_of(first) if first else "")
        yield from _of_one(place, name, whose, files, folder=first)


def _of_one(
    place: _Folder | _Zip, name: str, learner: str, files: _Files, folder: str
) -> Iterator[HandedIn]:
    """What one learner handed in, or a line that says what is wrong with it."""
    label = line(f"{name}/{folder}" if folder else name)[:_LONGEST_NAME]
    inside = [f for f in files.found if f.suffix.lower() in (".ipynb", ".zip")]
    inside = [f for f in inside if f.name not in _without_exercises()] or inside
    if (learner or folder) and (files.problem or not inside):
        yield _unreadable(label, learner, files.problem or "has no notebook (*.ipynb) in it")
    progress = {file.parent: file for file in files.found if file.name == PROGRESS}
    counts = dict.fromkeys({learner}, 0)
    for file in inside:
        whose = learner or _named(file)
        counts[whose] = counts.get(whose, 0) + 1
        if counts[whose] > MOST_OF_A_LEARNER:
            yield _unreadable(
                label, whose, f"holds more than {MOST_OF_A_LEARNER} notebooks: the rest is left out"
            )
            return
        path = line(f"{name}/{file}")[:_LONGEST_NAME]
        if file.suffix.lower() == ".zip":
            yield from place.inner_zip(file, path, whose)
            continue
        beside = next((progress[p] for p in file.parents if p in progress), None)
        mine = beside if learner else None
        yield HandedIn(
            path,
            whose,
            partial(place.read, file, ipynb.LARGEST),
            partial(_quietly, place, mine),
        )


@cache
def _without_exercises() -> frozenset[str]:
    """The names of the lessons' own notebooks, which a learner's whole folder holds too."""
    lessons = [path for each in course.LESSONS for path in (each.notebook, each.deep_notebook)]
    return frozenset(PurePosixPath(path).name for path in (*lessons, course.HOME))


def _quietly(place: _Folder | _Zip, file: PurePosixPath | None) -> bytes | None:
    if file is not None:
        with suppress(NotebookError):
            return place.read(file, _LARGEST_PROGRESS)
    return None


def _unreadable(name: str, learner: str, why: str) -> HandedIn:
    def refuse() -> bytes:
        raise NotebookError(why)

    return HandedIn(name, learner, refuse)


@dataclass
class _Files:
    """The files of one learner, as paths below the place; and why there may be more of them."""

    found: list[PurePosixPath] = field(default_factory=list)
    problem: str = ""


# ---- folders ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Folder:
    """A folder on this machine."""

    top: Path

    def learners(self, of_one: bool) -> dict[str, _Files]:
        """The files by the first folder on their way; "" stands for those that lie at the top."""
        if of_one:
            return {"": self._below(PurePosixPath())}
        found: dict[str, _Files] = {}
        with _told():
            entries = sorted(self._entries(self.top), key=lambda entry: entry[0])
        for name, is_folder in entries[:MOST_LEARNERS]:
            if is_folder:
                found[name] = self._below(PurePosixPath(name))
            elif _matters(PurePosixPath(name)):
                found.setdefault("", _Files()).found.append(PurePosixPath(name))
        return found

    @staticmethod
    def _entries(folder: Path) -> list[tuple[str, bool]]:
        """Names that are not hidden, each with whether it is a folder; a link is none."""
        with os.scandir(folder) as entries:
            return [
                (entry.name, entry.is_dir(follow_symlinks=False))
                for entry in entries
                if not entry.name.startswith(".")
            ]

    def _below(self, learner: PurePosixPath) -> _Files:
        files, to_do, seen = _Files(), [learner], 0
        while to_do:
            folder = to_do.pop()
            try:
                entries = self._entries(self.top / folder)
            except OSError as error:
                files.problem = f"has a folder that cannot be read: {error.strerror}"
                continue
            seen += len(entries)
            if seen > MOST_FILES:
                files.problem = f"holds more than {MOST_FILES:,} files: not all were looked at"
                break
            for name, is_folder in entries:
                if not is_folder:
                    files.found += [folder / name] if _matters(folder / name) else []
                elif len(folder.parts) < DEEPEST:
                    to_do.append(folder / name)
                else:
                    files.problem = f"has folders more than {DEEPEST} deep: not all were looked at"
        files.found.sort()
        return files

    def read(self, file: PurePosixPath, most: int) -> bytes:
        with _told():
            return _read(self._open(file), most)

    def inner_zip(self, file: PurePosixPath, name: str, learner: str) -> Iterator[HandedIn]:
        return _from_zip(lambda: self._open(file), name, learner)

    def _open(self, file: PurePosixPath) -> int:
        """Open a file, and follow no link on the way, whatever changes meanwhile."""
        if os.open not in os.supports_dir_fd:  # Windows
            if (self.top / file).is_symlink():
                raise NotebookError("is a link, and links are not followed")
            return os.open(self.top / file, _FLAGS)
        at = os.open(self.top, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for folder in file.parts[:-1]:
                below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK, dir_fd=at)
                os.close(at)
                at = below
            if stat.S_ISLNK(os.lstat(file.name, dir_fd=at).st_mode):
                raise NotebookError("is a link, and links are not followed")
            return os.open(file.name, _FLAGS | _NO_LINK, dir_fd=at)
        finally:
            os.close(at)


def _matters(file: PurePosixPath) -> bool:
    return file.suffix.lower() in (".ipynb", ".zip") or file.name == PROGRESS


# ---- zip files ----------------------------------------------------------------------------------


def _from_zip(
    open_it: Callable[[], int], name: str, learner: str, if_whole: str = ""
) -> Iterator[HandedIn]:
    """What is in a zip file.

    Args:
        learner: whose it is; "" if its folders say so.
        if_whole: whose it is if it holds one copy of the course.
    """
    try:
        with _told():
            descriptor = open_it()
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                raise NotebookError("is not an ordinary file")
        file = os.fdopen(descriptor, "rb")
        place = _Zip.of(file)
    except NotebookError as error:
        yield _unreadable(name, learner, str(error))
        return
    yield from _sorted_out(place, name, learner or (if_whole if place.is_a_copy() else ""))


@dataclass(frozen=True)
class _Zip:
    """A zip file. The paths in it are names here, and nothing is written anywhere."""

    archive: zipfile.ZipFile
    inside: bool = False

    @classmethod
    def of(cls, file: io.BufferedReader | io.BytesIO, inside: bool = False) -> _Zip:
        try:
            return cls(zipfile.ZipFile(file), inside)
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
            file.close()
            raise NotebookError(f"is not a zip file that can be read ({error})") from error

    def is_a_copy(self) -> bool:
        """Whether it holds one copy of the course, as a learner who zips their folder makes it."""
        paths = [_path(entry) for entry in self.archive.infolist()[:MOST_FILES]]
        folders = {part for path in paths for part in path.parts[:-1][:2]}
        tops = {path.parts[0] for path in paths if "exercises" in path.parts[:-1][1:2]}
        return {"exercises", "notebooks"} <= folders and len(tops) <= 1

    def learners(self, of_one: bool) -> dict[str, _Files]:
        entries = self.archive.infolist()
        most = MOST_FILES if of_one else MOST_LEARNERS
        if len(entries) > most:
            raise NotebookError(f"holds more than {most:,} files")
        found: dict[str, _Files] = {"": _Files()} if of_one else {}
        for entry in entries:
            path = _path(entry)
            hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
            if entry.is_dir() or hidden:
                continue
            first = path.parts[0] if len(path.parts) > 1 and not of_one else ""
            files = found.setdefault(first, _Files())
            if _matters(path):
                files.found.append(path)
        for files in found.values():
            files.found.sort()
        return found

    def read(self, file: PurePosixPath, most: int) -> bytes:
        entry = next(e for e in reversed(self.archive.infolist()) if _path(e) == file)
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise NotebookError("is a link, and links are not followed")
        if entry.file_size > most:
            raise NotebookError(f"is larger than {most // 2**20} MB")
        try:
            with self.archive.open(entry) as stream:
                content = stream.read(most + 1)
        except Exception as error:  # zipfile's, zlib's, lzma's and others' own
            raise NotebookError(f"cannot be unpacked: {error}") from error
        if len(content) > most:
            raise NotebookError(f"is larger than {most // 2**20} MB")
        return content

    def inner_zip(self, file: PurePosixPath, name: str, learner: str) -> Iterator[HandedIn]:
        """A learner's zip file in that of the learning platform, and no deeper."""
        try:
            if self.inside:
                raise NotebookError("is a zip file in a zip file of a zip file: unpack it first")
            content = self.read(file, _LARGEST_INNER_ZIP)
            place = _Zip.of(io.BytesIO(content), inside=True)
        except NotebookError as error:
            yield _unreadable(name, learner, str(error))
            return
        yield from _sorted_out(place, name, learner)


def _path(entry: zipfile.ZipInfo) -> PurePosixPath:
    """Where an entry says it lies, without roots and ways up."""
    parts = PurePosixPath(entry.filename.replace("\\", "/")).parts
    return PurePosixPath(*[p for p in parts if p not in ("/", "..", ".")] or ["nameless"])
