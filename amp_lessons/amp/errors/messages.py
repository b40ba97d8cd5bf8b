"""What was found, as text for a terminal of 80 columns and as plain data for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from amp_lessons.amp.errors.catalogue import Entry
from amp_lessons.amp.errors.search import Match

WIDEST = 80
"""Columns. Longer lines are hard to read, however wide the terminal is."""
_LABELS = 12
"""Columns for the label before a text."""


def as_text(found: Match, width: int = WIDEST) -> list[str]:
    """An entry as lines; the first one is its title."""
    entry = found.entry
    rows = [
        ("Cause", entry.cause),
        ("Cure", entry.cure),
        ("Wrong cure", entry.wrong_cure),
        ("Raised by", entry.raised_by),
        ("Versions", entry.versions),
        ("Lesson", f"{entry.lesson_title}: {entry.notebook} (open it with: amp-lessons lab)"),
        *(("Links" if not place else "", link) for place, link in enumerate(entry.links)),
        ("Found by", found.why),
        ("Name", entry.id),
    ]
    width = min(width, WIDEST)
    lines = [*_wrapped(entry.title, width), ""]
    for label, text in rows:
        if text:
            lines += _wrapped(f"{label:<{_LABELS}}{text}", width, indent=_LABELS)
    return lines


def as_list(entries: Iterable[Entry], width: int = WIDEST) -> list[str]:
    """Entries in two lines each: the name to look it up by, and the title."""
    width = min(width, WIDEST)
    return [
        line
        for entry in entries
        for line in (entry.id, *_wrapped(f"    {entry.title}", width, indent=4))
    ]


def as_json(found: Sequence[Match], read: str = "") -> dict[str, Any]:
    """What was found as plain data: all fields of each entry, its lesson's notebook, and why."""
    return {
        "confident": any(each.confident for each in found),
        "read": read,
        "found": [
            entry_as_json(each.entry)
            | {"score": round(each.score, 3), "confident": each.confident, "why": each.why}
            for each in found
        ],
    }


def entry_as_json(entry: Entry) -> dict[str, Any]:
    """An entry as plain data."""
    return asdict(entry) | {"notebook": entry.notebook}


def _wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    return textwrap.wrap(
        text,
        max(width, 2 * _LABELS),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
