"""The models of lesson 04's exercises, and how an answer that runs one is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from amp_lessons.checks.probe import Case
from amp_lessons.exercises.stage import BFLOAT, DOUBLE, HALF, SINGLE, region

# ---- dtype_offenders(model, x, expected, region) ------------------------------------------------


class Island(nn.Module):
    """A linear layer with a norm that runs outside autocast, in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, width), nn.GELU())
        self.norm = nn.LayerNorm(width)
        self.spare = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x)
        with torch.autocast(x.device.type, enabled=False):
            return self.norm(x.float())


class Twice(nn.Module):
    """One activation module for two tensors: one call is float32, the other 16 bit."""

    def __init__(self, *, float_first: bool) -> None:
        super().__init__()
        self.lower, self.act, self.float_first = nn.Linear(5, 5), nn.Tanh(), float_first

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.lower(x)
        one, other = (x, hidden) if self.float_first else (hidden, x)
        return self.act(one).sum() + self.act(other).sum()


class Tagger(nn.Module):
    """A recurrent layer, which returns a tuple, and a head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(4, width, batch_first=True), nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        features, _ = self.rnn(x)
        return self.head(features)


class Tied(nn.Module):
    """One layer that the model holds under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(4, 4)
        self.middle, self.decoder = nn.ReLU(), self.encoder

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.middle(self.encoder(x)))


def offender_cases() -> list[Case]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        stack = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))
        island = Island(5)
        nested = nn.Sequential(island, nn.Sequential(nn.Linear(5, 4), nn.Softmax(-1)))
        island.norm.eval()  # as in fine-tuning: some parts in one mode, some in the other
        tied = Tied()

        def case(words: str, model: nn.Module, shape: tuple, expected: dict, dtype: Any) -> Case:
            return Case((model, torch.randn(shape), expected, dtype), words)

        inside = {"0": HALF, "0.body.0": SINGLE, "0.norm": HALF, "1.0": HALF, "1": BFLOAT}
        unused = {"0.spare": HALF, "0.norm": SINGLE}
        unused_too = {"0.body.1": HALF, "0.spare": SINGLE}
        both, narrow = {"lower": HALF, "act": HALF}, {"act": SINGLE}
        tied_first = {"encoder": HALF, "middle": BFLOAT}
        first, last = Twice(float_first=True), Twice(float_first=False)
        return [
            case("a stack of layers", stack, (3, 6), dict.fromkeys("012", BFLOAT), BFLOAT),
            case("a stack, another expectation", stack, (7, 6), {"0": BFLOAT, "2": SINGLE}, BFLOAT),
            case("a stack in float16", stack, (2, 6), {"0": SINGLE, "1": HALF}, HALF),
            case("nested modules, a norm in float32", nested, (2, 5), inside, HALF),
            case("nested modules, one does not run", nested, (4, 5), unused, HALF),
            case("nested modules, one never runs", nested, (3, 5), unused_too, HALF),
            case("a module that runs twice", first, (3, 5), both, HALF),
            case("a module that runs twice, the other way round", last, (3, 5), both, HALF),
            case("a module that runs twice, in bfloat16", last, (2, 5), {"act": BFLOAT}, BFLOAT),
            case("a module that runs twice, float32 expected", first, (4, 5), narrow, HALF),
            case("a module that runs twice, float32 first", first, (2, 5), {"act": BFLOAT}, BFLOAT),
            case("a GRU", Tagger(6), (3, 5, 4), {"rnn": SINGLE, "head": BFLOAT}, BFLOAT),
            case("a GRU in float16", Tagger(3), (2, 3, 4), {"rnn": SINGLE, "head": SINGLE}, HALF),
            case("a tied layer", tied, (2, 4), {"decoder": BFLOAT, "middle": SINGLE}, BFLOAT),
            case("a tied layer, float32 expected", tied, (3, 4), {"decoder": SINGLE}, HALF),
            case("a tied layer by its first name", tied, (5, 4), {"encoder": SINGLE}, HALF),
            case("a tied layer by its first name, in bfloat16", tied, (2, 4), tied_first, BFLOAT),
        ]


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")


def _hooks_on(model: nn.Module) -> set[int]:
    found = {id(h) for m in model.modules() for kind in _HOOKS for h in getattr(m, kind).values()}
    return found | {id(m) for m in model.modules() if "forward" in vars(m)}


def _parameters_of(model: nn.Module) -> list[Any]:
    return [(p.dtype, p.requires_grad, p.detach().tolist()) for p in model.parameters()]


def play_offenders(function: Callable[..., Any]) -> Any:
    """What the function returns, or in words what it did to the model."""
    if function is ...:
        return function

    def play(model: nn.Module, *rest: Any) -> Any:
        calls: list[int] = []
        counter = model.register_forward_hook(lambda *_: calls.append(1))
        hooks, parameters = _hooks_on(model), _parameters_of(model)
        modes = [module.training for module in model.modules()]
        with region(None):
            result = function(model, *rest)
            is_on = torch.is_autocast_enabled("cpu")
        faults = {
            "the model ran more than once": len(calls) > 1,
            "hooks are left on the model": bool(_hooks_on(model) - hooks),
            "a hook that was on the model before is gone": bool(hooks - _hooks_on(model)),
            "a module is in another mode": [m.training for m in model.modules()] != modes,
            "the parameters are not as they were": _parameters_of(model) != parameters,
            "autocast is on after the call": is_on,
        }
        counter.remove()
        return next((words for words, is_so in faults.items() if is_so), result)

    return play


# ---- low_flop_share(model, x, region) -----------------------------------------------------------


class Attention(nn.Module):
    """One head, written with functions: its products are in no module."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.transpose(1, 2), dim=-1) @ v


class OwnRegion(nn.Module):
    """A part in a region of its own; with no dtype autocast is off, and the input float32."""

    def __init__(self, part: nn.Module, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.part, self.dtype = part, dtype

    def forward(self, x: Tensor) -> Tensor:
        if self.dtype is None:
            with torch.autocast(x.device.type, enabled=False):
                return self.part(x.float())
        with torch.autocast(x.device.type, dtype=self.dtype):
            return self.part(x)


def head_in_single(width: int, classes: int) -> nn.Sequential:
    body = nn.Sequential(nn.Linear(width, 7), nn.ReLU(), nn.Linear(7, 5))
    return nn.Sequential(body, OwnRegion(nn.Linear(5, classes)))


def inner_region(width: int, inner: torch.dtype) -> nn.Sequential:
    """A part under the other 16-bit format, and a float32 head."""
    lower, upper = nn.Linear(4, width), nn.Linear(width, 3)
    return nn.Sequential(lower, OwnRegion(upper, inner), OwnRegion(nn.Linear(3, 5)))


class DoubleDetour(nn.Module):
    """A convolution, and a product in float64 that autocast leaves alone."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 2)
        self.register_buffer("basis", torch.ones(4, width, dtype=DOUBLE))

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).mean(-1).double() @ self.basis


class ScoresInSingle(nn.Module):
    """Attention whose scores are computed in float32, and whose values are not."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.v = nn.Linear(6, 4), nn.Linear(6, 9)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x).float()
        with torch.autocast(x.device.type, enabled=False):
            weights = torch.softmax(q @ q.transpose(1, 2), dim=-1)
        return weights @ self.v(x)


class CarefulHead(nn.Module):
    """A head that runs in float32 where its input is float16, which could overflow in it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lower, self.head = nn.Linear(4, width), nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.lower(x)
        with torch.autocast(x.device.type, enabled=x.dtype is BFLOAT, dtype=BFLOAT):
            return self.head(x.float())


def share_cases() -> list[Case]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        stack = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 2))
        made = {
            "a stack of two layers": (stack, (3, 6), BFLOAT),
            "a head in float32": (head_in_single(6, 11), (5, 6), HALF),
            "attention": (Attention(4), (2, 5, 4), BFLOAT),
            "attention, scores in float32": (ScoresInSingle(), (2, 7, 6), HALF),
            "attention on longer texts, scores in float32": (ScoresInSingle(), (1, 9, 6), BFLOAT),
            "a product in float64": (DoubleDetour(6), (2, 3, 8), BFLOAT),
            "a small product in float64": (DoubleDetour(2), (3, 3, 5), HALF),
            "a large head in float32": (head_in_single(3, 40), (9, 3), BFLOAT),
            "an inner region of bfloat16": (inner_region(6, BFLOAT), (4, 4), HALF),
            "an inner region of float16": (inner_region(8, HALF), (3, 4), BFLOAT),
            "a head that float16 would be too narrow for": (CarefulHead(5), (3, 4), HALF),
            "another such head": (CarefulHead(7), (2, 4), HALF),
            "the first such head, in bfloat16": (CarefulHead(5), (2, 4), BFLOAT),
            "the second such head, in bfloat16": (CarefulHead(7), (5, 4), BFLOAT),
        }
        return [Case((m, torch.randn(shape), d), words) for words, (m, shape, d) in made.items()]
