"""The names of many files in a few words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path


def in_short(names: Sequence[str]) -> str:
    """Files of the course in a few words: ``"lesson 03, sheets 00 and 02 to 12"``."""
    if len(names) == 1:
        return names[0]
    parts, others = [], list(names)
    for folder, word in (("notebooks", "lesson"), ("exercises", "sheet")):
        found = [name for name in others if re.fullmatch(rf"{folder}/\d\d_[^/]*\.ipynb", name)]
        others = [name for name in others if name not in found]
        if found:
            numbers = sorted({int(Path(name).name[:2]) for name in found})
            parts.append(f"{word}{'s' * (len(numbers) > 1)} {_ranges(numbers)}")
    return ", ".join([*parts, *others])


def _ranges(numbers: Sequence[int]) -> str:
    """``"00, 02 to 05 and 07"``"""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words: list[str] = []
    for run in runs:
        ends = [f"{run[0]:02}", f"{run[-1]:02}"]
        words += [" to ".join(ends)] if len(run) > 2 else [f"{number:02}" for number in run]
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
