"""Wrong answers as edits of a right one: drop a statement, move it, swap a phrase, put one in.

A statement is named by how its first line begins, so ``drop("optimizer.zero_grad()")`` takes out
that call, and ``drop("if ")`` an ``if`` with all that belongs to it. Where several begin so,
``nth`` chooses one, from 1. Edits are joined by ``&``, from left to right.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace

from amp_lessons.core.errors import AmpLessonsError


class EditError(AmpLessonsError, ValueError):
    """An edit does not fit the program that it is made for. The message says why."""


@dataclass(frozen=True)
class Edit:
    """A change of a program.

    Attributes:
        text: the edit as it is written in the file.
        change: takes a program's source and returns the changed one.
        of: the name of the right answer that is changed; "" for the solution.
    """

    text: str
    change: Callable[[str], str]
    of: str = ""

    def __call__(self, source: str) -> str:
        """The changed program.

        Raises:
            EditError: if the edit does not fit, or leaves no valid Python.
        """
        try:
            changed = self.change(source)  # the second of two edits has to read what the first left
            compile(changed, "<edit>", "exec")
        except SyntaxError as error:
            raise EditError(f"{self.text} leaves what is not Python: {error}") from error
        return changed

    def __and__(self, other: Edit) -> Edit:
        def both(source: str) -> str:
            return other.change(self.change(source))

        return Edit(f"{self.text} & {other.text}", both, self.of)


def of(name: str, edit: Edit) -> Edit:
    """The same edit, of the right answer with this name in place of the solution."""
    return replace(edit, of=name, text=f"of({name!r}, {edit.text})")


def drop(beginning: str, nth: int | None = None) -> Edit:
    """Take a statement out, with all that is indented below it."""

    def change(source: str) -> str:
        lines, found = _find(source, beginning, nth)
        first, last = _span(found)
        alone = _only_child(source, found)
        lines[first:last] = [f"{_indent(lines[first])}pass"] if alone else []
        return _joined(lines)

    return Edit(_call("drop", beginning, nth=nth), change)


def put(code: str, *, before: str = "", after: str = "", nth: int | None = None) -> Edit:
    """Put statements in, above or below the one that is named, at its indent."""

    def change(source: str) -> str:
        lines, found = _find(source, before or after, nth)
        first, last = _span(found)
        place = first if before else last
        lines[place:place] = _indented(code, _indent(lines[first]))
        return _joined(lines)

    return Edit(_call("put", code, before=before, after=after, nth=nth), change)


def move(beginning: str, *, before: str = "", after: str = "", nth: int | None = None) -> Edit:
    """Take a statement out and put it above or below another, at the indent of that one."""

    def change(source: str) -> str:
        lines, found = _find(source, beginning, nth)
        first, last = _span(found)
        code = textwrap.dedent("\n".join(lines[first:last]))
        rest = _joined([*lines[:first], *lines[last:]])
        try:
            return put(code, before=before, after=after).change(rest)
        except SyntaxError:  # the statement was alone in its block
            return put(code, before=before, after=after).change(drop(beginning, nth).change(source))

    return Edit(_call("move", beginning, before=before, after=after, nth=nth), change)


def wrap(header: str, beginning: str, *, to: str = "", nth: int | None = None) -> Edit:
    """Indent a statement, or several of one block up to the one named by ``to``, below a line
    such as ``if loss.isfinite():``."""

    def change(source: str) -> str:
        lines, found = _find(source, beginning, nth)
        first, last = _span(found)
        if to:
            last = _span(_find(source, to, None)[1])[1]
        indent = _indent(lines[first])
        inner = [f"    {line}" if line.strip() else line for line in lines[first:last]]
        lines[first:last] = [*_indented(header, indent), *inner]
        return _joined(lines)

    return Edit(_call("wrap", header, beginning, to=to, nth=nth), change)


def unwrap(beginning: str, nth: int | None = None) -> Edit:
    """Take the header of a block out, such as a ``with``, and keep what is indented below it."""

    def change(source: str) -> str:
        lines, found = _find(source, beginning, nth)
        first, last = _span(found)
        body = getattr(found, "body", None)
        if not body:
            raise EditError(f"{beginning!r} has no block below it")
        inner = textwrap.dedent("\n".join(lines[body[0].lineno - 1 : last]))
        lines[first:last] = _indented(inner, _indent(lines[first]))
        return _joined(lines)

    return Edit(_call("unwrap", beginning, nth=nth), change)


def swap(old: str, new: str, nth: int | None = None) -> Edit:
    """Write another phrase. Whole lines are found at any indent, and written at that of the old.

    Args:
        old: what stands there: part of a line, or several whole lines.
        new: what to write in its place.
        nth: which one, from 1, where it stands there several times; 0 for each of them.
    """

    def change(source: str) -> str:
        if "\n" in old.strip("\n"):
            return _swap_lines(source, old, new, nth)
        places = source.count(old)
        if not places or (nth is None and places > 1) or (nth or 0) > places:
            raise EditError(f"{old!r} stands there {places} times; say which one with nth=")
        if nth == 0 or places == 1:
            return source.replace(old, new)
        parts = source.split(old)
        wanted = nth or 1
        return old.join(parts[:wanted]) + new + old.join(parts[wanted:])

    return Edit(_call("swap", old, new, nth=nth), change)


EDITS = {f.__name__: f for f in (drop, put, move, wrap, unwrap, swap, of)}
"""The names that a cell of wrong answers may use."""


# ---- lines and statements -----------------------------------------------------------------------


def _find(source: str, beginning: str, nth: int | None) -> tuple[list[str], ast.stmt]:
    """The lines of a program, and the statement in it that begins so."""
    lines = source.splitlines()
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    nodes = [n for n in nodes if n.col_offset == len(_indent(lines[n.lineno - 1]))]
    found = [n for n in nodes if lines[_span(n)[0]].strip().startswith(beginning)]
    if not beginning or not found:
        raise EditError(f"no statement begins with {beginning!r}")
    if nth is None and len(found) > 1:
        raise EditError(f"{len(found)} statements begin with {beginning!r}; say which with nth=")
    if (nth or 1) > len(found):
        raise EditError(f"only {len(found)} statements begin with {beginning!r}")
    return lines, found[(nth or 1) - 1]


def _span(node: ast.stmt) -> tuple[int, int]:
    """The indices of a statement's lines: the first, and the one behind the last."""
    decorators = [d.lineno for d in getattr(node, "decorator_list", [])]
    return min([node.lineno, *decorators]) - 1, node.end_lineno or node.lineno


def _only_child(source: str, found: ast.stmt) -> bool:
    for node in ast.walk(ast.parse(source)):
        for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(body, list) and len(body) == 1:
                only = body[0]
                same = (only.lineno, only.col_offset) == (found.lineno, found.col_offset)
                if same and type(only) is type(found):
                    return not isinstance(node, ast.Module)
    return False


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _indented(code: str, indent: str) -> list[str]:
    lines = textwrap.dedent(code).strip("\n").splitlines()
    return [f"{indent}{line}" if line.strip() else line for line in lines]


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _swap_lines(source: str, old: str, new: str, nth: int | None) -> str:
    lines, wanted = source.splitlines(), _indented(old, "")
    places = []
    for start in range(len(lines) - len(wanted) + 1):
        part = lines[start : start + len(wanted)]
        if [line.strip() for line in part] == [line.strip() for line in wanted]:
            places.append(start)
    if not places or (nth is None and len(places) > 1) or (nth or 0) > len(places):
        raise EditError(f"these lines stand there {len(places)} times:\n{old}")
    chosen = places if nth == 0 else [places[(nth or 1) - 1]]
    for start in reversed(chosen):
        lines[start : start + len(wanted)] = _indented(new, _indent(lines[start]))
    return _joined(lines)


def _call(name: str, *args: str, **options: object) -> str:
    parts = [repr(arg) for arg in args]
    parts += [f"{key}={value!r}" for key, value in options.items() if value not in ("", None)]
    return f"{name}({', '.join(parts)})"
