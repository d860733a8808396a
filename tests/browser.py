"""A real Chromium for tests of pages, by Playwright: headless, its console and requests watched.

The browser is the machine's own, since Playwright's are no packages. Without one these tests are
skipped, and say so.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from bench.servers.open_pages import OPTIONS, chromium_program
from tests.waiting import WITHIN_S

WITHIN_MS = WITHIN_S * 1000


@dataclass
class WatchedPage:
    """An open page, and what went wrong or left it since it was opened."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Listen before the page is loaded."""
        self.page.on("console", lambda said: self.complaints.append(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda shown: self.complaints.append(f"dialog: {shown.message}"))


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a Chromium, and end it; skip the test where there is none.

    Playwright has an event loop in this thread meanwhile: start no other one.
    """
    program = chromium_program()
    if program is None:
        pytest.skip("Chromium is not installed: pages are not tested in a browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=OPTIONS, timeout=WITHIN_MS
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, url: str, **settings: Any) -> Iterator[WatchedPage]:
    """Open a page in a context of its own; ``settings`` are those of Playwright's contexts."""
    with browser.new_context(**settings) as context:
        context.set_default_timeout(WITHIN_MS)
        watched = WatchedPage(context.new_page())
        watched.page.goto(url)
        yield watched
