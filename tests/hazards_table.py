"""Found, missed and false: what the hazard rules say of the planted mistakes and of clean models.

``python tests/hazards_table.py`` prints the page `docs/hazards.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import hazards_clean
import hazards_held_out
import hazards_planted
import torch
from hazards_planted import Planted
from torch import nn

from amp_lessons.amp.errors import catalogue
from amp_lessons.amp.explain import Hazard
from amp_lessons.amp.explain.hazards import KINDS
from amp_lessons.amp.explain.passes import ForwardPass, TraceRequest
from amp_lessons.amp.fake_tensors.modes import check_device
from amp_lessons.core.catalogue import lesson_called

PLANTED = (*hazards_planted.PLANTED, *hazards_held_out.PLANTED)
CLEAN = hazards_clean.CLEAN | hazards_held_out.CLEAN
RUNS = (("cuda", torch.float16), ("cpu", torch.bfloat16))
"""How the clean models are explained. FP16 on CUDA is the default of `explain`."""


@dataclass(frozen=True)
class Counted:
    """What was found.

    Attributes:
        found: for each planted mistake, the hazards of its model.
        false: for each clean model and run, the hazards, of which there should be none.
    """

    found: dict[str, tuple[Hazard, ...]]
    false: dict[tuple[str, str, str], tuple[Hazard, ...]]

    def missed(self) -> list[str]:
        """Names of the planted mistakes that were not found as what they are."""
        return [p.name for p in PLANTED if not told(p, self.found[p.name])]

    def beside(self) -> list[str]:
        """Planted mistakes whose model was also given a hazard of another kind."""
        others = {p.name: {h.kind for h in self.found[p.name]} - {p.kind} for p in PLANTED}
        return [name for name, kinds in others.items() if kinds]


def told(planted: Planted, hazards: tuple[Hazard, ...]) -> bool:
    return any((h.kind, h.severity) == (planted.kind, planted.severity) for h in hazards)


def hazards_of(
    model: nn.Module, inputs: tuple[Any, ...], device: str, dtype: torch.dtype
) -> tuple[Hazard, ...]:
    """The hazards that `explain_autocast` gives, from its pass under autocast alone."""
    watched = ForwardPass(TraceRequest(model, inputs, device, dtype))
    watched.run(enabled=True)
    if watched.error is not None:
        raise watched.error
    return watched.explanation(None).hazards


@cache
def counted() -> Counted:
    """Explain every planted and every clean model."""
    torch.manual_seed(0)
    check_device("cuda")
    found, false = {}, {}
    for planted in PLANTED:
        found[planted.name] = hazards_of(*planted.made(), planted.device, planted.dtype)
    for name, make in CLEAN.items():
        for device, dtype in RUNS:
            false[name, device, str(dtype)[6:]] = hazards_of(*make(), device, dtype)
    return Counted(found, false)


def table(result: Counted) -> str:
    """The counts for each kind of hazard, as a Markdown table."""
    lines = ["| Kind | Planted | Found | Missed |", "|---|---|---|---|"]
    missed = set(result.missed())
    for kind in KINDS:
        planted = [p.name for p in PLANTED if p.kind == kind]
        lost = [name for name in planted if name in missed]
        lines.append(f"| {kind} | {len(planted)} | {len(planted) - len(lost)} | {len(lost)} |")
    total = f"| all | {len(PLANTED)} | {len(PLANTED) - len(missed)} | {len(missed)} |"
    return "\n".join([*lines, total])


def page(result: Counted) -> str:
    """`docs/hazards.md`."""
    false = sum(bool(hazards) for hazards in result.false.values())
    parts = [_HEAD, "| Kind | What goes wrong | Fix | Lesson | Look up |", "|---|---|---|---|---|"]
    for kind, name in KINDS.items():
        entry = catalogue.entry(name)
        link = f"[{lesson_called(entry.lesson).title}](../{entry.notebook})"
        cause = entry.cause.replace("|", "\\|")
        parts.append(f"| {kind} | {cause} | {entry.fix} | {link} | `{name}` |")
    parts += ["", _COUNTS, "", table(result), ""]
    runs = " and ".join(f"`{device}` with {str(dtype)[6:]}" for device, dtype in RUNS)
    parts.append(
        f"{len(CLEAN)} clean models, each explained for {runs}: {len(result.false)} runs, "
        f"{false} false alarms.\n"
    )
    parts += [_PLANTED, "", "| Mistake | Explained for | Kind | Severity |", "|---|---|---|---|"]
    for p in PLANTED:
        dtype = str(p.dtype).removeprefix("torch.")
        parts.append(f"| {p.name} | {p.device}, {dtype} | {p.kind} | {p.severity} |")
    parts += ["", _CLEAN, "", *(f"- {name}" for name in CLEAN), "", _LIMITS]
    return "\n".join(parts)


_HEAD = """<!-- Written by tests/hazards_table.py; don't edit this file by hand. -->
# The hazards that `explain` knows

`amp-lessons explain` runs your model's forward once and names the ops that go wrong in 16 bits.
Each hazard has a severity:

- **raises**: the op ends your program.
- **wrong numbers**: the result is inf, NaN, zero or far off for values that occur in training.
- **watch**: it goes wrong once values pass a bound, which the message names.

The rules use what is known about each value: a sigmoid lies between 0 and 1, a clamp has bounds,
`x - x.max()` is at most 0. Where a value is bounded, they say nothing.
"""
_COUNTS = """## How many it finds

We planted each mistake in a small model, in several spellings. Most come with a value that shows
the wrong number on a CPU, and with the cure that gives the right one. The rules were written with
these mistakes in view, so expect them to miss more in code that they have not seen. In November
2026 somebody who had not read the rules wrote 97 mistakes and 86 clean models. The rules of that
day found 76 of the mistakes, and raised an alarm on 10 of the clean models. They were improved
afterwards."""
_PLANTED = "## The planted mistakes"
_CLEAN = "## The clean models"
_LIMITS = """## What the rules can't see

- A trace has no values. Whether an activation really passes 256 is a question for
  `amp_lessons.monitor`.
- A norm's weight is taken to be about 1, and parameters are taken to be small.
- Products of two different tensors, such as attention scores, are not judged. Two columns of one
  tensor are, such as the sides of a box.
- A sum of a few hundred FP16 numbers is left alone: it overflows only if they are above 100.
"""


if __name__ == "__main__":
    print(page(counted()), end="")
