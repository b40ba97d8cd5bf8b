"""A pytest plugin: a test that leaves something open fails, by its own name.

Python closes what is left open when it happens to collect garbage, and warns then. By that time
another test runs, and it fails if it takes warnings as errors. So each test answers for its own
files, sockets, event loops, threads and processes. What fixtures of a wider scope open is theirs.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

SELF = Path("/proc/self")
GRACE = 600  # looks, one each 50 ms: a thread that is done still takes a moment to end


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Look before a test's own fixtures are made, and again when they are gone."""
    before = everything_open()
    yield
    if left := left_open(before, GRACE):
        pytest.fail("this test leaves open:\n" + "\n".join(left), pytrace=False)


def left_open(before: set[str], looks: int) -> list[str]:
    """What is open now and was not before, in words."""
    new = everything_open() - before
    if not new:
        return []
    owners = _owners({words for words in new if words.startswith("file ")})
    left = {words for words in new if not words.startswith("file ")} | owners.keys()
    for _ in range(looks):
        left &= everything_open()
        if not left:
            break
        time.sleep(0.05)
    return sorted(f"{words}{owners.get(words, '')}" for words in left)


def everything_open() -> set[str]:
    """What this process has open now. Without /proc only its threads can be listed."""
    return {*_files(), *_children(), *_threads()}


def _files() -> Iterable[str]:
    """Files, sockets and pipes. An event loop shows as an eventpoll and two sockets."""
    with suppress(FileNotFoundError):
        for number in os.listdir(SELF / "fd"):
            with suppress(OSError):  # the one that lists the folder has gone
                yield f"file {number}: {os.readlink(SELF / 'fd' / number)}"


def _children() -> Iterable[str]:
    """Processes, also those that have ended and that nobody waited for."""
    for path in SELF.glob("task/*/children"):
        with suppress(OSError):
            for pid in path.read_text().split():
                yield f"process {pid}"


def _threads() -> Iterable[str]:
    """Threads, but for those of an event loop's own pool: they end with the loop, which counts.

    The thread that tqdm keeps for its progress bars doesn't count either. torch.compile starts one
    where tqdm is installed.
    """
    for thread in threading.enumerate():
        if not thread.name.startswith(("asyncio_", "tqdm_monitor")):
            yield f"thread {thread.ident}: {thread.name}"


def _owners(files: set[str]) -> dict[str, str]:
    """Those of the files that a Python object has opened, with the object.

    What a library keeps below Python, such as gloo's sockets or SQLite's files, earns no warning.
    Matplotlib keeps the fonts it has used.
    """
    by_number = {int(words.split()[1][:-1]): words for words in files if "/mpl-data/" not in words}
    found = {}
    for candidate in gc.get_objects() if by_number else ():
        with suppress(Exception):
            if hasattr(type(candidate), "fileno") and candidate.fileno() in by_number:
                found[by_number[candidate.fileno()]] = f", held by {candidate!r}"
    return found
