"""A consumer group's hard state: its additions to that of all modern groups (KIP-848).

The members that use the classic protocol, and the assignors and embedded protocols that members ask
for, are counted as records arrive.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from protocol.groups.consumer.records import CODEC
from protocol.groups.modern.form import PARTITIONS
from protocol.groups.modern.hard_state import ModernGroup, ModernGroupMember, decrement
from protocol.groups.modern.kind import ModernConfigs, ModernKind
from protocol.groups.timers import TimerKind
from protocol.records import ConsumerGroupMemberMetadataValue
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.records import ClassicMemberMetadata

KIND: Final = ModernKind(
    keeps_assignments=True,
    configs=ModernConfigs(
        session_timeout="consumer.session.timeout.ms",
        heartbeat_interval="consumer.heartbeat.interval.ms",
        assignment_interval="consumer.assignment.interval.ms",
        offload="consumer.assignor.offload.enable",
        rack_aware="consumer.assignor.rack.aware.enable",
        assignors="group.consumer.assignors",
        max_size="group.consumer.max.size",
        unsettled_interval="group.consumer.unsettled.heartbeat.interval.ms",
        regex_refresh_interval="group.consumer.regex.refresh.interval.ms",
    ),
    codec=CODEC,
    form=PARTITIONS,
    own_member_timers=(TimerKind.MEMBER_JOIN, TimerKind.MEMBER_SYNC),
)


@dataclass(slots=True, eq=False)
class ConsumerGroupMember(ModernGroupMember):
    """A member of either protocol, according to the log."""

    metadata: ConsumerGroupMemberMetadataValue

    @property
    def instance_id(self) -> str | None:
        """The instance id of a static member."""
        return self.metadata.instance_id

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long to wait for it to revoke partitions."""
        return self.metadata.rebalance_timeout_ms

    @property
    def is_classic(self) -> bool:
        """Whether it uses the classic protocol (online migration)."""
        return self.metadata.classic_member_metadata is not None

    @property
    def session_timeout_ms(self) -> int | None:
        """The session timeout that a classic member sent; None for others."""
        classic = self.metadata.classic_member_metadata
        return None if classic is None else classic.session_timeout_ms

    @property
    def revocation_timer(self) -> str:
        """The kind of timer that limits a revocation; a classic member revokes by rejoining."""
        return TimerKind.MEMBER_JOIN if self.is_classic else TimerKind.REVOCATION

    @property
    def stale_epoch(self) -> ErrorCode:
        """The error for an epoch that is not the member's; a classic member's is a generation."""
        return ErrorCode.illegal_generation if self.is_classic else ErrorCode.stale_member_epoch


@dataclass(slots=True, eq=False, repr=False)
class ConsumerGroup(ModernGroup[ConsumerGroupMember]):
    """A group with members of the consumer protocol, of the classic one, or of both.

    ``classic_members`` counts the members that use the classic protocol, ``protocols`` how many of
    them support each embedded protocol.
    """

    type_name: ClassVar[str] = "consumer"
    kind: ClassVar[ModernKind] = KIND
    member_class: ClassVar[type[ConsumerGroupMember]] = ConsumerGroupMember

    classic_members: int = 0
    protocols: Counter[str] = field(default_factory=Counter)

    def subscribed(self, metadata: ConsumerGroupMemberMetadataValue) -> tuple[Iterable[str], str]:
        """Return the topic names and the regular expression that a member subscribes to."""
        return metadata.subscribed_topic_names, metadata.subscribed_topic_regex or ""

    def count(self, member: ConsumerGroupMember, step: int) -> None:
        """Count the assignor of a member, and the protocols that a classic member supports."""
        metadata = member.metadata
        if metadata.server_assignor is not None:
            _count(self.assignors, metadata.server_assignor, step)
        classic = metadata.classic_member_metadata
        if classic is not None:
            self.classic_members += step
            for name in _protocol_names(classic):
                _count(self.protocols, name, step)


def consumer_group_of(runtime: ModernGroupRuntime) -> ConsumerGroup:
    """Return the consumer group that this runtime state belongs to."""
    group = runtime.group
    assert isinstance(group, ConsumerGroup)
    return group


def _count(counts: Counter[str], name: str, step: int) -> None:
    if step > 0:
        counts[name] += 1
    else:
        decrement(counts, name)


def _protocol_names(metadata: ClassicMemberMetadata) -> set[str]:
    return {protocol.name for protocol in metadata.supported_protocols}
