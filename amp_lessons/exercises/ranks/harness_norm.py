"""Gradients whose norm no rank knows alone: `clip_shards`."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.checks.serialize.compare import as_number
from amp_lessons.exercises.harness import Answer, as_play, elements, from_seed, is_tensor
from amp_lessons.exercises.ranks.harness import CollectivesDiffer, Ranks, shards

LARGE = 1e9  # a limit that ordinary gradients are below
SIZES = (3, 2)


def norm_cases() -> list[Case]:
    """One letter a rank, as `shards` reads it, or z for zeros; how many copies; the limit."""
    above, below, bare = "a norm above the limit", "a norm below the limit", "a rank without shards"
    infinite, large = "an inf or a NaN", "large gradients"
    zeros = "gradients that are all zero"
    return [
        Case(("..", 2, 500.0, 1), "two ranks, 2 copies, above the limit", above),
        Case(("...", 1, 100.0, 2), "three ranks, 1 copy, above the limit", above),
        Case(("....", 0, 700.0, 3), "four ranks, no copies, above the limit", above),
        Case(("..", 1, LARGE, 4), "two ranks, 1 copy, below the limit", below),
        Case(("...", 2, LARGE, 5), "three ranks, 2 copies, below the limit", below),
        Case((".0.", 1, 300.0, 6), "rank 1 has no shards, 1 copy", bare),
        Case(("e..", 2, 200.0, 7), "a shard without elements on rank 0, 2 copies", bare),
        Case((".0", 0, 400.0, 8), "rank 1 has no shards, no copies", bare),
        Case((".i", 1, 100.0, 9), "an inf on rank 1, 1 copy", infinite),
        Case(("n..", 2, 100.0, 10), "a NaN on rank 0 of three, 2 copies", infinite),
        Case(("-i", 0, LARGE, 11), "an inf on both ranks, no copies", infinite),
        Case(("..i", 0, 200.0, 16), "an inf on rank 2 of three, no copies", infinite),
        Case((".h", 1, 300.0, 12), "a gradient of 1e30 on rank 1, 1 copy", large),
        Case(("h.h", 2, 1e20, 13), "gradients of 1e30 on ranks 0 and 2, 2 copies", large),
        Case(("zz", 1, 100.0, 14), "all gradients are zero, 1 copy", zeros),
        Case(("z0z", 2, 1.0, 15), "all gradients are zero, 2 copies", zeros),
    ]


def gradients(pattern: str, copies: int, seed: int) -> tuple[list[list[Tensor]], list[Tensor]]:
    """The shards of each rank, and what all ranks hold."""
    own = shards(pattern, seed)
    draw = from_seed(100 + seed)
    common = [1e3 * torch.randn(size, generator=draw) for size in SIZES[:copies]]
    if "z" in pattern:
        own = [[torch.zeros_like(t) for t in rank] for rank in own]
        common = [torch.zeros_like(t) for t in common]
    return own, common


@as_play
def play_norms(answer: Answer, pattern: str, copies: int, max_norm: float, seed: int) -> Any:
    own, common = gradients(pattern, copies, seed)
    each = [(rank, [t.clone() for t in common]) for rank in own]
    tensors = [[*rank, *held] for rank, held in each]  # a list may be given other tensors
    places = {t.untyped_storage().data_ptr() for rank in tensors for t in rank if t.numel()}
    ranks, norms, apart = Ranks(len(own)), list[Any](), ""
    try:
        norms = ranks.run(lambda r: answer(*each[r], max_norm, partial(ranks.all_reduce, r)))
    except CollectivesDiffer as error:
        apart = str(error)
    reduced = "gradients" if ranks.reduced & places else "tensors of your own"
    found = {"all_reduce was given": reduced, "between the ranks": apart or "all calls met"}
    if apart:
        return found
    after = {f"gradients on rank {n}": elements(rank) for n, rank in enumerate(tensors)}
    return found | {"norms, rank by rank": [number(norm) for norm in norms]} | after


def number(given: Any) -> Any:
    """A float, also out of a tensor with one element; "not finite" for inf and NaN alike; for
    anything else its type's name."""
    found = given.item() if is_tensor(given) and given.numel() == 1 else given
    if as_number(found) is None:
        return type(given).__name__
    return float(found) if abs(found) < float("inf") else "not finite"
