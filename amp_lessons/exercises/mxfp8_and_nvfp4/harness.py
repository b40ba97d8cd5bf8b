"""What the answers are handed: magnitudes, grids, matrices and a quantiser.

Each ``play`` returns a dict in the learner's terms, the most telling entry first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from amp_lessons.amp.numbers.blocks.quantize import NVFP4, ElementRounding, quantize_blocks
from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import Answer, as_play, from_seed, is_tensor
from amp_lessons.exercises.varied import Varied

FP4 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])

# ---- e8m0_scale(amax, largest) ------------------------------------------------------------------


def scale_cases() -> list[Case]:
    """Magnitudes that floor, ceil and a rounded logarithm scale in another way, and the ends."""
    vary = Varied(1)
    cases = []
    for largest in (6.0, 448.0, 28.0):
        room = math.frexp(largest)[0] * 2  # 1.5 or 1.75: what amax may be above a power of two
        for exponent in (3, -9):
            power = vary.shifted(2.0**exponent)
            below, above = 1 + 0.6 * (room - 1), 1 + room / 2
            cases += [
                Case((vary.near(power * below, 0.02), largest), kind="an amax a little above 2**k"),
                Case((vary.near(power * above, 0.02), largest), kind="an amax far above 2**k"),
                Case((power, largest), kind="an amax that is a power of two"),
                Case((power * room, largest), kind="an amax that is largest times a power of two"),
            ]
    just = float(torch.nextafter(torch.tensor(448.0 * 2**20), torch.tensor(math.inf)))
    tiny, zero = "an amax below 2**-120", "a block of zeros"
    return [
        *cases,
        Case((just, 448.0), kind="an amax that is one ulp above largest times a power of two"),
        Case((just / 2**10, 448.0), kind="an amax that is one ulp above largest times a power"),
        Case((2.0**-124, 448.0), kind=tiny),
        Case((2.0**-130 * vary.near(1.4), 6.0), kind=tiny),
        Case((0.0, 448.0), kind=zero),
        Case((0.0, 6.0), kind=zero),
    ]


# ---- stochastic_rounding(x, grid) ---------------------------------------------------------------

COPIES = 20_000
"""How many draws a mean is taken of: it is right to 0.004 of a gap, as a standard deviation."""


def rounding_cases() -> list[Case]:
    vary = Varied(2)
    signed = torch.cat([-FP4.flip(0)[:-1], FP4])
    uneven = torch.tensor([-3.0, -1.0, 0.0, 0.25, 1.0, 5.0])

    def between(grid: Tensor, place: int, share: float) -> float:
        low, high = grid[place].item(), grid[place + 1].item()
        return low + vary.near(share, 0.02) * (high - low)

    fp4, beyond = "numbers between those of FP4", "numbers beyond the ends"
    on, other = "numbers of the grid", "a grid with gaps of other sizes"
    return [
        Case((between(signed, 13, 0.3), signed), "between 4 and 6", fp4),
        Case((between(signed, 11, 0.2), signed), "between 2 and 3", fp4),
        Case((between(signed, 7, 0.2), signed), "between 0 and 0.5", fp4),
        Case((between(signed, 1, 0.7), signed), "between -4 and -3", "negative numbers"),
        Case((between(signed, 5, 0.8), signed), "between -1 and -0.5", "negative numbers"),
        Case((between(uneven, 4, 0.2), uneven), "between 1 and 5", other),
        Case((between(uneven, 0, 0.7), uneven), "between -3 and -1", other),
        Case((3.0, signed), "3, which FP4 has", on),
        Case((-1.0, uneven), "-1, which the grid has", on),
        Case((6.0, signed), "6, the end of the grid", "the last number of the grid"),
        Case((5.0, uneven), "5, the end of the grid", "the last number of the grid"),
        Case((vary.near(7.0), signed), "7, beyond 6", beyond),
        Case((vary.near(-9.0), uneven), "-9, below -3", beyond),
    ]


@as_play
def play_rounding(answer: Answer, x: float, grid: Tensor) -> Any:
    """What many copies of one number become, and whether each has a draw of its own."""
    numbers = torch.full((100, COPIES // 100), x)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        first, second = (answer(numbers.clone(), grid.clone()) for _ in range(2))
        if not is_tensor(first) or first.shape != numbers.shape:
            return {"returned": "a tensor of another shape" if is_tensor(first) else "no tensor"}
        several = [answer(numbers[:1, :4].clone(), grid.clone()) for _ in range(60)]
    values = first.unique().tolist()
    if not set(values) <= set(grid.tolist()):
        return {"rounded to": "NaN" if first.isnan().any() else "numbers that aren't in the grid"}
    inside = min(max(x, grid[0].item()), grid[-1].item())
    near = neighbours(inside, grid)
    if not set(values) <= {*near, inside}:
        return {"rounded to": "numbers of the grid that aren't neighbours"}
    if len(values) == 1 and len({call[0, 0].item() for call in several}) > 1:
        return {"rounded to": "a neighbour, the same for all numbers of a call"}
    if len(values) > 1 and torch.equal(first, second):
        return {"rounded to": "a neighbour, with the same draws in each call"}
    off = (first.double().mean().item() - inside) / (near[1] - near[0])
    which = {"of the number": x} if draws.salted() else {}  # the rest is the same for most of them
    return {"rounded to": "a neighbour", "off on average, in gaps": round(off, 1) + 0.0} | which


def neighbours(x: float, grid: Tensor) -> tuple[float, float]:
    """The numbers of the grid below and above; for one of the grid, those around it."""
    numbers = grid.tolist()
    below = [n for n in numbers if n < x] or numbers[:1]
    above = [n for n in numbers if n > x] or numbers[-1:]
    return below[-1], above[0]


# ---- block_quantizer(x, scale_of) ---------------------------------------------------------------


def fp4(values: Tensor) -> Tensor:
    """The nearest numbers of FP4, ties to the even mantissa. What lies beyond 6 becomes 6."""
    sizes = values.abs()
    gap = torch.where(sizes < 2, 0.5, torch.where(sizes < 4, 1.0, 2.0))
    return ((sizes / gap).round() * gap).clamp(max=6).copysign(values)


def by_largest(amax: Tensor) -> Tensor:
    """amax becomes 6; a block of zeros has the scale 0."""
    return amax / 6


def by_floor(amax: Tensor) -> Tensor:
    """The power of two of OCP's floor rule; 2**-127 for zeros."""
    return torch.ldexp(torch.ones_like(amax), torch.frexp(amax)[1] - 3).clamp(min=2.0**-127)


def matrix_cases() -> list[Case]:
    vary = Varied(3)

    def draw(seed: int, rows: int, columns: int) -> Tensor:
        sizes = 2.0 ** torch.randint(-6, 6, (rows, columns // 16, 1), generator=from_seed(seed))
        random = torch.randn(rows, columns // 16, 16, generator=from_seed(seed + 50))
        return (sizes * random).flatten(1)

    skewed, zeros, fixed = draw(3, 16, 32), draw(4, 16, 48), draw(7, 48, 32)
    skewed[:, 3] = -vary.near(90.0)
    zeros[2, 16:32], zeros[0, :16] = 0, 0
    largest, floor, zero = (
        "scales that take amax to 6",
        "scales by the floor rule",
        "zeros in a block",
    )
    return [
        Case((draw(1, 32, 64), by_largest), "32 rows of 64", largest),
        Case((draw(2, 16, 16), by_largest), "16 rows of 16", largest),
        Case((draw(5, 32, 32), by_floor), "32 rows of 32", floor),
        Case((fixed, by_floor), "48 rows of 32", floor),
        Case((skewed, by_largest), "16 rows of 32, the largest are negative", "negative numbers"),
        Case((-skewed.abs(), by_largest), "16 rows of 32, all negative", "negative numbers"),
        Case((zeros, by_largest), "16 rows of 48, two blocks are zero", zero),
        Case((torch.zeros(16, 32), by_largest), "all zero", zero),
    ]


@as_play
def play_quantizer(answer: Answer, x: Tensor, scale_of: Callable[[Tensor], Tensor]) -> Any:
    result = answer(x, scale_of)
    if not isinstance(result, tuple | list) or len(result) != 2 or not all(map(is_tensor, result)):
        return {"returned": "not a pair of tensors"}
    elements, scales = result
    return {
        "shape of the scales": list(scales.shape),
        "shape of the elements": list(elements.shape),
        "scales": scales.double().flatten().tolist(),
        "elements": elements.double().flatten().tolist(),
    }


# ---- recipe_hole(x, weight, gradient, quantise) -------------------------------------------------


def rows_in_nvfp4(matrix: Tensor, stochastic: bool = False) -> Tensor:
    """What NVFP4 leaves of a matrix, in blocks of 16 along each row. The same draw each time."""
    format = replace(NVFP4, rounding=ElementRounding.STOCHASTIC) if stochastic else NVFP4
    return quantize_blocks(matrix, format, torch.Generator().manual_seed(0)).dequantize()


def layer_cases() -> list[Case]:
    vary = Varied(4)

    def case(seed: int, batch: int, inputs: int, outputs: int) -> Case:
        batch += 16 * vary.more(0, 2)
        shapes = (batch, inputs), (outputs, inputs), (batch, outputs)
        tensors = [
            torch.randn(*s, generator=from_seed(10 * seed + i)) for i, s in enumerate(shapes)
        ]
        label = f"{batch} rows, {inputs} inputs, {outputs} outputs"
        return Case((tensors[0], tensors[1], tensors[2]), label)

    return [case(1, 32, 48, 16), case(2, 48, 16, 64), case(3, 32, 32, 32)]


@as_play
def play_layer(answer: Answer, x: Tensor, weight: Tensor, gradient: Tensor) -> Any:
    result = answer(x, weight, gradient, rows_in_nvfp4)
    if not isinstance(result, tuple | list) or len(result) != 3 or not all(map(is_tensor, result)):
        return {"returned": "not three tensors"}
    names = ("output", "gradient of the input", "gradient of the weight")
    shapes = ((len(x), len(weight)), tuple(x.shape), tuple(weight.shape))
    for name, tensor, shape in zip(names, result, shapes, strict=True):
        if tuple(tensor.shape) != shape:
            return {"wrong shape": f"{name} has the shape {tuple(tensor.shape)}, not {shape}"}
    return {n: t.double().flatten().tolist() for n, t in zip(names, result, strict=True)}
