"""Putting an exercise or a notebook back as it was handed out; the old one stays beside it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from amp_lessons.app.workspace.copying import FOLDERS, course_files, handed_out_form, reason
from amp_lessons.app.workspace.errors import WorkspaceError, cure_for_missing_course
from amp_lessons.app.workspace.manifest import digests, read_manifest, write_manifest
from amp_lessons.app.workspace.trust import trust, was_trusted
from amp_lessons.core import catalogue, ipynb
from amp_lessons.core.files import keep_beside, write_atomically


@dataclass(frozen=True)
class Reset:
    """What `reset` did: the file it restored, the copy of the old one, and lines to tell."""

    file: Path
    kept_as: Path | None
    exercises: tuple[str, ...]
    notes: tuple[str, ...] = ()


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
        read_manifest(folder)  # a newer course's workspace is refused before anything changes
        if whole is not None:
            return _reset_notebook(folder, whole)
        _refuse_misspelt_notebook(name)
        return _reset_exercise(folder, name)
    except OSError as error:
        raise WorkspaceError(
            f"{reason(error, folder)}. None of your work was lost. Fix that and run it again"
        ) from error


def _notebook_called(name: str) -> str | None:
    """The path in the course that a notebook's id, stem or path stands for; None for others."""
    files = dict(course_files())
    plain = name.replace("\\", "/").removeprefix("./").removesuffix(".ipynb")
    paths = (f"{plain}.ipynb", *(f"{folder}/{plain}.ipynb" for folder in reversed(FOLDERS)))
    return next((path for path in paths if path in files), None)


def _refuse_misspelt_notebook(name: str) -> None:
    """Offer the nearest notebook to a name that is more like one than like an exercise."""
    if "/" in name or name[:1].isdigit() or name.endswith(".ipynb"):
        names = [path.removesuffix(".ipynb") for path, _ in course_files()]
        names += [Path(path).name for path in names]
        close = difflib.get_close_matches(name.removesuffix(".ipynb"), names, n=3)
        meant = f"did you mean {', '.join(close)}?" if close else f"take one such as {names[-1]}"
        raise catalogue.UnknownExercise(f"no notebook is called {name!r}; {meant}")


def _reset_notebook(folder: Path, name: str, notes: tuple[str, ...] = ()) -> Reset:
    target, newest = folder / name, handed_out_form(catalogue.course_files() / name)
    kept_as = None
    if target.exists():
        old = target.read_bytes()
        kept_as = None if old == newest else keep_beside(target, old, "before-reset")
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, newest)
    handed_out = read_manifest(folder)
    write_manifest(folder, handed_out | {name: digests(newest)})
    lessons = [lesson for lesson in catalogue.LESSONS if name == lesson.sheet]
    exercises = tuple(info.name for lesson in lessons for info in lesson.exercises)
    return Reset(target, kept_as, exercises, notes)


def _reset_exercise(folder: Path, exercise: str) -> Reset:
    """Put back the solution cell and the check cell of one exercise."""
    name = catalogue.lesson_of(exercise).sheet
    target = folder / name
    if not target.exists():
        return _reset_notebook(folder, name, (f"{name} was missing: all of it was put back",))
    old = target.read_bytes()
    try:
        notebook = ipynb.parse(old)
    except ipynb.NotebookError as error:
        return _reset_notebook(folder, name, (f"your {name} {error}: all of it was put back",))
    master = ipynb.read(catalogue.course_files() / name)
    notes: list[str] = []
    for grade_id in (exercise, f"{exercise}_check"):
        _put_back(notebook["cells"], master["cells"], grade_id, notes)
    new = ipynb.to_bytes(notebook)
    if notebook == ipynb.parse(old):
        return Reset(target, None, (exercise,), tuple(notes))
    kept_as = keep_beside(target, old, "before-reset")
    write_atomically(target, new)
    if was_trusted(old):
        trust(target)
    return Reset(target, kept_as, (exercise,), tuple(notes))


def _put_back(
    cells: list[ipynb.Cell], master: list[ipynb.Cell], grade_id: str, notes: list[str]
) -> None:
    """Make the learner's one cell with this grade id what it was; insert it if it is gone."""
    original = next((cell for cell in master if ipynb.grade_id(cell) == grade_id), None)
    if original is None:
        raise WorkspaceError(f"the course has no cell {grade_id}: {cure_for_missing_course()}")
    places = [index for index, cell in enumerate(cells) if ipynb.grade_id(cell) == grade_id]
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


def _place(cells: list[ipynb.Cell], master: list[ipynb.Cell], original: ipynb.Cell) -> int:
    """Where a missing cell belongs: after the nearest cell before it that is still there."""
    for before in reversed(master[: master.index(original)]):
        for index, cell in enumerate(cells):
            same_name = ipynb.grade_id(before) and ipynb.grade_id(cell) == ipynb.grade_id(before)
            if same_name or cell.get("id", "") == before.get("id"):
                return index + 1
    return len(cells)
