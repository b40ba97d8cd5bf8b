"""The course's one table of GPUs, and the least time that it allows for FLOPs and bytes.

The roofline model: a GPU computes at most so many FLOP/s and moves at most so many bytes/s, so work
takes at least as long as the slower of the two needs. The peaks here are quoted from the makers'
own documents, for dense matrices with sums in FP32. Nothing in this module is measured: what a
machine really does is measured by `timing`. No torch is needed here. Every other list of GPUs in
the course follows from `GPUS`: docs/contributing.md says how to add one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Literal

Bound = Literal["compute", "bandwidth"]

DTYPES = ("fp32", "tf32", "fp16", "bf16")
BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}
"""Bytes of one element in memory. TF32 is a way to multiply: its matrices are stored as FP32."""

ALIGNMENT = 16
"""Bytes to which the rows of a matrix should be aligned, so that tensor cores work at their best:
multiples of 8 elements in FP16 and BF16, of 4 in TF32. Source: NVIDIA's matrix multiplication guide
(`GUIDE`), section "Tensor Core Requirements"."""

GUIDE = (
    "https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/"
    "index.html"
)


@dataclass(frozen=True)
class Gpu:
    """What the maker says that a GPU can do at most.

    Args:
        name: such as ``"H200"``.
        fp32: peak of the ordinary cores in IEEE FP32, in TFLOP/s.
        tf32, fp16, bf16: peak of the tensor cores for dense matrices, in TFLOP/s; None where they
            do not know the format.
        bandwidth: of the GPU's memory, in GB/s (10**9 bytes a second).
        memory: how much it has, in GB as the maker counts them (10**9 bytes); the least where a
            GPU is sold with different amounts.
        capability: its CUDA compute capability, such as (9, 0); None for a GPU that isn't made by
            NVIDIA. Source: https://developer.nvidia.com/cuda-gpus, and its list of older GPUs.
        source: address of the document that says the rest.
        note: what to know about the figures.
    """

    name: str
    fp32: float
    tf32: float | None
    fp16: float | None
    bf16: float | None
    bandwidth: float
    memory: float
    capability: tuple[int, int] | None
    source: str
    note: str = ""

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes for which there is a peak, in the order of `DTYPES`."""
        return tuple(name for name in DTYPES if getattr(self, name) is not None)

    def peak(self, dtype: str) -> float:
        """The peak in FLOP/s.

        Raises:
            ValueError: if the dtype is unknown, or this GPU's tensor cores do not know it.
        """
        _check_dtype(dtype)
        teraflops = getattr(self, dtype)
        if teraflops is None:
            has = ", ".join(self.dtypes)
            raise ValueError(f"{self.name} has no {dtype} tensor cores: choose one of {has}")
        return teraflops * 1e12

    def bytes_per_second(self) -> float:
        """The bandwidth of the memory in bytes a second."""
        return self.bandwidth * 1e9

    def ridge(self, dtype: str) -> float:
        """The arithmetic intensity, in FLOP per byte, from which on the peak can be reached.

        Below it the memory is too slow to feed the cores. Raises ValueError as `peak` does.
        """
        return self.peak(dtype) / self.bytes_per_second()

    def roof(self, dtype: str, intensity: float) -> float:
        """The most FLOP/s that work of this arithmetic intensity (FLOP per byte) can reach.

        Raises ValueError for a negative intensity or none, and as `peak` does.
        """
        _check_amounts(intensity=intensity)
        return min(self.peak(dtype), intensity * self.bytes_per_second())


_NVIDIA = "https://www.nvidia.com"
_FILES = f"{_NVIDIA}/content/dam/en-zz/Solutions"
_WITH_SPARSITY = "The data sheet prints tensor core figures with sparsity; dense is half."
_BESIDE = "The data sheet prints dense figures, and those with sparsity beside them."
_SUMS_IN_FP32 = "Sums in FP32, as PyTorch asks for. TF32 is no faster than FP32 here."

GPUS: tuple[Gpu, ...] = (
    Gpu(
        "T4", 8.1, None, 65.0, None, 320.0, 16, (7, 5),
        "https://images.nvidia.com/aem-dam/en-zz/Solutions/design-visualization/technologies/"
        "turing-architecture/NVIDIA-Turing-Architecture-Whitepaper.pdf",
        "Turing: no TF32, and no BF16 in its tensor cores.",
    ),
    Gpu(
        "V100 SXM2", 15.7, None, 125.0, None, 900.0, 16, (7, 0),
        "https://images.nvidia.com/content/volta-architecture/pdf/volta-architecture-whitepaper.pdf",
        "Volta: no TF32, and no BF16 in its tensor cores. It is also sold with 32 GB.",
    ),
    Gpu(
        "A10G", 35.0, 35.0, 70.0, 70.0, 600.0, 24, (8, 6),
        "https://d1.awsstatic.com/product-marketing/ec2/"
        "NVIDIA_AWS_A10G_DataSheet_FINAL_02_17_2022.pdf",
        f"{_BESIDE} TF32 is no faster than FP32 here. An A10 has other figures.",
    ),
    Gpu(
        "RTX 3090", 35.6, 35.6, 71.0, 71.0, 936.0, 24, (8, 6),
        f"{_NVIDIA}/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.1.pdf",
        _SUMS_IN_FP32,
    ),
    Gpu(
        "A100 PCIe 80GB", 19.5, 156.0, 312.0, 312.0, 1935.0, 80, (8, 0),
        f"{_FILES}/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf",
        _BESIDE,
    ),
    Gpu(
        "A100 SXM 80GB", 19.5, 156.0, 312.0, 312.0, 2039.0, 80, (8, 0),
        f"{_FILES}/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf",
        _BESIDE,
    ),
    Gpu(
        "L4", 30.3, 60.0, 121.0, 121.0, 300.0, 24, (8, 9),
        f"{_NVIDIA}/en-us/data-center/l4/",
        _WITH_SPARSITY,
    ),
    Gpu(
        "RTX 4090", 82.6, 82.6, 165.2, 165.2, 1008.0, 24, (8, 9),
        "https://images.nvidia.com/aem-dam/Solutions/Data-Center/l4/"
        "nvidia-ada-gpu-architecture-whitepaper-v2.1.pdf",
        _SUMS_IN_FP32,
    ),
    Gpu(
        "L40S", 91.6, 183.0, 362.05, 362.05, 864.0, 48, (8, 9),
        f"{_NVIDIA}/en-us/data-center/l40s/",
        _BESIDE,
    ),
    Gpu(
        "H100 PCIe", 51.0, 378.0, 756.0, 756.0, 2000.0, 80, (9, 0),
        "https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet",
        _WITH_SPARSITY,
    ),
    Gpu(
        "H100 SXM", 67.0, 494.5, 989.0, 989.0, 3350.0, 80, (9, 0),
        f"{_NVIDIA}/en-us/data-center/h100/",
        _WITH_SPARSITY,
    ),
    Gpu(
        "H200", 67.0, 494.5, 989.0, 989.0, 4800.0, 141, (9, 0),
        f"{_NVIDIA}/en-us/data-center/h200/",
        _WITH_SPARSITY,
    ),
    Gpu(
        "B200 (HGX)", 75.0, 1100.0, 2250.0, 2250.0, 7700.0, 180, (10, 0),
        "https://resources.nvidia.com/en-us-blackwell-architecture/datasheet",
        f"{_WITH_SPARSITY} For FP32 some sources say 80. The GB200's B200 is faster: 80, 1250, "
        "2500 and 8000 GB/s.",
    ),
    Gpu(
        "RTX 5090", 104.8, 104.8, 209.5, 209.5, 1792.0, 32, (12, 0),
        "https://images.nvidia.com/aem-dam/Solutions/geforce/blackwell/"
        "nvidia-rtx-blackwell-gpu-architecture.pdf",
        _SUMS_IN_FP32,
    ),
    Gpu(
        "MI300X", 163.4, 653.7, 1307.4, 1307.4, 5300.0, 192, None,
        "https://www.amd.com/content/dam/amd/en/documents/instinct-tech-docs/data-sheets/"
        "amd-instinct-mi300x-data-sheet.pdf",
        "AMD's tensor cores are called matrix cores.",
    ),
)  # fmt: skip


def table() -> str:
    """The peaks and the bandwidths of all GPUs in Markdown, for the home page."""
    rows = []
    for gpu in GPUS:
        figures = (gpu.fp32, gpu.tf32, gpu.fp16, gpu.bf16, gpu.bandwidth)
        rows.append([gpu.name, *(f"{value:g}" if value else "–" for value in figures)])
    head = ["GPU", "FP32", "TF32", "FP16", "BF16", "memory bandwidth"]
    lines = [" | ".join(cells) for cells in (head, ["---", *["---:"] * 5], *rows)]
    return "\n".join(f"| {line} |" for line in lines)


_MAKERS_WORDS = {"nvidia", "tesla", "geforce", "rtx", "amd", "instinct"}
_FORM = re.compile(r"\(.*\)|sxm\d?|hbm\d\w?|\d+gb")
"""Words of a name that a driver may leave out."""
_MODELS = {"pcie", "nvl", "40gb", "ti", "super", "laptop", "d", "mig"}
"""Words by which relatives with other figures differ."""


def find_gpu(name: str) -> Gpu:
    """The GPU of this name, in any case: ``"H200"``, ``"a100"``, ``"RTX 4090"``.

    A name as `torch.cuda.get_device_name` gives it is understood too: ``"NVIDIA H100 PCIe"``,
    ``"AMD Instinct MI300X"``. A relative with other peaks, such as ``"NVIDIA GeForce RTX 3090
    Ti"`` beside the 3090, is not taken for it.

    Raises:
        ValueError: if there is none; the message lists those that there are.
    """
    words = _words(str(name))
    for gpu in GPUS:
        own = _words(gpu.name)
        must = {word for word in own - _MODELS if not _FORM.fullmatch(word)}
        if must <= words and _MODELS & words == _MODELS & own:
            return gpu
    raise ValueError(f"no GPU is called {name!r}; there are {', '.join(g.name for g in GPUS)}")


def _words(name: str) -> set[str]:
    return {*name.lower().replace("-", " ").split()} - _MAKERS_WORDS


# ---- work ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matmul:
    """A product of matrices, (m, k) times (k, n).

    Args:
        m, n, k: the sizes, 1 or more.
        name: what it is for, such as ``"layer 1 forward"``.

    Raises:
        ValueError: if a size is not a whole number of 1 or more.
    """

    m: int
    n: int
    k: int
    name: str = ""

    def __post_init__(self) -> None:
        _check_sizes(m=self.m, n=self.n, k=self.k)

    @property
    def flops(self) -> int:
        """A multiplication and an addition for each of the m·n·k products."""
        return matmul_flops(self.m, self.n, self.k)

    def bytes(self, dtype: str) -> int:
        """Bytes that must move at least: two matrices read and one written, once each."""
        return matmul_bytes(self.m, self.n, self.k, dtype)

    def intensity(self, dtype: str) -> float:
        """Arithmetic intensity: FLOP per byte."""
        return self.flops / self.bytes(dtype)


def matmul_flops(m: int, n: int, k: int) -> int:
    """FLOPs of an (m, k) by (k, n) product: 2·m·n·k.

    Raises:
        ValueError: if a size is not a whole number of 1 or more.
    """
    _check_sizes(m=m, n=n, k=k)
    return 2 * m * n * k


def matmul_bytes(m: int, n: int, k: int, dtype: str) -> int:
    """Bytes that an (m, k) by (k, n) product moves at least, in ``dtype``.

    Raises:
        ValueError: if the dtype is unknown, or a size is not a whole number of 1 or more.
    """
    _check_dtype(dtype)
    _check_sizes(m=m, n=n, k=k)
    return BYTES[dtype] * (m * k + k * n + m * n)


def floor_seconds(gpu: Gpu, dtype: str, flops: float, moved: float = 0.0) -> float:
    """The least seconds for this work, by the data sheet: the longer of two times.

    The arithmetic takes at least ``flops`` divided by the peak. (A chip may clock a few percent
    higher than its sheet says.) The bytes take at least ``moved`` divided by the bandwidth of the
    GPU's memory. Data that is still in the L2 cache (50 MB on an H100) comes faster than that, so a
    step that is timed again and again on one small weight can beat its bandwidth floor.

    Args:
        gpu: where.
        dtype: in which format it computes.
        flops: FLOPs to compute.
        moved: bytes to move.

    Raises:
        ValueError: if one of them is negative or no number, or as `Gpu.peak` does.
    """
    _check_amounts(flops=flops, moved=moved)
    return max(flops / gpu.peak(dtype), moved / gpu.bytes_per_second())


def bound(gpu: Gpu, dtype: str, flops: float, moved: float) -> Bound:
    """Which of the two decides the floor: ``"compute"`` or ``"bandwidth"``.

    Raises:
        ValueError: as `floor_seconds` does.
    """
    _check_amounts(flops=flops, moved=moved)
    return "compute" if flops / gpu.peak(dtype) >= moved / gpu.bytes_per_second() else "bandwidth"


def matmul_floor(gpu: Gpu, dtype: str, work: Matmul) -> float:
    """`floor_seconds` of one product of matrices."""
    return floor_seconds(gpu, dtype, work.flops, work.bytes(dtype))


def cast_floor(gpu: Gpu, elements: int) -> float:
    """The least seconds for autocast's cast of FP32 elements: 4 bytes read and 2 written for each.

    Raises:
        ValueError: if ``elements`` is negative or no number.
    """
    _check_amounts(elements=elements)
    return (BYTES["fp32"] + BYTES["fp16"]) * elements / gpu.bytes_per_second()


def share_of_peak(gpu: Gpu, dtype: str, flops: float, seconds: float) -> float:
    """What a measured time reached of the peak: 1.0 is all of it.

    A result above 1 says that the measurement, the dtype or the count of FLOPs is wrong.

    Raises:
        ValueError: if the time is not positive, or as `Gpu.peak` does.
    """
    _check_amounts(flops=flops, seconds=seconds)
    if not seconds > 0:
        raise ValueError(f"seconds must be positive, got {seconds!r}")
    return flops / seconds / gpu.peak(dtype)


def speedup_limit(gpu: Gpu, baseline: str, dtype: str) -> float:
    """How many times faster compute-bound work can become at most, by the peaks."""
    return gpu.peak(dtype) / gpu.peak(baseline)


def unaligned(work: Matmul, dtype: str) -> tuple[str, ...]:
    """The sizes, of m, n and k, whose rows are not multiples of 16 bytes; none in FP32.

    Tensor cores still work on them (since cuBLAS 11), but at less than their best.
    """
    _check_dtype(dtype)
    if dtype == "fp32":
        return ()
    elements = ALIGNMENT // BYTES[dtype]
    return tuple(name for name in ("m", "n", "k") if getattr(work, name) % elements)


# ---- a training step ----------------------------------------------------------------------------


def training_matmuls(
    widths: Sequence[int], batch: int, *, input_grad: bool = False
) -> tuple[Matmul, ...]:
    """The products of one training step of linear layers: forward, then backward from the last.

    Args:
        widths: of the input and of each layer's output, such as ``(784, 512, 10)`` for two layers.
        batch: rows of the input.
        input_grad: whether the input needs a gradient. Data does not, so the first layer has no
            product for it.

    Raises:
        ValueError: if there is no layer, or a size is not a whole number of 1 or more.
    """
    if len(widths) < 2:
        raise ValueError(f"widths must name an input and at least one output, got {widths!r}")
    layers = list(enumerate(pairwise(widths), 1))
    found = [Matmul(batch, out, into, f"layer {i} forward") for i, (into, out) in layers]
    for i, (into, out) in reversed(layers):
        found.append(Matmul(out, into, batch, f"layer {i} gradient of the weight"))
        if i > 1 or input_grad:
            found.append(Matmul(batch, into, out, f"layer {i} gradient of the input"))
    return tuple(found)


def total_flops(work: Iterable[Matmul]) -> int:
    """FLOPs of several products."""
    return sum(matmul.flops for matmul in work)


SEED_WIDTHS = (4096, 4096, 4096, 4096)
SEED_BATCH = 4096
SEED_STEPS = 150
"""The official recipe's run at batch 4096: three layers, 50 batches, 3 epochs."""


def seed_floor(gpu: Gpu, dtype: str) -> float:
    """The seconds below which that run cannot be done, by its matrix products alone."""
    products = training_matmuls(SEED_WIDTHS, SEED_BATCH)
    return SEED_STEPS * sum(matmul_floor(gpu, dtype, work) for work in products)


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{name} must be a whole number, 1 or more, got {size!r}")


def _check_amounts(**amounts: float) -> None:
    for name, amount in amounts.items():
        if not isinstance(amount, Real) or not amount >= 0:
            raise ValueError(f"{name} must be a number, 0 or more, got {amount!r}")


def _check_dtype(dtype: str) -> None:
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
