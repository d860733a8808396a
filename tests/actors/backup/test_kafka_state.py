"""What the logs of a real Kafka add up to: as Kafka's own loader says, in any number of partitions.

``kafka-4.3.1`` are log directories that a Kafka 4.3.1 wrote for the groups of
``tests/exchange/groups_of_all_types.py``, with a committed and an aborted transaction.
"""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.backup.files import read_partition, verify
from actors.backup.kafka_directories import read_directories
from actors.backup.kafka_state import (
    GroupsState,
    ImportedCluster,
    KafkaPartition,
    ShareGroupsState,
    newest,
    write_import,
)
from actors.backup.restoring import prepare, restore_here
from actors.errors import BadInputError, FailureError
from failover.catalogue.records import TopicKey, TopicValue
from failover.catalogue.records import decode as decode_catalogue
from failover.partition_kinds import GROUPS, SHARE_STATE
from failover.routing import partition_for
from protocol.groups.share_state.batches import combined
from protocol.record_batches import NO_PRODUCER, LogBatch, LogRecord, encode
from protocol.records import (
    ConsumerGroupMemberMetadataKey,
    GroupMetadataKey,
    OffsetCommitKey,
    Record,
    ShareGroupMemberMetadataKey,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareStateBatch,
    ShareUpdateKey,
    ShareUpdateValue,
    StreamsGroupMemberMetadataKey,
    decode,
    decode_share_state,
)
from protocol.records import encode as encode_record
from tests.actors.backup.backups import committed
from tests.actors.coordinator.test_coordinator import Caller, run
from tests.actors.coordinator.test_damaged_logs import Trio, healed
from tests.effort import examples
from tests.failover.apis import asks

KAFKA = Path(__file__).with_name("kafka-4.3.1")
COMMIT, ABORT = b"\x00\x00\x00\x01", b"\x00\x00\x00\x00"
OFFSET_FETCH = 9
OFFSETS = {
    **{("a-classic", "orders", index): 100 * (index // 2) + index for index in range(4)},
    ("a-simple", "orders", 0): 7,
    ("a-simple", "orders", 1): 20,
    ("a-consumer", "orders", 0): 42,
    ("a-streams", "orders", 0): 42,
}
"""Partition 2 in the group ``a-simple`` is not there: its transaction was aborted."""


def said(_sentence: str) -> None:
    raise AssertionError(_sentence)


@pytest.fixture
def cluster() -> ImportedCluster:
    return read_directories([KAFKA], said)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(KAFKA, tmp_path / "copy"))


def records_of(backup: Path, first: int, partitions: int) -> list[list[Record]]:
    manifest = verify(backup)
    read = decode_share_state if first else decode
    return [
        [read(*row) for row in read_partition(backup, manifest.file_of(first + index))]
        for index in range(partitions)
    ]


def offsets_in(records: Iterable[Record]) -> dict[tuple[str, str, int], Any]:
    return {
        (key.group, key.topic, key.partition): record.value.offset  # type: ignore[union-attr]
        for record in records
        if isinstance(key := record.key, OffsetCommitKey)
    }


@pytest.mark.parametrize("partitions", [1, 3, 7])
def test_the_groups_of_a_real_kafka_are_imported(
    cluster: ImportedCluster, tmp_path: Path, partitions: int
) -> None:
    manifest = write_import(cluster, tmp_path / "b", partitions, 3)
    assert manifest.cluster_id == "QUJDREVGR0hJSktMTU5PUA"
    found = records_of(tmp_path / "b", 0, partitions)
    assert offsets_in(record for own in found for record in own) == OFFSETS
    for index, own in enumerate(found):
        groups = {getattr(r.key, "group", getattr(r.key, "group_id", None)) for r in own}
        assert {partition_for(str(group), partitions) for group in groups} <= {index}
    everything: list[Any] = [record for own in found for record in own]
    metadata = (record.value for record in everything if isinstance(record.key, GroupMetadataKey))
    (classic,) = (value for value in metadata if value.members)
    assert sorted(one.group_instance_id for one in classic.members) == ["static-0", "static-1"]
    members = [
        (type(record.key), record.key.member_id)
        for record in everything
        if hasattr(record.key, "member_id") and "MemberMetadataKey" in type(record.key).__name__
    ]
    assert sorted(members, key=str) == sorted(
        [
            (ConsumerGroupMemberMetadataKey, "consumer-member"),
            (ShareGroupMemberMetadataKey, "share-member"),
            (StreamsGroupMemberMetadataKey, "streams-member"),
        ],
        key=str,
    )


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_share_state_of_a_real_kafka_is_imported(
    cluster: ImportedCluster, tmp_path: Path, partitions: int
) -> None:
    write_import(cluster, tmp_path / "b", partitions, 1)
    found = records_of(tmp_path / "b", SHARE_STATE.first, partitions)
    keys = [record.key for own in found for record in own]
    topic_id, _ = cluster.topics["orders"]
    assert sorted(keys, key=str) == [ShareSnapshotKey("a-share", topic_id, i) for i in range(4)]


def test_topics_keep_their_ids_and_partitions(cluster: ImportedCluster, tmp_path: Path) -> None:
    manifest = write_import(cluster, tmp_path / "b", 3, 2)
    found = {}
    for row in read_partition(tmp_path / "b", manifest.file_of(-1)):
        record = decode_catalogue(*row)
        assert isinstance(record.key, TopicKey)
        assert isinstance(record.value, TopicValue)
        found[record.key.name] = (record.value.topic_id, len(record.value.partitions))
        assert all(len(each.nodes) == 2 for each in record.value.partitions)
    expected = dict(cluster.topics)
    del expected["__transaction_state"]
    expected["__share_group_state"] = (expected["__share_group_state"][0], 3)
    assert found == expected
    assert found["orders"] == (UUID("4dd03034-f6b2-47d8-8539-ab83c4cfcc54"), 4)


def test_an_import_is_restored_and_served(cluster: ImportedCluster, tmp_path: Path) -> None:
    async def test() -> None:
        write_import(cluster, tmp_path / "b", 3, 3)
        restoration = prepare(tmp_path / "b", None)
        restore_here(restoration, tmp_path / "data")
        trio = Trio(tmp_path / "data")
        ids = restoration_ids(tmp_path / "data")
        trio.spec = replace(trio.spec, cluster_id=cluster.cluster_id, directories=ids)
        await trio.start()
        try:
            await healed(trio)
            found = {}
            for place in trio.spec.places:
                caller = await Caller.to(place.listener.port)
                for group_id in ("a-classic", "a-simple", "a-consumer", "a-streams"):
                    answer = await caller.ask(OFFSET_FETCH, asks.fetch(group_id))
                    for offsets in asks.offsets_in(answer).values():
                        found |= {(group_id, *at): offset for at, offset in offsets.items()}
                caller.close()
            assert {at: offset for at, offset in found.items() if offset >= 0} == OFFSETS
        finally:
            for each in trio.coordinators:
                await each.stop()

    run(test)


def restoration_ids(directory: Path) -> tuple[str, ...]:
    from actors.cluster.data_dir import open_data_dir

    file = open_data_dir(directory)
    assert file is not None
    return file.directories


# --- directories that are not whole


def test_a_last_batch_that_is_cut_off_is_left_out(copy: Path) -> None:
    path = copy / "__consumer_offsets-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-1])
    notes: list[str] = []
    found = read_directories([copy], notes.append)
    assert len(notes) == 1
    assert str(path) in notes[0]
    whole = read_directories([KAFKA], said)
    assert found.partitions[GROUPS][0].end_offset < whole.partitions[GROUPS][0].end_offset


def _cut_an_earlier_segment(copy: Path) -> None:
    first = copy / "__consumer_offsets-0" / "00000000000000000000.log"
    first.with_name("00000000000000000099.log").write_bytes(b"")
    first.write_bytes(first.read_bytes()[:-1])


def _flip(copy: Path) -> None:
    path = copy / "__consumer_offsets-2" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _remove_a_partition(copy: Path) -> None:
    shutil.rmtree(copy / "__consumer_offsets-1")


def _remove_all(copy: Path) -> None:
    for path in copy.glob("__consumer_offsets-*"):
        shutil.rmtree(path)


def _another_topic_id(copy: Path) -> None:
    shutil.copy(copy / "__consumer_offsets-0" / "partition.metadata", copy / "orders-0")


def _no_directory(copy: Path) -> None:
    shutil.rmtree(copy)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (_cut_an_earlier_segment, "0000.log is damaged: it ends within a batch"),
        (_flip, "is damaged: a batch does not match its checksum"),
        (_remove_a_partition, "__consumer_offsets-1 is in none of the directories"),
        (_remove_all, "There is no __consumer_offsets in"),
        (_another_topic_id, "has another topic id than the other partitions of orders"),
        (_no_directory, "is not a directory"),
    ],
)
def test_directories_that_are_not_whole_are_refused(copy: Path, harm: Any, why: str) -> None:
    harm(copy)
    with pytest.raises((BadInputError, FailureError), match=why):
        read_directories([copy], said)


def test_directories_of_another_cluster_are_refused(copy: Path) -> None:
    (copy / "meta.properties").write_text("cluster.id=another\n")
    with pytest.raises(BadInputError, match="belong to several clusters"):
        read_directories([KAFKA, copy], said)


def test_the_newest_copy_of_a_partition_counts() -> None:
    copies = [
        KafkaPartition(GroupsState(), epoch=1, end_offset=9),
        KafkaPartition(GroupsState(), epoch=2, end_offset=5),
        KafkaPartition(GroupsState(), epoch=2, end_offset=7),
    ]
    assert newest(copies) is copies[2]


# --- transactions


def batch(
    offset: int,
    *rows: tuple[bytes, bytes | None],
    producer_id: int = NO_PRODUCER,
    is_control: bool = False,
) -> LogBatch:
    return LogBatch(
        base_offset=offset,
        end_offset=offset + len(rows),
        leader_epoch=1,
        producer_id=producer_id,
        is_transactional=producer_id != NO_PRODUCER,
        is_control=is_control,
        records=tuple(
            LogRecord(offset=offset + index, key=key, value=value)
            for index, (key, value) in enumerate(rows)
        ),
    )


def marker(offset: int, key: bytes, producer_id: int) -> LogBatch:
    return batch(offset, (key, b""), producer_id=producer_id, is_control=True)


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([batch(0, (b"k", b"1")), batch(1, (b"k", b"2"))], {b"k": b"2"}),
        ([batch(0, (b"k", b"1")), batch(1, (b"k", None))], {}),
        ([batch(0, (b"k", b"1"), producer_id=5)], {}),
        ([batch(0, (b"k", b"1"), producer_id=5), marker(1, COMMIT, 5)], {b"k": b"1"}),
        ([batch(0, (b"k", b"1"), producer_id=5), marker(1, ABORT, 5)], {}),
        ([batch(0, (b"k", b"1"), producer_id=5), marker(1, COMMIT, 6)], {}),
        (
            [batch(0, (b"k", b"1"), producer_id=5), batch(1, (b"k", b"2")), marker(2, COMMIT, 5)],
            {b"k": b"2"},
        ),
        (
            [
                batch(0, (b"k", b"1"), producer_id=5),
                marker(1, ABORT, 5),
                batch(2, (b"l", b"2"), producer_id=5),
                marker(3, COMMIT, 5),
            ],
            {b"l": b"2"},
        ),
    ],
    ids=["later", "deleted", "open", "committed", "aborted", "other's", "overtaken", "two"],
)
def test_records_of_a_transaction_count_once_it_is_committed(
    batches: Sequence[LogBatch], expected: dict[bytes, bytes]
) -> None:
    state = GroupsState()
    for each in batches:
        state.add(each)
    assert state.rows() == expected


def test_a_record_without_a_key_is_refused() -> None:
    nameless = LogRecord(offset=4, key=None, value=b"")
    with pytest.raises(FailureError, match="offset 4 has no key"):
        GroupsState().add(replace(batch(4, (b"", b"")), records=(nameless,)))


# --- share state


state_batches = st.builds(
    ShareStateBatch,
    first_offset=st.integers(0, 20),
    last_offset=st.integers(20, 40),
    delivery_state=st.sampled_from([0, 2, 4]),
    delivery_count=st.integers(1, 5),
)
SHARE_KEY = ("g", UUID(int=1), 0)


@given(st.lists(st.tuples(st.integers(-1, 30), st.lists(state_batches, max_size=3)), max_size=6))
def test_the_updates_of_a_snapshot_are_applied_in_their_order(
    updates: list[tuple[int, list[ShareStateBatch]]],
) -> None:
    value = ShareSnapshotValue(
        snapshot_epoch=3, state_epoch=1, leader_epoch=0, start_offset=0, delivery_complete_count=0,
        create_timestamp=0, write_timestamp=0, state_batches=(),
    )  # fmt: skip
    state = ShareGroupsState()
    state.add(batch(0, encode_record(Record(ShareSnapshotKey(*SHARE_KEY), value))))
    start_offset, found = 0, tuple[ShareStateBatch, ...]()
    for index, (moved, changes) in enumerate(updates):
        update = ShareUpdateValue(
            snapshot_epoch=3, leader_epoch=index, start_offset=moved,
            delivery_complete_count=index, state_batches=tuple(changes),
        )  # fmt: skip
        state.add(batch(index + 1, encode_record(Record(ShareUpdateKey(*SHARE_KEY), update))))
        start_offset = start_offset if moved == -1 else moved
        found = combined((*found, *changes), start_offset)
    outdated = ShareUpdateValue(
        snapshot_epoch=2, leader_epoch=99, start_offset=99, delivery_complete_count=99,
        state_batches=(),
    )  # fmt: skip
    state.add(batch(50, encode_record(Record(ShareUpdateKey(*SHARE_KEY), outdated))))
    ((key, data),) = state.rows().items()
    current = decode_share_state(key, data).value
    assert isinstance(current, ShareSnapshotValue)
    assert (current.start_offset, current.state_batches) == (start_offset, found)
    assert current.delivery_complete_count == max(len(updates) - 1, 0)
    state.add(batch(60, encode_record(Record(ShareSnapshotKey(*SHARE_KEY), None))))
    assert state.rows() == {}


# --- other numbers of partitions


@settings(max_examples=examples(25))  # each writes and syncs files
@given(st.sets(st.text(min_size=1, max_size=8), max_size=20), st.integers(1, 5))
def test_every_record_goes_to_the_partition_of_its_group(
    tmp_path_factory: pytest.TempPathFactory, groups: set[str], partitions: int
) -> None:
    state = GroupsState()
    rows = [committed(group_id, 1) for group_id in sorted(groups)]
    if rows:
        state.add(batch(0, *rows))
    found = ImportedCluster(cluster_id="c", partitions={GROUPS: [KafkaPartition(state)]})
    target = tmp_path_factory.mktemp("import") / "b"
    write_import(found, target, partitions, 1)
    for index, own in enumerate(records_of(target, 0, partitions)):
        assert {group_id for group_id, _, _ in offsets_in(own)} == {
            group_id for group_id in groups if partition_for(group_id, partitions) == index
        }


def test_a_record_of_an_unknown_type_stays_in_its_partition(tmp_path: Path) -> None:
    newer = (b"\x7f\x00key", b"value")
    state = GroupsState()
    state.add(batch(0, newer))
    read = [KafkaPartition(GroupsState()), KafkaPartition(state)]
    found = ImportedCluster(cluster_id="c", partitions={GROUPS: read})
    manifest = write_import(found, tmp_path / "b", 2, 1)
    assert list(read_partition(tmp_path / "b", manifest.file_of(1))) == [newer]
    with pytest.raises(FailureError, match="keep the number of partitions"):
        write_import(found, tmp_path / "c", 3, 1)
    assert not (tmp_path / "c").exists()


def test_segments_are_read_in_the_order_of_their_offsets(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "__consumer_offsets-0"
    path.mkdir(parents=True)
    rows = [committed("g", offset) for offset in (1, 2)]
    for at, row in zip((10, 2), reversed(rows), strict=True):
        data = encode([row], base_offset=at, leader_epoch=4, timestamp_ms=0)
        (path / f"{at:020}.log").write_bytes(data)
    (path / "00000000000000000020.log.deleted").write_bytes(b"rubbish")
    found = read_directories([tmp_path / "logs"], said)
    (partition,) = found.partitions[GROUPS]
    assert partition.state.rows() == dict([rows[1]])
    assert (partition.epoch, partition.end_offset) == (4, 11)
    assert len(found.cluster_id) == 22
