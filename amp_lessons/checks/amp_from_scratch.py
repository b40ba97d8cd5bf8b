"""Lesson 03's exercises: the three ingredients of mixed precision training, each built by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from amp_lessons.checks.cases import Case, Misconception, Rule, function_exercise
from amp_lessons.checks.compare import within_ulps
from amp_lessons.checks.evidence import plain

half, bfloat, single = torch.float16, torch.bfloat16, torch.float32
_isfinite = torch.Tensor.isfinite  # bound once, before any learner's code runs

# ---- MasterSGD --------------------------------------------------------------------------------

RECORDS = 5  # how often the weights are looked at in one case


def _sgd_cases() -> list[Case]:
    random = torch.Generator().manual_seed(31)

    def case(
        start: list[Any], gradients: list[Any], steps: int, lr: float, momentum: float,
        dtype: torch.dtype, label: str,
    ) -> Case:  # fmt: skip
        first = [torch.as_tensor(t).to(dtype) for t in start]
        # One row for each step of a pattern that repeats: a gradient for each parameter.
        rows = [[None if g is None else torch.as_tensor(g).to(dtype) for g in r] for r in gradients]
        return Case((first, rows, steps, lr, momentum), f"{label}, {steps} steps")

    noise = [[2.0 + 0.1 * torch.randn(3, 2, generator=random)] for _ in range(4)]
    return [
        case([[0.5, -2.0]], [[[1.0, -0.25]], [[0.5, 0.25]]], 4, 0.25, 0.0, half, "large updates"),
        case([[1.0, -1.5, 3.0]], [[[1.0, -1.0, 2.0]]], 400, 1e-4, 0.0, half, "updates of 0.0001"),
        case([[1.0, -1.5]], [[[1.0, -3.0]]], 300, 1e-3, 0.0, bfloat, "updates of 0.001, bfloat16"),
        case([[1e-4, -3e-4]], [[[1e-4, -3e-4]]], 400, 1e-4, 0.0, half, "gradients of 0.0001"),
        case([[0.5, -2.0]], [[[1.0, -0.25]], [[0.5, 0.25]]], 5, 0.25, 0.5, half, "momentum 0.5"),
        case([[1.0, -2.0]], [[[1e-3, -3e-3]]], 400, 1e-2, 0.99, half, "momentum 0.99"),
        case([torch.randn(3, 2, generator=random)], noise, 200, 3e-5, 0.5, half, "3 x 2 weights"),
        case([[1.0], [[2.0, 4.0]]], [[[1.0], None]], 200, 1e-4, 0.5, half,
             "two parameters, the second without a gradient"),
        case([[1.0, 2.0], [-1.0, 3.0], [0.5, 1.5]],
             [[None, [0.5, 1.0], [2.0, -1.0]], [[1.0, -1.0], [1.0, 0.5], None]],
             200, 1e-3, 0.5, half, "three parameters, whose gradients come and go"),
        case([[3e5, -2e5]], [[[1e5, -3e5]]], 100, 1e-3, 0.0, bfloat,
             "weights of 300000, bfloat16"),
    ]  # fmt: skip


def _drive_sgd(
    optimizer_class: Callable[..., Any],
    start: list[Tensor],
    gradients: list[list[Tensor | None]],
    steps: int,
    lr: float,
    momentum: float,
) -> Any:
    """Give an optimizer its parameters and one gradient after another.

    Returns:
        The parameters as they are after every fifth part of the steps: shape (5, elements).
    """
    parameters = [nn.Parameter(t.clone()) for t in start]
    # The optimizer gets a list of its own: putting other tensors into it trains no model.
    optimizer = optimizer_class(list(parameters), lr, momentum)
    if not callable(getattr(optimizer, "step", None)):
        return optimizer
    seen = []
    for i in range(steps):
        for parameter, gradient in zip(parameters, gradients[i % len(gradients)], strict=True):
            # A copy, as a backward pass gives one: the optimizer may zero it or work in it.
            given = None if gradient is None else gradient.to(parameter.dtype, copy=True)
            parameter.grad = given
        optimizer.step()
        if (i + 1) * RECORDS % steps < RECORDS:
            seen.append(torch.cat([p.detach().flatten() for p in parameters]))
    return torch.stack(seen)


@dataclass(frozen=True)
class _SGD:
    """SGD with masters, right or with one thing wrong: the reference and the misconceptions.

    Called like the learner's class, it gives an optimizer.
    """

    masters: bool = True
    masters_dtype: torch.dtype = single
    product: torch.dtype = single
    buffer: torch.dtype = single
    stepwise: bool = False
    write: bool = True
    dtype_kept: bool = True
    damped: bool = False
    sign: float = 1.0
    use_momentum: bool = True
    own_momentum: bool = True
    by_way_of: torch.dtype | None = None
    on_none: str = "leave"

    def __call__(self, parameters: list[Tensor], lr: float, momentum: float = 0.0) -> _Running:
        return _Running(self, parameters, lr, momentum if self.use_momentum else 0.0)


@dataclass
class _Running:
    how: _SGD
    parameters: list[Tensor]
    lr: float
    momentum: float
    masters: dict[int, Tensor] = field(default_factory=dict)
    buffers: dict[int, Tensor] = field(default_factory=dict)
    last: dict[int, Tensor] = field(default_factory=dict)

    def step(self) -> None:
        for i, parameter in enumerate(self.parameters):
            gradient = parameter.grad
            if gradient is None and self.how.on_none == "stop":
                break
            if gradient is None and self.how.on_none == "zero":
                gradient = torch.zeros_like(parameter)
            if gradient is None and self.how.on_none == "last":
                gradient = self.last.get(i)
            if gradient is not None:
                self.last[i] = gradient
                self._update(i, parameter, gradient)

    @torch.no_grad()
    def _update(self, i: int, parameter: Tensor, gradient: Tensor) -> None:
        how = self.how
        wide = parameter.detach().to(how.masters_dtype, copy=True)
        master = self.masters.setdefault(i, wide) if how.masters else wide
        kept = gradient.dtype if how.buffer is not single else single
        whose = i if how.own_momentum else 0
        before = self.buffers.get(whose, torch.zeros_like(gradient, dtype=kept))
        share = (1 - self.momentum) if how.damped and self.momentum else 1.0
        slowed = self.momentum * (before if how.stepwise else before.float())
        velocity = (slowed + share * gradient.to(slowed.dtype)).to(kept)
        self.buffers[whose] = velocity
        if how.product is single:
            update = self.lr * velocity.float()
        else:
            update = self.lr * velocity.to(gradient.dtype)
        master -= how.sign * update
        if not how.dtype_kept:
            parameter.data = master.to(how.by_way_of or single, copy=True)
        elif how.write:
            parameter.copy_(master.to(how.by_way_of or single))


def _sixteen_bit_sgd(parameters: list[Tensor], lr: float, momentum: float = 0.0) -> _Running:
    """Every number in the parameters' own dtype, as the plainest SGD would have it."""
    dtype = parameters[0].dtype
    how = _SGD(masters_dtype=dtype, product=half, buffer=half, stepwise=True)
    return how(parameters, lr, momentum)


MasterSGD = function_exercise(
    "MasterSGD",
    cases=_sgd_cases,
    reference=_SGD(),
    play=lambda answer: partial(_drive_sgd, answer),
    misconceptions={
        "no-masters": Misconception(
            "Between two steps your weights exist in 16 bits only, so an update that is too small "
            "beside its weight is lost, each time anew. It does not help to compute a step in "
            "FP32 if its result is rounded and the FP32 copy is made from it again: make the "
            "masters once, from the parameters, and keep them.",
            _SGD(masters=False),
            _sixteen_bit_sgd,
            _SGD(masters=False, product=half),
            _SGD(masters=False, buffer=half),
            _SGD(masters=False, buffer=half, stepwise=True),
            _SGD(masters=False, product=half, buffer=half, stepwise=True),
        ),
        "not-written-back": Misconception(
            "Your masters may be right, but the parameters that the model computes with never "
            "change. After each update copy the master into its parameter, in place: "
            "parameter.copy_(master), under torch.no_grad().",
            _SGD(write=False),
        ),
        "parameters-became-wide": Misconception(
            "You put the FP32 master in the parameter's place, so the model computes in FP32 from "
            "now on. The parameter keeps its dtype: copy_ rounds the master into it.",
            _SGD(dtype_kept=False),
        ),
        "update-in-16-bit": Misconception(
            "Your masters are FP32, but the product of learning rate and gradient is worked out in "
            "16 bits and becomes zero there when both are small. Convert the gradient first, then "
            "multiply.",
            _SGD(product=half),
            _SGD(product=half, buffer=half),
            _SGD(product=half, buffer=half, stepwise=True),
        ),
        "momentum-in-16-bit": Misconception(
            "You keep the momentum in 16 bits. It is a sum over many steps as the master is, and "
            "it stands still in the same way: a small gradient beside a large momentum is lost.",
            _SGD(buffer=half),
            _SGD(buffer=half, stepwise=True),
        ),
        "momentum-damped": Misconception(
            "You multiplied the gradient by 1 - momentum: that is an average. torch.optim.SGD adds "
            "the whole gradient: velocity = momentum * velocity + gradient.",
            _SGD(damped=True),
        ),
        "momentum-ignored": Misconception(
            "Without momentum you are right; with it your weights move as if there were none: "
            "velocity = momentum * velocity + gradient, and lr * velocity is the update.",
            _SGD(use_momentum=False),
        ),
        "momentum-shared": Misconception(
            "All parameters share one momentum in your class. Each has its own, as it has its own "
            "master.",
            _SGD(own_momentum=False),
        ),
        "moves-without-gradient": Misconception(
            "A parameter whose .grad is None moves on, by its momentum or by the last gradient "
            "that it had. torch.optim.SGD passes it over: neither the weight nor the momentum "
            "changes in that step.",
            _SGD(on_none="zero"),
            _SGD(on_none="last"),
        ),
        "stops-at-none": Misconception(
            "At the first parameter without a gradient your step ends, and those that come after "
            "it in the list are not updated. Pass over that one only: `continue`, not `break`.",
            _SGD(on_none="stop"),
        ),
        "float16-for-all": Misconception(
            "float16 stands in your class, and the parameters may be bfloat16. Round to the "
            "parameter's own dtype; copy_ does so by itself.",
            _SGD(by_way_of=half),
            _SGD(by_way_of=half, dtype_kept=False),
        ),
        "uphill": Misconception(
            "Your weights move the wrong way: the update is subtracted.", _SGD(sign=-1.0)
        ),
    },
    hints=(
        "Two kinds of number must outlive a step: the masters and the momentum. Make both in "
        "__init__, in float32.",
        "In step: convert the gradient to float32 before anything else; update momentum and "
        "master in float32; then let the parameter have what the master rounds to.",
        "parameter.detach().float() gives a master, with torch.no_grad(): parameter.copy_(master) "
        "gives it back. A parameter without a gradient is left alone.",
    ),
    lesson_learned="What has to remember small things must be wide: the master weights and the "
    "momentum. What only passes through may be narrow.",
    same=within_ulps(1),
    asked_for="an object with a method step()",
)

# ---- StaticScaler -----------------------------------------------------------------------------


_BAD_SCALES = (1000.0, 0.0, -8.0, math.inf, math.nan)


def _scaler_cases() -> list[Case]:
    random = torch.Generator().manual_seed(32)

    def batch(w: list[float], v: list[list[float]]) -> tuple[Tensor, Tensor]:
        return torch.tensor(w).half(), torch.tensor(v).half()

    calm = [
        (torch.randn(3, generator=random).half(), torch.randn(2, 2, generator=random).half())
        for _ in range(6)
    ]
    # 100 * 2**10 overflows in FP16, so the gradient is inf although the loss is finite.
    first_too_large = batch([100.0, 1.0, 2.0], [[1.0, 2.0], [3.0, -4.0]])
    second_too_large = batch([1.0, -3.0, 2.0], [[1.0, -100.0], [3.0, 4.0]])
    a_nan = batch([1.0, -3.0, 2.0], [[1.0, 2.0], [math.nan, 4.0]])
    mixed = [*calm[:2], first_too_large, calm[2], second_too_large, *calm[3:5], a_nan, calm[5]]
    scale = 2.0**10
    return [
        Case((scale, "SGD", calm), "2.0**10, six clean steps"),
        Case((scale, "SGD", [*calm[:2], first_too_large, calm[3]]), "2.0**10, one step with inf"),
        Case((scale, "SGD", [calm[2], second_too_large, calm[0]]), "2.0**10, inf in one parameter"),
        Case((scale, "SGD", [calm[4], a_nan, calm[1]]), "2.0**10, one step with NaN"),
        Case((scale, "Adam", mixed), "2.0**10, Adam, nine steps"),
        Case((2.0**6, "Adam", [calm[1], first_too_large, calm[3]]), "2.0**6, Adam, no overflow"),
        Case((2.0**-2, "SGD", calm[:3]), "2.0**-2, three clean steps"),
        Case((scale, "two groups", mixed[1:5]), "2.0**10, two parameter groups, one step with inf"),
        Case((1024, "SGD", calm[:2]), "1024, an int"),
        Case((scale, "idle", mixed[1:4]), "2.0**10, a parameter without a gradient"),
        *(Case((bad, "SGD", calm[:1]), f"{bad}") for bad in _BAD_SCALES),
    ]  # fmt: skip


def _drive_scaler(
    scaler_class: Callable[..., Any], scale: float, kind: str, batches: list[tuple[Tensor, Tensor]]
) -> Any:
    """Train two small parameters through a scaler, with products and gradients in FP16.

    Returns:
        A row for each step: 1 if the scaler says that it was taken, 0 if not, NaN if it says
        neither; then the parameters, and the loss as its caller has it after the step. Float32,
        shape (steps, 9).
    """
    w = nn.Parameter(torch.tensor([0.5, -0.25, 1.0]))
    v = nn.Parameter(torch.tensor([[0.125, -0.5], [0.75, 0.25]]))
    if kind == "Adam":
        optimizer: torch.optim.Optimizer = torch.optim.Adam([w, v], lr=0.1)
    elif kind == "two groups":
        groups = [{"params": [w]}, {"params": [v], "lr": 0.02}]
        optimizer = torch.optim.SGD(groups, lr=0.01)
    elif kind == "idle":  # one that the loss does not depend on
        optimizer = torch.optim.SGD([nn.Parameter(torch.ones(2)), w, v], lr=0.01)
    else:
        optimizer = torch.optim.SGD([w, v], lr=0.01, momentum=0.9)
    scaler = scaler_class(scale)
    if not all(callable(getattr(scaler, method, None)) for method in ("scale", "step")):
        return scaler
    rows = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = (w.half() * x).float().sum() + (v.half() * y).float().sum()
        scaler.scale(loss).backward()
        taken = _said(scaler.step(optimizer))
        parts = (torch.tensor([taken]), w, v.flatten(), loss.reshape(1))
        rows.append(torch.cat([part.detach() for part in parts]))
    return torch.stack(rows)


def _said(answer: Any) -> float:
    """1 for True, 0 for False, also as a tensor or in NumPy's type; NaN for anything else."""
    answer = plain(answer)
    if isinstance(answer, dict) and answer.get("shape") == []:
        answer = answer["values"]
    return float(answer) if type(answer) is bool else math.nan


def _power_of_two(scale: float) -> bool:
    return 0 < scale < math.inf and math.frexp(scale)[0] == 0.5  # NaN fails the first comparison


@dataclass(frozen=True)
class _Scaler:
    """A static scaler, right or with one thing wrong. Called, it takes the scale."""

    factor: float = 1.0
    unscales: bool = True
    spots: Callable[[Tensor], bool] = lambda gradient: not bool(_isfinite(gradient).all())
    looks_at_loss: bool = False
    on_overflow: str = "skip"
    accepts: Callable[[float], bool] = _power_of_two
    says: bool = True
    says_skipped: bool = False
    scales: bool = True
    in_place: bool = False
    all_groups: bool = True
    lost: bool = False

    def __call__(self, scale: float) -> _Scaler:
        if not self.accepts(scale):
            raise ValueError(f"the scale must be a power of two, got {scale}")
        return replace(self, factor=float(scale))

    def scale(self, loss: Tensor) -> Tensor:
        scaled = loss * self.factor if self.scales else loss
        if self.in_place:
            scaled = loss.mul_(self.factor)
        object.__setattr__(self, "lost", not bool(_isfinite(scaled)))
        return scaled

    def step(self, optimizer: torch.optim.Optimizer) -> bool | None:
        groups = optimizer.param_groups if self.all_groups else optimizer.param_groups[:1]
        parameters = [p for group in groups for p in group["params"] if p.grad is not None]
        gradients = [p.grad for p in parameters]
        for gradient in gradients if self.unscales else ():
            gradient /= self.factor
        bad = [self.spots(g) for g in gradients]
        overflow = self.lost if self.looks_at_loss else any(bad)
        if overflow and self.on_overflow == "zeros":
            for gradient in gradients:
                gradient.zero_()
        elif overflow and self.on_overflow == "replace":
            for gradient in gradients:
                gradient.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        elif overflow and self.on_overflow == "parameter":
            for parameter, is_bad in zip(parameters, bad, strict=True):
                parameter.grad = None if is_bad else parameter.grad
        taken = not (overflow and self.on_overflow == "skip")
        if taken:
            optimizer.step()
        if not self.says:
            return None
        return (taken and not overflow) != self.says_skipped


StaticScaler = function_exercise(
    "StaticScaler",
    cases=_scaler_cases,
    reference=_Scaler(),
    play=lambda answer: partial(_drive_scaler, answer),
    misconceptions={
        "not-unscaled": Misconception(
            "You step with the scaled gradients, so SGD goes as many times too far as the scale is "
            "large. Divide each gradient by the scale before the optimizer sees it.",
            _Scaler(unscales=False),
        ),
        "scale-forgotten": Misconception(
            "scale(loss) gives the loss as it was. Then nothing is rescued on the way back, and "
            "dividing afterwards makes every gradient too small.",
            _Scaler(scales=False),
            _Scaler(scales=False, unscales=False),
        ),
        "never-skips": Misconception(
            "You step although a gradient is inf or NaN. The optimizer writes it into the weights "
            "and into its own state, and no later step brings them back. Look at all gradients "
            "first; if one is not finite, leave everything as it is.",
            _Scaler(spots=lambda gradient: False),
        ),
        "nan-slips-through": Misconception(
            "You look for inf only, and a NaN slips through. It comes from inf - inf or 0 * inf "
            "on the way back, and no comparison but != with it is true: torch.isfinite finds both.",
            _Scaler(spots=lambda gradient: bool(gradient.isinf().any())),
        ),
        "inf-slips-through": Misconception(
            "You look for NaN only, and an inf slips through. What overflows first becomes inf; "
            "NaN comes later. torch.isfinite finds both.",
            _Scaler(spots=lambda gradient: bool(gradient.isnan().any())),
        ),
        "loss-instead-of-gradients": Misconception(
            "You ask whether the loss is finite. It is FP32 and usually is, while a gradient on "
            "the way back overflows in FP16. Look at the gradients.",
            _Scaler(looks_at_loss=True),
        ),
        "skips-one-parameter": Misconception(
            "You leave out only the parameter whose gradient overflowed and update the others. A "
            "step is taken as a whole or not at all: half of a step is a step in a direction that "
            "nobody asked for.",
            _Scaler(on_overflow="parameter"),
        ),
        "zeros-instead-of-inf": Misconception(
            "You replace inf and NaN by 0 and step with the rest. The largest gradients are then "
            "treated as if they were none, and momentum moves the weights on. Skip the step.",
            _Scaler(on_overflow="replace"),
        ),
        "step-with-zeros": Misconception(
            "You set all gradients to zero and step. That is not a skipped step: momentum and Adam "
            "still move the weights, and their state counts a step. Do not call optimizer.step().",
            _Scaler(on_overflow="zeros"),
        ),
        "any-scale": Misconception(
            "You accept a scale that is no power of two. Then each gradient is rounded once more "
            "on the way there and back. Raise a ValueError for anything but a positive finite "
            "power of two.",
            _Scaler(accepts=lambda scale: True),
            _Scaler(accepts=lambda scale: 0 < scale < math.inf),
            _Scaler(accepts=lambda scale: scale > 0),
            _Scaler(accepts=lambda scale: not scale <= 0),
            _Scaler(accepts=lambda scale: not (scale <= 0 or math.isinf(scale))),
        ),
        "first-group-only": Misconception(
            "You look at the first of the optimizer's parameter groups and at no other. Their "
            "gradients stay scaled, and an inf among them is not seen: go through all of "
            "optimizer.param_groups.",
            _Scaler(all_groups=False),
        ),
        "loss-changed": Misconception(
            "scale(loss) multiplies the caller's loss in place, so what is printed afterwards is "
            "as many times too large as the scale. Return a new tensor and leave the loss alone.",
            _Scaler(in_place=True),
        ),
        "says-the-opposite": Misconception(
            "Your weights are right, and step says it the wrong way round: True where it skipped. "
            "True means that the step was taken.",
            _Scaler(says_skipped=True),
        ),
        "says-nothing": Misconception(
            "Your weights are right, but step does not say with True or False whether it was "
            "taken. A scheduler that counts steps has to know.",
            _Scaler(says=False),
        ),
    },
    hints=(
        "optimizer.param_groups is a list of dicts; the parameters stand in each under 'params'.",
        "In step, in this order: divide every gradient by the scale, in place; ask whether all of "
        "them are finite; only then call optimizer.step(), or leave it. Return which it was.",
        "math.frexp(x)[0] is 0.5 for a power of two and for nothing else.",
    ),
    lesson_learned="Scale, unscale, skip: with a scale that changes by itself this is GradScaler.",
    asked_for="an object with the methods scale(loss) and step(optimizer)",
)

# ---- choose_scale -----------------------------------------------------------------------------


def _scale_cases() -> list[Case]:
    random = torch.Generator().manual_seed(33)

    def named(*tensors: Any) -> dict[str, Tensor]:
        return {f"layer{i}": torch.as_tensor(t) for i, t in enumerate(tensors)}

    spread = 2.0 ** (torch.randn(40, generator=random) * 4 - 20)
    signs = torch.sign(torch.randn(40, generator=random))
    biased = [torch.randn(4, 3, generator=random) * 1e-3, torch.randn(3, generator=random) * 0.3]
    return [
        Case((named([1e-3, -2e-5], [3e-7]), 0), "largest 0.001, no headroom"),
        Case((named([1e-3, -2e-5], [3e-7]), 3), "largest 0.001, 3 bits of headroom"),
        Case((named([2e-6, -5e-4], [3e-6]), 2), "largest -0.0005, 2 bits of headroom"),
        Case((named([0.0, 1e-6], [4e-3, -1e-8, 0.0]), 4), "with zeros, 4 bits of headroom"),
        Case((named(spread * signs, [1e-9]), 5), "41 random gradients, 5 bits of headroom"),
        Case((named(*biased), 2), "two layers, 2 bits of headroom"),
        Case((named([2.0**-10, 3e-6]), 0), "largest exactly 2**-10, no headroom"),
        Case((named([2.0**-3 - 2.0**-26, 1e-4]), 0), "largest just below 2**-3, no headroom"),
        Case((named([2.0**-3 - 2.0**-26, 1e-4]), 6), "largest just below 2**-3, 6 bits"),
        Case((named([3e4, -1.0]), 2), "largest 30000, 2 bits of headroom"),
        Case((named([5e5, -2.0], [7e4]), 3), "largest 500000, 3 bits of headroom"),
        Case((named([1e-3] * 40, [-9e-4] * 30), 1), "70 of about 0.001, 1 bit of headroom"),
        Case((named([65512 * 2.0**-20, 1e-5]), 0), "largest 65512 * 2**-20, no headroom"),
    ]


def _chooser(
    *,
    largest: Callable[[Tensor], float] = lambda g: float(g.abs().max()),
    headroom: Callable[[int], float] = lambda bits: 2.0**bits,
    exact: bool = False,
    at_least: float = 0.0,
    limit: float = math.nextafter(65520.0, 0.0),
    bump: int = 0,
    whole: Callable[[float], int] = math.floor,
    per_tensor: Callable[[list[float]], float] = max,
) -> Callable[[dict[str, Tensor], int], float]:
    """A chooser, right or with one thing wrong."""

    def choose(gradients: dict[str, Tensor], bits: int) -> float:
        top = per_tensor([largest(g.double().flatten()) for g in gradients.values()])
        scale = limit / (top * headroom(bits))
        power = 2.0 ** (whole(math.log2(scale)) + bump)
        return max(at_least, scale if exact else power)

    return choose


def _histogram_chooser(gradients: dict[str, Tensor], bits: int) -> float:
    """From the top bin's exponent alone, as if its upper end still fitted."""
    top = max(float(g.double().abs().max()) for g in gradients.values())
    return 2.0 ** (15 - bits - math.floor(math.log2(top)))


def _smallest_not_zero(g: Tensor) -> float:
    return float(g[g != 0].abs().min())


choose_scale = function_exercise(
    "choose_scale",
    cases=_scale_cases,
    reference=_chooser(),
    misconceptions={
        "headroom-ignored": Misconception(
            "Your scale puts the largest gradient at the top of FP16 and leaves nothing above it. "
            "The first batch with a larger one overflows.",
            _chooser(headroom=lambda bits: 1.0),
        ),
        "headroom-as-factor": Misconception(
            "You divided by the headroom itself. It is in bits: 3 bits of headroom let the "
            "gradients grow by 2**3, so the scale is 8 times smaller, not 3 times.",
            _chooser(headroom=lambda bits: max(1.0, float(bits))),
            _chooser(headroom=lambda bits: 1.0 + bits),
        ),
        "headroom-upwards": Misconception(
            "You added the headroom to the scale. Room above means a smaller scale.",
            _chooser(headroom=lambda bits: 2.0**-bits),
        ),
        "from-the-smallest": Misconception(
            "You chose the scale that just saves the smallest gradient. That is the lower end of "
            "the window; with headroom it is its upper end that counts, set by the largest.",
            lambda gradients, bits: (
                2.0
                ** math.ceil(
                    math.log2(
                        2.0**-24
                        / min(_smallest_not_zero(g.double().flatten()) for g in gradients.values())
                    )
                )
            ),
        ),
        "sign-forgotten": Misconception(
            "You took the maximum without the absolute value. A large negative gradient overflows "
            "as well.",
            _chooser(largest=lambda g: float(g.max())),
        ),
        "one-tensor-only": Misconception(
            "One scale serves all layers, so the largest gradient of all of them decides. You "
            "looked at one layer, or at an average of them.",
            _chooser(per_tensor=lambda tops: tops[0]),
            _chooser(per_tensor=lambda tops: tops[-1]),
            _chooser(per_tensor=lambda tops: sum(tops) / len(tops)),
            _chooser(per_tensor=min),
        ),
        "typical-gradient": Misconception(
            "You used a typical gradient, such as the mean. An overflow needs one gradient only, "
            "the largest.",
            _chooser(largest=lambda g: float(g.abs().mean())),
            _chooser(largest=lambda g: float(g.abs().median())),
            _chooser(largest=lambda g: float(g.abs().quantile(0.99))),
        ),
        "not-a-power-of-two": Misconception(
            "Your scale is no power of two, so scaling and unscaling round. Take the power of two "
            "below.",
            _chooser(exact=True),
            _chooser(exact=True, limit=65504.0),
            _chooser(exact=True, limit=65520.0),
        ),
        "rounded-up": Misconception(
            "You rounded up to a power of two, and with it the largest gradient overflows. Round "
            "down.",
            _chooser(bump=1),
        ),
        "truncated-exponent": Misconception(
            "Scales above 1 are right, and those below 1 are too large: int() cuts towards zero, "
            "so it rounds a negative exponent up. math.floor rounds down on both sides.",
            _chooser(whole=int),
            _chooser(whole=int, limit=65504.0),
            _chooser(whole=int, limit=65520.0),
        ),
        "one-bit-wasted": Misconception(
            "Your scale is half of what it could be. FP16 reaches to 65504, nearly 2**16; you "
            "stopped at 2**15, or took the upper end of the histogram's top bin for a gradient.",
            _chooser(limit=2.0**15),
            lambda gradients, bits: _histogram_chooser(gradients, bits) / 2,
        ),
        "top-bin-overflows": Misconception(
            "The exponent alone is not enough. A gradient just below a power of two, such as "
            "0.12499999, is scaled to just below 65536, and FP16 overflows from 65520 on. Test "
            "what you chose.",
            _histogram_chooser,
            _chooser(limit=65536.0),
        ),
        "stops-at-65504": Misconception(
            "You keep to 65504, the largest number that FP16 has. What lies between it and 65520 "
            "is rounded down to it and stays finite, so there a scale twice as large still fits.",
            _chooser(limit=65504.0),
        ),
        "norm-for-maximum": Misconception(
            "You took a norm of the gradients. It grows with their number, and FP16 overflows "
            "in one element at a time: the largest magnitude decides.",
            _chooser(largest=lambda g: float(g.norm())),
            _chooser(
                largest=lambda g: float(g.norm()), per_tensor=lambda norms: math.hypot(*norms)
            ),
        ),
        "exponent-returned": Misconception(
            "You returned the exponent of your scale. The scale itself was asked for: 2.0 to this "
            "power.",
            lambda gradients, bits: math.log2(_chooser()(gradients, bits)),
        ),
        "below-one-refused": Misconception(
            "Your scale never goes below 1. Large gradients need a smaller one: a scale can also "
            "make them fit.",
            _chooser(at_least=1.0),
        ),
    },
    hints=(
        "Only one gradient matters: the one with the largest magnitude in all layers. (In the "
        "histogram it lies in the last bin.)",
        "Start from any power of two and halve it while largest * 2**headroom * scale overflows "
        "in FP16; before that, double it while it does not.",
        "FP16.round(x) is inf if x overflows: that settles the edge between 65504 and 65536 too.",
    ),
    lesson_learned="The smallest gradient sets the lower end of the window, the largest the upper "
    "end, and headroom is what you keep free below the upper one.",
    asked_for="a power of two, as a float",
)

# ---- mixed_loss -------------------------------------------------------------------------------


def _loss_cases() -> list[Case]:
    random = torch.Generator().manual_seed(34)

    def case(rows: int, inputs: int, classes: int, size: float, label: str) -> Case:
        images = torch.randn(rows, inputs, generator=random)
        weight = size * torch.randn(classes, inputs, generator=random) / math.sqrt(inputs)
        bias = torch.randn(classes, generator=random) / 2
        labels = torch.randint(classes, (rows,), generator=random)
        return Case((images, weight, bias, labels), label)

    return [
        case(5, 3, 4, 1.0, "5 images, 4 classes"),
        case(37, 16, 10, 2.0, "37 images, 10 classes"),
        case(64, 24, 3, 0.1, "64 images, 3 classes, small weights"),
        case(2000, 8, 5, 40.0, "2000 images, large losses"),
    ]


def _drive_loss(
    mixed_loss: Callable[..., Any], images: Tensor, weight: Tensor, bias: Tensor, labels: Tensor
) -> Any:
    """Call the function on FP32 parameters, then go backward.

    Returns:
        By name the loss, the gradients of weight and bias, None where there is none, and in words
        what the call left of the parameters.
    """
    given = [weight, bias]
    weight, bias = parameters = [t.clone().requires_grad_() for t in given]
    loss = mixed_loss(images, weight, bias, labels)
    if type(loss) is not Tensor:
        return loss
    early = any(p.grad is not None for p in parameters)
    left = [_left_as(p, was) for p, was in zip(parameters, given, strict=True)]
    if loss.requires_grad and loss.numel() == 1 and not early:
        loss.backward()
    return {
        "weight after the call": left[0],
        "bias after the call": left[1],
        "gradients before backward()": "there already" if early else "none",
        "loss": loss.detach(),
        "gradient of weight": weight.grad,
        "gradient of bias": bias.grad,
    }


def _left_as(parameter: Tensor, was: Tensor) -> str:
    if parameter.dtype != was.dtype:
        return plain(parameter)["dtype"]
    if torch.equal(parameter.detach(), was):
        return "as before"
    rounded = torch.equal(parameter.detach(), was.half().float())
    return "rounded to float16" if rounded else "changed"


def _same_losses(expected: Any, seen: Any) -> bool:
    """Same dtypes and shapes; numbers to within what FP16 products may differ by."""
    if not isinstance(expected, dict) or not isinstance(seen, dict):
        return expected == seen
    if "dict" in expected:
        wanted, got = expected["dict"], seen.get("dict", {})
        return wanted.keys() == got.keys() and all(_same_losses(wanted[k], got[k]) for k in wanted)
    return _close_tensors(expected, seen)


def _close_tensors(expected: dict[str, Any], seen: dict[str, Any]) -> bool:
    if any(expected[key] != seen.get(key) for key in ("dtype", "shape")):
        return False
    one, other = np.array(expected["values"]), np.array(seen["values"])
    return bool(np.abs(one - other).max() <= 0.02 * np.abs(one).max())  # NaN is never close


_PRODUCTS = {f"aten::{name}" for name in ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot")}
_LOSS_STEPS = {
    f"aten::{name}"
    for name in ("_log_softmax", "_softmax", "nll_loss_forward", "logsumexp", "exp", "log", "mean")
}


# A product may also be written as a multiplication and a sum.
_MULTIPLICATIONS = _PRODUCTS | {"aten::mul"}


def _multiplied_in(ops: list[dict[str, Any]]) -> set[str]:
    """The 16-bit formats in which something was multiplied, both sides in the same one."""
    taken = [op["takes"] for op in ops if op["op"] in _MULTIPLICATIONS]
    return {dtypes[0] for dtypes in taken if dtypes in (["float16"], ["bfloat16"])}


def _wide_product(ops: list[dict[str, Any]]) -> bool:
    """Whether nothing was multiplied in 16 bits. (A wide product beside it, as with one-hot
    labels in the loss, is none of our business.)"""
    return bool(ops) and not _multiplied_in(ops)


def _other_product(ops: list[dict[str, Any]]) -> bool:
    return _multiplied_in(ops) == {"bfloat16"}


def _narrow_loss(ops: list[dict[str, Any]]) -> bool:
    return any(op["op"] in _LOSS_STEPS and "float16" in op["takes"] for op in ops)


def _loss(
    cast: Callable[[Tensor], Tensor] = Tensor.half,
    out: torch.dtype = single,
    reduction: str = "mean",
    use_bias: bool = True,
) -> Callable[..., Tensor]:
    """The loss with its casts, right or with one thing wrong."""

    def loss(images: Tensor, weight: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
        logits = images.half() @ cast(weight).t()
        logits = logits + cast(bias) if use_bias else logits
        return cross_entropy(logits.float(), labels, reduction=reduction).to(out)

    return loss


def _masters_cast(images: Tensor, weight: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
    """The parameters themselves are made FP16, as model.half() does it."""
    weight.data, bias.data = weight.data.half(), bias.data.half()
    return _loss()(images, weight, bias, labels)


def _masters_rounded(images: Tensor, weight: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
    weight.data, bias.data = weight.data.half().float(), bias.data.half().float()
    return _loss()(images, weight, bias, labels)


def _backward_too(images: Tensor, weight: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
    loss = _loss()(images, weight, bias, labels)
    loss.backward()
    return loss


mixed_loss = function_exercise(
    "mixed_loss",
    cases=_loss_cases,
    reference=_loss(),
    play=lambda answer: partial(_drive_loss, answer),
    rules={
        "product-in-float32": Rule(
            "Your matrix product runs in FP32, so nothing is gained: it is the one expensive "
            "operation here. Cast both of its inputs to float16.",
            _wide_product,
        ),
        "product-in-bfloat16": Rule(
            "Your matrix product runs in bfloat16, and float16 was asked for. (For a CPU, "
            "torch.autocast without a dtype means bfloat16.)",
            _other_product,
        ),
        "loss-in-float16": Rule(
            "Part of your loss runs in FP16: softmax, logarithm or mean. There exps overflow and "
            "sums stand still, and a loss in FP16 overflows when it is scaled. Convert the logits "
            "to float32 before the loss.",
            _narrow_loss,
        ),
    },
    misconceptions={
        "cast-detached": Misconception(
            "Your cast cut the copies off from the parameters (detach, .data or torch.tensor), so "
            "no gradient comes back to them. .half() and .to() are differentiable: autograd casts "
            "the gradient back to float32 by itself.",
            _loss(cast=lambda t: t.detach().half()),
            _loss(cast=lambda t: t.detach().half().requires_grad_()),
        ),
        "parameters-cast": Misconception(
            "You made the parameters themselves FP16. They are the masters: what you need are "
            "copies, made anew in each call and thrown away after it.",
            _masters_cast,
            _masters_rounded,
        ),
        "backward-inside": Misconception(
            "You called backward() yourself. The function gives the loss, and whoever called it "
            "scales it first or goes backward: return it with its graph.",
            _backward_too,
        ),
        "loss-returned-in-float16": Misconception(
            "You computed the loss in FP32 and rounded it to FP16 at the end. Times a scale of "
            "2**16 it overflows: leave it in float32.",
            _loss(out=half),
        ),
        "summed-not-averaged": Misconception(
            "You returned the sum over the images. The mean was asked for.",
            _loss(reduction="sum"),
        ),
        "bias-forgotten": Misconception(
            "The bias is missing from your logits.", _loss(use_bias=False)
        ),
    },
    hints=(
        "Which operation here is expensive, and which ones are fragile? The first belongs in 16 "
        "bits, the others in 32.",
        "x.half() for both inputs of the product (and the bias), logits.float() after it.",
        "Do not touch weight and bias themselves: weight.half() is a new tensor, and autograd "
        "knows the way back.",
    ),
    lesson_learned="Products narrow, sums and exps wide: for each operation autocast decides the "
    "same thing by a list.",
    same=_same_losses,
    asked_for="a float32 tensor without dimensions that has a gradient",
)

# ---- missing_ingredient -----------------------------------------------------------------------

INGREDIENTS = ("loss scaling", "master weights", "wide accumulation", "nothing")
_SCALE = 2.0**10


@dataclass(frozen=True)
class Outcome:
    """What a training run shows.

    Attributes:
        loss: the mean loss of the last step, as the run computed it, without `loss_factor`.
        gradient: float32, shape (inputs,), of the last step, unscaled, as the update used it.
        before: float16, shape (inputs,): the weights that the first step computed with.
        after: float16, shape (inputs,): the weights that another step would compute with.
    """

    loss: float
    gradient: Tensor
    before: Tensor
    after: Tensor


@dataclass(frozen=True)
class Run:
    """A training run in FP16, of a model with one weight an input and the squared error.

    Call it as often as you like; each call begins with the same weights and the same 8 examples.

    Args of the call:
        steps: how many steps of SGD, 1 to 2000.
        lr: the learning rate.
        loss_factor: the loss is multiplied by it before anything else.
        repeats: how often the 8 examples stand in the batch, 1 to 5000.
    """

    _seed: int
    _missing: str
    _dead_input: bool = False

    def __repr__(self) -> str:
        return "<a training run>"

    def __call__(
        self, steps: int = 1, lr: float = 2.0**-3, loss_factor: float = 1.0, repeats: int = 1
    ) -> Outcome:
        if not 1 <= steps <= 2000 or not 1 <= repeats <= 5000:
            raise ValueError("steps must be 1 to 2000 and repeats 1 to 5000")
        x, weights, targets = self._data()
        scale = 1.0 if self._missing == "loss scaling" else _SCALE
        kept = np.float16 if self._missing == "master weights" else np.float32
        weights = weights.astype(kept)
        before = weights.astype(np.float16)
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(steps):
                copies = weights.astype(np.float16).astype(np.float32)
                error = (x @ copies - targets).astype(np.float16).astype(np.float32)
                signal = np.float32(2 * loss_factor * scale) * error
                parts = (signal.astype(np.float16)[:, None] * x).astype(np.float16)
                gradient = self._mean(parts, repeats) / np.float32(scale)
                weights = (weights - np.float32(lr) * gradient).astype(kept)
            loss = self._mean((error * error).astype(np.float16), repeats)
        after = weights.astype(np.float16)
        return Outcome(float(loss), *(torch.from_numpy(a) for a in (gradient, before, after)))

    def _data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Inputs (8, 6), first weights (6,) and targets (8,), float32."""
        random = np.random.default_rng(self._seed)
        x = random.uniform(0.5, 1.5, (8, 6)) * random.choice((-1.0, 1.0), (8, 6))
        if self._dead_input:
            x[:, 2] = 0.0
        weights = random.uniform(1.0, 2.0, 6) * random.choice((-1.0, 1.0), 6)
        x, weights = (a.astype(np.float16).astype(np.float32) for a in (x, weights))
        error = random.uniform(1.2, 1.9, 8) * random.choice((-1.0, 1.0), 8)
        return x, weights, (x @ weights + error).astype(np.float32)

    def _mean(self, values: np.ndarray, repeats: int) -> np.ndarray:
        """The mean over the batch: by a running sum in FP16 where wide accumulation is missing."""
        batch = np.concatenate([values] * repeats)
        if self._missing == "wide accumulation":
            total = np.add.accumulate(batch, axis=0)[-1].astype(np.float32)
        else:
            total = batch.sum(axis=0, dtype=np.float32)
        return total / np.float32(len(batch))


def practice_runs() -> dict[str, Run]:
    """A run for each missing ingredient, and one that lacks nothing, by what is missing."""
    return {missing: Run(7 + i, missing) for i, missing in enumerate(INGREDIENTS)}


def _run_cases() -> list[Case]:
    order = (0, 3, 1, 2, 3, 1, 0, 2)
    runs = [Run(100 + i, INGREDIENTS[which]) for i, which in enumerate(order)]
    runs.insert(3, Run(200, "nothing", _dead_input=True))
    runs += [Run(201, INGREDIENTS[1], _dead_input=True), Run(202, INGREDIENTS[0], _dead_input=True)]
    return [Case((run,), f"run {i}") for i, run in enumerate(runs, 1)]


@dataclass(frozen=True)
class _says:
    """A detective who is right but for what `answer` gives instead."""

    answer: Callable[[Run], str | None]

    def __call__(self, run: Run) -> str:
        return self.answer(run) or run._missing


def _closed(answer: Callable[[Any], Any]) -> Callable[[Run], Any]:
    """A learner's function gets a run that can be called, and not looked into."""
    if isinstance(answer, _says):
        return answer

    def play(run: Run) -> Any:
        return answer(lambda *args, **kwargs: run(*args, **kwargs))

    return play


def _same_ingredient(expected: Any, seen: Any) -> bool:
    return isinstance(seen, str) and " ".join(seen.lower().replace("_", " ").split()) == expected


_SCALING, _MASTERS, _SUMS, _NOTHING = INGREDIENTS

missing_ingredient = function_exercise(
    "missing_ingredient",
    cases=_run_cases,
    reference=_says(lambda run: None),
    play=_closed,
    misconceptions={
        "never-provoked": Misconception(
            "You find nothing anywhere. With ordinary settings all of these runs look healthy; "
            "each fault has to be provoked: tiny gradients, tiny updates, a large batch.",
            lambda run: _NOTHING,
        ),
        "provoked-too-hard": Misconception(
            "You say of every run that it lacks the scale, also of those that have one. A scale of "
            "2**10 saves gradients that are up to 1024 times too small for FP16, and no smaller "
            "ones: with a loss_factor of 2**-37 or less they are all lost.",
            lambda run: _SCALING,
        ),
        "zeros-overlooked": Misconception(
            "You miss the runs without loss scaling. Make the gradients small with loss_factor, "
            "such as 2**-32: without a scale they become exactly zero, not merely small.",
            _says(lambda run: _NOTHING if run._missing == _SCALING else None),
        ),
        "stall-overlooked": Misconception(
            "You miss the runs without master weights. Large updates arrive in 16 bits too: take a "
            "learning rate so small that one update is lost beside its weight, such as 2**-16, and "
            "many steps.",
            _says(lambda run: _NOTHING if run._missing == _MASTERS else None),
        ),
        "sums-overlooked": Misconception(
            "You miss the runs without wide accumulation. Nothing becomes inf or NaN there: the "
            "sum stands still. The batch repeats the same 8 examples, so the mean loss must not "
            "depend on how often. Compare a few repeats with a thousand.",
            _says(lambda run: _NOTHING if run._missing == _SUMS else None),
        ),
        "copies-expected-to-move": Misconception(
            "You say that masters are missing where they are not. `after` is the 16-bit copy: a "
            "master moves in every step, its copy only when enough small updates have come "
            "together. Take hundreds of steps, and a rate at which they add up to an ulp.",
            _says(lambda run: _MASTERS if run._missing != _SCALING else None),
            _says(lambda run: _MASTERS if run._missing == _NOTHING else None),
            _says(lambda run: _MASTERS if run._missing in (_NOTHING, _SUMS) else None),
            lambda run: _MASTERS,
        ),
        "weights-before-gradients": Misconception(
            "You take a missing scale for missing masters. A weight whose gradient is zero does "
            "not move either, masters or not: look at the gradients first.",
            _says(lambda run: _MASTERS if run._missing == _SCALING else None),
        ),
        "gradients-before-weights": Misconception(
            "You take missing masters for a missing scale. Their gradients are not zero; it is "
            "the update that does not arrive.",
            _says(lambda run: _SCALING if run._missing == _MASTERS else None),
        ),
        "one-zero-is-enough": Misconception(
            "One zero among the gradients is no underflow: an input that is always zero, such as "
            "the corner of an image, has a gradient of zero in FP32 too. Underflow takes them "
            "all, or takes those that were not zero with a larger loss_factor.",
            _says(lambda run: _SCALING if run._dead_input else None),
        ),
        "one-stall-is-enough": Misconception(
            "One weight that stays is no sign of missing masters: its gradient may be zero in FP32 "
            "too, if its input always is. Ask whether the weights that have a gradient move.",
            _says(lambda run: _MASTERS if run._dead_input and run._missing == _NOTHING else None),
        ),
    },
    hints=(
        "Three experiments, each for one fault: a small loss_factor, a small learning rate with "
        "many steps, a large number of repeats. Try them on ex.practice_runs() first.",
        "run(loss_factor=2**-32).gradient; run(lr=2**-16, steps=1000).before and .after; "
        "run(repeats=2000).loss against run().loss.",
        "Ask of gradients and weights whether *all* are zero or unmoved: one input may be dead.",
    ),
    lesson_learned="Zero gradients, weights that stay, sums that stand still: three symptoms, "
    "three ingredients, and each shows only when it is provoked.",
    same=_same_ingredient,
    asked_for=f"one of {', '.join(map(repr, INGREDIENTS))}",
)
