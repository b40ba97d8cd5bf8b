"""The plot of a question: as an SVG where there is HTML, and as a table where there is text.

A plot is data (`items.Plot`), so a learner in a terminal reads the same numbers. Its lines differ
by dash as well as by colour, and read in light and in dark.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from amp_lessons.quiz.items import Plot

WIDTH, HEIGHT = 480, 220
LEFT, RIGHT, TOP, BOTTOM = 78, 12, 12, 40
DASHES = ("", "7 4", "2 3", "9 3 2 3")
COLOURS = (
    "var(--amp-curve-1, #1f6fb2)",
    "var(--amp-curve-2, #c4511b)",
    "var(--amp-curve-3, #2a7d4f)",
    "var(--amp-curve-4, #8a4fa3)",
)
ROWS = 12
"""Of a table, so that it fits a terminal beside the question."""


@dataclass(frozen=True)
class _Frame:
    """Where steps and values lie in the picture."""

    count: int
    bottom: float
    top: float
    log: bool

    @classmethod
    def of(cls, plot: Plot) -> _Frame:
        values = [v for s in plot.series.values() for v in s if _drawable(v, plot.log)] or [1.0]
        bottom, top = (math.log10(v) if plot.log else v for v in (min(values), max(values)))
        if top == bottom:
            bottom, top = bottom - 0.5, top + 0.5
        return cls(len(next(iter(plot.series.values()))), bottom, top, plot.log)

    def x(self, place: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * place / max(self.count - 1, 1)

    def y(self, value: float) -> float:
        at = math.log10(value) if self.log else value
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.top - at) / (self.top - self.bottom)

    def ticks(self) -> Iterator[float]:
        for share in (0.0, 0.5, 1.0):
            at = self.bottom + share * (self.top - self.bottom)
            yield 10**at if self.log else at


def plot_svg(plot: Plot) -> str:
    """Curves as an SVG that carries its own text for somebody who cannot see it."""
    frame = _Frame.of(plot)
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="amp-plot" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" style="max-width:100%;height:auto" role="img" '
        f'aria-label="{html.escape(plot.alt)}" font-family="sans-serif" font-size="12" '
        f'fill="currentColor">'
    )
    return "".join([opening, *_axes(plot, frame), *_curves(plot, frame), "</svg>"])


def _axes(plot: Plot, frame: _Frame) -> Iterator[str]:
    line = f"M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"
    yield f'<path d="{line}" fill="none" stroke="currentColor" opacity="0.6"/>'
    for value in frame.ticks():
        yield _text(LEFT - 6, frame.y(value) + 4, "end", _short(value))
    for place in sorted({0, (frame.count - 1) // 2, frame.count - 1}):
        step = str(plot.start + place * plot.every)
        yield _text(frame.x(place), HEIGHT - BOTTOM + 16, "middle", step)
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "middle", plot.x)
    middle = (TOP + HEIGHT - BOTTOM) / 2
    yield _text(14, middle, "middle", plot.y, f' transform="rotate(-90 14 {middle:.0f})"')


def _short(value: float) -> str:
    """A tick's label of at most seven characters: ``0.25``, ``1,200``, ``1.2e5``."""
    if value and not 1e-3 <= abs(value) < 1e5:
        digits, _, exponent = f"{value:.1e}".partition("e")
        return f"{digits}e{int(exponent)}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _curves(plot: Plot, frame: _Frame) -> Iterator[str]:
    for number, (name, series) in enumerate(plot.series.items()):
        style = f'stroke="{COLOURS[number % 4]}" stroke-width="2" '
        style += f'stroke-dasharray="{DASHES[number % 4]}"'
        for piece in _pieces(series, plot.log):
            points = " ".join(f"{frame.x(p):.1f},{frame.y(v):.1f}" for p, v in piece)
            yield f'<polyline points="{points}" fill="none" {style}/>'
        if len(plot.series) > 1:
            height = TOP + 14 + 16 * number
            yield f'<path d="M{WIDTH - 160} {height - 4}h26" {style}/>'
            yield _text(WIDTH - 128, height, "start", name)


def _text(x: float, y: float, anchor: str, words: str, more: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"{more}>{html.escape(words)}</text>'


def _drawable(value: float, log: bool) -> bool:
    return math.isfinite(value) and (value > 0 or not log)


def _pieces(series: Sequence[float], log: bool) -> list[list[tuple[int, float]]]:
    """The runs of values that can be drawn; what lies between them is a gap."""
    pieces: list[list[tuple[int, float]]] = [[]]
    for place, value in enumerate(series):
        if _drawable(value, log):
            pieces[-1].append((place, value))
        elif pieces[-1]:
            pieces.append([])
    return [piece if len(piece) > 1 else piece * 2 for piece in pieces if piece]


def plot_table(plot: Plot) -> str:
    """Curves as a table of about 12 rows, evenly spaced, the last one always among them."""
    count = len(next(iter(plot.series.values())))
    places = sorted({*range(0, count, max(1, math.ceil(count / ROWS))), count - 1})
    rows = [[plot.x, *plot.series]]
    for place in places:
        step = str(plot.start + place * plot.every)
        rows.append([step, *(f"{series[place]:.4g}" for series in plot.series.values())])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join([f"{plot.y}:", *lines])
