"""The policy browser: its data are what `policy` says, and the page works by keyboard alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import policy_tables
import pytest
import torch

from amp_lessons.amp import policy
from amp_lessons.lessons.widgets import PolicyBrowser
from amp_lessons.lessons.widgets.policy_browser import SHOWS

# ---- Python ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> PolicyBrowser:
    return PolicyBrowser()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_every_answer_is_what_policy_says(browser: PolicyBrowser, dtype: torch.dtype) -> None:
    rows = browser.data["policies"][policy.short(dtype)]
    for k, device in enumerate(policy.DEVICES):
        assert [row["of"][k] for row in rows] == policy.as_json(policy_tables.live(device, dtype))
    assert browser.data["ops"] == list(policy.OPS)
    differing = {op for op, row in zip(policy.OPS, rows, strict=True) if row["differs"]}
    assert {"softmax", "layer_norm", "binary_cross_entropy", "max_pool3d"} <= differing
    assert not {"linear", "mse_loss", "relu", "geqrf", "cudnn_convolution"} & differing


def test_what_a_lesson_reads_and_sets() -> None:
    browser = PolicyBrowser("torch.nn.LayerNorm", dtype="bf16", search="norm", show="float32")
    assert (browser.op, browser.dtype) == ("layer_norm", "bfloat16")
    cuda, cpu = browser.policies
    assert (cuda.device, cuda.low, cpu.device, cpu.low) == (
        *("cuda", torch.float32),
        *("cpu", torch.bfloat16),
    )
    browser.op = "F.softmax"
    browser.dtype = "fp16"
    assert (browser.op, browser.dtype) == ("softmax", "float16")
    assert browser.policies[1].low is torch.float16


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("op", "sotfmax", "no op called 'sotfmax'.*near it: softmax"),
        ("dtype", "fp32", "autocast computes in torch.float16 or torch.bfloat16, not fp32"),
        ("show", "everything", "show must be one of all ops, differs between CUDA and CPU, lower"),
    ],
)
def test_what_it_refuses(browser: PolicyBrowser, name: str, value: str, message: str) -> None:
    before = getattr(browser, name)
    with pytest.raises(ValueError, match=message):
        setattr(browser, name, value)
    assert getattr(browser, name) == before
    with pytest.raises(ValueError, match=message):
        PolicyBrowser(**{name: value})


# ---- the page ----------------------------------------------------------------------------------


@pytest.fixture
def mounted(mount: Callable[..., Any], browser: PolicyBrowser) -> Callable[..., Any]:
    def mounted_(scheme: str = "light", width: int = 900, **traits: str) -> Any:
        return mount(
            "policy_browser", {"data": browser.data, "op": "softmax"} | traits, scheme, width
        )

    return mounted_


CHOSEN = "[role=option][aria-selected=true]"


def listed(page: Any) -> list[str]:
    return page.locator("[role=option]:visible .amp-op").all_inner_texts()


def facts(page: Any, device: str) -> list[str]:
    return page.get_by_role("group", name=device, exact=True).locator("dd").all_inner_texts()


@pytest.mark.browser
def test_search_and_choose_by_keyboard(mounted: Callable[..., Any]) -> None:
    page = mounted()
    assert listed(page) == list(policy.OPS)
    page.keyboard.press("Tab")
    page.keyboard.type("NORM layer")
    assert listed(page) == ["layer_norm", "native_layer_norm"]
    assert page.locator("output[aria-live=polite]").inner_text() == f"2 of {len(policy.OPS)} ops"
    page.keyboard.press("ArrowDown")
    options = page.get_by_role("listbox", name="Ops")
    assert options.evaluate("e => e === document.activeElement")
    assert page.evaluate("model.get('op')") == "layer_norm"
    assert facts(page, "CUDA")[:4] == ["float32", "float32", "float32", "float64"]
    assert facts(page, "CPU")[:4] == ["float16", "float32", "float16", "float64"]
    option = page.locator(CHOSEN)
    assert option.get_attribute("aria-label") == "layer_norm, CUDA float32, CPU as given"
    assert option.get_attribute("id") == options.get_attribute("aria-activedescendant")
    for key, op in (("ArrowDown", "native_layer_norm"), ("ArrowDown", "native_layer_norm")):
        page.keyboard.press(key)
        assert page.evaluate("model.get('op')") == op
    page.keyboard.press("Home")
    assert page.locator(".amp-op-title").inner_text() == "layer_norm"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Escape")
    assert len(listed(page)) == len(policy.OPS)


@pytest.mark.browser
def test_a_search_shows_what_it_finds(mounted: Callable[..., Any]) -> None:
    page = mounted(op="linear")
    title, field = page.locator(".amp-op-title"), page.get_by_label("Search ops")
    for search, op in (("sum", "sum"), ("cumsum", "cumsum"), ("soft", "softplus")):
        field.fill(search)
        assert page.evaluate("model.get('op')") == title.inner_text() == op
    field.fill("no such op")
    assert not title.is_visible()
    field.fill("")
    assert title.inner_text() == "softplus"
    page.get_by_label("Show").select_option("refused")
    assert title.inner_text() == "binary_cross_entropy"


@pytest.mark.slow
@pytest.mark.browser
def test_the_arrows_keep_the_chosen_op_in_sight(mounted: Callable[..., Any]) -> None:
    page = mounted(op="linear")
    page.get_by_role("listbox").focus()
    for key in ("End", "PageUp", "ArrowUp", "Home", "PageDown"):
        page.keyboard.press(key)
        box, row = (page.locator(part).bounding_box() for part in (".amp-options", CHOSEN))
        assert box["y"] - 1 <= row["y"]
        assert row["y"] + row["height"] <= box["y"] + box["height"] + 1
    assert page.evaluate("model.get('op')") == policy.OPS[8]
    assert page.evaluate("scrollY") == 0


@pytest.mark.browser
def test_the_filter_and_the_dtype(mounted: Callable[..., Any], browser: PolicyBrowser) -> None:
    page = mounted()
    rows = browser.data["policies"]["bfloat16"]
    page.get_by_label("16-bit dtype").select_option("bfloat16")
    assert facts(page, "CPU")[0] == "bfloat16"
    for show in SHOWS[1:]:
        page.get_by_label("Show").select_option(show)
        expected = [
            op
            for op, row in zip(policy.OPS, rows, strict=True)
            if (row["differs"] if show == SHOWS[1] else show in [p["group"] for p in row["of"]])
        ]
        assert listed(page) == expected
        assert expected
    page.get_by_label("Show").select_option("refused")
    page.locator("[role=option]:visible").click()
    assert page.locator(".amp-op-title").inner_text() == "binary_cross_entropy"
    assert "unsafe to autocast" in page.get_by_role("group", name="CUDA", exact=True).inner_text()
    assert facts(page, "CUDA")[:3] == ["no result"] * 3
    page.evaluate("model.set('op', 'exp')")
    assert facts(page, "CUDA")[:3] == ["float32", "float32", "takes one tensor"]


@pytest.mark.slow
@pytest.mark.browser
def test_nothing_found_and_python_moves_the_page(mounted: Callable[..., Any]) -> None:
    page = mounted()
    page.evaluate("model.set('search', 'no such op')")
    assert listed(page) == []
    assert f"0 of {len(policy.OPS)} ops" in page.locator(".amp-widget").inner_text()
    page.get_by_label("Search ops").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("model.get('op')") == "softmax"
    page.evaluate("model.set('search', ''); model.set('op', 'cat'); model.set('show', 'widest')")
    assert page.locator(CHOSEN).locator(".amp-op").inner_text() == "cat"
    assert page.get_by_label("Show").input_value() == "widest"


@pytest.mark.browser
def test_axe_finds_nothing(
    mounted: Callable[..., Any], faultless: Callable[[Any], None], look: tuple[str, int]
) -> None:
    page = mounted(*look)
    for op, search in (("softmax", ""), ("binary_cross_entropy", "cross"), ("geqrf", "nothing")):
        page.evaluate("([o, s]) => { model.set('op', o); model.set('search', s) }", [op, search])
        faultless(page)


@pytest.mark.slow
@pytest.mark.browser
def test_a_key_changes_little_of_the_page(
    mounted: Callable[..., Any], changes_by: Callable[[Any, str], int]
) -> None:
    page = mounted()
    page.get_by_label("Search ops").focus()
    changes = [changes_by(page, key) for key in "softmax"]
    assert 0 < min(changes) <= max(changes) < 1000
    assert page.get_by_label("Search ops").input_value() == "softmax"
