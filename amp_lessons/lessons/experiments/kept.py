"""What autograd keeps between the forward and the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from amp_lessons.amp.explain import explain_autocast


@contextmanager
def kept_for_backward(*besides: torch.Tensor) -> Iterator[list[torch.Tensor]]:
    """The tensors that autograd keeps while a ``with`` block runs, each once, in order.

    Args:
        besides: tensors that are there anyway, such as the parameters and the batch. What shares
            their memory, such as a transposed view, is left out.
    """
    known = {tensor.untyped_storage().data_ptr() for tensor in besides}
    kept: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in known:
            known.add(place)
            kept.append(tensor.detach())  # it stays alive, so no other tensor gets its address
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield kept


def saved_for_backward(forward: Callable[[], object]) -> list[torch.Tensor]:
    """The tensors that autograd keeps during a forward pass, until the backward pass needs them.

    As `kept_for_backward` gives them, with the parameters and inputs among them.
    """
    with kept_for_backward() as kept:
        graph = forward()
    del graph
    return kept


def kept_by_cross_entropy(device: str, *, convert: bool, tokens: int, words: int) -> int:
    """How many bytes autograd keeps for a cross entropy over a vocabulary, under BF16 autocast.

    The logits come from a linear layer, which is narrow, so what it keeps hardly counts. Nothing of
    this size is allocated: `explain_autocast` asks with fake tensors.

    Args:
        device: whose rules to ask for, ``"cpu"`` or ``"cuda"``.
        convert: whether the loss gets ``logits.float()`` or the BF16 logits.
        tokens: rows of the logits.
        words: columns, the size of the vocabulary.
    """
    with torch.device("meta"):
        model = _VocabularyLoss(words, convert)
        hidden, labels = torch.empty(tokens, 64), torch.empty(tokens, dtype=torch.long)
    report = explain_autocast(model, hidden, labels, device=device, dtype=torch.bfloat16)
    return report.totals.saved_amp


class _VocabularyLoss(torch.nn.Module):
    def __init__(self, words: int, convert: bool) -> None:
        super().__init__()
        self.head, self.convert = torch.nn.Linear(64, words, bias=False), convert

    def forward(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = self.head(hidden)
        logits = logits.float() if self.convert else logits
        return torch.nn.functional.cross_entropy(logits, labels)
