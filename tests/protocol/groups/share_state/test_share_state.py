"""The share coordinator (KIP-932): its requests, its records, what is left after a failover."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import replace
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.delete_share_group_state.v0 import request as delete_request
from kio.schema.initialize_share_group_state.v0 import request as initialize_request
from kio.schema.read_share_group_state.v0 import request as read_request
from kio.schema.read_share_group_state_summary.v1 import request as summary_request
from kio.schema.write_share_group_state.v1 import request as write_request

from failover.routing import partition_for
from protocol.groups.effects import (
    Elected,
    Resigned,
    ShareStateAnswered,
    TimersDue,
    TopicsDeleted,
)
from protocol.groups.share import initialization
from protocol.groups.share_state import parts, requests, store
from protocol.groups.share_state import shard as share_state_shard
from protocol.groups.share_state import state as state_module
from protocol.groups.share_state.batches import combined
from protocol.groups.share_state.keys import SharePartition, parse, partition_of
from protocol.groups.share_state.shard import ShareStateShard
from protocol.groups.topics import Topic, Topics
from protocol.groups.wall import WallClock
from protocol.records import (
    SHARE_STATE_TYPES,
    Record,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareStateBatch,
    ShareUpdateKey,
    decode_share_state,
    encode,
)
from protocol.wire.apis import error_response
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    WriteShareGroupStateResponse,
    WriteSharePartitionResult,
    WriteShareStateResult,
)
from tests.effort import examples
from tests.protocol.groups.conversation import GROUP, topic_id
from tests.protocol.groups.share.share_talk import ShareTalk

A = topic_id("a")
OTHER = "other"


def batch(first: int, last: int, state: int, count: int = 1) -> ShareStateBatch:
    return ShareStateBatch(
        first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
    )


def told(batches: Any) -> list[tuple[int, int, int, int]]:
    return [
        (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in batches
    ]


class StateTalk(ShareTalk):
    """Asks as a broker does, of one partition; the result of it."""

    def one(self, module: Any, name: str, topic: str, version: int, **fields: Any) -> Any:
        group_id = fields.pop("group_id", OTHER)
        partition = module.PartitionData(partition=fields.pop("partition", 0), **fields)
        data = getattr(module, topic)(topic_id=A, partitions=(partition,))
        message = getattr(module, name)(group_id=group_id, topics=(data,))
        return self.ask_share_state(message, version).results[0].partitions[0]

    def initialize(self, start_offset: int = -1, state_epoch: int = 1, **more: Any) -> Any:
        fields = {"state_epoch": state_epoch, "start_offset": start_offset, **more}
        name, topic = "InitializeShareGroupStateRequest", "InitializeStateData"
        return self.one(initialize_request, name, topic, 0, **fields)

    def write(self, *batches: tuple[int, int, int], start_offset: int = -1, **more: Any) -> Any:
        rows = tuple(
            write_request.StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=1
            )
            for first, last, state in batches
        )
        fields = {
            "state_epoch": 1,
            "leader_epoch": -1,
            "delivery_complete_count": 0,
            "start_offset": start_offset,
            "state_batches": rows,
            **more,
        }
        name, topic = "WriteShareGroupStateRequest", "WriteStateData"
        return self.one(write_request, name, topic, 1, **fields)

    def read(self, leader_epoch: int = -1, **more: Any) -> Any:
        name, topic = "ReadShareGroupStateRequest", "ReadStateData"
        return self.one(read_request, name, topic, 0, leader_epoch=leader_epoch, **more)

    def summary(self, **more: Any) -> Any:
        name, topic = "ReadShareGroupStateSummaryRequest", "ReadStateSummaryData"
        return self.one(summary_request, name, topic, 1, leader_epoch=-1, **more)

    def delete_state(self, **more: Any) -> Any:
        name, topic = "DeleteShareGroupStateRequest", "DeleteStateData"
        return self.one(delete_request, name, topic, 0, **more)

    @property
    def states(self) -> Any:
        return self.share_state.context.states

    def change_topics(self, topics: Topics, *, is_told: bool = True) -> None:
        """Let the share coordinator know other topics; tell it, as a leader, that some are gone."""
        self.shard.topics = topics
        self.share_state.show(self.shard.configs, topics)
        if is_told:
            self.share_state.handle(TopicsDeleted(list(topics.deleted)), self.now)
        self.settle_state()

    def settle_state(self) -> None:
        """Run what is due in the share coordinator."""
        while self.share_state.next_deadline() is not None:
            self.records += self.share_state.handle(TimersDue(), self.now).records

    @property
    def state_records(self) -> list[Record]:
        return [each for each in self.records if type(each.key) in SHARE_STATE_TYPES]

    def new_coordinator(self, *, from_compacted: bool = False) -> None:
        """Let another replica lead the share state: it knows the records and nothing else."""
        rows = [encode(record) for record in self.state_records]
        if from_compacted:
            rows = [(key, value) for key, value in sorted(dict(rows).items()) if value is not None]
        self.share_state = ShareStateShard(self.shard.configs, self.shard.topics, WallClock())
        for key, value in rows:
            self.share_state.replay(decode_share_state(key, value))
        self.share_state.handle(Elected(), self.now)


@pytest.fixture
def talk() -> StateTalk:
    return StateTalk()


def test_share_state_is_initialized_written_read_and_deleted(talk: StateTalk) -> None:
    assert talk.initialize(5).error_code is ErrorCode.none
    assert talk.write((5, 9, 2), (12, 14, 0)).error_code is ErrorCode.none
    assert talk.write((10, 12, 2), start_offset=7).error_code is ErrorCode.none
    found = talk.read()
    assert (found.start_offset, found.state_epoch) == (7, 1)
    assert told(found.state_batches) == [(7, 12, 2, 1), (13, 14, 0, 1)]
    assert talk.summary().start_offset == 7
    assert talk.delete_state().error_code is ErrorCode.none
    assert talk.summary().start_offset == -1
    assert talk.delete_state().error_code is ErrorCode.none
    assert not talk.share_state.has_groups


def test_errors_are_kafkas(talk: StateTalk) -> None:
    refused = talk.write((0, 1, 2))
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.invalid_request,
        "Write operation on uninitialized share partition not allowed.",
    )
    refused = talk.read()
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.invalid_request,
        "Read operation on uninitialized share partition not allowed.",
    )
    refused = talk.summary(partition=-1)
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.invalid_request,
        "The partition id cannot be a negative number.",
    )
    assert talk.initialize(partition=4).error_code is ErrorCode.unknown_topic_or_partition
    assert talk.initialize(0, state_epoch=3).error_code is ErrorCode.none
    assert talk.initialize(0, state_epoch=2).error_code is ErrorCode.fenced_state_epoch
    assert talk.write(state_epoch=2).error_code is ErrorCode.fenced_state_epoch
    assert talk.read(leader_epoch=4).error_code is ErrorCode.none
    assert talk.write(state_epoch=3, leader_epoch=3).error_code is ErrorCode.fenced_leader_epoch
    assert talk.read(leader_epoch=3).error_code is ErrorCode.fenced_leader_epoch
    assert talk.summary().leader_epoch == 4
    nothing = write_request.WriteShareGroupStateRequest(group_id="", topics=())
    assert talk.ask_share_state(nothing).results == ()


@pytest.mark.parametrize("limit", [0, 2, 500])
@pytest.mark.parametrize("from_compacted", [False, True])
def test_a_new_leader_has_the_same_share_state(limit: int, *, from_compacted: bool) -> None:
    """An update has all changes since its snapshot: the last record of each key is enough."""
    talk = StateTalk({"share.coordinator.snapshot.update.records.per.snapshot": str(limit)})
    talk.initialize(0)
    for offset in range(0, 30, 3):
        talk.write((offset, offset + 1, 2), start_offset=max(offset - 9, 0))
        talk.read(leader_epoch=offset)
        before = talk.read()
        talk.new_coordinator(from_compacted=from_compacted)
        assert talk.read() == before
    snapshots = [each for each in talk.state_records if isinstance(each.key, ShareSnapshotKey)]
    assert from_compacted or len(snapshots) == {0: 20, 2: 7, 500: 1}[limit]


@pytest.mark.parametrize("limit", [0, 2, 500])
def test_no_update_outlives_its_snapshot(limit: int) -> None:
    """The log keeps the last record of each key: an update that is outdated must not stay there."""
    talk = StateTalk({"share.coordinator.snapshot.update.records.per.snapshot": str(limit)})
    for state_epoch in range(1, 4):
        talk.initialize(0, state_epoch=state_epoch)
        for offset in range(4):
            talk.write((offset, offset, 2), state_epoch=state_epoch)
    talk.initialize(0, state_epoch=4)
    talk.new_coordinator(from_compacted=True)
    assert [each.update for each in talk.states[OTHER].values()] == [None]
    talk.delete_state()
    talk.new_coordinator(from_compacted=True)
    assert talk.states == {}


@pytest.mark.parametrize("hears_of_it", [True, False])
def test_share_state_of_a_deleted_topic_is_removed_also_without_a_group(
    talk: StateTalk, monkeypatch: pytest.MonkeyPatch, *, hears_of_it: bool
) -> None:
    """As in Kafka: the share coordinator removes it, whoever wrote it."""
    monkeypatch.setattr(share_state_shard, "REMOVED_AT_ONCE", 2)
    for number in range(5):
        talk.initialize(5, group_id=f"{OTHER}-{number}")
        talk.write((5, 9, 2), group_id=f"{OTHER}-{number}")
    kept = Topic(topic_id("b"), "b", 2)
    talk.change_topics(Topics([kept]))
    assert len(talk.states) == 5  # not known here is no proof that it was deleted
    if not hears_of_it:
        talk.share_state.handle(Resigned(), talk.now)
    talk.change_topics(Topics([kept], deleted={"a": frozenset({A})}), is_told=hears_of_it)
    if not hears_of_it:
        assert len(talk.states) == 5
        talk.share_state.handle(Elected(), talk.now)
    talk.settle_state()
    assert talk.states == {}
    talk.new_coordinator(from_compacted=True)
    assert not talk.share_state.has_groups


def test_records_have_kafkas_bytes() -> None:
    value = ShareSnapshotValue(
        snapshot_epoch=1,
        state_epoch=2,
        leader_epoch=3,
        start_offset=4,
        delivery_complete_count=5,
        create_timestamp=6,
        write_timestamp=7,
        state_batches=(batch(8, 9, 2, 10),),
    )
    key, written = encode(Record(ShareSnapshotKey("g", A, 1), value))
    assert key == (0).to_bytes(2, "big") + b"\x00\x01g" + A.bytes + (1).to_bytes(4, "big")
    numbers = [(2, 0), (4, 1), (4, 2), (4, 3), (8, 4), (8, 6), (8, 7)]
    head = b"".join(number.to_bytes(size, "big") for size, number in numbers)
    row = b"".join(n.to_bytes(size, "big") for size, n in [(8, 8), (8, 9), (1, 2), (2, 10)])
    tags = b"\x01\x00\x04" + (5).to_bytes(4, "big")
    assert written == head + b"\x02" + row + b"\x00" + tags
    assert encode(Record(ShareUpdateKey("g", A, 1), None))[0][:2] == (1).to_bytes(2, "big")


def test_a_groups_share_state_begins_and_ends_with_it(talk: StateTalk) -> None:
    talk.join("A")
    found = talk.summary(group_id=GROUP, partition=3)
    assert (found.start_offset, found.state_epoch) == (-1, talk.group.epoch - 1)
    assert talk.initialize(7, state_epoch=talk.group.epoch, group_id=GROUP).error_code == 0
    talk.leave("A")
    assert talk.delete(GROUP) == [ErrorCode.none]
    assert talk.states == {}
    talk.failover(from_compacted=True)
    assert not talk.shard.has_groups


def test_much_share_state_is_created_and_then_assigned() -> None:
    talk = StateTalk(topics={"a": 450}, holds_calls=True)
    talk.join("A")
    assert talk.group.state_topics.initialized == {}
    assert len(talk.group.state_topics.initializing[A].partitions) == 450
    talk.answer_calls()
    talk.settle()
    assert len(talk.states[GROUP]) == 450
    assert talk.group.state_topics.initializing == {}
    talk.beat("A")
    assert talk.owned("A") == [450]


def test_very_much_share_state_is_asked_for_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initialization, "ASKED_MAX", 600)
    talk = StateTalk(topics={"a": 1_450, "b": 30, "c": 10}, holds_calls=True)
    talk.join("A", topics=("a", "b", "c"))
    talk.join("B", topics=("a", "b", "c"))
    sizes = []
    while talk.calls:
        (call,) = talk.calls
        sizes.append(sum(len(topic.partitions) for topic in call.request.topics))
        talk.answer_calls(1)
    assert sizes == [600, 600, 290]
    assert talk.group.state_topics.initializing == {}
    assert len(talk.states[GROUP]) == 1_490
    talk.settle()
    talk.beat("A")
    talk.beat("B")
    assert sum(map(sum, map(talk.owned, ("A", "B")))) == 1_490


def test_share_state_that_cannot_be_created_keeps_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(initialization, "ASKED_MAX", 5)
    talk = StateTalk(topics={"a": 5, "b": 5, "c": 5}, holds_calls=True)
    talk.join("A", topics=("a", "b", "c"))
    asked = []
    for _ in range(4):
        call = talk.calls.popleft()
        asked.append({topic.topic_id for topic in call.request.topics})
        answer = error_response(83, call.request, ErrorCode.coordinator_not_available)
        event = ShareStateAnswered(group_id=GROUP, call=call.call, response=answer)
        talk.handle(event)
        talk.advance(5_000)  # a heartbeat interval
    assert set.union(*asked[:3]) == {topic_id(name) for name in "abc"}
    assert asked[0] == asked[3]


@pytest.mark.parametrize("is_done", [False, True])
def test_a_new_leader_asks_for_what_its_predecessor_had_not_heard_of(*, is_done: bool) -> None:
    talk = StateTalk(topics={"a": 450}, holds_calls=True)
    talk.join("A")
    if is_done:
        talk.ask_share_state(talk.calls[0].request)  # the answer is lost
    talk.failover()
    talk.beat("A")
    talk.settle()
    talk.answer_calls()
    talk.settle()
    talk.beat("A")
    assert talk.owned("A") == [450]
    assert len(talk.states[GROUP]) == 450


def test_share_state_of_deleted_topics_is_removed_where_it_is() -> None:
    talk = StateTalk(topics={"a": 700, "b": 1})
    talk.join("A", ("a", "b"))
    assert len(talk.states[GROUP]) == 701
    kept = Topic(topic_id("b"), "b", 1)
    gone = Topics([kept], deleted={"a": frozenset({A})})
    shard = talk.share_state
    shard.show(talk.shard.configs, Topics([kept]))  # only not known here: no proof
    shard.handle(TopicsDeleted(["a"]), talk.now)
    assert shard.next_deadline() is None
    shard.show(talk.shard.configs, gone)
    shard.handle(TopicsDeleted(["a"]), talk.now)
    for left in (201, 1):
        assert shard.next_deadline() == talk.now
        talk.records += shard.handle(TimersDue(), talk.now).records
        assert len(talk.states[GROUP]) == left
    assert shard.next_deadline() is None


def test_what_a_leader_missed_is_removed_by_the_next() -> None:
    talk = StateTalk(topics={"a": 4})
    talk.join("A")
    talk.shard.topics = Topics([], deleted={"a": frozenset({A})})
    talk.new_coordinator()
    talk.share_state.handle(TimersDue(), talk.now)
    assert talk.states == {}


@given(
    st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=3),
    st.uuids(),
    st.integers(0, 99),
    st.integers(1, 50),
)
def test_a_key_names_share_state_and_where_it_is(
    names: list[str], topic: UUID, partition: int, count: int
) -> None:
    share = SharePartition(":".join(["g", *names]), topic if topic.int else None, partition)
    text = urlsafe_b64encode(topic.bytes).decode().rstrip("=")
    key = f"{share.group_id}:{text}:{partition}"
    assert parse(key) == share
    assert partition_of(share, count) == partition_for(key, count)


@pytest.mark.parametrize(
    "key",
    [
        *("", "g", "g:1", "g:AAAAAAAAAAAAAAAAAAAAAQ", "g:AAAAAAAAAAAAAAAAAAAAAQ:", "g:short:1"),
        *(":AAAAAAAAAAAAAAAAAAAAAQ:1", "  :AAAAAAAAAAAAAAAAAAAAAQ:1", "g:AAAAAAAAAAAAAAAAAAAAAQ:x"),
        *("g:AAAAAAAAAAAAAAAAAAAAAQ:2147483648", "g:AAAAAAAAAAAAAAAAAAAAAQAAAAAA:1"),
    ],
)
def test_a_malformed_key_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(key)


BATCHES = st.lists(
    st.tuples(
        st.integers(0, 20), st.integers(0, 6), st.sampled_from([0, 2, 4]), st.integers(1, 3)
    ).map(lambda row: batch(row[0], row[0] + row[1], row[2], row[3])),
    max_size=8,
)


def by_offset(batches: Any, start_offset: int) -> dict[int, tuple[int, int]]:
    """The highest delivery count and state of each offset, one by one."""
    best: dict[int, tuple[int, int]] = {}
    for each in batches:
        for offset in range(max(each.first_offset, start_offset), each.last_offset + 1):
            has = (each.delivery_count, each.delivery_state)
            best[offset] = max(best.get(offset, has), has)
    return best


@settings(max_examples=examples(500))
@given(BATCHES, BATCHES, st.integers(-1, 25))
def test_batches_are_combined_by_the_highest_count_and_state(
    some: Any, more: Any, start_offset: int
) -> None:
    found = combined([*some, *more], start_offset)
    assert by_offset(found, -1) == by_offset([*some, *more], start_offset)
    for one, other in pairwise(told(found)):
        assert one[1] < other[0]
        assert one[1] + 1 < other[0] or one[2:] != other[2:]
    in_steps = combined((*combined(some, -1), *more), start_offset)
    assert in_steps == found


class Work:
    """Counts the batches that are combined."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches = 0
        for module in (store, state_module):
            monkeypatch.setattr(module, "combined", self.combined)

    def combined(self, batches: Any, start_offset: int) -> Any:
        batches = tuple(batches)
        self.batches += len(batches)
        return combined(batches, start_offset)


def often(partition: int, times: int) -> write_request.WriteShareGroupStateRequest:
    """Ask for one batch more, many times, of one partition in one request."""
    row = write_request.StateBatch
    return write_request.WriteShareGroupStateRequest(
        group_id=OTHER,
        topics=(
            write_request.WriteStateData(
                topic_id=A,
                partitions=tuple(
                    write_request.PartitionData(
                        partition=partition,
                        state_epoch=1,
                        leader_epoch=-1,
                        delivery_complete_count=0,
                        start_offset=-1,
                        state_batches=(
                            row(
                                first_offset=3 * at,
                                last_offset=3 * at,
                                delivery_state=0,
                                delivery_count=1,
                            ),
                        ),
                    )
                    for at in range(times)
                ),
            ),
        ),
    )


def test_a_partition_named_again_and_again_costs_bounded_work(
    talk: StateTalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "WORK_MAX", 10_000)
    work = Work(monkeypatch)
    talk.initialize()
    (result,) = talk.ask_share_state(often(0, 1_000), 1).results[0].partitions
    assert result.error_code is ErrorCode.coordinator_load_in_progress
    assert 5_000 < work.batches < 5 * 10_000
    kept = len(talk.read().state_batches)
    assert 100 < kept < 1_000
    assert talk.write((9_000, 9_000, 0)).error_code is ErrorCode.none
    assert len(talk.read().state_batches) == kept + 1


def test_a_partition_named_twice_is_written_twice_and_answered_once(talk: StateTalk) -> None:
    talk.initialize()
    (topic,) = talk.ask_share_state(often(0, 2), 1).results
    assert [each.error_code for each in topic.partitions] == [ErrorCode.none]
    assert told(talk.read().state_batches) == [(0, 0, 0, 1), (3, 3, 0, 1)]


def test_a_topic_named_twice_is_answered_once(talk: StateTalk) -> None:
    talk.initialize()
    message = often(0, 1)
    twice = replace(message, topics=(*message.topics, *message.topics))
    for response in (talk.ask_share_state(twice, 1), merged(twice)):
        (topic,) = response.results
        assert [each.partition for each in topic.partitions] == [0]


def merged(message: Any) -> Any:
    """The merged answer to a request, of which each part names a partition once."""
    row = WriteSharePartitionResult(partition=0, error_code=ErrorCode.none, error_message=None)
    result = WriteShareStateResult(topic_id=A, partitions=(row,))
    answer = WriteShareGroupStateResponse(results=(result,))
    return parts.merge(85, message, [answer, answer])


def test_more_batches_than_a_record_may_hold_are_refused(
    talk: StateTalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BATCHES_MAX", 3)
    talk.initialize()
    far = [(10 * at, 10 * at, 2) for at in range(4)]
    assert talk.write(*far).error_code is ErrorCode.unknown_server_error
    assert talk.write(*far[:3]).error_code is ErrorCode.none
    assert talk.write(far[3]).error_code is ErrorCode.unknown_server_error
    assert told(talk.read().state_batches) == [(at, at, 2, 1) for at in (0, 10, 20)]
    assert talk.write(far[3], start_offset=10).error_code is ErrorCode.none
