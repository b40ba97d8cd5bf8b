"""The same house by way of bubblewrap, where the machine allows that program what it denies us.

Some systems allow new user namespaces to bubblewrap alone, by a profile for its file. Each notebook
is then a new Python that bubblewrap locks in, which takes seconds and not milliseconds.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from amp_lessons.grading.sandbox import house
from amp_lessons.grading.sandbox.limits import MIB, Limits


def command(package: Path) -> list[str]:
    """The words that go before a command; none if bubblewrap is not installed.

    Args:
        package: a copy of this package without secrets.
    """
    program = shutil.which("bwrap")
    if program is None:
        return []
    words = [program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for path in house.shown():
        words += ["--ro-bind-try", str(path), str(path)]
    for link, to in house.links():
        words += ["--symlink", to, str(link)]
    if house.checkout_is_shown():
        words += ["--tmpfs", str(house.PACKAGE.parent)]
    words += ["--ro-bind", str(package), str(house.PACKAGE)]
    words += ["--proc", "/proc", "--dev", "/dev"]
    own = house.scratch()
    words += ["--size", str(Limits().disk * MIB), "--tmpfs", str(own), "--dir", f"{own}/home"]
    return [*words, "--dir", f"{own}/notebook", "--chdir", f"{own}/notebook"]


def works(prefix: list[str]) -> bool:
    """Whether this machine lets bubblewrap make its namespaces, with Python in them."""
    try:
        run = subprocess.run([*prefix, sys.executable, "-c", ""], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return run.returncode == 0
