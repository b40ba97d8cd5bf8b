"""The base class of the package's errors: one line that says what is wrong and what to do."""

from __future__ import annotations


class AmpLessonsError(Exception):
    """Something that the person in front of the screen can act on.

    The message is one line, for a terminal as for a notebook. A command prints it and ends with a
    non-zero exit; no traceback is shown. Where a built-in exception fits too, such as
    `ValueError`, a subclass names both.
    """
