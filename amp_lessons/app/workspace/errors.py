"""What can go wrong with a workspace, and the cure where the course itself is not complete."""

from __future__ import annotations

import sys

from amp_lessons.core import catalogue
from amp_lessons.core.errors import AmpLessonsError


class WorkspaceError(AmpLessonsError):
    """The workspace cannot be made, changed or opened. The message is one line with the cure."""


def cure_for_missing_course() -> str:
    """What to do when the course's own files are not complete."""
    if catalogue.checkout():
        return "run make notebooks"
    return f"{sys.executable} -m pip install --force-reinstall --no-deps amp-lessons"
