"""Sizes, bytes and calls that a trace counts: what an op moves, what it keeps, what a module gives.

Everything here reads shapes and dtypes of tensors that may be fake; no value is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from amp_lessons.amp.explain.rows import Module
from amp_lessons.amp.fake_tensors.models import tensors_in
from amp_lessons.amp.fake_tensors.ops import storage_id
from amp_lessons.core.precision import dtype_name

UNKNOWN = -1
"""A size that depends on values."""

_PICK = ("embedding", "index_select", "gather", "index", "_embedding_bag", "take", "embedding_bag")


def sizes(tensor: Tensor) -> tuple[int, ...]:
    """The shape in plain numbers: `UNKNOWN` for a size that no one knows before the run.

    The parts of a nested tensor have a shape each; it has none itself but the number of parts.
    """
    if tensor.is_nested and tensor.layout is torch.strided:
        return (tensor.size(0), *[UNKNOWN] * (tensor.dim() - 1))
    return tuple(n if isinstance(n, int) else _hint(n) for n in tensor.shape)


def _hint(size: Any) -> int:
    hint = getattr(getattr(size, "node", None), "hint", None)
    return hint if isinstance(hint, int) else UNKNOWN


def nbytes(tensor: Tensor) -> int:
    """Bytes of the elements; 0 if a size is unknown."""
    if tensor.is_nested and tensor.layout is torch.strided:
        return tensor.untyped_storage().nbytes()
    count = 1
    for size in sizes(tensor):
        count *= max(size, 0)
    return count * tensor.element_size()


def moved(op: str, inputs: Iterable[Tensor], outputs: Sequence[Tensor]) -> int:
    """Bytes that an op reads and writes at least: each tensor once, whole.

    Ops that pick rows out of a table read only the rows they pick. What an op in place writes is
    counted as read and as written.
    """
    written = sum(nbytes(tensor) for tensor in outputs)
    read = [nbytes(tensor) for tensor in {id(tensor): tensor for tensor in inputs}.values()]
    if op.partition("::")[2] in _PICK and read:
        read[0] = min(read[0], written)
    return sum(read) + written


def keeps_result(outputs: Iterable[Tensor], saved: Tensor) -> bool:
    """Whether the op that gave ``outputs`` keeps ``saved``, one of them, for its own backward.

    Autograd saves an op's inputs before it runs and its results afterwards. A result that is saved
    may be either: kept by the op that made it (exp), or by the next one as its input (gelu).
    """
    outputs = tuple(outputs)
    if storage_id(saved) not in {storage_id(tensor) for tensor in outputs}:
        return False
    return any(_saves_results(type(t.grad_fn)) for t in outputs if t.grad_fn is not None)


@cache
def _saves_results(node: type) -> bool:
    """Whether nodes of this class keep results of the forward.

    `tools/autograd/derivatives.yaml` names results "result", "output" or as the native function
    names what it returns; torch offers each saved tensor as an attribute ``_saved_NAME``.
    """
    names = [name.removeprefix("_saved_") for name in dir(node) if name.startswith("_saved_")]
    return any(name.startswith("result") or name in _RESULTS for name in names)


_RESULTS = (
    "output", "logsumexp", "log_sumexp", "grid", "eigenvectors", "L", "U", "S", "Vh", "Q", "R",
    "LU", "pivots", "workspace", "reserve", "indices", "total_weight", "buffer", "log_alpha",
)  # fmt: skip


class ModuleCalls:
    """How often each module ran, and what dtype came out."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, str]] = {}

    def left(self, path: str, output: Any) -> None:
        """Count a call that ended with this output."""
        tensors = tensors_in(output)
        dtype = dtype_name(tensors[0].dtype) if tensors else ""
        self._seen[path] = (self._seen.get(path, (0, ""))[0] + 1, dtype)

    def of(self, model: nn.Module) -> tuple[Module, ...]:
        """Every module of the model with its calls and parameters."""
        found = []
        for path, module in model.named_modules():
            calls, dtype = self._seen.get(path, (0, ""))
            own = [p for p in module.parameters() if not isinstance(p, _LAZY)]
            count, size = sum(p.numel() for p in own), sum(map(nbytes, own))
            found.append(Module(path, type(module).__name__, calls, count, size, dtype))
        return tuple(found)


_LAZY = torch.nn.parameter.UninitializedParameter
