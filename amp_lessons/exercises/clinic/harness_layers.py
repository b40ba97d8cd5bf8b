"""The cases of programs 14 and 15, which are parts of a model, and how such a part is used.

A part is called inside the caller's autocast region, or with none open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import (
    BFLOAT,
    HALF,
    Operations,
    as_play,
    autocast_state,
    flat,
    from_seed,
    in_words,
    name_of,
    region,
    seeded,
)

WORDS = {HALF: "FP16", BFLOAT: "BF16", None: "no region"}
WIDTH = 6


def scatter_cases() -> list[Case]:
    """Case 14: region, seed, rows, experts; with ``twice``, some rows choose one expert twice."""
    return [
        _experts(HALF, 92, 7, 3),
        _experts(HALF, 93, 9, 2, twice=True),
        _experts(BFLOAT, 94, 8, 3),
        _experts(BFLOAT, 95, 6, 4, twice=True),
        _experts(None, 96, 20, 3),
        _experts(None, 97, 24, 2, twice=True),
    ]


def _experts(dtype: torch.dtype | None, seed: int, rows: int, count: int, twice=False) -> Case:
    words = f"{WORDS[dtype]}, {rows} rows, {count} experts"
    label = f"{words}, some chosen twice by a row" if twice else words
    return Case((dtype, seed, rows, count, twice), label, WORDS[dtype])


@as_play
def play_scatter(
    routed: Callable[..., Any],
    dtype: torch.dtype | None,
    seed: int,
    rows: int,
    count: int,
    twice: bool,
) -> dict[str, Any]:
    random = from_seed(seed)
    x = torch.randn(rows, WIDTH, generator=random).mul(2.0**20)  # far too large for FP16
    experts = seeded(seed, lambda: nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(count)))
    if dtype is not None:  # integers, so that experts round nothing, and the sum's precision shows
        x = x.mul(2.0**-19).round()
        with torch.no_grad():
            for p in experts.parameters():
                p.mul_(8).round_()
    x.requires_grad_()
    chosen = torch.rand(rows, count, generator=random).topk(2).indices
    if twice:
        chosen[::2, 1] = chosen[::2, 0]
    shares = torch.rand(rows, 2, generator=random).softmax(1).requires_grad_()
    given = [t.detach().clone() for t in (x, chosen, shares, *experts.parameters())]
    found: set[str] = set()
    for expert in experts:
        expert.register_forward_hook(lambda *seen: found.add(name_of(seen[-1].dtype)))
    with region(dtype):
        before = autocast_state()
        result = routed(x, experts, chosen, shares)
        after = autocast_state()
    if not isinstance(result, Tensor):
        return {"returned": "no tensor"}
    if result.requires_grad:
        (result.float() * torch.randn(result.shape, generator=random) / 64).sum().backward()
    now = [t.detach() for t in (x, chosen, shares, *experts.parameters())]
    same = all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(given, now, strict=True))
    return {
        "returned": "a tensor",
        "dtype from the experts": in_words(found),
        "dtype of the result": name_of(result.dtype),
        "result": flat([result]),
        "gradient of x": _gradient([x]),
        "gradient of the experts": _gradient(experts.parameters()),
        "gradient of the shares": _gradient([shares]),
        "x, chosen, shares and experts afterwards": "as before" if same else "changed",
        "autocast afterwards": "as before" if before == after else "changed",
    }


def _gradient(tensors: Iterable[Tensor]) -> list[float] | str:
    """All elements; zeros for an expert that no row has chosen, and "none" if nothing came."""
    found = list(tensors)
    if all(t.grad is None for t in found):
        return "none"
    return flat(torch.zeros_like(t) if t.grad is None else t.grad for t in found)


def positions_cases() -> list[Case]:
    """Case 15: region, seed, the first of eight positions, features, whether all rows are equal."""
    return [
        _angles(BFLOAT, 98, 65536, 8, equal=True),
        _angles(BFLOAT, 99, 131072, 6),
        _angles(HALF, 101, 4096, 6, equal=True),
        _angles(HALF, 102, 70000, 8),
        _angles(BFLOAT, 100, 600, 4, equal=True),
        _angles(None, 103, 65536, 8, equal=True),
        _angles(None, 104, 3000, 4),
    ]


def _angles(
    dtype: torch.dtype | None, seed: int, first: int, features: int, equal: bool = False
) -> Case:
    label = f"{WORDS[dtype]}, 8 {'equal ' if equal else ''}rows at the positions from {first} on"
    return Case((dtype, seed, first, features, equal), label, WORDS[dtype])


@as_play
def play_positions(
    rotated: Callable[..., Any],
    dtype: torch.dtype | None,
    seed: int,
    first: int,
    features: int,
    equal: bool,
) -> dict[str, Any]:
    random = from_seed(seed)
    x = torch.randn(8, 5, generator=random)
    x = (x[:1].repeat(8, 1) if equal else x).requires_grad_()
    weight = (torch.randn(5, features, generator=random) / 4).requires_grad_()
    positions = torch.arange(first, first + 8)
    inv_freq = 500.0 ** -(torch.arange(features // 2) / (features // 2))
    given = [t.detach().clone() for t in (x, weight, positions, inv_freq)]
    with region(dtype):
        before = autocast_state()
        with Operations() as ran:
            result = rotated(x, weight, positions, inv_freq)
        after = autocast_state()
    if not isinstance(result, Tensor):
        return {"returned": "no tensor"}
    if result.requires_grad:
        (result.float() * torch.randn(result.shape, generator=random) / 8).sum().backward()
    now = (x, weight, positions, inv_freq)
    same = all(torch.equal(a, b) for a, b in zip(given, now, strict=True))
    narrow = name_of(dtype or torch.float32) in ran.of_products()
    return {
        "returned": "a tensor",
        "different rows of the result": len(result.detach().double().unique(dim=0)),
        "x @ weight in the region's dtype": "yes" if narrow else "no",
        "dtype of the result": name_of(result.dtype),
        "autocast afterwards": "as before" if before == after else "changed",
        "the arguments afterwards": "as before" if same else "changed",
        "result": flat([result]),
        "gradient of x": _gradient([x]),
        "gradient of weight": _gradient([weight]),
    }
