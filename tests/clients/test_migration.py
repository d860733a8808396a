"""Online migration by real clients: a group is upgraded, and downgraded again, while it commits.

A rolling restart: one member after the other closes, and one that speaks the other protocol opens
in its place. Nobody's committed offsets may get lost, and all partitions are always shared out.
"""

from collections.abc import Callable, Sequence

import pytest

from tests.clients import servers, wire
from tests.clients.confluent import create_topics, partitions_of
from tests.clients.riding import (
    Life,
    Riders,
    acknowledged,
    are_shared_out,
    invented,
    lost,
)
from tests.waiting import SESSION_MS, patient, until

Closing = Callable[[Callable[[], object]], object]

SETTLE_S = patient(90)
PARTITIONS = 6
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
# librdkafka's own cooperative assignor puts data of its own into assignments, which an upgrade
# would lose: such a group stays classic, here as in Kafka.
STRATEGIES = (("confluent-kafka", "range"), ("java", COOPERATIVE))
CLASSIC, CONSUMER = 0, 1

pytestmark = pytest.mark.timeout(600)


class Fleet:
    """Members of one group that speak either protocol: ``a`` and ``b`` classic, ``c``, ``d`` not.

    ``open`` and ``close`` them by name; ``settle`` waits until the open ones share everything.
    """

    def __init__(self, client: str, strategy: str, bootstrap: str, name: str) -> None:
        self.bootstrap, self.group_id = bootstrap, name
        create_topics(bootstrap, [name], PARTITIONS)
        settings = {
            "session.timeout.ms": str(SESSION_MS),
            "heartbeat.interval.ms": "500",
            "partition.assignment.strategy": strategy,
        }
        self.classic = Riders(
            client,
            bootstrap,
            name,
            [("a", name, None), ("b", name, None)],
            settings=settings,
        )
        self.consumer = Riders(
            client,
            bootstrap,
            name,
            [("c", name, None), ("d", name, None)],
            protocol="consumer",
            closed=["c", "d"],
        )
        self.open_now = "ab"

    def lives(self, labels: str) -> list[Life]:
        """The lives of members by their labels."""
        everyone = {**self.classic.lives, **self.consumer.lives}
        return [everyone[label] for label in labels]

    def order(self, what: str, label: str) -> None:
        """Open or close a member."""
        riders = self.classic if label in self.classic.lives else self.consumer
        riders.order(what, label)
        if what == "open":
            self.open_now += label
        else:
            self.open_now = self.open_now.replace(label, "")

    def settle(self, kinds: Sequence[int] | None) -> None:
        """Wait until all is shared by members of these kinds; None: in a classic group."""
        everything = partitions_of([self.group_id], PARTITIONS)
        lives = self.lives(self.open_now)

        def is_so() -> bool:
            self.classic.check()
            self.consumer.check()
            return are_shared_out(lives, everything) and self.members() == kinds

        until(is_so, SETTLE_S, f"{self.open_now} share all, of the kinds {kinds}")
        lost_now = lost(self.bootstrap, self.group_id, acknowledged(self.lives("abcd")))
        assert lost_now == []

    def members(self) -> Sequence[int] | None:
        """The kinds of a Stable consumer group's members; None for a Stable classic group."""
        group = wire.describe_consumer(self.bootstrap, self.group_id)
        if group.error_code:
            described = wire.describe(self.bootstrap, self.group_id)
            return None if described.group_state == "Stable" else ()
        if group.group_state != "Stable":
            return ()
        return sorted(member.member_type for member in group.members)

    def kill(self) -> None:
        """End what still runs."""
        self.classic.kill()
        self.consumer.kill()


@pytest.mark.parametrize(("client", "strategy"), STRATEGIES)
def test_a_group_is_upgraded_and_downgraded_by_rolling_restarts_while_it_commits(
    doomed: servers.Server, name: str, closing: Closing, client: str, strategy: str
) -> None:
    fleet = Fleet(client, strategy, doomed.bootstrap, name)
    closing(fleet.kill)
    fleet.settle(None)
    for label in fleet.lives("ab"):
        label.forget()

    fleet.order("open", "c")
    fleet.settle([CLASSIC, CLASSIC, CONSUMER])
    fleet.order("close", "a")
    fleet.settle([CLASSIC, CONSUMER])
    fleet.order("open", "d")
    fleet.settle([CLASSIC, CONSUMER, CONSUMER])
    fleet.order("close", "b")
    fleet.settle([CONSUMER, CONSUMER])

    fleet.order("open", "a")
    fleet.settle([CLASSIC, CONSUMER, CONSUMER])
    fleet.order("close", "c")
    fleet.settle([CLASSIC, CONSUMER])
    fleet.order("open", "b")
    fleet.settle([CLASSIC, CLASSIC, CONSUMER])
    fleet.order("close", "d")
    fleet.settle(None)

    fleet.classic.stop()
    fleet.consumer.stop()
    assert invented(doomed.bootstrap, fleet.lives("abcd")) == []
    assert not [
        life.trouble for life in fleet.lives("abcd") if any("FATAL" in x for x in life.trouble)
    ]


@pytest.mark.skipif(servers.is_kafka(), reason="one broker of Kafka takes long to come back")
def test_a_leader_that_is_killed_between_the_steps_changes_nothing(
    doomed: servers.Server, name: str, closing: Closing
) -> None:
    fleet = Fleet("confluent-kafka", "range", doomed.bootstrap, name)
    closing(fleet.kill)
    fleet.settle(None)
    fleet.order("open", "c")
    doomed.kill_coordinator(name)
    fleet.settle([CLASSIC, CLASSIC, CONSUMER])
    fleet.order("close", "a")
    doomed.kill_coordinator(name)
    fleet.settle([CLASSIC, CONSUMER])
    fleet.order("close", "c")
    doomed.kill_coordinator(name)
    fleet.settle(None)
    assert wire.describe(doomed.bootstrap, name).group_state == "Stable"
