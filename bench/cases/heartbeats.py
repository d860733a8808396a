"""Steady classic heartbeats, the coordinator's most common request, in a closed loop and paced.

Closed loop: 1,000 members in 10 groups share 32 connections with 4 requests in flight on each.
Paced: 5,000 members in 50 groups, each with its own connection, heartbeat once a second.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from bench.cases.closed_loop import CONNECTIONS, IN_FLIGHT, measure_closed_loop
from bench.cases.members import stable_groups
from bench.client.pipelines import Pipeline, RepeatedRequest, all_latencies, paced
from bench.client.reactor import Reactor
from bench.load.joining import heartbeat
from bench.report.rounds import BenchRow, BenchSettings, Figures, Meter, latencies, run_rounds
from protocol.client.frames import HEARTBEAT_ANSWER, frame_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.servers.server import Server

CLOSED_GROUPS, PACED_GROUPS = 10, 50
MEMBERS_EACH: Final = 100
WARM_UP_SECONDS: Final = 10.0
ANSWER: Final = HEARTBEAT_ANSWER.pack(HEARTBEAT_ANSWER.size - 4, 0, 0)


def bench_heartbeats(servers: Sequence[Server], setting: BenchSettings) -> list[BenchRow]:
    """Measure both cases on every server."""
    return [*_closed(servers, setting), *_paced(servers, setting)]


def _closed(servers: Sequence[Server], setting: BenchSettings) -> list[BenchRow]:
    requests = {each.name: _heartbeats(each, "closed", CLOSED_GROUPS) for each in servers}

    def turn(server: Server, seconds: float = setting.seconds) -> Figures:
        ready = requests[server.name]
        return measure_closed_loop(server, ready, seconds)

    for server in servers:
        turn(server, WARM_UP_SECONDS)
    case = f"closed loop, {CONNECTIONS} connections x {IN_FLIGHT} in flight"
    return run_rounds(case, servers, setting.rounds, turn)


def _paced(servers: Sequence[Server], setting: BenchSettings) -> list[BenchRow]:
    reactors = {server.name: Reactor() for server in servers}
    pipelines = {server.name: _own_pipelines(server, reactors[server.name]) for server in servers}

    def turn(server: Server, seconds: float = setting.seconds) -> Figures:
        ready = pipelines[server.name]
        for pipeline in ready:
            pipeline.latencies_s = array("d")
        meter = Meter(server)
        answered = paced(reactors[server.name], ready, len(ready), seconds)
        return {**meter.read(answered), **latencies(all_latencies(ready))}

    try:
        for server in servers:
            turn(server, WARM_UP_SECONDS)
        count = PACED_GROUPS * MEMBERS_EACH
        return run_rounds(f"paced, {count} members once a second", servers, setting.rounds, turn)
    finally:
        for reactor in reactors.values():
            reactor.close()


def _own_pipelines(server: Server, reactor: Reactor) -> list[Pipeline]:
    requests = _heartbeats(server, "paced", PACED_GROUPS)
    channels = reactor.open(server.address, len(requests))
    return [
        Pipeline(channel, [request]) for channel, request in zip(channels, requests, strict=True)
    ]


def _heartbeats(server: Server, prefix: str, groups: int) -> list[RepeatedRequest]:
    group_ids = [f"{prefix}-{number}" for number in range(groups)]
    return [
        RepeatedRequest(frame_of(heartbeat(member)), ANSWER)
        for plan, member in stable_groups(server, group_ids, MEMBERS_EACH)
    ]
