"""The recorded runs that the loss scale lab draws. Nothing here imports torch.

What was trained stands in `amp_lessons.amp.training.fixed_scale`.
"""

from __future__ import annotations

import json
import string
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("loss_scale.json")
UNIT = 1e-4
"""The errors are kept as whole multiples of this."""
LEVELS = string.digits + string.ascii_lowercase
"""Grey values of a pixel, from white to black."""
ASKED_AT = 4.0
"""log2 of the loss scale that the learner predicts: many gradients are lost, and it trains."""
AS_WELL = 1.05
"""A run trains as well as FP32 if its error ends at most this many times as high."""


@cache
def recorded() -> dict[str, Any]:
    """The file as it is; `loss_scale_lab.mjs` tells its form. Don't change what you get."""
    return json.loads(FILE.read_text(encoding="utf-8"))


@cache
def plain_data() -> dict[str, Any]:
    """All that the page of the lab draws, also on a page without Python."""
    return recorded() | {"unit": UNIT, "levels": LEVELS, "as_well": AS_WELL, "asked_at": ASKED_AT}


def exponents() -> list[float]:
    """log2 of each recorded loss scale, ascending."""
    return [run["exponent"] for run in recorded()["runs"]]


def run_at(exponent: float) -> dict[str, Any]:
    """The recorded run at a loss scale of 2**exponent."""
    return recorded()["runs"][exponents().index(exponent)]


def trains(run: dict[str, Any]) -> bool:
    """Whether a recorded run trains as well as FP32."""
    about, last = recorded()["about"], recorded()["fp32"]["errors"][-1]
    return len(run["errors"]) > about["steps"] and run["errors"][-1] <= AS_WELL * last
