"""The page in a real Chromium: what it draws, what it loads, and what a reader can do with it."""

import pytest

from bench.pages.files import write_report
from bench.pages.runs import report
from tests.bench.pages.histories import handed_over
from tests.bench.pages.test_page import hostile
from tests.browser import chromium, opened

WIDE = {"width": 1200, "height": 900}
INKED = """canvas => {
    const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const found = new Set();
    for (let at = 0; at < all.length; at += 4) {
        if (all[at + 3]) found.add(`${all[at]},${all[at + 1]},${all[at + 2]}`);
    }
    return found.size;
}"""
"""How many colours a canvas has: 0 if nothing was drawn."""


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def show(browser, tmp_path):
    """Return what opens the page of a report, and fails unless it is quiet and loads nothing."""
    contexts = []

    def opens(made, **settings):
        path = tmp_path / "report.html"
        write_report(path, made)
        context = opened(browser, path.as_uri(), **{"viewport": WIDE, **settings})
        watched = context.__enter__()
        contexts.append((context, watched, path.as_uri()))
        watched.page.wait_for_function("document.documentElement.dataset.drawn")
        return watched.page

    yield opens
    for context, watched, url in contexts:
        assert watched.complaints == []
        assert {each.split("?")[0] for each in watched.requests} == {url}
        context.__exit__(None, None, None)


def side_by_side(*names):
    marks = ((1_000, "a: rolling-deploy"), (2_000, "kill node 1"))
    return report("s", "x", [handed_over(name=name, marks=marks) for name in names], "Rollcall")


def test_every_picture_and_chart_is_drawn(show):
    page = show(side_by_side("one", "two"))
    figures = page.locator("figure")
    assert figures.count() == 2 * 3
    for canvas in page.locator("figure canvas").element_handles():
        assert canvas.evaluate(INKED) > 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hostile_names_do_nothing_in_a_browser(show, scheme):
    page = show(hostile(), color_scheme=scheme)
    assert page.locator("img").count() == 0
    page.locator(".picture canvas").first.press("Enter")
    assert "<script>" in page.locator(".detail").first.inner_text()
