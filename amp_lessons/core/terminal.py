"""What every command prints with: a console, the symbols of the five states, one-line errors.

Output must read the same in a colour terminal, in a pipe and in a terminal that knows only ASCII,
so each state has a symbol and a word, and never a colour alone.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from amp_lessons.core.states import Look, look

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

NARROWEST = 20
"""Columns. A table in fewer has no room for any word."""


def console(stderr: bool = False) -> Console:
    """A rich console that cannot crash on a character which the terminal does not have."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    _never_fail(stream)
    return Console(stderr=stderr, width=_width(), highlight=False, markup=False, emoji=False)


def _width() -> int | None:
    """None where rich finds the width itself. It takes ``COLUMNS=0`` at its word and prints
    nothing; POSIX says that 0 columns stand for "not known"."""
    columns = os.environ.get("COLUMNS", "")
    if not columns.isdigit() or int(columns) >= NARROWEST:
        return None
    return max(shutil.get_terminal_size().columns, NARROWEST)


def open_standard_streams() -> None:
    """Make standard input, output and error usable where the shell closed them, as ``>&-`` does.

    What is written to them is lost, as was asked for. Without this, the next file that is opened
    would take the place of the closed one, and get what is printed.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the system gives the lowest free number
        if getattr(sys, name) is None:
            with suppress(OSError):
                setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


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
    return _marked(state + note, look(state))


def mark(state: str) -> str:
    """A state's symbol, as far as standard output can print it."""
    shown = look(state)
    return shown.symbol if can_print(shown.symbol) else shown.ascii


def _marked(words: str, shown: Look) -> Text:
    from rich.text import Text

    symbol = shown.symbol if can_print(shown.symbol) else shown.ascii
    return Text(f"{symbol} {words}", style=shown.terminal)


def lesson_state_text(state: str) -> Text:
    """The state of a lesson as symbol and word, such as ``✔ done``."""
    return _marked(state, look(state))


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
