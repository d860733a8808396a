"""A member of a streams group says what it owns, takes tasks by role, and comes back."""

import random
from datetime import timedelta
from typing import Any

import pytest

from protocol.members.client import BrokerNode, Outgoing, State
from protocol.members.streams import SHUTDOWN_APPLICATION, StreamsMember, StreamsMemberConfig
from protocol.members.topology import copartitioned, internal_topic, subtopology
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import OffsetCommitRequest
from protocol.wire.streams_messages import (
    AssignedTaskIds,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsStatus,
    StreamsTopology,
)
from tests.protocol.members.fleet import Fleet

E = ErrorCode
TOPOLOGY = StreamsTopology(
    epoch=0,
    subtopologies=(
        subtopology("0", ["in"], repartition_sinks=["again"]),
        subtopology(
            "1", repartition_sources=[internal_topic("again")], changelogs=[internal_topic("store")]
        ),
    ),
)
COUNTS = {"in": 3, "again": 3}


def member(**settings: Any) -> StreamsMember:
    config = StreamsMemberConfig(group_id="g", topology=TOPOLOGY, **settings)
    one = StreamsMember(config, random.Random(1), COUNTS)
    one.coordinator = BrokerNode(1, "h", 9)
    return one


def asked(one: StreamsMember, now: int) -> Outgoing:
    [outgoing] = one.poll(now)
    assert isinstance(outgoing.message, StreamsGroupHeartbeatRequest)
    return outgoing


def tasks(*partitions: int, name: str = "0") -> tuple[AssignedTaskIds, ...]:
    return (AssignedTaskIds(subtopology_id=name, partitions=partitions),) if partitions else ()


def heartbeat(one: StreamsMember, now: int, epoch: int = 1, **said: Any) -> Any:
    """Answer the next heartbeat, and return it; ``active`` None: no assignment."""
    outgoing = asked(one, now)
    active = said.get("active")
    response = blank(
        StreamsGroupHeartbeatResponse,
        error_code=said.get("error", E.none),
        member_id=one.member_id,
        member_epoch=epoch,
        heartbeat_interval=timedelta(seconds=5),
        status=said.get("status", ()),
        active_tasks=active,
        standby_tasks=None if active is None else said.get("standby", ()),
        warmup_tasks=None if active is None else said.get("warmup", ()),
        endpoint_information_epoch=said.get("endpoints", 0),
    )
    one.receive(outgoing, response, now)
    return outgoing.message


def test_the_first_heartbeat_tells_everything_and_the_next_ones_only_the_tasks() -> None:
    one = member(rack_id="r", process_id="p", user_endpoint=("h", 7), client_tags=(("zone", "a"),))
    first = heartbeat(one, 0, epoch=2, active=tasks(0, 1), standby=tasks(2, name="1"), endpoints=3)
    assert (first.member_epoch, first.topology, first.rack_id) == (0, TOPOLOGY, "r")
    assert (first.process_id, first.user_endpoint.host, first.user_endpoint.port) == ("p", "h", 7)
    assert [(tag.key, tag.value) for tag in first.client_tags] == [("zone", "a")]
    assert (first.active_tasks, first.standby_tasks, first.warmup_tasks) == ((), (), ())
    assert one.partitions == (("in", 0), ("in", 1))
    confirms = heartbeat(one, 0, epoch=2)
    assert (confirms.member_epoch, confirms.topology, confirms.process_id) == (2, None, None)
    assert [each.partitions for each in confirms.active_tasks] == [(0, 1)]
    assert [each.subtopology_id for each in confirms.standby_tasks] == ["1"]
    assert confirms.warmup_tasks == ()
    assert confirms.endpoint_information_epoch == 3
    assert one.poll(4_999) == []
    quiet = heartbeat(one, 5_000, epoch=2)
    assert (quiet.active_tasks, quiet.standby_tasks, quiet.client_tags) == (None, None, None)


def test_after_a_lost_answer_only_the_tasks_are_told_again() -> None:
    one = member()
    heartbeat(one, 0, epoch=2, active=tasks(0))
    one.lost(asked(one, 0), 0)
    one.coordinator = BrokerNode(1, "h", 9)
    again = heartbeat(one, 1_000, epoch=2)
    assert (again.member_epoch, again.topology) == (2, None)
    assert [each.partitions for each in again.active_tasks] == [(0,)]


def test_a_process_with_one_member_is_named_by_it() -> None:
    one = member()
    assert heartbeat(one, 0).process_id == one.member_id


def test_a_revoked_task_is_given_up_before_it_is_reported() -> None:
    one = member()
    heartbeat(one, 0, epoch=2, active=tasks(0, 1))
    heartbeat(one, 0, epoch=2, active=tasks(1))
    assert one.partitions == (("in", 1),)
    [told] = heartbeat(one, 0, epoch=3).active_tasks
    assert told.partitions == (1,)


@pytest.mark.parametrize(
    ("error", "state", "epoch"),
    [
        (E.fenced_member_epoch, State.UNJOINED, 0),
        (E.unknown_member_id, State.UNJOINED, 0),
        (E.coordinator_load_in_progress, State.STABLE, 2),
        (E.coordinator_not_available, State.STABLE, 2),
        (E.not_coordinator, State.STABLE, 2),
        (E.unreleased_instance_id, State.FAILED, 2),
        (E.topic_authorization_failed, State.STABLE, 2),
        (E.fenced_instance_id, State.FAILED, 2),
        (E.group_authorization_failed, State.FAILED, 2),
        (E.invalid_request, State.FAILED, 2),
        (E.group_max_size_reached, State.FAILED, 2),
        (E.group_id_not_found, State.FAILED, 2),
        (E.streams_invalid_topology, State.FAILED, 2),
        (E.streams_invalid_topology_epoch, State.FAILED, 2),
        (E.streams_topology_fenced, State.FAILED, 2),
        (E.unsupported_version, State.FAILED, 2),
        (E.unknown_server_error, State.FAILED, 2),
    ],
)
def test_each_error_has_its_action(error: ErrorCode, state: State, epoch: int) -> None:
    one = member(instance_id="i")
    heartbeat(one, 0, epoch=2, active=tasks(0))
    heartbeat(one, 0, error=error)
    assert (one.state, one.generation) == (state, epoch)
    assert bool(one.partitions) is (epoch == 2)


def test_a_fenced_member_joins_again_with_its_topology() -> None:
    one = member()
    heartbeat(one, 0, epoch=2, active=tasks(0))
    heartbeat(one, 0, error=E.fenced_member_epoch)
    again = heartbeat(one, 0, epoch=5)
    assert (again.member_epoch, again.member_id) == (0, one.member_id)
    assert (again.topology, again.active_tasks) == (TOPOLOGY, ())


@pytest.mark.parametrize(
    ("instance_id", "for_good", "epoch"), [(None, False, -1), ("i", False, -2), ("i", True, -1)]
)
def test_a_member_leaves(instance_id: str | None, *, for_good: bool, epoch: int) -> None:
    one = member(instance_id=instance_id)
    heartbeat(one, 0, epoch=2)
    one.leave(for_good=for_good)
    leaving = heartbeat(one, 0, epoch=epoch)
    assert (leaving.member_epoch, leaving.instance_id) == (epoch, instance_id)
    assert one.state is State.LEFT


def test_a_member_leaves_when_the_application_is_shut_down() -> None:
    asking, other = member(), member()
    for one in (asking, other):
        heartbeat(one, 0, epoch=2, active=tasks(0))
    asking.shut_down(10)
    assert heartbeat(asking, 10).shutdown_application
    status = StreamsStatus(status_code=SHUTDOWN_APPLICATION, status_detail="why")
    heartbeat(other, 5_000, epoch=2, status=(status,))
    assert other.statuses == ((SHUTDOWN_APPLICATION, "why"),)
    assert heartbeat(other, 5_000, epoch=-1).member_epoch == -1


def test_a_commit_is_for_the_partitions_that_active_tasks_read() -> None:
    one = member()
    heartbeat(one, 0, epoch=2, active=(*tasks(0), *tasks(2, name="1")), standby=tasks(1))
    heartbeat(one, 0, epoch=2)
    assert one.partitions == (("again", 2), ("in", 0))
    one.commit({("in", 0): 5, ("in", 1): 6})
    [outgoing] = one.poll(1)
    assert isinstance(outgoing.message, OffsetCommitRequest)
    [topic] = outgoing.message.topics
    assert [row.partition_index for row in topic.partitions] == [0]


def test_copartition_groups_name_the_topics_by_their_place() -> None:
    each = subtopology("0", ["b", "a"], repartition_sources=[internal_topic("r")])
    [group] = copartitioned(each, ("b", "r")).copartition_groups
    assert (group.source_topics, group.repartition_source_topics) == ((1,), (0,))


def test_members_of_a_streams_group_share_its_tasks() -> None:
    topology = StreamsTopology(epoch=0, subtopologies=(subtopology("0", ["a"]),))
    fleet = Fleet(topics={"a": 5}, is_prompt=True)
    config = StreamsMemberConfig(group_id="g", topology=topology, heartbeat_interval_ms=500)
    for number in range(2):
        fleet.add(f"m{number}", config)
    fleet.run(5)
    assert fleet.shares() == [2, 3]
    fleet.add("late", config)
    fleet.run(5)
    assert fleet.shares() == [1, 2, 2]
    fleet.members["m0"].leave()
    fleet.run(5)
    assert fleet.shares() == [2, 3]
