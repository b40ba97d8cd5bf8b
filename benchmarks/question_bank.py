"""How long the question bank takes to load, and how soon `amp-lessons quiz` asks.

Three ways to read the bank take turns in one process: as the course does (tomli and pydantic),
tomli alone, and tomllib alone. Then three commands take turns, each in a process
of its own: Python doing nothing, ``amp-lessons --version`` and ``amp-lessons quiz`` up to its first
question. Run it with ``python benchmarks/question_bank.py [--json FILE] [--repeats N]``.
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
import tempfile
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import tomli

from amp_lessons.quiz import bank


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_process(*words: str) -> Callable[[], object]:
    """A command with nothing to read: `quiz` shows its first question and ends."""
    command = [sys.executable, *words]

    def run() -> object:
        with tempfile.TemporaryDirectory() as home:
            environment = os.environ | {"AMP_LESSONS_HOME": home}
            return subprocess.run(command, env=environment, input=b"", capture_output=True)

    return run


def take_turns(ways: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    for work in ways.values():
        work()
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, work in ways.items():
            samples[name].append(timed(work))
    return samples


def report(title: str, samples: dict[str, list[float]]) -> None:
    print(f"\n{title}")
    first = next(iter(samples.values()))
    for name, values in samples.items():
        ratio = statistics.median(a / b for a, b in zip(values, first, strict=True))
        middle = 1e3 * statistics.median(values)
        low, high = 1e3 * min(values), 1e3 * max(values)
        print(f"  {name:<28} {middle:7.1f} ms ({low:.1f} to {high:.1f}), {ratio:.2f} of the first")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to FILE")
    parser.add_argument("--repeats", type=int, default=15, help="rounds")
    options = parser.parse_args()
    texts = [path.read_text(encoding="utf-8") for path in sorted(bank.FOLDER.glob("*.toml"))]
    where = {
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
        "kilobytes": round(sum(len(text.encode()) for text in texts) / 1e3),
    }
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    reading = take_turns(
        {
            "read and validate": lambda: bank.read(bank.FOLDER),
            "tomli alone": lambda: [tomli.loads(text) for text in texts],
            "tomllib alone": lambda: [tomllib.loads(text) for text in texts],
        },
        options.repeats,
    )
    report("the bank, in one process", reading)
    module = ("-m", "amp_lessons")
    starting = take_turns(
        {
            "python -c pass": in_process("-c", "pass"),
            "amp-lessons --version": in_process(*module, "--version"),
            "amp-lessons quiz": in_process(*module, "quiz", "-n", "1"),
        },
        options.repeats,
    )
    report("until the first question", starting)
    if options.json:
        samples = {"reading": reading, "starting": starting}
        options.json.write_text(json.dumps({"machine": where, "samples": samples}, indent=1))


if __name__ == "__main__":
    main()
