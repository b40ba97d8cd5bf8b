"""Questions on reductions in 16 bits: what is stored on the way, and what is computed wider."""

from __future__ import annotations

import math
import random

from amp_lessons.quiz.generators.base import Draft, Option, choices, generator
from amp_lessons.quiz.generators.floats import BF16, FP16, Float
from amp_lessons.quiz.generators.formatting import number

SOURCE = "torch 2.13 on a CPU, run in the tests"


@generator("losses_and_ops.gen_reduction", "A reduction in 16 bits", level=2, kind="output")
def reduction(rng: random.Random) -> Draft | None:
    fmt = rng.choice((FP16, FP16, BF16))
    return (_squares if rng.random() < 0.5 else _sum)(rng, fmt)


def _squares(rng: random.Random, fmt: Float) -> Draft | None:
    """The mean of squares against the norm, which squares in FP32 inside."""
    root, value = rng.choice((2, 4, 8, 10, 16, 20)), float(rng.randrange(20, 1000, 10))
    if fmt.round(value) != value:
        return None
    square, norm = fmt.round(value * value), fmt.round(root * value)
    mean = fmt.round(square)
    if math.isinf(norm) or abs(norm - root * value) == fmt.gap(root * value) / 2:
        return None  # a tie would depend on the last bit of FP32's root
    exact = value * value
    why = (
        f"The squares are stored in FP16 before the mean is taken. {number(exact)} is above "
        "65,504, "
        "so they are inf. `norm` squares and adds in FP32, and only its result is FP16."
        if math.isinf(square)
        else f"The squares are stored in {fmt.name}, which rounds {number(exact)} to "
        f"{number(square)}. That is below {'65,504' if fmt is FP16 else '3.4e38'}, so nothing "
        "overflows."
    )
    wrong = [
        ((exact, norm), f"This takes the squares as exact. {fmt.name} has no {number(exact)}."),
        ((math.inf, math.inf), _why_inf(fmt, mean, "`norm` squares in FP32 inside.")),
        ((math.inf, norm), _why_fits(fmt, exact)),
        ((mean, value), "The norm adds up the squares. It doesn't take their mean."),
    ]
    if exact < fmt.max:
        why_cut = "This cuts bits off. A product in 16 bits is rounded to the nearest."
        wrong.append(((fmt.below(exact), norm), why_cut))
    if fmt is FP16:
        wrong += [
            ((fmt.max, norm), "A product doesn't stop at the largest number: it becomes inf."),
            ((exact, math.inf), "It's the mean of squares that has to store the squares."),
        ]
    code = f"""
import torch

x = torch.full(({root * root},), {value}, dtype={fmt.dtype})
print((x * x).mean().item(), x.norm().item())
"""
    return _output(rng, fmt, code, (mean, norm), why, wrong)


def _sum(rng: random.Random, fmt: Float) -> Draft | None:
    """A sum against a mean: both accumulate in FP32, and the results are 16 bits.

    A CPU's threads share a sum of more than 32,768 numbers, and each rounds its part to 16 bits.
    """
    many, value = rng.randrange(1000, 33_000, 1000), float(rng.choice((1, 2, 3, 4, 5, 10, 20)))
    exact = many * value
    if exact >= 2**24:
        return None
    total = fmt.round(exact)
    stuck = _stuck(value, fmt)
    why = (
        f"Both add up in FP32. The sum, {number(exact)}, is too large for FP16, so it is stored as "
        f"inf. The mean divides first and stores {number(value)}."
        if math.isinf(total)
        else f"Both add up in FP32, and only the results are {fmt.name}. It stores {number(exact)} "
        f"as {number(total)}."
    )
    wrong = [
        (
            (exact, value),
            f"{fmt.name} has no {number(exact)}: the sum is stored in {fmt.name} too.",
        ),
        ((math.inf, math.inf), _why_inf(fmt, total, "The mean divides before it stores anything.")),
        (
            (stuck, fmt.round(stuck / many)),
            f"This adds up in {fmt.name}, where a sum of such terms stops at {number(stuck)}. "
            "`sum()` accumulates in FP32.",
        ),
        ((math.inf, value), _why_fits(fmt, exact)),
    ]
    if exact < fmt.max:
        why_cut = "This cuts bits off. The result is rounded to the nearest."
        wrong.append(((fmt.below(exact), value), why_cut))
    if fmt is FP16:
        wrong.append(
            ((fmt.max, value), "A sum doesn't stop at the largest number: it becomes inf.")
        )
    code = f"""
import torch

x = torch.full(({many},), {value}, dtype={fmt.dtype})
print(x.sum().item(), x.mean().item())
"""
    return _output(rng, fmt, code, (total, value), why, wrong)


def _why_inf(fmt: Float, first: float, reason: str) -> str:
    if math.isfinite(first):
        return f"Nothing overflows here: {fmt.name} numbers go up to {number(fmt.max, 2)}."
    return f"An inf in the first doesn't mean one in the second. {reason}"


def _why_fits(fmt: Float, exact: float) -> str:
    if fmt is BF16:
        return f"{number(exact)} is too large for FP16. BF16 has almost FP32's range."
    return f"{number(exact)} is below 65,504, so FP16 can store it."


def _stuck(term: float, fmt: Float) -> float:
    total = 0.0
    while (after := fmt.round(total + term)) != total:
        total = after
    return total


def _output(
    rng: random.Random,
    fmt: Float,
    code: str,
    right: tuple[float, float],
    why: str,
    wrong: list[tuple[tuple[float, float], str]],
) -> Draft | None:
    options = [Option(_line(pair), reason) for pair, reason in wrong]
    shown = choices(rng, Option(_line(right), why), options)
    if shown is None:
        return None
    return {
        "prompt": "What does this print?",
        "code": code.strip(),
        "hint": f"Which values are stored in {fmt.name} on the way, and which are computed in "
        "FP32?",
        "source": SOURCE,
        "choice": shown,
    }


def _line(pair: tuple[float, float]) -> str:
    return f"{pair[0]!r} {pair[1]!r}"


GENERATORS = (reduction,)
