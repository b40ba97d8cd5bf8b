"""What grading one notebook gave: the marks, whose they are, and what a person should know.

It is plain data, so a result can be kept in a file, sent from another machine, and shown in a
table or on a page without grading again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from amp_lessons.core.terminal import line

if TYPE_CHECKING:
    from amp_lessons.exercises.checks.verdict import Verdict


def verdict_from_json(data: Mapping[str, Any]) -> Verdict:
    """The verdict in a mark's JSON, or in a judge's answer."""
    from amp_lessons.exercises.checks.verdict import State, Verdict

    return Verdict(
        State(data["state"]),
        data["said"],
        data["diagnosis"],
        tuple(data["seen"]),
        data["check_failed"],
    )


@dataclass(frozen=True)
class Mark:
    """The verdict on one exercise, and its points."""

    exercise: str
    verdict: Verdict
    points: int
    of: int

    @property
    def message(self) -> str:
        """What the verdict says; for an error, with the learner's line."""
        seen = self.verdict.seen if self.verdict.state == "error" else ()
        where = f" ({'; '.join(seen)})" if seen else ""
        return line(self.verdict.message + where)

    def to_json(self) -> dict[str, Any]:
        return {
            "state": str(self.verdict.state),
            "points": self.points,
            "of": self.of,
            "diagnosis": self.verdict.diagnosis,
            "message": self.message,
            "said": self.verdict.message,
            "seen": list(self.verdict.seen),
            "check_failed": self.verdict.check_failed,
        }

    @classmethod
    def from_json(cls, exercise: str, data: Mapping[str, Any]) -> Mark:
        return cls(exercise, verdict_from_json(data), data["points"], data["of"])


@dataclass(frozen=True)
class Graded:
    """One notebook's marks.

    Attributes:
        name: what to call the notebook, such as ``"ada/06_grad_scaler_exercises.ipynb"``.
        learner: whose it is, or "" if nothing tells.
        lesson: its id, or None if the notebook could not be read.
        problems: why a person should look at it; with any, it counts as not gradable.
        notes: what is worth knowing and changes nothing.
        gave_up: the exercises whose solution the learner opened without a pass, as far as the
            notebook or the progress file beside it tells.
        answers: by exercise, the source of the cells that hold the learner's answer.
    """

    name: str
    learner: str = ""
    lesson: str | None = None
    marks: tuple[Mark, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    gave_up: tuple[str, ...] = ()
    answers: Mapping[str, str] | None = None

    @property
    def gradable(self) -> bool:
        return not self.problems

    @property
    def points(self) -> int:
        return sum(mark.points for mark in self.marks)

    @property
    def of(self) -> int:
        return sum(mark.of for mark in self.marks)

    def only(self, exercises: Collection[str]) -> Graded:
        """The same notebook as if its sheet had these exercises alone."""
        marks = tuple(mark for mark in self.marks if mark.exercise in exercises)
        unset = ("none of its exercises was set",) if self.marks and not marks else ()
        return replace(
            self,
            marks=marks,
            notes=(*self.notes, *unset),
            gave_up=tuple(name for name in self.gave_up if name in exercises),
            answers={n: text for n, text in (self.answers or {}).items() if n in exercises},
        )

    def to_json(self) -> dict[str, Any]:
        """In JSON's types; `from_json` reads it back."""
        return {
            "notebook": self.name,
            "learner": self.learner,
            "lesson": self.lesson,
            "exercises": {mark.exercise: mark.to_json() for mark in self.marks},
            "points": self.points,
            "of": self.of,
            "problems": list(self.problems),
            "notes": list(self.notes),
            "gave_up": list(self.gave_up),
            "answers": dict(self.answers or {}),
            "gradable": self.gradable,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Graded:
        """What `to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
        marks = tuple(Mark.from_json(name, mark) for name, mark in data["exercises"].items())
        return cls(
            data["notebook"],
            data["learner"],
            data["lesson"],
            marks,
            tuple(data["problems"]),
            tuple(data["notes"]),
            tuple(data["gave_up"]),
            dict(data["answers"]),
        )
