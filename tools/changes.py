"""What has changed, as git sees it: files, and what stored notebooks once showed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MAIN = ("upstream/main", "origin/main", "main", "HEAD")
"""A change is what differs from the first of these that there is."""


class ChangesError(Exception):
    """Git can't say what has changed. The message is one line with the cure."""


@dataclass(frozen=True)
class Changes:
    """What differs from a commit, committed or not, and what git doesn't know yet.

    Attributes:
        since: the commit as somebody reads it, such as ``"origin/main (4e2c303)"``.
        base: the commit.
        paths: below the root, in alphabetical order; files that are gone, too.
    """

    since: str
    base: str
    paths: tuple[str, ...]


def changes(root: Path, since: str = "", files: Sequence[str] = ()) -> Changes:
    """What has changed since a revision, or since the branch left the main one.

    Args:
        root: of the repository.
        since: such as ``"HEAD~3"``. Of a branch it's the commit that both have in common.
        files: look at these, changed or not.

    Raises:
        ChangesError: outside of a repository, and for a revision or a file that there isn't.
    """
    try:
        _git(root, "rev-parse", "--git-dir")
    except FileNotFoundError:
        raise ChangesError("git isn't installed, and only git knows what has changed") from None
    except subprocess.CalledProcessError:
        raise ChangesError(
            f"{root} isn't a git repository: clone the course to work on it"
        ) from None
    name = since or next(name for name in MAIN if _commit(root, name))
    if not _commit(root, name):
        raise ChangesError(f"git knows no revision {name!r}: take one such as HEAD~3")
    base = _git(root, "merge-base", name, "HEAD").strip()
    if files:
        paths = [_below(root, file) for file in files]
    else:
        paths = _git(root, "diff", "--name-only", "--no-renames", "-z", base).split("\0")
        paths += _git(root, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return Changes(f"{name} ({base[:7]})", base, tuple(sorted({path for path in paths if path})))


def ran_differently(root: Path, base: str) -> list[str]:
    """The stored notebooks whose code, or what it showed, isn't what it was.

    The sheets in ``exercises/`` are stored without outputs and wait for answers: nothing runs them.
    """
    listed = _git(root, "diff", "--name-only", "-z", base, "--", "*.ipynb").split("\0")
    listed += _git(root, "ls-files", "--others", "--exclude-standard", "-z", "*.ipynb").split("\0")
    run = [path for path in listed if path.partition("/")[0] in ("notebooks", "solutions")]
    there = [path for path in run if (root / path).exists()]
    return [path for path in there if _ran(_text(root, path)) != _ran(_before(root, base, path))]


def _ran(text: str) -> list[object]:
    cells = json.loads(text)["cells"] if text else []
    return [[c["source"], c["outputs"]] for c in cells if c["cell_type"] == "code"]


def _text(root: Path, path: str) -> str:
    return (root / path).read_text(encoding="utf-8")


def _before(root: Path, base: str, path: str) -> str:
    try:
        return _git(root, "show", f"{base}:{path}")
    except subprocess.CalledProcessError:
        return ""


def _below(root: Path, file: str) -> str:
    path = Path(file).resolve()
    if not path.is_file() or not path.is_relative_to(root):
        raise ChangesError(f"{root} has no file {file}")
    return path.relative_to(root).as_posix()


def _commit(root: Path, name: str) -> bool:
    try:
        return bool(_git(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"))
    except subprocess.CalledProcessError:
        return False


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=root, capture_output=True, text=True, check=True, encoding="utf-8"
    )
    return done.stdout
