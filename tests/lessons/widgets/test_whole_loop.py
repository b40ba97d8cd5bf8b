"""The whole loop: what it shows comes from the two functions, and its button copies a program."""

from __future__ import annotations

import ast

from pages import faults
from playwright.sync_api import expect

from amp_lessons.amp.training import train_amp, train_plain
from amp_lessons.lessons.widgets import WholeLoop
from amp_lessons.lessons.widgets.whole_loop import comparison, program, shown, static_form


def values() -> dict:
    widget = WholeLoop()
    return {"lines": widget.lines, "program": widget.program, "opened": []}


def test_without_its_new_lines_it_is_the_plain_loop_and_without_the_old_ones_the_other():
    before = [line.text for line in comparison() if line.kind != "new"]
    after = [line.text for line in comparison() if line.kind != "gone"]
    assert before == shown(train_plain).splitlines()
    assert after == shown(train_amp).splitlines()


def test_the_docstring_is_left_out_and_nothing_else():
    (function,) = ast.parse(shown(train_amp)).body
    assert ast.get_docstring(function) is None
    (whole,) = ast.parse(program()).body[2:]
    assert ast.unparse(whole) == ast.unparse(function)


def test_where_no_widget_runs_the_lines_and_their_reasons_are_text():
    for text in static_form().values():
        assert "GradScaler(device.type, enabled=dtype == torch.float16)" in text
        assert "- " in text
        assert "+ " in text
    assert "Halves the scale after a skipped step" in static_form()["text/plain"]


def test_a_line_opens_and_closes_its_reason_by_keyboard(mount):
    page = mount("whole_loop", values())
    line = page.get_by_role("button", name="scaler.unscale_(optimizer)")
    reason = page.get_by_text("step() then doesn't divide again.")
    expect(line).to_have_attribute("aria-expanded", "false")
    expect(reason).to_be_hidden()
    line.focus()
    page.keyboard.press("Enter")
    expect(line).to_have_attribute("aria-expanded", "true")
    expect(reason).to_be_visible()
    page.keyboard.press("Space")
    expect(reason).to_be_hidden()


def test_all_reasons_open_at_once(mount):
    page = mount("whole_loop", values())
    page.get_by_role("button", name="Show all reasons").click()
    reasons = page.locator(".amp-wl-why")
    assert reasons.count() == sum(bool(line.why) for line in comparison())
    for reason in reasons.all():
        expect(reason).to_be_visible()
    page.get_by_role("button", name="Hide the reasons").click()
    expect(reasons.first).to_be_hidden()


def test_the_button_copies_the_program(mount):
    page = mount("whole_loop", values())
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the new loop").click()
    expect(page.get_by_role("status")).to_have_text("Copied, with its imports.")
    assert page.evaluate("navigator.clipboard.readText()") == program()


def test_without_a_clipboard_it_copies_in_the_old_way_or_says_what_to_do(mount):
    page = mount("whole_loop", values())
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.evaluate("document.execCommand = () => false")
    page.get_by_role("button", name="Copy the new loop").click()
    expect(page.get_by_role("status")).to_contain_text("Select the text instead.")


def test_it_fits_a_phone_and_is_accessible(mount):
    page = mount("whole_loop", values() | {"opened": [1, 3]}, "dark", 380)
    page.add_style_tag(url="whole_loop.css")
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    assert faults(page) == []
