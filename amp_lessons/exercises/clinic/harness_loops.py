"""The cases of programs 11, 12, 13 and 16, which are training loops, and how each one is used."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.clinic.harness import Chart
from amp_lessons.exercises.clinic.harness_cases import at_small_rates
from amp_lessons.exercises.harness import (
    CLASSES,
    INPUTS,
    LARGE,
    SMALL,
    TOO_LARGE,
    Setting,
    as_play,
    case,
    flat,
    from_seed,
    in_words,
    name_of,
    network,
    seeded,
)


def ported_cases() -> list[Case]:
    """Case 11. ``more``: the first scale, and the growth interval. The loss is large, so a scale of
    65536 overflows."""
    large: dict[str, Any] = {"weight": 60.0}
    third, fourth = {2: TOO_LARGE}, {3: TOO_LARGE}
    return [
        case("5 batches, a scale of 1024, an interval of 3", 73, 5, more=(1024.0, 3), **large),
        case("7 batches, the third overflows, a scale of 256", 74, 7, third, more=(256.0, 2)),
        case("6 batches, a scale of 8, an interval of 4", 75, 6, more=(8.0, 4), **large),
        case("6 batches, the fourth overflows, a scale of 2", 76, 6, fourth, more=(2.0, 2)),
    ]


@as_play
def play_ported(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    """The scale of a batch is the gradient of its loss. CUDA is out of sight, so that a scaler for
    it switches itself off on every machine. It warns, and so would each wrong answer of ours that
    is compared with a learner's, so warnings stay silent here; the verdict says the same."""
    chart, model = Chart(setting), network(setting.seed)
    scales: list[float] = []

    def loss_fn(outputs: Tensor, labels: Tensor) -> Tensor:
        loss = chart.loss_fn(outputs, labels)
        if loss.requires_grad:
            loss.register_hook(lambda gradient: scales.append(gradient.item()))
        return loss

    chart.listen(layers=model)
    no_cuda = patch("torch.cuda.amp.common.amp_definitely_not_available", lambda: True)
    with chart.watching(), no_cuda, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaler = train(model, setting.optimizer(model), chart.batches, loss_fn, *setting.more)
    returned = isinstance(scaler, torch.amp.GradScaler)
    seen = chart.left_behind(model=model)
    for unused in [key for key in seen if key.startswith("scale at")]:
        del seen[unused]  # that of a scaler that nobody was handed
    return {
        "returned": "a scaler" if returned else "something else",
        "scale of each batch": scales,
        "scale of the scaler returned": scaler.get_scale() if returned else "none",
    } | seen


def step_cases() -> list[Case]:
    """Case 12. ``more``: the optimizer's name. With SGD, the last two losses are so small that
    their gradients need the scale."""
    tiny: dict[str, Any] = {"init_scale": 2.0**16, "weight": SMALL, "more": ("SGD",)}
    adam: dict[str, Any] = {"rate": 0.02, "more": ("Adam",), "kind": "Adam"}
    return [
        case("SGD, 4 batches, none overflows", 77, 4, more=("SGD",)),
        case("Adam, 6 batches, none overflows", 78, 6, **adam),
        case("Adam, 5 batches, the third overflows", 79, 5, {2: TOO_LARGE}, **adam),
        case("SGD, 5 batches, the second overflows", 80, 5, {1: TOO_LARGE}, more=("SGD",)),
        case("SGD, a loss of weight 2**-24, 4 batches", 81, 4, **tiny),
        case("SGD, a loss of weight 2**-24, the first overflows", 82, 4, {0: TOO_LARGE}, **tiny),
    ]


@as_play
def play_step(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    chart, model = Chart(setting), network(setting.seed)
    optimizer: torch.optim.Optimizer = setting.optimizer(model)
    if "Adam" in setting.more:
        optimizer = torch.optim.Adam(model.parameters(), lr=setting.rate)
    chart.listen(layers=model)
    with chart.watching():
        train(model, optimizer, chart.scaler, chart.loss_fn, chart.batches)
    return chart.left_behind(model=model)


class WithLora(nn.Module):
    """A frozen layer, and two thin matrices that correct it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_down = nn.Linear(base.in_features, 2, bias=False)
        self.lora_up = nn.Linear(2, base.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.lora_up(self.lora_down(x))


def lora_model() -> nn.Sequential:
    """In FP16, as it was loaded: a layer with LoRA, and a head that is trained as a whole."""
    first, head = WithLora(nn.Linear(INPUTS, 12)), nn.Linear(12, CLASSES)
    return nn.Sequential(first, nn.ReLU(), head).half()


class Widened(TorchDispatchMode):
    """Notes whether an operation makes a tensor of another dtype out of one of these."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()
        self.shapes = {t.data_ptr(): t.shape for t in tensors}
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = args[0] if args else None
        if isinstance(given, Tensor) and isinstance(result, Tensor) and result.dtype != given.dtype:
            shape = self.shapes.get(given.data_ptr())
            if shape == given.shape == result.shape:
                self.seen.add(name_of(result.dtype))
        return result


def lora_cases() -> list[Case]:
    """Case 13. Runs whose loss is so small that its gradients need the scale. At the small rates an
    update is less than half an FP16 ulp of most weights."""
    tiny: dict[str, Any] = {"init_scale": 2.0**16, "weight": SMALL}
    small = tiny | {"rows": 5, "kind": "a small learning rate"}
    return [
        case("4 batches, the third overflows", 83, 4, {2: TOO_LARGE}, rate=0.3, **tiny),
        case("4 batches, none overflows", 84, 4, rate=0.2, **tiny),
        case("5 batches, the first overflows", 85, 5, {0: TOO_LARGE}, rate=0.2, **tiny),
        *at_small_rates(86, 87, **small),
    ]


@as_play
def play_lora(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    chart, model = Chart(setting), seeded(setting.seed, lora_model, near=True)
    kept = {n: p.detach().clone() for n, p in model.named_parameters() if not p.requires_grad}
    dtypes: set[str] = set()
    thawed: list[bool] = []

    def frozen() -> dict[str, Tensor]:
        return {n: p for n, p in model.named_parameters() if n in kept}

    def loss_fn(outputs: Tensor, labels: Tensor) -> Tensor:
        dtypes.update(name_of(p.dtype) for p in frozen().values())
        thawed.extend(p.requires_grad for p in frozen().values())
        return chart.loss_fn(outputs, labels)

    chart.listen(layers=model)
    casts = Widened(frozen().values())
    short = len(setting.sizes) < 10  # it slows a long run down, and a cast shows in any run
    with chart.watching(), casts if short else nullcontext():
        train(model, chart.scaler, loss_fn, chart.batches, setting.rate / setting.weight)
    dtypes |= casts.seen
    dtypes |= {name_of(p.dtype) for p in frozen().values()}
    same = all(n in frozen() and torch.equal(kept[n], frozen()[n].to(HALF)) for n in kept)
    seen = chart.left_behind(model=model)
    del seen["dtype of the model's weights"]  # FP16 again at the end is right too
    del seen["the model's weights at the end"]
    trained = [(n, p) for n, p in model.named_parameters() if n not in kept]
    return {
        "dtype of the frozen weights": in_words(dtypes),
        "frozen weights": "as before" if same else "changed",
        "the frozen weights get gradients": "yes" if any(thawed) else "no",
        **seen,
        "the head's weights at the end": flat(p for n, p in trained if "lora" not in n),
        "the LoRA matrices at the end": flat(p for n, p in trained if "lora" in n),
    }


HALF = torch.float16


def normed(seed: int, large: float | None = None, width: int = 8) -> nn.Sequential:
    """A linear layer, a BatchNorm with statistics of earlier batches, and a linear layer.

    ``large``: a weight from the first input to every second feature.
    """

    def make() -> nn.Sequential:
        first, norm = nn.Linear(INPUTS, width), nn.BatchNorm1d(width)
        with torch.no_grad():
            norm(2 * first(torch.randn(20, INPUTS)) + 1)
            if large is not None:
                first.weight[::2, 0] = large
        return nn.Sequential(first, norm, nn.ReLU(), nn.Linear(width, CLASSES))

    return seeded(seed, make)


def statistics_cases() -> list[Case]:
    """Case 16. ``more``: a large weight, as `normed` takes it. Only some features overflow then,
    and the input fits into FP16. With a large first scale the gradients overflow, and no forward
    pass."""
    last = {1: -TOO_LARGE, 4: TOO_LARGE}
    some: dict[str, Any] = {"more": (4.0,), "kind": "an overflow of some features", "rate": 0.2}
    gradients: dict[str, Any] = {"init_scale": 2.0**19, "kind": "gradients that overflow"}
    return [
        case("4 batches, none overflows", 88, 4, rate=0.2),
        case("5 batches, the third overflows", 89, 5, {2: TOO_LARGE}, rate=0.3),
        case("5 batches, the second and the last overflow", 90, 5, last, rows=12, rate=0.3),
        case("4 batches, the first overflows", 91, 4, {0: TOO_LARGE}, rows=16, rate=0.2),
        case("4 batches, four features of the second overflow", 88, 4, {1: LARGE}, **some),
        case("5 batches, four features of the third overflow", 91, 5, {2: LARGE}, **some),
        case("6 batches, the gradients of the first overflow", 88, 6, rate=0.3, **gradients),
        case(
            "7 batches, the gradients of the first overflow, and the forward pass of the last",
            90,
            7,
            {6: TOO_LARGE},
            rows=12,
            rate=0.2,
            **gradients,
        ),
    ]


@as_play
def play_statistics(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    """Only a forward pass that backward follows counts: others may look for an overflow first."""
    chart, model = Chart(setting), normed(setting.seed, *setting.more)
    norm, optimizer = model[1], setting.optimizer(model)
    dtypes: set[str] = set()

    def listen(layer: nn.Module, given: Any, output: Tensor) -> None:
        if output.requires_grad:
            output.register_hook(lambda gradient: dtypes.add(name_of(gradient.dtype)))

    for layer in (model[0], model[-1]):
        layer.register_forward_hook(listen)
    with chart.watching():
        train(model, optimizer, chart.scaler, chart.loss_fn, chart.batches)
    seen = chart.left_behind(model=model)
    return {
        "dtype from the layers": in_words(dtypes),
        "validation loss, in FP32": _validated(model, setting.seed),
        "running mean": _statistics(norm, "running_mean"),
        "running variance": _statistics(norm, "running_var"),
    } | seen


def _statistics(norm: nn.Module, name: str) -> list[float]:
    """A buffer's numbers. Whether an overflow leaves inf or NaN is chance, so both are NaN."""
    found = getattr(norm, name, None)
    if not isinstance(found, Tensor):
        return []
    return [x if math.isfinite(x) else math.nan for x in flat([found])]


def _validated(model: nn.Module, seed: int) -> float:
    x = torch.randn(20, INPUTS, generator=from_seed(seed + 1000))
    with torch.no_grad():
        loss = cross_entropy(model.eval()(x), x[:, :CLASSES].argmax(1)).item()
    return loss if math.isfinite(loss) else math.nan
