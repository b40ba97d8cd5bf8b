"""What lesson 03's checks put before a learner: training runs whose faults show when provoked."""

from __future__ import annotations

from copy import deepcopy
from functools import partial

import pytest
import torch
from stored import Stored

from amp_lessons.amp.numbers.formats import FP16
from amp_lessons.amp.scaling.loss_scale import fates
from amp_lessons.exercises.amp_from_scratch import harness as ex
from amp_lessons.lessons import plots

RUNS = [*ex.practice_runs().items()]
RUNS += [(case.kind.removeprefix("runs that lack "), case.args[0]) for case in ex.run_cases()]


@pytest.mark.parametrize(("missing", "run"), RUNS, ids=lambda each: getattr(each, "_seed", each))
def test_run_looks_healthy_until_it_is_provoked(missing, run):
    alive = torch.tensor([not (run._dead_input and i == 2) for i in range(6)])
    first = run()
    assert torch.equal(first.gradient != 0, alive)
    assert torch.equal(first.before != first.after, alive)
    assert run(steps=20).loss < first.loss
    small = run(loss_factor=2.0**-32).gradient
    assert torch.equal(small == 0, ~alive) != (missing == "loss scaling")
    slow = run(lr=2.0**-16, steps=1000)
    assert torch.equal(slow.before, slow.after) == (missing == "master weights")
    apart = abs(run(repeats=2000).loss / first.loss - 1)
    assert (apart > 0.1) == (missing == "wide accumulation")
    assert apart > 0.1 or apart < 0.01


def test_run_starts_again_at_each_call():
    run = ex.practice_runs()["nothing"]
    first, second = run(steps=5), run(steps=5)
    assert first.loss == second.loss
    assert torch.equal(first.after, second.after)


@pytest.mark.parametrize("settings", [{"steps": 0}, {"steps": 2001}, {"repeats": 0}])
def test_run_refuses_what_would_take_for_ever_or_do_nothing(settings):
    with pytest.raises(ValueError, match="1 to"):
        ex.practice_runs()["nothing"](**settings)


def test_pictures_say_what_they_show():
    flow = plots.dtype_flow((("master\nweights", "FP32"), ("copies", "FP16")), "One step")
    assert flow.alt == "One step: master weights in FP32, then copies in FP16."
    gradients = torch.tensor([2.0**-30, 2.0**-20])
    window = plots.fates_by_scale(fates(gradients, [2.0**e for e in range(41)]), FP16)
    assert "from 2^6 to 2^35 none" in window.alt
    nowhere = plots.fates_by_scale(fates(torch.tensor([2.0**-40, 2.0**5]), [1.0, 2.0]), FP16)
    assert "at no scale none" in nowhere.alt


# ---- the lesson ---------------------------------------------------------------------------------

STORED = Stored("amp_from_scratch")
FINE_TUNING = "fp16_weights = train"
PROTECTED = "mixed = train"


@pytest.fixture(scope="module")
def lesson():
    """What the lesson's cells leave behind on the CPU, without the trainings that its pictures
    show: of the fine-tuning, the model and the pictures that it starts with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.cuda.is_available", lambda: False)
        before, _, _ = STORED.cell(FINE_TUNING).source.partition("\n\n")
        pictured = ("rescued = train", PROTECTED)
        return STORED.left_behind(without=pictured, instead={FINE_TUNING: before})


def test_lesson_fails_and_recovers_as_its_text_says(lesson):
    assert lesson["scaled"][1] != lesson["scaled"][1]  # NaN
    assert 0.02 < STORED.curves("rescued = train")["scale, FP32 loss"][-1] < 0.035
    assert lesson["squares"].max() < 1.7
    assert round(lesson["squares"].double().sum().item()) == 9421
    assert lesson["total"].item() == 512  # the last of the loop is BF16
    assert lesson["apart"] == 0


def test_lesson_loses_small_updates_without_masters(lesson):
    last = {name: errors[-1] for name, errors in STORED.curves(PROTECTED).items()}
    assert last["FP16 without protection"] > 0.445
    assert 0.43 < STORED.curves(FINE_TUNING)["BF16 weights"][-1] < 0.447
    assert 0.25 < last["FP16 weights"] < 0.32
    assert 0.1 < last["mixed precision"] < 0.14
    assert abs(last["mixed precision"] - last["FP32"]) < 0.002
    gradients = lesson["fp32_gradients"](lesson["inverted"])
    lr = 0.002 * lesson["big"] / lesson["inverted"].numel()
    weights = [w.detach() for w in lesson["painter"].parameters()]
    ratios = [(w / (lr * g)).abs().flatten() for w, g in zip(weights, gradients, strict=True)]
    assert torch.cat(ratios).median() > 20_000


@pytest.mark.slow
def test_lesson_learns_as_well_in_bf16_with_masters(lesson):
    in_bf16 = partial(lesson["mixed_step"], dtype=torch.bfloat16)
    errors = lesson["train"](in_bf16, deepcopy(lesson["painter"]), **lesson["tuning"])
    assert abs(errors[-1] - STORED.curves(PROTECTED)["mixed precision"][-1]) < 0.002


def test_lesson_overflows_where_its_scale_has_too_little_headroom(lesson):
    black, white = (
        max(g.abs().max().item() for g in lesson["fp32_gradients"](x))
        for x in (lesson["pictures"][:100], lesson["inverted"])
    )
    assert 12.5 < 65504 / (black * 2.0**36) < 13.5
    assert 28 < white / black < 30
    scaled = (
        torch.cat([g.flatten() for g in lesson["fp32_gradients"](lesson["inverted"])]) * 2.0**36
    )
    assert (scaled.abs() > 65504).sum() == 89
    assert black * 2.0**39 < 65504 < black * 2.0**40
    assert lesson["errors"][-1] != lesson["errors"][-1]
