"""Lesson 10 shows every measured record beside published runs: here some that are invented."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import nbformat
import pytest
from invented_record import INVENTED

from amp_lessons.amp.speed import records

ROOT = Path(__file__).resolve().parents[2]


def cell_with(part: str) -> str:
    """The one code cell of the lesson that holds a text."""
    notebook = nbformat.read(ROOT / "notebooks/10_speed.ipynb", as_version=4)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    (found,) = [source for source in code if part in source]
    return found


@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_lesson_shows_any_number_of_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, count: int
) -> None:
    monkeypatch.chdir(tmp_path)
    for i in range(count):
        data = copy.deepcopy(INVENTED) | {"name": f"invented-{i}", "gpu": "NVIDIA H200"}
        row = data["rows"][0]
        faster = {"mode": "AMP FP16", "samples_s": [0.010, 0.011], "departs": None}
        data["rows"].append(row | faster | {"roof": None, "step_bytes": None})
        (tmp_path / f"{i}.json").write_text(json.dumps(data))
    found = records.load_records(tmp_path)
    assert len(found) == count
    monkeypatch.setattr("amp_lessons.amp.speed.load_records", lambda: found)  # as the cell takes it
    exec(compile(cell_with("published_beside(record)"), "lesson 10", "exec"), {})
    printed = capsys.readouterr().out
    assert "no record of your own yet" in printed
    assert printed.count("2.05 x FP32") == count, "21.5 ms divided by 10.5 ms"
    assert printed.count("NVIDIA H200, ") == count
