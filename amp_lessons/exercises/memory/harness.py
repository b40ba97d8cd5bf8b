"""What the calculators of this topic are asked: sizes, reports, small models."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import as_play
from amp_lessons.exercises.varied import Varied

# ---- numbers: training_bytes, crossover, step_ratio, best_lever ---------------------------------


def state_cases() -> list[Case]:
    """Small and large models; the last two need more bytes than a 32-bit integer can count."""
    vary = Varied(6)
    counts = [vary.more(n, n // 8) for n in (1000, 7_000_003, 124_439_814, 8_030_261_257)]
    return [
        Case((count, optimizer, precision), kind=f'`"{precision}"`')
        for count in counts
        for optimizer in ("sgd", "momentum", "adam")
        for precision in ("fp32", "amp", "bf16")
    ]


def crossover_cases() -> list[Case]:
    """Quotients with and without a remainder, and models where AMP never pays. Two quotients are
    above a million, beyond most loops that end, and a loop without an end is still quick."""
    pays = [(1_000, 100, 60), (1_001, 100, 60), (999, 100, 60), (1_052_672, 8_192, 5_632)]
    pays += [(4_096, 96, 64), (7, 90, 10), (0, 10, 9), (0, 500, 260)]
    pays += [(247_229_952, 1_022_772_249, 756_958_245), (1_048_576, 3, 2), (2_097_152, 12, 10)]
    never = [(100_687_872, 49_152, 49_152), (5_000, 40, 44), (640, 8, 8), (9_000, 300, 420)]
    never += [(0, 4_096, 4_096), (0, 40, 44)]
    vary = Varied(7)

    def varied(added: int, fp32: int, amp: int) -> tuple[int, int, int]:
        """Other numbers whose quotient has the same remainder."""
        gain, both = fp32 - amp, vary.more(0, 9)
        if gain <= 0:
            added = vary.more(added, added // 8)
        elif added > gain:
            added += gain * vary.more(0, 3 + added // gain // 8)
        return added, fp32 + both, amp + both

    return [Case(varied(*numbers)) for numbers in pays + never]


def report_cases() -> list[Case]:
    """Pairs of reports. Old tensors, data and spare blocks differ from run to run."""

    vary = Varied(8)

    def report(*parts: int) -> dict[str, int]:
        before, data, own, spare = (vary.more(part, part // 10) for part in parts)
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
    draw = random.Random(draws.seed(9))
    unit = 1000 if draws.salted() else 1  # with large numbers no two savings are equal

    def parts(number: int) -> dict[str, int]:
        parameters = draw.randint(400 * unit, 2000 * unit)
        activations = draw.randint(300 * unit, 6000 * unit)
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

    return [Case((parts(number),)) for number in range(144 if draws.salted() else 72)]


# ---- models: cache_bytes(model, x) --------------------------------------------------------------


class _Spare(nn.Module):
    """Has a layer that its forward doesn't use."""

    def __init__(self, inputs: int, outputs: int, spare: int) -> None:
        super().__init__()
        self.used, self.spare = nn.Linear(inputs, outputs), nn.Linear(inputs, spare)

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


class _OwnMatrix(nn.Module):
    """Multiplies by a parameter of its own, with no layer around it."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(inputs, width))
        self.layer = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x @ self.matrix)


class _TiedHead(nn.Module):
    """Uses the weight of its embedding as the matrix of its head too."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.words, self.layer = nn.Embedding(words, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.layer(self.words(x)), self.words.weight)


def _sizes() -> list[int]:
    """What stands for each size from 0 to 50: itself, or with a salt another one, such that of two
    sizes the larger one stays larger."""
    vary = Varied(10)
    return [0, *itertools.accumulate(vary.more(1) for _ in range(50))]


def cache_cases() -> list[Case]:
    """Small models. The first argument is an empty list, in which `play_on_a_model` takes notes."""
    made: list[Case] = []

    def case(x: Tensor, label: str, *layers: nn.Module) -> None:
        made.append(Case(([], nn.Sequential(*layers), x), label))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draws.seed(9))
        n = _sizes()
        images, words = torch.randn(2, n[3], 6, 6), torch.arange(5)
        wide, frozen = nn.Linear(n[12], n[12]), nn.Linear(n[8], n[16])
        filters = nn.Conv2d(n[3], n[4], 3)
        frozen.requires_grad_(False)
        filters.requires_grad_(False)
        first, second = nn.Linear(n[10], n[10], bias=False), nn.Linear(n[10], n[10])
        second.weight = first.weight
        low, last = nn.Linear(n[7], n[9]).bfloat16(), nn.Linear(n[4], n[5]).bfloat16()

        one = f"a Linear({n[5]}, {n[3]})"
        case(torch.randn(2, n[5]), f"{one}, 2 examples", nn.Linear(n[5], n[3]))
        case(torch.randn(64, n[5]), f"{one}, 64 examples", nn.Linear(n[5], n[3]))
        case(torch.randn(4, n[8]), "a frozen Linear, then a Linear", frozen, nn.Linear(n[16], n[4]))
        case(images, "a frozen Conv2d, then a Conv2d", filters, nn.Conv2d(n[4], n[2], 1))
        case(torch.randn(3, n[12]), "one Linear used twice", wide, nn.ReLU(), wide)
        case(torch.randn(3, n[10]), "two Linears that share a weight", first, second)
        narrow = torch.randn(4, n[7]).bfloat16()
        case(narrow, "a bfloat16 Linear, then a Linear", low, nn.Linear(n[9], n[3]))
        case(torch.randn(4, n[6]), "a Linear, then a bfloat16 Linear", nn.Linear(n[6], n[4]), last)
        norm, head = nn.LayerNorm(n[20]), nn.Linear(n[20], n[2], bias=False)
        eights = torch.randn(4, n[8])
        case(eights, "two Linears, a LayerNorm between", nn.Linear(n[8], n[20]), norm, head)
        small = nn.Conv2d(n[5], n[2], 1, bias=False)
        case(images, "two Conv2ds", nn.Conv2d(n[3], n[5], 3), nn.ReLU(), small)
        case(
            words, "an Embedding, then a Linear", nn.Embedding(n[30], n[6]), nn.Linear(n[6], n[11])
        )
        spare = partial(_Spare, spare=n[50])
        case(torch.randn(4, n[6]), "a Linear, and one that doesn't run", spare(n[6], n[5]))
        case(torch.randn(8, n[3]), "a Linear, and a larger one that doesn't run", spare(n[3], n[7]))
        square = partial(nn.Linear, n[9], n[9])
        case(torch.randn(4, n[9]), "two Linears of one size", square(), square())
        layers = [nn.Linear(n[4], n[4]) for _ in range(3)]
        case(torch.randn(2, n[4]), "three Linears of one size", *layers)
        own = partial(_OwnMatrix, n[6], n[8], n[3])
        case(torch.randn(4, n[6]), "x @ matrix, then a Linear", own())
        case(words, "an Embedding whose weight is the head too", _TiedHead(n[20], n[6]))
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
