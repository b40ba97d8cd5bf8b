"""The website as a reader uses it: on a phone's width, with a mouse and the keyboard, offline.

No request leaves this machine: the browser aborts it, and the test fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import build_site
import pytest
from pages import faults
from playwright.sync_api import Locator, Page, expect
from served_site import serving

from amp_lessons.lessons.widgets import MODULES
from amp_lessons.quiz import bank, log

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PHONE = {"width": 380, "height": 760}
MOUNT = """async () => {
  for (const place of document.querySelectorAll("[data-widget]")) {
    place.scrollIntoView();
    for (let i = 0; i < 600 && !("there" in place.dataset); i += 1) {
      await new Promise((go) => setTimeout(go, 50));
    }
  }
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  return [...document.querySelectorAll("[data-widget]:not([data-there])")].length;
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build_site.build(folder)
    return folder


@pytest.fixture(scope="module")
def address(site) -> Iterator[str]:
    with serving(site) as address:
        yield address


@pytest.fixture
def phone(chromium, address) -> Iterator[Page]:
    """A page with no network but the server of the site. It fails the test on an error, and on a
    request to another host."""
    context = chromium.new_context(viewport=PHONE)
    context.route(lambda url: not url.startswith(address), lambda route: route.abort())
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on(
        "request",
        lambda r: (
            None if r.url.startswith((address, "data:", "blob:")) else complaints.append(r.url)
        ),
    )
    yield page
    context.close()
    assert complaints == []


def test_a_first_visit(phone, address):
    """Front page, drag, lesson 00 with three predictions, five questions, an error looked up."""
    phone.goto(f"{address}/index.html")
    lab = phone.locator(".amp-loss-scale-lab")
    drag(phone, lab)
    expect(lab).to_contain_text("Loss scale")
    phone.get_by_role("link", name="Start:").click()
    expect(phone.locator("h1")).to_contain_text("AMP in 20 minutes")
    predict_three(phone)
    go_on_to(phone, "Quiz")
    answer_five(phone)
    go_on_to(phone, "Errors")
    phone.get_by_label("Your error").fill("ValueError: Attempting to unscale FP16 gradients.")
    phone.get_by_role("button", name="Look it up").click()
    expect(phone.locator(".amp-verdict")).to_have_text(
        "Found: Attempting to unscale FP16 gradients."
    )
    expect(phone.locator(".amp-answer").first).to_contain_text("Cure")


def test_the_aborted_network_is_noticed(chromium, address):
    """What the fixture counts on: a request to another host fails, and one to the site doesn't."""
    context = chromium.new_context()
    context.route(lambda url: not url.startswith(address), lambda route: route.abort())
    page = context.new_page()
    page.goto(f"{address}/docs.html")
    asks = "(url) => fetch(url, { mode: 'no-cors' }).then(() => 'came', () => 'failed')"
    assert page.evaluate(asks, f"{address}/site.css") == "came"
    assert page.evaluate(asks, "http://127.0.0.1:9/") == "failed"
    context.close()


def drag(page: Page, lab: Locator) -> None:
    """Drag the first slider of a widget with the mouse, and see that something changes."""
    slider = lab.locator("input[type=range]:visible").first
    expect(slider).to_be_visible()
    before = lab.inner_text()
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 5, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=4)
    page.mouse.up()
    expect(lab).not_to_have_text(before)


def predict_three(page: Page) -> None:
    """Answer the first three boxes of lesson 00. Each opens what it asks about."""
    boxes = page.locator("[data-questions] .amp-quiz")
    expect(boxes).to_have_count(4)
    for number in range(3):
        box = boxes.nth(number)
        about = page.locator("details.result").nth(number)
        assert about.get_attribute("open") is None
        answer(box)
        expect(about).to_have_attribute("open", "")


def answer(box: Locator) -> None:
    """Answer one question somehow, and see that it's marked."""
    if box.locator(".amp-choice input").count():
        box.locator(".amp-choice input").first.check()
    else:
        box.locator("input[type=text]").fill("1")
    box.get_by_role("button", name="Answer", exact=True).click()
    expect(box.locator(".amp-result")).to_be_visible()


def go_on_to(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Site").get_by_role("link", name=name).click()


def answer_five(page: Page) -> None:
    """Five questions of the drill; those with a form of their own are shown."""
    page.get_by_role("button", name="Drill").click()
    for _ in range(5):
        place = page.locator(".amp-place")
        if place.locator(".amp-choice input").count():
            answer(place)
        else:
            place.get_by_role("button", name="Show me").or_(
                page.get_by_role("button", name="Show a good answer")
            ).click()
        page.get_by_role("button", name="Next question").or_(
            page.get_by_role("button", name="Skip")
        ).click()


def test_predictions_count_and_are_kept(phone, address, tmp_path, monkeypatch):
    phone.goto(f"{address}/lessons/amp_in_20_minutes.html")
    predict_three(phone)
    boxes = phone.locator("[data-questions] .amp-quiz")
    phone.goto("about:blank")  # a reload would scroll to where the reader was
    phone.goto(f"{address}/lessons/amp_in_20_minutes.html")
    expect(boxes.nth(2).locator(".amp-result")).to_be_visible()
    expect(phone.locator("details.result").nth(2)).to_have_attribute("open", "")
    assert phone.evaluate("document.activeElement === document.body")
    assert phone.evaluate("scrollY") == 0

    phone.goto(f"{address}/quiz.html#progress")
    with phone.expect_download() as download:
        phone.get_by_role("button", name="Export answers").click()
    file = tmp_path / "answers.jsonl"
    download.value.save_as(file)
    monkeypatch.setenv("AMP_LESSONS_HOME", str(tmp_path / "home"))
    added, merged = log.merge(file)
    assert added == 3
    assert {entry.item for entry in merged.entries} <= {e.id for e in bank.load().predictions}


def test_a_prediction_can_be_skipped(phone, address):
    phone.goto(f"{address}/lessons/grad_scaler.html")
    box = phone.locator("[data-questions] .amp-quiz").first
    box.get_by_role("button", name="Show me").click()
    expect(box.locator(".amp-result")).to_have_text("The answer")
    expect(phone.locator("details.result").first).to_have_attribute("open", "")


def test_without_javascript_a_lesson_is_text_with_folds(chromium, address):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/lessons/grad_scaler.html")
    fold = page.locator("details.result").first
    expect(fold.locator(".output")).to_be_hidden()
    fold.locator("summary").click()
    expect(fold.locator(".output").first).to_be_visible()
    expect(page.locator(".question").first).to_contain_text("Answer")
    context.close()


def test_the_orders_of_the_calls_answer_from_their_record(phone, address):
    phone.goto(f"{address}/lessons/training_loops.html")
    phone.evaluate(MOUNT)
    lab = phone.locator(".amp-order-calls")
    lab.get_by_role("button", name="Show me").click()
    lab.get_by_role("button", name="Run it").click()
    expect(lab.locator(".amp-oc-result-word")).to_have_text("✓ Right")


def test_the_search_finds_a_section(phone, address):
    phone.goto(f"{address}/search.html?q=growth+interval")
    hits = phone.locator("#hits a")
    expect(hits.first).to_have_text("growth interval")
    hits.first.click()
    expect(phone.locator("h1")).to_have_text("Glossary")


def test_the_theme_is_kept(phone, address):
    phone.goto(f"{address}/glossary.html")
    phone.get_by_role("button", name="Dark").click()
    phone.goto(f"{address}/myths.html")
    assert phone.evaluate("document.documentElement.dataset.theme") == "dark"
    expect(phone.get_by_role("button", name="Light")).to_be_visible()


# ---- widgets without a kernel -------------------------------------------------------------------


def choose(place: Locator, label: str, option: str) -> None:
    place.get_by_label(label, exact=True).select_option(option)


def press(place: Locator, name: str) -> None:
    place.get_by_role("button", name=name, exact=True).first.click()


def take_apart(place: Locator) -> None:
    """An order that is no neighbour of the recorded ones."""
    for line in ("scaler.scale(loss).backward()", "optimizer.zero_grad()", "scheduler.step()"):
        place.get_by_role("button", name=line).first.click()
        press(place, "Leave out")
    press(place, "Run it")


def type_in(place: Locator, label: str, text: str) -> None:
    field = place.get_by_label(label, exact=True)
    field.fill(text)
    field.press("Enter")


def predict_a_step(place: Locator) -> None:
    for group in ("It runs in", "Its output is"):
        place.get_by_role("group", name=group).get_by_text("FP16", exact=True).click()
    press(place, "Commit")


WIDGETS: dict[str, tuple[str, Callable[[Locator], None] | None, str]] = {
    "bit_explorer": ("number_formats", lambda w: type_in(w, "Value", "0.1"), "0.0999"),
    "gradient_histogram": ("how_numbers_break", None, "overflow"),
    "policy_browser": ("autocast_ops", lambda w: choose(w, "16-bit dtype", "bfloat16"), "bfloat16"),
    "autocast_steps": ("autocast_regions", predict_a_step, "Next op"),
    "order_calls": ("training_loops", take_apart, "This order isn't recorded."),
    "memory_calculator": ("memory", lambda w: type_in(w, "Batch", "1"), "AMP needs 1."),
    "published_explorer": ("speed", lambda w: choose(w, "GPU", "V100 16GB"), "V100 16GB"),
    "roofline_explorer": ("speed_deep", lambda w: choose(w, "GPU", "T4"), "GFLOP on T4"),
    "whole_loop": (
        "amp_in_20_minutes",
        lambda w: press(w, "Show all reasons"),
        "One scaler serves the whole training",
    ),
    "loss_scale_lab": ("grad_scaler", None, "Loss scale"),
    "block_explorer": (
        "mxfp8_and_nvfp4",
        lambda w: w.get_by_role("slider", name="Marked number").press("ArrowUp"),
        "others become 0",
    ),
    "scaler_lab": ("grad_scaler", lambda w: press(w, "Show all"), "agree in all 12 steps shown"),
}
"""For each widget of a lesson, where it stands, what a reader does, and what it then shows. Where
nothing is named, the reader drags its slider. The error search is in the first visit."""


@pytest.mark.parametrize("name", WIDGETS)
def test_a_widget_answers_without_a_kernel(phone, address, name):
    lesson, act, shown = WIDGETS[name]
    phone.goto(f"{address}/lessons/{lesson}.html")
    place = phone.locator(f"[data-widget={name}]").first
    place.scroll_into_view_if_needed()
    expect(place).to_have_attribute("data-there", "")
    before = place.inner_text()
    if act:
        act(place)
    else:
        drag(phone, place)
    expect(place).to_contain_text(shown)
    expect(place).not_to_have_text(before, use_inner_text=True)


def test_each_widget_is_tried():
    assert {*WIDGETS, "error_lookup"} == set(MODULES.values())


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.long)])
def test_no_page_has_a_fault_or_overflows(phone, address, site, every):
    """The front page and one in seven, and all of them where there is an hour."""
    paths = [path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html"))][::every]
    paths = list(dict.fromkeys(["index.html", *paths]))
    assert len(paths) > 50 // every
    found = {}
    for path in paths:
        phone.emulate_media(color_scheme="light")
        phone.goto(f"{address}/{path}", wait_until="networkidle")
        left = phone.evaluate(MOUNT)
        wide = phone.evaluate("document.documentElement.scrollWidth - innerWidth")
        told = faults(phone) + ["a widget is missing"] * left + ["it overflows"] * (wide > 0)
        phone.emulate_media(color_scheme="dark")
        told += [f"in the dark: {fault}" for fault in faults(phone)]
        if told:
            found[path] = told
    assert found == {}, json.dumps(found, indent=1)
