"""The widgets in a real JupyterLab: its shortcuts, its themes, and the way back to Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from lab import Lab, Notebook, save
from pages import faults
from playwright.sync_api import expect

from amp_lessons.app.workspace import START_PAGE

FROM = "from amp_lessons.lessons.widgets import"
CELLS = [
    f"{FROM} BitExplorer, GradientHistogram, ScalerLab\nexplorer = BitExplorer(0.1)\nexplorer",
    "import torch\n"
    "histogram = GradientHistogram(torch.tensor([1e-3, 1e-6, 1e-9, 0]), scale=65536)\n"
    "histogram",
    "print(explorer.value, explorer.format, hex(explorer.code), histogram.scale_exponent)",
    "explorer.format = 'FP8 E4M3'; explorer.value = float('inf'); histogram.format = 'BF16'",
    f"{FROM} PolicyBrowser\nbrowser = PolicyBrowser('softmax')\nbrowser",
    "print(browser.op, browser.search)",
    f"{FROM} ScalerLab\nlab = ScalerLab()\nlab",
    "print(lab.score, lab.growth_interval, [r.scale for r in lab.records][:5])",
    f"{FROM} MemoryCalculator\ncalculator = MemoryCalculator()\ncalculator",
    "print(calculator.optimizer, calculator.batch, calculator.memories[1].cast_cache)",
    f"{FROM} RooflineExplorer\nroof = RooflineExplorer()\nroof",
    "print(roof.gpu, roof.baseline, roof.dtype, roof.m, roof.measured,\n"
    "      roof.bound[roof.dtype], round(roof.limit, 2))",
    f"{FROM} AutocastSteps\nsteps = AutocastSteps()\nsteps",
    "print(steps.device, steps.answers, steps.place, steps.score)",
    f"{FROM} OrderTheCalls\ncalls = OrderTheCalls()\ncalls",
    "print(calls.order['before'], calls.order['after'][:2], calls.outcome.findings[0].slug)",
    f"{FROM} LossScaleLab\nscales = LossScaleLab()\nscales",
    "print(scales.scale, scales.guess, scales.cost, scales.step, len(scales.trained['errors']))",
    f"{FROM} BlockExplorer\nblock = BlockExplorer()\nblock",
    "print(block.times, block.count, block.rounding, len(block.block))",
]


def cells() -> dict[str, Any]:
    made = [
        {
            "cell_type": "code",
            "id": f"cell-{i}",
            "metadata": {},
            "source": source,
            "outputs": [],
            "execution_count": None,
        }
        for i, source in enumerate(CELLS)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": made}


@pytest.fixture(scope="module")
def tall_page(chromium: Any, lab: Lab) -> Iterator[Notebook]:
    """A page with room for a widget. The system prefers dark and JupyterLab is light: the widgets
    must follow JupyterLab."""
    size = {"width": 1300, "height": 1500}
    opened = Notebook(chromium, lab.address, START_PAGE, color_scheme="dark", viewport=size)
    yield opened
    opened.close()


@pytest.fixture
def notebook(tall_page: Notebook, lab: Lab, request: pytest.FixtureRequest) -> Iterator[Notebook]:
    """The notebook, in a file and with a kernel of its own, alone in the page."""
    name = f"{request.node.name}.ipynb"
    (lab.workspace / name).write_text(json.dumps(cells()), encoding="utf-8")
    tall_page.turn_to(name)
    tall_page.theme("JupyterLab Light")
    yield tall_page
    for theme in ("Light", "Dark"):
        tall_page.theme(f"JupyterLab {theme}")
        widget = tall_page.page.locator(".amp-widget").last
        save(widget, f"{request.node.name.removeprefix('test_the_')}_{theme.lower()}")


def run_cell(page: Any, index: int) -> None:
    """Run a cell and wait until its prompt shows a new number."""
    page.evaluate("i => { jupyterapp.shell.currentWidget.content.activeCellIndex = i }", index)
    prompt = page.locator(".jp-InputPrompt").nth(index).element_handle()
    before = prompt.text_content()
    page.evaluate("() => jupyterapp.commands.execute('notebook:run-cell')")
    page.wait_for_function(
        "([e, before]) => /\\d/.test(e.textContent) && e.textContent !== before",
        arg=[prompt, before],
    )


def what_python_reads(page: Any, expected: str, cell: int = 2) -> str:
    """What a cell prints, the third one if no other is named.

    A widget sends its next change when the last one has arrived, so a cell that is run within
    milliseconds may still read the one before.
    """
    for _ in range(100):
        run_cell(page, cell)
        text = page.locator(".jp-OutputArea-output pre").last.inner_text().strip()
        if text == expected:
            break
        page.wait_for_timeout(300)
    return text


@pytest.mark.browser
def test_the_bit_explorer_and_the_histogram(notebook: Notebook) -> None:
    page = notebook.page
    run_cell(page, 0)
    run_cell(page, 1)
    page.wait_for_selector(".amp-exact")
    page.wait_for_selector(".amp-picture")

    bit = page.get_by_role("button", name="mantissa bit 0")
    bit.focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert bit.get_attribute("aria-label") == "mantissa bit 0, value 1"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")
    assert page.locator(".amp-exact").inner_text() == "0.09991455078125"

    value = page.get_by_label("Value", exact=True)
    value.focus()
    for text, complaint in (("a third", "“a third” is not a number"), ("1e-3", "")):
        page.keyboard.press("Control+A")
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        assert page.locator(".amp-error").inner_text().startswith(complaint)
    slider = page.get_by_role("slider", name="Loss scale")
    slider.focus()
    for key in ("ArrowRight", "ArrowUp", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    assert slider.get_attribute("aria-valuetext") == "scale 2^18 = 262144"

    assert what_python_reads(page, "0.001 FP16 0x1419 18") == "0.001 FP16 0x1419 18"
    run_cell(page, 3)
    page.wait_for_function("() => document.querySelector('.amp-exact').textContent === 'NaN'")
    assert page.get_by_label("Format").nth(1).input_value() == "BF16"

    card = page.locator(".amp-card").first
    title, count = (card.locator(part).bounding_box() for part in ("dt", ".amp-count"))
    assert title["y"] + title["height"] <= count["y"], "JupyterLab's own style of lists shows"
    assert ground(page) > 600, "JupyterLab is light, so the widgets are"
    assert faults(page, ".amp-widget") == []
    notebook.theme("JupyterLab Dark")
    page.wait_for_function(f"() => ({GROUND})() < 200")
    assert faults(page, ".amp-widget") == []


@pytest.mark.browser
@pytest.mark.slow
def test_the_scaler_lab(notebook: Notebook) -> None:
    """A prediction and a new pattern reach Python, whose real GradScaler answers."""
    page = notebook.page
    run_cell(page, 0)
    run_cell(page, 6)
    stays = page.get_by_role("button", name="stays at")
    stays.focus()
    page.keyboard.press("Space")
    page.keyboard.press("Space")
    assert what_python_reads(page, "(1, 2) 2 [4.0, 8.0, 8.0, 16.0, 16.0]", 7)[:6] == "(1, 2)"
    first = page.get_by_role("button", name="step 0 overflows", exact=True)
    first.focus()
    page.keyboard.press("ArrowRight")  # JupyterLab would move to another cell
    page.keyboard.press("Space")
    page.get_by_role("button", name="Show all").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("text=agree in all 12 steps shown")
    expected = "(1, 1) 2 [4.0, 2.0, 2.0, 4.0, 4.0]"
    assert what_python_reads(page, expected, 7) == expected
    assert faults(page, "[aria-label='Scaler lab']") == []
    notebook.theme("JupyterLab Dark")
    page.wait_for_function(f"() => ({GROUND})() < 200")
    assert faults(page, "[aria-label='Scaler lab']") == []


@pytest.mark.browser
def test_the_loss_scale_lab(notebook: Notebook) -> None:
    """Predictions and slider reach Python, which trains at the scale that is chosen."""
    page = notebook.page
    run_cell(page, 16)
    page.get_by_role("slider", name="Your guess").focus()
    page.keyboard.press("ArrowRight")  # JupyterLab would move to another cell
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_label("about the same as FP32's").check()
    page.get_by_role("button", name="Commit my guess").click()
    for _ in range(16):
        page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="Train it here").click()
    page.wait_for_selector("text=/Trained here in .* at loss scale 16: error 0.01/")
    page.get_by_role("slider", name="Time").focus()
    page.keyboard.press("End")
    expected = "16.0 0.25 same 150 151"
    assert what_python_reads(page, expected, 17) == expected
    assert faults(page, "[aria-label='Loss scale lab']") == []
    notebook.theme("JupyterLab Dark")
    page.wait_for_function(f"() => ({GROUND})() < 200")
    assert faults(page, "[aria-label='Loss scale lab']") == []


@pytest.mark.browser
@pytest.mark.slow
def test_the_roofline_explorer(notebook: Notebook) -> None:
    """GPU, dtypes, size and time reach Python, and Python's choice reaches the page."""
    page = notebook.page
    run_cell(page, 10)
    page.wait_for_selector(".amp-roof")
    page.get_by_label("GPU").focus()
    page.keyboard.press("ArrowUp")  # JupyterLab would move to another cell
    page.get_by_label("16-bit dtype").select_option("BF16")
    page.get_by_label("Baseline").select_option("TF32")
    for field, typed in (("m", "16"), ("16-bit time (ms)", "0.02")):
        page.get_by_label(field, exact=True).fill(typed)
        page.keyboard.press("Enter")
    expected = "H100 SXM tf32 bf16 16 0.02 bandwidth 2.0"
    assert what_python_reads(page, expected, 11) == expected
    page.get_by_label("GPU").select_option("T4")
    expected = "T4 fp32 fp16 16 0.02 bandwidth 2.0"
    assert what_python_reads(page, expected, 11) == expected
    assert faults(page, "[aria-label='Roofline explorer']") == []
    notebook.theme("JupyterLab Dark")
    page.wait_for_function(f"() => ({GROUND})() < 200")
    assert faults(page, "[aria-label='Roofline explorer']") == []


# All computed styles of the elements of one widget. They stay in the page: the policy browser has
# 2,500 elements, with some 400 styles each.
STYLES = """name => {
  const root = document.querySelector(`.amp-widget[aria-label="${name}"]`);
  return [root, ...root.querySelectorAll("*")].map((element) => {
    const style = getComputedStyle(element);
    const kept = [...style].filter((property) => !property.startsWith("--"));
    const values = kept.map((property) => `${property}: ${style.getPropertyValue(property)}`);
    return [element.getAttribute("class"), ...values];
  });
}"""
# Keep the styles of a widget, and say of how many elements.
KEEP = f"name => ((window.seen ??= {{}})[name] = ({STYLES})(name)).length"
# What has changed in a widget since its styles were kept, the first few of it.
CHANGED = f"""name => {{
  const was = window.seen[name], now = ({STYLES})(name);
  if (was.length !== now.length) return [`${{was.length}} elements became ${{now.length}}`];
  return now.flatMap((values, i) => {{
    const before = new Set(was[i]);
    const fresh = values.filter((value) => !before.has(value));
    return fresh.map((value) => `${{was[i][0]}}: ${{value}}`);
  }}).slice(0, 20);
}}"""
SHEETS = "() => document.querySelectorAll(`style[id^='amp_lessons']`).length"
ON_ONE_PAGE = {
    "Questions": "from amp_lessons import ask\nask('grad_scaler.what_step_does')",
    "Policy browser": f"{FROM} PolicyBrowser\nPolicyBrowser('softmax')",
    "Scaler lab": f"{FROM} ScalerLab\nScalerLab()",
    "Order the calls": f"{FROM} OrderTheCalls\nOrderTheCalls()",
    "Autocast, op by op": f"{FROM} AutocastSteps\nAutocastSteps()",
}


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.slow
def test_no_widget_changes_the_look_of_another(notebook: Notebook) -> None:
    """Each brings style sheets along, in the order in which the cells run."""
    page = notebook.page
    assert page.evaluate(SHEETS) == 0, "an earlier test's style sheets would hide a change"
    seen: list[str] = []
    for i, (name, source) in enumerate(ON_ONE_PAGE.items()):
        page.evaluate(
            "([i, source]) => jupyterapp.shell.currentWidget.content.model.cells.get(i)"
            ".sharedModel.setSource(source)",
            [i, source],
        )
        run_cell(page, i)
        page.locator(f".amp-widget[aria-label='{name}']").wait_for()
        page.wait_for_function(f"({SHEETS})() === {i + 1}")
        for other in seen:
            assert page.evaluate(CHANGED, other) == [], f"{name} changes {other}"
        assert page.evaluate(KEEP, name) > 5
        seen.append(name)
    assert page.evaluate(SHEETS) == len(seen)


# The red, green and blue of the widget's ground, added up.
GROUND = """() => {
  const colour = getComputedStyle(document.querySelector(".amp-widget")).backgroundColor;
  return colour.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
}"""


def ground(page: Any) -> int:
    return page.evaluate(GROUND)


@pytest.mark.browser
@pytest.mark.slow
def test_the_policy_browser(notebook: Notebook) -> None:
    """JupyterLab must leave it the arrow keys, which else move between the cells."""
    page = notebook.page
    run_cell(page, 4)
    page.wait_for_selector(".amp-options")
    page.get_by_label("Search ops").focus()
    page.keyboard.type("softmax")
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    page.keyboard.press("ArrowUp")
    expected = "softmax(dtype=) softmax"
    assert what_python_reads(page, expected, cell=5) == expected
    assert faults(page, ".amp-widget") == []
    notebook.theme("JupyterLab Dark")
    assert faults(page, ".amp-widget") == []


@pytest.mark.browser
@pytest.mark.slow
def test_the_autocast_steps(notebook: Notebook) -> None:
    """A prediction goes to Python, which answers with what is cast; the rules start again."""
    page = notebook.page
    shown, read = (CELLS.index(cell) for cell in CELLS if "steps" in cell)
    run_cell(page, shown)
    widget = page.locator("[aria-label='Autocast, op by op']")
    widget.wait_for()
    widget.get_by_role("group", name="It runs in").get_by_label("FP16").focus()
    page.keyboard.press("ArrowDown")  # JupyterLab would move to another cell
    page.keyboard.press("Enter")
    output = widget.get_by_role("status")
    expect(output).to_contain_text("Not so: linear runs in FP16 and gives FP16. You said FP32.")
    expect(widget.get_by_role("button", name="Next op")).to_be_focused()
    save(widget, "autocast_steps_committed_light")
    expected = "cuda [['float32', 'float32']] 0 Score(right=0, asked=1, shown=0)"
    assert what_python_reads(page, expected, cell=read) == expected
    assert faults(page, "[aria-label='Autocast, op by op']") == []
    notebook.theme("JupyterLab Dark")
    page.wait_for_function(f"() => ({GROUND})() < 200")
    assert faults(page, "[aria-label='Autocast, op by op']") == []
    save(widget, "autocast_steps_committed_dark")
    widget.get_by_label("Whose rules").select_option("CPU")
    for number in range(1, 14):
        expect(widget.get_by_text(f"Op {number} of 13")).to_be_visible()
        widget.get_by_role("button", name="Show me").click()
        name = "Next op" if number < 13 else "End the region"
        widget.get_by_role("button", name=name).click()
    expect(output).to_contain_text("13 shown, none predicted.")
    assert faults(page, "[aria-label='Autocast, op by op']") == []


@pytest.mark.browser
def test_the_ordering_of_the_calls(notebook: Notebook) -> None:
    """Cards move by keyboard and by mouse; the order runs in Python and comes back named."""
    page = notebook.page
    shown, read = (CELLS.index(cell) for cell in CELLS if "calls" in cell)
    run_cell(page, shown)
    widget = page.locator("[aria-label='Order the calls']")
    widget.wait_for()
    save(widget, "order_calls_mixed_light")
    cards = widget.locator(".amp-oc-call")
    output = widget.get_by_role("status")
    cards.first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")  # JupyterLab would move to another cell
    expect(output).to_contain_text("Now before the loop, 2 of")
    page.keyboard.press("Escape")
    expect(output).to_contain_text("Put back: before the loop, 1 of")
    widget.get_by_role("button", name="Show me").click()
    clip, unscale = (cards.filter(has_text=name) for name in ("clip_grad", "unscale_"))
    unscale.scroll_into_view_if_needed()
    box = unscale.bounding_box()
    clip.hover()
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + 3, steps=6)
    page.mouse.up()
    expect(output).to_contain_text("Now after the loop, 1 of 5.")
    widget.get_by_role("button", name="Run it").focus()
    page.keyboard.press("Enter")
    expect(widget).to_contain_text("the threshold 1.0 met gradients 65,536 times their size")
    expected = "['zero_grad'] ['clip', 'unscale'] clip-before-unscale"
    assert what_python_reads(page, expected, cell=read) == expected
    assert faults(page, "[aria-label='Order the calls']") == []
    notebook.theme("JupyterLab Dark")
    page.wait_for_function(f"() => ({GROUND})() < 200")
    assert faults(page, "[aria-label='Order the calls']") == []


@pytest.mark.browser
@pytest.mark.slow
def test_the_memory_calculator(notebook: Notebook) -> None:
    """What is chosen and typed reaches Python, which counts the same on fake tensors."""
    page = notebook.page
    run_cell(page, 8)
    page.get_by_label("Optimizer").focus()
    page.keyboard.press("End")
    batch = page.get_by_label("Batch", exact=True)
    batch.focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("64")
    page.keyboard.press("Enter")
    expected = "adam 64 100687872"
    assert what_python_reads(page, expected, cell=9) == expected
    assert faults(page, "[aria-label='Memory calculator']") == []
    notebook.theme("JupyterLab Dark")
    page.wait_for_function(f"() => ({GROUND})() < 200")
    assert faults(page, "[aria-label='Memory calculator']") == []


@pytest.mark.browser
@pytest.mark.slow
def test_the_block_explorer(notebook: Notebook) -> None:
    """A number that is dragged reaches Python, and JupyterLab leaves it the arrow keys."""
    page = notebook.page
    run_cell(page, 18)
    page.get_by_label("Numbers", exact=True).select_option("32")
    page.get_by_label("Scale of MX formats").select_option("rceil (cuBLAS)")
    page.get_by_role("slider", name="Marked number").focus()
    page.keyboard.press("PageUp")
    for _ in range(8):
        page.keyboard.press("ArrowUp")  # JupyterLab would move to another cell
    expected = "128.0 32 RCEIL 32"
    assert what_python_reads(page, expected, 19) == expected
    assert faults(page, "[aria-label='Block explorer']") == []
    notebook.theme("JupyterLab Dark")
    page.wait_for_function(f"() => ({GROUND})() < 200")
    assert faults(page, "[aria-label='Block explorer']") == []
