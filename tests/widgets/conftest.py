"""The widgets' pages on a web server of this machine."""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from amp_lessons.es_modules import STATIC

BLANK = """<!doctype html>
<html lang="en">
<meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>A widget</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="widgets.css">
<body><main><h1>A widget</h1><div id="widget"></div></main></body>
</html>
"""


class _Handler(SimpleHTTPRequestHandler):
    extensions_map: ClassVar = {".html": "text/html", ".css": "text/css", ".mjs": "text/javascript"}

    def log_message(self, *_: object) -> None:
        """Say nothing: pytest shows what a test prints."""


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of `static/` on a server of this machine."""
    handler = functools.partial(_Handler, directory=str(STATIC))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def open_page(chromium: Browser, site: str) -> Iterator[Callable[..., Page]]:
    """Open a page of the site; "blank.html" is one with the style sheet and an empty #widget.

    At the end no page may have logged an error or asked another machine for anything.
    """
    complaints: list[str] = []
    contexts = []

    def open_(path: str = "blank.html", scheme: str = "light", width: int = 900) -> Page:
        size = {"width": width, "height": 900}
        context = chromium.new_context(color_scheme=scheme, viewport=size)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.route("**/blank.html", lambda r: r.fulfill(body=BLANK, content_type="text/html"))
        page.on("console", lambda m: m.type == "error" and complaints.append(m.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda r: _is_foreign(r.url, site) and complaints.append(r.url))
        page.goto(f"{site}/{path}")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def mount(open_page: Callable[..., Page]) -> Callable[..., Page]:
    """Open a page of one widget: the name of its module, and the values that it starts with."""

    def mount_(
        module: str, values: dict[str, Any], scheme: str = "light", width: int = 900
    ) -> Page:
        page = open_page("blank.html", scheme, width)
        page.evaluate(
            """async ([module, values]) => {
              const { mount } = await import(module);
              window.model = mount(document.getElementById("widget"), values);
            }""",
            [f"/{module}.mjs", values],
        )
        return page

    return mount_


@pytest.fixture(params=list(itertools.product(("light", "dark"), (900, 400))), ids=str)
def look(request: pytest.FixtureRequest) -> tuple[str, int]:
    """A colour scheme and a width in pixels."""
    return request.param


def _is_foreign(url: str, site: str) -> bool:
    return not url.startswith((site + "/", "data:", "blob:"))


@pytest.fixture(scope="session")
def faultless() -> Callable[[Page], None]:
    """Asserts that axe-core finds no fault in a page, of any impact, and that nothing sticks out
    of it to the side."""
    axe = Axe()

    def check(page: Page) -> None:
        response = axe.run(page).response
        assert response["passes"], "axe checked nothing"
        faults = [
            f"{v['id']} ({v['impact']}): {[node['html'][:160] for node in v['nodes']]}"
            for v in response["violations"]
        ]
        assert faults == []
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0

    return check


# Counts what changes in the page: text, attributes, and elements that come and go.
_WATCH = """() => {
  window.changes = 0;
  window.watcher?.disconnect();
  window.watcher = new MutationObserver((records) => {
    for (const { addedNodes, removedNodes } of records)
      window.changes += Math.max(1, addedNodes.length + removedNodes.length);
  });
  const everything = { subtree: true, childList: true, attributes: true, characterData: true };
  window.watcher.observe(document.body, everything);
}"""
# When the frame after the next begins, the screen holds what a key has changed.
_CHANGES = """() => new Promise((resolve) => {
  requestAnimationFrame(() => requestAnimationFrame(() => resolve(window.changes)));
})"""


@pytest.fixture(scope="session")
def changes_by() -> Callable[[Page, str], int]:
    """How much of a page a key press changes: what the time until the screen shows it goes into."""

    def count(page: Page, key: str) -> int:
        page.evaluate(_WATCH)
        page.keyboard.press(key)
        return page.evaluate(_CHANGES)

    return count
