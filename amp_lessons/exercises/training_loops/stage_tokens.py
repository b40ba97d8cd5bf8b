"""Texts for `accumulate_tokens`: each place has a label, and padding has the label -100."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from amp_lessons.checks.probe import Case
from amp_lessons.exercises.stage import CLASSES, INPUTS, TOO_LARGE, Setting, as_play, from_seed
from amp_lessons.exercises.training_loops.stage import Run

PADDING = -100
LENGTH = 5  # places in each text, of which some are padding


def texts(
    seed: int, kept: tuple[int, ...], overflows: tuple[int, ...]
) -> list[tuple[Tensor, Tensor]]:
    """A micro-batch of two texts for each number of real tokens; `overflows` numbers those with an
    input beyond FP16."""
    random = from_seed(seed)
    made = []
    for number, count in enumerate(kept):
        x = torch.randn(2, LENGTH, INPUTS, generator=random)
        labels = torch.randint(0, CLASSES, (2 * LENGTH,), generator=random)
        labels[torch.randperm(2 * LENGTH, generator=random)[count:]] = PADDING
        if number in overflows:
            x[0, 0, 0] = TOO_LARGE
        made.append((x, labels.view(2, LENGTH)))
    return made


def token_cases() -> list[Case]:
    def case(seed: int, kept: tuple[int, ...], every: int, label: str, **more: Any) -> Case:
        kind = more.pop("kind", "texts of different lengths")
        return Case((seed, kept, every, more.get("overflows", ())), label, kind)

    empty, short = "a micro-batch of padding alone", "a last group that is smaller"
    return [
        case(1, (2, 9, 7, 1), 2, "2 and 9, then 7 and 1 real tokens"),
        case(2, (10, 1, 4, 1, 8, 3), 3, "10, 1 and 4, then 1, 8 and 3 real tokens"),
        case(3, (5, 5, 5, 5), 2, "5 real tokens in each micro-batch", kind="texts of one length"),
        case(4, (6, 6, 6), 3, "6 real tokens in each micro-batch", kind="texts of one length"),
        case(5, (3, 0, 8, 2), 2, "3 and 0, then 8 and 2 real tokens", kind=empty),
        case(6, (0, 4, 0, 7, 2, 9), 3, "0, 4 and 0, then 7, 2 and 9 real tokens", kind=empty),
        case(7, (4, 9, 2), 2, "4 and 9, then 2 alone", kind=short),
        case(8, (1, 6, 3, 8, 2), 3, "1, 6 and 3, then 8 and 2", kind=short),
        case(9, (2, 8, 7, 3), 2, "2 and 8, then 7 and 3, the second overflows", overflows=(1,)),
        case(10, (9, 1, 5, 3), 2, "9 and 1, then 5 and 3, the third overflows", overflows=(2,)),
        case(
            11, (4, 9, 2, 7, 6), 2, "4 and 9, 2 and 7, then 6; the first overflows", overflows=(0,)
        ),
        case(
            12, (3, 8, 5, 1, 9, 2), 2, "3 groups, the first and the last overflow", overflows=(1, 4)
        ),
    ]


@as_play
def use_on_texts(
    train: Callable[..., Any],
    seed: int,
    kept: tuple[int, ...],
    every: int,
    overflows: tuple[int, ...],
) -> dict[str, Any]:
    """How `accumulate_tokens` is used: a network that guesses a class for each place."""
    run = Run(Setting(seed, ()))
    sizes: list[int] = []
    run.model.register_forward_pre_hook(lambda _, given: sizes.append(given[0].shape[0]))
    train(run.model, run.optimizer, run.scaler, texts(seed, kept, overflows), every)
    left = run.left_behind(every_forward=False)
    return {"most texts in one forward pass": max(sizes, default=0)} | left
