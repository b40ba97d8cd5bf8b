"""The bit explorer: its traits in Python, and the page with the keyboard alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import traitlets

from amp_lessons.amp.numbers.formats import FP4_E2M1, FP8_E4M3, FP16, Format
from amp_lessons.lessons.widgets import BitExplorer

# ---- Python ----------------------------------------------------------------------------------


def test_what_a_lesson_reads() -> None:
    explorer = BitExplorer(value=0.1, format="FP16")
    assert (explorer.value, explorer.format, explorer.code) == (0.1, "FP16", 0x2E66)
    assert explorer.stored == 0.0999755859375
    assert explorer.fields == (0, 11, 614, "normal")
    assert explorer.number_format is FP16
    assert [f.name for f in explorer.formats] == [
        "FP32",
        "TF32",
        "FP16",
        "BF16",
        "FP8 E4M3",
        "FP8 E5M2",
    ]


def test_the_traits_agree_whichever_is_set() -> None:
    explorer = BitExplorer()
    explorer.code = 0x3C00
    assert explorer.value == 1.0
    explorer.value = 1000.0
    explorer.format = "fp8_e4m3"
    assert (explorer.format, explorer.code) == ("FP8 E4M3", 0x7F)
    explorer.saturate = True
    assert explorer.stored == 448.0
    assert explorer.value == 1000.0
    explorer.format = "FP32"
    assert explorer.stored == 1000.0


def test_zeros_and_nans_keep_their_bits() -> None:
    explorer = BitExplorer(0.0)
    explorer.value = -0.0
    assert explorer.code == 0x8000
    explorer.code = 0
    assert math.copysign(1, explorer.value) == 1
    explorer.code = 0x7C01  # a NaN, though not the one that encode gives
    assert math.isnan(explorer.value)
    assert explorer.code == 0x7C01
    explorer.value = math.inf
    assert explorer.code == 0x7C00


def test_bits_that_say_inf_stay_when_saturating() -> None:
    explorer = BitExplorer(1.0, saturate=True)
    explorer.code = 0x7C00
    assert (explorer.value, explorer.code) == (math.inf, 0x7C00)


@pytest.mark.parametrize("value", [0.1, -0.0, math.inf, -math.inf, math.nan, 5e-324])
def test_a_value_travels_as_text(value: float) -> None:
    explorer = BitExplorer(value)
    sent = explorer.get_state("value")["value"]
    assert isinstance(sent, str)
    other = BitExplorer(3.0)
    other.set_state({"value": sent, "code": explorer.code})
    assert repr(other.value) == repr(float(value))
    assert other.code == explorer.code


def test_a_change_of_the_page_arrives_whole() -> None:
    explorer = BitExplorer(0.1)
    explorer.set_state({"format": "FP8 E4M3", "saturate": True, "value": "1000", "code": 0x7E})
    assert (explorer.format, explorer.value, explorer.code) == ("FP8 E4M3", 1000.0, 0x7E)


def test_formats_of_ones_own() -> None:
    tiny = Format("E2M1", exponent_bits=2, mantissa_bits=1, has_inf=False)
    explorer = BitExplorer(6.0, format=tiny)
    assert explorer.format == "E2M1"
    assert len(explorer.formats) == 7
    two = BitExplorer(1.0, format=torch.bfloat16, formats=["BF16", FP8_E4M3])
    assert [f.name for f in two.formats] == ["BF16", "FP8 E4M3"]
    assert two.get_state("formats")["formats"][1] == {
        "name": "FP8 E4M3",
        "exponent_bits": 4,
        "mantissa_bits": 3,
        "has_inf": False,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "FP12"}, "no format called 'FP12'; there are FP32"),
        ({"format": Format("FP64", 11, 52)}, "FP64 has 64 bits, and the bit explorer shows 32"),
        ({"format": FP4_E2M1}, "FP4 E2M1 has no NaN"),
        ({"formats": [FP16, Format("FP16", 4, 3)]}, "two formats are called FP16"),
        ({"value": "a tenth"}, "value must be a number, got 'a tenth'"),
        ({"value": None}, "value must be a number, got None"),
    ],
)
def test_what_it_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BitExplorer(**arguments)


def test_a_refused_trait_leaves_the_old_value() -> None:
    explorer = BitExplorer(0.1)
    with pytest.raises(ValueError, match="no format called 'FP12'"):
        explorer.format = "FP12"
    with pytest.raises(ValueError, match="65536 is not a bit pattern of FP16"):
        explorer.code = 1 << 16
    with pytest.raises(traitlets.TraitError):
        explorer.value = "much"
    only = BitExplorer(0.1, formats=["FP16"])
    with pytest.raises(ValueError, match="BF16 is not among this explorer's formats: FP16"):
        only.format = "BF16"
    assert (explorer.value, explorer.format, explorer.code) == (0.1, "FP16", 0x2E66)


# ---- the page ----------------------------------------------------------------------------------


@pytest.fixture
def explorer(open_page: Callable[..., Any]) -> Any:
    page = open_page("bit_explorer.html")
    page.wait_for_selector(".amp-widget")
    return page


def exact(page: Any) -> str:
    return page.get_by_role("group", name="Exact value").inner_text()


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def type_value(page: Any, text: str) -> None:
    page.get_by_label("Value", exact=True).focus()
    press(page, "Control+A", "Delete")
    page.keyboard.type(text)
    press(page, "Enter")


def focused_name(page: Any) -> str:
    return page.evaluate("document.activeElement.getAttribute('aria-label')")


@pytest.mark.browser
def test_bits_by_keyboard(explorer: Any) -> None:
    assert exact(explorer) == "0.0999755859375"
    press(explorer, "Tab", "Tab", "Tab", "Tab")  # format, value, saturate, bits
    assert focused_name(explorer) == "sign bit, value 0"
    press(explorer, "Space")
    assert focused_name(explorer) == "sign bit, value 1"
    assert exact(explorer) == "-0.0999755859375"
    press(explorer, "ArrowRight", "ArrowRight", "ArrowLeft", "Enter")
    assert focused_name(explorer) == "exponent bit 4, value 1"
    assert exact(explorer) == "-6552"
    press(explorer, "End", "Space")
    assert focused_name(explorer) == "mantissa bit 0, value 1"
    pressed = explorer.get_by_role("button", name="mantissa bit 0")
    assert pressed.get_attribute("aria-pressed") == "true"
    assert "FP16 0xee67: -6556, normal" in explorer.get_by_role("status").inner_text()
    press(explorer, "Shift+Tab", "Tab")
    assert focused_name(explorer) == "mantissa bit 0, value 1", "Tab comes back to the same bit"
    press(explorer, "Home")
    assert focused_name(explorer) == "sign bit, value 1"


@pytest.mark.browser
def test_typed_values(explorer: Any) -> None:
    for format, text, digits, words in (
        ("FP16", "1e-8", "0", "rounded to zero: underflow"),
        ("FP16", "-1e-8", "-0", "rounded to zero: underflow"),
        ("FP16", "65520", "inf", "overflowed to inf"),
        ("FP16", "-1e300", "-inf", "overflowed to -inf"),
        ("FP16", "0.5", "0.5", "exact: nothing was lost"),
        ("FP16", "-0", "-0", "exact: nothing was lost"),
        ("FP16", "inf", "inf", "exact: nothing was lost"),
        ("FP16", "nan", "NaN", "NaN stays NaN"),
        ("FP16", "2049", "2048", "rounded down: a tie goes to the even mantissa"),
        ("FP16", "1e-7", "0.00000011920928955078125", "rounded up: a subnormal"),
        ("FP16", "2^-24", "0.000000059604644775390625", "exact"),
        ("FP16", "0x3c00", "1", "exact"),
        ("FP16", "0b0 01111 1000000000", "1.5", "exact"),
        ("FP32", "0.1", "0.100000001490116119384765625", "rounded up"),
        ("TF32", "4097", "4096", "rounded down"),
        ("BF16", "257", "256", "rounded down: a tie"),
        ("FP8 E4M3", "1000", "NaN", "overflowed to NaN: FP8 E4M3 has no inf"),
        ("FP8 E5M2", "−3", "-3", "exact"),
    ):
        explorer.get_by_label("Format").select_option(format)
        type_value(explorer, text)
        assert exact(explorer) == digits, (format, text)
        verdict = explorer.locator(".amp-verdict")
        assert verdict.inner_text().startswith(words), (format, text)
        bad = words.startswith(("overflowed", "rounded to zero"))
        assert verdict.get_attribute("data-bad") == str(bad).lower(), "red only for what is lost"
        assert explorer.get_by_role("alert").inner_text() == ""


@pytest.mark.browser
def test_a_bad_value_loses_nothing(explorer: Any) -> None:
    field, alert = explorer.get_by_label("Value", exact=True), explorer.get_by_role("alert")
    for text, message in (
        ("a tenth", "“a tenth” is not a number. Try 0.1"),
        ("0,1", "The decimal sign is a point."),
        ("", "Type a number"),
        ("0x1ffff", "0x1ffff is not a bit pattern of FP16, which has 16 bits."),
        ("1e400", "1e400 is outside float64"),
        ("1e-400", "1e-400 is outside float64"),
        ("1 + 1", "is not a number"),
    ):
        type_value(explorer, "0.1")
        type_value(explorer, text)
        assert message in alert.inner_text()
        assert field.get_attribute("aria-invalid") == "true"
        assert (field.input_value(), exact(explorer)) == (text, "0.0999755859375")
        type_value(explorer, "0.25")
        assert alert.inner_text() == ""
        assert field.get_attribute("aria-invalid") is None
        assert exact(explorer) == "0.25"


@pytest.mark.browser
def test_what_rounding_lost_in_numbers(explorer: Any) -> None:
    panel = explorer.get_by_role("group", name="What rounding lost").inner_text()
    for line in ("0.1", "0.0999755859375", "0.00002441 (0.4 ulp)", "0.0002441 (0.0244 %)"):
        assert line in panel
    facts = explorer.get_by_role("group", name="This number").inner_text()
    for line in ("stored 11, minus bias 15 = −4", "1 + 614/1024 = 1.599609375", "0x2e66"):
        assert line in facts
    formula = explorer.get_by_role("math").get_attribute("aria-label")
    assert formula == "minus one to the 0, times 2 to the -4, times binary 1.1001100110"


@pytest.mark.browser
def test_neighbours_by_keyboard(explorer: Any) -> None:
    type_value(explorer, "65504")
    above = explorer.get_by_role("button", name="Step to the neighbour above")
    assert above.get_attribute("aria-label") == "Step to the neighbour above, inf"
    above.focus()
    press(explorer, "Enter")
    assert exact(explorer) == "inf"
    assert above.is_disabled()
    below = explorer.get_by_role("button", name="Step to the neighbour below, 65504")
    below.focus()
    press(explorer, "Space", "Space")
    assert exact(explorer) == "65472"


@pytest.mark.browser
def test_a_format_keeps_the_value_that_was_asked_for(explorer: Any) -> None:
    explorer.get_by_label("Format").focus()
    press(explorer, "ArrowDown")  # BF16
    assert exact(explorer) == "0.10009765625"
    assert explorer.get_by_role("toolbar").get_attribute("aria-label") == "The 16 bits of BF16"
    type_value(explorer, "1000")
    explorer.get_by_label("Format").select_option("FP8 E4M3")
    explorer.get_by_label("Clip at the largest number").focus()
    press(explorer, "Space")
    assert exact(explorer) == "448"
    assert "clipped to the largest number" in explorer.locator(".amp-verdict").inner_text()


@pytest.mark.browser
def test_any_nan_can_be_toggled(explorer: Any) -> None:
    type_value(explorer, "0x7c01")
    assert "0x7c01" in explorer.get_by_role("group", name="This number").inner_text()
    explorer.get_by_role("button", name="mantissa bit 9").focus()
    press(explorer, "Space")
    assert "0x7e01" in explorer.get_by_role("group", name="This number").inner_text()


@pytest.mark.browser
def test_axe_finds_nothing(
    open_page: Callable[..., Any], faultless: Callable[[Any], None], look: tuple[str, int]
) -> None:
    page = open_page("bit_explorer.html", *look)
    for format, text in (("FP16", "0.1"), ("FP32", "-1e-45"), ("FP8 E4M3", "oops")):
        page.get_by_label("Format").select_option(format)
        type_value(page, text)
        faultless(page)
    type_value(page, "nan")
    faultless(page)


@pytest.mark.browser
def test_python_moves_the_page(mount: Callable[..., Any]) -> None:
    page = mount("bit_explorer", {"value": 1})
    page.evaluate("model.set('value', '0.5')")
    assert exact(page) == "0.5"
    page.evaluate("model.set('format', 'FP8 E5M2')")
    assert page.get_by_label("Format").input_value() == "FP8 E5M2"
    press(page, "Tab", "Tab", "Tab", "Tab", "Space")
    assert page.evaluate("[model.get('value'), model.get('code')]") == ["-0.5", 0b1_01110_00]


@pytest.mark.slow
@pytest.mark.browser
def test_a_key_changes_little_of_the_page(
    explorer: Any, changes_by: Callable[[Any, str], int]
) -> None:
    explorer.get_by_label("Format").select_option("FP32")
    explorer.get_by_role("button", name="mantissa bit 3").focus()
    changes = [changes_by(explorer, "Space") for _ in range(9)]
    assert "mantissa bit 3, value" in focused_name(explorer)
    assert 0 < min(changes) <= max(changes) < 300
