"""The framework of the exercises: how one is read from its file, checked and judged.

The exercises themselves are in `amp_lessons.exercises`. Importing this package alone is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from amp_lessons.checks.exercise import Exercise


def find(name: str) -> Exercise:
    """The exercise with this name, or with one that it once had.

    Raises:
        UnknownExercise: if the catalogue has no such exercise.
    """
    from amp_lessons.checks import topic

    return topic.exercise(name)


def __getattr__(name: str) -> ModuleType:
    """A topic's exercises, for sheets that a learner answered when they were imported from here."""
    import importlib

    from amp_lessons.course import LESSONS
    from amp_lessons.renamed import TOPICS

    slug = TOPICS.get(name, name)
    if any(slug == lesson.slug for lesson in LESSONS):
        return importlib.import_module(f"amp_lessons.exercises.{slug}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
