"""A share group's hard state: its additions to that of all modern groups (KIP-932)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from protocol.groups.modern.form import SHARED
from protocol.groups.modern.hard_state import ModernGroup, ModernGroupMember, ModernGroupState
from protocol.groups.modern.kind import ModernConfigs, ModernKind
from protocol.groups.share.records import CODEC
from protocol.groups.share.soft_state import InitializationState
from protocol.groups.share.state_topics import StateTopics
from protocol.groups.timers import TimerKind
from protocol.records import ShareGroupStatePartitionMetadataKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from kio.static.protocol import Entity

    from protocol.groups.modern.runtime import ModernGroupRuntime
    from protocol.groups.topic_numbers import Partition, TopicNumbers
    from protocol.groups.topics import Topic
    from protocol.records import ShareGroupMemberMetadataValue

KIND: Final = ModernKind(
    has_static_members=False,
    configs=ModernConfigs(
        session_timeout="share.session.timeout.ms",
        heartbeat_interval="share.heartbeat.interval.ms",
        assignment_interval="share.assignment.interval.ms",
        offload="share.assignor.offload.enable",
        assignors="group.share.assignors",
        max_size="group.share.max.size",
    ),
    codec=CODEC,
    form=SHARED,
    own_group_timers=(TimerKind.SHARE_STATE,),
    bumps_upon_heartbeat=True,
    soft_state=InitializationState,
)


@dataclass(slots=True, eq=False)
class ShareGroupMember(ModernGroupMember):
    """A member according to the log; share groups have no static members."""

    metadata: ShareGroupMemberMetadataValue


@dataclass(slots=True, eq=False, repr=False)
class ShareGroup(ModernGroup[ShareGroupMember]):
    """``state_topics`` are the topics whose share state exists, is created or is deleted."""

    type_name: ClassVar[str] = "share"
    kind: ClassVar[ModernKind] = KIND
    member_class: ClassVar[type[ShareGroupMember]] = ShareGroupMember

    state_topics: StateTopics = field(default_factory=StateTopics)

    @property
    def described_state(self) -> str:
        """The state that clients are told: a share group with members is Stable, as in Kafka."""
        return ModernGroupState.STABLE if self.members else ModernGroupState.EMPTY

    def own_keys(self, group_id: str) -> Iterable[Entity]:
        """Return the key of the topics whose share state exists."""
        return (ShareGroupStatePartitionMetadataKey(group_id=group_id),)

    def own_values(self) -> tuple[object, ...]:
        """Return the share state."""
        return (self.state_topics,)

    def assignable(self, topic: Topic) -> tuple[int, ...] | None:
        """Return the partitions whose share state is initialized; None: all of them."""
        state = self.state_topics.initialized.get(topic.topic_id)
        if state is None:
            return ()
        if len(state.partitions) == topic.partitions:
            return None
        return tuple(sorted(each for each in state.partitions if each < topic.partitions))

    def without_unavailable(self, target: Set[Partition], numbers: TopicNumbers) -> Set[Partition]:
        """Leave out partitions whose share state was deleted since the target was computed."""
        return self.state_topics.having(target, numbers)


def share_group_of(runtime: ModernGroupRuntime) -> ShareGroup:
    """Return the share group that this runtime state belongs to."""
    group = runtime.group
    assert isinstance(group, ShareGroup)
    return group
