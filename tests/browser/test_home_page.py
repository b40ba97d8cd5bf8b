"""The home page and the links, followed by clicking in a real JupyterLab."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from lab import CONNECTED, Lab, Notebook, save
from pages import faults
from playwright.sync_api import expect

from amp_lessons.app import workspace
from amp_lessons.core import ipynb, progress
from amp_lessons.core.catalogue import HOME, LESSONS, PATHS, lesson_called, lesson_of
from amp_lessons.core.standing import next_step, state_of
from amp_lessons.exercises import checks

pytestmark = pytest.mark.browser

TEXT, SHOWN = ".jp-MarkdownOutput", ".jp-OutputArea-output"


@pytest.fixture
def same_progress(lab: Lab, monkeypatch) -> None:
    """The progress file of the learner whose JupyterLab this is, and what their Jupyter trusts.
    They begin: earlier tests may have finished lessons here."""
    own = lab.workspace.parent / "home"
    monkeypatch.setenv("AMP_LESSONS_HOME", str(own))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(own / "jupyter_data_dir"))
    progress.progress_file().unlink(missing_ok=True)


@pytest.fixture(scope="module")
def own_page(chromium, lab: Lab) -> Iterator[Notebook]:
    """A page of JupyterLab for all these tests: it takes seconds to load."""
    notebook = Notebook(chromium, lab.address, HOME)
    yield notebook
    notebook.close()


@pytest.fixture
def page_of(own_page: Notebook) -> Callable[[str], Notebook]:
    """Opens a notebook alone in that page, with a kernel of its own."""

    def open_(path: str) -> Notebook:
        own_page.page.set_viewport_size({"width": 1280, "height": 900})
        own_page.turn_to(path)
        return own_page

    return open_


def shown_path(notebook: Notebook, path: str) -> None:
    """Wait until JupyterLab shows this notebook."""
    notebook.page.wait_for_function(CONNECTED, arg=path)


GO = ".amp-go"
PARTS = """() => {
  const { widgets } = jupyterapp.shell.currentWidget.content;
  return widgets.filter(({ node }) => node.classList.contains("amp-lessons-part"))
    .map((cell) => cell.model.executionCount);
}"""


def ran(home: Notebook) -> None:
    """Wait until the page has run by itself, and was saved."""
    home.page.wait_for_function(f"() => ({PARTS})().every(Boolean)")
    expect(home.page.get_by_role("radio")).to_have_count(len(PATHS) + 1)
    home.page.wait_for_function("() => !jupyterapp.shell.currentWidget.context.model.dirty")


def choose(home: Notebook, title: str) -> None:
    home.page.evaluate("() => jupyterapp.shell.currentWidget.content.scrollToItem(0)")
    home.page.get_by_role("radio", name=re.compile(f"^{title}")).check()


@pytest.mark.slow
def test_from_home_to_a_lesson_its_sheet_the_glossary_and_back(page_of):
    home = page_of(HOME)
    lesson = lesson_called("amp_in_20_minutes")
    ran(home)
    home.cell("home.show_lessons")
    home.page.get_by_role("link", name=re.compile("^00 AMP in 20 minutes")).click()
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


def test_the_page_runs_by_itself_and_has_no_fault_in_any_theme(page_of):
    home = page_of(HOME)
    ran(home)
    expect(home.page.locator(GO)).to_have_count(1)
    assert home.page.locator(".jp-Dialog").count() == 0
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        home.theme(theme)
        for part in ("home.show()", "LossScaleLab(", "home.show_lessons()", "ErrorLookup("):
            home.cell(part)
            save(home.page, f"home_{theme.split()[1].lower()}_{part.partition('(')[0]}")
            assert faults(home.page, f".jp-NotebookPanel {TEXT}") == []
            assert faults(home.page, f".jp-NotebookPanel {SHOWN}") == []
    home.theme("JupyterLab Light")


@pytest.mark.slow
@pytest.mark.parametrize("width", [380, 900, 1400])
def test_nothing_of_the_page_is_cut_off(page_of, width):
    home = page_of(HOME)
    home.page.set_viewport_size({"width": width, "height": 900})
    if width < 1000:
        home.page.evaluate("() => jupyterapp.shell.collapseLeft()")
    ran(home)
    for part in ("home.show()", "home.show_lessons()"):
        cell = home.cell(part)
        cut = cell.locator(".amp-home").evaluate_all(
            """found => found.flatMap(each => [each, ...each.querySelectorAll("li, label, a, p")])
                 .filter(each => each.scrollWidth > each.clientWidth + 1 && each.clientWidth)
                 .map(each => each.outerHTML.slice(0, 200))"""
        )
        assert cut == []
        save(home.page, f"home_{width}_{part.partition('(')[0]}")


@pytest.mark.slow
def test_a_new_kernel_gets_the_page_again(page_of):
    home = page_of(HOME)
    ran(home)
    home.wait_for("() => jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    choose(home, "3 hours")
    expect(home.page.get_by_role("heading", name="Your path: 3 hours")).to_be_attached()
    choose(home, "The whole course")
    expect(home.page.get_by_role("heading", name="Your path: 3 hours")).not_to_be_attached()


@pytest.mark.slow
def test_without_our_extension_the_stored_page_leads_on_and_says_how_to_run_it(
    chromium, lab, same_progress
):
    workspace.copy_course(lab.workspace)  # or it is as an earlier test ran it
    context = chromium.new_context()
    context.route("**/extensions/amp-lessons/**", lambda route: route.abort())
    page = context.new_page()
    page.goto(f"{lab.address}/lab/tree/{HOME}?reset")
    page.wait_for_function(CONNECTED, arg=HOME)
    expect(page.locator(GO)).to_have_count(1)
    expect(page.get_by_text("Elsewhere, run its cells: Run > Run All Cells.")).to_be_visible()
    assert page.locator(".amp-lessons-part").count() == 0
    page.locator(GO).click()
    page.wait_for_function(CONNECTED, arg=next_step(progress.load()).notebook)
    context.close()


@pytest.mark.slow
def test_cells_that_jupyter_does_not_trust_stay_as_they_are(page_of, lab):
    file = lab.workspace / HOME
    before = file.read_bytes()
    notebook = ipynb.read(file)
    foreign = {"cell_type": "code", "id": "foreign", "source": "1 + 1", "execution_count": None}
    foreign |= {"metadata": {"tags": ["live"]}, "outputs": []}
    output = {"output_type": "display_data", "metadata": {}, "data": {"text/html": "<b>?</b>"}}
    notebook["cells"].append(foreign | {"outputs": [output]})
    file.write_bytes(ipynb.to_bytes(notebook))
    try:
        home = page_of(HOME)
        home.page.wait_for_selector(".amp-lessons-part", state="attached")
        home.run_cell("find_spec")  # the kernel has done all that it was asked before
        assert not any(home.page.evaluate(PARTS))
    finally:
        file.write_bytes(before)


@pytest.mark.slow
def test_a_path_is_chosen_with_one_click_and_leads_from_lesson_to_lesson(page_of, same_progress):
    home = page_of(HOME)
    page = home.page
    ran(home)
    choose(home, "Interview in three days")
    lessons = page.locator(SHOWN).get_by_role("heading", name="Your path: Interview")
    expect(lessons).to_be_attached()
    assert progress.load().path == "interview"
    step = next_step(progress.load())
    expect(page.locator(GO)).to_contain_text(str(step))
    save(page, "home_path_chosen")
    page.locator(GO).click()
    shown_path(home, step.notebook)
    home.run_cell("home.finished")
    box = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .amp-lessons-box")
    following = next_step(progress.load())
    expect(box).to_contain_text(f"Next on the interview path: {following}")
    box.get_by_role("link", name="home").click()
    shown_path(home, HOME)
    expect(page.locator(f".jp-NotebookPanel:not(.lm-mod-hidden) {GO}")).to_contain_text(
        str(following)
    )
    choose(home, "The whole course")
    expect(lessons).not_to_be_attached()
    assert progress.load().path is None


@pytest.mark.slow
def test_it_is_up_to_date_and_a_new_start_asks_nothing(page_of, lab, same_progress):
    progress.record_lesson("autocast_ops")
    home = page_of(HOME)
    ran(home)
    output = home.page.locator(SHOWN)
    expect(output.get_by_text(re.compile("You have finished [1-9]")).first).to_be_visible()
    assert output.get_by_text("Start: lesson").count() == 0
    progress.record_lesson("memory")
    home.execute("docmanager:save")
    workspace.copy_course(lab.workspace)  # as the next `amp-lessons lab` does
    home.page.reload()
    shown_path(home, HOME)
    ran(home)
    home.cell("home.show_lessons")
    card = home.page.locator(".amp-card").filter(has_text="09 Memory")
    expect(card).to_contain_text("✔ Done")
    home.execute("docmanager:save")  # which would not end before a dialog is answered
    assert home.page.locator(".jp-Dialog").count() == 0


def finished() -> int:
    return sum(state_of(lesson, progress.load()) == "done" for lesson in LESSONS)


@pytest.mark.slow
def test_who_comes_back_from_a_lesson_finds_the_page_as_it_is_now(page_of, same_progress):
    """One state on the page, and the right one, with no cell run again."""
    progress.record_lesson("amp_in_20_minutes")
    home = page_of(HOME)
    page = home.page
    ran(home)
    output = page.locator(f".jp-NotebookPanel:not(.lm-mod-hidden) {SHOWN}")
    expect(output.get_by_text(f"finished {finished()} of {len(LESSONS)}")).to_have_count(1)
    lesson = lesson_called("losses_and_ops")
    assert state_of(lesson, progress.load()) != "done"
    home.cell("home.show_lessons")
    output.get_by_role("link", name=re.compile("08 Losses, norms and your own ops")).click()
    shown_path(home, lesson.notebook)
    home.run_cell("home.finished")
    box = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .amp-lessons-box")
    expect(box).to_contain_text("✔ Lesson 08 done")
    box.get_by_role("link", name="home").click()
    shown_path(home, HOME)
    page.evaluate("() => jupyterapp.shell.currentWidget.content.scrollToItem(0)")
    expect(output.get_by_text(f"finished {finished()} of {len(LESSONS)}")).to_have_count(1)
    expect(output.get_by_text(re.compile(f"finished [0-9]+ of {len(LESSONS)}"))).to_have_count(1)
    home.cell("home.show_lessons")
    card = output.locator(".amp-card").filter(has_text="08 Losses")
    expect(card).to_contain_text("✔ Done")


def test_learners_see_no_menus_of_nbgrader_and_where_they_write(page_of):
    sheet = page_of(lesson_of("smallest_scale").sheet)
    menus = sheet.page.locator(".lm-MenuBar-itemLabel").all_inner_texts()
    assert "Nbgrader" not in menus
    assert not sheet.page.get_by_text(re.compile("^(Validate|Create Assignment)$")).count()
    yours = "() => jupyterapp.shell.currentWidget.content.widgets.filter(cell =>"
    yours += " cell.node.classList.contains('amp-lessons-yours'))"
    sheet.page.wait_for_function(f"{yours}.length > 0")
    marked = sheet.page.evaluate(f"{yours.removeprefix('() => ')}.map(c => c.model.toJSON())")
    assert len(marked) == len(lesson_of("smallest_scale").exercises)
    assert all(cell["metadata"]["nbgrader"]["solution"] for cell in marked)
    save(sheet.cell("def smallest_scale"), "sheet_your_cell")


@pytest.mark.slow
def test_a_pass_says_how_far_and_links_to_what_is_next(page_of, same_progress):
    sheet = page_of(lesson_of("decode_bits").sheet)
    page = sheet.page
    sheet.run_cell("import torch")
    sheet.type_into("def decode_bits", checks.find_exercise("decode_bits").solved())
    sheet.run_cell("def decode_bits")
    sheet.run_cell("ex.decode_bits.check")
    box = page.locator(".amp-lessons-box")
    expect(box).to_contain_text("✔ Passed")
    expect(box).to_contain_text(re.compile(r"\d of 2 core exercises\. Next: 2\. "))
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        sheet.theme(theme)
        sheet.cell("ex.decode_bits.check")
        save(box, f"box_next_{theme.split()[1].lower()}")
        assert faults(page, ".amp-lessons-box") == []
    sheet.theme("JupyterLab Light")
    sheet.cell("ex.decode_bits.check")
    box.get_by_role("link").first.click()
    expect(page.get_by_role("heading", name=re.compile(r"^2\. "))).to_be_in_viewport()


@pytest.mark.slow
def test_the_last_cell_of_a_lesson_marks_it(page_of, lab, same_progress):
    lesson = lesson_called("number_formats")
    notebook = page_of(lesson.notebook)
    notebook.run_cell("home.finished")
    box = notebook.page.locator(".amp-lessons-box")
    expect(box).to_contain_text("✔ Lesson 01 done")
    expect(box).to_contain_text("Next: exercises 01 · lesson 02, Three ways numbers break · home")
    save(box, "box_lesson_done")
    assert "number_formats" in progress.load().lessons
    box.get_by_role("link", name=re.compile("lesson 02")).click()
    shown_path(notebook, lesson_called("how_numbers_break").notebook)
