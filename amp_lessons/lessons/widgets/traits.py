"""What the traits of the widgets have in common: how they refuse, and how a float travels."""

from __future__ import annotations

import math
from typing import Any

import traitlets


class Refused(traitlets.TraitError, ValueError):
    """A value that a trait refuses: traitlets rolls back on the one, lessons catch the other."""


class Number(traitlets.Float):
    """A synced float that tells -0.0 from 0.0.

    It travels as text, since JSON has no inf and no NaN, and JavaScript writes -0 as 0.
    """

    def __init__(self, default: float) -> None:
        super().__init__(default)
        self.tag(sync=True, to_json=_to_text, from_json=_from_text)

    def set(self, obj: Any, value: Any) -> None:
        assert self.name is not None, "traitlets names each trait of a class"
        before = getattr(obj, self.name)
        super().set(obj, value)
        after = getattr(obj, self.name)
        if before == after and not same(before, after):  # traitlets saw no change, but we do
            obj._notify_trait(self.name, before, after)


def same(a: float, b: float) -> bool:
    """Equal, with NaN equal to NaN and -0.0 different from 0.0."""
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b and math.copysign(1, a) == math.copysign(1, b)


def _to_text(number: float, _: Any) -> str:
    return repr(number)


def _from_text(text: str, _: Any) -> float:
    return float(text)
