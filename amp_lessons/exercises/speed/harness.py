"""Pretend GPUs with one trap each, on which a benchmark is tried; and reports to read.

Each case is an experiment. The learner's benchmark runs on a quiet device, which waits for each
step, and then on one with a trap. Where only the second result is wrong, the trap was the reason.
No real time is ever measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amp_lessons.amp import roofline
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import as_play
from amp_lessons.exercises.varied import Varied
from amp_lessons.exercises.checks.serialize import plain
from amp_lessons.exercises.checks.serialize.compare import (
    Same,
    as_number,
    exactly,
    is_dict,
    is_tensor,
    noted,
)
from amp_lessons.amp.speed.pretend_gpu import PretendGpu

TOLERANCE = 0.03
WAITS: dict[str, Any] = {"asynchronous": False}
QUIETLY, TRAPPED = "on a quiet device", "on this device"

Options = dict[str, Any]
Entry = dict[str, Any]


class Bench:
    """A learner's benchmark on one pretend GPU, and what it did there.

    Args:
        function: the learner's.
        device: options of `PretendGpu`.
        steps: for each step the options of `PretendGpu.program`, and ``ran``: its runs before.
    """

    def __init__(
        self, function: Callable[..., Any], device: Options, steps: list[Options], *counts: int
    ) -> None:
        self.gpu = PretendGpu(**device)
        self.switches: set[bool] = set()
        programs = [self._program(f"step {n}", **step) for n, step in enumerate(steps)]
        before = dict(self.gpu.launches)
        self.result = function(self.gpu, *programs, *counts)
        self.runs = min(self.gpu.launches[name] - count for name, count in before.items())
        self.moved = self.switches != {device.get("tf32", False)}
        self.left = self.gpu.tf32 is not device.get("tf32", False)

    def _program(self, name: str, ran: int = 0, **options: Any) -> Callable[[object], None]:
        program = self.gpu.program(name, **options)
        self.gpu.launches[name] = ran

        def step(batch: object) -> None:
            self.switches.add(self.gpu.tf32)
            program(batch)

        return step


@as_play
def play_benchmark(
    function: Callable[..., Any], trap: str, device: Options, steps: list[Options], *counts: int
) -> Any:
    """The experiment of one case."""
    plainly: list[Options] = [{k: s[k] for k in ("seconds", "fp32") if k in s} for s in steps]
    quiet = Bench(function, WAITS, plainly, *counts)
    if as_number(plain(quiet.result)) is None:
        return quiet.result
    there = Bench(function, device, steps, *counts)
    return {
        QUIETLY: quiet.result,
        TRAPPED: there.result,
        "trap": trap,
        "runs of a step": min(quiet.runs, there.runs),
        "runs asked for": sum(counts),
        "no clock of the device read": not min(quiet.gpu.readings, there.gpu.readings),
        "TF32 switched while a step ran": quiet.moved or there.moved,
        "TF32 left switched": quiet.left or there.left,
    }


def time_cases() -> list[Case]:
    """Devices on which one step is timed."""

    vary = Varied(4)

    def case(trap: str, seconds: float, warm_up: int, repeats: int, device=WAITS, **step) -> Case:
        steps = [{"seconds": vary.near(seconds, 0.25), **step}]
        return Case((trap, device, steps, warm_up, repeats), trap)

    everything = {"batch_seconds": 2e-3, "copy_seconds": 0.7e-3}
    return [
        case("a queue", 2.1e-3, 3, 11, {}),
        case("data that is slow to make", 0.9e-3, 3, 11, WAITS | {"batch_seconds": 2.5e-3}),
        case("data to be copied", 1.7e-3, 2, 11, {"copy_seconds": 0.9e-3}),
        case("a slow start", 1.1e-3, 12, 11, cold=12),
        case("spikes", 1.9e-3, 4, 22, spike_every=5),
        case("times that vary", 2.3e-3, 6, 33, jitter=0.12, skew=5),
        case("all of it at once", 1.6e-3, 9, 11, everything, cold=9, spike_every=7),
    ]


def pair_cases() -> list[Case]:
    """Devices on which two steps are compared."""

    vary = Varied(5)

    def case(
        trap: str, old: float, new: float, warm_up: int, repeats: int, device=WAITS, **traps: Any
    ) -> Case:
        old, new = vary.near(old, 0.15), vary.near(new, 0.15)
        baseline = {"seconds": old, "fp32": True, **traps.get("baseline", {})}
        steps = [baseline, {"seconds": new, **traps.get("candidate", {})}]
        return Case((trap, device, steps, warm_up, repeats), trap)

    slow_data, copied = WAITS | {"batch_seconds": 2.5e-3}, {"copy_seconds": 0.9e-3}
    varying, steadier = {"jitter": 0.12, "skew": 5}, {"jitter": 0.2}
    cold, later, other = {"cold": 12}, varying | {"ran": 7}, steadier | {"ran": 4}
    return [
        case("TF32 switched on", 4.2e-3, 1.3e-3, 2, 11, WAITS | {"tf32": True}),
        case("a queue", 3.1e-3, 1.7e-3, 3, 11, {}),
        case("data that is slow to make", 2.9e-3, 1.6e-3, 3, 11, slow_data),
        case("data to be copied", 2.7e-3, 1.2e-3, 3, 11, copied),
        case("a baseline that starts slowly", 1.9e-3, 1.4e-3, 12, 11, baseline=cold),
        case("a candidate that starts slowly", 2.5e-3, 1.1e-3, 12, 11, candidate=cold),
        case("spikes", 2.2e-3, 1.5e-3, 4, 22, candidate={"spike_every": 5}),
        case("a baseline that varies", 2.4e-3, 1.7e-3, 6, 33, baseline=varying),
        case("two steps that vary", 2e-3, 1.1e-3, 4, 33, baseline=varying, candidate=later),
        case("two steps with jitter", 1.7e-3, 1.3e-3, 5, 33, baseline=steadier, candidate=other),
        case("a chip that slows down", 1.8e-3, 1.2e-3, 3, 41, WAITS | {"warming": 0.002}),
    ]  # fmt: skip


# ---- what was seen ------------------------------------------------------------------------------


def share(seen: Entry, right: Entry, key: str) -> float:
    """A result, divided by the right one; NaN if there is none."""
    number, true = as_number(noted(seen, key)), as_number(noted(right, key))
    return math.nan if number is None or not true else number / true


def is_close(ratio: float) -> bool:
    return abs(ratio - 1) <= TOLERANCE


def off(*traps: str, above: bool | None = None) -> Callable[[Entry, Entry], bool]:
    """A rule: the result is off (``above`` the right one, or not) with one of these traps alone."""

    def seen_in(seen: Entry, right: Entry) -> bool:
        ratio = share(seen, right, TRAPPED)
        if noted(right, "trap") not in traps or is_close(ratio) or math.isnan(ratio):
            return False
        return is_close(share(seen, right, QUIETLY)) and above in (None, ratio > 1)

    return seen_in


def was_noted(key: str) -> Callable[[Entry, Entry], bool]:
    """Whether `play` noted this."""
    return lambda seen, right: bool(noted(seen, key))


def too_few_runs(seen: Entry, right: Entry) -> dict[str, int] | bool:
    """How often a step ran, if that is less often than asked for."""
    runs, asked = noted(seen, "runs of a step"), noted(right, "runs asked for")
    return runs is not None and runs < asked and {"runs": runs, "asked": asked}


def same_times(expected: Any, seen: Any) -> bool:
    """Whether both results of an experiment are right."""
    one, other = {"value": expected}, {"value": seen}
    return all(is_close(share(other, one, key)) for key in (QUIETLY, TRAPPED))


def teller(what: str, unit: str = "") -> Callable[[Case, Entry, Entry], str]:
    """Says both results of an experiment, with the first that is wrong in front."""

    def tell(case: Case, right: Entry, seen: Entry) -> str:
        def told(entry: Entry, key: str) -> str:
            return f"{as_number(noted(entry, key)) or 0:.4g}{unit}"

        if noted(seen, QUIETLY) is None:
            return case.label
        if not is_close(share(seen, right, QUIETLY)):
            wanted, got = told(right, QUIETLY), told(seen, QUIETLY)
            got += ", a thousand times that" if is_close(share(seen, right, QUIETLY) / 1e3) else ""
            return f"without {case.label}: {what} {wanted}, and your function returned {got}"
        got = f"your function returned {told(seen, TRAPPED)}"
        quiet = f"without {case.label} its result was right"
        return f"{case.label}: {what} {told(right, TRAPPED)}, and {got}; {quiet}"

    return tell


def relatively(tolerance: float) -> Same:
    """Numbers may be off by this share of themselves, however small they are."""

    def same(expected: Any, seen: Any) -> bool:
        if is_dict(expected):
            wanted, got = expected["dict"], seen["dict"] if is_dict(seen) else {}
            return all(key in got and same(one, got[key]) for key, one in wanted.items())
        if is_tensor(expected) and expected["shape"] == []:  # a bool of numpy's
            expected = expected["values"]
        one, other = as_number(expected), as_number(seen)
        if one is None or other is None:
            return exactly(expected, seen)
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=1e-9 * tolerance)

    return same


# ---- read_roofline ------------------------------------------------------------------------------

CHOICES = ("precision", "bytes", "launches", "sizes", "nothing", "measurement")
H200 = roofline.find_gpu("H200")


@dataclass(frozen=True)
class Situation:
    """What somebody reports of a piece of work on an H200; the times are made up."""

    what: str
    dtype: str
    seconds: float
    flops: float
    moved: float  # bytes

    @property
    def floor(self) -> float:
        """Seconds."""
        return roofline.floor_seconds(H200, self.dtype, self.flops, self.moved)

    @property
    def bound(self) -> str:
        """ "compute" or "bandwidth"."""
        return roofline.bound(H200, self.dtype, self.flops, self.moved)


def _product(dtype: str, m: int, n: int, k: int, seconds: float) -> Situation:
    work, what = roofline.Matmul(m, n, k), f"{dtype} ({m}, {k}) x ({k}, {n})"
    return Situation(what, dtype, seconds, work.flops, work.bytes(dtype))


SITUATIONS = {
    "a": _product("fp32", 4096, 4096, 4096, 2.3e-3),
    "b": _product("bf16", 8192, 8192, 8192, 1.35e-3),
    "c": _product("bf16", 4, 8192, 8192, 31e-6),
    "d": Situation("bf16 relu of the 512 million elements that the op before it wrote",
                   "bf16", 0.46e-3, 512e6, 4 * 512e6),
    "e": _product("fp16", 128, 128, 128, 6e-6),
    "f": _product("fp16", 4095, 4097, 4093, 0.48e-3),
    "g": _product("fp16", 8192, 8192, 8192, 40e-6),
    "h": _product("tf32", 8192, 8192, 8192, 2.6e-3),
    "i": Situation("fp16 sum of the 2 billion elements that the op before it wrote",
                   "fp16", 0.95e-3, 2e9, 4e9),
    "j": Situation("fp16 forward of 60 layers of width 64, 16 rows each",
                   "fp16", 420e-6, 60 * 2 * 16 * 64 * 64, 60 * 2 * (16 * 64 * 2 + 64 * 64)),
}  # fmt: skip
"""By letter."""
