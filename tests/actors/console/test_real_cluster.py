"""The console of a running cluster: its pages in a real Chromium, and the drills it carries out."""

from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Browser

from tests.actors.console.real_cluster import (
    NODES,
    WELL_S,
    await_well,
    group_of,
    members_of,
    real_cluster,
)
from tests.actors.console.served import PHONE, await_updates, check_phone_in_the_dark, see
from tests.browser import chromium, opened
from tests.conftest import RunningCluster
from tests.waiting import WITHIN_S, until

PARTITIONS = 4

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """One cluster for the tests of this module; each leaves it whole."""
    with real_cluster(tmp_path_factory.mktemp("console")) as made:
        yield made


def send(cluster: RunningCluster, **fields: object) -> tuple[int, str]:
    """Send the form of a drill as a browser does; return the status, and what was said."""
    address = urlsplit(cluster.ready["console"]).netloc
    connection = HTTPConnection(address, timeout=WELL_S)
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "origin": f"http://{address}",
        "sec-fetch-site": "same-origin",
    }
    try:
        connection.request("POST", "/drill", urlencode(fields), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def leaders(status: dict[str, Any]) -> list[int]:
    return [row["leader"] for row in status["partitions"]]


def test_drills_change_a_running_cluster(running: RunningCluster) -> None:
    before = await_well(running)
    first = leaders(before)[0]
    other = next(node for node in range(NODES) if node != first)

    assert send(running, do="move-leader", of=0, to=other) == (303, "")

    assert send(running, do="drain", of=first) == (303, "")
    drained = running.status()
    assert drained["coordinators"][first]["state"] == "Draining"
    assert first not in leaders(drained)
    assert send(running, do="end-drain", of=first) == (303, "")
    assert running.status()["coordinators"][first]["state"] == "Running"

    before = await_well(running)
    assert send(running, do="kill", of=first) == (303, "")
    status, said = send(running, do="kill", of=other)
    assert status == 409
    assert f"Coordinator {first} does not serve" in said
    after = await_well(running)
    pids = [[row["pid"] for row in each["coordinators"]] for each in (before, after)]
    assert pids[0][first] != pids[1][first], "it was started again"
    assert pids[0][other] == pids[1][other], "this one was spared"

    assert send(running, do="kill", of=NODES)[0] == 404
    assert send(running, do="move-leader", of=99, to=0)[0] == 404


def test_disks_are_measured(running: RunningCluster) -> None:
    def measured() -> list[Any]:
        return [row["disk"] for row in running.status()["coordinators"]]

    found = until(lambda: all(rows := measured()) and rows, WITHIN_S, "disks are measured")
    assert all(row["log_bytes"] > 0 and row["total_bytes"] > row["free_bytes"] for row in found)
    assert [row["set_aside"] for row in found] == [0] * NODES


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def test_a_browser_sees_a_rebalance_and_a_failover_without_complaints(
    running: RunningCluster, browser: Browser
) -> None:
    url, group = running.ready["console"], group_of(1)
    await_well(running)
    complaints: list[str] = []
    with members_of(running.bootstrap, group, PARTITIONS) as members:
        members.join("web-1")
        members.await_all_own(PARTITIONS)
        with opened(browser, f"{url}/group?id={group}") as watched:
            members.join("web-2")
            members.await_all_own(PARTITIONS)
            see(watched.page, "#stories", r"member web-2 \(127\.0\.0\.1\) joined")
            see(watched.page, "#members", "web-1.*web-2")
            assert watched.page.locator("#owners rect.nobody").count() == 1, "that of the key"
            complaints += watched.complaints
        with opened(browser, f"{url}/") as watched:
            see(watched.page, "#list", group)
            watched.page.wait_for_selector(".chart canvas")
            complaints += watched.complaints

        leader = leaders(await_well(running))[1]
        dark = {"viewport": PHONE, "color_scheme": "dark"}
        with opened(browser, f"{url}/cluster", **dark) as watched:
            page = watched.page
            await_updates(page)
            see(page, "#nodes", r"log .* free")
            check_phone_in_the_dark(page)
            page.get_by_label(f"Kill coordinator {leader}").press("Enter")
            button = page.get_by_role("button", name="Kill it")
            button.wait_for()
            check_phone_in_the_dark(page)
            button.press("Enter")
            see(page, "#happened", rf"Coordinator {leader} \(process \d+\) was killed")
            # A page that looks before the election shows that nobody leads meanwhile.
            see(page, "#happened", rf"partition 1: leader ({leader}|none) → \d")
            await_well(running)
            see(page, "#nodes", rf"^(?!.*Restarting).*{leader}.*Running")
            see(page, "#head", "Every partition has its leader and its replicas")
            complaints += watched.complaints
        members.await_all_own(PARTITIONS)
        with opened(browser, f"{url}/group?id={group}") as watched:
            see(watched.page, "#stories", r"member web-2 \(127\.0\.0\.1\) joined")
            complaints += watched.complaints
    assert complaints == []
