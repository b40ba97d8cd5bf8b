"""An answer that has a ready-made function do the task is noticed, whichever way it calls it."""

from __future__ import annotations

import importlib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from checks.toy_topic import WHOLE, toy

from amp_lessons.checks.probe import Case, Probe
from amp_lessons.checks.verdict import State
from amp_lessons.formats import FP16, Format

ROOM = "amp_lessons.formats:Format.next_up"
NAME = "Format.next_up"


def used(answer, *, own=(ROOM,), play=lambda answer: answer):
    """What a check with two calls notes of an answer, each thing once."""
    probe = Probe(lambda: [Case((1.0,)), Case((2.0,))], play, own=own)
    return {entry.get("used", "") for entry in probe(answer)}


def through_a_function(x):
    return FP16.next_up(x)


def through_map(x):
    return next(map(FP16.next_up, [x]))


def in_a_thread(x):
    found = []
    thread = threading.Thread(target=lambda: found.append(FP16.next_up(x)))
    thread.start()
    thread.join()
    return found[0]


def in_a_pool(x):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(FP16.next_up, x).result()


def through_text(x):
    return eval("FP16.next_up(x)", {"FP16": FP16, "x": x})


def a_copy_of_its_code(x):
    return type(used)(Format.next_up.__code__, vars(sys.modules[Format.__module__]))(FP16, x)


def before_an_error(x):
    return FP16.next_up(x) / 0


class Own(Format):
    """A class that inherits the task."""


@pytest.mark.parametrize(
    "answer",
    [
        through_a_function,
        through_map,
        in_a_thread,
        in_a_pool,
        through_text,
        a_copy_of_its_code,
        before_an_error,
        FP16.next_up,
        partial(FP16.next_up),
    ],
)
def test_each_way_to_call_it_is_noticed(answer):
    assert used(answer) == {NAME}


def test_a_class_made_from_a_closed_one_is_noticed():
    whole = ("amp_lessons.formats:Format",)
    assert used(Own, own=whole, play=lambda _: float) == {"Format"}
    assert used(Own, play=lambda _: float) == {""}


def test_a_whole_module_can_be_closed():
    assert used(lambda x: FP16.max, own=("amp_lessons.formats",)) == {"Format.max"}
    assert used(lambda x: FP16.max) == {""}


def test_a_whole_package_can_be_closed():
    from amp_lessons.timing import Timing

    class Mine(Timing):
        """A class that inherits from one in a module of the package."""

    own = ("amp_lessons.timing",)
    assert used(lambda x: Timing("step", (x, 2.0), "none").iqr, own=own) == {"Timing"}
    assert used(Mine, own=own, play=lambda _: float) == {"Timing"}


def test_to_import_a_module_is_not_to_use_it(monkeypatch, tmp_path):
    (tmp_path / "a_closed_room.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)

    def imported():
        monkeypatch.delitem(sys.modules, "a_closed_room", raising=False)
        return importlib.import_module("a_closed_room")

    own = ("a_closed_room",)
    assert used(lambda x: imported().__name__, own=own) == {""}
    assert used(lambda x: imported().double(x), own=own) == {"double"}


def test_libraries_can_be_closed():
    def counted(x):
        return [*map(len, [[x]])]

    assert used(lambda x: threading.Event().is_set(), own=("threading",)) == {"Event"}
    assert used(counted, own=("threading",)) == {""}


def test_the_code_around_the_answer_may_use_it():
    from amp_lessons.plain_data.compare import within_ulps

    ulp = ("amp_lessons.formats:Format.ulp",)
    tensor = {"values": [1.0], "dtype": "float16", "shape": [1]}

    def play(answer):
        return partial(within_ulps(2), tensor) if answer is None else answer

    assert used(None, own=ulp, play=lambda _: lambda x: within_ulps(2)(tensor, tensor)) == {""}
    assert used(FP16.ulp, own=ulp, play=play) == {"Format.ulp"}


def test_switching_the_notice_off_is_noticed():
    def answer(x):
        notice = sys.getprofile()
        sys.setprofile(None)
        y = FP16.next_up(x)
        sys.setprofile(notice)
        return y

    assert used(answer) == {"sys.setprofile"}


def test_a_profiler_that_ran_before_runs_on():
    def profiler(*_):
        return None

    sys.setprofile(profiler)
    try:
        used(through_a_function)
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    assert threading.getprofile() is None


def test_a_room_that_does_not_exist_is_named():
    with pytest.raises(ModuleNotFoundError, match=r"no_such_room.*correct its name"):
        used(through_a_function, own=("amp_lessons.no_such_room",))


def test_the_verdict_names_what_was_used(tmp_path):
    text = WHOLE.replace("for x in NUMBERS])", 'for x in NUMBERS], own=("fractions",))')
    exercise = toy(tmp_path, text)
    from fractions import Fraction

    assert exercise.evaluate(lambda x: x * x).passed
    verdict = exercise.evaluate(lambda x: float(Fraction(x) * Fraction(x)))
    assert (verdict.state, verdict.diagnosis) == (State.WRONG, "ready-made")
    assert verdict.message.startswith("Your answer uses `Fraction`, which already does")
    assert verdict.seen == ("it shows in: square(-3)",)
