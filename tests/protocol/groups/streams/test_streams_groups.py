"""Streams groups (KIP-1071): members, tasks, statuses, endpoints, offsets, deletion."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from protocol.groups.effects import AssignmentComputed
from protocol.records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)
from protocol.wire import streams_messages as m
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode
from tests.protocol.groups.conversation import GROUP
from tests.protocol.groups.streams.streams_talk import (
    STATEFUL,
    StreamsTalk,
    statuses,
    subtopology,
    task_ids,
    told,
    topic,
    topology,
)

ONE_STANDBY = {"group.streams.num.standby.replicas": "1"}
DELAYED = 5


def refused(answer: Any) -> tuple[ErrorCode, str | None]:
    return answer.error_code, answer.error_message


def test_the_first_member_gets_all_tasks_and_the_second_its_share_once_they_are_revoked() -> None:
    talk = StreamsTalk()
    assert told(talk.join("A")) == (2, "0:012", "")
    assert told(talk.join("B")) == (3, "", "")
    assert told(talk.beat("A")) == (2, "0:01", "")
    assert told(talk.beat("B")) == (3, None, None)  # A has not revoked it yet
    assert talk.group.state == "Reconciling"
    assert told(talk.owning("A", "0:012")) == (2, "0:01", "")  # perhaps it was not told: again
    assert told(talk.owning("A", "0:01")) == (3, None, None)
    assert told(talk.beat("B")) == (3, "0:2", "")
    assert talk.group.state == "Stable"


def test_heartbeats_delay_no_assignment_when_the_clock_has_gone_back() -> None:
    talk = StreamsTalk(interval_ms=1_000)
    talk.join("A")
    talk.context.wall.offset_ms = -500_000
    talk.join("B")
    for _ in range(3):
        talk.advance(600)
        talk.beat("A")
    assert talk.group.assignment_epoch == talk.group.epoch == 3


def test_a_member_that_reports_too_few_tasks_is_told_them_again() -> None:
    talk = StreamsTalk()
    assert told(talk.join("A")) == (2, "0:012", "")
    assert told(talk.owning("A", "0:01")) == (2, "0:012", "")  # Kafka says nothing
    assert told(talk.owning("A", "0:012")) == (2, None, None)
    assert told(talk.owning("A")) == (2, None, None)  # as Kafka's tests expect


def test_a_member_that_revokes_twice_keeps_its_epoch() -> None:
    talk = StreamsTalk()
    talk.join("A")
    talk.join("B")
    assert told(talk.beat("A")) == (2, "0:01", "")
    talk.join("C")
    assert told(talk.owning("A", "0:01")) == (2, "0:0", "")  # Kafka says 3
    assert told(talk.owning("A", "0:0")) == (4, None, None)


def test_a_standby_goes_to_another_process_and_becomes_active_there() -> None:
    talk = StreamsTalk(ONE_STANDBY)
    talk.join("A")
    talk.join("B")
    talk.beat("A")
    talk.owning("A", "0:01")
    assert told(talk.beat("B")) == (3, "0:2", "0:01")
    assert told(talk.beat("A", epoch=3)) == (3, None, None)
    talk.leave("A")
    assert told(talk.beat("B")) == (4, "0:012", "")  # in place, as in Kafka 4.4: the state stays
    assert told(talk.owning("B", "0:012")) == (4, None, None)


def test_a_process_does_not_get_a_task_while_one_of_its_members_has_it() -> None:
    """A standby waits for the active task of its process, and the other way round."""
    talk = StreamsTalk(ONE_STANDBY)
    talk.join("A1", process_id="p")
    talk.join("B1", process_id="q")
    talk.beat("A1")
    talk.owning("A1", "0:01")
    assert told(talk.beat("B1")) == (3, "0:2", "0:01")
    talk.beat("A1")
    for place, count in talk.group.process_tasks.items():
        assert count == 1, place
    talk.join("A2", process_id="p")
    target = {name: each.assignment for name, each in talk.group.members.items()}
    assert all(not each.assigned for name, each in target.items() if name == "A2")


def test_the_first_assignment_waits_for_more_members() -> None:
    talk = StreamsTalk(delay_ms=3_000)
    first = talk.join("A")
    assert told(first) == (1, "", "")
    assert statuses(first) == [
        (DELAYED, "Assignment delayed due to the configured initial rebalance delay.")
    ]
    talk.advance(2_000)
    assert told(talk.join("B")) == (1, "", "")
    talk.advance(1_000)
    assert told(talk.beat("A")) == (3, "0:02", "")
    assert told(talk.beat("B")) == (3, "0:1", "")
    talk.leave("A")
    talk.leave("B")
    assert told(talk.join("C"))[1] == ""  # an empty group waits again


def test_a_delayed_assignment_is_told() -> None:
    talk = StreamsTalk(interval_ms=1_000)
    talk.join("A")
    joined = talk.join("B")
    assert told(joined) == (2, "", "")
    assert statuses(joined) == [
        (DELAYED, "Assignment delayed due to the configured assignment interval.")
    ]
    talk.advance(1_000)
    assert told(talk.beat("A")) == (2, "0:01", "")
    assert statuses(talk.beat("A")) == []


def test_a_run_elsewhere_takes_effect_when_it_ends() -> None:
    talk = StreamsTalk(is_offloaded=True)
    joined = talk.join("A")
    assert told(joined) == (1, "", "")
    assert statuses(joined) == [(DELAYED, "Assignment delayed due to an assignor run under way.")]
    talk.work()
    assert told(talk.beat("A")) == (2, "0:012", "")


def test_a_member_that_left_during_a_run_gets_nothing_of_it() -> None:
    talk = StreamsTalk(is_offloaded=True)
    talk.join("A")
    talk.join("B")
    (task,) = talk.tasks
    talk.tasks.clear()
    talk.leave("B")
    answer = talk.executor.run(task)
    assert isinstance(answer, AssignmentComputed)
    talk.handle(answer)
    assert set(talk.group.targets) <= {"A"}
    talk.work()
    assert told(talk.beat("A")) == (talk.group.epoch, "0:012", "")


def test_a_topology_that_changes_during_a_run_is_run_again() -> None:
    talk = StreamsTalk(is_offloaded=True)
    talk.join("A")
    talk.change_topics(**{"store_changelog": 0, "in": 0})
    talk.work()
    talk.work()
    answer = talk.beat("A")
    assert told(answer) == (3, None, None)
    assert statuses(answer) == [(1, "Source topics in are missing.")]
    assert talk.group.state == "NotReady"


def test_a_new_leader_goes_on() -> None:
    talk = StreamsTalk(ONE_STANDBY)
    talk.join("A")
    talk.join("B")
    talk.beat("A")
    talk.failover()
    assert told(talk.owning("A", "0:01")) == (3, "0:01", "0:2")
    assert told(talk.beat("B")) == (3, "0:2", "0:01")
    before = {name: each.assignment for name, each in talk.group.members.items()}
    talk.failover()
    assert {name: each.assignment for name, each in talk.group.members.items()} == before
    assert told(talk.beat("B")) == (3, None, None)
    assert talk.group.state == "Stable"


def test_a_silent_member_expires_and_one_that_does_not_revoke_is_removed() -> None:
    talk = StreamsTalk()
    talk.join("A", rebalance_timeout=timedelta(seconds=5))
    talk.join("B")
    talk.beat("A")  # has to revoke a task
    talk.advance(5_000)
    assert set(talk.group.members) == {"B"}
    assert refused(talk.beat("A")) == (
        ErrorCode.unknown_member_id,
        f"Member A is not a member of group {GROUP}.",
    )
    talk.advance(46_000)
    assert (talk.group.members, talk.group.state) == ({}, "Empty")


def test_a_steady_heartbeat_may_be_answered_again_until_something_changes() -> None:
    talk = StreamsTalk()
    talk.join("A")
    count = len(talk.records)
    talk.beat("A")
    lease = talk.last_reply().lease
    assert lease is not None
    assert lease.group.stamp == lease.stamp
    assert len(talk.records) == count
    talk.owning("A", "0:012")  # it reports its tasks: answered, but not from memory
    assert talk.last_reply().lease is None
    talk.beat("A")
    lease = talk.last_reply().lease
    talk.join("B")
    assert lease.group.stamp != lease.stamp


# --- topology and topics


def test_missing_topics_are_told_and_internal_ones_created() -> None:
    talk = StreamsTalk(topics={})
    joined = talk.join("A")
    assert told(joined) == (2, "", "")
    assert statuses(joined) == [(1, "Source topics in are missing.")]
    talk.change_topics(**{"in": 2})
    answer = talk.beat("A")
    assert statuses(answer) == [(3, "Internal topics are missing: store-changelog")]
    (creation,) = talk.created()
    assert (creation.name, creation.num_partitions, creation.replication_factor) == (
        "store-changelog",
        2,
        -1,
    )
    talk.beat("A")
    assert talk.created() == []  # it is being created
    talk.change_topics(store_changelog=2)
    answer = talk.beat("A")
    assert told(answer) == (4, "0:01", "")
    assert statuses(answer) == []
    values = talk.written(StreamsGroupMetadataKey)
    assert [each.validated_topology_epoch for each in values] == [-1, -1, 1]


def test_a_topic_that_cannot_be_created_is_told_and_tried_again_later() -> None:
    talk = StreamsTalk(topics={"in": 3})
    talk.join("A")
    assert len(talk.created()) == 1
    talk.answer_creation(store_changelog="No room.")
    missing = "Internal topics are missing: store-changelog"
    failed = f"{missing}; Creation failed: store-changelog (No room.)."
    assert statuses(talk.beat("A")) == [(3, failed)]
    assert talk.created() == []
    talk.advance(10_000)
    assert statuses(talk.beat("A")) == [(3, missing)]
    assert len(talk.created()) == 1


def test_configs_of_internal_topics_reach_the_catalogue() -> None:
    changelog = topic("c", **{"cleanup.policy": "compact"})
    talk = StreamsTalk(topics={"in": 1}, topology=topology(subtopology(changelogs=(changelog,))))
    talk.join("A")
    (creation,) = talk.created()
    assert [(each.name, each.value) for each in creation.configs] == [("cleanup.policy", "compact")]


def test_a_stale_topology_is_told_and_another_one_refused() -> None:
    talk = StreamsTalk(topology=topology(epoch=2))
    talk.join("A")
    stale = talk.join("B", topology=topology(epoch=1))
    assert statuses(stale) == [
        (0, "The member's topology epoch 1 is behind the group's topology epoch 2.")
    ]
    for other in (topology(epoch=3), topology(subtopology(sources=("other",)), epoch=2)):
        assert refused(talk.join("C", topology=other)) == (
            ErrorCode.invalid_request,
            "Topology updates are not supported yet.",
        )
    assert len(talk.written(StreamsGroupTopologyKey)) == 1


def test_a_changed_number_of_standbys_begins_an_epoch() -> None:
    talk = StreamsTalk()
    talk.join("A")
    talk.join("B")
    talk.beat("A")
    talk.owning("A", "0:01")
    talk.beat("B")
    talk.shard.group_configs = {GROUP: {"streams.num.standby.replicas": "1"}}
    talk.advance(0)
    assert told(talk.beat("A")) == (4, "0:01", "0:2")
    last = talk.written(StreamsGroupMetadataKey)[-1]
    assert [(each.key, each.value) for each in last.last_assignment_configs] == [
        ("num.standby.replicas", "1")
    ]


# --- the application


def test_a_shutdown_is_told_to_all_until_the_group_is_empty() -> None:
    talk = StreamsTalk()
    talk.join("A")
    talk.join("B")
    sentence = (
        "Streams group member A encountered a fatal error and requested a shutdown for the entire"
        " application."
    )
    talk.beat("A", shutdown_application=True)
    assert statuses(talk.beat("B")) == [(4, sentence)]
    talk.leave("A")
    talk.leave("B")
    assert statuses(talk.join("C")) == []


def test_endpoints_are_told_with_the_partitions_that_they_serve() -> None:
    talk = StreamsTalk(ONE_STANDBY)
    endpoint = m.StreamsUserEndpoint(host="a", port=1)
    joined = talk.join("A", user_endpoint=endpoint)
    (told_,) = joined.partitions_by_user_endpoint
    assert (told_.user_endpoint.host, told_.active_partitions[0].partitions) == ("a", (0, 1, 2))
    epoch = joined.endpoint_information_epoch
    same = talk.beat("A", endpoint_information_epoch=epoch)
    assert same.partitions_by_user_endpoint is None
    talk.join("B")
    talk.beat("A", endpoint_information_epoch=epoch)
    answer = talk.owning("A", "0:01", endpoint_information_epoch=epoch)
    assert answer.endpoint_information_epoch > epoch
    assert answer.partitions_by_user_endpoint[0].active_partitions[0].partitions == (0, 1)
    other = talk.beat("B", endpoint_information_epoch=epoch)
    assert [each.user_endpoint.host for each in other.partitions_by_user_endpoint] == ["a"]


def test_it_is_described_listed_and_deleted() -> None:
    talk = StreamsTalk()
    talk.join("A")
    described = talk.describe()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == (
        "Stable",
        2,
        2,
    )
    (shown,) = described.topology.subtopologies
    assert [(each.name, each.partitions) for each in shown.state_changelog_topics] == [
        ("store-changelog", 3)
    ]
    (member,) = described.members
    assert member.assignment == member.target_assignment
    assert (member.process_id, member.topology_epoch) == ("p-A", 1)
    listed = talk.list(["stable"], ["streams"])
    assert [(each.group_type, each.protocol_type) for each in listed] == [("streams", "streams")]
    assert talk.delete(GROUP) == [ErrorCode.non_empty_group]
    talk.leave("A")
    assert talk.delete(GROUP) == [ErrorCode.none]
    talk.failover()
    assert not talk.shard.has_groups


# --- refusals


@pytest.mark.parametrize(
    ("fields", "code", "why"),
    [
        ({"member_id": ""}, 42, "MemberId can't be empty."),
        ({"group_id": ""}, 42, "GroupId can't be empty."),
        ({"instance_id": ""}, 42, "InstanceId can't be empty."),
        ({"rack_id": " "}, 42, "RackId can't be empty."),
        (
            {"rebalance_timeout": timedelta(milliseconds=-1)},
            42,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        ({"active_tasks": None}, 42, "ActiveTasks must be empty when (re-)joining."),
        (
            {"standby_tasks": task_ids("0:1")},
            42,
            "StandbyTasks must be empty when (re-)joining.",
        ),
        ({"topology": None}, 42, "Topology must be non-null when (re-)joining."),
        (
            {"member_epoch": -3},
            42,
            "MemberEpoch is -3, but must be greater than or equal to -2.",
        ),
        ({"member_epoch": -2, "topology": None}, 42, "InstanceId can't be null."),
        ({"member_epoch": 1}, 42, "Topology can only be provided when (re-)joining."),
        (
            {"member_epoch": 1, "topology": None, "active_tasks": None},
            42,
            "If one task-type is non-null, all must be non-null.",
        ),
        ({"task_offsets": ()}, 42, "TaskOffsets are not supported yet."),
        ({"warmup_tasks": task_ids("0:1")}, 42, "WarmupTasks are not supported yet."),
        (
            {"topology": topology(subtopology(changelogs=(topic("c", 3),)))},
            130,
            "Changelog topic c must have an undefined partition count, but it is set to 3.",
        ),
        (
            {"topology": topology(subtopology(sources=("__consumer_offsets",)))},
            130,
            "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is"
            " prohibited.",
        ),
        (
            {"topology": topology(subtopology(sources=("a b", "..")))},
            130,
            "Topic names a b,.. are not valid topic names.",
        ),
        (
            {"topology": topology(subtopology("0", ()))},
            130,
            "No source topics found for subtopology 0",
        ),
        (
            {"topology": topology(subtopology(copartition=(((7,), ()),)))},
            130,
            "A copartition group of subtopology 0 names a topic that there is not.",
        ),
        (
            {"topology": topology(subtopology(), subtopology())},
            130,
            "There are two subtopologies 0.",
        ),
    ],
)
def test_a_join_that_is_not_valid_is_refused(fields: dict[str, Any], code: int, why: str) -> None:
    talk = StreamsTalk()
    message = {
        "group_id": GROUP,
        "member_id": "A",
        "member_epoch": 0,
        "topology": STATEFUL,
        "rebalance_timeout": timedelta(seconds=1),
        "active_tasks": (),
        "standby_tasks": (),
        "warmup_tasks": (),
        **fields,
    }
    answer = talk.ask(blank(m.StreamsGroupHeartbeatRequest, **message), 0)
    assert refused(answer) == (ErrorCode(code), why)
    assert (talk.records, answer.status) == ([], ())


@pytest.mark.parametrize(
    ("epoch", "active", "code", "why"),
    [
        (9, None, ErrorCode.fenced_member_epoch, "a greater member epoch (9)"),
        (1, None, ErrorCode.fenced_member_epoch, "a smaller member epoch (1)"),
        (2, "7:0", ErrorCode.invalid_request, "Subtopology 7 does not exist in the topology."),
        (
            2,
            "0:3",
            ErrorCode.invalid_request,
            "Task 3 for subtopology 0 is invalid. Number of tasks for this subtopology: 3",
        ),
    ],
)
def test_a_heartbeat_that_is_not_valid_is_refused(
    epoch: int, active: str | None, code: ErrorCode, why: str
) -> None:
    talk = StreamsTalk()
    talk.join("A")
    count = len(talk.records)
    answer = talk.beat("A", epoch) if active is None else talk.owning("A", active, epoch=epoch)
    assert answer.error_code is code
    assert why in answer.error_message
    assert len(talk.records) == count


def test_groups_that_are_not_there_or_not_served_are_refused() -> None:
    talk = StreamsTalk()
    assert refused(talk.beat("A", 1)) == (
        ErrorCode.group_id_not_found,
        f"Streams group {GROUP} not found.",
    )
    assert refused(talk.beat("A", -1)) == (
        ErrorCode.group_id_not_found,
        f"Group {GROUP} not found.",
    )
    off = StreamsTalk({"group.coordinator.rebalance.protocols": "classic,consumer"})
    assert refused(off.join("A"))[0] is ErrorCode.unsupported_version
    full = StreamsTalk({"group.streams.max.size": "1"})
    full.join("A")
    assert refused(full.join("B")) == (
        ErrorCode.group_max_size_reached,
        "The streams group has reached its maximum capacity of 1 members.",
    )
    assert told(full.join("A"))[0] == 2


def test_the_previous_epoch_is_accepted_if_the_answer_was_lost() -> None:
    talk = StreamsTalk()
    talk.join("A")
    talk.join("B")
    talk.beat("A")
    assert told(talk.owning("A", "0:01")) == (3, None, None)
    assert told(talk.owning("A", "0:01", epoch=2)) == (3, None, None)
    assert talk.beat("A", epoch=2).error_code is ErrorCode.fenced_member_epoch


# --- static members


def test_a_static_member_returns_to_its_tasks() -> None:
    talk = StreamsTalk()
    talk.join("A", instance_id="i")
    talk.join("B")
    epoch = talk.group.epoch
    taken = talk.join("C", instance_id="i")
    assert taken.error_code is ErrorCode.unreleased_instance_id
    talk.beat("A", epoch=-2, instance_id="i")
    assert told(talk.join("D", instance_id="i"))[1] == "0:01"
    assert (talk.group.epoch, talk.group.assignment_epoch) in {
        (epoch, epoch),
        (epoch + 1, epoch + 1),
    }
    assert refused(talk.beat("A", epoch=2, instance_id="i"))[0] is ErrorCode.fenced_instance_id


def test_records_are_those_of_their_schemas() -> None:
    """What is written as bytes is read back by the schemas, and the other way round."""
    talk = StreamsTalk(ONE_STANDBY)
    talk.join("A")
    talk.join("B")
    talk.beat("A")
    talk.owning("A", "0:01")
    talk.beat("B")
    values = talk.written(StreamsGroupCurrentMemberAssignmentKey)
    assert [tuple(each.partitions for each in value.active_tasks) for value in values][-1] == (
        (2,),
    )
    assert values[-1].standby_tasks[0].assignment_epochs == ()
    assert values[2].active_tasks_pending_revocation[0].partitions == (2,)
    last = talk.written(StreamsGroupTargetAssignmentMetadataKey)[-1]
    assert (last.assignment_epoch, last.assignment_timestamp) == (3, talk.now)
