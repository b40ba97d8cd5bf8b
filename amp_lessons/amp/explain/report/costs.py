"""How long the rows of a trace take at least on one GPU, by the peaks in its data sheet.

A row takes the longer of two times: its FLOPs divided by the peak of its dtype, and its bytes
divided by the bandwidth of the GPU's memory (`roofline.floor_seconds`). Real kernels take longer,
and data that is still in the cache comes faster: the times rank ops, they don't predict a run.
"""

from __future__ import annotations

from dataclasses import dataclass

from amp_lessons.amp.explain.rows import Cast, OpRow, Trace
from amp_lessons.amp.roofline import Gpu, find_gpu, floor_seconds

DEFAULT_GPU = "H200"
"""Taken for a CUDA trace that names no GPU."""

_CONVOLUTIONS = ("aten::convolution", "aten::cudnn_convolution", "aten::_cudnn_rnn")
_FORMATS = {"float16": "fp16", "bfloat16": "bf16"}


@dataclass(frozen=True)
class Costs:
    """The least times on one GPU, in seconds.

    Args:
        gpu: with its peaks.
    """

    gpu: Gpu

    def of_row(self, row: OpRow) -> float:
        """Seconds of the op itself, without the casts before it."""
        return floor_seconds(self.gpu, self.format_of(row), row.flops, row.bytes_moved)

    def of_cast(self, cast: Cast) -> float:
        """Seconds of a cast; 0 if the cache spared it."""
        return self.of_bytes(cast.bytes_moved)

    def of_bytes(self, count: int) -> float:
        """Seconds to read and write so many bytes."""
        return count / self.gpu.bytes_per_second()

    def with_casts(self, row: OpRow) -> float:
        """Seconds of the op and of the casts that it needs."""
        return self.of_row(row) + sum(map(self.of_cast, row.casts))

    def format_of(self, row: OpRow) -> str:
        """Which of the GPU's peaks holds for a row.

        PyTorch lets cuDNN compute float32 convolutions and RNNs in TF32 unless told otherwise, and
        cuBLAS no matrix product (torch's "CUDA semantics", section TF32). A 16-bit format that the
        tensor cores don't know goes by the peak of the ordinary cores.
        """
        low = _FORMATS.get(row.computed_in)
        if low in self.gpu.dtypes:
            return str(low)
        tf32 = (
            row.op in _CONVOLUTIONS and row.computed_in == "float32" and "tf32" in self.gpu.dtypes
        )
        return "tf32" if tf32 else "fp32"


def costs_of(trace: Trace) -> Costs | None:
    """The costs on the trace's own GPU; None for a CPU, or a GPU whose peaks aren't known here."""
    if trace.device != "cuda":
        return None
    try:
        return Costs(find_gpu(trace.gpu or DEFAULT_GPU))
    except ValueError:
        return None
