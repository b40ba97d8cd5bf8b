"""The website as a reader uses it: on a phone's width, with a mouse and the keyboard, offline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import build_site
import pytest
from pages import faults
from playwright.sync_api import Page, expect
from served_site import serving

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
def phone(chromium) -> Iterator[Page]:
    """A page that fails the test on an error, and on a request to another host."""
    context = chromium.new_context(viewport=PHONE)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on(
        "request",
        lambda r: (
            None
            if r.url.startswith(("http://127.0.0.1", "data:", "blob:"))
            else complaints.append(r.url)
        ),
    )
    yield page
    context.close()
    assert complaints == []


def test_the_lab_on_the_front_page_moves(phone, address):
    phone.goto(f"{address}/index.html")
    slider = phone.locator(".amp-loss-scale-lab input[type=range]:visible").first
    expect(slider).to_be_visible()
    before = phone.locator(".amp-loss-scale-lab").inner_text()
    box = slider.bounding_box()
    phone.mouse.move(box["x"] + 5, box["y"] + box["height"] / 2)
    phone.mouse.down()
    phone.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] / 2, steps=4)
    phone.mouse.up()
    expect(phone.locator(".amp-loss-scale-lab")).not_to_have_text(before)
    phone.get_by_role("link", name="Start:").click()
    expect(phone.locator("h1")).to_contain_text("AMP in 20 minutes")


def test_predictions_count_and_are_kept(phone, address, tmp_path, monkeypatch):
    phone.goto(f"{address}/lessons/amp_in_20_minutes.html")
    boxes = phone.locator("[data-questions] .amp-quiz")
    expect(boxes).to_have_count(4)
    for number in range(3):
        box = boxes.nth(number)
        about = phone.locator("details.result").nth(number)
        assert about.get_attribute("open") is None
        choice = box.locator(".amp-choice input").first
        if choice.count():
            choice.check()
        else:
            box.locator("input[type=text]").fill("1")
        box.get_by_role("button", name="Answer", exact=True).click()
        expect(box.locator(".amp-result")).to_be_visible()
        expect(about).to_have_attribute("open", "")
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


def test_five_questions_of_the_drill_and_an_error(phone, address):
    phone.goto(f"{address}/quiz.html")
    phone.get_by_role("button", name="Drill").click()
    for _ in range(5):
        phone.locator(".amp-place").get_by_role("button", name="Show me").or_(
            phone.get_by_role("button", name="Show a good answer")
        ).click()
        onward = phone.get_by_role("button", name="Next question").or_(
            phone.get_by_role("button", name="Skip")
        )
        onward.click()
    phone.goto(f"{address}/errors.html")
    phone.get_by_label("Your error").fill("ValueError: Attempting to unscale FP16 gradients.")
    phone.get_by_role("button", name="Look it up").click()
    expect(phone.locator(".amp-verdict")).to_have_text(
        "Found: Attempting to unscale FP16 gradients."
    )
    expect(phone.locator(".amp-answer").first).to_contain_text("Cure")


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


def test_no_page_has_a_fault_or_overflows(phone, address, site):
    paths = [path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html"))]
    assert len(paths) > 50
    found = {}
    for number, path in enumerate(paths):
        phone.emulate_media(color_scheme="dark" if number % 2 else "light")
        phone.goto(f"{address}/{path}", wait_until="networkidle")
        left = phone.evaluate(MOUNT)
        wide = phone.evaluate("document.documentElement.scrollWidth - innerWidth")
        told = faults(phone) + ["a widget is missing"] * left + ["it overflows"] * (wide > 0)
        if told:
            found[path] = told
    assert found == {}, json.dumps(found, indent=1)
