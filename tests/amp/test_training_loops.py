"""Lesson 07: what its cells show, as numbers, and what its text says beside them."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
import torch
from stored import Stored, left_by
from torch import nn

STORED = Stored("training_loops")
DEEP = Stored("training_loops", deep=True)


@pytest.fixture(scope="module")
def lesson() -> dict[str, Any]:
    """The lesson's functions, and what they need."""
    defines = ("our_pixels, big =", "def train(", "def step_in_pieces")
    return left_by(STORED.cell(part).source for part in defines)


# ---- accumulation -------------------------------------------------------------------------------


def in_pieces() -> dict[str, list[float]]:
    """The error after 1 step and after 10, and the largest of all, as the lesson prints them."""
    lines = STORED.printed("in_four = train").splitlines()
    assert all("after 1 step" in line and "after 10" in line for line in lines)
    rows = {line[:9].strip(): re.findall(r"\d+\.\d+|inf", line) for line in lines}
    return {name: [float(word) for word in words] for name, words in rows.items()}


def test_undivided_pieces_learn_faster_at_first_and_then_burst():
    rows = in_pieces()
    assert rows["/ 4"] == rows["one batch"]
    assert "0.015 in step 150" in STORED.printed("one_batch = train")
    assert rows["undivided"][0] < 0.8 * rows["one batch"][0]
    assert rows["undivided"][1] > 1.5 * rows["one batch"][1]
    assert not rows["undivided"][2] < 1e6


@pytest.mark.slow
def test_four_divided_pieces_are_one_batch(lesson):
    """And two undivided halves are even a little better."""
    train, step, pictures = (lesson[name] for name in ("train", "step_in_pieces", "pictures"))
    one_batch = lesson["one_batch"]
    assert train(step, pictures.split(150), divisor=4) == pytest.approx(one_batch, rel=0.02)
    assert one_batch[-1] == pytest.approx(0.015, abs=5e-4)
    assert train(step, pictures.split(300), divisor=1)[-1] < one_batch[-1]


@pytest.mark.slow
def test_adam_hides_the_missing_division(lesson):
    def last_error(divisor: int) -> float:
        model = lesson["autoencoder"]().to(lesson["device"])
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        scaler = lesson["GradScaler"](lesson["device"])
        step = lesson["step_in_pieces"]
        four = lesson["pictures"].split(150)
        return [step(model, optimizer, scaler, four, divisor) for _ in range(60)][-1]

    assert last_error(1) == pytest.approx(last_error(4), rel=0.1)


# ---- the schedule -------------------------------------------------------------------------------


def test_the_schedule_that_counts_skips_ends_at_a_larger_error():
    found = STORED.curves("scheduled(True)")
    real, each = found["after real steps"], found["each iteration"]
    assert real[:8] == each[:8]
    assert real[0] == real[8] > real[9]  # eight skipped steps
    assert real[-1] == pytest.approx(0.073, abs=0.002)
    assert each[-1] == pytest.approx(0.154, abs=0.002)


# ---- the resume ---------------------------------------------------------------------------------


def test_the_first_run_brings_its_scale_down_and_so_does_a_new_scaler():
    """The picture has the scale that each step used: one that was skipped halves the next."""
    found = STORED.curves("without_scaler, records")
    exponents = found["exponent of the scale"]
    assert len(exponents) == 48
    assert exponents[11] == 9
    assert exponents[12:19] == [16, 15, 14, 13, 12, 11, 10]  # 6 skipped steps from 2^16 on
    assert exponents[-1] == 10
    assert all(now >= before for before, now in pairwise(exponents[18:]))
    flat = found["resumed"][12:19]
    assert min(flat) > 0.9 * flat[0]
    assert found["not interrupted"][16] < 0.6 * found["not interrupted"][12]


def test_each_part_shows_where_the_lesson_says(lesson):
    output = STORED.printed("the first loss that differs")
    shown = dict(re.findall(r"without ([a-z ]+?) +the first loss that differs: (\w+)", output))
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
    for each in (STORED, DEEP):
        printed = "".join(o.get("text", "") for cell in each.code for o in cell.outputs)
        assert not re.search(r"\b(True|False|yes|no|ok)\s*$", printed, re.MULTILINE)


def test_the_deeper_notebook_runs_and_agrees_with_its_predictions():
    found = DEEP.left_behind()
    assert found["each_time"].module.weight.item() == pytest.approx(2.6)
    assert found["each_real_step"].module.weight.item() == pytest.approx(2.5)
    assert sum(found["steps"].values()) == 6  # 2 and 3, and one more of the first
    assert len(found["finite"]) < len(found["norms"])
