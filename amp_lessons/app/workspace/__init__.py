"""The learner's folder: a copy of the course that is theirs.

A manifest in the folder notes each file as it was handed out, so that a file which the learner
changed is told from one which only the course changed: the first is never overwritten, the second
is kept up to date. JupyterLab rewrites a notebook that is only opened and run, so what counts as
changed is the text of its cells. On the home page the cells that show progress are `home`'s, and
are written at each call. Nothing here imports torch; JupyterLab is started by `lab`.
"""

from __future__ import annotations

from pathlib import Path

from amp_lessons.app.workspace.choosing import refuse_elsewhere
from amp_lessons.app.workspace.copying import FOLDERS, START_PAGE, Copied, copy_course
from amp_lessons.app.workspace.errors import WorkspaceError, cure_for_missing_course
from amp_lessons.app.workspace.manifest import MANIFEST, MANIFEST_VERSION
from amp_lessons.app.workspace.messages import in_short
from amp_lessons.app.workspace.resetting import Reset, reset
from amp_lessons.app.workspace.trust import trust
from amp_lessons.core import catalogue

__all__ = [
    "FOLDERS",
    "MANIFEST",
    "MANIFEST_VERSION",
    "START_PAGE",
    "Copied",
    "Reset",
    "WorkspaceError",
    "copy_course",
    "cure_for_missing_course",
    "current_folder",
    "default_folder",
    "in_short",
    "refuse_elsewhere",
    "reset",
    "trust",
]


def default_folder() -> Path:
    """``workspace/`` in a checkout, else ``amp-lessons/`` in the current folder."""
    root = catalogue.checkout()
    return root / "workspace" if root else Path.cwd() / "amp-lessons"


def current_folder() -> Path:
    """The workspace that the current folder lies in, else the default one."""
    here = Path.cwd()
    found = (folder for folder in (here, *here.parents) if (folder / MANIFEST).is_file())
    return next(found, default_folder())
