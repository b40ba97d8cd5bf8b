"""A temporary folder for a notebook that may do anything in it, and how it is removed afterwards.

`shutil.rmtree` gives up on what a hostile or careless notebook leaves: thousands of nested
folders, folders that may not be read, a process that is still writing. Here nothing is recursive
and no path gets long: each folder's subfolders are moved up to the top before it is removed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE = 30.0
"""Seconds after which a folder that does not get empty is left behind."""

_PAUSE = 0.05  # between two looks at a folder in which a process still writes
_TRIES = 20  # looks in a row that may find nothing to remove


@contextmanager
def scratch_folder(left_behind: list[Path] | None = None) -> Iterator[Path]:
    """A new temporary folder, removed at the end whatever is in it.

    Args:
        left_behind: gets the folder if it could not be removed. That is never an error.
    """
    folder = Path(tempfile.mkdtemp(prefix="amp-grade-"))
    try:
        yield folder
    finally:
        if not remove(folder) and left_behind is not None:
            left_behind.append(folder)


def remove(folder: Path, patience: float = PATIENCE) -> bool:
    """Remove a folder and all that is in it; say whether it is gone. Never raises.

    Symbolic links are removed and never followed.
    """
    if {os.open, os.unlink, os.rmdir, os.rename} <= os.supports_dir_fd:
        with suppress(Exception):
            _Removal(folder, patience).run()
    else:  # Windows
        with suppress(Exception):
            shutil.rmtree(folder, ignore_errors=True)
    return not os.path.lexists(folder)


class _Removal:
    """Empties one folder. ``top`` is its file descriptor: every path here is a single name."""

    def __init__(self, folder: Path, patience: float) -> None:
        self.folder, self.deadline = folder, time.monotonic() + patience
        self.prefix, self.moved = secrets.token_hex(8), 0

    def run(self) -> None:
        self.top = _open(str(self.folder), None)
        try:
            tries = 0
            while time.monotonic() < self.deadline and tries < _TRIES:
                found = _entries(self.top)
                if not found:
                    with suppress(OSError):
                        os.rmdir(self.folder)
                        return
                removed_any = self._remove_all(found)
                tries = 0 if removed_any else tries + 1
                if not removed_any:  # perhaps a process is at work that is about to end
                    time.sleep(_PAUSE)
        finally:
            os.close(self.top)

    def _remove_all(self, entries: list[tuple[str, bool]]) -> bool:
        """Remove these entries of the top folder, with what is below; True if any could be."""
        removed_any = False
        while entries and time.monotonic() < self.deadline:
            name, is_folder = entries.pop()
            with suppress(OSError):
                if is_folder:
                    entries += self._empty(name)
                    os.rmdir(name, dir_fd=self.top)
                else:
                    os.unlink(name, dir_fd=self.top)
                removed_any = True
        return removed_any

    def _empty(self, name: str) -> list[tuple[str, bool]]:
        """Remove the files in a folder, move its folders to the top, and list what was moved."""
        moved = []
        folder = _open(name, self.top)
        try:
            for child, is_folder in _entries(folder):
                with suppress(OSError):
                    if not is_folder:
                        os.unlink(child, dir_fd=folder)
                        continue
                    self.moved += 1
                    new = f"{self.prefix}-{self.moved}"
                    os.close(_open(child, folder))  # only a folder that may be written can move
                    os.rename(child, new, src_dir_fd=folder, dst_dir_fd=self.top)
                    moved.append((new, True))
        finally:
            os.close(folder)
        return moved


def _entries(folder: int) -> list[tuple[str, bool]]:
    """The names in a folder, each with whether it is a folder itself; a link is none."""
    with os.scandir(folder) as found:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]


def _open(name: str, parent: int | None) -> int:
    """Open a folder, after giving its owner every right to it."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    _give_rights(name, parent)
    return os.open(name, flags, dir_fd=parent)


def _give_rights(name: str, parent: int | None) -> None:
    """Make a folder readable and writable, and never what a link in its place points to."""
    with suppress(OSError, NotImplementedError):
        if not hasattr(os, "O_PATH"):
            os.chmod(name, 0o700, dir_fd=parent, follow_symlinks=False)
            return
        folder = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{folder}", 0o700)
        finally:
            os.close(folder)
