"""Questions on the ingredients of mixed precision: a loss scale that fits, weights that move."""

from __future__ import annotations

import random

from amp_lessons.quiz.generators import histogram
from amp_lessons.quiz.generators.base import Draft, Option, choices, generator
from amp_lessons.quiz.generators.floats import BF16, FP16, Float
from amp_lessons.quiz.generators.formatting import number, power, raised, short

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
    tried = [least - rng.randint(3, 8), least // 2, least - rng.randint(2, 4), 16]
    low = sorted({each for each in tried if 1 <= each < least - 1})  # least - 1 rounds up
    tried = [most + rng.randint(2, 5), most + rng.randint(5, 9), 16]
    high = sorted({each for each in tried if each > most})
    if not low:
        return None
    options = [_scale_option(bins, each) for each in (*low, *high)]
    must = [_scale_option(bins, rng.choice(side)) for side in (low, high)]
    right = Option(
        raised(right_one),
        f"Yes. The smallest gradients move from {raised(first)} to {raised(first + right_one)}, "
        f"which FP16 can store, and the largest stay below {raised(last + 1 + right_one)}.",
        value=right_one,
    )
    shown = choices(rng, right, options, count=4, ascending=True, must=must)
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
    under = sum(share for e, share in bins.items() if e + scale < SMALLEST - 1)
    top = max(bins) + 1 + scale
    if under:
        why = (
            f"With this scale, {under}% of the gradients stay below {raised(SMALLEST - 1)}, half "
            "of FP16's smallest number, and become 0."
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
    weight = rng.choice((1, 1, 1.25, 1.5, 1.75)) * 2.0 ** rng.randint(-1, 8)
    below = weight - _next_below(fmt, weight)
    times = rng.choice((0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9, 1.2, 1.3, 1.7, 2.3))
    change = float(f"{below * times:.1g}")
    if abs(change / below % 1 - 0.5) < 0.05:
        return None  # too near to a tie
    stored = fmt.round(weight - fmt.round(change))
    if stored != fmt.round(weight - change) or change >= weight / 4:
        return None  # it would depend on how the update itself is rounded
    moved = f"{short(f'{change:.3g}')}"
    steps = [stored + below * n for n in (-2, -1, 1, 2) if stored + below * n <= weight]
    wrong = [
        (weight - change, f"That is the exact result. It is not {fmt.a_number}."),
        (
            weight,
            f"The update of {moved} is more than half the gap below the weight, so it isn't lost.",
        ),
        (_next_below(fmt, weight), _why_whole_gap(fmt, moved, change, below)),
        (other.round(weight - change), f"That is what {other.name} stores."),
        *(
            (
                each,
                f"{fmt.name} numbers are {_gap(below)} apart here, and {number(stored)} is nearer "
                "to the exact result.",
            )
            for each in steps
        ),
    ]
    texts = {each: number(each) for each, _ in wrong}
    options = [
        Option(texts[each], why, f"stored == {each!r}", each)
        for each, why in wrong
        if each != stored and texts[each] != number(stored)
    ]
    unchanged = [option for option in options if option.value == weight]
    right = Option(
        number(stored),
        _why_stored(fmt, weight, stored, moved, below),
        f"stored == {stored!r}",
        stored,
    )
    shown = choices(rng, right, options, ascending=True, must=unchanged)
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
    next_one = f"The next smaller {fmt.name} number is {_gap(gap)} away"
    if stored == weight:
        return f"Yes, the update is lost. {next_one}; {moved} is less than half of that."
    ratio, gaps = float(moved) / gap, round((weight - stored) / gap)
    size = "more than half of" if ratio < 1 else f"{ratio:.2g} times"
    if 0.95 < ratio < 1.05:
        size = "exactly" if ratio == 1 else "about as much as"
    moves = "one gap" if gaps == 1 else f"{gaps} gaps"
    return f"Yes. {next_one}; {moved} is {size} that, so the weight moves {moves}."


def _why_whole_gap(fmt: Float, moved: str, change: float, gap: float) -> str:
    ratio = change / gap
    off = (
        f"{moved} is less than half of that, and is lost"
        if ratio <= 0.5
        else f"{moved} is {ratio:.2g} times that"
    )
    return f"The next smaller {fmt.name} number is {_gap(gap)} away. But {off}."


def _gap(gap: float) -> str:
    """A gap as a power of two with its size: ``2⁻⁶ = 0.015625``."""
    size = f"{gap:.12f}".rstrip("0").rstrip(".")
    if gap >= 0.25:
        return size
    if len(size) <= 10:
        return f"{power(gap)} = {size}"
    return f"{power(gap)} (about {short(f'{gap:.2g}')})"


GENERATORS = (loss_scale, update)
