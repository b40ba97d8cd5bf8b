"""The process that profiles.

    python -m amp_lessons.amp.speed.profiles.worker WIDTH BATCH STEPS fp32 bf16

It prints its profiles as JSON. The profiler's own messages go to standard error.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

import torch
from torch.nn.functional import mse_loss
from torch.profiler import ProfilerActivity, profile

from amp_lessons.amp.speed import device as machine
from amp_lessons.amp.training.models import linear_stack

WARM_UP = 3
MOST_OPS = 12


def measure(width: int, batch: int, steps: int, precision: str) -> dict[str, Any]:
    """One `StepProfile` as plain data. Times are self CPU times in microseconds."""
    torch.manual_seed(0)
    model, (x,) = linear_stack(width=width, batch=batch)
    target = torch.randn_like(x)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(WARM_UP):
        step()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(steps):
            step()
    events = list(profiler.key_averages())
    whole = sum(event.self_cpu_time_total for event in events)
    events.sort(key=lambda event: event.self_cpu_time_total, reverse=True)
    ops = [
        {
            "name": event.key,
            "calls": event.count,
            "microseconds": round(event.self_cpu_time_total, 1),
            "share": round(event.self_cpu_time_total / whole, 4),
        }
        for event in events[:MOST_OPS]
    ]
    calls = {event.key: event.count for event in sorted(events, key=lambda event: event.key)}
    return {"precision": precision, "steps": steps, "ops": ops, "calls": calls}


def main(words: list[str]) -> None:
    """Profile each precision in turn, and print the result."""
    width, batch, steps = map(int, words[:3])
    cpu = machine.cpu()
    made = {
        "model": f"3 linear layers of {width}, batch {batch}",
        "cpu": cpu.model,
        "bf16": cpu.through if cpu.bf16 else "",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "date": datetime.now(UTC).date().isoformat(),
    }
    found = [measure(width, batch, steps, precision) for precision in words[3:]]
    print(json.dumps({"made": made, "profiles": found}))


if __name__ == "__main__":
    main(sys.argv[1:])
