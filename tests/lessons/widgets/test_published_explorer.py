"""The explorer of published runs: what Python keeps and refuses, and the page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from statistics import median
from typing import Any

import pytest
import traitlets

from amp_lessons.amp import roofline
from amp_lessons.amp.speed.published import GpuMedian, load_published
from amp_lessons.lessons.widgets import PublishedExplorer
from amp_lessons.lessons.widgets.published_explorer import batch_of, gpus, models_on, speedup_of

SSD = "SSD300 v1.1 (ResNet50)"

# ---- Python ------------------------------------------------------------------------------------


def test_every_published_pair_is_in_it_once() -> None:
    published = load_published()
    alone = [row for row in published.medians if row.gpu_count == 1]
    pairs = PublishedExplorer().data["pairs"]
    assert len(pairs) == len(published.training) + len(alone)
    expected = [speedup_of(row) for row in (*published.training, *alone)]
    assert sorted(pair["speedup"] for pair in pairs) == sorted(expected)
    assert {pair["gpu"] for pair in pairs} == set(gpus())


def test_a_pair_as_the_page_takes_it() -> None:
    data = PublishedExplorer().data
    (pair,) = [
        p for p in data["pairs"] if p["rates"].startswith("TF32 364.27, FP16 662.91 images/s")
    ]
    assert (pair["gpu"], pair["model"], pair["gpus"], pair["batch"]) == ("A100 80GB", SSD, 1, "64")
    assert pair["speedup"] == pytest.approx(662.91 / 364.27)
    source = data["sources"][pair["source"]]
    published = next(p for p in load_published().training if p.rate_mixed == 662.91)
    assert f"{source['url']}#L{pair['line']}" == published.url
    assert f"{source['name']}, line {pair['line']}, commit {source['commit']}" == published.where


def test_what_differs_in_a_pair() -> None:
    pairs = PublishedExplorer().data["pairs"]
    found = {(p["model"], p["batch"]): p for p in pairs if p["gpu"] == "A100 80GB"}
    assert found[SSD, "64"]["differs"] == ""
    assert found["BERT large", "128 → 256"]["differs"] == "batch"
    assert found["ResNet50 v1.5", "not printed"]["differs"] == "more", "channels_last too"
    assert found["SE(3)-Transformer", "120"]["suspect"] == "both precisions print the same number"
    assert found["SE(3)-Transformer", "240"]["suspect"] == ""


def test_the_placebo_is_suspect() -> None:
    explorer = PublishedExplorer("V100 16GB", "WaveGlow")
    shown = {row.source.name: row for row in explorer.rows if row.gpu_count == 1}
    assert len(shown) == 2, "NVIDIA's pair, and Lambda's placebo"
    pairs = [
        p for p in explorer.data["pairs"] if (p["gpu"], p["model"]) == ("V100 16GB", "WaveGlow")
    ]
    suspect = [p for p in pairs if p["suspect"]]
    assert [round(p["speedup"], 2) for p in suspect] == [1.0]
    assert "the logs of the runs labelled FP16 say that AMP was off" in suspect[0]["suspect"]


def test_the_limits_are_those_of_the_roofline() -> None:
    a100, v100 = roofline.find_gpu("A100"), roofline.find_gpu("V100")
    assert PublishedExplorer("A100 80GB").limit == roofline.speedup_limit(a100, "tf32", "fp16")
    assert PublishedExplorer("A100 40GB").limit == roofline.speedup_limit(a100, "tf32", "fp16")
    assert PublishedExplorer("V100 32GB").limit == roofline.speedup_limit(v100, "fp32", "fp16")
    assert PublishedExplorer("RTX A6000").limit is None
    by_name = {gpu["name"]: gpu for gpu in PublishedExplorer().data["gpus"]}
    assert by_name["V100 16GB"]["peaks"] == [15.7, 125.0]
    assert by_name["V100 16GB"]["baseline"] == "FP32"
    assert by_name["RTX 4090"]["baseline"] == "TF32"


def test_the_pairs_that_are_shown() -> None:
    explorer = PublishedExplorer()
    rows = explorer.rows
    assert {row.gpu_count for row in rows} == {1}
    assert [speedup_of(r) for r in rows] == sorted(map(speedup_of, rows), reverse=True)
    explorer.model = SSD
    assert [row.gpu_count for row in explorer.rows] == [1, 1, 4, 4, 8, 8]
    explorer.batch = "64"
    assert {batch_of(row) for row in explorer.rows} == {"64"}
    assert [row.gpu_count for row in explorer.rows] == [1, 4, 8]


def test_names_in_any_case() -> None:
    explorer = PublishedExplorer(" a100 80gb", "bert LARGE", "128 → 256")
    assert (explorer.gpu, explorer.model) == ("A100 80GB", "BERT large")
    assert {batch_of(row) for row in explorer.rows} == {"128 → 256"}


def test_another_gpu_keeps_the_model_that_it_has() -> None:
    explorer = PublishedExplorer("A100 80GB", "BERT large", "128 → 256")
    explorer.gpu = "V100 16GB"
    assert (explorer.model, explorer.batch) == ("BERT large", "")
    explorer.model = "WaveGlow"
    explorer.gpu = "A100 80GB"
    assert explorer.model == "", "no WaveGlow was published for it"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("H100",), "gpu 'H100' has no published pair; choose one of V100 32GB"),
        (
            ("A100 80GB", "GNMT"),
            "model 'GNMT' has no published pair on A100 80GB; choose one of BART",
        ),
        (
            ("A100 80GB", SSD, "65"),
            "batch '65' has no published pair of SSD300 .* choose one of 64",
        ),
        (("A100 80GB", "", "64"), "batch '64' needs a model: choose the model first"),
    ],
)
def test_what_it_refuses(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PublishedExplorer(*arguments)
    explorer = PublishedExplorer(*arguments[:-1])
    name = ("gpu", "model", "batch")[len(arguments) - 1]
    before = getattr(explorer, name)
    with pytest.raises(traitlets.TraitError, match=message):
        setattr(explorer, name, arguments[-1])
    assert getattr(explorer, name) == before


def test_what_a_page_sends() -> None:
    explorer = PublishedExplorer()
    explorer.set_state({"gpu": "V100 16GB", "model": "WaveGlow", "batch": ""})
    assert (explorer.gpu, explorer.model) == ("V100 16GB", "WaveGlow")
    explorer.set_state({"gpu": "RTX 3090", "model": "", "batch": ""})
    assert (explorer.gpu, explorer.model) == ("RTX 3090", "")


def test_its_state_stays_small() -> None:
    assert len(json.dumps(PublishedExplorer().data)) < 160_000


# ---- the page ----------------------------------------------------------------------------------

NAMES = ("gpu", "model", "batch", "data")


@pytest.fixture
def mounted(mount: Callable[..., Any]) -> Callable[..., Any]:
    def mounted_(
        explorer: PublishedExplorer | None = None, scheme: str = "light", width: int = 900
    ) -> Any:
        state = (explorer or PublishedExplorer()).get_state(NAMES)
        page = mount("published_explorer", state, scheme, width)
        page.add_style_tag(url="published_explorer.css")
        return page

    return mounted_


def gains(page: Any) -> list[str]:
    return page.locator(".amp-pair-gain").all_text_contents()


def is_suspect(row: Any) -> bool:
    return row.confirmed == "no" if isinstance(row, GpuMedian) else bool(row.suspect)


def say(page: Any) -> list[str]:
    return page.locator(".amp-verdict").all_inner_texts()


@pytest.mark.browser
def test_the_page_shows_what_python_says(mounted: Callable[..., Any]) -> None:
    """On each GPU, for all models and for some: which pairs, in which order, and the median."""
    explorer = PublishedExplorer()
    page = mounted(explorer)
    for gpu in gpus():
        page.evaluate("name => model.set('gpu', name)", gpu)
        explorer.gpu = gpu
        options = page.get_by_label("Model", exact=True).locator("option")
        assert options.all_text_contents()[1:] == list(models_on(gpu))
        for model in ("", *models_on(gpu)[::6]):
            page.evaluate("name => model.set('model', name)", model)
            explorer.model = model
            values = [speedup_of(row) for row in explorer.rows]
            assert [float(text) for text in gains(page)] == pytest.approx(values, abs=0.0051)
            kept = [speedup_of(row) for row in explorer.rows if not is_suspect(row)]
            if len(kept) > 1:
                reported = re.search(r"median ([\d.]+)\.", say(page)[0])[1]
                assert float(reported) == pytest.approx(median(kept), abs=0.0051)


@pytest.mark.browser
def test_a_model_with_several_batches(mounted: Callable[..., Any]) -> None:
    page = mounted(PublishedExplorer("A100 80GB", SSD))
    assert say(page)[1] == (
        "Limit by the peaks (TF32 156, FP16 312 TFLOP/s): "
        "work bound by compute gets at most 2.00 times as fast."
    )
    assert len(gains(page)) == 6
    page.get_by_label("Batch of each GPU").select_option("64")
    assert page.evaluate("model.get('batch')") == "64"
    assert gains(page) == ["1.82", "1.80", "1.85"]
    assert say(page)[0] == (
        f"{SSD}, batch 64, on A100 80GB: 3 pairs, 1.80 to 1.85 times as fast, median 1.82."
    )
    first = page.locator(".amp-pairs li").first
    assert "1 GPU · batch 64 · TF32 364.27, FP16 662.91 images/s" in first.inner_text()
    link = first.get_by_role("link")
    assert link.get_attribute("href") == next(
        p.url for p in load_published().training if p.rate_mixed == 662.91
    )
    assert "PyTorch/Detection/SSD/README.md, line" in link.get_attribute("aria-label")


@pytest.mark.browser
def test_by_keyboard_alone(mounted: Callable[..., Any]) -> None:
    page = mounted(PublishedExplorer("A100 80GB", "BERT large"))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.labels[0].textContent") == "GPU"
    page.keyboard.type("V100 16")
    assert page.evaluate("[model.get('gpu'), model.get('model')]") == ["V100 16GB", "BERT large"]
    page.keyboard.press("Tab")
    page.keyboard.type("WaveGlow")
    assert page.evaluate("model.get('model')") == "WaveGlow"
    assert page.get_by_text("Suspect: the logs of the runs labelled FP16").is_visible()
    assert say(page)[0].endswith(
        "3 pairs, 3.08 to 3.14 times as fast, median 3.10. Left out here: 1 suspect pair."
    )
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.labels[0].textContent") == "Batch of each GPU"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Published pairs"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "source"


@pytest.mark.browser
def test_bars_and_lines_share_one_scale(mounted: Callable[..., Any]) -> None:
    """A bar ends where its speed-up lies between the lines at 1 and at the limit."""
    page = mounted(PublishedExplorer("V100 16GB", "BERT large"))
    boxes = page.evaluate(
        """() => [...document.querySelectorAll(".amp-pairs li")].map((item) => {
          const left = item.querySelector(".amp-gain-box").getBoundingClientRect().left;
          const at = (name) => item.querySelector(name).getBoundingClientRect();
          const gain = Number(item.querySelector(".amp-pair-gain").textContent);
          return [gain, at(".amp-gain").right - left, at(".amp-line-one").left - left,
                  at(".amp-line-limit").left - left];
        })"""
    )
    assert boxes
    for gain, end, one, limit in boxes:
        assert end / one == pytest.approx(gain, rel=0.02)
        assert limit / one == pytest.approx(125 / 15.7, rel=0.01)


@pytest.mark.browser
def test_a_gpu_without_peaks(mounted: Callable[..., Any]) -> None:
    page = mounted(PublishedExplorer("RTX A6000"))
    assert say(page)[1] == "The course has no peaks for RTX A6000, so no limit is drawn."
    assert page.locator(".amp-pairs .amp-line-limit").count() == 0
    assert page.locator(".amp-pairs .amp-line-one").count() == len(gains(page)) > 0


@pytest.mark.browser
def test_pairs_above_the_limits_are_explained(mounted: Callable[..., Any]) -> None:
    page = mounted(PublishedExplorer("A100 80GB"))
    above = sum(float(gain) > 2 for gain in gains(page))
    assert f"{above} pairs are above both limits." in page.locator(".amp-note").all_inner_texts()[1]
    page.evaluate("model.set('gpu', 'V100 16GB')")
    assert not page.get_by_text("above both limits").is_visible()


@pytest.mark.browser
def test_axe_finds_nothing(
    mounted: Callable[..., Any], faultless: Callable[[Any], None], look: tuple[str, int]
) -> None:
    page = mounted(PublishedExplorer(), *look)
    faultless(page)
    page.evaluate("model.set('gpu', 'V100 16GB'); model.set('model', 'WaveGlow')")
    faultless(page)


@pytest.mark.slow
@pytest.mark.browser
def test_a_key_changes_little_of_the_page(
    mounted: Callable[..., Any], changes_by: Callable[[Any, str], int]
) -> None:
    page = mounted()
    page.get_by_label("Model", exact=True).focus()
    changes = [changes_by(page, key) for key in ("ArrowDown", "ArrowUp", "ArrowDown")]
    assert 0 < min(changes) <= max(changes) < 300
