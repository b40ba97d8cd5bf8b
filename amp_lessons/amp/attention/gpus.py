"""GPUs by name, with the compute capability that the rules of attention ask for."""

from __future__ import annotations

import re

from amp_lessons.amp.attention.calls import AttentionError
from amp_lessons.amp.roofline import GPUS

DEFAULT_GPU = "h200"

# Words in a GPU's name that don't change its compute capability.
_WORDS = re.compile(r"nvidia|geforce|tesla|rtx|quadro|pcie|sxm\d?|hgx|nvl|\d+gb|hbm\d\w?|ti|super")


def _key(name: str) -> str:
    """A GPU's name without what doesn't matter here: "rtx4090", "h100" for an H100 NVL."""
    words = [w for w in re.split(r"[\s\-_()]+", name.lower()) if w and not _WORDS.fullmatch(w)]
    key = "".join(words)
    return f"rtx{key}" if key.isdigit() else key


WITHOUT_PEAKS: dict[str, tuple[int, int]] = {
    "p100": (6, 0),
    "rtx2080": (7, 5),
    "a30": (8, 0),
    "a10": (8, 6),
    "a40": (8, 6),
    "a6000": (8, 6),
    "l40": (8, 9),
    "gh200": (9, 0),
    "gb200": (10, 0),
    "b300": (10, 3),
    "gb10": (12, 1),
}
"""GPUs that the course knows nothing of but their compute capability. Source: as for those with a
row in `roofline.GPUS`."""

CAPABILITIES: dict[str, tuple[int, int]] = WITHOUT_PEAKS | {
    _key(gpu.name): gpu.capability for gpu in GPUS if gpu.capability
}
"""Compute capability by name, for every NVIDIA GPU of `roofline.GPUS` and some more."""


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
    if _key(name) in CAPABILITIES:
        return CAPABILITIES[_key(name)]
    raise AttentionError(
        f"no GPU is called {gpu!r} here; give one of {', '.join(CAPABILITIES)}, "
        "or a compute capability such as sm90"
    )
