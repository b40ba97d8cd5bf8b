"""Histograms of magnitudes in powers of two, as text."""

from __future__ import annotations

import math
import random

from amp_lessons.quiz.generators.formatting import raised

WIDEST = 30
"""Characters of the longest bar."""


def draw(rng: random.Random, lowest: int, width: int) -> dict[int, int]:
    """Per cent of the gradients by binade: ``{-20: 3}`` says 3% are from 2^-20 up to 2^-19.

    The shares are whole numbers, at least 1, and add up to 100.
    """
    peak = rng.uniform(0.3, 0.7) * width
    spread = width / rng.uniform(4.0, 6.0)
    heights = [math.exp(-0.5 * ((place - peak) / spread) ** 2) for place in range(width + 1)]
    shares = [max(1, round(100 * height / sum(heights))) for height in heights]
    shares[shares.index(max(shares))] += 100 - sum(shares)
    return {lowest + place: share for place, share in enumerate(shares)}


def text(bins: dict[int, int]) -> str:
    """One row for each binade, with its share and a bar."""
    longest = max(bins.values())
    rows = [f"{'magnitude':<16}{'share':>6}"]
    for exponent, share in bins.items():
        span = f"{raised(exponent)} to {raised(exponent + 1)}"
        bar = "#" * max(1, round(WIDEST * share / longest))
        rows.append(f"{span:<16}{f'{share}%':>6}  {bar}")
    return "\n".join(rows)
