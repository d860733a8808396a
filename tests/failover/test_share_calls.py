"""Groups ask share coordinators on other nodes, which move, die, and are found again."""

from __future__ import annotations

from typing import Any

import pytest

from failover.effects import Forward
from failover.partition_kinds import SHARE_STATE, kind_of
from failover.requests.share_calls import ATTEMPTS
from protocol.groups.share_state.keys import SharePartition, partition_of
from protocol.wire import messages as m
from protocol.wire.errors import ErrorCode
from tests.failover.apis import asks
from tests.failover.clusters import Cluster, Member

HEARTBEAT, DESCRIBE_OFFSETS, DELETE_GROUPS, CREATE_TOPICS = 76, 90, 42, 19
PARTITIONS = 6


def formed() -> Cluster:
    """Three hosts with three partitions of each kind, each led by another, and a topic ``t``."""
    configs = {"group.share.assignor.offload.enable": "false"}
    cluster = Cluster(3, partitions=3, configs=configs)
    cluster.register()
    for number in range(3):
        cluster.leader(number)
        cluster.leader(SHARE_STATE.number(number))
    made = cluster.ask(
        cluster.leader(-1), CREATE_TOPICS, 7, asks.create_topics("t", partitions=PARTITIONS)
    )
    assert made.topics[0].error_code is ErrorCode.none
    cluster.run(2_000)
    return cluster


def beat(cluster: Cluster, group_id: str, epoch: int, *topics: str) -> Any:
    message = m.ShareGroupHeartbeatRequest(
        group_id=group_id,
        member_id="a",
        member_epoch=epoch,
        rack_id=None,
        subscribed_topic_names=topics or None,
    )
    number = next(n for n in range(3) if cluster.group_in(n) == group_id)
    return cluster.ask(cluster.leader(number), HEARTBEAT, 1, message)


def owned(cluster: Cluster, group_id: str, within_ms: int = 30_000) -> list[int]:
    """Beat until the member has all partitions, or the time is over; what it has."""
    epoch, end = 0, cluster.now + within_ms
    indexes: list[int] = []
    while len(indexes) < PARTITIONS and cluster.now < end:
        answer = beat(cluster, group_id, epoch, *(("t",) if epoch == 0 else ()))
        if answer.error_code in (ErrorCode.none, ErrorCode.unknown_member_id):
            epoch = answer.member_epoch if answer.error_code is ErrorCode.none else 0
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            indexes = [index for topic in topics for index in topic.partitions]
        cluster.run(1_000)
    return sorted(indexes)


def states(cluster: Cluster) -> set[tuple[str, int]]:
    """The share state that the leaders have: group and partition."""
    found = set()
    for number in SHARE_STATE.numbers(3):
        host = cluster.leader(number).host
        (partition,) = [each for each in host.partitions if each.number == number]
        machine: Any = partition.machine
        found |= {(share.group_id, share.partition) for share in machine.context.all()}
    return found


def holder(cluster: Cluster, group_id: str) -> Member:
    """A node other than the group's that leads some of its share state."""
    topic = cluster.members[0].host.view.catalog.topics.by_name("t")
    assert topic is not None
    own = next(n for n in range(3) if cluster.group_in(n) == group_id)
    numbers = {
        SHARE_STATE.number(partition_of(SharePartition(group_id, topic.topic_id, index), 3))
        for index in range(PARTITIONS)
    }
    leaders = [cluster.leader(number) for number in sorted(numbers)]
    return next(each for each in leaders if each is not cluster.leader(own))


def test_share_state_is_on_all_nodes_and_is_there_when_it_is_assigned() -> None:
    cluster = formed()
    group_id = cluster.group_in(0)
    assert owned(cluster, group_id) == list(range(PARTITIONS))
    assert states(cluster) == {(group_id, index) for index in range(PARTITIONS)}
    group = m.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
    request = m.DescribeShareGroupOffsetsRequest(groups=(group,))
    (found,) = cluster.ask(cluster.leader(0), DESCRIBE_OFFSETS, 1, request).groups
    assert [each.start_offset for each in found.topics[0].partitions] == [-1] * PARTITIONS


@pytest.mark.parametrize("victim", ["group", "share state"])
def test_a_leader_that_dies_while_share_state_is_initialized_is_replaced(victim: str) -> None:
    """Either leader: that of the group, or that of the share state."""
    cluster = formed()
    group_id = cluster.group_in(0)
    dies = cluster.leader(0) if victim == "group" else holder(cluster, group_id)
    beat(cluster, group_id, 0, "t")
    cluster.kill(dies.node_id)
    assert owned(cluster, group_id, 60_000) == list(range(PARTITIONS))
    assert states(cluster) == {(group_id, index) for index in range(PARTITIONS)}


def test_a_deleted_group_leaves_no_share_state() -> None:
    cluster = formed()
    group_id, other = cluster.group_in(0), cluster.group_in(1)
    for each in (group_id, other):
        assert owned(cluster, each) == list(range(PARTITIONS))
        leave = m.ShareGroupHeartbeatRequest(
            group_id=each, member_id="a", member_epoch=-1, rack_id=None, subscribed_topic_names=None
        )
        cluster.ask(cluster.leader(int(each == other)), HEARTBEAT, 1, leave)
    request = m.DeleteGroupsRequest(groups_names=(group_id,))
    (result,) = cluster.ask(cluster.leader(0), DELETE_GROUPS, 2, request).results
    assert result.error_code is ErrorCode.none
    assert states(cluster) == {(other, index) for index in range(PARTITIONS)}
    cluster.ask(cluster.leader(-1), 20, 6, asks.delete_topics("t"))
    cluster.run(3_000)
    assert states(cluster) == set()


def test_a_coordinator_that_is_not_reached_is_asked_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The group's answer has the error then, and clients try again."""
    cluster = formed()
    group_id = cluster.group_in(0)
    assert owned(cluster, group_id) == list(range(PARTITIONS))
    me, away = cluster.leader(0), holder(cluster, group_id)
    lost: list[Forward] = []
    carry = cluster.carry_forward

    def lose(member: Member, forward: Forward) -> None:
        if forward.node_id != away.node_id:
            carry(member, forward)
            return
        lost.append(forward)
        member.host.forwarded(forward.request.ticket, None)

    monkeypatch.setattr(cluster, "carry_forward", lose)
    group = m.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
    request = m.DescribeShareGroupOffsetsRequest(groups=(group,))
    (found,) = cluster.ask(me, DESCRIBE_OFFSETS, 1, request).groups
    assert len(found.topics[0].partitions) == PARTITIONS  # no state is known, and no error shown
    assert len(lost) in (ATTEMPTS, 2 * ATTEMPTS)


def test_an_older_directory_gets_partitions_for_share_state_at_its_next_start() -> None:
    """They start with the voters of the groups' partitions that are placed alike."""
    cluster = formed()
    group_id = cluster.group_in(0)
    cluster.ask(cluster.leader(0), 8, 9, asks.commit(group_id, 7))
    cluster.run(1_000)
    for member in cluster.members:
        cluster.kill(member.node_id)
        for images in (member.log._live, member.log._safe):
            for number in [each for each in images if kind_of(each) is SHARE_STATE]:
                del images[number]
    for member in cluster.members:
        cluster.start(member.node_id)
    cluster.run(5_000)
    assert owned(cluster, cluster.group_in(1)) == list(range(PARTITIONS))
    assert asks.offsets_in(cluster.ask(cluster.leader(0), 9, 9, asks.fetch(group_id)))
