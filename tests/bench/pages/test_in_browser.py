"""The page in a real Chromium: what it draws, what it loads, and what a reader can do with it."""

import json
from dataclasses import replace

import pytest

from bench.pages.files import write_report
from bench.pages.runs import report
from bench.scenarios.scenario import GroupLimits
from tests.bench.pages import test_watched
from tests.bench.pages.histories import crowd, handed_over
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
        assert [each for each in watched.requests if not each.startswith("blob:")] == [url]
        context.__exit__(None, None, None)


def side_by_side(*names):
    marks = ((1_000, "a: rolling-deploy"), (2_000, "kill node 1"))
    return report("s", "x", [handed_over(name=name, marks=marks) for name in names])


def point(page, canvas, share_x, share_y, click=False):
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    at = (box["x"] + box["width"] * share_x, box["y"] + box["height"] * share_y)
    (page.mouse.click if click else page.mouse.move)(*at)


def times(page):
    """Return the times that every picture and chart shows."""
    return page.evaluate("[view.min, view.max]")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_picture_and_chart_is_drawn(show, scheme):
    page = show(side_by_side("one", "two"), color_scheme=scheme)
    assert page.locator("figure").count() == 2 * 4
    for canvas in page.locator("figure canvas").element_handles():
        assert canvas.evaluate(INKED) > 3


@pytest.mark.parametrize("kind", ["classic", "consumer", "share", "streams"])
def test_groups_that_were_only_watched_are_drawn(show, kind):
    sights = {"g": test_watched.failed_over(kind)}
    made, _ = test_watched.watched(sights, [(1_000, "kill leader (node 1)")])
    page = show(made)
    assert page.locator("figure").count() == 3, "ownership, members over time, no answers"
    for canvas in page.locator("figure canvas").element_handles():
        assert canvas.evaluate(INKED) > 3


def test_fifty_thousand_members_are_drawn(show):
    page = show(report("s", "x", [crowd(50_000)]))
    assert page.locator(".picture canvas").evaluate(INKED) > 10
    point(page, page.locator(".picture canvas"), 0.4, 0.5)
    told = page.locator(".tip").inner_text()
    assert "changes of owner in each" in told
    assert "t-" in told


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hostile_names_do_nothing_in_a_browser(show, scheme):
    page = show(hostile(), color_scheme=scheme)
    picture = page.locator(".picture canvas").first
    point(page, picture, 0.5, 0.5)
    assert "<img src=x" in page.locator(".tip").first.inner_text()
    picture.press("Enter")
    assert "<script>" in page.locator(".detail").first.inner_text()
    assert page.locator("img").count() == 0


def test_a_click_tells_the_history_of_a_partition(show):
    page = show(side_by_side("one"))
    point(page, page.locator(".picture canvas"), 0.9, 0.4, click=True)
    rows = page.locator(".detail tbody tr").all_inner_texts()
    assert [row.split("\t")[0].strip() for row in rows] == ["nobody yet", "x", "nobody", "y"]
    page.locator(".detail button").click()
    assert page.locator(".detail").inner_text() == ""


def test_the_keyboard_does_what_the_mouse_does(show):
    page = show(side_by_side("one"))
    picture = page.locator(".picture canvas")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight"):
        picture.press(key)
    assert page.locator(".tip").inner_text().splitlines()[:2] == ["t-1", "y"]
    assert picture.get_attribute("aria-description").startswith("t-1")
    picture.press("+")
    begins, ends = times(page)
    assert ends - begins == 5_000
    picture.press("Home")
    assert times(page) == [0, 10_000]


def test_all_pictures_show_the_same_time(show):
    page = show(side_by_side("one", "two"))
    picture = page.locator(".picture canvas").nth(1)
    point(page, picture, 0.5, 0.5)
    page.mouse.down()
    point(page, picture, 0.75, 0.5)
    page.mouse.up()
    begins, ends = times(page)
    assert 0 < begins < ends < 10_000
    scales = "view.drawn.filter(each => each.plot).map(each => each.plot.scales.x)"
    shown = page.evaluate(f"{scales}.map(each => [each.min, each.max])")
    assert shown == [[begins, ends]] * 6
    page.get_by_role("button", name="Whole run").click()
    assert times(page) == [0, 10_000]


def test_a_chart_says_its_largest_values_and_those_of_a_moment(show):
    page = show(side_by_side("one"))
    legend = page.locator('figure[data-draws="waits"] .u-legend')
    assert "at most 500 ms" in legend.inner_text()
    chart = page.locator('figure[data-draws="waits"] .u-over')
    point(page, chart, 0.352, 0.5)
    assert "at most" not in legend.inner_text()
    assert "0:03.5" in legend.inner_text()


def test_on_paper_everything_is_light_and_unfolded(show):
    page = show(side_by_side("one"), color_scheme="dark")
    background = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(background)
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(background) == "rgb(255, 255, 255)" != dark
    assert page.locator("details:not([open])").count() == 0
    assert not page.get_by_role("button").first.is_visible()
    assert page.locator("figure canvas").first.evaluate(INKED) > 3
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() > 0


@pytest.mark.parametrize("width", [360, 1600])
def test_a_page_is_never_wider_than_the_screen(show, width):
    page = show(side_by_side("one", "two"), viewport={"width": width, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


A4_WIDTH = round((210 - 2 * 12) / 25.4 * 96)
"""A page of paper without its margins, in pixels."""


def compared():
    """Return runs of a group with eight members, each beside all its limits."""
    limits = {
        each: value
        for each in GroupLimits.__struct_fields__
        for value in (1 if each.endswith("_min") else 12_000,)
    }
    made = []
    for number, name in enumerate(("base", "one-by-one", "static-pod-names", "consumer")):
        one = handed_over(name=name, limits=GroupLimits(**limits))
        (judged,) = one.verdict.groups
        costs = replace(
            judged.costs, members=8, rebalances=4 + number, moved=1_234, revoked=1_000 * number,
            unavailable_member_ms=26_475_400 + number, unowned_ms=123_400, most=200 + number,
        )  # fmt: skip
        judged = replace(judged, costs=costs)
        made.append(replace(one, verdict=replace(one.verdict, groups=(judged,))))
    return report("s", "x", made)


@pytest.mark.parametrize(("width", "media"), [(1200, "screen"), (A4_WIDTH, "print")])
def test_every_column_of_the_costs_is_seen(show, width, media):
    page = show(compared(), viewport={"width": width, "height": 700})
    page.emulate_media(media=media)
    assert page.locator(".costs thead th").count() == 2 + 8
    assert page.locator(".costs .limit").count() == 4 * 8
    table = page.locator(".costs").bounding_box()
    assert table["x"] + table["width"] <= width
    scroll = "document.querySelector('#costs .scroll')"
    assert page.evaluate(f"{scroll}.scrollWidth <= {scroll}.clientWidth")
    if media == "print":  # as wide as the charts then, with which a browser shrinks it
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate(f"{scroll}.scrollWidth <= {scroll}.clientWidth")


def test_the_document_can_be_saved(show):
    page = show(side_by_side("one"))
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the data").click()
    with open(saved.value.path(), "rb") as file:
        assert json.load(file)["runs"][0]["name"] == "one"
