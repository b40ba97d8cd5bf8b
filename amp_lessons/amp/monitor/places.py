"""Which line of the user's code is running, found from the Python stack.

Lines inside PyTorch, and inside the monitor itself, are nobody's problem: they are skipped.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import sys
from dataclasses import dataclass
from types import CodeType, FrameType

import torch

Mark = tuple[CodeType, int]
"""A place that has been noted and not yet looked up: a code object and a line."""

_SKIPPED = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    contextlib.__file__,
    functools.__file__,
)
_is_skipped: dict[str, bool] = {}


@dataclass(frozen=True)
class CodeLine:
    """A line of code.

    Attributes:
        file: path of the file, or the name of the notebook cell that IPython gave it.
        line: number of the line, from 1; 0 if nobody knows.
        code: the text of the line, "" if the file can't be read.
        function: the function that it stands in.
    """

    file: str = ""
    line: int = 0
    code: str = ""
    function: str = ""

    def __str__(self) -> str:
        if not self.line:
            return "unknown line"
        cell = _cell(self.file)
        return f"{cell}, line {self.line}" if cell else f"{os.path.basename(self.file)}:{self.line}"


NOWHERE = CodeLine()


def _cell(file: str) -> str:
    """What IPython calls the cell whose code it keeps under this name: "cell In[3]". Else ""."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name = getattr(getattr(shell, "compile", None), "format_code_name", None)
    found = name(file) if name is not None else None
    return " ".join(found).replace("Cell", "cell") if found else ""


def mark(stop: CodeType | None = None) -> Mark | None:
    """The innermost line that is not PyTorch's. It costs a few microseconds.

    ``stop`` is a function to look no further than: above it, the lines belong to other work.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not stop:
        name = frame.f_code.co_filename
        skipped = _is_skipped.get(name)
        if skipped is None:
            skipped = name.startswith(_SKIPPED) or name.startswith("<frozen")
            _is_skipped[name] = skipped
        if not skipped:
            return frame.f_code, frame.f_lineno
        frame = frame.f_back
    return None


def look_up(found: Mark | None) -> CodeLine:
    """The file, line and text of a mark."""
    if found is None:
        return NOWHERE
    code, line = found
    text = linecache.getline(code.co_filename, line).strip()
    return CodeLine(code.co_filename, line, text, code.co_name)
