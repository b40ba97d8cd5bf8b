"""The framework of the checks: states, boxes, hints, the gated solution, plain data."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections import OrderedDict
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from made import Made, Taken
from traitlets.config import Config

from amp_lessons.core import output_box, progress
from amp_lessons.core.states import look
from amp_lessons.exercises import (
    amp_from_scratch,
    amp_in_20_minutes,
    losses_and_ops,
    number_formats,
)
from amp_lessons.exercises.checks import find_exercise
from amp_lessons.exercises.checks.diagnosis import Judge
from amp_lessons.exercises.checks.evidence import DamagedEvidence, observe
from amp_lessons.exercises.checks.exercise import Exercise
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.checks.reporters import CheckFailed
from amp_lessons.exercises.checks.serialize import UNATTEMPTED, as_json, plain
from amp_lessons.exercises.checks.serialize.compare import exactly, within
from amp_lessons.exercises.checks.verdict import State, Verdict

survives = amp_in_20_minutes.survives


def right(x):
    return torch.tensor(x).half().item() != 0


def wrong(x):
    return abs(x) >= 2**-24


def stub(x):
    # YOUR CODE HERE
    raise NotImplementedError()


def broken(x):
    return 1 / 0


# ---- the five states ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (stub, State.NOT_ATTEMPTED),
        (..., State.NOT_ATTEMPTED),
        (wrong, State.WRONG),
        (broken, State.ERROR),
        (right, State.PASSED),
        (3.0, State.ERROR),
    ],
)
def test_state_of_an_answer(answer, state):
    assert survives.evaluate(answer).state is state


def test_check_without_an_answer_is_not_attempted():
    assert survives.evaluate().state is State.NOT_ATTEMPTED


def test_error_names_the_learners_own_line_and_not_the_packages():
    verdict = survives.evaluate(broken)
    assert "division by zero" in verdict.message
    assert any("return 1 / 0" in line and "broken" in line for line in verdict.seen)
    assert "amp_lessons" not in " ".join(verdict.seen)


def test_error_inside_a_library_is_placed_at_the_learners_call():
    def answer(x):
        return torch.tensor([1.0]) @ torch.tensor([1.0, 2.0])

    verdict = survives.evaluate(answer)
    assert verdict.state is State.ERROR
    assert any("torch.tensor([1.0]) @" in line for line in verdict.seen)


def test_exception_whose_text_fails_is_still_an_error():
    class Rude(Exception):
        def __str__(self):
            raise RuntimeError

    def answer(x):
        raise Rude

    assert survives.evaluate(answer).message.startswith("Rude")


def test_answer_that_ends_the_process_is_an_error():
    assert survives.evaluate(lambda x: sys.exit(3)).state is State.ERROR


def test_interrupt_by_the_learner_is_not_swallowed():
    def answer(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        survives.evaluate(answer)


class OwnBase(BaseException):
    """What a learner may raise, and `except Exception` does not catch."""


def test_own_base_exception_is_an_error():
    def answer(x):
        raise OwnBase("mine")

    assert survives.evaluate(answer).message == "OwnBase: mine"


def test_a_check_of_several_functions_says_which_it_takes():
    verdict = losses_and_ops.stable_losses.evaluate(right)
    assert verdict.message.startswith("TypeError: this check takes 4 functions (click_loss, ")
    assert not verdict.check_failed


# ---- a check that fails itself --------------------------------------------------------------


def failing(error: Exception) -> Exercise:
    """`survives` with a bug in its judge."""

    class Failing(Exercise):
        def diagnose(self, evidence):
            raise error

    return Failing(survives.path)


FAILURES = [
    KeyError("weight"),
    TypeError("unsupported operand"),
    OverflowError("too large"),
    AssertionError(),
    RecursionError("too deep"),
    DamagedEvidence("half of it"),
    ValueError("a lone \ud800"),
]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_a_bug_in_a_judge_is_told_as_the_courses_own(shown, error):
    progress.record_check("survives", "passed")
    before = progress.load()["survives"]
    failing(error).check(right)
    (bundle,) = shown
    output = " ".join(bundle["text/plain"].split())
    assert output.startswith("! Error in the check: What survives in FP16?")
    assert f"The check itself failed, with {type(error).__name__}" in output
    assert "a mistake in the course and not in your answer" in output
    assert "Your code raised" not in output
    assert "Traceback" not in output
    output.encode()  # a notebook holds no half of a surrogate pair
    assert progress.load()["survives"] == before
    assert failing(error).evaluate(right).state is State.ERROR


def test_a_bug_in_a_judge_names_its_exception():
    assert "with KeyError: 'weight'." in failing(KeyError("weight")).evaluate(right).message


def test_evidence_of_another_process_may_be_damaged_or_forged():
    verdict = survives.verdict([{"value": True}], foreign=True)
    assert (verdict.state, verdict.check_failed) == (State.ERROR, True)
    assert verdict.message == (
        "What this check reported cannot be judged (DamagedEvidence: not one entry for each run): "
        "it was damaged or forged, or the check itself has a bug. Look at this answer yourself."
    )


# ---- plain data -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1),
        (1.5, 1.5),
        ("a", "a"),
        (None, None),
        (True, True),
        ((1, [2.0]), [1, [2.0]]),
        ({"a": 1}, {"dict": {"a": 1}}),
        (..., UNATTEMPTED),
        (torch.float16, {"dtype": "torch.float16"}),
        (Fraction(1, 2), 0.5),
        (Fraction(4, 2), 2),
        (Decimal("0.25"), 0.25),
        (OrderedDict(a=1), {"dict": {"a": 1}}),
        (StrEnum("Letter", {"A": "a"}).A, "a"),
        (object(), {"object": "object"}),
    ],
)
def test_plain(value, expected):
    assert plain(value) == expected


def test_tensors_and_arrays_become_values_dtype_and_shape():
    tensor = torch.tensor([[1.0, float("nan")]], dtype=torch.bfloat16, requires_grad=True)
    data = json.loads(as_json(plain(tensor)))
    assert (data["dtype"], data["shape"], data["requires_grad"]) == ("bfloat16", [1, 2], True)
    assert data["values"][0][0] == 1.0
    assert plain(np.float16(0.1))["values"] == float(np.float16(0.1))
    assert plain(torch.tensor(7)) | {"requires_grad": False} == plain(np.array(7))


def test_huge_tensors_are_described_and_not_copied():
    assert plain(torch.empty(1000, 1000))["values"] is None


def test_subclasses_are_described_and_never_asked():
    class Tensor(torch.Tensor):
        def tolist(self):
            return [42]

    class Text(str):
        def __eq__(self, other):
            return True

        def __str__(self):
            return "42"

        __hash__ = None

    class Table(dict):
        def items(self):
            return [("answer", 42)]

    assert plain(torch.ones(1).as_subclass(Tensor)) == {"object": "Tensor"}
    text = plain(Text("x"))  # what it holds, whatever it says of itself
    assert type(text) is str
    assert text == "x"
    assert plain(Table(a=1)) == {"dict": {"a": 1}}
    assert plain(Fraction(1, 4)) == plain(Decimal("0.25")) == 0.25


def test_observe_gives_copies_and_notices_changes():
    values = torch.tensor([1.0, 2.0])

    def double_in_place(x):
        x *= 2
        return x

    seen = observe(double_in_place, values)
    assert seen["changed"] == 0
    assert values.tolist() == [1.0, 2.0]
    assert "changed" not in observe(lambda x: x * 2, values)


@pytest.mark.parametrize(
    ("expected", "seen", "same"),
    [
        (1.0, 1, True),
        (1.0, {"values": [[1.0]], "dtype": "float16", "shape": [1, 1]}, True),
        (float("nan"), float("nan"), True),
        (float("inf"), -float("inf"), False),
        (1.0, "1.0", False),
        (1.0, True, False),
        (True, 1, False),
        (True, {"values": True, "dtype": "bool", "shape": []}, True),
        ("FP16", "FP16", True),
        (1.0, {"object": "Liar"}, False),
        (1.0, None, False),
    ],
)
def test_exactly(expected, seen, same):
    assert exactly(expected, seen) is same


def test_within_compares_dtype_and_shape_of_tensors_too():
    one = plain(torch.tensor([1.0], dtype=torch.float16))
    assert within(0.01)(one, one | {"values": [1.005]})
    assert not within(0.01)(one, one | {"values": [1.05]})
    assert not within(0.01)(one, one | {"dtype": "float32"})
    assert not within(0.01)(one, one | {"shape": [1, 1]})


def test_mistake_is_named_only_if_it_explains_every_failure():
    cases = [Case((x,)) for x in (1, 2, 3)]
    exercise = Made(cases, lambda x: x * x, {"doubled": ("You doubled.", lambda x: 2 * x)})
    assert exercise.evaluate(lambda x: 2 * x).diagnosis == "doubled"
    assert exercise.evaluate(lambda x: 2 * x if x < 3 else 7).diagnosis == "wrong-value"


def test_answer_that_is_played_is_compared_by_what_there_was_to_see():
    def play(make):
        def run(start):
            counter = make(start)
            return {"steps": [next(counter) for _ in range(3)], "name": "counter"}

        return run

    def twos(start):
        return iter((start, start + 2, start + 4))

    def ones(start):
        return iter((start, start + 1, start + 2))

    cases = [Case((5,), "from 5"), Case((7,), "from 7")]
    exercise = Made(cases, twos, {"by-one": ("You count by one.", ones)}, play=play)
    assert exercise.evaluate(lambda start: iter(range(start, 100, 2))).passed
    verdict = exercise.evaluate(lambda start: iter(range(start, 100)))
    assert verdict.diagnosis == "by-one"
    assert verdict.seen[0] == "from 5: steps: got [5, 6, 7]; expected [5, 7, 9]"
    assert exercise.evaluate(lambda start: iter(())).state is State.ERROR
    assert exercise.evaluate(lambda start: iter("abc")).diagnosis == "wrong-value"
    assert exercise.evaluate(stub).state is State.NOT_ATTEMPTED


@pytest.mark.parametrize("seen", [None, 3, [], [1.0], [1.0, 3.0], ["1.0", 2.0], {"dict": {}}])
def test_within_compares_lists_and_dicts_item_by_item(seen):
    assert within(0.01)([1.0, 2.0], [1.005, 2])
    assert not within(0.01)([1.0, 2.0], seen)
    assert within(0.01)({"dict": {"a": [1.0, 2.0]}}, {"dict": {"a": [1.0, 2.0], "b": 3}})
    assert not within(0.01)({"dict": {"a": [1.0, 2.0]}}, {"dict": {"a": seen}})
    assert not within(0.01)({"dict": {"a": 1.0}}, seen)


# ---- what is displayed ------------------------------------------------------------------------


@pytest.fixture
def shown(monkeypatch):
    """What a notebook would get, as a list of MIME bundles."""
    bundles: list[dict[str, str]] = []
    monkeypatch.setattr(output_box, "_notebook", object)
    monkeypatch.setattr("IPython.display.display", lambda data, raw: bundles.append(data))
    return bundles


@pytest.mark.parametrize(
    ("answer", "word"),
    [(stub, "Not attempted"), (wrong, "Wrong"), (broken, "Error"), (right, "Passed")],
)
def test_box_tells_the_state_by_symbol_and_word(shown, answer, word):
    survives.check(answer)
    (bundle,) = shown
    state = State(word.lower())
    assert f"{look(state).symbol} {word}: What survives in FP16?" in bundle["text/html"]
    assert bundle["text/plain"].startswith(f"{look(state).symbol} {word}:")
    assert 'aria-label="' in bundle["text/html"]


def test_box_takes_its_text_colour_from_the_theme(shown):
    survives.check(wrong)
    colours = re.findall(r"(?<![-\w])color:([^;\"]+)", shown[0]["text/html"])
    assert set(colours) == {"inherit"}


def test_box_sets_what_stands_in_backticks_as_code(shown):
    output_box.show_box("Hint", "Call `scaler.step(<opt>)`, and ` alone stays.")
    assert ">scaler.step(&lt;opt&gt;)</code>, and ` alone stays." in shown[0]["text/html"]
    assert "Call `scaler.step(<opt>)`" in shown[0]["text/plain"]


def test_box_escapes_what_the_learner_wrote(shown):
    def answer(x):
        raise ValueError("<script>alert(1)</script>")

    survives.check(answer)
    assert "<script>" not in shown[0]["text/html"]


def test_terminal_gets_plain_text(capsys):
    survives.check(wrong)
    out = capsys.readouterr().out
    assert out.startswith("✘ Wrong: What survives in FP16?")
    assert "<div" not in out


def test_terminal_that_knows_only_ascii_gets_text_all_the_same():
    code = (
        "from amp_lessons.exercises import amp_in_20_minutes as ex\n"
        "ex.survives.check(lambda x: x > 0)\n"
        "ex.survives.hint()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "Wrong: What survives" in run.stdout


# ---- progress, hints, solution ------------------------------------------------------------------


def test_progress_remembers_a_pass_through_later_mistakes(capsys):
    for answer in (wrong, right, wrong):
        survives.check(answer)
    entry = progress.load()["survives"]
    assert (entry.checks, entry.passed, entry.state) == (3, True, "wrong")


def test_verdict_is_shown_when_progress_cannot_be_saved(capsys, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(progress, "write_atomically", full)
    survives.check(right)
    out = " ".join(capsys.readouterr().out.split())
    assert "Passed" in out
    assert "Progress was not saved." in out
    assert "No space left on device" in out


def test_broken_progress_file_is_set_aside_and_the_check_goes_on(capsys):
    survives.check(right)
    path = progress.progress_file()
    path.write_text(path.read_text()[:40])
    survives.check(wrong)
    out = " ".join(capsys.readouterr().out.split())
    assert "the progress file was broken: kept as" in out
    assert len(list(path.parent.glob("progress.broken-*.json"))) == 1


def test_hints_come_one_after_the_other_and_stop_at_the_last(capsys):
    count = len(survives.hints)
    for _ in range(count + 1):
        survives.hint()
    out = capsys.readouterr().out
    assert [int(n) for n in re.findall(rf"Hint (\d) of {count}", out)] == [1, 2, 2]
    assert "This was the last one" in out
    assert progress.load()["survives"].hints == count


def test_hint_can_be_asked_for_by_number(capsys):
    survives.hint(2)
    assert "Hint 2 of 2" in capsys.readouterr().out
    survives.hint(9)
    assert "hints 1 to 2" in capsys.readouterr().out


def test_solution_is_closed_until_a_pass(capsys):
    survives.solution()
    assert "still closed" in capsys.readouterr().out
    survives.check(right)
    capsys.readouterr()
    survives.solution()
    out = capsys.readouterr().out
    assert "torch.float16).item() != 0" in out
    assert "SOLUTION" not in out
    assert progress.load()["survives"].gave_up_at is None


def test_giving_up_opens_the_solution_and_is_recorded(capsys):
    survives.solution(give_up=True)
    assert "def survives(x):" in capsys.readouterr().out
    assert progress.load()["survives"].gave_up_at is not None
    survives.solution()
    assert "def survives(x):" in capsys.readouterr().out, "it stays open"


def test_a_reporter_takes_the_evidence_and_nothing_else_happens(capsys, monkeypatch):
    taken = Taken()
    monkeypatch.setattr(Exercise, "reporter", taken)
    survives.check(right)
    assert survives.verdict(taken.evidence["survives"]).passed
    assert capsys.readouterr().out == ""
    assert not progress.progress_file().exists()


def test_under_nbgrader_a_wrong_answer_raises_and_a_right_one_is_silent(monkeypatch, capsys):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    survives.check(right)
    assert capsys.readouterr() == ("", "")
    for answer in (wrong, stub, broken):
        with pytest.raises(CheckFailed):
            survives.check(answer)


def test_check_works_in_an_ipython_cell():
    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    try:
        shell.run_cell("from amp_lessons.exercises import number_formats as ex")
        result = shell.run_cell("ex.next_float.evaluate(lambda x: 1 / 0)").result
        assert isinstance(result, Verdict)
        assert result.state is State.ERROR
        assert any("1 / 0" in line for line in result.seen)
    finally:
        InteractiveShell.clear_instance()


def test_repr_says_how_to_use_an_exercise():
    assert repr(number_formats.next_float) == (
        "<exercise next_float: .check(…), .hint(), .solution()>"
    )


# ---- classes as answers ------------------------------------------------------------------------


class Counter:
    def __init__(self, start):
        self.value = start

    def add(self, amount):
        self.value += amount
        return self.value


class Forgetful(Counter):
    def add(self, amount):
        return amount


def drive_counter(counter_class, start, amount):
    counter = counter_class(start)
    if not hasattr(counter, "add"):
        return counter
    if start < 0:
        raise ValueError("negative")
    counter.add(amount)
    return counter.add(amount)


def class_exercise():
    cases = [Case((2, 3)), Case((4, 5)), Case((0, 5)), Case((-1, 1))]
    return Made(
        cases,
        Counter,
        {"forgets": ("Nothing is kept.", Forgetful)},
        play=lambda answer: partial(drive_counter, answer),
        judge=Judge(asked_for="an object with a method add()"),
    )


def test_class_is_driven_through_the_cases():
    exercise = class_exercise()
    assert exercise.evaluate(Counter).passed
    assert exercise.evaluate(...).state is State.NOT_ATTEMPTED
    assert exercise.evaluate(Forgetful).diagnosis == "forgets"
    assert exercise.evaluate(lambda start: 7).diagnosis == "wrong-value"
    verdict = exercise.evaluate(lambda start: object())
    assert verdict.diagnosis == "wrong-type"
    assert "an object of type object" in verdict.message


def test_error_where_much_was_expected_is_shown_and_not_hidden():
    def raising(x):
        raise RuntimeError("no root")

    exercise = Made(
        [Case((4.0,), "four"), Case((9.0,), "nine")],
        lambda x: {f"entry {i}": 1.0 for i in range(20)},
        {"raises": ("It raises.", raising)},
    )
    verdict = exercise.evaluate(raising)
    assert verdict.diagnosis == "raises"
    assert verdict.seen[0] == "four raised RuntimeError: no root"


def test_long_lists_that_read_alike_are_told_by_what_differs():
    exercise = Made([Case((40,))], lambda n: [1.5] * n, name="next_float")
    verdict = exercise.evaluate(lambda n: [1.5] * 30 + [2.5] * (n - 30))
    assert verdict.seen == ("next_float(40) 10 of 40 numbers differ, by up to 1",)


def test_value_where_an_exception_was_expected_is_wrong():
    exercise = Made(
        [Case((4.0,)), Case((-4.0,))],
        lambda x: torch.tensor(x).sqrt().item() if x > 0 else int("no root"),
    )
    verdict = exercise.evaluate(lambda x: abs(x) ** 0.5)
    assert (verdict.state, verdict.diagnosis) == (State.WRONG, "wrong-value")
    assert "expected a ValueError" in verdict.seen[0]


def test_text_in_an_array_is_text() -> None:
    assert plain(np.where(True, "faster", "slower")) == "faster"
    assert plain(np.array(["a", "b"])) == ["a", "b"]


def test_a_number_where_none_was_right_is_a_wrong_value_and_not_a_wrong_type() -> None:
    never = Made([Case((1,))], lambda number: None, name="next_float")
    assert never.evaluate(lambda number: 0).diagnosis == "wrong-value"


# ---- torch's global state around a check -------------------------------------------------------


def state_of_torch():
    depth = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    return {
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "threads": torch.get_num_threads(),
        "random": torch.get_rng_state().tolist(),
        "gradients": torch.is_grad_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "its dtype": torch.get_autocast_dtype("cpu"),
        "its cache": torch.is_autocast_cache_enabled(),
        "its depth": depth,
    }


def careless(x):
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    torch.manual_seed(1)
    torch.set_grad_enabled(False)
    torch.set_num_threads(torch.get_num_threads() + 1)
    torch.autocast("cpu", dtype=torch.float16, cache_enabled=False).__enter__()
    return x


def test_careless_answer_leaves_torch_as_it_was():
    before = state_of_torch()
    assert survives.evaluate(careless).state is State.WRONG
    assert state_of_torch() == before


def test_references_leave_torch_as_it_was():
    before = state_of_torch()
    assert find_exercise("fix_uneven").evaluate(lambda *_: None).state is State.WRONG
    assert state_of_torch() == before


def doubled(layer, x):
    return layer(x) * torch.tensor([2.0])


def layer_exercise():
    cases = [Case((torch.nn.Linear(2, 2), torch.ones(1, 2)), "a layer")]
    return Made(cases, doubled, play=lambda answer: lambda *given: answer(*given).requires_grad)


def test_verdict_does_not_depend_on_what_the_notebook_did_to_torch():
    evidence = layer_exercise().evidence_of(doubled)
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.float16):
            exercise = layer_exercise()
            before = state_of_torch()
            assert exercise.evidence_of(doubled) == evidence == [{"value": True}]
            assert exercise.verdict(evidence).passed
            assert state_of_torch() == before
            assert torch.is_inference_mode_enabled()
    finally:
        torch.set_default_dtype(dtype)


def test_reference_and_models_run_once_however_often_is_judged():
    calls = []

    def noted(name, value):
        return lambda x: calls.append(name) or value

    exercise = Made(
        [Case((1.0,)), Case((2.0,))],
        noted("reference", 5.0),
        {"seven": ("It is seven.", noted("model", 7.0))},
    )
    for _ in range(3):
        assert exercise.evaluate(lambda x: 7.0).diagnosis == "seven"
        assert exercise.evaluate(lambda x: 5.0).passed
    assert sorted(calls) == ["model", "model", "reference", "reference"]


def test_an_error_where_another_was_asked_for_is_named_with_the_right_one():
    class AssertsInstead:
        def __init__(self, scale):
            assert math.log2(scale).is_integer(), "a power of two, please"
            self.factor = scale

        def scale(self, loss):
            return loss * self.factor

        def step(self, optimizer):
            gradients = [p.grad for g in optimizer.param_groups for p in g["params"]]
            gradients = [g.div_(self.factor) for g in gradients if g is not None]
            taken = all(bool(g.isfinite().all()) for g in gradients)
            if taken:
                optimizer.step()
            return taken

    verdict = amp_from_scratch.StaticScaler.evaluate(AssertsInstead)
    assert verdict.state is State.ERROR
    assert verdict.seen[0] == "StaticScaler(1000.0): expected a ValueError"
