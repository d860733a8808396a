"""Takes the pictures of ``docs/console.md`` and ``docs/watch.md``, in a real Chromium.

.venv/bin/python -m tests.actors.console.pictures [NAME...]
"""

import asyncio
import random
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Browser, Page

from actors.clock import wall_ms
from actors.console.server import ConsoleServer
from actors.console.source import (
    ConsoleSource,
    GroupList,
    ListedGroup,
    ShownNode,
    ShownPartition,
    Worker,
)
from bench.servers.open_pages import UPDATES
from protocol.stories.causes import Cause
from protocol.stories.story import Move, Unserved, Wait, Waited, Who
from tests.actors.console.sources import FakeSource, cluster, detail, member, story
from tests.actors.console.watched_orders import watched_orders
from tests.browser import chromium, opened
from tests.waiting import WITHIN_S, until

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
SIZE_BYTES_MAX = 200_000
LIGHT = {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"}
DARK = {**LIGHT, "color_scheme": "dark"}
NAMES = ("orders", "payments", "emails", "search-index", "billing", "fraud", "clicks", "audit")


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


class Lively(FakeSource):
    """Groups that rebalance now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.title = "cluster orders-production"
        self._rng = random.Random(7)
        self._rebalances = dict.fromkeys(range(2_400), 0)

    async def groups(self) -> GroupList:
        for _ in range(self._rng.randrange(4)):
            self._rebalances[self._rng.randrange(8) * 7] += 1
        busy = self._rng.randrange(3)
        return GroupList(groups=[self._row(number, busy) for number in self._rebalances])

    def _row(self, number: int, busy: int) -> ListedGroup:
        count = self._rebalances[number]
        kind = ("classic", "consumer", "consumer", "share", "streams")[number % 5]
        is_busy = count > 0 and number // 7 < busy
        return ListedGroup(
            group_id=f"{NAMES[number % 8]}-{number // 8}" if number > 7 else NAMES[number],
            group_type=kind,
            state="Reconciling" if is_busy else "Empty" if number % 23 == 3 else "Stable",
            members=0 if number % 23 == 3 else 3 + number * 7 % 90,
            rebalances=count,
            lately=count,
            lag=number * 37 % 4_000,
        )


def storm() -> FakeSource:
    """Return a group whose member web-3 exceeds its poll timeout again and again."""
    now, source = wall_ms(), FakeSource()
    source.title = "cluster orders-production"
    web = Who(name="web-3", member_id="web-3-5f0c", client_id="web-3", host="/10.0.0.4")
    slow = Who(name="web-9", member_id="web-9-77ab", client_id="web-9", host="/10.0.0.9")
    stories = []
    for number in range(12):
        has_left = number % 2 == 0
        began = now - 40_000 * (12 - number)
        stories.append(
            story(
                number=number,
                cause=Cause.POLL_TIMEOUT if has_left else Cause.JOINED,
                reason="consumer poll timeout has expired" if has_left else "",
                started_ms=began,
                ended_ms=began + (12_900 if has_left else 3_300),
                before=number + 7,
                after=number + 8,
                total=24,
                moved=6 if has_left else 4,
                who=web,
                waits=(
                    Waited(what=Wait.JOIN, wait_ms=12_100 if has_left else 2_900, who=(slow,)),
                    Waited(what=Wait.ASSIGNMENT, wait_ms=600 if has_left else 300),
                ),
                moves=tuple(
                    Move(unit=f"orders-{n}", before="web-9" if n < 21 else "web-1", after="web-3")
                    for n in range(18, 24)
                ),
                unserved=(Unserved(who=web, count=6, unserved_ms=17_400),) if has_left else (),
            )
        )
    members = [
        replace(member(f"web-{n}"), owned=tuple(f"orders-{p}" for p in owned), epoch=None)
        for n, owned in ((1, range(6)), (2, range(6, 12)), (9, range(12, 18)), (3, range(18, 24)))
    ]
    source.details["orders"] = detail(
        members=members, units=[f"orders-{n}" for n in range(24)], stories=stories, epoch=19
    )
    return source


def failover(has_failed: bool) -> FakeSource:
    """Return five nodes, of which node 1 was killed."""
    source = FakeSource()
    source.title = "cluster orders-production"
    leaders = {number: 2 if has_failed and number == 1 else number for number in range(5)}
    sync = "0.4 ms, 3.1 ms"
    source.shown = cluster(
        bootstrap="10.0.0.1:9092,10.0.0.2:9092,10.0.0.3:9092",
        nodes=[
            ShownNode(
                node_id=n,
                address=f"10.0.0.{n + 1}:9092",
                state="Restarting" if has_failed and n == 1 else "Running",
                facts={
                    "Leads": ", ".join(str(p) for p, leader in leaders.items() if leader == n),
                    "Connections": "0" if has_failed and n == 1 else str(1_204 + 317 * n),
                    "Disk syncs (median, longest)": "" if has_failed and n == 1 else sync,
                },
            )
            for n in range(5)
        ],
        partitions=[
            ShownPartition(
                title=f"partition {number}",
                leader=leader,
                epoch=8 if has_failed and number == 1 else 7,
                replicas=tuple((number + n) % 5 for n in range(3)),
                in_sync=tuple(
                    node
                    for node in ((number + n) % 5 for n in range(3))
                    if not (has_failed and node == 1)
                ),
                remark="lease held; records: 81,204",
            )
            for number, leader in leaders.items()
        ],
        workers=[
            Worker(name=f"assignor {n}", state="Running", runs=412 + n, waiting=n) for n in range(2)
        ],
        problems=("Under-replicated: partition 0, partition 1, partition 4.",
                  "Coordinator 1 does not serve: Restarting.") if has_failed else (),
    )  # fmt: skip
    return source


def await_updates(page: Page, least: int = 1) -> None:
    """Wait until a page was brought up to date; its policy forbids Playwright's own waits."""
    until(lambda: page.evaluate(UPDATES) >= least, WITHIN_S + 2 * least, "the page is up to date")


def calm(browser: Browser, file: Path) -> None:
    """Show many groups on a calm day."""
    with served(Lively()) as url, opened(browser, url, **LIGHT) as watched:
        await_updates(watched.page, 25)
        watched.page.screenshot(path=file)


def stormy(browser: Browser, file: Path) -> None:
    """Show a group that rebalances all the time."""
    with served(storm()) as url, opened(browser, f"{url}/group?id=orders", **DARK) as watched:
        await_updates(watched.page)
        watched.page.screenshot(path=file)


def failed_over(browser: Browser, file: Path) -> None:
    """Show a cluster just after one of its nodes was killed."""
    source = failover(has_failed=False)
    with served(source) as url, opened(browser, f"{url}/cluster", **LIGHT) as watched:
        await_updates(watched.page)
        source.shown = failover(has_failed=True).shown
        watched.page.wait_for_selector("text=leader 1 → 2")
        watched.page.screenshot(path=file)


def watching(browser: Browser, file: Path) -> None:
    """Show a group of a Kafka that is watched."""
    source, group_id = watched_orders()
    with (
        closing(source),
        served(source) as url,
        opened(browser, f"{url}/group?id={group_id}", **LIGHT) as watched,
    ):
        await_updates(watched.page)
        watched.page.screenshot(path=file)


TAKERS = {
    "console-calm": calm,
    "console-storm": stormy,
    "console-failover": failed_over,
    "console-watch": watching,
}


def take(directory: Path, names: Iterable[str] = TAKERS) -> None:
    """Take pictures into a directory."""
    with chromium() as browser:
        for name in names:
            TAKERS[name](browser, directory / f"{name}.png")


if __name__ == "__main__":
    take(PICTURES, sys.argv[1:] or TAKERS)
