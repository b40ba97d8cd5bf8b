"""Ranks as threads that meet in an all_reduce.

Nothing here starts a second process. A rank that waits for one that never comes is told so at
once, so nothing hangs.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import Answer, as_play, elements, from_seed, is_tensor

# ---- may_step(gradients, scale, all_reduce) -----------------------------------------------------

WAITS = "a rank waits for a call that never comes"
SHAPES = "the shapes or dtypes differ"
OPERATIONS = "the operations differ, such as SUM on one rank and MAX on another"


class CollectivesDiffer(Exception):
    """The ranks don't call the same collective, so a real run would hang or break."""


class Ranks:
    """Ranks as threads of this process, with one collective: `all_reduce`."""

    def __init__(self, size: int) -> None:
        self.size, self.ended = size, 0
        self.waiting: dict[int, tuple[Tensor, Any]] = {}
        self.round, self.broken = 0, ""
        self.reduced: set[int] = set()  # the storages of the tensors that were handed over
        self.turn = threading.Condition()

    def all_reduce(self, rank: int, tensor: Tensor, op: Any = dist.ReduceOp.SUM) -> None:
        """As torch.distributed.all_reduce: in place, over all ranks."""
        if not isinstance(tensor, Tensor):
            raise TypeError(f"all_reduce changes a tensor in place, and this is {tensor!r}")
        with self.turn:
            self.reduced.add(tensor.untyped_storage().data_ptr())
            self.waiting[rank] = (tensor, op)
            number = self.round
            if len(self.waiting) == self.size:
                self._reduce()
            elif self.ended:
                self._break(WAITS)
            while self.round == number and not self.broken:
                self.turn.wait()
            if self.broken:
                raise CollectivesDiffer(self.broken)

    def _reduce(self) -> None:
        tensors = [tensor for tensor, _ in self.waiting.values()]
        ops = [op for _, op in self.waiting.values()]
        if any(op != ops[0] for op in ops):
            return self._break(OPERATIONS)
        if len({(t.shape, t.dtype) for t in tensors}) > 1:
            return self._break(SHAPES)
        result = REDUCTIONS[str(ops[0])](torch.stack([t.detach() for t in tensors]))
        for tensor in tensors:
            with torch.no_grad():
                tensor.copy_(result)
        self.waiting.clear()
        self.round += 1
        self.turn.notify_all()

    def _break(self, why: str) -> None:
        self.broken = self.broken or why
        self.turn.notify_all()

    def _end(self) -> None:
        with self.turn:
            self.ended += 1
            if self.waiting:
                self._break(WAITS)

    def run(self, work: Callable[[int], Any]) -> list[Any]:
        """Call ``work(rank)`` in a thread each; the results. Raises what the first rank raised."""
        results: list[Any] = [None] * self.size
        errors: dict[int, BaseException] = {}

        def one(rank: int) -> None:
            try:
                results[rank] = work(rank)
            except BaseException as error:
                errors[rank] = error
            finally:
                self._end()

        threads = [threading.Thread(target=one, args=(r,), daemon=True) for r in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # with short waits, so that a time limit can end them
                thread.join(0.1)
        raised = [errors[rank] for rank in sorted(errors)]
        own = [error for error in raised if not isinstance(error, CollectivesDiffer)]
        if raised:
            raise (own or raised)[0]
        return results


REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    str(dist.ReduceOp.SUM): lambda t: t.sum(0, dtype=t.dtype),
    str(dist.ReduceOp.AVG): lambda t: (t.sum(0) / len(t)).to(t.dtype),
    str(dist.ReduceOp.MAX): lambda t: t.amax(0),
    str(dist.ReduceOp.MIN): lambda t: t.amin(0),
    str(dist.ReduceOp.PRODUCT): lambda t: t.prod(0, dtype=t.dtype),
    str(dist.ReduceOp.BAND): lambda t: t.all(0) if t.dtype == torch.bool else t.amin(0),
    str(dist.ReduceOp.BOR): lambda t: t.any(0) if t.dtype == torch.bool else t.amax(0),
}


def rank_cases() -> list[Case]:
    """One letter a rank, as `shards` reads it."""
    return [
        Case(("..", 1024.0, 1), "two ranks, all finite"),
        Case(("...", 4.0, 9), "three ranks, all finite"),
        Case((".i", 65536.0, 2), "an inf on rank 1"),
        Case(("i.", 16.0, 10), "an inf on rank 0"),
        Case(("-..", 256.0, 3), "a -inf on rank 0 of three"),
        Case((".-", 32.0, 11), "a -inf on rank 1"),
        Case(("..n", 2.0, 4), "a NaN on rank 2 of three"),
        Case((".n", 2048.0, 12), "a NaN on rank 1"),
        Case(("ii", 8.0, 5), "an inf on both ranks"),
        Case(("in.", 128.0, 13), "an inf on rank 0 and a NaN on rank 1, of three"),
        Case((".0.", 512.0, 6), "rank 1 has no gradients, all others are finite"),
        Case(("ei", 64.0, 7), "an inf on rank 1, and a shard without elements on rank 0"),
        Case((".h", 128.0, 8), "all finite, with a gradient of 1e30 on rank 1"),
        Case(("h.h", 8.0, 14), "all finite, with gradients of 1e30 on ranks 0 and 2"),
        Case(("l.", 1.0, 15), "all finite, with gradients of 3e38 on rank 0"),
        Case((".ll", 1.0, 16), "all finite, with gradients of 3e38 on ranks 1 and 2"),
    ]


def shards(pattern: str, seed: int) -> list[list[Tensor]]:
    """A list of gradients for each rank: ordinary (.), with an inf (i), a -inf (-) or a NaN (n),
    with large numbers (h, l), without elements (e), or none at all (0). No two ranks have the same
    shapes."""
    draw = from_seed(seed)
    ranks = []
    for rank, letter in enumerate(pattern):
        shard = [1e3 * torch.randn(1 + rank, 3, generator=draw), torch.randn(3, generator=draw)]
        special = {"i": math.inf, "-": -math.inf, "n": math.nan, "h": 1e30, "l": 3e38}.get(letter)
        if special is not None:
            shard[rank % 2].view(-1)[rank] = special
        if letter == "l":
            shard[rank % 2].view(-1)[-1] = -3e38
        if letter == "e":
            shard = [torch.zeros(0, 3)]
        ranks.append([] if letter == "0" else shard)
    return ranks


@as_play
def play_ranks(answer: Answer, pattern: str, scale: float, seed: int) -> Any:
    given = shards(pattern, seed)
    tensors = [list(shard) for shard in given]  # a list may be given other tensors
    places = {t.untyped_storage().data_ptr() for shard in tensors for t in shard if t.numel()}
    ranks, answers, apart = Ranks(len(given)), list[Any](), ""
    try:
        answers = ranks.run(lambda r: answer(given[r], scale, partial(ranks.all_reduce, r)))
    except CollectivesDiffer as error:
        apart = str(error)
    reduced = "gradients" if ranks.reduced & places else "tensors of your own"
    found = {"all_reduce was given": reduced, "between the ranks": apart or "all calls met"}
    if apart:
        return found
    after = {f"gradients on rank {n}": elements(shard) for n, shard in enumerate(tensors)}
    return found | {"returned, rank by rank": [truth(one) for one in answers]} | after


def truth(given: Any) -> Any:
    """A bool, also out of a tensor or array with one element; anything else as its type's name."""
    if is_tensor(given) and given.numel() == 1 and given.dtype == torch.bool:
        return bool(given)
    return bool(given) if type(given).__name__ in ("bool", "bool_") else type(given).__name__
