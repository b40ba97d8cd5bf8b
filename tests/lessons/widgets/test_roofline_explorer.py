"""The roofline explorer: roofline.mjs against Python, what Python keeps, and the page."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pages
import pytest
import traitlets

from amp_lessons.amp import roofline
from amp_lessons.amp.roofline import GPUS, Matmul
from amp_lessons.lessons.widgets import RooflineExplorer
from amp_lessons.lessons.widgets.roofline_explorer import MAX_SIZE

# ---- roofline.mjs ------------------------------------------------------------------------------


def random_products(count: int) -> list[Matmul]:
    """Sizes from the whole range, small, large and odd ones among them."""
    draw = random.Random(0)
    sizes = [1, 2, 7, 8, 127, 128, 513, 4096, MAX_SIZE]
    some = [draw.choice((draw.choice(sizes), draw.randint(1, MAX_SIZE))) for _ in range(3 * count)]
    return [Matmul(*some[3 * i : 3 * i + 3]) for i in range(count)]


@pytest.mark.browser
@pytest.mark.parametrize("count", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_the_page_counts_as_python_does(open_page: Callable[..., Any], count: int) -> None:
    """FLOPs, bytes, bound, floors, ridge, share and alignment on every GPU and dtype: all bits."""
    products = random_products(count)
    cases = [(gpu, dtype) for gpu in GPUS for dtype in gpu.dtypes]
    plain = RooflineExplorer().data["gpus"]
    got = pages.value_of(
        open_page(),
        """async ([gpus, cases, products]) => {
          const { analyse, castFloor, ridge, roof, shareOfPeak, unaligned } =
            await import("/roofline.mjs");
          return cases.map(([name, dtype]) => {
            const gpu = gpus.find((g) => g.name === name);
            return products.map(([m, n, k]) => {
              const work = analyse(gpu, dtype, { m, n, k });
              const share = shareOfPeak(gpu, dtype, work.flops, 0.25);
              const top = roof(gpu, dtype, work.intensity);
              const odd = unaligned(dtype, { m, n, k }).join("");
              return [work.flops, work.bytes, work.intensity, work.floor, work.bound,
                ridge(gpu, dtype), share, top, odd, castFloor(gpu, k * n)];
            });
          });
        }""",
        [plain, [(g.name, d) for g, d in cases], [(p.m, p.n, p.k) for p in products]],
    )
    bounds = set()
    for (gpu, dtype), rows in zip(cases, got, strict=True):
        for work, row in zip(products, rows, strict=True):
            moved = work.bytes(dtype)
            want = [work.flops, moved, work.intensity(dtype)]
            want += [roofline.matmul_floor(gpu, dtype, work)]
            want += [roofline.bound(gpu, dtype, work.flops, moved), gpu.ridge(dtype)]
            want += [roofline.share_of_peak(gpu, dtype, work.flops, 0.25)]
            want += [gpu.roof(dtype, work.intensity(dtype))]
            want += ["".join(roofline.unaligned(work, dtype))]
            want += [roofline.cast_floor(gpu, work.k * work.n)]
            assert row == want, (gpu.name, dtype, work)
            bounds.add((dtype, row[4]))
    assert len(bounds) == 8, "each dtype should meet both bounds"


# ---- Python ------------------------------------------------------------------------------------


def test_what_it_says_to_python() -> None:
    explorer = RooflineExplorer("a100", "bf16", 64, 4096, 4096, baseline="tf32")
    assert explorer.gpu == "A100 SXM 80GB"
    assert explorer.bound == {"tf32": "bandwidth", "bf16": "bandwidth"}
    assert explorer.limit == pytest.approx(2)
    explorer.m = 4096
    assert explorer.bound == {"tf32": "compute", "bf16": "compute"}
    assert explorer.floor_seconds["tf32"] == pytest.approx(2 * 4096**3 / 156e12)
    assert explorer.limit == pytest.approx(2), "the ratio of the peaks, which is 2 here too"


def test_the_limit_on_an_h200() -> None:
    """What lesson 10 counts by hand: 14.8 where both compute, 2 where both move bytes, and less
    where autocast casts the weight first."""
    explorer = RooflineExplorer()
    assert explorer.limit == pytest.approx(989 / 67)
    explorer.m = 1
    assert explorer.limit == pytest.approx(2, rel=1e-3)
    assert explorer.limit_with_cast == pytest.approx(0.5, rel=1e-3)
    explorer.m, cast = 256, 6 * 4096**2 / 4.8e12
    floors = explorer.floor_seconds
    assert explorer.limit_with_cast == pytest.approx(floors["fp32"] / (cast + floors["fp16"]))
    explorer.m = 64
    assert explorer.bound == {"fp32": "compute", "fp16": "bandwidth"}
    assert 2 < explorer.limit < 989 / 67


def test_a_gpu_without_the_dtypes() -> None:
    explorer = RooflineExplorer(dtype="bf16", baseline="tf32")
    explorer.gpu = "t4"
    assert (explorer.gpu, explorer.baseline, explorer.dtype) == ("T4", "fp32", "fp16")
    with pytest.raises(traitlets.TraitError, match="T4 has no tf32 tensor cores"):
        explorer.baseline = "tf32"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gpu": "H300"}, "no GPU is called 'H300'; there are T4, V100"),
        ({"dtype": "fp32"}, "dtype must be fp16 or bf16, got 'fp32'"),
        ({"baseline": "fp16"}, "baseline must be fp32 or tf32, got 'fp16'"),
        ({"gpu": "V100", "baseline": "tf32"}, "V100 SXM2 has no tf32 tensor cores"),
        ({"gpu": "V100", "dtype": "bf16"}, "V100 SXM2 has no bf16 tensor cores"),
        ({"m": 0}, "m must be a whole number from 1 to 131072, got 0"),
        ({"k": MAX_SIZE + 1}, "k must be a whole number from 1 to 131072, got 131073"),
        ({"measured": -1.0}, "measured must be a time in milliseconds, or 0 for none, got -1.0"),
        ({"measured": float("nan")}, "measured must be a time"),
    ],
)
def test_what_it_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RooflineExplorer(**arguments)
    explorer = RooflineExplorer(arguments.get("gpu", "H200") if len(arguments) > 1 else "H200")
    name = list(arguments)[-1]
    with pytest.raises(traitlets.TraitError, match=message):
        setattr(explorer, name, arguments[name])


def test_what_a_page_sends() -> None:
    """Several values in one message, as anywidget hands them over: the time as text."""
    explorer = RooflineExplorer("T4")
    explorer.set_state({"gpu": "H200", "baseline": "tf32", "dtype": "bf16"})
    assert (explorer.gpu, explorer.baseline, explorer.dtype) == ("H200", "tf32", "bf16")
    explorer.set_state({"gpu": "V100 SXM2", "baseline": "fp32", "dtype": "fp16"})
    explorer.set_state({"measured": "0.25", "m": 512})
    assert (explorer.dtype, explorer.measured, explorer.m) == ("fp16", 0.25, 512)


# ---- the page ----------------------------------------------------------------------------------

NAMES = ("gpu", "baseline", "dtype", "m", "n", "k", "measured", "data")


@pytest.fixture
def mounted(mount: Callable[..., Any]) -> Callable[..., Any]:
    def mounted_(
        explorer: RooflineExplorer | None = None, scheme: str = "light", width: int = 900
    ) -> Any:
        return mount(
            "roofline_explorer", (explorer or RooflineExplorer()).get_state(NAMES), scheme, width
        )

    return mounted_


def facts(page: Any) -> dict[str, tuple[str, str]]:
    """The rows of the table: what it says of the baseline and of 16 bit."""
    rows = page.locator(".amp-sides tbody tr").all()
    return {r.locator("th").inner_text(): tuple(r.locator("td").all_inner_texts()) for r in rows}


def say(page: Any) -> list[str]:
    return page.locator(".amp-verdict").all_inner_texts()


@pytest.mark.browser
def test_the_seeds_layer_on_an_h200(mounted: Callable[..., Any]) -> None:
    page = mounted()
    assert facts(page) == {
        "bytes moved": ("201 MB", "101 MB"),
        "FLOP per byte": ("683", "1,365"),
        "ridge, FLOP per byte": ("14", "206"),
        "bound by": ("compute", "compute"),
        "peak, dense": ("67 TFLOP/s", "989 TFLOP/s"),
        "FLOP/s at the floor": ("67 TFLOP/s", "989 TFLOP/s"),
        "floor": ("2.05 ms", "139 µs"),
    }
    assert page.locator(".amp-sides caption").inner_text() == "137 GFLOP on H200"
    assert page.locator(".amp-sides thead th").all_inner_texts() == ["FP32", "FP16"]
    assert say(page)[:3] == [
        "By the data sheet, FP16 is at most 14.8 times as fast as FP32.",
        "Both are bound by compute: the limit is the ratio of the peaks.",
        "With autocast's cast of an FP32 weight of (k, n): 12.8 times.",
    ]
    label = page.get_by_role("img").get_attribute("aria-label")
    assert label.startswith("Rooflines, both axes logarithmic. H200, m 4096, n 4096, k 4096.")
    assert "Floors: FP32 2.05 ms, FP16 139 µs." in label
    assert page.locator(".amp-picture :is(rect, circle).amp-work").count() == 2


@pytest.mark.browser
def test_by_keyboard_alone(mounted: Callable[..., Any]) -> None:
    page = mounted()
    press = page.keyboard.press
    press("Tab")
    assert page.evaluate("document.activeElement.labels[0].textContent") == "GPU"
    press("Tab")
    page.keyboard.type("TF32")
    assert page.evaluate("model.get('baseline')") == "tf32"
    assert facts(page)["floor"] == ("278 µs", "139 µs")
    press("Tab")
    page.keyboard.type("BF16")
    assert page.evaluate("model.get('dtype')") == "bf16"
    for size in ("8", "4096", "4096"):
        press("Tab")
        press("Control+A")
        page.keyboard.type(size)
        press("Enter")
    assert [page.evaluate(f"model.get('{name}')") for name in "mnk"] == [8, 4096, 4096]
    assert say(page)[:3] == [
        "By the data sheet, BF16 is at most 2 times as fast as TF32.",
        "Both are bound by bandwidth: the limit is the ratio of the bytes.",
        "With autocast's cast of an FP32 weight of (k, n): 0.501 times, so it is slower.",
    ]
    assert facts(page)["floor"] == ("14 µs", "7.02 µs")
    press("Tab")
    page.keyboard.type("0.014")
    press("Enter")
    reported = "Measured: 1.94 % of the peak; 1.99 times the floor."
    assert say(page)[3] == reported
    assert page.locator("output").inner_text().endswith(reported)
    assert page.locator(".amp-picture .amp-reached").count() == 1


@pytest.mark.browser
def test_a_time_below_the_floor_is_not_believed(mounted: Callable[..., Any]) -> None:
    page = mounted(RooflineExplorer(measured=0.1))
    assert say(page)[3].startswith("Faster than the floor: the time, the dtype")
    page.evaluate("model.set('m', 1); model.set('measured', '0.001')")
    assert say(page)[3].startswith("Faster than the floor: the data were still in the L2 cache")


@pytest.mark.browser
def test_one_bound_by_compute_and_one_by_bandwidth(mounted: Callable[..., Any]) -> None:
    page = mounted(RooflineExplorer(m=64))
    assert say(page)[1] == "FP32 is bound by compute, FP16 by bandwidth."
    assert facts(page)["bound by"] == ("compute", "bandwidth")


@pytest.mark.browser
def test_a_gpu_without_bf16(mounted: Callable[..., Any]) -> None:
    page = mounted(RooflineExplorer(dtype="bf16", baseline="tf32"))
    page.get_by_label("GPU").select_option("T4")
    chosen = page.evaluate("['gpu', 'baseline', 'dtype'].map((name) => model.get(name))")
    assert chosen == ["T4", "fp32", "fp16"]
    options = page.locator("option").all()
    assert [o.inner_text() for o in options if o.is_disabled()] == ["TF32", "BF16"]
    assert page.get_by_text("no BF16 in its tensor cores").is_visible()
    labels = page.locator(".amp-picture :is(.amp-band-label, .amp-tick)").all_text_contents()
    assert [text for text in labels if text.startswith(("FP", "TF", "BF"))] == ["FP32", "FP16"]


@pytest.mark.browser
def test_notes_on_small_and_odd_sizes(mounted: Callable[..., Any]) -> None:
    page = mounted(RooflineExplorer(m=513, n=128, k=128))
    assert page.get_by_text("m is not a multiple of 8").is_visible()
    assert page.get_by_text("A launch costs a few microseconds").is_visible()
    page.evaluate("model.set('m', 4096); model.set('n', 4096); model.set('k', 4096)")
    assert not page.get_by_text("multiple of 8").is_visible()
    assert not page.get_by_text("A launch costs").is_visible()
    assert page.get_by_label("m", exact=True).input_value() == "4096"


@pytest.mark.browser
def test_what_the_page_refuses(mounted: Callable[..., Any]) -> None:
    page = mounted()
    alert = page.get_by_role("alert")
    for label, typed, complaint in (
        ("m", "0", "m must be a whole number from 1 to 131072, got “0”."),
        ("n", "", "n must be a whole number from 1 to 131072, got “”."),
        ("k", "4096.5", "k must be a whole number"),
        ("m", "200000", "m must be a whole number from 1 to 131072"),
        ("16-bit time (ms)", "fast", "The measured time must be a number of milliseconds"),
        ("16-bit time (ms)", "-1", "The measured time must be a number of milliseconds"),
    ):
        before = facts(page)
        field = page.get_by_label(label, exact=True)
        field.fill(typed)
        field.press("Enter")
        assert complaint in alert.inner_text()
        assert field.get_attribute("aria-invalid") == "true"
        assert facts(page) == before
        field.fill("16")
        field.press("Enter")
        assert alert.inner_text() == ""


@pytest.mark.browser
def test_everything_stays_inside_the_picture(mounted: Callable[..., Any]) -> None:
    page = mounted(RooflineExplorer("B200", "fp16", 1, 1, 1, measured=1e9))
    for m, n, k in ((1, 1, 1), (MAX_SIZE, MAX_SIZE, MAX_SIZE), (1, 1, MAX_SIZE)):
        page.evaluate(f"model.set('m', {m}); model.set('n', {n}); model.set('k', {k})")
        for mark, x, y in (("circle", "cx", "cy"), ("rect", "x", "y")):
            dot = page.locator(f".amp-picture {mark}.amp-work")
            assert 0 <= float(dot.get_attribute(x)) <= 900
            assert 0 <= float(dot.get_attribute(y)) <= 360
        assert "NaN" not in page.locator(".amp-picture").inner_html()


@pytest.mark.browser
def test_axe_finds_nothing(
    mounted: Callable[..., Any], faultless: Callable[[Any], None], look: tuple[str, int]
) -> None:
    page = mounted(RooflineExplorer(m=513, measured=0.2), *look)
    faultless(page)
    page.get_by_label("k", exact=True).fill("none")
    page.get_by_label("k", exact=True).press("Enter")
    faultless(page)


@pytest.mark.slow
@pytest.mark.browser
def test_a_key_changes_little_of_the_page(
    mounted: Callable[..., Any], changes_by: Callable[[Any, str], int]
) -> None:
    page = mounted()
    page.get_by_label("16-bit dtype").focus()
    changes = [changes_by(page, key) for key in ("ArrowDown", "ArrowUp", "ArrowDown")]
    assert 0 < min(changes) <= max(changes) < 300
