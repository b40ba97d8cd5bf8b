"""Notices when an answer has something ready-made do the task that it was asked to write.

A room is a module of this course, or of torch, whose functions already do what an exercise asks
for. The code around the answer may use it, and so may the libraries; the answer may not.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from amp_lessons.checks.evidence import PACKAGE, is_learners

_is_learners = lru_cache(maxsize=4096)(is_learners)


class Rooms:
    """What an answer must not use.

    Args:
        names: modules or whole packages, such as ``"amp_lessons.memory"``, or one function or
            class of a module, such as ``"amp_lessons.formats:Format.next_up"``.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.closed: dict[str, list[str]] = {}  # by module, what in it is closed; "" for all of it
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
        """Whether the answer stands behind a call: the first caller that isn't a library's."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file in self.files or file.startswith(f"{PACKAGE}/"):
                return False
            if file != "<string>" and _is_learners(file):  # a dataclass' methods have that name
                return True
            frame = frame.f_back
        return True  # a thread that runs nothing else


@contextmanager
def noticing(rooms: Sequence[str], answer: Sequence[Any] = ()) -> Iterator[list[str]]:
    """Within this context, note what an answer uses of these rooms, also in threads it starts.

    Python's profiler is what notices, so a call takes a little longer. To switch it off is
    noted too.

    Args:
        rooms: as `Rooms` takes them.
        answer: what the learner passed to `check`.

    Returns:
        the names of what was used, such as ``"Format.next_up"``, in the order of first use.
    """
    closed, used = Rooms(rooms), []
    used += [name for part in answer if (name := closed.of_answer(part))]

    def notice(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            name = closed.of_code(frame.f_code)
            if name and name not in used and closed.answer_called(frame.f_back):
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
