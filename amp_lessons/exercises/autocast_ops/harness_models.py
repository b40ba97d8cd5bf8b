"""The models of lesson 04's exercises, and how an answer that runs one is called."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import BFLOAT, DOUBLE, HALF, SINGLE, as_play, region, seeded
from amp_lessons.exercises.varied import Varied


class Net(nn.Module):
    """Parts by name, and a function of the module and its input that runs them."""

    def __init__(self, run: Callable[[Any, Tensor], Tensor], **parts: nn.Module) -> None:
        super().__init__()
        self.run = run
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


def stack() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))


# ---- dtype_offenders(model, x, expected, region) ------------------------------------------------


def nested() -> nn.Module:
    """Its norm runs outside autocast, in float32; and as in fine-tuning, in another mode."""

    def run(self: Any, x: Tensor) -> Tensor:
        x = self.body(x)
        with torch.autocast("cpu", enabled=False):
            return self.norm(x.float())

    body, norm = nn.Sequential(nn.Linear(5, 5), nn.GELU()), nn.LayerNorm(5).eval()
    island = Net(run, body=body, norm=norm, spare=nn.Linear(5, 2))
    return nn.Sequential(island, nn.Sequential(nn.Linear(5, 4), nn.Softmax(-1)))


def twice(float_first: bool) -> nn.Module:
    """One activation module for two tensors: one call is float32, the other 16 bit."""

    def run(self: Any, x: Tensor) -> Tensor:
        both = (x, self.lower(x)) if float_first else (self.lower(x), x)
        return torch.stack([self.act(one).sum() for one in both]).sum()

    return Net(run, lower=nn.Linear(5, 5), act=nn.Tanh())


def tagger() -> nn.Module:
    """A recurrent layer, which returns a tuple, and a head."""
    rnn, head = nn.GRU(4, 3, batch_first=True), nn.Linear(3, 3)
    return Net(lambda self, x: self.head(self.rnn(x)[0]), rnn=rnn, head=head)


def tied() -> nn.Module:
    """One layer that the model holds under two names."""
    layer, run = nn.Linear(4, 4), lambda self, x: self.decoder(self.middle(self.encoder(x)))
    return Net(run, encoder=layer, middle=nn.ReLU(), decoder=layer)


def offender_cases() -> list[Case]:
    """The listed expectations; with a salt also random ones, and in another order."""
    vary = Varied(42)
    first, last = partial(twice, float_first=True), partial(twice, float_first=False)
    inside = {"0": HALF, "0.body.0": SINGLE, "0.norm": HALF, "1.0": HALF, "1": BFLOAT}
    idle, never = {"0.spare": HALF, "0.norm": SINGLE}, {"0.body.1": HALF, "0.spare": SINGLE}
    both, narrow, wide = {"lower": HALF, "act": HALF}, {"act": BFLOAT}, {"act": SINGLE}
    rows: list[tuple[str, Any, tuple[int, ...], dict[str, torch.dtype], torch.dtype]] = [
        ("a stack of layers", stack, (3, 6), dict.fromkeys("012", BFLOAT), BFLOAT),
        ("a stack, another expectation", stack, (7, 6), {"0": BFLOAT, "2": SINGLE}, BFLOAT),
        ("a stack in float16", stack, (2, 6), {"0": SINGLE, "1": HALF}, HALF),
        ("nested modules, a norm in float32", nested, (2, 5), inside, HALF),
        ("nested modules, one does not run", nested, (4, 5), idle, HALF),
        ("nested modules, one never runs", nested, (3, 5), never, HALF),
        ("a module that runs in float32, then in float16", first, (3, 5), both, HALF),
        ("a module that runs in float16, then in float32", last, (3, 5), both, HALF),
        ("a module that runs in bfloat16, then in float32", last, (2, 5), narrow, BFLOAT),
        ("a module that runs twice, float32 expected", first, (4, 5), wide, HALF),
        ("a module that runs in float32, then in bfloat16", first, (2, 5), narrow, BFLOAT),
        ("a GRU", tagger, (3, 5, 4), {"rnn": SINGLE, "head": BFLOAT}, BFLOAT),
        ("a GRU in float16", tagger, (2, 3, 4), {"rnn": SINGLE, "head": SINGLE}, HALF),
        ("a tied layer", tied, (2, 4), {"decoder": BFLOAT, "middle": SINGLE}, BFLOAT),
        ("a tied layer, float32 expected", tied, (3, 4), {"decoder": SINGLE}, HALF),
        ("a tied layer by its first name", tied, (5, 4), {"encoder": SINGLE}, HALF),
        ("a tied layer by its first name, in bfloat16", tied, (2, 4), {"encoder": HALF}, BFLOAT),
    ]
    for number in vary.extra(14):
        _, make, (_, *sizes), _, _ = vary.random.choice(rows[:17])
        modules = make().named_modules(remove_duplicate=False)
        names = {id(module): name for name, module in modules if name}  # a tied layer: its last one
        chosen = vary.random.sample([*names.values()], vary.random.randint(2, len(names)))
        expected = {name: vary.random.choice((HALF, BFLOAT, SINGLE)) for name in chosen}
        words = f"random expectations, number {number + 1}"
        low = vary.random.choice((HALF, BFLOAT))
        rows.append((words, make, (vary.more(2), *sizes), expected, low))
    return vary.mixed(
        [Case((make, torch.ones(shape), *rest), words) for words, make, shape, *rest in rows]
    )


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")


def _hooks_on(model: nn.Module) -> set[int]:
    found = {id(h) for m in model.modules() for kind in _HOOKS for h in getattr(m, kind).values()}
    return found | {id(m) for m in model.modules() if "forward" in vars(m)}


def _parameters_of(model: nn.Module) -> list[Any]:
    return [(p.dtype, p.requires_grad, p.detach().tolist()) for p in model.parameters()]


@as_play
def play_offenders(function: Callable[..., Any], make: Callable[[], nn.Module], *rest: Any) -> Any:
    """What the function returns, or in words what it did to the model."""
    model, calls = seeded(4, make), []
    model.register_forward_hook(lambda *_: calls.append(1))
    hooks, parameters = _hooks_on(model), _parameters_of(model)
    modes = [module.training for module in model.modules()]
    with region(None):
        result = function(model, *rest)
        is_on = torch.is_autocast_enabled("cpu")
    left = _hooks_on(model)
    faults = {
        "the model ran more than once": len(calls) > 1,
        "hooks are left on the model": bool(left - hooks),
        "a hook that was on the model before is gone": bool(hooks - left),
        "a module is in another mode": [m.training for m in model.modules()] != modes,
        "the parameters are not as they were": _parameters_of(model) != parameters,
        "autocast is on after the call": is_on,
    }
    return next((words for words, is_so in faults.items() if is_so), result)


# ---- low_flop_share(model, x, region) -----------------------------------------------------------


def attention() -> nn.Module:
    """One head, written with functions: its products are in no module."""

    def run(self: Any, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return torch.softmax(q @ k.transpose(1, 2), dim=-1) @ v

    return Net(run, qkv=nn.Linear(4, 12))


def scores_in_single() -> nn.Module:
    """Attention whose scores are computed in float32, and whose values are not."""

    def run(self: Any, x: Tensor) -> Tensor:
        q = self.q(x).float()
        with torch.autocast("cpu", enabled=False):
            weights = torch.softmax(q @ q.transpose(1, 2), dim=-1)
        return weights @ self.v(x)

    return Net(run, q=nn.Linear(6, 4), v=nn.Linear(6, 9))


def own_region(part: nn.Module, dtype: torch.dtype | None = None) -> nn.Module:
    """A part in a region of its own; with no dtype autocast is off, and the input float32."""

    def run(self: Any, x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=dtype is not None, dtype=dtype):
            return self.part(x if dtype else x.float())

    return Net(run, part=part)


def head_in_single(width: int, classes: int) -> nn.Module:
    body = nn.Sequential(nn.Linear(width, 7), nn.ReLU(), nn.Linear(7, 5))
    return nn.Sequential(body, own_region(nn.Linear(5, classes)))


def inner_region(width: int, inner: torch.dtype) -> nn.Module:
    """A part under the other 16-bit format, and a float32 head."""
    lower, upper = nn.Linear(4, width), nn.Linear(width, 3)
    return nn.Sequential(lower, own_region(upper, inner), own_region(nn.Linear(3, 5)))


def double_detour(width: int) -> nn.Module:
    """A convolution, and a product in float64 that autocast leaves alone."""
    basis = torch.ones(4, width, dtype=DOUBLE)
    return Net(lambda self, x: self.conv(x).mean(-1).double() @ basis, conv=nn.Conv1d(3, 4, 2))


def careful_head(width: int) -> nn.Module:
    """A head that runs in float32 where its input is float16, which could overflow in it."""

    def run(self: Any, x: Tensor) -> Tensor:
        x = self.lower(x)
        with torch.autocast("cpu", enabled=x.dtype is BFLOAT, dtype=BFLOAT):
            return self.head(x.float())

    return Net(run, lower=nn.Linear(4, width), head=nn.Linear(width, 3))


def share_cases() -> list[Case]:
    """With a salt the inputs are longer, and so are some layers."""
    vary = Varied(43)
    more, one, other = vary.more, vary.more(5, 9), vary.more(7, 9)
    rows: list[tuple[str, Callable[[], nn.Module], tuple[int, ...], torch.dtype]] = [
        ("a stack of two layers", stack, (3, 6), BFLOAT),
        ("a head in float32", partial(head_in_single, 6, more(11)), (5, 6), HALF),
        ("attention", attention, (2, 5, 4), BFLOAT),
        ("attention, scores in float32", scores_in_single, (2, more(7), 6), HALF),
        ("attention on longer texts, scores in float32", scores_in_single, (1, more(9, 9), 6),
         BFLOAT),
        ("a product in float64", partial(double_detour, more(6)), (2, 3, more(8, 9)), BFLOAT),
        ("a small product in float64", partial(double_detour, 2), (3, 3, more(5, 9)), HALF),
        ("a large head in float32", partial(head_in_single, 3, more(40, 20)), (9, 3), BFLOAT),
        ("an inner region of bfloat16", partial(inner_region, more(6, 9), BFLOAT), (4, 4), HALF),
        ("an inner region of float16", partial(inner_region, more(8, 9), HALF), (3, 4), BFLOAT),
        ("a head that float16 would be too narrow for", partial(careful_head, one), (3, 4), HALF),
        ("another such head", partial(careful_head, other), (2, 4), HALF),
        ("the first such head, in bfloat16", partial(careful_head, one), (2, 4), BFLOAT),
        ("the second such head, in bfloat16", partial(careful_head, other), (5, 4), BFLOAT),
    ]  # fmt: skip
    return vary.mixed([Case((make, torch.ones(s), d), words) for words, make, s, d in rows])


@as_play
def play_share(function: Callable[..., Any], make: Callable[[], nn.Module], *rest: Any) -> Any:
    return function(seeded(4, make), *rest)
