"""Questions on what a format stores and how far apart its numbers are."""

from __future__ import annotations

import math
import random

from amp_lessons.quiz.generators.base import Draft, Option, choices, generator, mistakes
from amp_lessons.quiz.generators.floats import BF16, E4M3, E5M2, FP16, FP32, Float
from amp_lessons.quiz.generators.formatting import number, power, raised, short, small

IEEE = "IEEE 754-2019, 4.3.1 (roundTiesToEven); torch 2.13, run in the proof"
OCP = "OCP 8-bit Floating Point Specification 1.0; torch 2.13, run in the proof"


@generator(
    "number_formats.gen_round_to", "What a format stores of a number", level=1, kind="single"
)
def round_to(rng: random.Random) -> Draft | None:
    fmt = rng.choice((FP16, FP16, BF16, BF16, E4M3, E5M2))
    value, shown = _a_number(rng, fmt)
    stored = fmt.round(value)
    if stored == value:
        return None
    right = _stored_option(fmt, stored, _why_right(fmt, value, shown, stored))
    shown_choices = choices(rng, right, _wrongly_stored(fmt, value, shown, stored), ascending=True)
    if shown_choices is None:
        return None
    return {
        "prompt": f"PyTorch 2.13 casts {shown} from FP32 to {fmt.name}. What is stored?",
        "hint": f"{fmt.name} has {fmt.mantissa_bits} stored bits of significand, and its largest "
        f"number is {number(fmt.max)}. How far apart are its numbers here?",
        "source": IEEE if fmt in (FP16, BF16) else OCP,
        "proof": f"import torch\n\nstored = torch.tensor({value!r}).to({fmt.dtype}).float().item()",
        "choice": shown_choices,
    }


def _a_number(rng: random.Random, fmt: Float) -> tuple[float, str]:
    """A number to round, and how people write it."""
    match rng.choice(("tie", "integer", "decimal", "decimal", "large", "small")):
        case "tie":
            exponent = fmt.mantissa_bits + rng.randint(1, 3)
            gap = 2 ** (exponent - fmt.mantissa_bits)
            value = 2**exponent + gap * rng.randrange(2**fmt.mantissa_bits) + gap // 2
        case "integer":
            exponent = min(fmt.mantissa_bits + rng.randint(2, 6), fmt.bias)
            value = rng.randrange(2**exponent, 2 ** (exponent + 1))
        case "large":
            return _a_large_one(rng, fmt)
        case "small":
            return _a_small_one(rng, fmt)
        case _:
            if rng.random() < 0.25:
                below, above = rng.choice(((1, 3), (2, 3), (1, 7), (1, 6), (5, 6), (1, 9), (2, 7)))
                return below / above, f"{below}/{above}"
            value = rng.choice((rng.randrange(1, 100) / 10, rng.randrange(1, 1000) / 100))
    return float(value), number(value)


def _a_large_one(rng: random.Random, fmt: Float) -> tuple[float, str]:
    """Near or beyond the largest number; in BF16, whatever FP16 could not hold."""
    if fmt is BF16:
        if rng.random() < 0.2:
            value = rng.choice((3.39e38, 3.4e38))
            return value, number(value)
        value = rng.choice((1e5, 1e6, 7e4, 123456, 50257, rng.randrange(66, 900) * 1000))
    else:
        value = rng.choice(
            (fmt.first_inf, fmt.first_inf - 1, int(fmt.max * rng.choice((1.02, 1.1, 1.5, 2, 4))))
        )
    return float(value), number(value)


def _a_small_one(rng: random.Random, fmt: Float) -> tuple[float, str]:
    """Near the smallest number; in BF16, what FP16 could not hold."""
    scale = {"FP16": 1e-8, "BF16": 1e-8, "E4M3": 1e-4, "E5M2": 1e-6}[fmt.name]
    value = rng.randrange(1, 40) * scale
    text = f"{value:.3g}"
    return float(text), number(float(text))


def _stored_option(fmt: Float, stored: float, why: str) -> Option:
    if math.isnan(stored):
        holds = "stored != stored"
    elif math.isinf(stored):
        holds = "stored == float('inf')"
    else:
        holds = f"stored == {stored!r}"
    return Option(number(stored), why, holds, stored)


def _why_right(fmt: Float, value: float, shown: str, stored: float) -> str:
    if math.isinf(stored):
        return (
            f"Yes. The largest {fmt.name} number is {number(fmt.max)}, and from "
            f"{number(fmt.first_inf)} on, a cast gives inf."
        )
    if not fmt.has_inf and value > fmt.max:
        return (
            f"Yes. {fmt.name} has no inf, and since PyTorch 2.13 a cast stops at the largest "
            f"number, {number(fmt.max)}."
        )
    if stored == 0:
        return (
            f"Yes. The smallest {fmt.name} number is {power(fmt.tiny)}, about "
            f"{short(f'{fmt.tiny:.2g}')}. "
            f"{shown} is less than half of it."
        )
    if value > fmt.max:
        return (
            f"Yes. {shown} is above the largest {fmt.name} number, but it rounds to it: only from "
            f"{number(fmt.first_inf)} on, a cast gives inf."
        )
    near = f"{fmt.name} numbers are {number(fmt.gap(value))} apart here"
    if _is_tie(fmt, value):
        return f"Yes. {near}, so {shown} lies halfway. The tie goes to the even significand."
    return f"Yes. {near}, and this one is the nearest to {shown}."


def _is_tie(fmt: Float, value: float) -> bool:
    return fmt.below(value) + fmt.gap(value) / 2 == value


def _wrongly_stored(fmt: Float, value: float, shown: str, stored: float) -> list[Option]:
    """What people expect instead, by the mistake behind it."""
    found: list[tuple[float, str]] = []
    result = number(stored)
    if value > fmt.max:
        found += _wrong_when_large(fmt, shown, stored)
    elif stored == 0 or value < fmt.min_normal:
        found += _wrong_when_small(fmt, shown, stored)
    if value <= fmt.max:
        found += _wrong_neighbours(fmt, value, shown, result)
    other = BF16 if fmt is FP16 else FP16
    elsewhere = other.round(value)
    if elsewhere != value:
        found.append(
            (
                elsewhere,
                f"That is what {other.name} stores. It has {other.exponent_bits} exponent bits and "
                f"{other.mantissa_bits} bits of significand; {fmt.name} has {fmt.exponent_bits} "
                f"and {fmt.mantissa_bits}.",
            )
        )
    found.append((value, _why_not_exact(fmt, value, shown)))
    return [
        _stored_option(fmt, wrong, why)
        for wrong, why in found
        if wrong != stored and number(wrong) != result
    ]


def _wrong_when_large(fmt: Float, shown: str, stored: float) -> list[tuple[float, str]]:
    top = number(fmt.max)
    if not fmt.has_inf:
        return [
            (
                math.inf,
                f"FP16 and E5M2 would give inf, but {fmt.name} has none. It stops at {top}.",
            ),
            (math.nan, f"That was right before PyTorch 2.13. Since then the cast stops at {top}."),
        ]
    if math.isinf(stored):
        return [
            (
                fmt.max,
                f"That is the largest number, but casts to {fmt.name} don't stop there: from "
                f"{number(fmt.first_inf)} on, they give inf.",
            ),
            (
                2.0 ** (fmt.bias + 1),
                f"That would be the next number, but {fmt.name}'s largest exponent is reserved for "
                "inf and NaN.",
            ),
        ]
    return [
        (
            math.inf,
            f"{shown} is above {top}, but less than half a gap above, so it rounds down. From "
            f"{number(fmt.first_inf)} on, you'd get inf.",
        )
    ]


def _wrong_when_small(fmt: Float, shown: str, stored: float) -> list[tuple[float, str]]:
    found = []
    if stored == 0:
        found.append(
            (
                fmt.tiny,
                f"This clamps to the smallest number. Rounding goes to the nearest, and {shown} "
                "is nearer to 0.",
            )
        )
    else:
        found.append(
            (
                0.0,
                f"{shown} is below the smallest normal number, {number(fmt.min_normal)}. But "
                f"subnormal numbers go down to {number(fmt.tiny)}.",
            )
        )
    found.append(
        (
            fmt.min_normal,
            f"That is the smallest normal number. Below it there are subnormal ones, "
            f"{number(fmt.tiny)} apart, and 0.",
        )
    )
    return found


def _wrong_neighbours(fmt: Float, value: float, shown: str, result: str) -> list[tuple[float, str]]:
    below, above = fmt.below(value), fmt.above(value)
    gap = fmt.gap(value)
    coarse = math.floor(value / gap / 2) * 2 * gap
    reason = f"{shown} is nearer to {result}."
    if _is_tie(fmt, value):
        reason = f"{shown} lies halfway, and a tie goes to the even significand: {result}."
    return [
        (below, f"This cuts off the bits that don't fit. A cast rounds: {reason}"),
        (above, f"This rounds up. A cast takes the nearest number: {reason}"),
        *(
            (
                wrong,
                f"{fmt.name} has a number every {number(gap)} here. The two next to {shown} are "
                f"{number(below)} and {number(above)}.",
            )
            for wrong in (coarse, coarse + 2 * gap)
            if wrong not in (below, above)
        ),
    ]


def _why_not_exact(fmt: Float, value: float, shown: str) -> str:
    if value > fmt.max:
        return f"{shown} is beyond the largest {fmt.name} number, {number(fmt.max)}."
    if value < fmt.tiny:
        return f"{shown} is below the smallest {fmt.name} number, {power(fmt.tiny)}."
    if value == int(value):
        limit = 2 ** (fmt.mantissa_bits + 1)
        return (
            f"{fmt.name} stores all integers only up to {limit:,}. Near {shown} it has one every "
            f"{number(fmt.gap(value))}."
        )
    return (
        f"{shown} is not {fmt.a_number}: with {fmt.mantissa_bits} stored bits of "
        f"significand, its numbers are {number(fmt.gap(value))} apart here."
    )


@generator("number_formats.gen_next_float", "The next larger number", level=2, kind="single")
def next_float(rng: random.Random) -> Draft | None:
    fmt = rng.choice((FP16, BF16, FP32))
    exponent = rng.randint(20, 27) if fmt is FP32 else rng.randint(-1, 14)
    gap = 2.0 ** (exponent - fmt.mantissa_bits)
    value = fmt.below(float(f"{rng.uniform(1, 2) * 2.0**exponent:.2g}"))
    if rng.random() < 0.2:
        value = 2.0**exponent
    gap = fmt.gap(value)
    after = value + gap
    shown = number(value, 9)
    others = [other for other in (FP16, BF16, FP32) if other is not fmt]
    low = math.frexp(value)[1] - 1
    wrong = [
        (value + fmt.eps, f"{power(fmt.eps)} is the gap at 1. The gap doubles at each power of 2."),
        (value + 1, f"Integers are 1 apart, but {fmt.name} has a number every {number(gap)} here."),
        (
            value + 2 * gap,
            f"{number(2 * gap)} is the gap from {raised(low + 1)} on. Here it's half as much: "
            f"{number(gap)}.",
        ),
        (
            value + gap / 2,
            f"{number(gap / 2)} is half the gap: the largest rounding error, not the distance.",
        ),
        *(
            (
                value + other.gap(value),
                f"That is the gap of {other.name}, {number(other.gap(value))}.",
            )
            for other in others
        ),
    ]
    options = [
        Option(number(each, 9), why, f"after == {each!r}", each)
        for each, why in wrong
        if each != after and number(each, 9) != shown
    ]
    right = Option(
        number(after, 9),
        f"Yes. From {raised(low)} to {raised(low + 1)} the gap is {raised(low)} · "
        f"{power(fmt.eps)} = {number(gap)}.",
        f"after == {after!r}",
        after,
    )
    shown_choices = choices(rng, right, options, ascending=True)
    if shown_choices is None:
        return None
    return {
        "prompt": f"{shown} is {fmt.a_number}. Which is the next larger one?",
        "hint": f"Between two powers of two, {fmt.name} has {2**fmt.mantissa_bits:,} numbers, all "
        "the same distance apart.",
        "source": "IEEE 754-2019, 3.3; torch 2.13, torch.nextafter, run in the proof",
        "proof": f"import torch\n\nvalue = torch.tensor({value!r}, dtype={fmt.dtype})\n"
        "after = torch.nextafter(value, torch.full_like(value, float('inf'))).double().item()",
        "choice": shown_choices,
    }


@generator("number_formats.gen_gap", "The gap between two numbers", level=2, kind="number")
def gap_at(rng: random.Random) -> Draft | None:
    fmt = rng.choice((FP16, BF16))
    top = 60_000 if fmt is FP16 else 10_000_000
    value = int(float(f"{math.exp(rng.uniform(math.log(3), math.log(top))):.2g}"))
    gap, other = fmt.gap(value), BF16 if fmt is FP16 else FP16
    low = math.frexp(value)[1] - 1
    if value == 2**low:
        return None
    candidates = [
        (fmt.eps, f"That is the gap at 1, {power(fmt.eps)}. It doubles at each power of two."),
        (
            gap / 2,
            "That is half the gap: the largest rounding error, not the distance.",
        ),
        (
            2 * gap,
            f"{number(2 * gap)} is the gap from {raised(low + 1)} on, and {value:,} is below that.",
        ),
    ]
    if value < other.max:
        candidates.append(
            (other.gap(value), f"That is the gap in {other.name}, with {other.mantissa_bits} bits.")
        )
    wrong = mistakes(gap, 0.01, candidates)
    if wrong is None:
        return None
    return {
        "prompt": f"How far apart are two neighbouring {fmt.name} numbers near {value:,}?",
        "hint": f"Which powers of two is {value:,} between? Each such interval holds "
        f"{2**fmt.mantissa_bits:,} numbers.",
        "source": "IEEE 754-2019, 3.3; torch 2.13, torch.nextafter, run in the proof",
        "answer": gap,
        "tolerance": 0.01,
        "explanation": f"{value:,} lies between {raised(low)} = {2**low:,} and {raised(low + 1)}. "
        f"That interval of {2**low:,} holds {2**fmt.mantissa_bits:,} {fmt.name} numbers, so the "
        f"gap is {small(gap)}.",
        "mistake": wrong,
        "proof": f"import torch\n\nvalue = torch.tensor({value}.0).to({fmt.dtype})\n"
        "after = torch.nextafter(value, torch.full_like(value, float('inf')))\n"
        "answer = (after.double() - value.double()).item()",
    }


GENERATORS = (round_to, next_float, gap_at)
