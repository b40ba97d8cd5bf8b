"""Questions on sums that stop growing, and on gradients that don't fit into a format."""

from __future__ import annotations

import random

from amp_lessons.quiz.generators import histogram
from amp_lessons.quiz.generators.base import Draft, Option, choices, generator, mistakes
from amp_lessons.quiz.generators.floats import BF16, E4M3, E5M2, FP16, Float
from amp_lessons.quiz.generators.formatting import number, power, raised


@generator("how_numbers_break.gen_sum_stops", "Where a sum stops", level=2, kind="number")
def sum_stops(rng: random.Random) -> Draft | None:
    fmt, other = rng.choice(((FP16, BF16), (BF16, FP16)))
    term = rng.choice(
        (rng.randrange(1, 200) / 1000, rng.randrange(1, 100) / 100, rng.randrange(1, 100) / 10)
    )
    end, steps = _sum_of(term, fmt)
    many = rng.choice((10_000, 20_000, 50_000, 100_000, 1_000_000))
    if many < 2 * steps:
        return None
    gap, limit = fmt.gap(end), 2 ** (fmt.mantissa_bits + 1)
    half = number(gap / 2)
    lost = (
        f"{number(term)} is less than half of that ({half}), so the sum stays at {number(end)}"
        if fmt.round(term) < gap / 2
        else f"The term, {number(fmt.round(term))}, is exactly half of that. The tie goes to the "
        f"even significand, so the sum stays at {number(end)}"
    )
    wrong = mistakes(
        end,
        0.01,
        (
            (many * term, "That is the true sum. It would need an accumulator in FP32."),
            (
                _sum_of(term, other)[0],
                f"That is where {other.name} stops. It has {other.mantissa_bits} stored bits of "
                f"significand, and {fmt.name} has {fmt.mantissa_bits}.",
            ),
            (
                limit,
                f"{limit:,} is where a sum of ones stops. Smaller terms stop "
                "earlier, larger ones later.",
            ),
            *(
                [(FP16.max, "65,504 is FP16's largest number. The sum stops long before.")]
                if fmt is FP16 and many * term > FP16.max
                else []
            ),
        ),
    )
    if wrong is None:
        return None
    return {
        "prompt": f"`total` and `term` are {fmt.name} tensors, 0 and {number(term)}. A loop runs "
        f"`total = total + term` {many:,} times. What is `total` then?",
        "hint": f"A term is lost when it is less than half the gap between two {fmt.name} numbers.",
        "source": "IEEE 754-2019, 4.3.1; torch 2.13, run in the proof",
        "answer": end,
        "tolerance": 0.01,
        "explanation": f"From {number(end)} on, {fmt.name} numbers are {number(gap)} apart. "
        f"{lost}. This happens after {steps:,} terms, and the rest are lost.",
        "mistake": wrong,
        "proof": f"import torch\n\ntotal = torch.tensor(0.0, dtype={fmt.dtype})\n"
        f"term = torch.tensor({term!r}, dtype={fmt.dtype})\n"
        "while total + term != total:\n    total = total + term\nanswer = total.item()",
    }


def _sum_of(term: float, fmt: Float) -> tuple[float, int]:
    """Where a sum of equal terms stops growing, and after how many."""
    term, total, steps = fmt.round(term), 0.0, 0
    while (after := fmt.round(total + term)) != total:
        total, steps = after, steps + 1
    return total, steps


@generator(
    "how_numbers_break.gen_which_format", "A format for these gradients", level=2, kind="trace"
)
def which_format(rng: random.Random) -> Draft | None:
    formats = (E4M3, E5M2, FP16, BF16)
    wanted = rng.choice(formats)
    low, high = _range(wanted)
    lowest = rng.randint(max(low, -40), min(high, 14) - 6)
    bins = histogram.draw(rng, lowest, rng.randint(6, min(high, lowest + 24) - lowest))
    first, last = min(bins), max(bins)
    if any(first == _range(each)[0] - 1 for each in formats):
        return None  # half the smallest number and more: a cast rounds it up, so nothing is lost
    what = "gradients" if last < 0 else "activations"
    fits = [each for each in formats if _range(each)[0] <= first and last <= _range(each)[1]]
    if not fits:
        return None
    best = min(fits, key=lambda each: (_bits(each), -each.mantissa_bits))
    right = Option(
        best.name,
        f"Yes. Its numbers reach from {power(best.tiny)} to {number(best.max)}, so none of these "
        f"becomes 0 or too large. {_smallest(best, fits)}",
    )
    wrong = [_why_other(each, best, bins, what) for each in formats if each is not best]
    return {
        "prompt": f"A tensor of {what} has these magnitudes. You may not scale it. Which is the "
        "smallest format in which none of them becomes 0 or too large? Of two formats of the same "
        "size, take the one with more bits of significand.",
        "log": histogram.text(bins),
        "hint": "Look at the first and the last row. Which of the two does each format lose?",
        "source": "IEEE 754-2019; OCP 8-bit Floating Point Specification 1.0; cast in the tests",
        "choice": choices(rng, right, wrong, count=4),
    }


def _range(fmt: Float) -> tuple[int, int]:
    """The binades, from 2^first up to below 2^(last + 1), that don't vanish and don't overflow."""
    top = fmt.bias if fmt.has_inf else fmt.bias + 1
    return fmt.min_exponent - fmt.mantissa_bits, top - 1


def _bits(fmt: Float) -> int:
    return 1 + fmt.exponent_bits + fmt.mantissa_bits


def _smallest(best: Float, fits: list[Float]) -> str:
    """Why no other format is the one to take."""
    if _bits(best) == 8:
        if sum(_bits(each) == 8 for each in fits) == 1:
            return f"Of the 8-bit formats, only {best.name} holds them all."
        return f"Both 8-bit formats hold them all, and {best.name} has more bits of significand."
    if len(fits) == 1:
        return f"Only {best.name} holds them all."
    return (
        f"No 8-bit format holds them all, and {best.name} has more bits of significand than BF16."
    )


def _why_other(fmt: Float, best: Float, bins: dict[int, int], what: str) -> Option:
    low, high = _range(fmt)
    under = sum(share for e, share in bins.items() if e < low - 1)
    over = sum(share for e, share in bins.items() if e > high)
    if under:
        why = (
            f"The smallest {fmt.name} number is {power(fmt.tiny)}. Those below "
            f"{power(fmt.tiny / 2)} become 0: {under}% of these {what}."
        )
        if over:
            why += (
                f" The last row reaches {raised(max(bins) + 1)}, and {fmt.name}'s largest number "
                f"is {number(fmt.max)}."
            )
    elif over:
        why = (
            f"The largest {fmt.name} number is {number(fmt.max)}, and {what} in the last row "
            f"reach {raised(max(bins) + 1)}."
        )
    else:
        why = (
            f"All of them fit, but they also fit into the {_bits(best)} bits of {best.name}."
            if _bits(fmt) > _bits(best)
            else f"All of them fit, but {fmt.name} has {fmt.mantissa_bits} stored bits of "
            f"significand, and {best.name} has {best.mantissa_bits}."
        )
    return Option(fmt.name, why)


GENERATORS = (sum_stops, which_format)
