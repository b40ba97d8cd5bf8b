"""Build all that a release consists of: ``python tools/build_release.py v0.1.0``.

Refuses a tag that isn't the version in pyproject.toml, and a version not yet dated in CHANGELOG.md.
Writes into `dist/` the wheel, the source archive, a deck of slides for each lesson, the interview
questions as a page and as an Anki deck, and in `notes.md` what CHANGELOG.md says of the version.
The wheel itself makes decks, page and cards, installed where nothing else is. So a wheel that lacks
something fails here. Needs uv, and Python 3.11 or newer. The workflow `release.yml` runs it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - (?P<date>.+))?$", re.MULTILINE)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class ReleaseError(Exception):
    """The release can't be built. The message says why, and what to do."""


def main(arguments: list[str] | None = None) -> int:
    """Build the release; 1 and one line if it can't be built."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tag", help="the tag, such as v0.1.0")
    parser.add_argument("--to", type=Path, default=ROOT / "dist", help="default: dist/")
    chosen = parser.parse_args(arguments)
    try:
        text = notes(chosen.tag, ROOT)
        folder = chosen.to.resolve()
        if folder.exists() and any(folder.iterdir()):
            raise ReleaseError(f"{folder} holds an earlier build: remove it, then run this again")
        uv = shutil.which("uv")
        if uv is None:
            raise ReleaseError("there is no uv on the PATH: pip install uv")
        build(folder, uv)
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"this failed: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        return 1
    (folder / "notes.md").write_text(text, encoding="utf-8")
    return 0


def notes(tag: str, root: Path) -> str:
    """What CHANGELOG.md says of the version that a tag names.

    Raises:
        ReleaseError: if the tag isn't ``v`` and the version in pyproject.toml, or the changelog has
            no section with a date for it.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = project["version"]
    if tag != f"v{version}":
        raise ReleaseError(
            f"the tag is {tag}, but pyproject.toml has {version}: change one of them"
        )
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = list(HEADING.finditer(changelog))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        if heading["version"] != version:
            continue
        if not DATE.fullmatch(heading["date"] or ""):
            raise ReleaseError(f"CHANGELOG.md has no date for {version}: put in today's")
        end = following.start() if following else len(changelog)
        return changelog[heading.end() : end].strip() + "\n"
    raise ReleaseError(f"CHANGELOG.md has no section [{version}]: write one")


def build(folder: Path, uv: str) -> None:
    """Build the archives into a folder, and let the installed wheel write what else belongs there.

    Raises:
        subprocess.CalledProcessError: if a step fails; it has said why.
    """
    run(uv, "build", "--out-dir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    with tempfile.TemporaryDirectory(prefix="amp-lessons-release-") as place:
        run(uv, "venv", "--quiet", "--python", sys.executable, "alone", cwd=place)
        bin_ = Path(place, "alone", "Scripts" if os.name == "nt" else "bin")
        constraints = ROOT / "constraints.txt"
        install = ["install", "--python", bin_ / "python", "--constraint", constraints, wheel]
        run(uv, "pip", *install, cwd=place)
        command = bin_ / "amp-lessons"
        run(command, "--version", cwd=place)
        run(command, "doctor", cwd=place)
        for notebook in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
            deck = folder / f"{notebook.stem}_slides.html"
            run(command, "slides", notebook.stem[:2], "--output", deck, cwd=place)
        run(command, "export", "page", folder / "questions.html", cwd=place)
        run(command, "export", "anki", folder / "questions.apkg", cwd=place)


def run(*command: object, cwd: str | Path = ROOT) -> None:
    """Run a command and let it print. Raises `subprocess.CalledProcessError` if it fails."""
    subprocess.run([str(part) for part in command], cwd=cwd, check=True)


if __name__ == "__main__":
    sys.exit(main())
