"""Java share consumers (KIP-932): as far as no records let them.

They join, share out the partitions, go on after a ``kill -9`` of their group's coordinator, and
leave.
"""

from __future__ import annotations

import subprocess
import threading
from contextlib import ExitStack

import pytest

from tests.clients import servers, wire
from tests.clients.confluent import create_topics
from tests.clients.java import PROGRAMS, java
from tests.waiting import WITHIN_S, until

PATIENCE_S = 90.0
"""A JVM starts, compiles its program and joins."""

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(servers.is_kafka(), reason="one broker of Kafka has no replicas"),
]


class ShareMember:
    """One process with one share consumer; ``lines`` is what it printed."""

    def __init__(self, bootstrap: str, group_id: str, topic: str, client_id: str) -> None:
        self.client_id = client_id
        self._process = subprocess.Popen(
            java(PROGRAMS / "ShareMember.java", bootstrap, group_id, topic, client_id),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.strip())

    def leave(self) -> None:
        """Let it close, and with that leave the group."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._reader.join(WITHIN_S)

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait(WITHIN_S)
        self._reader.join(WITHIN_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


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
            stack.callback(member.end)
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
