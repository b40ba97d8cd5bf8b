"""The bit patterns, numbers and tensors that the answers are handed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import as_play, from_seed
from amp_lessons.exercises.varied import Varied
from amp_lessons.amp.numbers.formats import FORMATS, FP16


def written(x: float) -> str:
    """A number as Python; a small power of two as such."""
    mantissa, exponent = math.frexp(abs(x))
    power = f"{'-' if x < 0 else ''}2**{exponent - 1}"
    return power if mantissa == 0.5 and exponent < -9 else repr(x)


# ---- bit patterns: decode_bits(code, exponent_bits, mantissa_bits) ------------------------------

KINDS = ("zero", "subnormal numbers", "normal numbers", "infinity", "NaN")
LAYOUTS = {
    (5, 10): ("0000 8000", "0001 83FF 0200 8123", "3C00 3555 C0A8 0400 7BFF", "7C00 FC00", "7E01"),
    (8, 7): ("0000", "0001 807F 0040", "3F80 3DCD C2C8 0080 7F7F", "7F80 FF80", "FFC0 7F81"),
    (3, 4): ("00 80", "01 8F 08", "30 10 6F A5 B3", "70 F0", "71 FF"),
}


def bit_patterns() -> list[Case]:
    """Patterns of all five kinds in three layouts, and random normal numbers. With a salt also in a
    fourth layout, and other subnormal numbers and NaNs."""
    vary, random = Varied(1), np.random.default_rng(draws.seed(1))
    layouts: dict[tuple[int, int], tuple[str, ...]] = {**LAYOUTS}
    for _ in vary.extra(1):
        e, m = vary.random.choice((4, 6, 7)), vary.random.randint(4, 11)
        sign, infinity = 1 << (e + m), (2**e - 1) << m
        edges = ((0, sign), (1, sign + 2**m - 1), (sign + 2**m,), (infinity, sign + infinity), ())
        layouts[e, m] = tuple(" ".join(f"{code:X}" for code in some) for some in edges)
    cases = []
    for (e, m), codes in layouts.items():
        given = [(int(code, 16), k) for k, some in zip(KINDS, codes, strict=True)
                 for code in some.split()]  # fmt: skip
        for _ in range(6):
            negative, exponent = random.integers(2), random.integers(1, 2**e - 1)
            code = (negative << (e + m)) + (exponent << m) + random.integers(2**m)
            given.append((int(code), "normal numbers"))
        for number in vary.extra(4):
            sign, mantissa = vary.random.randrange(2), vary.random.randrange(1, 2 ** (m - 1))
            given.append(((sign << (e + m)) + mantissa, "subnormal numbers"))
            quiet = (number % 2) << (m - 1)  # every other NaN has the highest bit of its mantissa
            given.append(((sign << (e + m)) + ((2**e - 1) << m) + quiet + mantissa, "NaN"))
        digits = math.ceil((1 + e + m) / 4)
        for code, kind in given:
            if kind.endswith("numbers"):
                kind = f"{'negative' if code >> (e + m) else 'positive'} {kind}"
            label = f"0x{code:0{digits}X}, exponent_bits={e}, mantissa_bits={m}"
            cases.append(Case((code, e, m), label, kind))
    return cases


# ---- steps from number to number: next_float(x) -------------------------------------------------

POSITIVE = (1.0, 1.5, 2.0, 2047.0, 2048.0, 0.0999755859375, 2.0**-14, 40000.0)
SUBNORMAL = (2.0**-24, 2.0**-23, 2.0**-14 - 2.0**-24, 2.0**-15, 3e-5, 1e-6)
NEGATIVE = (-1.0, -1.5, -2.0, -3.5, -4.0, -1024.0, -(2.0**-14), -65504.0)


def steps_up() -> list[Case]:
    """Single steps, and walks of two or three through zero and to the end of the range."""
    vary, random = Varied(2), np.random.default_rng(draws.seed(2))
    some = FP16.decode(random.integers(0x400, 0x7BFF, 8)).tolist()
    kinds: dict[str, tuple[float, ...]] = {
        "positive numbers": (*POSITIVE, *some[:5]),
        "negative numbers": (*NEGATIVE, *(-x for x in some[5:])),
        "subnormal numbers": (*SUBNORMAL, *(-x for x in SUBNORMAL)),
        "zero": (0.0, -0.0),
    }
    for _ in vary.extra(3):
        kinds["negative numbers"] += (-(2.0 ** vary.random.randint(-13, 15)),)
        kinds["positive numbers"] += (2.0 ** vary.random.randint(-13, 15),)
        small = vary.random.randrange(2, 0x400) * 2.0**-24
        kinds["subnormal numbers"] += (small, 2.0**-24 - small)
    calls = [(x, 1, kind) for kind, numbers in kinds.items() for x in map(FP16.round, numbers)]
    calls += [(0.0, 2, "zero"), (-0.0, 2, "zero"), (-(2.0**-24), 3, "zero")]
    calls += [(x, n, "the end of the range") for x, n in ((65504.0, 1), (65472.0, 2), (65440.0, 3))]

    def label(x: float, steps: int) -> str:
        number = written(x)
        return f"{steps} steps up from {number}" if steps > 1 else f"next_float({number})"

    return [Case((x, steps), label(x, steps), kind) for x, steps, kind in calls]


@as_play
def walk(next_float: Callable[[Any], Any], x: float, steps: int) -> Any:
    """Call a function on its own result, so often; a single result is returned as it is."""
    results = []
    for _ in range(steps):
        x = next_float(x)
        results.append(x)
        if not isinstance(x, float | np.floating | Tensor):
            break
    return results if len(results) > 1 else results[0]


# ---- gradients that need a scale: smallest_scale(gradients) -------------------------------------

TINY_FIRST = ([1e-9, 0.5], [2.0**-30, -3.0], [2.0**-27, -(2.0**-26), 1.0], [2e-12, -1e-9], [4e-8])
TINY_LATER = ([1e-10, 3e-9, -5e-8], [3e-9, -2e-10, 0.01])
LARGE = ([0.5, -3.0], [-0.25, 1.0], [8.0, 1000.0])
WITH_ZEROS = ([0.0, 5e-8, 0.0], [-7e-12, 1e-3, 0.0], [1e-8, 0.0, 3e-10])


def small_gradients() -> list[Case]:
    """Gradients of each kind. With a salt they are smaller by powers of two, and powers of two
    among them stay some."""
    vary, random, cases = Varied(3), from_seed(3), []
    for listed in (*TINY_FIRST, *TINY_LATER, *LARGE, *WITH_ZEROS):
        by = vary.shifted(1.0, -6, 0)
        exact = [math.frexp(abs(x))[0] in (0, 0.5) for x in listed]
        values = [x * by if as_it_is else vary.near(x * by)
                  for x, as_it_is in zip(listed, exact, strict=True)]  # fmt: skip
        label = f"torch.tensor([{', '.join(map(written, values))}])"
        cases.append(Case((torch.tensor(values),), label))
    for size, power in ((40, -22), (300, -28), (7, -35)):
        size, power = vary.more(size, 9), power - vary.more(0)
        gradients = torch.randn(size, generator=random) * 2.0**power
        gradients[0], gradients[-1] = 0.0, 2.0**-3
        cases.append(Case((gradients,), f"{size} random gradients around 2**{power}"))
    return cases


# ---- tensors that need a format: choose_format(values, tolerance) -------------------------------

TENSORS = {  # by the tolerance
    0.0: ([1.125, -2.5, 0.0], [1.25, 1024.0], [1.0009765625, 3.0], [2.0**100, -1.0]),
    1e-6: ([1e-9, 1.1],),
    1e-5: ([2049.0, 0.0],),
    3e-4: ([1.0, 2.0, 2049.0, 4.0, 8.0],),
    1e-3: ([0.1, -0.7, 3.3], [0.5, -701.3], [1e-9, 0.1], [3e-20, 0.3], [-65510.0, 1.5]),
    0.004: ([1.00390625, 65600.0],),
    0.01: ([0.1, 1e5], [-1e5, 1.0], [-601.0, 3.0], [1e-7, 1.1], [3e-7, 1.1], [1e-9, 1.1]),
    0.02: ([1.1, 1.0, 1.0, 1.0, 1.0, 1.0], [4.0, 4.0, 4.0, -5.3, 4.0, 4.0]),
    0.03: ([0.0, 60001.0],),
    0.05: ([0.02, -0.03], [460.0, 1.1]),
    0.06: ([0.001, 0.002],),
    0.1: ([17.3, -33.1, 68.7], [100.0, 300.0]),
    0.12: ([9.0, 490.0],),
    0.2: ([1000.0, 0.4], [0.0068, 0.0137]),
    1.0: ([3e-20, 0.3],),
    1.5: ([1e-9, 1.1],),
}


def other_tensors(vary: Varied) -> list[tuple[list[float], float]]:
    """The listed tensors in another order, with what no 16 bits hold a little changed, and random
    ones. The changes are too small for another choice."""

    def changed(x: float) -> float:
        held = any(FORMATS[name].round(x) == x for name in ("FP16", "BF16"))
        return x if held else vary.near(x, 2.0**-15)

    rows = [
        (vary.mixed(list(map(changed, values))), t)
        for t, tensors in TENSORS.items()
        for values in tensors
    ]
    while len(rows) < sum(map(len, TENSORS.values())) + 12:
        start = vary.random.choice((-30, -20, -8, -2, 8))
        sizes = [2.0 ** vary.random.uniform(start, start + 9) for _ in range(vary.more(2))]
        values = [float(f"{vary.random.choice((-1, 1)) * size:.4g}") for size in sizes]
        if not any(tie(values, *pair) for pair in (("FP16", "BF16"), ("FP8 E4M3", "FP8 E5M2"))):
            rows.append((values, vary.random.choice((1e-4, 1e-3, 0.006, 0.05, 0.11, 0.3))))
    return vary.mixed(rows)


def tie(values: list[float], one: str, other: str) -> bool:
    """Whether two formats have the same largest relative error; two errors of 1 are no tie."""
    exact = torch.tensor(values).double()
    found = [(FORMATS[f].round(exact) / exact - 1).abs().max().item() for f in (one, other)]
    return math.isclose(*found) and found[0] < 1


def tensors_to_store() -> list[Case]:
    rows = [(values, t) for t, tensors in TENSORS.items() for values in tensors]
    rows = other_tensors(Varied(4)) if draws.salted() else rows
    return [Case((torch.tensor(v), t), f"torch.tensor({v}), {t:g}") for v, t in rows]
