"""The scaler lab: scaler.mjs against Python, what Python keeps, and the page by keyboard alone."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pages
import pytest
import traitlets

from amp_lessons.amp.scaling.scaler_log import simulate_records, simulate_scaler, torch_records
from amp_lessons.lessons.widgets import ScalerLab, scaler_lab

pytestmark = pytest.mark.filterwarnings("error::FutureWarning")

OVERFLOWS = [i in (5, 6) for i in range(12)]
SCALES = [4.0, 8.0, 8.0, 16.0, 16.0, 8.0, 4.0, 4.0, 8.0, 8.0, 16.0, 16.0]

# ---- scaler.mjs --------------------------------------------------------------------------------


def random_cases(count: int) -> list[tuple[list[bool], tuple[float, float, float, int]]]:
    """Patterns and settings, the ends of float32 among them."""
    draw = random.Random(0)
    cases = []
    for _ in range(count):
        share = draw.choice((0.02, 0.1, 0.5, 0.9, 1.0))
        pattern = [draw.random() < share for _ in range(draw.randrange(200))]
        power = 2.0 ** draw.randint(-149, 127)
        scale = draw.choice((power, power * draw.uniform(0.5, 1), 2.0**16, 2.0**127, math.inf))
        growth = draw.choice((2.0, 1 + 10 ** draw.uniform(-8, 300)))
        backoff = draw.choice((0.5, draw.random() or 0.1, 10 ** draw.uniform(-300, -1)))
        cases.append((pattern, (scale, growth, backoff, draw.randint(1, 12))))
    return cases


@pytest.mark.browser
@pytest.mark.parametrize(
    "count",
    [200, pytest.param(1000, marks=pytest.mark.slow), pytest.param(3000, marks=pytest.mark.long)],
)
def test_the_page_counts_as_python_does(open_page: Callable[..., Any], count: int) -> None:
    """Scale and clean steps, to the bit, on many random patterns and settings."""
    cases = random_cases(count)
    got = pages.value_of(
        open_page(),
        """async (cases) => {
          const { simulate } = await import("/scaler.mjs");
          const number = (text) => (text === "inf" ? Infinity : Number(text));
          return cases.map(([pattern, texts]) => {
            const [init_scale, growth_factor, backoff_factor, growth_interval] = texts.map(number);
            const settings = { init_scale, growth_factor, backoff_factor, growth_interval };
            return simulate([...pattern].map((c) => c === "1"), settings)
              .map(({ scale, cleanSteps }) => [String(scale), cleanSteps]);
          });
        }""",
        [["".join("01"[v] for v in pattern), [repr(s) for s in s_]] for pattern, s_ in cases],
    )
    steps = 0
    zeros = infinities = 0
    for (pattern, settings), rows in zip(cases, got, strict=True):
        want = [(r.scale, r.clean_steps) for r in simulate_records(pattern, *settings)]
        assert [(float(scale), clean) for scale, clean in rows] == want
        steps += len(want)
        zeros += any(scale == 0 for scale, _ in want)
        infinities += any(scale == math.inf for scale, _ in want)
    assert zeros > count / 30
    assert infinities > count / 30
    print(f"{len(cases)} patterns, {steps} updates, {zeros} of them sink to 0")


@pytest.mark.browser
def test_the_page_refuses_what_python_refuses(open_page: Callable[..., Any]) -> None:
    names = ("init_scale", "growth_factor", "backoff_factor", "growth_interval")
    values = [-1.0, 0.0, 1e-50, 0.5, 1.0, 1.5, 2, 3.4028234663852886e38, 3.5e38, 1e39]
    values += [math.inf, math.nan]
    got = pages.value_of(
        open_page(),
        """async ([names, texts]) => {
          const { settingFault } = await import("/scaler.mjs");
          const number = (text) => (text === "inf" ? Infinity : Number(text));
          return names.map((name) => texts.map((t) => settingFault(name, number(t)) === null));
        }""",
        [names, [repr(v) for v in values]],
    )
    for name, row in zip(names, got, strict=True):
        for value, fine in zip(values, row, strict=True):
            whole = name == "growth_interval" and value == value // 1  # JavaScript has no int
            try:
                simulate_scaler([True], **{name: int(value) if whole else value})
            except (ValueError, TypeError):
                assert not fine, (name, value)
            else:
                assert fine, (name, value)


# ---- Python ------------------------------------------------------------------------------------


def test_the_real_trajectory() -> None:
    lab = ScalerLab()
    assert lab.found_inf == OVERFLOWS
    assert lab.real["scales"] == [repr(s) for s in SCALES]
    assert lab.records == torch_records(OVERFLOWS, 4.0, growth_interval=2)
    lab.backoff_factor = 0.25
    assert lab.real["backoff_factor"] == "0.25"
    assert [float(s) for s in lab.real["scales"]] == [r.scale for r in lab.records]
    assert lab.records == torch_records(OVERFLOWS, 4.0, 2.0, 0.25, 2)


def test_the_score() -> None:
    lab = ScalerLab()
    assert lab.score == (0, 0)
    lab.answers = ["4.0", "", "16", "16"]
    assert lab.score == (2, 3)


def test_changes_hide_what_they_could_change() -> None:
    lab = ScalerLab()
    lab.answers = ["4", "8", "8", "16"]
    lab.found_inf = [*OVERFLOWS[:2], True, *OVERFLOWS[3:]]
    assert lab.answers == ["4", "8"]
    lab.found_inf = [*lab.found_inf, True]
    assert lab.answers == ["4", "8"]
    lab.found_inf = lab.found_inf[:1]
    assert lab.answers == ["4"]
    assert len(lab.real["scales"]) == 1
    lab.init_scale = 2.0
    assert lab.answers == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"growth_interval": 0}, "growth_interval must be 1 or more, got 0"),
        ({"growth_factor": 1.0}, "growth_factor must be greater than 1, got 1.0"),
        ({"backoff_factor": 0.0}, "backoff_factor must be between 0 and 1, got 0.0"),
        ({"init_scale": -4.0}, "init_scale must be a positive float32, got -4.0"),
        ({"found_inf": []}, "found_inf must hold 1 to 40 steps, got 0"),
        ({"found_inf": [True] * 41}, "found_inf must hold 1 to 40 steps, got 41"),
    ],
)
def test_what_it_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ScalerLab(**arguments)
    lab = ScalerLab()
    [(name, value)] = arguments.items()
    with pytest.raises(traitlets.TraitError, match=message):
        setattr(lab, name, value)
    assert lab.real["scales"] == [repr(s) for s in SCALES]


def test_answers_that_are_no_scales() -> None:
    lab = ScalerLab()
    with pytest.raises(traitlets.TraitError, match="must be a scale as text, got 'grows'"):
        lab.answers = ["grows"]
    lab.answers = ["4"] * 50
    assert len(lab.answers) == 12


def test_any_iterable_and_the_ends_of_float32() -> None:
    lab = ScalerLab((i % 2 for i in range(4)), init_scale=math.inf, growth_interval=1)
    assert lab.found_inf == [False, True, False, True]
    assert lab.real["scales"] == ["inf"] * 4
    lab = ScalerLab([True] * 40, init_scale=2.0**-120)
    assert lab.real["scales"][-1] == "0.0"


def test_what_a_page_sends() -> None:
    """Several values in one message, as anywidget hands them over: numbers as text."""
    lab = ScalerLab()
    pattern = [*OVERFLOWS[:3], True, *OVERFLOWS[4:]]
    lab.set_state({"found_inf": pattern, "answers": ["4", "8", ""]})
    assert lab.answers == ["4", "8", ""]
    lab.set_state({"init_scale": "65536", "answers": []})
    lab.set_state({"growth_interval": 3, "answers": []})
    lab.set_state({"answers": ["65536"]})
    assert lab.score == (1, 1)
    want = simulate_scaler(pattern, init_scale=2.0**16, growth_interval=3)
    assert [float(s) for s in lab.real["scales"]] == want


def test_the_real_scaler_runs_once_for_each_value_that_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[int] = []

    def counted(found_inf: list[bool], **settings: float) -> Any:
        runs.append(len(found_inf))
        return torch_records(found_inf, **settings)

    monkeypatch.setattr(scaler_lab, "torch_records", counted)
    lab = ScalerLab([False] * 40)
    assert set(runs) == {40}
    assert len(runs) <= len(scaler_lab.SETTINGS) + 2  # its settings, its pattern, and at the end
    for name, value in (("found_inf", [True] * 30), ("growth_interval", 5), ("answers", ["4"])):
        runs.clear()
        setattr(lab, name, value)
        assert runs == [30] * (name != "answers")


# ---- the page ----------------------------------------------------------------------------------


def values(lab: ScalerLab) -> dict[str, Any]:
    names = ("init_scale", "growth_factor", "backoff_factor", "growth_interval")
    return lab.get_state([*names, "found_inf", "answers", "real"])


@pytest.fixture
def mounted(mount: Callable[..., Any]) -> Callable[..., Any]:
    """The page as Python starts it; nothing answers later, unless a test does."""

    def mounted_(lab: ScalerLab | None = None, scheme: str = "light", width: int = 900) -> Any:
        return mount("scaler_lab", values(lab or ScalerLab()), scheme, width)

    return mounted_


def rows(page: Any) -> list[list[str]]:
    found = page.locator("tbody tr").all()
    return [row.locator("th, td").all_inner_texts() for row in found]


def text(scale: float) -> str:
    return f"{scale:g}"


@pytest.mark.browser
def test_nothing_is_given_away(mounted: Callable[..., Any]) -> None:
    page = mounted()
    assert rows(page) == []
    label = page.get_by_role("img").get_attribute("aria-label")
    assert label == ("Scale by step. Start: 4; no step is shown yet. Steps that overflow: 5, 6.")
    assert page.locator(".amp-picture :is(.amp-real, .amp-simulated)").count() == 0
    assert page.get_by_text("Step 0 is clean. After update(), the scale…").is_visible()


@pytest.mark.browser
def test_predicting_by_keyboard(mounted: Callable[..., Any]) -> None:
    """From the first setting to the last step with Tab, arrows and Space alone."""
    page = mounted()
    press = page.keyboard.press
    focused = "document.activeElement.textContent || document.activeElement.ariaLabel"
    for _ in range(6):  # four settings, the number of steps, the pattern
        press("Tab")
    assert "0" in page.evaluate(focused)
    press("End")
    assert page.evaluate("document.activeElement.ariaLabel") == "step 11 overflows"
    press("Home")
    press("Tab")
    assert page.evaluate(focused) == "grows to 8"
    press("Tab")
    press("Space")  # stays at 4: right
    assert page.locator("output").inner_text() == (
        "Right: after step 0 the scale is 4; clean step 1 of 2: not yet."
    )
    press("Space")  # stays at 4: wrong, it grows
    assert page.locator("output").inner_text() == (
        "Not so: after step 1 the scale is 8; clean step 2 of 2: the scale grows."
    )
    assert page.get_by_text("1 of 2 predictions right").is_visible()
    assert rows(page) == [
        ["0", "finite", "4", "4", "1", "4 ✓"],
        ["1", "finite", "8", "8", "0", "4 ✗"],
    ]
    press("Tab")
    press("Tab")
    press("Enter")  # show all
    assert [row[2] for row in rows(page)] == [row[3] for row in rows(page)]
    assert [row[3] for row in rows(page)] == [text(s) for s in SCALES]
    assert [row[1] for row in rows(page)][4:7] == ["finite", *["overflow: step skipped"] * 2]
    assert page.get_by_text("agree in all 12 steps shown").is_visible()
    assert page.evaluate(focused) == "Start again"
    press("Space")
    assert rows(page) == []
    assert page.evaluate(focused) == "grows to 8"
    assert page.evaluate("model.get('answers')") == []


@pytest.mark.slow
@pytest.mark.browser
def test_every_step_predicted_right(mounted: Callable[..., Any]) -> None:
    lab = ScalerLab()
    page = mounted(lab)
    before = 4.0
    for scale in SCALES:
        names = {True: "stays at", False: "grows to" if scale > before else "backs off to"}
        page.get_by_role("button", name=f"{names[scale == before]} {text(scale)}").click()
        before = scale
    assert page.get_by_text("12 of 12 predictions right").is_visible()
    assert page.get_by_text("Every step is shown.").is_visible()
    lab.answers = page.evaluate("model.get('answers')")
    assert lab.score == (12, 12)


@pytest.mark.browser
def test_the_pattern_by_keyboard(mounted: Callable[..., Any]) -> None:
    page = mounted()
    page.get_by_role("button", name="Show all").click()
    page.get_by_role("button", name="step 0 overflows").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    third = page.get_by_role("button", name="step 3 overflows", exact=True)
    assert third.get_attribute("aria-pressed") == "true"
    assert len(rows(page)) == 3, "what could have changed is hidden again"
    assert {row[2] for row in rows(page)} == {"…"}, "Python has not answered yet"
    pattern = page.evaluate("model.get('found_inf')")
    assert [i for i, overflow in enumerate(pattern) if overflow] == [3, 5, 6]
    answered = values(ScalerLab(pattern))["real"]
    page.evaluate("real => model.set('real', real)", answered)
    page.get_by_role("button", name="Show all").click()
    want = [text(s) for s in simulate_scaler(pattern, init_scale=4, growth_interval=2)]
    assert [row[2] for row in rows(page)] == [row[3] for row in rows(page)] == want


@pytest.mark.browser
def test_settings_are_typed(mounted: Callable[..., Any]) -> None:
    page = mounted()
    page.get_by_role("button", name="Show all").click()
    field = page.get_by_label("Initial scale")
    field.fill("2**16")
    field.press("Enter")
    assert page.evaluate("model.get('init_scale')") == "65536"
    assert rows(page) == []
    page.get_by_label("Growth interval").fill("0")
    page.get_by_label("Growth interval").press("Enter")
    complaint = "growth_interval must be a whole number, 1 or more, got 0"
    assert page.get_by_role("alert").inner_text() == complaint
    assert page.evaluate("model.get('growth_interval')") == 2
    assert page.get_by_label("Growth interval").get_attribute("aria-invalid") == "true"
    page.get_by_label("Number of steps").fill("14")
    page.get_by_label("Number of steps").press("Enter")
    assert page.get_by_role("alert").inner_text() == complaint, "still wrong"
    page.get_by_label("Growth interval").fill("3")
    page.get_by_label("Growth interval").press("Enter")
    assert page.get_by_role("alert").inner_text() == ""
    page.get_by_role("button", name="Show all").click()
    pattern = [*OVERFLOWS, False, False]
    want = simulate_scaler(pattern, init_scale=65536, growth_interval=3)
    assert [float(row[3]) for row in rows(page)] == want


@pytest.mark.browser
def test_steps_that_it_refuses(mounted: Callable[..., Any]) -> None:
    page = mounted()
    field, alert = page.get_by_label("Number of steps"), page.get_by_role("alert")
    for steps in ("0", "41", "2.5", "many"):
        field.fill(steps)
        field.press("Enter")
        assert "steps must be a whole number from 1 to 40" in alert.inner_text(), steps
        assert len(page.evaluate("model.get('found_inf')")) == 12
        field.fill("12")
        field.press("Enter")
        assert alert.inner_text() == ""


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(
    ("lab", "last"),
    [
        (lambda: ScalerLab([True] * 40, init_scale=2.0**-120), ["0", "0"]),
        (lambda: ScalerLab([False] * 9, init_scale=2.0**125, growth_interval=1), ["2¹²⁷"] * 2),
        (lambda: ScalerLab([True, False], init_scale=math.inf, growth_interval=1), ["inf"] * 2),
        (lambda: ScalerLab([True], init_scale=0.7, backoff_factor=0.1), ["0.07"] * 2),
    ],
)
def test_the_ends_of_float32(mounted: Callable[..., Any], lab: Any, last: list[str]) -> None:
    page = mounted(lab())
    page.get_by_role("button", name="Show all").click()
    assert rows(page)[-1][2:4] == last
    for shape in page.locator(".amp-picture circle").all():
        assert 0 <= float(shape.get_attribute("cy")) <= 250


@pytest.mark.browser
def test_python_moves_the_page(mounted: Callable[..., Any]) -> None:
    page = mounted()
    page.evaluate("model.set('answers', ['4', '']); model.set('growth_interval', 1)")
    assert [row[3] for row in rows(page)] == ["8", "16"]
    assert page.get_by_label("Growth interval").input_value() == "1"


@pytest.mark.browser
def test_axe_finds_nothing(
    mounted: Callable[..., Any], faultless: Callable[[Any], None], look: tuple[str, int]
) -> None:
    page = mounted(None, *look)
    faultless(page)
    page.get_by_role("button", name="stays at").click()
    page.get_by_role("button", name="backs off to").click()
    page.get_by_label("Backoff factor").fill("7")
    page.get_by_label("Backoff factor").press("Enter")
    faultless(page)
    page.get_by_role("button", name="Show all").click()
    faultless(page)


@pytest.mark.slow
@pytest.mark.browser
def test_a_key_changes_little_of_the_page(
    mounted: Callable[..., Any], changes_by: Callable[[Any, str], int]
) -> None:
    page = mounted(ScalerLab([False] * 40))
    page.get_by_role("button", name="stays at").focus()
    changes = [changes_by(page, "Space") for _ in range(9)]
    assert len(rows(page)) == 9
    assert 0 < min(changes) <= max(changes) < 500
