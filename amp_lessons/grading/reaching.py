"""Cells that reach into the check that runs beside them, and what gives them away.

A check watches from inside the notebook's process: which operations ran, whether an answer called
the course to do its task. Code in the same process can take such a watch off, and no sandbox stops
it. What it needs for that has no place in an answer, so it is looked for in the text of the cells.
Who hides it well enough is not found.
"""

from __future__ import annotations

import ast
import re

LONGEST = 100_000
"""Characters of a cell that are read as Python. The course's own have a few thousand."""

_ROOMS = ("checks", "grading", "op_watch", "plain_data", "interrupts", "torch_state", "authoring")
_MODULES = {"ctypes", "gc", "inspect", "importlib", "_thread", "types", "dis", "marshal", "cffi"}
_ATTRIBUTES = {
    *("_getframe", "_current_frames", "f_back", "f_locals", "f_globals", "tb_frame", "gi_frame"),
    *("__closure__", "cell_contents", "__globals__", "__code__", "__subclasses__", "__builtins__"),
    *("setprofile", "settrace", "get_objects", "get_referrers", "get_referents", "meta_path"),
    *("input_transformers_post", "input_transformers_cleanup", "ast_transformers", "addaudithook"),
}
_CALLS = {"exec", "eval", "compile", "__import__"}
_HARMLESS = {("gc", "collect"), ("inspect", "getsource"), ("inspect", "signature")}
_TEXT = re.compile(
    r"amp_lessons[./](?:" + "|".join(_ROOMS) + r")\b|/proc/|_course/solutions|SecretHalf"
)
# How sheets that were handed out before imported their exercises.
_FORMER = re.compile(r"^from amp_lessons\.checks import \w+( as ex)?$", re.MULTILINE)


def reaches(source: str) -> list[str]:
    """What in a cell reaches into the check, such as ``"sys._getframe"``; most have nothing."""
    source = _FORMER.sub("", source)
    found = _TEXT.findall(source)
    if len(source) <= LONGEST:
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = ast.Module([], [])
        for node in ast.walk(tree):
            found += _of(node)
    return list(dict.fromkeys(found))


def _of(node: ast.AST) -> list[str]:
    match node:
        case ast.Attribute(value, name) if name in _ATTRIBUTES:
            return [f"{value.id}.{name}" if isinstance(value, ast.Name) else name]
        case ast.Attribute(ast.Attribute(ast.Name("sys"), "modules") | ast.Name("sys"), "modules"):
            return ["sys.modules"]
        case ast.Attribute(ast.Name("os"), "write" | "dup" | "dup2" | "fdopen" as name):
            return [f"os.{name}"]
        case ast.Attribute(ast.Name(module), name) if module in {"gc", "inspect"}:
            return [] if (module, name) in _HARMLESS else [f"{module}.{name}"]
        case ast.Call(ast.Name(name)) if name in _CALLS:
            return [name]
        case ast.Import(names):
            return [n.name for n in names if n.name.split(".")[0] in _MODULES - {"gc", "inspect"}]
        case ast.ImportFrom(str(module)) if module.split(".")[0] in _MODULES:
            return [module]
    return []
