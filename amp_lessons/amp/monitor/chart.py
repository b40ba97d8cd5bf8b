"""The monitor's chart, and the one that follows a run in a notebook."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from amp_lessons.amp.monitor.findings import Findings
from amp_lessons.core.pictures import COLOURS, DASHES, INK, MARKERS, QUIET, STYLE, Picture


def picture(seen: Findings) -> Picture:
    """Two panels: the largest numbers and the loss scale by step; the gradients by power of two.

    Every number is shown as a power of two. The range of the format is marked in both.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 3.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_steps(left, seen)
        _draw_gradients(right, seen)
        return Picture(figure, in_words(seen))


def _draw_steps(axes: Axes, seen: Findings) -> None:
    steps = [sample.step for sample in seen.samples]
    lines = {
        "largest activation": [sample.activation for sample in seen.samples],
        "largest gradient": [sample.gradient for sample in seen.samples],
    }
    for number, (label, values) in enumerate(lines.items()):
        style: dict[str, Any] = {"ls": DASHES[number], "marker": MARKERS[number], "ms": 4}
        axes.plot(steps, _powers(values), color=COLOURS[number], lw=1.6, label=label, **style)
    if seen.scales:
        axes.plot(_powers(seen.scales), color=COLOURS[2], ls=DASHES[2], label="loss scale")
    for skip in seen.skips[:200]:
        axes.axvline(skip.step, color=QUIET, lw=0.6, alpha=0.6)
    for fault in seen.faults[:20]:
        axes.axvline(fault.step, color=COLOURS[3], lw=1.5, ls=":")
    top = math.log2(seen.format.max)
    if top < 40:
        axes.axhline(top, color=INK, lw=1, ls=":")
        corner = axes.get_yaxis_transform()
        axes.text(1.0, top, f"{seen.format.name} ends", ha="right", va="top", transform=corner)
    axes.set_xlim(-0.5, max(seen.steps, 1) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("step")
    axes.set_ylabel("power of two")
    axes.legend(fontsize=8, loc="best")
    axes.set_title("Largest numbers, by step")


def _draw_gradients(axes: Axes, seen: Findings) -> None:
    histogram = seen.gradients.histogram
    axes.bar(histogram.exponents, histogram.counts, width=0.9, color=COLOURS[1])
    lowest = math.log2(seen.format.min_subnormal)
    if lowest > -100:
        axes.axvspan(lowest - 40, lowest, color=QUIET, alpha=0.15, lw=0)
        axes.axvline(lowest, color=INK, lw=1, ls=":")
    low = min([*histogram.exponents, round(lowest) if lowest > -100 else 0])
    axes.set_xlim(low - 1, max([*histogram.exponents, low + 10]) + 1)
    axes.set_xlabel(f"power of two (grey: 0 in {seen.format.name} with no loss scale)")
    axes.set_yticks([])
    axes.set_title("Gradients")


def _powers(values: Sequence[float]) -> list[float]:
    return [math.log2(v) if v > 0 and math.isfinite(v) else math.nan for v in values]


def in_words(seen: Findings) -> str:
    """What the chart shows, for those who don't see it."""
    gradients = seen.gradients
    parts = [f"Monitor of {type(seen.model).__name__} after {seen.steps} steps."]
    if seen.samples:
        last = seen.samples[-1]
        parts.append(
            f"In step {last.step} the largest activation is {last.activation:.3g} and the largest "
            f"gradient {last.gradient:.3g}."
        )
    if seen.scales:
        parts.append(f"The loss scale is {seen.scales[-1]:g}; {len(seen.skips)} steps skipped.")
    if gradients.numbers:
        share = gradients.share(gradients.zeros + gradients.underflow)
        parts.append(f"{share:.1%} of the gradients are 0 or become 0 in {seen.format.name}.")
    parts.append(f"{len(seen.faults)} faults.")
    return " ".join(parts)


class Live:
    """Redraws the chart below a cell after a step, at most once in a while."""

    def __init__(self, seen: Findings, seconds: float) -> None:
        from IPython.core.getipython import get_ipython

        self.seen, self.seconds = seen, seconds
        self.drawn = -math.inf
        self.handle: Any = None
        shell = get_ipython()
        self.shown = shell is not None and getattr(shell, "kernel", None) is not None
        self()

    def __call__(self) -> None:
        now = time.monotonic()
        due = now - self.drawn >= self.seconds or self.seen.closed
        if not self.shown or not due:
            return
        from IPython.display import display

        drawn = picture(self.seen)
        if self.handle is None:
            self.handle = display(drawn, display_id=True)
        else:
            self.handle.update(drawn)
        self.drawn = time.monotonic()
