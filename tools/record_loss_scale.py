"""Record what each loss scale does to a training: `python tools/record_loss_scale.py`.

Trains the network of lesson 00 in FP32 and at each of 53 fixed loss scales, and writes what the
widget `LossScaleLab` draws to `amp_lessons/lessons/widgets/loss_scale.json`. CPUs add up FP16
products in different orders, so another one gives slightly different numbers; the tests compare
with tolerances. To show another network, change `SHOWN` in
`amp_lessons/amp/training/fixed_scale.py` and run this again.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch

from amp_lessons.amp.numbers.formats import FP16
from amp_lessons.amp.scaling.loss_scale import ExponentHistogram
from amp_lessons.amp.training.fixed_scale import (
    EXPONENTS,
    SHOWN,
    Group,
    SetUp,
    Snapshot,
    one_thread,
    train,
)
from amp_lessons.core.files import write_atomically
from amp_lessons.lessons.widgets.gradient_histogram import edges
from amp_lessons.lessons.widgets.loss_scale_runs import FILE, LEVELS, UNIT


def record(setup: SetUp, exponents: Sequence[float]) -> dict[str, Any]:
    """The runs of a set-up as the file holds them; its form is told in loss_scale_lab.mjs."""
    with one_thread():
        fp32 = list(train(setup, fp16=False))
        runs = {exponent: list(train(setup, 2.0**exponent)) for exponent in exponents}
    first = fp32[0][1]
    assert first is not None
    height, width = setup.picture
    originals = setup.inputs()[setup.shown()].reshape(-1, height, width)
    return {
        "about": {
            "torch": torch.__version__.split("+")[0],
            "cpu": torch.backends.cpu.get_cpu_capability(),
            "steps": setup.steps,
            "snapshots": list(setup.snapshots),
            "picture": list(originals.shape),
            "total": {"between": first.between.total, "weights": first.weights.total},
        },
        "format": edges(FP16),
        "original": _levels(originals),
        "fp32": _plain_run(fp32),
        "runs": [
            {"exponent": exponent, **_without_the_start(_plain_run(run))}
            for exponent, run in runs.items()
        ],
    }


def _plain_run(run: Sequence[tuple[float, Snapshot | None]]) -> dict[str, Any]:
    errors = [round(error / UNIT) if math.isfinite(error) else None for error, _ in run]
    finite = errors.index(None) if None in errors else len(errors)
    shots = [_plain_snapshot(shot) for _, shot in run if shot is not None]
    return {"errors": errors[:finite], "snapshots": shots}


def _without_the_start(run: dict[str, Any]) -> dict[str, Any]:
    """A run without what all have in common: the first pictures and the first exact gradients."""
    first, *others = run["snapshots"]
    groups = {name: {**first[name]} for name in ("between", "weights")}
    for group in groups.values():
        del group["exact"], group["largest"]
    return {**run, "snapshots": [groups, *others]}


def _plain_snapshot(shot: Snapshot) -> dict[str, Any]:
    groups = {name: _plain_group(getattr(shot, name)) for name in ("between", "weights")}
    return {**groups, "pictures": _levels(shot.pictures)}


def _plain_group(group: Group) -> dict[str, Any]:
    counts = {"total": group.total, "zero": group.zero, "inf": group.inf}
    return {
        **counts,
        "largest": float(f"{group.largest:.3g}"),
        "exact": _bars(group.exact),
        "found": _bars(group.found),
    }


def _bars(histogram: ExponentHistogram) -> list[int]:
    """The lowest exponent, and the counts from there."""
    return [histogram.exponents[0], *histogram.counts] if histogram.counts else []


def _levels(pictures: torch.Tensor) -> str:
    """A character a pixel: "0" is white, and the last of the levels black."""
    levels = (pictures.clamp(0, 1) * (len(LEVELS) - 1)).round().int().flatten()
    return "".join(LEVELS[level] for level in levels.tolist())


def as_text(found: dict[str, Any]) -> str:
    """JSON with a run a line, so that two records can be compared with diff."""
    short = {"separators": (",", ":")}
    head = [
        f'"{name}":{json.dumps(found[name], **short)}'
        for name in ("about", "format", "original", "fp32")
    ]
    runs = ",\n".join(json.dumps(run, **short) for run in found["runs"])
    return "{" + ",\n".join(head) + f',\n"runs":[\n{runs}\n]}}\n'


def main() -> int:
    text = as_text(record(SHOWN, EXPONENTS))
    write_atomically(FILE, text.encode())
    print(f"{len(EXPONENTS)} scales, {len(text):,} bytes, {time.process_time():.0f} CPU seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
