"""Records with tagged fields that only a later version knows are read as without them (KIP-482)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol.groups.modern import assignment_records
from protocol.groups.streams import task_records
from protocol.groups.streams.task_numbers import SubtopologyNumbers
from protocol.groups.topic_numbers import TopicNumbers
from protocol.records import (
    RECORD_TYPES,
    SHARE_STATE_TYPES,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMemberValue,
    RecordType,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupTargetAssignmentMemberValue,
    decode,
    decode_share_state,
)
from protocol.wire.schema import at_version
from protocol.wire.writers import encoder
from tests.effort import examples
from tests.protocol.wire.later import written_later
from tests.protocol.wire.strategies import messages

ROWS = [(row, decode) for row in RECORD_TYPES.values()] + [
    (row, decode_share_state) for row in SHARE_STATE_TYPES.values()
]
MANY = settings(
    max_examples=examples(20),
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
READERS = {
    ConsumerGroupTargetAssignmentMemberValue: (assignment_records.read_target, TopicNumbers),
    ConsumerGroupCurrentMemberAssignmentValue: (assignment_records.read_current, TopicNumbers),
    StreamsGroupTargetAssignmentMemberValue: (task_records.read_target, SubtopologyNumbers),
    StreamsGroupCurrentMemberAssignmentValue: (task_records.read_current, SubtopologyNumbers),
}


@pytest.mark.parametrize("row, read", ROWS, ids=[row.value.__name__ for row, _ in ROWS])
@MANY
@given(data=st.data())
def test_unknown_tagged_fields_are_skipped_in_every_struct(
    row: RecordType, read: Any, data: st.DataObject
) -> None:
    shape = at_version(row.value, row.newest, flexible=True) if row.newest else row.value
    key = row.number.to_bytes(2, "big") + encoder(row.key)(data.draw(messages(row.key)))
    value = data.draw(messages(shape))
    if shape is ConsumerGroupMemberMetadataValue:  # kio cannot write a tagged struct
        value = replace(value, classic_member_metadata=None)
    version = row.newest.to_bytes(2, "big")
    later = version + written_later(value)
    assert later != version + encoder(shape)(value)
    assert read(key, later) == read(key, version + encoder(shape)(value))


@pytest.mark.parametrize("shape", READERS, ids=[shape.__name__ for shape in READERS])
@MANY
@given(data=st.data())
def test_so_they_are_by_the_lean_readers(shape: Any, data: st.DataObject) -> None:
    read, numbers = READERS[shape]
    value = data.draw(messages(shape))
    plain, known = b"\0\0" + encoder(shape)(value), numbers()
    assert read(b"\0\0" + written_later(value), known) == read(plain, known)
