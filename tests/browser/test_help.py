"""Hints and the solution of an exercise as buttons, in a real JupyterLab."""

from __future__ import annotations

import pytest
from lab import save
from pages import faults
from playwright.sync_api import expect

from amp_lessons.core.catalogue import lesson_called

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SHEET = lesson_called("number_formats").sheet
CHECK = "ex.next_float.check"


def test_hints_and_the_solution_are_a_button_away(open_notebook):
    notebook = open_notebook(SHEET)
    notebook.run_until(CHECK)
    cell = notebook.cell(CHECK)
    buttons = cell.locator(".amp-help-buttons")
    boxes = buttons.locator(".amp-lessons-box")
    buttons.get_by_role("button", name="Hint").press("Enter")
    expect(boxes).to_have_count(1)
    expect(boxes).to_contain_text("Hint 1 of")
    buttons.get_by_role("button", name="Solution").press("Enter")
    expect(buttons.get_by_role("button", name="Keep trying")).to_be_focused()
    expect(boxes).to_have_count(1)
    notebook.page.keyboard.press("b")  # no new cell
    for theme in ("Light", "Dark"):
        notebook.theme(f"JupyterLab {theme}")
        save(notebook.cell(CHECK), f"help_buttons_{theme.lower()}")
        assert faults(notebook.page, ".amp-help-buttons") == []
    buttons.get_by_role("button", name="Show it").click()
    expect(boxes.last).to_contain_text("def next_float")
    expect(buttons.get_by_text("Give up")).to_be_hidden()
    notebook.theme("JupyterLab Light")
