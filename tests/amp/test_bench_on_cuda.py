"""The bench's path through CUDA, on a GPU that is pretended: see `pretend_cuda`.

Each test is about a fault that this bench once had, or could have, and that a CPU alone can't show.
Nothing here ran on CUDA.
"""

from __future__ import annotations

import gc
import json
from functools import partial
from subprocess import CompletedProcess

import pytest
import torch
from pretend_cuda import MIB, PretendCuda, installed
from torch import nn

from amp_lessons.amp.speed import bench, records, timing
from amp_lessons.amp.speed.bench import host, runner
from amp_lessons.amp.speed.bench import report as shown
from amp_lessons.amp.speed.bench.modes import MODES
from amp_lessons.app import cli

pytestmark = pytest.mark.slow

CUDA = torch.device("cuda")
FP32, TF32, FP16, BF16, COMPILED = MODES


@pytest.fixture(autouse=True)
def small_products(monkeypatch):
    """A GPU's roofs are measured on products of 8192, too large for the CPU underneath."""
    monkeypatch.setattr(runner, "measured_peak", partial(timing.measured_peak, size=128))


def workload(**run):
    return bench.mlp(64, 64, **({"batches": 4, "epochs": 3} | run))


def measure(gpu, modes=(FP32, BF16), work=None, repeats=3, **options):
    with installed(gpu):
        return bench.run([work or workload()], modes, CUDA, repeats=repeats, **options)


# ---- the whole path -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole():
    """One run of the bench in all modes but the compiled one, and the GPU that it ran on."""
    gpu = PretendCuda()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "measured_peak", partial(timing.measured_peak, size=128))
        return measure(gpu, MODES[:4]), gpu


def test_times_roofs_and_ratios_are_those_of_the_gpu(whole):
    report, gpu = whole
    assert report.stopped == ""
    assert report.clock == "cuda events"
    assert report.bandwidth == pytest.approx(gpu.bandwidth, rel=0.01)
    expected = {"FP32": 1e8, "TF32": 4e8, "FP16": 8e8, "BF16": 8e8}
    assert report.flops == pytest.approx(expected, rel=0.01)
    rows = report.read()
    assert [row.mode for row in rows] == [mode.name for mode in MODES[:4]]
    gains = [rows[0].median_s / row.median_s for row in rows]
    assert gains == pytest.approx([1, 4, 8, 8], rel=0.02)
    assert all(row.details["settled"] for row in rows)


def test_switches_are_flipped_outside_the_timed_window(whole):
    """All modes flip them alike: inside the window that draws every ratio towards 1."""
    report, gpu = whole
    assert gpu.flip > 0
    for row, kind in zip(report.read(), ("ieee", "tf32", "16 bit", "16 bit"), strict=True):
        assert row.median_s == pytest.approx(row.step_flops / gpu.flops[kind], rel=0.02)


def test_the_peak_is_below_the_plan(whole):
    report, _ = whole
    for mode, row in zip((FP32, BF16), (report.read()[0], report.read()[3]), strict=True):
        alone = bench.plan(workload(), [mode], "cuda")
        expected = alone.state_bytes + alone.work_bytes
        assert 0.6 * expected < row.step_peak_bytes <= expected


def test_no_mode_pays_for_a_workspace_of_cublas(whole):
    """Autograd's thread takes one of its own: it once counted as memory of the first mode."""
    report, gpu = whole
    assert gpu.workspaces == {"main thread", "autograd's thread"}
    fp32, tf32 = report.read()[:2]
    assert fp32.peak_bytes == tf32.peak_bytes < gpu.workspace


def test_kept_losses_do_not_pin_their_buffers():
    """`mse_loss` computes its number in a buffer as large as the output (torch 2.13)."""
    peaks = []
    with installed(PretendCuda(workspace=0)):
        with runner.seeded(0, CUDA):
            data = [workload().batch()]
        for epochs in (1, 5):
            gc.collect()  # an optimizer is part of a cycle
            meter = runner.Meter(CUDA)
            meter.start()
            runner.Trainer(workload(), FP32, data, CUDA).learn(epochs)
            peaks.append(meter.peak())
    number = 512  # bytes that the allocator takes for one number
    assert 0 < peaks[1] - peaks[0] <= 5 * number


def test_a_constant_slow_start_is_not_taken_for_the_time():
    """The GPU is 20 times slower through all warm-ups and most of the first round of samples."""
    gpu = PretendCuda()

    def slow_down(done: str) -> None:
        if done.endswith("losses of AMP BF16"):
            gpu.slow_until = gpu.worked + 28

    report = measure(gpu, repeats=5, tell=slow_down)
    fp32, bf16 = report.read()
    assert fp32.median_s == pytest.approx(fp32.step_flops / gpu.flops["ieee"], rel=0.02)
    assert bf16.median_s == pytest.approx(bf16.step_flops / gpu.flops["16 bit"], rel=0.02)
    assert [row.details["settled"] for row in (fp32, bf16)] == [True, True]
    assert fp32.details["warm_up"] == 6 + 5, "the warm-up, and a round that was thrown away"


# ---- caches -------------------------------------------------------------------------------------


def test_the_bandwidth_is_that_of_the_memory_and_not_of_the_cache():
    gpu = PretendCuda()
    with installed(gpu):
        found = timing.measured_bandwidth("cuda", size=MIB)
        warm = timing.measured_bandwidth("cuda", size=MIB, clock=timing.DeviceClock("cuda"))
    assert found == pytest.approx(gpu.bandwidth, rel=0.02)
    assert warm > 5 * gpu.bandwidth, "nothing to clear: this test shows nothing"


def test_small_steps_can_be_compared_with_a_cold_cache():
    gpu = PretendCuda()
    with installed(gpu):
        x = torch.zeros(MIB // 4, device="cuda")
        times = {
            cold: timing.compare({"add": lambda: x.add_(1)}, "cuda", 3, calls=2, cold_cache=cold)
            for cold in (False, True)
        }
    known = x.nbytes / gpu.bandwidth  # the stand-in counts a tensor once, whatever is done to it
    assert times[True]["add"].median == pytest.approx(known, rel=0.02)
    assert times[False]["add"].median < known / 5
    assert (times[False]["add"].cold_cache, times[True]["add"].cold_cache) == (False, True)


def test_a_cpu_has_no_cache_cleared_and_says_so():
    x = torch.zeros(8)
    (timed,) = timing.compare({"add": lambda: x.add_(1)}, repeats=2, cold_cache=True).values()
    assert not timed.cold_cache


# ---- what the machine says ----------------------------------------------------------------------


SMI = "570.1, 1980, 1980, 2619, [N/A], 700.00, 41\n"


def nvidia_smi(monkeypatch, answer: str = SMI, status: int = 0) -> list[list[str]]:
    asked: list[list[str]] = []

    def run(command, **_):
        asked.append(command)
        return CompletedProcess(command, status, answer, "")

    monkeypatch.setattr(host.subprocess, "run", run)
    return asked


def test_clocks_power_and_temperature_are_asked_before_and_after(monkeypatch):
    asked = nvidia_smi(monkeypatch)
    report = measure(PretendCuda(), [FP32], workload(batches=1, epochs=1), repeats=2)
    facts = report.host["machine"]
    assert facts["gpu_before"] == facts["gpu_after"]
    assert facts["gpu_after"]["sm_clock_mhz"] == 1980
    assert "power_w" not in facts["gpu_after"], "nvidia-smi did not know it"
    assert report.host["driver"] == "570.1"
    assert [command[-1] for command in asked] == ["--id=GPU-0"] * 2
    line = "GPU right after the run: SM clock 1980 of 1980 MHz, temperature 41 °C"
    assert line in shown.notes(report)


@pytest.mark.parametrize(("answer", "status"), [("", 0), ("no such query", 1), ("?", 0)])
def test_an_nvidia_smi_that_fails_stops_nothing(answer, status, monkeypatch):
    nvidia_smi(monkeypatch, answer, status)
    with installed(PretendCuda()):
        state = host.gpu_state(CUDA)
    assert set(state) <= {"driver"}


def test_a_cpu_is_not_asked(monkeypatch):
    asked = nvidia_smi(monkeypatch)
    assert host.gpu_state(torch.device("cpu")) == {}
    assert asked == []


# ---- the record and the table -------------------------------------------------------------------


def test_the_command_makes_a_record_that_can_be_read(tmp_path, capsys, monkeypatch):
    nvidia_smi(monkeypatch)
    file = tmp_path / "my_gpu.json"
    words = ["bench", "--sizes", "64x64", "--batches", "2", "--quick", "--mode", "fp32"]
    with installed(PretendCuda()), pytest.raises(SystemExit) as left:
        cli.main([*words, "--mode", "bf16", "--record", str(file)])
    printed, problems = capsys.readouterr()
    assert left.value.code == 0
    assert problems.splitlines()[-1].endswith("layers: AMP BF16"), "nothing but the progress"
    record = records.read_record(file)
    assert (record.kind, record.gpu) == ("measured", "Pretend GPU")
    assert [row.mode for row in record.rows] == ["FP32", "AMP BF16"]
    assert all(row.peak_bytes for row in record.rows)
    assert json.loads(file.read_text())["machine"]["gpu_after"]["temperature_c"] == 41
    assert "7.99" in printed, "the gain of 16 bits on this GPU"


def test_a_gpu_with_a_data_sheet_gets_its_share_of_it(whole):
    report, _ = whole
    (table,) = shown.tables(report)
    assert list(table.columns[6].cells) == ["no sheet"] * 4
    assert table.columns[7].header == "data + step"
    report.host["gpu"] = "NVIDIA H200"
    try:
        (table,) = shown.tables(report)
    finally:
        report.host["gpu"] = "Pretend GPU"
    assert table.columns[6].header == "of data sheet"
    assert list(table.columns[6].cells) == ["0%"] * 4  # the stand-in is slow


# ---- the stand-in -------------------------------------------------------------------------------


def test_the_stand_in_counts_what_is_alive_and_puts_everything_back():
    before = torch.cuda.memory_allocated, torch.autocast
    with installed(PretendCuda()) as gpu:
        kept = torch.zeros(1000, device="cuda")
        torch.zeros(MIB, device="cuda")
        assert torch.cuda.memory_allocated(CUDA) == 4096
        assert torch.cuda.max_memory_allocated(CUDA) == 4096 + 4 * MIB
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        nn.Linear(64, 64, device="cuda")(torch.ones(64, 64, device="cuda"))
        end.record()
        with pytest.raises(AssertionError, match="before the GPU"):
            start.elapsed_time(end)
        assert gpu.device > gpu.host, "the CPU ran ahead"
        assert kept.device.type == "cpu"
    assert (torch.cuda.memory_allocated, torch.autocast) == before
