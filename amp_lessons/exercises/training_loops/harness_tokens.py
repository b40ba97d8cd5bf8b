"""Texts for `accumulate_tokens`: each place has a label, and padding has the label -100."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import (
    CLASSES,
    INPUTS,
    TOO_LARGE,
    Setting,
    as_play,
    in_words,
    moved,
)
from amp_lessons.exercises.training_loops.harness import LoopRun

PADDING = -100
LENGTH = 5  # places in each text, of which some are padding


def texts(
    seed: int, kept: tuple[int, ...], overflows: tuple[int, ...]
) -> list[tuple[Tensor, Tensor]]:
    """A micro-batch of two texts for each number of real tokens; `overflows` numbers those with an
    input beyond FP16."""
    random = torch.Generator().manual_seed(seed)
    made = []
    for number, count in enumerate(kept):
        x = torch.randn(2, LENGTH, INPUTS, generator=random)
        labels = torch.randint(0, CLASSES, (2 * LENGTH,), generator=random)
        labels[torch.randperm(2 * LENGTH, generator=random)[count:]] = PADDING
        if number in overflows:
            x[0, 0, 0] = TOO_LARGE
        made.append((x, labels.view(2, LENGTH)))
    moved((x for x, _ in made), seed)
    return made


def token_cases() -> list[Case]:
    def case(seed: int, every: int, kept: tuple[int, ...], kind: str, *overflows: int) -> Case:
        groups = [kept[i : i + every] for i in range(0, len(kept), every)]
        label = ", then ".join(" + ".join(map(str, group)) for group in groups) + " real tokens"
        if overflows:
            label += f", overflows in {in_words(str(n + 1) for n in overflows)}"
        return Case((seed, kept, every, overflows), label, kind)

    different, one_length = "texts of different lengths", "texts of one length"
    empty, short = "a micro-batch of padding alone", "a last group that is smaller"
    return [
        case(1, 2, (2, 9, 7, 1), different),
        case(2, 3, (10, 1, 4, 1, 8, 3), different),
        case(3, 2, (5, 5), one_length),
        case(4, 3, (6, 6, 6), one_length),
        case(5, 2, (3, 0, 8, 2), empty),
        case(6, 3, (0, 7, 0, 2, 9), empty),
        case(7, 2, (4, 9, 2), short),
        case(8, 3, (1, 6, 3, 8), short),
        case(9, 2, (2, 8, 7, 3), different, 1),
        case(10, 2, (9, 1, 5, 3), different, 2),
        case(11, 2, (4, 9, 2), different, 0),
        case(12, 2, (3, 8, 5, 1), different, 1, 2),
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
    run = LoopRun(Setting(seed, ()))
    sizes: list[int] = []
    run.model.register_forward_pre_hook(lambda _, given: sizes.append(given[0].shape[0]))
    train(run.model, run.optimizer, run.scaler, texts(seed, kept, overflows), every)
    left = run.left_behind(every_forward=False)
    return {"most texts in one forward pass": max(sizes, default=0)} | left
