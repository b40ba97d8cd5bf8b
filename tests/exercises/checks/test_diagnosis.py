"""From evidence to the mistake behind it, on an exercise small enough to see through."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest
from toy_topic import HEAD, SECRET, WHOLE, toy

from amp_lessons.core import interrupts
from amp_lessons.exercises.checks import probe
from amp_lessons.exercises.checks.verdict import State

DOUBLED, SIGNED = "You doubled the number.", "You kept the sign of the number."


@pytest.fixture
def exercise(tmp_path):
    return toy(tmp_path)


def test_right_answers_pass(exercise):
    for answer in (lambda x: x * x, lambda x: x**2, lambda x: abs(x) ** 2.0):
        verdict = exercise.evaluate(answer)
        assert (verdict.state, verdict.message) == (State.PASSED, "A square is never negative.")


def test_one_mistake_is_named(exercise):
    verdict = exercise.evaluate(lambda x: 2 * abs(x))
    assert (verdict.state, verdict.diagnosis) == (State.WRONG, "doubled")
    assert verdict.message.startswith(DOUBLED)
    assert verdict.seen[0] == "square(-3) returned 6; expected 9"


def test_two_mistakes_at_once_are_both_named(exercise):
    verdict = exercise.evaluate(lambda x: x * abs(x) + 1)
    assert verdict.diagnosis == "signed + one-too-many"
    assert verdict.message.startswith(f"Two mistakes at once. The first: {SIGNED}")
    assert "The second: You added one." in verdict.message


def test_a_mistake_in_one_kind_of_case_is_named_for_that_kind(exercise):
    def answer(x):
        if x < 0:
            return x * abs(x)
        return x * x if x < 4 else 7  # and something else that nobody knows

    verdict = exercise.evaluate(answer)
    assert verdict.diagnosis == "signed"
    assert verdict.message.startswith("For negative numbers your answer does the same as one with")
    assert "a second mistake" in verdict.message
    assert verdict.seen[0].startswith("square(-3) returned -9")


def test_two_mistakes_in_different_cases_are_both_named(exercise):
    verdict = exercise.evaluate(lambda x: x * abs(x) if x < 0 else 2 * x)
    assert set(verdict.diagnosis.split(" + ")) == {"signed", "doubled"}
    assert verdict.message.startswith("Two mistakes at once.")
    a_third = exercise.evaluate(lambda x: {-3: -9, -2: -4, 2: 7, 3: 6, 4: 8}[x])
    assert " + " not in a_third.diagnosis


def test_one_case_that_coincides_names_nothing(exercise):
    only_one = exercise.evaluate(lambda x: 6 if x == 3 else x * x)  # doubled, in one case
    assert only_one.diagnosis == "wrong-value"
    among_others = exercise.evaluate(lambda x: {-3: 9, -2: 4, 2: 5, 3: 6, 4: 1}[x])
    assert among_others.diagnosis == "wrong-value"


def test_a_mistake_that_passing_cases_contradict_is_not_named(exercise):
    def answer(x):
        return {-3: -9, -2: 4, 2: 4, 3: 8, 4: 0}[x]  # signed would give -4 for -2

    assert exercise.evaluate(answer).diagnosis == "wrong-value"


@pytest.mark.parametrize(
    ("answer", "diagnosis"),
    [
        (lambda x: None, "returned-none"),
        (lambda x: [x], "wrong-type"),
        (lambda x: 7, "wrong-value"),
    ],
)
def test_what_has_no_name(exercise, answer, diagnosis):
    assert exercise.evaluate(answer).diagnosis == diagnosis


@pytest.mark.parametrize("answer", [7, "text", None, object()])
def test_what_is_not_a_function_is_an_error_and_not_a_traceback(exercise, answer):
    assert exercise.evaluate(answer).state is State.ERROR


def test_a_huge_result_gets_a_verdict(exercise):
    assert exercise.evaluate(lambda x: [0] * 10**6).state is State.WRONG
    assert exercise.evaluate(lambda x: 10**4000).state is State.WRONG


def test_code_that_never_returns_is_stopped(exercise, monkeypatch):
    monkeypatch.setattr(probe, "SECONDS", 0.2)

    def answer(x):
        while True:
            with contextlib.suppress(Exception):
                time.sleep(0.001)

    verdict = exercise.evaluate(answer)
    assert verdict.state is State.ERROR
    assert verdict.message == (
        "TooSlow: your code was still running, so the check stopped it. Does a loop never end?"
    )


def test_the_time_limit_leaves_nothing_behind(exercise):
    before = set(threading.enumerate())
    with interrupts.time_limit(3600):
        (timer,) = set(threading.enumerate()) - before
    timer.join()  # it ends without waiting, and nothing is raised here


def test_a_rule_speaks_before_the_values(tmp_path):
    rule = """
# %% rule too-large
# You returned {number}, and nobody wants that much.
def breaks(seen, right):
    return {"number": seen["value"]} if seen.get("value", 0) > 15 else None
"""
    exercise = toy(tmp_path, WHOLE + rule)
    verdict = exercise.evaluate(lambda x: x * x)
    assert (verdict.state, verdict.diagnosis) == (State.WRONG, "too-large")
    assert verdict.message == "You returned 16, and nobody wants that much."
    assert verdict.seen == ("it shows in: square(4)",)


def test_nobody_reads_what_our_wrong_answers_warn_of(tmp_path, recwarn):
    warns = """
# %% wrong tripled
# You tripled the number.
swap("return y * y", "import warnings; warnings.warn('ours'); return 3 * y")
"""
    exercise = toy(tmp_path, WHOLE + warns)
    assert exercise.evaluate(lambda x: 3 * abs(x)).diagnosis == "tripled"
    assert not recwarn.list


def test_operations_are_seen_in_threads_too(tmp_path):
    head = (
        HEAD
        + """
# %% probe
import torch
from amp_lessons.exercises.checks.probe import Case, Probe

probe = Probe(lambda: [Case((torch.tensor([float(x)]),)) for x in (2, 3)], watch=True)
"""
    )
    rule = """
# %% rule double-used
# You computed in float64.
def breaks(seen, right):
    return any(op["dtype"] == "float64" for op in seen["ops"])
"""
    exercise = toy(tmp_path, head + SECRET + rule)

    def in_a_thread(x):
        results = []
        thread = threading.Thread(target=lambda: results.append((x.double() ** 2).float()))
        thread.start()
        thread.join()
        return results[0]

    start = threading.Thread.start
    assert exercise.evaluate(in_a_thread).diagnosis == "double-used"
    assert exercise.evaluate(lambda x: x**2).passed
    assert threading.Thread.start is start


def test_several_functions_may_be_done_one_by_one(tmp_path):
    head = (
        HEAD.replace("# %% answer", "# %% answer check=square,cube")
        + """
# %% probe
from amp_lessons.exercises.checks.probe import Case, Probe

CASES = [Case((name, x), kind=name) for name in ("square", "cube") for x in (2, 3)]

def play(square, cube):
    return lambda name, x: {"square": square, "cube": cube}[name](x)

probe = Probe(lambda: CASES, play=play)
"""
    )
    head = head.replace(
        "    ### END SOLUTION\n",
        """    ### END SOLUTION

def cube(x):
    ### BEGIN SOLUTION
    return x**3
    ### END SOLUTION
""",
    )
    exercise = toy(tmp_path, head + SECRET.split("# %% right")[0])

    def stub(x):
        raise NotImplementedError

    half = exercise.evaluate(lambda x: x * x, stub)
    assert half.state is State.NOT_ATTEMPTED
    assert half.message == "1 of 2 are right so far. Still to do: cube."
    assert exercise.evaluate(lambda x: x + 1, stub).state is State.WRONG
    assert exercise.evaluate(lambda x: x * x, lambda x: x**3).passed
