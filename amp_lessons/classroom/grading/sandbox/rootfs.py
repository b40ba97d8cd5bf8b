"""The file system that all submissions of a batch see, built once by the process that forks them.

It holds Python, its libraries and a copy of this package without the answer keys, all of it
read-only. There is no home, no course folder, no other submission and no result in it. The process
that enters it gets its own user namespace and cannot leave it again.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import amp_lessons
from amp_lessons.classroom.grading.sandbox import linux
from amp_lessons.core import catalogue

NOBODY = 65534
"""Whom root becomes before a stranger's code runs."""

PACKAGE = Path(amp_lessons.__file__).resolve().parent

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "fonts", "alternatives")
_NOT_NEEDED = (
    "amp_lessons.quiz.generators",
    "amp_lessons.classroom.workshop",
    "amp_lessons.classroom.slides",
    "amp_lessons.classroom.class_view",
    "amp_lessons.classroom.grading.report",
)
"""Packages that no notebook needs. Some of them tell answers."""
_DEVICES = ("null", "full", "random", "urandom")  # zero can be mapped as memory that is not counted
_CPUS = "/sys/devices/system/cpu"  # torch asks there what the processor can do


@cache
def scratch() -> Path:
    """Where a submission has its own empty folder: ``/tmp``, if no Python lives below it."""
    below = any(path.is_relative_to("/tmp") for path in (*shown(), PACKAGE))
    return Path("/scratch" if below else "/tmp")


def left_out() -> set[Path]:
    """The folders of this package that no submission sees.

    Raises:
        ModuleNotFoundError: if a package of `_NOT_NEEDED` has moved: its answers would be seen.
    """
    from amp_lessons.quiz.bank import FOLDER as BANK

    folders = {catalogue.IN_WHEEL, BANK.resolve()}
    for name in _NOT_NEEDED:
        spec = find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(f"there is no package {name!r}; correct it in _NOT_NEEDED")
        folders |= {Path(each).resolve() for each in spec.submodule_search_locations}
    return folders


def copy_without_secrets(folder: Path) -> Path:
    """Copy this package, cut to what a learner may see, into a folder; give the copy's path."""
    from amp_lessons.exercises.checks.parts import write_public_parts

    without = left_out()

    def ignored(place: str, names: list[str]) -> set[str]:
        compiled = {name for name in names if name == "__pycache__" or name.endswith(".ipynb")}
        return compiled | {name for name in names if Path(place, name) in without}

    copy = folder / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=ignored)
    write_public_parts(copy)
    return copy


def enter(package: Path, place: Path) -> None:
    """Make this the only file system that this process sees, for good.

    Args:
        package: a copy of this package without secrets; it takes the place of the real one.
        place: an empty folder that may be mounted on.

    Raises:
        OSError: if the machine does not allow it; the message names the call.
    """
    root = os.geteuid() == 0
    user, group = os.geteuid(), os.getegid()
    linux.unshare(linux.CLONE_NEWNS | (0 if root else linux.CLONE_NEWUSER))
    if not root:
        become(0, user, group)
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    _furnish(package, place)
    os.chdir(place)
    linux.pivot_root()
    linux.unmount(".")
    os.chdir("/")
    if root:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        linux.prctl(linux.PR_SET_DUMPABLE, 1)  # else its own /proc/self belongs to root
        linux.unshare(linux.CLONE_NEWUSER)
        become(0, NOBODY, NOBODY)


def become(inside: int, user: int, group: int) -> None:
    """Say who this process is in the user namespace that it has made: one user, one group."""
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{inside} {user} 1")
    _write("/proc/self/gid_map", f"{inside} {group} 1")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def shown() -> list[Path]:
    """What of the machine is in the root file system, at the same paths."""
    system = [Path(path) for path in _SYSTEM if not os.path.islink(path)]
    pythons = [p for p in _outermost(_pythons()) if not p.is_relative_to("/usr")]
    return [*system, *pythons, *(Path("/etc", name) for name in _SETTINGS), Path(_CPUS)]


def links() -> list[tuple[Path, str]]:
    """The links at the top of the machine's file system, such as ``/bin``, and where they lead."""
    return [(Path(path), os.readlink(path)) for path in _SYSTEM if os.path.islink(path)]


def checkout_is_shown() -> bool:
    """Whether a checkout of the course lies inside what is shown, with its solutions."""
    checkout = PACKAGE.parent
    return (checkout / "solutions").is_dir() and any(map(checkout.is_relative_to, shown()))


def _furnish(package: Path, place: Path) -> None:
    linux.mount("rootfs", place, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755,size=4m")
    for path in shown():
        _show(path, place)
    for link, to in links():
        _inside(place, link).symlink_to(to)
    if checkout_is_shown():
        checkout = _inside(place, PACKAGE.parent)
        linux.mount("nothing", checkout, "tmpfs", linux.MS_NOSUID, "mode=755,size=1m")
    target = _inside(place, PACKAGE)
    target.mkdir(parents=True, exist_ok=True)
    linux.mount(str(package), target, None, linux.MS_BIND | linux.MS_REC)
    (place / "etc").mkdir(exist_ok=True)
    (place / "etc/passwd").write_text(f"learner:x:1000:1000:learner:{scratch()}/home:/bin/sh\n")
    (place / "etc/group").write_text("learner:x:1000:\n")
    for folder in ("proc", "tmp", "dev", scratch().name):
        (place / folder).mkdir(exist_ok=True)
    devices = place / "dev"
    for name, to in {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        (devices / name).symlink_to(f"/proc/self/{to}")
    (devices / "shm").symlink_to(scratch())
    for name in _DEVICES:
        (devices / name).touch()
    linux.make_read_only(place)  # which also forbids devices, so they come last
    for name in _DEVICES:
        linux.mount(f"/dev/{name}", devices / name, None, linux.MS_BIND)
    # For the process that forks submissions; each of them gets its own on top.
    linux.mount("/proc", place / "proc", None, linux.MS_BIND | linux.MS_REC)
    own = _inside(place, scratch())
    linux.mount("rootfs", own, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=16m")
    for name in ("home", "tmp"):
        (own / name).mkdir()
        (own / name).chmod(0o777)  # this process may be about to become another user


def _pythons() -> Iterator[Path]:
    """Where Python, its standard library and what is installed live, links followed and not."""
    named = [sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values()]
    program = Path(sys.executable)
    for path in [program.parent.parent, program.resolve().parent.parent, *map(Path, named)]:
        for each in (path, path.resolve()):
            if each.is_dir() and each != Path("/"):
                yield each


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """The paths of which no other is a parent."""
    every = sorted(set(paths))
    return [p for p in every if not any(p != q and p.is_relative_to(q) for q in every)]


def _show(path: Path, place: Path) -> None:
    """Show a file or folder of the machine in the root file system, at the same path."""
    target = _inside(place, path)
    if path.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif path.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    else:
        return
    linux.mount(str(path), target, None, linux.MS_BIND | linux.MS_REC)


def _inside(place: Path, path: Path) -> Path:
    return place / path.relative_to("/")
