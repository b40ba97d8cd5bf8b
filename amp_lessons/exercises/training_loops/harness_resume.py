"""How a run is interrupted and resumed, and what is looked at afterwards."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import Setting, flat
from amp_lessons.exercises.training_loops.harness import InterruptibleTraining

STORED = ("model", "momentum", "learning rate", "scaler", "scheduler", "data order")
"""What a run holds itself; the random numbers belong to torch."""


def resume_cases() -> list[Case]:
    runs = [(21, 8, 3), (22, 9, 2), (23, 5, 4)]  # a seed, and the steps before and after
    if draws.salted():  # or the scaler may have counted no clean step in any of them
        runs += [(21, 9, 3), (22, 10, 2)]
    return [Case(run, f"interrupted after {run[1]} steps") for run in runs]


def fingerprint(state: Tensor) -> str:
    """A generator's state of some 5,000 bytes, in twelve letters."""
    return hashlib.sha256(state.numpy().tobytes()).hexdigest()[:12]


def parts_of(run: InterruptibleTraining) -> dict[str, Any]:
    """What the next step depends on, part by part, as plain numbers and tensors."""
    buffers = run.optimizer.state_dict()["state"].values()
    momentum = [x["momentum_buffer"] for x in buffers if x.get("momentum_buffer") is not None]
    scaler = run.scaler.state_dict()
    training = all(module.training for module in run.model.modules())
    return {
        "mode": "training" if training else "evaluation",
        "model": flat(run.model.state_dict().values()),
        "momentum": flat(momentum),
        "learning rate": run.optimizer.param_groups[0]["lr"],
        "scaler": [scaler.get("scale"), scaler.get("_growth_tracker")],
        "scheduler": [run.scheduler.last_epoch],
        "random numbers": fingerprint(torch.get_rng_state()),
        "data order": fingerprint(run.order.get_state()),
    }


def interrupt(capture: Callable[..., Any], restore: Callable[..., Any]) -> Callable[..., Any]:
    """Interrupt a run, write its state to a file, and go on in a fresh one."""

    def play(seed: int, before: int, after: int) -> dict[str, Any]:
        images, labels = Setting(seed, (30,)).batches()[0]
        run = InterruptibleTraining.fresh(seed)
        run.steps(images, labels, before)
        random = torch.get_rng_state()
        file, as_it_was = io.BytesIO(), parts_of(run)
        torch.save(capture(run), file)
        touched = [part for part, value in parts_of(run).items() if value != as_it_was[part]]
        torch.set_rng_state(random)
        run.steps(images, labels, 2)  # the run goes on after the checkpoint was written
        capture(run)  # and writes the next one: what counts is what stands in the first file
        other = InterruptibleTraining.fresh(seed + 1000)
        try:
            state = torch.load(io.BytesIO(file.getvalue()))
        except pickle.UnpicklingError:
            return {"file": "torch.load refuses it"}
        if state is None or (isinstance(state, dict | list | tuple) and not state):
            return {"file": "nothing is in it"}
        untouched = parts_of(other)
        restore(other, state)
        parts = parts_of(other)
        changed = any(parts[part] != untouched[part] for part in STORED)
        return {
            "file": "loads",
            "run after capture": f"changed: {', '.join(touched)}" if touched else "as it was",
            "run after restore": "changed" if changed else "as it was before",
            **parts,
            "losses": other.steps(images, labels, after),
        }

    return play
