"""What mixed precision gave on other people's GPUs: five figures of published runs.

Each takes rows that `speed.published` read and that its caller chose, in the style of `plots`. A
kind of GPU has one colour and one marker in all of them; an open marker says "not like for like".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from amp_lessons.amp.speed.published import (
    AccuracyPair,
    FourRates,
    GpuMedian,
    InferencePair,
    TrainingPair,
)
from amp_lessons.amp.speed.records import RecordError
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

T = TypeVar("T")
K = TypeVar("K")
GPUS = {"V100": 0, "A100": 1, "T4": 2}
"""The place of each kind of GPU among the colours, dashes and markers."""
GRID: dict[str, Any] = {"color": "#e5e7ea", "lw": 0.6}
ROW = 0.25  # inches for each name of a figure with one row a name


def dumbbell(
    pairs: Iterable[TrainingPair], *, title: str = "What mixed precision gave in training"
) -> Picture:
    """For each model the speed-up on a V100 beside that on an A100, sorted by the A100's.

    Args:
        pairs: at most one for each name and kind of GPU, such as those of ``best_pairs()``. A
            marker is filled where the pair is like for like.
        title: of the figure.

    Raises:
        RecordError: if there is nothing to draw, or two pairs of one name and kind of GPU.
    """
    found: dict[str, dict[str, TrainingPair]] = {}
    for pair in _some(pairs):
        _put(found.setdefault(pair.name, {}), pair.family, pair, f"{pair.name} on {pair.family}")
    names = sorted(found, key=lambda name: _gain(found[name].get("A100")))
    with figure_of(height=ROW * len(names) + 1.5) as (figure, axes):
        for row, name in enumerate(names):
            ends = [pair.speedup for pair in found[name].values()]
            axes.plot([min(ends), max(ends)], [row, row], color="#c3c8ce", lw=2, zorder=1)
            for gpu, pair in found[name].items():
                axes.plot(pair.speedup, row, **_marker(gpu, filled=pair.like_for_like))
        _name_rows(axes, names)
        _line_at(axes, 1)
        axes.set_xlim(0.5, None)
        axes.set_xlabel("speed-up: mixed precision's rate divided by the 32-bit rate")
        _head(axes, title, _handles({"V100": "V100: from FP32", "A100": "A100: from TF32"}, _OPEN))
        words = [f"{name}: {_and(map(_in_words, found[name].values()))}" for name in names]
        alt = (
            f"{title}. Two markers a model, sorted by the A100's speed-up. {'; '.join(words)}. "
            "A star in this text stands for an open marker: batch or layout differs."
        )
        data = {n: [_gain(found[n].get(gpu)) for gpu in ("V100", "A100")] for n in names}
        return Picture(figure, alt, data)


def gain_by_batch(
    rows: Iterable[InferencePair], *, title: str = "Inference: the gain depends on the batch"
) -> Picture:
    """The speed-up of inference against the batch size: a panel a model, a line a kind of GPU.

    Args:
        rows: any number of models; four fit well beside each other.
        title: of the figure.

    Raises:
        RecordError: if there is nothing to draw, or two rows of one model, GPU and batch.
    """
    panels: dict[str, dict[str, dict[int, float]]] = {}
    for row in _some(rows):
        by_batch = panels.setdefault(row.name, {}).setdefault(row.family, {})
        _put(by_batch, row.batch, row.speedup, f"{row.name} on {row.family}, batch {row.batch}")
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.0, 3.4), layout="constrained")
        grid = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
        for axes, (name, lines) in zip(grid, panels.items(), strict=True):
            for gpu, by_batch in lines.items():
                x = sorted(by_batch)
                style = GPUS[gpu]
                line: dict[str, Any] = {"ls": DASHES[style], "lw": 1.8, "ms": 5}
                y = [by_batch[batch] for batch in x]
                axes.plot(x, y, color=COLOURS[style], marker=MARKERS[style], **line)
            _line_at(axes, 1, horizontal=True)
            _batch_axis(
                axes, sorted({b for lines in panels.values() for g in lines.values() for b in g})
            )
            axes.set_xlabel("batch")
            axes.set_title(name, fontsize=10, fontweight="normal")
            axes.grid(True, axis="y", **GRID)
        grid[0].set_ylabel("speed-up")
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK)
        kinds = [gpu for gpu in GPUS if any(gpu in lines for lines in panels.values())]
        handles = _handles({gpu: gpu for gpu in kinds}, lines=True)
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=9)
        series = {
            f"{name}, {gpu}": by_batch
            for name, lines in panels.items()
            for gpu, by_batch in lines.items()
        }
        words = "; ".join(f"{name}: {_by_batch(by_batch)}" for name, by_batch in series.items())
        data = {n: [v for b in sorted(by) for v in (b, by[b])] for n, by in series.items()}
        return Picture(figure, f"{title}. Speed-up by batch. {words}.", data)


def tf32_share(
    rates: Iterable[FourRates], *, title: str = "How much of the gain TF32 took"
) -> Picture:
    """Four rates for each model, relative to the V100 in FP32, sorted by that of A100 in TF32.

    The step from a V100 to an A100 is not the step to TF32 alone: the A100 is faster in FP32 and at
    moving data too. The figure shows from where mixed precision starts on each.

    Args:
        rates: as ``four_rates(one_gpu(published.training))`` gives them.
        title: of the figure.

    Raises:
        RecordError: if there is nothing to draw.
    """
    chosen = sorted(_some(rates), key=lambda row: row.a100_tf32 / row.v100_fp32)
    with figure_of(height=ROW * len(chosen) + 1.5) as (figure, axes):
        for place, row in enumerate(chosen):
            _, v100, tf32, a100 = row.relative
            for gpu, up, start, end in (("V100", 0.14, 1.0, v100), ("A100", -0.14, tf32, a100)):
                line: dict[str, Any] = {"color": COLOURS[GPUS[gpu]], "lw": 1.6, "alpha": 0.55}
                axes.plot([start, end], [place + up] * 2, zorder=1, **line)
                axes.plot(start, place + up, **_marker(gpu, filled=False))
                axes.plot(end, place + up, **_marker(gpu, filled=True))
        _name_rows(axes, [row.name for row in chosen])
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        _line_at(axes, 1)
        axes.set_xlabel("rate divided by the V100's rate in FP32")
        labels = {"V100": "V100, mixed (from FP32)", "A100": "A100, mixed (from TF32)"}
        _head(axes, title, _handles(labels, _BASELINE))
        ahead = sum(row.a100_tf32 > row.v100_mixed for row in chosen)
        words = "; ".join(
            f"{row.name} {row.relative[1]:.2f}, {row.relative[2]:.2f}, {row.relative[3]:.2f}"
            for row in chosen
        )
        alt = (
            f"{title}. Rates relative to the V100 in FP32, as V100 mixed, A100 TF32, A100 mixed: "
            f"{words}. The A100 in TF32 is ahead of the V100 in mixed precision for {ahead} of "
            f"{len(chosen)} models."
        )
        return Picture(figure, alt, {row.name: row.relative for row in chosen})


def accuracy_spread(
    pairs: Iterable[AccuracyPair], *, title: str = "Accuracy: mixed minus 32-bit, beside the spread"
) -> Picture:
    """The difference in accuracy in units of the combined standard deviation, with a band of ±2.

    Args:
        pairs: those with a printed spread, ``published.spread_pairs()``; others are left out.
        title: of the figure.

    Raises:
        RecordError: if there is nothing to draw.
    """
    given = [(pair.deviations, pair) for pair in pairs if pair.deviations is not None]
    chosen = sorted(_some(given), key=lambda item: item[0])
    with figure_of(height=ROW * len(chosen) + 1.5) as (figure, axes):
        axes.axvspan(-2, 2, color=QUIET, alpha=0.12, lw=0)
        for row, (deviations, pair) in enumerate(chosen):
            axes.plot([0, deviations], [row, row], color="#c3c8ce", lw=2, zorder=1)
            axes.plot(deviations, row, **_marker(pair.family, filled=True))
        names = [_accuracy_name(pair) for _, pair in chosen]
        _name_rows(axes, names)
        _line_at(axes, 0)
        axes.set_xlim(-3, 3)
        axes.set_xlabel("difference in combined standard deviations (right: mixed is better)")
        _head(axes, title, _handles({"V100": "V100", "A100": "A100"}, _BAND))
        words = "; ".join(f"{n} {value:+.1f}" for n, (value, _) in zip(names, chosen, strict=True))
        alt = f"{title}. {within(pair for _, pair in chosen)} {words}."
        # Two rows may have one name, so the numbers of a GPU stand in one series.
        data = {g: [v for v, p in chosen if p.family == g] for g in ("V100", "A100")}
        return Picture(figure, alt, data)


def within(pairs: Iterable[AccuracyPair], deviations: float = 2) -> str:
    """Such as "23 of 25 differences lie within 2 standard deviations."."""
    values = [pair.deviations for pair in pairs if pair.deviations is not None]
    inside = sum(abs(value) <= deviations for value in values)
    return f"{inside} of {len(values)} differences lie within {deviations:g} standard deviations."


def placebo(
    rows: Iterable[GpuMedian], *, title: str = "Runs labelled FP16: was mixed precision on?"
) -> Picture:
    """The median speed-up of each row with its range, confirmed and not confirmed told apart.

    Args:
        rows: such as ``published.by_model()``, all models on one GPU of any kind.
        title: of the figure.

    Raises:
        RecordError: if there is nothing to draw.
    """
    chosen = sorted(_some(rows), key=lambda row: (row.confirmed == "yes", row.median))
    with figure_of(height=ROW * len(chosen) + 1.6) as (figure, axes):
        for place, row in enumerate(chosen):
            style = _PLACEBO[row.confirmed]
            axes.plot([row.low, row.high], [place] * 2, color=style["color"], lw=2.2, alpha=0.45)
            axes.plot(row.median, place, **style)
        farthest = max(row.high for row in chosen)
        for place, row in enumerate(chosen):
            axes.text(farthest * 1.03, place, f"{row.runs} runs", va="center", fontsize=8.5)
        _name_rows(axes, [row.model for row in chosen])
        _line_at(axes, 1)
        axes.set_xlim(0.5, farthest * 1.18)
        axes.set_xlabel("speed-up of the run labelled FP16: median, lowest and highest of all GPUs")
        handles = [Line2D([], [], **_PLACEBO[said], label=_SAID[said]) for said in ("yes", "no")]
        _head(axes, title, handles)
        words = [
            f"{_SAID[said]}: " + ", ".join(_median(row) for row in chosen if row.confirmed == said)
            for said in ("no", "yes")
        ]
        # A model may stand there twice, once with runs that are confirmed.
        data = {
            row.model + ("" if row.confirmed == "yes" else ", off"): (row.median, row.low, row.high)
            for row in chosen
        }
        return Picture(figure, f"{title} Median speed-ups. {'; '.join(words)}.", data)


_OPEN, _BASELINE, _BAND = "batch or layout differs", "32-bit run", "within ±2"
_HOLLOW = {"marker": "o", "ms": 6.5, "mec": QUIET, "mfc": "white", "mew": 1.5}
_REMARKS: Mapping[str, dict[str, Any]] = {
    _OPEN: _HOLLOW,
    _BASELINE: _HOLLOW,
    _BAND: {"marker": "s", "ms": 11, "color": QUIET, "alpha": 0.25, "mew": 0},
}
_SAID = {"yes": "the log says it was on", "no": "the log says it was off"}
_PLACEBO: Mapping[str, dict[str, Any]] = {
    "yes": {"color": COLOURS[0], "marker": "o", "ms": 7, "ls": ""},
    "no": {"color": COLOURS[1], "marker": "X", "ms": 8, "ls": ""},
}


def _some(rows: Iterable[T]) -> list[T]:
    """The rows as a list. Raises `RecordError` if there are none."""
    chosen = list(rows)
    if not chosen:
        raise RecordError("no rows to draw: the choice above left none, so choose less strictly")
    return chosen


def _put(place: dict[K, T], key: K, value: T, name: str) -> None:
    """Keep a value, unless another one would be lost without a word: that raises `RecordError`."""
    if key in place:
        raise RecordError(f"two rows for {name}: choose one, for example with best_pairs() or on()")
    place[key] = value


def _gain(pair: TrainingPair | None) -> float:
    return pair.speedup if pair else float("nan")


def _in_words(pair: TrainingPair) -> str:
    return f"{pair.family} {pair.speedup:.2f}{'' if pair.like_for_like else '*'}"


def _and(parts: Iterable[str]) -> str:
    return " and ".join(parts)


def _by_batch(speedups: Mapping[int, float]) -> str:
    return ", ".join(f"{speedups[batch]:.2f} at {batch}" for batch in sorted(speedups))


def _median(row: GpuMedian) -> str:
    return f"{row.model} {row.median:.2f} ({row.low:.2f} to {row.high:.2f}, {row.runs} runs)"


def _accuracy_name(pair: AccuracyPair) -> str:
    """The model, what else tells its rows apart, and the GPU."""
    epochs = pair.runs.partition(";")[0]
    return ", ".join([pair.name, *([epochs] if epochs.endswith("epochs") else []), pair.gpu_type])


def _marker(gpu: str, *, filled: bool) -> dict[str, Any]:
    style = GPUS[gpu]
    colour = COLOURS[style]
    face = colour if filled else "white"
    return {"marker": MARKERS[style], "ms": 6.5, "mec": colour, "mfc": face, "mew": 1.5, "ls": ""}


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), list(names))
    axes.tick_params(axis="y", length=0, labelcolor=INK, labelsize=9)
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.spines["left"].set_visible(False)
    axes.grid(True, axis="x", **GRID)
    axes.set_axisbelow(True)


def _line_at(axes: Axes, value: float, *, horizontal: bool = False) -> None:
    """The line that parts a gain from a loss."""
    draw = axes.axhline if horizontal else axes.axvline
    draw(value, color=INK, lw=1.2, zorder=0.9)


def _batch_axis(axes: Axes, batches: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    ticks = batches[::2] if len(batches) > 5 else batches
    axes.set_xticks(ticks, [str(batch) for batch in ticks])
    axes.minorticks_off()


def _handles(labels: Mapping[str, str], remark: str = "", *, lines: bool = False) -> list[Line2D]:
    """What a legend shows: the GPUs, and what a third sign says."""
    handles = []
    for gpu, label in labels.items():
        style = _marker(gpu, filled=True) | {"label": label}
        if lines:
            style |= {"color": COLOURS[GPUS[gpu]], "ls": DASHES[GPUS[gpu]]}
        handles.append(Line2D([], [], **style))
    if remark:
        handles.append(Line2D([], [], **_REMARKS[remark], ls="", label=remark))
    return handles


def _head(axes: Axes, title: str, handles: list[Line2D]) -> None:
    """The title, and below it the legend: above the rows, to be seen with the first of them."""
    axes.set_title(title, pad=26)
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.3}
    axes.legend(handles=handles, ncols=len(handles), fontsize=9, borderpad=0, **place)
