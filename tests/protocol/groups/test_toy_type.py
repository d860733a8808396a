"""A group type is a folder and rows: the toy type of docs/how-to/add-a-group-type.md in a shard."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest
from kio.schema.share_group_heartbeat.v1.request import ShareGroupHeartbeatRequest
from kio.schema.share_group_heartbeat.v1.response import ShareGroupHeartbeatResponse
from kio.schema.streams_group_heartbeat.v0.request import StreamsGroupHeartbeatRequest, TaskIds

from protocol.assignors.spec import GroupSpec, SharedAssignment
from protocol.assignors.uniform import UniformAssignor
from protocol.groups.consumer.group import ConsumerGroup
from protocol.groups.dispatch import TableError, merge
from protocol.groups.group_types import EDGES, PARTS
from protocol.groups.modern.form import TaskRole, role_of
from protocol.groups.modern.target_feed import TargetFeed
from protocol.records import decode_for_replay
from protocol.wire import api_makers
from protocol.wire.api import GroupTraits
from protocol.wire.convert import blank
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    OffsetCommitRequest,
)
from tests.failover.apis import asks
from tests.failover.working import beat as consumer_beat
from tests.protocol.groups.conversation import Client, Conversation, image, topic_id
from tests.protocol.groups.toy.group import ToyGroup
from tests.protocol.groups.toy.group_type import DESCRIBE, HEARTBEAT, TOY
from tests.protocol.groups.toy.tasks import TASK_TOY, TaskGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from protocol.groups.dispatch import Tables
    from protocol.groups.group_type import ShardPart

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "add-a-group-type.md"
ALL = frozenset(("t", index) for index in range(3))


def tables_of(toys: Iterable[ShardPart], absent: Set[str]) -> Tables:
    """Return the tables with toy types, without the types whose messages or records they have."""
    others = [part for part in PARTS if part.name not in absent]
    edges = [edge for edge in EDGES if absent.isdisjoint((edge.source, edge.target))]
    return merge((*others, *toys), edges)


TABLES = tables_of((TOY,), absent={"share"})


class Everything:
    """An assignor that gives every member all partitions that it subscribes to."""

    name = "simple"

    def assign(self, spec: GroupSpec) -> SharedAssignment:
        rows = []
        for number in spec.member_class.tolist():
            topics = spec.class_topics[spec.class_starts[number] : spec.class_starts[number + 1]]
            spans = [np.arange(*spec.partition_starts[[each, each + 1]]) for each in topics]
            rows.append(np.concatenate([*spans, np.empty(0, np.int32)]))
        starts = np.cumsum([0, *map(len, rows)]).astype(np.int32)
        return SharedAssignment(starts, np.concatenate(rows).astype(np.int32))


class Tasks:
    """An assignor that gives each task to one member, and its standby to the next one."""

    name = "simple"

    def assign(self, spec: GroupSpec) -> SharedAssignment:
        rows: list[list[int]] = [[] for _ in range(spec.member_count)]
        standbys, tasks, _ = spec.partition_starts.tolist()  # topics are in the order of their ids
        for index in range(tasks - standbys):
            if spec.member_count > 1:
                rows[(index + 1) % spec.member_count].append(standbys + index)
            rows[index % spec.member_count].append(tasks + index)
        flat = [each for row in rows for each in sorted(row)]
        starts = np.cumsum([0, *map(len, rows)]).astype(np.int32)
        return SharedAssignment(starts, np.array(flat, np.int32))


@dataclass
class ToyTalk(Conversation[Client]):
    """A shard that serves toy groups beside the others, and a worker that works at once."""

    tables = TABLES
    read_record = staticmethod(decode_for_replay)

    _: KW_ONLY
    topics: dict[str, int] = field(default_factory=lambda: {"t": 3})
    is_prompt: bool = True

    def beat(self, member_id: str, epoch: int = 0, *topics: str, group_id: str = "g") -> Any:
        message = ShareGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            rack_id=None,
            subscribed_topic_names=topics or None,
        )
        return self.ask(message, 1)


@dataclass
class TaskTalk(ToyTalk):
    """The same with groups whose members get tasks."""

    tables = tables_of((TASK_TOY,), absent={"share", "streams"})

    _: KW_ONLY
    topics: dict[str, int] = field(default_factory=lambda: {"t": 3, "t-standby": 3})

    def beat_owning(self, member_id: str, epoch: int, active: str = "", standby: str = "") -> Any:
        """Heartbeat with the tasks that the member has; each is named by its partition."""
        owned = [
            (TaskIds(subtopology_id="0", partitions=tuple(map(int, indexes))),)
            for indexes in (active, standby)
        ]
        message = blank(
            StreamsGroupHeartbeatRequest,
            group_id="g",
            member_id=member_id,
            member_epoch=epoch,
            active_tasks=owned[0],
            standby_tasks=owned[1],
        )
        answer = self.ask(message, 0)
        tasks = (answer.active_tasks, answer.standby_tasks)
        given = ("".join(map(str, each.partitions)) for (each,) in tasks)
        return answer.member_epoch, *given


def given(answer: Any) -> frozenset[tuple[str, int]]:
    topics = answer.assignment.topic_partitions
    assert all(each.topic_id == topic_id("t") for each in topics)
    return frozenset(("t", index) for each in topics for index in each.partitions)


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> ToyTalk:
    traits = GroupTraits(
        needs_id=True,
        is_believed=False,
        is_leased=False,
        has_few_answers=False,
        changes_memory=True,
        waits_for_members=False,
        too_large=ErrorCode.unknown_server_error,
        writes=lambda message: True,
        weight=10,
    )
    shapes = (ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse)
    row = api_makers.group((1, 1), shapes, api_makers.READ_GROUP, traits)
    from protocol.wire import apis

    monkeypatch.setattr(apis, "API", {**apis.API, HEARTBEAT: row})
    monkeypatch.setattr("protocol.assignors.registry.assignor", lambda name: Everything())
    return ToyTalk()


@pytest.fixture
def task_toys(monkeypatch: pytest.MonkeyPatch) -> TaskTalk:
    monkeypatch.setattr("protocol.assignors.registry.assignor", lambda name: Tasks())
    return TaskTalk()


def test_the_page_names_at_most_three_files_that_there_are() -> None:
    text = HOW_TO.read_text()
    named = set(re.findall(r"`((?:protocol|failover)/[\w/.<>]+)`", text))
    files = {each for each in named if each.endswith(".py")}
    assert len(files) <= 3
    assert all((HOW_TO.parents[2] / each).is_file() for each in files)
    assert len(text.splitlines()) <= 18


def test_the_type_is_a_folder_that_exports_one_value_and_a_row() -> None:
    assert "toy" in TABLES.types
    assert TABLES.handlers.keys() >= {HEARTBEAT, DESCRIBE}
    with pytest.raises(TableError, match="both toy and toy claim the group type toy"):
        tables_of((TOY, TOY), absent={"share"})


def test_several_members_own_a_partition_at_a_time(toys: ToyTalk) -> None:
    joined = toys.beat("A", 0, "t")
    assert (joined.error_code, joined.member_epoch) == (ErrorCode.none, 1)
    first = toys.beat("A", 1)  # its target has been computed meanwhile
    assert (first.member_epoch, given(first)) == (2, ALL)
    joined = toys.beat("B", 0, "t")
    assert given(joined) == frozenset()  # the assignment interval is not over (KIP-1263)
    toys.advance(1_000)
    second = toys.beat("B", joined.member_epoch)
    assert (second.member_epoch, given(second)) == (3, ALL)
    assert toys.beat("A", 2).member_epoch == 3  # nobody had to give anything up
    group = toys.group
    assert (group.state, group.holders) == ("Stable", {})
    owned = [member.assignment.assigned.keys() for member in group.members.values()]
    assert len(owned[0]) == 3
    assert owned[0] == owned[1]


def test_a_new_leader_goes_on_and_a_member_that_is_silent_expires(toys: ToyTalk) -> None:
    toys.beat("A", 0, "t")
    toys.advance(1_000)  # the type's own timer has come due: it writes a record of its own type
    before = len(toys.group.naps)
    assert before == 1
    toys.failover()
    assert len(toys.group.naps) == before
    assert toys.beat("A", 2).error_code is ErrorCode.none
    assert toys.listed() == [("g", "toy", "Stable")]
    toys.advance(46_000)
    assert toys.listed() == [("g", "toy", "Empty")]
    assert [event.kind for event in toys.shard.events("g")][-1] == "expired"
    assert toys.beat("A", 2).error_code is ErrorCode.unknown_member_id


def test_it_is_described_listed_left_and_deleted(toys: ToyTalk) -> None:
    toys.beat("A", 0, "t")
    message = ShareGroupDescribeRequest(group_ids=("g",), include_authorized_operations=False)
    described = toys.ask(message, 1)
    assert [(each.group_id, each.group_epoch) for each in described.groups] == [("g", 2)]
    assert toys.delete("g") == [ErrorCode.non_empty_group]
    assert toys.beat("A", -1).member_epoch == -1
    assert toys.delete("g") == [ErrorCode.none]
    assert toys.context.groups == {}
    toys.failover()
    assert not toys.shard.has_groups  # nothing of it is left in the log


def test_other_types_requests_do_not_take_its_groups(toys: ToyTalk) -> None:
    toys.beat("A", 0, "t")
    join = toys.ask(asks.join("g"), 4)
    assert join.error_code is ErrorCode.inconsistent_group_protocol
    beat = toys.ask(consumer_beat("g", "B"), 1)
    assert beat.error_code is ErrorCode.group_id_not_found
    commit: OffsetCommitRequest = asks.commit("g", 6)
    committed = toys.ask(commit, 8)
    assert committed.topics[0].partitions[0].error_code is ErrorCode.group_id_not_found
    assert toys.beat("A", 1).member_epoch == 2
    assert toys.listed() == [("g", "toy", "Stable")]


def test_an_active_task_goes_from_member_to_member_and_a_standby_waits_for_nobody(
    task_toys: TaskTalk,
) -> None:
    toys = task_toys
    assert toys.beat_owning("A", 0) == (1, "", "")
    assert toys.beat_owning("A", 1) == (2, "012", "")
    assert toys.beat_owning("B", 0) == (2, "", "")
    toys.advance(1_000)
    assert toys.beat_owning("B", 2) == (3, "", "02")  # A has the active task 1 until it says so
    assert toys.beat_owning("A", 2, "012") == (2, "02", "")
    group = toys.group
    assert {member_id: role_of(each) for each, member_id in group.holders.items()} == {
        "A": TaskRole.ACTIVE
    }
    toys.failover()  # a new leader reads the roles of tasks off the log
    assert toys.beat_owning("B", 3, "", "02") == (3, "", "02")
    assert toys.beat_owning("A", 2, "02") == (3, "02", "1")
    assert toys.beat_owning("B", 3, "", "02") == (3, "1", "02")
    group = toys.group
    assert (group.state, len(group.holders)) == ("Stable", 3)


@pytest.mark.parametrize(
    ("group", "is_shared"),
    [(ConsumerGroup("g"), False), (ToyGroup("g"), True), (TaskGroup("g"), True)],
)
def test_a_run_is_told_which_form_its_assignment_must_have(group: Any, is_shared: bool) -> None:
    assert TargetFeed().task(group, image({}), 1, "simple").is_shared is is_shared


def test_a_group_whose_assignor_gives_the_other_form_keeps_its_target(
    toys: ToyTalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    toys.beat("A", 0, "t")
    assert given(toys.beat("A", 1)) == ALL
    monkeypatch.setattr("protocol.assignors.registry.assignor", lambda name: UniformAssignor())
    toys.beat("B", 0, "t")
    toys.advance(1_000)
    assert toys.beat("B", 2).assignment is None
    assert toys.beat("A", 2).member_epoch == 2
    assert toys.listed() == [("g", "toy", "Assigning")]
