"""How a check speaks to a learner: a box in a notebook, plain text in a terminal.

The box takes its colours from the theme around it (light or dark) and only tints its edge, and
each state has a symbol and a word, so nothing is told by colour alone.
"""

from __future__ import annotations

import html
import textwrap
from typing import TYPE_CHECKING

from amp_lessons.checks.verdict import State, Verdict

if TYPE_CHECKING:
    from amp_lessons.checks.exercise import Exercise

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
    State.ERROR: "Your code raised this exception. Mend that line, run the cell, and check again.",
    State.NOT_ATTEMPTED: "Write your answer in the cell above, run it, then run this check. "
    "To begin: ex.{name}.hint()",
    State.PASSED: "The course's own answer: ex.{name}.solution()",
    State.SKIPPED: "It counts neither for nor against you.",
}


def show_verdict(exercise: Exercise, verdict: Verdict, notes: list[str]) -> None:
    """Show the box of a verdict. ``notes`` are remarks for the foot, such as a full disk."""
    heading = f"{SYMBOLS[verdict.state]} {verdict.state.capitalize()}: {exercise.info.title}"
    foot = [_NEXT[verdict.state].format(name=exercise.name), *notes]
    _show(heading, verdict.message, list(verdict.seen), foot, _EDGES[verdict.state])


def show_note(exercise: Exercise, title: str, text: str, notes: list[str] | None = None) -> None:
    """Show a hint, or a word about the solution."""
    _show(f"{title}: {exercise.info.title}", text, [], notes or [], "#4a7fc1")


def show_solution(exercise: Exercise, source: str, notes: list[str]) -> None:
    """Show a solution's source."""
    _show(f"Solution: {exercise.info.title}", "", source.splitlines(), notes, "#4a7fc1")


def as_text(exercise: Exercise, verdict: Verdict) -> str:
    """The plain-text form of a verdict, as a terminal shows it."""
    heading = f"{SYMBOLS[verdict.state]} {verdict.state.capitalize()}: {exercise.info.title}"
    return _text(heading, verdict.message, list(verdict.seen), [])


def _show(heading: str, message: str, lines: list[str], foot: list[str], edge: str) -> None:
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


def _text(heading: str, message: str, lines: list[str], foot: list[str]) -> str:
    parts = [heading]
    if message:
        parts.append(textwrap.fill(message, 88, initial_indent="  ", subsequent_indent="  "))
    parts += [f"    {line}" for line in lines]
    parts += [textwrap.fill(f, 88, initial_indent="  ", subsequent_indent="  ") for f in foot]
    return "\n".join(parts)


def _html(heading: str, message: str, lines: list[str], foot: list[str], edge: str) -> str:
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
        parts.append(f'<div style="margin-top:6px;font-size:0.92em">{html.escape(line)}</div>')
    return (
        f'<div role="group" aria-label="{html.escape(heading)}" class="amp-lessons-box" '
        f'style="border:1px solid rgba(128,128,128,0.45);border-left:6px solid {edge};'
        "border-radius:4px;padding:8px 12px;margin:4px 0;max-width:52em;line-height:1.5;"
        'color:inherit">' + "".join(parts) + "</div>"
    )
