"""The cases of programs 7 to 10, and how such a program is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.clinic.harness import Chart
from amp_lessons.exercises.harness import (
    CLASSES,
    INPUTS,
    TOO_LARGE,
    Operations,
    Setting,
    as_play,
    case,
    flat,
    from_seed,
    in_words,
    network,
    numbers,
    seeded,
)
from amp_lessons.exercises.checks.serialize.compare import noted


def no_losses(seen: dict[str, Any], right: dict[str, Any]) -> bool:
    """A rule: the program ran and returned nothing."""
    return "value" in seen and noted(seen, "losses returned") is None


def moments_cases() -> list[Case]:
    """Case 7. Runs whose gradients are around 1e-4, 1e-5 and 0.05."""
    return [
        case("6 batches, a loss with a weight of 0.3", 53, 6, weight=0.3, rate=0.1),
        case("7 batches, a loss with a weight of 0.0003", 67, 7, weight=3e-4, rate=0.08),
        case("8 batches, a loss with a weight of 0.001", 44, 8, weight=1e-3, rate=0.1),
        case("9 batches, a loss with a weight of 0.0001", 45, 9, weight=1e-4, rate=0.06),
    ]


@as_play
def play_moments(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    chart, model = Chart(setting), network(setting.seed)
    chart.listen(layers=model)
    weights: list[list[float]] = []

    def loss_fn(outputs: Tensor, labels: Tensor) -> Tensor:
        if len(weights) < 2:
            weights.append(flat(model.parameters()))
        return chart.loss_fn(outputs, labels)

    train(model, loss_fn, chart.batches, setting.rate)
    seen = chart.left_behind(model=model)
    kept = ["calls of loss_fn with a finite loss", "dtype from the layers"]
    kept += ["dtype of the model's weights", "finite losses, in order"]
    last = "the model's weights at the end"
    after_one = {"the model's weights after one batch": weights[-1] if weights else []}
    return {key: seen[key] for key in kept} | after_one | {last: seen[last]}


def entropy_cases() -> list[Case]:
    """Case 8. Runs in which FP16 stores some probabilities as 0. A class with logits 200 below the
    others has a probability of 0 even in FP32. ``more`` is the bonus."""

    def sure(
        label: str, seed: int, count: int, bonus: float, below: float = 0.0, **more: Any
    ) -> Case:
        setting = Setting(seed, (10,) * count, rate=0.05, more=(bonus,), **more)
        return Case((setting, below), label, "a class with logits 200 below" if below else "")

    bad = {2: TOO_LARGE}
    return [
        sure("4 batches, a class with logits 250 below", 68, 4, 0.3, 250.0),
        sure("4 batches, one overflows, a scale of 2", 46, 4, 0.5, spoiled=bad, init_scale=2.0),
        sure("6 batches, a scale of 2**20, a bonus of 0.3", 47, 6, 0.3, init_scale=2.0**20),
        sure("4 batches, one overflows, a scale of 1", 70, 4, 0.4, spoiled=bad, init_scale=1.0),
        sure("4 batches, a class with logits 200 below", 54, 4, 0.4, 200.0),
    ]


@as_play
def play_entropy(train: Callable[..., Any], setting: Setting, below: float) -> dict[str, Any]:
    chart, model = Chart(setting), network(setting.seed)
    weight, bias = model[-1].parameters()
    with torch.no_grad():
        weight.mul_(40.0)  # sure of itself from the start
        bias[1] -= below
    losses = chart.watch(train, model, chart.batches, *setting.more)
    chart.returned["losses returned"] = numbers(losses) or losses
    return chart.left_behind(model=model)


TEMPERATURE = 2e5


def similarity_cases() -> list[Case]:
    """Case 9. Pairs of inputs around 300, with few steps and a scale that leaves room."""
    return [
        case("4 batches of 6 pairs", 69, 4, rows=6, init_scale=0.5, rate=0.05),
        case("4 batches of 8 pairs", 48, 4, rows=8, init_scale=1.0, rate=0.1),
        case("5 batches of 5 pairs", 49, 5, rows=5, init_scale=2.0, rate=0.1),
    ]


@as_play
def play_similarity(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    chart, encoder = Chart(setting), seeded(setting.seed, lambda: nn.Linear(INPUTS, 16))
    random = from_seed(setting.seed)
    batches = []
    for size in setting.sizes:
        x = 300 * torch.randn(size, INPUTS, generator=random)
        batches.append((x, x + 90 * torch.randn(size, INPUTS, generator=random)))
    chart.listen(encoder=encoder)
    with chart.watching(), Operations() as ran:
        losses = train(encoder, setting.optimizer(encoder), chart.scaler, batches, TEMPERATURE)
    chart.returned["losses returned"] = numbers(losses) or losses
    used = in_words(name for name, dtype in ran.seen if dtype == "bfloat16") or "none"
    return {"operations in BF16": used} | chart.left_behind(encoder=encoder)


def recompute_cases() -> list[Case]:
    """Case 10."""
    return [
        case("2 batches, none overflows", 50, 2, rows=24),
        case("3 batches, the first overflows", 71, 3, {0: TOO_LARGE}, rows=24),
        case("3 batches, the second overflows", 51, 3, {1: TOO_LARGE}, rows=24),
    ]


class Saved:
    """Bytes that a forward pass keeps for backward, until `stop` is called."""

    def __init__(self, own: Iterable[Tensor]) -> None:
        self.own, self.open = {p.data_ptr() for p in own}, True
        self.seen: dict[int, int] = {}

    def pack(self, tensor: Tensor) -> Tensor:
        if self.open and tensor.data_ptr() not in self.own:
            self.seen[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    def stop(self) -> int:
        self.open = False
        return sum(self.seen.values())


def block() -> nn.Sequential:
    layers = (nn.Linear(INPUTS, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh())
    return nn.Sequential(*layers, nn.Linear(12, INPUTS), nn.Tanh())


@as_play
def play_recompute(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    chart = Chart(setting)
    blocks = seeded(setting.seed, lambda: nn.ModuleList(block() for _ in range(3)))
    head = seeded(setting.seed, lambda: nn.Linear(INPUTS, CLASSES))
    both = nn.ModuleList([blocks, head])
    chart.listen(blocks=blocks, head=head)
    before = [flat(block.parameters()) for block in blocks]
    layers = [layer for layer in blocks.modules() if isinstance(layer, nn.Linear)]
    passes: list[nn.Module] = []
    for layer in layers:
        layer.register_forward_hook(lambda layer, *_: passes.append(layer))
    saved, kept = Saved(both.parameters()), []

    in_a_region: set[bool] = set()

    def loss_fn(outputs: Tensor, labels: Tensor) -> Tensor:
        kept.append(saved.stop())
        if outputs.requires_grad:  # the hook runs in the backward pass, before the head's
            outputs.register_hook(lambda _: in_a_region.add(torch.is_autocast_enabled("cpu")))
        return chart.loss_fn(outputs, labels)

    hooks = torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda tensor: tensor)
    optimizer = setting.optimizer(both)
    with chart.watching(), hooks:
        try:
            train(blocks, head, optimizer, chart.scaler, loss_fn, chart.batches)
        except RuntimeError as error:  # the same message may come from the forward pass
            if not kept:
                error.args = (f"{error} (before the first call of loss_fn)",)
            raise
    # Some 280 bytes a row without checkpoints, 70 with three, 160 with torch's
    # checkpoint_sequential, which leaves the last block as it is.
    many = bool(kept) and kept[0] > 195 * setting.sizes[0]
    # Twice each; checkpoint_sequential runs a third of them once.
    twice = len(passes) >= 1.6 * len(layers) * len(setting.sizes)
    changed = sum(flat(b.parameters()) != old for b, old in zip(blocks, before, strict=True))
    return {
        "activations kept for the backward pass": "those of most layers" if many else "few",
        "layers run again in the backward pass": "most" if twice else "few or none",
        "blocks whose weights have changed": f"{changed} of 3",
        "autocast in the head's backward pass": "on" if True in in_a_region else "off",
    } | chart.left_behind(blocks=blocks, head=head)
