"""Running the bench: each workload in each mode, first for its losses and memory, then for time.

The losses come from runs that start from the same weights and see the same data; the times from
turns that alternate between the modes. What was measured stays, whatever happens later.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from amp_lessons.amp.speed.bench.host import describe, gpu_state
from amp_lessons.amp.speed.bench.modes import ROOF_DTYPES, Mode, why_not
from amp_lessons.amp.speed.bench.planning import WorkloadCost, check_fits, free_bytes, plan
from amp_lessons.amp.speed.bench.trainer import Trainer, seeded
from amp_lessons.amp.speed.bench.workloads import Batch, Workload
from amp_lessons.amp.speed.records import RecordRow, row_from_json
from amp_lessons.amp.speed.timing import (
    Clock,
    Prepared,
    Samples,
    clock_for,
    fp32_precision,
    fp32_state,
    measured_bandwidth,
    measured_peak,
    sample,
    steady,
    timed,
    warm_up,
)

Tell = Callable[[str], object]
"""Hears of each piece of work."""

LEAST_SAMPLE = 0.05
"""Seconds that a sample lasts at least: what the machine does beside it hits a shorter one whole or
not at all."""

DEPARTURE = 0.1
"""A loss curve departs if its last quarter lies further from float32's than this share of how far
float32's loss has fallen."""


class Meter:
    """Peak memory since a moment, by the statistics of the CUDA allocator."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.before = device, 0

    def start(self) -> None:
        """From now on. What is allocated already does not count."""
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            self.before = torch.cuda.memory_allocated(self.device)

    def peak(self) -> int | None:
        """The most bytes allocated at once since the start; None on a CPU, which does not count."""
        if self.device.type != "cuda":
            return None
        return torch.cuda.max_memory_allocated(self.device) - self.before


@dataclass
class BenchReport:
    """What a run of the bench came to, complete or not.

    Attributes:
        device: it ran on.
        host: what is known of the machine, see `host.describe`.
        clock: that it was timed with.
        fp32_state: TF32 switches before the bench set its own.
        flops: measured peak of each precision, FLOP/s.
        bandwidth: measured, bytes/s; None if it was not reached.
        rows: what was measured, as records keep it.
        not_measured: workload, mode and reason of what could not be.
        stopped: why it ended early, or "".
        interrupted: whether that was the user.
    """

    device: torch.device
    host: dict[str, Any]
    clock: str
    fp32_state: dict[str, str]
    flops: dict[str, float] = field(default_factory=dict)
    bandwidth: float | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    not_measured: list[dict[str, str]] = field(default_factory=list)
    stopped: str = ""
    interrupted: bool = False

    def read(self) -> list[RecordRow]:
        """The rows with their medians, spreads and TFLOP/s."""
        return [row_from_json(row) for row in self.rows]


def run(
    workloads: Sequence[Workload],
    modes: Sequence[Mode],
    device: torch.device,
    *,
    repeats: int = 15,
    left_out: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    meter: Meter | None = None,
    tell: Tell = lambda _: None,
) -> BenchReport:
    """Measure each workload in each mode that this machine can do.

    Everything is planned first, and a size that does not fit is refused before anything is
    allocated. An error after that, or Ctrl-C, ends the run and keeps what was measured.

    Args:
        workloads: see `workloads.chosen`.
        modes: see `modes.chosen`.
        device: "cuda" or "cpu".
        repeats: samples of each mode, 2 or more; a sample is one pass over the batches.
        left_out: modes by key that are not to be run here, and why.
        clock: another than `timing.clock_for(device)`.
        meter: another than `Meter(device)`.
        tell: called before the roofs and after each other piece of work; `pieces` counts them.

    Raises:
        BenchError: if a workload does not fit in memory.
    """
    meter = meter or Meter(device)
    roof_clock, clock = clock, clock or clock_for(device)
    report = BenchReport(device, describe(device), clock.name, fp32_state())
    todo = []
    for workload in workloads:
        able = _able(workload, modes, report, left_out or {})
        if able:
            todo.append((workload, able, plan(workload, able, device.type)))
            check_fits(workload, todo[-1][2], free_bytes(device))
    try:
        tell("measuring the roofs")
        roofs = {mode.roof: mode for _, able, _ in todo for mode in able}
        _measure_roofs(report, roofs, roof_clock)
        for workload, able, planned in todo:
            tell(workload.name)
            _bench(workload, able, planned, report, repeats, clock, meter, tell)
    except KeyboardInterrupt:
        report.stopped, report.interrupted = "interrupted", True
    except (RuntimeError, MemoryError) as error:  # all of CUDA's errors are RuntimeErrors
        report.stopped = str(error).strip().partition("\n")[0] or type(error).__name__
    after = gpu_state(device)
    if after:
        report.host["machine"]["gpu_after"] = after
    return report


def pieces(workloads: Sequence[Workload], modes: Sequence[Mode], repeats: int) -> int:
    """How often `run` tells at most: the roofs; a workload's start, losses, warm-up and samples."""
    return 1 + len(workloads) * (1 + len(modes) * (2 + repeats))


def _able(
    workload: Workload, modes: Sequence[Mode], report: BenchReport, left_out: Mapping[str, str]
) -> list[Mode]:
    """The modes that this machine can do; the others are noted with the reason."""
    reasons = {
        mode: left_out.get(mode.key) or why_not(mode, workload, report.device) for mode in modes
    }
    for mode, reason in reasons.items():
        if reason:
            _note(report, workload, mode, reason)
    return [mode for mode, reason in reasons.items() if not reason]


def _note(report: BenchReport, workload: Workload, mode: Mode, reason: str) -> None:
    report.not_measured.append({"workload": workload.name, "mode": mode.name, "reason": reason})


def _measure_roofs(report: BenchReport, modes: dict[str, Mode], clock: Clock | None) -> None:
    """Peaks and bandwidth. Without a clock of the caller's, each takes the one that fits it."""
    for roof, mode in modes.items():
        with fp32_precision(mode.fp32):
            report.flops[roof] = measured_peak(ROOF_DTYPES[roof], report.device, clock=clock)
    report.bandwidth = measured_bandwidth(report.device, clock=clock)
    _take_workspaces(report.device)


def _take_workspaces(device: torch.device) -> None:
    """Let cuBLAS allocate its workspaces, which would count as the first mode's memory otherwise.

    Each thread that calls cuBLAS has a handle, and with it a workspace, of its own. Autograd runs
    the backward pass on CUDA in a thread of its own, so this makes a backward pass too.
    Source: torch 2.13, aten/src/ATen/cuda/CublasHandlePool.cpp.
    """
    layer = torch.nn.Linear(64, 64, device=device)
    x = torch.ones(64, 64, device=device, requires_grad=True)
    layer(x).sum().backward()


# ---- one workload ----------------------------------------------------------------------------


def _bench(
    workload: Workload,
    modes: Sequence[Mode],
    planned: WorkloadCost,
    report: BenchReport,
    repeats: int,
    clock: Clock,
    meter: Meter,
    tell: Tell,
) -> None:
    with seeded(0, report.device):
        data = [workload.batch() for _ in range(workload.batches)]
    trainers: dict[str, Trainer] = {}
    found: dict[str, dict[str, Any]] = {}
    samples = Samples()
    try:
        for mode in modes:
            facts = _learn(workload, mode, data, trainers, report, planned.data_bytes, meter)
            if facts:
                found[mode.name] = facts
            tell(f"{workload.name}: losses of {mode.name}")
        steps = {
            name: Prepared(trainer.one_pass, trainer.settings) for name, trainer in trainers.items()
        }
        for name, step in steps.items():
            # A call of `step` is a pass, so seconds a call are seconds a pass: divided below.
            found[name]["warm_up"], _ = warm_up(step, clock)
            tell(f"{workload.name}: warm-up of {name}")
        # One number of passes for all, so that no sample is over in a moment.
        fastest = min((timed(step, clock) for step in steps.values()), default=LEAST_SAMPLE)
        passes = max(1, math.ceil(LEAST_SAMPLE / fastest)) if fastest > 0 else 1
        for name in steps:
            found[name]["calls"] = passes * workload.batches
        heard = partial(_tell_sample, tell, workload)
        sample(steps, clock, repeats, passes, into=samples, tell=heard)
    finally:
        _keep(samples, workload, found)
        report.rows += _finished(workload, modes, planned, report, found)
    del trainers, steps, data
    _tidy(report.device)


def _tell_sample(tell: Tell, workload: Workload, mode: str) -> None:
    tell(f"{workload.name}: {mode}")


def _keep(samples: Samples, workload: Workload, found: dict[str, dict[str, Any]]) -> None:
    """Put the samples into the facts of their modes, as seconds a step."""
    for name, passes in samples.kept.items():
        found[name]["samples_s"] = [seconds / workload.batches for seconds in passes]
        found[name]["warm_up"] += samples.thrown_away
        found[name]["settled"] = steady(passes)


def _learn(
    workload: Workload,
    mode: Mode,
    data: list[Batch],
    trainers: dict[str, Trainer],
    report: BenchReport,
    data_bytes: int,
    meter: Meter,
) -> dict[str, Any] | None:
    """Train once for the losses and the peak memory; None, with a note, if it cannot compile."""
    _tidy(report.device)
    meter.start()
    try:
        trainer = Trainer(workload, mode, data, report.device)
        losses, skipped = trainer.learn(workload.epochs)
    except Exception as error:
        if not (mode.compile and type(error).__module__.startswith(_COMPILERS)):
            raise
        line = str(error).strip().partition("\n")[0]
        _note(report, workload, mode, f"torch.compile failed: {line or type(error).__name__}")
        return None
    trainers[mode.name] = trainer
    own = meter.peak()
    # As if the data and this mode were alone: the modes before it were there at the start.
    peak = None if own is None else data_bytes + own
    return {"losses": losses, "skipped_steps": skipped, "peak_bytes": peak}


_COMPILERS = ("torch._dynamo", "torch._inductor", "torch._functorch", "triton")


def _finished(
    workload: Workload,
    modes: Sequence[Mode],
    planned: WorkloadCost,
    report: BenchReport,
    found: dict[str, dict[str, Any]],
) -> list[dict[str, Any]]:
    """A row of plain data for each mode with a median and a spread."""
    reference = found.get("FP32", {}).get("losses")
    rows = []
    for mode in modes:
        facts = found.get(mode.name, {})
        if len(facts.get("samples_s", ())) < 2:
            continue
        losses = facts["losses"]
        departs = None if reference is None else departure(losses, reference)
        rows.append(
            {
                "workload": workload.name,
                "mode": mode.name,
                **facts,
                "step_flops": planned.step_flops,
                "step_bytes": planned.step_bytes[mode.autocast],
                "roof": report.flops.get(mode.roof),
                "data_bytes": planned.data_bytes,
                "losses": [loss if math.isfinite(loss) else None for loss in losses],
                "departs": departs,
                "fp32_precision": mode.fp32,
            }
        )
    return rows


def departure(losses: Sequence[float], reference: Sequence[float]) -> str | None:
    """How a loss curve departs from float32's, in words; "" if it does not.

    The last quarters of both are compared, so that a scaler may skip its first steps. None if
    float32's own loss did not fall by 5%: then there is nothing to compare.
    """
    tail = max(1, len(reference) // 4)
    end, ours = (sum(curve[-tail:]) / tail for curve in (reference, losses))
    fall = reference[0] - end
    if not fall > 0.05 * abs(reference[0]):
        return None
    if not math.isfinite(ours):
        return "its loss is not finite"
    if abs(ours - end) <= DEPARTURE * fall:
        return ""
    return f"its loss ends at {ours:.3g}, float32's at {end:.3g}"


def _tidy(device: torch.device) -> None:
    """Give the GPU's memory back, so that nobody's peak counts what another left behind."""
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
