"""What somebody else's code prints, kept out of the results: a little of it goes to standard error.

A factory may print a progress bar, ask for a password, or read the command line as its own. The
results of a command belong on standard output, and only they.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from unittest import mock

SHOWN = 2000
"""Characters that are passed on."""


class Talk(io.TextIOBase):
    """Keeps the first `SHOWN` characters of what is written, and counts the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.left_out = 0
        self._parts: list[str] = []
        self._room = SHOWN

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept = text[: self._room]
        if kept:
            self._parts.append(kept)
        self._room -= len(kept)
        self.left_out += len(text) - len(kept)
        return len(text)

    def text(self) -> str:
        """What was kept, with a line about what was not."""
        kept = "".join(self._parts)
        if not self.left_out:
            return kept
        return f"{kept.rstrip()}\n... {self.left_out:,} more characters that your code printed\n"


@contextlib.contextmanager
def heard() -> Iterator[Talk]:
    """Keep what the code inside prints, and write the start of it to standard error at the end.

    If the code fails, nothing is written: its error says enough. Standard input is empty inside,
    and the command line has no words, so that a script doesn't take ours for its own.
    """
    talk = Talk()
    with (
        contextlib.redirect_stdout(talk),
        contextlib.redirect_stderr(talk),
        mock.patch.object(sys, "stdin", io.StringIO()),
        mock.patch.object(sys, "argv", sys.argv[:1]),
        _descriptor_aside(),
    ):
        try:
            yield talk
        except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # such as a panic in a library that is written in Rust
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
    sys.stderr.write(talk.text())
    sys.stderr.flush()


@contextlib.contextmanager
def _descriptor_aside() -> Iterator[None]:
    """Let what programs and libraries write past Python's `sys.stdout` go to standard error."""
    try:
        sys.__stdout__.flush() if sys.__stdout__ is not None else None
        ours = os.dup(1)
    except (OSError, ValueError):  # closed, as by >&-
        yield
        return
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(ours, 1)
        os.close(ours)
