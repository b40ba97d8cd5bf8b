"""The browser that the browser tests share."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from playwright.sync_api import Browser, expect, sync_playwright

# An example may take as long as it likes: on a busy machine that says nothing about the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

PATIENCE = 300_000  # ms; Playwright's own 5 s for `expect` and 30 s for the rest assert a time
expect.set_options(timeout=PATIENCE)


def pytest_configure() -> None:
    """Heed Ctrl+C also where the shell that runs us in the background has us ignore it. What a test
    starts would inherit that, and tests that press Ctrl+C would wait for ever."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def find_chromium() -> str | None:
    """The browser to drive: AMP_LESSONS_CHROMIUM, or what is installed under a usual name."""
    chosen = os.environ.get("AMP_LESSONS_CHROMIUM")
    if chosen:
        return chosen if Path(chosen).exists() else None
    usual = Path("/usr/bin/chromium")
    return str(usual) if usual.exists() else shutil.which("chromium")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A headless Chromium. Without one the test is skipped, or fails where one is required."""
    path = find_chromium()
    if path is None:
        message = (
            "no Chromium: install it (Debian and Ubuntu: apt install chromium) or set "
            "AMP_LESSONS_CHROMIUM to its path"
        )
        if os.environ.get("AMP_LESSONS_REQUIRE_BROWSER") == "1":
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        for name in ("new_context", "new_page"):
            setattr(browser, name, patient(getattr(browser, name)))
        yield browser
        browser.close()


def patient(make: Callable[..., Any]) -> Callable[..., Any]:
    """A method of the browser whose contexts or pages wait as long as a busy machine needs."""

    def made(*words: Any, **options: Any) -> Any:
        new = make(*words, **options)
        new.set_default_timeout(PATIENCE)
        return new

    return made
