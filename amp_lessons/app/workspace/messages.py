"""What happened to a workspace, in a few lines for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from amp_lessons.app.workspace.copying import Copied


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


def told(copied: Copied, place: Path) -> Iterator[str]:
    """A line for each thing that happened, however many files it happened to."""
    yield (f"Your copy of the course is in {place}")
    if copied.kept:
        yield (f"Kept as you changed them: {in_short(copied.kept)}")
    if copied.kept_beside:
        one = len(copied.kept_beside) == 1
        old = next(iter(copied.kept_beside.values())) if one else "*.before-upgrade-*.ipynb"
        yield (f"Brought up to date: {in_short(list(copied.kept_beside))}")
        yield (f"What you ran before is kept beside {'it' if one else 'them'}, as {old}")
    if copied.kept_older:
        yield (f"Kept as you changed them, though newer ones exist: {in_short(copied.kept_older)}")
        yield to_take_ours(copied.kept_older)
    if copied.foreign:
        yield (f"Kept, since they were there before: {in_short(copied.foreign)}")
        yield to_take_ours(copied.foreign)


def to_take_ours(names: Sequence[str]) -> str:
    stem = Path(names[0]).with_suffix("").as_posix()
    return f"To take ours{', for example' * (len(names) > 1)}: amp-lessons reset {stem}"
