"""The framework of the exercises: how one is read from its file, checked and judged.

The exercises themselves are in `amp_lessons.exercises`. Importing this package alone is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from amp_lessons.checks.exercise import Exercise


def find(name: str) -> Exercise:
    """The exercise with this name.

    Raises:
        UnknownExercise: if the catalogue has no such exercise.
    """
    import importlib

    from amp_lessons.checks import topic
    from amp_lessons.course import exercise_info, lesson_of

    slug, name = lesson_of(name).slug, exercise_info(name).name
    if (topic.FOLDER / slug / f"{name}.py").exists():
        return topic.exercise(name)
    module = importlib.import_module(f"amp_lessons.checks.{slug}")
    return getattr(module, name)


_FORMER = {"start_here": "amp_in_20_minutes"}


def __getattr__(name: str) -> ModuleType:
    """A topic's exercises, for sheets that a learner answered when they were imported from here."""
    import importlib

    from amp_lessons.course import LESSONS

    slug = _FORMER.get(name, name)
    if any(slug == lesson.slug for lesson in LESSONS):
        return importlib.import_module(f"amp_lessons.exercises.{slug}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
