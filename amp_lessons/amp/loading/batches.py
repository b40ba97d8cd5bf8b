"""The batch in a model's inputs: how large it is, and the same inputs with another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from amp_lessons.amp.loading.inputs import MOST_VALUES
from amp_lessons.amp.loading.model_spec import LoadedModel


def batch_of(given: LoadedModel) -> int | None:
    """The first size of the first tensor; None if there is none, or it is 0."""
    for leaf in tree_leaves((given.args, dict(given.kwargs))):
        if isinstance(leaf, Tensor) and leaf.dim():
            return leaf.shape[0] or None
    return None


def with_batch(given: LoadedModel, batch: int) -> LoadedModel:
    """The inputs with every tensor whose first size is the batch's made that long.

    Values are repeated from the start, so that ids stay in range and a mask stays a mask.
    """
    old = batch_of(given)
    if old is None or old == batch:
        return given
    args, kwargs = of_batch((given.args, dict(given.kwargs)), old, batch)
    for name in given.packed & kwargs.keys():
        kwargs[name] = _sized(given.kwargs[name], given.kwargs[name].shape[0] // old * batch)
    plain = None if given.plain is None else with_batch(given.plain, batch)
    return replace(given, args=args, kwargs=kwargs, plain=plain)


def of_batch(value: Any, old: int, batch: int) -> Any:
    """The same for anything that holds tensors, such as a loss's target."""

    def sized(tensor: Tensor) -> Tensor:
        return _sized(tensor, batch) if tensor.dim() and tensor.shape[0] == old else tensor

    return tree_map_only(Tensor, sized, value)


def _sized(tensor: Tensor, batch: int) -> Tensor:
    has_values = type(tensor) is Tensor and not tensor.is_meta
    if has_values and batch * tensor[0].numel() <= MOST_VALUES:
        return tensor[torch.arange(batch) % tensor.shape[0]]
    return torch.empty((batch, *tensor.shape[1:]), dtype=tensor.dtype, device="meta")
