"""Lesson 02: its three runs break as it says, and the cures work. What its text and its predictions
state in numbers is held here; formulas that stand alone are proved in the question bank.

The curves are read from the built notebook, which nbval holds to what a run shows.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from stored import Stored

from amp_lessons.lessons.experiments import rounded_at_random

STORED = Stored("how_numbers_break")
TRAININGS = ("run_a = train", "half_lost = train", "scaled = train", "curves[name] = train")
RUNS = "run_a = train"  # the cell that trains the three runs


@pytest.fixture(scope="module")
def lesson() -> dict[str, Any]:
    """What the lesson's cells leave behind, run from top to bottom, without its trainings."""
    return STORED.left_behind(without=(*TRAININGS, "GradientHistogram"))


def last_in_fp32() -> float:
    return STORED.curves("half_lost = train")["FP32"][-1]


def test_each_run_breaks_in_its_own_way(lesson):
    rows = [line.split() for line in STORED.printed(RUNS).splitlines()]
    assert rows[0] == ["error", "per", "pixel", "in", "step", "1", "2", "50", "400"]
    fp32, run_a, run_b, run_c = ([float(word) for word in row[1:]] for row in rows[1:])
    assert fp32[-1] < 0.055
    assert len(set(run_a)) == 1
    assert math.isfinite(run_b[0])
    assert all(math.isnan(error) for error in run_b[1:])
    assert run_c[2] == pytest.approx(fp32[2], abs=0.002)
    assert run_c[-1] > 1.3 * fp32[-1]


def test_run_a_stands_still_to_the_bit_and_run_b_is_nan_from_its_second_step(lesson):
    """A few steps show it: A's weights don't change, and B's stay NaN."""
    half = {"autocast": torch.float16, "steps": 5}
    model = lesson["autoencoder"]()
    assert len(set(lesson["train"](model, divisor=lesson["big"], **half))) == 1
    for trained, new in zip(model.parameters(), lesson["autoencoder"]().parameters(), strict=True):
        assert torch.equal(trained, new)
    run_b = lesson["train"](lesson["autoencoder"](), divisor=1, scale=65_536, **half)
    assert math.isfinite(run_b[0])
    assert all(math.isnan(error) for error in run_b[1:])


def lost(lesson, divisor):
    found = lesson["gradients"](divisor=divisor, autocast=torch.float16)
    return ((lesson["exact"] != 0) & (found == 0)).sum().item() / lesson["nonzero"]


def test_a_fifth_is_too_small_and_all_are_lost(lesson):
    assert lesson["nonzero"] == 10_192
    assert lesson["too_small"] / lesson["nonzero"] == pytest.approx(0.19, abs=0.01)
    assert lost(lesson, lesson["big"]) == 1


@pytest.mark.slow
def test_half_of_the_gradients_are_not_enough_and_most_of_them_are(lesson):
    assert lost(lesson, 30_000_000) == pytest.approx(0.49, abs=0.01)
    half_lost, last = STORED.curves("half_lost = train")["FP16"], last_in_fp32()
    assert min(half_lost) == pytest.approx(0.083, abs=0.003)
    assert half_lost[-1] > max(1.5 * last, min(half_lost) + 0.01)

    assert 0.02 < lost(lesson, 1_000_000) < 0.05
    model = lesson["autoencoder"]()
    few_lost = lesson["train"](model, divisor=1_000_000, autocast=torch.float16)
    assert few_lost[-1] == pytest.approx(last, abs=0.002)


@pytest.mark.slow
def test_the_scales_that_cure_a_and_b(lesson):
    last, train, autoencoder = last_in_fp32(), lesson["train"], lesson["autoencoder"]
    cured_a = train(autoencoder(), divisor=lesson["big"], scale=65_536, autocast=torch.float16)
    assert cured_a[-1] == pytest.approx(last, abs=0.001)
    fits = train(autoencoder(), divisor=1, scale=16, autocast=torch.float16)
    assert fits[-1] == pytest.approx(last, abs=0.001)
    too_large = train(autoencoder(), divisor=1, scale=64, autocast=torch.float16)
    assert math.isnan(too_large[-1])


def test_infs_come_first_and_all_are_negative(lesson):
    painted, _, first_layer = lesson["places"].values()
    assert painted.isinf().double().mean() == pytest.approx(0.30, abs=0.01)
    assert not painted.isnan().any()
    assert not painted.isposinf().any()
    assert first_layer.isnan().all()


def test_fp32_weights_cure_c_and_a_smaller_rate_does_not():
    last = {name: errors[-1] for name, errors in STORED.curves("curves[name] = train").items()}
    assert last["FP32 weights"] < 0.05
    assert 0.069 < last["same rate"] < last["a tenth of it"]


def test_numbers_rounded_at_random_are_neighbours_and_right_on_average():
    draw = torch.Generator().manual_seed(0)
    values = torch.full((100_000,), 1.001)
    rounded = rounded_at_random(values, draw)
    assert rounded.dtype == torch.bfloat16
    assert rounded.unique().tolist() == [1.0, 1.0078125]
    assert rounded.double().mean().item() == pytest.approx(1.001, abs=1e-4)
    exact = torch.tensor([0.0, 1.0, -2.5])
    assert rounded_at_random(exact, draw).tolist() == exact.tolist()
    below = rounded_at_random(torch.full((1000,), -1.001), draw)
    assert below.unique().tolist() == [-1.0078125, -1.0]
