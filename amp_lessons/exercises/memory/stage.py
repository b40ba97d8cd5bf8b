"""What the calculators of this topic are asked: sizes, reports, small models."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from amp_lessons.checks.probe import Case
from amp_lessons.exercises.stage import as_play

# ---- numbers: training_bytes, crossover, step_ratio, best_lever ---------------------------------


def state_cases() -> list[Case]:
    """Small and large models; the last two need more bytes than a 32-bit integer can count."""
    counts = (1000, 7_000_003, 124_439_814, 8_030_261_257)
    return [
        Case((count, optimizer, precision), kind=f'`"{precision}"`')
        for count in counts
        for optimizer in ("sgd", "momentum", "adam")
        for precision in ("fp32", "amp", "bf16")
    ]


def crossover_cases() -> list[Case]:
    """Quotients with and without a remainder, small and large, and models where AMP never pays."""
    pays = [(1_000, 100, 60), (1_001, 100, 60), (999, 100, 60), (1_052_672, 8_192, 5_632)]
    pays += [(4_096, 96, 64), (7, 90, 10), (0, 10, 9), (0, 500, 260)]
    pays += [(247_229_952, 1_022_772_249, 756_958_245), (33_554_432, 3, 2), (50_331_648, 12, 10)]
    never = [(100_687_872, 49_152, 49_152), (5_000, 40, 44), (640, 8, 8), (9_000, 300, 420)]
    never += [(0, 4_096, 4_096), (0, 40, 44)]
    return [Case(numbers) for numbers in pays + never]


def report_cases() -> list[Case]:
    """Pairs of reports. Old tensors, data and spare blocks differ from run to run."""

    def report(before: int, data: int, own: int, spare: int) -> dict[str, int]:
        peak = before + data + own
        return {"before": before, "loaded": before + data, "peak": peak, "reserved": peak + spare}

    pairs = [
        ((512, 4_096, 10_000, 240), (9_216, 4_096, 6_437, 4_000)),
        ((7_000, 50_000, 30_000, 3_000), (2_000, 80_000, 21_251, 9_000)),
        ((300, 0, 7_000, 500), (900, 0, 4_321, 1_500)),
        ((2_000, 600_000, 90_000, 0), (0, 500_000, 123_457, 8_000)),
        ((0, 6_710_886_400, 822_446_592, 0), (0, 6_710_886_400, 923_133_440, 2**21)),
        ((0, 15 * 2**30, 5 * 2**30, 2**30), (2**28, 15 * 2**30, 4 * 2**30, 2**30)),
    ]
    return [Case((report(*fp32), report(*amp))) for fp32, amp in pairs]


def lever_cases() -> list[Case]:
    """Many models, since a wrong rule often picks the right one of four words."""
    draw = random.Random(9)

    def parts(number: int) -> dict[str, int]:
        parameters, activations = draw.randint(400, 2000), draw.randint(300, 6000)
        made = {
            "parameters": parameters,
            "gradients": parameters,
            "optimizer": parameters * draw.choice((0, 0, 1, 2)),
            "activations_fp32": activations,
            "activations_amp": round(activations * draw.uniform(0.52, 1.05)),
            "casts": round(parameters * draw.uniform(0.1, 0.5)),
            "checkpoints": round(activations * draw.choice((0.3, 0.6, 0.8, 0.97, 1))),
        }
        return made if number % 4 else made | {"optimizer": 0, "checkpoints": activations}

    return [Case((parts(number),)) for number in range(72)]


# ---- models: cache_bytes(model, x) --------------------------------------------------------------


class _Spare(nn.Module):
    """Has a layer that its forward doesn't use."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.used, self.spare = nn.Linear(inputs, outputs), nn.Linear(inputs, 50)

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


class _OwnMatrix(nn.Module):
    """Multiplies by a parameter of its own, with no layer around it."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(6, 8))
        self.layer = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x @ self.matrix)


class _TiedHead(nn.Module):
    """Uses the weight of its embedding as the matrix of its head too."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.layer = nn.Embedding(20, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.layer(self.words(x)), self.words.weight)


def cache_cases() -> list[Case]:
    """Small models. The first argument is an empty list, in which `play_on_a_model` takes notes."""
    made: list[Case] = []

    def case(x: Tensor, label: str, *layers: nn.Module) -> None:
        made.append(Case(([], nn.Sequential(*layers), x), label))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(9)
        images, words = torch.randn(2, 3, 6, 6), torch.arange(5)
        wide, frozen, filters = nn.Linear(12, 12), nn.Linear(8, 16), nn.Conv2d(3, 4, 3)
        frozen.requires_grad_(False)
        filters.requires_grad_(False)
        first, second = nn.Linear(10, 10, bias=False), nn.Linear(10, 10)
        second.weight = first.weight
        low, last = nn.Linear(7, 9).bfloat16(), nn.Linear(4, 5).bfloat16()

        case(torch.randn(2, 5), "a Linear(5, 3), 2 examples", nn.Linear(5, 3))
        case(torch.randn(64, 5), "a Linear(5, 3), 64 examples", nn.Linear(5, 3))
        case(torch.randn(4, 8), "a frozen Linear, then a Linear", frozen, nn.Linear(16, 4))
        case(images, "a frozen Conv2d, then a Conv2d", filters, nn.Conv2d(4, 2, 1))
        case(torch.randn(3, 12), "one Linear used twice", wide, nn.ReLU(), wide)
        case(torch.randn(3, 10), "two Linears that share a weight", first, second)
        case(torch.randn(4, 7).bfloat16(), "a bfloat16 Linear, then a Linear", low, nn.Linear(9, 3))
        case(torch.randn(4, 6), "a Linear, then a bfloat16 Linear", nn.Linear(6, 4), last)
        norm, head = nn.LayerNorm(20), nn.Linear(20, 2, bias=False)
        case(torch.randn(4, 8), "two Linears, a LayerNorm between", nn.Linear(8, 20), norm, head)
        small = nn.Conv2d(5, 2, 1, bias=False)
        case(images, "two Conv2ds", nn.Conv2d(3, 5, 3), nn.ReLU(), small)
        case(words, "an Embedding, then a Linear", nn.Embedding(30, 6), nn.Linear(6, 11))
        case(torch.randn(4, 6), "a Linear, and one that doesn't run", _Spare(6, 5))
        case(torch.randn(8, 3), "a Linear, and a larger one that doesn't run", _Spare(3, 7))
        case(torch.randn(4, 9), "two Linears of one size", nn.Linear(9, 9), nn.Linear(9, 9))
        layers = [nn.Linear(4, 4) for _ in range(3)]
        case(torch.randn(2, 4), "three Linears of one size", *layers)
        case(torch.randn(4, 6), "x @ matrix, then a Linear", _OwnMatrix())
        case(words, "an Embedding whose weight is the head too", _TiedHead())
    return made


@as_play
def play_on_a_model(
    function: Callable[..., Any], notes: list[str], model: nn.Module, x: Tensor
) -> Any:
    """Calls it as ``function(model, x)``. A note in the list says that it changed the model: the
    list is an argument, so the check sees that an argument was changed."""
    before = _marks(model)
    result = function(model, x)
    if _marks(model) != before:
        notes.append("changed")
    return result


def _marks(model: nn.Module) -> list[Any]:
    """What of a model an answer could have changed, and a caller would find out later."""
    modules = [
        (m.training, len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()
    ]
    tensors = [(p.dtype, p.requires_grad, p.grad is None) for p in model.parameters()]
    return [modules, tensors, [t.double().tolist() for t in model.state_dict().values()]]
