"""A deck in chromium: no request leaves it, nothing sticks out, and the keyboard does it all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from lab import save
from playwright.sync_api import Browser, BrowserContext, Page, expect

from amp_lessons.classroom.slides import deck, of_plan
from amp_lessons.classroom.workshop import reading
from amp_lessons.core.catalogue import LESSONS, Lesson, find_lesson

pytestmark = pytest.mark.browser

LESSON = find_lesson("grad_scaler")
SCREEN = {"width": 1280, "height": 720}


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return written(LESSON, tmp_path_factory.mktemp("slides"))


def written(lesson: Lesson, folder: Path) -> Path:
    return saved(deck.make(lesson), folder / f"{lesson.id}.html")


def saved(made: deck.Deck, path: Path) -> Path:
    path.write_bytes(deck.page(made))
    return path


@pytest.fixture
def open_deck(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a file with no network. ``page.wanted`` lists what it asked for beside itself."""
    contexts: list[BrowserContext] = []

    def open_(file: Path, **options: Any) -> Page:
        context = chromium.new_context(viewport=SCREEN, **options)
        contexts.append(context)
        wanted: list[str] = []

        def refuse_all_else(route: Any) -> None:
            if route.request.url.partition("?")[0].partition("#")[0] == file.as_uri():
                route.continue_()
            else:
                wanted.append(route.request.url)
                route.abort()

        context.route("**/*", refuse_all_else)
        page = context.new_page()
        page.wanted = wanted
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_
    for context in contexts:
        context.close()


def turn_to(page: Page, kind: str, has: str = "") -> None:
    """Show the first slide of a kind that holds something."""
    found = page.evaluate(
        """([kind, has]) => {
          const slide = [...document.querySelectorAll(`section.${kind}`)]
            .find((each) => !has || each.querySelector(`.body ${has}`));
          if (!slide) return false;
          const { h, v } = Reveal.getIndices(slide);
          Reveal.slide(h, v);
          return true;
        }""",
        [kind, has],
    )
    assert found, f"no slide of the kind {kind} has {has}"


# What a room couldn't read, slide by slide, at the size of the frame itself.
STICKS_OUT = """() => {
  const found = [];
  for (const slide of document.querySelectorAll(".slides section:not(:has(section))")) {
    const { h, v } = Reveal.getIndices(slide);
    Reveal.slide(h, v);
    const body = slide.querySelector(".body"), name = `${h}/${v} ${slide.className}`;
    const frame = body.getBoundingClientRect();
    if (!frame.height) found.push(`${name}: isn't shown`);
    if (body.classList.contains("scrolls")) found.push(`${name}: has to scroll`);
    if (!body.innerText.trim() && !body.querySelector("img")) found.push(`${name}: is empty`);
    for (const part of body.querySelectorAll("*")) {
      const box = part.getBoundingClientRect();
      if (box.right > frame.right + 2 || box.bottom > frame.bottom + 2 || box.left < frame.left - 2)
        found.push(`${name}: ${part.tagName} sticks out`);
    }
    for (const code of body.querySelectorAll("pre")) {
      if (code.scrollWidth > code.clientWidth + 1) found.push(`${name}: a line of code is cut off`);
      if (parseFloat(getComputedStyle(code).fontSize) < 13.9) found.push(`${name}: small code`);
    }
    for (const text of body.querySelectorAll("p, li, td")) {
      if (parseFloat(getComputedStyle(text).fontSize) < 16) found.push(`${name}: small text`);
    }
    for (const image of body.querySelectorAll("img")) {
      const { width, height } = image.getBoundingClientRect();
      const shape = image.naturalWidth / image.naturalHeight;
      if (!image.naturalWidth || Math.abs(width / height / shape - 1) > 0.02)
        found.push(`${name}: a distorted picture`);
      if (height < 0.6 * image.naturalHeight) found.push(`${name}: a small picture`);
    }
  }
  return { found, total: Reveal.getTotalSlides() };
}"""


def check_all_slides(page: Page, made: deck.Deck) -> None:
    measured = page.evaluate(STICKS_OUT)
    assert measured["total"] == made.slides > 30
    assert measured["found"] == []
    assert page.wanted == []


def test_no_slide_sticks_out_and_none_asks_for_anything(open_deck, file):
    check_all_slides(open_deck(file), deck.make(LESSON))


@pytest.mark.long
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.id)
def test_no_slide_of_any_lesson_sticks_out(open_deck, tmp_path, lesson):
    check_all_slides(open_deck(written(lesson, tmp_path)), deck.make(lesson))


@pytest.mark.long
@pytest.mark.parametrize("name", reading.NAMES)
def test_no_slide_of_any_plan_sticks_out(open_deck, tmp_path, name):
    made = of_plan.make(reading.load(name))
    check_all_slides(open_deck(saved(made, tmp_path / "deck.html")), made)


@pytest.mark.slow
def test_the_type_gets_smaller_on_a_slide_that_is_too_full(open_deck, file, tmp_path):
    text = file.read_text(encoding="utf-8")
    crowded = tmp_path / "crowded.html"
    opening = '<div class="body">'
    crowded.write_text(text.replace(opening, opening + "<p>One more line.</p>" * 9, 1))
    size = "parseFloat(getComputedStyle(document.querySelector('.title .body p')).fontSize)"
    usual, smaller = open_deck(file).evaluate(size), (page := open_deck(crowded)).evaluate(size)
    assert smaller < usual
    assert page.evaluate(STICKS_OUT)["found"] == []


def test_a_key_turns_from_the_poll_to_its_answer_and_the_notes_explain_it(open_deck, file):
    page = open_deck(file)
    turn_to(page, "poll")
    shown = page.locator("section.present:not(.stack) .body")
    expect(shown.locator(".choices li")).to_have_count(3)
    expect(shown.locator(".right")).to_have_count(0)
    save(page, "slides_poll")
    with page.context.expect_page() as opened:
        page.keyboard.press("s")
    notes = opened.value.locator(".speaker-controls-notes .value")
    expect(notes).to_contain_text("The answer: (1)")
    page.keyboard.press("ArrowRight")
    expect(shown.locator(".right")).to_contain_text("✓ right")
    expect(notes).to_contain_text("(2), not right.")
    expect(
        opened.value.frame_locator("iframe").first.locator("section.present .right")
    ).to_be_visible()
    opened.value.keyboard.press("ArrowLeft")
    expect(shown.locator(".right")).to_have_count(0)
    assert page.wanted == []


@pytest.mark.slow
def test_t_changes_light_and_dark(open_deck, file):
    page = open_deck(file, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(22, 24, 26)"
    page.keyboard.press("t")
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    page.keyboard.press("t")
    assert page.evaluate(ground) == "rgb(22, 24, 26)"


TITLE, TABLE, PICTURE = ("title", ""), ("text", "table"), ("code", "img")
POLL, ANSWER, TRY = ("poll", ".choices"), ("answer", ".reason"), ("try", "pre")


@pytest.mark.parametrize(
    ("scheme", "kinds"),
    [
        ("light", (TITLE, TABLE, PICTURE, POLL, TRY)),
        ("dark", (PICTURE, POLL, ANSWER)),
    ],
)
@pytest.mark.slow
def test_axe_finds_no_fault(open_deck, file, scheme, kinds):
    page, axe = open_deck(file, color_scheme=scheme), Axe()
    for kind, has in kinds:
        turn_to(page, kind, has)
        save(page, f"slides_{kind}_{scheme}")
        response = axe.run(page).response
        assert response["passes"]
        assert [
            f"{kind}: {v['id']} ({v['impact']}): {[node['html'][:160] for node in v['nodes']]}"
            for v in response["violations"]
        ] == []
