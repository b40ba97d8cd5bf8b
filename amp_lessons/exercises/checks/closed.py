"""Closes what already does a task, as long as an answer is checked: to call it is noted and raises.

A room is a module of this course, or of torch, whose functions do what an exercise asks for. What
is closed is the function itself, for everybody in the process: so it doesn't matter by which name,
by which library or in which thread an answer calls it. Torch's own functions are left as they are
in a learner's JupyterLab, where Python's profiler notices their calls instead.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import _lru_cache_wrapper, cache, cached_property, partial
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
PACKAGE = __name__.partition(".")[0]

called: list[str] = []
"""What was called of the closed functions, such as ``"Format.next_up"``, in the order of calls."""


class Closed(RuntimeError):
    """A function was called that does the task of an exercise."""


class ClosedModule:
    """The functions of a module, or a part of them.

    Args:
        name: a module or a whole package, such as ``"amp_lessons.amp.speed.timing"``, or one
            function or class of a module, such as
            ``"amp_lessons.amp.numbers.formats:Format.next_up"``.

    Raises:
        ModuleNotFoundError: if there is no such module.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.module, _, self.inside = name.partition(":")
        spec = find_spec(self.module)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"own: there is no module {self.module!r}; correct its name")
        self.folders = [*(spec.submodule_search_locations or ())]
        below = (path for folder in self.folders for path in Path(folder).rglob("*"))
        self.files = {spec.origin, *(str(path) for path in below if path.is_file())}
        self.unknown = True
        self._functions: list[FunctionType] = []
        self._caches: list[Any] = []

    @property
    def ours(self) -> bool:
        return self.module.partition(".")[0] == PACKAGE

    def holds(self, qualname: str) -> bool:
        """Whether a function of one of these files is in the room."""
        return self.inside in ("", qualname) or qualname.startswith(f"{self.inside}.")

    def load(self) -> None:
        """Import all of its modules, so that none of its functions is made later."""
        below = pkgutil.walk_packages(self.folders, f"{self.module}.", onerror=lambda _: None)
        for name in (self.module, *(each.name for each in below)):
            with suppress(Exception):  # what can't be imported can't be used either
                importlib.import_module(name)

    def has(self, code: CodeType) -> bool:
        if code.co_filename not in self.files or code.co_name == "<module>":
            return False  # to import a module isn't to use it
        return self.holds(code.co_qualname)

    @property
    def functions(self) -> list[FunctionType]:
        """All of them, and the methods of its classes."""
        look_through([self])
        return self._functions

    @property
    def caches(self) -> list[Any]:
        """What keeps earlier results of these functions."""
        look_through([self])
        return self._caches

    @cached_property
    def refusing(self) -> list[CodeType]:
        """By function, code that refuses in its place."""
        return [_refusing(each.__code__) for each in self.functions]


def look_through(rooms: Iterable[ClosedModule]) -> None:
    """Find the functions of these rooms, once a process: together that is one look at all objects
    that Python knows."""
    new = [each for each in rooms if each.unknown]
    for each in new:
        each.load()
        each.unknown = False
    objects = gc.get_objects() if new else ()
    functions = [each for each in objects if type(each) is FunctionType]
    kept = [each for each in objects if type(each) is _lru_cache_wrapper]
    for each in new:
        each._functions = [f for f in functions if each.has(f.__code__)]
        inside = set(map(id, each._functions))
        each._caches = [k for k in kept if id(getattr(k, "__wrapped__", None)) in inside]


@cache
def room(name: str) -> ClosedModule:
    """The same room is looked through once a process."""
    return ClosedModule(name)


def without(
    names: Sequence[str], call: Callable[[], T], libraries: bool = False
) -> tuple[T, list[str]]:
    """Call a function while rooms are closed: the course's functions raise `Closed`, and calls of
    torch's are noted.

    Ctrl+C opens everything again at any moment: what stands first in each ``finally`` is a call
    into C, and Python looks for signals only after it.

    Args:
        names: the rooms, as `ClosedModule` takes them.
        libraries: whether torch's functions are closed too. The grader does that.

    Returns:
        what the call gives, and the names of what was called, by anybody, in the order of first
        use.
    """
    rooms = [room(name) for name in names]
    look_through(rooms)
    shut = [each for each in rooms if libraries or each.ours]
    notice = _noticing([each for each in rooms if each not in shut])
    close_all, open_all = _switch(shut)
    profiler, in_threads, start = sys.getprofile(), threading.getprofile(), len(called)
    try:
        close_all()
        forget(shut)
        if notice is not None:
            threading.setprofile(notice)
            sys.setprofile(notice)
        result = call()
    finally:
        try:
            open_all()
        finally:
            try:
                if notice is not None:
                    sys.setprofile(profiler)
            finally:
                threading.setprofile(in_threads)  # type: ignore[arg-type]  # None switches it off
    return result, list(dict.fromkeys(called[start:]))


def close(rooms: Sequence[ClosedModule]) -> None:
    """Close rooms for good: what their functions did is nowhere in this process any more."""
    _switch(rooms)[0]()
    forget(rooms)


def forget(rooms: Sequence[ClosedModule]) -> None:
    """Drop the results that these rooms keep."""
    for each in rooms:
        for kept in each.caches:
            kept.cache_clear()


def _switch(rooms: Sequence[ClosedModule]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """What closes these rooms, and what opens them again: each is a single call into C."""
    some = [function for each in rooms for function in each.functions]
    before = [each.__code__ for each in some]
    refusing = [code for each in rooms for code in each.refusing]

    def exchange(codes: Sequence[CodeType]) -> Callable[[], Any]:
        return partial(deque, map(setattr, some, repeat("__code__"), codes), maxlen=0)

    return exchange(refusing), exchange(before)


def _refusing(code: CodeType) -> CodeType:
    names = {name: getattr(code, name) for name in ("co_freevars", "co_name", "co_qualname")}
    return _refuse.__code__.replace(co_filename=code.co_filename, **names)


def _refuse(*_: object, **__: object) -> NoReturn:
    # Imported here, for this code runs among the names of another module.
    from amp_lessons.exercises.checks.closed import refuse

    refuse()


def refuse() -> NoReturn:
    """What a closed function does: note its name, and raise."""
    name = _name(sys._getframe(1).f_code)
    called.append(name)
    raise Closed(f"`{name}` is closed here, because an exercise of this sheet asks for it.")


def _name(code: CodeType) -> str:
    """A function as a learner knows it: a class for its ``__init__``."""
    return code.co_qualname.partition(".<locals>")[0].partition(".__")[0]


def _noticing(rooms: Sequence[ClosedModule]) -> Callable[[FrameType, str, Any], None] | None:
    """A profiler that notes calls, and changes nothing of what is called."""
    codes = {id(f.__code__): _name(f.__code__) for each in rooms for f in each.functions}

    def notice(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and id(frame.f_code) in codes:
            called.append(codes[id(frame.f_code)])

    return notice if codes else None
