"""Two small things to train: 16-bit parameters for an optimizer, FP16 products for a scaler."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import as_play, flat, from_seed, in_words, name_of
from amp_lessons.exercises.varied import Varied

# ---- an optimizer: MasterSGD(parameters, lr, momentum) ------------------------------------------

Row = tuple[Any, ...]  # for each parameter its values, nested, or None
RECORDS = 3  # how often the weights are noted in one case

PLAIN = "float16 parameters without momentum"
MOMENTUM = "calls with momentum"
BFLOAT = "bfloat16 parameters"
MISSING = "parameters whose gradient is None"


def optimizer_cases() -> list[Case]:
    """Updates that 16 bits can hold, and updates, products and sums that they lose; parameters
    beyond FP16's range; gradients that are missing in all steps or in some."""
    vary = Varied(31)

    def changed(values: Any, times: float) -> Any:
        """Numbers in nested tuples, multiplied by a power of two, or each changed by up to 1%."""
        if isinstance(values, tuple):
            return tuple(changed(value, times) for value in values)
        return values if values is None else values * times if times else vary.near(values, 0.01)

    def case(
        label: str, start: Row, gradients: tuple[Row, ...], steps: int, lr: float,
        momentum: float = 0.0, *, kind: str = PLAIN, dtype: str = "float16",
    ) -> Case:  # fmt: skip
        # With a momentum of 0.99 a rounding shows only where it falls, so it has to stay in place.
        times = vary.shifted(1.0, -2, 2) if momentum == 0.99 else 0.0
        args = changed(start, times), changed(gradients, times), dtype, steps, lr, momentum
        about = f" (numbers {f'times {times:g}' if times else 'changed by up to 1%'})"
        return Case(args, f"{label}, {steps} steps{about if vary.on else ''}", kind)

    bf16: dict[str, Any] = {"kind": BFLOAT, "dtype": "bfloat16"}
    matrix = (((1.5, -0.3), (0.7, -2.0), (0.1, 1.0)),)
    around_2 = tuple((((2.1, 1.9), (2.0, x), (1.8, 2.2)),) for x in (2.3, 1.7, 2.0))
    large = (((1.0, -0.25),), ((0.5, 0.25),))
    start = ((0.0, 0.25),)
    one_large = (((1.0, -1.0),), *[((0.0104, -0.0104),)] * 23)
    one_large_bf16 = (((1.0, -1.0),), *[((0.013, -0.013),)] * 23)
    two = (((1.0, -2.0), (-3.0, 0.5)),)
    come_and_go = ((None, (0.5, 1.0), (2.0, -1.0)), ((1.0, -1.0), (1.0, 0.5), None))
    every_other = (((1.0, 2.0), (-1.0, 3.0)), (None, (0.5, -2.0)))
    return [
        case("large updates", ((0.5, -2.0),), large, 4, 0.25),
        case("updates of 0.0002", ((1.0, -1.5, 3.0),), (((1.0, -2.0, 4.0),),), 16, 2e-4),
        case("gradients of 0.00025", ((1e-4, -3e-4),), (((2.5e-4, -7e-4),),), 16, 1e-4),
        case("a learning rate of 0.00001", ((1e-5, -3e-5),), (((2.5e-3, -7e-3),),), 16, 1e-5),
        case("updates of 0.0015, bfloat16", ((1.0, -1.5),), (((1.5, -3.0),),), 16, 1e-3, **bf16),
        case("weights of 300000, bfloat16", ((3e5, -2e5),), (((1e5, -3e5),),), 5, 2e-2, **bf16),
        case("weights of 1e-9, bfloat16", ((1e-9, -2e-9),), (((-1e-9, 3e-9),),), 5, 0.2, **bf16),
        case("momentum 0.5", ((0.5, -2.0),), large, 5, 0.25, 0.5, kind=MOMENTUM),
        case("momentum 0.5, 3 x 2 weights", matrix, around_2, 10, 3e-4, 0.5, kind=MOMENTUM),
        case("gradients 1, then 0.0104", start, one_large, 24, 0.01, 0.99, kind=MOMENTUM),
        case("gradients 1, then 0.013, bfloat16", start, one_large_bf16, 24, 0.01, 0.99, **bf16),
        case("two parameters", ((1.0, 2.0), (-1.0, 0.5)), two, 10, 2e-3, 0.5, kind=MOMENTUM),
        case("momentum 0.5, the second parameter never has a gradient",
             ((1.0,), ((2.0, 4.0),)), (((1.0,), None),), 10, 2e-3, 0.5, kind=MISSING),
        case("momentum 0.5, three parameters whose gradients come and go",
             ((1.0, 2.0), (-1.0, 3.0), (0.5, 1.5)), come_and_go, 10, 1e-2, 0.5, kind=MISSING),
        case("momentum 0.9, the first parameter has a gradient every other step",
             ((1.0, -0.5), (2.0, 0.25)), every_other, 8, 1e-2, 0.9, kind=MISSING),
    ]  # fmt: skip


@as_play
def with_gradients(
    optimizer_class: Any,
    start: Row,
    gradients: tuple[Row, ...],
    dtype: str,
    steps: int,
    *options: Any,
) -> Any:
    """How an optimizer is used: it gets its parameters, and then one gradient after another."""

    def tensor(values: Any) -> Any:
        return None if values is None else torch.tensor(values, dtype=getattr(torch, dtype))

    parameters = [nn.Parameter(tensor(values)) for values in start]
    # The optimizer gets a list of its own: putting other tensors into it trains no model.
    optimizer = optimizer_class(list(parameters), *options)
    if not callable(getattr(optimizer, "step", None)):
        return optimizer
    rows = {row: [tensor(values) for values in row] for row in gradients}
    weights = {}
    for number in range(1, steps + 1):
        row = rows[gradients[(number - 1) % len(gradients)]]
        for parameter, gradient in zip(parameters, row, strict=True):
            # A copy, as a backward pass gives one: the optimizer may zero it or work in it.
            parameter.grad = None if gradient is None else gradient.to(parameter.dtype, copy=True)
        optimizer.step()
        if number * RECORDS % steps < RECORDS:
            for which, p in enumerate(parameters, 1):
                of = f"parameter {which}" if len(parameters) > 1 else "weights"
                weights[f"{of} after step {number}"] = p.detach().flatten().clone()
    return {"dtype of the parameters": in_words(name_of(p.dtype) for p in parameters), **weights}


# ---- a scaler: StaticScaler(scale) --------------------------------------------------------------

CLEAN, OVERFLOW = "batches without an overflow", "batches that overflow"
LARGE = "large gradients that are finite"
REFUSED = "scales that are not allowed"
NOT_ALLOWED = (1000.0, 3, 0.75, 0.0, -8.0, math.inf, math.nan)

Batch = tuple[list[Any], list[Any], str]  # the gradients of w and v before scaling, and their dtype


def scaler_cases() -> list[Case]:
    """Training with and without overflows, in one parameter or in both, as inf and as NaN; large
    gradients that do not overflow; every kind of optimizer; scales to take and to refuse."""
    vary, random = Varied(32), from_seed(32)

    def batch(w: list[Any], v: list[Any], dtype: str = "float16") -> Batch:
        return w, v, dtype

    def drawn(*size: int) -> list[Any]:
        return torch.randn(size, generator=random).half().tolist()

    calm = [batch(drawn(3), drawn(2, 2)) for _ in range(4)]
    # 100 * 2**10 overflows in FP16, so the gradient is inf although the loss is finite.
    first = batch([vary.near(100.0), 1.0, 2.0], [[1.0, 2.0], [3.0, -4.0]])
    second = batch([1.0, -3.0, 2.0], [[1.0, vary.near(-100.0)], [3.0, 4.0]])
    a_nan = batch([1.0, -3.0, 2.0], [[1.0, 2.0], [math.nan, 4.0]])
    mixed = [calm[0], first, calm[2], second, calm[3], a_nan, calm[1]]

    def wide(size: float) -> Batch:
        return batch([size, -3.0, 2.0], [[1.0, 2.0], [0.5, size]], "float32")

    refused = [*NOT_ALLOWED, *(vary.near(3.0, 0.3) * 2.0**n for n in vary.extra(3))]
    huge = batch([3e38, 3e38, 1e38], [[1.0, 2.0], [0.5, 3.0]], "float32")  # the sum overflows
    scale = 2.0**10
    return [
        Case((scale, "SGD", calm[:3]), "2.0**10, three clean steps", CLEAN),
        Case((2.0**4, "Adam", [calm[1], first]), "2.0**4, Adam, no overflow", CLEAN),
        Case((scale, "SGD", [calm[1], first, calm[3]]), "2.0**10, the second overflows", OVERFLOW),
        Case((scale, "SGD", [calm[2], second, calm[0]]), "2.0**10, one of two overflows", OVERFLOW),
        Case((scale, "SGD", [calm[0], a_nan, calm[1]]), "2.0**10, NaN in the second", OVERFLOW),
        Case((scale, "Adam", mixed[2:6]), "2.0**10, Adam, an overflow in 2, NaN in 4", OVERFLOW),
        Case((scale, "two groups", mixed[:4]), "2.0**10, two groups, inf in 2 and 4", OVERFLOW),
        Case((scale, "two groups", mixed[2:6]), "2.0**10, two groups, NaN in 4", OVERFLOW),
        Case((scale, "idle", mixed[:2]), "2.0**10, a parameter without a gradient", OVERFLOW),
        *(Case((8.0, "SGD", [wide(size)]), f"StaticScaler(8.0), FP32 gradients of {size:g}", LARGE)
          for size in map(vary.near, (1e6, -3e5, 1e20, -1e22))),
        *(Case((below, "SGD", calm[:2]), f"StaticScaler({below}), two steps", "scales below 1")
          for below in (2.0**-2, 2.0**-5)),
        Case((0.5, "SGD", [huge]), "StaticScaler(0.5), two FP32 gradients of 3e38", LARGE),
        Case((0.5, "SGD", [huge, calm[1]]), "StaticScaler(0.5), other weights", LARGE),
        *(Case((whole, "SGD", calm[1:3]), f"StaticScaler({whole})", "scales that are ints")
          for whole in (1024, 8)),
        *(Case((bad, "none", []), f"StaticScaler({bad})", REFUSED) for bad in refused),
    ]  # fmt: skip


@as_play
def in_training(
    scaler_class: Callable[..., Any], scale: float, kind: str, batches: list[Batch]
) -> Any:
    """How a scaler is used: it scales the loss of each batch, and takes or skips the step."""
    scaler = scaler_class(scale)
    if not all(callable(getattr(scaler, method, None)) for method in ("scale", "step")):
        return scaler
    if not batches:
        return "accepted"
    w = nn.Parameter(torch.tensor([0.5, -0.25, 1.0]))
    v = nn.Parameter(torch.tensor([[0.125, -0.5], [0.75, 0.25]]))
    if kind == "Adam":
        optimizer: torch.optim.Optimizer = torch.optim.Adam([w, v], lr=0.1)
    elif kind == "two groups":
        groups: list[dict[str, Any]] = [{"params": [w]}, {"params": [v], "lr": 0.02}]
        optimizer = torch.optim.SGD(groups, lr=0.01)
    elif kind == "idle":  # one that the loss does not depend on
        optimizer = torch.optim.SGD([nn.Parameter(torch.ones(2)), w, v], lr=0.01)
    else:
        optimizer = torch.optim.SGD([w, v], lr=0.01, momentum=0.9)
    calls: list[int] = []
    optimizer.register_step_post_hook(lambda *_: calls.append(len(said)))
    said: list[Any] = []
    factors, losses, gradients = [], [], {}
    for number, (*values, dtype) in enumerate(batches, 1):
        optimizer.zero_grad()
        x, y = (torch.tensor(part, dtype=getattr(torch, dtype)) for part in values)
        loss = (w.to(x.dtype) * x).float().sum() + (v.to(y.dtype) * y).float().sum()
        value, scaled = loss.item(), scaler.scale(loss)
        factors.append(scaled.item() / value)
        scaled.backward()
        said.append(scaler.step(optimizer))
        losses.append(loss.item())
        gradients[f"gradients after step {number}"] = [
            x for p in (w, v) for x in ([None] * p.numel() if p.grad is None else flat([p.grad]))
        ]
    return {
        # Later ones may be NaN because a step was wrong.
        "scale(loss) divided by loss, in the first batch": factors[0],
        "batches with a call of optimizer.step()": [n + 1 for n in calls],
        "step() returned": said,
        **gradients,
        "weights at the end": flat([w, v]),
        "losses after scale(loss)": losses,
    }
