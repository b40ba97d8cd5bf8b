"""Lesson 10 draws every measured record there is: here two, which are invented."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import nbformat
import pytest
from test_records import INVENTED

from amp_lessons import records
from amp_lessons.plots import Picture

ROOT = Path(__file__).resolve().parent.parent


def cells(*parts: str) -> list[str]:
    """The code cells of the lesson that hold one of these texts, in order."""
    notebook = nbformat.read(ROOT / "notebooks/10_speed.ipynb", as_version=4)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    found = [source for source in code if any(part in source for part in parts)]
    assert len(found) == len(parts)
    return found


@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_lesson_shows_any_number_of_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, count: int
) -> None:
    for i in range(count):
        data = copy.deepcopy(INVENTED) | {"name": f"invented-{i}"}
        row = data["rows"][0]
        faster = {"mode": "AMP FP16", "samples_s": [0.010, 0.011], "departs": None}
        data["rows"].append(row | faster | {"roof": None, "step_bytes": None})
        (tmp_path / f"{i}.json").write_text(json.dumps(data))
    found = records.load_records(tmp_path)
    assert len(found) == count
    monkeypatch.setattr(records, "load_records", lambda: found)
    first, table, pictures = cells("h200 = find_gpu", "measured = [record for", "display(plots")
    pictures_shown: list[Picture] = []
    monkeypatch.setattr("IPython.display.display", pictures_shown.append)
    namespace: dict[str, object] = {}
    for source in (first, table, pictures):
        exec(compile(source, "lesson 10", "exec"), namespace)
    printed = capsys.readouterr().out
    assert ("not measured here" in printed) == (count == 0)
    assert printed.count("Imaginary GPU") == count
    assert printed.count("2.05 x") == count, "21.5 ms by 10.5 ms"
    assert len(pictures_shown) == count
    assert all("Imaginary GPU, measured" in picture.alt for picture in pictures_shown)
