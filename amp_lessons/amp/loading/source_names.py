"""The names in a library's or a learner's source, which is read and not imported.

To import a module with a model imports torch, which takes seconds. So a name that is misspelt can
be refused at once, if the source leaves no doubt. Where it does, only an import can tell.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

DYNAMIC = re.compile(
    r"\b(__getattr__|__dict__|globals|vars|locals|setattr|exec|eval|import_module|sys\.modules)\b"
)
"""Ways to make names that no reader of the source can see."""
FEWEST = 500
"""Models of timm below which the source was not understood. It has had more since 2021."""

_REGISTERED = re.compile(r"^@register_model\b.*\n(?:@.*\n)*def (\w+)\(", re.MULTILINE)
_RENAMED = re.compile(r"^register_model_deprecations\(__name__, \{(.*?)^\}\)", re.DOTALL | re.M)
_KEY = re.compile(r"^\s*['\"]([^'\"]+)['\"]\s*:", re.MULTILINE)


@cache
def models_of_timm() -> tuple[frozenset[str], frozenset[str]]:
    """The models in timm's source, and old names of theirs. Both empty if they aren't found."""
    spec = importlib.util.find_spec("timm")
    models: set[str] = set()
    renamed: set[str] = set()
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for file in Path(folder, "models").glob("*.py"):
            source = file.read_text(encoding="utf-8")
            models.update(_REGISTERED.findall(source))
            for pairs in _RENAMED.findall(source):
                renamed.update(_KEY.findall(pairs))
    if len(models) < FEWEST:
        return frozenset(), frozenset()
    return frozenset(models), frozenset(renamed)


def names_of(file: Path) -> frozenset[str] | None:
    """All names that a module can have: rather too many than too few. None if they aren't sure."""
    return _names_of(file.resolve(), ())


def is_installed(file: Path) -> bool:
    """Whether a file is a library's. Some of them give their modules names from outside."""
    return bool({"site-packages", "dist-packages"} & set(file.parts))


def file_of_module(name: str) -> Path | None:
    """The source of a module, or of a package's ``__init__``; None if it isn't found."""
    places: list[str] | None = [str(Path.cwd()), *sys.path]
    spec = None
    for part in name.split("."):
        spec = None if places is None else PathFinder.find_spec(part, places)
        if spec is None:
            return None
        found = spec.submodule_search_locations
        places = None if found is None else list(found)
    file = Path(spec.origin) if spec is not None and spec.origin else None
    return file if file is not None and file.suffix == ".py" else None


def _names_of(file: Path, above: tuple[Path, ...]) -> frozenset[str] | None:
    try:
        source = file.read_text(encoding="utf-8")
        if DYNAMIC.search(source):
            return None
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    found = set(_bound(tree))
    if file.name == "__init__.py":  # its modules are names of a package, once one is imported
        found |= {path.stem for path in file.parent.iterdir()}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any(each.name == "*" for each in node.names):
            inner = _starred(node, file)
            more = None if inner is None or inner in above else _names_of(inner, (*above, file))
            if more is None:
                return None
            found |= more
    return frozenset(found)


def _bound(tree: ast.Module) -> Iterator[str]:
    """What is assigned, defined or imported anywhere, also inside of functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (each.asname or each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name


def _starred(node: ast.ImportFrom, file: Path) -> Path | None:
    """The file behind ``from … import *``."""
    if not node.level:
        return file_of_module(node.module or "")
    place = file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
    files = (place / "__init__.py", place.with_suffix(".py"))
    return next((each for each in files if each.is_file()), None)
