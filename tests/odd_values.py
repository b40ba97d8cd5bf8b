"""Values that are hard to look at: numbers beyond any float, lists without end, objects that raise
whatever is asked of them.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import torch


def _raise(*_: object) -> Any:
    raise ZeroDivisionError("mine, with a lone \ud800")


class Raises:
    """Raises for everything that Python may ask of an object."""

    __str__ = __repr__ = __eq__ = __hash__ = __bool__ = __float__ = __len__ = __iter__ = _raise
    __getattr__ = _raise
    __class__ = property(_raise)


class HasNoText:
    __str__ = __repr__ = _raise


def contains_itself() -> list[Any]:
    cyclic: list[Any] = [1.0]
    cyclic += [cyclic, cyclic]
    return cyclic


def nested(levels: int, width: int = 1) -> list[Any]:
    """Lists in lists; with a width of 2, each of them holds the next one twice."""
    inner: list[Any] = []
    for _ in range(levels):
        inner = [inner] * width
    return inner


FEW: dict[str, Any] = {
    "10**400": 10**400,
    "contains itself": contains_itself(),
    "raises": Raises(),
}
MANY: dict[str, Any] = FEW | {
    "10**5000": 10**5000,
    "-10**400": -(10**400),
    "fraction": Fraction(10**400, 3),
    "decimal": Decimal("1e999999"),
    "decimal nan": Decimal("NaN"),
    "signaling nan": Decimal("sNaN"),
    "decimal -inf": Decimal("-Infinity"),
    "nan": float("nan"),
    "inf": float("inf"),
    "10,000 deep": nested(10_000),
    "shared": nested(30, width=2),
    "surrogates": "\ud800 and \udc00",
    "huge keys": {10**5000: 1, 10**400: 2},
    "no text for a key": {HasNoText(): 1},
    "inside a dict": {"a": [10**5000, (-(10**400), Raises())]},
    "complex": torch.tensor([1j]),
    "no data": torch.empty(2, device="meta"),
}
