"""The pretend GPU: its queue and clock behave as a real GPU's do, and its truth is what it says."""

from __future__ import annotations

import statistics

import pytest

from amp_lessons.amp.speed.pretend_gpu import PretendGpu


def timed(gpu: PretendGpu, step) -> float:
    gpu.synchronize()
    start = gpu.clock()
    step(None)
    gpu.synchronize()
    return gpu.clock() - start


def test_a_launch_returns_at_once_and_synchronize_waits() -> None:
    gpu = PretendGpu()
    step = gpu.program("step", seconds=1.0)
    for _ in range(3):
        step(None)
    assert gpu.clock() < 1e-4
    gpu.synchronize()
    assert gpu.clock() == pytest.approx(3.0, abs=1e-3)


def test_without_a_queue_the_host_waits() -> None:
    gpu = PretendGpu(asynchronous=False)
    gpu.program("step", seconds=1.0)(None)
    assert gpu.clock() == pytest.approx(1.0, abs=1e-3)


def test_the_truth_is_what_was_given() -> None:
    gpu = PretendGpu()
    plain = gpu.program("plain", seconds=2e-3)
    assert timed(gpu, plain) == pytest.approx(2e-3, rel=0.01)
    cold = gpu.program("cold", seconds=1e-3, cold=2)
    assert [round(1e3 * timed(gpu, cold)) for _ in range(4)] == [20, 20, 1, 1]
    spiky = gpu.program("spiky", seconds=1e-3, spike_every=3)
    assert [round(1e3 * timed(gpu, spiky)) for _ in range(6)] == [1, 1, 50, 1, 1, 50]


def test_jitter_has_the_true_time_as_its_median_and_mean() -> None:
    gpu = PretendGpu(launch_seconds=0.0)
    step = gpu.program("step", seconds=1e-3, jitter=0.2)
    for _ in range(5):
        timed(gpu, step)
    samples = [timed(gpu, step) for _ in range(22)]
    assert statistics.median(samples) == pytest.approx(1e-3, rel=1e-3)
    assert statistics.mean(samples) == pytest.approx(1e-3, rel=1e-3)
    assert max(samples) / min(samples) == pytest.approx(1.2 / 0.8, rel=1e-3)


def test_skew_moves_the_mean_and_not_the_median() -> None:
    gpu = PretendGpu(launch_seconds=0.0)
    step = gpu.program("step", seconds=1e-3, jitter=0.1, skew=5)
    samples = [timed(gpu, step) for _ in range(33)]
    assert statistics.median(samples) == pytest.approx(1e-3, rel=1e-3)
    assert statistics.mean(samples) > 1.1e-3


def test_tf32_makes_fp32_products_faster_and_nothing_else() -> None:
    gpu = PretendGpu(tf32=True)
    fp32, other = (gpu.program(str(f), seconds=2e-3, fp32=f) for f in (True, False))
    assert timed(gpu, fp32) == pytest.approx(1e-3, rel=0.01)
    assert timed(gpu, other) == pytest.approx(2e-3, rel=0.01)
    gpu.tf32 = False
    assert timed(gpu, fp32) == pytest.approx(2e-3, rel=0.01)


def test_a_chip_that_gets_warm() -> None:
    gpu = PretendGpu(warming=0.1)
    a, b = (gpu.program(name, seconds=1e-3) for name in "ab")
    assert [round(1e4 * timed(gpu, step)) for step in (a, b, a)] == [10, 11, 12]
    assert gpu.launches == {"a": 2, "b": 1}


def test_a_batch_costs_the_host_and_its_copy_the_device() -> None:
    gpu = PretendGpu(batch_seconds=3e-3, copy_seconds=5e-3)
    gpu.make_batch()
    assert gpu.clock() == pytest.approx(3e-3, rel=0.01)
    gpu.synchronize()
    assert gpu.clock() == pytest.approx(8e-3, rel=0.01)


def test_the_host_is_the_limit_of_small_steps() -> None:
    gpu = PretendGpu(launch_seconds=5e-6)
    step = gpu.program("small", seconds=1e-6)
    for _ in range(1000):
        step(None)
    gpu.synchronize()
    assert gpu.clock() == pytest.approx(5e-3, rel=0.01)


def test_events_time_the_device_and_count_milliseconds() -> None:
    gpu = PretendGpu(copy_seconds=7e-3)
    step = gpu.program("step", seconds=2e-3)
    gpu.make_batch()
    start, end = gpu.event(), gpu.event()
    start.record()
    step(None)
    end.record()
    with pytest.raises(RuntimeError, match="must be completed"):
        start.elapsed_time(end)
    end.synchronize()
    assert start.elapsed_time(end) == pytest.approx(2.0, rel=0.01)


def test_an_event_that_was_not_recorded() -> None:
    gpu = PretendGpu()
    with pytest.raises(RuntimeError, match="must be recorded"):
        gpu.event().elapsed_time(gpu.event())


def test_waiting_for_the_clock_alone_ends() -> None:
    gpu = PretendGpu()
    reads = 0
    while gpu.clock() < 1e-3:
        reads += 1
    assert reads < 20_000


def test_readings_count_what_asks_for_the_time() -> None:
    gpu = PretendGpu()
    gpu.program("step", seconds=1.0)(gpu.make_batch())
    gpu.synchronize()
    assert gpu.readings == 0
    gpu.clock()
    gpu.event().record()
    assert gpu.readings == 2
