"""Keeps what answers may call and must not look into in a process of its own.

It is forked before a notebook's first cell. No other process of the notebook can read its memory,
and what answers call from then on passes numbers on to it.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from threading import Lock
from typing import Any, NoReturn

from amp_lessons.exercises.checks.probe import Case, Hidden

_FILES = 4096  # descriptors
_LONGEST = 10_000
"""Bytes of a call. A few numbers take less."""


class Keeper:
    """The notebook's side: a process that holds hidden objects.

    Args:
        objects: it has them afterwards, and this process needn't keep them.
    """

    def __init__(self, objects: Sequence[Hidden]) -> None:
        self._link, theirs = Pipe()
        self._lock = Lock()
        if os.fork() == 0:
            _keep(objects, theirs)
        theirs.close()
        self._link.recv_bytes()  # from now on nobody can look into it

    def call(self, number: int, args: Sequence[Any], named: dict[str, Any]) -> Any:
        """What this object gives. Raises what it raises; numbers of any kind will do."""
        with self._lock:
            self._link.send_bytes(json.dumps([number, args, named], default=float).encode())
            worked, given = pickle.loads(self._link.recv_bytes())
        if worked:
            return given
        raise given


class Proxy:
    """Stands for one of the objects."""

    def __init__(self, keeper: Keeper, number: int) -> None:
        self._keeper, self._number = keeper, number

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._keeper.call(self._number, args, named)

    def __deepcopy__(self, _: dict[int, Any]) -> Proxy:
        return self


def keep_apart(cases: Sequence[Case]) -> list[Case]:
    """The same cases, with something to call in place of what is hidden."""
    hidden = [part for case in cases for part in case.args if isinstance(part, Hidden)]
    if not hidden:
        return list(cases)
    keeper, numbers = Keeper(hidden), {id(each): number for number, each in enumerate(hidden)}
    for each in hidden:
        each.forget()
    return [
        Case(tuple(Proxy(keeper, numbers[id(p)]) if id(p) in numbers else p for p in case.args))
        for case in cases
    ]


def _keep(objects: Sequence[Hidden], link: Connection) -> NoReturn:
    """In the other process: answer calls until the notebook's process ends."""
    with suppress(BaseException):
        if sys.platform == "linux":
            from amp_lessons.classroom.grading.sandbox import linux

            linux.prctl(linux.PR_SET_DUMPABLE, 0)
        os.closerange(0, link.fileno())
        os.closerange(link.fileno() + 1, _FILES)
        link.send_bytes(b"ready")
        while True:
            number, args, named = json.loads(link.recv_bytes(_LONGEST))
            link.send_bytes(pickle.dumps(_called(objects[number], args, named)))
    os._exit(0)


def _called(hidden: Hidden, args: Sequence[Any], named: dict[str, Any]) -> tuple[bool, Any]:
    try:
        return True, hidden(*args, **named)
    except (TypeError, ValueError) as error:
        return False, type(error)(str(error))
