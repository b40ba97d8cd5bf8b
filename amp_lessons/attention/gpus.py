"""GPUs by name, with the compute capability that the rules of attention ask for."""

from __future__ import annotations

import re

from amp_lessons.attention.calls import AttentionError

DEFAULT_GPU = "h200"

CAPABILITIES: dict[str, tuple[int, int]] = {
    "p100": (6, 0),
    "v100": (7, 0),
    "t4": (7, 5),
    "rtx2080": (7, 5),
    "a100": (8, 0),
    "a30": (8, 0),
    "a10": (8, 6),
    "a10g": (8, 6),
    "a40": (8, 6),
    "a6000": (8, 6),
    "rtx3090": (8, 6),
    "l4": (8, 9),
    "l40": (8, 9),
    "l40s": (8, 9),
    "rtx4090": (8, 9),
    "h100": (9, 0),
    "h200": (9, 0),
    "gh200": (9, 0),
    "b200": (10, 0),
    "gb200": (10, 0),
    "b300": (10, 3),
    "rtx5090": (12, 0),
    "gb10": (12, 1),
}
"""Compute capability by name. Source: NVIDIA's page "CUDA GPU Compute Capability"
(https://developer.nvidia.com/cuda-gpus, and its list of older GPUs)."""

# Words in a GPU's name that don't change its compute capability.
_WORDS = re.compile(r"nvidia|geforce|tesla|rtx|quadro|pcie|sxm\d?|hgx|nvl|\d+gb|hbm\d\w?|ti|super")


def capability(gpu: str) -> tuple[int, int]:
    """The compute capability of a GPU, such as (9, 0).

    Args:
        gpu: a name in any case, with or without the maker's words: "h200", "RTX 4090",
            "NVIDIA A100-SXM4-80GB"; or the capability itself, as "sm90" or "9.0".

    Raises:
        AttentionError: for a GPU that is not in the list.
    """
    name = str(gpu).lower()
    number = re.fullmatch(r"(?:sm_?)?(\d{1,2})\.?(\d)", name.strip())
    if number:
        return int(number[1]), int(number[2])
    words = [w for w in re.split(r"[\s\-_()]+", name) if w and not _WORDS.fullmatch(w)]
    key = "".join(words)
    for known in (key, f"rtx{key}"):
        if known in CAPABILITIES:
            return CAPABILITIES[known]
    raise AttentionError(
        f"no GPU is called {gpu!r} here; give one of {', '.join(CAPABILITIES)}, "
        "or a compute capability such as sm90"
    )
