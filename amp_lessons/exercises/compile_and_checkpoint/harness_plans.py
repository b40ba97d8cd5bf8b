"""Blocks and budgets for `cheapest_plan`."""

from __future__ import annotations

import itertools
import random
from functools import partial

from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.probe import Case

Block = dict[str, int]
MOST = 7  # blocks, so that all plans can be tried


def plan_cases() -> list[Case]:
    """Blocks of several kinds, each with budgets that just fit some plan, or miss it by a byte."""
    draw = random.Random(draws.seed(21))
    made: list[Case] = []

    def blocks(count: int, same: bool = False) -> list[Block]:
        sizes = [(draw.randint(20, 90), draw.randint(150, 900)) for _ in range(count)]
        if same:
            sizes = [sizes[0]] * count
        # The powers of two at the end give each plan a cost of its own.
        costs = [2**MOST * draw.randint(4, 40) + 2**n for n in range(count)]
        return [
            {"input": size, "inside": inside, "cost": cost}
            for (size, inside), cost in zip(sizes, costs, strict=True)
        ]

    def case(kind: str, given: list[Block], budget: int) -> None:
        label = f"{len(given)} blocks, budget {budget}, case {len(made) + 1}"
        made.append(Case((given, budget), label, kind))

    for number in range(14):
        given = blocks(3 + number % 5, same=number % 7 == 6)
        peaks = sorted({peak(given, plan) for plan in plans(len(given))})
        full, least = peak(given, ()), peaks[0]
        between = [p for p in peaks if least < p < full]
        case("some blocks", given, draw.choice(between))
        case("some blocks", given, draw.choice(between) - 1)
        if number % 3 == 0:
            case("everything fits", given, full)
            case("one byte less than everything", given, full - 1)
        if number % 3 == 1:
            case("the smallest budget that fits", given, least)
            case("nothing fits", given, least - 1)
    kind = "two blocks that cost less than one"
    while len([each for each in made if each.kind == kind]) < 4:
        given = blocks(6)
        budget = draw.choice([peak(given, plan) for plan in plans(6)])
        fits = [plan for plan in plans(6) if peak(given, plan) <= budget]
        if len(min(fits, key=partial(cost, given))) > len(fits[0]):  # the shortest plans come first
            case(kind, given, budget)
    return made


def cost(blocks: list[Block], plan: tuple[int, ...]) -> int:
    return sum(blocks[n]["cost"] for n in plan)


def plans(count: int) -> list[tuple[int, ...]]:
    """All choices of blocks, those of few blocks first."""
    return [p for n in range(count + 1) for p in itertools.combinations(range(count), n)]


def peak(blocks: list[Block], plan: tuple[int, ...]) -> int:
    """The most bytes that are alive at once, in the backward pass of one of the blocks."""
    kept, most = 0, 0
    for number, block in enumerate(blocks):
        kept += block["input"]
        most = max(most, kept + block["inside"])
        kept += 0 if number in plan else block["inside"]
    return most
