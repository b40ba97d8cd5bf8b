"""The method of timing: medians, turns, warm-up, clocks, counts and roofs."""

from __future__ import annotations

import itertools
from contextlib import contextmanager, nullcontext

import pytest
import torch

from amp_lessons.amp.speed import timing
from amp_lessons.amp.speed.pretend_gpu import PretendGpu
from amp_lessons.amp.speed.timing import (
    DeviceClock,
    Prepared,
    Samples,
    Timing,
    WallClock,
    compare,
    sample,
    steady,
    take_turns,
    warm_up,
)


class Machine:
    """Steps that take as long as they are told to, and the clock of that world."""

    def __init__(self) -> None:
        self.time = 0.0
        self.calls: list[str] = []

    def step(self, name: str, *seconds: float):
        """A step that takes these times, one a call, and then the last again and again."""
        times = itertools.chain(seconds, itertools.repeat(seconds[-1]))

        def run() -> None:
            self.calls.append(name)
            self.time += next(times)

        return run

    @property
    def clock(self) -> WallClock:
        return WallClock(now=lambda: self.time)


# ---- what a Timing says -------------------------------------------------------------------------


def test_median_and_interquartile_range_are_those_of_the_samples():
    timed = Timing("a", (4.0, 1.0, 2.0, 3.0, 100.0), "perf_counter")
    assert timed.median == 3.0
    assert timed.iqr == 2.0  # the quartiles are 2 and 4
    assert timed.spread == pytest.approx(2 / 3)


def test_one_sample_has_no_spread():
    with pytest.raises(ValueError, match="two or more"):
        Timing("a", (1.0,), "perf_counter")


# ---- compare ------------------------------------------------------------------------------------


def test_known_durations_give_known_medians():
    machine = Machine()
    steps = {"slow": machine.step("slow", 0.4), "fast": machine.step("fast", 0.1)}
    timings = compare(steps, repeats=5, clock=machine.clock)
    assert {name: timed.median for name, timed in timings.items()} == pytest.approx(
        {"slow": 0.4, "fast": 0.1}
    )
    assert [len(timed.samples) for timed in timings.values()] == [5, 5]
    assert timings["slow"].spread == pytest.approx(0, abs=1e-9)
    assert timings["slow"].clock == "perf_counter"
    assert timings["slow"].settled


def test_the_warm_up_is_not_among_the_samples():
    machine = Machine()
    cold = machine.step("cold", 9.0, 3.0, *[0.5] * 20)
    timed = compare({"cold": cold}, repeats=4, clock=machine.clock)["cold"]
    assert timed.samples == pytest.approx([0.5] * 4)
    assert timed.warm_up > 2


def test_calls_are_divided_out():
    machine = Machine()
    timed = compare({"a": machine.step("a", 0.2)}, repeats=2, calls=10, clock=machine.clock)["a"]
    assert timed.median == pytest.approx(0.2)
    assert timed.calls == 10
    assert len(machine.calls) == 10 * (timed.warm_up + 2)


def test_every_round_turns_the_order_round():
    machine = Machine()
    steps = {name: machine.step(name, 1.0) for name in "abc"}
    taken = list(take_turns(steps, machine.clock, repeats=3))
    assert "".join(machine.calls) == "abc" + "cba" + "abc"
    assert "".join(name for name, _ in taken) == "abccbaabc"


def test_what_was_measured_before_an_error_stays():
    machine = Machine()

    def broken() -> None:
        raise RuntimeError("CUDA error")

    turns = take_turns({"a": machine.step("a", 1.0), "b": broken}, machine.clock, repeats=3)
    assert next(turns) == ("a", 1.0)
    with pytest.raises(RuntimeError, match="CUDA error"):
        next(turns)


@pytest.mark.parametrize(
    ("steps", "options"),
    [({}, {}), ({"a": int}, {"repeats": 1}), ({"a": int}, {"calls": 0})],
)
def test_nothing_to_compare_is_refused(steps, options):
    with pytest.raises(ValueError, match="compare needs"):
        compare(steps, **options)


def test_on_this_machine_it_times_real_work():
    x = torch.ones(8, 8)
    timed = compare({"matmul": lambda: x @ x}, repeats=3, calls=10)["matmul"]
    assert min(timed.samples) > 0
    assert timed.iqr >= 0


# ---- warm-up ------------------------------------------------------------------------------------


def test_the_warm_up_stops_when_two_windows_agree():
    machine = Machine()
    turns, settled = warm_up(machine.step("a", 1.0), machine.clock)
    assert (turns, settled) == (6, True)


def test_a_falling_time_keeps_the_warm_up_going_until_it_is_flat():
    machine = Machine()
    falling = [2.0**-n for n in range(12)]
    turns, settled = warm_up(machine.step("a", *falling), machine.clock)
    assert settled
    assert len(falling) < turns < 20


def test_a_time_that_never_settles_ends_at_the_limit_and_is_marked():
    machine = Machine()
    growing = [1.5**n for n in range(100)]
    assert warm_up(machine.step("a", *growing), machine.clock) == (timing.WARM_UP_LIMIT, False)
    timed = compare({"a": machine.step("a", *growing)}, repeats=2, clock=machine.clock)["a"]
    assert not timed.settled


def test_a_short_step_is_warmed_up_for_half_a_second_or_1000_turns():
    machine = Machine()
    assert warm_up(machine.step("a", 0.01), machine.clock) == (50, True)
    assert warm_up(machine.step("b", 1e-6), machine.clock) == (1000, True)
    assert warm_up(machine.step("c", 0.01), machine.clock, calls=10) == (6, True)


# ---- are the samples steady? --------------------------------------------------------------------


@pytest.mark.parametrize("cold", [0, 5, 13, 14, 20, 24, 25, 27])
def test_a_constant_slow_start_is_found_in_the_samples(cold):
    """The warm-up takes 13 slow turns of 40 ms for stable: half a second. 15 samples follow."""
    gpu = PretendGpu()
    step = gpu.program("step", seconds=2e-3, cold=cold)
    clock = WallClock(gpu.synchronize, gpu.clock)
    timed = compare({"step": lambda: step(None)}, clock=clock)["step"]
    assert timed.median == pytest.approx(2e-3, rel=0.05)
    assert timed.settled


def test_no_method_finds_a_slow_start_that_is_longer_than_it_looks():
    gpu = PretendGpu()
    step = gpu.program("step", seconds=2e-3, cold=13 + 15)
    clock = WallClock(gpu.synchronize, gpu.clock)
    timed = compare({"step": lambda: step(None)}, clock=clock)["step"]
    assert timed.median == pytest.approx(40e-3, rel=0.05), "if it is found now, say so in `sample`"


def test_samples_that_drift_to_the_end_are_marked():
    gpu = PretendGpu(warming=0.01)
    first, second = gpu.program("a", 1e-2), gpu.program("b", 1e-2)
    clock = WallClock(gpu.synchronize, gpu.clock)
    times = compare({"a": lambda: first(None), "b": lambda: second(None)}, clock=clock)
    assert not times["a"].settled
    assert times["a"].median / times["b"].median == pytest.approx(1, rel=0.02), "they took turns"


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([1.0] * 15, True),
        ([1.0] * 14 + [50.0], True),  # a spike
        ([1.0, 1.3, 0.9, 1.2, 1.0, 1.25, 0.95, 1.3, 1.0, 1.1], True),  # noise, the same throughout
        ([20.0] * 8 + [1.0] * 7, False),
        ([20.0] * 14 + [1.0], False),  # the halves agree, but one sample is fast
        ([1.0] * 5 + [1.1] * 5, False),
        ([1.0, 2.0], False),
    ],
)
def test_steady_samples_agree_in_both_halves(samples, expected):
    assert steady(samples) == expected


def test_an_error_in_a_later_round_keeps_the_round_before():
    machine = Machine()
    slow_at_first = machine.step("a", *[9.0] * 3, *[1.0] * 4)

    def step() -> None:
        if len(machine.calls) == 7:
            raise RuntimeError("CUDA error")
        slow_at_first()

    found = Samples()
    with pytest.raises(RuntimeError, match="CUDA error"):
        sample({"a": step}, machine.clock, repeats=4, into=found)
    assert found.kept == {"a": [9.0, 9.0, 9.0, 1.0]}
    assert found.thrown_away == 0


# ---- settings of a step -------------------------------------------------------------------------


def test_a_prepared_step_has_its_settings_outside_the_timed_window():
    machine = Machine()

    @contextmanager
    def settings():
        machine.time += 5.0
        machine.calls.append("in")
        yield
        machine.time += 5.0
        machine.calls.append("out")

    step = Prepared(machine.step("a", 1.0), settings)
    timed = compare({"a": step}, repeats=2, calls=3, clock=machine.clock)["a"]
    assert timed.samples == (1.0, 1.0)
    assert machine.calls[:5] == ["in", "a", "a", "a", "out"]
    step()
    assert machine.calls[-3:] == ["in", "a", "out"]


def test_each_step_is_compared_in_its_own_precision():
    seen = {"ieee": set(), "tf32": set()}
    before = timing.fp32_state()

    def step(name: str):
        return lambda: seen[name].add(timing.fp32_state()["cuda.matmul"])

    steps = {name: timing.in_precision(name, step(name)) for name in seen}
    compare(steps, repeats=2, clock=WallClock(now=itertools.count().__next__))
    assert seen == {"ieee": {"ieee"}, "tf32": {"tf32"}}
    assert timing.fp32_state() == before


# ---- clocks -------------------------------------------------------------------------------------


class Queue:
    """A device that does its work only when somebody waits for it."""

    def __init__(self) -> None:
        self.time, self.queued = 0.0, 0.0

    def launch(self) -> None:
        self.queued += 2.0

    def synchronise(self) -> None:
        self.time, self.queued = self.time + self.queued, 0.0


def test_the_wall_clock_waits_for_what_is_queued():
    device = Queue()
    device.launch()  # somebody else's work, which must not be counted
    clock = WallClock(device.synchronise, now=lambda: device.time)
    assert clock.time(device.launch, calls=3) == 2.0
    assert WallClock(now=lambda: device.time).time(device.launch) == 0.0  # what it would say else


def test_device_events_time_what_passed_in_the_queue(monkeypatch):
    device = Queue()

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            self.at = device.time + device.queued

        def synchronize(self) -> None:
            device.synchronise()
            self.reached = True

        def elapsed_time(self, end: Event) -> float:
            assert end.reached, "asked before the device had passed the mark"
            return 1000 * (end.at - self.at)  # milliseconds, as torch has it

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", device.synchronise)
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    device.launch()
    assert DeviceClock("cuda").time(device.launch, calls=3) == pytest.approx(2.0)


def test_the_clock_fits_the_device():
    assert timing.clock_for("cuda").name == "cuda events"
    assert timing.clock_for("cpu").name == "perf_counter"


# ---- counts -------------------------------------------------------------------------------------


def test_flops_of_a_training_step():
    layers = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    x = torch.randn(11, 7)
    first, second = 2 * 11 * 7 * 5, 2 * 11 * 5 * 3
    assert timing.count_flops(lambda: layers(x)) == first + second
    # Backward: every weight's gradient, and the input's of all layers but the first.
    step = timing.count_flops(lambda: layers(x).sum().backward())
    assert step == 2 * first + 3 * second


def test_bytes_of_ops():
    a, b = torch.zeros(6, 4), torch.zeros(6, 4)
    assert timing.count_bytes(lambda: a + b) == 3 * 24 * 4
    assert timing.count_bytes(lambda: a.add_(b)) == 3 * 24 * 4
    assert timing.count_bytes(lambda: a.to(torch.float16)) == 24 * (4 + 2)
    assert timing.count_bytes(lambda: a.t()) == 0
    assert timing.count_bytes(lambda: a.view(3, 8)[1]) == 0
    assert timing.count_bytes(lambda: torch.empty(1000)) == 0


# ---- TF32 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["ieee", "tf32"])
def test_the_switches_are_set_and_put_back(precision):
    before = timing.fp32_state()
    assert len(set(before.values())) > 1, "the defaults differ, so a mix-up would be seen"
    with timing.fp32_precision(precision):
        assert set(timing.fp32_state().values()) == {precision}
    assert timing.fp32_state() == before


def test_the_switches_are_put_back_after_an_error():
    before = timing.fp32_state()
    with pytest.raises(KeyboardInterrupt), timing.fp32_precision("tf32"):
        raise KeyboardInterrupt
    assert timing.fp32_state() == before


def old_switches() -> tuple[bool, bool, str]:
    """What a library that knows the old switches alone would read."""
    matmul = torch.backends.cuda.matmul.allow_tf32
    return matmul, torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()


@pytest.mark.parametrize("before", ["highest", "high", "medium"])
def test_the_old_switches_can_be_read_meanwhile_and_are_put_back(before):
    """Torch 2.13 raises for one that disagrees with the new switches."""
    default = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(before)
    try:
        outside = old_switches(), timing.fp32_state(), torch.backends.mkldnn.matmul.fp32_precision
        with timing.fp32_precision("ieee"):
            assert old_switches() == (False, False, "highest")
        with timing.fp32_precision("tf32"):
            assert old_switches() == (True, True, "high")
        again = old_switches(), timing.fp32_state(), torch.backends.mkldnn.matmul.fp32_precision
        assert again == outside
    finally:
        torch.set_float32_matmul_precision(default)
        torch.backends.cuda.matmul.fp32_precision = "none"
        torch.backends.mkldnn.matmul.fp32_precision = "none"


def test_switches_that_disagreed_before_are_set_all_the_same():
    torch.backends.cuda.matmul.fp32_precision = "tf32"  # the old switch still says no
    try:
        with pytest.raises(RuntimeError, match="TF32"):
            old_switches()
        with timing.fp32_precision("ieee"):
            assert set(timing.fp32_state().values()) == {"ieee"}
        assert timing.fp32_state()["cuda.matmul"] == "tf32"
    finally:
        torch.backends.cuda.matmul.fp32_precision = "none"
    assert old_switches() == (False, True, "highest")


# ---- roofs --------------------------------------------------------------------------------------


def test_the_peak_is_that_of_the_fastest_matmul():
    class Clock:
        name = "fake"

        def __init__(self) -> None:
            self.seconds = itertools.cycle([0.5, 0.25, 0.5])

        def time(self, step, calls: int = 1) -> float:
            step()
            return next(self.seconds)

    flops = timing.measured_peak(torch.bfloat16, "cpu", size=16, clock=Clock())
    assert flops == 2 * 16**3 / 0.25
    assert timing.measured_bandwidth("cpu", size=1000, clock=Clock()) == 2 * 1000 / 0.25


def test_the_roofs_of_this_machine_are_positive():
    assert timing.measured_peak(torch.float16, "cpu", size=32) > 0
    assert timing.measured_bandwidth("cpu", size=2**16) > 0
