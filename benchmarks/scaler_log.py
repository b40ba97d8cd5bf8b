"""What `ScalerLog` adds to a step of the FP16 loop on the digits, on this CPU.

The same steps run with a plain GradScaler and with one that is logged, block by block in one run;
each round turns the order round, so that a slow moment of the machine hits both. The ratio is
taken within a round and only then summarised. The clock counts this process alone, since what
other programs do says nothing about the log. Blocks of scaler calls with one number to train show
the log's own cost in microseconds. Run it with ``python benchmarks/scaler_log.py [--json FILE]``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import torch
from formats_rounding import machine, median_and_spread

from amp_lessons.amp.scaling.scaler_log import ScalerLog
from amp_lessons.amp.training.loops import Batches, digits_network, load_digits, train_fp16

Block = Callable[[int], object]
PLAIN, LOGGED = "plain", "logged"
LIMIT = 0.02


def digits_loop(logged: bool) -> Block:
    """Steps of `train_fp16`: the digits network, batches of 64, SGD."""
    digits, network = load_digits(), digits_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    batches = Batches(digits.train_images, digits.train_labels)
    chosen = ScalerLog(scaler) if logged else scaler
    return lambda steps: train_fp16(network, optimizer, islice(batches, steps), chosen)


def scaler_alone(logged: bool) -> Block:
    """`scale`, `step` and `update` on one number: next to nothing beside the scaler itself."""
    parameter = torch.nn.Parameter(torch.ones(()))
    parameter.grad = torch.zeros(())
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    chosen = ScalerLog(scaler) if logged else scaler

    def block(steps: int) -> None:
        for _ in range(steps):
            chosen.scale(parameter)
            chosen.step(optimizer)
            chosen.update()

    return block


def measure(blocks: dict[str, Block], rounds: int, steps: int) -> dict[str, list[float]]:
    """Seconds a step, a block a round; two rounds to warm up are not kept."""
    samples: dict[str, list[float]] = {name: [] for name in blocks}
    order = list(blocks)
    for _ in range(rounds + 2):
        for name in order:
            start = time.process_time()
            blocks[name](steps)
            samples[name].append((time.process_time() - start) / steps)
        order.reverse()
    return {name: seconds[2:] for name, seconds in samples.items()}


def report(title: str, samples: dict[str, list[float]]) -> float:
    """Print median and quartiles; give the median of what the log adds, in seconds a step."""
    print(f"\n{title}")
    for name, seconds in samples.items():
        middle, low, high = (1e6 * s for s in median_and_spread(seconds))
        print(f"  {name:<8} {middle:9.2f} us a step ({low:.2f} to {high:.2f})")
    pairs = list(zip(samples[LOGGED], samples[PLAIN], strict=True))
    middle, low, high = median_and_spread([100 * (ours / theirs - 1) for ours, theirs in pairs])
    print(f"  logged adds {middle:+.2f}% ({low:+.2f}% to {high:+.2f}%), round by round")
    return statistics.median(ours - theirs for ours, theirs in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to FILE")
    parser.add_argument("--rounds", type=int, default=200, help="rounds that are kept (2 or more)")
    parser.add_argument("--steps", type=int, default=25, help="steps of the digits loop in a block")
    parser.add_argument("--threads", type=int, default=1, help="threads for torch")
    options = parser.parse_args()
    if options.rounds < 2 or options.steps < 1 or options.threads < 1:
        parser.error("--rounds must be 2 or more, --steps and --threads 1 or more")
    torch.set_num_threads(options.threads)

    where = machine()
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    print(f"{options.rounds} rounds; median (quartiles)")
    loop = {PLAIN: digits_loop(False), LOGGED: digits_loop(True)}
    alone = {PLAIN: scaler_alone(False), LOGGED: scaler_alone(True)}
    results = {
        "digits loop": measure(loop, options.rounds, options.steps),
        "scaler alone": measure(alone, options.rounds, 20 * options.steps),
    }
    report("the FP16 loop on the digits", results["digits loop"])
    own = report("scale, step and update alone", results["scaler alone"])
    step = statistics.median(results["digits loop"][PLAIN])
    share = own / step
    verdict = "under" if share < LIMIT else "NOT under"
    print(f"\nthe log's own {1e6 * own:.2f} us are {share:.2%} of a step: {verdict} {LIMIT:.0%}")
    if options.json:
        record = {
            "what": "scaler_log",
            "date": datetime.date.today().isoformat(),
            "command": shlex.join(["python", *sys.argv]),
            "clock": "time.process_time around a block of steps, in seconds a step",
            "steps_a_block": {"digits loop": options.steps, "scaler alone": 20 * options.steps},
            "machine": where,
            "samples": results,
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
