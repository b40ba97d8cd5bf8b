"""The cases of each program, and how a program is used that takes more than a network and batches.

The plain way to use a program is `harness.plain_loop`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.clinic.harness import NAN, Chart
from amp_lessons.exercises.harness import (
    CLASSES,
    INPUTS,
    SMALL,
    TOO_LARGE,
    Setting,
    as_play,
    case,
    network,
    seeded,
)


class Tuned(nn.Module):
    """A backbone and a head that can be exchanged."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(INPUTS, 12), nn.ReLU())
        self.head = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x))


def finetune_cases() -> list[Case]:
    """Case 1."""
    return [
        case("3 batches, a smaller rate", 56, 3, rows=8, rate=0.2),
        case("4 batches, none overflows", 31, 4),
        case("5 batches, the third overflows", 32, 5, {2: TOO_LARGE}),
        case("5 batches, two overflow", 55, 5, {1: TOO_LARGE, 3: -TOO_LARGE}),
    ]


@as_play
def play_finetune(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    chart, model = Chart(setting), seeded(setting.seed, Tuned)
    old, head = model.head, seeded(setting.seed + 1, lambda: nn.Linear(12, CLASSES))
    chart.listen(layers=nn.ModuleList([model, head]))
    with chart.watching():
        train(model, head, chart.scaler, chart.loss_fn, chart.batches, setting.rate)
    seen = chart.left_behind(head=model.head, backbone=model.backbone)
    heads = {id(head): "the new head", id(old): "the old head"}
    return {"model.head at the end": heads.get(id(model.head), "another module")} | seen


def guard_cases() -> list[Case]:
    """Case 2. Runs with a NaN in some batches; with a large scale, gradients overflow as well."""
    large: dict[str, Any] = {"kind": "a scale that is too large", "init_scale": 2.0**20}
    return [
        case("4 batches, none holds a NaN", 58, 4),
        case("5 batches, the second holds a NaN", 33, 5, {1: NAN}),
        case("7 batches, three hold a NaN", 35, 7, {0: NAN, 2: NAN, 6: NAN}),
        case("8 batches, two hold a NaN, a scale of 2**20", 34, 8, {3: NAN, 4: NAN}, **large),
        case("7 batches, the first holds a NaN, a scale of 2**20", 57, 7, {0: NAN}, **large),
    ]


class Adapter(nn.Module):
    """A product of two thin matrices, as in LoRA."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Linear(INPUTS, 2, bias=False)
        self.up = nn.Linear(2, CLASSES, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.down(x))


def adapter_cases() -> list[Case]:
    """Case 3. Runs whose loss is so small that its gradients need the scale. At the small rates an
    update is less than half an FP16 ulp of most weights."""
    tiny: dict[str, Any] = {"init_scale": 2.0**16, "weight": SMALL}
    small = tiny | {"rows": 4, "kind": "a small learning rate"}
    return [
        case("4 batches, the second overflows", 59, 4, {1: TOO_LARGE}, rate=0.3, **tiny),
        case("4 batches, none overflows", 36, 4, rate=0.2, **tiny),
        case("5 batches, the fourth overflows", 37, 5, {3: TOO_LARGE}, rate=0.2, **tiny),
        *at_small_rates(60, 61, **small),
    ]


def at_small_rates(one: int, other: int, **settings: Any) -> list[Case]:
    """Two runs from these seeds in which FP16 weights would lose the updates. Under a salt they are
    longer, so that what is lost adds up whatever the numbers are."""
    longer = 32 if draws.salted() else 0
    counts = {one: (24 + longer, 5e-4), other: (28 + longer, 4e-4)}
    return [
        case(f"{count} batches, a small rate", seed, count, rate=rate, **settings)
        for seed, (count, rate) in counts.items()
    ]


@as_play
def play_adapter(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    chart = Chart(setting)
    base = seeded(setting.seed, lambda: nn.Linear(INPUTS, CLASSES), near=True).half()
    adapter = seeded(setting.seed, Adapter, near=True).half()
    base.requires_grad_(False)
    chart.listen(layers=nn.ModuleList([base, adapter]))
    rate = setting.rate / setting.weight
    with chart.watching():
        train(base, adapter, chart.scaler, chart.loss_fn, chart.batches, rate)
    seen = chart.left_behind(adapter=adapter, base=base)
    del seen["dtype of the adapter's weights"]  # FP16 again at the end is right too
    first = "dtype of the base's weights"
    return {first: seen[first]} | seen


def uneven_cases() -> list[Case]:
    """Case 4. The rows of each micro-batch, by group; ``more``: how many of them a group has."""

    def case(label: str, seed: int, *groups: tuple[int, ...], **bad: Any) -> Case:
        sizes, lengths = tuple(itertools.chain(*groups)), tuple(map(len, groups))
        return Case((Setting(seed, sizes, **bad, more=lengths),), label)

    second, first = {4: TOO_LARGE}, {1: -TOO_LARGE}
    four, three = ((1, 20, 3), (12, 2), (1, 1, 18), (6, 5)), ((3, 9, 1), (10, 2), (4, 4, 7))
    return [
        case("2 groups, none overflows", 63, (11, 1), (2, 3, 12)),
        case("groups of 2, 3 and 1 micro-batches", 38, (2, 14), (9, 3, 4), (16,)),
        case("4 groups, the second overflows", 39, *four, spoiled=second),
        case("3 groups, the first overflows", 62, *three, spoiled=first),
    ]


@as_play
def play_uneven(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    chart, model = Chart(setting), network(setting.seed)
    batches = iter(chart.batches)
    chart.watch(train, model, [list(itertools.islice(batches, n)) for n in setting.more])
    return {"most rows in memory at once": chart.most_rows} | chart.left_behind(model=model)


def decay_cases() -> list[Case]:
    """Case 5. ``more`` is the decay."""
    one, two = {1: TOO_LARGE}, {2: TOO_LARGE, 4: TOO_LARGE}
    return [
        case("4 batches, one overflows, a decay of 0.15", 66, 4, one, rate=0.4, more=(0.15,)),
        case("5 batches, a decay of 0.2", 40, 5, more=(0.2,)),
        case("6 batches, two overflow, a decay of 0.3", 41, 6, two, more=(0.3,)),
        case("5 batches, a scale of 2, a decay of 0.3", 52, 5, init_scale=2.0, more=(0.3,)),
    ]


def closure_cases() -> list[Case]:
    """Case 6. Runs whose loss is so small that its gradients need the scale, but for the last:
    there, what is left of old gradients shows."""
    tiny: dict[str, Any] = {"init_scale": 2.0**16, "weight": SMALL}
    return [
        case("4 batches, none overflows", 42, 4, **tiny),
        case("5 batches, the third overflows", 43, 5, {2: TOO_LARGE}, **tiny),
        case("5 batches, two overflow", 65, 5, {1: TOO_LARGE, 3: TOO_LARGE}, rate=0.3, **tiny),
        case("4 batches, a loss of weight 1, a scale of 2", 72, 4, init_scale=2.0),
    ]
