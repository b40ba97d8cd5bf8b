"""The gradient histogram: what Python counts, and the page with the keyboard alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import traitlets
from torch.utils._python_dispatch import TorchDispatchMode

from amp_lessons.amp.numbers.formats import FP16, FP32, Format
from amp_lessons.amp.scaling.loss_scale import exponent_histogram, fate, fates
from amp_lessons.amp.training.loops import digits_gradients
from amp_lessons.lessons.widgets import GradientHistogram
from amp_lessons.lessons.widgets.gradient_histogram import CHOICES, MAX_SCALE_EXPONENT

# ---- Python ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gradients() -> dict[str, torch.Tensor]:
    return digits_gradients(loss_factor=1e-6)


@pytest.fixture(scope="module")
def histogram(gradients: dict[str, torch.Tensor]) -> GradientHistogram:
    return GradientHistogram(gradients)


def test_every_fate_is_what_scaling_counts(
    gradients: dict[str, torch.Tensor], histogram: GradientHistogram
) -> None:
    compared = 0
    for plain, format in zip(histogram.data["formats"], CHOICES, strict=True):
        assert plain["name"] == format.name
        for exponent, counted in enumerate(plain["fates"]):
            f = fate(gradients.values(), 2.0**exponent, format)
            assert counted == [f.zero, f.subnormal, f.normal, f.overflow]
            compared += 1
    assert compared == len(CHOICES) * (MAX_SCALE_EXPONENT + 1) == 205


@pytest.mark.parametrize("format", [*CHOICES, Format("E2M1", 2, 1, has_inf=False)])
def test_fates_on_the_edges(format: Format) -> None:
    """Ties, and the doubles beside them, at each edge of the format."""
    edges = [format.min_subnormal / 2, format.min_normal - format.min_subnormal / 2]
    edges += [format.max + format.ulp(format.max) / 2, format.min_normal, format.max, 1.0]
    beside = [math.nextafter(e, side) for e in edges for side in (0, math.inf)]
    numbers = torch.tensor([*edges, *beside, 0.0], dtype=torch.float64)
    scales = [1.0, 2.0, 0.5, 3.0]
    assert fates(numbers, scales, format) == [fate(numbers, s, format) for s in scales]
    assert fates(torch.zeros(3), [1.0, 2.0], format) == [fate(torch.zeros(3), s) for s in (1, 2)]


def test_what_a_lesson_reads(gradients: dict[str, torch.Tensor]) -> None:
    histogram = GradientHistogram(gradients, format="bfloat16", scale=65536)
    assert (histogram.format, histogram.scale_exponent, histogram.scale) == ("BF16", 16, 65536.0)
    assert histogram.fate.zero == 0
    histogram.format = "fp16"
    histogram.scale_exponent = 0
    assert histogram.format == "FP16"
    assert histogram.fate == fate(gradients.values(), 1.0, FP16)
    assert histogram.histogram == exponent_histogram(gradients.values())


def test_the_edges_that_are_drawn(histogram: GradientHistogram) -> None:
    edges = {f["name"]: f for f in histogram.data["formats"]}
    assert (edges["FP16"]["becomes_zero"], edges["FP16"]["normal"]) == (-25, -14)
    assert edges["FP16"]["overflows"] == math.log2(65520)
    assert edges["FP8 E4M3"]["overflows"] == math.log2(464)
    assert [f["overflow"] for f in histogram.data["formats"]] == ["inf", "inf", "NaN", "inf", "inf"]


def test_the_shapes_of_gradients_that_it_takes() -> None:
    one = torch.tensor([[0.5, 0.25], [0.0, 2.0]])
    whole = GradientHistogram(one).data
    assert whole == GradientHistogram([one[0], one[1]]).data
    assert whole == GradientHistogram({"a": one[0], "b": one[1]}).data
    assert whole == GradientHistogram(t for t in one).data
    assert whole == GradientHistogram(one.bfloat16().requires_grad_()).data
    assert (whole["zeros"], whole["total"]) == (1, 4)


def test_a_format_of_ones_own() -> None:
    tiny = Format("E2M1", 2, 1, has_inf=False)
    histogram = GradientHistogram(torch.ones(2), format=tiny)
    assert histogram.format == "E2M1"
    assert len(histogram.data["formats"]) == 6
    with pytest.raises(ValueError, match="another format called FP16"):
        GradientHistogram(torch.ones(2), format=Format("FP16", 2, 1))


@pytest.mark.parametrize(
    ("gradients", "message"),
    [
        ([], "no gradient that is not zero"),
        (torch.empty(0), "no gradient that is not zero"),
        ({"w": torch.zeros(3)}, "no gradient that is not zero"),
        ({"w": torch.tensor([1.0, math.inf, math.nan])}, "gradient 'w' holds 2 inf or NaN"),
        ([torch.ones(2), None], "gradient number 1 is None: run backward"),
        ([[0.1]], "gradient number 0 must be a tensor, got list"),
        (torch.ones(2, dtype=torch.int64), "must be of a float dtype, got torch.int64"),
        (3.0, "gradients must be a tensor, several, or a dict of them by name, got float"),
        ("weights", "gradients must be a tensor, several, or a dict of them by name, got str"),
    ],
)
def test_gradients_that_it_refuses(gradients: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GradientHistogram(gradients)


@pytest.mark.parametrize("scale", [3.0, 0.5, 2.0**41, 0.0, -2.0, math.inf, math.nan, "big"])
def test_scales_that_it_refuses(scale: Any) -> None:
    with pytest.raises(ValueError, match="scale must be a power of two from 1 to 2\\*\\*40"):
        GradientHistogram(torch.ones(2), scale=scale)


def test_traits_that_it_refuses(histogram: GradientHistogram) -> None:
    with pytest.raises(ValueError, match="no format called 'FP12'"):
        GradientHistogram(torch.ones(2), format="FP12")
    with pytest.raises(ValueError, match="TF32 is not among this histogram's formats: FP16, BF16"):
        histogram.format = "TF32"
    with pytest.raises(traitlets.TraitError, match="scale_exponent must be 0 to 40, got 41"):
        histogram.scale_exponent = 41
    assert (histogram.format, histogram.scale_exponent) == ("FP16", 0)


class OpCounter(TorchDispatchMode):
    """Counts the operations that torch runs."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **kwargs or {})


def test_a_million_gradients_take_as_many_operations_as_ten() -> None:
    counts = []
    for size in (10, 1_000_000):
        gradients = torch.randn(size, generator=torch.Generator().manual_seed(0)) * 1e-7
        with OpCounter() as counter:
            GradientHistogram(gradients)
        counts.append(counter.count)
    assert counts[0] == counts[1] > 0


# ---- the page ----------------------------------------------------------------------------------


@pytest.fixture
def mounted(mount: Callable[..., Any], histogram: GradientHistogram) -> Callable[..., Any]:
    def mounted_(scheme: str = "light", width: int = 900) -> Any:
        return mount("gradient_histogram", {"data": histogram.data}, scheme, width)

    return mounted_


def counts(page: Any) -> list[int]:
    return [int(text.replace(",", "")) for text in page.locator(".amp-count").all_inner_texts()]


def expected(histogram: GradientHistogram, format: str, exponent: int) -> list[int]:
    return next(f for f in histogram.data["formats"] if f["name"] == format)["fates"][exponent]


@pytest.mark.browser
def test_the_slider_by_keyboard(mounted: Callable[..., Any], histogram: GradientHistogram) -> None:
    page = mounted()
    slider = page.get_by_role("slider", name="Loss scale")
    assert counts(page) == expected(histogram, "FP16", 0)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    for _ in range(16):
        page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "scale 2^16 = 65536"
    now = expected(histogram, "FP16", 16)
    assert counts(page) == now
    assert now != expected(histogram, "FP16", 0)
    live = page.locator("output[aria-live=polite]").inner_text()
    assert live.startswith("FP16, scale 2^16 = 65536: ")
    alive = histogram.data["total"] - histogram.data["zeros"]
    assert f"{now[2]:,} normal ({100 * now[2] / alive:.1f} %)" in live
    assert live in page.get_by_role("img", name="Histogram").get_attribute("aria-label")
    page.keyboard.press("End")
    assert counts(page) == expected(histogram, "FP16", MAX_SCALE_EXPONENT)
    assert page.evaluate("model.get('scale_exponent')") == MAX_SCALE_EXPONENT


@pytest.mark.browser
def test_the_format_by_keyboard(mounted: Callable[..., Any], histogram: GradientHistogram) -> None:
    page = mounted()
    page.keyboard.press("Tab")
    for format in [f.name for f in CHOICES][1:]:
        page.keyboard.press("ArrowDown")
        assert page.get_by_label("Format").input_value() == format
        assert counts(page) == expected(histogram, format, 0)
        edge = "NaN" if format == "FP8 E4M3" else "inf"
        labels = page.locator(".amp-band-label").all_text_contents()
        assert labels == ["becomes zero", "subnormal", "normal", f"overflow: {edge}"]


@pytest.mark.browser
def test_python_moves_the_page(mounted: Callable[..., Any], histogram: GradientHistogram) -> None:
    page = mounted()
    page.evaluate("model.set('scale_exponent', 20); model.set('format', 'FP8 E5M2')")
    assert counts(page) == expected(histogram, "FP8 E5M2", 20)
    assert page.get_by_role("slider").input_value() == "20"


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("width", [900, 500])
def test_no_two_labels_overlap(mounted: Callable[..., Any], width: int) -> None:
    page = mounted(width=width)
    for format in [f.name for f in CHOICES]:
        page.get_by_label("Format").select_option(format)
        boxes = [box.bounding_box() for box in page.locator(".amp-picture text").all()]
        assert len(boxes) > 8
        for i, a in enumerate(boxes):
            for b in boxes[:i]:
                apart = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
                apart |= a["y"] + a["height"] <= b["y"] or b["y"] + b["height"] <= a["y"]
                assert apart, (format, a, b)


@pytest.mark.browser
def test_axe_finds_nothing(
    mounted: Callable[..., Any], faultless: Callable[[Any], None], look: tuple[str, int]
) -> None:
    page = mounted(*look)
    for format, exponent in (("FP16", 0), ("FP8 E4M3", 40), (FP32.name, 16)):
        page.evaluate(
            "([f, e]) => { model.set('format', f); model.set('scale_exponent', e) }",
            [
                format,
                exponent,
            ],
        )
        faultless(page)


@pytest.mark.browser
def test_one_gradient_is_enough(mount: Callable[..., Any]) -> None:
    data = GradientHistogram(torch.tensor([1.0])).data
    page = mount("gradient_histogram", {"data": data, "format": "FP16", "scale_exponent": 40})
    assert counts(page) == [0, 0, 0, 1]


@pytest.mark.slow
@pytest.mark.browser
def test_a_key_changes_little_of_the_page(
    mounted: Callable[..., Any], changes_by: Callable[[Any, str], int]
) -> None:
    page = mounted()
    page.get_by_role("slider").focus()
    changes = [changes_by(page, "ArrowRight") for _ in range(9)]
    assert page.get_by_role("slider").input_value() == "9"
    assert 0 < min(changes) <= max(changes) < 300
