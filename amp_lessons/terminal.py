"""What every command prints with: a console, the symbols of the five states, one-line errors.

Output must read the same in a colour terminal, in a pipe and in a terminal that knows only ASCII,
so each state has a symbol and a word, and never a colour alone.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

STATE_STYLES = {
    "passed": ("✔", "+", "green"),
    "wrong": ("✘", "x", "red"),
    "error": ("!", "!", "yellow"),
    "not attempted": ("○", "-", "dim"),
    "skipped": ("↷", "~", "cyan"),
}
"""For each state: its symbol, the symbol where there is only ASCII, and its colour."""


def console(stderr: bool = False) -> Console:
    """A rich console that cannot crash on a character which the terminal does not have."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    _never_fail(stream)
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def say(message: str) -> None:
    """Print one plain line on standard output."""
    _never_fail(sys.stdout)
    print(line(message), flush=True)


def warn(message: str) -> None:
    """Print one plain line on standard error."""
    _never_fail(sys.stderr)
    print(f"amp-lessons: {line(message)}", file=sys.stderr, flush=True)


def line(message: str) -> str:
    """The message as one line, without anything that could steer a terminal."""
    printable = "".join(char if char.isprintable() else " " for char in message)
    return " ".join(printable.split())


def state_text(state: str, note: str = "") -> Text:
    """A state as symbol and word, such as ``✔ passed``."""
    return _marked(state + note, STATE_STYLES.get(state, ("?", "?", "")))


def _marked(words: str, look: tuple[str, str, str]) -> Text:
    from rich.text import Text

    symbol, ascii_symbol, style = look
    return Text(f"{symbol if can_print(symbol) else ascii_symbol} {words}", style=style)


LESSON_STYLES = {
    "done": ("✔", "+", "green"),
    "started": ("◐", "~", "yellow"),
    "open": ("○", "-", "dim"),
}


def lesson_state_text(state: str) -> Text:
    """The state of a lesson as symbol and word, such as ``✔ done``."""
    return _marked(state, LESSON_STYLES[state])


def can_print(text: str) -> bool:
    """Whether standard output's encoding has all of these characters."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _never_fail(stream: TextIO) -> None:
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
