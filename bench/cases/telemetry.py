"""Heartbeats while a coordinator's telemetry is off, writes traces to files, or has a bad backend.

Four clusters of one coordinator run side by side, and are measured in turns: ``off``, ``off
again``, ``files`` (``ROLLCALL_TRACES_FILE``), and ``hanging``: an OTLP endpoint that accepts
connections and answers nothing, to which metrics go every five seconds, too. 1,000 members
heartbeat in a closed loop, first alone, then beside a group of ten that rebalances five times a
second, each time with a trace; ``rebalances_per_s`` and ``late_rebalances`` say how far it did.

``against_off_percent`` compares the heartbeats per CPU second with those of the same round without
telemetry. Other users of the machine change its speed from one second to the next: the generator
does the same for each heartbeat, so its CPU time tells how fast the processors were, and
``at_equal_speed_percent`` is the same comparison without that. How much is noise yet, the figures
of ``off again`` tell: two processes that do the same may differ by some percent, in all their
rounds. So telemetry is measured by itself, too. It works in
threads of its own: ``telemetry_cpu_percent`` is how much more of the coordinator's CPU time threads
other than its event loop's took than without telemetry. By as much there are fewer heartbeats for
a CPU second, which may be 3 %: LIMIT, of which the output says whether it was kept.
"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from actors.telemetry.transports import FILE
from actors.waiting import poll
from bench.cases.closed_loop import CONNECTIONS, IN_FLIGHT, measure_closed_loop
from bench.cases.members import ANSWER, EVERY_S, rebalances, stable_groups
from bench.client.pipelines import RepeatedRequest
from bench.load.joining import heartbeat
from bench.report.limits import FigureLimit
from bench.report.progress import note
from bench.report.rounds import compared, run_rounds
from bench.servers.processes import thread_cpu_seconds
from bench.servers.rollcall import ONE_COORDINATOR, running_rollcall
from bench.servers.server import StartError
from protocol.client.frames import frame_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench.report.rounds import BenchRow, BenchSettings, Figures
    from bench.servers.server import Server

OFF, OFF_AGAIN, FILES, HANGING = "off", "off again", "files", "hanging"
GROUPS, MEMBERS_EACH = 10, 100
WARM_UP_SECONDS: Final = 10.0
PER_CPU_S: Final = "requests_per_server_cpu_s"
SERVER, GENERATOR = "server_cpu_s", "generator_cpu_s"
AGAINST_OFF: Final = "against_off_percent"
AT_EQUAL_SPEED: Final = "at_equal_speed_percent"
OTHER_THREADS: Final = "other_threads_cpu_percent"
TELEMETRY: Final = "telemetry_cpu_percent"
LIMIT: Final = FigureLimit(figure=TELEMETRY, most=3.0)
METRICS_MS: Final = "5000"
EXPORTED_S: Final = 60.0
"""The time in which something must be exported, lest a cluster without telemetry is measured."""

BACKLOG: Final = 128


def bench_telemetry(setting: BenchSettings, _with_kafka: bool) -> list[BenchRow]:
    """Measure both cases on the four clusters."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory("-rollcall-traces")))
        backend = stack.enter_context(hanging_backend())
        servers = []
        for name, environ in environments(os.environ, directory, backend.url).items():
            note(f"Starting a cluster, {name} ...")
            cluster = running_rollcall(ONE_COORDINATOR, environ=environ)
            servers.append(replace(stack.enter_context(cluster), name=name))
        requests = {each.name: _heartbeats(each) for each in servers}
        for server in servers:
            measure_closed_loop(server, requests[server.name], WARM_UP_SECONDS)
        _check(lambda: any(each.stat().st_size for each in directory.iterdir()), FILES)
        _check(lambda: backend.accepted > 0, HANGING)
        return _measure(servers, requests, setting)


def environments(
    ours: Mapping[str, str], directory: Path, url: str
) -> Mapping[str, Mapping[str, str]]:
    """Return the environment of each cluster; our own telemetry is not theirs."""
    plain = {name: text for name, text in ours.items() if not name.startswith(("OTEL_", FILE))}
    off = {**plain, "OTEL_SDK_DISABLED": "true"}
    return {
        OFF: off,
        OFF_AGAIN: off,
        FILES: {**plain, FILE: str(directory / "traces.jsonl")},
        HANGING: {
            **plain,
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_METRIC_EXPORT_INTERVAL": METRICS_MS,
        },
    }


def _measure(
    servers: Sequence[Server],
    requests: Mapping[str, Sequence[RepeatedRequest]],
    setting: BenchSettings,
) -> list[BenchRow]:
    def alone(server: Server) -> Figures:
        threads = ThreadShares(server)
        figures = measure_closed_loop(server, requests[server.name], setting.seconds)
        return {**figures, OTHER_THREADS: threads.others_percent()}

    def beside_rebalances(server: Server) -> Figures:
        with rebalances(server) as group:
            counts = group.meter()
            return {**alone(server), **counts()}

    loop = f"{CONNECTIONS} x {IN_FLIGHT} in flight"
    cases: Mapping[str, Callable[[Server], Figures]] = {
        loop: alone,
        f"{loop}, {1 / EVERY_S:g} rebalances/s": beside_rebalances,
    }
    rows: list[BenchRow] = []
    for case, turn in cases.items():
        measured = run_rounds(case, servers, setting.rounds, turn)
        rows += compared(measured, "telemetry", beside_off)
    return rows


def beside_off(mine: Figures, off: Figures) -> Figures:
    """Return how much more there was for a CPU second than without telemetry, and what it took."""
    speed = (mine[GENERATOR] / mine[SERVER]) / (off[GENERATOR] / off[SERVER])
    return {
        AGAINST_OFF: 100 * (mine[PER_CPU_S] / off[PER_CPU_S] - 1),
        AT_EQUAL_SPEED: 100 * (speed - 1),
        TELEMETRY: mine[OTHER_THREADS] - off[OTHER_THREADS],
    }


class ThreadShares:
    """CPU time of a coordinator's threads from now on; that of its event loop uses the most."""

    def __init__(self, server: Server) -> None:
        (self._pid,) = server.serving
        self._before = thread_cpu_seconds(self._pid)

    def others_percent(self) -> float:
        """Return how much of the process's CPU time the other threads used."""
        now = thread_cpu_seconds(self._pid)
        used = [seconds - self._before.get(thread, 0.0) for thread, seconds in now.items()]
        return 100 * (1 - max(used) / sum(used))


def _heartbeats(server: Server) -> list[RepeatedRequest]:
    group_ids = [f"telemetry-{number}" for number in range(GROUPS)]
    return [
        RepeatedRequest(frame_of(heartbeat(member)), ANSWER)
        for _, member in stable_groups(server, group_ids, MEMBERS_EACH)
    ]


def _check(is_exported: Callable[[], bool], name: str) -> None:
    if not poll(is_exported, EXPORTED_S, is_done=bool, every_s=0.1):
        raise StartError(f"The coordinator of {name!r} exported nothing: its figures say nothing.")


class HangingBackend:
    """A server that accepts connections, keeps them, and neither reads nor answers.

    ``accepted`` counts them; ``url`` is for ``OTEL_EXPORTER_OTLP_ENDPOINT``.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._kept: list[socket.socket] = []
        self._thread = threading.Thread(target=self._run, name="hanging backend")
        self._thread.start()

    @property
    def accepted(self) -> int:
        """How many connections there were."""
        return len(self._kept)

    def close(self) -> None:
        """Stop."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for each in (self._listener, *self._kept):
            each.close()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._kept.append(connection)


@contextmanager
def hanging_backend() -> Iterator[HangingBackend]:
    """Open a backend that hangs, and close it in the end."""
    backend = HangingBackend()
    try:
        yield backend
    finally:
        backend.close()
