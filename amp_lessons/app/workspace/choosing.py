"""Whether a folder may become a workspace, asked before `amp-lessons lab` writes into it.

Learners who unzip a hand-out on Windows get a folder within a folder of the same name. The outer
one must not become a second copy, whose solutions are open. `copy_course` doesn't ask: a hub calls
it with places that it has chosen itself.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from amp_lessons.app.workspace.copying import FOLDERS, course_files
from amp_lessons.app.workspace.errors import WorkspaceError
from amp_lessons.app.workspace.manifest import MANIFEST
from amp_lessons.core.handout import FILE, SHEETS

IN_A_ZIP = f"{SHEETS}/{FILE}"


def refuse_elsewhere(place: Path) -> None:
    """Refuse a folder that is no copy of the course and isn't about to become one.

    A new folder, an empty one and every copy of the course pass. Files whose names begin with a
    dot don't count, such as a `.venv` or what macOS leaves behind.

    Raises:
        WorkspaceError: with the command that does what was meant.
    """
    with suppress(OSError):  # what can't be read, `copy_course` reports
        if _is_workspace(place):
            return
        _refuse_within_a_handout(place)
        if not place.exists():
            _refuse_beside_a_zip(place)
        elif place.is_dir() and any(_visible(place)):
            _refuse_full(place)


def _is_workspace(folder: Path) -> bool:
    """Whether the course has written into this folder, even if its manifest was lost on the way."""
    if (folder / MANIFEST).exists() or _is_handout(folder):
        return True
    return any((folder / name).exists() for name, _ in course_files())


def _is_handout(folder: Path) -> bool:
    return (folder / SHEETS / FILE).is_file()


def _visible(folder: Path) -> Iterator[Path]:
    """What is in a folder. The two that an interrupted copy leaves empty are not."""
    for path in sorted(folder.iterdir()):
        left_empty = path.name in FOLDERS and path.is_dir() and not any(path.iterdir())
        if not path.name.startswith(".") and not left_empty:
            yield path


def _refuse_within_a_handout(place: Path) -> None:
    for above in place.absolute().parents:
        if _is_handout(above):
            raise WorkspaceError(
                f"{place} would lie within the hand-out {above}. To open the hand-out: "
                f"amp-lessons lab {_typed(above)}"
            )


def _refuse_beside_a_zip(place: Path) -> None:
    """A hand-out that came as ``class_a.zip`` and was not unzipped."""
    packed = place.with_name(f"{place.name}.zip")
    if not zipfile.is_zipfile(packed):
        return
    with zipfile.ZipFile(packed) as opened:
        names = opened.namelist()
    if IN_A_ZIP in names:
        target = place
    elif f"{place.name}/{IN_A_ZIP}" in names:
        target = place.parent
    else:
        return
    raise WorkspaceError(
        f"there is no folder {place} yet, and {packed} holds a hand-out. Unzip it first: "
        f"{_typed(sys.executable)} -m zipfile -e {_typed(packed)} {_typed(target)}"
    )


def _refuse_full(place: Path) -> None:
    below = [path for path in _visible(place) if path.is_dir()]
    for path in below:
        if _is_handout(path):
            raise WorkspaceError(
                f"the hand-out is one folder further down: amp-lessons lab {_typed(path)}"
            )
    for path in below:
        if (path / MANIFEST).is_file():
            raise WorkspaceError(
                f"your copy of the course is one folder further down: amp-lessons lab "
                f"{_typed(path)}"
            )
    raise WorkspaceError(
        f"{place} has other files in it, and your copy of the course needs a folder of its own: "
        f"amp-lessons lab {_typed(place / 'amp-lessons')}"
    )


def _typed(path: Path | str) -> str:
    """A path as it's typed in a shell, on Windows too."""
    return f'"{path}"' if " " in str(path) else str(path)
