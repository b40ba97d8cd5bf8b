"""Notices when an answer has something ready-made do the task that it was asked to write.

A room is a module of this course, or of torch, whose functions already do what an exercise asks
for. The code around the answer may use it, and so may the libraries. The answer may not, nor may
it be a copy of such a function.
"""

from __future__ import annotations

import dis
import gc
import hashlib
import importlib
import pkgutil
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, cached_property, lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NoReturn

from amp_lessons.checks.evidence import PACKAGE, is_learners

_is_learners = lru_cache(maxsize=4096)(is_learners)
_AROUND = tuple(
    f"{PACKAGE}/{room}" for room in ("checks/", "exercises/", "plain_data/", "op_watch.py")
)

SHORTEST_COPY = 40
"""Instructions. Two people may well write the same shorter function."""

_BY_THE_WAY = {"PUSH_NULL", "RESUME", "PRECALL", "NOP", "EXTENDED_ARG"}
"""Instructions that depend on how a module imports what a function calls."""


class Rooms:
    """What an answer must not use.

    Args:
        names: modules or whole packages, such as ``"amp_lessons.memory"``, or one function or
            class of a module, such as ``"amp_lessons.formats:Format.next_up"``.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.closed: dict[str, list[str]] = {}  # by module, what in it is closed; "" for all of it
        self._looked_at: dict[int, tuple[CodeType, str]] = {}  # by id, which a kept object keeps
        for name in names:
            module, _, inside = name.partition(":")
            self.closed.setdefault(module, []).append(inside)

    @cached_property
    def files(self) -> dict[str, str]:
        """The modules by file; all files of a package go by its name.

        Raises:
            ModuleNotFoundError: if there is no such module.
        """
        found = {}
        for module in self.closed:
            spec = find_spec(module)
            if spec is None or spec.origin is None:
                raise ModuleNotFoundError(f"own: there is no module {module!r}; correct its name")
            found[spec.origin] = module
            for folder in spec.submodule_search_locations or ():
                found |= {str(path): module for path in Path(folder).rglob("*.py")}
        return found

    @cached_property
    def shapes(self) -> dict[str, str]:
        """The names of the closed functions that are long enough to know a copy of them."""
        found = {}
        for file in self.files:
            for code, what in _shapes_in(file):
                if what and (name := self.of_code(code)):
                    found[what] = name
        return found

    @cached_property
    def words(self) -> frozenset[str]:
        """Names of which one stands in any code that uses these rooms, unless it hides them."""
        found = {name.rpartition(".")[2] for names in self.closed.values() for name in names}
        for file, module in self.files.items():
            if "" in self.closed[module]:
                found |= {module.rpartition(".")[2], Path(file).stem}
                inside = compile(Path(file).read_text("utf-8"), file, "exec").co_consts
                found |= {each.co_name for each in inside if isinstance(each, CodeType)}
        return frozenset(name for name in found if name and name[0] not in "_<")

    def functions(self) -> list[FunctionType]:
        """The closed functions themselves, of all modules of these rooms."""
        for module in self.closed:
            for name in _with_all_below(module):
                with suppress(Exception):  # what cannot be imported cannot be used either
                    importlib.import_module(name)
        gc.unfreeze()  # else what the grader's fork server froze is not among the objects
        functions = (each for each in gc.get_objects() if type(each) is FunctionType)
        return [each for each in functions if self.of_code(each.__code__)]

    def named(self, module: str, name: str) -> str:
        """What to call a closed function or class; "" if it is open to everybody."""
        for inside in self.closed.get(module, ()):
            if inside in ("", name) or name.startswith(f"{inside}."):
                name = name.partition(".<locals>")[0]
                return name.partition(".__")[0]  # a class for its `__init__`
        return ""

    def of_class(self, kind: type) -> str:
        module = kind.__module__
        inside = (room for room in self.closed if f"{module}.".startswith(f"{room}."))
        return self.named(next(inside, ""), kind.__qualname__)

    def of_code(self, code: CodeType) -> str:
        module = self.files.get(code.co_filename, "")
        if not module or code.co_name == "<module>":  # to import it is not to use it
            return ""
        return self.named(module, code.co_qualname)

    def copied_by(self, code: CodeType) -> str:
        """The closed function that a learner's own is a copy of, whatever its names; else ""."""
        if (known := self._looked_at.get(id(code))) is None:
            what = shape(code) if _is_learners(code.co_filename) else ""
            known = self._looked_at[id(code)] = code, self.shapes.get(what, "") if what else ""
        return known[1]

    def of_answer(self, answer: Any) -> str:
        """The closed function or class that an answer itself is, or is made from; else ""."""
        if isinstance(answer, partial):
            return self.of_answer(answer.func)
        inner = getattr(answer, "__wrapped__", None)
        if inner is not None and inner is not answer and (name := self.of_answer(inner)):
            return name
        code = getattr(getattr(answer, "__func__", answer), "__code__", None)
        if isinstance(code, CodeType):
            return self.of_code(code)
        kinds = (answer if isinstance(answer, type) else type(answer)).__mro__
        return next(filter(None, map(self.of_class, kinds)), "")

    def answer_called(self, frame: FrameType | None) -> bool:
        """Whether the answer stands behind a call: the first caller that isn't a library's.

        The course is a library too, but for its checks and what they play.
        """
        while frame is not None:
            file = frame.f_code.co_filename
            if file in self.files or file.startswith(_AROUND):
                return False
            if file != "<string>" and _is_learners(file):  # a dataclass' methods have that name
                return True
            frame = frame.f_back
        return True  # a thread that runs nothing else


@cache
def rooms(names: tuple[str, ...]) -> Rooms:
    """The same rooms are looked through once a process."""
    return Rooms(names)


def shape(code: CodeType) -> str:
    """A digest of what a function does: its instructions and constants, and no names.

    It is "" if the function is shorter than `SHORTEST_COPY`.
    """
    if len(code.co_code) < 2 * SHORTEST_COPY:  # two bytes each, and the caches besides
        return ""
    instructions = _without_names(code)
    if len(instructions) < SHORTEST_COPY:
        return ""
    return hashlib.sha256(repr(instructions).encode()).hexdigest()


def _without_names(code: CodeType) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for each in dis.get_instructions(code):
        what, value = each.opname, each.argval
        if each.opcode in dis.hasconst:
            inside = isinstance(value, CodeType)
            found.append((what, _without_names(value) if inside else repr(value)))
        elif each.opcode in dis.hasname:
            found.append(("name", None))
        elif what not in _BY_THE_WAY:
            jumps = each.opcode in dis.hasjrel or each.opcode in dis.hasjabs
            found.append((what, None if jumps else each.arg))
    return found


def _functions_in(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _functions_in(each)


@cache
def _shapes_in(file: str) -> list[tuple[CodeType, str]]:
    whole = compile(Path(file).read_text("utf-8"), file, "exec")
    return [(code, shape(code)) for code in _functions_in(whole)]


def _with_all_below(module: str) -> Iterator[str]:
    yield module
    spec = find_spec(module)
    folders = spec.submodule_search_locations if spec else None
    if folders:
        below = pkgutil.walk_packages(folders, f"{module}.", onerror=lambda _: None)
        yield from (each.name for each in below)


@contextmanager
def refusing(names: Sequence[str]) -> Iterator[None]:
    """Within this context each function of these rooms raises.

    The grader runs a notebook's own cells in it, to see whether an answer needs what they made
    with the course's functions.
    """
    functions = rooms(tuple(names)).functions()
    codes = [each.__code__ for each in functions]
    for each in functions:
        each.__code__ = _refuse.__code__.replace(co_freevars=each.__code__.co_freevars)
    try:
        yield
    finally:
        for each, code in zip(functions, codes, strict=True):
            each.__code__ = code


def _refuse(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("this already does the task of an exercise, so it's closed here")


@contextmanager
def noticing(names: Sequence[str], answer: Sequence[Any] = ()) -> Iterator[list[str]]:
    """Within this context, note what an answer uses of these rooms, also in threads it starts.

    Python's profiler is what notices, so a call takes a little longer. To switch it off is
    noted too.

    Args:
        names: the rooms, as `Rooms` takes them.
        answer: what the learner passed to `check`.

    Returns:
        the names of what was used, such as ``"Format.next_up"``, in the order of first use.
    """
    closed, used = rooms(tuple(names)), []
    used += [name for part in answer if (name := closed.of_answer(part))]

    def notice(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            code = frame.f_code
            name = closed.of_code(code)
            if not name:
                name = closed.copied_by(code)
            elif name in used or not closed.answer_called(frame.f_back):
                name = ""
            if name and name not in used:
                used.append(name)
        elif event == "c_call" and arg is sys.setprofile and closed.answer_called(frame):
            used.append("sys.setprofile")

    before, before_in_threads = sys.getprofile(), threading.getprofile()
    threading.setprofile(notice)
    sys.setprofile(notice)
    try:
        yield used
    finally:
        sys.setprofile(before)
        threading.setprofile(before_in_threads)  # type: ignore[arg-type]  # None switches it off
