"""Questions on the scale: what a pattern of overflows does to it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

from amp_lessons.quiz.generators.base import Draft, Option, choices, generator, mistakes
from amp_lessons.quiz.generators.formatting import count, listed, power, raised

SOURCE = "torch 2.13, torch/amp/grad_scaler.py, GradScaler.update"


def scales(
    overflows: Sequence[bool],
    start: float,
    interval: int,
    *,
    reset: bool = True,
    once: bool = False,
    late: bool = False,
) -> list[float]:
    """The scale after each `update()`, by GradScaler's rule or by a misconception of it.

    Args:
        overflows: for each step, whether a gradient overflows.
        start, interval: init_scale and growth_interval.
        reset: whether an overflow sets the count of clean steps back to 0.
        once: whether overflows in a row halve the scale only once.
        late: whether the scale grows one step later than it does.
    """
    scale, clean, before, found = start, 0, False, []
    for overflow in overflows:
        if overflow:
            scale = scale if once and before else scale / 2
            clean = 0 if reset else clean
        else:
            clean += 1
            if clean == interval + late:
                scale, clean = 2 * scale, int(late)
        before = overflow
        found.append(scale)
    return found


@generator("grad_scaler.gen_scales", "The scale after each step", level=2, kind="output")
def scale_by_step(rng: random.Random) -> Draft | None:
    start = rng.choice((4, 8, 16, 32, 64, 128, 256, 1024, 65536))
    interval, steps = rng.choice((2, 2, 3)), rng.randint(7, 10)
    first = rng.randrange(1, steps - 2)
    bad = {first, first + 1} if rng.random() < 0.5 else {first, rng.randrange(1, steps)}
    pattern = [step in bad for step in range(steps)]
    right = scales(pattern, start, interval)
    where = listed([str(step) for step in sorted(bad)])
    halved = (
        f"The overflow at step {where} halves it and sets the count back to 0"
        if len(bad) == 1
        else f"The overflows at steps {where} each halve it and set the count back to 0"
    )
    wrong = [
        (
            scales(pattern, start, interval, reset=False),
            "Here the count of clean steps survives the overflow. In fact an overflow sets it "
            f"back to 0, so it takes {interval} clean steps in a row to grow.",
        ),
        (
            scales(pattern, start, interval, once=True),
            f"This halves the scale once for the overflows at steps {where}. Each of them is a "
            "step of its own, and each halves it.",
        ),
        (
            scales(pattern, start, interval, late=True),
            "This grows one step too late. The scale doubles in the `update()` of the "
            f"{'second' if interval == 2 else 'third'} clean step in a row, not in the one after.",
        ),
        (
            [float(start), *right[:-1]],
            "That is the scale with which each step's loss was multiplied. The line prints it "
            "after `update()`.",
        ),
        (
            scales([False] * steps, start, interval),
            "This leaves the scale alone when gradients overflow. GradScaler halves it.",
        ),
    ]
    shown = choices(
        rng,
        Option(
            _line(right),
            f"The scale doubles after {interval} clean steps in a row. {halved}.",
        ),
        [Option(_line(values), why) for values, why in wrong],
    )
    if shown is None:
        return None
    return {
        "prompt": f"Gradients overflow at {_steps(sorted(bad))}, counted from 0. What does this "
        "print?",
        "code": _CODE.format(start=start, interval=interval, steps=steps, bad=_among(sorted(bad))),
        "hint": f"The scale doubles after {interval} clean steps in a row. What does an overflow "
        "do to that count?",
        "source": SOURCE,
        "choice": shown,
    }


_CODE = """
import torch

weight = torch.ones(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale={start}.0, growth_interval={interval})
scales = []
for step in range({steps}):
    optimizer.zero_grad()
    factor = float("inf") if step {bad} else 1.0
    scaler.scale((weight * factor).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    scales.append(int(scaler.get_scale()))
print(*scales)
"""


def _line(values: Sequence[float]) -> str:
    return " ".join(str(int(value)) for value in values)


def _among(steps: list[int]) -> str:
    return f"== {steps[0]}" if len(steps) == 1 else f"in ({', '.join(map(str, steps))})"


def _steps(steps: list[int]) -> str:
    return f"step{'s' * (len(steps) > 1)} {listed([f'{step:,}' for step in steps])}"


@generator("grad_scaler.gen_scale_later", "The scale much later", level=2, kind="number")
def scale_later(rng: random.Random) -> Draft | None:
    interval = rng.choice((100, 200, 500, 1000, 2000, 2000, 2000))
    start = 2.0 ** rng.choice((10, 12, 15, 16, 16, 16))
    bad = set(range(1, 1 + rng.randint(0, 4)))
    steps = round(interval * rng.uniform(1.6, 4.8) / 50) * 50
    for _ in range(rng.randint(1, 2)):
        late = round(rng.uniform(0.2, 0.9) * steps / 10) * 10
        bad |= set(range(late, late + rng.choice((1, 1, 2))))
    pattern = [step in bad for step in range(1, steps + 1)]
    answer = scales(pattern, start, interval)[-1]
    grown = (steps - len(bad)) // interval
    wrong = mistakes(
        answer,
        0.0,
        (
            (
                scales(pattern, start, interval, reset=False)[-1],
                f"This counts {interval:,} clean steps in all. They must be in a row: an overflow "
                "sets the count back to 0.",
            ),
            (
                scales(pattern, start, interval, once=True)[-1],
                "This halves the scale once for overflows in a row. Each of them halves it.",
            ),
            (
                start / 2 ** len(bad),
                f"This counts the {count(len(bad), 'halving')} and leaves out the growth.",
            ),
            (
                start * 2**grown,
                f"This doubles every {interval:,} steps and leaves out the overflows.",
            ),
        ),
    )
    if wrong is None:
        return None
    return {
        "prompt": f"A GradScaler starts at {power(start)} = {int(start):,} with "
        f"`growth_interval={interval}`. Counted from 1, the gradients of "
        f"{_steps(sorted(bad))} overflow. What is the scale after the `update()` of step "
        f"{steps:,}?",
        "hint": "Which stretches between two overflows are long enough for the scale to grow?",
        "source": SOURCE,
        "answer": answer,
        "explanation": _told(sorted(bad), start, interval, steps, answer),
        "mistake": wrong,
        "proof": "import torch\n\nweight = torch.ones(1, requires_grad=True)\n"
        "optimizer = torch.optim.SGD([weight], lr=0.1)\n"
        f'scaler = torch.amp.GradScaler("cpu", init_scale={start}, growth_interval={interval})\n'
        f"for step in range(1, {steps} + 1):\n    optimizer.zero_grad()\n"
        f"    factor = float('inf') if step in {sorted(bad)} else 1.0\n"
        "    scaler.scale((weight * factor).sum()).backward()\n"
        "    scaler.step(optimizer)\n    scaler.update()\nanswer = scaler.get_scale()",
    }


_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


def _told(bad: list[int], start: float, interval: int, steps: int, answer: float) -> str:
    """The clean stretches, and how often the scale grows in each."""
    edges = [0, *bad, steps + 1]
    stretches = [later - early - 1 for early, later in pairwise(edges)]
    grown = [length for length in stretches if length >= interval]
    doublings = sum(length // interval for length in grown)
    if len(grown) == 1:
        growth = (
            f"A stretch of {grown[0]:,} clean steps leaves room for {count(doublings, 'doubling')}."
        )
    elif grown:
        growth = (
            f"Stretches of {listed([f'{length:,}' for length in grown])} clean steps leave room "
            f"for {count(doublings, 'doubling')}."
        )
    else:
        growth = f"No clean stretch reaches {interval:,} steps, so the scale never doubles."
    often = "twice" if len(bad) == 2 else f"{_COUNTS[len(bad)]} times"
    halved = (
        "One step overflows, so the scale is halved once."
        if len(bad) == 1
        else f"{_COUNTS[len(bad)].capitalize()} steps overflow, so the scale is halved {often}."
    )
    return (
        f"{halved} {growth} So it ends at {int(start):,} · {raised(doublings)} / "
        f"{raised(len(bad))} = {answer:,g}."
    )


GENERATORS = (scale_by_step, scale_later)
