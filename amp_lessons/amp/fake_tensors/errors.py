"""What cannot be asked of a model without data."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from amp_lessons.core.errors import AmpLessonsError

BAD_INPUT = "bad input"
CANNOT_FOLLOW = "cannot follow"
MODEL_RAISES = "model raises"


class TraceError(AmpLessonsError, RuntimeError):
    """A model that cannot be traced, in one line.

    Attributes:
        kind: `BAD_INPUT` (what was given cannot be used), `CANNOT_FOLLOW` (a limit of the trace,
            which says nothing about the model) or `MODEL_RAISES` (a real run would raise too).
        path: the module that ran, "" for the model itself or where no module had begun.
        op: the op that failed, if one did.
        where: file and line in the model's code, if known.
        explanation: what was seen until then, or None.
    """

    def __init__(
        self,
        message: str,
        path: str = "",
        op: str = "",
        where: str = "",
        explanation: Any = None,
        kind: str = BAD_INPUT,
    ) -> None:
        super().__init__(" ".join(message.split()))
        self.kind = kind
        self.path, self.op, self.where, self.explanation = path, op, where, explanation


_REASONS: tuple[tuple[Callable[[str], bool], str], ...] = (
    (
        lambda name: name in ("DataDependentOutputException", "GuardOnDataDependentSymNode"),
        "the code asks for a value (.item(), bool(), int() of a tensor, or if on one), and a "
        "trace has no values; keep it a tensor (torch.where), or explain the parts before and "
        "after it by themselves",
    ),
    (
        lambda name: name == "DynamicOutputShapeException",
        "the shape of the result depends on values (nonzero, boolean indexing, unique), and a "
        "trace has none; keep the shape and mask (torch.where), or explain the parts before and "
        "after it by themselves",
    ),
)


# What torch says to code that asks for the GPU itself: in a build without CUDA, and in one with it.
_NO_GPU = (
    "torch not compiled with cuda", "requires cuda support", "cannot get cuda generator",
    "dummy base class", "nvtx functions not installed", "has no attribute '_cuda_",
    "no nvidia driver", "cuda driver version is insufficient", "no cuda gpus are available",
    "no cuda-capable device",
)  # fmt: skip
# What autograd says to fake CUDA tensors, in the same two.
_NO_BACKWARD = ("Cannot access accelerator device", "hasPrimaryContext expects a valid device")


def reason(error: BaseException) -> str:
    """Why a model cannot be traced, in one line with the cure where one is known."""
    name, text = type(error).__name__, first_line(error)
    if isinstance(error, SystemExit):
        return f"the code ends the program (sys.exit, status {error.code}): let it return instead"
    if isinstance(error, FileNotFoundError):
        return (
            f"{name}: {text}; shapes are enough here, so leave the file out, or run this in the "
            "folder that has it"
        )
    for matches, words in _REASONS:
        if matches(name):
            return f"{words} [{text}]"
    if text.startswith("torch.func.") and "saved tensor hooks" in text:
        return (
            "torch.func's derivatives inside the forward do not go with the hooks that count what "
            f"is saved for backward; explain the function that they take by itself [{text}]"
        )
    for words, cure in _PARTS:
        if words in text.lower() or (words == _FLEX and _passed_through(error, "flex_attention")):
            return f"{cure} [{text}]"
    if text.startswith(_NO_BACKWARD):
        return (
            "the forward runs a backward (autograd.grad), which fake CUDA tensors cannot do "
            f'without a GPU; try device="cpu" [{text}]'
        )
    if wants_gpu(error):
        return (
            "the code asks for the GPU itself (torch.cuda, or an op that has no fake kernel), and "
            "there is none; ask torch.cuda.is_available() in the code first, or try "
            f'device="cpu" [{text.partition(". ")[0]}]'
        )
    if "device" in text and ("same device" in text or "two different devices" in text.lower()):
        return (
            f"{text}; a tensor made in the forward? make it with device=x.device; one that the "
            "model keeps, and model.to() does not move? register it as a buffer"
        )
    return f"{name}: {text}"


_FLEX = "flexattention does not support backward"
# Torch's own words where one of its parts cannot run on what a trace runs on, with the cure.
_PARTS = (
    (
        _FLEX,
        "flex_attention has no backward on a CPU, and none on fake tensors: explain the forward "
        "alone (grad=False, --no-grad), or take scaled_dot_product_attention",
    ),
    (
        "higherorderoperator",
        "the code uses one of torch's higher-order ops, whose inside a trace does not see: write "
        "it as a loop or a branch in Python",
    ),
    (
        "shape_env must not be none",
        "the code makes a nested tensor, whose lengths fake tensors do not know: give padded ones",
    ),
)


def _passed_through(error: BaseException, function: str) -> bool:
    """Whether a function of this name was running where the error came up."""
    steps = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code.co_name == function for frame, _ in steps)


_LIMITS = (
    "DataDependentOutputException", "GuardOnDataDependentSymNode", "DynamicOutputShapeException",
    "UnsupportedFakeTensorException", "UnsupportedOperatorException", "MetadataMismatchError",
    "UnsupportedMutationAliasingException",
)  # fmt: skip
_LIMITS_IN_WORDS = (
    "saved tensor hooks", "cannot access accelerator device", "hasprimarycontext", "data pointer",
    "faketensor", "fake tensor", "fake impl", "fakes", "meta tensor", "'meta' backend",
    "meta storage", "tensor subclass", "does not have storage", "sparsetensorimpl",
    "sparse tensors do not", "unbacked", "data-dependent", "could not run 'aten::",
    "its data is not allocated", *_NO_GPU, _FLEX, "higherorderoperator",
    "shape_env must not be none", "nestedtensorimpl",
)  # fmt: skip


def kind_of(error: BaseException) -> str:
    """Whether an error is the model's own or a limit of fake tensors: `TraceError.kind`."""
    if isinstance(error, TraceError):
        return error.kind
    text = str(error).lower()
    limit = type(error).__name__ in _LIMITS or any(words in text for words in _LIMITS_IN_WORDS)
    return CANNOT_FOLLOW if limit else MODEL_RAISES


def wants_gpu(error: BaseException) -> bool:
    """Whether torch refused because this machine has no GPU, in a build with CUDA or without."""
    text = str(error).lower()
    return any(words in text for words in _NO_GPU)


def depends_on_values(error: BaseException) -> bool:
    """Whether fake tensors stopped because the model asks for a value."""
    return type(error).__name__ in _LIMITS[:3]


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
