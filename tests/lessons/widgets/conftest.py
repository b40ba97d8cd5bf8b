"""The widgets' pages on a web server of this machine."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pages
import pytest
from playwright.sync_api import Browser, Page

from amp_lessons.lessons.widgets.files import FOLDERS

BLANK = """<!doctype html>
<html lang="en">
<meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>A widget</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="widgets.css">
<body><main><h1>A widget</h1><div id="widget"></div></main></body>
</html>
"""


class _Handler(SimpleHTTPRequestHandler):
    extensions_map: ClassVar = {".html": "text/html", ".css": "text/css", ".mjs": "text/javascript"}

    def translate_path(self, path: str) -> str:
        """A browser finds the files of all these folders side by side, as a page joins them."""
        name = path.partition("?")[0].strip("/")
        return next((str(each / name) for each in FOLDERS if (each / name).is_file()), name)

    def log_message(self, *_: object) -> None:
        """Say nothing: pytest shows what a test prints."""


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of the widgets' files on a server of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@dataclass
class Tab:
    """The page in which one widget is opened after the other."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    python: Callable[..., Any] | None = None  # what answers the widget, as its kernel does


@pytest.fixture(scope="session")
def tab(chromium: Browser, site: str) -> Iterator[Tab]:
    """A new page would take two thirds of a test's time."""
    context = chromium.new_context(viewport={"width": 900, "height": 900})
    page = context.new_page()
    page.route("**/blank.html", lambda r: r.fulfill(body=BLANK, content_type="text/html"))
    tab = Tab(page)
    page.expose_function("python", lambda *given: tab.python(*given))
    message = tab.complaints
    page.on("console", lambda m: m.type == "error" and message.append(m.text))
    page.on("pageerror", lambda error: message.append(str(error)))
    page.on("request", lambda r: _is_foreign(r.url, site) and message.append(r.url))
    yield tab
    context.close()


@pytest.fixture
def open_page(tab: Tab, site: str) -> Iterator[Callable[..., Page]]:
    """Open a page of the site; "blank.html" is one with the style sheet and an empty #widget.

    At the end no page may have logged an error or asked another machine for anything.
    """
    tab.complaints.clear()

    def open_(path: str = "blank.html", scheme: Any = "light", width: int = 900) -> Page:
        tab.page.mouse.move(0, 0)
        tab.page.set_viewport_size({"width": width, "height": 900})
        tab.page.emulate_media(color_scheme=scheme)
        tab.page.goto(f"{site}/{path}")
        return tab.page

    yield open_
    assert tab.complaints == []


@pytest.fixture
def mount(tab: Tab, open_page: Callable[..., Page]) -> Callable[..., Page]:
    """Open a page of one widget: the name of its module, the values that it starts with, and what
    answers its messages in the kernel's place."""

    def mount_(
        module: str,
        values: dict[str, Any],
        scheme: str = "light",
        width: int = 900,
        python: Callable[..., Any] | None = None,
    ) -> Page:
        page = open_page("blank.html", scheme, width)
        tab.python = python
        pages.wait_for(
            page,
            """async ([module, values]) => {
              const { mount } = await import(module);
              window.model = mount(document.getElementById("widget"), values, window.python);
            }""",
            [f"/{module}.mjs", values],
        )
        return page

    return mount_


IN_THE_GATE = re.compile(
    r"_js\.py|counts_as_python|what_python_says|what_policy_says|refuses_what|from_a_blob|axe_finds"
    r"|by_keyboard|a_wrong_order_is_named"
)
"""What the gate asks of a widget's page: the arithmetic of Python, one way through by keyboard, and
nothing for axe to find. Mice, fingers, ends of scales and redrawing are left to `make test-all`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tab" in getattr(item, "fixturenames", ()) and not IN_THE_GATE.search(item.nodeid):
            item.add_marker(pytest.mark.slow)


EVERY_LOOK = list(itertools.product(("light", "dark"), (900, 400)))


@pytest.fixture(
    params=[EVERY_LOOK[0], *(pytest.param(e, marks=pytest.mark.slow) for e in EVERY_LOOK[1:])],
    ids=str,
)
def look(request: pytest.FixtureRequest) -> tuple[str, int]:
    """A colour scheme and a width in pixels."""
    return request.param


@pytest.fixture(params=EVERY_LOOK, ids=str)
def every_look(request: pytest.FixtureRequest) -> tuple[str, int]:
    """As ``look``, for the one page that the gate looks at in both schemes and widths."""
    return request.param


def _is_foreign(url: str, site: str) -> bool:
    return not url.startswith((site + "/", "data:", "blob:"))


@pytest.fixture(scope="session")
def faultless() -> Callable[[Page], None]:
    """Asserts that axe-core finds no fault in a page, of any impact, and that nothing sticks out
    of it to the side."""

    def check(page: Page) -> None:
        assert pages.faults(page) == []
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
        return pages.value_of(page, _CHANGES)

    return count
