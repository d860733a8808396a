"""A source behind the console's server, for tests with a real browser."""

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page

from actors.console.server import ConsoleServer
from actors.console.source import ConsoleSource
from bench.servers.open_pages import UPDATES
from tests.waiting import WITHIN_S, patient, until


@contextmanager
def served(source: ConsoleSource) -> Iterator[str]:
    """Serve a source on a thread; yield the address of its console."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = ConsoleServer(source)
    try:
        port = asyncio.run_coroutine_threadsafe(server.open("127.0.0.1", 0), loop).result(30)
        yield f"http://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


PHONE = {"width": 375, "height": 700}
NIGHT = "rgb(17, 23, 29)"
"""The background of every page in the dark."""


def check_phone_in_the_dark(page: Page) -> None:
    """Check a page that was opened with ``PHONE`` in the dark: it fits, and it is dark."""

    def is_dark() -> bool:
        """Its style sheet may come after its text."""
        colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        return bool(colour == NIGHT)

    until(is_dark, WITHIN_S, f"{page.url} is dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], page.url


def await_updates(page: Page, least: int = 1) -> None:
    """Wait until a page was brought up to date; its policy forbids Playwright's own waits."""
    until(lambda: page.evaluate(UPDATES) >= least, WITHIN_S + 2 * least, "the page is up to date")


def see(page: Page, selector: str, pattern: str) -> None:
    """Wait until a part of a page says something."""
    part = page.locator(selector)
    until(
        lambda: re.search(pattern, part.inner_text(), re.DOTALL),
        patient(120),
        f"{selector}: {pattern}",
    )
