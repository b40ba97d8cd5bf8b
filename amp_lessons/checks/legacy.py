"""Exercises that do not have a file of their own yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from amp_lessons.checks import exercise
from amp_lessons.checks.diagnosis import error_verdict
from amp_lessons.checks.verdict import Finding, Verdict

__all__ = ["Exercise", "Finding", "error_verdict"]


@dataclass(frozen=True)
class _Fields:
    name: str
    probe: Callable[..., Any]
    judge: Callable[[Any], Finding | Verdict]
    diagnoses: Mapping[str, str]
    hints: tuple[str, ...]
    lesson_learned: str = ""


class Exercise(_Fields, exercise.Exercise):
    probe = hints = lesson_learned = diagnoses = None

    def find(self, evidence: Any) -> Finding | Verdict:
        return self.judge(evidence)

    def solved(self) -> str:
        from amp_lessons.checks.solutions import solution_of

        return solution_of(self.name)
