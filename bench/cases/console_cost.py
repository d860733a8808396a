"""What five open pages of the console cost the coordinators: their CPU time without and with them.

1,000 members in ten groups heartbeat every three seconds on a cluster of three coordinators, beside
a group of ten that rebalances five times a second, so that pages have something to show
(``rebalances_per_s`` and ``late_rebalances`` say how far it did). Rounds with the pages closed and
open alternate. The pages are the list, three groups and the cluster, in a Chromium with a window
each; where there is none, their streams of events are read. ``added_cpu_percent`` is what the pages
add to the coordinators' share of one core.

Browsers on the same processors slow everything else down, and so do other users of the machine. The
generator does the same work in all rounds, so its CPU time tells how fast the processors were.
``added_at_equal_speed_percent`` is the same with the open round's CPU time scaled by it.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from bench.cases.members import EVERY_S, heartbeating_group, rebalances
from bench.client.blocking_client import BlockingClient
from bench.client.pipelines import paced
from bench.client.reactor import Reactor
from bench.report.rounds import Meter, compared, run_rounds
from bench.servers import processes
from bench.servers.open_pages import looking
from bench.servers.server import StartError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.cases.members import Rebalancing
    from bench.client.pipelines import Pipeline
    from bench.report.rounds import BenchRow, BenchSettings, Figures
    from bench.servers.open_pages import Looking
    from bench.servers.server import Server

GROUPS, MEMBERS_EACH = 10, 100
HEARTBEAT_S: Final = 3.0
"""Kafka's default of heartbeat.interval.ms."""

SETTLE_S: Final = 15.0
"""The time for pages to be open, or forgotten, before it is measured.

The console asks less often by then for what changes all the time, as it does in a long storm.
"""

CLOSED, OPEN = "closed", "open"
CPU: Final = "server_cpu_percent"
GENERATOR: Final = "generator_cpu_s"
ADDED: Final = "added_cpu_percent"
ADDED_AT_EQUAL_SPEED: Final = "added_at_equal_speed_percent"


def bench_console_cost(servers: Sequence[Server], setting: BenchSettings) -> list[BenchRow]:
    """Measure it on our cluster."""
    (server,) = servers
    url = server.metrics.removesuffix("/metrics")
    console = processes.listener(int(url.rpartition(":")[2])) if url else None
    if console is None:
        raise StartError("The cluster has no console on this machine.")
    reactor = Reactor()
    try:
        with BlockingClient(server.address) as connection:
            pipelines = [
                pipeline
                for number in range(GROUPS)
                for pipeline in heartbeating_group(_name(number), MEMBERS_EACH, connection, reactor)
            ]
        with looking() as pages, rebalances(server) as group:
            shown = ["/", *(f"/group?id={each}" for each in (_name(0), _name(1), group.group_id))]
            load = _Load(
                reactor=reactor, pipelines=pipelines, seconds=setting.seconds, console=console,
                url=url, pages=(*shown, "/cluster"), group=group,
            )  # fmt: skip
            rows = run_rounds(
                f"{len(pipelines)} members, {1 / EVERY_S:g} rebalances/s",
                [replace(server, name=name) for name in (CLOSED, OPEN)],
                setting.rounds,
                lambda each: load.measure(each, pages if each.name == OPEN else None),
            )
        how = f"{len(load.pages)} pages {pages.how}"
        return compared(rows, how, added)
    finally:
        reactor.close()


def added(mine: Figures, closed: Figures) -> Figures:
    """Return what a round adds to that with the pages closed."""
    slower = mine[GENERATOR] / closed[GENERATOR]
    return {
        ADDED: mine[CPU] - closed[CPU],
        ADDED_AT_EQUAL_SPEED: mine[CPU] / slower - closed[CPU],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """What is measured in each round; ``console`` is the process that serves ``pages``."""

    reactor: Reactor
    pipelines: Sequence[Pipeline]
    seconds: float
    console: int
    url: str
    pages: Sequence[str]
    group: Rebalancing

    def measure(self, server: Server, pages: Looking | None) -> Figures:
        """Measure one round, with pages open if they are to be."""
        is_open = nullcontext() if pages is None else pages.opened(self.url, self.pages)
        with is_open:
            self._heartbeat(SETTLE_S)
            console_s = processes.cpu_seconds([self.console])
            meter, counts = Meter(server), self.group.meter()
            figures = {**meter.read(self._heartbeat(self.seconds)), **counts()}
            figures["console_cpu_s"] = processes.cpu_seconds([self.console]) - console_s
        return {**figures, CPU: 100 * figures["server_cpu_s"] / figures["seconds_s"]}

    def _heartbeat(self, seconds: float) -> int:
        per_second = len(self.pipelines) / HEARTBEAT_S
        return paced(self.reactor, self.pipelines, per_second, seconds)


def _name(number: int) -> str:
    return f"console-{number}"
