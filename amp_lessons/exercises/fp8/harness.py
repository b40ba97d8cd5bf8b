"""What the answers are handed: tensors of all sizes, to be stored in FP8.

Each ``play`` returns a dict in the learner's terms, the most telling entry first.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

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


# ---- DelayedScale(length), with cast(x) ---------------------------------------------------------


def delayed_cases() -> list[Case]:
    vary = Varied(2)

    def stream(seed: int, *sizes: float) -> list[Tensor]:
        """Tensors whose largest magnitude is each size; that of a negative number is one's sign."""
        found = []
        for step, size in enumerate(sizes):
            x = torch.rand(vary.more(6, 20), generator=from_seed(100 * seed + step)) - 0.5
            x[step % len(x)] = 1.0
            found.append(x * vary.near(size) if math.isfinite(size) else broken(x, size))
        return found

    def broken(x: Tensor, size: float) -> Tensor:
        x[1] = size
        return x

    inf, nan = math.inf, math.nan
    idle, bad, down = "tensors of zeros", "inf and NaN", "negative numbers"
    return [
        Case((3, stream(1, 1.0, 2.5, 1.5, 0.7, 0.9, 0.6, 0.8)), "3 remembered, sizes near 1"),
        Case((2, stream(2, 1.0, 1.2, 60.0, 50.0, 70.0, 55.0)), "2 remembered, sizes jump to 60"),
        Case((3, stream(3, 0.01, 0.012, 0.9, 0.008, 0.01, 0.011, 0.009)), "3 remembered, a spike"),
        Case((1, stream(4, 3e-7, 5e-7, 2e-7, 4e-7)), "1 remembered, sizes near 1e-7"),
        Case((2, stream(5, 2.0, 0.0, 0.0, 0.0, 3.0, 1.0)), "2 remembered, zeros for a while", idle),
        Case((3, stream(6, 0.0, 0.0, 40.0, 30.0, 0.0, 20.0)), "3 remembered, zeros at first", idle),
        Case((1, stream(11, 2.0, 0.0, 3.0, 0.0, 1.0)), "1 remembered, zeros in between", idle),
        Case((1, stream(12, 6.0, inf, 5.0, 7.0, 6.0)), "1 remembered, an inf", bad),
        Case((2, stream(13, 3.0, 4.0, nan, 2.0, nan, 5.0)), "2 remembered, two NaN", bad),
        Case((2, stream(7, 5.0, 4.0, inf, 6.0, 3.0, 7.0)), "2 remembered, an inf", bad),
        Case((3, stream(8, 0.5, nan, 0.7, nan, 0.6, 0.4)), "3 remembered, two NaN", bad),
        Case((2, stream(9, -8.0, -3.0, -9.0, 2.0, 1.0)), "2 remembered, mostly negative", down),
        Case((1, stream(10, -0.3, -0.8, 0.2, -0.5)), "1 remembered, mostly negative", down),
    ]


@as_play
def play_delayed(answer: Answer, length: int, tensors: list[Tensor]) -> Any:
    """A history sees the tensors of one layer; that of another layer sees others in between."""
    history, other = answer(length), answer(length)
    if missing := next((True for each in (history,) if not hasattr(each, "cast")), False):
        return {"method cast": "missing" if missing else ""}
    scales: list[Any] = []
    for number, x in enumerate(tensors):
        other.cast(torch.full((3,), 1000.0 * (number + 1)))
        before = x.clone()
        result = history.cast(x)
        if not isinstance(result, tuple | list) or len(result) != 2:
            return {"cast returned": type(result).__name__}
        q, scale = result
        if not torch.equal(before.nan_to_num(1e9), x.nan_to_num(1e9)):
            return {"x": "changed"}
        if not is_tensor(q) or q.dtype != torch.float8_e4m3fn or q.shape != x.shape:
            return {"q": f"{dtype_or_type(q)}"}
        scales.append(one_number(scale))
        if fault := _not_the_cast(before, q.float(), scales[-1]):
            return {"scales": scales, "q": fault}
    return {"scales": scales, "q": "x times the scale, cut off at 448"}


def _not_the_cast(x: Tensor, q: Tensor, scale: float | str) -> str:
    if isinstance(scale, str) or not math.isfinite(scale):
        return ""
    expected = (x * scale).clamp(-448, 448)
    off = (q - expected).abs() > expected.abs() / 15 + 2.0**-9
    return "not x times the scale" if off[expected.isfinite()].any() else ""


# ---- promoted_sum(products, every, bits) --------------------------------------------------------


def promotion_cases() -> list[Case]:
    vary = Varied(3)

    def positive(seed: int, count: int) -> Tensor:
        return torch.rand(vary.more(count, 2), generator=from_seed(seed), dtype=torch.float64)

    def both(seed: int, count: int) -> Tensor:
        return torch.randn(vary.more(count, 2), generator=from_seed(seed), dtype=torch.float64)

    ones = torch.ones(vary.more(300, 40), dtype=torch.float64)
    left, none = "sums with a few products left over", "no products"
    return [
        Case((positive(1, 512), 128, 14), "512 positive products, every 128, 14 bits"),
        Case((both(2, 512), 64, 10), "512 products of both signs, every 64, 10 bits"),
        Case((ones, 32, 6), f"{len(ones)} products of 1, every 32, 6 bits"),
        Case((positive(3, 200), 64, 8), "200 positive products, every 64, 8 bits", left),
        Case((both(4, 45), 16, 7), "45 products of both signs, every 16, 7 bits", left),
        Case((positive(5, 10), 32, 5), "10 positive products, every 32, 5 bits", left),
        Case((both(6, 30), 1, 6), "30 products of both signs, every 1, 6 bits"),
        Case((torch.zeros(0, dtype=torch.float64), 128, 14), "no products, every 128", none),
        Case((torch.zeros(0, dtype=torch.float64), 4, 6), "no products, every 4", none),
    ]


@as_play
def play_promotion(answer: Answer, products: Tensor, every: int, bits: int) -> Any:
    result = answer(products, every, bits)
    found = one_number(result)
    return {"sum": found, "products": len(products)} if draws.salted() else {"sum": found}


# ---- keep_high(model) ---------------------------------------------------------------------------


class _Attention(nn.Module):
    def __init__(self, width: int, kv: int) -> None:
        super().__init__()
        self.q_proj, self.kv_proj = nn.Linear(width, width), nn.Linear(width, kv)
        self.headwise_out = nn.Linear(width, width)


class _GatedMlp(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.down_proj = nn.Linear(hidden, width)


class _Experts(nn.Module):
    def __init__(self, width: int, hidden: int, count: int, router: str) -> None:
        super().__init__()
        self.add_module(router, nn.Linear(width, count, bias=False))
        self.experts = nn.ModuleList(_GatedMlp(width, hidden) for _ in range(2))


class _Block(nn.Module):
    def __init__(self, width: int, kv: int, mlp: nn.Module) -> None:
        super().__init__()
        self.input_norm = nn.LayerNorm(width)
        self.attention, self.mlp = _Attention(width, kv), mlp


class _Language(nn.Module):
    def __init__(self, width: int, words: int, blocks: list[_Block], head_first: bool) -> None:
        super().__init__()
        if head_first:
            self.lm_head = nn.Linear(width, words, bias=False)
        self.embed_tokens = nn.Embedding(words, width)
        self.layers = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width)
        if not head_first:
            self.lm_head = nn.Linear(width, words, bias=False)


def model_cases() -> list[Case]:
    vary = Varied(4)
    words = 32 * vary.more(3, 4)

    def language(width: int, kv: int, *mlps: nn.Module, head_first: bool = False) -> nn.Module:
        more = (_GatedMlp(width, 32 * width) for _ in range(vary.more(0)))
        blocks = [_Block(width, kv, mlp) for mlp in (*more, *mlps)]
        return _Language(width, words, blocks, head_first)

    def in_a_row(first: int, second: int, third: int) -> nn.Module:
        before = (nn.Identity() for _ in range(vary.more(0, 5)))
        return nn.Sequential(*before, nn.Linear(first, second), nn.ReLU(), nn.Linear(second, third))

    odd, mixed = "layers with odd sizes", "mixtures of experts"
    return [
        Case((language(64, 32, _GatedMlp(64, 128)),), "a Transformer, width 64"),
        Case((language(48, 16, *(_GatedMlp(48, 96) for _ in range(2)), head_first=True),),
             "a Transformer, width 48, whose head is defined first"),
        Case((language(64, 64, _Experts(64, 32, 16, "gate"), _Experts(64, 32, 32, "gate")),),
             "a mixture of experts, router `gate`", mixed),
        Case((language(32, 16, _Experts(32, 64, 16, "router"), _GatedMlp(32, 64),
                       head_first=True),), "a mixture of experts, router `router`", mixed),
        Case((language(64, 24, _GatedMlp(64, 88), _GatedMlp(64, 100)),),
             "a Transformer, `kv_proj` 64 to 24, `mlp` 64 to 88 and 100", odd),
        Case((language(40, 16, _GatedMlp(40, 80), _GatedMlp(40, 96)),),
             "a Transformer, width 40", odd),
        Case((language(32, 32, _Experts(32, 48, 16, "router"), _Experts(32, 64, 64, "router")),),
             "two mixtures of experts, router `router`", mixed),
        Case((language(64, 16, _GatedMlp(64, 96), _Experts(64, 96, 48, "gate")),),
             "a gated MLP and a mixture of experts, router `gate`", mixed),
        Case((in_a_row(28 * 28, 256, 10),),
             "784 to 256 to 10 in a Sequential", odd),
        Case((in_a_row(28 * 28, 300, 10),),
             "784 to 300 to 10 in a Sequential", odd),
        Case((in_a_row(30, 18, 7),),
             "30 to 18 to 7 in a Sequential", odd),
    ]  # fmt: skip


@as_play
def play_keep(answer: Answer, model: nn.Module) -> Any:
    before = [type(module).__name__ for module in model.modules()]
    result = answer(model)
    if [type(module).__name__ for module in model.modules()] != before:
        return {"the model": "changed"}
    if not isinstance(result, set | frozenset | list | tuple):
        return {"returned": type(result).__name__}
    if not all(type(name) is str for name in result):
        kind = next(type(name).__name__ for name in result if type(name) is not str)
        return {"returned": f"a collection of {kind}"}
    return {"stay": sorted(set(result))}
