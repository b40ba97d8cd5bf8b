"""The tensors that the answers are handed, and the ten programs with a fault to name."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import BFLOAT, HALF, SINGLE, as_play, from_seed, name_of
from amp_lessons.exercises.varied import Varied

# ---- values to add up: kahan_sum(values) --------------------------------------------------------


def values_to_add() -> list[Case]:
    """Values of one sign. In two cases the sum of all losses is large itself, and in four of them
    adding in pairs isn't enough. With a salt all are smaller by a power of two, and some stand
    twice."""
    vary, seed = Varied(4), from_seed(4)
    falling = [32768.0] + [15.0] * 138 + [0.95] * 100
    lists = {
        "2048, then 24 ones": [2048.0] + [1.0] * 24,
        "-1000, then -0.2 thirty times": [-1000.0] + [-0.2] * 30,
        "1, then 0.0002 forty times": [1.0] + [2e-4] * 40,
        "1000, then 50 numbers up to 0.2": [1000.0, *(0.2 * torch.rand(50, generator=seed))],
        "0.3, 300 times": [0.3] * 300,
        "30 numbers around 10": 10 + torch.randn(30, generator=seed),
        "32768, then 15 (138 times), then 0.95 (100 times)": falling,
        "-16384, then -7.5 (138 times), then -0.475 (100 times)": [-x / 2 for x in falling],
        "a single 7": [7.0],
    }
    cases = []
    for label, values in lists.items():
        by, again = vary.shifted(1.0, -3, 0), vary.more(0, 9)
        given = torch.as_tensor(values).half() * by
        given = torch.cat([given, given[-1:].repeat(again)])
        label += f", times {by:g}" if by != 1 else ""
        label += f", and the last one {again} times more" if again else ""
        cases.append(Case((given,), label))
    for neighbours, sign in itertools.product((True, False), (1, -1)):
        label = f"128 {'positive' if sign > 0 else 'negative'} values, hard for sums of "
        label += "neighbours" if neighbours else "two halves"
        total = vary.shifted(32640.0 - 16 * vary.more(0, 9), -5, 0)
        drawn = (_rounded_down(total, 7, neighbours, vary.random) for _ in range(4))
        cases.append(Case((sign * torch.tensor(max(drawn, key=sum)).half(),), label))
    return cases


def _rounded_down(
    total: float, levels: int, neighbours: bool, source: random.Random
) -> list[float]:
    """2**levels FP16 numbers that give ``total`` if they are added in pairs, level by level:
    neighbours, or the first half and the second half. Each of these additions rounds off nearly
    half an ulp, so the exact sum is about 3 ulp larger. A compensated sum is near the exact one.
    """
    if not levels:
        return [total]
    found: list[tuple[float, float, float]] = []
    while len(found) < 20:
        one = float(np.float16(total * source.uniform(0.3, 0.7)))
        room = total + _ulp(total) / 2 - one
        most = room - room % _ulp(room)
        for other in (most, most - _ulp(room)):  # the first may be a tie that is rounded up
            if np.float16(one + other) == total:
                found.append((one + other, one, other))
    first, second = (_rounded_down(part, levels - 1, neighbours, source) for part in max(found)[1:])
    if neighbours:
        return first + second
    return [x for pair in zip(first, second, strict=True) for x in pair]


def _ulp(number: float) -> float:
    """The distance from a normal FP16 number to the next larger one."""
    return 2.0 ** (math.frexp(number)[1] - 11)


# ---- logits: log_softmax(logits) ----------------------------------------------------------------


def rows_of_logits() -> list[Case]:
    """Logits in three dtypes, and how often each row of them is repeated, side by side."""
    vary, random = Varied(5), from_seed(5)

    def near(rows: Any) -> Any:
        return [[vary.near(x, 0.03) for x in row] for row in rows] if type(rows) is list else rows

    given: list[tuple[Any, torch.dtype, str]] = [
        ([[1.0, 2.0, 3.0], [0.5, -0.5, 0.0]], HALF, "small logits"),
        ([[12.0, 11.0, -3.0], [0.0, 20.0, 19.0]], HALF, "logits up to 20"),
        ([[0.0, -30.0, -40.0], [1.0, -35.0, -50.0]], HALF, "logits down to -50"),
        ([[500.0, 498.0, 0.0], [-500.0, -501.0, -499.0]], HALF, "rows 1000 apart"),
        ([[-20.0, -21.0], [-18.0, -19.5]], HALF, "negative logits"),
        ([[100.0, 99.0, 90.0, 0.0]], BFLOAT, "logits up to 100"),
        ([[0.0, -31.0, -45.0]], BFLOAT, "logits down to -45"),
        ([[100.0, 99.0], [-300.0, -302.0]], SINGLE, "rows 400 apart"),
        ([[1000.0, 999.0], [0.0, -800.0]], SINGLE, "logits of 1000 and -800"),
        ([[0.0, -900.0, -930.0], [3.0, -950.0, -910.0]], SINGLE, "logits down to -950"),
        ([[-1000.0, -1001.0, -999.0], [5.0, 4.0, 3.0]], SINGLE, "logits around -1000"),
        ([[0.0, -60.0, -75.0], [3.0, -70.0, -55.0]], SINGLE, "logits down to -75"),
        (3 * torch.randn(4, 5, generator=random), HALF, "4 random rows of 5"),
        (60 * torch.randn(3, 7, generator=random), HALF, "3 random rows of 7"),
        (torch.randn(2, 4, generator=random), SINGLE, "2 random rows of 4"),
    ]
    for _ in vary.extra(3):
        around = vary.random.choice((-1, 1)) * vary.random.randint(600, 1200)
        noise = around + 3 * torch.randn(4, 5, generator=random)
        given.append((noise, SINGLE, f"4 random rows around {around}"))
    cases = [
        Case(
            (torch.as_tensor(near(rows), dtype=SINGLE).to(kind), 1),
            f"{label}, {name_of(kind)}{vary.note(0.03) if type(rows) is list else ''}",
        )
        for rows, kind, label in given
    ]
    for count, logit in ((vary.more(70_000, 9_000), 0.0), (vary.more(128_000, 9_000), 5.0)):
        row = torch.tensor([[logit]], dtype=HALF)
        cases.append(Case((row, count), f"{count:,} logits of {logit:g}, float16", "long rows"))
    return cases


@as_play
def use_log_softmax(log_softmax: Callable[[Tensor], Any], logits: Tensor, times: int) -> Any:
    """Repeat the logits, and look at the first columns only where there are very many."""
    if times == 1:
        return log_softmax(logits)
    rows = logits.repeat(1, times)
    result = log_softmax(rows.clone())
    whole = isinstance(result, Tensor) and result.shape == rows.shape
    return result[:, :3] if whole else result


# ---- scores with a mask: masked_softmax(scores, keep) -------------------------------------------


def scores_with_masks() -> list[Case]:
    """All dtypes, rows with nothing kept in each, and scores far below what FP16 can store."""
    vary, random = Varied(6), from_seed(6)
    some = torch.rand(3, 6, generator=random) > 0.4
    some[:, 0] = True
    noise = 5 * torch.randn(3, 6, generator=random)
    yes, no = True, False

    def case(scores: Any, keep: Any, dtype: torch.dtype, label: str, kind: str = "") -> Case:
        given = torch.as_tensor(scores, dtype=SINGLE).to(dtype), torch.as_tensor(keep)
        return Case(given, f"{label}, {name_of(dtype)}", kind)

    def near(*row: float) -> list[float]:
        return [vary.near(score) for score in row]

    def empty(first: list[float], second: list[float], dtype: torch.dtype) -> Case:
        first, second = near(*first), near(*second)
        keep, label = [[no] * len(first), [yes] * len(first)], f"nothing kept of {first}"
        return case([first, second], keep, dtype, label, "rows with nothing kept")

    def negative(score: float, largest: float, dtype: torch.dtype) -> Case:
        score, largest = near(score, largest)
        scores, label = [[score, score, largest]], f"scores of {score:g}"
        return case(scores, [[yes, yes, no]], dtype, label, "very negative scores")

    return [
        case([near(1.0, 2.0, 3.0)], [[yes, yes, no]], HALF, "the last one masked"),
        case([near(-3.0, 4.0, 30.0)], [[yes, yes, no]], HALF, "the largest one masked"),
        case([near(200.0, 4.0, 3.0)], [[no, yes, yes]], SINGLE, "the largest one masked"),
        *(case(noise, some, dtype, "3 random rows") for dtype in (HALF, BFLOAT, SINGLE)),
        case([near(10.0, -50.0, 0.0)], [[no, yes, yes]], SINGLE, "the first one masked"),
        empty([-40.0, 30.0], [1.0, 2.0], HALF),
        empty([20.0, -20.0, 50.0], [0.0, 1.0, -1.0], HALF),
        empty([1.0, 2.0, 3.0], [3.0, 2.5, 2.0], HALF),
        empty([0.5, -0.5, 4.0], [1.0, 2.0, 3.0], BFLOAT),
        empty([2.0, 1.0], [0.0, 3.0], SINGLE),
        negative(-1e6, 0.0, BFLOAT),
        negative(-3e9, 1.0, BFLOAT),
        negative(-2e9, 5.0, SINGLE),
        negative(-5e12, 0.0, SINGLE),
    ]


# ---- ten programs: faults, a dict from letter to fault ------------------------------------------

FAULTS = ("underflow", "overflow", "swamping", "cancellation", "no fault")


def letters() -> list[Case]:
    return [Case((letter,), letter) for letter in "abcdefghij"]
