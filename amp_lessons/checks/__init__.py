"""The exercises' checks, one module a lesson: ``from amp_lessons.checks import number_formats``.

Importing this package alone is cheap; a lesson's module imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

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


_FORMER = {"start_here": "amp_in_20_minutes"}


def __getattr__(name: str) -> ModuleType:
    """A module by the name it once had, for sheets that a learner has already answered."""
    import importlib

    if name in _FORMER:
        return importlib.import_module(f"amp_lessons.checks.{_FORMER[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
