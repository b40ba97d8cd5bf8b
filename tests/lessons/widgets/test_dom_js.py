"""What the widgets share in `dom.mjs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pages
import pytest

WHOLE = {
    "1024": 1024,
    " 7 ": 7,
    "0": 0,
    "-3": -3,
    "1e3": 1000,
    "1,024": 1024,
    "1,234,567": 1_234_567,
}
NOT_WHOLE = ("", " ", "2,5", "12,34", "1,0245", "2.5", "1 024", "ten", "inf", "nan", "1024,")


@pytest.mark.browser
def test_whole_number(open_page: Callable[..., Any]) -> None:
    texts = [*WHOLE, *NOT_WHOLE]
    code = "async (texts) => texts.map((await import('/dom.mjs')).wholeNumber)"
    found = dict(zip(texts, pages.value_of(open_page(), code, texts), strict=True))
    assert found == WHOLE | dict.fromkeys(NOT_WHOLE)


@pytest.mark.browser
@pytest.mark.parametrize(
    ("widget", "label", "name"),
    [("MemoryCalculator", "Batch", "batch"), ("RooflineExplorer", "m", "m")],
)
def test_thousands_are_read_and_a_decimal_comma_is_refused(
    mount: Callable[..., Any], widget: str, label: str, name: str
) -> None:
    import amp_lessons.lessons.widgets

    made = getattr(amp_lessons.lessons.widgets, widget)()
    module = {"MemoryCalculator": "memory_calculator", "RooflineExplorer": "roofline_explorer"}
    state = {key: value for key, value in made.get_state().items() if not key.startswith("_")}
    page = mount(
        module[widget], {k: v for k, v in state.items() if k not in ("layout", "tabbable")}
    )
    field = page.get_by_label(label, exact=True)
    for text in ("2,5", "1,024"):
        field.fill(text)
        field.press("Enter")
        refused = page.get_by_role("alert").inner_text()
        assert bool(refused) == (text == "2,5")
    assert page.evaluate("name => model.get(name)", name) == 1024
