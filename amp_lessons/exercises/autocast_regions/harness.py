"""What the answers are handed: modules that write down what autocast was like when they ran.

So it does not matter how a region is opened. The modules also put up with inputs of the wrong
dtype: what they took is noted, and the check can say more than torch's error would.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, mse_loss

from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises import harness as exercises
from amp_lessons.exercises.harness import (
    as_play,
    flat,
    from_seed,
    in_words,
    name_of,
    numbers,
    seeded,
)
from amp_lessons.exercises.checks.serialize import plain
from amp_lessons.exercises.checks.serialize.compare import as_number, noted
from amp_lessons.exercises.checks.torch_state import usual_torch

# Bound once, before any learner's code runs.
_is_on, _dtype_of = torch.is_autocast_enabled, torch.get_autocast_dtype
_is_cached = torch.is_autocast_cache_enabled


def among(key: str, *words: str) -> Callable[..., bool]:
    """Whether one of these words was noted under a key."""
    return lambda seen, right: not {*words}.isdisjoint(str(noted(seen, key)).split())


def differs(key: str) -> Callable[..., dict[str, Any] | bool]:
    """Whether something else was noted under a key than was expected; and both, for a sentence."""

    def compare(seen: dict[str, Any], right: dict[str, Any]) -> dict[str, Any] | bool:
        got, wanted = noted(seen, key), noted(right, key)
        return got not in (None, wanted) and {"got": got, "wanted": wanted}

    return compare


telling = partial(exercises.telling, what="your function returned")


def as_returned(value: Any) -> Any:
    """A value of a wrong type. A dict must not be taken for what `play` notes."""
    return type(type(value).__name__, (), {})() if isinstance(value, dict) else value


class RegionState(NamedTuple):
    """Autocast on the CPU, as the calling thread has it."""

    on: bool
    dtype: str
    cached: bool

    def __str__(self) -> str:
        return f"on in {self.dtype}{'' if self.cached else ' with no cache'}" if self.on else "off"


def state() -> RegionState:
    return RegionState(_is_on("cpu"), name_of(_dtype_of("cpu")), _is_cached())


def since(before: RegionState) -> str:
    """What has become of the state: "as before", or what it is now."""
    now = state()
    if now == before:
        return "as before"
    return str(now) if str(now) != str(before) else f"{now}, with other settings"


class Log:
    """What ran, in which state of autocast, and on what. Copies of a module share one log."""

    def __init__(self) -> None:
        self.states: dict[str, list[str]] = {}
        self.took: dict[str, list[str]] = {}

    def __deepcopy__(self, memo: dict) -> Log:
        return self

    def add(self, what: str, *args: Any) -> None:
        now = state()
        self.states.setdefault(what, []).append(f"on in {now.dtype}" if now.on else "off")
        dtypes = ", ".join(name_of(t.dtype) for t in args if isinstance(t, Tensor))
        self.took.setdefault(what, []).append(dtypes)

    def during(self, what: str) -> str:
        """Autocast's state while this ran, each one once."""
        return " and ".join(dict.fromkeys(self.states.get(what, ["it did not run"])))

    def taken_by(self, what: str) -> str:
        return " and ".join(dict.fromkeys(self.took.get(what, ["it did not run"])))

    def count(self, what: str) -> int:
        return len(self.states.get(what, []))


class Witness(nn.Module):
    """A module, or any callable, that logs its calls and the backward pass through its result."""

    def __init__(self, inner: Callable[..., Tensor], what: str, log: Log) -> None:
        super().__init__()
        self.inner, self.what, self.log = inner, what, log

    def forward(self, *args: Any) -> Tensor:
        self.log.add(self.what, *args)
        weight = next(self.parameters(), None)
        if weight is not None and not _is_on("cpu"):
            args = tuple(
                a.to(weight.dtype) if isinstance(a, Tensor) and a.is_floating_point() else a
                for a in args
            )
        result = self.inner(*args)
        if result.requires_grad:
            result.register_hook(lambda _: self.log.add(f"{self.what} backward"))
        return result


def dtypes_of(*modules: nn.Module) -> str:
    return in_words(name_of(p.dtype) for m in modules for p in m.parameters())


def reaches(result: Any, source: Tensor) -> str:
    """Whether a gradient of the result arrives there."""
    if type(result) is not Tensor or not result.requires_grad:
        return "there is none"
    total = result.float().sum()
    (grad,) = torch.autograd.grad(total, source, retain_graph=True, allow_unused=True)
    return "there is none" if grad is None else "there is one"


# ---- training: a step, and an epoch -------------------------------------------------------------


class LoggedTraining:
    """A model, a loss, an optimizer and batches, drawn from a seed, all of which log."""

    def __init__(self, seed: int, count: int, old_gradients: bool) -> None:
        draw, generator = random.Random(draws.seed(seed)), from_seed(seed)
        inputs, width, outputs = draw.randint(3, 9), draw.randint(8, 24), draw.randint(2, 5)
        self.log, self.weights_used, self.reached = Log(), "the current ones", "none"
        first, last = seeded(seed, lambda: (nn.Linear(inputs, width), nn.Linear(width, outputs)))
        first.register_forward_hook(self._look_at_weights)
        self.model = nn.Sequential(
            Witness(first, "model", self.log), nn.Tanh(), Witness(last, "output", self.log)
        )
        for p in self.model.parameters():
            p.grad = torch.ones_like(p) if old_gradients else None
            p.register_hook(lambda _: setattr(self, "reached", "computed"))
        project = torch.randn(outputs, 3, generator=generator)

        def distance(prediction: Tensor, target: Tensor) -> Tensor:
            if seed % 2:  # a loss with matrix products of its own
                one, other = (t @ project.to(t.dtype) for t in (prediction, target))
                return (one - other).float().square().mean()
            wide = prediction.float()  # a loss in which the order of the two matters
            return mse_loss(wide, target.float()) + 0.3 * wide.abs().mean()

        self.loss_fn = Witness(distance, "loss", self.log)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.5)
        self.optimizer.register_step_pre_hook(lambda *_: self.log.add("step"))
        self.batches = [
            (
                torch.randn(12, inputs, generator=generator),
                (3 + torch.randn(12, outputs, generator=generator)).bfloat16().float(),
            )
            for _ in range(count)
        ]

    def _look_at_weights(self, layer: Any, args: tuple[Tensor, ...], result: Tensor) -> None:
        """Compute the same without the cache: does it come out the same?"""
        cached = _is_cached()
        torch.set_autocast_cache_enabled(False)
        with torch.no_grad():
            fresh = linear(args[0], layer.weight, layer.bias)
        torch.set_autocast_cache_enabled(cached)
        if not torch.equal(fresh, result):
            self.weights_used = "16-bit copies of older ones"

    def left_behind(self, losses: list[float], before: RegionState) -> dict[str, Any]:
        return {
            "dtype of the parameters": dtypes_of(self.model),
            "weights that the model computed with": self.weights_used,
            "autocast in the forward pass": self.log.during("model"),
            "autocast in the loss function": self.log.during("loss"),
            "backward passes": self.log.count("output backward"),
            "gradients of the parameters": self.reached,
            "optimizer steps": self.log.count("step"),
            "autocast in the backward pass": self.log.during("output backward"),
            "autocast in the optimizer's step": self.log.during("step"),
            "autocast after the call": since(before),
            "losses": losses,
            "parameters at the end": flat(self.model.parameters()),
        }


def step_cases() -> list[Case]:
    """Several steps on one model, with and without gradients from before the first of them."""
    return [
        Case((2, 3, False), "3 steps"),
        Case((3, 2, False), "2 steps on another model"),
        Case((8, 2, True), "2 steps, the first with old gradients"),
        Case((11, 3, True), "3 steps, the first with old gradients"),
    ]


def epoch_cases() -> list[Case]:
    rows = (("one", 2, 3), ("another", 3, 2), ("a third", 8, 4), ("a fourth", 11, 3))
    return [Case((seed, n, False), f"{n} batches for {which} model") for which, seed, n in rows]


def some_steps(step: Callable[..., Any]) -> Callable[..., Any]:
    """How a step is used: on one batch after the other."""

    def go(run: LoggedTraining) -> Any:
        return [step(run.model, run.loss_fn, run.optimizer, x, y) for x, y in run.batches]

    return _training(go, lambda losses: next(x for x in losses if as_number(plain(x)) is None))


def one_epoch(epoch: Callable[..., Any]) -> Callable[..., Any]:
    """How an epoch is used."""

    def go(run: LoggedTraining) -> Any:
        return epoch(run.model, run.loss_fn, run.optimizer, list(run.batches))

    return _training(go, lambda losses: losses)


def _training(go: Callable[[LoggedTraining], Any], odd: Callable[[Any], Any]) -> Callable[..., Any]:
    """Args: what to run, and what to give back where it gave no losses."""

    def play(seed: int, count: int, old_gradients: bool) -> Any:
        with usual_torch():
            run, before = LoggedTraining(seed, count, old_gradients), state()
            given = go(run)
            losses = numbers(given)
            return as_returned(odd(given)) if losses is None else run.left_behind(losses, before)

    return play


# ---- a backbone and a head ----------------------------------------------------------------------


def score_cases() -> list[Case]:
    return [
        Case((4, 3, "bfloat16", True), "3 inputs, dtype=bfloat16"),
        Case((5, 2, "float16", True), "2 inputs, dtype=float16"),
        Case((12, 6, "bfloat16", False), "6 inputs, dtype=bfloat16, modules in eval mode"),
        Case((19, 5, "float16", False), "5 inputs, dtype=float16, modules in eval mode"),
    ]


@as_play
def scoring(scores_of: Callable[..., Any], seed: int, rows: int, dtype: str, training: bool) -> Any:
    """How a function of a backbone, a head, inputs and a dtype is used."""
    draw, log = random.Random(draws.seed(seed)), Log()
    inputs, classes = draw.randint(3, 9), draw.randint(2, 6)
    width = inputs + draw.randint(1, 4)
    sizes = ((inputs, width), (width, width), (width, classes))
    lower, upper, last = seeded(seed, lambda: [nn.Linear(*size) for size in sizes])
    body = nn.Sequential(lower, nn.ReLU(), upper)
    backbone, head = Witness(body, "backbone", log), Witness(last, "head", log)
    modules = backbone.train(training), head.train(training)
    x = torch.randn(rows, inputs, generator=from_seed(seed))
    with usual_torch():
        before = state()
        scores = scores_of(backbone, head, x, getattr(torch, dtype))
        after = since(before)
    if type(scores) is not Tensor:
        return as_returned(scores)
    modes = {module.training for module in modules}
    return {
        "dtype of the parameters": dtypes_of(backbone, head),
        "autocast in the backbone": log.during("backbone"),
        "autocast in the head": log.during("head"),
        "dtype that the head took": log.taken_by("head"),
        "dtype of the scores": name_of(scores.dtype),
        "gradient for the backbone": reaches(scores, next(backbone.parameters())),
        "autocast after the call": after,
        "mode of the modules": "as they came" if modes == {training} else "changed",
        "scores": scores,
    }
