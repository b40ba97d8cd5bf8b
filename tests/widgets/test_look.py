"""Contrast: what axe cannot see (SVG, borders) is computed from the colours in widgets.css."""

from __future__ import annotations

import re

import pytest

from amp_lessons.es_modules import read_static

TEXT = 4.5  # WCAG 2.2, 1.4.3
SHAPE = 3.0  # WCAG 2.2, 1.4.11

PAIRS = [
    *[(ink, "ground", TEXT) for ink in ("text", "muted", "danger")],
    *[(ink, "raised", TEXT) for ink in ("text", "muted")],
    *[(ink, "ground", TEXT) for ink in ("sign", "exponent", "mantissa")],
    *[("on-field", ground, TEXT) for ground in ("sign", "exponent", "mantissa")],
    *[(ink, "ground", SHAPE) for ink in ("control", "accent", "warning")],
    *[(ink, "ground", SHAPE) for ink in ("run-right", "run-yours")],
]


def colours() -> dict[str, tuple[str, str]]:
    css = read_static("widgets.css") + read_static("order_calls.css")
    found = re.findall(r"--amp-([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", css)
    return {name: (light, dark) for name, light, dark in found}


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


def test_the_measure_itself() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize(("ink", "ground", "least"), PAIRS, ids=lambda v: str(v))
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(ink: str, ground: str, least: float, scheme: str) -> None:
    index = ["light", "dark"].index(scheme)
    found = contrast(colours()[ink][index], colours()[ground][index])
    assert found >= least, f"{ink} on {ground} in the {scheme} scheme: {found:.2f}"
