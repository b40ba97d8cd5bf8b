"""Lesson 02: its three runs break as it says, and the cures work. What its text and its predictions
state in numbers is held here; formulas that stand alone are proved in the question bank."""

from __future__ import annotations

import math
from typing import Any

import nbformat
import pytest
import torch

from amp_lessons.course import checkout, lesson_called
from amp_lessons.experiments import rounded_at_random


@pytest.fixture(scope="module")
def lesson() -> dict[str, Any]:
    """What the lesson's cells leave behind, run from top to bottom."""
    path = checkout() / lesson_called("how_numbers_break").notebook
    namespace: dict[str, Any] = {"print": lambda *_, **__: None}
    for cell in nbformat.read(path, as_version=4).cells:
        left_out = {"live", "question"} & set(cell.metadata.get("tags", []))
        if cell.cell_type == "code" and not left_out:
            exec(compile(cell.source, "<lesson 02>", "exec"), namespace)
    return namespace


def test_each_run_breaks_in_its_own_way(lesson):
    fp32, run_a, run_b, run_c = (lesson[name] for name in ("fp32", "run_a", "run_b", "run_c"))
    assert fp32[-1] < 0.055
    assert len(set(run_a)) == 1
    assert math.isfinite(run_b[0])
    assert all(math.isnan(error) for error in run_b[1:])
    assert run_c[49] == pytest.approx(fp32[49], abs=0.002)
    assert run_c[-1] > 1.3 * fp32[-1]


def lost(lesson, divisor):
    found = lesson["gradients"](divisor=divisor, autocast=torch.float16)
    return ((lesson["exact"] != 0) & (found == 0)).sum().item() / lesson["nonzero"]


def test_a_fifth_is_too_small_and_all_are_lost(lesson):
    assert lesson["nonzero"] == 10_192
    assert lesson["too_small"] / lesson["nonzero"] == pytest.approx(0.19, abs=0.01)
    assert lost(lesson, lesson["big"]) == 1


@pytest.mark.long
def test_half_of_the_gradients_are_not_enough_and_most_of_them_are(lesson):
    assert lost(lesson, 30_000_000) == pytest.approx(0.49, abs=0.01)
    half_lost, last = lesson["half_lost"], lesson["fp32"][-1]
    assert min(half_lost) == pytest.approx(0.083, abs=0.003)
    assert half_lost[-1] > max(1.5 * last, min(half_lost) + 0.01)

    assert 0.02 < lost(lesson, 1_000_000) < 0.05
    model = lesson["autoencoder"]()
    few_lost = lesson["train"](model, divisor=1_000_000, autocast=torch.float16)
    assert few_lost[-1] == pytest.approx(last, abs=0.002)


@pytest.mark.long
def test_the_scales_that_cure_a_and_b(lesson):
    last, train, autoencoder = (lesson[name] for name in ("fp32", "train", "autoencoder"))
    assert lesson["scaled"][-1] == pytest.approx(last[-1], abs=0.001)
    fits = train(autoencoder(), divisor=1, scale=16, autocast=torch.float16)
    assert fits[-1] == pytest.approx(last[-1], abs=0.001)
    too_large = train(autoencoder(), divisor=1, scale=64, autocast=torch.float16)
    assert math.isnan(too_large[-1])


def test_infs_come_first_and_all_are_negative(lesson):
    painted, _, first_layer = lesson["places"].values()
    assert painted.isinf().double().mean() == pytest.approx(0.30, abs=0.01)
    assert not painted.isnan().any()
    assert not painted.isposinf().any()
    assert first_layer.isnan().all()


def test_fp32_weights_cure_c_and_a_smaller_rate_does_not(lesson):
    last = {name: errors[-1] for name, errors in lesson["curves"].items()}
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
