"""What was handed out: for each file, its digest and that of the text in it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from amp_lessons import __version__
from amp_lessons.app import home
from amp_lessons.app.workspace.errors import WorkspaceError
from amp_lessons.core import ipynb
from amp_lessons.core.files import write_atomically

MANIFEST = ".amp-lessons.json"
MANIFEST_VERSION = 1

HandedOut = dict[str, dict[str, str]]
"""The manifest: for each file, `digests` of what the course gave."""


def digests(content: bytes) -> dict[str, str]:
    """The sha256 of a file, and of the text in it that a learner writes.

    For a notebook that text is its cells' sources: to open it, run it and save it changes the
    file and not the text. Cells that `home` draws are nobody's text, and neither is the set-up
    cell: with another address in it, no sheet counts as changed. For any other file it is the
    whole.
    """
    whole = hashlib.sha256(content).hexdigest()
    try:
        cells = ipynb.parse(content)["cells"]
    except ipynb.NotebookError:
        return {"sha256": whole, "text": whole}
    written = [c for c in cells if not home.is_drawn(c) and not ipynb.is_set_up(c)]
    text = json.dumps([(cell["cell_type"], ipynb.source_of(cell)) for cell in written])
    return {"sha256": whole, "text": hashlib.sha256(text.encode()).hexdigest()}


def read_manifest(folder: Path) -> HandedOut:
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


def write_manifest(folder: Path, handed_out: HandedOut) -> None:
    files = dict(sorted(handed_out.items()))
    data = {"version": MANIFEST_VERSION, "course": __version__, "files": files}
    content = (json.dumps(data, indent=1) + "\n").encode()
    path = folder / MANIFEST
    if not path.exists() or path.read_bytes() != content:
        write_atomically(path, content)
