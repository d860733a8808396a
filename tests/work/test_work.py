"""How much work each headline load makes: counted, so that no clock and no machine decides.

Each number is what the load may cost at most, a little above what it costs. A test that fails here
says that something became dearer: find out what before the number is changed.
"""

import random
from array import array
from itertools import count
from typing import Any
from uuid import UUID

import pytest

from bench.load.joining import GroupPlan, Joiner, heartbeat
from bench.load.kinds import LOAD_KINDS, LoadKind
from bench.load.modern_members import LoadMember, MemberLoad, is_exclusive, is_settled
from bench.report.rounds import latencies
from protocol import record_writers
from protocol.client.frames import frame_of
from protocol.wire.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.work.one_node import OneNode, Work

TOPIC = "work"
MEMBER_BYTES = 210
"""A static member's part of its group's record, with one partition assigned, is not longer."""

STORM_PARTITIONS = 4
"""Of a topic."""

SIZES = [250, 500, pytest.param(1_000, marks=pytest.mark.thorough)]
"""How many members."""


def plan(members: int, *, is_static: bool) -> GroupPlan:
    names = [f"instance-{number:05}" if is_static else None for number in range(members)]
    return GroupPlan(group_id="group", topic=TOPIC, instance_ids=names)


def join(node: OneNode, of: GroupPlan) -> Joiner:
    """Let all members of a plan join at once, each over a connection of its own."""
    joiner = Joiner(of, node.reactor, node.open(len(of.instance_ids)))
    joiner.join_all()
    return joiner


def restarted(
    members: int, request_ms: float, monkeypatch: pytest.MonkeyPatch
) -> tuple[Work, int, int]:
    """Restart all static members of a group; return the work, group records, members written."""
    written: list[Any] = []
    write = record_writers._member
    node = OneNode(request_ms)
    joiner = join(node, plan(members, is_static=True))
    generation, before = joiner.generation, node.records[2]
    with monkeypatch.context() as patch:
        patch.setattr(record_writers, "_member", lambda one: written.append(one) or write(one))
        work = node.measure(lambda: join(node, plan(members, is_static=True)))
    assert generation == 1
    return work, node.records[2] - before, len(written)


@pytest.mark.parametrize("request_ms", [0.05, 0.5])
@pytest.mark.parametrize("members", SIZES)
def test_static_members_that_all_restart_write_their_group_a_few_times_however_many_they_are(
    members: int, request_ms: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, records, written = restarted(members, request_ms, monkeypatch)
    assert records <= 18
    assert written == members, "the bytes of a member that has not changed are not made again"
    assert work.record_bytes <= 18 * members * MEMBER_BYTES
    assert work.batches == work.syncs == work.writes <= 18
    assert work.turns <= 20 + members * 2 * request_ms * 1.1
    assert work.turns >= members * request_ms, "others wait for a short turn only"
    assert work.asked == 2 * members


@pytest.mark.parametrize("members", SIZES)
def test_a_whole_group_that_joins_writes_itself_once(members: int) -> None:
    node = OneNode()
    work = node.measure(lambda: join(node, plan(members, is_static=False)))
    assert node.records[2] == 2, "the empty generation and the one with all"
    assert work.batches == work.syncs == work.writes == 2
    assert work.record_bytes <= members * MEMBER_BYTES + 200
    assert work.asked <= 3 * members
    assert work.answer_bytes <= 400 * members
    assert work.turns <= 10 + 3 * members / 18


def test_heartbeats_that_say_nothing_new_encode_nothing_and_write_nothing() -> None:
    node = OneNode()
    of = plan(100, is_static=False)
    joiner = join(node, of)
    frames = [bytes(frame_of(heartbeat(member))) for member in joiner.members]
    lines = node.open(len(frames))

    def beat(times: int) -> None:
        for _ in range(times):
            for line, frame in zip(lines, frames, strict=True):
                line.send(frame)
            while node.serve_some():
                pass

    beat(1)
    assert node.measure(lambda: beat(5)) == Work(repeated=500)


@pytest.mark.parametrize("group_type", LOAD_KINDS)
def test_steady_heartbeats_of_modern_groups_encode_nothing_and_write_nothing(
    group_type: str,
) -> None:
    kind = LOAD_KINDS[group_type]
    node = OneNode(**{"group.streams.num.standby.replicas": "1"})
    node.create_topics(kind.topics_for(TOPIC), 20)
    lines = node.open(20)
    members = [
        LoadMember("group", f"member-{number:02}", (TOPIC,), line, kind)
        for number, line in enumerate(lines)
    ]
    load = MemberLoad(node.reactor, node.seconds)
    load.add(members)
    load.settle(lambda: is_settled(members, 20))
    assert is_exclusive(members)
    frames = [bytes(member.heartbeat_frame()) for member in members]

    def beat(times: int) -> None:
        for _ in range(times):
            for line, frame in zip(lines, frames, strict=True):
                line.received = lambda _: None
                line.send(frame)
            while node.serve_some():
                pass

    beat(1)
    assert node.measure(lambda: beat(5)) == Work(repeated=100)


def test_commits_that_wait_together_are_one_batch_and_one_sync_a_turn() -> None:
    node = OneNode()
    node.create_topics([TOPIC], 400)
    topic_id = node.host.view.catalog.topics.by_name(TOPIC).topic_id
    before, commits = node.records[1], 400
    lines = node.open(commits)

    def commit() -> None:
        for number, line in enumerate(lines):
            line.send(bytes(frame_of(offset_commit(topic_id, number))))
        while node.serve_some():
            pass

    work = node.measure(commit)
    assert work.asked == node.records[1] - before == commits
    assert work.turns <= commits / 18
    assert work.batches == work.writes == work.syncs == work.turns
    assert work.record_bytes <= 70 * commits
    assert work.answer_bytes <= 40 * commits


def offset_commit(topic_id: UUID, partition: int) -> OffsetCommitRequest:
    row = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=1, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name=TOPIC, topic_id=topic_id, partitions=(row,))
    return OffsetCommitRequest(
        group_id="simple",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=(topic,),
    )


def assert_few_batches(work: Work, most: float) -> None:
    """Check that each batch is one sync; a write besides is the log's own."""
    assert work.batches == work.syncs <= most
    assert work.writes <= work.batches + 1


class Storm:
    """A group whose members subscribe to other topics all the time."""

    def __init__(
        self, members: int, topics: int, request_ms: float, kind: LoadKind = LOAD_KINDS["consumer"]
    ) -> None:
        self._rng = random.Random(1263)
        self.node = OneNode(request_ms, **{"group.share.max.size": "1000"})
        names = [f"storm-{number:03}" for number in range(topics)]
        for name in names:
            self.node.create_topics(kind.topics_for(name), STORM_PARTITIONS)
        self._subscriptions = [
            tuple(sorted(self._rng.sample(names, topics // 10)))
            if kind.changes_topics
            else tuple(names)  # the application of a streams group
            for _ in range(members)
        ]
        self.load = MemberLoad(self.node.reactor, self.node.seconds)
        lines = self.node.open(members)
        self.load.add(
            [
                LoadMember("restless", f"m{number:04}", each, line, kind)
                for number, (each, line) in enumerate(zip(self._subscriptions, lines, strict=True))
            ]
        )
        self.load.run(10)

    def rage(self, seconds: int, changes_per_second: int) -> None:
        """Let members change their subscriptions."""
        begun, made = self.node.seconds(), count(1)
        due = begun

        def change(now: float) -> float:
            nonlocal due
            while due <= now:
                self.load.change(
                    self._rng.choice(self.load.members), self._rng.choice(self._subscriptions)
                )
                due = begun + next(made) / changes_per_second
            return due

        self.load.run(seconds, change)


@pytest.mark.parametrize("members", [100, pytest.param(500, marks=pytest.mark.thorough)])
def test_a_storm_of_changes_costs_each_change_a_few_records_and_lets_it_not_wait(
    members: int,
) -> None:
    storm = Storm(members=members, topics=members // 5, request_ms=2.0)
    storm.rage(7, 40)  # by then it is a lasting unrest
    node, seconds, changes = storm.node, 8, 320
    records_before = node.records.copy()
    storm.load.changes_taken_s = array("d")
    work = node.measure(lambda: storm.rage(seconds, 40))
    records = node.records - records_before
    assert work.runs <= seconds
    heartbeats = members // 4 * seconds
    assert work.asked <= changes * 4 + heartbeats, "changes, acknowledgements, heartbeats"
    assert records[5] <= changes
    assert records[3] <= changes
    assert records[8] <= changes * 3 + heartbeats
    assert records[7] <= changes * 4
    assert work.record_bytes <= 1_000 * changes
    assert_few_batches(work, 3.8 * changes)
    assert work.turns <= work.asked + 3 * work.runs
    taken = latencies(storm.load.changes_taken_s)
    assert taken["p50_ms"] <= 10
    assert taken["p99_ms"] <= 150


@pytest.mark.parametrize("members", [100, pytest.param(500, marks=pytest.mark.thorough)])
def test_a_storm_of_changes_writes_what_changed_in_a_share_group_and_lets_no_change_wait(
    members: int,
) -> None:
    """A member that is told its assignment takes it at once; only changed targets are written."""
    topics = members // 5
    storm = Storm(members, topics, 2.0, LOAD_KINDS["share"])
    node, seconds, changes = storm.node, 8, 320
    joined = node.records.copy()
    assert joined[0] <= topics * STORM_PARTITIONS + 5, "the share state of each, and of the log"
    assert joined[15] <= 2 * topics
    storm.rage(7, 40)  # by then it is a lasting unrest
    before = node.records.copy()
    storm.load.changes_taken_s = array("d")
    work = node.measure(lambda: storm.rage(seconds, 40))
    records = node.records - before
    assert work.runs <= seconds
    heartbeats = members // 4 * seconds
    assert work.asked <= changes * 4 + heartbeats, "changes, new assignments, heartbeats"
    assert records[0] == records[15] == 0, "share state does not change"
    assert records[11] <= changes
    assert records[10] <= changes
    assert records[13] <= work.runs * members / 2
    assert records[14] <= records[13] + changes
    written = records[13] + records[14]
    assert work.record_bytes <= written * (80 + 25 * topics // 10), "a tenth of the topics each"
    assert_few_batches(work, 3.1 * changes)
    assert work.turns <= work.asked + 3 * work.runs
    assert latencies(storm.load.changes_taken_s)["p99_ms"] <= 10


def test_a_storm_of_streams_members_that_are_replaced_writes_what_changed_a_few_times() -> None:
    """Each change is two: a member leaves for good, and another one joins in its place."""
    storm = Storm(100, 25, 2.0, LOAD_KINDS["streams"])
    node, seconds, changes = storm.node, 8, 160
    joined = node.records.copy()
    assert joined[19] == joined[17] == 100
    storm.rage(7, 20)  # by then it is a lasting unrest
    before = node.records.copy()
    storm.load.changes_taken_s = array("d")
    work = node.measure(lambda: storm.rage(seconds, 20))
    records = node.records - before
    assert work.runs <= seconds
    assert records[20] <= seconds
    assert records[19] <= 2 * changes, "a member's, and its tombstone"
    assert records[17] <= 2 * changes
    assert records[21] <= 2 * changes
    assert records[22] <= 6 * changes
    assert work.record_bytes <= 600 * changes
    assert work.asked <= 6.5 * changes, "changes, heartbeats and new assignments"
    assert_few_batches(work, 5.5 * changes)
    assert work.turns <= work.asked + 3 * work.runs
    assert latencies(storm.load.changes_taken_s)["p99_ms"] <= 10
