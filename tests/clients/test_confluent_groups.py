"""confluent-kafka (librdkafka) in classic groups: assignment, offsets, expulsion."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import NewPartitions

from tests.clients.confluent import (
    ADMIN_S,
    Member,
    admin,
    create_topics,
    is_shared_out,
    partitions_of,
    poll_until,
)
from tests.waiting import WITHIN_S, until

Closing = Callable[[Callable[[], object]], object]

STANDALONE_MEMBER = "tests.clients.standalone_member"


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_three_members_share_all_partitions(
    bootstrap: str, name: str, closing: Closing, assignor: str
) -> None:
    topics = [f"{name}-a", f"{name}-b"]
    create_topics(bootstrap, topics, 6)
    members = []
    for _ in range(3):
        member = Member(bootstrap, name, topics, partition_assignment_strategy=assignor)
        closing(member.close)
        members.append(member)
    everything = partitions_of(topics, 6)
    poll_until(members, lambda: is_shared_out(members, everything), 30, "all partitions are shared")
    members.pop().close()
    poll_until(members, lambda: is_shared_out(members, everything), 30, "two share what three had")
    assert not [e for m in members for e in m.errors]


def test_a_cooperative_member_keeps_what_does_not_move(
    bootstrap: str, name: str, closing: Closing
) -> None:
    create_topics(bootstrap, [name], 6)
    first = Member(bootstrap, name, [name], partition_assignment_strategy="cooperative-sticky")
    closing(first.close)
    everything = partitions_of([name], 6)
    poll_until([first], lambda: first.assigned == everything, 30, "the first member has all")
    second = Member(bootstrap, name, [name], partition_assignment_strategy="cooperative-sticky")
    closing(second.close)
    both = [first, second]
    poll_until(both, lambda: is_shared_out(both, everything), 30, "each has half")
    # KIP-429: only what moves is revoked, in one piece, and nothing is given back.
    assert first.revoked == [second.assigned]


def test_asking_for_a_topic_creates_it(bootstrap: str, name: str, closing: Closing) -> None:
    member = Member(bootstrap, name, [name], allow_auto_create_topics=True)
    closing(member.close)
    member.consumer.list_topics(name, timeout=WITHIN_S)
    # num.partitions of the server under test
    poll_until([member], lambda: member.assigned == partitions_of([name], 2), 30, "it is assigned")


def test_a_new_topic_that_matches_is_assigned(bootstrap: str, name: str, closing: Closing) -> None:
    create_topics(bootstrap, [f"{name}-1"], 2)
    member = Member(bootstrap, name, [f"^{name}-.*"])
    closing(member.close)
    one = partitions_of([f"{name}-1"], 2)
    poll_until([member], lambda: member.assigned == one, 30, "the first topic is assigned")
    create_topics(bootstrap, [f"{name}-2"], 2)
    both = partitions_of([f"{name}-1", f"{name}-2"], 2)
    poll_until([member], lambda: member.assigned == both, 30, "the second topic is assigned")


def test_added_partitions_are_assigned(bootstrap: str, name: str, closing: Closing) -> None:
    create_topics(bootstrap, [name], 2)
    member = Member(bootstrap, name, [name])
    closing(member.close)
    poll_until([member], lambda: member.assigned == partitions_of([name], 2), 30, "two partitions")
    client = admin(bootstrap)
    client.create_partitions([NewPartitions(name, 5)])[name].result(ADMIN_S)
    poll_until([member], lambda: member.assigned == partitions_of([name], 5), 30, "five partitions")


def test_commits_are_found_again_after_reopening(
    bootstrap: str, name: str, closing: Closing
) -> None:
    create_topics(bootstrap, [name], 3)
    committed: list[tuple[KafkaError | None, list[TopicPartition]]] = []
    member = Member(bootstrap, name, [name], on_commit=lambda e, ps: committed.append((e, ps)))
    closing(member.close)
    poll_until([member], lambda: len(member.assigned) == 3, 30, "all partitions are assigned")
    sync = member.consumer.commit(
        offsets=[TopicPartition(name, 0, 11, metadata="note"), TopicPartition(name, 1, 12)],
        asynchronous=False,
    )
    assert [p.error for p in sync] == [None, None]
    member.consumer.commit(offsets=[TopicPartition(name, 2, 13)], asynchronous=True)
    poll_until(
        [member],
        lambda: any(ps[0].offset == 13 for _, ps in committed),
        WITHIN_S,
        "the callback ran",
    )
    assert all(error is None for error, _ in committed)
    member.close()

    again = Member(bootstrap, name, [name])
    closing(again.close)
    wanted = [TopicPartition(name, p) for p in range(3)]
    found = again.consumer.committed(wanted, timeout=WITHIN_S)
    assert [p.offset for p in found] == [11, 12, 13]
    assert found[0].metadata == "note"


def test_a_commit_from_outside_the_group_is_refused(
    bootstrap: str, name: str, closing: Closing
) -> None:
    create_topics(bootstrap, [name], 1)
    member = Member(bootstrap, name, [name])
    closing(member.close)
    poll_until([member], lambda: len(member.assigned) == 1, 30, "the partition is assigned")
    stranger = Consumer({"bootstrap.servers": bootstrap, "group.id": name})
    closing(stranger.close)
    with pytest.raises(KafkaException) as refused:
        stranger.commit(offsets=[TopicPartition(name, 0, 5)], asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID


def test_offsets_can_be_committed_without_a_group_being_joined(
    bootstrap: str, name: str, closing: Closing
) -> None:
    create_topics(bootstrap, [name], 1)
    simple = Consumer({"bootstrap.servers": bootstrap, "group.id": name})
    closing(simple.close)
    simple.commit(offsets=[TopicPartition(name, 0, 5)], asynchronous=False)
    assert simple.committed([TopicPartition(name, 0)], timeout=WITHIN_S)[0].offset == 5


def test_a_member_that_was_killed_is_expelled_after_its_session(
    bootstrap: str, name: str, closing: Closing
) -> None:
    create_topics(bootstrap, [name], 4)
    survivor = Member(bootstrap, name, [name])
    closing(survivor.close)
    victim = subprocess.Popen(
        [sys.executable, "-m", STANDALONE_MEMBER, bootstrap, name, name],
        stdout=subprocess.PIPE,
    )
    closing(victim.wait)
    closing(victim.kill)
    closing(victim.stdout.close)
    poll_until([survivor], lambda: len(survivor.assigned) == 2, 30, "two partitions for each")
    os.kill(victim.pid, signal.SIGKILL)
    poll_until([survivor], lambda: len(survivor.assigned) == 4, 30, "the survivor has all")


def test_a_group_that_everybody_left_is_empty(bootstrap: str, name: str, closing: Closing) -> None:
    create_topics(bootstrap, [name], 1)
    member = Member(bootstrap, name, [name])
    closing(member.close)
    poll_until([member], lambda: len(member.assigned) == 1, 30, "the partition is assigned")
    member.close()
    client = admin(bootstrap)

    def state() -> str:
        described = client.describe_consumer_groups([name])[name].result(ADMIN_S)
        return described.state.name if not described.members else ""

    until(lambda: state() == "EMPTY", WITHIN_S, "the group is Empty")
