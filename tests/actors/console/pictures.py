"""Takes the pictures of ``docs/console.md`` and ``docs/watch.md``, in a real Chromium.

.venv/bin/python -m tests.actors.console.pictures [NAME...]

Each is of a cluster that runs: three coordinators of ours with real consumers, or an Apache Kafka.
"""

import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from confluent_kafka import Producer
from playwright.sync_api import Browser

from actors.cli.admin import commit_offsets
from actors.cli.client import AdminClient, parse_bootstrap
from tests.actors.console.real_cluster import (
    PolledMembers,
    await_well,
    group_of,
    members_of,
    real_cluster,
)
from tests.actors.console.served import await_updates, see
from tests.browser import chromium, opened
from tests.clients import servers
from tests.clients.confluent import QUIET
from tests.exchange.groups_of_all_types import KAFKA_SETTINGS
from tests.program import Program
from tests.waiting import patient, until

PICTURES = Path(__file__).parents[3] / "docs" / "pictures"
SIZE_BYTES_MAX = 200_000
LIGHT = {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"}
DARK = {**LIGHT, "color_scheme": "dark"}
TALL = {**LIGHT, "viewport": {"width": 1200, "height": 1080}}
NAMES = ("orders", "payments", "emails", "search-index", "billing", "fraud", "clicks", "audit")
PARTITIONS = 8
QUIET_GROUPS = 400
STORM_ROUNDS = 6
RECORDS = 1_200
TOLD_S = patient(60)


@contextmanager
def many_groups(bootstrap: str) -> Iterator[PolledMembers]:
    """Give a cluster groups with members, and more that only have offsets; yield one of them."""
    with ExitStack() as stack:
        made = []
        for number, name in enumerate(NAMES):
            protocol = ("classic", "consumer")[number % 2]
            made.append(stack.enter_context(members_of(bootstrap, name, PARTITIONS, protocol)))
            for member in range(1 + number % 3):
                made[-1].join(f"{name}-{member}")
        for members in made:
            members.await_all_own(PARTITIONS)
        with AdminClient(parse_bootstrap(bootstrap)) as client:
            for number in range(QUIET_GROUPS):
                name = NAMES[number % len(NAMES)]
                offsets = {(name, partition): 40 * number for partition in range(3)}
                commit_offsets(client, f"{name}-{number}", offsets)
        yield made[0]


def calm(browser: Browser, file: Path, directory: Path) -> None:
    """Show many groups on a calm day, of which one has just rebalanced."""
    with (
        real_cluster(directory) as cluster,
        many_groups(cluster.bootstrap) as members,
        opened(browser, cluster.ready["console"], **LIGHT) as watched,
    ):
        await_updates(watched.page, 5)
        members.join("orders-1")
        members.await_all_own(PARTITIONS)
        await_updates(watched.page, 9)
        members.leave("orders-1")
        members.await_all_own(PARTITIONS)
        await_updates(watched.page, 14)
        watched.page.screenshot(path=file)


def stormy(browser: Browser, file: Path, directory: Path) -> None:
    """Show a group that rebalances all the time, as one of its members comes and goes."""
    with (
        real_cluster(directory) as cluster,
        members_of(cluster.bootstrap, "orders", 24) as members,
    ):
        for name in ("web-1", "web-2", "web-9"):
            members.join(name)
        members.await_all_own(24)
        for number in range(STORM_ROUNDS):
            members.join("web-3")
            members.await_all_own(24)
            if number < STORM_ROUNDS - 1:
                members.leave("web-3")
                members.await_all_own(24)
        with opened(browser, f"{cluster.ready['console']}/group?id=orders", **DARK) as watched:
            see(watched.page, "#head", "flapper: .*web-3")
            watched.page.screenshot(path=file)


def failed_over(browser: Browser, file: Path, directory: Path) -> None:
    """Show a cluster just after one of its nodes was killed, from its own page."""
    with (
        real_cluster(directory) as cluster,
        members_of(cluster.bootstrap, group_of(1), PARTITIONS) as members,
        opened(browser, f"{cluster.ready['console']}/cluster", **TALL) as watched,
    ):
        members.join("web-1")
        members.await_all_own(PARTITIONS)
        leader = await_well(cluster)["partitions"][1]["leader"]
        page = watched.page
        await_updates(page)
        page.get_by_label(f"Kill coordinator {leader}").click()
        page.get_by_role("button", name="Kill it").click()
        see(page, "#happened", rf"partition 1: leader {leader} → \d")
        page.screenshot(path=file)


def watching(browser: Browser, file: Path, directory: Path) -> None:
    """Show a group of an Apache Kafka that is watched."""
    kafka = servers.KafkaServer(directory / "kafka", {**KAFKA_SETTINGS, **servers.COMMON}, 2)
    with closing(kafka):
        (directory / "kafka").mkdir()
        kafka.start()
        with members_of(kafka.bootstrap, "orders", 12, "consumer") as members:
            produce(kafka.bootstrap, "orders", RECORDS)
            members.join("web-1")
            members.await_all_own(12)  # now there is a log to watch
            with (
                watched_console(kafka.bootstrap, directory) as url,
                opened(browser, f"{url}/group?id=orders", **LIGHT) as watched,
            ):
                for name in ("web-2", "web-3"):
                    members.join(name)
                    members.await_all_own(12)
                members.leave("web-3")
                members.await_all_own(12)
                members.join("web-4")
                members.await_all_own(12)
                see(watched.page, "#stories", r"web-4 \S+ joined(?![^\n]*not seen yet)")
                await_updates(watched.page, 3)
                watched.page.screenshot(path=file)


@contextmanager
def watched_console(bootstrap: str, directory: Path) -> Iterator[str]:
    """Run ``rollcall watch`` with a console; yield the console's address."""
    said = directory / "watch.err"
    command = [sys.executable, "-m", "rollcall", "watch", "--bootstrap", bootstrap]
    with said.open("w") as errors:
        program = Program(
            [*command, "--from", "beginning", "--console", "0"], errors=errors.fileno()
        )
        try:
            pattern = re.compile(r"console: (http://\S+)")
            found = until(lambda: pattern.search(said.read_text()), TOLD_S, "it has a console")
            until(lambda: "watching " in said.read_text(), TOLD_S, "the log was read")
            yield found[1]
        finally:
            program.kill()


def produce(bootstrap: str, topic: str, count: int) -> None:
    """Write records, so that there are offsets to commit."""
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    for number in range(count):
        producer.produce(topic, b"x", partition=number % 12)
        producer.poll(0)
    assert producer.flush(TOLD_S) == 0


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
            with tempfile.TemporaryDirectory() as place:
                TAKERS[name](browser, directory / f"{name}.png", Path(place))


if __name__ == "__main__":
    take(PICTURES, sys.argv[1:] or TAKERS)
