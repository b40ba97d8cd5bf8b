"""Lesson 06's exercises: write a GradScaler, watch one, predict it, and use it in the right order.

Most answers here are used and not just called: each check plays a few training steps with the
answer and compares the scale, the parameters and the optimizer's steps with what
`torch.amp.GradScaler("cpu")` does in the same play. The misconceptions are played too.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from amp_lessons.checks.cases import (
    Case,
    Misconception,
    Rule,
    as_number,
    function_exercise,
    within,
)
from amp_lessons.checks.evidence import plain

_CLOSE = within(1e-5)
_TorchScaler = partial(torch.amp.GradScaler, "cpu")


def _value(given: Any) -> Any:
    """A number as such, whether it comes as a tensor or a float; anything else as it is."""
    number = as_number(plain(given))
    return given if number is None else float(number)


def _listed(result: Any) -> Any:
    """A sequence of numbers as a list, be it a list, a tuple, a tensor or an array."""
    described = plain(result)
    values = described.get("values") if isinstance(described, dict) else None
    if isinstance(values, list):
        return values
    return list(result) if type(result) is tuple else result


def _numbers(tensors: Sequence[Tensor]) -> list[float]:
    """All the elements of some tensors in one list."""
    return [x for t in tensors for x in t.detach().double().flatten().tolist()]


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


def _not_nan(tensor: Tensor) -> bool:
    return not bool(tensor.isnan().any())


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _losses(shapes: Sequence[tuple[int, ...]], seed: int) -> tuple[list[Tensor], Callable]:
    """Parameters of these shapes, and a loss of them that pulls each to its own place."""
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.randn(s, generator=generator).requires_grad_() for s in shapes]
    goals = [3 * torch.randn(s, generator=generator) for s in shapes]

    def loss() -> Tensor:
        terms = [(w - g).square().sum() for w, g in zip(weights, goals, strict=True)]
        return torch.stack(terms).sum()

    return weights, loss


# ---- OwnScaler --------------------------------------------------------------------------------

METHODS = ("scale", "unscale_", "step", "update", "get_scale")
_BAD = {"i": math.inf, "-": -math.inf, "n": math.nan}


def _scaler_cases() -> list[Case]:
    def case(pattern: str, settings: tuple, unscale_first: bool, label: str, seed: int) -> Case:
        return Case((settings, pattern, unscale_first, seed), f"{label} ({pattern})")

    draw = random.Random(6)
    patterns = ["".join(draw.choice("....i-n") for _ in range(14)) for _ in range(3)]
    return [
        case("....", (256.0, 2.0, 0.5, 100), False, "four clean steps", 1),
        case("....", (2.0**16, 2.0, 0.5, 1), False, "four growths from 65536", 9),
        case(".....ii.....", (4.0, 2.0, 0.5, 2), False, "the lesson's trace", 2),
        case("..i..", (8.0, 2.0, 0.5, 3), True, "unscale_ is called before step", 3),
        case("n.-..", (1024.0, 2.0, 0.5, 50), False, "NaN, then -inf", 4),
        case(".i..i...i....", (64.0, 4.0, 0.25, 3), False, "growth 4, backoff 0.25", 5),
        case(patterns[0], (2.0**16, 2.0, 0.5, 2), True, "a random pattern", 6),
        case(patterns[1], (1.0, 8.0, 0.125, 1), False, "a random pattern", 7),
        case(patterns[2], (1000.0, 3.0, 0.1, 4), True, "a random pattern", 8),
    ]


def _play_scaler(make: Callable[..., Any]) -> Callable[..., Any]:
    """Train three parameters for a few steps with a scaler made by ``make``.

    A letter of the pattern is a step: clean, or with an inf, a -inf or a NaN in one gradient. A
    fourth parameter never has a gradient.
    """

    def play(settings: tuple, pattern: str, unscale_first: bool, seed: int) -> dict[str, Any]:
        scaler = make(*settings)
        missing = ", ".join(m for m in METHODS if not callable(getattr(scaler, m, None)))
        if missing:
            return {"methods missing": missing}
        weights, loss = _losses([(2,), (3,), (2, 2)], seed)
        idle = torch.ones(2, requires_grad=True)
        groups = [{"params": weights[:1]}, {"params": [*weights[1:], idle], "lr": 0.02}]
        optimizer = torch.optim.SGD(groups, lr=0.05, momentum=0.9, weight_decay=0.1)
        steps, scaled, unscaled, path, scales = [0], [], [], [], []
        optimizer.register_step_post_hook(lambda *_: steps.append(steps[-1] + 1))
        for i, letter in enumerate(pattern):
            optimizer.zero_grad()
            scaled_loss = scaler.scale(loss())
            scaled_loss.backward()
            scaled.append(_value(scaled_loss))
            if letter in _BAD:
                weights[i % 3].grad.view(-1)[i % 2] = _BAD[letter]
            if unscale_first:
                scaler.unscale_(optimizer)
                unscaled.append(_value(weights[(i + 1) % 3].grad.sum()))
            scaler.step(optimizer)
            scaler.update()
            path.append(_value(sum(_numbers(weights))))
            scales.append(_value(scaler.get_scale()))
        return {
            "methods missing": "",
            "scale after each update": scales,
            "scaled loss": scaled,
            "sum of a gradient after unscale_": unscaled,
            "sum of the parameters after each step": path,
            "parameters at the end": _numbers(weights),
            "optimizer steps": steps[-1],
        }

    return play


class _ModelScaler:
    """A GradScaler with named mistakes: the models of the misconceptions."""

    mistakes: frozenset[str] = frozenset()

    def __init__(self, init_scale: float, growth: float, backoff: float, interval: int) -> None:
        self.value, self.growth, self.backoff, self.interval = init_scale, growth, backoff, interval
        if "two-and-a-half" in self.mistakes:
            self.growth, self.backoff = 2.0, 0.5
        self.clean, self.found, self.unscaled = 0, False, False

    def scale(self, loss: Tensor) -> Tensor:
        return loss if "loss-as-it-is" in self.mistakes else loss * self.value

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        self.unscaled = True
        if "last-decides" not in self.mistakes:
            self.found = self.found and "found-kept" in self.mistakes
        for parameter in self._looked_at(optimizer):
            if parameter.grad is None:
                continue
            if "not-unscaled" not in self.mistakes:
                parameter.grad /= self.value
            bad = self._is_bad(parameter.grad)
            self.found = bad if "last-decides" in self.mistakes else self.found or bad
            if "zeroed" in self.mistakes:
                parameter.grad.nan_to_num_(0.0, 0.0, 0.0)

    def _looked_at(self, optimizer: torch.optim.Optimizer) -> list[Tensor]:
        if "first-group" in self.mistakes:
            return optimizer.param_groups[0]["params"]
        return _parameters(optimizer)

    def _is_bad(self, gradient: Tensor) -> bool:
        if "isinf" in self.mistakes:
            return bool(gradient.isinf().any())
        if "isnan" in self.mistakes:
            return bool(gradient.isnan().any())
        return not _finite(gradient)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        if not self.unscaled or "always-unscales" in self.mistakes:
            self.unscale_(optimizer)
        if not self.found or self.mistakes & {"steps-anyway", "zeroed"}:
            optimizer.step()

    def update(self) -> None:
        mistakes = self.mistakes
        self.clean += 1
        if self.found:
            self.value = self.value * self.backoff
            if "counter-kept" in mistakes:
                self.clean -= 1
            elif "counts-all" not in mistakes:
                self.clean = 0
        if not self.found or "counts-all" in mistakes:
            late = 1 if "grows-late" in mistakes else 0
            due = self.clean >= self.interval + late
            if (due or "grows-always" in mistakes) and not self.found:
                self.value = self.value * self.growth
            if due and "no-reset" not in mistakes:
                self.clean = 0
        if "unscaled-kept" not in mistakes:
            self.unscaled = False

    def get_scale(self) -> float:
        return self.value


def _with(*mistakes: str) -> type[_ModelScaler]:
    return type("Scaler", (_ModelScaler,), {"mistakes": frozenset(mistakes)})


OwnScaler = function_exercise(
    "OwnScaler",
    cases=_scaler_cases,
    reference=_TorchScaler,
    play=_play_scaler,
    same=_CLOSE,
    rules={
        "library-called": Rule(
            "torch's own scaler did the work inside yours. In real code that is right; here, write "
            "out what it does: a division, and a question to torch.isfinite.",
            lambda ops: any(op["op"].startswith("aten::_amp_") for op in ops),
        ),
    },
    misconceptions={
        "steps-anyway": Misconception(
            "Your scaler found the overflow and let the optimizer step all the same. One inf or "
            "NaN in a gradient spoils the weight for good: the whole step must be left out.",
            _with("steps-anyway"),
        ),
        "overflow-zeroed": Misconception(
            "You replaced the infinite gradients by zeros and stepped. A zero gradient is no "
            "skipped step: momentum and weight decay still move the parameters, and the other "
            "gradients of that backward pass cannot be trusted either.",
            _with("zeroed"),
        ),
        "nan-missed": Misconception(
            "You look for inf only. An overflow often arrives as NaN, because inf - inf and "
            "0 * inf are NaN. Ask torch.isfinite.",
            _with("isinf"),
        ),
        "inf-missed": Misconception(
            "You look for NaN only. An overflow is an inf first. Ask torch.isfinite.",
            _with("isnan"),
        ),
        "last-gradient-decides": Misconception(
            "Each parameter overwrites what the one before it has found, so only the last gradient "
            "counts. One bad gradient anywhere must stop the step: collect with `or`.",
            _with("last-decides"),
        ),
        "first-group-only": Misconception(
            "You look at param_groups[0] only. An optimizer can have several groups, and their "
            "gradients are all scaled.",
            _with("first-group"),
        ),
        "unscaled-twice": Misconception(
            "When the caller has called unscale_ already, your step divides by the scale a second "
            "time. Remember that it was done, until update.",
            _with("always-unscales"),
        ),
        "unscaled-flag-kept": Misconception(
            "You remember that the gradients were unscaled, and never forget it: from the second "
            "step on they stay scaled. update ends the step; reset the flag there.",
            _with("unscaled-kept"),
        ),
        "never-unscaled": Misconception(
            "Your optimizer steps with gradients that are still multiplied by the scale, so the "
            "step is that many times too large. Divide them before the step.",
            _with("not-unscaled"),
        ),
        "loss-not-scaled": Misconception(
            "Your scale returns the loss as it was. Then the division in unscale_ makes every "
            "gradient too small by the scale.",
            _with("loss-as-it-is"),
        ),
        "found-inf-kept": Misconception(
            "After one overflow every later step is skipped too: what was found belongs to one "
            "step. Reset it for the next.",
            _with("found-kept"),
        ),
        "counter-survives-overflow": Misconception(
            "Growth takes `growth_interval` clean steps in a row. You count clean steps across an "
            "overflow; it must set the counter back to 0.",
            _with("counter-kept"),
            _with("counts-all"),
        ),
        "counter-not-reset": Misconception(
            "After the first growth your scale grows with every clean step. Growth sets the "
            "counter back to 0.",
            _with("no-reset"),
        ),
        "grows-too-late": Misconception(
            "Your scale grows one step late: with an interval of 2 the second clean step in a row "
            "already brings the growth, in its own update.",
            _with("grows-late"),
        ),
        "factors-ignored": Misconception(
            "Your scale doubles and halves whatever it was told. growth_factor and backoff_factor "
            "are settings: use them.",
            _with("two-and-a-half"),
        ),
        "grows-every-step": Misconception(
            "Your scale grows with every clean step. It has to wait for `growth_interval` of them.",
            _with("grows-always"),
        ),
    },
    hints=(
        "Three things last from step to step: the scale, the number of clean steps in a row, and, "
        "within one step, whether the gradients are unscaled and whether one was bad.",
        "step: unscale if nobody has; step the optimizer only if every gradient is finite. update: "
        "back off or count; then forget what belongs to this step.",
        "A parameter without a gradient (grad is None) is left out. All groups count.",
    ),
    lesson_learned="That is all of GradScaler: a multiplication, a division with a look for inf "
    "and NaN, an `if` before the optimizer's step, and a counter.",
    asked_for="a scaler",
)

# ---- a small network under FP16 ---------------------------------------------------------------


def _network(seed: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def _batches(pattern: str, seed: int) -> list[tuple[Tensor, Tensor]]:
    """A batch a letter: clean; a target so far off that the scaled gradient overflows ("o"), or
    that the loss overflows too ("l"); targets of which only the last bias' gradient, a sum over
    the batch, overflows with a scale of 1024 ("b"); a target that is NaN ("n")."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for letter in pattern:
        x = torch.randn(4, 6, generator=generator)
        y = torch.randn(4, 3, generator=generator)
        if letter == "o":
            y[0, 0] = 40_000.0
        if letter == "l":
            y[1, 2] = 1e25
        if letter == "b":
            y[:, 0] = 130.0
        if letter == "n":
            y[2, 1] = math.nan
        batches.append((x, y))
    return batches


def _fp16_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.float16):
        return nn.functional.mse_loss(model(x), y)


# ---- skipped_steps ----------------------------------------------------------------------------


def _log_cases() -> list[Case]:
    def case(pattern: str, interval: int, lr: float, label: str, seed: int) -> Case:
        return Case((pattern, interval, lr, seed), f"{label} ({pattern})")

    return [
        case("......", 100, 0.1, "nothing overflows", 1),
        case("..o...o.", 100, 0.1, "two gradients overflow", 2),
        case("oo.....", 3, 0.1, "the first two overflow, then the scale grows", 3),
        case("..l.l.o", 100, 0.1, "the loss overflows", 4),
        case(".o...", 100, 0.0, "the learning rate is 0", 5),
        case("...o....o...", 2, 0.05, "the scale grows every two steps", 6),
        case(".b..", 100, 0.1, "one gradient of four overflows", 7),
        case("..n.n", 100, 0.1, "two targets are NaN", 8),
    ]


def _play_log(answer: Callable[..., Any]) -> Callable[..., Any]:
    def play(pattern: str, interval: int, lr: float, seed: int) -> dict[str, Any]:
        model = _network(seed)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        scaler = _TorchScaler(init_scale=2.0**10, growth_interval=interval)
        result = answer(model, optimizer, scaler, _batches(pattern, seed))
        return {
            "skipped steps": _listed(result),
            "parameters at the end": _numbers(list(model.parameters())),
            "scale at the end": scaler.get_scale(),
        }

    return play


def _log_with(
    was_skipped: Callable[..., bool],
    report: Callable[[list[bool]], list] = lambda flags: [i for i, f in enumerate(flags) if f],
    *,
    loss_of: Callable[..., Tensor] = _fp16_loss,
    zero_grad: bool = True,
    direct: bool = False,
) -> Callable[..., list]:
    """The training loop with another way to ask: ``was_skipped`` takes the scale before and
    after, the loss, and the parameters before and after."""

    def skipped_steps(model, optimizer, scaler, batches) -> list:
        flags = []
        for x, y in batches:
            if zero_grad:
                optimizer.zero_grad()
            loss = loss_of(model, x, y)
            scaler.scale(loss).backward()
            before, weights = scaler.get_scale(), _numbers(list(model.parameters()))
            if direct:
                scaler.unscale_(optimizer)
                optimizer.step()
            else:
                scaler.step(optimizer)
            scaler.update()
            moved = _numbers(list(model.parameters())) != weights
            flags.append(was_skipped(before, scaler.get_scale(), loss, moved))
        return report(flags)

    return skipped_steps


def _fp32_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.mse_loss(model(x), y)


def _fell(before: float, after: float, loss: Tensor, moved: bool) -> bool:
    return after < before


skipped_steps = function_exercise(
    "skipped_steps",
    cases=_log_cases,
    reference=_log_with(_fell),
    play=_play_log,
    same=_CLOSE,
    misconceptions={
        "growth-counted": Misconception(
            "You count each step after which the scale has changed. It also changes when it grows, "
            "after clean steps. A skip is a scale that fell.",
            _log_with(lambda before, after, loss, moved: after != before),
        ),
        "asked-before-update": Misconception(
            "You found no skip at all. If you asked the scale: step does not change it, update "
            "does, so read it before the step and again after update.",
            _log_with(lambda before, after, loss, moved: False),
        ),
        "loss-asked": Misconception(
            "You list the steps whose loss is not finite, scaled or not. With a scale the "
            "gradients overflow long before the loss does, and these are the common skips.",
            _log_with(lambda before, after, loss, moved: not _finite(loss)),
        ),
        "nan-only": Misconception(
            "You find the skips with a NaN, and no other. In most skips the gradients are inf, and "
            "the loss is a good number.",
            _log_with(lambda before, after, loss, moved: not _not_nan(loss)),
        ),
        "return-value-asked": Misconception(
            "You list every step as skipped. If you asked what scaler.step returns: that is what "
            "optimizer.step returns, and without a closure it is None, skipped or not.",
            _log_with(lambda before, after, loss, moved: True),
        ),
        "parameters-compared": Misconception(
            "You compared the parameters before and after. A real step can leave them in place: "
            "here the learning rate is 0; it can also be a warm-up or a zero gradient.",
            _log_with(lambda before, after, loss, moved: not moved),
        ),
        "inverted": Misconception(
            "You list the steps that were taken, not those that were skipped.",
            _log_with(lambda before, after, loss, moved: after >= before),
        ),
        "counts-from-one": Misconception(
            "Your step numbers are one too high: the first step is number 0.",
            _log_with(_fell, lambda flags: [i + 1 for i, f in enumerate(flags) if f]),
        ),
        "flags-returned": Misconception(
            "You return a flag for each step. Asked for are the numbers of the skipped ones.",
            _log_with(_fell, list),
        ),
        "no-zero-grad": Misconception(
            "You never clear the gradients. One inf stays in .grad for ever, because inf plus "
            "anything is inf: from there on every step is skipped and the scale sinks. Call "
            "optimizer.zero_grad() in every step.",
            _log_with(_fell, zero_grad=False),
        ),
        "optimizer-stepped-directly": Misconception(
            "You called optimizer.step yourself. It steps whatever the gradients are, so an "
            "overflow goes into the weights. scaler.step(optimizer) holds the `if`.",
            _log_with(_fell, direct=True),
        ),
        "no-autocast": Misconception(
            "Your forward pass runs in float32, so its gradients do not overflow at this scale. "
            "Run it under torch.autocast('cpu', dtype=torch.float16).",
            _log_with(_fell, loss_of=_fp32_loss),
        ),
    },
    hints=(
        "Nothing that step returns tells you. Which number of the scaler changes after a skip, and "
        "in which direction?",
        "Write the five lines of a step: zero_grad, loss under autocast, scale and backward, step, "
        "update. Then ask scaler.get_scale() in two places.",
        "The scale falls at update after a skip, stays or grows after a real step.",
    ),
    lesson_learned="The only public sign of a skipped step is a scale that fell at update.",
    asked_for="a list of step numbers",
)

# ---- predict_scale ----------------------------------------------------------------------------

_TOP = float(torch.finfo(torch.float32).max)


def _scale_cases() -> list[Case]:
    draw = random.Random(7)

    def noise(steps: int, share: float) -> list[bool]:
        return [draw.random() < share for _ in range(steps)]

    def case(found: list[bool], settings: tuple, label: str) -> Case:
        return Case((found, *settings), label)

    lesson = [i in (5, 6) for i in range(12)]
    return [
        case([], (2.0**16, 2.0, 0.5, 2000), "no step"),
        case([True, False, False], (2.0**16, 2.0, 0.5, 2000), "one overflow, defaults"),
        case(lesson, (4.0, 2.0, 0.5, 2), "overflows at 5 and 6, interval 2"),
        case([False] * 7, (1.0, 2.0, 0.5, 3), "seven clean steps, interval 3"),
        case([False, False, True] * 4, (256.0, 2.0, 0.5, 3), "an overflow every third step"),
        case([True] * 12, (64.0, 2.0, 0.5, 5), "twelve overflows from 64"),
        case([False] * 6, (2.0**125, 2.0, 0.5, 1), "six growths from 2^125"),
        case([False] * 6, (2.0**124, 4.0, 0.5, 2), "growths by 4 from 2^124"),
        case([True] * 170, (2.0**16, 2.0, 0.5, 2000), "170 overflows from 65536"),
        case(noise(60, 0.2), (2.0**16, 2.0, 0.5, 4), "60 random steps, interval 4"),
        case(noise(60, 0.1), (1024.0, 4.0, 0.25, 3), "60 random steps, factors 4 and 0.25"),
        case(noise(40, 0.3), (3.0, 1.5, 0.1, 1), "40 random steps, factors 1.5 and 0.1"),
        case(noise(2100, 0.0), (2.0**16, 2.0, 0.5, 2000), "2100 clean steps, defaults"),
    ]


def _scale_model(*mistakes: str) -> Callable[..., list[float]]:
    def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
        def due(step: int, clean: int) -> bool:
            if "modulo" in mistakes:
                return (step + 1) % growth_interval == 0
            return clean >= growth_interval + ("late" in mistakes)

        scale, clean, scales = init_scale, 0, []
        for i, found in enumerate(found_inf):
            if "before" in mistakes:
                scales.append(scale)
            clean += 1
            if found:
                scale *= backoff_factor
                clean = clean - 1 if "counter-kept" in mistakes else 0
                if "floor" in mistakes:
                    scale = max(scale, 1.0)
            elif due(i, clean) or "always" in mistakes:
                if scale * growth_factor <= _TOP or "no-top" in mistakes:
                    scale *= growth_factor
                elif "clamped" in mistakes:
                    scale = _TOP
                elif "clamped-low" in mistakes:
                    scale = 2.0**127
                if "no-reset" not in mistakes:
                    clean = 0
            if "before" not in mistakes:
                scales.append(scale)
        return scales

    return predict_scale


def _torch_scales(
    found_inf: Sequence[bool], init_scale: float, growth: float, backoff: float, interval: int
) -> list[float]:
    """The scale after each update of torch's own scaler."""
    scaler = _TorchScaler(init_scale, growth, backoff, interval)
    weight = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.0)
    scaler.scale(weight)
    scales = []
    for found in found_inf:
        weight.grad = torch.full((1,), math.inf if found else 0.0)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales


def _same_scales(expected: Any, seen: Any) -> bool:
    """Lists of scales, each within a millionth, or so small that a float32 is 0 there."""
    if isinstance(seen, dict):  # a tensor or an array of them
        seen = seen.get("values")
    if not isinstance(expected, list) or not isinstance(seen, list) or len(expected) != len(seen):
        return False
    numbers = [as_number(s) for s in seen]
    return all(
        s is not None and math.isfinite(s) and abs(e - s) <= 1e-6 * abs(e) + 2.0**-149
        for e, s in zip(expected, numbers, strict=True)
    )


predict_scale = function_exercise(
    "predict_scale",
    cases=_scale_cases,
    reference=_torch_scales,
    same=_same_scales,
    misconceptions={
        "scale-before-update": Misconception(
            "You list the scale that each step used. Asked for is the scale after its update, so "
            "an overflow in the first step already shows in the first number.",
            _scale_model("before"),
        ),
        "counter-kept": Misconception(
            "Growth takes `growth_interval` clean steps in a row. An overflow sets the counter "
            "back to 0; yours goes on from where it was.",
            _scale_model("counter-kept"),
        ),
        "every-nth-step": Misconception(
            "You let the scale grow at every growth_interval-th step of the run. What counts is "
            "the number of clean steps since the last overflow or growth.",
            _scale_model("modulo"),
        ),
        "growth-without-reset": Misconception(
            "After the first growth your scale grows at every clean step: growth sets the counter "
            "back to 0.",
            _scale_model("no-reset"),
        ),
        "one-step-late": Misconception(
            "Your growth comes one step late: the update that counts the last clean step of the "
            "interval is the one that grows.",
            _scale_model("late"),
        ),
        "growth-every-step": Misconception(
            "Your scale grows at every clean step; it has to wait for `growth_interval` of them.",
            _scale_model("always"),
        ),
        "floor-of-one": Misconception(
            "You stop the scale at 1. GradScaler has no floor: it goes on to 0.5, 0.25 and, in the "
            "end, to exactly 0.",
            _scale_model("floor"),
        ),
        "no-ceiling": Misconception(
            "The scale is a float32. A growth that would make it infinite is left out, so doubling "
            "stops at 2^127.",
            _scale_model("no-top"),
        ),
        "cut-at-the-top": Misconception(
            "You cut a growth at the top of float32. GradScaler leaves such a growth out "
            "altogether: the scale stays what it was.",
            _scale_model("clamped"),
            _scale_model("clamped-low"),
        ),
    },
    hints=(
        "Two variables: the scale, and the number of clean steps since the last overflow or "
        "growth.",
        "An overflow multiplies by backoff_factor and sets the counter to 0; so does a growth, "
        "with its own factor.",
        "The scale is a float32: compare the grown scale with torch.finfo(torch.float32).max.",
    ),
    lesson_learned="You can now read a scale's curve backwards: each fall is a skip, each rise a "
    "full interval without one.",
    asked_for="a list of numbers",
)

# ---- clip_step --------------------------------------------------------------------------------


def _clip_cases() -> list[Case]:
    def case(pattern: str, max_norm: float, init_scale: float, label: str, seed: int) -> Case:
        return Case((pattern, max_norm, init_scale, seed), f"{label} ({pattern})")

    return [
        case("...", 1.0, 2.0**16, "norms above max_norm", 1),
        case("..", 1000.0, 2.0**10, "norms below max_norm", 2),
        case("..i..", 2.5, 2.0**12, "one overflow", 3),
        case("n...", 0.5, 2.0**8, "a NaN at first", 4),
    ]


def _play_clip(answer: Callable[..., Any]) -> Callable[..., Any]:
    """A few steps with clipping; each loss is new and the gradients are cleared before it."""

    def play(pattern: str, max_norm: float, init_scale: float, seed: int) -> dict[str, Any]:
        weights, loss = _losses([(3,), (2, 2), (4,)], seed)
        bad = [0.0]
        weights[1].register_hook(lambda gradient: gradient + bad[0])
        groups = [{"params": weights[:1]}, {"params": weights[1:], "lr": 0.05}]
        optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.5)
        scaler = _TorchScaler(init_scale=init_scale)
        norms, path, scales = [], [], []
        for letter in pattern:
            bad[0] = _BAD.get(letter, 0.0)
            optimizer.zero_grad()
            norm = _value(answer(scaler, optimizer, loss(), max_norm))
            if isinstance(norm, float) and not math.isfinite(norm):
                norm = "not finite"
            norms.append(norm)
            path.append(sum(_numbers(weights)))
            scales.append(scaler.get_scale())
        return {
            "norms": norms,
            "parameters at the end": _numbers(weights),
            "sum of the parameters after each step": path,
            "scale after each step": scales,
        }

    return play


def _clip_in_parts(optimizer: torch.optim.Optimizer, max_norm: float, mistake: str) -> Tensor:
    """Clip each group or each tensor by itself; the norm of all, if that is what is reported."""
    weights = _parameters(optimizer)
    groups = [group["params"] for group in optimizer.param_groups]
    parts = groups if mistake.startswith("by-group") else [[weight] for weight in weights]
    total = nn.utils.get_total_norm([weight.grad for weight in weights])
    norms = [nn.utils.clip_grad_norm_(part, max_norm) for part in parts]
    return total if mistake.endswith("true-norm") else torch.stack(norms).norm()


def _clip_model(mistake: str = "") -> Callable[..., Any]:
    """The steps of clipping in an order that holds one mistake."""

    def clip_step(scaler, optimizer, loss, max_norm):
        weights = _parameters(optimizer)
        clipped = weights[:1] if mistake == "first-group" else weights
        clip = partial(nn.utils.clip_grad_norm_, clipped)
        if mistake == "scaled-for-show":
            scaler.scale(loss)
        (loss if mistake in ("loss-as-it-is", "scaled-for-show") else scaler.scale(loss)).backward()
        if mistake == "before":
            norm = clip(max_norm)
        elif mistake == "scaled-norm":
            norm = clip(max_norm * scaler.get_scale())
        else:
            scaler.unscale_(optimizer)
            if mistake == "twice":
                for weight in weights:
                    weight.grad /= scaler.get_scale()
            if mistake == "after":
                scaler.step(optimizer)
            if mistake.startswith("by-"):
                norm = _clip_in_parts(optimizer, max_norm, mistake)
            else:
                norm = clip(max_norm)
        if mistake == "clipped-norm":
            norm = nn.utils.get_total_norm([w.grad for w in weights])
        if mistake == "direct":
            optimizer.step()
        elif mistake != "after":
            scaler.step(optimizer)
        if mistake != "no-update":
            scaler.update()
        return norm

    return clip_step


clip_step = function_exercise(
    "clip_step",
    cases=_clip_cases,
    reference=_clip_model(),
    play=_play_clip,
    same=_CLOSE,
    misconceptions={
        "clipped-before-unscale": Misconception(
            "You clipped before unscale_, so you clipped gradients that are still multiplied by "
            "the scale: the norm that you see is that many times too large, and after the division "
            "the model hardly moves. Call scaler.unscale_(optimizer) first.",
            _clip_model("before"),
        ),
        "not-clipped-in-time": Misconception(
            "The optimizer stepped with gradients that nobody had clipped: not at all, or after "
            "the step, when it had already used them. Clip between unscale_ and step.",
            _clip_model("after"),
        ),
        "norm-of-scaled-gradients": Misconception(
            "Your step is right, but the norm that you return is that of the scaled gradients. "
            "Whoever logs it sees jumps whenever the scale changes. Unscale first; then both are "
            "right.",
            _clip_model("scaled-norm"),
        ),
        "norm-after-clipping": Misconception(
            "The norm that you return was taken after clipping, so it never exceeds max_norm. "
            "clip_grad_norm_ returns the norm from before.",
            _clip_model("clipped-norm"),
        ),
        "divided-too-often": Misconception(
            "Your gradients are divided by the scale once more than they were multiplied by it. "
            "Either you divide by hand what unscale_ divides too (and step knows that it was "
            "done); or the plain loss went backward: scaler.scale(loss) gives a new tensor, and "
            "that is the one to call backward() on.",
            _clip_model("twice"),
            _clip_model("scaled-for-show"),
        ),
        "optimizer-stepped-directly": Misconception(
            "You called optimizer.step yourself. Nobody looks for the overflow then, and its NaN "
            "goes into the weights. scaler.step holds the `if`.",
            _clip_model("direct"),
        ),
        "update-forgotten": Misconception(
            "No update comes after the step: there is none, or it stands before it. The scaler "
            "then takes the next step for the same one and refuses: 'unscale_() is being called "
            "after step()'.",
            _clip_model("no-update"),
        ),
        "loss-not-scaled": Misconception(
            "'_scale is None': the scaler makes its scale in the first scaler.scale(loss), and "
            "something of yours needed the scale before that. Either the loss went backward "
            "without scaler.scale, or unscale_ stands before it.",
            _clip_model("loss-as-it-is"),
        ),
        "first-group-only": Misconception(
            "You clip the parameters of the first group only. The norm of all gradients together "
            "is what counts; an optimizer can have several groups.",
            _clip_model("first-group"),
        ),
        "clipped-in-parts": Misconception(
            "You clip group by group, or tensor by tensor, so that each part may have the norm "
            "max_norm and their directions no longer belong together. One call of "
            "clip_grad_norm_, with all parameters.",
            _clip_model("by-group"),
            _clip_model("by-tensor"),
            _clip_model("by-group-true-norm"),
            _clip_model("by-tensor-true-norm"),
        ),
    },
    hints=(
        "Which gradients does max_norm speak of: the true ones, or those times 65536?",
        "Between backward and the clipping one call is missing in the usual four-line loop.",
        "Backward on the scaled loss; then unscale_, clip, step, update. clip_grad_norm_ returns "
        "the norm.",
    ),
    lesson_learned="unscale_ looks for the overflow, too: what clipping does to an inf afterwards "
    "cannot hide it from step.",
    asked_for="the norm",
)

# ---- why_skipped ------------------------------------------------------------------------------

CAUSES = ("no skip", "old gradient", "input", "forward", "scale", "backward")

_SCENES = {
    "clean": "a clean step",
    "small scale": "a distant target and a scale of 1",
    "low scale": "a distant target and a scale of 1024",
    "scale": "a distant target and a scale of 65536",
    "large scale": "a clean batch and a scale of 2^30",
    "forward": "large weights and large inputs",
    "logits": "a last layer that overflows, and a scale of 1",
    "large input": "a finite input beyond FP16, and a scale of 1",
    "large target": "a finite target beyond FP16, and a scale of 1",
    "far target": "a target of 1e25, and a scale of 1",
    "infinite input": "an inf among the inputs",
    "bad target": "a NaN among the targets",
    "backward": "a square root of zero",
    "old finite": "finite gradients left in .grad, and a clean batch",
    "old inf": "an inf left in .grad, and a clean batch",
    "old nan": "a NaN left in .grad, and a distant target",
}


class _Root(nn.Module):
    """The square root of the magnitude: finite everywhere, with no gradient at 0."""

    def forward(self, x: Tensor) -> Tensor:
        return x.abs().sqrt()


def _scene(name: str) -> tuple[nn.Module, Tensor, Tensor, float]:
    """A model, a batch and a scale in which one thing goes wrong."""
    model = _network(seed=len(name))
    x, y = _batches("." if "scale" not in name or name == "large scale" else "o", len(name))[0]
    scale = 2.0**10
    if name in ("small scale", "logits", "large input", "large target", "far target"):
        scale = 1.0
    elif name in ("scale", "backward"):
        scale = 2.0**16
    elif name == "large scale":
        scale = 2.0**30
    if name == "forward":
        model[1] = nn.ReLU()
        x = 800 * x
        with torch.no_grad():
            model[0].weight.mul_(400)
    elif name == "logits":
        with torch.no_grad():
            model[2].bias.fill_(60_000.0)
            model[2].bias[1] = 80_000.0
    elif name == "large input":
        model[1] = nn.ReLU()
        x[0] = 1e5
    elif name == "large target":
        y[0, 0] = 1e5
    elif name == "far target":
        y[1, 2] = 1e25
    elif name == "infinite input":
        x[2, 1] = math.inf
    elif name == "bad target":
        y[1, 1] = math.nan
    elif name == "backward":
        model.append(_Root())
        with torch.no_grad():
            model[2].weight[0] = 0.0
            model[2].bias[0] = 0.0
    elif name.startswith("old"):
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        if name != "old finite":
            model[2].bias.grad[1] = math.inf if name == "old inf" else math.nan
        if name == "old nan":
            y[0, 0] = 40_000.0
    return model, x, y, scale


def _play_why(answer: Callable[..., Any]) -> Callable[..., Any]:
    def play(name: str) -> Any:
        result = answer(*_scene(name))
        return " ".join(result.lower().split()) if type(result) is str else result

    return play


def _why_model(*mistakes: str) -> Callable[..., str]:
    """Look for the causes in the order in which they happen, except for some."""

    good = _not_nan if "nan-only" in mistakes else _finite

    def why_skipped(model: nn.Module, x: Tensor, target: Tensor, scale: float) -> str:
        weights = list(model.parameters())
        old = [w.grad for w in weights if w.grad is not None]
        if "old" not in mistakes and not all(map(good, old)):
            return "old gradient"
        if "input" not in mistakes and not (good(x) and good(target)):
            return "input"
        loss = (_fp32_loss if "float32" in mistakes else _fp16_loss)(model, x, target)
        if "forward" not in mistakes and not good(loss):
            return "forward"
        if "loss-only" in mistakes:
            return "no skip"

        def overflows(factor: float) -> bool:
            gradients = list(torch.autograd.grad(loss * factor, weights, retain_graph=True))
            left = old if "accumulated" in mistakes else []
            return not all(map(good, gradients + left))

        if "unscaled" in mistakes:
            return "backward" if overflows(1.0) else "no skip"
        if not overflows(scale):
            return "no skip"
        return "backward" if "backward" not in mistakes and overflows(1.0) else "scale"

    return why_skipped


why_skipped = function_exercise(
    "why_skipped",
    cases=lambda: [Case((name,), label) for name, label in _SCENES.items()],
    reference=_why_model(),
    play=_play_why,
    misconceptions={
        "always-the-scale": Misconception(
            "For you every bad gradient comes from the scale. Then a lower scale would always "
            "help, and a sinking scale is the sign that it does not. Look at what came before the "
            "backward pass: old gradients, the batch, the loss.",
            _why_model("old", "accumulated", "input", "forward", "backward"),
            _why_model("old", "input", "forward", "backward"),
        ),
        "loss-only": Misconception(
            "You look at the loss and not at the gradients. In the most common skip the loss is "
            "finite, and as a float32 so is loss * scale; the 16-bit gradients behind it are not. "
            "Run the backward pass and look at them.",
            _why_model("loss-only"),
        ),
        "forward-in-float32": Misconception(
            "Your forward pass has the range of float32, where these numbers do not overflow: it "
            "ran in float32, or in BF16, which torch.autocast('cpu') means without a dtype. Run it "
            "as the training step did: under torch.autocast('cpu', dtype=torch.float16).",
            _why_model("float32"),
        ),
        "old-gradient-overlooked": Misconception(
            "An inf or NaN that was in .grad before the step stays there whatever the batch gives. "
            "Look at all the old gradients first.",
            _why_model("old"),
            _why_model("old", "accumulated"),
            _why_model("old", "accumulated", "backward"),
        ),
        "input-overlooked": Misconception(
            "A batch that already holds an inf or a NaN makes the loss NaN in any precision. That "
            "is a fault of the data, and not an overflow of the forward pass.",
            _why_model("input"),
        ),
        "forward-overlooked": Misconception(
            "You blame the backward pass for a loss that was infinite before it began.",
            _why_model("forward"),
        ),
        "backward-overlooked": Misconception(
            "Not every bad gradient of a finite loss comes from the scale: the gradient of a "
            "square root at 0 is infinite at any scale. Try the backward pass with a "
            "scale of 1, too.",
            _why_model("backward"),
        ),
        "nan-only": Misconception(
            "You look for NaN only. An overflow is an inf first, and becomes NaN later on, if at "
            "all. Ask torch.isfinite.",
            _why_model("nan-only"),
        ),
        "unscaled-backward": Misconception(
            "You ran the backward pass without the scale, so you never see the overflow that the "
            "scale itself causes.",
            _why_model("unscaled"),
        ),
    },
    hints=(
        "Go through the step in the order in which it happens, and stop at the first thing that is "
        "not finite: what was in .grad, the batch, the loss, the gradients.",
        "Only the last is a matter of the scale, and only if a scale of 1 gives finite gradients.",
        "torch.autograd.grad(loss * scale, parameters, retain_graph=True) gives gradients without "
        "touching .grad.",
    ),
    lesson_learned="Of five causes the scaler can mend one. When the scale sinks and sinks, it is "
    "one of the other four.",
    asked_for="one of: " + ", ".join(CAUSES),
)

# ---- schedule_step ----------------------------------------------------------------------------


def _schedule_cases() -> list[Case]:
    def case(pattern: str, interval: int, init_scale: float, label: str, seed: int) -> Case:
        return Case((pattern, interval, init_scale, seed), f"{label} ({pattern})")

    # Each begins with another scale than the one before ends with: one may not be kept.
    return [
        case("....", 100, 2.0**10, "nothing overflows", 1),
        case("oo...", 100, 2.0**10, "the first two steps are skipped", 2),
        case("..o.l..", 100, 2.0**7, "two skips on the way", 3),
        case("...o.....", 2, 2.0**10, "the scale grows every two steps", 4),
        case(".n..n.", 100, 2.0**8, "two targets are NaN", 5),
    ]


def _play_schedule(answer: Callable[..., Any]) -> Callable[..., Any]:
    def play(pattern: str, interval: int, init_scale: float, seed: int) -> dict[str, Any]:
        model = _network(seed)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with warnings.catch_warnings():  # a scheduler that runs ahead warns; the rates tell too
            warnings.simplefilter("ignore")
            scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
            scaler = _TorchScaler(init_scale=init_scale, growth_interval=interval)
            rates, answers, path = [], [], []
            for x, y in _batches(pattern, seed):
                optimizer.zero_grad()
                scaler.scale(_fp16_loss(model, x, y)).backward()
                answers.append(answer(scaler, optimizer, scheduler))
                rates.append(optimizer.param_groups[0]["lr"])
                path.append(sum(_numbers(list(model.parameters()))))
        return {
            "learning rate after each step": rates,
            "scheduler steps": scheduler.last_epoch,
            "returned": answers,
            "scale at the end": scaler.get_scale(),
            "sum of the parameters after each step": path,
        }

    return play


def _schedule_model(
    was_real: Callable[[float, float], bool], *, first: bool = False, update: bool = True
) -> Callable[..., bool]:
    def schedule_step(scaler, optimizer, scheduler) -> bool:
        before = scaler.get_scale()
        if first:
            scheduler.step()
        scaler.step(optimizer)
        if update:
            scaler.update()
        if was_real(before, scaler.get_scale()) and not first:
            scheduler.step()
        return scaler.get_scale() >= before

    return schedule_step


def _schedule_blindly(scaler, optimizer, scheduler) -> bool:
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    return True


def _schedule_by_change(scaler, optimizer, scheduler) -> bool:
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() == before:
        scheduler.step()
    return scaler.get_scale() == before


def _schedule_by_result(scaler, optimizer, scheduler) -> bool:
    real = scaler.step(optimizer) is not None
    scaler.update()
    if real:
        scheduler.step()
    return real


def _schedule_by_count(scaler, optimizer, scheduler) -> bool:
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    skipped = scaler.get_scale() < before
    if skipped:
        scheduler.step()
    return skipped


def _schedule_answering(answer: Callable[[bool], Any]) -> Callable[..., Any]:
    """The right step and schedule, with another answer."""
    right = _schedule_model(lambda before, after: after >= before)
    return lambda *parts: answer(right(*parts))


def _schedule_past_the_scaler(scaler, optimizer, scheduler) -> bool:
    before = scaler.get_scale()
    scaler.unscale_(optimizer)
    optimizer.step()
    scaler.update()
    stepped = scaler.get_scale() >= before
    if stepped:
        scheduler.step()
    return stepped


schedule_step = function_exercise(
    "schedule_step",
    cases=_schedule_cases,
    reference=_schedule_model(lambda before, after: after >= before),
    play=_play_schedule,
    same=_CLOSE,
    misconceptions={
        "scheduler-runs-ahead": Misconception(
            "Your scheduler steps in every iteration, also where the optimizer did not. With ten "
            "skips it is ten steps ahead of the training. If you do ask whether there was a skip: "
            "read the scale before the step and again after update, which alone changes it.",
            _schedule_model(lambda before, after: True),
            _schedule_blindly,
        ),
        "growth-taken-for-skip": Misconception(
            "You take every change of the scale for a skip. After clean steps it grows, and then "
            "the scheduler must step. A skip is a scale that fell.",
            _schedule_by_change,
            _schedule_model(lambda before, after: after == before),
        ),
        "return-value-asked": Misconception(
            "Your scheduler never steps: you take every step for a skipped one. If you asked what "
            "scaler.step returns: that is what optimizer.step returns, and without a closure it is "
            "None after a real step too. Ask the scale.",
            _schedule_by_result,
        ),
        "inverted": Misconception(
            "Your scheduler steps after the skips, and stands still after the real steps.",
            _schedule_by_count,
            _schedule_model(lambda before, after: after < before),
        ),
        "scheduler-first": Misconception(
            "Your scheduler steps before the optimizer does, so the first step already uses the "
            "second learning rate. And it cannot know yet whether there will be a step.",
            _schedule_model(lambda before, after: True, first=True),
        ),
        "answer-inverted": Misconception(
            "The scheduler does what it should, but you return True after a skip and False after "
            "a real step. Asked for is the other way round.",
            _schedule_answering(lambda stepped: not stepped),
        ),
        "answer-missing": Misconception(
            "The scheduler does what it should, but your function returns None. Asked for is True "
            "after a real step, False after a skip.",
            _schedule_answering(lambda stepped: None),
        ),
        "optimizer-stepped-directly": Misconception(
            "You called optimizer.step yourself. It steps whatever the gradients are, so an "
            "overflow goes into the weights. scaler.step(optimizer) holds the `if`.",
            _schedule_past_the_scaler,
        ),
        "update-forgotten": Misconception(
            "No update comes after the step: there is none, or it stands before it. So the scaler "
            "refuses the second step: 'step() has already been called since the last update()'.",
            _schedule_model(lambda before, after: after >= before, update=False),
        ),
    },
    hints=(
        "Read scaler.get_scale() before the step and after the update.",
        "Only one of three outcomes is a skip: the scale is lower, the same, or higher.",
        "The scheduler comes last, after update, under an `if`.",
    ),
    lesson_learned="A schedule counts optimizer steps, and with a scaler an iteration is not "
    "always one.",
    asked_for="True or False",
)
