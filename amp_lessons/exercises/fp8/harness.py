"""What the answers are handed: tensors of all sizes, to be stored in FP8.

Each ``play`` returns a dict in the learner's terms, the most telling entry first.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import Answer, as_play, dtype_or_type, from_seed, is_tensor
from amp_lessons.exercises.varied import Varied

# ---- to_float8(x) -------------------------------------------------------------------------------


def float8_cases() -> list[Case]:
    vary = Varied(1)

    def draw(seed: int, size: float, *shape: int) -> Tensor:
        rows = vary.more(shape[0], 50)
        return size * torch.randn(rows, *shape[1:], generator=from_seed(seed))

    skewed, below = draw(3, 1.0, 6, 5), -draw(8, 0.2, 9).abs()
    skewed[2, 1] = -11.0
    short, tiny, zero = "FP16 tensors", "tensors of tiny numbers", "tensors of zeros"
    return [
        Case((draw(1, 1e-3, 7, 9),), "float32, size 0.001"),
        Case((draw(2, 3e3, 40),), "float32, size 3000"),
        Case((draw(7, 1e9, 5, 4),), "float32, size 1e9"),
        Case((draw(6, 20.0, 16).bfloat16(),), "BF16, size 20"),
        Case((skewed,), "float32, the largest magnitude is that of a negative number"),
        Case((below,), "float32, all negative"),
        Case((draw(4, 1e-9, 3, 4, 2),), "float32, size 1e-9", tiny),
        Case((draw(9, 4e-10, 2, 6),), "float32, size 4e-10", tiny),
        Case((draw(5, 1e-4, 8, 3).half(),), "FP16, size 0.0001", short),
        Case((draw(10, 1e-3, 12).half(),), "FP16, size 0.001", short),
        Case((torch.zeros(vary.more(4, 50), 3),), "float32, all zero", zero),
        Case((torch.zeros(vary.more(5, 50), dtype=torch.bfloat16),), "BF16, all zero", zero),
    ]


@as_play
def play_float8(answer: Answer, x: Tensor) -> Any:
    exact = x.double()  # before the answer can change it
    result = answer(x)
    if not isinstance(result, tuple | list) or len(result) != 2:
        return {"returned": type(result).__name__}
    q, scale = result
    if not is_tensor(q) or q.shape != x.shape:
        return {"returned": "a pair", "q": "not a tensor with the shape of x"}
    found = quality(exact, q.double(), one_number(scale))
    if draws.salted():  # the rest says nothing about which x this is
        found["numbers in x"] = x.numel()
    return {"returned": "a pair", "dtype of q": dtype_or_type(q), **found}


def one_number(scale: Any) -> float | str:
    if is_tensor(scale) and scale.numel() != 1:
        return f"a tensor with {scale.numel()} elements"
    known = is_tensor(scale) or type(scale) in (int, float, np.float16, np.float32, np.float64)
    return float(scale) if known else f"a {type(scale).__name__}"


def quality(x: Tensor, q: Tensor, scale: float | str) -> dict[str, Any]:
    """Whether the scale is a positive number, q uses the range of E4M3, and q / scale is x."""
    if isinstance(scale, str):
        return {"scale": scale}
    if not math.isfinite(scale) or scale <= 0:
        return {"scale": f"{scale:.4g}" if math.isfinite(scale) else "not finite"}
    if not q.isfinite().all():
        return {"scale": "one positive number", "numbers in q": "not all finite"}
    used = range_used(x, q.abs().max().item(), math.frexp(scale)[0] == 0.5)
    found = {"scale": "one positive number", "numbers in q": "finite", "largest |q|": used}
    if used in ("0", "below 448"):
        return found
    ways = {"q / scale": q / scale, "q * scale": q * scale, "neither of the two": x}
    back = next(way for way, result in ways.items() if close(result, x))
    return found | {"what gives x back, q / scale or q * scale": back}


def range_used(x: Tensor, largest: float, power_of_two: bool) -> str:
    if not x.any():
        return "any"
    if largest == 448 or (power_of_two and largest >= 224):
        return "448, or from 224 on with a power of two"
    return "below 448" if largest > 0 else "0"


def close(y: Tensor, x: Tensor) -> bool:
    """Half an ulp of a normal number is 2**-4 of it. That of a subnormal one is 2**-10, and the
    scale may be a power of two, so up to twice too small."""
    allowed = x.abs() * 2.0**-4 + x.abs().max() * 2.0**-9 * 2.0**-8
    return bool(((y - x).abs() <= allowed).all())
