"""Lesson 07: what its cells show, as numbers, and what its text says beside them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from torch import nn

from amp_lessons.course import lesson_called

ROOT = Path(__file__).resolve().parent.parent
LESSON = lesson_called("training_loops")
CELLS = nbformat.read(ROOT / LESSON.notebook, as_version=4).cells
DEEP = nbformat.read(ROOT / LESSON.deep_notebook, as_version=4).cells


def left_behind(cells: list[Any]) -> dict[str, Any]:
    namespace: dict[str, Any] = {"print": lambda *_, **__: None}
    for cell in cells:
        asks = "question" in cell.metadata.get("tags", [])
        if cell.cell_type == "code" and not asks and "home.finished" not in cell.source:
            exec(compile(cell.source, "<lesson 07>", "exec"), namespace)
    return namespace


@pytest.fixture(scope="module")
def lesson() -> dict[str, Any]:
    """What the lesson's cells leave behind, run from top to bottom."""
    return left_behind(CELLS)


def printed(cells: list[Any]) -> str:
    return "".join(o.text for c in cells for o in c.get("outputs", []) if "text" in o)


# ---- accumulation -------------------------------------------------------------------------------


def test_four_divided_pieces_are_one_batch(lesson):
    assert lesson["in_four"] == pytest.approx(lesson["one_batch"], rel=0.02)
    assert lesson["one_batch"][-1] == pytest.approx(0.015, abs=5e-4)


def test_undivided_pieces_learn_faster_at_first_and_then_burst(lesson):
    undivided, one_batch = lesson["undivided"], lesson["one_batch"]
    assert undivided[1] < 0.8 * one_batch[1]
    assert undivided[10] > 1.5 * one_batch[10]
    assert not max(undivided) < 1e6
    halves = lesson["train"](lesson["step_in_pieces"], lesson["pictures"].split(300), divisor=1)
    assert halves[-1] < one_batch[-1]  # "even learns a little faster"


def test_adam_hides_the_missing_division(lesson):
    def last_error(divisor: int) -> float:
        model = lesson["autoencoder"]().to(lesson["device"])
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        scaler = lesson["GradScaler"](lesson["device"])
        step = lesson["step_in_pieces"]
        return [step(model, optimizer, scaler, lesson["four"], divisor) for _ in range(60)][-1]

    assert last_error(1) == pytest.approx(last_error(4), rel=0.1)


# ---- the schedule -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Detected call of")
def test_the_schedule_that_counts_skips_ends_at_a_larger_error(lesson):
    real, each = lesson["scheduled"](True), lesson["scheduled"](False)
    assert real[:8] == each[:8]
    assert real[0] == real[8] > real[9]  # eight skipped steps
    assert real[-1] == pytest.approx(0.073, abs=0.002)
    assert each[-1] == pytest.approx(0.154, abs=0.002)


# ---- the resume ---------------------------------------------------------------------------------


def test_the_first_run_brings_its_scale_down_and_so_does_a_new_scaler(lesson):
    records = lesson["records"]
    assert [record.step for record in records] == list(range(48))
    assert records[11].scale == 512
    assert [r.step for r in records if r.skipped and r.step >= 12] == [12, 13, 14, 15, 16, 17]
    assert records[-1].scale == 1024
    flat = lesson["without_scaler"][12:19]
    assert min(flat) > 0.9 * flat[0]
    assert lesson["whole"][16] < 0.6 * lesson["whole"][12]


def test_each_part_shows_where_the_lesson_says(lesson):
    shown = dict(
        re.findall(r"without ([a-z ]+?) +the first loss that differs: (\w+)", printed(CELLS))
    )
    assert shown == {
        "nothing": "none",
        "model": "1",
        "optimizer": "2",
        "scaler": "2",
        "scheduler": "14",
        "batches": "1",
        "random numbers": "1",
    }


# ---- the validation -----------------------------------------------------------------------------


def test_batch_norm_keeps_the_nan_until_its_statistics_are_gathered_again(lesson):
    """And then the model is repaired, as the explanation says."""
    first, *rest = lesson["autoencoder"]()
    model = nn.Sequential(first, nn.BatchNorm1d(64), *rest).to(lesson["device"])
    loss, pictures = lesson["painting_loss"], lesson["pictures"]
    with torch.no_grad():
        loss(model, torch.full_like(pictures, 1e6))
        for _ in range(100):
            loss(model, pictures)
        assert loss(model.eval(), pictures)[1] != loss(model.eval(), pictures)[1]
        model.train()[1].reset_running_stats()
        for _ in range(100):
            trained = loss(model, pictures)[1]
        assert loss(model.eval(), pictures)[1] == pytest.approx(trained, rel=0.02)


def test_scaled_gradients_that_overflow_leave_the_statistics_alone(lesson):
    first, *rest = lesson["autoencoder"]()
    model = nn.Sequential(first, nn.BatchNorm1d(64), *rest).to(lesson["device"])
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scaler = lesson["GradScaler"](lesson["device"], init_scale=2.0**50)
    lesson["step_in_pieces"](model, optimizer, scaler, [lesson["pictures"]], divisor=1)
    assert scaler.get_scale() == 2.0**49
    assert model[1].running_mean.isfinite().all()


# ---- how it is told -----------------------------------------------------------------------------


def test_no_line_of_output_is_a_bare_true_or_false():
    for cells in (CELLS, DEEP):
        assert not re.search(r"\b(True|False|yes|no|ok)\s*$", printed(cells), re.MULTILINE)


def test_the_deeper_notebook_runs_and_agrees_with_its_predictions():
    found = left_behind(DEEP)
    assert found["each_time"].module.weight.item() == pytest.approx(2.6)
    assert found["each_real_step"].module.weight.item() == pytest.approx(2.5)
    assert sum(found["steps"].values()) == 6  # 2 and 3, and one more of the first
    assert len(found["finite"]) < len(found["norms"])
