"""How a check speaks to a learner: a box in a notebook, plain text in a terminal.

The box takes its colours from the theme around it (light or dark) and only tints its edge, and
each state has a symbol and a word, so no state relies on colour alone.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from amp_lessons.checks.verdict import State, Verdict
from amp_lessons.course import HOME, ExerciseInfo, Lesson, after, heading_anchor

if TYPE_CHECKING:
    from amp_lessons.checks.exercise import Exercise
    from amp_lessons.progress import Progress

SYMBOLS = {
    State.PASSED: "✔",
    State.WRONG: "✘",
    State.ERROR: "!",
    State.NOT_ATTEMPTED: "○",
    State.SKIPPED: "↷",
}
# Edge colours with a contrast of at least 3:1 on white and on black.
_EDGES = {
    State.PASSED: "#2e8b57",
    State.WRONG: "#d9482b",
    State.ERROR: "#b8651b",
    State.NOT_ATTEMPTED: "#7a7f87",
    State.SKIPPED: "#4a7fc1",
}
_NEXT = {
    State.WRONG: "Change your cell, run it, and check again. A hint: ex.{name}.hint()",
    State.ERROR: "Your code raised this exception. Fix that line, run the cell, and check again.",
    State.NOT_ATTEMPTED: "Write your answer in the cell above, run it, then run this check. "
    "For a hint: ex.{name}.hint()",
    State.PASSED: "The course's own answer: ex.{name}.solution()",
    State.SKIPPED: "It counts neither for nor against you.",
}


@dataclass(frozen=True)
class Links:
    """A line of a box that ends in links.

    Args:
        text: what stands before them.
        to: label and address of each; an address is relative to a folder of the course.
    """

    text: str
    to: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return self.text + ", or ".join(f"{label} ({href})" for label, href in self.to)

    def as_html(self) -> str:
        links = [
            f'<a href="{html.escape(href)}" style="text-decoration:underline">'
            f"{html.escape(label)}</a>"
            for label, href in self.to
        ]
        return html.escape(self.text) + " · ".join(links)


def after_a_pass(exercise: Exercise, progress: Progress) -> Links:
    """How many exercises of the lesson have passed, and the way to what is next."""
    lesson = exercise.lesson
    names = [info.name for info in lesson.exercises]
    place = names.index(exercise.name) + 1
    later = [*lesson.exercises[place:], *lesson.exercises[:place]]
    open_ones = [info for info in later if not progress[info.name].passed]
    count = f"{len(names) - len(open_ones)} of {len(names)} in this lesson. Next: "
    if open_ones:
        return Links(count, (_link_within(lesson, open_ones[0]),))
    return Links(count, way_on(lesson))


def way_on(lesson: Lesson) -> tuple[tuple[str, str], ...]:
    """Label and address of the next lesson and of the home page, for a box below a cell."""
    following = after(lesson)
    home = ("home", f"../{HOME}")
    if following is None:
        return (home,)
    label = f"lesson {following.number:02}, {following.title}"
    return ((label, f"../{following.notebook}"), home)


def _link_within(lesson: Lesson, info: ExerciseInfo) -> tuple[str, str]:
    number = lesson.exercises.index(info) + 1
    heading = f"{number}. {info.title}"
    return heading, f"{PurePosixPath(lesson.sheet).name}#{heading_anchor(heading)}"


def show_box(heading: str, message: str, foot: Sequence[str | Links] = ()) -> None:
    """Show a box that is no verdict, such as the end of a lesson."""
    _show(heading, message, [], foot, _EDGES[State.PASSED])


def show_verdict(exercise: Exercise, verdict: Verdict, notes: Sequence[str | Links]) -> None:
    """Show the box of a verdict. ``notes`` are lines for the foot: what comes next, a full disk."""
    heading = f"{SYMBOLS[verdict.state]} {verdict.state.capitalize()}: {exercise.info.title}"
    foot = [_NEXT[verdict.state].format(name=exercise.name), *notes]
    _show(heading, verdict.message, list(verdict.seen), foot, _EDGES[verdict.state])


def show_note(exercise: Exercise, title: str, text: str, notes: list[str] | None = None) -> None:
    """Show a hint, or a word about the solution."""
    _show(f"{title}: {exercise.info.title}", text, [], notes or [], "#4a7fc1")


def show_solution(exercise: Exercise, source: str, notes: list[str]) -> None:
    """Show a solution's source, so that what is copied from the box or the terminal runs.

    That is why a terminal gets the source without the indent that other details have.
    """
    heading = f"Solution: {exercise.info.title}"
    text = "\n".join([f"# {heading}", source, *(f"# {note}" for note in notes)])
    if _notebook() is None:
        _print(text)
        return
    from IPython.display import display

    markup = _html(heading, "", [source], notes, "#4a7fc1")
    display({"text/html": markup, "text/plain": text}, raw=True)


def as_text(exercise: Exercise, verdict: Verdict) -> str:
    """The plain-text form of a verdict, as a terminal shows it."""
    heading = f"{SYMBOLS[verdict.state]} {verdict.state.capitalize()}: {exercise.info.title}"
    return _text(heading, verdict.message, list(verdict.seen), [])


def _show(
    heading: str, message: str, lines: list[str], foot: Sequence[str | Links], edge: str
) -> None:
    text = _text(heading, message, lines, foot)
    shell = _notebook()
    if shell is None:
        _print(text)
        return
    from IPython.display import display

    markup = _html(heading, message, lines, foot, edge)
    display({"text/html": markup, "text/plain": text}, raw=True)


def _notebook() -> object | None:
    """The IPython shell, if it can show HTML."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    shell = get_ipython()
    return shell if shell is not None and hasattr(shell, "kernel") else None


def _print(text: str) -> None:
    """Print, also where the terminal's encoding lacks the symbols."""
    try:
        print(text)
    except UnicodeEncodeError:
        print(text.encode("ascii", "replace").decode())


def _text(heading: str, message: str, lines: list[str], foot: Sequence[str | Links]) -> str:
    parts = [heading]
    if message:
        parts.append(textwrap.fill(message, 88, initial_indent="  ", subsequent_indent="  "))
    parts += [f"    {line}" for line in lines]
    parts += [textwrap.fill(str(f), 88, initial_indent="  ", subsequent_indent="  ") for f in foot]
    return "\n".join(parts)


def _html(
    heading: str, message: str, lines: list[str], foot: Sequence[str | Links], edge: str
) -> str:
    """The box. Every word in it is escaped: some of them are the learner's own."""
    parts = [f'<div style="font-weight:600">{html.escape(heading)}</div>']
    if message:
        parts.append(f'<div style="margin-top:4px">{html.escape(message)}</div>')
    if lines:
        code = html.escape("\n".join(lines))
        parts.append(
            '<pre tabindex="0" aria-label="Details" style="margin:6px 0 0 0;padding:6px 8px;'
            "overflow-x:auto;background:rgba(128,128,128,0.12);color:inherit;font-size:0.92em;"
            f'line-height:1.45">{code}</pre>'
        )
    for line in foot:
        shown = line.as_html() if isinstance(line, Links) else html.escape(line)
        parts.append(f'<div style="margin-top:6px;font-size:0.92em">{shown}</div>')
    return (
        f'<div role="group" aria-label="{html.escape(heading)}" class="amp-lessons-box" '
        f'style="border:1px solid rgba(128,128,128,0.45);border-left:6px solid {edge};'
        "border-radius:4px;padding:8px 12px;margin:4px 0;max-width:52em;line-height:1.5;"
        'color:inherit">' + "".join(parts) + "</div>"
    )
