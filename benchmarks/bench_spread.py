"""How far the bench's own samples spread on this CPU, whatever else runs on it.

The same run as ``amp-lessons bench --preset small``, without the compiler, by the processor time of
this process: the clock stands still while other programs have the processor, so what is left is
the spread of the method and of the shared caches. Run it with
``python benchmarks/bench_spread.py [--json FILE]``.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from pathlib import Path

import torch

from amp_lessons.amp.speed.bench import PRESETS, report, run
from amp_lessons.amp.speed.bench.modes import chosen
from amp_lessons.amp.speed.timing import WallClock


class ProcessClock(WallClock):
    """Processor time of this process."""

    name = "process_time"

    def __init__(self) -> None:
        super().__init__(now=time.process_time)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to FILE")
    parser.add_argument("--repeats", type=int, default=15, help="samples of each mode (2 or more)")
    parser.add_argument("--batches", type=int, default=10, help="steps in a sample (1 or more)")
    options = parser.parse_args()
    if options.repeats < 2 or options.batches < 1:
        parser.error("--repeats must be 2 or more, --batches 1 or more")
    torch.set_num_threads(1)

    print("load before:", *(f"{load:.1f}" for load in os.getloadavg()))
    workloads = PRESETS["small"](batches=options.batches, epochs=3)
    modes = chosen(["fp32", "fp16", "bf16"])
    found = run(
        workloads, modes, torch.device("cpu"), repeats=options.repeats, clock=ProcessClock()
    )
    base = {row.workload: row.median_s for row in found.read() if row.mode == "FP32"}
    for row in found.read():
        ratio = base[row.workload] / row.median_s
        print(
            f"{row.workload:<40} {row.mode:<9} {1e3 * row.median_s:8.3f} ms a step, "
            f"spread {row.spread:6.1%}, {ratio:.2f} x FP32"
        )
    if options.json:
        data = report.as_json(found, shlex.join(["python", *sys.argv]), options.json.stem)
        options.json.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
