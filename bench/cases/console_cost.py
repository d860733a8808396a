"""What five open pages of the console cost the coordinators: their CPU time without and with them.

1,000 members in ten groups heartbeat every three seconds on a cluster of three coordinators, beside
a group of ten that rebalances five times a second, so that pages have something to show
(``rebalances_per_s`` and ``late_rebalances`` say how far it did). Rounds with the pages closed and
open alternate. The pages are the list, three groups and the cluster, in a Chromium with a window
each; where there is none, their streams of events are read. ``added_cpu_percent`` is what the pages
add to the coordinators' share of one core.

Browsers on the same processors slow everything else down, and so do other users of the machine. The
generator does the same work in all rounds, so its CPU time tells how fast the processors were.
``added_at_equal_speed_percent`` is the same with the open round's CPU time scaled by it. In a third
kind of round no page is open, and the console's own questions for them are asked
:data:`~bench.cases.console_questions.TIMES` as often (``asked_per_s``): what that adds is divided
by as much.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from bench.cases.console_questions import TIMES, ask_often
from bench.cases.members import EVERY_S, heartbeating_group, rebalances
from bench.client.blocking_client import BlockingClient
from bench.client.pipelines import paced
from bench.client.reactor import Reactor
from bench.load.side_process import side_process
from bench.report.limits import FigureLimit
from bench.report.progress import note
from bench.report.rounds import Meter, compared, run_rounds
from bench.servers import processes
from bench.servers.open_pages import looking
from bench.servers.server import StartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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

CLOSED, OPEN, ASKED = "closed", "open", "asked for without a browser"
CPU: Final = "server_cpu_percent"
GENERATOR: Final = "generator_cpu_s"
ADDED: Final = "added_cpu_percent"
ADDED_AT_EQUAL_SPEED: Final = "added_at_equal_speed_percent"
LIMIT: Final = FigureLimit(figure=ADDED_AT_EQUAL_SPEED, most=1.0)
"""For three coordinators together, so a third of a hundredth of a core for each."""

ASKED_PER_S: Final = "asked_per_s"


def bench_console_cost(servers: Sequence[Server], setting: BenchSettings) -> list[BenchRow]:
    """Measure it on our cluster."""
    (server,) = servers
    url = server.metrics.removesuffix("/metrics")
    console = processes.listener(int(url.rpartition(":")[2])) if url else None
    if console is None:
        raise StartError("The cluster has no console on this machine.")
    reactor = Reactor()
    try:
        note(f"{GROUPS * MEMBERS_EACH} members join ...")
        with BlockingClient(server.address) as connection:
            pipelines = [
                pipeline
                for number in range(GROUPS)
                for pipeline in heartbeating_group(_name(number), MEMBERS_EACH, connection, reactor)
            ]
        note("Starting what looks at the pages ...")
        with looking() as pages, rebalances(server) as group:
            load = _Load(
                reactor=reactor, pipelines=pipelines, seconds=setting.seconds, console=console,
                url=url, pages=pages, shown=(_name(0), _name(1), group.group_id), group=group,
            )  # fmt: skip
            rows = run_rounds(
                f"{len(pipelines)} members, {1 / EVERY_S:g} rebalances/s",
                [replace(server, name=name) for name in (CLOSED, OPEN, ASKED)],
                setting.rounds,
                load.measure,
            )
        how = f"{len(load.shown) + 2} pages {pages.how}"
        return compared(rows, how, added)
    finally:
        reactor.close()


def added(mine: Figures, closed: Figures) -> Figures:
    """Return what a round adds to that with the pages closed."""
    if ASKED_PER_S in mine:  # what asks shares the processors, but not the generator's CPU time
        return {ADDED: (mine[CPU] - closed[CPU]) / TIMES}
    slower = mine[GENERATOR] / closed[GENERATOR]
    return {
        ADDED: mine[CPU] - closed[CPU],
        ADDED_AT_EQUAL_SPEED: mine[CPU] / slower - closed[CPU],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """What is measured in each round.

    ``console`` is the process that serves the ``pages``; ``shown`` are the groups on them.
    """

    reactor: Reactor
    pipelines: Sequence[Pipeline]
    seconds: float
    console: int
    url: str
    pages: Looking
    shown: Sequence[str]
    group: Rebalancing

    def measure(self, server: Server) -> Figures:
        """Measure one round, with what the server's name says."""
        with self._looked_at(server) as asked:
            self._heartbeat(SETTLE_S)
            console_s, before = processes.cpu_seconds([self.console]), asked() if asked else 0
            meter, counts = Meter(server), self.group.meter()
            figures = {**meter.read(self._heartbeat(self.seconds)), **counts()}
            if asked is not None:
                figures[ASKED_PER_S] = (asked() - before) / figures["seconds_s"]
            figures["console_cpu_s"] = processes.cpu_seconds([self.console]) - console_s
        return {**figures, CPU: 100 * figures["server_cpu_s"] / figures["seconds_s"]}

    @contextmanager
    def _looked_at(self, server: Server) -> Iterator[Callable[[], int] | None]:
        """Look at the pages, or ask for them; yield how often was asked here so far.

        What the console itself asks for its pages is not counted.
        """
        if server.name == ASKED:
            with side_process(ask_often, server.bootstrap, self.shown) as pipe:

                def asked() -> int:
                    pipe.send(None)
                    count: int = pipe.recv()
                    return count

                yield asked
            return
        urls = ("/", *(f"/group?id={each}" for each in self.shown), "/cluster")
        with self.pages.opened(self.url, urls) if server.name == OPEN else nullcontext():
            yield None

    def _heartbeat(self, seconds: float) -> int:
        per_second = len(self.pipelines) / HEARTBEAT_S
        return paced(self.reactor, self.pipelines, per_second, seconds)


def _name(number: int) -> str:
    return f"console-{number}"
