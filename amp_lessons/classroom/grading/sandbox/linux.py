"""The Linux system calls that Python 3.11 has no function for, by way of the C library.

Each function is named after its call and raises OSError with the call's own reason. The numbers
are those of the kernel's headers (``include/uapi/linux``) and the same on every machine, except
for the two calls without a wrapper in the C library, which have a number for each architecture.
"""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache
from pathlib import Path
from typing import Any

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP = 1, 4, 24
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 38, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522
_MOUNT_ATTR = {"rdonly": 1, "nosuid": 2, "nodev": 4}
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_SETATTR = 442
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CLONE = {"x86_64": 56, "aarch64": 220}
_SIGCHLD = 17

_Word = ctypes.c_ulong


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _done(status: int, what: str) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move this process into new namespaces; see unshare(2)."""
    _done(_libc().unshare(ctypes.c_int(flags)), "new namespaces")


def fork_into(namespaces: int) -> int:
    """`os.fork`, with the child in new namespaces, as its first process; see clone(2).

    It is for a process with a single thread. A fork of one with 240 MB costs about 4 ms, and this
    way there is one less.
    """
    number = _CLONE.get(platform.machine())
    if number is None:
        raise OSError(f"clone: no number known for {platform.machine()}")
    python = ctypes.pythonapi  # which keeps Python's lock, as a fork must
    flags, nothing = _Word(namespaces | _SIGCHLD), _Word(0)
    call = ctypes.PyDLL(None, use_errno=True).syscall
    python.PyOS_BeforeFork()
    pid = call(ctypes.c_long(number), flags, nothing, nothing, nothing, nothing)
    if pid == 0:
        python.PyOS_AfterFork_Child()
        return 0
    python.PyOS_AfterFork_Parent()
    _done(0 if pid > 0 else 1, "new namespaces")
    return pid


def mount(
    source: str | None, target: Path | str, kind: str | None, flags: int, data: str = ""
) -> None:
    """Mount a file system; see mount(2)."""
    words = [None if w is None else os.fsencode(w) for w in (source, target, kind)]
    status = _libc().mount(*words, _Word(flags), data.encode() or None)
    _done(status, f"mount {kind or 'part'} on {target}")


def unmount(target: str) -> None:
    """Take a mount and all below it out of sight; see umount2(2)."""
    _done(_libc().umount2(os.fsencode(target), MNT_DETACH), f"unmount {target}")


def make_read_only(target: Path | str) -> None:
    """Make a mount and all mounts below it read-only, without devices and set-user-ID bits; see
    mount_setattr(2), which Linux has since 5.12."""
    attributes = (ctypes.c_uint64 * 4)(sum(_MOUNT_ATTR.values()), 0, 0, 0)
    status = _libc().syscall(
        ctypes.c_long(_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        os.fsencode(target),
        ctypes.c_uint(_AT_RECURSIVE),
        attributes,
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    _done(status, f"make {target} read-only")


def pivot_root() -> None:
    """Make the current folder, a mount, the root of this mount namespace; the old root is on top
    of it until it is unmounted; see pivot_root(2)."""
    number = _PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise OSError(f"pivot_root: no number known for {platform.machine()}")
    _done(_libc().syscall(ctypes.c_long(number), b".", b"."), "new root")


def prctl(option: int, argument: int = 0) -> None:
    """Change how the kernel treats this process; see prctl(2)."""
    status = _libc().prctl(ctypes.c_int(option), _Word(argument), _Word(0), _Word(0), _Word(0))
    _done(status, f"prctl {option}")


def drop_capabilities() -> None:
    """Give up every capability for good, in this process and in all that it starts."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for capability in range(last + 1):
        prctl(PR_CAPBSET_DROP, capability)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _done(_libc().capset(header, (ctypes.c_uint32 * 6)()), "drop capabilities")
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def die_with_parent() -> None:
    """Be killed when the thread that started this process ends; see PR_SET_PDEATHSIG."""
    prctl(PR_SET_PDEATHSIG, 9)
