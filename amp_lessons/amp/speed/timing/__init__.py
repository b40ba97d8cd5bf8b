"""How long it takes: the method behind every time in this course.

A step is a function without arguments. `clocks` times it, `method` warms several steps up and lets
them take turns, `switches` sets TF32, `counts` counts a step's work, and `roofs` measures the
machine's limits. What is timed, in which precisions, is up to `bench`; runs are kept in `records`.
"""

from amp_lessons.amp.speed.timing.clocks import (
    Clock,
    DeviceClock,
    Prepared,
    Step,
    WallClock,
    clock_for,
    timed,
)
from amp_lessons.amp.speed.timing.counts import count_bytes, count_flops
from amp_lessons.amp.speed.timing.method import (
    LEAST_WARM_UP,
    ROUNDS,
    WARM_UP_LIMIT,
    Samples,
    Timing,
    compare,
    sample,
    steady,
    take_turns,
    warm_up,
)
from amp_lessons.amp.speed.timing.roofs import measured_bandwidth, measured_peak
from amp_lessons.amp.speed.timing.switches import (
    Fp32Precision,
    fp32_precision,
    fp32_state,
    in_precision,
)

__all__ = [
    "LEAST_WARM_UP",
    "ROUNDS",
    "WARM_UP_LIMIT",
    "Clock",
    "DeviceClock",
    "Fp32Precision",
    "Prepared",
    "Samples",
    "Step",
    "Timing",
    "WallClock",
    "clock_for",
    "compare",
    "count_bytes",
    "count_flops",
    "fp32_precision",
    "fp32_state",
    "in_precision",
    "measured_bandwidth",
    "measured_peak",
    "sample",
    "steady",
    "take_turns",
    "timed",
    "warm_up",
]
