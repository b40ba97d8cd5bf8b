"""What the bench found: as tables, as plain data for JSON and records, as a roofline."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import torch
from rich.table import Table

from amp_lessons import device as machine
from amp_lessons.bench.modes import MODES
from amp_lessons.bench.planning import gib
from amp_lessons.bench.runner import Report
from amp_lessons.plots import Picture, roofline
from amp_lessons.records import SCHEMA_VERSION, Row

STEADY = 0.03
"""A spread (interquartile range by median) above this is marked: something else was running."""


def tables(report: Report, *, wide: bool = True) -> list[Table]:
    """One table a workload, a row a mode; narrow ones leave the memory out."""
    names = dict.fromkeys([row.workload for row in report.read()])
    names |= dict.fromkeys(note["workload"] for note in report.not_measured)
    return [_table(report, name, wide) for name in names]


def notes(report: Report) -> list[str]:
    """What must be said beside the tables, one line each."""
    rows = report.read()
    lines = []
    if report.flops:
        roofs = ", ".join(f"{name} {_tera(flops)}" for name, flops in report.flops.items())
        lines.append(f"peak of a large matmul here, in TFLOP/s: {roofs}")
    if report.bandwidth:
        lines.append(f"bandwidth of a copy here: {report.bandwidth / 1e9:.3g} GB/s")
    if rows:
        lines.append(
            f"clock: {report.clock}; {min(len(row.samples_s) for row in rows)} or more samples "
            "each; spread is the interquartile range by the median"
        )
    if any(row.spread > STEADY for row in rows):
        lines.append(f"! spread above {STEADY:.0%}: something else was running; run it again")
    lines += _told_once(report)
    for row in rows:
        if row.departs:
            lines.append(f"{row.workload}, {row.mode}: {row.departs}; its speed is worth nothing")
        elif row.departs is None:
            lines.append(f"{row.workload}, {row.mode}: no float32 loss to compare with")
    if report.device.type == "cpu":
        lines.append(
            "This was a CPU. The lesson's claim is about GPUs with tensor cores: these ratios say "
            "nothing about it."
        )
    return lines


def _told_once(report: Report) -> list[str]:
    reasons = {(note["mode"], note["reason"]) for note in report.not_measured}
    return [f"{mode} not measured: {reason}" for mode, reason in sorted(reasons)]


def _table(report: Report, workload: str, wide: bool) -> Table:
    table = Table(title=workload, title_justify="left", title_style="bold", expand=True)
    table.add_column("mode", ratio=2)
    for heading in ("ms a step", "spread", "x FP32", "TFLOP/s", "of peak"):
        table.add_column(heading, justify="right")
    if wide:
        table.add_column("data + step", justify="right")
    table.add_column("last loss")
    rows = {row.mode: row for row in report.read() if row.workload == workload}
    base = rows["FP32"].median_s if "FP32" in rows else None
    missing = {note["mode"] for note in report.not_measured if note["workload"] == workload}
    for mode in MODES:
        if mode.name in rows:
            table.add_row(*_cells(rows[mode.name], base, wide))
        elif mode.name in missing:
            table.add_row(mode.name, "not measured")
    return table


def _cells(row: Row, base: float | None, wide: bool) -> list[str]:
    unsteady = row.spread > STEADY or not row.details["settled"]
    memory = "not measured"
    if row.step_peak_bytes is not None:
        memory = f"{gib(row.data_bytes)} + {gib(row.step_peak_bytes)}"
    last = "not finite" if row.losses[-1] is None else f"{row.losses[-1]:.3g}"
    return [
        row.mode,
        f"{1e3 * row.median_s:.3g}",
        f"{'! ' if unsteady else ''}{row.spread:.1%}",
        f"{base / row.median_s:.2f}" if base else "",
        _tera(row.tflops * 1e12),
        f"{row.share:.0%}" if row.share else "",
        *([memory] if wide else []),
        f"{last}{' DEPARTS' if row.departs else ''}",
    ]


def _tera(flops: float) -> str:
    return f"{flops / 1e12:.3g}"


# ---- plain data ------------------------------------------------------------------------------


def as_json(report: Report, command: str, name: str) -> dict[str, Any]:
    """The report as a record has it. Only one from CUDA fits the schema: `gpu` is null else."""
    cuda = report.device.type == "cuda"
    data: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "name": name,
        "kind": "measured",
        "gpu": torch.cuda.get_device_name(report.device) if cuda else None,
        "driver": driver_version() if cuda else None,
        "torch": torch.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        "command": command,
        "clock": report.clock,
        "machine": _machine(report.device),
        "fp32_state": report.fp32_state,
        "peaks": {"flops": report.flops, "bandwidth": report.bandwidth},
        "notes": [] if cuda else [notes(report)[-1]],
        "rows": report.rows,
        "not_measured": report.not_measured,
    }
    return data | ({"stopped": report.stopped} if report.stopped else {})


def driver_version() -> str | None:
    """NVIDIA's driver, as nvidia-smi says; None if it does not."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.split("\n") if done.returncode == 0 else [""]
    return lines[0].strip() or None


def _machine(device: torch.device) -> dict[str, Any]:
    cpu = machine.cpu()
    facts: dict[str, Any] = {
        "cpu": cpu.model,
        "cores": machine.logical_cores(),
        "threads": torch.get_num_threads(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
    }
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        facts |= {
            "capability": f"{major}.{minor}",
            "gpu_memory_bytes": torch.cuda.get_device_properties(device).total_memory,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        }
    return facts


# ---- picture ---------------------------------------------------------------------------------


def picture(report: Report) -> Picture:
    """The roofline of this machine with a marker for each run."""
    points = _points(report.read())
    where = "this CPU"
    if report.device.type == "cuda":
        where = torch.cuda.get_device_name(report.device)
    return roofline(points, report.flops, report.bandwidth, title=f"Roofline of {where}, measured")


def _points(rows: Iterable[Row]) -> dict[str, dict[str, tuple[float, float]]]:
    """By workload and mode: FLOP/byte of the eager program, and FLOP/s."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for row in rows:
        if row.intensity:
            short = row.workload.partition(",")[0]
            found.setdefault(short, {})[row.mode] = (row.intensity, row.tflops * 1e12)
    return found
