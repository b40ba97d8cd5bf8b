"""Times to summarise, runs to judge, and sizes to count with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from amp_lessons.amp import roofline
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.speed.harness_layers import SaltedSize
from amp_lessons.exercises.varied import Varied

Run = dict[str, Any]


def sample_cases() -> list[Case]:
    """Lists of times: noisy, with spikes, and at the limit of 3%."""
    vary = Varied(3)
    random = vary.random
    noisy = [round(random.gauss(20, 1.5), 3) for _ in range(15)]
    quiet = [round(random.gauss(50, 0.4), 3) for _ in range(24)]

    def case(*samples: float, label: str = "", whole: bool = False) -> Case:
        """Other times that lie to each other as these do. A whole factor keeps 3% at 3%."""
        factor = vary.more(1, 40) if whole else vary.near(1.0, 0.3)
        times = [x if factor == 1 else float(f"{factor * x:.7g}") for x in samples]
        ends = f"{min(times):g}", f"{max(times):g}"
        return Case((times,), label.format(*ends))

    return [
        case(12.0, 10.0, 11.0, 10.5, 11.5),
        case(*noisy, label="15 samples around 20" if not vary.on else "15 samples, {} to {}"),
        case(*quiet, label="24 samples around 50" if not vary.on else "24 samples, {} to {}"),
        case(8.0, 8.1, 7.9, 8.05, 400.0, 7.95, 8.02, 7.98, 8.0, 8.01, label="10, one of them {1}"),
        case(5.0, 9.0, 5.1, 9.1, 5.2, 9.2, 5.3, 9.3, label="8 that come in two groups"),
        case(30.0, 30.0, 30.0, 30.0, 30.0, 90.0, label="5 times {}, once {}"),
        case(3.0, 1.0),
        case(98.5, 101.5, 100.0, 98.5, 101.5, whole=True),  # exactly 3%
        case(197.0, 203.0, 200.0, 197.0, 203.0, whole=True),
        case(98.52, 101.49, 100.0, 98.52, 101.49),  # more than 3% of the first quartile
        case(197.04, 202.98, 200.0, 197.04, 202.98),
        case(98.0, 102.0, 100.0, 98.0, 102.0),  # 2% to either side
        case(49.0, 51.0, 50.0, 49.0, 51.0),
        case(8.0, 8.3, 7.8, 8.2, 400.0, 7.9, 8.1),  # at most 3% of the mean
        case(20.0, 20.8, 19.6, 20.9, 900.0, 19.7, 20.2, 20.6),
        case(0.00213, 0.00225, 0.00208, 0.00231, 0.00219, 0.00224),  # seconds
        case(0.04153, 0.04092, 0.04267, 0.04128, 0.04316),
    ]


# ---- speed_verdict ------------------------------------------------------------------------------


def run(center: float, width: float, *end: float, early: Sequence[float] = ()) -> Run:
    """A run: 8 times around ``center``, with spikes at neither end, and 14 losses.

    Args:
        center, width: the times lie between ``center * (1 - width)`` and ``center * (1 + width)``.
        end: the last losses; one alone stands for all of the last ten.
        early: the first losses; 2.0 by default, and in between.
    """
    seconds = [center * (1 + width * (i * 5 % 8 - 3.5) / 3.5) for i in range(8)]
    last = list(end) if len(end) > 1 else [end[0] * (1.01 if i % 2 else 0.99) for i in range(10)]
    first = list(early) + [2.0] * (14 - len(early) - len(last))
    return {"seconds": seconds, "losses": first + last}


def verdict_cases() -> list[Case]:
    """Pairs of runs: baseline and candidate. With a salt they come in another order, and no number
    is what it was."""
    vary = Varied(14)
    unit = vary.more(1, 60)  # of the times; whole, so that halves that touch still do
    nan, inf = math.nan, math.inf
    half = 0.5
    base, fast = run(20, 0.02, half), run(10, 0.02, half)
    tens = [0.495, 0.505] * 5

    def case(label: str, candidate: Run, baseline: Run = base, kind: str = "") -> Case:
        of_losses = vary.near(1.0, 0.05)
        factors = {"seconds": unit, "losses": of_losses}
        pair = [
            {key: [factors[key] * x for x in numbers] for key, numbers in each.items()}
            for each in (baseline, candidate)
        ]
        return Case(tuple(pair), label, kind)

    def ends(*numbers: int) -> str:
        low, high, other_low, other_high = (unit * n for n in numbers)
        return f"halves that touch, {low} to {high} and {other_low} to {other_high}"

    def spread(label: str, center: float, width: float, old_width: float, *end: float) -> Case:
        return case(label, run(center, width, *(end or [half])), run(20, old_width, half))

    def times(label: str, old: Sequence[float], new: Sequence[float]) -> Case:
        one, other = ({"seconds": [float(x) for x in times]} for times in (new, old))
        return case(label, fast | one, base | other, "the times")

    def losses(label: str, *end: float, early: Sequence[float] = ()) -> Case:
        return case(f"half the time, {label}", run(10, 0.02, *end, early=early), kind="the losses")

    cases = [
        case("half the time, the same loss", fast),
        case("twice the time, the same loss", run(40, 0.02, half)),
        losses("a loss 30% higher", 0.65),
        losses("a loss 3% higher", 0.515),
        losses("the last losses are nan", *[nan] * 10),
        losses("one of the last losses is nan", *tens[:8], nan, half),
        losses("one of the last losses is inf", *tens[:8], inf, half),
        losses("the last loss but eight is inf", half, inf, *tens[:8]),
        losses("lower at first, 10% higher at the end", 0.55, early=[0.8] * 4),
        losses("higher at first, the same at the end", half, early=[9.0] * 4),
        losses("the loss a little lower", 0.48),
        losses("the loss 30% lower", 0.35),
        losses("an early loss that was inf", half, early=[2.0, inf]),
        losses("an early loss that was nan", half, early=[nan]),
        losses("the very last loss is lucky", *[0.62] * 9, 0.3),
        losses("the very last loss is unlucky", *[0.49] * 9, 0.56),
        losses("the first five of the last ten are higher", *[0.6] * 5, *tens[:5]),
        losses("the first two of the last ten are higher", *[0.8] * 2, *tens[:8]),
        losses("the loss before the last ten was high", 9.0, *tens),
        losses("two of the last ten losses are high", *tens[:4], 1.5, 1.5, *tens[:4]),
        losses("one of the last ten losses is high", *tens[:3], 1.5, *tens[:6]),
        case("half the time, a large loss 1% higher", run(10, 0.02, 5.05), run(20, 0.02, 5)),
        case("half the time, a large loss 1.5% higher", run(10, 0.02, 8.12), run(20, 0.02, 8)),
        case("half the time, a small loss 30% higher", run(10, 0.02, 6.5e-3), run(20, 0.02, 5e-3)),
        case("half the time, a small loss 50% higher", run(10, 0.02, 3e-3), run(20, 0.02, 2e-3)),
        case("the baseline's last losses are nan", fast, run(20, 0.02, *[nan] * 10)),
        case("a late loss of the baseline is inf", fast, run(20, 0.02, half, inf, *tens[:8])),
        case("the baseline's very last loss is inf", fast, run(20, 0.02, *tens[:9], inf)),
        case("an early loss of the baseline is inf", fast, run(20, 0.02, half, early=[inf])),
        spread("3% less, within the spread", 19.4, 0.1, 0.1),
        spread("3% more, within the spread", 20.6, 0.1, 0.1),
        spread("3% less, beyond the spread", 19.4, 0.005, 0.005),
        spread("3% less, within the spread, a loss 30% higher", 19.4, 0.1, 0.1, 0.65),
        spread("3% more, within the spread, a late nan", 20.6, 0.1, 0.1, *tens[:9], nan),
        spread("3% more, from a narrow half into a wide one", 20.6, 0.3, 0.005),
        spread("3% less, from a narrow half into a wide one", 19.4, 0.3, 0.005),
        spread("3% more, from a wide half into a narrow one", 20.6, 0.005, 0.3),
        times(ends(18, 22, 14, 18), range(16, 25, 2), range(12, 21, 2)),
        times(ends(18, 22, 22, 26), range(16, 25, 2), range(20, 29, 2)),
        times("60% of the time, with two spikes", [20.0, 20.2] * 6, [12.0, 12.1] * 5 + [300.0] * 2),
        times("90% of the time, with one spike", [20.0] * 9, [18.0] * 8 + [90.0]),
        times("110% of the time, the baseline has a spike", [20.0] * 8 + [99.0], [22.0] * 9),
        times("5 samples each, a little faster", [20, 21, 22, 23, 30], [16, 17, 18, 20.8, 22]),
        times("5 samples each, a little slower", [10, 11, 12, 13, 16], [12, 13.5, 14, 17, 18]),
        times("8 samples each",
              [18, 20, 24, 24, 25, 26, 27, 28], [15, 16, 17, 18, 19, 23.2, 23.6, 24]),
        times("5 samples against 12", [20.0, 20.1] * 6, [9.0, 8, 10, 9.5, 30]),
    ]  # fmt: skip
    return vary.mixed(cases)


# ---- step_flops and least_seconds ---------------------------------------------------------------


def flop_cases() -> list[Case]:
    """Widths and a batch: one layer, many, wide and narrow ends."""
    rows: list[tuple[list[int], int]] = [
        ([4096] * 4, 4096),
        ([784, 512, 10], 64),
        ([10, 20], 7),
        ([3, 5, 7, 11, 13], 2),
        ([64, 1000, 64], 1),
        ([7, 1, 90, 5], 33),
    ]
    return [Case(_other_sizes(Varied(15 + seed), *row)) for seed, row in enumerate(rows)]


def _other_sizes(vary: Varied, widths: list[int], batch: int) -> tuple[list[int], int]:
    """Each size a little larger; what was equal stays equal."""
    n = SaltedSize(vary)
    return [n[width] for width in widths], n[batch]


def floor_cases() -> list[Case]:
    """Sizes, with the peaks and bandwidths of two GPUs: large, with one small side, and tiny."""
    vary = Varied(10)
    random = vary.random
    h200, t4 = roofline.find_gpu("H200"), roofline.find_gpu("T4")
    sizes: list[Any] = [(4096, 4096, 4096), (8, 4096, 4096), (1, 8192, 1024), (128, 128, 128)]
    sizes += [(1, 1, 100), (2, 3, 4)]
    sizes += [tuple(random.choice((64, 200, 1000, 5000)) for _ in range(3)) for _ in range(5)]
    sizes = [_other_sizes(vary, list(size), 1)[0] for size in sizes]
    where = [(h200, "fp16"), (h200, "fp32"), (t4, "fp16"), (t4, "fp32")]
    return [
        Case((*size, roofline.BYTES[d], gpu.peak(d), gpu.bytes_per_second()))
        for i, size in enumerate(sizes)
        for gpu, d in (where[i % 4], where[(i + 1) % 4])
    ]
