"""Where a check's inputs come from: fixed seeds in a notebook, secret ones while a class is graded.

Everybody who checks an answer in a notebook gets the same inputs each time. A grader draws one
salt for each batch, and every seed is mixed with it, so nobody can know the inputs beforehand and
hand in a table of results.
"""

from __future__ import annotations

import hashlib

_salt = ""


def use_salt(salt: str) -> None:
    """Mix this text into every seed from now on. Once a process, before any probe makes its cases.

    Args:
        salt: any text; "" stands for the inputs that everybody gets in a notebook.
    """
    global _salt
    _salt = salt


def salted() -> bool:
    """Whether the inputs are those of a graded batch."""
    return bool(_salt)


def seed(number: int) -> int:
    """The seed to draw from where a notebook's check uses ``number``: 0 to 2**31 - 1."""
    if not _salt:
        return number
    return int.from_bytes(hashlib.sha256(f"{_salt}/{number}".encode()).digest()[:4]) >> 1
