"""Lesson 10's exercises: a benchmark that does not lie, floors, FLOPs, spread and fair verdicts.

The two benchmarks run on a `PretendGpu`, whose true durations are known. It has one trap at a time,
so where an answer is wrong says what is missing; no real time is ever measured or judged.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np

from amp_lessons import roofline
from amp_lessons.checks.cases import Case, Misconception, as_number, exactly, function_exercise
from amp_lessons.checks.evidence import DamagedEvidence, observe
from amp_lessons.checks.legacy import Exercise, Finding, error_verdict
from amp_lessons.checks.verdict import State, Verdict
from amp_lessons.plain_data import in_words, plain
from amp_lessons.pretend_gpu import PretendGpu

TOLERANCE = 0.03


@dataclass(frozen=True)
class Trap:
    """A pretend GPU with one thing in it that misleads a careless benchmark.

    Args:
        name: what it has, for the lines that a learner sees.
        diagnosis: what is missing in an answer that is wrong here.
        gpu: keyword arguments of `PretendGpu`.
        steps: for each step the keyword arguments of `PretendGpu.program`.
        warm_up, repeats: what the learner's function is told.
        truth: the right result.
        above: what is missing where the result is above the truth, if that is something else.
    """

    name: str
    diagnosis: str
    gpu: dict[str, Any]
    steps: tuple[dict[str, Any], ...]
    warm_up: int
    repeats: int
    truth: float
    above: str = ""

    def named(self, value: float) -> str:
        """The diagnosis of an answer that gave ``value`` here, which is wrong."""
        return self.above if self.above and value > self.truth else self.diagnosis

    def play(self, function: Callable[..., Any]) -> dict[str, Any]:
        """Call a learner's benchmark on a GPU with this trap; say what came, as plain data."""
        gpu = PretendGpu(**self.gpu)
        names = [f"step {i}" for i in range(len(self.steps))]
        steps = [gpu.program(n, **step) for n, step in zip(names, self.steps, strict=True)]
        seen = observe(lambda: function(gpu, *steps, self.warm_up, self.repeats))
        kept = gpu.tf32 is self.gpu.get("tf32", False)
        runs = min(gpu.launches.values())
        return seen | {"launches": runs, "readings": gpu.readings, "switch kept": kept}


_QUIET: dict[str, Any] = {"asynchronous": False}


def _probe_traps(traps: Sequence[Trap]) -> Callable[[Any], list[dict[str, Any]]]:
    def probe(function: Any) -> list[dict[str, Any]]:
        order = list(range(len(traps)))
        Random().shuffle(order)  # so that results learnt from an earlier check win nothing
        seen = {place: traps[place].play(function) for place in order}
        return [seen[place] for place in range(len(traps))]

    return probe


def _right(trap: Trap, value: Any) -> bool:
    number = as_number(value)
    return number is not None and abs(number - trap.truth) <= TOLERANCE * trap.truth


def _judge_traps(
    traps: Sequence[Trap], evidence: Any, unit: str, plainly_wrong: Callable[[Trap, float], str]
) -> Finding | Verdict:
    """Name the first trap that an answer fell into; the first of ``traps`` has none in it."""
    if not isinstance(evidence, list) or len(evidence) != len(traps):
        raise DamagedEvidence("not one entry for each run")
    if any("unattempted" in seen for seen in evidence):
        return Verdict(State.NOT_ATTEMPTED, "Your answer is still the stub.")
    failed = [seen for seen in evidence if "error" in seen]
    if failed:
        pairs = [(t, s) for t, s in zip(traps, evidence, strict=True) if "error" not in s]
        told = _too_few([trap for trap, _ in pairs], [seen["launches"] for _, seen in pairs])
        return Finding("too-few-runs", told) if told else error_verdict(failed[0]["error"])
    values = [seen["value"] for seen in evidence]
    if all(value is None for value in values):
        return Finding("returned-none")
    if any(as_number(value) is None for value in values):
        got = next(_kind(value) for value in values if as_number(value) is None)
        return Finding("wrong-type", (), {"got": got, "expected": f"a number: {unit}"})
    wrong = [i for i, trap in enumerate(traps) if not _right(trap, values[i])]
    lines = tuple(_told(traps[i], as_number(values[i])) for i in wrong)
    runs = [seen["launches"] for seen in evidence]
    too_few = Finding("too-few-runs", (*_too_few(traps, runs), *lines))
    if any(run < trap.repeats for run, trap in zip(runs, traps, strict=True)):
        return too_few
    if wrong and not any(seen["readings"] for seen in evidence):
        return Finding("another-clock", lines[:1])
    if 0 in wrong:
        return Finding(plainly_wrong(traps[0], as_number(values[0])) or "wrong-value", lines[:1])
    if wrong:
        return Finding(traps[wrong[0]].named(as_number(values[wrong[0]])), lines)
    return too_few if too_few.seen else Finding()


def _too_few(traps: Sequence[Trap], runs: Sequence[int]) -> tuple[str, ...]:
    """A line on the first trap in which a step ran too seldom; no line if none did."""
    for trap, run in zip(traps, runs, strict=True):
        if run < trap.warm_up + trap.repeats:
            return (f"warm_up {trap.warm_up}, repeats {trap.repeats}: launches of the step: {run}",)
    return ()


def _kind(value: Any) -> str:
    return in_words(value) if isinstance(value, dict) and "object" in value else repr(value)[:60]


def _told(trap: Trap, value: float) -> str:
    return f"{trap.name}: the truth is {trap.truth:.4g}, your function says {value:.4g}"


# ---- time_step --------------------------------------------------------------------------------


def _time_trap(
    name: str,
    diagnosis: str,
    seconds: float,
    warm_up: int,
    repeats: int,
    *,
    gpu: dict[str, Any] | None = None,
    above: str = "",
    **step: Any,
) -> Trap:
    program = {"seconds": seconds} | step
    gpu = _QUIET if gpu is None else gpu
    return Trap(name, diagnosis, gpu, (program,), warm_up, repeats, seconds, above)


# In this order: data made on the clock is waited for in the copy's trap too, and has its own name.


_TIME_TRAPS = (
    _time_trap("a device that waits for each step", "wrong-value", 1.3e-3, 2, 11),
    _time_trap("a queue", "not-synchronised", 2.1e-3, 3, 11, gpu={}, above="queue-on-the-clock"),
    _time_trap(
        "data that is slow to make", "data-on-the-clock", 0.9e-3, 3, 11,
        gpu=_QUIET | {"batch_seconds": 2.5e-3},
    ),
    _time_trap(
        "a queue, and data to be copied", "queue-on-the-clock", 1.7e-3, 2, 11,
        gpu={"copy_seconds": 0.9e-3},
    ),
    _time_trap("a slow start", "no-warm-up", 1.1e-3, 12, 11, cold=12),
    _time_trap("spikes", "mean-with-spikes", 1.9e-3, 4, 22, spike_every=5),
    _time_trap("a time that varies", "not-the-median", 2.3e-3, 6, 33, jitter=0.12, skew=5),
    _time_trap(
        "all of it at once", "wrong-value", 1.6e-3, 9, 11,
        gpu={"batch_seconds": 2e-3, "copy_seconds": 0.7e-3}, cold=9, spike_every=7,
    ),
)  # fmt: skip


def _wrong_scale(trap: Trap, value: float) -> str:
    """What is wrong with a time that is wrong even where there is no trap."""
    ratio = value / trap.truth
    if abs(ratio / 1000 - 1) < 2 * TOLERANCE:
        return "milliseconds"
    if any(abs(ratio / n - 1) < TOLERANCE for n in (trap.repeats, trap.repeats + trap.warm_up)):
        return "all-steps-together"
    return ""


_TOO_FEW_RUNS = (
    "You ran a step fewer times than asked: `warm_up` runs that are not counted, and after them "
    "`repeats` samples."
)
_ANOTHER_CLOCK = (
    "You never asked the pretend GPU for the time. `time.perf_counter`, `torch.cuda.Event` and "
    "their like time your own machine, where nothing of this runs. Its time passes on "
    "`gpu.clock()`, and between two marks of `gpu.event()`."
)

time_step = Exercise(
    "time_step",
    probe=_probe_traps(_TIME_TRAPS),
    judge=lambda evidence: _judge_traps(_TIME_TRAPS, evidence, "seconds", _wrong_scale),
    diagnoses={
        "not-synchronised": "A launch only queues the work and returns at once, so your clock "
        "stopped before the step was done: you timed Python. Synchronise before you read the "
        "clock, or let the device time itself with two events.",
        "queue-on-the-clock": "You wait for the step at its end, but not for what was queued "
        "before it. Earlier work, such as the copy of the batch or a run of the warm-up, was still "
        "running when your clock started, and it is in your time. Synchronise before you start "
        "the clock too.",
        "no-warm-up": "The first runs are slow: kernels are chosen, memory is asked for, the chip "
        "speeds up. They are among your samples. Run the step `warm_up` times before the first "
        "sample, and throw those times away.",
        "data-on-the-clock": "Making the batch is inside your timed region. It is not part of the "
        "step, and it would hide any gain that the step makes. Make the batch before you start "
        "the clock.",
        "mean-with-spikes": "A few runs took fifty times as long, because of something else on the "
        "machine, and they are in your result. One sample a step and their median: half of the "
        "samples would have to be spoiled before it moves. A mean, or one clock around all steps, "
        "takes everything in.",
        "not-the-median": "What you return is not the median of the samples. The fastest run is "
        "luck, the first or last one too; report what a typical run takes.",
        "too-few-runs": _TOO_FEW_RUNS,
        "another-clock": _ANOTHER_CLOCK,
        "milliseconds": "Your result is a thousand times too large: it is in milliseconds, as "
        "`elapsed_time` gives them, and seconds were asked for.",
        "all-steps-together": "You return the time of all steps together; asked for is one step.",
    },
    hints=(
        "Write down, for one sample, which lines run on the host and which on the device, and "
        "when the clock is read.",
        "One sample: make the batch, synchronise, read the clock, launch, synchronise, read the "
        "clock. Or two events around the launch, and one synchronise before they are asked.",
        "Run `warm_up` steps first; keep a list of `repeats` samples; statistics.median.",
    ),
    lesson_learned="Warm up, wait before and after, leave the data out, take many samples and "
    "their median. A benchmark that leaves one of these out still prints a number.",
)

# ---- compare_steps ----------------------------------------------------------------------------


def _pair_trap(
    name: str,
    diagnosis: str,
    times: tuple[float, float],
    warm_up: int,
    repeats: int,
    *,
    gpu: dict[str, Any] | None = None,
    baseline: dict[str, Any] | None = None,
    candidate: dict[str, Any] | None = None,
) -> Trap:
    steps = (
        {"seconds": times[0], "fp32": True} | (baseline or {}),
        {"seconds": times[1]} | (candidate or {}),
    )
    gpu = _QUIET if gpu is None else gpu
    truth = times[0] / times[1] / (2 if gpu.get("tf32") else 1)
    return Trap(name, diagnosis, gpu, steps, warm_up, repeats, truth)


_PAIR_TRAPS = (
    _pair_trap("a device that waits for each step", "wrong-value", (2.6e-3, 1.1e-3), 2, 11),
    _pair_trap(
        "a user who has TF32 switched on", "moved-baseline", (4.2e-3, 1.3e-3), 2, 11,
        gpu=_QUIET | {"tf32": True},
    ),
    _pair_trap("a queue", "not-synchronised", (3.1e-3, 1.7e-3), 3, 11, gpu={}),
    _pair_trap(
        "data that is slow to make", "data-on-the-clock", (2.9e-3, 1.6e-3), 3, 11,
        gpu=_QUIET | {"batch_seconds": 2.5e-3},
    ),
    _pair_trap(
        "a queue, and data to be copied", "not-synchronised", (2.7e-3, 1.2e-3), 3, 11,
        gpu={"copy_seconds": 0.9e-3},
    ),
    _pair_trap(
        "a baseline that starts slowly", "cold-start", (1.9e-3, 1.4e-3), 12, 11,
        baseline={"cold": 12},
    ),
    _pair_trap(
        "a candidate that starts slowly", "cold-start", (2.5e-3, 1.1e-3), 12, 11,
        candidate={"cold": 12},
    ),
    _pair_trap(
        "spikes in one of the two", "mean-with-spikes", (2.2e-3, 1.5e-3), 4, 22,
        candidate={"spike_every": 5},
    ),
    _pair_trap(
        "a baseline whose time varies", "not-the-median", (2.4e-3, 1.7e-3), 6, 33,
        baseline={"jitter": 0.12, "skew": 5},
    ),
    _pair_trap(
        "a chip that gets slower as it warms up", "one-after-the-other", (1.8e-3, 1.2e-3), 3, 41,
        gpu=_QUIET | {"warming": 0.002},
    ),
)  # fmt: skip


def _wrong_ratio(trap: Trap, value: float) -> str:
    """What is wrong with a speed-up that is wrong even where there is no trap."""
    mistakes = {
        "upside-down": (1 / trap.truth,),
        "saved-share": (1 - 1 / trap.truth, trap.truth - 1, 100 * (trap.truth - 1)),
        "moved-baseline": (trap.truth / 2,),
    }
    for slug, results in mistakes.items():
        if any(abs(value - result) <= TOLERANCE * result for result in results):
            return slug
    return ""


def _judge_comparison(evidence: Any) -> Finding | Verdict:
    found = _judge_traps(_PAIR_TRAPS, evidence, "the speed-up", _wrong_ratio)
    if found == Finding() and not all(seen["switch kept"] for seen in evidence):
        return Finding("switch-left")
    return found


compare_steps = Exercise(
    "compare_steps",
    probe=_probe_traps(_PAIR_TRAPS),
    judge=_judge_comparison,
    diagnoses={
        "moved-baseline": "You changed the device's TF32 switch, and with it the baseline: against "
        "IEEE FP32 the same candidate looks twice as good as against TF32. Measure under the "
        "switches that the user has, and report which they are.",
        "not-synchronised": "A launch only queues the work. A clock that is read without waiting "
        "stops before the step is done, or starts while earlier work is still running. "
        "Synchronise before each reading of the clock, the first and the second, or use events.",
        "data-on-the-clock": "Making the batch is inside your timed region. It takes as long for "
        "one step as for the other, and hides a part of the gain. Make it once, before you start "
        "any clock.",
        "not-the-median": "What you divide are not the medians. The fastest run is luck, the first "
        "or last one too; compare what typical runs take.",
        "cold-start": "The first runs of each step are slow, and they are among your samples of at "
        "least one of the two. Both need their own warm-up: the one that runs first would pay "
        "for the other.",
        "mean-with-spikes": "A few runs took fifty times as long and are in your result. Take one "
        "sample a run, and the median for each of the two.",
        "one-after-the-other": "Most samples of the one step came before most samples of the "
        "other. This device slows down as it gets warm, so the later one was measured on a slower "
        "chip. Let them take turns: then what changes with time hits both.",
        "too-few-runs": _TOO_FEW_RUNS,
        "another-clock": _ANOTHER_CLOCK,
        "switch-left": "Your result is right, and you leave the device's TF32 switch in another "
        "position than you found it: whatever the user runs next runs under it.",
        "upside-down": "You divided the wrong way round: a speed-up is the baseline's time by the "
        "candidate's, above 1 where the candidate is faster.",
        "saved-share": "You return the share that was saved or gained. Asked for is the speed-up: "
        "the baseline's time divided by the candidate's.",
    },
    hints=(
        "Everything that may differ between the two measurements, other than the step itself, "
        "must be the same: the switches, the warm-up, the time of day.",
        "One loop with one sample of each in every turn, into two lists.",
        "Warm up both; then for _ in range(repeats): sample the baseline, sample the candidate.",
    ),
    lesson_learned="Both warm, in turns, under the same switches: then the ratio is about the "
    "steps and about nothing else.",
)

# ---- least_seconds ----------------------------------------------------------------------------


def _floor_cases() -> list[Case]:
    random = Random(10)
    h200, t4 = roofline.find_gpu("H200"), roofline.find_gpu("T4")
    sizes = [(4096, 4096, 4096), (8, 4096, 4096), (1, 8192, 1024), (128, 128, 128)]
    sizes += [tuple(random.choice((64, 200, 1000, 5000)) for _ in range(3)) for _ in range(5)]
    where = [(h200, "fp16"), (h200, "fp32"), (t4, "fp16"), (t4, "fp32")]
    return [
        Case((*size, roofline.BYTES[d], gpu.peak(d), gpu.bytes_per_second()))
        for i, size in enumerate(sizes)
        for gpu, d in (where[i % 4], where[(i + 1) % 4])
    ]


def _floor(
    m: int, n: int, k: int, element_bytes: int, peak: float, bandwidth: float,
    *, flops: float = 2.0, moved: str = "abc", choose: Callable[..., float] = max,
) -> float:  # fmt: skip
    sizes = {"a": m * k, "b": k * n, "c": m * n}
    traffic = element_bytes * sum(sizes[matrix] for matrix in moved)
    return choose(flops * m * n * k / peak, traffic / bandwidth)


def _floor_with(**changes: Any) -> Callable[..., float]:
    return lambda *args: _floor(*args, **changes)


def _relatively(expected: Any, seen: Any) -> bool:
    number = as_number(seen)
    return number is not None and math.isclose(number, expected, rel_tol=1e-6)


least_seconds = function_exercise(
    "least_seconds",
    cases=_floor_cases,
    reference=_floor,
    same=_relatively,
    misconceptions={
        "one-flop-each": Misconception(
            "You counted one operation for each of the m·n·k products. A product and its addition "
            "to the sum are two: 2·m·n·k.",
            _floor_with(flops=1.0),
        ),
        "compute-only": Misconception(
            "You divided the FLOPs by the peak and stopped there. The matrices have to be read and "
            "the result written: with a small batch that takes longer than the arithmetic.",
            _floor_with(choose=lambda compute, _: compute),
        ),
        "bandwidth-only": Misconception(
            "You counted the bytes only. Large matrices are used many times for each time that "
            "they are read, and the arithmetic takes longer.",
            _floor_with(choose=lambda _, memory: memory),
        ),
        "added": Misconception(
            "You added the two times. A GPU computes while it reads, so the slower of the two "
            "decides: max, not sum. The floor is what no code can beat.",
            _floor_with(choose=lambda compute, memory: compute + memory),
        ),
        "the-faster-one": Misconception(
            "You took the smaller of the two times. The work is done when both are done: max.",
            _floor_with(choose=min),
        ),
        "result-not-written": Misconception(
            "You counted the two matrices that are read. The result, m by n, is written too.",
            _floor_with(moved="ab"),
        ),
        "elements-not-bytes": Misconception(
            "You counted elements where bytes were asked for: each has `element_bytes` of them.",
            lambda m, n, k, _, peak, bandwidth: _floor(m, n, k, 1, peak, bandwidth),
        ),
    },
    hints=(
        "How many multiplications and additions does one element of the result take? How many "
        "elements are there?",
        "The bytes: (m, k) and (k, n) are read, (m, n) is written, each once.",
        "Two times, one for the arithmetic and one for the bytes; the slower one is the floor.",
    ),
    lesson_learned="The floor is a promise that no code can break: a time below it was measured "
    "wrongly, and a time near it leaves nothing to gain.",
    asked_for="the seconds, as a number",
)

# ---- step_flops -------------------------------------------------------------------------------


def _flop_cases() -> list[Case]:
    return [
        Case(([4096, 4096, 4096, 4096], 4096), "[4096, 4096, 4096, 4096], 4096"),
        Case(([784, 512, 10], 64)),
        Case(([10, 20], 7)),
        Case(([3, 5, 7, 11, 13], 2)),
        Case(([64, 1000, 64], 1)),
        Case(([100, 1, 100], 33)),
    ]


def _products(widths: Sequence[int]) -> list[int]:
    return [a * b for a, b in pairwise(widths)]


def _step_flops(widths: Sequence[int], batch: int) -> int:
    return roofline.total_flops(roofline.training_matmuls(widths, batch))


step_flops = function_exercise(
    "step_flops",
    cases=_flop_cases,
    reference=_step_flops,
    misconceptions={
        "data-gradient": Misconception(
            "You counted three products for every layer. The first layer's input is the data, "
            "which needs no gradient, so autograd leaves that product out: for three equal layers "
            "8 and not 9.",
            lambda widths, batch: 6 * batch * sum(_products(widths)),
        ),
        "forward-only": Misconception(
            "You counted the forward pass. The backward pass costs about twice as much: a product "
            "for each weight's gradient, and one for each input's.",
            lambda widths, batch: 2 * batch * sum(_products(widths)),
        ),
        "backward-as-forward": Misconception(
            "You counted one product a layer in the backward pass. There are two: the gradient of "
            "the weight, and the gradient of the input, which the layer before needs.",
            lambda widths, batch: 4 * batch * sum(_products(widths)),
        ),
        "wrong-end": Misconception(
            "You left one product out, but at the wrong end: it is the first layer's input that "
            "needs no gradient, not the last one's.",
            lambda widths, batch: batch * (6 * sum(_products(widths)) - 2 * _products(widths)[-1]),
        ),
        "one-flop-each": Misconception(
            "You counted a multiplication and its addition as one; they are two FLOPs.",
            lambda widths, batch: _step_flops(widths, batch) // 2,
        ),
        "batch-forgotten": Misconception(
            "Each row of the batch goes through every product: multiply by `batch`.",
            lambda widths, batch: _step_flops(widths, 1),
        ),
    },
    hints=(
        "One layer forward is (batch, in) times (in, out): how many FLOPs?",
        "Backward: the weight's gradient is (out, batch) times (batch, in), the input's is "
        "(batch, out) times (out, in). Each costs what the forward product costs.",
        "Which of these products does nobody need, because nothing before it has parameters?",
    ),
    lesson_learned="Forward once, backward twice, less the first layer's input: 8 products for "
    "the three equal layers of the recipe, 1.1 TFLOP a step.",
    asked_for="the FLOPs, as a number",
)

# ---- summarise_times --------------------------------------------------------------------------


def _sample_cases() -> list[Case]:
    random = Random(3)
    noisy = [round(random.gauss(20, 1.5), 3) for _ in range(15)]
    quiet = [round(random.gauss(50, 0.4), 3) for _ in range(24)]
    return [
        Case(([12.0, 10.0, 11.0, 10.5, 11.5],)),
        Case((noisy,), "15 samples around 20"),
        Case((quiet,), "24 samples around 50"),
        Case(([8.0, 8.1, 7.9, 8.05, 400.0, 7.95, 8.02, 7.98, 8.0, 8.01],), "10, one of them 400"),
        Case(([5.0, 9.0, 5.1, 9.1, 5.2, 9.2, 5.3, 9.3],), "8 that come in two groups"),
        Case(([30.0, 30.0, 30.0, 30.0, 30.0, 90.0],), "5 times 30, once 90"),
        Case(([3.0, 1.0],)),
        Case(([98.5, 101.5, 100.0, 98.5, 101.5],)),  # exactly 3%
        Case(([98.52, 101.49, 100.0, 98.52, 101.49],)),  # more than 3% of the first quartile
        Case(([98.0, 102.0, 100.0, 98.0, 102.0],)),  # 2% to either side
        Case(([8.0, 8.3, 7.8, 8.2, 400.0, 7.9, 8.1],)),  # at most 3% of the mean
        Case(([0.00213, 0.00225, 0.00208, 0.00231, 0.00219, 0.00224],)),  # seconds
    ]


_OTHER_QUARTILES = (
    "lower", "higher", "nearest", "midpoint", "hazen", "weibull", "median_unbiased",
    "normal_unbiased", "inverted_cdf", "averaged_inverted_cdf", "closest_observation",
    "interpolated_inverted_cdf",
)  # fmt: skip


def _summary(
    samples: Sequence[float],
    middle: Callable[[list[float]], float] = statistics.median,
    spread: Callable[[list[float]], float] | None = None,
) -> dict[str, Any]:
    spread = spread or _inclusive_iqr
    values = list(samples)
    center, width = middle(values), spread(values)
    return {"median": center, "iqr": width, "steady": width <= 0.03 * center}


def _inclusive_iqr(values: list[float]) -> float:
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high - low


def _exclusive_iqr(values: list[float]) -> float:
    low, _, high = statistics.quantiles(values, n=4)
    return high - low


def _halves_iqr(values: list[float], with_middle: bool = False) -> float:
    """From the medians of the lower and the upper half, as some textbooks have it."""
    ordered, odd = sorted(values), len(values) % 2
    half = len(values) // 2 + (odd and with_middle)
    return statistics.median(ordered[-half:]) - statistics.median(ordered[:half])


def _with(**parts: Any) -> Callable[[Sequence[float]], dict[str, Any]]:
    return lambda samples: _summary(samples, **parts)


def _quartiles_by(method: str) -> Callable[[list[float]], float]:
    """The interquartile range by another of numpy's rules."""
    return lambda values: float(np.subtract(*np.percentile(values, [75, 25], method=method)))


def _same_summary(expected: Any, seen: Any) -> bool:
    """To within 1e-4 of each number (torch's quantile of float32 is right), however small."""
    if isinstance(expected, dict):
        given = seen.get("dict") if isinstance(seen, dict) else None
        return isinstance(given, dict) and all(
            key in given and _same_summary(one, given[key]) for key, one in expected["dict"].items()
        )
    if isinstance(expected, bool):
        return exactly(expected, seen)
    number = as_number(seen)
    return number is not None and math.isclose(number, expected, rel_tol=1e-4, abs_tol=1e-9)


def _never_scaled(samples: Sequence[float]) -> dict[str, Any]:
    found = _summary(samples)
    return found | {"steady": found["iqr"] <= 0.03}


summarise_times = function_exercise(
    "summarise_times",
    cases=_sample_cases,
    reference=_summary,
    same=_same_summary,
    misconceptions={
        "mean": Misconception(
            "You took the mean. A single run of 400 among runs of 8 moves it to 47, a time that no "
            "run took. The median stays at 8.",
            _with(middle=statistics.mean),
            _with(middle=statistics.mean, spread=statistics.stdev),
            _with(middle=statistics.mean, spread=statistics.pstdev),
        ),
        "not-sorted": Misconception(
            "You took the middle of the list as it came. The median is the middle of the *sorted* "
            "samples, and half-way between the two middle ones if their number is even.",
            _with(middle=lambda values: values[len(values) // 2]),
        ),
        "upper-middle": Misconception(
            "With an even number of samples there are two in the middle; the median is half-way "
            "between them.",
            _with(middle=statistics.median_high),
            _with(middle=statistics.median_low),
        ),
        "standard-deviation": Misconception(
            "Your spread is a standard deviation. It squares the distance of every outlier; the "
            "interquartile range does not see the outer quarters at all.",
            _with(spread=statistics.stdev),
            _with(spread=statistics.pstdev),
        ),
        "full-range": Misconception(
            "You took the range from the smallest to the largest sample. One spike decides it. "
            "Take the range of the middle half.",
            _with(spread=lambda values: max(values) - min(values)),
        ),
        "other-quartiles": Misconception(
            "Your quartiles follow another rule than the one asked for: they lie at positions "
            "(n - 1) / 4 and 3 (n - 1) / 4 of the sorted samples, counted from 0, interpolated in "
            'between. `statistics.quantiles` does that with `method="inclusive"` only.',
            _with(spread=_exclusive_iqr),
            _with(spread=_halves_iqr),
            _with(spread=lambda values: _halves_iqr(values, with_middle=True)),
            _with(spread=lambda v: sorted(v)[3 * len(v) // 4] - sorted(v)[len(v) // 4]),
            *(_with(spread=_quartiles_by(method)) for method in _OTHER_QUARTILES),
        ),
        "not-relative": Misconception(
            "You compared the spread with 0.03 itself. A spread of 0.03 is nothing beside 50 and "
            "much beside 0.1: compare it with 3% of the median.",
            _never_scaled,
        ),
        "less-than": Misconception(
            "You ask for less than 3%. At most 3% includes 3% itself.",
            lambda samples: (
                (found := _summary(samples)) | {"steady": found["iqr"] < 0.03 * found["median"]}
            ),
        ),
    },
    hints=(
        "Sort first. Where is the middle if there are ten samples?",
        "statistics.median, numpy.percentile and torch.quantile all do this; by hand, the quartile "
        "lies at position (n - 1) / 4 of the sorted samples, counted from 0.",
        "steady is a bool: the interquartile range is at most 0.03 times the median.",
    ),
    lesson_learned="Median and interquartile range say what a typical run takes and how typical "
    "it is, and spikes do not touch them.",
    asked_for="a dict with median, iqr and steady",
)

# ---- speed_verdict ----------------------------------------------------------------------------

FASTER, SLOWER = "faster", "slower"
SAME, NOT_COMPARABLE = "no difference", "not comparable"


def _run(
    center: float, width: float, last: float, *, first: float = 2.0, end: Sequence[float] = ()
) -> dict[str, Any]:
    """A run: 12 times around ``center``, and 40 losses that go from ``first`` to ``last``."""
    seconds = [center * (1 + width * (i * 5 % 12 - 5.5) / 5.5) for i in range(12)]
    losses = [last + (first - last) * 0.85**i for i in range(30)]
    losses += [last * (1.01 if i % 2 else 0.99) for i in range(10)]
    losses[40 - len(end) :] = end
    return {"seconds": seconds, "losses": losses}


def _verdict_cases() -> list[Case]:
    nan, inf = math.nan, math.inf
    base = _run(20.0, 0.02, 0.5)

    def case(label: str, candidate: dict[str, Any], baseline: dict[str, Any] = base) -> Case:
        return Case((baseline, candidate), label)

    def runs(old: Sequence[float], new: Sequence[float]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Two runs with these times, and with as many losses as a short run has."""
        return tuple({"seconds": list(s), "losses": [2.0] * 15 + [0.5] * 10} for s in (new, old))

    spiky = _run(12.0, 0.02, 0.5)
    spiky["seconds"][3] = spiky["seconds"][8] = 300.0
    recovered = _run(10.0, 0.02, 0.5)
    recovered["losses"][2] = inf
    return [
        case("half the time, the same loss", _run(10.0, 0.02, 0.5)),
        case("half the time, a loss 30% higher", _run(10.0, 0.02, 0.65)),
        case("half the time, the last losses are nan", _run(10.0, 0.02, 0.5, end=[nan] * 10)),
        case("half the time, one of the last losses is nan", _run(10.0, 0.02, 0.5, end=[nan, 0.5])),
        case("half the time, one of the last losses is inf", _run(10.0, 0.02, 0.5, end=[inf, 0.5])),
        case("half the time, lower at first, 10% higher at the end", _run(10, 0.02, 0.55, first=1)),
        case("half the time, higher at first, the same at the end", _run(10, 0.02, 0.5, first=4)),
        case("half the time, the loss a little lower", _run(10.0, 0.02, 0.48)),
        case("3% less, within the spread", _run(19.4, 0.1, 0.5), _run(20.0, 0.1, 0.5)),
        case("3% less, beyond the spread", _run(19.4, 0.005, 0.5), _run(20.0, 0.005, 0.5)),
        case("9% less, and the middle halves touch", _run(18.2, 0.1, 0.5), _run(20.0, 0.1, 0.5)),
        case("3% less, within the spread, a loss 30% higher", _run(19.4, 0.1, 0.65),
             _run(20.0, 0.1, 0.5)),
        case("half the time, and an early loss that was inf", recovered),
        case("twice the time", _run(40.0, 0.02, 0.5)),
        case("60% of the time, with two spikes", spiky),
        case("half the time, the very last loss is lucky", _run(10.0, 0.02, 0.6, end=[0.3])),
        case("half the time, the very last loss is unlucky", _run(10.0, 0.02, 0.49, end=[0.56])),
        case("the baseline itself has lost its loss", _run(10.0, 0.02, 0.5),
             _run(20.0, 0.02, 0.5, end=[nan] * 10)),
        case("a loss of the baseline was inf near its end", _run(10.0, 0.02, 0.5),
             _run(20.0, 0.02, 0.5, end=[inf, *[0.5] * 8])),
        case("half the time, the first five of the last ten losses are higher",
             _run(10.0, 0.02, 0.5, end=[0.6] * 5 + [0.5] * 5)),
        case("half the time, the loss before the last ten was high",
             _run(10.0, 0.02, 0.5, end=[9.0] + [0.5] * 10)),
        case("half the time, two of the last ten losses are high",
             _run(10.0, 0.02, 0.5, end=[0.5] * 4 + [1.5, 1.5] + [0.5] * 4)),
        case("half the time, a large loss that is 1% higher", _run(10.0, 0.02, 5.05),
             _run(20.0, 0.02, 5.0)),
        case("half the time, a small loss that is 30% higher", _run(10.0, 0.02, 0.0065),
             _run(20.0, 0.02, 0.005)),
        case("3% more, from a narrow half into a wide one", _run(20.6, 0.3, 0.5),
             _run(20.0, 0.005, 0.5)),
        case("3% more, from a wide half into a narrow one", _run(20.6, 0.005, 0.5),
             _run(20.0, 0.3, 0.5)),
        case("half the time, 25 losses, three of the last ten are higher",
             {"seconds": [9.0, 10.0, 11.0], "losses": [2.0] * 15 + [0.7] * 3 + [0.5] * 7}),
        case("5 samples each, 25 losses", *runs([20.0, 21, 22, 23, 30], [16.0, 17, 18, 20.8, 22])),
        case("8 samples each, 25 losses", *runs([18.0, 20, 24, 24, 25, 26, 27, 28],
                                                [15.0, 16, 17, 18, 19, 23.2, 23.6, 24])),
        case("5 samples against 12, 25 losses against 40", runs([20.0], [9.0, 8, 10, 9.5, 30])[0]),
    ]  # fmt: skip


def _quartiles(seconds: Sequence[float]) -> tuple[float, float]:
    low, _, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return low, high


def _speed_verdict(
    baseline: dict[str, Any],
    candidate: dict[str, Any],
    *,
    quality: bool = True,
    last: int = 10,
    finite_last: int = 10,
    both_ways: bool = False,
    spread: bool = True,
    time_first: bool = False,
    half: Callable[[Sequence[float]], tuple[float, float]] = _quartiles,
    point: bool = False,
    middle: Callable[[Sequence[float]], float] = statistics.median,
) -> str:
    runs = (baseline, candidate)
    (low, high), (other_low, other_high) = (half(run["seconds"]) for run in runs)
    times = [middle(run["seconds"]) for run in runs]
    if point:
        other_low = other_high = times[1]
    same = spread and other_low <= high and low <= other_high
    if same and time_first:
        return SAME
    if quality and _is_worse(baseline, candidate, finite_last, last, both_ways):
        return NOT_COMPARABLE
    if same:
        return SAME
    return FASTER if times[1] < times[0] else SLOWER


def _is_worse(
    baseline: dict[str, Any],
    candidate: dict[str, Any],
    finite_last: int,
    last: int,
    both_ways: bool,
) -> bool:
    """Whether one of the last losses is inf or NaN (of none with 0), or their mean is too high."""
    checked = [run["losses"][-finite_last:] for run in (baseline, candidate) if finite_last]
    if not all(math.isfinite(loss) for end in checked for loss in end):
        return True
    old, new = (statistics.fmean(run["losses"][-last:]) for run in (baseline, candidate))
    return abs(new - old) > 0.02 * old if both_ways else new > 1.02 * old


def _verdict_with(**changes: Any) -> Callable[..., str]:
    return lambda baseline, candidate: _speed_verdict(baseline, candidate, **changes)


speed_verdict = function_exercise(
    "speed_verdict",
    cases=_verdict_cases,
    reference=_speed_verdict,
    misconceptions={
        "quality-ignored": Misconception(
            "You compared the times only. A run that diverges can be as fast as it likes: look at "
            "the losses first.",
            _verdict_with(quality=False),
            _verdict_with(quality=False, spread=False),
        ),
        "nan-slips-through": Misconception(
            "nan > x is False, and so is nan < x, so a run that ended in nan passes your "
            "comparison. Ask math.isfinite of the last losses of both runs.",
            _verdict_with(finite_last=0),
            _verdict_with(finite_last=0, spread=False),
        ),
        "one-loss": Misconception(
            "You judged the quality by the last loss alone, and one batch may be lucky. Take the "
            "mean of the last ten.",
            _verdict_with(last=1),
            _verdict_with(last=1, finite_last=1),
            _verdict_with(last=1, finite_last=1, spread=False),
        ),
        "whole-curve": Misconception(
            "You averaged the losses of the whole run. The first ones are alike in every run and "
            "hide where it ends. Take the last ten.",
            _verdict_with(last=40),
            _verdict_with(last=40, finite_last=40),
            _verdict_with(last=40, finite_last=40, spread=False),
        ),
        "spread-ignored": Misconception(
            "You compared the medians only. Where the middle halves of the samples overlap, the "
            "next run may say the opposite: that is no difference.",
            _verdict_with(spread=False),
            _verdict_with(spread=False, middle=statistics.fmean),
        ),
        "times-first": Misconception(
            "You asked for the times before the losses. Whether two runs differ in time means "
            "nothing if one of them did not train as well: ask for the losses first.",
            _verdict_with(time_first=True),
        ),
        "early-losses": Misconception(
            "You ask every loss of a run to be finite. Asked for were the last ten: a loss that "
            "was inf once, early, says nothing of where the run ends.",
            _verdict_with(finite_last=40),
        ),
        "lower-refused": Misconception(
            "You refuse a candidate whose loss is *lower* by more than 2%. Only a higher one is a "
            "price that was paid for the speed.",
            _verdict_with(both_ways=True),
        ),
        "mean-time": Misconception(
            "You compared the means of the times, and two spikes decide them. Compare the medians.",
            _verdict_with(middle=statistics.fmean),
        ),
        "full-range": Misconception(
            "You compared the whole ranges, from the fastest to the slowest sample. One spike "
            "makes them overlap: take the middle halves.",
            _verdict_with(half=lambda seconds: (min(seconds), max(seconds))),
        ),
        "one-half-only": Misconception(
            "You asked whether the candidate's median lies in the baseline's middle half. The "
            "candidate has a middle half too: they overlap if each begins before the other ends.",
            _verdict_with(point=True),
        ),
    },
    hints=(
        "In which order must the questions be asked? A time means nothing if the training failed.",
        "What does Python say of nan > 1, and of nan < 1?",
        "The middle halves overlap if each begins before the other ends.",
    ),
    lesson_learned="Quality first, then the spread, then the median: only what passes all three "
    "is a speed-up.",
    asked_for='one of "faster", "slower", "no difference", "not comparable"',
)

# ---- read_roofline ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Situation:
    """What somebody reports of a piece of work on an H200, made up for the exercise.

    Args:
        what: in words.
        dtype: it computes in.
        flops, moved: of one run; of a matrix product they follow from ``product``.
        seconds: the time that is reported.
        helps: the right answer.
    """

    what: str
    dtype: str
    seconds: float
    helps: str
    product: roofline.Matmul | None = None
    flops: float = 0.0
    moved: float = 0.0
    gpu: roofline.Gpu = field(default_factory=lambda: roofline.find_gpu("H200"))

    @property
    def work(self) -> tuple[float, float]:
        """FLOPs and bytes."""
        if self.product is None:
            return self.flops, self.moved
        return self.product.flops, self.product.bytes(self.dtype)

    @property
    def floor(self) -> float:
        """Seconds."""
        return roofline.floor_seconds(self.gpu, self.dtype, *self.work)

    @property
    def bound(self) -> str:
        """ "compute" or "bandwidth"."""
        return roofline.bound(self.gpu, self.dtype, *self.work)


def _product(dtype: str, m: int, n: int, k: int, seconds: float, helps: str) -> Situation:
    work = roofline.Matmul(m, n, k)
    return Situation(f"{dtype} ({m}, {k}) x ({k}, {n})", dtype, seconds, helps, work)


CHOICES = ("precision", "bytes", "launches", "sizes", "nothing", "measurement")
SITUATIONS = {
    "a": _product("fp32", 4096, 4096, 4096, 2.3e-3, "precision"),
    "b": _product("bf16", 8192, 8192, 8192, 1.35e-3, "nothing"),
    "c": _product("bf16", 4, 8192, 8192, 31e-6, "bytes"),
    "d": Situation(
        "bf16 relu of 512 million elements", "bf16", 0.46e-3, "bytes",
        flops=512e6, moved=4 * 512e6,
    ),
    "e": _product("fp16", 128, 128, 128, 6e-6, "launches"),
    "f": _product("fp16", 4095, 4097, 4093, 0.48e-3, "sizes"),
    "g": _product("fp16", 8192, 8192, 8192, 40e-6, "measurement"),
    "h": _product("tf32", 8192, 8192, 8192, 2.6e-3, "precision"),
    "i": Situation(
        "fp16 sum of 2 billion elements", "fp16", 0.95e-3, "bytes", flops=2e9, moved=4e9
    ),
    "j": Situation(
        "fp16 forward of 60 layers of width 64, 16 rows each", "fp16", 420e-6, "launches",
        flops=60 * 2 * 16 * 64 * 64, moved=60 * 2 * (16 * 64 * 2 + 64 * 64),
    ),
}  # fmt: skip
"""The situations of the exercise `read_roofline`, by letter; the numbers are made up."""

_KNOWN_ANSWERS = {
    ("g", "nothing"): "beats-the-floor",
    ("g", "precision"): "beats-the-floor",
    ("g", "bytes"): "beats-the-floor",
    ("e", "precision"): "launch-bound",
    ("e", "bytes"): "launch-bound",
    ("j", "precision"): "launch-bound",
    ("j", "bytes"): "launch-bound",
    ("c", "precision"): "bandwidth-bound",
    ("d", "precision"): "bandwidth-bound",
    ("i", "precision"): "bandwidth-bound",
    ("c", "nothing"): "bandwidth-bound",
    ("d", "nothing"): "bandwidth-bound",
    ("i", "nothing"): "bandwidth-bound",
    ("b", "precision"): "near-the-roof",
    ("b", "bytes"): "near-the-roof",
    ("b", "launches"): "near-the-roof",
    ("a", "nothing"): "wrong-roof",
    ("h", "nothing"): "wrong-roof",
    ("f", "precision"): "odd-sizes",
    ("f", "bytes"): "odd-sizes",
    ("f", "nothing"): "odd-sizes",
    ("f", "launches"): "odd-sizes",
}


def _judge_roofline(evidence: Any) -> Finding | Verdict:
    answers = evidence.get("dict") if isinstance(evidence, dict) else None
    if answers is None:
        return Finding("not-a-dict")
    answers = {letter.strip().lower(): answer for letter, answer in answers.items()}
    given = {letter: answers.get(letter, "?") for letter in SITUATIONS}
    given = {k: v.strip().lower() if isinstance(v, str) else v for k, v in given.items()}
    left = [letter for letter, answer in given.items() if answer in ("?", None)]
    if left:
        done = len(SITUATIONS) - len(left)
        message = f"{done} of {len(SITUATIONS)} answered; open: {', '.join(left)}."
        return Verdict(State.NOT_ATTEMPTED, message)
    unknown = tuple(f"{k}: {v!r}" for k, v in given.items() if v not in CHOICES)
    if unknown:
        return Finding("not-a-choice", unknown, {"choices": ", ".join(CHOICES)})
    wrong = [letter for letter, answer in given.items() if answer != SITUATIONS[letter].helps]
    if not wrong:
        return Finding()
    known = [_KNOWN_ANSWERS[k, given[k]] for k in wrong if (k, given[k]) in _KNOWN_ANSWERS]
    lines = tuple(f"{letter}: {given[letter]} is not right" for letter in wrong)
    return Finding(known[0] if known else "some-wrong", lines)


read_roofline = Exercise(
    "read_roofline",
    probe=plain,
    judge=_judge_roofline,
    diagnoses={
        "beats-the-floor": "(g) is faster than the floor, which no code can be. Before you explain "
        "or improve a time, check that it can be true.",
        "launch-bound": "(e) and (j) take hundreds of times their floor, which is a fraction of a "
        "microsecond: the GPU waits for Python to launch. Faster arithmetic or fewer bytes make "
        "the waiting longer and nothing else.",
        "bandwidth-bound": "(c), (d) and (i) are near their floor, and that floor is set by the "
        "bandwidth; they compute in 16 bits already. Only moving fewer bytes helps: more rows for "
        "each weight that is read, or fusing the op with its neighbours.",
        "near-the-roof": "(b) is in 16 bits and reaches about 80% of the peak, as the best "
        "products on such a GPU do. There is nothing to win here; look elsewhere.",
        "wrong-roof": "(a) and (h) are near the roof, but it is the roof of FP32 or TF32. Another "
        "precision has a higher one.",
        "odd-sizes": "(f) takes more than three times its floor, is far too large to wait for a "
        "launch, and computes in 16 bits already. Look at its sizes: none is a multiple of 8.",
        "not-a-dict": "Your answer is not a dict from letter to answer, as it stands in the cell.",
        "not-a-choice": "Each answer must be one of: {choices}.",
        "some-wrong": "Some of your answers are not right. Ask first whether the time can be true, "
        "then how far it is from the floor, then what sets the floor.",
    },
    hints=(
        "First: is the time below the floor? Then something is wrong with the measurement.",
        "Far above the floor: is the floor a few microseconds or less (launches), or do the sizes "
        "stand out (sizes)?",
        "Near the floor: bandwidth sets it (bytes), or compute does, and then the question is "
        "whether another precision has a higher roof.",
    ),
    lesson_learned="Can it be true, how far from the floor, what sets the floor: three questions, "
    "and the answer says where to work.",
)
