"""Cells that reach into the check that runs beside them, and what gives them away.

Some checks watch from inside the notebook's process: which operations ran, whether an answer used
the course to do its task. Code in the same process can take such a watch off, and no sandbox stops
it. What it needs for that has no place in an answer, so it is looked for in the text of the cells.
Who hides it well enough is not found.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

LONGEST = 100_000
"""Characters of a cell that are read as Python. The course's own have a few thousand."""

_ROOMS = "checks|grading|op_watch|plain_data|interrupts|torch_state|authoring"
_OURS = re.compile(rf"amp_lessons[./](?:{_ROOMS})\b")
_TEXT = re.compile(rf"{_OURS.pattern}|/proc/(?:self|\d|\*|\{{)|_course/solutions|SecretHalf")

_FUNCTIONS = re.compile(
    r"gc\.(get_objects|get_referrers|get_referents)|ctypes\b.*|cffi\b.*|cProfile\b.*|profile\b.*"
    r"|inspect\.(currentframe|stack|trace|getclosurevars|getinnerframes|getouterframes)"
    r"|(sys|threading)\.(setprofile|settrace)|sys\._\w+|_thread\b.*|os\.(write|dup|dup2|fork|fdopen)"
    r"|(torch\.)?multiprocessing\b.*|concurrent\.futures\b.*|threading\.(Thread|Timer)|sys\.executable"
    r"|marshal\b.*|builtins\b.*"
)
_ATTRIBUTES = {
    *("_getframe", "_current_frames", "f_back", "f_locals", "f_globals", "tb_frame", "gi_frame"),
    *("__closure__", "cell_contents", "__globals__", "__code__", "__subclasses__", "__builtins__"),
    *("setprofile", "settrace", "get_referrers", "get_referents", "meta_path", "addaudithook"),
    *("input_transformers_post", "input_transformers_cleanup", "ast_transformers"),
    *("run_in_executor", "to_thread", "_default_executor", "ctypes", "pythonapi", "all_cases"),
    *("ThreadPoolExecutor", "ProcessPoolExecutor", "ThreadPool", "BackgroundJobManager"),
    *("_disable_current_modes", "_DisableTorchDispatch", "_start_new_thread"),
}
_OF_AN_EXERCISE = {"probe", "learners", "secret", "evidence", "verdict", "diagnoses"}
_MAGIC = {"run_cell_magic", "run_line_magic", "run_cell"}
_PATCHED = {"json", "builtins", "threading", "traceback", "copy", "sys"}


def reaches(sources: Sequence[str], topics: set[str] | None = None) -> list[list[str]]:
    """For each cell what in it reaches into the check, such as ``"sys._getframe"``.

    Args:
        sources: the cells of a notebook, in their order, as Jupyter runs them.
        topics: what sheets that were handed out before import from ``amp_lessons.checks``.
    """
    trees = [tree_of(source) for source in sources]
    names: dict[str, str] = {}
    for tree in trees:
        names |= {alias: whole for node in ast.walk(tree) for alias, whole in _imported(node)}
    found = []
    for source, tree in zip(sources, trees, strict=True):
        here = list(_in(tree, names, topics or set()))
        if len(source) > LONGEST:
            here.append(f"more than {LONGEST:,} characters")
        found.append(list(dict.fromkeys(here)))
    return found


def tree_of(source: str) -> ast.Module:
    """A cell as Python. What is not Python even to IPython does not run either."""
    if len(source) > LONGEST:
        return ast.Module([], [])
    try:
        return ast.parse(_transformer().transform_cell(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


@cache
def _transformer() -> Any:
    """What makes Python of magics. It keeps nothing of a cell, and takes long to make."""
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager()


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that an import makes, each with what it stands for."""
    if isinstance(node, ast.Import):
        for each in node.names:
            top = each.name.split(".")[0]
            yield (each.asname, each.name) if each.asname else (top, top)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for each in node.names:
            yield each.asname or each.name, f"{node.module}.{each.name}"


def _in(tree: ast.AST, names: dict[str, str], topics: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                for whole in _imports(node):
                    former = whole.startswith("amp_lessons.checks.") and whole[19:] in topics
                    if not former and (_OURS.match(whole) or _is_named(whole)):
                        yield whole
            case ast.Attribute(value, name):
                yield from _attribute(node, value, name, names)
            case ast.Name(name) if _is_named(names.get(name, "")):
                yield names[name]
            case ast.Subscript(value) if _dotted(value, names) == "sys.modules":
                yield "sys.modules"
            case ast.Assign(targets):
                for target in targets:
                    yield from _patched(target, names)
            case ast.Call(ast.Attribute(_, name), arguments) if name in _MAGIC:
                yield from _magic(arguments, names, topics)
                if not all(isinstance(argument, ast.Constant) for argument in arguments):
                    yield name
            case ast.Call(function, arguments):
                yield from _call(_dotted(function, names), arguments, names, topics)
            case ast.Constant(str(text)):
                yield from _TEXT.findall(text)


def _is_named(whole: str) -> bool:
    return _is_a_function(whole) or whole.rpartition(".")[2] in _ATTRIBUTES


def _is_a_function(whole: str) -> bool:
    """Whether this is one of the functions, perhaps by way of a module that imports its own, such
    as ``"torch.threading.Thread"``."""
    parts = whole.split(".")
    ways = (".".join(parts[place:]) for place in range(max(1, len(parts) - 1)))
    return any(map(_FUNCTIONS.fullmatch, ways))


def _imports(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    return [f"{node.module}.{each.name}" for each in node.names]


def _attribute(
    node: ast.Attribute, value: ast.expr, name: str, names: dict[str, str]
) -> Iterator[str]:
    whole = _dotted(node, names)
    if whole == "sys.modules":  # to ask whether a name is in it is harmless
        return
    if _is_a_function(whole) or _OURS.match(whole):
        yield whole
    elif name in _ATTRIBUTES:
        yield name
    elif name in _OF_AN_EXERCISE and "amp_lessons.exercises" in _dotted(value, names):
        yield f"{ast.unparse(value)}.{name}"


def _patched(target: ast.expr, names: dict[str, str]) -> Iterator[str]:
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        module = names.get(target.value.id, "")
        if module in _PATCHED and f"{module}.{target.attr}" not in ("sys.stdout", "sys.stderr"):
            yield f"{module}.{target.attr} ="


def _call(
    function: str, arguments: list[ast.expr], names: dict[str, str], topics: set[str]
) -> Iterator[str]:
    """Code in text is looked through; text that is put together somewhere else is not code."""
    texts = [a.value for a in arguments if isinstance(a, ast.Constant) and type(a.value) is str]
    if function.startswith("sys.modules."):
        yield "sys.modules"
    elif function in ("exec", "eval", "compile", "__import__", "importlib.import_module"):
        if not texts:
            yield function
        for text in texts:
            yield from _in(tree_of(text), names, topics)


def _magic(arguments: list[ast.expr], names: dict[str, str], topics: set[str]) -> Iterator[str]:
    """The code below ``%%time`` or behind ``%timeit``."""
    for argument in arguments:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            tree = tree_of(argument.value)
            own = {a: whole for node in ast.walk(tree) for a, whole in _imported(node)}
            yield from _in(tree, names | own, topics)


def _dotted(node: ast.expr, names: dict[str, str]) -> str:
    """What an expression stands for, such as ``"inspect.currentframe"``; "" if it is not a name."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        value = _dotted(node.value, names)
        return f"{value}.{node.attr}" if value else ""
    return ""
