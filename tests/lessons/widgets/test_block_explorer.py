"""The block explorer: its values in Python, what its page counts, and dragging by key and mouse."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pages
import pytest
import torch
import traitlets
from playwright.sync_api import Page, expect

from amp_lessons.lessons.widgets import BlockExplorer
from amp_lessons.lessons.widgets.block_explorer import MARKED, MOST_TIMES, NUMBERS, ROUNDINGS
from amp_lessons.lessons.widgets.block_fates import CLOSE, Fates, fates

NAMES = ("numbers", "marked", "count", "times", "rounding")
STOPS = 80

# ---- Python ----------------------------------------------------------------------------------


def test_its_numbers_are_of_a_normal_distribution() -> None:
    drawn = torch.randn(32, generator=torch.Generator().manual_seed(0))
    assert (drawn * 100).round().int().tolist() == [round(100 * number) for number in NUMBERS]


@pytest.mark.parametrize("count", [16, 32])
def test_the_marked_number_is_that_many_times_the_median_of_the_others(count: int) -> None:
    explorer = BlockExplorer(48, count=count)
    block = torch.tensor(explorer.block, dtype=torch.float64)
    assert block.tolist() == block.float().tolist()
    others = torch.cat([block[:MARKED], block[MARKED + 1 :]])
    assert others.tolist() == torch.tensor(NUMBERS)[:count][torch.arange(count) != MARKED].tolist()
    assert block[MARKED] == (48 * others.abs().median()).float()
    negative = BlockExplorer(48, numbers=[-abs(number) for number in NUMBERS], count=count)
    assert negative.block[MARKED] == -block[MARKED]


def test_what_the_formats_keep_is_counted() -> None:
    """By hand: MXFP4's scale is 2 for 13.76, and 0.5, the half of its smallest number, is gone."""
    explorer = BlockExplorer(32)
    assert explorer.block[MARKED] == pytest.approx(13.76)
    by_name = {each.name: each for each in fates(explorer.block, MARKED, "FLOOR")}
    mxfp4 = by_name["MXFP4"]
    assert mxfp4.scales == [2]
    assert mxfp4.kept == [-1, -1, 0, 0, 1, 12, 0, -2, 0, -1, 0, 0, 0, 1, 1, 0]
    assert (mxfp4.zero, mxfp4.close, mxfp4.cut) == (8, 6, 0)
    assert (by_name["FP8"].close, by_name["MXFP8"].close) == (15, 15)
    other_marked = fates(explorer.block, 4, "FLOOR")[2]
    assert (other_marked.zero, other_marked.close) == (8, 6)  # 12 for 13.76 instead of 1 for 0.85


def test_where_no_widget_runs_there_is_a_table() -> None:
    data, _ = BlockExplorer()._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert "One of them is 32 times the median magnitude" in data["text/html"]
    assert data["text/html"].count("<tr>") == 4
    expected = "MXFP4: scale 2, 8 become 0, 6 stay within 20%, 0 saturate"
    assert expected in data["text/plain"].splitlines()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"times": 0.5}, "times must be 1 to 1024, got 0.5"),
        ({"times": 1025}, "times must be 1 to 1024, got 1025"),
        ({"times": math.nan}, "times must be 1 to 1024, got nan"),
        ({"count": 8}, "count must be 16 or 32"),
        ({"numbers": [1] * 16, "count": 32}, "count must be 16"),
        ({"numbers": [1] * 17}, "numbers must be 16 or 32, got 17"),
        ({"numbers": [1e39] * 16}, "numbers must be finite in FP32"),
        ({"numbers": [math.nan] * 16}, "numbers must be finite in FP32"),
        ({"numbers": [1] * 8 + [0] * 8}, "most of the numbers must not be 0"),
        ({"rounding": "UP"}, "rounding must be FLOOR, CEIL, RCEIL, EVEN; got 'UP'"),
    ],
)
def test_what_it_refuses(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BlockExplorer(**given)


def test_a_lesson_may_set_it() -> None:
    explorer = BlockExplorer()
    with pytest.raises(traitlets.TraitError, match="times must be"):
        explorer.times = 0
    explorer.times, explorer.count, explorer.rounding = 1, 32, "RCEIL"
    assert (len(explorer.block), explorer.times, explorer.rounding) == (32, 1, "RCEIL")


# ---- the page ----------------------------------------------------------------------------------


@pytest.fixture
def mounted(mount: Callable[..., Page]) -> Callable[..., Page]:
    def mounted_(scheme: str = "light", width: int = 900, **given: Any) -> Page:
        page = mount("block_explorer", BlockExplorer(**given).get_state(NAMES), scheme, width)
        page.add_style_tag(url="block_explorer.css")
        return page

    return mounted_


_EVERY_STATE = """(states) => states.map(([stop, count, rounding]) => {
  model.set("times", 2 ** (stop / 8));
  model.set("count", count);
  model.set("rounding", rounding);
  const said = [...document.querySelectorAll(".amp-be-said")];
  return said.map((each) => [...each.children].map((part) => part.textContent));
})"""


@pytest.mark.browser
def test_it_counts_as_python_does(mounted: Callable[..., Page]) -> None:
    """At every stop, with 16 and 32 numbers and each rounding of the scale."""
    page = mounted()
    states = [(s, c, r) for s in range(STOPS + 1) for c in (16, 32) for r in ROUNDINGS]
    saturated = 0
    for state, said in zip(states, page.evaluate(_EVERY_STATE, states), strict=True):
        stop, count, rounding = state
        explorer = BlockExplorer(2 ** (stop / 8), count=count, rounding=rounding)
        ours = fates(explorer.block, MARKED, rounding)
        for each, (name, scale, others, marked) in zip(ours, said, strict=True):
            assert name.startswith(each.name)
            assert scales_in(scale) == pytest.approx(each.scales, rel=1e-3)
            assert others == in_words(each, count - 1), state
            kept = float(re.search(r" (?:at|becomes|stays) (.*?)(?: \(|\.$)", marked)[1])
            digits = 2 if kept < 1 else 3
            assert kept == pytest.approx(each.kept[MARKED], rel=0.51 * 10 ** (1 - digits))
            saturated += "saturates" in marked
    assert saturated > 20


def scales_in(text: str) -> list[float]:
    """The numbers of "Scales 2⁻¹ = 0.5 and 3"."""
    raised = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    found = []
    for part in re.sub(r"^Scales? ", "", text).split(" and "):
        power, _, value = part.rpartition(" = ")
        found.append(float(value))
        if power:
            assert float(value) == 2.0 ** int(power[1:].translate(raised))
    return found


def in_words(fate: Fates, others: int) -> str:
    def verb(count: int, word: str) -> str:
        return f"{count} {word}s" if count == 1 else f"{count} {word}"

    within = f"within {CLOSE[fate.name]:.0%}"
    if fate.close == others:
        return f"All {others} others stay {within}."
    zero = f"{fate.zero or 'None'} of {others} others become{'s' if fate.zero < 2 else ''} 0"
    parts = [zero if fate.zero < others else f"All {others} others become 0"]
    parts += [verb(fate.cut, "saturate")] if fate.cut else []
    parts += [f"{verb(fate.close, 'stay')} {within}"] if fate.close else []
    return ", ".join(parts) + "."


def marks(page: Page, place: int) -> list[str]:
    """The marks below the numbers, for one of the formats."""
    found = page.locator(".amp-be-cells").nth(place).locator("path")
    return [each.get_attribute("class").split("amp-be-")[-1] for each in found.all()]


@pytest.mark.browser
def test_dragging_by_keyboard(mounted: Callable[..., Page]) -> None:
    page = mounted()
    for _ in range(3):
        page.keyboard.press("Tab")
    slider = page.get_by_role("slider", name="Marked number")
    expect(slider).to_be_focused()
    expect(slider).to_have_attribute("aria-valuetext", "32 times the median of the others: 13.8")
    assert marks(page, 2).count("zero") == 8
    assert marks(page, 0) == ["close"] * 16
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", "38.1 times the median of the others: 16.4")
    live = page.locator("output[aria-live=polite]")
    expect(live).to_contain_text("MXFP4: 9 of 15 others become 0. NVFP4: 8 of 15 others become 0")
    for key, stop in (("PageDown", 34), ("ArrowDown", 33), ("ArrowLeft", 32), ("PageUp", 40)):
        page.keyboard.press(key)
        expect(slider).to_have_attribute("aria-valuenow", str(stop))
    for key, times, zeros in (("Home", 1, 1), ("ArrowDown", 1, 1), ("End", MOST_TIMES, 15)):
        page.keyboard.press(key)
        assert page.evaluate("model.get('times')") == times
        assert marks(page, 2).count("zero") == zeros
    expect(page.locator("strong", has_text="All 15 others become 0")).to_have_count(2)
    page.keyboard.press("a")
    assert page.evaluate("model.get('times')") == MOST_TIMES


@pytest.mark.browser
def test_dragging_by_mouse(mounted: Callable[..., Page]) -> None:
    page = mounted()
    slider = page.get_by_role("slider")
    thumb = page.locator(".amp-be-thumb")
    box, before = slider.bounding_box(), thumb.bounding_box()
    x, y = before["x"] + 5, before["y"] + 5
    page.mouse.move(x, y)
    page.mouse.down()
    expect(slider).to_have_attribute("aria-valuenow", "40")  # it doesn't jump to the pointer
    page.mouse.move(x, y - 60, steps=4)
    after = thumb.bounding_box()
    assert after["y"] == pytest.approx(before["y"] - 60, abs=3)
    page.mouse.move(x, box["y"] - 300)
    assert page.evaluate("model.get('times')") == MOST_TIMES
    page.mouse.move(x, box["y"] + box["height"] + 300)
    page.mouse.up()
    assert page.evaluate("model.get('times')") == 1
    page.mouse.move(x, y)
    assert page.evaluate("model.get('times')") == 1
    middle = box["x"] + box["width"] / 2
    page.mouse.click(middle, before["y"] + before["height"] / 2)  # beside the thumb
    expect(slider).to_have_attribute("aria-valuenow", "40")


@pytest.mark.browser
def test_numbers_and_rounding_by_keyboard(mounted: Callable[..., Page]) -> None:
    page = mounted(times=38)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("model.get('count')") == 32
    assert [len(marks(page, place)) for place in range(4)] == [32] * 4
    assert page.locator(".amp-be-start").count() == 1  # NVFP4 has two blocks of 16
    expect(page.get_by_text("Scales 5 and 0.3125")).to_be_visible()
    assert page.locator(".amp-picture .amp-be-NVFP4").count() == 2
    assert marks(page, 2)[MARKED] == "cut"
    expect(page.get_by_text("saturates at 24 (−20%)")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("model.get('rounding')") == "CEIL"
    expect(page.get_by_text("2**(ceil(log2(amax)) - emax)")).to_be_visible()
    assert marks(page, 2)[MARKED] != "cut"


@pytest.mark.browser
def test_python_moves_the_page(mounted: Callable[..., Page]) -> None:
    page = mounted()
    page.evaluate("model.set('rounding', 'EVEN'); model.set('count', 32); model.set('times', 2)")
    assert page.get_by_label("Numbers", exact=True).input_value() == "32"
    assert page.get_by_label("Scale of MX formats").input_value() == "even (torchao)"
    expect(page.get_by_role("slider")).to_have_attribute("aria-valuenow", "8")


@pytest.mark.browser
def test_numbers_of_ones_own(mounted: Callable[..., Page]) -> None:
    """Zeros, tiny and huge numbers; 16 of them can't become 32."""
    page = mounted(numbers=[0, -0.0, 1e-30, 1e30, *[-3e-5] * 12], times=1000)
    assert page.get_by_label("Numbers", exact=True).locator("option").count() == 1
    assert marks(page, 1) == [*["close"] * 2, "zero", "close", *["zero"] * 12]
    picture = page.get_by_role("img", name="16 numbers by magnitude: 0, 0, 1e−30, 1e+30")
    assert picture.bounding_box()["height"] == 280
    assert page.locator(".amp-be-thumb").bounding_box()["y"] > 0


@pytest.mark.browser
def test_axe_finds_nothing(
    mounted: Callable[..., Page], faultless: Callable[[Page], None], look: tuple[str, int]
) -> None:
    page = mounted(*look)
    for count in (16, 32):
        page.evaluate("(count) => model.set('count', count)", count)
        faultless(page)


@pytest.mark.browser
def test_it_fits_a_phone_and_each_mark_stands_below_its_number(
    mounted: Callable[..., Page],
) -> None:
    for width in (380, 700, 1280):
        page = mounted("dark", width)
        for count in (16, 32):
            page.evaluate("(count) => model.set('count', count)", count)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert pages.faults(page) == []
            stems = page.locator(".amp-picture .amp-be-stem").all()
            cells = page.locator(".amp-be-cells").last.locator("svg").all()
            for stem, cell in [(stems[i], cells[i]) for i in (0, 5, count - 1)]:
                line, mark = stem.bounding_box(), cell.bounding_box()
                centre = mark["x"] + mark["width"] / 2
                assert centre == pytest.approx(line["x"] + line["width"] / 2, abs=1.5)


@pytest.mark.browser
def test_a_key_changes_little_of_the_page(
    mounted: Callable[..., Page], changes_by: Callable[[Page, str], int]
) -> None:
    page = mounted(count=32)
    page.get_by_role("slider").focus()
    assert max(changes_by(page, "ArrowUp") for _ in range(9)) < 800
