"""A folder of exercises, as a notebook sees it: ``from amp_lessons.exercises import memory as ex``.

Each exercise is made when it is first asked for; other names come from the topic's `harness`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from amp_lessons.core import catalogue
from amp_lessons.exercises.checks.exercise import Exercise


@cache
def exercise(name: str) -> Exercise:
    """The exercise with this name.

    Raises:
        UnknownExercise: if the catalogue has no such exercise.
    """
    return Exercise(catalogue.EXERCISES / catalogue.lesson_of(name).slug / f"{name}.py")


def open_topic(module: str) -> Callable[[str], Any]:
    """A ``__getattr__`` for the package of a topic.

    Args:
        module: the package's name, such as ``"amp_lessons.exercises.memory"``.
    """
    topic = module.rpartition(".")[2]

    def attribute(name: str) -> Any:
        if catalogue.find_exercise(name) is not None and catalogue.lesson_of(name).slug == topic:
            return exercise(name)
        if not name.startswith("_") and (catalogue.EXERCISES / topic / "harness.py").exists():
            harness = importlib.import_module(f"{module}.harness")
            if hasattr(harness, name):
                return getattr(harness, name)
        raise AttributeError(f"the exercises of {topic} have no {name!r}")

    return attribute
