"""How long `explain_autocast` takes and how much memory, on GPT-2's smallest (124M parameters).

Each round is a process of its own, so that the peak memory is that of one trace; the first figure
of each is what importing torch alone takes. Run it with
``python benchmarks/explain_autocast.py [--json FILE] [--repeats N]``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

import torch

ROUND = """
import json, resource, sys, time
import torch
def peak():
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
torch_alone = peak()
start = time.perf_counter()
from amp_lessons.amp.loading import ModelSpec, load_model
from amp_lessons.amp.explain import explain_autocast
given = load_model(ModelSpec("amp_lessons.amp.training.models:gpt2"))
built = time.perf_counter()
explained = explain_autocast(given.model, *given.args, device=sys.argv[1])
done = time.perf_counter()
print(json.dumps({
    "build_s": built - start, "trace_s": done - built, "torch_alone_mib": torch_alone,
    "peak_mib": peak(), "parameters": explained.totals.parameters,
    "ops": explained.totals.ops,
}))
"""


def one_round(device: str) -> dict[str, float]:
    """Build and trace in a fresh process; seconds and MiB."""
    command = [sys.executable, "-c", ROUND, device]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def report(device: str, rounds: list[dict[str, float]]) -> None:
    print(f"\n{device}: {rounds[0]['parameters']:,} parameters, {rounds[0]['ops']} ops")
    for key in ("build_s", "trace_s", "torch_alone_mib", "peak_mib"):
        values = [each[key] for each in rounds]
        middle = statistics.median(values)
        print(f"  {key:<16} median {middle:8.2f}  ({min(values):.2f} to {max(values):.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to FILE")
    parser.add_argument("--repeats", type=int, default=5, help="processes for each device")
    options = parser.parse_args()
    where = {
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
    }
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    samples = {}
    for device in ("cuda", "cpu"):
        samples[device] = [one_round(device) for _ in range(options.repeats)]
        report(device, samples[device])
    if options.json:
        options.json.write_text(json.dumps({"machine": where, "samples": samples}, indent=1))


if __name__ == "__main__":
    main()
