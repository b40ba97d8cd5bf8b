"""Record trainings in MXFP8, MXFP4 and NVFP4 for lesson 14: `python tools/record_four_bits.py`.

Trains the painter once for each run and seed of `amp_lessons/amp/training/four_bits.py`, and writes
the curves to the JSON file beside it. CPUs add up products in different orders, so another one
gives slightly different numbers; the tests compare with tolerances.
"""

from __future__ import annotations

import json
import sys
import time

import torch

from amp_lessons.amp.training.fixed_scale import one_thread
from amp_lessons.amp.training.four_bits import FILE, RUNS, SEEDS, STEPS, train
from amp_lessons.core.files import write_atomically


def main() -> int:
    runs: dict[str, list[list[float]]] = {}
    with one_thread():
        for run in RUNS:
            runs[run.name] = [[round(e, 5) for e in train(run, seed)] for seed in SEEDS]
            print(run.name, *(curve[-1] for curve in runs[run.name]), flush=True)
    write_atomically(FILE, as_text(runs).encode())
    print(f"{time.process_time():.0f} CPU seconds")
    return 0


def as_text(runs: dict[str, list[list[float]]]) -> str:
    """JSON with a curve a line."""
    about = {
        "torch": torch.__version__.split("+")[0],
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "command": "python tools/record_four_bits.py",
        "steps": STEPS,
        "seeds": list(SEEDS),
    }
    parts = []
    for name, curves in runs.items():
        lines = ",\n".join(json.dumps(curve, separators=(",", ":")) for curve in curves)
        parts.append(f"{json.dumps(name)}:[\n{lines}]")
    return f'{{"about":{json.dumps(about)},\n"runs":{{\n' + ",\n".join(parts) + "}}\n"


if __name__ == "__main__":
    sys.exit(main())
