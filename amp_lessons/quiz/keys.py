"""What is typed: single keys at a terminal, lines from a pipe.

At a terminal each key counts at once and nothing is echoed, so the code that reads a key also
shows what it did. The terminal is put back as it was, whatever happens. Where the input is not a
terminal, an answer is a line.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any, Protocol

ENTER, END = "\n", "\x04"
_BACKSPACE = ("\x7f", "\b")
_KILL_LINE = "\x15"

Edit = Callable[[str, str], str | None]
"""What a line becomes with one more key; None if the key does nothing."""


class Quit(Exception):
    """There is no more input, or somebody has had enough."""


class Keys(Protocol):
    """Where answers come from."""

    single: bool
    """Whether a key counts at once."""

    def key(self) -> str:
        """One key; `ENTER` for an empty line. Raises `Quit` at the end of the input."""

    def line(self, edit: Edit | None = None, at_once: str = "", empty: bool = True) -> str:
        """One line, without its end. Raises `Quit` at the end of the input.

        Args:
            edit: what each key does to the line; by default it is appended.
            at_once: keys that end an empty line by themselves.
            empty: whether Enter alone counts. At a terminal it is ignored otherwise.
        """

    def forget(self, wait: float = 0.0) -> None:
        """Drop what was typed ahead at a terminal, up to so many seconds from now."""


@contextmanager
def opened() -> Iterator[Keys]:
    """The keys of this process, for as long as they are needed."""
    if sys.stdin is None or not sys.stdin.isatty():
        yield Lines()
        return
    with ExitStack() as stack:
        yield _Windows() if os.name == "nt" else stack.enter_context(_unix_terminal())


# ---- lines --------------------------------------------------------------------------------------


class Lines:
    """A pipe or a file: each answer is a line."""

    single = False

    def key(self) -> str:
        return self.line().lstrip()[:1] or ENTER

    def line(self, edit: Edit | None = None, at_once: str = "", empty: bool = True) -> str:
        text = sys.stdin.readline() if sys.stdin is not None else ""
        if not text:
            raise Quit
        text = text.strip()
        if edit is None or text in tuple(at_once):
            return text
        typed = ""
        for key in text:
            typed = _after(edit, typed, key)
        return typed

    def forget(self, wait: float = 0.0) -> None:
        """Keep everything: a pipe is written ahead."""


def _after(edit: Edit, typed: str, key: str) -> str:
    changed = edit(typed, key)
    return typed if changed is None else changed


def append(typed: str, key: str) -> str | None:
    """The usual effect of a key."""
    return typed + key if key.isprintable() else None


# ---- terminals ----------------------------------------------------------------------------------


class _Terminal:
    """A line editor over single keys."""

    single = True

    def key(self) -> str:
        raise NotImplementedError

    def forget(self, wait: float = 0.0) -> None:
        if wait:
            time.sleep(wait)
        self._drop_pending()

    def _drop_pending(self) -> None:
        raise NotImplementedError

    def line(self, edit: Edit | None = None, at_once: str = "", empty: bool = True) -> str:
        typed = ""
        while True:
            key = self.key()
            if not typed and key and key in at_once:
                _show(f"{key}\n")
                return key
            if key == ENTER and not typed and not empty:
                continue
            if key == ENTER:
                _show("\n")
                return typed
            if key in _BACKSPACE:
                changed: str | None = typed[:-1]
            elif key == _KILL_LINE:
                changed = ""
            else:
                changed = (edit or append)(typed, key) if key else None
            if changed is not None:
                _redraw(typed, changed)
                typed = changed


def _redraw(old: str, new: str) -> None:
    same = 0
    while same < len(old) and old[same : same + 1] == new[same : same + 1]:
        same += 1
    gone = _cells(old[same:])
    _show("\b" * gone + " " * gone + "\b" * gone + new[same:])


def _cells(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def _show(text: str) -> None:
    print(text, end="", flush=True)


class _Unix(_Terminal):
    def __init__(self, number: int) -> None:
        self.number = number

    def key(self) -> str:
        # A Ctrl+C in the moment before `read` begins would wait for the next key: Python looks for
        # signals between its own steps. So it waits in turns.
        while not select.select([self.number], [], [], 0.2)[0]:
            pass
        first = os.read(self.number, 1)
        if not first or first == b"\x04":
            raise Quit
        if first == b"\x1b":
            self._drop_sequence()
            return ""
        if first == b"\r":
            return ENTER
        more = sum(first[0] >= start for start in (0xC0, 0xE0, 0xF0))  # UTF-8's further bytes
        rest = b"".join(os.read(self.number, 1) for _ in range(more))
        return (first + rest).decode("utf-8", "ignore")

    def _drop_pending(self) -> None:
        import termios

        with suppress(termios.error, OSError):  # the terminal may be gone
            termios.tcflush(self.number, termios.TCIFLUSH)

    def _drop_sequence(self) -> None:
        """An arrow key or the like: its further bytes come at once."""
        while select.select([self.number], [], [], 0.02)[0]:
            last = os.read(self.number, 1)
            if not last or (last.isalpha() and last != b"O") or last == b"~":
                return


@contextmanager
def _unix_terminal() -> Iterator[Keys]:
    """Single keys, no echo. Ctrl+C still interrupts, and Ctrl+Z still suspends."""
    import termios

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)

    def set_up(*_: object) -> None:
        mode = termios.tcgetattr(number)
        mode[3] &= ~(termios.ICANON | termios.ECHO)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(number, termios.TCSADRAIN, mode)

    try:
        set_up()
        with _on(signal.SIGCONT, set_up), _on(signal.SIGTERM, _leave):
            yield _Unix(number)
    finally:
        with suppress(termios.error, OSError):  # the terminal may be gone
            termios.tcsetattr(number, termios.TCSADRAIN, before)


@contextmanager
def _on(what: signal.Signals, then: Callable[..., Any]) -> Iterator[None]:
    """Call this at a signal. Only the main thread may ask for it; elsewhere nothing changes."""
    try:
        before = signal.signal(what, then)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(what, before)


def _leave(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


class _Windows(_Terminal):
    def key(self) -> str:
        import msvcrt

        key: str = msvcrt.getwch()  # type: ignore[attr-defined]
        if key == "\x03":
            raise KeyboardInterrupt
        if key in ("\x04", "\x1a"):
            raise Quit
        if key in ("\x00", "\xe0"):  # an arrow key or the like: its name follows
            msvcrt.getwch()  # type: ignore[attr-defined]
            return ""
        return ENTER if key == "\r" else key

    def _drop_pending(self) -> None:
        import msvcrt

        while msvcrt.kbhit():  # type: ignore[attr-defined]
            with suppress(Quit):
                self.key()
