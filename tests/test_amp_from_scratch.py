"""What lesson 03's checks put before a learner: training runs whose faults show when provoked."""

from __future__ import annotations

import pytest
import torch

from amp_lessons import plots
from amp_lessons.exercises.amp_from_scratch import stage as ex
from amp_lessons.formats import FP16
from amp_lessons.loss_scale import fates

RUNS = [*ex.practice_runs().values(), *(case.args[0] for case in ex.run_cases())]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run._seed}-{run._missing}")
def test_run_looks_healthy_until_it_is_provoked(run):
    alive = torch.tensor([not (run._dead_input and i == 2) for i in range(6)])
    first = run()
    assert torch.equal(first.gradient != 0, alive)
    assert torch.equal(first.before != first.after, alive)
    assert run(steps=20).loss < first.loss
    small = run(loss_factor=2.0**-32).gradient
    assert torch.equal(small == 0, ~alive) != (run._missing == "loss scaling")
    slow = run(lr=2.0**-16, steps=1000)
    assert torch.equal(slow.before, slow.after) == (run._missing == "master weights")
    apart = abs(run(repeats=2000).loss / first.loss - 1)
    assert (apart > 0.1) == (run._missing == "wide accumulation")
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
