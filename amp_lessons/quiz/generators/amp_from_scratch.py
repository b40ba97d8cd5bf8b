"""Questions on the ingredients of mixed precision: a loss scale that fits, weights that move."""

from __future__ import annotations

import random

from amp_lessons.quiz.generators import histogram
from amp_lessons.quiz.generators.base import Draft, Option, choices, generator
from amp_lessons.quiz.generators.floats import BF16, FP16, Float
from amp_lessons.quiz.generators.words import count, number, raised, short, small

SMALLEST, LARGEST = -24, 14
"""The binades in which FP16 neither loses a number nor overflows."""


@generator("amp_from_scratch.gen_loss_scale", "A loss scale that fits", level=2, kind="trace")
def loss_scale(rng: random.Random) -> Draft | None:
    lowest = rng.randint(-48, -26)
    bins = histogram.draw(rng, lowest, rng.randint(8, 18))
    first, last = min(bins), max(bins)
    least, most = SMALLEST - first, LARGEST - last
    if least > most or least < 2:
        return None
    right_one = rng.randint(max(least, most - 6), most) if rng.random() < 0.5 else least
    low = [least - rng.randint(3, 8), max(1, least // 2), least - rng.randint(2, 4)]
    high = [most + rng.randint(2, 5), most + rng.randint(5, 9)]
    default = [16] if not least <= 16 <= most else []
    tried = [*low, *high, *default]
    options = [
        _scale_option(bins, each) for each in tried if each >= 1 and not least <= each <= most
    ]
    right = Option(
        raised(right_one),
        f"Yes. The smallest gradients move from {raised(first)} to {raised(first + right_one)}, "
        f"which FP16 can store, and the largest stay below {raised(last + 1 + right_one)}.",
        value=right_one,
    )
    shown = choices(rng, right, options, ascending=True)
    if shown is None:
        return None
    return {
        "prompt": "The gradients of a network, as FP32 computes them, have these magnitudes. With "
        "which loss scale does none of them become 0 or inf in FP16?",
        "log": histogram.text(bins),
        "hint": f"FP16's smallest number is {raised(-24)}, and it overflows a little below "
        f"{raised(16)}. A scale of {raised(8)} moves each row up by 8 powers of two.",
        "source": "Micikevicius et al. 2018, arXiv 1710.03740, section 3.2; cast in the tests",
        "choice": shown,
    }


def _scale_option(bins: dict[int, int], scale: int) -> Option:
    under = sum(share for e, share in bins.items() if e + scale < SMALLEST)
    top = max(bins) + 1 + scale
    if under:
        why = (
            f"With this scale, {under}% of the gradients stay below FP16's smallest number, "
            f"{raised(SMALLEST)}."
        )
    else:
        why = (
            f"With this scale, the last row reaches {raised(top)}, and FP16 gives inf from "
            "65,520 on."
        )
    if scale == 16:
        why = f"2¹⁶ is GradScaler's default start. {why}"
    return Option(raised(scale), why, value=scale)


@generator("amp_from_scratch.gen_update", "Does this update survive?", level=2, kind="single")
def update(rng: random.Random) -> Draft | None:
    fmt, other = rng.choice(((FP16, BF16), (BF16, FP16)))
    weight = fmt.round(float(f"{rng.uniform(1, 2) * 2.0 ** rng.randint(-6, 4):.2g}"))
    if rng.random() < 0.3:
        weight = 2.0 ** rng.randint(-4, 3)
    below = weight - _next_below(fmt, weight)
    change = float(
        f"{below * rng.choice((0.1, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9, 1.2, 1.3, 1.7, 2.3)):.1g}"
    )
    stored = fmt.round(weight - fmt.round(change))
    if stored != fmt.round(weight - change) or change >= weight / 4:
        return None  # it would depend on how the update itself is rounded
    moved = f"{short(f'{change:.3g}')}"
    steps = [stored + below * n for n in (-2, -1, 1, 2) if stored + below * n <= weight]
    wrong = [
        (weight - change, f"That is the exact result. It is not {fmt.a_number}."),
        (
            weight,
            f"The update of {moved} is more than half the gap below the weight, so it counts.",
        ),
        (_next_below(fmt, weight), _why_whole_gap(fmt, moved, change, below)),
        (other.round(weight - change), f"That is what {other.name} stores."),
        *(
            (each, f"{fmt.name} numbers are {number(below)} apart here, so another one is nearer.")
            for each in steps
        ),
    ]
    texts = {each: number(each) for each, _ in wrong}
    options = [
        Option(texts[each], why, f"stored == {each!r}", each)
        for each, why in wrong
        if each != stored and texts[each] != number(stored)
    ]
    right = Option(
        number(stored),
        _why_stored(fmt, weight, stored, moved, below),
        f"stored == {stored!r}",
        stored,
    )
    shown = choices(rng, right, options, ascending=True)
    if shown is None:
        return None
    return {
        "prompt": f"A weight is stored in {fmt.name} as {number(weight)}. The optimizer subtracts "
        f"{moved} (learning rate times gradient), with no FP32 copy of the weight. What is stored "
        "then?",
        "hint": f"How far is it from {number(weight)} to the next smaller {fmt.name} number?",
        "source": "IEEE 754-2019, 4.3.1; torch 2.13, run in the proof",
        "proof": f"import torch\n\nweight = torch.tensor({weight!r}, dtype={fmt.dtype})\n"
        f"stored = (weight - torch.tensor({change!r}, dtype={fmt.dtype})).item()",
        "choice": shown,
    }


def _next_below(fmt: Float, value: float) -> float:
    """The largest number below a number of the format. Just below a power of two the gap halves."""
    return value - fmt.gap(value * (1 - 2.0**-20))


def _why_stored(fmt: Float, weight: float, stored: float, moved: str, gap: float) -> str:
    distance = f"From the weight to the next smaller {fmt.name} number it is {small(gap)}."
    if stored == weight:
        return (
            f"Yes, the update is lost. {distance} An update of {moved} is less than half of that."
        )
    gaps = round((weight - stored) / gap)
    return (
        f"Yes. {distance} An update of {moved} rounds to {count(gaps, 'such gap')}, so the weight "
        f"moves by {number(weight - stored, 4)}."
    )


def _why_whole_gap(fmt: Float, moved: str, change: float, gap: float) -> str:
    ratio = change / gap
    off = (
        f"{moved} is less than half of that, and is lost"
        if ratio <= 0.5
        else f"{moved} is {ratio:.2g} times that"
    )
    return f"This is one step down to the next {fmt.name} number: {small(gap)}. But {off}."


GENERATORS = (loss_scale, update)
