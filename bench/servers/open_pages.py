"""Pages of the console that somebody looks at: in a real Chromium, or their streams of events."""

from __future__ import annotations

import selectors
import shutil
import socket
import threading
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from actors.waiting import poll
from bench.servers.server import StartError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from playwright.sync_api import Browser, Page

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
OPTIONS: Final = (
    "--no-sandbox",  # benchmarks and tests run as root, too
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
OPEN_S: Final = 60.0
UPDATES: Final = "Number(document.documentElement.dataset.updates || 0)"
"""How often a page was brought up to date; its policy forbids Playwright's own waits."""

RECEIVE_BYTES: Final = 1 << 16


class Looking(Protocol):
    """How pages are looked at; ``how`` says it."""

    how: str

    def opened(self, url: str, pages: Sequence[str]) -> AbstractContextManager[None]:
        """Keep pages of a console open, each of which was brought up to date at least once."""


def chromium_program() -> str | None:
    """Return the machine's own Chromium: Playwright's are no packages."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextmanager
def looking() -> Iterator[Looking]:
    """Yield the best way that this machine has."""
    program = chromium_program()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        program = None
    if program is None:
        yield EventStreams()
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=OPTIONS)
        try:
            yield Windows(browser)
        finally:
            browser.close()


class Windows:
    """Pages in windows of a Chromium, each with connections of its own."""

    how = "in Chromium"

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    @contextmanager
    def opened(self, url: str, pages: Sequence[str]) -> Iterator[None]:
        """Keep pages of a console open, each of which was brought up to date at least once."""
        with ExitStack() as stack:
            shown = []
            for each in pages:
                context = stack.enter_context(self._browser.new_context())
                shown.append(context.new_page())
                shown[-1].goto(url + each)
            for page, name in zip(shown, pages, strict=True):
                if not poll(lambda page=page: _updates(page), OPEN_S):  # type: ignore[misc]
                    raise StartError(f"The page {name} is not brought up to date.")
            yield


def _updates(page: Page) -> bool:
    return bool(page.evaluate(UPDATES))


class EventStreams:
    """The streams of events of pages, read as a browser does and forgotten."""

    how = "by their streams"

    @contextmanager
    def opened(self, url: str, pages: Sequence[str]) -> Iterator[None]:
        """Keep pages of a console open, each of which was brought up to date at least once."""
        with ExitStack() as stack:
            connections = []
            for page in pages:
                connection = HTTPConnection(urlsplit(url).netloc, timeout=OPEN_S)
                stack.callback(connection.close)
                connection.request("GET", events_of(page))
                _await_update(connection.getresponse(), page)
                connections.append(connection.sock)
            stack.enter_context(_read(connections))
            yield


def events_of(page: str) -> str:
    """Return the address of a page's stream."""
    path, _, query = page.partition("?")
    name = path.strip("/") or "groups"
    return f"/events?page={name}{'&' if query else ''}{query}"


def _await_update(response: HTTPResponse, page: str) -> None:
    line = b"" if response.status != HTTPStatus.OK else b"\n"
    while line and not line.startswith(b"data:"):
        try:
            line = response.readline()
        except TimeoutError:
            line = b""
    if not line:
        raise StartError(f"The page {page} is not brought up to date.")


@contextmanager
def _read(connections: Sequence[socket.socket]) -> Iterator[None]:
    """Read what comes, on a thread, until the block ends."""
    wake, woken = socket.socketpair()

    def run() -> None:
        with selectors.DefaultSelector() as selector:
            for each in (woken, *connections):
                selector.register(each, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is woken:
                        return
                    assert isinstance(key.fileobj, socket.socket)
                    if not key.fileobj.recv(RECEIVE_BYTES):
                        selector.unregister(key.fileobj)

    thread = threading.Thread(target=run, name="pages")
    thread.start()
    try:
        yield
    finally:
        wake.send(b"\0")
        thread.join()
        wake.close()
        woken.close()
