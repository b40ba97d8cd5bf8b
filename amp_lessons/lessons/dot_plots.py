"""A figure of single runs as dots, so that their spread is seen beside their differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amp_lessons.core.pictures import COLOURS, INK, MARKERS, QUIET, Picture, figure_of


def dots(
    values: Mapping[str, Sequence[float]], *, title: str, xlabel: str, limit: float, unit: str = ""
) -> Picture:
    """A row of dots for each name, one a run.

    Args:
        values: for each name its runs, in the same order of seeds.
        title, xlabel: of the figure.
        limit: where the axis ends. Runs beyond it are written out at the edge.
        unit: behind a number that is written out, such as "%".
    """
    with figure_of(height=0.34 * len(values) + 1.1) as (figure, axes):
        for row, numbers in enumerate(values.values()):
            axes.axhline(row, color="#e5e7ea", lw=0.6, zorder=0)
            for seed, number in enumerate(numbers):
                if number <= limit:
                    axes.plot(number, row, MARKERS[seed], color=COLOURS[seed], ms=6, alpha=0.85)
            if min(numbers) > limit:
                text = f"{min(numbers):.0f} to {max(numbers):.0f}{unit} →"
                axes.text(limit, row, text, ha="right", va="center", color=INK, fontsize=9)
        axes.set_yticks(range(len(values)), list(values))
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.invert_yaxis()
        lowest = min(min(numbers) for numbers in values.values())
        axes.set_xlim(min(0.0, lowest) - 0.03 * limit, limit * 1.02)
        axes.axvline(0, color=QUIET, lw=1, ls=":")
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(xlabel)
        axes.set_title(title)
        words = "; ".join(
            f"{name} {min(numbers):.0f} to {max(numbers):.0f}{unit}"
            for name, numbers in values.items()
        )
        alt = f"{title}. Dots, by {xlabel}: {words}."
        return Picture(figure, alt, {name: list(numbers) for name, numbers in values.items()})
