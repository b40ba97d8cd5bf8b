"""Lesson 10 shows every measured record beside published runs: here some that are invented."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import nbformat
import pytest
from invented_record import INVENTED

from amp_lessons.amp.speed import published, records

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


def test_what_the_lesson_says_of_its_six_models():
    """All six gain less on the A100, which starts ahead of the V100 in mixed precision."""
    found = published.load_published()
    names = "BERT", "HiFi-GAN", "nnU-Net", "SSD300", "Tacotron 2", "Transformer big"
    every = published.first_variants(published.on_both(found.best_pairs()))
    gains = {gpu: {p.name: p.speedup for p in published.on(every, gpu)} for gpu in ("V100", "A100")}
    six = [pair.name for pair in published.on(published.of(every, *names), "A100")]
    assert len(six) == 6
    assert all(gains["A100"][name] < gains["V100"][name] for name in six)
    assert sum(gains["A100"][name] < gains["V100"][name] for name in gains["A100"]) == 23
    alone = published.first_variants(published.one_gpu(found.training))
    rates = published.four_rates(published.of(alone, *names))
    assert all(row.a100_tf32 > row.v100_mixed for row in rates)


def test_with_one_picture_at_a_time_each_of_its_runs_is_slower():
    rows = published.of(
        published.load_published().inference, "ResNet50", "EfficientNet-b0", "SSD300"
    )
    single = [row.speedup for row in rows if row.batch == 1]
    assert len(single) == 6
    assert max(single) < 1
