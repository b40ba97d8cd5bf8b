"""The box for errors: it shows what `lookup` finds, every word escaped, by keyboard alone."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pages
import pytest

from amp_lessons.amp.errors import catalogue, pasted
from amp_lessons.lessons.widgets import ErrorLookup
from amp_lessons.lessons.widgets.error_lookup import EXAMPLES

FP16 = "ValueError: Attempting to unscale FP16 gradients."
PASTED_MARKUP = (
    "ValueError: FP16 Mixed precision training with AMP or APEX "
    "<img src=x onerror='window.ran = true'> can only be used on CUDA devices."
)


class Tags(HTMLParser):
    """The tags of a text, and the addresses of its links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]


def ask(text: str) -> dict[str, Any]:
    """What the box answers."""
    return ErrorLookup(text).answer


# ---- Python -------------------------------------------------------------------------------------


def test_an_answer_links_to_the_lesson_and_the_threads() -> None:
    answer = ask(FP16)
    assert answer["status"] == "Found: Attempting to unscale FP16 gradients."
    assert answer["found"] == ["unscale-fp16-gradients"]
    links = Tags(answer["html"]).links
    assert links[0] == "../notebooks/06_grad_scaler.ipynb"
    assert "https://github.com/huggingface/diffusers/issues/10910" in links
    assert "<code>p.data = p.data.float()</code>" in answer["html"]


def test_without_an_answer_the_nearest_are_folded_away() -> None:
    answer = ask("KeyError: 'scale'")
    assert answer["status"] == "Nothing here matches this text."
    assert len(answer["found"]) == answer["html"].count("<details>") == 3


@pytest.mark.parametrize("text", [" ", "\0", "错误"])
def test_a_text_that_cannot_be_looked_up_is_one_sentence(text: str) -> None:
    answer = ask(text)
    assert answer["status"].endswith(".")
    assert answer["status"][0].isupper()
    assert (answer["html"], answer["found"]) == ("", [])


def test_what_was_pasted_is_shown_as_text() -> None:
    answer = ask(PASTED_MARKUP)
    assert answer["found"][0] == "trainer-fp16-needs-cuda"
    assert "&lt;img src=x" in answer["html"]
    assert "img" not in Tags(answer["html"]).tags
    typed = ask("fp16 <b>nan</b> <i>loss</i>")
    assert not {"b", "i"} & Tags(typed["html"]).tags


def test_no_entry_brings_other_tags_than_ours() -> None:
    ours = {"p", "dl", "div", "dt", "dd", "code", "a", "br", "details", "summary", "em", "strong"}
    for entry in catalogue.load():
        tags = Tags(ask(entry.id)["html"])
        assert tags.tags <= ours, entry.id
        assert set(entry.links) <= set(tags.links), entry.id


def test_each_question_is_answered_also_the_same_one_again() -> None:
    box = ErrorLookup()
    assert (box.answer, box.ends) == ({}, [pasted.HEAD, pasted.TAIL])
    box.text = FP16
    box.asked = 1
    first = box.answer
    box.asked = 2
    assert (first["number"], box.answer["number"]) == (1, 2)
    assert box.answer["html"] == first["html"]


def test_it_says_what_it_read_of_a_long_text() -> None:
    box = ErrorLookup()
    box.text, box.length = FP16, 10_000_000
    box.asked = 1
    assert "The text has 10,000,000 characters: the first 25,000 and" in box.answer["html"]


@pytest.mark.parametrize("text", EXAMPLES)
def test_each_example_finds_its_entry(text: str) -> None:
    assert ask(text)["status"].startswith("Found: ")


# ---- the page -----------------------------------------------------------------------------------


@pytest.fixture
def mounted(mount: Callable[..., Any]) -> Callable[..., Any]:
    """The box on a page. What it asks is answered here, and kept in the list `page.asked`."""

    def mounted_(scheme: str = "light", width: int = 900, text: str = "") -> Any:
        box = ErrorLookup(text)
        asked: list[dict[str, Any]] = []

        def python(values: dict[str, Any]) -> dict[str, Any]:
            asked.append(values)
            box.text, box.length = values["text"], values["length"]
            box.asked = values["asked"]
            return box.answer

        names = ("text", "length", "asked", "ends", "answer", "examples")
        values = {name: getattr(box, name) for name in names}
        page = mount("error_lookup", values, scheme, width, python)
        page.asked = asked
        return page

    return mounted_


@pytest.mark.browser
def test_by_keyboard_with_the_button_and_without(mounted: Callable[..., Any]) -> None:
    page = mounted()
    status = page.get_by_role("status")
    assert status.inner_text() == ""
    page.keyboard.press("Tab")
    page.keyboard.insert_text(f"Traceback\n{FP16}")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Found: Attempting to unscale")
    assert page.locator("dt").all_inner_texts()[:3] == ["Cause", "Cure", "Wrong cure"]
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Control+A")
    page.keyboard.insert_text("KeyError: 'scale'")
    page.keyboard.press("Enter")  # a line, not a question
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("text=Nothing here matches this text.")
    assert [each["text"] for each in page.asked] == [f"Traceback\n{FP16}", "KeyError: 'scale'\n"]
    first = page.locator("details").first
    assert first.get_attribute("open") is None
    for _ in range(2 + len(EXAMPLES)):  # past the button and the examples
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert first.get_attribute("open") is not None


@pytest.mark.browser
def test_an_example_is_looked_up_with_one_click(mounted: Callable[..., Any]) -> None:
    page = mounted()
    examples = page.get_by_role("group", name="Examples").get_by_role("button")
    assert examples.all_inner_texts() == list(EXAMPLES)
    examples.first.click()
    page.wait_for_selector("text=Found: Attempting to unscale")
    assert page.get_by_role("textbox").input_value() == EXAMPLES[0]


@pytest.mark.browser
def test_only_what_was_found_has_the_edge_of_good_news(mounted: Callable[..., Any]) -> None:
    page = mounted()
    edge = "element => getComputedStyle(element).borderLeftColor"
    colours = {}
    for text in (FP16, "KeyError: 'scale'"):
        page.get_by_role("textbox").fill(text)
        page.get_by_role("button", name="Look it up").click()
        status = page.locator("[role=status]", has_text="this text" if "Key" in text else "Found")
        status.wait_for()
        colours[text] = status.evaluate(edge)
    assert len(set(colours.values())) == 2


@pytest.mark.slow
@pytest.mark.browser
def test_it_sends_both_ends_of_a_long_text(mounted: Callable[..., Any]) -> None:
    page = mounted()
    text = "a" * 30_000 + "b" * 100_000 + "c" * 80_000
    page.get_by_role("textbox").fill(text)
    page.get_by_role("button", name="Look it up").click()
    page.wait_for_selector("text=Nothing here matches this text.")
    (asked,) = page.asked
    assert asked["length"] == 210_000
    assert asked["text"] == text[: pasted.HEAD] + "\n" + text[-pasted.TAIL :]


@pytest.mark.browser
def test_it_waits_for_python_and_says_when_the_kernel_is_gone(
    open_page: Callable[..., Any],
) -> None:
    """A stand-in for Jupyter's model, which says that the kernel is gone, and no Python."""
    page = open_page()
    pages.wait_for(
        page,
        """async () => {
          const values = { text: "x", examples: [], asked: 0, answer: {}, ends: [9, 9] };
          window.heard = {};
          const model = {
            get: (name) => values[name],
            set: (name, value) => (values[name] = value),
            save_changes() {},
            on: (event, listener) => (window.heard[event] = listener),
            off() {},
          };
          const { default: widget } = await import("/error_lookup.mjs");
          widget.render({ model, el: document.getElementById("widget") });
        }""",
    )
    page.get_by_role("button", name="Look it up").click()
    assert page.get_by_role("status").inner_text() == "Looking it up …"
    page.evaluate("() => { window.heard['comm_live_update']() }")
    output = "The kernel was restarted. Run this cell again."
    assert page.get_by_role("status").inner_text() == output


@pytest.mark.browser
def test_markup_that_was_pasted_does_not_run(mounted: Callable[..., Any]) -> None:
    page = mounted(text=PASTED_MARKUP)
    assert "<img src=x" in page.locator("dd").last.inner_text()
    assert page.locator(".amp-widget img").count() == 0
    assert page.evaluate("window.ran") is None


@pytest.mark.browser
def test_axe_finds_nothing(
    mounted: Callable[..., Any], faultless: Callable[[Any], None], look: tuple[str, int]
) -> None:
    page = mounted(*look, text=FP16)
    faultless(page)
    page.evaluate("(answer) => model.set('answer', answer)", ask("KeyError: 'scale'"))
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert page.locator("dt:visible").count() > 15
    faultless(page)
