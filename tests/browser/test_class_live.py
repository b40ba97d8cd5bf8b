"""The class's page in a real browser: it follows the folder, and the reader stays in place."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab import save
from pages import faults
from playwright.sync_api import Browser, Page, expect

from amp_lessons.classroom.class_view import page, serving, viewer
from amp_lessons.classroom.class_view.viewer import Viewer
from amp_lessons.core.catalogue import find_lesson
from amp_lessons.exercises.checks.verdict import VERDICT

pytestmark = pytest.mark.browser

LESSON = find_lesson("01")
FIRST, SECOND = (info.name for info in LESSON.exercises[:2])


def save_sheet(folder: Path, learner: str, **states: str) -> None:
    """Save a learner's sheet with these verdicts."""
    cells = []
    for exercise, state in states.items():
        verdict = {"exercise": exercise, "state": state, "diagnosis": "bias-forgotten"}
        verdict["message"] = "You forgot `the bias` <b>here</b>."
        output = {"output_type": "display_data", "metadata": {}, "data": {VERDICT: verdict}}
        cells.append({"cell_type": "code", "metadata": {}, "source": "", "outputs": [output]})
    path = folder / learner / Path(LESSON.sheet).name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))


@pytest.fixture
def folder(tmp_path) -> Path:
    place = tmp_path / "class"
    place.mkdir()
    for learner in ("ben", "cem"):
        save_sheet(place, learner, **{FIRST: "wrong", SECOND: "passed"})
    (place / "cem" / "broken.ipynb").write_text("{")
    return place


@pytest.mark.slow
def test_a_class_of_28_fits_the_projector(chromium: Browser, tmp_path):
    """Every row is inside its box at 1920 px, beside all exercises of five lessons."""
    lessons = [find_lesson(number) for number in ("01", "02", "03", "04", "06")]
    states = {info.name: "wrong" for lesson in lessons for info in lesson.exercises}
    place = tmp_path / "class"
    place.mkdir()
    for number in range(28):
        save_sheet(place, f"Marguerite Vlietinckx {number:02}", **states)
    file = tmp_path / "page.html"
    file.write_text(page.page(Viewer(place).look(), place, live=False))
    screen = chromium.new_page(viewport={"width": 1920, "height": 1080})
    try:
        screen.goto(file.as_uri())
        hidden = screen.evaluate(
            "(() => { const box = document.querySelector('.grid');"
            " return [box.scrollWidth - box.clientWidth, box.scrollHeight - box.clientHeight] })()"
        )
        assert screen.locator(".grid tbody tr").count() == 28
        assert hidden == [0, 0]
    finally:
        screen.close()


@pytest.fixture
def server(folder, monkeypatch) -> Iterator[serving.PageServer]:
    """A server whose page asks ten times a second."""
    asset = page._asset
    monkeypatch.setattr(page, "_asset", lambda name: asset(name).replace("= 3;", "= 0.1;"))
    monkeypatch.setattr(viewer, "PAUSE", 0.0)
    with serving.PageServer(Viewer(folder)) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def open_page(chromium: Browser, server: serving.PageServer, **options) -> tuple[Page, list[str]]:
    """The page, and a list that gets what the browser complains about or asks others for."""
    context = chromium.new_context(viewport={"width": 1300, "height": 900}, **options)
    shown, complaints = context.new_page(), []
    shown.on("console", lambda message: complaints.append(message.text))
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    here = server.address.partition("?")[0]
    shown.on("request", lambda r: None if r.url.startswith(here) else complaints.append(r.url))
    shown.goto(server.address)
    return shown, complaints


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_it_has_no_faults_and_asks_nobody_else(chromium, server, scheme):
    shown, complaints = open_page(chromium, server, color_scheme=scheme)
    shown.locator("#problems summary").click()
    expect(shown.get_by_text("cem/broken.ipynb")).to_be_visible()
    save(shown, f"class_{scheme}")
    assert faults(shown, "html") == []
    assert complaints == []
    shown.context.close()


def test_it_follows_the_folder_and_leaves_the_readers_place(chromium, server, folder):
    shown, complaints = open_page(chromium, server)
    who = shown.locator("#mistakes details")
    who.locator("summary").click()
    row = shown.locator("tr", has=shown.get_by_role("rowheader", name="cem"))
    row.evaluate("row => (row.seenBefore = true)")
    save_sheet(folder, "ada", **{FIRST: "wrong"})  # stands above the others
    save_sheet(folder, "cem", **{FIRST: "passed", SECOND: "passed"})
    expect(shown.locator("tbody tr[id^=learner] th")).to_have_text(["ada", "ben", "cem"])
    expect(who.locator("li")).to_have_text(["ada", "ben"])
    expect(row.locator("td.passed")).to_have_count(2)
    assert row.evaluate("row => row.seenBefore")
    assert shown.evaluate("() => document.activeElement.closest('#mistakes details')?.open")
    (folder / "ben" / Path(LESSON.sheet).name).unlink()
    (folder / "ben").rmdir()
    expect(shown.locator("tbody tr[id^=learner] th")).to_have_text(["ada", "cem"])
    assert row.evaluate("row => row.seenBefore")
    assert shown.evaluate("() => document.activeElement.nodeName") == "SUMMARY"
    assert complaints == []
    shown.context.close()


def test_it_says_when_nobody_answers_any_more(chromium, server):
    shown, _ = open_page(chromium, server)
    expect(shown.get_by_role("status")).to_be_empty()
    server.token = "another"
    expect(shown.get_by_role("status")).to_contain_text("No answer from amp-lessons class")
    expect(shown.get_by_role("rowheader", name="ben")).to_be_visible()
    shown.context.close()


@pytest.mark.slow
def test_without_scripts_it_is_loaded_again_as_a_whole(chromium, server, folder):
    shown, _ = open_page(chromium, server, java_script_enabled=False)
    expect(shown.get_by_role("rowheader", name="ben")).to_be_visible()
    assert shown.locator("noscript meta").get_attribute("content", timeout=1000) == str(
        page.SECONDS
    )
    shown.context.close()
