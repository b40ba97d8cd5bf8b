"""The home page and the links, followed by clicking in a real JupyterLab."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from lab import CONNECTED, Lab, Notebook, save
from pages import faults
from playwright.sync_api import expect

from amp_lessons.app import workspace
from amp_lessons.core import progress
from amp_lessons.core.catalogue import HOME, LESSONS, lesson_called, lesson_of
from amp_lessons.core.standing import state_of
from amp_lessons.exercises import checks

pytestmark = pytest.mark.browser

TEXT, SHOWN = ".jp-MarkdownOutput", ".jp-OutputArea-output"


@pytest.fixture
def same_progress(lab: Lab, monkeypatch) -> None:
    """The progress file of the learner whose JupyterLab this is."""
    monkeypatch.setenv("AMP_LESSONS_HOME", str(lab.workspace.parent / "home"))


@pytest.fixture
def page_of(chromium, lab: Lab) -> Iterator[object]:
    opened: list[Notebook] = []

    def open_(path: str) -> Notebook:
        opened.append(Notebook(chromium, lab.address, path))
        return opened[-1]

    yield open_
    for notebook in opened:
        notebook.close()


def shown_path(notebook: Notebook, path: str) -> None:
    """Wait until JupyterLab shows this notebook."""
    notebook.page.wait_for_function(CONNECTED, arg=path)


@pytest.mark.slow
def test_from_home_to_a_lesson_its_sheet_the_glossary_and_back(page_of):
    home = page_of(HOME)
    lesson = lesson_called("amp_in_20_minutes")
    home.page.locator(SHOWN).get_by_role("link", name="00 AMP in 20 minutes").first.click()
    shown_path(home, lesson.notebook)
    top = home.page.locator(f".jp-NotebookPanel:not(.lm-mod-hidden) {TEXT}").first
    top.get_by_role("link", name="exercises 00").click()
    shown_path(home, lesson.sheet)
    top.get_by_role("link", name="lesson 00").click()
    shown_path(home, lesson.notebook)
    top.get_by_role("link", name="glossary").click()
    shown_path(home, HOME)
    heading = home.page.get_by_role("heading", name="Glossary")
    expect(heading).to_be_in_viewport()


def test_the_page_shows_the_map_before_any_cell_has_run(page_of):
    home = page_of(HOME)
    picture = home.page.locator(f"{SHOWN} img").first
    assert picture.get_attribute("alt").startswith(f"Map of the {len(LESSONS)} lessons")
    assert picture.evaluate("image => image.complete && image.naturalWidth > 900")
    assert home.page.evaluate(
        """() => jupyterapp.shell.currentWidget.content.widgets
             .every(cell => cell.model.type !== 'code' || !cell.model.executionCount)"""
    )
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        home.theme(theme)
        save(home.page, f"home_{theme.split()[1].lower()}")
        assert faults(home.page, f".jp-NotebookPanel {TEXT}") == []
        assert faults(home.page, f".jp-NotebookPanel {SHOWN}") == []
    home.theme("JupyterLab Light")


@pytest.mark.slow
def test_one_cell_brings_it_up_to_date_and_a_new_start_asks_nothing(page_of, lab, same_progress):
    home = page_of(HOME)
    progress.record_lesson("autocast_ops")
    home.run_cell("home.show()")
    output = home.page.locator(SHOWN)
    expect(output.get_by_text(re.compile("You have finished [1-9]")).first).to_be_visible()
    assert output.get_by_text("New here?").count() == 0
    link = output.get_by_role("link", name="04 What autocast does to each op").first
    assert "04_autocast_ops.ipynb" in link.get_attribute("href")
    home.execute("docmanager:save")

    progress.record_lesson("memory")
    workspace.copy_course(lab.workspace)  # as the next `amp-lessons lab` does
    home.page.reload()
    shown_path(home, HOME)
    row = home.page.locator(f"{SHOWN} tr").filter(has_text="09 Memory").last
    expect(row).to_contain_text("✔")
    expect(output.get_by_text("When you opened the course")).to_be_visible()
    assert output.get_by_text("You have finished").count() == 0
    home.execute("docmanager:save")  # which would not end before a dialog is answered
    assert home.page.locator(".jp-Dialog").count() == 0


def finished(lab: Lab) -> int:
    return sum(state_of(lesson, progress.load()) == "done" for lesson in LESSONS)


@pytest.mark.slow
def test_who_comes_back_from_a_lesson_finds_the_page_as_it_is_now(page_of, lab, same_progress):
    """One state on the page, and the right one, with no cell run again."""
    progress.record_lesson("amp_in_20_minutes")
    home = page_of(HOME)
    page = home.page
    home.run_cell("home.show()")
    output = page.locator(f".jp-NotebookPanel:not(.lm-mod-hidden) {SHOWN}")
    link = output.get_by_role("link", name="08 Losses, norms and your own ops").first
    expect(output.get_by_text(f"finished {finished(lab)} of 15")).to_have_count(1)
    lesson = lesson_called("losses_and_ops")
    assert state_of(lesson, progress.load()) != "done"
    link.click()
    shown_path(home, lesson.notebook)
    home.run_cell("home.finished")
    box = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .amp-lessons-box")
    expect(box).to_contain_text("✔ Lesson 08 done")
    box.get_by_role("link", name="home").click()
    shown_path(home, HOME)
    page.evaluate("() => jupyterapp.shell.currentWidget.content.scrollToItem(0)")
    expect(output.get_by_text(f"finished {finished(lab)} of 15")).to_have_count(1)
    expect(output.get_by_text(re.compile("finished [0-9]+ of 15"))).to_have_count(1)
    expect(page.get_by_role("heading", name="Pick a path")).to_have_count(1)
    expect(output.locator("img")).to_have_count(1)
    expect(output.locator("img")).to_have_attribute("alt", re.compile("Done: .*08"))
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        home.theme(theme)
        save(page, f"home_come_back_{theme.split()[1].lower()}")
    home.theme("JupyterLab Light")


@pytest.mark.slow
def test_a_pass_says_how_far_and_links_to_what_is_next(page_of, same_progress):
    sheet = page_of(lesson_of("smallest_scale").sheet)
    page = sheet.page
    sheet.run_cell("import torch")
    sheet.type_into("def smallest_scale", checks.find("smallest_scale").solved())
    sheet.run_cell("def smallest_scale")
    sheet.run_cell("ex.smallest_scale.check")
    box = page.locator(".amp-lessons-box")
    expect(box).to_contain_text("✔ Passed")
    expect(box).to_contain_text(re.compile(r"\d of 4 in this lesson\. Next: 4\. "))
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        sheet.theme(theme)
        sheet.cell("ex.smallest_scale.check")
        save(box, f"box_next_{theme.split()[1].lower()}")
        assert faults(page, ".amp-lessons-box") == []
    sheet.theme("JupyterLab Light")
    sheet.cell("ex.smallest_scale.check")
    box.get_by_role("link").first.click()
    expect(page.get_by_role("heading", name=re.compile(r"^4\. "))).to_be_in_viewport()


@pytest.mark.slow
def test_the_last_cell_of_a_lesson_marks_it(page_of, lab, same_progress):
    lesson = lesson_called("number_formats")
    notebook = page_of(lesson.notebook)
    notebook.run_cell("home.finished")
    box = notebook.page.locator(".amp-lessons-box")
    expect(box).to_contain_text("✔ Lesson 01 done")
    expect(box).to_contain_text("Next on your path: interview path: 02 Three ways numbers break")
    save(box, "box_lesson_done")
    assert "number_formats" in progress.load().lessons
    box.get_by_role("link", name=re.compile("lesson 02")).click()
    shown_path(notebook, lesson_called("how_numbers_break").notebook)
