"""The course as a learner meets it: lessons, widgets and checks in a real JupyterLab."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from build_notebooks import WIDGET_TAGS
from lab import save
from outputs import CURVES, settled
from pages import faults

from amp_lessons.app.workspace import START_PAGE
from amp_lessons.core.catalogue import LESSONS, Lesson, lesson_called, lesson_of

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
HALF_RIGHT = "def survives(x):\n    return abs(x) >= 2**-24"
RIGHT = "def survives(x):\n    return torch.tensor(x, dtype=torch.float16).item() != 0"


def stored_cells(path: str) -> list[nbformat.NotebookNode]:
    return nbformat.read(ROOT / path, as_version=4).cells


def shows_a_widget(lesson: Lesson) -> bool:
    """Whether the lesson's source imports from our widgets, or from those of Jupyter."""
    source = (ROOT / f"sources/lessons/{lesson.id}.py").read_text(encoding="utf-8")
    widgets = r"(amp_lessons\.lessons\.widgets|ipywidgets)"
    return bool(re.search(rf"^ *(from|import) {widgets}\b", source, re.M))


WITH_WIDGETS = [lesson for lesson in LESSONS if shows_a_widget(lesson)]


def lesson_that_holds(text: str) -> str:
    """The path of the first lesson whose source holds ``text``."""
    for lesson in LESSONS:
        if text in (ROOT / f"sources/lessons/{lesson.id}.py").read_text(encoding="utf-8"):
            return lesson.notebook
    raise AssertionError(f"no lesson holds {text!r}")


def test_lab_opens_on_the_start_page_with_no_dialog_in_the_way(chromium, lab):
    page = chromium.new_page()
    page.goto(f"{lab.address}/")  # where the browser is sent when Lab starts
    shown = ".jp-NotebookPanel:not(.lm-mod-hidden) h1"  # tabs of other tests may be open behind it
    page.wait_for_selector(shown)
    text = [cell.source for cell in stored_cells(START_PAGE) if cell.cell_type == "markdown"]
    lines = "\n".join(text).splitlines()
    heading = next(line.removeprefix("# ") for line in lines if line.startswith("# "))
    assert page.locator(shown).first.inner_text().startswith(heading)
    page.evaluate("() => jupyterapp.allPluginsActivated.then(() => true)")
    # This one asks about news and new versions, whenever their server has answered.
    news = "() => jupyterapp.hasPlugin('@jupyterlab/apputils-extension:announcements')"
    assert not page.evaluate(news)
    assert page.evaluate("() => jupyterapp.hasPlugin('@jupyterlab/apputils-extension:themes')")
    assert page.locator(".jp-Dialog, .jp-toastContainer .Toastify__toast").count() == 0
    page.close()


def shown(outputs: list[dict]) -> list[object]:
    """What a cell shows: its printed text as a whole, and the data of each other output."""
    streams = [o for o in outputs if o["output_type"] == "stream"]
    text = "".join("".join(o["text"]) for o in streams)
    return [text, *(o.get("data") for o in outputs if o not in streams)]


def test_lessons_with_widgets_are_found():
    assert 0 < len(WITH_WIDGETS) < len(LESSONS)


# The gate runs one of them in JupyterLab, `make test-all` two more.
WHEN = {"amp_in_20_minutes": [], "number_formats": ["slow"], "interview_room": ["slow"]}


def is_help(output: dict[str, Any]) -> bool:
    """Whether this is the buttons below a check, which stand in JupyterLab only."""
    return output.get("data", {}).keys() == {"text/plain", WIDGET_VIEW}


READ = [
    pytest.param(
        lesson,
        id=lesson.id,
        marks=[getattr(pytest.mark, name) for name in WHEN.get(lesson.slug, ["long"])],
    )
    for lesson in dict.fromkeys([LESSONS[0], *WITH_WIDGETS, LESSONS[-1]])
]


@pytest.mark.parametrize("lesson", READ)
def test_lesson_runs_and_shows_what_is_stored(reader, lesson):
    """A learner who runs all sees what the notebook shows on the web, silence included. The other
    lessons show nothing that is JupyterLab's affair: nbval compares their outputs."""
    reader.turn_to(lesson.notebook)
    cells = reader.run_all()
    stored = [cell for cell in stored_cells(lesson.notebook) if cell.cell_type == "code"]
    assert len(cells) == len(stored) > 5
    assert sum(len(cell["outputs"]) for cell in cells) > 5
    for cell, kept in zip(cells, stored, strict=True):
        assert cell["source"] == kept.source
        kinds = [output["output_type"] for output in cell["outputs"]]
        assert "error" not in kinds, cell
        assert not [o for o in cell["outputs"] if o.get("name") == "stderr"], cell
        if "live" in kept.metadata.get("tags", []):
            assert kinds, f"a live cell shows nothing:\n{kept.source}"
        elif WIDGET_TAGS & {*kept.metadata.get("tags", [])}:
            (output,) = cell["outputs"]
            assert output["data"].pop(WIDGET_VIEW), "in JupyterLab it's a widget"
            assert output["data"] == kept.outputs[0].data, "elsewhere it's a form"
        else:
            outputs = [o for o in cell["outputs"] if not is_help(o)]
            assert shown(settled(outputs, kept.outputs)) == shown(kept.outputs), kept.source
    assert reader.page.locator(".jp-Dialog").count() == 0


@pytest.mark.slow
def test_bit_explorer_in_its_lesson_by_keyboard(open_notebook):
    notebook = open_notebook(lesson_that_holds("BitExplorer(value=0.1"))
    notebook.run_until("BitExplorer(value=0.1")
    page, cell = notebook.page, notebook.cell("BitExplorer(value=0.1")
    bit = cell.get_by_role("button", name="mantissa bit 0")
    bit.focus()
    before = cell.locator(".amp-exact").inner_text()
    page.keyboard.press("Space")
    after = cell.locator(".amp-exact").inner_text()
    assert (before, after) == ("0.0999755859375", "0.10003662109375")
    notebook.theme("JupyterLab Light")
    cell = notebook.cell("BitExplorer(value=0.1")
    save(cell.locator(".amp-widget"), "bit_explorer")
    assert faults(page, ".amp-widget") == []
    notebook.theme("JupyterLab Dark")
    save(notebook.cell("BitExplorer(value=0.1").locator(".amp-widget"), "bit_explorer_dark")
    assert faults(page, ".amp-widget") == []


@pytest.mark.slow
def test_gradient_histogram_in_its_lesson_by_keyboard(open_notebook):
    notebook = open_notebook(lesson_that_holds("GradientHistogram(exact"))
    for part in ("import copy", "def gradients(", "GradientHistogram(exact"):
        notebook.run_cell(part)  # the whole lesson runs in another test
    page, cell = notebook.page, notebook.cell("GradientHistogram(exact")
    slider = cell.get_by_role("slider", name="Loss scale")
    slider.focus()
    counts = cell.locator(".amp-count")
    before = counts.all_inner_texts()
    for _ in range(16):
        page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "scale 2^16 = 65536"
    after = counts.all_inner_texts()
    assert (before, after) == (["1,956", "8,236", "0", "0"], ["2", "484", "9,706", "0"])
    notebook.theme("JupyterLab Light")
    cell = notebook.cell("GradientHistogram(exact")
    save(cell.locator(".amp-widget"), "gradient_histogram")
    assert faults(page, ".amp-widget") == []
    notebook.theme("JupyterLab Dark")
    cell = notebook.cell("GradientHistogram(exact")
    save(cell.locator(".amp-widget"), "gradient_histogram_dark")
    assert faults(page, ".amp-widget") == []


def test_exercise_solved_wrongly_and_rightly_shows_two_boxes(open_notebook):
    notebook = open_notebook(lesson_of("survives").sheet)
    page = notebook.page
    notebook.run_cell("import torch")
    notebook.run_cell("def survives")
    notebook.run_cell("ex.survives.check")
    box = page.locator(".amp-lessons-box")
    box.wait_for()
    assert box.inner_text().startswith("○ Not attempted")

    for answer, word, name in ((HALF_RIGHT, "✘ Wrong", "wrong"), (RIGHT, "✔ Passed", "passed")):
        notebook.type_into("def survives", answer)
        notebook.run_cell("def survives")
        notebook.run_cell("ex.survives.check")
        page.wait_for_function(
            "word => document.querySelector('.amp-lessons-box')?.innerText.startsWith(word)",
            arg=word,
        )
        if name == "wrong":
            assert "the smallest number that FP16 has: 2**-24" in box.inner_text()
        for theme in ("JupyterLab Light", "JupyterLab Dark"):
            notebook.theme(theme)
            notebook.cell("ex.survives.check")
            box.wait_for()
            save(box, f"box_{name}_{theme.split()[1].lower()}")
            assert faults(page, ".amp-lessons-box") == []
    notebook.theme("JupyterLab Light")


@pytest.mark.slow
def test_pictures_have_alternative_text(open_notebook):
    notebook = open_notebook(lesson_called("clinic").notebook)
    for part in ("from amp_lessons.lessons import broken_runs", "plots.scaled_training"):
        notebook.run_cell(part)
    notebook.cell("plots.scaled_training")
    picture = notebook.page.locator(".jp-OutputArea-output img").first
    assert "the scale begins at 2^16" in picture.get_attribute("alt")
    assert faults(notebook.page, ".jp-OutputArea-output img") == []
    notebook.execute("application:toggle-left-area")
    notebook.cell("plots.scaled_training")
    notebook.come_to_rest()
    save(notebook.page, "lab")
    notebook.execute("application:toggle-left-area")


def curves_alone() -> tuple[str, str, str]:
    """A cell that shows curves and nothing else: its notebook, its source and what it says."""
    for lesson in LESSONS:
        for cell in stored_cells(lesson.notebook):
            match cell.get("outputs"):
                case [{"data": {"text/plain": text, **rest}}] if CURVES in rest:
                    return lesson.notebook, cell.source, text
    raise AssertionError("no lesson shows curves")


@pytest.mark.slow
def test_curves_are_shown_as_an_image_whatever_else_they_bring(open_notebook):
    """JupyterLab has no renderer for the numbers beside a curve, and must not miss one."""
    path, source, text = curves_alone()
    notebook = open_notebook(path)
    complaints: list[str] = []
    notebook.page.on("console", lambda message: complaints.append(message.text))
    notebook.run_until(source)
    image = notebook.shown(source, ".jp-OutputArea-output img")
    assert f"Figure: {image.get_attribute('alt')}" == text
    assert notebook.shown(source, ".jp-OutputArea-output").inner_text().strip() == ""
    assert not [text for text in complaints if "amp-lessons" in text or "mime" in text.lower()]
