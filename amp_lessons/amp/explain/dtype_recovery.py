"""How a trace goes on after an op that refuses its dtypes, so that one report holds all hazards.

The op runs once more on inputs of one dtype: what it writes into gives the dtype, otherwise the
widest of the inputs; float32 where all are 16-bit. What was refused is noted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.utils._pytree import tree_leaves, tree_map_only

from amp_lessons.amp.fake_tensors.ops import LOW
from amp_lessons.core.precision import dtype_name

_OTHERS = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
    torch.cuda.OutOfMemoryError,
)


@dataclass(frozen=True)
class DtypeRefusal:
    """A call that raises because of its inputs' dtypes.

    Attributes:
        path, where: the module that runs, and the line of the model's code.
        op: without "aten::".
        dtypes: names of the floating inputs' dtypes, each once.
        message: the first line of torch's error.
    """

    path: str
    where: str
    op: str
    dtypes: tuple[str, ...]
    message: str


def dtypes_of(args: Any, kwargs: Any) -> tuple[torch.dtype, ...]:
    """Dtypes of the floating tensors among the arguments, each once, in their order."""
    leaves = tree_leaves((args, kwargs))
    floats = [t.dtype for t in leaves if isinstance(t, Tensor) and t.is_floating_point()]
    return tuple(dict.fromkeys(floats))


def run_in_one_dtype(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    error: Exception,
    writes: bool,
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Run a refused call with inputs of one dtype.

    Returns:
        The result, and the arguments that gave it. Raises ``error`` if the dtypes were not at
        fault: if the call has no two dtypes and no 16-bit one, or raises all the same.
    """
    dtypes = dtypes_of(args, kwargs)
    refuses = isinstance(error, RuntimeError) and not isinstance(error, _OTHERS)
    if not refuses or not (len(dtypes) > 1 or (set(dtypes) & set(LOW) and not writes)):
        raise error
    out = kwargs.get("out")
    written = out if isinstance(out, Tensor) else args[0] if writes else None
    if isinstance(written, Tensor):
        dtype = written.dtype
    else:
        dtype = reduce(torch.promote_types, dtypes) if len(dtypes) > 1 else torch.float32

    def convert(tensor: Tensor) -> Tensor:
        differs = tensor.is_floating_point() and tensor.dtype != dtype
        return tensor.to(dtype) if differs and tensor is not written else tensor

    args, kwargs = tree_map_only(Tensor, convert, (args, kwargs))
    try:
        return func(*args, **kwargs), args, kwargs
    except Exception:
        raise error from None


def refusal(
    path: str, where: str, op: str, args: Any, kwargs: Any, error: Exception
) -> DtypeRefusal:
    """The record of a refused call."""
    names = tuple(dtype_name(dtype) for dtype in dtypes_of(args, kwargs))
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return DtypeRefusal(path, where, op, names, lines[0] if lines else type(error).__name__)
