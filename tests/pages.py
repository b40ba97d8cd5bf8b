"""What tests ask of a page in a browser: the value of a promise, and what axe-core finds wrong."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

KEPT = "given => (window.keptForTest = (%s)(given))"
RUN_AXE = "selector => axe.run(selector, { resultTypes: ['violations'] })"


def wait_for(page: Page, function: str, given: object = None) -> None:
    """Call an asynchronous JavaScript function with an argument, and wait for its end."""
    _settled(page, function, given).dispose()


def value_of(page: Page, function: str, given: object = None) -> Any:
    """Call an asynchronous JavaScript function with an argument, and give what it resolves to."""
    handle = _settled(page, function, given)
    value = handle.json_value()
    handle.dispose()
    return value


def _settled(page: Page, function: str, given: object) -> Any:
    """A handle on what the promise resolves to.

    The page keeps the promise. Chromium may collect one that only the debugger waits for, and
    `page.evaluate` wraps what it calls into another such promise.
    """
    return page.evaluate_handle(KEPT % function, given)


def faults(page: Page, selector: str = "html") -> list[str]:
    """What axe-core finds wrong, of any impact, in the elements of a selector."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found = value_of(page, RUN_AXE, selector)
    assert found["passes"], f"axe checked nothing in {selector}"
    return [
        f"{v['id']} ({v['impact']}): {[node['html'][:160] for node in v['nodes']]}"
        for v in found["violations"]
    ]
