"""The bench in a terminal: how far it is while it measures, then tables or JSON, and files."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress, TimeElapsedColumn

from amp_lessons.amp.speed import bench, records
from amp_lessons.amp.speed.bench import report as reports
from amp_lessons.amp.speed.bench.modes import Mode
from amp_lessons.amp.speed.bench.runner import BenchReport
from amp_lessons.amp.speed.bench.workloads import Workload
from amp_lessons.core import interrupts
from amp_lessons.core.files import write_atomically
from amp_lessons.core.terminal import console, say, warn


@dataclass(frozen=True)
class Outputs:
    """What was asked for: JSON on standard output instead of tables, and files."""

    json: bool = False
    picture: Path | None = None
    record: Path | None = None


def measure(
    chosen: Sequence[Workload],
    modes: Sequence[Mode],
    where: Any,
    *,
    repeats: int,
    left_out: dict[str, str],
) -> BenchReport:
    """Run the bench and show how far it is; what was measured before an interrupt is kept.

    A terminal gets a bar. A log or a notebook gets a line on standard error for each new piece of
    work, because on a slow machine the bench takes minutes.
    """
    interrupts.clean_up_first()  # what was measured is kept
    screen = console(stderr=True)
    with Progress(
        *Progress.get_default_columns(),
        TimeElapsedColumn(),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    ) as bar:
        total = bench.pieces(chosen, modes, repeats)
        task = bar.add_task("planning", total=total)
        said: set[str] = set()

        def tell(done: str) -> None:
            bar.update(task, advance=1, description=done)
            if not screen.is_terminal and done not in said:
                said.add(done)
                warn(done)

        report = bench.run(
            chosen,
            modes,
            where,
            repeats=repeats,
            left_out=left_out,
            tell=tell,
        )
        bar.update(task, completed=total)
    return report


def show(report: BenchReport, files: Outputs) -> None:
    """Print the tables, and write the files."""
    command = shlex.join(["amp-lessons", *sys.argv[1:]])
    name = re.sub("[^a-z0-9]+", "-", (files.record or Path("bench")).stem.lower()).strip("-")
    data = reports.as_json(report, command, name or "record")
    if files.json:
        print(_as_json(data), end="")
    else:
        screen = console()
        for table in reports.tables(report, wide=screen.width >= 100):
            screen.print(table)
        for note in reports.notes(report):
            say(note)
    if files.record is not None and report.rows:
        records.write_record(files.record, data)
    if files.picture is not None and report.rows:
        write_atomically(files.picture, reports.picture(report).png)


def _as_json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1, default=str) + "\n"
