"""Whether two values are the same, as plain data: what was expected, then what was seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from amp_lessons.amp.numbers.formats import BF16, FP16, FP32, Format

_FORMATS = {"float32": FP32, "float16": FP16, "bfloat16": BF16}

Same = Callable[[Any, Any], bool]
"""Compares two plain values: expected, then seen."""


def exactly(expected: Any, seen: Any) -> bool:
    """Same numbers, NaN equal to NaN; for tensors also the same dtype and shape.

    A number counts as a number whether it comes as an int, a float, or a tensor or array with
    one element.
    """
    return within(0.0)(expected, seen)


def within(tolerance: float) -> Same:
    """Like `exactly`, but each number may be off by ``tolerance * max(1, |expected|)``."""

    def same(expected: Any, seen: Any) -> bool:
        if isinstance(expected, list | dict) and expected == seen:
            return True
        if is_tensor(expected):
            return (
                is_tensor(seen)
                and seen["dtype"] == expected["dtype"]
                and seen["shape"] == expected["shape"]
                and _close(expected["values"], seen["values"], tolerance)
            )
        if is_dict(expected):
            return is_dict(seen) and not differing(expected, seen, same)
        if isinstance(expected, list):
            return (
                isinstance(seen, list)
                and len(seen) == len(expected)
                and all(same(e, s) for e, s in zip(expected, seen, strict=True))
            )
        if isinstance(expected, bool | str) or expected is None:
            seen = _only_element(seen)
            return type(seen) is type(expected) and seen == expected
        if isinstance(expected, dict):  # a dtype or another object, by its name
            return expected == seen
        return _close(expected, as_number(seen), tolerance)

    return same


def within_ulps(count: float, at_least: float = 0.0) -> Same:
    """Tensors of the same dtype and shape whose numbers differ by at most ``count`` ulp.

    The ulp is that of the expected number, or of ``at_least`` if that is larger: where a result
    is the difference of numbers around 1, its error is measured against them.
    """

    def close(expected: Any, seen: Any, format: Format) -> bool:
        if isinstance(expected, list):
            return all(close(e, s, format) for e, s in zip(expected, seen, strict=True))
        if math.isnan(expected) or math.isnan(seen) or math.isinf(expected):
            return expected == seen or (math.isnan(expected) and math.isnan(seen))
        return abs(expected - seen) <= count * format.ulp(max(abs(expected), at_least))

    def same(expected: Any, seen: Any) -> bool:
        alike = is_tensor(seen) and all(expected[key] == seen[key] for key in ("dtype", "shape"))
        return alike and close(expected["values"], seen["values"], _FORMATS[seen["dtype"]])

    return same


def same_outcome(expected: dict[str, Any], seen: Any, same: Same) -> bool:
    """Whether a call ended as expected: with the same value, or with the same type of error."""
    if not isinstance(seen, dict):
        return False
    if expected.get("value", expected) == seen.get("value", seen):
        return True  # by far the quickest way, and most outcomes that are the same are equal
    if "error" in expected:
        return "error" in seen and seen["error"].get("type") == expected["error"]["type"]
    return "value" in seen and same(expected["value"], seen["value"])


def as_number(seen: Any) -> float | int | None:
    """A plain number out of plain data: itself, or the only element of a tensor or array."""
    seen = _only_element(seen)
    return seen if isinstance(seen, int | float) and not isinstance(seen, bool) else None


def _only_element(seen: Any) -> Any:
    """The element of a tensor or array that has one; anything else as it is."""
    if is_tensor(seen):
        seen = seen["values"]
        while isinstance(seen, list) and len(seen) == 1:
            seen = seen[0]
    return seen


def is_tensor(data: Any) -> bool:
    return isinstance(data, dict) and {"values", "dtype", "shape"} <= data.keys()


def is_dict(data: Any) -> bool:
    return isinstance(data, dict) and isinstance(data.get("dict"), dict)


def noted(entry: dict[str, Any], key: str) -> Any:
    """What an entry of evidence says under a key; None if the call raised or returned no dict."""
    return entry["value"]["dict"].get(key) if is_dict(entry.get("value")) else None


def differing(expected: Any, seen: Any, same: Same) -> list[str]:
    """The keys of an expected dict under which something else was seen, or nothing."""
    wanted, got = expected["dict"], seen["dict"]
    return [key for key in wanted if key not in got or not same(wanted[key], got[key])]


def _close(expected: Any, seen: Any, tolerance: float) -> bool:
    if isinstance(expected, list):
        return (
            isinstance(seen, list)
            and len(seen) == len(expected)
            and all(
                (e == s and type(e) is type(s)) or _close(e, s, tolerance)
                for e, s in zip(expected, seen, strict=True)
            )
        )
    if not isinstance(seen, int | float) or isinstance(seen, bool) != isinstance(expected, bool):
        return False
    if math.isnan(expected) or math.isnan(seen):
        return math.isnan(expected) and math.isnan(seen)
    if math.isinf(expected) or math.isinf(seen) or tolerance == 0.0:
        return expected == seen
    return abs(expected - seen) <= tolerance * max(1.0, abs(expected))
