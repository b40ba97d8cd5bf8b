"""Bring the stored notebooks up to date after a change, and run as few of them as possible.

A notebook whose code is what it was keeps what its cells have shown; only the forms of its
questions are made again, from the bank. One whose code has changed runs. What its cells would show
now, since something that they import has changed, is for nbval to say: this doesn't run it.
"""

from __future__ import annotations

import argparse
import copy
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import nbformat
from build_notebooks import (
    CHECK_TAG,
    QUESTION_TAG,
    ROOT,
    BuildError,
    Product,
    finish,
    have_it_checked,
    make,
    products,
    remove_all_but,
    store,
    to_text,
)
from nbformat import NotebookNode

from amp_lessons.quiz import bank, markup


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.parse_args()
    try:
        wanted = {product.path: product for product in products(ROOT / "sources")}
        kept = {path: refreshed(product, stored(path)) for path, product in wanted.items()}
        to_run = [path for path, text in kept.items() if text is None]
        with ThreadPoolExecutor(2) as pool:
            ran = pool.map(lambda path: make(wanted[path]), to_run)
            kept |= dict(zip(to_run, ran, strict=True))
    except (BuildError, FileNotFoundError, bank.BankError) as error:
        print(error, file=sys.stderr)
        return 1
    store({path: text for path, text in kept.items() if text is not None})
    remove_all_but(kept)
    return 0


def stored(path: str) -> str:
    """The text of a stored notebook; "" if there is none yet."""
    file = ROOT / path
    return file.read_text(encoding="utf-8") if file.exists() else ""


def refreshed(product: Product, text: str) -> str | None:
    """A notebook as it is to be stored, with the outputs of the stored one.

    Returns:
        Its text, or None if it has to run first: its code isn't the one that ran.
    """
    notebook = copy.deepcopy(product.notebook)
    if not product.execute:
        return to_text(notebook)
    if not text:
        return None
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    ran = [cell for cell in nbformat.reads(text, as_version=4).cells if cell.cell_type == "code"]
    if list(map(_as_written, code)) != list(map(_as_written, ran)):
        return None
    for cell, old in zip(code, ran, strict=True):
        cell.outputs, cell.execution_count = old.outputs, old.execution_count
        have_it_checked(cell)
        if ids := asked(cell):
            (output,) = cell.outputs
            output.data = form(cell, ids)
    return to_text(finish(notebook))


def _as_written(cell: NotebookNode) -> tuple[str, list[str]]:
    """A cell of code without what running it adds."""
    return cell.source, [tag for tag in cell.metadata.get("tags", []) if tag != CHECK_TAG]


def asked(cell: NotebookNode) -> list[str]:
    """The ids of the questions that a cell asks for."""
    if QUESTION_TAG not in cell.metadata.get("tags", []):
        return []
    return re.findall(r'"([a-z0-9_]+\.[a-z0-9_]+)"', cell.source)


def form(cell: NotebookNode, ids: list[str]) -> dict[str, str]:
    """What a cell that asks questions is stored with."""
    title = "Prediction" if "predict(" in cell.source else "Questions"
    return markup.form([bank.load().find(wanted) for wanted in ids], title)


if __name__ == "__main__":
    sys.exit(main())
