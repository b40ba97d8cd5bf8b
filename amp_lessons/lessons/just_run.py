"""Which box takes the keyboard's focus: the one whose cell a learner has just run.

A page asks for the focus when it has drawn a box. It gets it once, and only while no other cell has
run since. Of several cells that were sent to the kernel at once, as "Run All" does, only the first
box may get it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

AT_ONCE = timedelta(seconds=0.3)
"""Between two requests to run a cell. A person takes longer from one to the next."""


class JustRun:
    """Follows the cells that a kernel runs."""

    def __init__(self) -> None:
        self._shell: Any = None
        self._asked_at: datetime | None = None
        self._among_others = False  # whether an earlier box came with the same "Run All"
        self._box: object = None

    def shows(self, box: object, shell: Any) -> None:
        """This cell shows this box. The first box of a cell counts."""
        if shell is None:
            return
        if self._shell is not shell:
            self._shell = shell
            shell.events.register("pre_run_cell", self._next_cell)
            self._asked_at = _asked_at(shell)
        if not self._among_others:
            self._box = box
        self._among_others = True

    def is_due(self, box: object) -> bool:
        """Whether this box may take the focus. It may once."""
        if self._box is not box:
            return False
        self._box = None
        return True

    def _next_cell(self, _: object) -> None:
        before, self._asked_at = self._asked_at, _asked_at(self._shell)
        self._box = None
        at_once = before and self._asked_at and abs(self._asked_at - before) < AT_ONCE
        self._among_others = self._among_others and bool(at_once)


def _asked_at(shell: Any) -> datetime | None:
    """When the page sent the request to run this cell, by its own clock."""
    try:
        date = shell.kernel.get_parent("shell")["header"]["date"]
    except (AttributeError, KeyError):  # no kernel, or one that keeps no dates
        return None
    return date if isinstance(date, datetime) else None


cells = JustRun()
"""The cells of this process's kernel."""
