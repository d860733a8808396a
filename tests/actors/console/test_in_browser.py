"""The console in a real Chromium: quiet, alive, usable by keyboard and on a phone."""

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser

from actors.console.source import GroupList
from tests.actors.console.served import (
    NIGHT,
    PHONE,
    await_updates,
    check_phone_in_the_dark,
    served,
)
from tests.actors.console.sources import HOSTILE, FakeSource, group, storm
from tests.browser import WatchedPage, chromium, opened
from tests.waiting import WITHIN_S, until


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def check_quiet(watched: WatchedPage, url: str) -> None:
    """Nothing was complained about, and nobody else was asked."""
    assert watched.complaints == []
    assert [each for each in watched.requests if not each.startswith(url)] == []


def test_pages_are_alive_quiet_and_fit_a_phone(browser: Browser) -> None:
    source = storm()
    with served(source) as url:
        for target in ("/", "/group?id=orders", "/cluster"):
            with opened(browser, url + target, viewport=PHONE) as watched:
                await_updates(watched.page)
                width = watched.page.evaluate("document.documentElement.scrollWidth")
                assert width <= PHONE["width"], target
                check_quiet(watched, url)
        with opened(browser, f"{url}/", color_scheme="dark") as watched:
            page = watched.page
            colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
            assert colour == NIGHT
            page.wait_for_selector(".chart canvas")
            source.list = GroupList(groups=(group("refunds"), *source.list.groups))
            page.wait_for_selector("text=refunds")
            page.keyboard.press("/")
            page.keyboard.type("pay")
            shown = page.locator("#list")
            until(lambda: "refunds" not in shown.inner_text(), WITHIN_S, "the list is filtered")
            assert "payments" in shown.inner_text()
            assert page.evaluate("location.search") == "?q=pay"
            assert page.evaluate("document.activeElement.name") == "q", "it keeps the focus"
            page.keyboard.press("Escape")
            source.problem = "No coordinator answers."
            page.wait_for_selector("#problem:visible")
            assert page.locator("#problem").inner_text() == "No coordinator answers."
            check_quiet(watched, url)


def test_a_drill_is_done_by_keyboard_on_a_phone_in_the_dark(browser: Browser) -> None:
    source = storm()
    source.may_drill = True
    with served(source) as url:
        cluster = f"{url}/cluster"
        with opened(browser, cluster, viewport=PHONE, color_scheme="dark") as watched:
            page = watched.page
            await_updates(page)
            page.get_by_label("Kill coordinator 1").press("Enter")
            button = page.get_by_role("button", name="Kill it")
            button.wait_for()
            check_phone_in_the_dark(page)
            button.press("Enter")
            until(lambda: source.drilled == [("kill", 1)], WITHIN_S, "it is carried out")
            page.wait_for_url(f"{cluster}*")
            check_phone_in_the_dark(page)
            check_quiet(watched, url)


def test_hostile_names_do_nothing(browser: Browser) -> None:
    source = FakeSource()
    source.name_everything(HOSTILE)
    with served(source) as url:
        for target in ("/", "/cluster", "/group?" + urlencode({"id": HOSTILE})):
            with opened(browser, url + target) as watched:
                await_updates(watched.page)
                assert watched.page.locator("main img").count() == 0
                check_quiet(watched, url)
