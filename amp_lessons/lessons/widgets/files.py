"""The files behind a widget's page: its own, those of the questions, and those that all share."""

from __future__ import annotations

from pathlib import Path

from amp_lessons.core.es_modules import SHARED, join_modules, read_static
from amp_lessons.quiz.markup import STATIC as QUESTIONS

STATIC = Path(__file__).parent / "static"
FOLDERS = (STATIC, QUESTIONS, SHARED)
"""Where a widget's files lie. A name is in one of them only."""


def module(name: str) -> str:
    """A widget's module, joined with all that it imports."""
    return join_modules(name, *FOLDERS)


def style(*names: str) -> str:
    """Style sheets, one after the other."""
    return "".join(read_static(name, *FOLDERS) for name in names)
