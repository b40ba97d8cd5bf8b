"""What `amp_lessons.monitor` adds to a training step, on this CPU.

The same loop (a transformer of 6 layers, width 256, batch 32, BF16 autocast, AdamW) runs with and
without the monitor, block by block in one process. Each pair turns the order round. A block has as
many steps as the monitor's `every`, so exactly one of them is sampled. The clock counts this
process alone. Run it with ``python benchmarks/monitor.py [--json FILE]``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shlex
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.nn.functional as F
from formats_rounding import machine, median_and_spread
from torch import nn

import amp_lessons

CLASSES, LIMIT = 64, 0.10


class Transformer(nn.Module):
    """Six encoder layers over tokens, and a linear head."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(CLASSES, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.tokens(tokens)))


class Loop:
    """A training loop that can go on with a monitor, or without."""

    def __init__(self, options: argparse.Namespace) -> None:
        torch.manual_seed(0)
        self.options = options
        self.model = Transformer(options.layers, options.width)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def block(self, watched: bool) -> float:
        """Seconds a step, over as many steps as lie between two samples."""
        every = self.options.every
        context = amp_lessons.monitor(self.model, every=every) if watched else nullcontext()
        start = time.process_time()
        with context:
            for _ in range(every):
                self.step()
        return (time.process_time() - start) / every

    def step(self) -> None:
        tokens = torch.randint(CLASSES, (self.options.batch, self.options.length))
        self.optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(self.model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        self.optimizer.step()


def measure(loop: Loop, pairs: int) -> dict[str, list[float]]:
    """Seconds a step of each block; the pairs alternate in order."""
    samples: dict[str, list[float]] = {"plain": [], "watched": []}
    loop.step()
    for pair in range(pairs):
        order = ("plain", "watched") if pair % 2 == 0 else ("watched", "plain")
        for name in order:
            samples[name].append(loop.block(name == "watched"))
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to FILE")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of blocks")
    parser.add_argument("--every", type=int, default=50, help="steps in a block, one is sampled")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=16, help="tokens in a sequence")
    parser.add_argument("--threads", type=int, default=1, help="threads for torch")
    options = parser.parse_args()
    if min(options.pairs, options.every, options.threads) < 1:
        parser.error("--pairs, --every and --threads must be 1 or more")
    torch.set_num_threads(options.threads)

    where = machine()
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    samples = measure(Loop(options), options.pairs)
    for name, seconds in samples.items():
        middle, low, high = (1e3 * s for s in median_and_spread(seconds))
        print(f"  {name:<8} {middle:8.1f} ms a step ({low:.1f} to {high:.1f})")
    pairs = zip(samples["watched"], samples["plain"], strict=True)
    ratios = [watched / plain for watched, plain in pairs]
    middle, low, high = median_and_spread(ratios)
    verdict = "under" if middle - 1 < LIMIT else "NOT under"
    print(f"  the monitor adds {middle - 1:+.1%} ({low - 1:+.1%} to {high - 1:+.1%}), pair by pair")
    print(f"  {verdict} {LIMIT:.0%}")
    if options.json:
        record = {
            "what": "monitor",
            "date": datetime.date.today().isoformat(),
            "command": shlex.join(["python", *sys.argv]),
            "clock": "time.process_time around a block of steps, in seconds a step",
            "settings": {k: v for k, v in vars(options).items() if k != "json"},
            "machine": where,
            "samples": samples,
            "ratios": ratios,
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
