"""What was handed in: notebooks, each with its learner.

A learner is a folder, or an archive, and its name is theirs: in a class's folder, in an archive of
the class, and where the shell has made ``sub/*`` into a list. Only a folder that is named alone has
to be looked at first: it may hold a class, or be one learner's. What cannot be read becomes the
problem of that one learner.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path, PurePath, PurePosixPath
from typing import BinaryIO

from amp_lessons.classroom.grading import places, whose
from amp_lessons.classroom.grading.places import Archive, Files, Folder, Place
from amp_lessons.classroom.grading.whose import is_archive, is_notebook
from amp_lessons.core import catalogue, handout, ipynb
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.ipynb import NotebookError
from amp_lessons.core.terminal import line

MOST_OF_A_LEARNER = 50
"""Notebooks. The course has fifteen sheets."""

MOST_BESIDE, LARGEST_BESIDE = 20, 256 * 2**10
"""Files beside a notebook that travel with it, and bytes of each."""

BESIDE = frozenset((".py", ".txt", ".md", ".csv", ".tsv", ".json", ".toml", ".yaml", ".yml"))
"""What may lie beside a notebook for its cells to import or read: small text."""

_NOTHING = "has no notebook (*.ipynb) in it"
_NO_NOTEBOOK = "is not a notebook (*.ipynb) or a zip file"
_LARGEST_PROGRESS = 2**20


class NothingToGrade(AmpLessonsError):
    """The paths that were named hold no notebook. The message says what was looked for."""


class TwoPlaces(AmpLessonsError):
    """One learner has the same sheet in two places. The message names both."""


@dataclass(frozen=True)
class HandedIn:
    """One notebook that a learner handed in.

    Attributes:
        name: what to call it: its path as it was found, on one line.
        learner: whose it is, as far as folders and names tell.
        read: its content; raises NotebookError, which says why it cannot be read.
        progress: the content of the progress file beside it, or None.
        beside: the small text files beside and below it, by their path from its folder.
        place: the folder or archive that makes it the learner's, or "".
    """

    name: str
    learner: str
    read: Callable[[], bytes] = field(repr=False)
    progress: Callable[[], bytes | None] = field(default=lambda: None, repr=False)
    beside: Callable[[], Mapping[str, str]] = field(default=dict, repr=False)
    place: str = ""


def collect(
    paths: Iterable[Path], known: Iterable[str] = (), without: Iterable[Path] = ()
) -> list[HandedIn]:
    """All notebooks at these paths, in the order given, and by name inside a folder.

    What cannot be read, and a learner's folder without a notebook, are in the list too: reading
    says why.

    Args:
        known: learners of the class, as a roster or earlier marks name them. A folder with such a
            name is theirs.
        without: files and folders that nobody handed in, such as the reports.

    Raises:
        NothingToGrade: if there is none.
        TwoPlaces: if a learner has the same sheet in two of the folders or archives, or if folders
            that are named together hold a class each.
    """
    named, apart = list(dict.fromkeys(paths)), frozenset(path.absolute() for path in without)
    kept = [p for p in named if not whose.is_apart(p.name) and p.absolute() not in apart]
    collector = _Collector(len(kept) == 1, frozenset(map(whose.key, known)), apart, kept)
    found = [each for path in kept for each in collector.at(path)]
    if not found:
        looked = ", ".join(map(str, named))
        raise NothingToGrade(
            f"{line(looked)} has no notebook (*.ipynb) in it: name notebooks, a folder of "
            "submissions, a zip file, or nbgrader's folder `submitted`"
        )
    collector.refuse_classes()
    _refuse_two_places(found)
    return found


def in_archive(content: Callable[[], BinaryIO], name: str, learner: str) -> list[HandedIn]:
    """The notebooks in one archive, all of them this learner's.

    Args:
        content: opens its bytes.
        name: its file's name, whose ending tells the kind.
    """
    return list(_from_archive(lambda: Archive.at(content, name), name, learner))


class _Collector:
    """Looks through what the instructor named.

    Args:
        alone: whether one path was named, and not several.
        known: keys of learners' names.
        apart: what nobody handed in.
        named: all the paths.
    """

    def __init__(
        self, alone: bool, known: frozenset[str], apart: frozenset[Path], named: Sequence[Path]
    ) -> None:
        self._alone, self._known, self._apart = alone, known, apart
        self._learners = whose.of_folders(_own_name(path) for path in named)
        self._classes: dict[Path, bool] = {}

    def at(self, path: Path) -> Iterator[HandedIn]:
        """What is at one of the paths."""
        if path.is_symlink() and not self._alone:
            yield _unreadable(line(str(path)), self._of_file(path), places.LINK)
        elif path.is_dir():
            if (path / "submitted").is_dir() and (path / "source").is_dir():
                path = path / "submitted"  # the root of an nbgrader course
            yield from self._place(Folder(path, self._apart), path, _own_name(path))
        elif is_archive(path) and self._is_ordinary(path):
            name, learner = line(str(path)), whose.of_file(path.name)
            try:
                archive = Archive.at(partial(places.opened, path), path.name)
            except NotebookError as error:
                yield _unreadable(name, learner, str(error))
                return
            yield from self._place(archive, path, learner)
        elif self._alone and is_notebook(path):
            yield HandedIn(line(str(path)), self._of_file(path), partial(_named_file, path))
        else:
            file, learner = PurePosixPath(path.name), self._of_file(path)
            yield from _loose(Folder(path.parent), line(str(path)), file, learner)

    @staticmethod
    def _is_ordinary(path: Path) -> bool:
        return path.is_file() and path.stat().st_size > 0

    def _of_file(self, path: Path) -> str:
        """Whose a file is by its own name, or by its folder's if that is a learner's."""
        folder = _own_name(path.parent)
        if not whose.told(path.name) and whose.key(folder) in self._known:
            return whose.of_folder(folder)
        return _of_loose(path, path.is_symlink())

    def _place(self, place: Place, path: Path, name: str) -> Iterator[HandedIn]:
        """What is in a folder or archive, by learner.

        Args:
            name: whose it is if it is one learner's.
        """
        label, learner = line(str(path)), self._learners.get(name, name)
        try:
            if not self._alone or whose.key(learner) in self._known:
                files = place.all()
                self._classes[path] = _sheet_in_two_folders(files.found)
                yield from _of_one(place, label, learner, files)
                return
            yield from self._structured(place, label, learner)
        except NotebookError as error:
            yield _unreadable(label, learner, str(error))

    def _structured(self, place: Place, label: str, learner: str) -> Iterator[HandedIn]:
        """What is in a place that was named alone, and may be a class's or a learner's."""
        contents = place.contents()
        inner = [name for name in contents if name]
        if _is_one_learners(contents):
            yield from _of_one(place, label, learner, _joined(contents))
        elif len(inner) == 1 and not contents[""].found and self._goes_on(contents[inner[0]]):
            yield from self._structured(place.below(inner[0]), f"{label}/{inner[0]}", inner[0])
        elif len(inner) == 1 and isinstance(place, Archive) and self._holds_a_copy(place, inner[0]):
            yield from _of_one(place, label, learner, _joined(contents))
        else:
            yield from _of_class(place, label, contents)

    def _goes_on(self, files: Files) -> bool:
        """Whether the only folder of a place is the class's: it holds learners' folders."""
        firsts = {file.parts[1] for file in files.found if len(file.parts) > 2}
        known = any(whose.key(name) in self._known for name in firsts)
        below = [PurePosixPath(*file.parts[1:]) for file in files.found]
        return known or _sheet_in_two_folders(below)

    @staticmethod
    def _holds_a_copy(place: Archive, folder: str) -> bool:
        """Whether a folder in an archive is a copy of the course: its name is the hand-out's."""
        return {"exercises", "notebooks"} <= set(place.below(folder).contents())

    def refuse_classes(self) -> None:
        """Folders that are named together are learners'. If each of them holds a class, none is."""
        if len(self._classes) > 1 and all(self._classes.values()):
            first, second, *_ = self._classes
            raise TwoPlaces(
                f"{line(str(first))} and {line(str(second))} hold the same sheet in several of "
                "their folders, so each looks like a class: grade one class at a time"
            )


def _own_name(path: Path) -> str:
    """The name that tells whose a folder is: not ``exercises``, but that of the folder above."""
    whole = Path(os.path.abspath(path))
    while whose.is_the_courses(whole.name) and whole.parent != whole:
        whole = whole.parent
    return whole.name


def _named_file(path: Path) -> bytes:
    with places.in_words():
        return places.read_all(places.opened(path), ipynb.LARGEST)


def _refuse_two_places(found: Iterable[HandedIn]) -> None:
    seen: dict[tuple[str, str], HandedIn] = {}
    for each in found:
        if not each.place:
            continue
        sheet = whose.key(each.learner), whose.sheet_of(each.name.rpartition("/")[2])
        first = seen.setdefault(sheet, each)
        if first.place != each.place:
            raise TwoPlaces(
                f"{line(each.learner)} has the same sheet in two places, {first.name} and "
                f"{each.name}: leave one out, or give the folders different names"
            )


# ---- classes and learners -----------------------------------------------------------------------


def _holds(files: Iterable[PurePosixPath]) -> bool:
    return any(is_notebook(file) or is_archive(file) for file in files)


def _joined(contents: Mapping[str, Files]) -> Files:
    problems = [files.problem for files in contents.values() if files.problem]
    found = sorted(file for files in contents.values() for file in files.found)
    return Files(found, problems[0] if problems else "")


def _is_one_learners(contents: Mapping[str, Files]) -> bool:
    """Whether a place that was named alone is one learner's, and no class's.

    It is, if at least half of its folders are the course's own, such as ``exercises``; or if
    notebooks lie in it and no folders with notebooks, and the notebooks' names are no learners'.
    """
    folders = [name for name, files in contents.items() if name and _holds(files.found)]
    if 0 < len(folders) <= 2 * sum(map(whose.is_the_courses, folders)):
        return True
    top = contents[""].found
    notebooks = [file.name for file in top if is_notebook(file)]
    if folders or not notebooks or any(map(is_archive, top)):
        return False
    if len(notebooks) == 1:
        return not whose.told(notebooks[0])
    return not any(map(whose.may_tell, notebooks))


def _sheet_in_two_folders(files: Iterable[PurePosixPath]) -> bool:
    """Whether two folders hold the same sheet, as those of a class do, and nothing lies beside
    them: a learner's own copies lie beside a notebook, or a folder of the course."""
    seen: dict[str, str] = {}
    twice = False
    for file in filter(is_notebook, files):
        first = file.parts[0]
        if len(file.parts) == 1 or whose.is_the_courses(first):
            return False
        twice |= seen.setdefault(whose.sheet_of(file.name), first) != first
    return twice


def _of_class(place: Place, label: str, contents: Mapping[str, Files]) -> Iterator[HandedIn]:
    """Everything at the top of a class's place: folders, archives, notebooks, and what is none."""
    learners = whose.of_folders(name for name in contents if name)
    for name, files in contents.items():
        if name and not whose.is_apart(name):
            yield from _of_one(place, label, learners[name], files, name)
    for file in contents[""].found:
        if not whose.is_apart(file.name):
            path = _name(label, file)
            learner = _of_loose(file, place.why_not(file) == places.LINK)
            yield from _loose(place, path, file, learner)


def _of_loose(file: PurePath, is_link: bool) -> str:
    """Whose a file is that lies in nobody's folder. A link may be one to a learner's folder."""
    if is_link and not (is_notebook(file) or is_archive(file)):
        return whose.of_folder(file.name)
    return whose.of_file(file.name)


def _loose(place: Place, label: str, file: PurePosixPath, learner: str) -> Iterator[HandedIn]:
    """A file that lies in nobody's folder."""
    if why := place.why_not(file):
        yield _unreadable(label, learner, why)
    elif is_notebook(file):
        yield HandedIn(label, learner, partial(place.read, file, ipynb.LARGEST))
    elif is_archive(file):
        yield from _from_archive(lambda: places.inner(place, file), label, learner)
    else:
        yield _unreadable(label, learner, _cannot_be_opened(file))


def _cannot_be_opened(file: PurePosixPath) -> str:
    if whose.is_packed(file):
        return f"is packed as {file.suffix}, which can't be read: it has to be sent as a zip file"
    return _NO_NOTEBOOK


def _from_archive(
    opened: Callable[[], Archive], label: str, learner: str, top: str = ""
) -> Iterator[HandedIn]:
    """What is in an archive of one learner."""
    try:
        archive = opened()
        yield from _of_one(archive, label, learner, archive.all(), top=top)
    except NotebookError as error:
        yield _unreadable(label, learner, str(error))


def _of_one(
    place: Place, label: str, learner: str, files: Files, folder: str = "", top: str = ""
) -> Iterator[HandedIn]:
    """What one learner handed in, or a line that says what is wrong with it.

    Args:
        folder: the one in ``place`` that is theirs; "" if all of it is.
        top: the folder or archive that makes it theirs, if this lies in it.
    """
    own = line(f"{label}/{folder}" if folder else label)[: whose.LONGEST]
    inside = [file for file in files.found if is_notebook(file) or is_archive(file)]
    inside = [file for file in inside if file.name not in _without_exercises()] or inside
    if files.problem or not inside:
        yield _unreadable(own, learner, files.problem or _nothing_in(files))
    progress = {file.parent: file for file in files.found if file.name == handout.RECORD}
    for number, file in enumerate(inside):
        if number == MOST_OF_A_LEARNER:
            most = f"holds more than {MOST_OF_A_LEARNER} notebooks: the rest is left out"
            yield _unreadable(own, learner, most)
            return
        if is_archive(file):
            name = _name(label, file)
            opened = partial(places.inner, place, file)
            yield from _from_archive(opened, name, learner, top or own)
            continue
        mine = next((progress[p] for p in file.parents if p in progress), None)
        beside = [f for f in files.found if f.is_relative_to(file.parent) and _travels(f)]
        beside.sort(key=lambda f: len(f.parts))
        yield HandedIn(
            _name(label, file),
            learner,
            partial(place.read, file, ipynb.LARGEST),
            partial(_quietly, place, mine),
            partial(_texts, place, file.parent, beside[:MOST_BESIDE]),
            top or own,
        )


def _name(label: str, file: PurePosixPath) -> str:
    return line(f"{label}/{file}")[: whose.LONGEST]


def _nothing_in(files: Files) -> str:
    packed = next((file for file in files.found if whose.is_packed(file)), None)
    return f"has only {packed.name}, which {_cannot_be_opened(packed)}" if packed else _NOTHING


def _travels(file: PurePosixPath) -> bool:
    return file.suffix.lower() in BESIDE and file.name not in (handout.RECORD, handout.FILE)


@cache
def _without_exercises() -> Collection[str]:
    """The names of the lessons' own notebooks, which a learner's whole folder holds too."""
    lessons = [path for each in catalogue.LESSONS for path in (each.notebook, each.deep_notebook)]
    return frozenset(PurePosixPath(path).name for path in (*lessons, catalogue.HOME))


def _quietly(place: Place, file: PurePosixPath | None) -> bytes | None:
    if file is not None:
        with suppress(NotebookError):
            return place.read(file, _LARGEST_PROGRESS)
    return None


def _texts(place: Place, start: PurePosixPath, files: Iterable[PurePosixPath]) -> dict[str, str]:
    """The text files among these, by their path from here. What isn't text, or is too large, stays
    behind."""
    found = {}
    for file in files:
        with suppress(NotebookError, UnicodeDecodeError):
            found[str(file.relative_to(start))] = place.read(file, LARGEST_BESIDE).decode()
    return found


def _unreadable(name: str, learner: str, why: str) -> HandedIn:
    def refuse() -> bytes:
        raise NotebookError(why)

    return HandedIn(name, learner, refuse)


__all__ = ["HandedIn", "NothingToGrade", "TwoPlaces", "collect", "in_archive"]
