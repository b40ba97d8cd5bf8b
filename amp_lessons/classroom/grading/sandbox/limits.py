"""How much one submission may use, and the part of it that the kernel enforces by itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """How much a notebook may use.

    Args:
        cell: seconds for one cell.
        total: seconds for the notebook, with all its attempts.
        start: seconds until a process is ready to run its first cell.
        attempts: how often a notebook is run at most.
        memory: MiB that all its processes together may take, besides what torch takes.
        disk: MiB of files in its temporary folder.
        files: how many of them.
        processes: how many processes and threads.
        open_files: how many files each of them may have open.
    """

    cell: float = 30.0
    total: float = 300.0
    start: float = 120.0
    attempts: int = 6
    memory: int = 2048
    disk: int = 256
    files: int = 10_000
    processes: int = 128
    open_files: int = 512


def apply(limits: Limits) -> None:
    """Set this process's limits, which all that it starts inherits. Only on Unix."""
    import resource

    taken = _address_space()
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: limits.disk * MIB,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_CPU: int(limits.total) + 2,
    }
    if taken:
        wanted[resource.RLIMIT_AS] = taken + limits.memory * MIB
    for name, value in wanted.items():
        _, hard = resource.getrlimit(name)
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (most, most))


def apply_to_processes(limits: Limits) -> None:
    """Set how many processes there may be. It counts those of one user in one user namespace, so
    it is set only where a submission has a namespace to itself."""
    import resource

    resource.setrlimit(resource.RLIMIT_NPROC, (limits.processes, limits.processes))


def _address_space() -> int:
    """Bytes of address space this process has now, torch's included; 0 where nothing tells."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    import resource

    return pages * resource.getpagesize()
