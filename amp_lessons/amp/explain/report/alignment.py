"""Sizes that keep tensor cores from working at their best, and the sizes to pad them to.

In 16 bit the sizes of a matrix product should be multiples of 8, which are 16 bytes: NVIDIA's
matrix multiplication guide (`roofline.GUIDE`), section "Tensor Core Requirements". cuBLAS asks it
of dimensions that are contiguous in memory (`CUBLAS`). In a linear layer these are inputs and
outputs, forward and backward, so the number of rows is left alone. Convolutions have the same rule
for channels (`CONVOLUTIONS`, quick-start checklist), with three colours as an exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from amp_lessons.amp.explain.report.names import pattern, place
from amp_lessons.amp.explain.rows import LOW_NAMES, OpRow, Trace
from amp_lessons.amp.roofline import ALIGNMENT, BYTES

CUBLAS = "https://docs.nvidia.com/cuda/cublas/index.html#tensor-core-usage"
CONVOLUTIONS = (
    "https://docs.nvidia.com/deeplearning/performance/dl-performance-convolutional/index.html"
)
MULTIPLE = ALIGNMENT // BYTES["fp16"]
"""Elements: 8 in FP16 and BF16."""

_COLOURS = 4


@dataclass(frozen=True)
class Misfit:
    """Products with the same size that isn't a multiple of `MULTIPLE`.

    Attributes:
        modules: their paths, with ``*`` for numbers that differ.
        name: of the size: "inputs", "outputs", "channels in" or "channels out".
        size, padded: now, and the next multiple.
        count: how many products.
        flops: of all of them. share: of the forward's FLOPs, 0 to 1.
    """

    modules: tuple[str, ...]
    name: str
    size: int
    padded: int
    count: int
    flops: int
    share: float


def find_misfits(trace: Trace) -> tuple[Misfit, ...]:
    """All sizes that don't fit, those with the most FLOPs first. None on a CPU."""
    if trace.device != "cuda":
        return ()
    groups: dict[tuple[str, int], list[OpRow]] = {}
    for row in trace.rows:
        if row.computed_in in LOW_NAMES:
            for name, size in _sizes(row):
                if size > 0 and size % MULTIPLE:
                    groups.setdefault((name, size), []).append(row)
    whole = trace.totals.flops or 1
    found = []
    for (name, size), rows in groups.items():
        flops = sum(row.flops for row in rows)
        places = groupby(sorted((row.path for row in rows), key=pattern), key=pattern)
        modules = tuple(place(paths) for _, paths in places)
        padded = -(-size // MULTIPLE) * MULTIPLE
        found.append(Misfit(modules, name, size, padded, len(rows), flops, flops / whole))
    return tuple(sorted(found, key=lambda misfit: -misfit.flops))


def _sizes(row: OpRow) -> Iterator[tuple[str, int]]:
    """The sizes of a product by name; nothing for an op that isn't one."""
    name, shapes = row.short_op, row.shapes_in
    if name in ("mm", "bmm", "addmm", "baddbmm") and len(shapes) >= 2:
        left, right = shapes[-2:]
        yield from (("inputs", left[-1]), ("outputs", right[-1]))
    elif name == "convolution" and len(shapes) >= 2:
        yield from _channels(row)


def _channels(row: OpRow) -> Iterator[tuple[str, int]]:
    """A convolution's channels. One in groups has other kernels, and is left out."""
    images, weight = row.shapes_in[:2]
    if len(images) < 3 or images[1] != weight[1]:
        return
    if images[1] > _COLOURS:
        yield "channels in", images[1]
    yield "channels out", weight[0]
