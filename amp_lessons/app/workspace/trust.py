"""Telling Jupyter that the outputs in a notebook are the course's, so that it shows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def trust(path: Path) -> None:
    """Tell Jupyter to trust the outputs in a notebook, so that it shows all of them.

    Jupyter keeps the signatures in its own data folder. Without them the course still works, so
    a failure is not worth a word.
    """
    with suppress(Exception), _notary() as notary:
        notary.sign(_for_notary(path.read_bytes()))


def was_trusted(content: bytes) -> bool:
    with suppress(Exception), _notary() as notary:
        return notary.check_signature(_for_notary(content))
    return False


@contextmanager
def _notary() -> Iterator[Any]:
    """Jupyter's register of trusted notebooks, told to keep its warnings to itself."""
    import logging

    from jupyter_core.paths import jupyter_data_dir
    from nbformat.sign import NotebookNotary

    silent = logging.getLogger("amp_lessons.notary")
    silent.disabled = True
    folder = Path(jupyter_data_dir())
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # Jupyter may never have run here
    notary = NotebookNotary(data_dir=str(folder), log=silent)
    try:
        yield notary
    finally:
        notary.store.close()


def _for_notary(content: bytes) -> Any:
    import warnings

    import nbformat

    with warnings.catch_warnings(action="ignore"):  # about a copied cell's id, for example
        return nbformat.reads(content.decode("utf-8"), as_version=4)
