"""Every error of mixed precision with its cure: `lookup` finds it in whatever somebody pasted.

`catalogue` reads the entries; `entry` gives the one that another module names by its id. `pasted`
finds the messages in a text, `similarity` compares plain words, `search` decides, and `commands`
is `amp-lessons lookup`. Nothing here imports torch or needs a network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amp_lessons.amp.errors.catalogue import CatalogueError, Entry, entry
    from amp_lessons.amp.errors.messages import as_text
    from amp_lessons.amp.errors.pasted import UnreadableText
    from amp_lessons.amp.errors.search import Match, lookup

__all__ = ["CatalogueError", "Entry", "Match", "UnreadableText", "as_text", "entry", "lookup"]

_HOMES = {
    "CatalogueError": "catalogue",
    "Entry": "catalogue",
    "Match": "search",
    "UnreadableText": "pasted",
    "as_text": "messages",
    "entry": "catalogue",
    "lookup": "search",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: the command line loads this package only to print its help."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
