"""The files beside the pages: modules as they are, a style sheet, data, notebooks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from amp_lessons.core.catalogue import WHEEL
from amp_lessons.lessons.widgets import loss_scale_runs
from amp_lessons.lessons.widgets.files import FOLDERS, STATIC
from amp_lessons.quiz.exports import contents, page
from website import lookup, policies, quizpage
from website.places import Places
from website.widgets import RECORDED

ROOT = Path(__file__).resolve().parents[2]
OWN = Path(__file__).parent / "static"
MODULES = (*FOLDERS, contents.STATIC, OWN)
"""The folders of the modules. Each name is in one of them only, so one folder holds them all."""
RECORDS_ALONE = {"widgets.json", "wrong_answers.json"}
"""Records that are read while building, and have no place on the site."""


def copy(folder: Path, to: Places) -> None:
    """Put everything but the pages into the site's folder."""
    (folder / "modules").mkdir(parents=True, exist_ok=True)
    for place in MODULES:
        for path in sorted(place.glob("*.mjs")):
            target = folder / "modules" / path.name
            assert not target.exists(), f"two modules are called {path.name}"
            shutil.copyfile(path, target)
    (folder / "widgets.css").write_text(_widgets_css(), encoding="utf-8")
    shutil.copyfile(OWN / "site.css", folder / "site.css")
    _data(folder / "data")
    for part in ("notebooks", "exercises"):
        for path in sorted((ROOT / part).rglob("*.ipynb")):
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(notebook(path, to), encoding="utf-8")
    for path in sorted((ROOT / "docs").glob("*.png")):
        shutil.copyfile(path, folder / "docs" / path.name)


def notebook(path: Path, to: Places) -> str:
    """A notebook, as people get it from the site: its set-up cell knows the release's address."""
    text = path.read_text(encoding="utf-8")
    assert text.count(f'\\"{WHEEL}\\"') == 1, f"{path}: no set-up cell"
    return text.replace(WHEEL, to.wheel or WHEEL)


def _widgets_css() -> str:
    first = [_css(name) for name in page.STYLES]
    others = [path.read_text(encoding="utf-8") for path in sorted(STATIC.glob("*.css"))]
    return "\n".join(first + others)


def _css(name: str) -> str:
    places = (each / name for each in (*FOLDERS, contents.STATIC))
    return next(path for path in places if path.is_file()).read_text(encoding="utf-8")


def _data(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(RECORDED.glob("*.json")):
        if path.name not in RECORDS_ALONE:
            shutil.copyfile(path, folder / path.name)
    made = {
        "loss_scale.json": loss_scale_runs.plain_data(),
        "bank.json": quizpage.data(),
        "errors.json": lookup.data(),
        "policies.json": policies.data(),
    }
    for name, found in made.items():
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        (folder / name).write_text(text, encoding="utf-8")
