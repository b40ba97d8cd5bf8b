"""What cannot be asked of a model without data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amp_lessons.foundations.errors import AmpLessonsError


class TraceError(AmpLessonsError, RuntimeError):
    """A model that cannot be traced, in one line.

    Attributes:
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
    ) -> None:
        super().__init__(" ".join(message.split()))
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


def reason(error: Exception) -> str:
    """Why a model cannot be traced, in one line with the cure where one is known."""
    name, text = type(error).__name__, first_line(error)
    for matches, words in _REASONS:
        if matches(name):
            return f"{words} [{text}]"
    if text.startswith("torch.func.") and "saved tensor hooks" in text:
        return (
            "torch.func's derivatives inside the forward do not go with the hooks that count what "
            f"is saved for backward; explain the function that they take by itself [{text}]"
        )
    if text.startswith("Cannot access accelerator device"):
        return (
            "the forward runs a backward (autograd.grad), which fake CUDA tensors cannot do "
            f'without a GPU; try device="cpu" [{text}]'
        )
    if "device" in text and ("same device" in text or "two different devices" in text.lower()):
        return f"{text}; a tensor that model.to() does not move? register it as a buffer"
    return f"{name}: {text}"


def first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
