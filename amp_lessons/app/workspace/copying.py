"""Bringing a workspace up to date with the course."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from amp_lessons.app import home
from amp_lessons.app.workspace.errors import WorkspaceError, cure_for_missing_course
from amp_lessons.app.workspace.manifest import (
    MANIFEST,
    HandedOut,
    digests,
    read_manifest,
    write_manifest,
)
from amp_lessons.app.workspace.trust import trust, was_trusted
from amp_lessons.core import catalogue, ipynb, progress
from amp_lessons.core.files import keep_beside, write_atomically

FOLDERS = ("notebooks", "exercises")
START_PAGE = catalogue.HOME


@dataclass
class Copied:
    """What `copy_course` did, as paths relative to the workspace.

    Attributes:
        written: new, put back or brought up to date.
        kept_beside: where the old outputs are, of a notebook that was run and brought up to date.
        kept: changed by the learner, and the course has nothing newer.
        kept_older: changed by the learner, and the course has a newer one.
        foreign: there before, and never handed out by the course.
    """

    written: list[str] = field(default_factory=list)
    kept_beside: dict[str, str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    kept_older: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)


def copy_course(folder: Path) -> Copied:
    """Bring the workspace up to date with the course, without touching what the learner changed.

    Args:
        folder: the workspace; it is made if it does not exist.

    Raises:
        WorkspaceError: if that cannot be done. No file is lost then, and none is half written; the
            files that were copied before stay, and the next call goes on from there.
    """
    made: list[Path] = []
    try:
        _refuse(folder)
        _make_folders(folder, made)
        return _copy(folder)
    except OSError as error:
        for empty in reversed(made):
            with suppress(OSError):
                empty.rmdir()
        raise WorkspaceError(
            f"{reason(error, folder)}. None of your work was lost. Fix that and run it again, or "
            "name another folder"
        ) from error


def reason(error: OSError, folder: Path) -> str:
    """What failed and where; a scrap of `write_atomically` says nothing to a learner."""
    named = Path(str(error.filename)) if error.filename else folder
    where = named.parent if named.suffix == ".tmp" else named
    return f"{where}: {error.strerror or error}"


def _refuse(folder: Path) -> None:
    """Refuse a folder that cannot be a workspace, before anything is written."""
    if folder.exists() and not folder.is_dir():
        raise WorkspaceError(f"{folder} is a file: name a folder for the workspace")
    with suppress(OSError):
        if folder.resolve() == catalogue.course_files().resolve():
            raise WorkspaceError(f"{folder} is the course itself: name another folder")
    for entry in (*FOLDERS, MANIFEST):
        target = folder / entry
        if target.exists() and target.is_dir() != (entry in FOLDERS):
            kind = "file" if entry in FOLDERS else "folder"
            raise WorkspaceError(f"{target} is a {kind}, and it is in the way: move it elsewhere")
    nearest = folder
    while not nearest.exists() and nearest.parent != nearest:
        nearest = nearest.parent
    if not nearest.is_dir():
        raise WorkspaceError(f"{nearest} is a file, so {folder} cannot be made: name another one")
    if not os.access(nearest, os.W_OK | os.X_OK):
        yours = "make it yours, or " if nearest == folder else ""
        raise WorkspaceError(
            f"{nearest} cannot be written: {yours}name another folder, as in amp-lessons lab "
            "~/amp-lessons"
        )


def _make_folders(folder: Path, made: list[Path]) -> None:
    """Make the workspace's folders, noting in ``made`` those that were not there."""
    for path in (folder, *(folder / name for name in FOLDERS)):
        for missing in reversed([p for p in (path, *path.parents) if not p.exists()]):
            missing.mkdir()
            made.append(missing)


def _copy(folder: Path) -> Copied:
    handed_out = read_manifest(folder)
    copied = Copied()
    home_page = folder / catalogue.HOME
    trusted = home_page.is_file() and was_trusted(home_page.read_bytes())
    try:
        for name, source in course_files():
            _copy_one(folder / name, name, handed_out_form(source), handed_out, copied)
        _remove_former(folder, handed_out)
        _redraw_home(home_page, handed_out)
        if trusted or _is_the_courses_own(home_page):
            trust(home_page)  # JupyterLab shows all of it, and our extension runs it
    except BaseException:  # Ctrl+C too
        with suppress(OSError):  # the first error is the one to report
            write_manifest(folder, handed_out)
        raise
    write_manifest(folder, handed_out)
    return copied


def _remove_former(folder: Path, handed_out: HandedOut) -> None:
    """Remove what an earlier version of the course handed out and this one has elsewhere, or not at
    all. What the learner ran or changed stays."""
    for name in set(handed_out) - {name for name, _ in course_files()}:
        before, parts = handed_out.pop(name), PurePosixPath(name).parts
        path = folder / name
        ours = parts[0] in FOLDERS and ".." not in parts  # the manifest is a file like any other
        if ours and path.is_file() and digests(path.read_bytes()) == before:
            path.unlink()


def handed_out_form(source: Path) -> bytes:
    """What a learner gets of one of the course's files: lessons come without their outputs, so
    that no prediction is answered before it is made, and the home page with their progress."""
    content = source.read_bytes()
    try:
        notebook = ipynb.without_outputs(ipynb.parse(content))
    except ipynb.NotebookError:
        return content
    if source.name == Path(catalogue.HOME).name:
        notebook = home.drawn(notebook, _progress())
    return ipynb.to_bytes(notebook)


def _redraw_home(path: Path, handed_out: HandedOut) -> None:
    """Bring a home page up to date on which the learner ran cells, or wrote. Theirs stay."""
    old = path.read_bytes()
    try:
        notebook = ipynb.parse(old)
    except ipynb.NotebookError:
        return
    drawn = home.drawn(notebook, _progress())
    if drawn != notebook:
        write_atomically(path, ipynb.to_bytes(drawn))
        if handed_out.get(catalogue.HOME) == digests(old):
            handed_out[catalogue.HOME] = digests(path.read_bytes())


def _is_the_courses_own(page: Path) -> bool:
    """Whether a home page holds nothing but what the course wrote."""
    ours = handed_out_form(catalogue.course_files() / catalogue.HOME)
    return page.read_bytes() == ours


def _progress() -> progress.Progress:
    """The saved progress. What cannot be read counts as none: the lab must open in any case."""
    try:
        return progress.load()
    except progress.ProgressError:
        return progress.Progress()


def _copy_one(
    target: Path, name: str, newest: bytes, handed_out: HandedOut, copied: Copied
) -> None:
    """Decide about one file, and note in ``handed_out`` what the learner has from us."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, newest, name, handed_out, copied)
        return
    old = target.read_bytes()
    theirs, ours, before = digests(old), digests(newest), handed_out.get(name)
    if theirs != ours and theirs == before:
        _replace(target, newest, name, handed_out, copied)
    elif theirs["text"] == ours["text"]:
        handed_out[name] = ours
    elif before is None:
        copied.foreign.append(name)
    elif theirs["text"] == before["text"]:
        copied.kept_beside[name] = keep_beside(target, old, "before-upgrade").name
        _replace(target, newest, name, handed_out, copied)
    elif ours["text"] == before["text"]:
        copied.kept.append(name)
    else:
        copied.kept_older.append(name)


def _replace(target: Path, newest: bytes, name: str, handed_out: HandedOut, copied: Copied) -> None:
    write_atomically(target, newest)
    handed_out[name] = digests(newest)
    copied.written.append(name)


def course_files() -> Iterator[tuple[str, Path]]:
    """The files to hand out, as ``("notebooks/01_….ipynb", path in the course)``."""
    root = catalogue.course_files()
    if not (root / START_PAGE).is_file():
        raise WorkspaceError(f"the course has no {START_PAGE}: {cure_for_missing_course()}")
    for name in FOLDERS:
        for path in sorted((root / name).rglob("*")):
            inside = path.relative_to(root)
            hidden = any(part.startswith((".", "__")) for part in inside.parts)
            if path.is_file() and not hidden:
                yield inside.as_posix(), path
