"""Figures of block-scaled formats: where tensors lie, what an outlier spoils, errors by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from amp_lessons.amp.numbers.formats import Format
from amp_lessons.core.pictures import (
    COLOURS,
    DASHES,
    INK,
    MARKERS,
    QUIET,
    STYLE,
    Picture,
    figure_of,
)

SPOILT = 0.2
"""From this relative error on, eight numbers beside each other count as spoilt."""


def windows(tensors: Mapping[str, Tensor], format: Format, *, title: str) -> Picture:
    """Where the magnitudes of some tensors lie, on a format's range, both as powers of two.

    Args:
        tensors: for each label one. Zeros are left out, and so is the smallest percent.
        format: whose range is drawn behind them.
        title: of the figure.
    """
    with figure_of(height=0.5 * len(tensors) + 1.5) as (figure, axes):
        edges = (format.min_subnormal, format.min_normal, format.max)
        low, normal, high = (float(np.log2(edge)) for edge in edges)
        axes.axvspan(normal, high, color=COLOURS[0], alpha=0.2)
        axes.axvspan(low, normal, facecolor="white", edgecolor=COLOURS[0], hatch="///", alpha=0.4)
        axes.text((low + high) / 2, -0.75, format.name, ha="center", color=COLOURS[0])
        found = {}
        for row, (name, tensor) in enumerate(tensors.items()):
            sizes = tensor.detach().abs().flatten()
            sizes = sizes[sizes > 0]
            small = float(np.log2(sizes.quantile(0.01).item()))
            large = float(np.log2(sizes.max().item()))
            axes.barh(row, large - small, left=small, height=0.45, color=COLOURS[1])
            found[name] = [small, large]
        axes.set_yticks(range(len(tensors)), list(tensors))
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.set_ylim(len(tensors) - 0.5, -1.1)
        ends = [*(end for pair in found.values() for end in pair), low, high]
        first, last = 5 * int(min(ends) // 5), 5 * int(-(-max(ends) // 5))
        axes.set_xlim(first, last)
        ticks = range(first, last + 1, 5)
        axes.set_xticks(ticks, [f"$2^{{{tick}}}$" for tick in ticks])
        axes.set_xlabel("magnitude (hatched: subnormal numbers)")
        axes.set_title(title)
        words = "; ".join(f"{name} 2^{a:.0f} to 2^{b:.0f}" for name, (a, b) in found.items())
        alt = f"{format.name} reaches from 2^{low:.0f} to 2^{high:.0f}. Magnitudes: {words}."
        return Picture(figure, alt, found)


def spoilt(matrix: Tensor, stored: Mapping[str, Tensor], *, title: str, dot: int = 8) -> Picture:
    """A map of a matrix for each way to store it: which parts of it are wrong.

    Args:
        matrix: as it was, (m, k), both multiples of ``dot``.
        stored: for each label what is left of it.
        title: of the figure.
        dot: rows and columns that make a dot. It is dark if one of its rows is off by `SPOILT`.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.0, 1.9), layout="constrained")
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK)
        shares = {}
        for place, (name, left) in enumerate(stored.items()):
            parts = matrix.unflatten(1, (-1, dot))
            error = (left.unflatten(1, (-1, dot)) - parts).norm(dim=2) / parts.norm(dim=2)
            wrong = error >= SPOILT
            shares[name] = [wrong.double().mean().item()]
            dots = wrong.unflatten(0, (-1, dot)).any(1)
            axes = figure.add_subplot(1, len(stored), place + 1)
            axes.imshow(
                dots.numpy(),
                cmap=ListedColormap(["#dde3ea", COLOURS[1]]),
                vmin=0,
                vmax=1,
                aspect="equal",
            )
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_title(name, fontsize=9.5, fontweight="normal")
            axes.set_xlabel(f"{shares[name][0]:.2%} spoilt", fontsize=9.5)
            for spine in axes.spines.values():
                spine.set_visible(False)
        words = "; ".join(f"{name} {share[0]:.2%}" for name, share in shares.items())
        alt = f"{title}. Maps of one matrix, with the share of it that is spoilt: {words}."
        return Picture(figure, alt, shares)


def by_size(
    sizes: Sequence[int],
    series: Mapping[str, Sequence[float]],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    level: float | None = None,
    log: bool = True,
) -> Picture:
    """Curves over sizes that are powers of two, with a label at the end of each.

    Args:
        sizes: of the horizontal axis, ascending.
        series: for each label the values, one a size.
        title, xlabel, ylabel: of the figure.
        level: a value to draw as a dotted line.
        log: whether the vertical axis is logarithmic.
    """
    with figure_of(height=3.2) as (figure, axes):
        words = []
        for i, (name, values) in enumerate(series.items()):
            axes.plot(sizes, values, ls=DASHES[i], color=COLOURS[i], lw=2, marker=MARKERS[i], ms=4)
            end = (sizes[-1] * 1.12, values[-1])
            axes.text(*end, name, color=COLOURS[i], va="center")
            words.append(f"{name} from {values[0]:.2g} to {values[-1]:.2g}")
        if level is not None:
            axes.axhline(level, color=QUIET, lw=1, ls=":")
        axes.set_xscale("log", base=2)
        axes.set_xlim(sizes[0] / 1.1, sizes[-1] * (sizes[-1] / sizes[0]) ** 0.35)
        axes.set_xticks(list(sizes), [f"{size:,}" for size in sizes])
        axes.minorticks_off()
        if log:
            axes.set_yscale("log")
        axes.set_xlabel(xlabel)
        axes.set_ylabel(ylabel)
        axes.grid(True, axis="y", color="#e5e7ea", lw=0.6)
        axes.set_title(title)
        alt = f"{title}. {ylabel} by {xlabel}, {sizes[0]:,} to {sizes[-1]:,}: {'; '.join(words)}."
        return Picture(figure, alt, {name: list(values) for name, values in series.items()})
