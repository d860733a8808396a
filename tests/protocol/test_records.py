"""Log records: what goes in comes out, and the bytes are Kafka's."""

from __future__ import annotations

import base64
import json
from dataclasses import fields, is_dataclass, replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol import records
from protocol.record_types.consumer import EMPTY_CLASSIC_METADATA
from protocol.records import (
    RECORD_TYPES,
    BadRecord,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
    RecordType,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareStateBatch,
    ShareTopic,
    ShareTopicPartitions,
    UnknownRecordType,
    decode,
    encode,
    encode_key,
    encode_value,
)
from protocol.wire.convert import unwrap
from protocol.wire.schema import at_version
from protocol.wire.writers import encoder
from tests.counting import calls
from tests.effort import examples
from tests.java_support import run_java
from tests.protocol.wire.strategies import messages

ROWS = list(RECORD_TYPES.values())
MANY = settings(
    max_examples=examples(40),
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TYPES = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.value.__name__)


def kept(row: RecordType, value: Any, version: int) -> Any:
    """Give a value as it reads again when written in ``version``."""
    if row.newest == 0:
        return value
    lost = [each for each in fields(value) if not in_version(each, version)]
    values = {each.name: getattr(value, each.name) for each in fields(value)}
    values.update({each.name: each.default for each in lost})
    if isinstance(value, GroupMetadataValue):
        values["members"] = tuple(
            MemberMetadata(
                **{
                    each.name: getattr(member, each.name)
                    if in_version(each, version)
                    else each.default
                    for each in fields(member)
                }
            )
            for member in value.members
        )
    return type(value)(**values)


def in_version(column: Any, version: int) -> bool:
    since, until = column.metadata["versions"]
    return bool(since <= version <= until)


@TYPES
@MANY
@given(data=st.data())
def test_a_record_reads_as_it_was_written(row: RecordType, data: st.DataObject) -> None:
    record = Record(data.draw(messages(row.key)), data.draw(messages(row.value)))
    key, value = encode(record)
    assert key[:2] == row.number.to_bytes(2, "big")
    assert value is not None
    version = int.from_bytes(value[:2], "big")
    assert decode(key, value) == Record(record.key, kept(row, record.value, version))
    assert (key, value) == (encode_key(record.key), encode_value(record.key, record.value))


@MANY
@given(messages(ConsumerGroupMemberMetadataValue))
def test_what_a_member_says_is_written_as_its_schema_says(
    value: ConsumerGroupMemberMetadataValue,
) -> None:
    written = encode_value(
        ConsumerGroupMemberMetadataKey("g", "m"),
        replace(value, classic_member_metadata=EMPTY_CLASSIC_METADATA),
    )
    plain = encoder(ConsumerGroupMemberMetadataValue)(replace(value, classic_member_metadata=None))
    assert written == b"\0\0" + plain


@TYPES
@given(data=st.data())
@settings(max_examples=examples(5), deadline=None)
def test_a_tombstone_has_a_key_alone(row: RecordType, data: st.DataObject) -> None:
    record = Record(data.draw(messages(row.key)), None)
    key, value = encode(record)
    assert value is None
    assert decode(key, value) == record
    assert hash(record.key) == hash(decode(key, None).key)


@MANY
@given(messages(OffsetCommitKey), messages(OffsetCommitValue))
def test_a_committed_offset_is_written_as_its_schema_says(
    key: OffsetCommitKey, value: OffsetCommitValue
) -> None:
    assert encode_key(key) == b"\0\1" + encoder(OffsetCommitKey)(key)
    for version, expires in ((4, -1), (1, 5)):
        schema = at_version(OffsetCommitValue, version, flexible=version == 4)
        written = replace(value, expire_timestamp=expires)
        plain = encoder(schema)(written)
        assert encode_value(key, written) == version.to_bytes(2, "big") + plain


def test_to_write_a_committed_offset_calls_few_functions() -> None:
    offsets = [
        Record(
            OffsetCommitKey("group", "topic", partition),
            OffsetCommitValue(
                offset=partition, metadata="", commit_timestamp=1, topic_id=UUID(int=7)
            ),
        )
        for partition in range(1_000_000, 1_000_100)
    ]
    encode(offsets[0])

    def write() -> None:
        for offset in offsets[1:]:
            encode(offset)

    assert calls(write) <= 12 * len(offsets)


@MANY
@given(messages(GroupMetadataValue))
def test_a_classic_group_is_written_as_its_schema_says(value: GroupMetadataValue) -> None:
    schema = at_version(GroupMetadataValue, 3, flexible=False)
    for _ in range(2):  # its members' bytes are made once and kept
        assert encode_value(GroupMetadataKey("g"), value) == b"\0\3" + encoder(schema)(value)
    one, *others = value.members or (None,)
    if one is not None:
        changed = replace(value, members=(replace(one, assignment=b"another"), *others))
        assert encode_value(GroupMetadataKey("g"), changed) == b"\0\3" + encoder(schema)(changed)


@MANY
@given(messages(MemberMetadata), messages(MemberMetadata))
def test_a_member_that_was_written_equals_one_that_was_not(
    one: MemberMetadata, other: MemberMetadata
) -> None:
    value = GroupMetadataValue(
        protocol_type="", generation=0, protocol=None, leader=None, members=(one,)
    )
    fresh, differs = replace(one), one == other
    encode_value(GroupMetadataKey("g"), value)
    assert one == fresh
    assert (one == other) is differs


def test_a_group_is_written_in_version_3_as_kafka_does() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer", generation=1, protocol=None, leader=None, members=()
    )
    assert encode_value(GroupMetadataKey("g"), value)[:2] == b"\0\3"  # type: ignore[index]


def test_an_offset_is_written_in_version_4_unless_it_has_an_expiry_time() -> None:
    key = OffsetCommitKey("g", "t", 0)
    plain = OffsetCommitValue(offset=1, metadata="", commit_timestamp=2, topic_id=UUID(int=1))
    expiring = OffsetCommitValue(offset=1, metadata="", commit_timestamp=2, expire_timestamp=3)
    assert encode_value(key, plain)[:2] == b"\0\4"  # type: ignore[index]
    written = encode_value(key, expiring)
    assert written is not None
    assert written[:2] == b"\0\1"
    assert decode(encode_key(key), written).value == expiring


@pytest.mark.parametrize("key", [b"\x00\x09\x00\x01g", b"\x7f\xff", b"\xff\xff\x00\x01g"])
def test_a_key_of_an_unknown_type_is_told_apart_from_a_broken_one(key: bytes) -> None:
    with pytest.raises(UnknownRecordType):
        decode(key, None)


@pytest.mark.parametrize("value", [b"\x00\x05", b"\xff\xff\x00\x00"])
def test_a_value_of_an_unknown_version_is_told_apart_from_a_broken_one(value: bytes) -> None:
    with pytest.raises(UnknownRecordType):
        decode(encode_key(GroupMetadataKey("g")), value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\0", None),
        (b"\0\2\0\5g", None),
        (b"\0\2\0\1g", b"\0"),
        (b"\0\2\0\1g", b"\0\3"),
    ],
)
def test_bytes_that_are_no_record_are_a_bad_record(key: bytes, value: bytes | None) -> None:
    with pytest.raises(BadRecord):
        decode(key, value)


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(ROWS), st.integers(0, 4), st.binary(max_size=60))
def test_garbage_behind_a_records_head_is_a_record_or_bad(
    row: RecordType, version: int, rest: bytes
) -> None:
    try:
        decode(row.number.to_bytes(2, "big") + rest, version.to_bytes(2, "big") + rest)
    except (BadRecord, UnknownRecordType):
        return


# Against Kafka's own classes.


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def to_json(entity: Any) -> Any:
    """Write an entity as Kafka's JSON converters read it."""
    return {
        camel(each.name): json_value(each, getattr(entity, each.name)) for each in fields(entity)
    }


def json_value(column: Any, value: Any) -> Any:
    kind, is_array, _ = unwrap(column)
    if value is None and column.metadata.get("kafka_type") != "uuid":
        return None
    if is_array:
        return [to_json(one) if is_dataclass(kind) else one for one in value]
    if is_dataclass(kind):
        return to_json(value)
    match column.metadata["kafka_type"]:
        case "bytes":
            return base64.b64encode(value).decode()
        case "uuid":
            raw = bytes(16) if value is None else value.bytes
            return base64.urlsafe_b64encode(raw).decode().rstrip("=")
    return value


def some(row: RecordType) -> list[Record]:
    """Draw the same random records of a type at every run."""
    drawn: list[Record] = []

    @MANY
    @given(messages(row.key), messages(row.value))
    def draw(key: Any, value: Any) -> None:
        drawn.append(Record(key, value))

    draw()
    return drawn


def as_kafka_knows_it(record: Record) -> Record:
    """Leave out the field that is ours alone."""
    if hasattr(record.value, "arriving_epoch"):
        return Record(record.key, replace(record.value, arriving_epoch=0))
    return record


def hexed(record: Record) -> str:
    key, value = encode(record)
    return f"{key.hex()} {'-' if value is None else value.hex()}"


@pytest.mark.thorough
def test_kafka_reads_our_records_and_writes_the_same_bytes() -> None:
    records = [record for row in ROWS for record in some(row)]
    records += [Record(record.key, None) for record in records[::10]]
    lines = [hexed(record) for record in records]
    text = "".join("read\t" + line.replace(" ", "\t") + "\n" for line in lines)
    for ours, kafkas in zip(lines, run_java("RecordCheck", text).splitlines(), strict=True):
        assert ours == kafkas


@pytest.mark.thorough
def test_we_read_kafkas_records_of_every_version_and_mean_the_same() -> None:
    cases = [
        (row, version, record)
        for row in ROWS
        for record in map(as_kafka_knows_it, some(row))
        for version in range(row.newest + 1)
    ]
    text = "".join(
        f"write\t{row.number}\t{version}\t{json.dumps(to_json(record.key))}\t"
        f"{json.dumps(to_json(record.value))}\n"
        for row, version, record in cases
    )
    answers = run_java("RecordCheck", text).splitlines()
    assert len(answers) == len(cases)
    for (row, version, record), line in zip(cases, answers, strict=True):
        key, value = (bytes.fromhex(word) for word in line.split())
        assert decode(key, value) == Record(record.key, kept(row, record.value, version))
        assert key == encode_key(record.key)
        assert value == bytes((0, version)) + written_at(row, version, record.value)


def written_at(row: RecordType, version: int, value: Any) -> bytes:
    if row.newest == 0:
        return records._value_writing(row.key, version)[1](value)
    return encoder(at_version(row.value, version, flexible=version >= row.first_flexible))(value)


SHARE_STATE_BATCH = ShareStateBatch(
    first_offset=1, last_offset=2**40, delivery_state=-1, delivery_count=300
)
SHARE_PARTITIONS = ShareTopicPartitions(
    topic_id=UUID(int=7), topic_name="täglich", partitions=tuple(range(200))
)


@pytest.mark.parametrize("batches", [(), (SHARE_STATE_BATCH,), (SHARE_STATE_BATCH,) * 130])
@pytest.mark.parametrize("count", [-1, 0, 2**31 - 1])
def test_share_state_is_the_bytes_that_kio_writes(
    count: int, batches: tuple[ShareStateBatch, ...]
) -> None:
    value = ShareSnapshotValue(
        snapshot_epoch=1,
        state_epoch=-2,
        leader_epoch=3,
        start_offset=-1,
        delivery_complete_count=count,
        create_timestamp=2**41,
        write_timestamp=-1,
        state_batches=batches,
    )
    for topic_id in (None, UUID(int=7)):
        key = ShareSnapshotKey("gröup", topic_id, 2**31 - 1)
        assert encode_key(key)[2:] == encoder(ShareSnapshotKey)(key)
        assert encode_value(key, value) == b"\0\0" + encoder(ShareSnapshotValue)(value)


@pytest.mark.parametrize("names", [(), ("täglich",), ("t",) * 200], ids=len)
@pytest.mark.parametrize("rack_id", [None, "", "räck"])
def test_a_share_members_metadata_is_the_bytes_that_kio_writes(
    rack_id: str | None, names: tuple[str, ...]
) -> None:
    value = ShareGroupMemberMetadataValue(
        rack_id=rack_id, client_id="cliënt", client_host="/1.2.3.4", subscribed_topic_names=names
    )
    written = encode_value(ShareGroupMemberMetadataKey("g", "m"), value)
    assert written == b"\0\0" + encoder(ShareGroupMemberMetadataValue)(value)


@pytest.mark.parametrize("topics", [(), (SHARE_PARTITIONS,), (SHARE_PARTITIONS,) * 130])
def test_partitions_with_share_state_are_the_bytes_that_kio_writes(
    topics: tuple[ShareTopicPartitions, ...],
) -> None:
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=topics,
        initialized_topics=(*topics, replace(SHARE_PARTITIONS, topic_id=None, partitions=())),
        deleting_topics=tuple(
            ShareTopic(topic_id=each.topic_id, topic_name=each.topic_name) for each in topics
        ),
    )
    key = ShareGroupStatePartitionMetadataKey("g")
    written = encoder(ShareGroupStatePartitionMetadataValue)(value)
    assert encode_value(key, value) == b"\0\0" + written
