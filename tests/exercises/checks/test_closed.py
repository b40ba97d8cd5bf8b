"""What already does a task is closed while an answer is checked, whichever way it is called."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
from toy_topic import WHOLE, toy

from amp_lessons.amp.numbers.formats import FP16, Format
from amp_lessons.core import catalogue
from amp_lessons.exercises import checks
from amp_lessons.exercises.checks.closed import Closed, room, without
from amp_lessons.exercises.checks.probe import Case, Probe
from amp_lessons.exercises.checks.verdict import State

ROOM = "amp_lessons.amp.numbers.formats:Format.next_up"
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


def an_error_that_is_caught(x):
    try:
        return FP16.next_up(x)
    except Exception:
        return x + 2**-10


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    "answer",
    [
        through_a_function,
        through_map,
        in_a_thread,
        in_a_pool,
        through_text,
        a_copy_of_its_code,
        an_error_that_is_caught,
        FP16.next_up,
        FP16.next_up.__call__,
        partial(FP16.next_up),
        partial(FP16.next_up).__call__,
        np.frompyfunc(FP16.next_up, 1, 1),
        eval("lambda x: FP16.next_up(x)"),
    ],
)
def test_each_way_to_call_it_is_noted(answer):
    assert used(answer) == {NAME}


def test_a_class_made_from_a_closed_one_is_noted():
    from amp_lessons.amp.speed.timing import Timing

    class Mine(Timing):
        """A class that inherits the task."""

    own = ("amp_lessons.amp.speed.timing:Timing",)
    assert used(lambda x: Mine("step", (x, 2.0), "none").median, own=own) == {"Timing"}
    assert used(lambda x: Mine("step", (x, 2.0), "none").median) == {""}


@pytest.mark.parametrize(
    "own", ["amp_lessons.amp.numbers.formats", "amp_lessons.amp.numbers.formats:Format.max"]
)
def test_a_module_or_a_part_of_it_can_be_closed(own):
    assert used(lambda x: FP16.max, own=(own,)) == {"Format.max"}
    assert used(lambda x: FP16.max) == {""}


def test_to_import_a_module_is_not_to_use_it():
    def loaded_again(x):
        return importlib.reload(sys.modules["amp_lessons.amp.speed.device"]).__name__

    assert used(loaded_again, own=("amp_lessons.amp.speed.device",)) == {""}


def test_what_an_answer_did_before_is_not_among_the_results(tmp_path):
    """Results that were kept while the function was open are dropped."""
    from amp_lessons.amp.policy_record import changes

    kept = next(each for each in room("amp_lessons.amp.policy_record").caches)
    assert kept.__wrapped__.__module__.startswith(changes.__package__)
    size, _ = without(["amp_lessons.amp.policy_record"], lambda: kept.cache_info().currsize)
    assert size == 0


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_everything_is_open_again_afterwards(error):
    code = Format.next_up.__code__

    def checked():
        assert FP16.round(1.0) == 1.0
        with pytest.raises(Closed, match=r"`Format.next_up` is closed here"):
            FP16.next_up(1.0)
        raise error

    with pytest.raises(error):
        without([ROOM], checked)
    assert Format.next_up.__code__ is code
    assert FP16.next_up(1.0) == 1 + 2**-10


def test_an_interrupt_at_any_moment_leaves_everything_open():
    """Ctrl+C comes again and again while a check closes and opens."""
    codes = [each.__code__ for each in room("amp_lessons.amp.memory.training").functions]
    armed, over = [], threading.Event()

    def interrupt(*_):
        if armed:
            armed.clear()
            raise KeyboardInterrupt

    def go_on():
        while not over.wait(0.0005):
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, interrupt)
    thread = threading.Thread(target=go_on)
    thread.start()
    for _ in range(200):
        try:
            armed.append(True)
            while True:
                without(["amp_lessons.amp.memory.training"], int)
        except KeyboardInterrupt:
            pass
    over.set()
    thread.join()
    signal.signal(signal.SIGINT, before)
    assert [each.__code__ for each in room("amp_lessons.amp.memory.training").functions] == codes


SCALER = "torch.amp.grad_scaler"


def scaled(x):
    return torch.amp.GradScaler("cpu", init_scale=x).scale(torch.ones(())).item()


def test_torch_is_noticed_and_left_as_it_is():
    before = torch.amp.GradScaler.scale.__code__

    def answer():
        return scaled(2.0), torch.amp.GradScaler.scale.__code__

    (value, code), names = without([SCALER], answer)
    assert (value, code) == (2.0, before)
    assert {"GradScaler", "GradScaler.scale"} <= set(names)
    assert used(scaled, own=(SCALER,)) == {"GradScaler"}
    assert sys.getprofile() is None
    assert threading.getprofile() is None


def test_the_grader_closes_torch_too():
    def refused():
        with pytest.raises(Closed):
            scaled(2.0)

    assert without([SCALER], refused, libraries=True)[1] == ["GradScaler"]
    assert scaled(2.0) == 2.0


def test_a_profiler_that_ran_before_runs_on():
    def profiler(*_):
        return None

    sys.setprofile(profiler)
    try:
        used(scaled, own=(SCALER,))
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)


def test_a_room_that_does_not_exist_is_named():
    with pytest.raises(ModuleNotFoundError, match=r"no_such_room.*correct its name"):
        used(through_a_function, own=("amp_lessons.no_such_room",))


def test_the_verdict_names_what_was_used(tmp_path):
    own = f'for x in NUMBERS], own=("{ROOM}",))'
    exercise = toy(tmp_path, WHOLE.replace("for x in NUMBERS])", own))
    assert exercise.evaluate(lambda x: x * x).passed
    verdict = exercise.evaluate(lambda x: FP16.next_up(x) * x)
    assert (verdict.state, verdict.diagnosis) == (State.WRONG, "ready-made")
    assert verdict.message.startswith(f"Your answer uses `{NAME}`, which already does")
    assert verdict.seen == ("it shows in: square(-3)",)


# ---- the course's own exercises -----------------------------------------------------------------

SHEETS = [lesson for lesson in catalogue.LESSONS if lesson.exercises]


@pytest.mark.slow
def test_what_is_closed_is_there():
    """Each room has functions, and each exercise closes what its sheet closes, but for loans."""
    for lesson in SHEETS:
        probes = [checks.find_exercise(info.name).probe for info in lesson.exercises]
        ours = {name for probe in probes for name in probe.own if room(name).ours}
        for probe in probes:
            assert set(probe.closed) == (ours - set(probe.lent)) | set(probe.own)
            assert all(room(name).functions for name in probe.closed), probe.closed
            assert set(probe.lent) <= ours


def test_the_bit_explorer_cannot_decode_for_an_answer():
    def answer(code, exponent_bits, mantissa_bits):
        from amp_lessons.lessons.widgets.bit_explorer import BitExplorer

        own = Format("own", exponent_bits, mantissa_bits)
        explorer = BitExplorer(format=own, formats=[own])
        explorer.code = int(code)
        return explorer.stored

    verdict = checks.find_exercise("decode_bits").evaluate(answer)
    assert (verdict.state, verdict.diagnosis) == (State.WRONG, "ready-made")
