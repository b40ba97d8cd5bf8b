"""Where a check's inputs come from: fixed seeds in a notebook, secret ones while a class is graded.

Everybody who checks an answer in a notebook gets the same inputs each time. A grader draws one
salt for each batch, and every seed is mixed with it, so nobody can know the inputs beforehand and
hand in a table of results.
"""

from __future__ import annotations

import hashlib

_salt = _before = ""


def use_salt(salt: str) -> None:
    """Mix this text into every seed from now on. Once a process, before any probe makes its cases.

    Args:
        salt: any text; "" stands for the inputs that everybody gets in a notebook.
    """
    global _salt, _before
    _salt, _before = (_mixed(salt, "while"), _mixed(salt, "before")) if salt else ("", "")


def _mixed(salt: str, purpose: str) -> str:
    """A salt of its own for each purpose: from one of them the other can't be found."""
    return hashlib.sha256(f"{salt}/{purpose}".encode()).hexdigest()


def forget_before() -> None:
    """From now on nobody in this process can draw again what was drawn with ``before``."""
    global _before
    _before = "forgotten" if _salt else ""


def salted() -> bool:
    """Whether the inputs are those of a graded batch."""
    return bool(_salt)


def seed(number: int, before: bool = False) -> int:
    """The seed to draw from where a notebook's check uses ``number``: 0 to 2**31 - 1.

    Args:
        before: whether it is for what a probe draws before a notebook's first cell runs, and what
            no cell may find out.
    """
    if not _salt:
        return number
    salt = _before if before else _salt
    return int.from_bytes(hashlib.sha256(f"{salt}/{number}".encode()).digest()[:4]) >> 1
