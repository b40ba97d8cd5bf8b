"""The exercises, a folder a topic and a file an exercise.

In a notebook: ``from amp_lessons.exercises import number_formats as ex``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    """A topic by its former name, for sheets that a learner answered when it had that name."""
    import importlib

    from amp_lessons.renamed import TOPICS

    if name in TOPICS:
        return importlib.import_module(f"{__name__}.{TOPICS[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
