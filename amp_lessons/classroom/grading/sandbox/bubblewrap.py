"""The sandbox by way of bubblewrap, where the machine allows that program what it denies us.

Some systems allow new user namespaces to bubblewrap alone, by a profile for its file. Each notebook
is then a new Python that bubblewrap locks in, which takes seconds and not milliseconds.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from amp_lessons.classroom.grading.sandbox import rootfs
from amp_lessons.classroom.grading.sandbox.limits import MIB, Limits

LEARNER = 1000
_OF_THE_KERNEL = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")


def command(package: Path, limits: Limits) -> list[str]:
    """The words that go before a command; none if bubblewrap is not installed.

    The command is the first process of its namespace, and no place but its own folder and
    ``/dev/shm`` can be written to.

    Args:
        package: a copy of this package without secrets.
        limits: how much a notebook may write.
    """
    program = shutil.which("bwrap")
    if program is None:
        return []
    words = [program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    words += ["--as-pid-1", "--uid", str(LEARNER), "--gid", str(LEARNER)]
    for path in rootfs.shown():
        words += ["--ro-bind-try", str(path), str(path)]
    for link, to in rootfs.links():
        words += ["--symlink", to, str(link)]
    if rootfs.checkout_is_shown():
        words += ["--tmpfs", str(rootfs.PACKAGE.parent)]
    words += ["--ro-bind", str(package), str(rootfs.PACKAGE)]
    words += ["--proc", "/proc", "--dev", "/dev"]
    for place in _OF_THE_KERNEL:  # which root may write to, whatever it is called in here
        words += ["--ro-bind-try", place, place]
    own = rootfs.scratch()
    for place in ("/dev/shm", str(own)):
        words += ["--size", str(limits.disk * MIB), "--tmpfs", place]
    for name in ("home", "tmp", "notebook"):
        words += ["--dir", f"{own}/{name}"]
    for place in ("/dev", "/"):
        words += ["--remount-ro", place]
    return [*words, "--chdir", f"{own}/notebook"]


def works(prefix: list[str]) -> bool:
    """Whether this machine lets bubblewrap make its namespaces, with Python in them."""
    try:
        run = subprocess.run([*prefix, sys.executable, "-c", ""], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return run.returncode == 0
