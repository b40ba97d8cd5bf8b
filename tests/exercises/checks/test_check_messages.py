"""What is said of a value: short, and in a form that a learner recognises."""

from __future__ import annotations

import math

import pytest
import torch

from amp_lessons.exercises.checks import find_exercise, messages
from amp_lessons.exercises.checks.serialize.compare import exactly
from amp_lessons.exercises.checks.verdict import State


@pytest.mark.parametrize(
    ("value", "message"),
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
def test_a_large_power_of_two_is_said_as_one(value, message):
    assert messages.describe(value) == message


def test_words_that_were_noted_stand_without_quotes():
    expected, seen = {"dict": {"dtype": "float16"}}, {"dict": {"dtype": "bfloat16"}}
    message = messages.difference(expected, seen, exactly)
    assert message == "dtype: got bfloat16; expected float16"


def test_the_first_of_several_differences_is_told_and_the_others_are_counted():
    long = [1.00001, 2.00001, 3.00001, 4.00001, 5.00001, 6.00001]
    message = messages.difference(long, [0.5, *long[1:5], 0.25], exactly)
    assert message == "number 1 of 6 is 0.5; expected 1.00001; 1 of the others differ too"


# ---- errors whose cause is an earlier line -------------------------------------------------------


def changed_in_place():
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    y += 1
    y.sum().backward()


def without_gradients(then):
    weight = torch.ones(2, requires_grad=True)
    scaler, optimizer = torch.amp.GradScaler("cpu"), torch.optim.SGD([weight])
    scaler.scale(weight.sum()).backward()
    optimizer.zero_grad()
    then(scaler, optimizer)


@pytest.mark.parametrize(
    ("program", "cause"),
    [
        (changed_in_place, "After the forward pass"),
        (lambda: without_gradients(lambda scaler, optimizer: scaler.step(optimizer)), "zero_grad"),
        (lambda: without_gradients(lambda scaler, _: scaler.update()), "neither stepped"),
        (lambda: torch.ones(()).backward(), "no_grad"),
    ],
)
def test_an_error_whose_cause_is_an_earlier_line_says_so(program, cause):
    with pytest.raises((RuntimeError, AssertionError)) as error:
        program()
    message = messages.earlier_cause(str(error.value))
    assert message.startswith("The cause is an earlier line")
    assert cause in message


def test_another_error_gets_no_cause():
    assert messages.earlier_cause("name 'x' is not defined") == ""


IN_PLACE = """
def {}(*args):
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    y += 1
    y.sum().backward()
"""


@pytest.mark.parametrize("name", ["fix_step", "fix_stuck", "accumulate"])
def test_a_learner_reads_of_the_earlier_line(name):
    exercise = find_exercise(name)
    verdict = exercise.evaluate(*exercise.public.answer(IN_PLACE.format(name)))
    assert verdict.state is State.ERROR
    assert verdict.message.startswith("RuntimeError: one of the variables needed")
    assert "The cause is an earlier line" in verdict.message
    assert "line 6" in verdict.seen[-1]
