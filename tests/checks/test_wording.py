"""What is said of a value: short, and in a form that a learner recognises."""

from __future__ import annotations

import math

import pytest

from amp_lessons.checks import wording
from amp_lessons.plain_data.compare import exactly


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (2.0**36, "2^36"),
        (2.0**-104, "2^-104"),
        (65536.0, "65536.0"),
        (-(2.0**36), "-68719476736.0"),
        (2.0**36 + 2.0**10, "68719477760.0"),
        (0.1, "0.1"),
        (math.inf, "inf"),
        (0.0, "0.0"),
    ],
)
def test_a_large_power_of_two_is_said_as_one(value, said):
    assert wording.describe(value) == said


def test_words_that_were_noted_stand_without_quotes():
    expected, seen = {"dict": {"dtype": "float16"}}, {"dict": {"dtype": "bfloat16"}}
    said = wording.difference(expected, seen, exactly)
    assert said == "dtype: got bfloat16; expected float16"


def test_the_first_of_several_differences_is_told_and_the_others_are_counted():
    long = [1.00001, 2.00001, 3.00001, 4.00001, 5.00001, 6.00001]
    said = wording.difference(long, [0.5, *long[1:5], 0.25], exactly)
    assert said == "number 1 of 6 is 0.5; expected 1.00001; 1 of the others differ too"
