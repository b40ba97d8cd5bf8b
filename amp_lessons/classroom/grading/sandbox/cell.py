"""One submission locked away: its own users, mounts, network, processes and a folder in memory.

The process that forks submissions makes a fork in new `NAMESPACES`, which calls `lock_in`. It
returns in one more process, that has no rights and sees nothing but that file system, an empty
folder and itself. The first one stays between: it waits, watches memory, and takes all the others
with it when it ends. Where bubblewrap has made the namespaces, `watch_over` puts the same process
between.
"""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

from amp_lessons.classroom.grading.sandbox import limits, linux, seccomp
from amp_lessons.classroom.grading.sandbox.limits import MIB, Limits
from amp_lessons.classroom.grading.sandbox.rootfs import become, scratch

_LEARNER = 1000
_SOCKET = 2 * 212_992  # bytes that wait in a UNIX socket at most: net.core.wmem_default, both ways
_LOOK = 0.05  # seconds between two looks at the memory


NAMESPACES = (
    linux.CLONE_NEWUSER
    | linux.CLONE_NEWNS
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNET
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUTS
)


def lock_in(allowed: Limits, status: int, lifeline: int, covers: Mapping[str, str]) -> None:
    """Go on in a process that is locked in; the caller's process never comes back from this.

    Args:
        allowed: the limits that the kernel and the watch enforce.
        status: a pipe to the grader, which gets a JSON object a line: how it ended,
            ``{"exit": status}`` (negative for a signal), ``{"too_much": words}`` or, if the
            sandbox could not be made, ``{"failed": why}``.
        lifeline: a pipe that the grader holds open for as long as this may live.
        covers: files that it sees in place of others, and of which.
    """
    try:
        become(_LEARNER, 0, 0)
        for source, target in covers.items():
            linux.mount(source, target, None, linux.MS_BIND)
            linux.make_read_only(target)  # many see the same file
        _make_place(allowed)
        _give_up_rights(allowed)
        _go_on_below(allowed, status, lifeline)
    except OSError as error:
        _tell(status, failed=str(error.strerror or error))
        os._exit(1)


def watch_over(allowed: Limits, status: int, lifeline: int) -> None:
    """Go on in a process below this one, the first of namespaces that bubblewrap has made."""
    try:
        limits.apply(allowed)
        limits.apply_to_processes(allowed)
        with suppress(OSError):
            seccomp.refuse()
        linux.prctl(linux.PR_SET_DUMPABLE, 0)
        _go_on_below(allowed, status, lifeline)
    except OSError as error:
        _tell(status, failed=str(error.strerror or error))
        os._exit(1)


def _go_on_below(allowed: Limits, status: int, lifeline: int) -> None:
    """Fork. The first process watches, and the learner's comes back from this."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a first process ignores what it can't catch
    learner = os.fork()
    if learner:
        _watch(learner, allowed, status, lifeline)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    linux.prctl(linux.PR_SET_DUMPABLE, 1)  # the learner's own process may look into itself
    os.close(status)
    os.close(lifeline)
    os.setsid()


def _make_place(allowed: Limits) -> None:
    """An empty folder in memory, and a view of this namespace's processes alone."""
    quiet = linux.MS_NOSUID | linux.MS_NODEV
    size = f"mode=700,size={allowed.disk}m,nr_inodes={allowed.files}"
    linux.mount("own", scratch(), "tmpfs", quiet, f"{size},uid={_LEARNER},gid={_LEARNER}")
    linux.mount("proc", "/proc", "proc", quiet | linux.MS_NOEXEC)
    for folder in ("home", "tmp", "notebook"):
        os.mkdir(scratch() / folder)
    os.chdir(scratch() / "notebook")


def _give_up_rights(allowed: Limits) -> None:
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")
    limits.apply(allowed)
    limits.apply_to_processes(allowed)
    linux.drop_capabilities()
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # when memory runs out, Linux ends the notebook and not the grader
    seccomp.refuse()
    linux.prctl(linux.PR_SET_DUMPABLE, 0)  # nobody inside may look into the first process


def _tell(status: int, **message: Any) -> None:
    with suppress(OSError):
        os.write(status, json.dumps(message).encode() + b"\n")


# ---- the first process --------------------------------------------------------------------------


def _watch(learner: int, allowed: Limits, status: int, lifeline: int) -> NoReturn:
    """Wait for the learner's process, for the grader's end, or for too much of anything; then end,
    and with this process all the others of its namespace."""
    first, second = sorted((status, lifeline))
    for low, high in ((0, first), (first + 1, second), (second + 1, 4096)):
        os.closerange(low, high)  # a pipe that this process held open would never come to its end
    own = _anonymous("self")
    poll = select.poll()
    poll.register(lifeline, select.POLLIN | select.POLLHUP)
    while True:
        if poll.poll(_LOOK * 1000):
            os._exit(0)
        ended = _buried(learner)
        if ended is not None:
            _tell(status, exit=os.waitstatus_to_exitcode(ended))
            os._exit(0)
        if excess := _too_much(allowed, own):
            _tell(status, too_much=excess)
            os._exit(0)


def _buried(learner: int) -> int | None:
    """Bury what has ended; the learner's wait status if it is among them."""
    ended = None
    with suppress(ChildProcessError):
        while True:
            pid, found = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == learner:
                ended = found
    return ended


def _too_much(allowed: Limits, shared: int) -> str:
    """What there is too much of, in words that fit behind "took more than"; else "".

    The kernel itself limits processes and files, but not root's, nor what bubblewrap mounts.
    """
    others = [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]
    if len(others) > allowed.processes:
        return f"{allowed.processes} processes"
    with suppress(OSError):
        place = os.statvfs(scratch())
        if place.f_files - place.f_ffree > allowed.files:
            return f"{allowed.files} files"
    if _used(others, shared) > allowed.memory * MIB:
        return f"{allowed.memory} MiB of memory"
    return ""


def _used(processes: list[str], shared: int) -> int:
    """Bytes that these processes hold, besides the ``shared`` ones that each has from the process
    it was forked from. What may wait in sockets counts too."""
    return _sockets() * _SOCKET + sum(max(0, _anonymous(name) - shared) for name in processes)


def _sockets() -> int:
    """How many UNIX sockets there are in this network namespace."""
    with suppress(OSError, ValueError, IndexError), open("/proc/net/protocols") as file:
        return sum(int(text.split()[2]) for text in file if text.startswith("UNIX"))
    return 0


def _anonymous(process: str) -> int:
    """Bytes of memory that no file backs, of one process. 0 if it has just ended."""
    kib = 0
    with suppress(OSError, ValueError), open(f"/proc/{process}/status") as file:
        for text in file:
            if text.startswith(("RssAnon:", "RssShmem:")):
                kib += int(text.split()[1])
    return kib * 1024
