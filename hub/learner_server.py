"""What JupyterHub runs for one learner: bring their copy of the course up to date, then Lab.

It does what `amp-lessons lab` does, with JupyterHub's own server in the end. It runs as the
learner, so the files are theirs under each of JupyterHub's spawners. What they changed stays.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from amp_lessons.app.lab import as_root
from amp_lessons.app.workspace import WorkspaceError, copy_course

FOLDER = Path.home() / "amp-lessons"


def main(arguments: list[str]) -> None:
    """Copy the course, then become `jupyterhub-singleuser`, which learns the rest from the hub."""
    try:
        copy_course(FOLDER)
    except WorkspaceError as error:
        print(f"learner_server.py: {error}", file=sys.stderr)
        if not FOLDER.is_dir():
            sys.exit(1)  # else the learner works with the copy that is there
    os.chdir(FOLDER)
    words = [sys.executable, "-m", "jupyterhub.singleuser", *arguments]
    os.execv(sys.executable, [*words, "--allow-root"] if as_root() else words)


if __name__ == "__main__":
    main(sys.argv[1:])
