"""The cell that times a whole training step: on this CPU, and on pretended GPUs."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from pretend_cuda import PretendCuda, installed
from torch import nn

from amp_lessons.amp.speed import bench, timing
from amp_lessons.amp.speed.bench import runner
from amp_lessons.amp.speed.bench.report import A_CPU
from amp_lessons.amp.speed.step_timing import StepRow, step_rows, step_table, time_training

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def small_roofs(monkeypatch):
    """The roofs take seconds, and are tested with the bench."""
    monkeypatch.setattr(runner, "measured_peak", partial(timing.measured_peak, size=64))
    monkeypatch.setattr(runner, "measured_bandwidth", lambda *_, **__: 1e10)
    monkeypatch.setattr("amp_lessons.amp.speed.timing.method.LEAST_WARM_UP", 0.01)


def make_model() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def make_batch() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(8, 16)
    return x, x[:, :4].argmax(dim=1)


@pytest.fixture(scope="module")
def on_a_cpu() -> bench.BenchReport:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "measured_peak", partial(timing.measured_peak, size=64))
        patch.setattr(runner, "measured_bandwidth", lambda *_, **__: 1e10)
        patch.setattr("amp_lessons.amp.speed.timing.method.LEAST_WARM_UP", 0.01)
        return time_training(make_model, make_batch, device="cpu", batches=2, repeats=2)


def test_your_own_model_is_timed_in_every_mode_of_a_cpu(on_a_cpu):
    rows = {row.mode: row for row in step_rows(on_a_cpu)}
    assert list(rows) == ["FP32", "TF32", "AMP FP16", "AMP BF16"]
    for mode in ("FP32", "AMP FP16", "AMP BF16"):
        row = rows[mode]
        assert row.milliseconds > 0
        assert row.speedup == pytest.approx(rows["FP32"].milliseconds / row.milliseconds)
        assert row.last_loss == pytest.approx(rows["FP32"].last_loss, rel=0.05)
        assert row.peak_bytes is None
        assert row.share > 0
    assert rows["TF32"].milliseconds is None
    assert "TF32 needs an NVIDIA GPU" in rows["TF32"].note


def test_the_table_has_one_line_a_mode_and_is_honest_about_a_cpu(on_a_cpu):
    heading, *lines = step_table(on_a_cpu).splitlines()
    assert heading.split()[:4] == ["mode", "ms", "a", "step"]
    assert [line.split("  ")[0].strip() for line in lines[:4]] == [
        *("FP32", "TF32", "AMP FP16", "AMP BF16"),
    ]
    assert "not here" in lines[0]
    assert "by perf_counter" in lines[4]
    assert lines[5:] == [A_CPU]


def timed_on(capability: tuple[int, int]) -> dict[str, StepRow]:
    """Rows from a GPU so slow that a few real steps fill a sample."""
    gpu = PretendCuda(capability=capability, flops={"ieee": 1e6, "tf32": 4e6, "16 bit": 8e6})
    with installed(gpu):
        report = time_training(make_model, make_batch, device="cuda", batches=2, repeats=2)
    assert A_CPU not in step_table(report)
    assert "measured on Pretend GPU" in step_table(report)
    return {row.mode: row for row in step_rows(report)}


def test_on_a_t4_the_rows_for_tf32_and_bf16_say_that_the_hardware_has_none():
    rows = timed_on((7, 5))
    assert "not measured" in rows["TF32"].note
    assert "has no TF32" in rows["TF32"].note
    assert "not measured" in rows["AMP BF16"].note
    assert "no bf16 tensor cores" in rows["AMP BF16"].note
    assert rows["AMP BF16"].milliseconds is rows["TF32"].milliseconds is None
    assert rows["AMP FP16"].speedup > 1
    assert rows["AMP FP16"].peak_bytes > 0


def test_on_hopper_every_mode_has_its_time_its_memory_and_its_share():
    rows = timed_on((9, 0))
    assert all(row.milliseconds and row.peak_bytes and row.share for row in rows.values())
    assert rows["AMP BF16"].speedup > rows["TF32"].speedup > 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((make_model,), "both a model and a batch"),
        ((None, make_batch), "both a model and a batch"),
    ],
)
def test_a_model_without_a_batch_is_one_line(arguments, says):
    with pytest.raises(bench.BenchError, match=says) as raised:
        time_training(*arguments)
    assert "\n" not in str(raised.value)


def test_an_unknown_mode_is_one_line():
    with pytest.raises(bench.BenchError, match="no mode 'fp8': choose from fp32"):
        time_training(make_model, make_batch, modes=("fp32", "fp8"), device="cpu")
