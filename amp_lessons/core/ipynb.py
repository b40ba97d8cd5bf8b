"""Notebook files as plain JSON: read without trusting them, written as Jupyter writes them.

A file from a learner may be anything, so `read` refuses in one clear line what isn't a notebook,
and what it returns has the few types that the rest of the package relies on. Whether a notebook
belongs to the course is for `workspace` and `grading` to say.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from amp_lessons.core.errors import AmpLessonsError

Cell = dict[str, Any]
SET_UP = "setup"
"""The tag of the first cell of each notebook, which installs the course where it is missing."""
LARGEST = 100 * 2**20
"""Bytes. A notebook of the course stays under 400 KB; beyond this it is not read at all."""


class NotebookError(AmpLessonsError):
    """A file cannot be used as a notebook. The message says why, without naming the file."""


def read(path: Path) -> dict[str, Any]:
    """Read a notebook of format 4 and check its skeleton.

    Raises:
        NotebookError: if it is missing, no text, not JSON, or no notebook.
    """
    return parse(_bytes(path))


def parse(raw: bytes) -> dict[str, Any]:
    """The notebook in these bytes. Raises `NotebookError`."""
    if not raw.strip():
        raise NotebookError("is empty")
    try:
        notebook = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise NotebookError("is not UTF-8 text, so it is no notebook") from error
    except RecursionError as error:
        raise NotebookError("is nested too deeply to be a notebook") from error
    except json.JSONDecodeError as error:
        raise NotebookError(f"is not JSON: {error.msg} in line {error.lineno}") from error
    except ValueError as error:  # Python turns no text of that length into an integer
        limit = f"{sys.get_int_max_str_digits():,}"
        raise NotebookError(
            f"holds a number of more than {limit} digits, which Jupyter cannot read either"
        ) from error
    _check(notebook)
    return notebook


def _bytes(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise NotebookError("is a folder: name the notebooks in it")
        if path.exists() and not path.is_file():
            raise NotebookError("is not an ordinary file")
        if path.stat().st_size > LARGEST:
            raise NotebookError(f"is larger than {LARGEST // 2**20} MB")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise NotebookError("does not exist") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise NotebookError(f"cannot be read: {reason}") from error


def _check(notebook: Any) -> None:
    if not isinstance(notebook, dict) or not isinstance(notebook.get("nbformat"), int):
        raise NotebookError("is JSON, but not a notebook")
    if notebook["nbformat"] != 4:
        raise NotebookError(
            f"has notebook format {notebook['nbformat']}, and 4 is needed: save it again in "
            "JupyterLab"
        )
    cells = notebook.get("cells")
    if not isinstance(cells, list) or not all(_is_cell(cell) for cell in cells):
        raise NotebookError("is JSON, but its cells are not a notebook's cells")


def _is_cell(cell: Any) -> bool:
    if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str):
        return False
    source = cell.get("source", "")
    return isinstance(source, str) or (
        isinstance(source, list) and all(isinstance(part, str) for part in source)
    )


def without_outputs(notebook: dict[str, Any]) -> dict[str, Any]:
    """The same notebook as if no cell had been run."""
    blank: dict[str, Any] = {"outputs": [], "execution_count": None}
    cells = [cell | blank if cell["cell_type"] == "code" else cell for cell in notebook["cells"]]
    return notebook | {"cells": cells}


def source_of(cell: Cell) -> str:
    """A cell's text: a file may hold it as one string or as a list of lines."""
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def is_set_up(cell: Cell) -> bool:
    """Whether a cell is the course's set-up cell."""
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    return isinstance(tags, list) and SET_UP in tags


def grade_id(cell: Cell) -> str:
    """The name that nbgrader's metadata gives a code cell, or "" if it has none."""
    name = _nbgrader(cell).get("grade_id")
    return name if isinstance(name, str) and cell["cell_type"] == "code" else ""


def is_check(cell: Cell) -> bool:
    """Whether nbgrader's metadata marks a cell as one that gives points."""
    return bool(grade_id(cell)) and _nbgrader(cell).get("grade") is True


def is_solution(cell: Cell) -> bool:
    """Whether nbgrader's metadata marks a cell as the place for an answer."""
    return bool(grade_id(cell)) and _nbgrader(cell).get("solution") is True


def _nbgrader(cell: Cell) -> dict[str, Any]:
    metadata = cell.get("metadata")
    found = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def to_bytes(notebook: dict[str, Any]) -> bytes:
    """The text of a notebook file, laid out as nbformat does it."""
    try:
        return _dump(notebook, ensure_ascii=False)
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can hold
        return _dump(notebook, ensure_ascii=True)


def _dump(notebook: dict[str, Any], ensure_ascii: bool) -> bytes:
    return (
        json.dumps(notebook, ensure_ascii=ensure_ascii, indent=1, sort_keys=True) + "\n"
    ).encode()
