"""Members driven over sockets against one coordinator, through its death too."""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from threading import Event

import pytest

from bench.client.blocking_client import BlockingClient
from bench.load.driver import FINAL, LoadSpec, drive, now_ms
from protocol.members.classic import MemberConfig
from protocol.members.history import MemberHistoryKind
from protocol.wire.errors import KafkaError
from tests.waiting import LONG_SESSION_MS, WITHIN_S, until

MEMBERS = 20


def crowd(bootstrap, seconds, members_per_connection):
    members = tuple(
        MemberConfig(
            group_id="g",
            topics=("t",),
            client_id=f"c{number}",
            instance_id=f"c{number}" if number % 2 else None,
            heartbeat_interval_ms=100,
            session_timeout_ms=LONG_SESSION_MS,
        )
        for number in range(MEMBERS)
    )
    return LoadSpec(
        bootstrap=bootstrap,
        members=members,
        partitions_of={"t": MEMBERS},
        until_ms=now_ms() + seconds * 1000,
        commit_interval_ms=200,
        members_per_connection=members_per_connection,
    )


def is_stable(address):
    with BlockingClient(address) as connection:
        (group,) = connection.describe(("g",))
        return group.group_state == "Stable" and len(group.members) == MEMBERS


def everybody_commits(address):
    """Wait until each member has committed since now; offsets are the times of the commits."""
    since_ms = now_ms()

    def has_committed():
        offsets = {}
        with suppress(KafkaError), BlockingClient(address) as connection:
            offsets = connection.committed_offsets("g")  # refused while the group is loaded
        return len(offsets) == MEMBERS and min(offsets.values()) > since_ms

    until(has_committed, WITHIN_S, "everybody commits")


def by_member(rows):
    members = defaultdict(list)
    for row in rows:
        members[row[1]].append(row)
    return members


@pytest.mark.parametrize("each", [1, 8], ids=["connections of their own", "shared connections"])
def test_members_go_on_where_they_were_when_their_coordinator_is_killed_and_comes_back(node, each):
    dead = ("127.0.0.1", 1)  # a bootstrap address that nobody answers is passed over
    with BlockingClient(node.address) as connection:
        connection.create_topic("t", MEMBERS)
    is_over = Event()
    longest = crowd((dead, node.address), 6 * WITHIN_S, each)
    with ThreadPoolExecutor(1) as background, ExitStack() as stack:
        loading = background.submit(drive, longest, is_over.is_set)
        stack.callback(is_over.set)
        until(lambda: is_stable(node.address), WITHIN_S, "the group is Stable")
        everybody_commits(node.address)
        killed_ms = now_ms()
        node.kill()
        node.start()
        everybody_commits(node.address)
        everybody_commits(node.address)  # by then a heartbeat before that commit was answered
        is_over.set()
        rows = loading.result()
    with BlockingClient(node.address) as connection:
        committed = connection.committed_offsets("g")

    acknowledged = {}
    for name, events in by_member(rows).items():
        held = [
            row for row in events if row[4] == MemberHistoryKind.ASSIGNED and row[3] <= killed_ms
        ][-1]
        final = events[-1]
        assert final[4] == FINAL
        assert final[5:8] == held[5:8], name  # member id, generation, partitions
        assert any(row[4] == MemberHistoryKind.HEARTBEAT and row[3] > killed_ms for row in events)
        for row in events:
            if row[4] == MemberHistoryKind.COMMITTED:
                acknowledged.update(row[9])
    assert len(acknowledged) == MEMBERS
    for partition, offset in acknowledged.items():
        topic, _, index = partition.rpartition("-")
        assert committed[topic, int(index)] >= offset
    owned = [partition for row in rows if row[4] == FINAL for partition in row[7]]
    assert sorted(owned) == sorted(f"t-{n}" for n in range(MEMBERS))


def test_dynamic_members_leave_in_the_end_and_static_ones_stay(node):
    with BlockingClient(node.address) as connection:
        connection.create_topic("t", MEMBERS)
    drive(crowd((node.address,), 2, 1))
    with BlockingClient(node.address) as connection:
        (group,) = connection.describe(("g",))
    assert {member.group_instance_id for member in group.members} == {
        f"c{number}" for number in range(1, MEMBERS, 2)
    }
