"""The bench: what is measured, what is refused, and what stays after an error."""

from __future__ import annotations

import itertools
import json
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.functional import mse_loss
from torch.utils._python_dispatch import TorchDispatchMode
from typer.testing import CliRunner

from amp_lessons.amp.speed import bench, records, timing
from amp_lessons.amp.speed.bench import modes as mode_rules
from amp_lessons.amp.speed.bench import planning, runner
from amp_lessons.amp.speed.bench import report as shown
from amp_lessons.amp.speed.bench.modes import MODES, chosen, why_not
from amp_lessons.amp.speed.bench.runner import departure
from amp_lessons.app import cli

CPU = torch.device("cpu")
BY_KEY = {mode.key: mode for mode in MODES}
FP32, TF32, FP16, BF16, COMPILED = MODES


class Clock:
    """Runs what it is given, and says that it took the time it was told."""

    name = "a fake"

    def __init__(self, *seconds: float, stop_after: int = 10**9, error: type = RuntimeError):
        self.seconds = itertools.cycle(seconds or (1.0,))
        self.stop_after, self.error, self.count = stop_after, error, 0

    def time(self, step, calls: int = 1) -> float:
        self.count += 1
        if self.count > self.stop_after:
            raise self.error("CUDA error: an illegal memory access\nCompile with more options")
        for _ in range(calls):
            step()
        return next(self.seconds)


@pytest.fixture(autouse=True)
def small_roofs(monkeypatch):
    """Roofs that take no time, and no clock's turn."""
    monkeypatch.setattr(runner, "measured_peak", lambda *_, **__: 2e12)
    monkeypatch.setattr(runner, "measured_bandwidth", lambda *_, **__: 1e11)


def tiny(**run):
    return bench.mlp(8, 16, **({"batches": 2, "epochs": 6} | run))


def measure(workload, modes=(FP32, BF16), clock=None, repeats=3, **options):
    return runner.run([workload], modes, CPU, repeats=repeats, clock=clock or Clock(), **options)


# ---- rows ---------------------------------------------------------------------------------------


def test_a_row_has_all_samples_the_work_and_the_losses():
    report = measure(tiny(), clock=Clock(3.0))
    assert [row["mode"] for row in report.rows] == ["FP32", "AMP BF16"]
    row = report.read()[0]
    assert row.samples_s == (1.5, 1.5, 1.5)  # 3 seconds a pass over 2 batches
    assert row.step_flops == 8 * 2 * 8 * 16 * 16
    assert row.share == pytest.approx(row.step_flops / 1.5 / 2e12)
    assert row.data_bytes == 2 * 2 * 8 * 16 * 4
    assert row.peak_bytes is None, "a CPU does not count its peak"
    assert len(row.losses) == 12
    assert report.clock == "a fake"


@pytest.mark.parametrize(("seconds", "passes"), [(1.0, 1), (0.05, 1), (0.02, 3), (0.001, 50)])
def test_a_short_pass_is_repeated_until_a_sample_has_its_time(seconds, passes):
    report = measure(tiny(), clock=Clock(seconds))
    assert report.rows[0]["calls"] == passes * 2  # two batches a pass
    assert report.read()[0].samples_s == (seconds / 2,) * 3


def test_the_losses_are_those_of_a_plain_loop():
    workload = tiny()
    row = measure(workload, [FP32, FP16]).read()
    with runner.seeded(0, CPU):
        data = [workload.batch() for _ in range(2)]
    with runner.seeded(1, CPU):
        network = workload.build()
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
    expected = []
    for x, target in data * 6:
        optimizer.zero_grad()
        loss = mse_loss(network(x), target)
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    assert row[0].losses == pytest.approx(expected)
    assert row[1].losses != row[0].losses, "float16 rounds"
    assert row[1].departs == ""


def test_the_modes_take_turns(monkeypatch):
    passes = []
    original = runner.Trainer.one_pass

    def noted(self):
        passes.append(self.mode.name)
        original(self)

    monkeypatch.setattr(runner.Trainer, "one_pass", noted)
    measure(tiny(), [FP32, FP16, BF16], repeats=2)
    forwards = ["FP32", "AMP FP16", "AMP BF16"]
    assert passes[-6:] == forwards + forwards[::-1]


def test_every_mode_runs_in_its_own_precision():
    seen = []
    workload = tiny(batches=1, epochs=1)

    def loss(output, target):
        seen.append(output.dtype)
        return mse_loss(output, target)

    measure(replace(workload, loss=loss), MODES[:4], repeats=2)
    assert seen[-3:] == [torch.bfloat16, torch.float16, torch.float32]  # a round backwards


def test_skipped_steps_are_counted():
    workload = tiny()
    steep = replace(workload, loss=lambda output, target: 1e4 * mse_loss(output, target))
    steep = replace(steep, optimizer=lambda p: torch.optim.SGD(p, lr=1e-4))
    plain, scaled = measure(steep, [FP32, FP16]).rows
    assert plain["skipped_steps"] == 0
    assert 0 < scaled["skipped_steps"] < len(scaled["losses"])


def test_peak_memory_is_that_of_the_data_and_one_mode():
    class Meter:
        def __init__(self) -> None:
            self.starts = 0

        def start(self) -> None:
            self.starts += 1

        def peak(self) -> int:
            return 100 * self.starts

    rows = measure(tiny(), meter=Meter()).read()
    assert [row.step_peak_bytes for row in rows] == [100, 200]
    assert rows[0].peak_bytes == rows[0].data_bytes + 100


def test_the_meter_takes_what_was_there_before_off(monkeypatch):
    stats = {"now": 600, "peak": 5000}
    monkeypatch.setattr(
        torch.cuda, "reset_peak_memory_stats", lambda _: stats.update(peak=stats["now"])
    )
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: stats["now"])
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: stats["peak"])
    meter = runner.Meter(torch.device("cuda"))
    meter.start()
    stats.update(peak=900, now=700)
    assert meter.peak() == 300
    assert runner.Meter(CPU).peak() is None


def test_a_kept_loss_does_not_keep_the_buffer_of_the_output():
    with runner.seeded(0, CPU):
        data = [tiny().batch()]
    trainer = runner.Trainer(tiny(), FP32, data, CPU)
    x, target = data[0]
    assert mse_loss(x, x).untyped_storage().nbytes() > 4, "nothing to fix"
    assert trainer.step(x, target).untyped_storage().nbytes() == 4


def test_the_backward_pass_has_its_workspace_before_anything_is_measured(monkeypatch):
    """On CUDA it runs in a thread of its own, with a cuBLAS workspace of its own."""
    calls: list[str] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            calls.append(func.overloadpacket.__name__)
            return func(*args, **(kwargs or {}))

    class Meter(runner.Meter):
        def start(self) -> None:
            calls.append("measured")

    monkeypatch.setattr(runner, "measured_bandwidth", lambda *_, **__: calls.append("roofs"))
    with Watch():
        measure(tiny(), meter=Meter(CPU))
    before = calls[calls.index("roofs") : calls.index("measured")]
    assert before.count("mm") == 2, "the gradients of the weight and of the input"


def test_it_tells_of_each_piece_as_often_as_it_said():
    message = []
    workloads = [tiny()]
    runner.run(workloads, (FP32, BF16), CPU, repeats=4, clock=Clock(), tell=message.append)
    assert len(message) == bench.pieces(workloads, (FP32, BF16), 4)


# ---- quality ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([1.0, 0.6, 0.3, 0.21], ""),
        ([1.0, 1.0, 0.5, 0.25], ""),  # the scaler skipped its first steps
        ([1.0, 1.0, 1.0, 1.0], "its loss ends at 1, float32's at 0.2"),
        ([1.0, 0.6, float("nan"), float("nan")], "its loss is not finite"),
        ([1.0, 0.6, 0.3, 0.05], "its loss ends at 0.05, float32's at 0.2"),
    ],
)
def test_a_loss_that_departs_is_told(losses, expected):
    assert departure(losses, [1.0, 0.6, 0.3, 0.2]) == expected


@pytest.mark.parametrize("flat", [[1.0] * 4, [1.0, 0.99, 1.01, 0.98], [1.0, 2.0, 3.0, 4.0]])
def test_where_float32_learns_nothing_nothing_is_compared(flat):
    assert departure(flat, flat) is None


class Broken(nn.Module):
    """A network that learns in float32 alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        y = self.layer(x)
        return y + 100 if torch.is_autocast_enabled("cpu") else y


def test_a_fast_mode_that_learns_less_is_marked(capsys):
    report = measure(replace(tiny(), build=Broken), [FP32, BF16])
    plain, low = report.read()
    assert plain.departs == ""
    assert "float32's at" in low.departs
    assert any("AMP BF16" in note and "worth nothing" in note for note in shown.notes(report))


@pytest.mark.parametrize("name", sorted(set(bench.PRESETS) - {"course"}))  # made of others
@pytest.mark.slow
def test_every_preset_is_traced_without_being_allocated(name):
    for workload in bench.PRESETS[name](batches=50):
        planned = bench.plan(workload, [FP32, BF16])
        assert planned.step_flops > 0
        assert planned.step_bytes[torch.bfloat16] > 0


@pytest.mark.parametrize("workload", bench.PRESETS["small"](batches=8), ids=lambda w: w.name)
def test_the_small_workloads_learn_so_that_quality_can_be_compared(workload):
    trainer = runner.Trainer(workload, FP32, _data(workload), CPU)
    losses, _ = trainer.learn(3)
    assert departure(losses, losses) == ""


def _data(workload):
    with runner.seeded(0, CPU):
        return [workload.batch() for _ in range(workload.batches)]


@pytest.mark.parametrize("mode", [FP32, BF16], ids=lambda mode: mode.key)
def test_the_channels_last_cnn_stays_in_that_format_in_every_mode(mode):
    """Else a gain of the layout would count as one of the 16 bits."""
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.overloadpacket.__name__ in ("convolution", "mkldnn_convolution"):
                seen.append([_format(args[0]), _format(args[1])])
            return func(*args, **(kwargs or {}))

    for last in (True, False):
        workload = bench.cnn(2, 8, 4, channels_last=last, batches=1)
        trainer = runner.Trainer(workload, mode, _data(workload), CPU)
        with Watch():
            trainer.one_pass()
    assert seen == [["channels last"] * 2] * 2 + [["contiguous"] * 2] * 2


def _format(tensor) -> str:
    last = tensor.is_contiguous(memory_format=torch.channels_last)
    return "channels last" if last and not tensor.is_contiguous() else "contiguous"


class Restricted(nn.Module):
    """A layer that a region takes out of autocast, as many models do with a sensitive one."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            return self.layer(x)


def test_a_compiled_backward_runs_outside_autocast_as_eager_does(monkeypatch):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    workload = replace(tiny(batches=1), build=Restricted)
    gradients = []
    for mode in (BF16, COMPILED):
        trainer = runner.Trainer(workload, mode, _data(workload), CPU)
        monkeypatch.setattr(trainer.optimizer, "zero_grad", lambda: None)
        trainer.learn(1)
        gradients.append(trainer.optimizer.param_groups[0]["params"][0].grad)
    torch.testing.assert_close(*gradients)  # recorded under BF16 they differ


# ---- TF32 ---------------------------------------------------------------------------------------


def test_each_mode_has_its_own_tf32_state_and_puts_it_back(monkeypatch):
    monkeypatch.setattr(runner, "why_not", lambda *_: "")
    states = []
    workload = tiny(batches=1, epochs=1)

    def loss(output, target):
        states.append(timing.fp32_state()["cuda.matmul"])
        return mse_loss(output, target)

    before = timing.fp32_state()
    report = measure(replace(workload, loss=loss), [FP32, TF32], repeats=2)
    assert timing.fp32_state() == before == report.fp32_state
    assert states[-4:] == ["ieee", "tf32", "tf32", "ieee"]
    assert [row["fp32_precision"] for row in report.rows] == ["ieee", "tf32"]


def test_tf32_is_put_back_after_an_error(monkeypatch):
    monkeypatch.setattr(runner, "why_not", lambda *_: "")

    def loss(output, target):
        if not isinstance(output, FakeTensor):
            raise RuntimeError("boom")
        return mse_loss(output, target)

    before = timing.fp32_state()
    report = measure(replace(tiny(), loss=loss), [TF32])
    assert report.stopped == "boom"
    assert timing.fp32_state() == before


# ---- what this machine cannot do ----------------------------------------------------------------


def test_what_cannot_be_measured_is_a_row_that_says_so():
    report = measure(bench.mlp(8, 256, batches=1, epochs=1), [FP32, TF32])
    (missing,) = report.not_measured
    assert missing["mode"] == "TF32"
    assert "NVIDIA" in missing["reason"]
    assert [row["mode"] for row in report.rows] == ["FP32"]
    (table,) = shown.tables(report)
    assert "not measured" in list(table.columns[1].cells)
    assert any(note.startswith("TF32 not measured: ") for note in shown.notes(report))


def test_wide_float16_is_not_run_on_a_cpu_without_it(monkeypatch):
    cpu = mode_rules.machine.cpu()
    for native, says in ((False, "no native float16"), (True, "")):
        monkeypatch.setattr(
            mode_rules.machine, "cpu", lambda native=native: replace(cpu, fp16=native)
        )
        assert says in why_not(FP16, bench.mlp(8, 256), CPU)
        assert why_not(FP16, bench.mlp(8, 128), CPU) == ""
        assert bool(why_not(FP16, bench.mlp(8, 256), CPU)) == bool(says)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU of a compute capability, as far as modes ask for it."""

    def set_up(name: str, capability: tuple[int, int], bf16: bool) -> torch.device:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: name)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)

        def supported(including_emulation: bool = True) -> bool:
            return bf16 or including_emulation

        monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
        return torch.device("cuda")

    return set_up


def test_a_t4_has_neither_tf32_nor_bf16(gpu):
    t4 = gpu("Tesla T4", (7, 5), bf16=False)
    assert "Tesla T4 has no TF32" in why_not(TF32, tiny(), t4)
    assert "Tesla T4 has no bf16 tensor cores" in why_not(BF16, tiny(), t4)
    assert "bf16" in why_not(COMPILED, tiny(), t4)
    assert why_not(FP16, bench.mlp(4096, 4096), t4) == ""


def test_an_h200_has_both(gpu, monkeypatch):
    h200 = gpu("NVIDIA H200", (9, 0), bf16=True)
    monkeypatch.setattr(mode_rules, "find_spec", lambda _: object())
    assert [why_not(mode, tiny(), h200) for mode in MODES] == [""] * 5


def test_without_triton_or_a_compiler_nothing_is_compiled(gpu, monkeypatch):
    h200 = gpu("NVIDIA H200", (9, 0), bf16=True)
    monkeypatch.setattr(mode_rules, "find_spec", lambda _: None)
    assert "Triton" in why_not(COMPILED, tiny(), h200)
    monkeypatch.setattr(mode_rules.shutil, "which", lambda _: None)
    assert "C++ compiler" in why_not(COMPILED, tiny(), CPU)
    assert why_not(BF16, tiny(), CPU) == ""


def test_a_compiler_that_fails_costs_its_own_row_alone(monkeypatch):
    class InductorError(RuntimeError):
        __module__ = "torch._inductor.exc"

    def fail(*_, **__):
        raise InductorError("no space left\nmuch more")

    monkeypatch.setattr(torch, "compile", fail)
    report = measure(tiny(), [FP32, COMPILED, BF16])
    assert [row["mode"] for row in report.rows] == ["FP32", "AMP BF16"]
    (missing,) = report.not_measured
    assert missing["reason"] == "torch.compile failed: no space left"
    assert report.stopped == ""


# ---- memory -------------------------------------------------------------------------------------


def test_the_seeds_plan_is_its_arithmetic():
    planned = bench.plan(bench.mlp(4096, 4096), MODES)
    assert planned.step_flops == 8 * 2 * 4096**3
    assert planned.data_bytes == 6_710_886_400
    assert planned.state_bytes == 5 * 4 * 3 * (4096 * 4096 + 4096)


@pytest.mark.parametrize(("mode", "row"), [(FP32, 0), (FP16, 1)])
def test_the_estimate_is_what_the_seed_measured(mode, row):
    (seed,) = (record for record in records.load_records() if record.name == "seed_003")
    alone = bench.plan(bench.mlp(4096, 4096), [mode], "cuda")
    estimate = alone.state_bytes + alone.work_bytes
    assert estimate == pytest.approx(seed.rows[row].step_peak_bytes, rel=0.03)


def test_saved_activations_grow_with_the_batch_and_shrink_with_16_bits():
    def work(batch: int, mode) -> int:
        return bench.plan(bench.mlp(batch, 64, layers=8), [mode]).work_bytes

    assert work(4096, BF16) < work(4096, FP32)
    assert work(8, BF16) > work(8, FP32), "there the copies of the weights outweigh the rest"


def test_too_large_a_size_is_refused_before_anything_is_allocated(monkeypatch):
    cpu = planning.machine.cpu()
    monkeypatch.setattr(planning.machine, "cpu", lambda: replace(cpu, free=2**20))

    def batch():
        x = torch.zeros(64, 512)
        assert isinstance(x, FakeTensor) or x.is_meta, "a byte was allocated"
        return x, x

    workload = replace(bench.mlp(64, 512, batches=10), batch=batch)
    with pytest.raises(bench.BenchError, match=r"needs about .* MiB .* 1\.0 MiB are free"):
        measure(workload)


def test_the_cure_for_too_much_data_is_fewer_batches():
    workload = bench.mlp(4096, 4096)
    planned = bench.plan(workload, MODES)
    free = planned.total_bytes - planned.batch_bytes
    with pytest.raises(bench.BenchError, match="take --batches 49"):
        bench.check_fits(workload, planned, free)
    with pytest.raises(bench.BenchError, match="take a smaller size"):
        bench.check_fits(workload, planned, planned.state_bytes)
    bench.check_fits(workload, planned, planned.total_bytes)
    bench.check_fits(workload, planned, None)


def test_a_size_past_any_memory_is_one_line():
    with pytest.raises(bench.BenchError, match="larger than any memory"):
        bench.plan(bench.mlp(10**11, 10**11), [FP32])


# ---- errors in the middle -----------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, torch.OutOfMemoryError])
def test_finished_rows_are_kept(error):
    # Warm-up is 6 turns a mode, and one more says how long a pass is; the second workload ends
    # after one full round of samples and a bit.
    clock = Clock(stop_after=(14 + 6) + (14 + 5), error=error)
    workloads = [tiny(), bench.mlp(4, 16, batches=2, epochs=2)]
    report = runner.run(workloads, (FP32, BF16), CPU, repeats=3, clock=clock)
    assert [len(row.samples_s) for row in report.read()] == [3, 3, 3, 2]
    assert report.interrupted == (error is KeyboardInterrupt)
    assert report.stopped == (
        "interrupted" if report.interrupted else "CUDA error: an illegal memory access"
    )


def test_an_error_before_the_samples_leaves_no_half_row():
    report = measure(tiny(), clock=Clock(stop_after=13))
    assert report.rows == []
    assert report.stopped


# ---- what is shown and kept ---------------------------------------------------------------------


def test_tables_show_speed_spread_and_share():
    report = measure(tiny(), clock=Clock(2.0, 2.2, 2.0))
    (table,) = shown.tables(report, wide=True)
    cells = [list(column.cells) for column in table.columns]
    assert cells[0] == ["FP32", "AMP BF16"]
    assert cells[1] == ["1000", "1100"]
    assert cells[2] == ["0.0%", "! 4.5%"]
    assert cells[3] == ["1.00", "0.91"]
    notes = shown.notes(report)
    assert any("spread above 3%" in note for note in notes)
    assert "lesson's claim" in notes[-1]


def test_a_steady_run_has_no_warning():
    notes = shown.notes(measure(tiny()))
    assert not any(note.startswith("!") for note in notes)


def test_times_that_drift_are_marked_in_one_line():
    rising = Clock(*[1.2**n for n in range(100)])
    (message,) = [n for n in shown.notes(measure(tiny(), clock=rising)) if "drifted" in n]
    assert message.startswith("! times still drifted")
    assert message.endswith("mlp 8x16, 3 layers, FP32; mlp 8x16, 3 layers, AMP BF16")


def test_the_picture_tells_every_run_in_words():
    picture = shown.picture(measure(tiny()))
    assert picture.png.startswith(b"\x89PNG")
    assert "100 GB/s" in picture.alt
    assert "mlp 8x16, FP32: " in picture.alt
    assert "mlp 8x16, AMP BF16: " in picture.alt
    assert "FP32 2 TFLOP/s" in picture.alt


def on_a_gpu(monkeypatch):
    host = {"gpu": "Imaginary GPU", "driver": "1.2", "torch": "2.13.0", "machine": {}}
    monkeypatch.setattr(runner, "describe", lambda _: host)


def test_a_report_from_cuda_is_a_record(tmp_path, monkeypatch):
    on_a_gpu(monkeypatch)
    broken = replace(tiny(), loss=lambda output, target: mse_loss(output, target) * float("nan"))
    report = runner.run(
        [tiny(), replace(broken, name="nan")], (FP32, TF32, FP16), CPU, repeats=2, clock=Clock()
    )
    data = shown.as_json(report, "amp-lessons bench", "a-run")
    records.write_record(tmp_path / "a-run.json", data)
    (record,) = records.load_records(tmp_path)
    assert record.kind == "measured"
    assert [row.median_s for row in record.rows] == [0.5] * 4
    assert record.rows[2].losses[0] is None
    assert len(record.details["not_measured"]) == 2
    assert "Imaginary GPU" in shown.picture(report).alt


def test_a_stopped_report_says_so_in_the_record(tmp_path, monkeypatch):
    on_a_gpu(monkeypatch)
    report = measure(tiny(), clock=Clock(stop_after=17))
    data = shown.as_json(report, "amp-lessons bench", "a-run")
    records.write_record(tmp_path / "a-run.json", data)
    assert data["stopped"] == "CUDA error: an illegal memory access"


def test_a_report_from_a_cpu_is_none(tmp_path):
    data = shown.as_json(measure(tiny()), "amp-lessons bench", "a-run")
    assert data["notes"] == [shown.A_CPU]
    with pytest.raises(records.RecordError, match="gpu"):
        records.write_record(tmp_path / "a-run.json", data)


# ---- the command --------------------------------------------------------------------------------


QUICK = ("bench", "--sizes", "4x8", "--batches", "2", "--epochs", "1", "--quick")


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as leaving:
        cli.main([str(word) for word in words])
    return leaving.value.code


@pytest.mark.slow
def test_the_command_prints_a_table_and_writes_a_picture(tmp_path, capsys):
    file = tmp_path / "b.png"
    assert call(*QUICK, "--picture", file) == 0
    printed, _ = capsys.readouterr()
    for text in ("mlp 4x8", "FP32", "AMP FP16", "spread", "This was a CPU"):
        assert text in printed
    assert file.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_json_is_a_switch_as_in_every_other_command_and_prints_json_alone(capsys):
    assert call(*QUICK, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["kind"] == "measured"
    assert [row["mode"] for row in data["rows"]] == ["FP32", "AMP FP16", "AMP BF16"]
    missing = {note["mode"]: note["reason"] for note in data["not_measured"]}
    assert set(missing) == {"TF32", "AMP BF16 + compile"}
    assert "--quick" in missing["AMP BF16 + compile"]
    assert all(len(row["samples_s"]) == 7 for row in data["rows"])


@pytest.mark.slow
def test_without_a_terminal_each_piece_of_work_is_a_line(capsys):
    assert call(*QUICK, "--mode", "fp32", "--mode", "bf16") == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "amp-lessons: measuring the roofs"
    assert [line.rpartition("layers: ")[2] for line in lines[2:]] == [
        "losses of FP32", "losses of AMP BF16", "warm-up of FP32", "warm-up of AMP BF16", "FP32",
        "AMP BF16",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [(RuntimeError, 1, "CUDA error: an illegal"), (KeyboardInterrupt, 130, "interrupted")],
)
def test_a_bench_that_breaks_keeps_its_rows(error, status, says, monkeypatch, capsys):
    clock = Clock(stop_after=18 + 5, error=error)
    monkeypatch.setattr(runner, "clock_for", lambda _: clock)
    words = (*QUICK, "--sizes", "4x16", "--mode", "fp32", "--mode", "bf16", "--repeats", "3")
    assert call(*words, "--json") == status
    printed, problems = capsys.readouterr()
    line = problems.splitlines()[-1]
    assert line.startswith(f"amp-lessons: the bench ended early (2 finished rows kept): {says}")
    assert len(json.loads(printed)["rows"]) == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--sizes", "4x"), "BATCHxWIDTH"),
        (("--sizes", "0x4"), "BATCHxWIDTH"),
        (("--sizes", "1000000x1000000"), "GiB are free"),
        (("--sizes", "1000000000x1000000000"), "GiB are free"),
        (("--sizes", "1x99999999999999999999"), "past any memory"),
        (("--sizes", "64x64x1000000"), "1,000 layers"),
        (("--preset", "sead"), "choose from seed, "),
        (("--mode", "fp8"), "choose from fp32, "),
        (("--device", "tpu"), "cuda or cpu"),
        (("--device", "mps"), "not mps"),
        (("--json", "b.json"), "unexpected extra argument"),
        (("--picture", "none/b.png"), "no such folder"),
        (("--picture", "b.jpg"), "b.png"),
        (("--record", "b.txt"), "b.json"),
        (("--record", "b.json", "--device", "cpu"), "needs CUDA"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_wrong_call_is_one_line(words, says, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert call("bench", *words) not in (0, None)
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_cuda_without_a_gpu_is_one_line(capsys):
    assert call("bench", "--device", "cuda") != 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "no CUDA GPU" in line


def test_the_help_names_every_preset_and_mode():
    helped = CliRunner().invoke(cli.app, ["bench", "--help"], env={"COLUMNS": "200"}).output
    words = set(helped.replace(",", " ").replace(".", " ").replace(";", " ").split())
    assert set(bench.PRESETS) <= words
    assert {mode.key for mode in MODES} <= words


def test_modes_come_in_the_order_of_the_table():
    assert chosen(["bf16", "fp32"]) == [BY_KEY["fp32"], BY_KEY["bf16"]]


def test_the_seeds_sizes_are_presets():
    names = {name: bench.PRESETS[name]()[0].name for name in bench.PRESETS}
    assert names["seed"].startswith("mlp 4096x4096")
    assert [names[f"seed-{n}"].split(",")[0] for n in (128, 256, 513)] == [
        "mlp 128x4096",
        "mlp 256x4096",
        "mlp 513x4096",
    ]
    assert (bench.mlp(4096, 4096).batches, bench.mlp(4096, 4096).epochs) == (50, 3)
