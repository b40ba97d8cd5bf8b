"""Answers that are hard to look at: numbers beyond any float, lists without end, objects that
raise whatever is asked of them. Each must end in a verdict, and none of them is right.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
import torch

from amp_lessons import boxes, checks
from amp_lessons.checks import display
from amp_lessons.checks.verdict import State, Verdict
from amp_lessons.course import LESSONS
from amp_lessons.plain_data import MAX_DEPTH, MAX_ITEMS, as_json, plain

EXERCISES = [info.name for lesson in LESSONS for info in lesson.exercises]
FUNCTIONS = {"stable_losses": 4, "fix_mismatches": 5}
"""How many functions a check takes, where it is more than one."""


def _raise(*_: object) -> Any:
    raise ZeroDivisionError("mine, with a lone \ud800")


class Raises:
    """Raises for everything that Python may ask of an object."""

    __str__ = __repr__ = __eq__ = __hash__ = __bool__ = __float__ = __len__ = __iter__ = _raise
    __getattr__ = _raise
    __class__ = property(_raise)


class HasNoText:
    __str__ = __repr__ = _raise


def _contains_itself() -> list[Any]:
    cyclic: list[Any] = [1.0]
    cyclic += [cyclic, cyclic]
    return cyclic


def _nested(levels: int, width: int = 1) -> list[Any]:
    """Lists in lists; with a width of 2, each of them holds the next one twice."""
    inner: list[Any] = []
    for _ in range(levels):
        inner = [inner] * width
    return inner


ON_ALL: dict[str, Any] = {
    "10**400": 10**400,
    "contains itself": _contains_itself(),
    "raises": Raises(),
}
ON_SOME: dict[str, Any] = ON_ALL | {
    "10**5000": 10**5000,
    "-10**400": -(10**400),
    "fraction": Fraction(10**400, 3),
    "decimal": Decimal("1e999999"),
    "decimal nan": Decimal("NaN"),
    "signaling nan": Decimal("sNaN"),
    "decimal -inf": Decimal("-Infinity"),
    "nan": float("nan"),
    "inf": float("inf"),
    "10,000 deep": _nested(10_000),
    "shared": _nested(30, width=2),
    "surrogates": "\ud800 and \udc00",
    "huge keys": {10**5000: 1, 10**400: 2},
    "no text for a key": {HasNoText(): 1},
    "inside a dict": {"a": [10**5000, (-(10**400), Raises())]},
    "complex": torch.tensor([1j]),
    "no data": torch.empty(2, device="meta"),
}
SOME = ["survives", "classify_faults", "clip_step", "autocast_step", "read_roofline", "to_float8"]


@pytest.fixture
def verdicts(monkeypatch) -> list[Verdict]:
    """The verdicts that a notebook shows. A note that the check itself failed is not one."""
    shown: list[Verdict] = []
    show = display.show_verdict

    def show_and_keep(exercise, verdict, notes):
        shown.append(verdict)
        show(exercise, verdict, notes)

    def publish(data, raw):
        json.dumps(data, ensure_ascii=False).encode()  # as a notebook's kernel does

    monkeypatch.setattr(boxes, "_notebook", object)
    monkeypatch.setattr(display, "show_verdict", show_and_keep)
    monkeypatch.setattr("IPython.display.display", publish)
    return shown


def check(name: str, value: Any, verdicts: list[Verdict]) -> None:
    """Give a value to a check, then a function that returns it; each gets a verdict that helps."""

    def returns_it(*_: object, **__: object) -> Any:
        return value

    exercise = checks.find(name)
    for answer in (value, returns_it):
        exercise.check(*[answer] * FUNCTIONS.get(name, 1))
        verdict = verdicts.pop()
        # A dict without the letters that were asked for is an answer that has not begun.
        unbegun = type(answer) is dict and verdict.state is State.NOT_ATTEMPTED
        assert verdict.state in (State.WRONG, State.ERROR) or unbegun, verdict
        assert verdict.message


@pytest.mark.parametrize("what", ON_ALL)
@pytest.mark.parametrize("name", EXERCISES)
def test_each_check_gives_a_verdict_on_an_odd_answer(name, what, verdicts):
    check(name, ON_ALL[what], verdicts)


@pytest.mark.parametrize("what", [what for what in ON_SOME if what not in ON_ALL])
@pytest.mark.parametrize("name", SOME)
def test_some_checks_give_a_verdict_on_each_odd_answer(name, what, verdicts):
    check(name, ON_SOME[what], verdicts)


def test_how_many_functions_a_check_takes_is_known():
    for name, count in FUNCTIONS.items():
        verdict = checks.find(name).evaluate(*[lambda: 0] * (count + 1))
        assert f"this check takes {count} functions" in verdict.message


DESCRIPTIONS: list[tuple[Callable[[], Any], Any]] = [
    (lambda: 10**308, 10**308),
    (lambda: 10**400, "an integer of about 401 digits (too large for a float)"),
    (lambda: -(10**5000), "an integer of about 5,001 digits (too large for a float)"),
    (lambda: Fraction(10**400, 3), "a Fraction that is too large for a float"),
    (lambda: Decimal("1e999999"), "a Decimal that is too large for a float"),
    (lambda: Decimal("-Infinity"), float("-inf")),
    (lambda: _nested(10_000), f"a list nested more than {MAX_DEPTH} levels deep"),
    (lambda: _nested(30, width=2), f"a list with more than {MAX_ITEMS:,} items in it"),
    (lambda: [0] * (MAX_ITEMS + 1), f"a list with more than {MAX_ITEMS:,} items in it"),
    (lambda: torch.empty(2, device="meta"), "a tensor whose values cannot be read"),
]


@pytest.mark.parametrize(("make", "expected"), DESCRIPTIONS, ids=map(str, range(len(DESCRIPTIONS))))
def test_plain_says_what_an_odd_value_is(make, expected):
    described = plain(make())
    as_json(described)
    while isinstance(described, list):
        described = described[0]
    assert (described["what"] if isinstance(described, dict) else described) == expected


def test_plain_describes_the_rest_of_a_list_that_contains_itself():
    described = plain(_contains_itself())
    itself = {"object": "list", "what": "a list that contains itself"}
    assert described == [1.0, itself, itself]


def test_plain_never_asks_a_key_or_an_object():
    assert plain({HasNoText(): Raises()}) == {"dict": {"<HasNoText>": {"object": "Raises"}}}
    assert plain({10**5000: 1}) == {"dict": {"<int>": 1}}
