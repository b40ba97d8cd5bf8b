"""The logits that four losses are handed, what is noted of each call, and how it is compared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor

from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.evidence import by_name
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import (
    BFLOAT,
    HALF,
    SINGLE,
    Operations,
    from_seed,
    name_of,
    region,
)
from amp_lessons.exercises.checks.serialize.compare import is_dict

LOSSES = ("click_loss", "smoothed_loss", "contrastive_loss", "dice_loss")
SHARE = 0.01
SAMPLE = 100  # gradients of large inputs are thinned out to about this many numbers


def loss_cases() -> list[Case]:
    places = (HALF, HALF), (HALF, None), (BFLOAT, BFLOAT), (SINGLE, None)
    cases = []
    for name, (dtype, inside), large in itertools.product(LOSSES, places, (False, True)):
        place = f"in a {name_of(inside)} region" if inside else "in no region"
        label = f"{name}, {name_of(dtype)} logits {place}, {'large' if large else 'small'} input"
        cases.append(Case((name, dtype, inside, large), label, name))
    return cases


@cache
def loss_args(name: str, dtype: torch.dtype, large: bool) -> tuple[Any, ...]:
    """Logits that are hard for this loss, and its other arguments.

    Two losses go wrong in many ways, and few draws are hard for all of them. With a salt, their
    numbers are drawn near those that everybody gets.
    """
    delicate = name in ("smoothed_loss", "contrastive_loss")
    near = from_seed(17 + large)
    random = torch.Generator().manual_seed(17 + large) if delicate else from_seed(17 + large)

    def normal(*shape: int) -> Tensor:  # float32 whatever an answer has made the default
        drawn = torch.randn(*shape, generator=random, dtype=SINGLE)
        if not (delicate and draws.salted()):
            return drawn
        return drawn * (1 + SHARE * torch.randn(*shape, generator=near, dtype=SINGLE))

    if name == "click_loss":
        ends = torch.tensor([10.0, -40.0, 60.0, -9.0], dtype=SINGLE)
        logits = torch.cat([12 * normal(9 if large else 5), ends])
        targets = (torch.rand(len(logits), generator=random) > 0.5).to(SINGLE)
        targets[-4:] = torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=SINGLE)
        return logits.clamp(-60, 60).to(dtype), targets
    if name == "smoothed_loss":
        rows, classes = (2, 9000) if large else (4, 7)
        logits = normal(rows, classes) * (3 if large else 15)
        labels = torch.randint(classes, (rows,), generator=random)
        if large:
            logits[torch.arange(rows), labels] += 12  # the others' probabilities become small
        else:
            logits[0, :2] = torch.tensor([60.0, -60.0])  # a share of exp(-120), 0 in float32 too
        return logits.clamp(-60, 60).to(dtype), labels, 0.1 if large else 0.25
    if name == "contrastive_loss":
        rows = 6 if large else 4
        similarities = normal(rows, rows).tanh()
        if large:  # a row far below the largest of all: exp(-128 * 1.7) is 0 in float32 too
            similarities[0], similarities[1, 2] = similarities[0] / 10 - 0.85, 0.99
        return similarities.to(dtype), 1 / 128 if large else 1 / 16
    pixels = (300, 300) if large else (5, 7)
    return (3 * normal(*pixels) + 4 * large).to(dtype), (normal(*pixels) > -1).to(SINGLE)


def play_losses(*functions: Callable[..., Any]) -> Callable[..., Any]:
    answers = by_name(LOSSES, functions)

    def played(name: str, dtype: torch.dtype, inside: torch.dtype | None, large: bool) -> Any:
        if answers[name] is ...:
            return ...
        given = loss_args(name, dtype, large)
        logits, *rest = (a.clone() if isinstance(a, Tensor) else a for a in given)
        logits.requires_grad_()
        with region(inside), Operations() as operations:
            loss = answers[name](logits, *rest)
        if loss is None:
            return None
        ran = "; ".join(sorted({" ".join(one) for one in operations.seen}))
        size = "large" if large else "small"
        noted = {"function": name, "logits": name_of(dtype), "input": size, "operations": ran}
        gradient = None
        if type(loss) is Tensor and loss.shape == () and loss.requires_grad:
            (gradient,) = torch.autograd.grad(loss, logits, allow_unused=True)
        if gradient is None:
            return {"loss": _in_words(loss), **noted}
        pairs = zip(given, (logits, *rest), strict=True)
        kept = all(torch.equal(a, b) for a, b in pairs if isinstance(a, Tensor))
        gradient = gradient.flatten()[:: max(1, logits.numel() // SAMPLE)]
        return {
            "loss": loss.detach().double().item(),
            "gradient": gradient.double().tolist(),
            "dtype of the loss": name_of(loss.dtype),
            "arguments afterwards": "as before" if kept else "changed",
            **noted,
        }

    return played


def _in_words(loss: Any) -> str:
    """What came back in place of a loss."""
    if type(loss) is not Tensor:
        return f"a value of type {type(loss).__name__}, not a tensor"
    if loss.shape != ():
        return f"a tensor of shape {list(loss.shape)}"
    return "a tensor with no way back to the logits"


# ---- for the judge ------------------------------------------------------------------------------

FINEST = 4 * 2.0**-24  # FP16 has no finer numbers, and the gradients of dice are near them
COMPARED = ("loss", "gradient", "dtype of the loss", "arguments afterwards")
DTYPES = ("float16", "bfloat16", "float32", "float64")


def same_loss(expected: Any, seen: Any) -> bool:
    """A loss to 1 percent, a gradient to 3 percent of its largest element, anything else equal."""
    if is_dict(expected):
        wanted, got = expected["dict"], seen["dict"] if is_dict(seen) else {}
        return all(same_loss(wanted.get(key), got.get(key)) for key in COMPARED)
    if isinstance(expected, list):
        allowed = max(0.03 * max(map(abs, expected)), FINEST)
        return isinstance(seen, list) and all(
            _near(one, other, allowed) for one, other in zip(expected, seen, strict=True)
        )
    if isinstance(expected, float):
        return isinstance(seen, float) and _near(expected, seen, 0.01 * abs(expected))
    return expected == seen


def _near(one: float, other: float, allowed: float) -> bool:
    if not (math.isfinite(one) and math.isfinite(other)):
        return one == other or (math.isnan(one) and math.isnan(other))
    return abs(one - other) <= allowed


class LossNotes:
    """One case of a loss: what was noted, and which parts of it are right."""

    def __init__(self, seen: dict[str, Any], right: dict[str, Any]) -> None:
        value, wanted = seen.get("value"), right["value"]["dict"]
        self.noted: dict[str, Any] = value["dict"] if value and is_dict(value) else {}
        self.name, self.logits = wanted["function"], wanted["logits"]
        self.large = wanted["input"] == "large"
        self.loss = self.noted.get("loss")
        self.there = isinstance(self.loss, float)
        self.wanted = wanted
        self.loss_right = self.there and same_loss(wanted["loss"], self.loss)
        self.loss_exact = self.loss_right and abs(self.loss / wanted["loss"] - 1) < 2e-3

    @cached_property
    def gradient_right(self) -> bool:
        return self.there and same_loss(self.wanted["gradient"], self.noted.get("gradient"))

    @property
    def wrong(self) -> bool:
        return self.there and not (self.loss_right and self.gradient_right)

    def ran(self, *names: str, dtypes: tuple[str, ...] = DTYPES) -> bool:
        """Whether all of these operations ran, with a result of one of these dtypes."""
        operations = self.noted.get("operations", "").split("; ")
        return all(any(f"{name} {d}" in operations for d in dtypes) for name in names)
