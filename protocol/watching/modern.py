"""Consumer, share and streams groups: what each of their records says has happened.

A coordinator writes the records of one change together and in one order: first the members, then
the group epoch, then the targets and the assignment epoch, then what a member has by now. So a
change of members that an epoch follows is its cause.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from protocol.groups import shadowed
from protocol.groups.consumer.group import ConsumerGroup
from protocol.groups.facts import (
    GroupConverted,
    GroupDeleted,
    GroupReconciled,
    MemberEvent,
    MemberEventKind,
    NamedMember,
    TopicsCause,
    TopicsChanged,
)
from protocol.groups.modern.hard_state import STATIC_LEAVE_EPOCH, ModernGroupState
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.share.group import ShareGroup
from protocol.groups.streams.group import StreamsGroup
from protocol.groups.topic_numbers import INDEX_MASK, TOPIC_SHIFT
from protocol.records import (
    ConsumerGroupRegularExpressionKey,
    ShareGroupStatePartitionMetadataKey,
    StreamsGroupTopologyKey,
)
from protocol.watching.gone import LastSigns, conclude
from protocol.watching.memory import EpochChange, Gone, ModernMemory
from protocol.watching.new_target import assigned, cause_of
from protocol.watching.outlook import Departed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from protocol.groups.facts import Fact
    from protocol.groups.modern.hard_state import ModernGroup
    from protocol.watching.outlook import Outlook

CLASSES: Final[tuple[type[ModernGroup[Any]], ...]] = (ConsumerGroup, ShareGroup, StreamsGroup)
SETTLED: Final = (ModernGroupState.STABLE, ModernGroupState.EMPTY)
CHANGES_MAX: Final = 100
"""Epochs of a group that wait for their target."""


class ModernWatch:
    """Concludes what happened in groups of one type."""

    def __init__(self, outlook: Outlook, group_class: type[ModernGroup[Any]]) -> None:
        self._outlook = outlook
        self._class = group_class
        self._type = group_class.type_name
        self._memories: dict[str, ModernMemory] = {}
        self._waiting: dict[str, None] = {}

    def table(self) -> Mapping[type, tuple[Callable[..., Any], Callable[..., Any]]]:
        """Return, by key class, what to do before and after the core replays a record."""
        codec = self._class.kind.codec
        return {
            codec.member_key: (self._member, _nothing),
            codec.epoch_key: (self._epoch, _nothing),
            codec.target_key: (self._target, _nothing),
            codec.target_epoch_key: (self._target_epoch, self._settle),
            codec.current_key: (self._before_current, self._current),
        }

    def hint(self, key: Any, time_ms: int) -> None:
        """Note a record that may be the cause of the next epoch."""
        memory = self._memory(key.group_id)
        memory.hints.setdefault(type(key), time_ms)

    def flush(self) -> Iterator[Fact]:
        """Tell of members whose records went and that no epoch followed."""
        waiting, self._waiting = self._waiting, {}
        for group_id in waiting:
            memory = self._memories.get(group_id)
            if memory is not None and group_id not in self._outlook.departed:
                yield from self._gone_events(group_id, memory)

    # --- members

    def _member(self, key: Any, value: Any, time_ms: int) -> Iterator[Fact]:
        group_id, member_id = key.group_id, key.member_id
        group = self._find(group_id)
        known = None if group is None else group.members.get(member_id)
        memory = self._memory(group_id)
        if value is None:
            if known is not None:
                memory.members[member_id] = known.metadata
                held = memory.held.pop(member_id, known.assignment)
                memory.gone.append(Gone(member_id, known, held, time_ms))
                self._waiting[group_id] = None
            return
        if known is None or known.metadata is self._class.kind.codec.unknown_member:
            yield from self._new(group, memory, key, value, time_ms)
        elif known.metadata != value:
            yield from self._updated(known.metadata, memory, key, value, time_ms)

    def _new(
        self, group: Any, memory: ModernMemory, key: Any, value: Any, time_ms: int
    ) -> Iterator[Fact]:
        departed = self._outlook.departed.get(key.group_id)
        if departed is not None and key.member_id in departed.members:
            return  # a member of the group before it changed its type
        event = self._event(key.group_id, key.member_id, value, MemberEventKind.JOINED, time_ms)
        before = memory.take_instance(event.group_instance_id)
        if before is not None:
            is_same = group is not None and self._same_topics(group, before.member.metadata, value)
            event = replace(
                event,
                kind=MemberEventKind.REPLACED,
                previous_member_id=before.member_id,
                changes_nothing=is_same,
            )
            if is_same:
                memory.take_over(before.member_id, key.member_id)
        yield event
        if not event.changes_nothing:
            memory.candidates.append(event)

    def _updated(
        self, before: Any, memory: ModernMemory, key: Any, value: Any, time_ms: int
    ) -> Iterator[Fact]:
        group = self._find(key.group_id)
        assert group is not None
        kind = MemberEventKind.SUBSCRIBED
        if self._same_topics(group, before, value):
            kind = MemberEventKind.UPDATED
        event = self._event(key.group_id, key.member_id, value, kind, time_ms)
        memory.candidates.append(event)
        yield event

    def _gone_events(self, group_id: str, memory: ModernMemory) -> Iterator[MemberEvent]:
        """Return, once, the events of members whose records went."""
        gone, memory.gone = memory.gone, []
        for each in gone:
            signs = self._signs(group_id, memory, each)
            kind, inferred = conclude(signs)
            event = self._event(group_id, each.member_id, each.member.metadata, kind, each.time_ms)
            yield replace(event, silent_ms=signs.silent_ms, inferred=inferred)
            memory.went.pop(each.member_id, None)
            memory.revoking.pop(each.member_id, None)

    def _signs(self, group_id: str, memory: ModernMemory, gone: Gone) -> LastSigns:
        session_ms = gone.member.session_timeout_ms
        last_ms = self._outlook.committed.last_ms(group_id, self._partitions(gone))
        revoking_ms, went_ms = memory.revoking.get(gone.member_id), memory.went.get(gone.member_id)
        now = gone.time_ms
        return LastSigns(
            silent_ms=None if last_ms is None else max(now - last_ms, 0),
            session_ms=self._outlook.session_timeout_ms if session_ms is None else session_ms,
            is_assumed=session_ms is None,
            revoking_ms=None if revoking_ms is None else now - revoking_ms,
            rebalance_ms=gone.member.rebalance_timeout_ms,
            away_ms=None if went_ms is None else now - went_ms,
        )

    def _partitions(self, gone: Gone) -> Iterator[tuple[str, int]]:
        """Return the partitions that a member had, where they have offsets that it committed."""
        if self._class is not ConsumerGroup:
            return
        numbers, topics = self._outlook.ctx.numbers, self._outlook.topics
        for places in (gone.held.assigned, gone.held.revoking):
            for place in places:
                topic = topics.by_id(numbers.uuids[place >> TOPIC_SHIFT])
                if topic is not None:
                    yield topic.name, place & INDEX_MASK

    # --- epochs and targets

    def _epoch(self, key: Any, value: Any, time_ms: int) -> Iterator[Fact]:
        group_id = key.group_id
        group, memory = self._find(group_id), self._memory(group_id)
        if value is None:
            del self._memories[group_id]
            if memory.gone:
                members = frozenset(each.member_id for each in memory.gone)
                self._outlook.depart(group_id, Departed(self._type, members))
            elif group is not None:
                yield GroupDeleted(group_id=group_id, time_ms=time_ms)
            return
        if self._outlook.departed.pop(group_id, None) is not None:
            memory.converted_epoch = value.epoch
            memory.candidates.clear()  # who waited to join the group of before is a member by now
            memory.hints.clear()
            yield GroupConverted(
                group_id=group_id,
                time_ms=time_ms,
                group_type=self._type,
                epoch=value.epoch,
                members=0 if group is None else len(group.members),
            )
            return
        gone = list(self._gone_events(group_id, memory))
        yield from gone
        memory.candidates += gone
        cause, inferred = cause_of(group, memory, value)
        if isinstance(cause, TopicsCause):
            yield TopicsChanged(group_id=group_id, time_ms=time_ms, cause=cause, epoch=value.epoch)
        memory.candidates.clear()
        memory.hints.clear()
        memory.changes[value.epoch] = EpochChange(time_ms, cause, inferred)
        if len(memory.changes) > CHANGES_MAX:
            del memory.changes[min(memory.changes)]
        if group is not None and gone and not group.members:
            yield from self._emptied(group, memory, value.epoch, time_ms)

    def _target(self, key: Any, value: bytes | None, time_ms: int) -> Iterator[Fact]:  # noqa: ARG002
        group, memory = self._find(key.group_id), self._memory(key.group_id)
        before = None if group is None else group.targets.get(key.member_id)
        if before == value:
            return iter(())
        if before is not None:
            memory.before.setdefault(key.member_id, before)
        if value is None:
            memory.after.pop(key.member_id, None)
        else:
            memory.after[key.member_id] = value
        return iter(())

    def _target_epoch(self, key: Any, value: Any, time_ms: int) -> Iterator[Fact]:
        group, memory = self._find(key.group_id), self._memory(key.group_id)
        if value is None or group is None:
            return
        epoch = value.assignment_epoch
        is_told = epoch < memory.told_epoch or (epoch == memory.told_epoch and not group.members)
        if memory.converted_epoch == epoch or is_told:
            memory.take_changes(epoch)
            memory.start_over(None)
            memory.told_epoch = max(epoch, memory.told_epoch)
            return
        yield assigned(self._outlook, group, memory, (epoch, time_ms))
        memory.start_over(time_ms)
        memory.told_epoch = epoch

    def _emptied(
        self, group: ModernGroup[Any], memory: ModernMemory, epoch: int, time_ms: int
    ) -> Iterator[Fact]:
        """Tell that the last member is gone: a coordinator writes no target for nobody."""
        memory.changes = {epoch: memory.changes[epoch]}
        yield assigned(self._outlook, group, memory, (epoch, time_ms))
        yield GroupReconciled(
            group_id=group.group_id, time_ms=time_ms, epoch=epoch, assigned_ms=time_ms, members=0
        )
        memory.start_over(None)
        memory.told_epoch = epoch

    # --- current assignments

    def _before_current(self, key: Any, value: Any, time_ms: int) -> Iterator[Fact]:  # noqa: ARG002
        """Note what a member had, when its records begin to go."""
        if value is None:
            group = self._find(key.group_id)
            member = None if group is None else group.members.get(key.member_id)
            if member is not None:
                self._memory(key.group_id).held[key.member_id] = member.assignment
        return iter(())

    def _current(self, key: Any, value: Any, time_ms: int) -> Iterator[Fact]:
        group, memory = self._find(key.group_id), self._memory(key.group_id)
        member = None if group is None else group.members.get(key.member_id)
        if value is None or group is None or member is None:
            return
        assignment, member_id = member.assignment, key.member_id
        memory.held.pop(member_id, None)
        if assignment.epoch == STATIC_LEAVE_EPOCH:
            if member_id not in memory.went:
                memory.went[member_id] = time_ms
                kind = MemberEventKind.WENT
                yield self._event(key.group_id, member_id, member.metadata, kind, time_ms)
        else:
            memory.went.pop(member_id, None)
        if assignment.state is MemberState.UNREVOKED_PARTITIONS:
            memory.revoking.setdefault(member_id, time_ms)
        else:
            memory.revoking.pop(member_id, None)
        yield from self._settled(group, memory, NamedMember(member_id, member.metadata), time_ms)

    def _settle(self, key: Any, value: Any, time_ms: int) -> Iterator[Fact]:
        group = self._find(key.group_id)
        if value is not None and group is not None:
            yield from self._settled(group, self._memory(key.group_id), None, time_ms)

    @staticmethod
    def _settled(
        group: ModernGroup[Any], memory: ModernMemory, last: NamedMember | None, time_ms: int
    ) -> Iterator[Fact]:
        """Report once that every member has its target, or that no member is left."""
        if memory.assigned_ms is None or group.state not in SETTLED:
            return
        assigned_ms, memory.assigned_ms = memory.assigned_ms, None
        yield GroupReconciled(
            group_id=group.group_id,
            time_ms=time_ms,
            epoch=group.assignment_epoch,
            assigned_ms=assigned_ms,
            members=len(group.members),
            last=last,
        )

    # --- helpers

    def _find(self, group_id: str) -> ModernGroup[Any] | None:
        found: ModernGroup[Any] | None = shadowed.find(self._outlook.ctx, group_id, self._type)
        return found

    def _memory(self, group_id: str) -> ModernMemory:
        memory = self._memories.get(group_id)
        if memory is None:
            memory = self._memories[group_id] = ModernMemory()
        return memory

    def _same_topics(self, group: ModernGroup[Any], before: Any, after: Any) -> bool:
        had, has = group.subscribed(before), group.subscribed(after)
        return set(had[0]) == set(has[0]) and had[1] == has[1]

    @staticmethod
    def _event(
        group_id: str, member_id: str, metadata: Any, kind: MemberEventKind, time_ms: int
    ) -> MemberEvent:
        return MemberEvent(
            group_id=group_id,
            time_ms=time_ms,
            kind=kind,
            member_id=member_id,
            group_instance_id=getattr(metadata, "instance_id", None),
            client_id=metadata.client_id,
            client_host=metadata.client_host,
        )


def _nothing(_key: Any, _value: Any, _time_ms: int) -> Iterator[Fact]:
    return iter(())


OTHER_KEYS: Final[Mapping[type, str]] = MappingProxyType(
    {
        ConsumerGroupRegularExpressionKey: ConsumerGroup.type_name,
        ShareGroupStatePartitionMetadataKey: ShareGroup.type_name,
        StreamsGroupTopologyKey: StreamsGroup.type_name,
    }
)
"""Records that only one type has, and that may be the cause of an epoch."""
