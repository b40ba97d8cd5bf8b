"""The last layer of a language model, whose loss is taken in pieces: `chunked_loss`.

The answer runs on real tensors. What is noted is how many logits are alive at once, how often the
backward pass goes through the body, and in which dtypes loss and gradients are computed.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.checks.serialize.compare import as_number, differing, is_dict, within
from amp_lessons.exercises.harness import (
    BFLOAT,
    HALF,
    Answer,
    as_play,
    elements,
    from_seed,
    is_tensor,
    seeded,
)

IGNORED = -100
WIDTH, WORDS, INPUTS = 6, 211, 5
MOST_ALIVE = 8
"""So many FP32 copies of one piece's logits may be alive at once. A plain piece takes about 3, and
the piece before may still be there."""
_LOSS = ("_log_softmax", "_softmax", "logsumexp", "exp", "log", "nll_loss_forward")
_ADDS = ("add", "add_", "addmm", "addmm_", "sum")


def piece_cases() -> list[Case]:
    """The numbers of tokens and pieces, where targets are ignored, and whether the head has a
    gradient already."""
    made: list[Case] = []

    def case(kind: str, tokens: int, pieces: int, where: str = "", earlier: bool = False) -> None:
        label = f"{tokens} tokens in {pieces} pieces"
        label += f", ignored ones {where}" if where else ""
        label += ", a gradient of before" if earlier else ""
        made.append(Case((len(made) + 1, tokens, pieces, where, earlier), label, kind))

    equal, rest = "pieces of one size", "a last piece that is smaller"
    there = "a gradient of before"
    case(equal, 32, 16)
    case(equal, 36, 3)
    case(rest, 35, 12)
    case(rest, 47, 16)
    case(rest, 11, 4)
    case("ignored tokens", 40, 4, "in between")
    case("ignored tokens", 48, 16, "in between")
    case("a piece that is ignored", 24, 8, "at the end")
    case("a piece that is ignored", 30, 15, "at the end")
    case(there, 21, 3, earlier=True)
    case(there, 26, 4, "in between", earlier=True)
    return made


def words(tokens: int, pieces: int, where: str, random: torch.Generator) -> Tensor:
    """A target for each token. In between, each piece has another share of ignored tokens, and none
    is ignored as a whole; at the end, more than half of all tokens are ignored."""
    targets = torch.randint(0, WORDS, (tokens,), generator=random)
    targets[::3] = 0  # word 0 is a word as any other
    size = -(-tokens // pieces)
    for number, piece in enumerate(targets.split(size)):
        if where == "in between":
            piece[: number % min(size, len(piece))] = IGNORED
    if where == "at the end":
        targets[tokens // 3 :] = IGNORED
    return targets


@as_play
def play_pieces(
    answer: Answer, seed: int, tokens: int, pieces: int, where: str, earlier: bool
) -> Any:
    """Run a small body under autocast, and have the answer do the rest of the step."""
    random = from_seed(seed)
    body = seeded(seed, lambda: nn.Sequential(nn.Linear(INPUTS, WIDTH), nn.Tanh()))
    head = nn.Parameter(torch.randn(WORDS, WIDTH, generator=random))
    if earlier:
        head.grad = 0.05 * torch.randn(WORDS, WIDTH, generator=random)
    targets = words(tokens, pieces, where, random)
    with torch.autocast("cpu", dtype=BFLOAT):
        hidden = body(torch.randn(tokens, INPUTS, generator=random))
    arrived: list[Tensor] = []
    hidden.register_hook(arrived.append)
    with Pieces() as seen:
        loss = answer(hidden, head, targets, pieces)
    number = loss.item() if is_tensor(loss) and loss.numel() == 1 else loss
    if as_number(number) is None:
        return {"returned": type(loss).__name__}
    low_sum = is_tensor(loss) and loss.dtype in (BFLOAT, HALF)
    most = -(-tokens // pieces) * WORDS * 4 * MOST_ALIVE
    return {
        "returned": "a number",
        "logits alive at once": "of one piece" if seen.peak <= most else "of several pieces",
        "backward passes through the body": len(arrived),
        "the loss is computed in": "16 bits" if seen.low or low_sum else "FP32",
        "the head's gradients are added up in": "16 bits" if seen.coarse else "FP32",
        "loss": number,
        "gradient of the head": elements([head.grad]),
        "gradients of the body": elements(p.grad for p in body.parameters()),
    }


class Pieces(TorchDispatchMode):
    """Follows the logits that are alive. They are told from other tensors by their shape: one
    dimension has the size of the vocabulary, and none the width of the model.

    Attributes:
        peak: the most bytes of logits, and of what is computed from them, at any one time.
        low: whether a softmax or a loss was computed in 16 bits.
        coarse: whether numbers in 16 bits with the shape of the head were added up.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.low = self.coarse = False
        self.alive: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket._qualified_op_name.removeprefix("aten::")
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._note(tensor)
                low = tensor.dtype in (BFLOAT, HALF)
                self.low |= low and name in _LOSS
                self.coarse |= low and name in _ADDS and {*tensor.shape} == {WORDS, WIDTH}
        return result

    def _note(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, count = storage._cdata, storage.nbytes()
        if WORDS not in tensor.shape or WIDTH in tensor.shape or key in self.alive:
            return

        def freed(_: Any) -> None:
            self.now -= count
            del self.alive[key]

        self.now += count
        self.peak = max(self.peak, self.now)
        self.alive[key] = weakref.ref(storage, freed)


def same_step(expected: Any, seen: Any) -> bool:
    """Gradients to 2% of their largest number, since parts of a step are in BF16."""
    if is_dict(expected):
        return is_dict(seen) and not differing(expected, seen, same_step)
    if isinstance(expected, list):
        if not isinstance(seen, list) or len(seen) != len(expected):
            return False
        largest = max((abs(e) for e in expected if not math.isnan(e)), default=0.0)
        pairs = zip(expected, seen, strict=True)
        return all(abs(e - s) <= 0.02 * largest or (e != e and s != s) for e, s in pairs)
    return within(2e-3)(expected, seen)
