"""What the answers about GradScaler are handed, and what is noted while they are used.

Most answers here are a part of a training step, so a play trains for a few steps with them. What
goes wrong in a step is a letter of a pattern: "..n." is four steps with a NaN in the third.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from amp_lessons.checks.compare import as_number
from amp_lessons.checks.evidence import plain
from amp_lessons.checks.probe import Case

BAD = {"i": math.inf, "-": -math.inf, "n": math.nan}
WORDS = {"i": "inf", "-": "-inf", "n": "NaN"}


def told(pattern: str, words: dict[str, str] = WORDS, first: int = 1) -> str:
    """A pattern in words: ``"5 steps, inf in steps 2 and 4"``."""
    parts = [f"{len(pattern)} steps"]
    for letter, word in words.items():
        numbers = [str(n) for n, other in enumerate(pattern, first) if other == letter]
        if numbers:
            *most, last = numbers
            several = f"steps {', '.join(most)} and" if most else "step"
            parts.append(f"{word} in {several} {last}")
    return ", ".join(parts)


def number(given: Any) -> Any:
    """A number as such, whether it comes as a tensor or a float; anything else as it is."""
    found = as_number(plain(given))
    return given if found is None else float(found)


def flat(tensors: Sequence[Tensor]) -> list[float]:
    """All the elements of some tensors in one list."""
    return [x for t in tensors for x in t.detach().double().flatten().tolist()]


def pulled(shapes: Sequence[tuple[int, ...]], seed: int) -> tuple[list[Tensor], Callable]:
    """Parameters of these shapes, and a loss that pulls each to its own place."""
    random = torch.Generator().manual_seed(seed)
    weights = [torch.randn(s, generator=random).requires_grad_() for s in shapes]
    goals = [3 * torch.randn(s, generator=random) for s in shapes]

    def loss() -> Tensor:
        terms = [(w - g).square().sum() for w, g in zip(weights, goals, strict=True)]
        return torch.stack(terms).sum()

    return weights, loss


# ---- clip_step(scaler, optimizer, loss, max_norm) -----------------------------------------------


def clip_cases() -> list[Case]:
    def case(pattern: str, max_norm: float, init_scale: float, interval: int, seed: int) -> Case:
        label = f"max_norm {max_norm:g}, a scale of {init_scale:g}, {told(pattern)}"
        return Case((pattern, max_norm, init_scale, interval, seed), label)

    return [
        case("..", 1.0, 2.0**16, 100, 1),
        case("..", 1000.0, 2.0**10, 100, 2),
        case(".i..", 2.5, 2.0**12, 100, 3),
        case("n..", 0.5, 2.0**8, 100, 4),
        case("...", 7.0, 2.0**5, 2, 5),
        case("-..", 1000.0, 2.0**7, 100, 6),
    ]


def play_clip(clip_step: Callable[..., Any]) -> Callable[..., Any]:
    """Some steps with clipping; each loss is new, and the gradients are cleared before it."""

    def play(pattern: str, max_norm: float, init_scale: float, interval: int, seed: int) -> Any:
        weights, loss = pulled([(3,), (2, 2), (4,)], seed)
        extra, backward = [0.0], []

        def spoil(gradient: Tensor) -> Tensor:
            backward.append(gradient.norm().item())
            return gradient + extra[0]

        weights[1].register_hook(spoil)
        groups = [{"params": weights[:1]}, {"params": weights[1:], "lr": 0.05}]
        optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.5)
        scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, growth_interval=interval)
        norms, moved, scales = [], [], []
        for letter in pattern:
            extra[0] = BAD.get(letter, 0.0)
            optimizer.zero_grad()
            before = flat(weights)
            norm = number(clip_step(scaler, optimizer, loss(), max_norm))
            bad = isinstance(norm, float) and not math.isfinite(norm)
            norms.append("not finite" if bad else norm)
            moved.append(math.dist(before, flat(weights)))
            scales.append(scaler.get_scale())
        return {
            "norms that you returned": norms,
            "how far each step moved the parameters": moved,
            "scale after each step": scales,
            "parameters at the end": flat(weights),
            "norm of one gradient in the backward pass": backward,
        }

    return play
