"""The framework of the exercises: how one is read from its file, checked and judged.

The exercises themselves are in `amp_lessons.exercises`. Importing this package alone is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amp_lessons.exercises.checks.exercise import Exercise


def find_exercise(name: str) -> Exercise:
    """The exercise with this name.

    Raises:
        UnknownExercise: if the catalogue has no such exercise.
    """
    from amp_lessons.exercises.checks import topic

    return topic.exercise(name)
