"""What our JupyterLab does for a learner besides the home page: cells that were run alone, cells
that take long, and pictures in a dark theme."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from lab import Lab, Notebook, save
from nbformat import writes
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

TOAST = ".Toastify__toast"
CELLS = (
    "from math import (\n    cos,\n    sin,\n)",
    "def slow(go_on):\n    import time\n    while not go_on.exists():\n        time.sleep(0.1)",
    "left, right = 3, 4",
    "print(sin(left) > 0)",
    "print(lift)",
    "from pathlib import Path\nslow(Path('go_on'))\nprint('rested')",
    "from amp_lessons.core.pictures import Picture, figure_of\n"
    "with figure_of() as (figure, axes):\n    axes.plot([1, 2])\nPicture(figure, 'A line.')",
)


@pytest.fixture
def mine(reader: Notebook, lab: Lab) -> Iterator[Notebook]:
    """A learner's own notebook."""
    file = lab.workspace / "mine.ipynb"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [new_code_cell(source) for source in CELLS]
    file.write_text(writes(new_notebook(cells=cells, metadata={"kernelspec": kernel})))
    reader.turn_to(file.name)
    yield reader
    file.unlink()


@pytest.mark.slow
def test_a_cell_that_was_run_alone_offers_to_run_those_above(mine):
    page = mine.page
    mine.run_cell("print(sin")
    toast = page.locator(TOAST)
    expect(toast).to_contain_text("sin is made in a cell above. Run the cells above first")
    save(page, "run_alone")
    toast.get_by_role("button", name="Run them, then this one").click()
    expect(mine.cell("print(sin").locator(".jp-OutputArea-output")).to_have_text("True")
    expect(toast).to_have_count(0)
    # A name that no cell makes was misspelt, and the cells above wouldn't help.
    mine.run_cell("print(lift)")
    expect(mine.cell("print(lift)").locator(".jp-OutputArea-output")).to_contain_text(
        "'lift' is not"
    )
    assert toast.count() == 0


@pytest.mark.slow
def test_a_cell_that_takes_long_says_so_until_it_ends(mine, lab):
    go_on = lab.workspace / "go_on"
    mine.run_cell("def slow")
    mine.cell("slow(Path")
    mine.page.evaluate("() => { window.ran = jupyterapp.commands.execute('notebook:run-cell'); }")
    working = mine.page.locator("[data-amp-lessons-runs]")
    expect(working).to_have_attribute("data-amp-lessons-runs", re.compile(r"^Running for \d+ s$"))
    assert "slow(Path" in working.inner_text()
    go_on.touch()
    expect(working).to_have_count(0)
    mine.page.evaluate("() => window.ran")
    go_on.unlink()


@pytest.mark.slow
def test_pictures_follow_the_theme(mine):
    mine.run_cell("figure_of")
    picture = mine.page.get_by_alt_text("A line.")
    for theme, filtered in (("JupyterLab Light", False), ("JupyterLab Dark", True)):
        mine.theme(theme)
        mine.cell("figure_of")
        assert (picture.evaluate("image => getComputedStyle(image).filter") != "none") is filtered
        save(picture, f"picture_{theme.split()[1].lower()}")
    mine.theme("JupyterLab Light")
