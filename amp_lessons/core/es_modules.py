"""ES modules: where they lie, and how several become one text.

A page on a web server imports the modules as they are. In a notebook the text becomes a blob, which
cannot import a neighbour, and the page that works offline is a single file. So the modules are
joined here. They share one scope then: a name that two of them define is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

SHARED = Path(__file__).parent / "static"
"""What every page stands on: how it builds its elements, and how the widgets look."""

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)
_DEFINITION = re.compile(r"^(?:async )?(?:function|class|const|let|var) (\w+)", re.MULTILINE)


def read_static(name: str, *folders: Path) -> str:
    """The text of a file in the first of these folders, or else of `SHARED`, that has it."""
    return _find(name, (*folders, SHARED)).read_text(encoding="utf-8")


def join_modules(entry: str, *folders: Path) -> str:
    """One ES module with the same default export as ``entry``, and no imports.

    Args:
        entry: file name of the module to start from.
        folders: where it and what it imports lie. A name is looked for in the first of them, then
            in the next, and at last in `SHARED`.

    Raises:
        ValueError: if a module imports in another form than ``import { a, b } from "./x.mjs";``,
            renames what it imports, or defines a name that another module defines too.
    """
    texts: dict[str, str] = {}
    _collect(entry, (*folders, SHARED), texts)
    names = [name for text in texts.values() for name in _DEFINITION.findall(text)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{entry}: defined in two of the joined modules: {', '.join(twice)}")
    return "\n".join(texts.values())


def _find(name: str, folders: Sequence[Path]) -> Path:
    return next((each / name for each in folders if (each / name).is_file()), folders[0] / name)


def _collect(name: str, folders: Sequence[Path], texts: dict[str, str]) -> None:
    """Add a module to ``texts``, after those that it imports."""
    if name in texts:
        return
    text = _find(name, folders).read_text(encoding="utf-8")
    for imported, neighbour in _IMPORT.findall(text):
        if " as " in imported:
            raise ValueError(f"{name}: cannot join an import that renames: {{{imported}}}")
        _collect(neighbour, folders, texts)
    text = _EXPORT.sub("", _IMPORT.sub("", text))
    if re.search(r"^import\b|\bimport\(", text, re.MULTILINE):
        raise ValueError(f'{name}: cannot join an import other than {{ a, b }} from "./x.mjs"')
    texts[name] = text
