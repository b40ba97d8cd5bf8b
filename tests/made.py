"""An exercise made of functions in place of a file, and a reporter, for tests of the framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from amp_lessons.exercises.checks.diagnosis import Diagnosis, Judge, Mistake, WrongAnswer
from amp_lessons.exercises.checks.exercise import Exercise
from amp_lessons.exercises.checks.probe import Case, Probe
from amp_lessons.exercises.checks.reporters import CheckedExercise
from amp_lessons.exercises.checks.verdict import Finding, Verdict


class Made(Exercise):
    """Like an exercise of the course, under a name that the catalogue knows."""

    probe: Any = None
    lesson_learned: Any = "Now you know."
    diagnoses: Any = None

    def __init__(
        self,
        cases: Sequence[Case],
        right: Callable[..., Any],
        mistakes: Mapping[str, tuple[str, Callable[..., Any]]] | None = None,
        *,
        play: Callable[..., Any] = lambda answer: answer,
        judge: Judge | None = None,
        name: str = "survives",
    ) -> None:
        super().__init__(Path(f"{name}.py"))
        self.probe = Probe(lambda: cases, play)
        programs = {"right": right} | {slug: model for slug, (_, model) in (mistakes or {}).items()}
        self.diagnoses = {slug: text for slug, (text, _) in (mistakes or {}).items()}
        found = tuple(
            Mistake(slug, text, (WrongAnswer(slug, slug, "here"),))
            for slug, text in self.diagnoses.items()
        )

        def answer(source: str) -> tuple[Any, ...]:
            return (programs[source],)

        right_ones = {"": "right"}
        self.diagnosis = Diagnosis(name, self.probe, judge or Judge(), right_ones, found, answer)

    def diagnose(self, evidence: Any) -> Finding | Verdict:
        return self.diagnosis.diagnose(evidence)


class Taken:
    """A reporter that keeps the evidence of each check, by exercise."""

    def __init__(self) -> None:
        self.evidence: dict[str, Any] = {}

    def report(self, exercise: CheckedExercise, evidence: Any) -> None:
        self.evidence[exercise.name] = evidence
