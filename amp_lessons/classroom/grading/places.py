"""Places that strangers have filled: folders, zip files and tar files, looked through and read.

Nothing in them is trusted. Nothing is unpacked to the disk, a link is never followed, and what is
read is bounded in size, number and depth. `collect` says whose the files are.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from amp_lessons.core.ipynb import NotebookError

MOST_FILES = 5_000
"""Files and folders that are looked through in one learner's folder or archive."""

MOST_LEARNERS = 20_000
DEEPEST = 12
"""Folders inside each other, below the one that was named."""

LARGEST_INNER = 32 * 2**20
"""Bytes of an archive inside a folder's or another archive's."""

LARGEST_UNPACKED = 256 * 2**20
"""Bytes that a tar file may unpack to. Its whole content has to be unpacked to find one file."""

LINK = "is a link, and links are not followed"
ODD = "is not an ordinary file"
EMPTY = "is empty (0 bytes): it has to be sent again"

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)

HERE = PurePosixPath()


@dataclass
class Files:
    """Files below one folder, as paths below the place; and why there may be more of them."""

    found: list[PurePosixPath] = field(default_factory=list)
    problem: str = ""


@contextmanager
def in_words() -> Iterator[None]:
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


def opened(path: Path) -> BinaryIO:
    """A file that the instructor named, where a link is the instructor's own and is followed."""
    return _ordinary(os.open(path, _FLAGS))


def read_all(file: BinaryIO, most: int) -> bytes:
    """Read an open file of at most so many bytes, and close it."""
    with file:
        content = file.read(most + 1)
        if len(content) > most:
            raise NotebookError(_too_large(most))
        return content


def _too_large(most: int) -> str:
    return f"is larger than {most // 2**20} MB"


def _ordinary(descriptor: int) -> BinaryIO:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotebookError(ODD)
    return os.fdopen(descriptor, "rb")


# ---- folders ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Folder:
    """A folder on this machine.

    Args:
        top: the folder.
        without: files and folders in it that are not looked at.
    """

    top: Path
    without: frozenset[Path] = frozenset()

    def contents(self) -> dict[str, Files]:
        """The files by the first folder on their way; "" stands for those that lie at the top."""
        found = {"": Files()}
        with in_words():
            entries = sorted(self._entries(HERE), key=lambda entry: entry[0])
        for name, is_folder in entries[:MOST_LEARNERS]:
            if is_folder:
                found[name] = self.all(PurePosixPath(name))
            else:
                found[""].found.append(PurePosixPath(name))
        return found

    def all(self, start: PurePosixPath = HERE) -> Files:
        """All files below a folder."""
        files, to_do, seen = Files(), [start], 0
        while to_do:
            folder = to_do.pop()
            try:
                entries = self._entries(folder)
            except OSError as error:
                files.problem = f"has a folder that cannot be read: {error.strerror}"
                continue
            seen += len(entries)
            if seen > MOST_FILES:
                files.problem = f"holds more than {MOST_FILES:,} files: not all were looked at"
                break
            for name, is_folder in entries:
                if not is_folder:
                    files.found.append(folder / name)
                elif len(folder.parts) < DEEPEST:
                    to_do.append(folder / name)
                else:
                    files.problem = f"has folders more than {DEEPEST} deep: not all were looked at"
        files.found.sort()
        return files

    def _entries(self, folder: PurePosixPath) -> list[tuple[str, bool]]:
        """Names that are not hidden, each with whether it is a folder; a link is none."""
        with os.scandir(self.top / folder) as entries:
            return [
                (entry.name, entry.is_dir(follow_symlinks=False))
                for entry in entries
                if not entry.name.startswith((".", "__"))
                and not (self.without and Path(entry.path).absolute() in self.without)
            ]

    def below(self, folder: str) -> Folder:
        return Folder(self.top / folder, self.without)

    def why_not(self, file: PurePosixPath) -> str:
        """Why a file that lies at the top cannot be read, whatever is in it; or ""."""
        try:
            status = os.lstat(self.top / file)
        except OSError as error:
            return "does not exist" if isinstance(error, FileNotFoundError) else str(error.strerror)
        if stat.S_ISLNK(status.st_mode):
            return LINK
        if not stat.S_ISREG(status.st_mode):
            return ODD
        return "" if status.st_size else EMPTY

    def read(self, file: PurePosixPath, most: int) -> bytes:
        with in_words():
            return read_all(self.open(file), most)

    def open(self, file: PurePosixPath) -> BinaryIO:
        """Open a file, and follow no link on the way, whatever changes meanwhile."""
        if os.open not in os.supports_dir_fd:  # Windows
            if (self.top / file).is_symlink():
                raise NotebookError(LINK)
            return opened(self.top / file)
        at = os.open(self.top, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for folder in file.parts[:-1]:
                below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK, dir_fd=at)
                os.close(at)
                at = below
            if stat.S_ISLNK(os.lstat(file.name, dir_fd=at).st_mode):
                raise NotebookError(LINK)
            return _ordinary(os.open(file.name, _FLAGS | _NO_LINK, dir_fd=at))
        finally:
            os.close(at)


# ---- archives -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Entry:
    """A file in an archive: a name and no more, wherever it claims to lie."""

    path: PurePosixPath
    size: int
    why_not: str = ""


@dataclass(frozen=True)
class Archive:
    """A zip or tar file. It is opened again for each file that is read, and not held open: a class
    hands in hundreds.

    Args:
        open_it: opens its bytes.
        entries: what it says it holds.
        is_tar: whether it is a tar file, compressed or not.
        depth: in how many archives it lies.
        root: the folder in it that stands for all of it.
    """

    open_it: Callable[[], BinaryIO]
    entries: tuple[_Entry, ...]
    is_tar: bool
    depth: int
    root: PurePosixPath = HERE

    @classmethod
    def at(cls, open_it: Callable[[], BinaryIO], name: str, depth: int = 0) -> Archive:
        """Raises `NotebookError` if it cannot be read.

        Args:
            name: of the file, whose ending tells the kind.
        """
        if depth > 1:
            raise NotebookError("is an archive in an archive of an archive: unpack it first")
        is_tar = not name.lower().endswith(".zip")
        with in_words(), open_it() as file:
            found = tuple(_in_tar(file) if is_tar else _in_zip(file))
        if len(found) > MOST_LEARNERS:
            raise NotebookError(f"holds more than {MOST_LEARNERS:,} files")
        return cls(open_it, found, is_tar, depth)

    def contents(self) -> dict[str, Files]:
        """The files by the first folder on their way; "" stands for those that lie at the top."""
        found = {"": Files()}
        for path in self._paths():
            first = path.parts[0] if len(path.parts) > 1 else ""
            found.setdefault(first, Files()).found.append(path)
        return found

    def all(self) -> Files:
        """All files in it."""
        if len(self.entries) > MOST_FILES:
            raise NotebookError(f"holds more than {MOST_FILES:,} files")
        return Files(self._paths())

    def _paths(self) -> list[PurePosixPath]:
        depth = len(self.root.parts)
        inside = (e.path for e in self.entries if e.path.parts[:depth] == self.root.parts)
        below = (PurePosixPath(*path.parts[depth:]) for path in inside)
        hidden = (".", "__")
        return sorted(p for p in below if not any(part.startswith(hidden) for part in p.parts))

    def below(self, folder: str) -> Archive:
        return replace(self, root=self.root / folder)

    def why_not(self, file: PurePosixPath) -> str:
        """Why a file cannot be read, whatever is in it; or ""."""
        entry = self._entry(file)
        return entry.why_not or ("" if entry.size else EMPTY)

    def read(self, file: PurePosixPath, most: int) -> bytes:
        entry = self._entry(file)
        if entry.why_not:
            raise NotebookError(entry.why_not)
        if entry.size > most:
            raise NotebookError(_too_large(most))
        with in_words(), self.open_it() as outer:
            content = (_from_tar if self.is_tar else _from_zip)(outer, entry.path, most)
        if len(content) > most:
            raise NotebookError(_too_large(most))
        return content

    def open(self, file: PurePosixPath) -> BinaryIO:
        return io.BytesIO(self.read(file, LARGEST_INNER))

    def _entry(self, file: PurePosixPath) -> _Entry:
        whole = self.root / file
        return next(entry for entry in reversed(self.entries) if entry.path == whole)


Place = Folder | Archive


def inner(place: Place, file: PurePosixPath) -> Archive:
    """An archive in a place. Raises `NotebookError` if it cannot be read, or lies too deep."""
    depth = place.depth + 1 if isinstance(place, Archive) else 0
    return Archive.at(partial(place.open, file), file.name, depth)


def _path(name: str) -> PurePosixPath:
    """Where an entry says it lies, without roots and ways up."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return PurePosixPath(*[p for p in parts if p not in ("/", "..", ".")] or ["nameless"])


def _zip_file(file: BinaryIO) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        file.seek(0)
        why = EMPTY if not file.read(1) else f"is not a zip file that can be read ({error})"
        raise NotebookError(why) from error


def _in_zip(file: BinaryIO) -> Iterator[_Entry]:
    for info in _zip_file(file).infolist():
        if not info.is_dir():
            link = stat.S_ISLNK(info.external_attr >> 16)
            yield _Entry(_path(info.filename), info.file_size, LINK if link else "")


def _from_zip(file: BinaryIO, path: PurePosixPath, most: int) -> bytes:
    archive = _zip_file(file)
    info = next(e for e in reversed(archive.infolist()) if _path(e.filename) == path)
    try:
        with archive.open(info) as stream:
            return stream.read(most + 1)
    except Exception as error:  # zipfile's, zlib's, lzma's and others' own
        raise NotebookError(f"cannot be unpacked: {error}") from error


class _Flow:
    """What a tar file unpacks to, up to a limit."""

    def __init__(self, file: BinaryIO) -> None:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        self._stream = gzip.GzipFile(fileobj=file) if packed else file
        self._left = LARGEST_UNPACKED

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise NotebookError(f"unpacks to more than {LARGEST_UNPACKED // 2**20} MB")
        return data


def _members(file: BinaryIO) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """One after the other, as they come: there is no way back in a stream."""
    try:
        with tarfile.open(fileobj=_Flow(file), mode="r|") as archive:  # type: ignore[call-overload]
            for number, member in enumerate(archive):
                if number > MOST_LEARNERS:
                    raise NotebookError(f"holds more than {MOST_LEARNERS:,} files")
                yield archive, member
    except NotebookError:
        raise
    except Exception as error:  # tarfile's, gzip's, zlib's and others' own
        file.seek(0)
        why = EMPTY if not file.read(1) else f"is not a tar file that can be read ({error})"
        raise NotebookError(why) from error


def _in_tar(file: BinaryIO) -> Iterator[_Entry]:
    for _, member in _members(file):
        if not member.isdir():
            linked = member.issym() or member.islnk()
            odd = "" if member.isreg() and not member.issparse() else ODD
            yield _Entry(_path(member.name), member.size, LINK if linked else odd)


def _from_tar(file: BinaryIO, path: PurePosixPath, most: int) -> bytes:
    content = None
    for archive, member in _members(file):
        if _path(member.name) == path and member.isreg() and (found := archive.extractfile(member)):
            content = found.read(most + 1)
    if content is None:
        raise NotebookError("cannot be unpacked: it is no longer there")
    return content
