"""What dtypes are called, in words for people: nothing here imports torch."""

from __future__ import annotations

AUTOCAST_DTYPES = {
    "float16": "float16",
    "fp16": "float16",
    "half": "float16",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
}
"""What the dtypes that autocast takes may be called, and torch's name for each."""

_BRIEF = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}


def dtype_name(dtype: object) -> str:
    """``torch.float16`` as "float16"; "" for None."""
    return "" if dtype is None else str(dtype).removeprefix("torch.")


def brief(dtype: object) -> str:
    """``torch.float16`` or ``"float16"`` as "fp16", for narrow columns."""
    return _BRIEF.get(dtype_name(dtype), dtype_name(dtype))
