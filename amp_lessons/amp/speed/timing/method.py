"""The method: warm up, take turns, check that the samples are steady, report median and spread.

What reads the clock is in `clocks`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from amp_lessons.amp.speed.timing.clocks import Clock, Step, clock_here, timed

WINDOW = 3
TOLERANCE = 0.05
LEAST_WARM_UP = 0.5
"""Seconds of a step's own time that its warm-up lasts at least: for compilers that need several
calls, and for the clock rate of a GPU that was idle. Short steps stop at `MOST_TURNS` before."""
WARM_UP_LIMIT = 30
"""Turns after which a warm-up gives up, if it has lasted `LEAST_WARM_UP` by then."""
MOST_TURNS = 1000
ROUNDS = 3
"""How often samples are taken at most; only those of the last round are kept."""
TOO_FAST = 2 / 3
"""One sample below this share of the median suggests that something slowed the others down."""


@dataclass(frozen=True)
class Timing:
    """What timing one step came to.

    Attributes:
        name: of the step.
        samples: seconds a call, one for each turn, in order; two or more.
        clock: what measured them, "cuda events" or "perf_counter".
        calls: calls of the step between two readings of the clock.
        warm_up: turns that were thrown away before the first sample: the warm-up, and rounds of
            samples that were not steady.
        settled: whether the samples are `steady`. If False, they drifted to the end; a ratio of two
            steps that took turns may still be right, and a time alone is not.
        cold_cache: whether a GPU's L2 cache was cleared before each call.
    """

    name: str
    samples: tuple[float, ...]
    clock: str
    calls: int = 1
    warm_up: int = 0
    settled: bool = True
    cold_cache: bool = False

    def __post_init__(self) -> None:
        if len(self.samples) < 2:
            raise ValueError(f"{self.name}: a spread needs two or more samples")

    @property
    def median(self) -> float:
        """Seconds a call; half of the samples were faster."""
        return statistics.median(self.samples)

    @property
    def iqr(self) -> float:
        """Interquartile range in seconds: the middle half of the samples lies within it."""
        return _iqr(self.samples)

    @property
    def spread(self) -> float:
        """The interquartile range as a share of the median: 0.03 is 3%."""
        return self.iqr / self.median if self.median else 0.0


def compare(
    steps: Mapping[str, Step],
    device: torch.device | str = "cpu",
    repeats: int = 15,
    *,
    calls: int = 1,
    clock: Clock | None = None,
    cold_cache: bool = False,
) -> dict[str, Timing]:
    """Time several steps side by side, so that a slow moment of the machine hits them all.

    Each is warmed up (see `warm_up`). Then they take turns, and every round turns the order round.
    Samples that are not steady are thrown away and taken again (see `sample`).

    Args:
        steps: by name; each is called without arguments, and what it returns is dropped. Settings
            that one needs belong into a `Prepared` step, outside the timed window.
        device: that the steps run on. On CUDA its events are the clock.
        repeats: samples of each step, 2 or more.
        calls: calls of a step in one sample. Take more for steps under a millisecond.
        clock: another clock than `clock_for(device)`.
        cold_cache: clear the L2 cache before each call, for steps on tensors that fit in it. On
            CUDA only; elsewhere nothing is cleared, and `Timing.cold_cache` says so.

    Raises:
        ValueError: if there are no steps, under 2 repeats, no calls, or no such device here.
    """
    whole = isinstance(repeats, int) and isinstance(calls, int)
    if not steps or not whole or repeats < 2 or calls < 1:
        raise ValueError("compare needs a step, 2 or more repeats, and 1 or more calls")
    if not isinstance(steps, Mapping) or not all(map(callable, steps.values())):
        raise ValueError("steps must be functions by name: {'fp32': step, ...}")
    clock = clock or clock_here(device, cold_cache)
    warmed = {name: warm_up(step, clock, calls)[0] for name, step in steps.items()}
    found = sample(steps, clock, repeats, calls)
    cold = getattr(clock, "cold_cache", False)
    return {
        name: Timing(
            name,
            tuple(samples),
            clock.name,
            calls,
            warmed[name] + found.thrown_away,
            steady(samples),
            cold,
        )
        for name, samples in found.kept.items()
    }


def warm_up(step: Step, clock: Clock, calls: int = 1) -> tuple[int, bool]:
    """Run a step until its time is stable: compilers, caches and clock rates have settled then.

    Stable means that the medians of the last 3 turns and of the 3 before them differ by at most
    5%, and that the step has run for half a second, or 1000 turns. It gives up after 30 turns and
    half a second.

    A step that is equally slow for longer than that looks stable. `sample` finds most of these.

    Returns:
        The turns it took, and whether the time became stable.
    """
    seen: list[float] = []
    spent = 0.0
    while True:
        seen.append(timed(step, clock, calls))
        spent += seen[-1] * calls
        if len(seen) < 2 * WINDOW or (spent < LEAST_WARM_UP and len(seen) < MOST_TURNS):
            continue
        before = statistics.median(seen[-2 * WINDOW : -WINDOW])
        now = statistics.median(seen[-WINDOW:])
        if abs(before - now) <= TOLERANCE * now:
            return len(seen), True
        if len(seen) >= WARM_UP_LIMIT:
            return len(seen), False


def take_turns(
    steps: Mapping[str, Step], clock: Clock, repeats: int, calls: int = 1
) -> Iterator[tuple[str, float]]:
    """Time the steps in turn, forwards and backwards by rounds: (name, seconds a call).

    What was yielded stays measured, whatever happens to a later turn.
    """
    order = list(steps)
    for _ in range(repeats):
        for name in order:
            yield name, timed(steps[name], clock, calls)
        order.reverse()


# ---- are the samples steady? -----------------------------------------------------------------


@dataclass
class Samples:
    """Samples of several steps, complete or not.

    Attributes:
        kept: seconds a call by step, in order.
        thrown_away: turns of each step that were sampled before and not kept.
    """

    kept: dict[str, list[float]] = field(default_factory=dict)
    thrown_away: int = 0


def sample(
    steps: Mapping[str, Step],
    clock: Clock,
    repeats: int,
    calls: int = 1,
    *,
    into: Samples | None = None,
    tell: Callable[[str], object] = lambda _: None,
) -> Samples:
    """Let steps take turns until the samples of all of them are `steady`, for 3 rounds at most.

    The first round may show that a step was still warming up. Then the samples of all steps are
    thrown away, since they took turns, and taken again.

    What this can't find: a step that stays equally slow through the warm-up and through all
    samples of a round. No method can that looks no longer.

    Args:
        steps: by name, warmed up.
        clock: to time them with.
        repeats: samples of each step, 2 or more.
        calls: calls of a step in one sample.
        into: filled while samples are taken, so that they are there after an error. If one breaks
            a later round, those of the round before stay.
        tell: called with the step's name after each sample of the first round.
    """
    found = into if into is not None else Samples()
    for round_ in range(ROUNDS):
        taken: dict[str, list[float]] = {name: [] for name in steps}
        if not round_:
            found.kept = taken
        for name, seconds in take_turns(steps, clock, repeats, calls):
            taken[name].append(seconds)
            if not round_:
                tell(name)
        found.kept, found.thrown_away = taken, round_ * repeats
        if all(map(steady, taken.values())):
            break
    return found


def steady(samples: Sequence[float]) -> bool:
    """Whether samples, in the order in which they were taken, show one state of the machine.

    The medians of the first and the second half differ by at most 5%, or by no more than the
    interquartile range of the quieter half; and no sample is below two thirds of the median. Both
    rules can fail on a busy machine too: then it is worth another try.
    """
    half = len(samples) // 2
    if half == 0:
        return True
    middle = statistics.median(samples)
    first, second = samples[:half], samples[-half:]
    difference = abs(statistics.median(first) - statistics.median(second))
    allowed = max(TOLERANCE * middle, min(_iqr(first), _iqr(second)))
    return difference <= allowed and min(samples) >= TOO_FAST * middle


def _iqr(samples: Sequence[float]) -> float:
    if len(samples) < 2:
        return 0.0
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return high - low
