"""What was seen, in words: the lines below a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from amp_lessons.amp import errors
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.checks.serialize import in_words
from amp_lessons.exercises.checks.serialize.compare import (
    Same,
    as_number,
    differing,
    is_dict,
    is_tensor,
)

EARLIER_LINE = {
    "modified by an inplace operation": "After the forward pass something changed a tensor that "
    "`backward()` needs. Look for an assignment such as `+=`, a call that ends in an underscore, "
    "or an optimizer's step.",
    "does not require grad and does not have a grad_fn": "Nothing connects the loss to a "
    "parameter. Look for `torch.no_grad()`, `detach()`, `item()`, or parameters that are frozen.",
}
"""By a part of torch's message: what caused it, where that isn't the line that raises it."""

EARLIER_FAULTS = ("no-inf-checks-for-this-optimizer", "no-inf-checks-prior-to-update")
"""Faults of mixed precision that an earlier line causes, by their ids in `amp.errors`."""

LONGEST = 60
MANY = 12  # more numbers than anyone reads one by one


def earlier_cause(message: str) -> str:
    """What an earlier line did, if this error is raised by a later one; else ""."""
    causes = [cause for part, cause in EARLIER_LINE.items() if part in message]
    faults = map(errors.entry, EARLIER_FAULTS)
    causes += [each.cause for each in faults if any(r.search(message) for r in each.regexes)]
    return f"The cause is an earlier line. {causes[0]}" if causes else ""


def line(name: str, case: Case, expected: dict[str, Any], seen: Any, same: Same) -> str:
    """One call: what came back, and what was expected.

    Args:
        name: the exercise's.
        expected: what the right answer did, as `evidence.observe` describes it.
        seen: what the learner's answer did.
    """
    call = case.label or f"{name}({', '.join(map(repr, case.args))})"
    if not isinstance(seen, dict):
        return f"{call}: nothing was seen"
    if "error" in seen:
        got = f"{seen['error'].get('type')}: {seen['error'].get('message')}"[:120]
        wanted = expected.get("error", {}).get("type")
        return f"{call} raised {got}" + (f"; expected a {wanted}" if wanted else "")
    if "error" in expected:
        got = describe(seen.get("value"))
        return f"{call} returned {got}; expected a {expected['error']['type']}"
    found = difference(expected.get("value"), seen.get("value"), same)
    return f"{call}: {found}" if case.label else f"{call} {found}"


def difference(expected: Any, seen: Any, same: Same) -> str:
    """Where two plain values differ, in words."""
    if is_dict(expected) and is_dict(seen) and differing(expected, seen, same):
        key = differing(expected, seen, same)[0]
        one, other = expected["dict"][key], seen["dict"].get(key)
        return f"{key}: {_difference_of_part(one, other, same)}"
    if is_tensor(expected) and is_tensor(seen):
        for what in ("dtype", "shape"):
            if expected[what] != seen[what]:
                return f"returned a tensor of {what} {seen[what]}; expected {expected[what]}"
        if isinstance(expected["values"], list):
            return _most_different(expected["values"], seen["values"])
    if isinstance(expected, list) and isinstance(seen, list) and len(expected) == len(seen):
        return _difference_of_part(expected, seen, same)
    return f"returned {describe(seen)}; expected {describe(expected)}"


def _difference_of_part(expected: Any, seen: Any, same: Same) -> str:
    lists = isinstance(expected, list) and isinstance(seen, list)
    if lists and len(expected) == len(seen) and len(expected) > 1:
        pairs = zip(expected, seen, strict=True)
        wrong = [n for n, (one, other) in enumerate(pairs) if not same(one, other)]
        if len(expected) > MANY and all(as_number(x) is not None for x in [*expected, *seen]):
            most = max(
                _apart(((), as_number(expected[n]) or 0, as_number(seen[n]) or 0)) for n in wrong
            )
            return f"{len(wrong)} of {len(expected)} numbers differ, by up to {most:.3g}"
        if wrong and len(describe(expected)) + len(describe(seen)) > LONGEST:
            one, other = describe(expected[wrong[0]]), describe(seen[wrong[0]])
            more = "" if len(wrong) == 1 else f"; {len(wrong) - 1} of the others differ too"
            place = f"number {wrong[0] + 1} of {len(expected)}"
            return f"{place} is {other}; expected {one}{more}"
    one, other = (x if isinstance(x, str) else describe(x) for x in (expected, seen))
    return f"got {other}; expected {one}"


def _most_different(expected: Any, seen: Any) -> str:
    pairs = list(_pairs(expected, seen, ()))
    wrong = [pair for pair in pairs if _apart(pair) != 0]
    if not wrong:
        return f"returned {_short(seen)}; expected {_short(expected)}"
    place, one, other = max(pairs, key=_apart)
    if len(place) == 2:
        where = f"row {place[0] + 1}, column {place[1] + 1}"
    else:
        where = f"place {' / '.join(str(number + 1) for number in place)}"
    count = f"{len(wrong)} of {len(pairs)} elements differ"
    return f"{count}, most in {where}: got {other:.6g}; expected {one:.6g}"


def _apart(pair: tuple[Any, float, float]) -> float:
    _, one, other = pair
    if one == other or (math.isnan(one) and math.isnan(other)):
        return 0.0
    apart = abs(one - other)
    return math.inf if math.isnan(apart) else apart


def _pairs(expected: Any, seen: Any, place: tuple[int, ...]) -> Iterator[tuple]:
    if isinstance(expected, list) and isinstance(seen, list):
        for number, (one, other) in enumerate(zip(expected, seen, strict=False)):
            yield from _pairs(one, other, (*place, number))
    elif isinstance(expected, int | float) and isinstance(seen, int | float):
        yield place, expected, seen


def describe(value: Any) -> str:
    """A plain value in at most about 60 characters."""
    if is_tensor(value):
        values = value["values"]
        if values is None:
            return f"a large tensor ({value['dtype']})"
        shown = _short(values) if isinstance(values, list) else f"{values:.6g}"
        return f"{shown} ({value['dtype']})"
    if isinstance(value, dict) and "object" in value:
        return in_words(value)
    if isinstance(value, dict) and "dtype" in value:
        return value["dtype"]
    if is_dict(value):
        text = ", ".join(f"{key!r}: {describe(item)}" for key, item in value["dict"].items())
        text = f"{{{text}}}"
    elif isinstance(value, list):
        text = f"[{', '.join(map(describe, value))}]"
    else:
        text = _number(value) if isinstance(value, float) else repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _number(value: float) -> str:
    """A float in few characters; a large or a small power of two, such as a loss scale, as one."""
    significand, exponent = math.frexp(value)
    if significand == 0.5 and abs(exponent - 1) > 16:
        return f"2^{exponent - 1}"
    return repr(value) if len(repr(value)) <= 14 else f"{value:.6g}"


def _short(values: list[Any]) -> str:
    """The first row of a nested list, or the first numbers of a flat one, in few digits."""
    nested = bool(values) and isinstance(values[0], list)
    first = values[: 1 if nested else 4]
    shown = [
        _short(v) if nested else f"{v:.4g}" if isinstance(v, float) else repr(v) for v in first
    ]
    return f"[{', '.join(shown)}{', ...' if len(values) > len(first) else ''}]"


def kind_of(value: Any) -> str:
    """What sort of value this is: two values of different sorts are a wrong type."""
    if as_number(value) is not None:
        return "number"
    if is_tensor(value):
        return f"tensor {value['dtype']} {value['shape']}"
    if isinstance(value, dict):
        return next((kind for kind in ("dict", "dtype") if kind in value), "object")
    return type(value).__name__
