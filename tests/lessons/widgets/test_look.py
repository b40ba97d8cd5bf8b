"""Contrast: what axe cannot see (SVG, borders) is computed from the colours in widgets.css."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from amp_lessons.core.es_modules import read_static
from amp_lessons.exercises.checks.help_buttons import STATIC as CHECKS
from amp_lessons.lessons.widgets.files import FOLDERS, style

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
    css = style("widgets.css", "order_calls.css")
    found = re.findall(r"--amp-([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", css)
    return {name: (light, dark) for name, light, dark in found}


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


SCOPES = {
    "widgets.css": r"amp-widget|amp-[a-z]+(-[a-z]+)+",  # the latter: the root of one widget
    "question.css": r"amp-widget|amp-quiz|amp-page|amp-sheet",
    "loss_scale_lab.css": r"amp-loss-scale-lab",
    "block_explorer.css": r"amp-block-explorer",
    "home.css": r"amp-home",
    "order_calls.css": r"amp-order-calls",
    "published_explorer.css": r"amp-published-explorer",
    "whole_loop.css": r"amp-whole-loop",
}


def files_with(pattern: str) -> list[Path]:
    return [path for folder in FOLDERS for path in sorted(folder.glob(pattern))]


SCRIPTS = "".join(path.read_text(encoding="utf-8") for path in files_with("*.mjs"))
ROOTS = {*re.findall(r'root: "(amp-[\w-]+)"', SCRIPTS), "amp-widget"}


def outer_selectors(css: str) -> list[str]:
    """The selectors of a style sheet that stand in no other rule."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    css = re.sub(r"@(container|media)[^{]*\{((?:[^{}]*\{[^{}]*\})*)\s*\}", r"\2", css)
    found, depth, start = [], 0, 0
    for place, character in enumerate(css):
        if character == "{":
            if not depth:
                found += re.split(r",(?![^(]*\))", css[start:place])
            depth += 1
        elif character == "}":
            depth, start = depth - 1, place + 1
    assert depth == 0
    return [selector.strip() for selector in found]


def scopes_of(selector: str) -> list[str]:
    """The classes that everything it names is, or stands below."""
    first = re.match(
        r"(?:\[[^]]*\]|\.vscode-\w+)?\s*(?::(?:is|where)\(([^)]*)\)|(?:\.amp-widget)?(\.[\w-]+))",
        selector,
    )
    return re.findall(r"\.([\w-]+)", first[1] or first[2]) if first else []


@pytest.mark.parametrize("sheet", sorted(path.name for path in files_with("*.css")))
def test_each_selector_stands_below_its_widget(sheet: str) -> None:
    selectors = outer_selectors(style(sheet))
    assert selectors
    for selector in selectors:
        scopes = scopes_of(selector)
        assert scopes, selector
        for scope in scopes:
            assert re.fullmatch(SCOPES[sheet], scope), selector
            if sheet == "widgets.css":
                assert scope in ROOTS, f"no widget has the root {scope}: {selector}"


def test_the_look_of_the_buttons_below_a_question_and_a_verdict_is_in_one_place() -> None:
    """widgets.css goes wherever a quiz, a page of questions or the buttons of a check go."""
    look = re.compile(r"(?<![\w-])(?:button|\.amp-primary)\b[^{};]*\{[^}]*(?:background|padding)")
    assert look.search(read_static("widgets.css"))
    for css in (style("question.css"), read_static("help_buttons.css", CHECKS)):
        assert not look.search(css)


def test_a_selector_without_a_scope_is_found() -> None:
    css = ".amp-choice, .amp-widget p { a: b } @media x { .amp-lone { a: b } }"
    css += " :is(.amp-a-b, .amp-c) { p { a: b } }"
    found = [scopes_of(selector) for selector in outer_selectors(css)]
    assert found == [["amp-choice"], ["amp-widget"], ["amp-lone"], ["amp-a-b", "amp-c"]]


def test_the_measure_itself() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize(("ink", "ground", "least"), PAIRS, ids=lambda v: str(v))
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(ink: str, ground: str, least: float, scheme: str) -> None:
    index = ["light", "dark"].index(scheme)
    found = contrast(colours()[ink][index], colours()[ground][index])
    assert found >= least, f"{ink} on {ground} in the {scheme} scheme: {found:.2f}"
