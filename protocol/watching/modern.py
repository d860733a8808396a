"""Consumer, share and streams groups: what each of their records says has happened.

A coordinator writes the records of one change together and in one order: first the members, then
the group epoch, then the targets and the assignment epoch, then what a member has by now. All of
them have one time. So a change of members that an epoch with its time follows is its cause.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from protocol.groups import shadowed
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
from protocol.groups.modern.hard_state import STATIC_LEAVE_EPOCH
from protocol.groups.modern.reconcile import MemberState
from protocol.groups.share.group import ShareGroup
from protocol.groups.streams.group import StreamsGroup
from protocol.records import ShareGroupStatePartitionMetadataKey
from protocol.watching import causes
from protocol.watching.gone import conclude
from protocol.watching.memory import LOST_EPOCH, EpochChange, Gone, ModernMemory
from protocol.watching.new_target import assigned
from protocol.watching.outlook import Departed
from protocol.watching.settling import settled
from protocol.watching.signs import last_signs, note_gain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from protocol.groups.facts import Fact
    from protocol.groups.modern.hard_state import ModernGroup
    from protocol.watching.outlook import Outlook

CHANGES_MAX: Final = 100
"""Epochs of a group that wait for their target."""


class ModernWatch:
    """Concludes what happened in groups of one type."""

    def __init__(self, outlook: Outlook, group_class: type[ModernGroup[Any]]) -> None:
        self._outlook = outlook
        self._class = group_class
        self._type = group_class.type_name
        self._memories: dict[str, ModernMemory] = {}
        self._open: dict[str, int] = {}
        self._old: dict[str, int] = {}

    def table(self) -> Mapping[type, tuple[Callable[..., Any], Callable[..., Any]]]:
        """Return, by key class, what to do before and after the core replays a record."""
        codec = self._class.kind.codec
        table: dict[type, tuple[Callable[..., Any], Callable[..., Any]]] = {
            codec.member_key: (self._member, _nothing),
            codec.epoch_key: (self._epoch, _nothing),
            codec.target_key: (self._target, _nothing),
            codec.target_epoch_key: (self._target_epoch, self._settle),
            codec.current_key: (self._before_current, self._current),
        }
        if codec.regex_key is not None:
            table[codec.regex_key] = (self._regex, _nothing)
        if self._class is ShareGroup:
            table[ShareGroupStatePartitionMetadataKey] = (self._share_state, _nothing)
        return {key: (self._in_write(before), after) for key, (before, after) in table.items()}

    def flush(self) -> Iterator[Fact]:
        """Tell what waits for more records of its write, if none came since the last call."""
        due, self._old, self._open = self._old, self._open, {}
        for group_id, write_ms in due.items():
            memory = self._memories.get(group_id)
            if memory is None or memory.write_ms != write_ms:
                continue
            try:
                facts = list(self._end_write(group_id, memory))
            except Exception as error:
                self._outlook.troubles.note(group_id, error)
                self.start_over(group_id, write_ms)
            else:
                yield from facts

    def start_over(self, group_id: str, time_ms: int) -> None:
        """Forget what was concluded of a group, as if compaction had removed its older records."""
        if group_id in self._memories:
            self._memories[group_id] = ModernMemory(write_ms=time_ms, epoch=LOST_EPOCH, is_cut=True)

    # --- records that were written at once

    def _in_write(self, take: Callable[..., Iterator[Fact]]) -> Callable[..., Iterator[Fact]]:
        """Return what takes a record, and notes before that whether it is the first of a write."""

        def taken(key: Any, value: Any, time_ms: int) -> Iterator[Fact]:
            if key.group_id in self._old:
                self._open[key.group_id] = self._old.pop(key.group_id)
            memory = self._memories.get(key.group_id)
            if memory is not None and memory.write_ms != time_ms:
                yield from self._end_write(key.group_id, memory)
                memory.write_ms = time_ms
            yield from take(key, value, time_ms)

        return taken

    def _end_write(self, group_id: str, memory: ModernMemory) -> Iterator[Fact]:
        """Tell what no record of the write has told: static members that came back, or went."""
        replaced, memory.replaced = memory.replaced, {}
        yield from replaced.values()
        gone = list(self._gone_events(group_id, memory))
        yield from gone
        memory.end_write(has_gone=bool(gone))

    # --- members

    def _member(self, key: Any, value: Any, time_ms: int) -> Iterator[Fact]:
        group_id, member_id = key.group_id, key.member_id
        group = self._find(group_id)
        known = None if group is None else group.members.get(member_id)
        if value is None:
            if known is not None and group is not None:
                memory = self._memory(group_id, time_ms)
                memory.members[member_id] = known.metadata
                held = memory.held.pop(member_id, known.assignment)
                memory.gone.append(Gone(member_id, known, held, time_ms))
                if not self._outlook.is_silent:
                    self._open[group_id] = time_ms
            elif group_id in self._memories:
                memory = self._memories[group_id]
                memory.is_cut = memory.is_lost = True
            return
        memory = self._memory(group_id, time_ms)
        has_target = group is not None and member_id in group.targets
        if known is None and not has_target:
            yield from self._new(group, memory, key, value, time_ms)
        elif known is None or known.metadata is self._class.kind.codec.unknown_member:
            memory.find_cut(member_id, has_target=has_target)  # it had records before this one
        elif known.metadata != value:
            yield from self._updated(known.metadata, memory, key, value, time_ms)

    def _new(
        self, group: Any, memory: ModernMemory, key: Any, value: Any, time_ms: int
    ) -> Iterator[Fact]:
        departed = self._outlook.departed.get(key.group_id)
        if departed is not None and departed.has(key.member_id, time_ms):
            return  # a member of the group before it changed its type
        known = group or self._class(key.group_id)
        event = self._event(key.group_id, key.member_id, value, MemberEventKind.JOINED, time_ms)
        before = memory.take_instance(event.group_instance_id, key.member_id)
        if before is None and known.static_members.get(event.group_instance_id or ""):
            memory.is_lost = True  # the records of who had its instance id
        if before is not None:
            is_same = _same_topics(known, before.member.metadata, value)
            event = replace(
                event,
                kind=MemberEventKind.REPLACED,
                previous_member_id=before.member_id,
                changes_nothing=is_same,
            )
            if is_same:
                memory.take_over(before.member_id, key.member_id)
        if event.changes_nothing and not self._outlook.is_silent:
            memory.replaced[key.member_id] = event  # its next record may change its topics
            self._open[key.group_id] = time_ms
            return
        yield event
        if not event.changes_nothing:
            had = None if before is None else before.member.metadata
            causes.note_member(known, memory, event, had, value)

    def _updated(
        self, before: Any, memory: ModernMemory, key: Any, value: Any, time_ms: int
    ) -> Iterator[Fact]:
        group = self._find(key.group_id)
        assert group is not None
        is_same = _same_topics(group, before, value)
        kind = MemberEventKind.UPDATED if is_same else MemberEventKind.SUBSCRIBED
        event = self._event(key.group_id, key.member_id, value, kind, time_ms)
        makes_epoch = not is_same or group.kind.every_change_bumps
        if makes_epoch and (replaced := memory.replaced.pop(key.member_id, None)) is not None:
            replaced = replace(replaced, changes_nothing=False)
            if is_same:
                yield replaced  # what it says of itself is the cause
            else:
                event = replaced
        causes.note_member(group, memory, event, before, value)
        yield event

    def _gone_events(self, group_id: str, memory: ModernMemory) -> Iterator[MemberEvent]:
        """Return, once, the events of members whose records went."""
        gone, memory.gone = memory.gone, []
        for each in gone:
            signs = last_signs(self._outlook, group_id, memory, each)
            kind, inferred = conclude(signs)
            event = self._event(group_id, each.member_id, each.member.metadata, kind, each.time_ms)
            yield replace(event, silent_ms=signs.silent_ms, inferred=inferred)
            memory.forget(each.member_id)

    # --- epochs and targets

    def _epoch(self, key: Any, value: Any, time_ms: int) -> Iterator[Fact]:
        group_id = key.group_id
        group = self._find(group_id)
        if value is None:
            yield from self._removed(group_id, group, time_ms)
            return
        memory = self._memory(group_id, time_ms)
        departed = self._outlook.departed.pop(group_id, None)
        if departed is not None and departed.becomes(value.epoch, time_ms):
            memory.converted_epoch = memory.epoch = value.epoch
            memory.end_epoch()  # who waited to join the group of before is a member by now
            yield GroupConverted(
                group_id=group_id,
                time_ms=time_ms,
                group_type=self._type,
                epoch=value.epoch,
                members=0 if group is None else len(group.members),
            )
            return
        yield from memory.replaced.values()
        memory.replaced.clear()
        gone = list(self._gone_events(group_id, memory))
        yield from gone
        memory.candidates += gone
        cause, inferred = causes.cause_of(self._outlook, group, memory, value)
        follows = memory.follows(value.epoch)
        if isinstance(cause, TopicsCause):
            cause = cause if follows else TopicsCause.NOT_RECORDED
            yield TopicsChanged(group_id=group_id, time_ms=time_ms, cause=cause, epoch=value.epoch)
        if not follows:
            memory.is_based = False  # compaction has removed what was changed before
            memory.told_epoch = min(memory.told_epoch, value.epoch - 1)
        elif memory.is_lost:
            memory.is_based = False
        elif not memory.epoch:
            memory.begin(value.epoch)
        memory.epoch = value.epoch
        memory.end_epoch()
        memory.changes[value.epoch] = EpochChange(time_ms, cause, inferred)
        if len(memory.changes) > CHANGES_MAX:
            del memory.changes[min(memory.changes)]
        if group is not None and gone and not group.members:
            yield from self._emptied(group, memory, value.epoch, time_ms)

    def _removed(
        self, group_id: str, group: ModernGroup[Any] | None, time_ms: int
    ) -> Iterator[Fact]:
        memory = self._memories.pop(group_id, None)
        yield from () if memory is None else memory.replaced.values()
        members = frozenset(each.member_id for each in (memory.gone if memory is not None else ()))
        epoch = memory.epoch if memory is not None and members else LOST_EPOCH
        self._outlook.depart(group_id, Departed(self._type, members, time_ms, epoch))
        if group is not None and not members:
            yield GroupDeleted(group_id=group_id, time_ms=time_ms)

    def _regex(self, key: Any, value: Any, time_ms: int) -> Iterator[Fact]:
        if value is not None:
            memory = self._memory(key.group_id, time_ms)
            causes.note_regex(self._find(key.group_id), memory, key.regular_expression, value)
        return iter(())

    def _share_state(self, key: Any, value: Any, time_ms: int) -> Iterator[Fact]:
        if value is not None:
            memory = self._memory(key.group_id, time_ms)
            causes.note_share_state(self._find(key.group_id), memory, value)
        return iter(())

    def _target(self, key: Any, value: bytes | None, time_ms: int) -> Iterator[Fact]:
        group = self._find(key.group_id)
        before = None if group is None else group.targets.get(key.member_id)
        if before == value:
            return iter(())
        memory = self._memory(key.group_id, time_ms)
        if before is not None:
            memory.before.setdefault(key.member_id, before)
        if value is None:
            memory.after.pop(key.member_id, None)
        else:
            memory.after[key.member_id] = value
        return iter(())

    def _target_epoch(self, key: Any, value: Any, time_ms: int) -> Iterator[Fact]:
        group = self._find(key.group_id)
        if value is None or group is None:
            return
        memory, epoch = self._memory(key.group_id, time_ms), value.assignment_epoch
        if value.arriving_epoch and epoch <= memory.told_epoch:
            return  # the records of a target follow: one of ours, which may come in parts
        is_told = epoch == memory.converted_epoch or epoch <= memory.told_epoch
        is_dated = bool(value.assignment_timestamp) or self._class is StreamsGroup
        if is_told or not memory.is_known(is_dated=is_dated) or not memory.answers(epoch):
            memory.pass_over(epoch)
            return
        yield assigned(self._outlook, group, memory, (epoch, time_ms))
        memory.start_over(time_ms)
        memory.told_epoch = epoch

    def _emptied(
        self, group: ModernGroup[Any], memory: ModernMemory, epoch: int, time_ms: int
    ) -> Iterator[Fact]:
        """Tell that the last member is gone: a coordinator writes no target for nobody."""
        if not memory.is_based:
            memory.pass_over(epoch)
            return
        memory.changes = {epoch: memory.changes[epoch]}
        yield assigned(self._outlook, group, memory, (epoch, time_ms))
        yield GroupReconciled(
            group_id=group.group_id, time_ms=time_ms, epoch=epoch, assigned_ms=time_ms, members=0
        )
        memory.start_over(None)
        memory.told_epoch = epoch

    # --- current assignments

    def _before_current(self, key: Any, value: Any, time_ms: int) -> Iterator[Fact]:  # noqa: ARG002
        """Note what a member had, when its records begin to go or it has more from now on."""
        group = self._find(key.group_id)
        member = None if group is None else group.members.get(key.member_id)
        if member is not None:
            held = self._memory(key.group_id, time_ms).held
            held.setdefault(key.member_id, member.assignment)
        return iter(())

    def _current(self, key: Any, value: Any, time_ms: int) -> Iterator[Fact]:
        group = self._find(key.group_id)
        member = None if group is None else group.members.get(key.member_id)
        if value is None or group is None or member is None:
            return
        memory = self._memory(key.group_id, time_ms)
        assignment, member_id = member.assignment, key.member_id
        if assignment.epoch > max(group.assignment_epoch, memory.told_epoch):
            memory.miss(assignment.epoch)
        held = memory.held.pop(member_id, None)
        if memory.converted_epoch != assignment.epoch:
            note_gain(self._outlook, memory, key, (held, member, time_ms))
        if assignment.epoch == STATIC_LEAVE_EPOCH:
            if member_id not in memory.went:
                memory.went[member_id] = time_ms
                kind = MemberEventKind.WENT
                yield self._event(key.group_id, member_id, member.metadata, kind, time_ms)
        else:
            memory.went.pop(member_id, None)
        if assignment.state is MemberState.UNREVOKED_PARTITIONS:
            memory.revoking[member_id] = time_ms  # each such record restarts its timer
        else:
            memory.revoking.pop(member_id, None)
        yield from settled(group, memory, NamedMember(member_id, member.metadata), time_ms)

    def _settle(self, key: Any, value: Any, time_ms: int) -> Iterator[Fact]:
        group = self._find(key.group_id)
        if value is not None and group is not None:
            yield from settled(group, self._memory(key.group_id, time_ms), None, time_ms)

    # --- helpers

    def _find(self, group_id: str) -> ModernGroup[Any] | None:
        found: ModernGroup[Any] | None = shadowed.find(self._outlook.ctx, group_id, self._type)
        return found

    def _memory(self, group_id: str, time_ms: int) -> ModernMemory:
        memory = self._memories.get(group_id)
        if memory is None:
            memory = self._memories[group_id] = ModernMemory(write_ms=time_ms)
        return memory

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


def _same_topics(group: ModernGroup[Any], before: Any, after: Any) -> bool:
    had, has = group.subscribed(before), group.subscribed(after)
    return set(had[0]) == set(has[0]) and had[1] == has[1]


def _nothing(_key: Any, _value: Any, _time_ms: int) -> Iterator[Fact]:
    return iter(())
