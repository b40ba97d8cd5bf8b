"""What `serialize` makes of values that are hard to look at. What a check says to such an answer
is among the tests of the exercises, in `test_exercises`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
import torch
from odd_values import HasNoText, Raises, contains_itself, nested

from amp_lessons.exercises.checks.serialize import MAX_DEPTH, MAX_ITEMS, as_json, plain

DESCRIPTIONS: list[tuple[Callable[[], Any], Any]] = [
    (lambda: 10**308, 10**308),
    (lambda: 10**400, "an integer of about 401 digits (too large for a float)"),
    (lambda: -(10**5000), "an integer of about 5,001 digits (too large for a float)"),
    (lambda: Fraction(10**400, 3), "a Fraction that is too large for a float"),
    (lambda: Decimal("1e999999"), "a Decimal that is too large for a float"),
    (lambda: Decimal("-Infinity"), float("-inf")),
    (lambda: nested(10_000), f"a list nested more than {MAX_DEPTH} levels deep"),
    (lambda: nested(30, width=2), f"a list with more than {MAX_ITEMS:,} items in it"),
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


def test_plain_describes_the_rest_of_a_list_thatcontains_itself():
    described = plain(contains_itself())
    itself = {"object": "list", "what": "a list that contains itself"}
    assert described == [1.0, itself, itself]


def test_plain_never_asks_a_key_or_an_object():
    assert plain({HasNoText(): Raises()}) == {"dict": {"<HasNoText>": {"object": "Raises"}}}
    assert plain({10**5000: 1}) == {"dict": {"<int>": 1}}
