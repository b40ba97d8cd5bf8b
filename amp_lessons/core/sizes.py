"""Bytes in words."""

from __future__ import annotations


def size(count: int) -> str:
    """Bytes in words: 1,536 bytes as "1.5 KiB"."""
    number = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.2f} GiB"


UNITS = (("GiB", 3), ("MiB", 2), ("KiB", 1), ("bytes", 0))
"""Each unit with the power of 1024 that it stands for, the largest first."""
