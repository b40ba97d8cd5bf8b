"""The course's figures, in one style: readable in light and dark themes, without colour, and by
ear. Each figure is drawn from numbers that come from elsewhere (`formats`, `scaling`, a lesson's
own run) and is shown with a text that says what it shows.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib
import matplotlib.ticker
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from amp_lessons.amp.speed.roofline_plot import roofline as roofline
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
from amp_lessons.core.sizes import UNITS

if TYPE_CHECKING:
    from torch import Tensor

    from amp_lessons.amp.memory.training import BytesAlive, Memory
    from amp_lessons.amp.numbers.formats import Format
    from amp_lessons.amp.scaling.loss_scale import ExponentHistogram, Fate
    from amp_lessons.amp.scaling.scaler_log import ScalerRecord

# The same run has the same colour and dashes in every figure of the course.
RUNS = {"FP32": 0, "FP16 without protection": 1, "mixed precision": 2}
RUNS |= {"scale from 2^16": 2, "with zero_grad": 2}  # that same run, under other names
RUNS |= {"scale, FP32 loss": 3, "FP16 weights": 3, "BF16 weights": 4}
RUNS |= {"four pieces": 2, "after real steps": 2, "not interrupted": 2}
FIELDS = {"sign": "#a8326e", "exponent": "#1a5fa8", "mantissa": "#3f6e00"}
"""The colours of a number's fields, which are those of the bit explorer (widgets.css)."""
_CARD = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}  # keeps labels off the lines


def bit_layouts(formats: Sequence[Format]) -> Picture:
    """How many bits each format spends on sign, exponent and mantissa."""
    with figure_of(height=0.45 * len(formats) + 0.9) as (figure, axes):
        widest = max(f.bits for f in formats)
        for row, f in enumerate(formats):
            left = 0
            parts = {"sign": 1, "exponent": f.exponent_bits, "mantissa": f.mantissa_bits}
            for label, width in parts.items():
                axes.barh(
                    row, width, left=left, color=FIELDS[label], edgecolor="white", height=0.72
                )
                for bit in range(1, width):
                    axes.plot([left + bit] * 2, [row - 0.36, row + 0.36], color="white", lw=0.5)
                text = label if width >= 6 else label[0]
                axes.text(
                    left + width / 2,
                    row,
                    f"{text} {width}" if width > 1 else text,
                    ha="center",
                    va="center",
                    color="white",
                    fontsize=8.5,
                    fontweight="bold",
                )
                left += width
            axes.text(left + 0.4, row, f"{f.bits} bits", va="center", color=QUIET, fontsize=9)
        axes.set_yticks(range(len(formats)), [f.name for f in formats])
        axes.tick_params(axis="y", length=0, labelsize=10, labelcolor=INK)
        axes.invert_yaxis()
        axes.set_xlim(0, widest + 4)
        axes.set_xticks([])
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
        axes.set_title("Where the bits go: s sign, e exponent, m mantissa")
        sizes = "; ".join(
            f"{f.name} 1 sign, {f.exponent_bits} exponent, {f.mantissa_bits} mantissa"
            for f in formats
        )
        return Picture(figure, f"Bars of sign, exponent and mantissa bits: {sizes}.")


def ranges(formats: Sequence[Format]) -> Picture:
    """From the smallest subnormal to the largest number, on a scale of powers of two."""
    with figure_of(height=0.45 * len(formats) + 1.3) as (figure, axes):
        words = []
        for row, f in enumerate(formats):
            low, normal, high = (float(np.log2(x)) for x in (f.min_subnormal, f.min_normal, f.max))
            axes.barh(row, high - normal, left=normal, height=0.6, color=COLOURS[0])
            axes.barh(
                row, normal - low, left=low, height=0.6, color="white", edgecolor=COLOURS[0],
                hatch="////",
            )  # fmt: skip
            axes.text(high + 3, row, f"max {f.max:.5g}", va="center", fontsize=9, color=QUIET)
            words.append(f"{f.name} 2^{low:.0f} to {f.max:.5g}")
        axes.axvline(0, color=QUIET, lw=1, ls=":")
        axes.text(0, -0.75, "1.0", ha="center", fontsize=9, color=QUIET)
        axes.set_yticks(range(len(formats)), [f.name for f in formats])
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.invert_yaxis()
        axes.set_xlim(-160, 178)
        axes.set_xticks(range(-140, 141, 20), [f"$2^{{{e}}}$" for e in range(-140, 141, 20)])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("magnitude (hatched: subnormal numbers, with fewer and fewer bits)")
        axes.set_title("Range: what each format can hold")
        return Picture(figure, "Range of each format: " + "; ".join(words) + ".")


def spacing(formats: Sequence[Format], low: int = -26, high: int = 17) -> Picture:
    """The distance between neighbouring numbers, by magnitude: a staircase for each format."""
    with figure_of(height=3.6) as (figure, axes):
        x = 2.0 ** np.arange(low, high, 0.05)
        for i, f in enumerate(formats):
            inside = x[(x >= f.min_subnormal) & (x <= f.max)]
            steps = [f.ulp(float(v)) for v in inside]
            axes.plot(inside, steps, ls=DASHES[i], color=COLOURS[i], label=f.name, lw=1.8)
            ends_early = f.max < 2.0 ** (high - 3)  # beside its end there are other curves
            x_text, y_text = (1, 32) if ends_early else (1.3, 2)
            axes.text(
                inside[-1] * x_text,
                steps[-1] * y_text,
                f.name,
                color=COLOURS[i],
                bbox=_CARD,
                ha="right" if ends_early else "left",
                va="center",
            )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xlim(2.0**low, 2.0 ** (high + 3))
        axes.set_xlabel("magnitude of the number")
        axes.set_ylabel("ulp: distance to the next")
        axes.grid(True, color="#e5e7ea", lw=0.6)
        axes.set_title("Spacing: the step doubles at each power of two")
        names = ", ".join(f.name for f in formats)
        flat = [f.name for f in formats if f.min_normal > 2.0**low]
        ends = f" Those of {', '.join(flat)} are flat at their left ends." if flat else ""
        return Picture(
            figure,
            f"Distance between neighbouring numbers against magnitude for {names}, both axes in "
            f"powers of two: rising staircases, one step at each power of two.{ends}",
        )


def number_lines(formats: Sequence[Format], low: float, high: float) -> Picture:
    """Every number of some small formats between two limits, as ticks on a line."""
    with figure_of(height=0.6 * len(formats) + 0.9) as (figure, axes):
        counts = []
        for row, f in enumerate(formats):
            values = f.decode(np.arange(1 << f.bits))
            values = np.unique(values[np.isfinite(values)])
            values = values[(values >= low) & (values <= high)]
            axes.hlines(row, low, high, color="#d5d9de", lw=1)
            axes.vlines(values, row - 0.3, row + 0.3, color=COLOURS[row], lw=1.1)
            counts.append(f"{f.name} has {len(values)}")
        axes.set_yticks(range(len(formats)), [f.name for f in formats])
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.invert_yaxis()
        axes.spines["left"].set_visible(False)
        axes.set_title(f"Every number between {low:g} and {high:g}")
        return Picture(
            figure,
            f"Ticks for every number between {low:g} and {high:g}: {', '.join(counts)}. "
            "The ticks are dense near zero and twice as far apart after each power of two.",
        )


def rescue(value: float, scale: float, format: Format) -> Picture:
    """A number below the range of a format, and where a scale moves it."""
    with figure_of(height=2.1) as (figure, axes):
        low, normal, high = (
            float(np.log2(x)) for x in (format.min_subnormal, format.min_normal, format.max)
        )
        axes.axvspan(normal, high, color=COLOURS[0], alpha=0.25)
        axes.axvspan(low, normal, facecolor="white", edgecolor=COLOURS[0], hatch="///", alpha=0.6)
        before, after = float(np.log2(value)), float(np.log2(value * scale))
        axes.annotate(
            "",
            (after, 0.42),
            (before, 0.42),
            arrowprops={"arrowstyle": "-|>", "color": COLOURS[1], "lw": 2},
        )
        axes.plot([before], [0.42], marker="x", ms=9, mew=2.5, color=COLOURS[1])
        axes.plot([after], [0.42], marker="o", ms=8, color=COLOURS[1])
        axes.text(before - 0.4, 0.62, "becomes 0", ha="right")
        axes.text(after, 0.62, "survives", ha="center")
        middle = (before + after) / 2
        axes.text(middle, 0.2, f"times $2^{{{after - before:.0f}}}$", ha="center", bbox=_CARD)
        axes.text((low + normal) / 2, 0.87, "subnormal", ha="center", bbox=_CARD, fontsize=9)
        axes.text((normal + high) / 2, 0.87, f"normal {format.name}", ha="center", fontsize=9)
        axes.set_ylim(0, 1)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        ticks = range(-32, 17, 4)
        axes.set_xlim(-33, 17)
        axes.set_xticks(ticks, [f"$2^{{{e}}}$" for e in ticks])
        axes.set_title("Loss scaling moves a gradient into range")
        return Picture(
            figure,
            f"A gradient of 2^{before:.0f} lies below the smallest {format.name} number, "
            f"2^{low:.0f}, and becomes zero. Times 2^{after - before:.0f} it is 2^{after:.0f} and "
            "survives.",
        )


def gradient_histogram(histogram: ExponentHistogram, format: Format, scale: float = 1.0) -> Picture:
    """Gradients by binary exponent, before and after a scale, on a format's range."""
    with figure_of(height=3.0) as (figure, axes):
        exponents, counts = np.array(histogram.exponents), np.array(histogram.counts)
        shift = round(float(np.log2(scale)))
        low, normal, high = (
            float(np.log2(x)) for x in (format.min_subnormal, format.min_normal, format.max)
        )
        axes.axvspan(normal, high, color=COLOURS[0], alpha=0.15)
        axes.axvspan(low, normal, facecolor="white", edgecolor=COLOURS[0], hatch="///", alpha=0.35)
        axes.bar(
            exponents + 0.5, counts, width=0.9, color=COLOURS[1], label="as they are", hatch="..",
            edgecolor="white",
        )  # fmt: skip
        words = (
            f"{counts.sum()} gradients with exponents {exponents[0]} to {exponents[-1]} "
            f"(another {histogram.zeros} are zero)"
        )
        if shift:
            axes.bar(
                exponents + shift + 0.5, counts, width=0.9, color=COLOURS[2],
                label=f"times $2^{{{shift}}}$",
            )  # fmt: skip
            words += f", and the same shifted by {shift}"
            axes.legend(loc="upper left")
        top = counts.max() * 1.28
        axes.set_ylim(0, top)
        axes.text((low + normal) / 2, top * 0.93, "subnormal", ha="center", bbox=_CARD, fontsize=9)
        axes.text((normal + high) / 2, top * 0.93, f"normal {format.name}", ha="center", fontsize=9)
        axes.set_xlim(min(exponents[0], low) - 8, high + 3)
        axes.set_xlabel("binary exponent: $2^e$ to $2^{e+1}$")
        axes.set_ylabel("gradients")
        axes.set_title(f"Gradients on the range of {format.name}")
        return Picture(figure, f"Histogram of {words}, on the range of {format.name}.")


def _apart(heights: Sequence[float], gap: float) -> list[float]:
    """The same heights, moved up where two would be closer than ``gap``: labels do not overlap."""
    moved = list(heights)
    order = sorted(range(len(moved)), key=moved.__getitem__)
    for below, above in itertools.pairwise(order):
        moved[above] = max(moved[above], moved[below] + gap)
    return moved


def curves(
    series: Mapping[str, Sequence[float]], *, title: str, xlabel: str, ylabel: str, alt: str
) -> Picture:
    """One line for each named series, told apart by colour, dashes and a label at its end."""
    with figure_of(height=3.2) as (figure, axes):
        _draw(axes, series, ylabel)
        axes.set_xlabel(xlabel)
        axes.set_title(title)
        return Picture(figure, alt, data=series)


def _draw(axes: Axes, series: Mapping[str, Sequence[float]], ylabel: str) -> None:
    """The lines of `curves`, with room for their labels on the right."""
    longest = max(len(values) for values in series.values())
    free = (i for i in range(1, len(COLOURS)) if i not in map(RUNS.get, series))
    styles = [RUNS[name] if name in RUNS else next(free) for name in series]
    for i, values in zip(styles, series.values(), strict=True):
        axes.plot(values, ls=DASHES[i], color=COLOURS[i], lw=2)
    low, high = axes.get_ylim()
    heights = _apart([values[-1] for values in series.values()], 0.07 * (high - low))
    for i, height, (name, values) in zip(styles, heights, series.items(), strict=True):
        end = len(values) + longest * 0.01
        axes.text(end, height, name, color=COLOURS[i], va="center")
    axes.set_xlim(0, longest * 1.22)
    axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= longest])
    axes.set_ylabel(ylabel)
    axes.grid(True, axis="y", color="#e5e7ea", lw=0.6)


def training(
    series: Mapping[str, Sequence[float]], *, title: str, ylabel: str = "loss", xlabel: str = "step"
) -> Picture:
    """Curves of several trainings, with an alt text made of where each begins and ends."""
    words = [f"{name} goes from {v[0]:.3f} to {v[-1]:.3f}" for name, v in series.items()]
    length = max(len(values) for values in series.values())
    over = f"over {length} steps" if xlabel == "step" else f"by {xlabel}"
    alt = f"{title}. {ylabel.capitalize()} {over}: {', '.join(words)}."
    return curves(series, title=title, xlabel=xlabel, ylabel=ylabel, alt=alt)


def scaled_training(
    series: Mapping[str, Sequence[float]],
    records: Sequence[ScalerRecord],
    *,
    title: str,
    ylabel: str = "loss",
) -> Picture:
    """Curves of trainings, and below them the scale that each step of the last one used."""
    words = [f"{name} goes from {v[0]:.3f} to {v[-1]:.3f}" for name, v in series.items()]
    exponents = [float(np.log2(record.used)) for record in records]
    skipped = [record.step for record in records if record.skipped]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.0, 4.4), layout="constrained")
        above, below = figure.subplots(2, 1, height_ratios=(3, 2))
        _draw(above, series, ylabel)
        above.set_title(title)
        above.set_xlim(left=-0.01 * len(records))  # a mark at step 0 beside the axis, not on it
        _draw_scale(below, exponents, skipped)
        below.set_xlim(above.get_xlim())
        below.set_xticks(above.get_xticks())
        return Picture(
            figure,
            f"{title}. {ylabel.capitalize()} over {len(records)} steps: {', '.join(words)}. Below, "
            f"{_scale_in_words(exponents, skipped)}",
            data={**series, "exponent of the scale": exponents},
        )


def _draw_scale(axes: Axes, exponents: Sequence[float], skipped: Sequence[int]) -> None:
    """A scale by its exponent, step by step, and a mark for each skipped step."""
    last, span = len(exponents) - 1, max(exponents) - min(exponents) or 6
    low = min(exponents) - 0.16 * span
    axes.step(range(len(exponents)), exponents, where="mid", color=INK, lw=1.6)
    axes.plot(skipped, [low] * len(skipped), ls="", marker="|", color=COLOURS[1], ms=9, mew=1.6)
    height, _ = _apart([exponents[-1], low], 0.14 * span)
    axes.text(last * 1.015 + 1, height, "scale", color=INK, va="center")
    if skipped:
        axes.text(last * 1.015 + 1, low, "skipped steps", color=COLOURS[1], va="center")
    axes.yaxis.set_major_locator(matplotlib.ticker.MaxNLocator(4, integer=True))
    axes.yaxis.set_major_formatter(lambda exponent, _: f"$2^{{{exponent:.0f}}}$")
    axes.set_xlabel("step")
    axes.set_ylabel("scale")
    axes.grid(True, axis="y", color="#e5e7ea", lw=0.6)


def _scale_in_words(exponents: Sequence[float], skipped: Sequence[int]) -> str:
    """A scale's way for somebody who cannot see it. Steps are numbered from 0."""
    first, last, low = exponents[0], exponents[-1], min(exponents)
    ends = f"the scale begins at 2^{first:.0f}"
    ends += f", falls to 2^{low:.0f}" if low < min(first, last) else ""
    ends += f" and ends at 2^{last:.0f}"
    if not skipped:
        return f"{ends}. No step is skipped."
    if len(skipped) == 1:
        return f"{ends}. Step {skipped[0]} is skipped."
    if skipped[-1] - skipped[0] == len(skipped) - 1:
        return f"{ends}. Steps {skipped[0]} to {skipped[-1]} are skipped."
    return f"{ends}. {len(skipped)} steps are skipped, the first is step {skipped[0]}."


def paintings(rows: Mapping[str, Tensor]) -> Picture:
    """The first ten pictures of each row, as they are or as a network painted them.

    Args:
        rows: for each label, pictures of shape (n, 64) with values from 0 to 1, n at least 10. The
            first row is what the others try to paint; the figure's text says how far off they are.
    """
    originals = next(iter(rows.values()))[:10].detach().float()
    words = [f"Ten pictures in {len(rows)} rows. The first row: {next(iter(rows))}"]
    with figure_of(height=0.75 * len(rows) + 0.1) as (figure, axes):
        greys = {}
        for row, (name, pictures) in enumerate(rows.items()):
            shown = np.asarray(pictures[:10].detach().float().cpu()).reshape(10, 8, 8)
            greys[name] = shown.mean(axis=(1, 2)).tolist()
            if row:
                off = (pictures[:10].detach().float() - originals).abs().mean().item()
                words.append(f"{name}: on average {off:.2f} per pixel from the first row")
            for column, digit in enumerate(shown):
                place = (column, column + 0.92, row + 0.92, row)
                axes.imshow(digit, cmap="gray_r", vmin=0, vmax=1, extent=place)
            axes.text(-0.2, row + 0.46, name, ha="right", va="center")
        axes.set_xlim(0, 10)
        axes.set_ylim(len(rows), 0)
        axes.set_axis_off()
        return Picture(figure, ". ".join(words) + ".", greys)


def error_by_scale(
    exponents: Sequence[int], series: Mapping[str, Sequence[float]], *, title: str
) -> Picture:
    """The relative error of something by the power of two that its scale is off by.

    Args:
        exponents: of the factor between the scale and the one that uses the whole range.
        series: for each format the errors, one an exponent; all positive.
        title: of the figure.
    """
    with figure_of(height=3.2) as (figure, axes):
        words = []
        for i, (name, errors) in enumerate(series.items()):
            axes.plot(
                exponents, errors, ls=DASHES[i], color=COLOURS[i], lw=2, marker=MARKERS[i], ms=4
            )
            axes.text(
                exponents[0] - 0.3, errors[0], name, color=COLOURS[i], ha="right", va="center"
            )
            floor = [
                e for e, error in zip(exponents, errors, strict=True) if error < 1.1 * min(errors)
            ]
            words.append(f"{name} has its lowest error from 2^{floor[0]} to 2^{floor[-1]}")
        axes.axvline(0, color=QUIET, lw=1, ls=":")
        axes.set_xlim(exponents[0] - 5, exponents[-1] + 0.5)
        axes.set_yscale("log")
        ticks = [e for e in exponents if e % 4 == 0]
        axes.set_xticks(ticks, [f"$2^{{{e}}}$" for e in ticks])
        axes.set_xlabel("scale, as a multiple of format.max / amax")
        axes.set_ylabel("relative error")
        axes.set_title(title)
        alt = f"Relative error by scale, both logarithmic: {'; '.join(words)}."
        return Picture(figure, alt, {name: list(errors) for name, errors in series.items()})


def where_the_inf_is(ranks: int, parameters: int, bad: int) -> Picture:
    """Which gradients each rank holds under DDP and FSDP2, when one of them is inf.

    Args:
        ranks: how many; their shards are of one size.
        parameters: how many gradients to draw.
        bad: the number of the one that is inf, from 0.
    """
    owner = [number * ranks // parameters for number in range(parameters)]
    with figure_of(height=0.5 * ranks + 1.2) as (figure, axes):
        for panel, (name, shared) in enumerate((("DDP", True), ("FSDP2", False))):
            left = panel * (parameters + 3)
            for rank in range(ranks):
                axes.text(left - 0.75, rank, f"rank {rank}", ha="right", va="center")
                for number in range(parameters):
                    held = shared or owner[number] == rank
                    is_bad = held and number == bad
                    axes.text(
                        left + number, rank, "inf" if is_bad else "g" if held else " ", fontsize=9,
                        ha="center", va="center", color="white", fontweight="bold",
                        bbox={"boxstyle": "square,pad=0.5", "ls": "-" if held else ":",
                              "facecolor": COLOURS[1 if is_bad else 0] if held else "white",
                              "edgecolor": INK if is_bad else QUIET},
                    )  # fmt: skip
            middle = left + (parameters - 1) / 2
            held_by = "every rank holds every gradient" if shared else "each rank holds its shard"
            axes.text(middle, -0.85, f"{name}: {held_by}", ha="center", fontweight="bold")
        axes.set_xlim(-2.2, 2 * parameters + 3)
        axes.set_ylim(ranks - 0.4, -1.3)
        axes.axis("off")
        return Picture(
            figure,
            f"Two panels with {ranks} ranks and {parameters} gradients, one of them inf. Under DDP "
            "every rank holds all gradients and so the inf. Under FSDP2 each rank holds its shard, "
            f"and only rank {owner[bad]} has the inf.",
        )


def reaches(ends: Mapping[str, float], *, title: str, xlabel: str) -> Picture:
    """A bar from 0 for each name, as far as something holds; the longest holds to the edge.

    Args:
        ends: where each bar ends, in the unit of ``xlabel``.
        title: of the figure.
        xlabel: what is measured.
    """
    farthest = max(ends.values())
    with figure_of(height=0.42 * len(ends) + 1.1) as (figure, axes):
        for row, end in enumerate(ends.values()):
            style = 0 if end == farthest else 1
            axes.barh(row, end, height=0.6, color=COLOURS[style], hatch=("", "///")[style])
            text = f"to {end:g} and on" if end == farthest else f"to {end:g}"
            axes.text(end + farthest * 0.01, row, text, va="center", color=QUIET, fontsize=9)
        axes.set_yticks(range(len(ends)), list(ends))
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.invert_yaxis()
        axes.set_xlim(0, farthest * 1.2)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(xlabel)
        axes.set_title(title)
        shown = "; ".join(f"{name} to {end:g}" for name, end in ends.items())
        return Picture(figure, f"{title}, in bars by {xlabel.split(':')[0]}: {shown}.")


def dtype_flow(parts: Sequence[tuple[str, str]], title: str) -> Picture:
    """The parts of a computation from left to right, each coloured by the format it runs in.

    Args:
        parts: (label, format name) in order; one format has one colour and one edge.
        title: of the figure.
    """
    names = list(dict.fromkeys(name for _, name in parts))
    with figure_of(height=1.7) as (figure, axes):
        for place, (label, name) in enumerate(parts):
            style = names.index(name)
            axes.text(
                place, 0, f"{label}\n{name}", ha="center", va="center", color="white",
                fontsize=9, linespacing=1.35, fontweight="bold",
                bbox={"boxstyle": "round,pad=0.45" if style == 0 else "square,pad=0.45",
                      "facecolor": COLOURS[style], "edgecolor": INK, "ls": DASHES[style]},
            )  # fmt: skip
            if place:
                axes.annotate(
                    "", (place - 0.42, 0), (place - 0.58, 0),
                    arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.5},
                )  # fmt: skip
        axes.set_xlim(-0.55, len(parts) - 0.45)
        axes.set_ylim(-1, 1)
        axes.axis("off")
        axes.set_title(title)
        words = ", then ".join(f"{' '.join(label.split())} in {name}" for label, name in parts)
        return Picture(figure, f"{title}: {words}.")


def fates_by_scale(counted: Sequence[Fate], format: Format) -> Picture:
    """What becomes of gradients in a format, by loss scale: shares that fill the height.

    Args:
        counted: as `scaling.fates` gives them, for ascending powers of two.
        format: the format that they were counted in.
    """
    with figure_of(height=3.0) as (figure, axes):
        exponents = [round(float(np.log2(f.scale))) for f in counted]
        kinds = ("zero", "subnormal", "normal", "overflow")
        shares = np.array([[getattr(f, kind) for f in counted] for kind in kinds], dtype=float)
        shares = shares / shares.sum(axis=0)
        colours = (COLOURS[1], COLOURS[4], COLOURS[0], COLOURS[3])
        labels = ("becomes 0", "subnormal", "normal", "overflows")
        drawn = axes.stackplot(exponents, shares, labels=labels, colors=colours, edgecolor="white")
        for area, hatch in zip(drawn, ("xx", "///", "", ".."), strict=True):
            area.set_hatch(hatch)
        axes.set_xlim(exponents[0], exponents[-1])
        axes.set_ylim(0, 1)
        axes.set_yticks([0, 0.5, 1], ["0", "half", "all"])
        axes.set_xlabel("loss scale")
        ticks = exponents[::8]
        axes.set_xticks(ticks, [f"$2^{{{e}}}$" for e in ticks])
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        axes.set_title(f"What becomes of the gradients in {format.name}")
        safe = [
            e for e, f in zip(exponents, counted, strict=True) if f.zero == 0 and f.overflow == 0
        ]
        window = f"from 2^{safe[0]} to 2^{safe[-1]} none" if safe else "at no scale none"
        return Picture(
            figure,
            f"Shares of the gradients that become zero, subnormal, normal or overflow in "
            f"{format.name}, by loss scale from 2^{exponents[0]} to 2^{exponents[-1]}: {window} "
            "is lost at either end.",
        )


def scaler_path(records: Sequence[ScalerRecord], *, title: str) -> Picture:
    """The scale that each step of a run used, with the skipped steps marked below it."""
    exponents = [float(np.log2(record.used)) for record in records]
    skipped = [record.step for record in records if record.skipped]
    with figure_of(height=3.0) as (figure, axes):
        _draw_scale(axes, exponents, skipped)
        axes.set_xlim(-1, len(records) * 1.14)
        axes.set_title(title)
        words = _scale_in_words(exponents, skipped)
        return Picture(figure, f"{title}. Over {len(records)} steps, {words}")


def memory_bars(memories: Mapping[str, Memory], *, title: str) -> Picture:
    """What the bytes of some training steps are for: one stacked bar each, on one scale."""
    parts = ("parameters", "gradients", "optimizer", "data", "activations", "cast_cache")
    hatches = ("", "///", "xx", "--", "||", "oo")
    top = max(memory.total for memory in memories.values())
    unit, divisor = next((u, 1024**n) for u, n in UNITS if top >= 1024**n)
    with figure_of(height=0.55 * len(memories) + 1.5) as (figure, axes):
        for row, memory in enumerate(memories.values()):
            left = 0.0
            for part, colour, hatch in zip(parts, COLOURS, hatches, strict=True):
                label = part.replace("_", " ") if row == 0 else None
                width = getattr(memory, part) / divisor
                axes.barh(
                    row, width, left=left, height=0.7, color=colour, hatch=hatch, label=label,
                    edgecolor="white",
                )  # fmt: skip
                left += width
            axes.text(left + top / divisor * 0.01, row, f"{left:.3g}", va="center")
        axes.set_yticks(range(len(memories)), list(memories))
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.invert_yaxis()
        axes.set_xlim(0, top / divisor * 1.08)
        axes.set_xlabel(unit)
        axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.35), ncols=6, fontsize=8.5)
        axes.set_title(title)
        words = "; ".join(
            f"{name} {memory.total / divisor:.3g}, of which activations "
            f"{memory.activations / divisor:.3g} and cast cache {memory.cast_cache / divisor:.3g}"
            for name, memory in memories.items()
        )
        return Picture(figure, f"Stacked bars of bytes, in {unit}: {words}.")


def memory_over_time(
    runs: Mapping[str, BytesAlive], *, title: str, limit: tuple[str, int] | None = None
) -> Picture:
    """The bytes that are alive through the marked phases of some runs, each phase equally wide.

    Args:
        runs: for each label what was followed; all have the same phases, three for a training step.
        title: of the figure.
        limit: a name and a number of bytes, drawn as a horizontal line.
    """
    names = [name for name, _ in next(iter(runs.values())).phases]
    top = max([run.peak for run in runs.values()] + ([limit[1]] if limit else []))
    unit, divisor = next((u, 1024**n) for u, n in UNITS if top >= 1024**n)
    with figure_of(height=3.4) as (figure, axes):
        peaks = {}
        for number, (name, run) in enumerate(runs.items()):
            style = RUNS.get(name, number)
            x, y = _by_phase(run)
            axes.plot(x, y / divisor, ls=DASHES[style], color=COLOURS[style], lw=1.8, label=name)
            peaks[name] = [peak / divisor for _, peak in run.peaks()]
        if limit:
            axes.axhline(limit[1] / divisor, color=INK, lw=1, ls=":")
            corner = (len(names), limit[1] / divisor)
            axes.annotate(limit[0], corner, (-3, 3), textcoords="offset points", ha="right")
        for place, name in enumerate(names):
            if place:
                axes.axvline(place, color="#e5e7ea" if place % 3 else QUIET, lw=0.8)
            below: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "ha": "center"}
            axes.text(place + 0.5, -0.08, name, fontsize=9, **below)
            if place % 3 == 1:
                step = f"step {place // 3 + 1}"
                axes.text(place + 0.5, -0.16, step, fontsize=9, color=QUIET, **below)
        axes.set_xlim(0, len(names))
        axes.set_ylim(0, top / divisor * 1.12)
        axes.set_xticks([])
        axes.set_ylabel(unit)
        axes.grid(True, axis="y", color="#e5e7ea", lw=0.6)
        figure.legend(loc="outside right upper", fontsize=9)
        axes.set_title(title)
        steps = [f"{name} in step {place // 3 + 1}" for place, name in enumerate(names)]
        words = "; ".join(
            f"{name} has at most "
            + ", ".join(f"{p:.3g} in {step}" for p, step in zip(high, steps, strict=True))
            for name, high in peaks.items()
        )
        ceiling = f" {limit[0]}: {limit[1] / divisor:.3g}." if limit else ""
        alt = f"{title}. {unit} alive over time. {words}.{ceiling}"
        return Picture(figure, alt, data=peaks)


def _by_phase(run: BytesAlive, columns: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """A run's bytes with phase n between x = n and n + 1, thinned out to its highest values."""
    x: list[float] = []
    y: list[float] = []
    start = 0
    for phase, (_, end) in enumerate(run.phases):
        parts = np.array_split(run.values[start:end], min(columns, end - start))
        x += [phase + (column + 0.5) / len(parts) for column in range(len(parts))]
        y += [float(part.max()) for part in parts]
        start = end
    return np.array(x), np.array(y)
