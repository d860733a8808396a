"""Java share consumers (KIP-932): as far as no records let them.

They join, share out the partitions, go on after a ``kill -9`` of their group's coordinator, and
leave.
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.clients import servers, wire
from tests.clients.confluent import create_topics
from tests.clients.java import PROGRAMS, java
from tests.program import Program
from tests.waiting import patient, until

PATIENCE_S = patient(90)
"""A JVM starts, compiles its program and joins."""

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(servers.is_kafka(), reason="one broker of Kafka has no replicas"),
]


class ShareMember(Program):
    """One process with one share consumer."""

    def __init__(self, bootstrap: str, group_id: str, topic: str, client_id: str) -> None:
        self.client_id = client_id
        super().__init__(java(PROGRAMS / "ShareMember.java", bootstrap, group_id, topic, client_id))


def test_two_consumers_share_the_partitions_through_a_kill_of_their_coordinator(
    doomed: servers.RollcallServer, name: str
) -> None:
    bootstrap = doomed.bootstrap
    create_topics(bootstrap, [name], 4)
    everything = {(name, index) for index in range(4)}

    def owned(member: ShareMember) -> set[tuple[str, int]]:
        return wire.share_assignments(bootstrap, name).get(member.client_id, set())

    with ExitStack() as stack:

        def started(client_id: str) -> ShareMember:
            member = ShareMember(bootstrap, name, name, client_id)
            stack.callback(member.kill)
            return member

        first = started("first")
        until(lambda: owned(first) == everything, PATIENCE_S, "the first has all partitions")
        second = started("second")
        until(
            lambda: len(owned(first)) == len(owned(second)) == 2,
            PATIENCE_S,
            "each has half of the partitions",
        )
        assert owned(first) | owned(second) == everything
        until(doomed.is_replicated, PATIENCE_S, "every partition is in sync")
        before = wire.describe_share(bootstrap, name)
        doomed.kill_coordinator(name)
        after = wire.describe_share(bootstrap, name)
        assert after == before
        third = started("third")
        until(lambda: owned(third), PATIENCE_S, "a third has partitions")
        until(
            lambda: wire.describe_share(bootstrap, name).group_state == "Stable",
            PATIENCE_S,
            "all three have what they are to have",
        )
        first.leave()
        third.leave()
        until(lambda: owned(second) == everything, PATIENCE_S, "the second has all partitions")
        second.leave()
        until(
            lambda: wire.describe_share(bootstrap, name).group_state == "Empty",
            PATIENCE_S,
            "nobody is left",
        )
        for member in (first, second, third):
            assert member.lines == ["assigned", "closed"]
