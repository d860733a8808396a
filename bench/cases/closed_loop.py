"""Closed-loop load: one turn, in the same form for every kind of request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.client.pipelines import Pipeline, RepeatedRequest, all_latencies, closed_loop
from bench.client.reactor import Reactor
from bench.report.rounds import Figures, Meter, latencies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.servers.server import Server

CONNECTIONS: Final = 32
IN_FLIGHT: Final = 4


def measure_closed_loop(
    server: Server, requests: Sequence[RepeatedRequest], seconds: float
) -> Figures:
    """Keep ``IN_FLIGHT`` requests in flight on each of ``CONNECTIONS`` connections."""
    reactor = Reactor()
    try:
        pipelines = [
            Pipeline(channel, requests[number::CONNECTIONS])
            for number, channel in enumerate(reactor.open(server.address, CONNECTIONS))
        ]
        meter = Meter(server)
        answered = closed_loop(reactor, pipelines, IN_FLIGHT, seconds)
        return {**meter.read(answered), **latencies(all_latencies(pipelines))}
    finally:
        reactor.close()
