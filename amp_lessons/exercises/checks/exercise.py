"""One exercise: check it, ask for a hint, open the solution.

A check has two parts. The *probe* runs next to the learner's code and returns plain data; the
*judge* turns plain data into a verdict, and never sees a learner's object. The data goes through
JSON in between, here as in the grader, where the judge runs in another process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from amp_lessons.core import handout, progress
from amp_lessons.core.catalogue import ExerciseInfo, Lesson, exercise_info, lesson_of
from amp_lessons.exercises.checks import display, reporters
from amp_lessons.exercises.checks.parts import AnswerKey, PublicPart
from amp_lessons.exercises.checks.verdict import Finding, State, Verdict

if TYPE_CHECKING:
    from amp_lessons.exercises.checks.probe import Probe
    from amp_lessons.exercises.checks.reporters import Reporter


class Exercise:
    """An exercise of the course, as a learner meets it: ``ex.next_float.check(next_float)``.

    Args:
        path: the exercise's file, ``amp_lessons/exercises/TOPIC/NAME.py``. It is read when it is
            first needed, and its answer key only for a verdict or the solution.
    """

    reporter: ClassVar[Reporter | None] = None
    """Who is told what a check saw. None stands for the one who runs the notebook: a learner or
    nbgrader. The grader's process for a notebook sets it before the first cell."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.stem

    @cached_property
    def public(self) -> PublicPart:
        return PublicPart(self.path)

    @cached_property
    def answer_key(self) -> AnswerKey:
        return AnswerKey(self.public)

    @property
    def probe(self) -> Probe:
        return self.public.probe

    @property
    def hints(self) -> tuple[str, ...]:
        """From gentle to almost the answer."""
        return self.public.hints

    @property
    def info(self) -> ExerciseInfo:
        return exercise_info(self.name)

    @property
    def lesson(self) -> Lesson:
        return lesson_of(self.name)

    # ---- for learners ---------------------------------------------------------------------------

    def check(self, *answer: Any) -> None:
        """Check an answer and show the verdict.

        Args:
            answer: what the exercise asks for: a function, a class or a value.
        """
        reporter = self.reporter or reporters.of_notebook()
        reporter.report(self, self.evidence_of(*answer))

    def hint(self, number: int | None = None) -> None:
        """Show the next hint, or hint ``number`` (from 1)."""
        last = len(self.hints)
        if number is None:
            try:
                number = min(progress.load()[self.name].hints + 1, last)
            except progress.ProgressError:
                number = 1
        if number not in range(1, last + 1):
            display.show_note(self.info, "No such hint", f"This exercise has hints 1 to {last}.")
            return
        _, notes = reporters.saved(self.name, lambda: progress.record_hint(self.name, number))
        more = "" if number < last else "This was the last one."
        text = f"{self.hints[number - 1]} {more}".strip()
        display.show_note(self.info, f"Hint {number} of {last}", text, notes)

    def solution(self, give_up: bool = False, code: str = "") -> None:
        """Show the solution: after a pass, or if you give up, which is recorded.

        Args:
            give_up: True opens the solution without a pass.
            code: what opens it in a hand-out whose solutions the instructor has closed.
        """
        notes: list[str] = []
        try:
            entry = progress.load()[self.name]
            is_open = entry.passed or entry.gave_up_at is not None
        except progress.ProgressError as error:
            entry, is_open, notes = progress.ExerciseRecord(), False, [str(error)]
        if not is_open and (closed := handout.why_closed(self.name, give_up, str(code))):
            hints = f"There are {len(self.hints)} hints too."
            display.show_note(self.info, "The solution is still closed", f"{closed} {hints}", notes)
            return
        if is_open:
            notes += handout.keep(self.name, entry)
        else:
            notes += reporters.saved(self.name, lambda: progress.record_give_up(self.name))[1]
        display.show_solution(self.info, self.solved(), notes)

    def solved(self) -> str:
        """The source of the solution, as it runs."""
        return self.answer_key.solution

    def __repr__(self) -> str:
        return f"<exercise {self.name}: .check(…), .hint(), .solution()>"

    # ---- the two parts --------------------------------------------------------------------------

    def evidence_of(self, *answer: Any) -> Any:
        """Run the probe; give its data as it comes out of JSON, so that nothing else can."""
        from amp_lessons.exercises.checks.evidence import describe_error
        from amp_lessons.exercises.checks.serialize import UNATTEMPTED, as_json
        from amp_lessons.exercises.checks.torch_state import usual_torch

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
            evidence: as `evidence_of` returns it.
            foreign: whether it comes from another process, and may be damaged or forged.
        """
        try:
            return _printable(self._judge(evidence))
        except Exception as error:
            name = f"{type(error).__name__}: {error}"[:500].rstrip(": ")
            message = (_CANNOT_JUDGE if foreign else _CHECK_FAILED).format(name)
            return _printable(Verdict(State.ERROR, message, check_failed=True))

    def _judge(self, evidence: Any) -> Verdict:
        from amp_lessons.exercises.checks.diagnosis import error_verdict
        from amp_lessons.exercises.checks.torch_state import usual_torch

        if isinstance(evidence, dict):
            if "unattempted" in evidence:
                return Verdict(State.NOT_ATTEMPTED, "Your answer is still the stub.")
            if "error" in evidence:
                return error_verdict(evidence["error"])
        with usual_torch():
            found = self.diagnose(evidence)
        if isinstance(found, Verdict):
            return found
        if not found.diagnosis:
            return Verdict(State.PASSED, self.lesson_learned)
        return Verdict(State.WRONG, self._message(found), found.diagnosis, found.seen)

    def diagnose(self, evidence: Any) -> Finding | Verdict:
        return self.answer_key.diagnosis.diagnose(evidence)

    @property
    def lesson_learned(self) -> str:
        """One or two sentences for the box of a pass: what the learner now knows."""
        return self.answer_key.passed

    @property
    def diagnoses(self) -> Mapping[str, str]:
        """For each mistake that the check knows by name, what to tell the learner."""
        return {m.slug: m.sentence for m in self.answer_key.diagnosis.mistakes if m.sentence}

    def _message(self, found: Finding) -> str:
        texts = {**COMMON_DIAGNOSES, **self.diagnoses}
        said = [texts[slug].format(**(found.fields or {})) for slug in found.diagnosis.split(" + ")]
        if len(said) > 1:
            return f"Two mistakes at once. The first: {said[0]} The second: {said[1]}"
        if not found.of:
            return said[0]
        where = f"For {found.scope}" if found.scope else f"In {found.of} of the calls below"
        return (
            f"{where} your answer does the same as one with this mistake: {said[0]} That doesn't "
            "explain every wrong result, so there may be a second mistake."
        )

    def evaluate(self, *answer: Any) -> Verdict:
        """Probe and judge, with nothing displayed or saved."""
        return self.verdict(self.evidence_of(*answer))


COMMON_DIAGNOSES = {
    "returned-none": "Your function returned None. Is a `return` missing?",
    "wrong-type": "Your function returned {got}, and what was asked for is {expected}.",
    "wrong-value": "The result is wrong, but this check does not recognise the mistake. Compare "
    "the lines below with what you expected.",
    "changed-argument": "Your function changed its input in place, and the caller still needs it. "
    "Work on a copy: for a list, `sorted(values)` in place of `values.sort()`; for a tensor, the "
    "operation without the trailing underscore; for a model, remove your hooks again.",
    "ready-made": "Your answer uses `{name}`, which already does what this sheet asks you to "
    "write. Write the steps yourself.",
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
