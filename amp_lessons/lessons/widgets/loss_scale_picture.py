"""The loss scale lab as one still picture: four of its runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
import matplotlib.ticker
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from amp_lessons.core.pictures import COLOURS, INK, QUIET, STYLE, Picture
from amp_lessons.lessons.widgets import loss_scale_runs as runs

STOPS = (0.0, 2.0, 16.0, 33.0)
"""log2 of the loss scales: nothing learns, some does, as well as FP32, and overflow."""
GROUPS = ("between", "weights")
ZONES = (
    ("becomes\n0", "#f7dfdd"),
    ("fewer\nbits", "#f6ecd9"),
    ("kept", "#e6efdc"),
    ("inf", "#f7dfdd"),
)
"""What FP16 does to a gradient, from left to right, and the colour of the ground there."""


def loss_scale_picture(exponents: Sequence[float] = STOPS) -> Picture:
    """Gradients, error and painted digits at some loss scales, a column each.

    Args:
        exponents: log2 of recorded loss scales.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(2.35 * len(exponents), 4.6), layout="constrained")
        rows = figure.subplots(
            3, len(exponents), squeeze=False, gridspec_kw={"height_ratios": [5, 4, 1.9]}
        )
        for column, exponent in enumerate(exponents):
            run = runs.run_at(exponent)
            histogram, curve, digits = rows[:, column]
            name = f"$2^{{{exponent:g}}}$" if exponent > 20 else _in_words(exponent)
            histogram.set_title(f"loss scale {name}", loc="center")
            _draw_gradients(histogram, exponent, first=column == 0)
            _draw_errors(curve, run["errors"], first=column == 0)
            _draw_digits(digits, run)
        return Picture(figure, " ".join(map(_what_shows, exponents)))


def sentence() -> str:
    """What the picture shows, for people who can't drag."""
    good = [run["exponent"] for run in runs.recorded()["runs"] if runs.trains(run)]
    first, last = f"{2 ** good[0]:.3g}", _in_words(good[-1])
    return (
        "At a loss scale of 1, every gradient becomes 0 in FP16 and the network learns nothing. "
        f"From {first} to {last} it learns as well as FP32. Above that, weight gradients overflow."
    )


def _in_words(exponent: float) -> str:
    """A loss scale as the widget writes it."""
    if exponent > 20:
        return f"2^{exponent:g}"
    return f"{2**exponent:.3g}" if exponent < 4 else f"{2**exponent:,.0f}"


def _what_shows(exponent: float) -> str:
    run, steps = runs.run_at(exponent), runs.recorded()["about"]["steps"]
    between, weights = (run["snapshots"][0][name] for name in ("between", "weights"))
    lost = f"{_share(between)} of the gradients between the layers become 0"
    if weights["inf"]:
        many = f"{weights['inf']:,} weight gradients become inf"
        after = f"{many}, and the first update breaks the network"
    else:
        after = f"after {steps} steps the error is {run['errors'][-1] * runs.UNIT:.3f}"
    return f"Loss scale {_in_words(exponent)}: {lost}; {after}."


def _share(group: dict[str, Any]) -> str:
    """How many of a group become 0: "none", "81%", "18", "all"."""
    if group["zero"] in (0, group["total"]):
        return "all" if group["zero"] else "none"
    percent = f"{group['zero'] / group['total']:.0%}"
    return f"{group['zero']:,}" if percent == "0%" else percent


def _draw_gradients(axes: Axes, exponent: float, *, first: bool) -> None:
    """The gradients between the layers and of the weights at the first step, in FP16's zones."""
    shared = runs.recorded()["fp32"]["snapshots"][0]
    found = runs.run_at(exponent)["snapshots"][0]
    low = min(shared[group]["exact"][0] for group in GROUPS) - 1
    high = runs.recorded()["format"]["overflows"] + 10
    lines = [low, *runs.recorded()["format"].values(), high]
    for left, right, (name, ground) in zip(lines, lines[1:], ZONES, strict=False):
        axes.axvspan(left, right, color=ground, lw=0)
        axes.text((left + right) / 2, 2.34, name, ha="center", va="center", fontsize=7.5)
    for base, group in zip((1.14, 0.0), GROUPS, strict=True):
        tallest = max(shared[group]["exact"][1:])
        for bars, solid in ((found[group]["found"], True), (shared[group]["exact"], False)):
            heights = np.array(bars[1:]) / tallest
            places = np.arange(len(heights)) + (bars[0] if bars else 0) + exponent
            outline: dict[str, Any] = {"facecolor": "none", "edgecolor": INK, "lw": 0.5}
            look = {"color": COLOURS[0]} if solid else outline
            axes.bar(places, heights, width=1, align="edge", bottom=base, **look)
        axes.axhline(base, color=QUIET, lw=0.6)
        if first:
            name = {"between": "between\nthe layers", "weights": "of the\nweights"}[group]
            axes.text(high - 1, base + 0.5, name, ha="right", va="center", fontsize=8)
    axes.set_xlim(low, high)
    axes.set_ylim(0, 2.6)
    axes.set_xticks([-40, -24, 0, 16], ["$2^{-40}$", "$2^{-24}$", "1", "$2^{16}$"], fontsize=8)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)


def _draw_errors(axes: Axes, errors: Sequence[int], *, first: bool) -> None:
    fp32 = np.array(runs.recorded()["fp32"]["errors"]) * runs.UNIT
    axes.plot(np.array(errors) * runs.UNIT, color=COLOURS[0], lw=2.2)
    axes.plot(fp32, color=INK, ls="--", lw=1)
    last = len(fp32) - 1
    if len(errors) <= last:
        axes.plot(len(errors) - 1, errors[-1] * runs.UNIT, "x", color=INK, ms=8, mew=2)
        axes.text(last * 0.08, errors[-1] * runs.UNIT, "inf or NaN", va="center", fontsize=8.5)
    if first:
        axes.text(last / 2, fp32[last // 2] + 0.012, "FP32", ha="center", fontsize=8.5)
        axes.set_ylabel("error")
    axes.set_ylim(0, 1.1 * fp32[0])
    axes.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(3))
    axes.tick_params(axis="y", labelleft=first)
    axes.set_xticks([0, last / 2, last], ["0", "step", str(last)], fontsize=8)
    axes.grid(True, axis="y", color="#e5e7ea", lw=0.6)


def _draw_digits(axes: Axes, run: dict[str, Any]) -> None:
    """What the network paints after the last step, on two lines."""
    count, tall, wide = runs.recorded()["about"]["picture"]
    axes.set_axis_off()
    if len(run["snapshots"]) < len(runs.recorded()["about"]["snapshots"]):
        axes.text(0.5, 0.5, "NaN", ha="center", va="center", fontsize=8.5)
        return
    levels = [runs.LEVELS.index(level) for level in run["snapshots"][-1]["pictures"]]
    pictures = np.array(levels).reshape(count, tall, wide) / (len(runs.LEVELS) - 1)
    spaced = np.pad(pictures, ((0, 0), (0, 1), (0, 1)))
    lines = spaced.reshape(2, count // 2, tall + 1, wide + 1).transpose(0, 2, 1, 3)
    axes.imshow(lines.reshape(2 * (tall + 1), -1), cmap="gray_r", vmin=0, vmax=1)
