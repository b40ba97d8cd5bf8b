"""The exercises' checks, one module a lesson: ``from amp_lessons.checks import number_formats``.

Importing this package alone is cheap; a lesson's module imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amp_lessons.checks.exercise import Exercise


def find(name: str) -> Exercise:
    """The exercise with this name, from the module of its lesson.

    Raises:
        UnknownExercise: if the catalogue has no such exercise.
    """
    import importlib

    from amp_lessons.course import lesson_of

    module = importlib.import_module(f"amp_lessons.checks.{lesson_of(name).slug}")
    return getattr(module, name)
