"""Requests that exceed limits, one after the other, and the checker of their answers bites."""

from collections.abc import Callable
from typing import Any

import pytest

from failover.simulation.clients.oversize import CALLS, Oversize
from failover.simulation.cluster import SimulatedCluster
from failover.simulation.event_log import Violation
from failover.simulation.one_seed import small_logs
from failover.simulation.patches import Patch, patched
from failover.simulation.settings import CALM
from failover.simulation.world import World
from protocol.groups.classic import join
from protocol.groups.offsets import commit
from protocol.wire.errors import ErrorCode, KafkaError

FORMED_MS = 20_000
BETWEEN_MS = 200
TRIES = 40


def send_what_exceeds_limits() -> World:
    world = World(1, CALM)
    with small_logs():
        cluster = SimulatedCluster(world)
        cluster.form()
        world.run(FORMED_MS)
        oversize = Oversize(cluster.callers)
        for _ in range(TRIES):
            oversize.call()
            world.run(world.now + BETWEEN_MS)
    return world


def long_metadata_committed() -> list[Patch]:
    original = commit._committed

    def committed(ctx: Any, terms: Any, *arguments: Any) -> Any:
        return original(ctx, terms._replace(metadata_length_max=1 << 30), *arguments)

    return [(commit, "_committed", committed)]


def large_member_refused_with_another_error() -> list[Patch]:
    original = join.read

    def read(*arguments: Any) -> Any:
        try:
            return original(*arguments)
        except KafkaError as error:
            if error.code is ErrorCode.unknown_server_error:
                raise KafkaError(ErrorCode.invalid_request) from error
            raise

    return [(join, "read", read)]


def test_each_request_gets_kafkas_error() -> None:
    world = send_what_exceeds_limits()
    assert world.injected["message too large"] == TRIES
    assert 4 * sum(map(len, CALLS.values())) < TRIES, "each is sent, most likely"


BUGS = (long_metadata_committed, large_member_refused_with_another_error)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: Callable[[], list[Patch]]) -> None:
    with patched(bug()), pytest.raises(Violation, match="is told"):
        send_what_exceeds_limits()
