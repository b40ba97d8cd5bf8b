"""The learner's folder: a copy of the course that is theirs.

A manifest in the folder notes each file as it was handed out, so that a file which the learner
changed is told from one which only the course changed: the first is never overwritten, the second
is kept up to date. A file that got a new name is moved there. JupyterLab rewrites a notebook that
is only opened and run, so what counts as changed is the text of its cells. On the home page the
cells that show progress are `home`'s, and are written at each call. Nothing here imports torch;
JupyterLab is started by `lab`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from amp_lessons import __version__, course, home, ipynb, progress, renamed
from amp_lessons.foundations.errors import AmpLessonsError
from amp_lessons.foundations.files import write_atomically

FOLDERS = ("notebooks", "exercises")
MANIFEST = ".amp-lessons.json"
MANIFEST_VERSION = 1
START_PAGE = course.HOME

HandedOut = dict[str, dict[str, str]]
"""The manifest: for each file, `_digests` of what the course gave."""


class WorkspaceError(AmpLessonsError):
    """The workspace cannot be made, changed or opened. The message is one line with the cure."""


@dataclass
class Copied:
    """What `copy_course` did, as paths relative to the workspace.

    Attributes:
        written: new, put back or brought up to date.
        kept_beside: where the old outputs are, of a notebook that was run and brought up to date.
        kept: changed by the learner, and the course has nothing newer.
        kept_older: changed by the learner, and the course has a newer one.
        foreign: there before, and never handed out by the course.
        moved: from its former name to the one it has now.
        replaced: a former file that stays, and the new one that took its place.
        doubled: under a former name, beside a file with the present one.
    """

    written: list[str] = field(default_factory=list)
    kept_beside: dict[str, str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    kept_older: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    doubled: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Reset:
    """What `reset` did: the file it restored, the copy of the old one, and lines to tell."""

    file: Path
    kept_as: Path | None
    exercises: tuple[str, ...]
    notes: tuple[str, ...] = ()


# ---- places -------------------------------------------------------------------------------------


def default_folder() -> Path:
    """``workspace/`` in a checkout, else ``amp-lessons/`` in the current folder."""
    root = course.checkout()
    return root / "workspace" if root else Path.cwd() / "amp-lessons"


def current_folder() -> Path:
    """The workspace that the current folder lies in, else the default one."""
    here = Path.cwd()
    found = (folder for folder in (here, *here.parents) if (folder / MANIFEST).is_file())
    return next(found, default_folder())


def cure_for_missing_course() -> str:
    """What to do when the course's own files are not complete."""
    if course.checkout():
        return "run make notebooks"
    return f"{sys.executable} -m pip install --force-reinstall --no-deps amp-lessons"


# ---- copying ------------------------------------------------------------------------------------


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
            f"{_reason(error, folder)}. None of your work was lost. Fix that and run it again, or "
            "name another folder"
        ) from error


def _reason(error: OSError, folder: Path) -> str:
    """What failed and where; a scrap of `write_atomically` says nothing to a learner."""
    named = Path(str(error.filename)) if error.filename else folder
    where = named.parent if named.suffix == ".tmp" else named
    return f"{where}: {error.strerror or error}"


def _refuse(folder: Path) -> None:
    """Refuse a folder that cannot be a workspace, before anything is written."""
    if folder.exists() and not folder.is_dir():
        raise WorkspaceError(f"{folder} is a file: name a folder for the workspace")
    with suppress(OSError):
        if folder.resolve() == course.course_files().resolve():
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
    handed_out = _read_manifest(folder)
    copied = Copied()
    try:
        copied.moved = _take_new_names(folder, handed_out)
        for name, source in _course_files():
            _copy_one(folder / name, name, _handed_out(source), handed_out, copied)
        _redraw_home(folder / course.HOME, handed_out)
    except BaseException:  # Ctrl+C too
        with suppress(OSError):  # the first error is the one to report
            _write_manifest(folder, handed_out)
        raise
    _note_former_files(folder, handed_out, copied)
    _write_manifest(folder, handed_out)
    return copied


def _take_new_names(folder: Path, handed_out: HandedOut) -> dict[str, str]:
    """Move files from their former names to the present ones, and their entries with them.

    A file that stands at the new name already is never touched. If we are interrupted between the
    file and its entry, the next call moves the entry.
    """
    moved = {}
    for former, name in renamed.moves():
        old, new = folder / former, folder / name
        if old.is_file() and not os.path.lexists(new):
            if former not in handed_out and not _is_sheet(old, name):
                continue  # the learner's own, with a name that we once used
            os.rename(old, new)
            moved[former] = name
        if former in handed_out and not os.path.lexists(old):
            entry = handed_out.pop(former)
            handed_out.setdefault(name, entry)
    return moved


def _is_sheet(path: Path, name: str) -> bool:
    """Whether a file that no manifest lists has an exercise of the sheet called ``name``."""
    lessons = [lesson for lesson in course.LESSONS if lesson.sheet == name]
    exercises = {info.name for lesson in lessons for info in lesson.exercises}
    try:
        return any(_grade_id(cell) in exercises for cell in ipynb.read(path)["cells"])
    except ipynb.NotebookError:
        return False


def _note_former_files(folder: Path, handed_out: HandedOut, copied: Copied) -> None:
    """Note which former files stay, to be told once: they leave the manifest here."""
    for former in (*renamed.REPLACED, *renamed.MOVED):
        if handed_out.pop(former, None) is None or not (folder / former).exists():
            continue
        if former in renamed.REPLACED:
            copied.replaced[former] = renamed.current(former)
        else:
            copied.doubled.append(former)


def _handed_out(source: Path) -> bytes:
    """What a learner gets of one of the course's files: lessons come without their outputs, so
    that no prediction is answered before it is made, and the home page with their progress."""
    content = source.read_bytes()
    try:
        notebook = ipynb.without_outputs(ipynb.parse(content))
    except ipynb.NotebookError:
        return content
    if source.name == Path(course.HOME).name:
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
        if handed_out.get(course.HOME) == _digests(old):
            handed_out[course.HOME] = _digests(path.read_bytes())


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
    theirs, ours, before = _digests(old), _digests(newest), handed_out.get(name)
    if theirs != ours and theirs == before:
        _replace(target, newest, name, handed_out, copied)
    elif theirs["text"] == ours["text"]:
        handed_out[name] = ours
    elif before is None:
        copied.foreign.append(name)
    elif theirs["text"] == before["text"]:
        copied.kept_beside[name] = _keep(target, old, "before-upgrade").name
        _replace(target, newest, name, handed_out, copied)
    elif ours["text"] == before["text"]:
        copied.kept.append(name)
    else:
        copied.kept_older.append(name)


def _replace(target: Path, newest: bytes, name: str, handed_out: HandedOut, copied: Copied) -> None:
    write_atomically(target, newest)
    handed_out[name] = _digests(newest)
    copied.written.append(name)


def _digests(content: bytes) -> dict[str, str]:
    """The sha256 of a file, and of the text in it that a learner writes.

    For a notebook that text is its cells' sources: to open it, run it and save it changes the
    file and not the text. Cells that `home` draws are nobody's text. For any other file it is the
    whole.
    """
    whole = hashlib.sha256(content).hexdigest()
    try:
        cells = ipynb.parse(content)["cells"]
    except ipynb.NotebookError:
        return {"sha256": whole, "text": whole}
    written = [cell for cell in cells if not home.is_drawn(cell)]
    text = json.dumps([(cell["cell_type"], ipynb.source_of(cell)) for cell in written])
    return {"sha256": whole, "text": hashlib.sha256(text.encode()).hexdigest()}


def _course_files() -> Iterator[tuple[str, Path]]:
    """The files to hand out, as ``("notebooks/01_….ipynb", path in the course)``."""
    root = course.course_files()
    if not (root / START_PAGE).is_file():
        raise WorkspaceError(f"the course has no {START_PAGE}: {cure_for_missing_course()}")
    for name in FOLDERS:
        for path in sorted((root / name).rglob("*")):
            inside = path.relative_to(root)
            hidden = any(part.startswith((".", "__")) for part in inside.parts)
            if path.is_file() and not hidden:
                yield inside.as_posix(), path


def in_short(names: Sequence[str]) -> str:
    """Files of the course in a few words: ``"lesson 03, sheets 00 and 02 to 12"``."""
    if len(names) == 1:
        return names[0]
    parts, others = [], list(names)
    for folder, word in (("notebooks", "lesson"), ("exercises", "sheet")):
        found = [name for name in others if re.fullmatch(rf"{folder}/\d\d_[^/]*\.ipynb", name)]
        others = [name for name in others if name not in found]
        if found:
            numbers = sorted({int(Path(name).name[:2]) for name in found})
            parts.append(f"{word}{'s' * (len(numbers) > 1)} {_ranges(numbers)}")
    return ", ".join([*parts, *others])


def _ranges(numbers: Sequence[int]) -> str:
    """``"00, 02 to 05 and 07"``"""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words: list[str] = []
    for run in runs:
        ends = [f"{run[0]:02}", f"{run[-1]:02}"]
        words += [" to ".join(ends)] if len(run) > 2 else [f"{number:02}" for number in run]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


# ---- the manifest -------------------------------------------------------------------------------


def _read_manifest(folder: Path) -> HandedOut:
    """The digests of each file as it was handed out.

    A manifest that cannot be understood counts as none: then every file that differs from the
    course's is taken for the learner's, and kept.
    """
    try:
        data = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        version, files = data["version"], data["files"]
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    if not isinstance(version, int) or not isinstance(files, dict):
        return {}
    entries = {name: entry for name, entry in files.items() if isinstance(entry, dict)}
    if version > MANIFEST_VERSION:
        raise WorkspaceError(
            f"{folder} was made by a newer AMP Lessons: upgrade the package, or name another folder"
        )
    return {name: entry for name, entry in entries.items() if {"sha256", "text"} <= set(entry)}


def _write_manifest(folder: Path, handed_out: HandedOut) -> None:
    files = dict(sorted(handed_out.items()))
    data = {"version": MANIFEST_VERSION, "course": __version__, "files": files}
    content = (json.dumps(data, indent=1) + "\n").encode()
    path = folder / MANIFEST
    if not path.exists() or path.read_bytes() != content:
        write_atomically(path, content)


def trust(path: Path) -> None:
    """Tell Jupyter to trust the outputs in a notebook, so that it shows all of them.

    Jupyter keeps the signatures in its own data folder. Without them the course still works, so
    a failure is not worth a word.
    """
    with suppress(Exception), _notary() as notary:
        notary.sign(_for_notary(path.read_bytes()))


def _was_trusted(content: bytes) -> bool:
    with suppress(Exception), _notary() as notary:
        return notary.check_signature(_for_notary(content))
    return False


@contextmanager
def _notary() -> Iterator[Any]:
    """Jupyter's register of trusted notebooks, told to keep its warnings to itself."""
    import logging

    from jupyter_core.paths import jupyter_data_dir
    from nbformat.sign import NotebookNotary

    silent = logging.getLogger("amp_lessons.notary")
    silent.disabled = True
    folder = Path(jupyter_data_dir())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # Jupyter may never have run here
    notary = NotebookNotary(data_dir=str(folder), log=silent)
    try:
        yield notary
    finally:
        notary.store.close()


def _for_notary(content: bytes) -> Any:
    import warnings

    import nbformat

    with warnings.catch_warnings(action="ignore"):  # about a copied cell's id, for example
        return nbformat.reads(content.decode("utf-8"), as_version=4)


# ---- resetting ----------------------------------------------------------------------------------


def reset(folder: Path, name: str) -> Reset:
    """Put an exercise or a whole notebook back as it was handed out.

    Args:
        folder: the workspace.
        name: an exercise such as ``"next_float"``, whose two cells are put back in place; or a
            notebook such as ``"01_number_formats_exercises"`` (or with its folder, as in
            ``"notebooks/01_number_formats.ipynb"``).

    Raises:
        UnknownExercise: if the course has neither.
        WorkspaceError: if it cannot be done; the learner's file is then as it was.
    """
    if not folder.is_dir():
        raise WorkspaceError(
            f"there is no workspace at {folder}: run amp-lessons lab first, or name it with "
            "--workspace"
        )
    whole = _notebook_called(name)
    try:
        handed_out = _read_manifest(folder)
        if _take_new_names(folder, handed_out):
            _write_manifest(folder, handed_out)
        if whole is not None:
            return _reset_notebook(folder, whole)
        _refuse_former_name(name)
        _refuse_misspelt_notebook(name)
        return _reset_exercise(folder, name)
    except OSError as error:
        raise WorkspaceError(
            f"{_reason(error, folder)}. None of your work was lost. Fix that and run it again"
        ) from error


def _notebook_called(name: str) -> str | None:
    """The path in the course that a notebook's id, stem or path stands for; None for others."""
    files = dict(_course_files())
    return next((path for path in _paths_for(name) if path in files), None)


def _paths_for(name: str) -> list[str]:
    """The paths that may be meant by a notebook's path or stem."""
    plain = name.replace("\\", "/").removeprefix("./").removesuffix(".ipynb")
    return [f"{plain}.ipynb", *(f"{folder}/{plain}.ipynb" for folder in reversed(FOLDERS))]


def _refuse_former_name(name: str) -> None:
    """Say what a notebook is called now."""
    former = [path for path in _paths_for(name) if renamed.current(path) != path]
    if former:
        now = [renamed.current(path).removesuffix(".ipynb") for path in former]
        raise course.UnknownExercise(
            f"{name} has a new name: " + ", or ".join(f"amp-lessons reset {path}" for path in now)
        )


def _refuse_misspelt_notebook(name: str) -> None:
    """Offer the nearest notebook to a name that is more like one than like an exercise."""
    if "/" in name or name[:1].isdigit() or name.endswith(".ipynb"):
        names = [path.removesuffix(".ipynb") for path, _ in _course_files()]
        names += [Path(path).name for path in names]
        close = difflib.get_close_matches(name.removesuffix(".ipynb"), names, n=3) or names
        raise course.UnknownExercise(
            f"no notebook is called {name!r}; did you mean {', '.join(close)}?"
        )


def _reset_notebook(folder: Path, name: str, notes: tuple[str, ...] = ()) -> Reset:
    target, newest = folder / name, _handed_out(course.course_files() / name)
    kept_as = None
    if target.exists():
        old = target.read_bytes()
        kept_as = None if old == newest else _keep(target, old, "before-reset")
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, newest)
    handed_out = _read_manifest(folder)
    _write_manifest(folder, handed_out | {name: _digests(newest)})
    lessons = [lesson for lesson in course.LESSONS if name == lesson.sheet]
    exercises = tuple(info.name for lesson in lessons for info in lesson.exercises)
    return Reset(target, kept_as, exercises, notes)


def _reset_exercise(folder: Path, exercise: str) -> Reset:
    """Put back the solution cell and the check cell of one exercise."""
    name, exercise = course.lesson_of(exercise).sheet, course.exercise_info(exercise).name
    target = folder / name
    if not target.exists():
        return _reset_notebook(folder, name, (f"{name} was missing: all of it was put back",))
    old = target.read_bytes()
    try:
        notebook = ipynb.parse(old)
    except ipynb.NotebookError as error:
        return _reset_notebook(folder, name, (f"your {name} {error}: all of it was put back",))
    master = ipynb.read(course.course_files() / name)
    notes: list[str] = []
    for grade_id in (exercise, f"{exercise}_check"):
        _put_back(notebook["cells"], master["cells"], grade_id, notes)
    new = ipynb.to_bytes(notebook)
    if notebook == ipynb.parse(old):
        return Reset(target, None, (exercise,), tuple(notes))
    kept_as = _keep(target, old, "before-reset")
    write_atomically(target, new)
    if _was_trusted(old):
        trust(target)
    return Reset(target, kept_as, (exercise,), tuple(notes))


def _put_back(
    cells: list[ipynb.Cell], master: list[ipynb.Cell], grade_id: str, notes: list[str]
) -> None:
    """Make the learner's one cell with this grade id what it was; insert it if it is gone."""
    original = next((cell for cell in master if ipynb.grade_id(cell) == grade_id), None)
    if original is None:
        raise WorkspaceError(f"the course has no cell {grade_id}: {cure_for_missing_course()}")
    places = [index for index, cell in enumerate(cells) if _grade_id(cell) == grade_id]
    if not places:  # an editor that drops metadata may have kept the ids
        places = [i for i, cell in enumerate(cells) if cell.get("id") == original.get("id")][:1]
    if not places:
        cells.insert(_place(cells, master, original), dict(original))
        notes.append(f"the cell {grade_id} was missing: it was put back")
        return
    first, *copies = places
    cells[first] = dict(original)
    for index in reversed(copies):
        del cells[index]
    if copies:
        notes.append(f"the cell {grade_id} stood there {len(places)} times: one was left")


def _grade_id(cell: ipynb.Cell) -> str:
    """A cell's grade id as it is called now."""
    return renamed.current_grade_id(ipynb.grade_id(cell))


def _place(cells: list[ipynb.Cell], master: list[ipynb.Cell], original: ipynb.Cell) -> int:
    """Where a missing cell belongs: after the nearest cell before it that is still there."""
    for before in reversed(master[: master.index(original)]):
        for index, cell in enumerate(cells):
            same_name = ipynb.grade_id(before) and _grade_id(cell) == ipynb.grade_id(before)
            if same_name or cell.get("id", "") == before.get("id"):
                return index + 1
    return len(cells)


def _keep(path: Path, content: bytes, why: str) -> Path:
    """Write the old content beside the file, under a name that is not taken."""
    stem = f"{path.stem}.{why}-{datetime.now():%Y%m%dT%H%M%S}"
    names = (f"{stem}{extra}.ipynb" for extra in ("", *(f"-{n}" for n in range(2, 1000))))
    kept = next(path.with_name(name) for name in names if not path.with_name(name).exists())
    write_atomically(kept, content)
    return kept
