"""What a call says: its warnings and its exception, as text."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any


def said(call: Callable[[], Any]) -> str:
    """What torch says about a call: its warnings, then its error, a line each; "" if nothing.

    Args:
        call: called once, without arguments. What it returns is dropped.

    Returns:
        Lines such as ``"FutureWarning: …"`` and ``"RuntimeError: …"``. Wordings differ between
        versions and devices, so look for a pattern and do not compare whole lines.
    """
    lines = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            call()
        except Exception as error:
            lines = [f"{type(error).__name__}: {error}"]
    return "\n".join([f"{w.category.__name__}: {w.message}" for w in heard] + lines)


def warned(call: Callable[[], object]) -> str:
    """The first sentence of the first warning that a call gives, or ``"no warning"``."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return str(caught[0].message).partition(". ")[0] if caught else "no warning"


def raised(call: Callable[[], object]) -> str:
    """The type and the first sentence of the exception that a call raises, or ``"no error"``."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition('. ')[0]}"
    return "no error"


def raised_by(line: str, names: dict[str, Any]) -> str:
    """What a line of code raises, as `raised` puts it.

    Args:
        line: a statement, such as ``"memory[rows] = features"``.
        names: what it may use; a cell gives its own ``globals()``.
    """
    return raised(lambda: exec(line, names))
