"""What the bench found: as tables, as plain data for JSON and records, as a roofline."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.table import Table

from amp_lessons.amp.roofline import find_gpu
from amp_lessons.amp.speed.bench.modes import MODES, Mode
from amp_lessons.amp.speed.bench.runner import BenchReport
from amp_lessons.amp.speed.records import SCHEMA_VERSION, RecordRow
from amp_lessons.core.sizes import size

if TYPE_CHECKING:
    from amp_lessons.core.pictures import Picture

STEADY = 0.03
"""A spread (interquartile range by median) above this is marked: something else was running."""

A_CPU = (
    "This was a CPU. The lesson's claim is about GPUs with tensor cores: these ratios say nothing "
    "about it."
)


def tables(report: BenchReport, *, wide: bool = True) -> list[Table]:
    """One table a workload, a row a mode; narrow ones leave memory and data sheet out."""
    names = dict.fromkeys([row.workload for row in report.read()])
    names |= dict.fromkeys(note["workload"] for note in report.not_measured)
    return [_table(report, name, wide) for name in names]


def notes(report: BenchReport) -> list[str]:
    """What must be said beside the tables, one line each."""
    rows = report.read()
    lines = []
    if report.flops:
        roofs = ", ".join(f"{name} {_tera(flops)}" for name, flops in report.flops.items())
        lines.append(f"peak of a large matmul here, in TFLOP/s: {roofs}")
    if report.bandwidth:
        lines.append(f"bandwidth of a copy here: {_three(report.bandwidth / 1e9)} GB/s")
    if rows:
        lines.append(
            f"clock: {report.clock}; {min(len(row.samples_s) for row in rows)} or more samples "
            "each; spread is the interquartile range by the median"
        )
    if any((row.spread or 0) > STEADY for row in rows):
        lines.append(f"! spread above {STEADY:.0%}: something else was running; run it again")
    drifted = [f"{row.workload}, {row.mode}" for row in rows if not row.details["settled"]]
    if drifted:
        lines.append(f"! times still drifted, so only ratios may be right: {'; '.join(drifted)}")
    lines += _gpu_lines(report) + _told_once(report)
    for row in rows:
        if row.departs:
            lines.append(f"{row.workload}, {row.mode}: {row.departs}; its speed is worth nothing")
        elif row.departs is None:
            lines.append(f"{row.workload}, {row.mode}: no float32 loss to compare with")
    return lines if report.host["gpu"] else [*lines, A_CPU]


def _gpu_lines(report: BenchReport) -> list[str]:
    """What the GPU's clock and power were after the last sample, as far as nvidia-smi told."""
    after = report.host["machine"].get("gpu_after", {})
    known = {
        "SM clock": _of(after, "sm_clock_mhz", "sm_clock_max_mhz", "MHz"),
        "power": _of(after, "power_w", "power_limit_w", "W"),
        "temperature": _of(after, "temperature_c", "", "°C"),
    }
    told = ", ".join(f"{what} {value}" for what, value in known.items() if value)
    return [f"GPU right after the run: {told}"] if told else []


def _of(facts: dict[str, Any], name: str, limit: str, unit: str) -> str:
    if name not in facts:
        return ""
    most = f" of {_three(facts[limit])}" if limit in facts else ""
    return f"{_three(facts[name])}{most} {unit}"


def _told_once(report: BenchReport) -> list[str]:
    reasons = {(note["mode"], note["reason"]) for note in report.not_measured}
    return [f"{mode} not measured: {reason}" for mode, reason in sorted(reasons)]


def _table(report: BenchReport, workload: str, wide: bool) -> Table:
    table = Table(title=workload, title_justify="left", title_style="bold", expand=True)
    table.add_column("mode", ratio=2)
    for heading in ("ms a step", "spread", "x FP32", "TFLOP/s", "of peak"):
        table.add_column(heading, justify="right")
    if wide and report.host["gpu"]:
        table.add_column("of data sheet", justify="right")
    if wide:
        table.add_column("data + step", justify="right")
    table.add_column("last loss")
    rows = {row.mode: row for row in report.read() if row.workload == workload}
    base = rows["FP32"].median_s if "FP32" in rows else None
    missing = {note["mode"] for note in report.not_measured if note["workload"] == workload}
    for mode in MODES:
        if mode.name in rows:
            sheet = _sheet_cells(report, mode, rows[mode.name]) if wide else []
            table.add_row(*_cells(rows[mode.name], base, sheet, wide))
        elif mode.name in missing:
            table.add_row(mode.name, "not measured")
    return table


def _sheet_cells(report: BenchReport, mode: Mode, row: RecordRow) -> list[str]:
    """Achieved FLOP/s divided by the data sheet's peak, also called MFU. No cell without a GPU."""
    if not report.host["gpu"]:
        return []
    try:
        peak = find_gpu(report.host["gpu"]).peak(mode.roof.lower())
    except ValueError:
        return ["no sheet"]
    return [f"{1e12 * (row.tflops or 0) / peak:.0%}"]


def _cells(row: RecordRow, base: float | None, sheet: list[str], wide: bool) -> list[str]:
    spread = row.spread or 0.0  # a measured row has one
    unsteady = spread > STEADY or not row.details["settled"]
    memory = "not measured"
    if row.step_peak_bytes is not None:
        memory = f"{size(row.data_bytes or 0)} + {size(row.step_peak_bytes)}"
    last = "not finite" if row.losses[-1] is None else f"{row.losses[-1]:.3g}"
    return [
        row.mode,
        _three(1e3 * row.median_s),
        f"{'! ' if unsteady else ''}{spread:.1%}",
        f"{base / row.median_s:.2f}" if base else "",
        _tera(1e12 * (row.tflops or 0)),
        f"{row.share:.0%}" if row.share else "",
        *sheet,
        *([memory] if wide else []),
        f"{last}{' DEPARTS' if row.departs else ''}",
    ]


def _tera(flops: float) -> str:
    return _three(flops / 1e12)


def _three(number: float) -> str:
    """Three digits, and all of them before the point."""
    return f"{number:.0f}" if number >= 1000 else f"{number:.3g}"


# ---- plain data ------------------------------------------------------------------------------


def as_json(report: BenchReport, command: str, name: str) -> dict[str, Any]:
    """The report as a record has it. Only one from CUDA fits the schema: `gpu` is null else."""
    notes = [] if report.host["gpu"] else [A_CPU]
    data = {
        "schema_version": SCHEMA_VERSION,
        "name": name,
        "kind": "measured",
        **report.host,
        "date": datetime.now(UTC).date().isoformat(),
        "command": command,
        "clock": report.clock,
        "fp32_state": report.fp32_state,
        "peaks": {"flops": report.flops, "bandwidth": report.bandwidth},
        "notes": notes,
        "rows": report.rows,
        "not_measured": report.not_measured,
    }
    return data | ({"stopped": report.stopped} if report.stopped else {})


# ---- picture ---------------------------------------------------------------------------------


def picture(report: BenchReport) -> Picture:
    """The roofline of this machine with a marker for each run."""
    from amp_lessons.amp.speed.roofline_plot import roofline

    title = f"Roofline of {report.host['gpu'] or 'this CPU'}, measured"
    bandwidth = report.bandwidth or 0.0  # known once a row was measured
    return roofline(_points(report.read()), report.flops, bandwidth, title=title)


def _points(rows: Iterable[RecordRow]) -> dict[str, dict[str, tuple[float, float]]]:
    """By workload and mode: FLOP/byte of the eager program, and FLOP/s."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for row in rows:
        if row.intensity and row.tflops:
            short = row.workload.partition(",")[0]
            found.setdefault(short, {})[row.mode] = (row.intensity, row.tflops * 1e12)
    return found
