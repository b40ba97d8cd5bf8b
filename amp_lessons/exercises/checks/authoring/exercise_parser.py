"""One exercise, one file: Python, cut into cells by lines that begin with ``# %%``.

The word after ``# %%`` says what a cell is. `OPEN` lists the cells of the public part, `SECRET`
those that nobody sees before a pass; the secret cells come last, so that a file can be cut in two.
This module reads files and runs nothing in them. ``docs/contributing.md`` says what stands in one.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from amp_lessons.core.errors import AmpLessonsError

OPEN = ("statement", "text", "demo", "given", "answer", "hints", "probe")
SECRET = ("judge", "passed", "right", "rule", "wrong", "program")

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
NAMED = ("right", "rule", "wrong", "program")
"""Those that need a name behind the word."""

STUB = ("# YOUR CODE HERE", "raise NotImplementedError()")
_SOLUTION = re.compile(rf"^([ \t]*){BEGIN}\n.*?^[ \t]*{END}[ \t]*\n?", re.MULTILINE | re.DOTALL)
_MARKERS = re.compile(rf"^[ \t]*(?:{BEGIN}|{END})[ \t]*(?:\n|\Z)", re.MULTILINE)
_HEADER = re.compile(r"^# %%(?P<words>.*)$", re.MULTILINE)


class ExerciseFileError(AmpLessonsError, ValueError):
    """A file of an exercise is not as it should be. The message names file, line and cure."""


@dataclass(frozen=True)
class SourceCell:
    """One cell of a file.

    Attributes:
        kind: the word after ``# %%``, such as ``"wrong"``.
        name: the second word, such as the slug of a mistake; "" if there is none.
        options: what stands behind as ``key=value``.
        flags: any further words.
        text: all lines below the header.
        where: ``file:line`` of the header, for messages.
        line: the number of the header's line.
    """

    kind: str
    name: str
    options: dict[str, str]
    flags: tuple[str, ...]
    text: str
    where: str
    line: int

    @property
    def comment(self) -> str:
        """The comment at the beginning, without its ``#``, as markdown."""
        lines = self.text.splitlines()[: self._comment_lines]
        return "\n".join(line[1:].removeprefix(" ") for line in lines).strip()

    @property
    def sentence(self) -> str:
        """The comment as one running text."""
        return " ".join(self.comment.split())

    @property
    def code(self) -> str:
        """What stands below the comment, at the line numbers that it has in the file."""
        below = self.text.splitlines()[self._comment_lines :]
        return "\n".join(below).strip("\n")

    @property
    def code_line(self) -> int:
        """The number of the first line of `code` in the file."""
        below = self.text.splitlines()[self._comment_lines :]
        blank = next((n for n, line in enumerate(below) if line.strip()), 0)
        return self.line + 1 + self._comment_lines + blank

    @cached_property
    def _comment_lines(self) -> int:
        lines = self.text.splitlines()
        return next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))


def read_cells(path: Path, text: str | None = None) -> list[SourceCell]:
    """The cells of a file, in order.

    Raises:
        ExerciseFileError: for a kind of cell that does not exist, for an open cell below a secret
            one, and for a cell of `NAMED` without a name.
    """
    text = path.read_text(encoding="utf-8") if text is None else text
    headers = list(_HEADER.finditer(text))
    ends = [header.start() for header in headers[1:]] + [len(text)]
    cells: list[SourceCell] = []
    for header, end in zip(headers, ends, strict=True):
        line = text.count("\n", 0, header.start()) + 1
        where = f"{path.parent.name}/{path.name}:{line}"
        kind, *words = header["words"].split() or [""]
        if kind not in OPEN + SECRET:
            known = ", ".join(OPEN + SECRET)
            raise ExerciseFileError(f"{where}: no cell is called {kind!r}. Take one of: {known}.")
        if kind in OPEN and cells and cells[-1].kind in SECRET:
            raise ExerciseFileError(
                f"{where}: a cell '{kind}' belongs to the public part. Move it above the first "
                f"of: {', '.join(SECRET)}."
            )
        options = dict(word.split("=", 1) for word in words if "=" in word)
        name, *flags = [word for word in words if "=" not in word] or [""]
        if kind in NAMED and not name:
            raise ExerciseFileError(
                f"{where}: give it a name of its own, as in '# %% {kind} NAME'."
            )
        body = text[header.end() + 1 : end]
        cells.append(SourceCell(kind, name, options, tuple(flags), body, where, line))
    return cells


def public_part(text: str) -> str:
    """A file's text without its answer key, and with the stub in place of the solution."""
    secret = re.search(rf"^# %% (?:{'|'.join(SECRET)})\b", text, re.MULTILINE)
    return cut_solution(text[: secret.start()] if secret else text).rstrip("\n") + "\n"


def cut_solution(source: str) -> str:
    """Replace each solution by the stub. At the left margin, where a stub that raises would stop
    the whole notebook, the solution is left out and what stands above it is the stub."""

    def stub(match: re.Match[str]) -> str:
        indent = match[1]
        return "".join(f"{indent}{line}\n" for line in STUB) if indent else ""

    return _SOLUTION.sub(stub, source)


def has_solution(source: str) -> bool:
    """Whether solutions stand in an answer, each between a pair of markers.

    Raises:
        ValueError: if a marker lacks its other half.
    """
    pairs = len(_SOLUTION.findall(source))
    if not pairs == source.count(BEGIN) == source.count(END):
        raise ValueError(f"an answer needs {BEGIN} and {END}, as a pair")
    return pairs > 0


def without_markers(source: str) -> str:
    """A solution as a learner is shown it: it runs as it is. The whole line of a marker goes, and
    nothing of the lines around it: their indent is part of the code."""
    return _MARKERS.sub("", source).strip("\n")


def bullets(text: str) -> tuple[str, ...]:
    """The items of a markdown list, each as one running text."""
    items = re.split(r"^- ", textwrap.dedent(text), flags=re.MULTILINE)
    return tuple(" ".join(item.split()) for item in items if item.strip())
