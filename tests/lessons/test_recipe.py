"""The recipe's run, made here: its dtypes, its sizes, and its path through CUDA on a stand-in."""

from __future__ import annotations

import pytest
import torch
from pretend_cuda import PretendCuda, installed

from amp_lessons.amp.speed.records import load_records
from amp_lessons.lessons import recipe
from amp_lessons.lessons.recipe import AS_RECORDED, RecipeError, Size, run_recipe

pytestmark = pytest.mark.slow

TINY = Size(width=8, batch=4, batches=2, epochs=2)


def test_the_full_size_is_that_of_the_record():
    (seed,) = (record for record in load_records() if record.name == "seed_003")
    for row in seed.rows:
        assert AS_RECORDED.steps == row.steps
        assert f"{AS_RECORDED.batch}x{AS_RECORDED.width}, {AS_RECORDED.layers}" in row.workload
        shape = AS_RECORDED.batch * AS_RECORDED.width * 4
        assert 2 * AS_RECORDED.batches * shape == row.data_bytes


@pytest.mark.skipif(torch.cuda.is_available(), reason="takes minutes of a GPU")
def test_on_a_cpu_it_is_small_and_says_what_its_time_is_worth():
    plain, mixed = run_recipe(mixed=False), run_recipe(mixed=True)
    assert len(plain.losses) == len(mixed.losses) == 12
    assert plain.dtypes == dict.fromkeys(("output", "loss", "parameters", "gradients"), "float32")
    assert mixed.dtypes["output"] in ("float16", "bfloat16")
    assert [mixed.dtypes[what] for what in ("loss", "parameters", "gradients")] == ["float32"] * 3
    assert mixed.losses == pytest.approx(plain.losses, rel=0.01)
    assert plain.losses[-1] < plain.losses[0]
    for run in (plain, mixed):
        assert run.peak_bytes is None
        assert "a CPU's time says nothing about a GPU's" in str(run)
        assert "peak memory not measured here" in str(run)


@pytest.mark.parametrize(("native", "name"), [(True, "AMP BF16"), (False, "AMP FP16")])
def test_a_cpu_takes_the_format_that_it_has(native, name, monkeypatch):
    cpu = recipe.machine.cpu()
    monkeypatch.setattr(recipe.machine, "cpu", lambda: type(cpu)(**vars(cpu) | {"bf16": native}))
    assert run_recipe(mixed=True, size=TINY).name == name


def test_a_wrong_dtype_ends_the_run_at_once(monkeypatch):
    """The recipe's own assertions stand in a loop over no epochs, and so they never run."""
    linear = torch.nn.functional.linear
    monkeypatch.setattr(
        torch.nn.functional, "linear", lambda *args: linear(*(a.double() for a in args)).float()
    )
    run_recipe(mixed=False, size=TINY)
    with pytest.raises(RecipeError, match=r"output of the last layer is torch\.float32, and torch"):
        run_recipe(mixed=True, size=TINY)


def test_skipped_steps_are_counted(monkeypatch):
    mse = recipe.mse_loss
    monkeypatch.setattr(recipe, "mse_loss", lambda *pair: mse(*pair) * 1e36)
    monkeypatch.setattr(recipe, "_half", lambda _: torch.float16)
    assert run_recipe(mixed=True, size=TINY).skipped == TINY.steps


def test_the_path_through_cuda(monkeypatch):
    gpu = PretendCuda()
    sizes = Size(width=64, batch=32, batches=3, epochs=2)
    with installed(gpu):
        monkeypatch.setattr(recipe.time, "perf_counter", lambda: gpu.host)
        plain, mixed = (run_recipe(mixed, sizes) for mixed in (False, True))
    assert (plain.name, mixed.name) == ("FP32", "AMP FP16")
    assert plain.machine == "Pretend GPU"
    assert mixed.dtypes["output"] == "float16"
    flops = 8 * 2 * 32 * 64 * 64
    assert plain.seconds == pytest.approx(sizes.steps * flops / gpu.flops["ieee"], rel=0.1)
    assert 4 < plain.seconds / mixed.seconds < 8, "the pretended GPU multiplies 8 times as fast"
    for run in (plain, mixed):
        assert run.data_bytes == 2 * 3 * 32 * 64 * 4
        assert run.peak_bytes > run.data_bytes + 3 * 64 * 64 * 4 * 2, "data, weights, gradients"
        assert "says nothing" not in str(run)
    assert mixed.peak_bytes != plain.peak_bytes


def test_a_warm_up_is_not_on_the_clock(monkeypatch):
    """The GPU is 20 times slower for its first work, which the record's FP32 run had to pay."""
    seconds = []
    for warm_up in (0, 3):
        gpu = PretendCuda(slow_until=0.2)
        with installed(gpu):
            monkeypatch.setattr(recipe.time, "perf_counter", lambda gpu=gpu: gpu.host)
            seconds.append(run_recipe(False, Size(64, 32, batches=2), warm_up=warm_up).seconds)
    assert seconds[0] > 1.5 * seconds[1]
