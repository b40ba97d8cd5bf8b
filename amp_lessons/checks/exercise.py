"""One exercise: check it, ask for a hint, open the solution.

A check has two halves. The *probe* runs next to the learner's code and returns plain data; the
*judge* turns plain data into a verdict, and never sees a learner's object. The data goes through
JSON in between, here as in the grader, where the judge runs in another process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from amp_lessons import progress
from amp_lessons.checks import display
from amp_lessons.checks.evidence import UNATTEMPTED, as_json, describe_error
from amp_lessons.checks.surroundings import usual_torch
from amp_lessons.checks.verdict import State, Verdict
from amp_lessons.course import ExerciseInfo, Lesson, Need, exercise_info, lesson_of

Recorder = Callable[[str, Any], None]
_recorder: Recorder | None = None


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Within this context a check hands its name and evidence to ``recorder``, and does nothing
    else: nothing is judged, displayed or saved. The grader uses it."""
    global _recorder
    before, _recorder = _recorder, recorder
    try:
        yield
    finally:
        _recorder = before


class CheckFailed(AssertionError):
    """Raised instead of a box when nbgrader runs the notebook: that is how it takes marks off."""


@dataclass(frozen=True)
class Finding:
    """What a judge found: nothing (a pass), or the name of a diagnosis and what it was seen in.

    Args:
        diagnosis: a key of the exercise's `diagnoses`, or ``""`` for a pass.
        seen: lines of evidence for the learner.
        fields: values for the braces in the diagnosis' text.
    """

    diagnosis: str = ""
    seen: tuple[str, ...] = ()
    fields: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Exercise:
    """An exercise of the course, as a learner meets it: ``ex.next_float.check(next_float)``.

    Args:
        name: as in the catalogue (`course.py`).
        probe: takes what the learner passes to `check`; returns plain data.
        judge: takes the probe's data; returns a `Finding`, or a `Verdict` where it must choose
            the state itself (an error, an attempt that has not begun).
        diagnoses: for each misconception that the judge can name, what to tell the learner.
        hints: from gentle to almost the answer.
        lesson_learned: one sentence for the box of a pass: what the learner now knows.
        needs: what a machine must have; without it the check is skipped.
    """

    name: str
    probe: Callable[..., Any]
    judge: Callable[[Any], Finding | Verdict]
    diagnoses: Mapping[str, str]
    hints: tuple[str, ...]
    lesson_learned: str = ""
    needs: Need = "cpu"

    @property
    def info(self) -> ExerciseInfo:
        return exercise_info(self.name)

    @property
    def lesson(self) -> Lesson:
        return lesson_of(self.name)

    # ---- for learners -------------------------------------------------------------------------

    def check(self, *answer: Any) -> None:
        """Check an answer and show the verdict.

        Args:
            answer: what the exercise asks for: a function, a class or a value.
        """
        evidence = self.evidence(*answer)
        if _recorder is not None:
            _recorder(self.name, evidence)
            return
        verdict = self.verdict(evidence)
        if verdict.check_failed and "NBGRADER_EXECUTION" not in os.environ:
            display.show_note(self, "! Error in the check", verdict.message)
            return  # it says nothing about the learner, so their progress stays as it is
        if "NBGRADER_EXECUTION" in os.environ:
            if not verdict.passed:
                raise CheckFailed(display.as_text(self, verdict))
            return
        done, problems = _saved(lambda: progress.record_check(self.name, verdict.state))
        way = [display.after_a_pass(self, done)] if verdict.passed and done else []
        display.show_verdict(self, verdict, [*way, *problems])

    def hint(self, number: int | None = None) -> None:
        """Show the next hint, or hint ``number`` (from 1)."""
        last = len(self.hints)
        if number is None:
            try:
                number = min(progress.load()[self.name].hints + 1, last)
            except progress.ProgressError:
                number = 1
        if number not in range(1, last + 1):
            display.show_note(self, "No such hint", f"This exercise has hints 1 to {last}.")
            return
        _, notes = _saved(lambda: progress.record_hint(self.name, number))
        more = "" if number < last else "This was the last one."
        text = f"{self.hints[number - 1]} {more}".strip()
        display.show_note(self, f"Hint {number} of {last}", text, notes)

    def solution(self, give_up: bool = False) -> None:
        """Show the solution: after a pass, or if you give up, which is recorded.

        Args:
            give_up: True opens the solution without a pass.
        """
        notes: list[str] = []
        try:
            entry = progress.load()[self.name]
            is_open = entry.passed or entry.gave_up_at is not None
        except progress.ProgressError as error:
            is_open, notes = False, [str(error)]
        if not is_open and not give_up:
            display.show_note(
                self,
                "The solution is still closed",
                "It opens when your answer passes. To open it now, and have that recorded, run "
                f"the same cell with solution(give_up=True). There are {len(self.hints)} hints "
                "too.",
                notes,
            )
            return
        if not is_open:
            notes += _saved(lambda: progress.record_give_up(self.name))[1]
        from amp_lessons.checks.solutions import solution_of

        display.show_solution(self, solution_of(self.name), notes)

    def __repr__(self) -> str:
        return f"<exercise {self.name}: .check(…), .hint(), .solution()>"

    # ---- the two halves -----------------------------------------------------------------------

    def evidence(self, *answer: Any) -> Any:
        """Run the probe; give its data as it comes out of JSON, so that nothing else can."""
        missing = _missing(self.needs)
        if missing:
            return {"skipped": missing}
        if not answer or any(part is ... for part in answer):
            return UNATTEMPTED
        try:
            with usual_torch():
                return json.loads(as_json(self.probe(*answer)))
        except NotImplementedError:
            return UNATTEMPTED
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also sys.exit(), and a learner's own BaseException
            return {"error": describe_error(error)}

    def verdict(self, evidence: Any, foreign: bool = False) -> Verdict:
        """Judge a probe's data. Never raises: a check that fails says so in its verdict.

        Args:
            evidence: as `evidence` returns it.
            foreign: whether it comes from another process, and may be damaged or forged.
        """
        try:
            return _printable(self._judge(evidence))
        except Exception as error:
            failure = describe_error(error)
            name = f"{failure['type']}: {failure['message']}".rstrip(": ")
            message = (_CANNOT_JUDGE if foreign else _CHECK_FAILED).format(name)
            return _printable(Verdict(State.ERROR, message, check_failed=True))

    def _judge(self, evidence: Any) -> Verdict:
        if isinstance(evidence, dict):
            if "skipped" in evidence:
                return Verdict(State.SKIPPED, f"Not checked here: {evidence['skipped']}")
            if "unattempted" in evidence:
                return Verdict(State.NOT_ATTEMPTED, "Your answer is still the stub.")
            if "error" in evidence:
                return error_verdict(evidence["error"])
        with usual_torch():
            finding = self.judge(evidence)
        if isinstance(finding, Verdict):
            return finding
        if not finding.diagnosis:
            return Verdict(State.PASSED, self.lesson_learned)
        text = (self.diagnoses | COMMON_DIAGNOSES)[finding.diagnosis]
        message = text.format(**(finding.fields or {}))
        return Verdict(State.WRONG, message, finding.diagnosis, finding.seen)

    def evaluate(self, *answer: Any) -> Verdict:
        """Probe and judge, with nothing displayed or saved."""
        return self.verdict(self.evidence(*answer))


COMMON_DIAGNOSES = {
    "returned-none": "Your function returned None. Is a `return` missing?",
    "wrong-type": "Your function returned {got}, and what was asked for is {expected}.",
    "wrong-value": "This is not a mistake that the check knows by name. Compare the lines below "
    "with what you expected.",
    "changed-argument": "Your function changed its input in place, and the caller still needs it: "
    "work on a copy. For a list, `sorted(values)` in place of `values.sort()`; for a tensor, the "
    "operation without the trailing underscore; for a model, take your hooks off again.",
}


_CHECK_FAILED = (
    "The check itself failed, with {}. This is a mistake in the course and not in your answer. "
    "Your answer and your progress are as they were. Please send this message, with your cell, to "
    "the people who maintain the course."
)
_CANNOT_JUDGE = (
    "What this check reported cannot be judged ({}): it was damaged or forged, or the check itself "
    "has a bug. Look at this answer yourself."
)


def _printable(verdict: Verdict) -> Verdict:
    """The same verdict without half surrogate pairs: no notebook and no file can hold those."""

    def clean(text: str) -> str:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")

    return replace(verdict, message=clean(verdict.message), seen=tuple(map(clean, verdict.seen)))


def error_verdict(error: Mapping[str, Any]) -> Verdict:
    """The verdict for a learner's exception, as `evidence.describe_error` describes it."""
    where = ""
    if "line" in error:
        where = f"line {error['line']} of {error.get('function')}: {error.get('source')}"
    message = f"{error.get('type')}: {error.get('message')}".rstrip(": ")
    return Verdict(State.ERROR, message, seen=(where,) if where else ())


def _missing(need: Need) -> str:
    """Why this machine cannot run a check with this need; "" if it can."""
    if need == "cpu":
        return ""
    from amp_lessons.device import why_not

    return why_not(need)


def _saved(action: Callable[[], progress.Progress]) -> tuple[progress.Progress | None, list[str]]:
    """Save progress; what went wrong becomes a note under the box, never an exception."""
    try:
        done = action()
    except progress.ProgressError as error:
        return None, [f"Progress was not saved. {error}"]
    return done, done.warnings
