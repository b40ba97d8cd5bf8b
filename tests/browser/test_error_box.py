"""The box on the home page in a real JupyterLab: paste, look up, follow the link."""

from __future__ import annotations

import pytest
from lab import Lab, Notebook, save
from pages import faults
from playwright.sync_api import expect

from amp_lessons.app import workspace
from amp_lessons.core.catalogue import HOME, lesson_called

pytestmark = pytest.mark.browser

CELL = "ErrorLookup()"
BOX = "[aria-label='Look up an error']"
TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 40, in <module>
    scaler.unscale_(optimizer)
ValueError: Attempting to unscale FP16 gradients."""


@pytest.mark.slow
def test_an_error_is_looked_up_on_the_home_page(chromium, lab: Lab, monkeypatch):
    home = Notebook(chromium, lab.address, HOME)
    page = home.page
    home.cell(CELL)
    box = page.locator(BOX)
    area = box.get_by_label("Your error, or what you see")
    area.focus()
    page.keyboard.insert_text(TRACEBACK)
    page.keyboard.press("ArrowUp")  # JupyterLab would move to another cell
    page.keyboard.press("Control+Enter")  # and here run the cell, which draws an empty box
    expect(box.get_by_role("status")).to_have_text("Found: Attempting to unscale FP16 gradients.")
    expect(area).to_have_value(TRACEBACK)
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        home.theme(theme)
        box.scroll_into_view_if_needed()
        save(box, f"error_box_{theme.split()[1].lower()}")
        assert faults(page, BOX) == []
    home.theme("JupyterLab Light")
    lesson = lesson_called("grad_scaler")
    # A second JupyterLab in this browser would be closed while it still loads, and that can hang.
    address = box.get_by_role("link", name="06 GradScaler").evaluate("link => link.href")
    assert address.endswith(f"/lab/tree/{lesson.notebook}")
    assert page.request.get(address).ok

    home.execute("docmanager:save")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(lab.workspace.parent / "home/jupyter_data_dir"))
    workspace.copy_course(lab.workspace)  # as the next `amp-lessons lab` does
    assert "widget-view" not in (lab.workspace / HOME).read_text(encoding="utf-8")
    home.close()
