"""The clinic's runs show what the lesson says of them, and its loops differ where it says so."""

from __future__ import annotations

import math

import pytest
import torch

from amp_lessons.lessons import broken_runs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs() -> dict[str, broken_runs.PatientRun]:
    loops = ("healthy", "run_a", "run_b", "run_c", "run_d")
    return {name: broken_runs.examine(getattr(broken_runs, name)) for name in loops}


def test_the_healthy_run_learns_and_its_clipping_changes_nothing(runs, monkeypatch):
    healthy = runs["healthy"]
    assert healthy.errors[-1] < 0.02
    assert (healthy.skipped, healthy.scale) == (0, 65_536)
    monkeypatch.setattr(broken_runs, "MAX_NORM", 1e6)
    assert broken_runs.examine(broken_runs.healthy).errors == healthy.errors


def test_run_a_stands_still_with_gradients_of_the_usual_size(runs, monkeypatch):
    assert len(set(runs["run_a"].errors)) == 1
    assert (runs["run_a"].skipped, runs["run_a"].scale) == (0, 65_536)
    norms = []
    clip = torch.nn.utils.clip_grad_norm_

    def note(parameters, limit):
        norms.append(clip(parameters, limit).item())

    monkeypatch.setattr(broken_runs.nn.utils, "clip_grad_norm_", note)
    broken_runs.examine(broken_runs.run_a)
    assert all(norm == pytest.approx(7.6e-5, rel=0.01) for norm in norms)


def test_run_b_skips_every_step(runs):
    assert all(math.isnan(error) for error in runs["run_b"].errors)
    assert runs["run_b"].skipped == broken_runs.STEPS
    assert runs["run_b"].scale < 1e-40


def test_run_c_learns_far_too_slowly(runs):
    first, last = runs["run_c"].errors[0], runs["run_c"].errors[-1]
    assert 0.004 < (first - last) / first < 0.1
    assert runs["run_c"].skipped == 0


def test_run_d_explodes(runs):
    first, second, third = runs["run_d"].errors[:3]
    assert second > 1e6 * first
    assert third == math.inf
    assert (runs["run_d"].skipped, runs["run_d"].records, runs["run_d"].scale) == (0, [], 65_536)


def test_a_log_line_has_the_three_numbers(runs):
    assert str(runs["run_b"]) == ("loss nan, nan, nan … nan; 150 of 150 steps skipped; scale 5e-41")


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("run_a", ["- with fp16_region(pictures):"], ["+     with fp16_region(pictures):"]),
        ("run_c", [], ["+     scaler.unscale_(optimizer)"]),
    ],
)
def test_compared_shows_the_lines_that_differ(name, wrong, right):
    lines = broken_runs.compared(getattr(broken_runs, name)).splitlines()
    assert [line for line in lines if line.startswith("-")] == wrong
    assert [line for line in lines if line.startswith("+")] == right
    assert broken_runs.compared(broken_runs.healthy) == ""


def test_a_new_look_without_the_cache_finds_the_frozen_loss():
    pictures = broken_runs.load_digits().train_images[:100]
    model = broken_runs.autoencoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with broken_runs.fp16_region(pictures):
        broken_runs.squared_error(model, pictures).backward()
        optimizer.step()
        same = broken_runs.squared_error(model, pictures)
        with torch.autocast("cpu", dtype=torch.float16, cache_enabled=False):
            fresh = torch.nn.functional.mse_loss(model(pictures), pictures, reduction="sum")
    assert fresh.item() != same.item()
