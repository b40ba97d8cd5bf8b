"""What is asked, and what is answered: a call of attention, the switches, and the choice.

Plain data, so that a call can be written in a table or read from a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from amp_lessons.core.errors import AmpLessonsError

Shape = tuple[int, ...]

KERNELS = ("flash", "efficient", "cudnn", "math")
"""The kernels that CUDA has. "math" is not one kernel but the plain form: bmm, softmax, bmm."""

LABELS = {"flash": "flash", "efficient": "efficient", "cudnn": "cuDNN", "math": "math"}
"""The kernels as prose writes them."""

RULES_OF = ("2.13", "2.15")
"""The versions of PyTorch whose C++ was asked: 2.13.0+cu130 and 2.15.0+cu132."""


class AttentionError(AmpLessonsError, ValueError):
    """A GPU or a call that the rules don't know, in one line."""


@dataclass(frozen=True)
class AttentionCall:
    """One call of ``scaled_dot_product_attention``, after autocast's casts.

    Attributes:
        query: ``(batch, heads, length, head size)``, or more or fewer dimensions.
        key, value: as the query. Their lengths are the same; heads and head sizes may differ.
        dtype: of all three, such as "float16".
        mask: shape of ``attn_mask``; None for none.
        mask_dtype: "bool", "float32" or the query's. No rule looks at it; the bytes depend on it.
        mask_needs_grad: whether the mask requires a gradient, as a learned bias does.
        dropout: ``dropout_p``, from 0 to 1.
        causal: ``is_causal``.
        gqa: ``enable_gqa``.
        needs_grad: whether gradients are on and query, key or value requires one.
        last_strides: strides of the last dimension of query, key and value, in elements.
        mask_last_stride: the same of the mask.
        offsets: storage offsets of query, key and value, in elements.
    """

    query: Shape
    key: Shape
    value: Shape
    dtype: str = "float16"
    mask: Shape | None = None
    mask_dtype: str = "bool"
    mask_needs_grad: bool = False
    dropout: float = 0.0
    causal: bool = False
    gqa: bool = False
    needs_grad: bool = True
    last_strides: tuple[int, int, int] = (1, 1, 1)
    mask_last_stride: int = 1
    offsets: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class Settings:
    """The switches that the choice depends on, as PyTorch 2.13.0 has them by default.

    `for_torch` gives those of another version.

    Attributes:
        torch: whose rules: a version of `RULES_OF`.
        enabled: kernels that are switched on, by ``torch.backends.cuda.enable_…_sdp`` or
            ``torch.nn.attention.sdpa_kernel``.
        order: kernels in the order of ``sdpa_kernel(..., set_priority=True)``; () for torch's own.
        deterministic: ``torch.use_deterministic_algorithms(True)``, without ``warn_only``.
        cudnn_first: False if the environment has ``TORCH_CUDNN_SDPA_DEPRIORITIZED=1``.
        cudnn: the cuDNN that runs, as ``torch.backends.cudnn.version()`` says it. PyTorch 2.13.0's
            build for CUDA 13.0 comes with 9.20.0, and 2.15.0's for CUDA 13.2 with 9.26.0.
        cuda: the major version of the CUDA that torch was built with.
    """

    torch: str = "2.13"
    enabled: frozenset[str] = frozenset(KERNELS)
    order: tuple[str, ...] = ()
    deterministic: bool = False
    cudnn_first: bool = True
    cudnn: int = 92000
    cuda: int = 13

    @classmethod
    def for_torch(cls, version: str, **switches: Any) -> Settings:
        """The rules and the cuDNN of a version of PyTorch, such as "2.15.0+cu132".

        PyTorch 2.14 gets the rules of 2.15: the header of its packages has the same changes for
        heads and dimensions. Its cuDNN rules were not asked.
        """
        numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
        newer = numbers >= [2, 14]
        return cls(**{"torch": "2.15", "cudnn": 92600, **switches} if newer else switches)


@dataclass(frozen=True)
class CallOnGpu:
    """A call on a GPU under some settings: what a rule is asked about.

    Attributes:
        sm: the GPU's compute capability, such as (9, 0).
    """

    call: AttentionCall
    sm: tuple[int, int]
    settings: Settings


@dataclass(frozen=True)
class KernelRefusal:
    """Why a kernel does not take a call.

    Attributes:
        why: goes on from the kernel's name, such as "takes no mask".
        line: file and line of PyTorch 2.13.0 that refuses; of 2.15.0 for a rule that is new there.
    """

    why: str
    line: str


@dataclass(frozen=True)
class KernelChoice:
    """The kernel that CUDA takes, and why.

    Attributes:
        kernel: one of `KERNELS`; "none" for an empty input, whose result needs no kernel; or "" if
            every kernel that would take the call is switched off, so that torch raises.
        gpu: the name that was asked about.
        why: one clause.
        refused: for each fused kernel that does not take the call, the reason.
        source: for the kernel that is taken and for each that refuses, file and line below
            ``aten/src/ATen/native/transformers`` that decides it, in PyTorch 2.13.0 or 2.15.0.
        torch: the version whose rules were asked, one of `RULES_OF`.
    """

    kernel: str
    gpu: str
    why: str
    refused: Mapping[str, str] = field(default_factory=dict)
    source: Mapping[str, str] = field(default_factory=dict)
    torch: str = "2.13"
