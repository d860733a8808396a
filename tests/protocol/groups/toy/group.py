"""A toy group's hard state: its records, and the form in which its members get partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from protocol.groups.modern.assignment_records import CurrentAssignment, read_target
from protocol.groups.modern.codec import RecordCodec
from protocol.groups.modern.form import SHARED
from protocol.groups.modern.hard_state import ModernGroup, ModernGroupMember
from protocol.groups.modern.kind import ModernConfigs, ModernKind
from protocol.groups.topic_numbers import TOPIC_SHIFT, by_topic
from protocol.records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TargetTopicPartitions,
    encode_value,
)
from protocol.wire.readers import decoder

CURRENT_KEY = ShareGroupCurrentMemberAssignmentKey("", "")


def write_current(current: CurrentAssignment, numbers: Any, _owned: bytes | None = None) -> bytes:
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=current.member_epoch,
        previous_member_epoch=current.previous_member_epoch,
        state=current.state,
        assigned_partitions=tuple(
            TargetTopicPartitions(topic_id=numbers.uuids[topic], partitions=tuple(indexes))
            for topic, indexes in by_topic(current.assigned)
        ),
    )
    encoded = encode_value(CURRENT_KEY, value)
    assert encoded is not None
    return encoded


def read_current(data: bytes, numbers: Any) -> CurrentAssignment:
    value: Any = decoder(ShareGroupCurrentMemberAssignmentValue)(data, 2)
    assigned = {
        numbers.number(topic.topic_id.bytes) << TOPIC_SHIFT | index: 0
        for topic in value.assigned_partitions
        for index in topic.partitions
    }
    return CurrentAssignment(
        value.member_epoch, value.previous_member_epoch, value.state, assigned, {}
    )


def member_record(client_id: str, host: str, topics: tuple[str, ...]) -> Any:
    return ShareGroupMemberMetadataValue(
        rack_id=None, client_id=client_id, client_host=host, subscribed_topic_names=topics
    )


KIND = ModernKind(
    configs=ModernConfigs(
        session_timeout="share.session.timeout.ms",
        heartbeat_interval="share.heartbeat.interval.ms",
        assignment_interval="share.assignment.interval.ms",
        offload="share.assignor.offload.enable",
        assignors="group.share.assignors",
        max_size="group.share.max.size",
    ),
    form=SHARED,
    codec=RecordCodec(
        epoch_key=ShareGroupMetadataKey,
        epoch=lambda _group, epoch, topics: ShareGroupMetadataValue(
            epoch=epoch, metadata_hash=topics
        ),
        member_key=ShareGroupMemberMetadataKey,
        unknown_member=member_record("", "", ()),
        target_epoch_key=ShareGroupTargetAssignmentMetadataKey,
        target_epoch=lambda epoch, at_ms, arriving: ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=at_ms, arriving_epoch=arriving
        ),
        target_key=ShareGroupTargetAssignmentMemberKey,
        read_target=read_target,
        current_key=ShareGroupCurrentMemberAssignmentKey,
        read_current=read_current,
        write_current=write_current,
        write_owned=lambda _partitions, _numbers: b"",
    ),
)


@dataclass(slots=True, eq=False, repr=False)
class ToyGroup(ModernGroup[ModernGroupMember]):
    """``naps`` counts the records of the one kind that only this type has."""

    type_name: ClassVar[str] = "toy"
    kind: ClassVar[ModernKind] = KIND

    naps: list[int] = field(default_factory=list)
