"""Checks of the exercises 09: bytes of model states, the crossover, the cast cache, two reports,
and the lever that saves most."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from amp_lessons.checks.cases import Case, Misconception, function_exercise, within
from amp_lessons.checks.evidence import observe
from amp_lessons.memory import STATE_COPIES, CastCache
from amp_lessons.trace.recorder import LOW

# ---- training_bytes ---------------------------------------------------------------------------


def _state_cases() -> list[Case]:
    counts = (1000, 7_000_000, 124_439_808, 8_030_261_248)  # the last fits no 32-bit integer
    return [
        Case((count + 3 * i, optimizer, precision))
        for i, count in enumerate(counts)
        for optimizer in STATE_COPIES
        for precision in ("fp32", "amp", "bf16")
    ]


def _states(each: Callable[[str, int], tuple[int, int, int]]) -> Callable[..., int]:
    """From bytes of a weight, a gradient and the state, by precision and state copies."""

    def count(parameters: int, optimizer: str, precision: str) -> int:
        return parameters * sum(each(precision, STATE_COPIES[optimizer]))

    return count


def _width(precision: str) -> int:
    return 2 if precision == "bf16" else 4


def _true_states(precision: str, copies: int) -> tuple[int, int, int]:
    return _width(precision), _width(precision), _width(precision) * copies


def _under_amp(weight: int, gradient: int, state: int) -> Callable[..., int]:
    def each(precision: str, copies: int) -> tuple[int, int, int]:
        if precision == "amp":
            return weight, gradient, state * copies
        return _true_states(precision, copies)

    return _states(each)


training_bytes = function_exercise(
    "training_bytes",
    cases=_state_cases,
    reference=_states(_true_states),
    misconceptions={
        "amp-halves": Misconception(
            "You gave parameters, gradients or state fewer bytes under AMP. Autocast changes none "
            "of them: the parameters stay float32, so do their gradients, and so does what the "
            "optimizer keeps.",
            *(_under_amp(*widths) for widths in product((2, 4), repeat=3) if widths != (4, 4, 4)),
        ),
        "copies-kept": Misconception(
            "You added 16-bit copies, or master weights, under AMP. torch.amp has no master copy: "
            "the parameters themselves are float32. Its casts end with the autocast region, and "
            "nothing of them is left between two steps.",
            _under_amp(6, 4, 4),
            _under_amp(8, 4, 4),
            _under_amp(6, 2, 4),
            _under_amp(6, 6, 4),
        ),
        "gradients-forgotten": Misconception(
            "The gradients are missing: between backward and zero_grad there is one number for "
            "each parameter, in its dtype.",
            _states(lambda p, n: (_width(p), 0, _width(p) * n)),
        ),
        "adam-keeps-two": Misconception(
            "Adam keeps two numbers for each parameter: an average of the gradient and one of its "
            "square.",
            _states(lambda p, n: (_width(p), _width(p), _width(p) * min(n, 1))),
        ),
        "bf16-as-float32": Misconception(
            "A model stored in bfloat16 has as many bytes with you as one in float32. It has two a "
            "parameter, and so have its gradients and its optimizer's state; torch keeps no "
            "float32 copy of it.",
            _states(lambda p, n: (4, 4, 4 * n)),
        ),
        "state-has-the-dtype": Misconception(
            "torch.optim makes its state with zeros_like(parameter): a bfloat16 parameter gets "
            "bfloat16 averages.",
            _states(lambda p, n: (_width(p), _width(p), 4 * n)),
            _states(lambda p, n: (_width(p), 4, 4 * n)),
        ),
    },
    hints=(
        "Three things have the size of the model: parameters, gradients, and what the optimizer "
        "keeps for each parameter.",
        "How many tensors of a parameter's size: SGD 0, with momentum 1, Adam 2. In which dtype?",
        "Everything has the dtype of the parameter: 2 bytes in bf16, 4 in fp32, and under AMP?",
    ),
    lesson_learned="Autocast leaves model states alone: 16 bytes a parameter under Adam.",
)

# ---- crossover --------------------------------------------------------------------------------


def _crossover_cases() -> list[Case]:
    numbers = [
        (1_000, 100, 60),  # exactly 25 batches: equal, not less
        (1_001, 100, 60),
        (999, 100, 60),
        (1_052_672, 8_192, 5_632),
        (100_687_872, 49_152, 49_152),  # the recipe
        (5_000, 40, 44),
        (7, 90, 10),
        (0, 10, 9),
        (247_229_952, 1_022_772_249, 756_958_245),
        (33_554_432, 3, 2),
    ]
    return [Case(each) for each in numbers]


def _crossing(first: Callable[[int, int], float], never: Any = None) -> Callable[..., Any]:
    def crossover(added: int, fp32_each: int, amp_each: int) -> Any:
        gain = fp32_each - amp_each
        return first(added, gain) if gain > 0 else never

    return crossover


crossover = function_exercise(
    "crossover",
    cases=_crossover_cases,
    reference=_crossing(lambda added, gain: added // gain + 1),
    misconceptions={
        "equal-is-not-less": Misconception(
            "At your batch both need the same in some calls. Less is asked for, so where the "
            "division leaves nothing over it is one more.",
            _crossing(lambda added, gain: max(1, math.ceil(added / gain))),
            _crossing(lambda added, gain: math.ceil(added / gain)),
        ),
        "rounded-down": Misconception(
            "You rounded down, to a batch at which the savings do not reach what was added.",
            _crossing(lambda added, gain: added // gain),
            _crossing(lambda added, gain: max(1, added // gain)),
        ),
        "not-whole": Misconception(
            "A batch is a whole number of examples: the smallest one at which AMP needs less.",
            _crossing(lambda added, gain: added / gain),
        ),
        "own-bytes-forgotten": Misconception(
            "You divided by the bytes of one precision. What AMP saves with each example is the "
            "difference of the two.",
            lambda added, fp32_each, amp_each: added // fp32_each + 1,
            lambda added, fp32_each, amp_each: added // amp_each + 1,
            lambda added, fp32_each, amp_each: math.ceil(added / fp32_each),
        ),
        "never-forgotten": Misconception(
            "Where AMP keeps as much for each example as FP32, or more, no batch wins the casts "
            "back: then the answer is None.",
            lambda added, fp32_each, amp_each: added // (fp32_each - amp_each) + 1,
            lambda added, fp32_each, amp_each: math.floor(added / (fp32_each - amp_each)) + 1,
            lambda added, fp32_each, amp_each: (
                None if fp32_each == amp_each else added // (fp32_each - amp_each) + 1
            ),
            lambda added, fp32_each, amp_each: (
                None if fp32_each < amp_each else added // (fp32_each - amp_each) + 1
            ),
            *(
                _crossing(lambda added, gain: added // gain + 1, never)
                for never in (0, -1, 1, math.inf)
            ),
        ),
    },
    hints=(
        "With batch B, FP32 needs fp32_each * B and AMP added + amp_each * B. When is the second "
        "less?",
        "B must be greater than added / (fp32_each - amp_each). Which is the next whole number?",
        "added // gain + 1, unless the gain is not positive.",
    ),
    lesson_learned="What AMP adds is fixed and what it saves grows with the batch: a quotient "
    "decides, and sometimes the answer is never.",
    asked_for="a whole number, or None",
)

# ---- cache_bytes ------------------------------------------------------------------------------


class _Unused(nn.Module):
    """Has a layer that its forward does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.spare = nn.Linear(6, 5), nn.Linear(6, 50)

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


def _cache_cases() -> list[Case]:
    def case(model: nn.Module, x: Tensor, label: str) -> Case:
        return Case((model, x), label)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(9)
        frozen = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        frozen[0].requires_grad_(False)
        twice = nn.Linear(12, 12)
        tied = nn.Sequential(nn.Linear(10, 10, bias=False), nn.Linear(10, 10))
        tied[1].weight = tied[0].weight
        low = nn.Sequential(nn.Linear(7, 9).to(torch.bfloat16), nn.Linear(9, 3))
        normed = nn.Sequential(nn.Linear(8, 20), nn.LayerNorm(20), nn.Linear(20, 2, bias=False))
        same = nn.Sequential(nn.Linear(9, 9), nn.ReLU(), nn.Linear(9, 9))
        images = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 2, 1, bias=False))
        words = nn.Sequential(nn.Embedding(30, 6), nn.Linear(6, 11))
        return [
            case(nn.Linear(5, 3), torch.randn(2, 5), "a Linear(5, 3), 2 examples"),
            case(nn.Linear(5, 3), torch.randn(64, 5), "a Linear(5, 3), 64 examples"),
            case(frozen, torch.randn(4, 8), "two layers, the first frozen"),
            case(nn.Sequential(twice, nn.ReLU(), twice), torch.randn(3, 12), "a layer used twice"),
            case(tied, torch.randn(3, 10), "two layers that share a weight"),
            case(low, torch.randn(4, 7, dtype=torch.bfloat16), "a layer stored in bfloat16"),
            case(normed, torch.randn(4, 8), "two layers with a layer norm between"),
            case(images, torch.randn(2, 3, 6, 6), "two convolutions"),
            case(words, torch.arange(5), "an embedding and a layer"),
            case(_Unused(), torch.randn(4, 6), "a model with a layer that is not used"),
            case(same, torch.randn(4, 9), "two layers of the same size"),
            case(_OwnMatrix(), torch.randn(4, 6), "a matrix of its own, then a layer"),
        ]


def _true_cache(model: nn.Module, x: Tensor) -> int:
    with CastCache() as cache, torch.autocast("cpu", torch.bfloat16):
        model(x)
    return sum(cache.sizes.values())


class _Casts(TorchDispatchMode):
    """Lists (source, result) of each cast to 16 bit."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[Tensor, Tensor]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and result.dtype in LOW:
            self.made.append((args[0], result))
        return result


def _cast_where(keep: Callable[[Tensor], bool], width: int = 2) -> Callable[..., int]:
    def count(model: nn.Module, x: Tensor) -> int:
        with _Casts() as casts, torch.autocast("cpu", torch.bfloat16):
            model(x)
        return sum(width * source.numel() for source, _ in casts.made if keep(source))

    return count


def _is_trained(source: Tensor) -> bool:
    return source.is_leaf and source.requires_grad


def _saved(only_casts: bool) -> Callable[..., int]:
    """Bytes of the 16-bit tensors that autograd saves, or of those that are casts of parameters."""

    def count(model: nn.Module, x: Tensor) -> int:
        kept: dict[int, Tensor] = {}

        def pack(tensor: Tensor) -> Tensor:
            if tensor.dtype in LOW:
                kept[tensor.untyped_storage().data_ptr()] = tensor
            return tensor

        hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
        with hooks, _Casts() as casts, torch.autocast("cpu", torch.bfloat16):
            model(x)
        own = {r.untyped_storage().data_ptr() for source, r in casts.made if _is_trained(source)}
        return sum(t.nbytes for key, t in kept.items() if key in own or not only_casts)

    return count


def _by_call(model: nn.Module, x: Tensor) -> int:
    """Trained float32 parameters of each layer that casts, once for each of its calls."""
    total = 0

    def note(module: nn.Module, *_: Any) -> None:
        nonlocal total
        if isinstance(module, _CASTING):
            total += sum(2 * p.numel() for p in module.parameters() if _is_cast(p))

    handles = [module.register_forward_hook(note) for module in model.modules()]
    with torch.autocast("cpu", torch.bfloat16):
        model(x)
    for handle in handles:
        handle.remove()
    return total


def _by_run_type(model: nn.Module, x: Tensor) -> int:
    """Trained float32 parameters of each layer that casts and runs, each once."""
    used: dict[int, Tensor] = {}

    def note(module: nn.Module, *_: Any) -> None:
        if isinstance(module, _CASTING):
            used.update({id(p): p for p in module.parameters() if _is_cast(p)})

    handles = [module.register_forward_hook(note) for module in model.modules()]
    with torch.autocast("cpu", torch.bfloat16):
        model(x)
    for handle in handles:
        handle.remove()
    return sum(2 * p.numel() for p in used.values())


def _by_type(model: nn.Module, x: Tensor) -> int:
    layers = [module for module in model.modules() if isinstance(module, _CASTING)]
    found = {id(p): p for module in layers for p in module.parameters() if _is_cast(p)}
    return sum(2 * p.numel() for p in found.values())


def _is_cast(parameter: Tensor) -> bool:
    return parameter.requires_grad and parameter.dtype == torch.float32


_CASTING = (nn.Linear, nn.Conv2d)

cache_bytes = function_exercise(
    "cache_bytes",
    cases=_cache_cases,
    reference=_true_cache,
    misconceptions={
        "every-parameter": Misconception(
            "You took two bytes for every parameter of the model. Only what a 16-bit layer takes "
            "is cast: not the weights of layer norms and embeddings, not what is bfloat16 "
            "already, not a layer that does not run; and casts of frozen ones are not kept.",
            lambda model, x: sum(2 * p.numel() for p in model.parameters()),
            lambda model, x: sum(2 * p.numel() for p in model.parameters() if p.requires_grad),
            lambda model, x: sum(2 * p.numel() for p in model.parameters() if _is_cast(p)),
        ),
        "frozen-counted": Misconception(
            "Autocast casts a frozen parameter too, and throws the copy away: the cache keeps "
            "only casts of leaves that require a gradient.",
            _cast_where(lambda source: isinstance(source, nn.Parameter)),
            _cast_where(
                lambda source: (source.is_leaf and source.dim() < 3) or _is_trained(source)
            ),
        ),
        "activations-counted": Misconception(
            "You counted casts of activations. They are new in each batch, and the cache keeps "
            "casts of parameters only.",
            _cast_where(lambda source: True),
        ),
        "saved-for-backward": Misconception(
            "You counted what autograd saves for backward. The cache does not ask who needs a "
            "copy: it also keeps those of the biases, and of the first layer's weight, which no "
            "backward reads.",
            _saved(only_casts=True),
            _saved(only_casts=False),
        ),
        "weights-only": Misconception(
            "The biases are missing: they are cast, and kept, as the weights are.",
            _cast_where(lambda source: _is_trained(source) and source.dim() > 1),
        ),
        "bytes-of-the-original": Misconception(
            "You counted the float32 parameters that were cast. The copies have two bytes each.",
            _cast_where(_is_trained, width=4),
        ),
        "counted-at-each-use": Misconception(
            "A parameter that is used twice is cast once: that is what the cache is for.",
            _by_call,
        ),
        "known-layers-only": Misconception(
            "You looked for layers of the types that you know. Autocast looks at ops: a parameter "
            "that a model multiplies by itself, with no nn.Linear around it, is cast and kept too.",
            _by_run_type,
        ),
        "unused-counted": Misconception(
            "You looked at which layers there are. A layer that does not run casts nothing: run "
            "the model, and watch.",
            _by_type,
        ),
    },
    hints=(
        "Which parameters are cast at all, which of the casts are kept, and how often?",
        "A TorchDispatchMode sees each cast as aten::_to_copy, with its source and its result. So "
        "does lesson 05.",
        "Keep the results whose source is a parameter that requires a gradient; each source once.",
    ),
    lesson_learned="The cache holds two bytes for each trained float32 parameter that a 16-bit op "
    "has used, whatever the batch.",
)


def _marks(model: nn.Module) -> list[Any]:
    """What of a model an answer could have changed, and a caller would find out later."""
    modules = [
        (m.training, len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()
    ]
    tensors = [(p.dtype, p.requires_grad, p.grad is None) for p in model.parameters()]
    return [modules, tensors, [t.double().tolist() for t in model.state_dict().values()]]


def _probe_cache(function: Callable[..., Any]) -> list[dict[str, Any]]:
    """As `function_exercise` does, but a model that was changed is noticed too."""
    found = []
    for case in _cache_cases():
        model, x = case.args
        before = _marks(model)
        seen = observe(lambda m=model, x=x: function(m, x))
        found.append(seen if _marks(model) == before else seen | {"changed": 0})
    return found


cache_bytes = replace(cache_bytes, probe=_probe_cache)

# ---- step_ratio -------------------------------------------------------------------------------


def _report_cases() -> list[Case]:
    def report(before: int, data: int, own: int, kept: int) -> dict[str, int]:
        loaded = before + data
        peak = loaded + own
        return {"before": before, "loaded": loaded, "peak": peak, "reserved": peak + kept}

    pairs = [
        (report(0, 6_710_886_400, 822_446_592, 0), report(0, 6_710_886_400, 923_133_440, 2**21)),
        (report(0, 15 * 2**30, 5 * 2**30, 2**30), report(2**28, 15 * 2**30, 4 * 2**30, 2**30)),
        (report(512, 4096, 10_000, 240), report(9_216, 4096, 6_400, 4_000)),
        (report(2**20, 0, 2**24, 2**22), report(3 * 2**20, 0, 2**23, 2**23)),
        (report(7 * 2**20, 2**26, 2**25, 2**24), report(2**20, 2**27, 3 * 2**24, 0)),
    ]
    return [Case(pair, f"reports {i}") for i, pair in enumerate(pairs)]


def _ratio(own: Callable[[dict[str, int]], float]) -> Callable[..., float]:
    return lambda fp32, amp: own(amp) / own(fp32)


def _own_bytes(report: dict[str, int]) -> int:
    return report["peak"] - report["loaded"]


step_ratio = function_exercise(
    "step_ratio",
    cases=_report_cases,
    reference=_ratio(_own_bytes),
    misconceptions={
        "data-included": Misconception(
            "The data are in your figures. They lie on the GPU in either precision and hide what "
            "happened to the rest.",
            _ratio(lambda report: report["peak"]),
            _ratio(lambda report: report["peak"] - report["before"]),
        ),
        "leftovers-included": Misconception(
            "You took out the data, and left in what was there before them: tensors of the run "
            "before, which a notebook keeps alive. Start from `loaded`.",
            _ratio(lambda report: report["peak"] - (report["loaded"] - report["before"])),
        ),
        "one-start-for-both": Misconception(
            "You subtracted the same from both peaks. Each run has a start of its own.",
            lambda fp32, amp: (amp["peak"] - fp32["loaded"]) / _own_bytes(fp32),
            lambda fp32, amp: _own_bytes(amp) / (fp32["peak"] - amp["loaded"]),
        ),
        "reserved-taken": Misconception(
            "`reserved` is what the allocator keeps, free blocks included: its way of working, "
            "not the model's need.",
            _ratio(lambda report: report["reserved"] - report["loaded"]),
            _ratio(lambda report: report["reserved"]),
            _ratio(lambda report: report["reserved"] - report["before"]),
        ),
        "upside-down": Misconception(
            "Your ratio is FP32 over AMP. Asked for is AMP over FP32: less than 1 where AMP saves.",
            lambda fp32, amp: _own_bytes(fp32) / _own_bytes(amp),
        ),
        "not-a-ratio": Misconception(
            "You returned a change or a percentage. Asked for is the ratio, AMP over FP32: 0.8 for "
            "20% less.",
            lambda fp32, amp: _own_bytes(amp) / _own_bytes(fp32) - 1,
            lambda fp32, amp: 1 - _own_bytes(amp) / _own_bytes(fp32),
            lambda fp32, amp: _own_bytes(amp) - _own_bytes(fp32),
            lambda fp32, amp: 100 * _own_bytes(amp) / _own_bytes(fp32),
            lambda fp32, amp: 100 * _own_bytes(amp) / _own_bytes(fp32) - 100,
        ),
    },
    hints=(
        "Which bytes of the peak belong to the model and its step, and to nothing else?",
        "At `loaded`, old tensors and data are there, and no model yet.",
        "peak - loaded, for each run with its own.",
    ),
    lesson_learned="A peak is a sum. Compare what changed, from each run's own start.",
    same=within(1e-6),
)

# ---- best_lever -------------------------------------------------------------------------------


def _lever_cases() -> list[Case]:
    draw = random.Random(9)
    made = []
    for number in range(160):  # many, so that two mistakes seldom choose alike
        parameters, activations = draw.randint(400, 2000), draw.randint(300, 6000)
        made.append(
            {
                "parameters": parameters,
                "gradients": parameters,
                "optimizer": parameters * draw.choice((0, 0, 1, 2)),
                "activations_fp32": activations,
                "activations_amp": round(activations * draw.uniform(0.52, 1.05)),
                "casts": round(parameters * draw.uniform(0.1, 0.5)),
                "checkpoints": round(activations * draw.choice((0.3, 0.6, 0.8, 0.97, 1))),
            }
        )
        if number % 4 == 0:  # a small batch under plain SGD: nothing helps
            made[-1] |= {"optimizer": 0, "checkpoints": activations}
    return [Case((parts,), f"model {i}: {_in_words(parts)}") for i, parts in enumerate(made)]


def _in_words(parts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in parts.items())


def _autocast_saves(parts: dict[str, int]) -> float:
    return parts["activations_fp32"] - parts["activations_amp"] - parts["casts"]


def _checkpointing_saves(parts: dict[str, int]) -> float:
    return parts["activations_fp32"] - parts["checkpoints"]


def _best(
    autocast: Callable[..., float] = _autocast_saves,
    checkpointing: Callable[..., float] = _checkpointing_saves,
    least: float = 0,
) -> Callable[..., str]:
    def best_lever(parts: dict[str, int]) -> str:
        saved = {
            "autocast": autocast(parts),
            "checkpointing": checkpointing(parts),
            "sgd": parts["optimizer"],
        }
        name = max(saved, key=lambda lever: saved[lever])
        return name if saved[name] > least else "none"

    return best_lever


best_lever = function_exercise(
    "best_lever",
    cases=_lever_cases,
    reference=_best(),
    misconceptions={
        "casts-forgotten": Misconception(
            "Autocast's savings are too high: the 16-bit copies of the parameters come on top, "
            "and must be taken off what the activations save.",
            _best(autocast=lambda p: p["activations_fp32"] - p["activations_amp"]),
            _best(autocast=lambda p: _autocast_saves(p) + 2 * p["casts"]),
        ),
        "model-halved": Misconception(
            "You let autocast shrink parameters, gradients or optimizer state. It shrinks none of "
            "them: they stay float32.",
            _best(autocast=lambda p: _autocast_saves(p) + p["parameters"] / 2),
            _best(autocast=lambda p: _autocast_saves(p) + (p["parameters"] + p["gradients"]) / 2),
            _best(
                autocast=lambda p: (p["activations_fp32"] + p["parameters"] + p["gradients"]) / 2
            ),
            _best(
                autocast=lambda p: (
                    p["activations_fp32"] - p["activations_amp"] + p["parameters"] / 2
                )
            ),
            _best(autocast=lambda p: _autocast_saves(p) + p["optimizer"] / 2),
        ),
        "activations-halved": Misconception(
            "You took half of the activations as autocast's savings. What float32 ops keep is not "
            "halved: the bytes under autocast are given.",
            _best(autocast=lambda p: p["activations_fp32"] / 2),
            _best(autocast=lambda p: p["activations_fp32"] / 2 - p["casts"]),
        ),
        "checkpoints-forgotten": Misconception(
            "Checkpointing does not save all activations: what the checkpoints keep stays. What "
            "counts is how much of a part a lever takes away, not how large the part is.",
            _best(checkpointing=lambda p: p["activations_fp32"]),
        ),
        "none-forgotten": Misconception(
            'Where no lever saves a byte, say so: "none". Autocast can even cost.',
            _best(least=-math.inf),
        ),
    },
    hints=(
        "For each of the three levers, write down the bytes that are there before and after.",
        "Autocast: activations become smaller, casts are added. Checkpointing: activations become "
        "the checkpoints. SGD: the optimizer's state goes.",
        "The largest of the three savings, if it is more than 0.",
    ),
    lesson_learned="You weigh levers by what they take away from this model, not by what is said "
    "of them.",
    asked_for='one of "autocast", "checkpointing", "sgd" and "none"',
)
