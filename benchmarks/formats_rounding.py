"""How long `Format.round` and `encode` take beside torch's own cast, on this CPU.

Every case of a format is timed once a round, in an order that turns round each time, so that a
slow moment of the machine hits all of them. Ratios are taken within a round and only then
summarised. Run it with ``python benchmarks/formats_rounding.py [--json FILE]``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from amp_lessons.amp.numbers.formats import BF16, FORMATS, FP8_E4M3, FP8_E5M2, FP16, FP32, Format

TORCH_DTYPE = {
    FP32: torch.float32,
    FP16: torch.float16,
    BF16: torch.bfloat16,
    FP8_E4M3: torch.float8_e4m3fn,
    FP8_E5M2: torch.float8_e5m2,
}
WAYS = ("one way", "round trip")

Cases = dict[str, Callable[[], object]]

EXPLANATION = """\
Our rows are compared with torch's cast to the format's own dtype (one way: 1, 2 or 4 bytes a
number come out) and with that cast and the cast back to float32 (round trip: what `round` gives);
"fresh" rows make a new result each time, "out=" rows write into memory that is there already."""


def cases_of(format: Format, array: np.ndarray) -> tuple[Cases, Cases]:
    """What to time for one format: our calls and torch's. torch has no dtype for TF32."""
    tensor = torch.from_numpy(array)
    array_out, tensor_out = np.empty_like(array), torch.empty_like(tensor)
    ours: Cases = {
        "round(array) fresh": lambda: format.round(array),
        "round(array, out=)": lambda: format.round(array, out=array_out),
        "round(tensor) fresh": lambda: format.round(tensor),
        "round(tensor, out=)": lambda: format.round(tensor, out=tensor_out),
        "encode(array) fresh": lambda: format.encode(array),
    }
    if format not in TORCH_DTYPE:
        return ours, {}
    dtype = TORCH_DTYPE[format]
    narrow = torch.empty_like(tensor, dtype=dtype)
    theirs: Cases = {
        "torch one way fresh": lambda: tensor.to(dtype, copy=True),
        "torch one way out=": lambda: narrow.copy_(tensor),
    }
    if dtype != torch.float32:  # there the one way is a copy, and no way back is needed
        theirs["torch round trip fresh"] = lambda: tensor.to(dtype).to(torch.float32)
        theirs["torch round trip out="] = lambda: tensor_out.copy_(narrow.copy_(tensor))
    return ours, theirs


def measure(cases: Cases, repeats: int) -> dict[str, list[float]]:
    """Seconds of each case in each round; one round to warm up is not kept."""
    samples: dict[str, list[float]] = {name: [] for name in cases}
    order = list(cases)
    for _ in range(repeats + 1):
        for name in order:
            start = time.perf_counter()
            cases[name]()
            samples[name].append(time.perf_counter() - start)
        order.reverse()
    return {name: seconds[1:] for name, seconds in samples.items()}


def median_and_spread(samples: list[float]) -> tuple[float, float, float]:
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return middle, low, high


def ratio(samples: dict[str, list[float]], ours: str, theirs: str) -> str:
    """Median and quartiles of our time over theirs, round by round; a dash where there is none."""
    if theirs not in samples:
        return "-"
    pairs = zip(samples[ours], samples[theirs], strict=True)
    middle, low, high = median_and_spread([mine / other for mine, other in pairs])
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def report(format: Format, samples: dict[str, list[float]]) -> None:
    heading = f"{format.name:<24}{'ms: median (quartiles)':>26}"
    print(f"\n{heading}{'x torch one way':>24}{'x torch round trip':>24}")
    for name, seconds in samples.items():
        middle, low, high = (1e3 * s for s in median_and_spread(seconds))
        times = f"{middle:.1f} ({low:.1f} to {high:.1f})"
        memory = "out=" if "out=" in name else "fresh"
        ratios = ["-", "-"]
        if not name.startswith("torch"):
            ratios = [ratio(samples, name, f"torch {way} {memory}") for way in WAYS]
        print(f"{name:<24}{times:>26}{ratios[0]:>24}{ratios[1]:>24}")


def machine() -> dict[str, object]:
    """What a reader needs to know about where the numbers come from."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].partition(":")[2].strip() if names else cpu
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to FILE")
    parser.add_argument("--count", type=int, default=10_000_000, help="numbers to round")
    parser.add_argument("--repeats", type=int, default=15, help="rounds that are kept (2 or more)")
    parser.add_argument("--threads", type=int, help="threads for torch (default: torch's own)")
    options = parser.parse_args()
    if options.count < 1 or options.repeats < 2:
        parser.error("--count must be 1 or more, --repeats 2 or more")
    if options.threads is not None:
        torch.set_num_threads(options.threads)

    where = machine()
    print(f"{options.count:,} float32 numbers from N(0, 1); {options.repeats} rounds")
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    print(EXPLANATION)
    array = np.random.default_rng(0).standard_normal(options.count, dtype=np.float32)
    results: dict[str, dict[str, list[float]]] = {}
    for format in FORMATS.values():
        ours, theirs = cases_of(format, array)
        results[format.name] = measure({**ours, **theirs}, options.repeats)
        report(format, results[format.name])
    if options.json:
        record = {
            "what": "formats_rounding",
            "date": datetime.date.today().isoformat(),
            "command": shlex.join(["python", *sys.argv]),
            "clock": "time.perf_counter around one call, in seconds",
            "numbers": options.count,
            "machine": where,
            "samples": results,
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
