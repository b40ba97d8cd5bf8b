"""The grader's pages in a real browser: accessible in both themes, and nothing is fetched."""

from __future__ import annotations

import pytest
from graded_class import HOSTILE_NAMES, graded, many, wrong
from pages import faults

from amp_lessons.classroom.grading import report
from amp_lessons.core import catalogue

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_the_pages_are_accessible_and_fetch_nothing(chromium, tmp_path, scheme):
    hostile = [wrong(name, "step-forgotten") for name in HOSTILE_NAMES]
    index = report.write_pages([*many(12), *hostile], tmp_path / "site", {"date": "today"})
    learner = next((index.parent / "learners").glob("*script*.html"))
    context = chromium.new_context(color_scheme=scheme)
    page = context.new_page()
    asked, text = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: text.append(message.text))
    page.on("dialog", lambda dialog: text.append(dialog.message))
    addresses = [file.as_uri() for file in (index.with_name("class.html"), index, learner)]
    try:
        for address in addresses:
            page.goto(address)
            page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
            assert faults(page, "html") == []
            wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
            assert not wide, "the page itself scrolls sideways"
    finally:
        context.close()
    assert asked == addresses
    assert text == [], "a script ran, or the policy stopped something"


def test_the_index_of_all_sheets_hides_nothing_on_a_laptop(chromium, tmp_path):
    sheets = [lesson for lesson in catalogue.LESSONS if lesson.exercises]
    results = [
        graded(f"Marguerite Vlietinckx-{n}", lesson=lesson, problems=("a check is gone",))
        for n in range(3)
        for lesson in sheets
    ]
    index = report.write_pages(results, tmp_path / "site")
    page = chromium.new_page(viewport={"width": 1280, "height": 800})
    try:
        page.goto(index.as_uri())
        box, table = page.evaluate(
            "['.scroll', '.scroll table'].map(s => document.querySelector(s).scrollWidth)"
        )
        assert page.locator(".scroll tbody tr").first.locator("td").count() == len(sheets) + 3
        assert table <= page.locator(".scroll").bounding_box()["width"] + 1
        assert box <= 1280
    finally:
        page.close()
