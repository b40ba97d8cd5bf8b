"""What torch says about a call: its warnings and its error, as text."""

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
