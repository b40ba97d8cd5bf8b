"""Waiting for another process, however slow the machine is.

A wait has no limit of its own: what never happens ends with pytest's --timeout, which fails the
test by its name and shows the line that waited.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    happened: Callable[[], T], process: subprocess.Popen | None = None, why: Callable = str
) -> T:
    """Ask again and again until the answer is true, and give it.

    Args:
        happened: asked about 20 times a second.
        process: what has to live for it to happen; once it has ended, the wait fails.
        why: what to say in that case, asked then.
    """
    while True:
        ended = process is not None and process.poll() is not None
        if answer := happened():
            return answer
        assert not ended, f"the process ended with status {process.returncode}. {why()}"
        time.sleep(0.05)
