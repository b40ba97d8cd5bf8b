"""What Ctrl+C does, from the first moment of a command on.

Loading the command line takes a moment, and torch takes seconds. An exception in the middle of an
import would be a traceback at best, and be swallowed at worst. So as long as there is nothing to
clean up, Ctrl+C ends the process at once, with one line.
"""

from __future__ import annotations

import os
import signal
from types import FrameType


def end_at_once() -> None:
    """From now on Ctrl+C ends the process with one line. Where it is ignored, it stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def clean_up_first() -> None:
    """From now on Ctrl+C raises KeyboardInterrupt, as it usually does in Python."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, _: FrameType | None) -> None:
    try:
        os.write(2, b"\namp-lessons: stopped with Ctrl+C\n")  # wherever the interpreter is now
    finally:
        os._exit(128 + number)
