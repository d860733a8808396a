"""The history of rebalances, and the list of events with it, outlive a drain and a restart."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing

import pytest

from tests.clients import servers, wire
from tests.clients.confluent import create_topics
from tests.clients.modern_members import Member, ShareMember, StreamsMember
from tests.clients.riding import group_on_partition_0
from tests.clients.stories.test_explained_failover import (
    BACK_S,
    PARTITIONS,
    PROTOCOLS,
    TOPIC,
    Key,
    consumer,
    explained,
    keys,
    listed,
    on_every_node,
    remembered,
    share_out,
    wait_until_settled,
    wait_until_told,
    what_happened,
)
from tests.waiting import WITHIN_S, until

LEFT = r"member \S+ \(127\.0\.0\.1\) (left|sent no heartbeat)"
"""It leaves, unless it does not find the new coordinator in time."""

GONE_EVENTS = {"left", "expired"}

MOVED = {"share": ShareMember, "streams": StreamsMember}

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(servers.is_kafka(), reason="Kafka explains no rebalance"),
]


def settle(members: Sequence[Member]) -> None:
    """Send heartbeats until the members of a group have all that they are to have."""

    def is_settled() -> bool:
        for member in members:
            member.beat()
        return all(member.assigned for member in members) and members[0].is_settled()

    until(is_settled, BACK_S, "each member has its share")


def settle_all(groups: Mapping[str, Sequence[Member]]) -> None:
    for members in groups.values():
        settle(members)


def test_the_histories_of_all_types_outlive_a_drain_and_an_orderly_restart(
    doomed: servers.RollcallServer,
) -> None:
    bootstrap = doomed.bootstrap
    until(doomed.is_replicated, BACK_S, "every partition is in sync")
    create_topics(bootstrap, [TOPIC], PARTITIONS)
    groups = {each: group_on_partition_0(f"drained-{each}") for each in (*PROTOCOLS, *MOVED)}
    told: dict[str, set[Key]] = {}
    with ExitStack() as stack:
        stay, go = {}, {}
        for protocol in PROTOCOLS:
            two = [consumer(bootstrap, groups[protocol], f"web-{n}", protocol) for n in (1, 2)]
            stay[protocol] = stack.enter_context(closing(two[0]))
            go[protocol] = two[1]
            stack.callback(two[1].close)
            share_out(two)
        moved = {
            name: [kind(bootstrap, groups[name], f"web-{n}", TOPIC) for n in (1, 2)]
            for name, kind in MOVED.items()
        }
        settle_all(moved)
        for group in groups.values():
            wait_until_settled(bootstrap, group, 1)
            told[group] = {each.key for each in remembered(bootstrap, group)}
            until(lambda g=group: on_every_node(bootstrap, g, told[g]), WITHIN_S, "all are told")
            settle_all(moved)  # their sessions must not expire while others are asked
        happened = {}
        for group in groups.values():
            happened[group] = listed_with(bootstrap, group, {"joined", "rebalance"})
            settle_all(moved)
        led_by = leader_of(bootstrap, groups["classic"])
        assert {leader_of(bootstrap, group) for group in groups.values()} == {led_by}

        doomed.drain(led_by)

        for members in moved.values():
            members.pop().leave()
            settle(members)
        for protocol in PROTOCOLS:
            share_out([stay[protocol], go[protocol]])
            go[protocol].close()
            share_out([stay[protocol]])
        for group in groups.values():
            after = wait_until_told(bootstrap, group, LEFT)
            assert told[group] < after, "the history before the drain is still there"
            new = {node_id for node_id, _ in after - told[group]}
            assert new, "what came after it is there, too"
            assert led_by not in new, "another node told it"
            told[group] = after
            assert leader_of(bootstrap, group) != led_by
            listed_now = listed_with(bootstrap, group, {"rebalance"})
            assert happened[group] <= listed_now, "nor is an event lost"
            assert {what for what, _, _ in listed_now - happened[group]} & GONE_EVENTS
            happened[group] = listed_now
            until(lambda g=group: on_every_node(bootstrap, g, told[g]), WITHIN_S, "all are told")

    doomed.stop()
    doomed.start()

    for group in groups.values():
        assert happened[group] <= what_happened(listed(doomed.bootstrap, group))
        assert told[group] <= keys(explained(doomed.bootstrap, group))
        assert on_every_node(doomed.bootstrap, group, told[group])
    until(doomed.is_replicated, BACK_S, "the drained coordinator serves again")


def listed_with(bootstrap: str, group: str, kinds: set[str]) -> set[tuple[str, str, str]]:
    """List the events of a group; these kinds are among them."""
    events = what_happened(listed(bootstrap, group))
    assert kinds <= {what for what, _, _ in events}
    return events


def leader_of(bootstrap: str, group: str) -> int:
    """Give the node that coordinates a group, once there is one."""
    found = until(lambda: wire.coordinator_of(bootstrap, group), WITHIN_S, f"who leads {group}")
    return found[0]
