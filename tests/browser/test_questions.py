"""Predictions and the interview room in a real JupyterLab, with the keyboard alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lab import Lab, Notebook, save
from pages import faults
from playwright.sync_api import Locator, expect

from amp_lessons.app.workspace.copying import course_files, handed_out_form
from amp_lessons.core.catalogue import lesson_called
from amp_lessons.lessons import just_run
from amp_lessons.lessons.widgets.quiz import NO_GUESS
from amp_lessons.quiz import bank

pytestmark = pytest.mark.browser

LESSON = lesson_called("amp_in_20_minutes").notebook
ROOM = lesson_called("interview_room").notebook
BIG = bank.load().find("amp_in_20_minutes.big_pictures")
WRONG, RIGHT = (
    next(place for place, choice in enumerate(BIG.choices) if choice.right is right)
    for right in (False, True)
)
ASK, RESULT = f'predict("{BIG.id}")', "fp16 = train(fp16_step"


def box_in(notebook: Notebook, source: str) -> Locator:
    return notebook.shown(source, ".amp-quiz")


def log_of(lab: Lab) -> list[dict]:
    path = lab.workspace.parent / "home" / "quiz.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_workspace_holds_no_answer_before_the_commit():
    handed_out = {n: handed_out_form(source).decode() for n, source in course_files()}
    for text in (handed_out[LESSON], handed_out[ROOM]):
        assert BIG.prompt not in text
        for choice in BIG.choices:
            assert choice.why[:60] not in text


def test_prediction_is_explained_when_it_is_committed_and_its_result_is_there(open_notebook, lab):
    notebook = open_notebook(LESSON)
    notebook.run_until(ASK)
    box = box_in(notebook, ASK)
    before = len(log_of(lab))
    box.locator("input[type=radio]").first.focus()
    for key in ("123"[WRONG], "h", "Enter"):
        notebook.page.keyboard.press(key)
    expect(box.locator(".amp-hint")).to_be_visible()
    expect(box.locator(".amp-waiting")).to_contain_text("Committed")
    expect(box).not_to_contain_text(BIG.choices[RIGHT].why)
    assert len(log_of(lab)) == before
    notebook.run_cell(RESULT)
    expect(box.locator(".amp-result")).to_have_text("✗ Not right")
    assert len(log_of(lab)) == before + 1
    expect(box).to_contain_text(BIG.choices[RIGHT].why)
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        notebook.theme(theme)
        save(box_in(notebook, ASK), f"prediction_{theme.split()[1].lower()}")
        assert faults(notebook.page, ".amp-quiz") == []
    notebook.theme("JupyterLab Light")


@pytest.mark.slow
@pytest.mark.parametrize("by", ["keyboard", "mouse"])
def test_after_a_commit_shift_enter_runs_the_next_cell_and_the_verdict_is_in_view(
    chromium, lab, by
):
    """With a result as tall as the screen, which JupyterLab scrolls past."""
    tall = "from IPython.display import HTML\nHTML('<div style=\"height: 900px\">tall</div>')"
    name = f"commit_by_{by}.ipynb"
    text = ["\n\n".join(["Some text. " * 40] * 6)]
    sources = [
        text,
        "from amp_lessons.lessons.interview import predict",
        ASK,
        tall,
        text,
        "print('after')",
    ]
    (lab.workspace / name).write_text(json.dumps(notebook_of(sources)), encoding="utf-8")
    notebook = Notebook(chromium, lab.address, name, reduced_motion="reduce")
    page = notebook.page
    notebook.run_until(ASK)
    box = box_in(notebook, ASK)
    if by == "keyboard":
        box.locator("input[type=radio]").first.focus()
        for key in ("123"[WRONG], "Enter"):
            page.keyboard.press(key)
    else:
        box.locator(".amp-choice").nth(WRONG).click()
        box.get_by_role("button", name="Answer").click()
    expect(box.locator(".amp-feedback[aria-live=polite]")).to_contain_text("Committed")
    expect(page.locator(".jp-Cell.jp-mod-active")).to_contain_text("HTML(")
    page.keyboard.press("Shift+Enter")
    expect(box.locator(".amp-result")).to_have_text("✗ Not right")
    expect(box.locator(".amp-result")).to_be_in_viewport(ratio=1)
    notebook.come_to_rest()
    expect(box.locator(".amp-result")).to_be_in_viewport(ratio=1)
    for theme in ("Light", "Dark"):
        notebook.theme(f"JupyterLab {theme}")
        save(page, f"prediction_judged_by_{by}_{theme.lower()}")
    notebook.theme("JupyterLab Light")
    for _ in range(2):  # the text, and the cell after it; a change of theme may take the focus
        notebook.execute("notebook:run-cell-and-select-next")
    expect(page.locator(".jp-OutputArea-output", has_text="after")).to_be_visible()
    notebook.close()


@pytest.mark.slow
def test_a_restart_of_the_kernel_is_told_and_leaves_no_trace_of_an_unjudged_answer(
    open_notebook, lab
):
    notebook = open_notebook(LESSON)
    notebook.run_until(ASK)
    box = box_in(notebook, ASK)
    before = log_of(lab)
    box.locator("input[type=radio]").first.check()
    box.get_by_role("button", name="Answer").click()
    expect(box.locator(".amp-waiting")).to_contain_text("Committed")
    notebook.run_cell(ASK)
    expect(box_in(notebook, ASK).locator(".amp-waiting")).to_contain_text("Committed")
    restart = "() => jupyterapp.shell.currentWidget.sessionContext.restartKernel()"
    notebook.page.evaluate(restart)
    expect(box.locator(".amp-waiting")).to_have_text(
        "The kernel was restarted. Run this cell again."
    )
    notebook.run_until(ASK)
    expect(box_in(notebook, ASK).get_by_role("button", name="Answer")).to_be_visible()
    assert log_of(lab) == before


def notebook_of(sources: list[str | list[str]]) -> dict:
    """Code cells, and of each list a cell of text."""
    code = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    text = {"cell_type": "markdown", "metadata": {}}
    cells = [
        (text if isinstance(source, list) else code) | {"id": f"cell-{i}", "source": source}
        for i, source in enumerate(sources)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}


@pytest.mark.slow
def test_a_failing_cell_is_no_result(open_notebook):
    notebook = open_notebook(LESSON)
    notebook.run_until(ASK)
    box = box_in(notebook, ASK)
    box.locator("input[type=radio]").first.check()
    box.get_by_role("button", name="Answer").click()
    expect(box.locator(".amp-waiting")).to_contain_text("Committed")
    notebook.type_into(RESULT, f"1 / 0  # {RESULT}")
    notebook.run_cell("1 / 0")
    notebook.shown("1 / 0", "text=ZeroDivisionError")
    expect(box_in(notebook, ASK).locator(".amp-waiting")).to_contain_text("Committed")


PLAIN = ["\n\n".join(["Some text. " * 40] * 6)]
IMPORT = "from amp_lessons.lessons.interview import ask, predict"


@pytest.fixture
def own_notebook(chromium, lab) -> Iterator[Callable[..., Notebook]]:
    """Open a notebook of these cells, in a page of its own."""
    opened = []

    def open_(name: str, sources: list[str | list[str]], **options: Any) -> Notebook:
        path = f"{name}.ipynb"
        (lab.workspace / path).write_text(json.dumps(notebook_of(sources)), encoding="utf-8")
        opened.append(Notebook(chromium, lab.address, path, reduced_motion="reduce", **options))
        return opened[-1]

    yield open_
    for notebook in opened:
        notebook.close()


def sources_of(notebook: Notebook) -> list[str]:
    """What stands in the cells, with their kinds."""
    return notebook.page.evaluate(
        """() => Array.from(jupyterapp.shell.currentWidget.content.model.cells,
          (cell) => `${cell.type}: ${cell.sharedModel.getSource()}`)"""
    )


def focus_is_in(notebook: Notebook, selector: str) -> bool:
    return notebook.page.evaluate("s => !!document.activeElement.closest(s)", selector)


RUN_AND_TYPE = """async () => {
  const done = jupyterapp.commands.execute("notebook:run-cell-and-select-next");
  jupyterapp.shell.currentWidget.content.mode = "edit";
  await done;
}"""
ANSWERED = """async () => {
  const { kernel } = jupyterapp.shell.currentWidget.sessionContext.session;
  await kernel.requestKernelInfo(); // the kernel answers in turn: all that was asked before
}"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 380])
def test_a_box_that_was_run_with_shift_enter_is_answered_with_a_digit(own_notebook, width):
    cells = [PLAIN, IMPORT, PLAIN, ASK, PLAIN, "print('result')", PLAIN]
    notebook = own_notebook(f"digits_{width}", cells, viewport={"width": width, "height": 700})
    page, before = notebook.page, sources_of(notebook)
    if width < 800:
        notebook.execute("application:toggle-left-area")
    notebook.run_until(IMPORT)
    notebook.cell(ASK)
    page.locator(".jp-Cell.jp-mod-active .cm-content").click()
    page.keyboard.press("Shift+Enter")
    box = page.locator(".amp-quiz")
    expect(box.locator("input[type=radio]").first).to_be_focused()
    notebook.come_to_rest()
    expect(box.locator(".amp-kind")).to_be_in_viewport(ratio=1)
    for theme in ("Light", "Dark"):
        notebook.theme(f"JupyterLab {theme}")
        save(page, f"box_just_run_{width}_{theme.lower()}")
    box.locator(".amp-prompt").click()  # on its text: the next key is still for the box
    for key in ("b", "x", "d", "d", "9", str(WRONG + 1)):
        page.keyboard.press(key)
    expect(box.locator("input[type=radio]").nth(WRONG)).to_be_checked()
    page.keyboard.press("Enter")
    expect(box.locator(".amp-waiting")).to_contain_text("Committed")
    assert sources_of(notebook) == before
    for _ in range(2):  # the text, and the cell with the result
        page.keyboard.press("Shift+Enter")
    expect(box.locator(".amp-result")).to_have_text("✗ Not right")
    assert sources_of(notebook) == before


@pytest.mark.slow
def test_after_an_answer_enter_goes_on_to_the_next_cell(own_notebook):
    item = next(i for i in bank.load().items if i.form == "one")
    notebook = own_notebook("onward", [IMPORT, f'ask("{item.id}")', "print('after')"])
    page, before = notebook.page, sources_of(notebook)
    notebook.run_until("ask(")
    box = page.locator(".amp-quiz")
    expect(box.locator("input[type=radio]").first).to_be_focused()
    for key in ("1", "Enter"):
        page.keyboard.press(key)
    expect(box.locator(".amp-feedback")).to_be_focused()
    for key in ("b", "2", "Enter", "Shift+Enter"):
        page.keyboard.press(key)
    expect(page.locator(".jp-OutputArea-output", has_text="after")).to_be_visible()
    assert sources_of(notebook)[:3] == before
    box.locator(".amp-prompt").click()
    page.keyboard.press("Escape")
    expect(page.locator(".jp-Cell.jp-mod-active")).to_contain_text("ask(")
    assert not focus_is_in(notebook, ".amp-quiz")


@pytest.mark.slow
def test_no_box_takes_the_focus_from_a_run_of_all_cells_or_from_who_types(own_notebook):
    asked = [f'ask("{i.id}")' for i in bank.load().items if i.form == "one"][:2]
    cells = [IMPORT, asked[0], "print('after')", asked[1], "x = 1"]
    notebook = own_notebook("run_all", cells)
    notebook.run_all()
    box = box_in(notebook, asked[1])
    notebook.wait_for(ANSWERED)
    assert not focus_is_in(notebook, ".amp-quiz")
    notebook.cell(asked[1])
    notebook.wait_for(RUN_AND_TYPE)
    box.wait_for()
    notebook.wait_for(ANSWERED)
    assert focus_is_in(notebook, ".cm-editor")
    notebook.page.wait_for_timeout(1000 * just_run.AT_ONCE.total_seconds())  # as a person would
    notebook.cell(asked[1]).locator(".cm-content").click()
    notebook.page.keyboard.press("Control+Enter")
    expect(box.locator("input[type=radio]").first).to_be_focused()


@pytest.mark.slow
def test_a_box_opens_by_itself_when_its_result_has_run_and_costs_nothing(own_notebook, lab):
    notebook = own_notebook("no_guess", [IMPORT, ASK, "print('result')", PLAIN])
    before = len(log_of(lab))
    notebook.run_until(ASK)
    box = box_in(notebook, ASK)
    expect(box.get_by_role("button", name="Answer")).to_be_visible()
    notebook.run_cell("print('result')")
    expect(box.locator(".amp-result")).to_have_text(NO_GUESS)
    expect(box).to_contain_text(BIG.choices[RIGHT].why)
    for theme in ("Light", "Dark"):
        notebook.theme(f"JupyterLab {theme}")
        save(box_in(notebook, ASK), f"no_guess_{theme.lower()}")
        assert faults(notebook.page, ".amp-quiz") == []
    assert len(log_of(lab)) == before


@pytest.mark.slow
def test_interview_room_works_from_the_first_question_to_a_passed_task(open_notebook, lab):
    notebook = open_notebook(ROOM)
    notebook.run_all()
    quiz = box_in(notebook, "quiz(6)")
    expect(quiz.locator(".amp-kind")).to_contain_text("Question 1 of 6")
    quiz.get_by_role("button", name="Show me").click()
    quiz.get_by_role("button", name="Next question").click()
    expect(quiz.locator(".amp-kind")).to_contain_text("Question 2 of 6")
    expect(box_in(notebook, "gen_name_the_fault").locator("pre")).to_contain_text("grad norm")
    drill = notebook.page.locator('.amp-quiz[aria-label="Drill"]')
    expect(drill.locator(".amp-kind")).to_contain_text("Question 1 of")
    mock = box_in(notebook, "mock(minutes")
    expect(mock.get_by_role("timer")).to_contain_text("minutes left")
    for name, source in (("quiz", "quiz(6)"), ("mock", "mock(minutes")):
        save(box_in(notebook, source), f"interview_{name}")
        assert faults(notebook.page, ".amp-quiz") == []
    answer = """def log_softmax(logits):
    shifted = logits.float() - logits.float().amax(-1, keepdim=True)
    return (shifted - shifted.exp().sum(-1, keepdim=True).log()).to(logits.dtype)"""
    notebook.type_into("def log_softmax", answer)
    notebook.run_cell("def log_softmax")
    notebook.run_cell("how_numbers_break.log_softmax.check")
    cell = notebook.cell("how_numbers_break.log_softmax.check")
    expect(cell.locator(".amp-lessons-box")).to_contain_text("Passed")
