"""What a learner reads about an exercise: a verdict, a hint, the solution, the way on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from amp_lessons.core import output_box
from amp_lessons.core.catalogue import HOME, ExerciseInfo, Lesson, heading_anchor, lesson_of
from amp_lessons.core.output_box import Links
from amp_lessons.core.progress import Progress
from amp_lessons.core.standing import ways_on
from amp_lessons.core.states import BLUE, look
from amp_lessons.exercises.checks.verdict import VERDICT, State, Verdict

_NEXT = {
    State.WRONG: "Change your cell, run it, and check again. A hint: ex.{name}.hint()",
    State.ERROR: "Your code raised this exception. Fix that line, run the cell, and check again.",
    State.NOT_ATTEMPTED: "Write your answer in the cell above, run it, then run this check. "
    "For a hint: ex.{name}.hint()",
    State.PASSED: "The course's own answer: ex.{name}.solution()",
    State.SKIPPED: "It counts neither for nor against you.",
}


def after_a_pass(info: ExerciseInfo, progress: Progress) -> Links:
    """How many exercises of the lesson have passed, and the way to what is next: the next one that
    is open, and also the next lesson once the core has passed."""
    lesson = lesson_of(info.name)
    place = lesson.exercises.index(info) + 1
    later = [*lesson.exercises[place:], *lesson.exercises[:place]]
    open_ones = [each for each in later if not progress[each.name].passed]
    open_core = [each for each in open_ones if each.core]
    if info.core:
        done, of = len(lesson.core) - len(open_core), len(lesson.core)
        count = f"{done} of {of} core exercises. Next: "
    else:
        done, of = len(lesson.exercises) - len(open_ones), len(lesson.exercises)
        count = f"{done} of {of} in this lesson. Next: "
    if open_core:
        return Links(count, (_link_within(lesson, open_core[0]),))
    more = tuple(_link_within(lesson, each) for each in open_ones[:1])
    *onward, home = way_on(lesson, progress)
    return Links(count, (*onward, *more, home) if info.core else (*more, *onward, home))


def way_on(lesson: Lesson, progress: Progress) -> tuple[tuple[str, str], ...]:
    """Label and address of what is next and of the home page, for a box below a cell."""
    home = ("home", f"../{HOME}")
    steps = ways_on(lesson, progress)
    return (*((str(step), f"../{step.notebook}") for step in steps), home)


def _link_within(lesson: Lesson, info: ExerciseInfo) -> tuple[str, str]:
    number = lesson.exercises.index(info) + 1
    heading = f"{number}. {info.title}"
    return heading, f"{PurePosixPath(lesson.sheet).name}#{heading_anchor(heading)}"


def show_verdict(info: ExerciseInfo, verdict: Verdict, notes: Sequence[str | Links]) -> None:
    """Show the box of a verdict. ``notes`` are lines for the foot: what comes next, a full disk."""
    foot = [_NEXT[verdict.state].format(name=info.name), *notes]
    edge, heading = look(verdict.state).edge, _heading(info, verdict)
    data = {VERDICT: as_data(info, verdict)}
    output_box.show_box(heading, verdict.message, foot, lines=verdict.seen, edge=edge, data=data)


def as_data(info: ExerciseInfo, verdict: Verdict) -> dict[str, Any]:
    """A verdict for programs that read a saved notebook, such as `class_view`."""
    data = {"exercise": info.name, "state": str(verdict.state)}
    if verdict.state not in (State.WRONG, State.ERROR):
        return data
    return data | {"diagnosis": verdict.diagnosis, "message": verdict.message}


def show_note(info: ExerciseInfo, title: str, text: str, notes: Sequence[str] = ()) -> None:
    """Show a hint, or a word about the solution."""
    output_box.show_box(f"{title}: {info.title}", text, notes, edge=BLUE)


def show_solution(info: ExerciseInfo, source: str, notes: Sequence[str]) -> None:
    """Show a solution's source, so that what is copied from the box or the terminal runs.

    That is why a terminal gets the source without the indent that other details have.
    """
    heading = f"Solution: {info.title}"
    text = "\n".join([f"# {heading}", source, *(f"# {note}" for note in notes)])
    output_box.show(output_box.as_html(heading, "", [source], notes, BLUE), text)


def as_text(info: ExerciseInfo, verdict: Verdict) -> str:
    """The plain-text form of a verdict, as a terminal shows it."""
    return output_box.as_text(_heading(info, verdict), verdict.message, verdict.seen)


def _heading(info: ExerciseInfo, verdict: Verdict) -> str:
    return f"{look(verdict.state).symbol} {verdict.state.capitalize()}: {info.title}"
