"""Rebalances of classic groups, from two generations: a record has only the result of one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from protocol.groups import shadowed
from protocol.groups.classic.group import NO_GENERATION, ClassicGroup
from protocol.groups.facts import (
    GONE,
    GroupConverted,
    GroupDeleted,
    MemberEvent,
    MemberEventKind,
    RebalanceEnded,
    RebalanceOutcome,
    RebalancePhase,
    RebalanceTrigger,
)
from protocol.watching.gone import LastSigns, conclude
from protocol.watching.outlook import Departed
from protocol.wire.embedded import decode_assignment, decode_subscription

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from protocol.groups.facts import Fact
    from protocol.records import GroupMetadataValue, MemberMetadata
    from protocol.watching.outlook import Outlook

CLASSIC = ClassicGroup.type_name
CONSUMER = "consumer"
COMING_MS = 10_000
"""The way of the first member, which is sent back for its id, and of the leader's assignment."""

GONE_TRIGGERS = {
    MemberEventKind.LEFT: RebalanceTrigger.MEMBER_LEFT,
    MemberEventKind.EXPIRED: RebalanceTrigger.MEMBER_EXPIRED,
}


class _Why(NamedTuple):
    trigger: RebalanceTrigger
    event: MemberEvent | None
    inferred: str


@dataclass(slots=True)
class _Memory:
    """``created_ms``: when a group without members was first written.

    ``taken``: what the last generation took from its owners and gave to nobody. ``is_converted``:
    it has just become a classic group.
    """

    created_ms: int | None = None
    taken: frozenset[tuple[str, int]] = frozenset()
    is_converted: bool = False


class ClassicWatch:
    """Concludes what happened in classic groups."""

    def __init__(self, outlook: Outlook) -> None:
        self._outlook = outlook
        self._memories: dict[str, _Memory] = {}

    def before_replay(
        self, group_id: str, value: GroupMetadataValue | None, time_ms: int
    ) -> Iterator[Fact]:
        """Return what a record says that the core has not replayed yet."""
        group = shadowed.find(self._outlook.ctx, group_id, CLASSIC)
        before = None if group is None or group.metadata is NO_GENERATION else group.metadata
        if value is None:
            yield from self._removed(group_id, before, time_ms)
            return
        memory = self._memories.setdefault(group_id, _Memory())
        departed = self._outlook.departed.pop(group_id, None)
        # The end of a group of another type has another key: it may stay without what followed it.
        follows_end = departed is not None and departed.group_type == CLASSIC
        is_converted = departed is not None and departed.time_ms == time_ms and departed.members
        if is_converted and value.members:
            memory.is_converted = True
            self._hand_over(group_id, NO_GENERATION, value)
            yield GroupConverted(
                group_id=group_id,
                time_ms=time_ms,
                group_type=CLASSIC,
                epoch=value.generation,
                members=len(value.members),
            )
        elif before is None and not value.members:
            memory.created_ms = time_ms if value.generation == 0 else None
        elif before is None and not follows_end and value.generation > 1:
            # Compaction may have left a generation of which nobody knows what it changed.
            self._hand_over(group_id, NO_GENERATION, value)
        elif before is not None and before.generation == value.generation:
            yield from self._replaced(group_id, before, value, time_ms)
        else:
            yield from self._rebalanced(group_id, before or NO_GENERATION, value, time_ms)

    def start_over(self, group_id: str) -> None:
        """Forget what was concluded of a group; its last generation stays."""
        self._memories.pop(group_id, None)

    def _removed(
        self, group_id: str, before: GroupMetadataValue | None, time_ms: int
    ) -> Iterator[Fact]:
        self._memories.pop(group_id, None)
        last = before or NO_GENERATION
        members = frozenset(each.member_id for each in last.members)
        self._outlook.depart(group_id, Departed(CLASSIC, members, time_ms, last.generation))
        if before is not None and not members:
            yield GroupDeleted(group_id=group_id, time_ms=time_ms)

    def _replaced(
        self, group_id: str, before: GroupMetadataValue, after: GroupMetadataValue, time_ms: int
    ) -> Iterator[Fact]:
        """Tell of static members that came back: within a generation nothing else can change."""
        if before.members == after.members:
            return
        for old, new in _same_instance(before, after):
            yield replace(
                _event(group_id, new, MemberEventKind.REPLACED, time_ms),
                previous_member_id=old.member_id,
                changes_nothing=True,
            )

    def _rebalanced(
        self, group_id: str, before: GroupMetadataValue, after: GroupMetadataValue, time_ms: int
    ) -> Iterator[Fact]:
        memory = self._memories[group_id]
        joined_ms = after.current_state_timestamp
        if not 0 < joined_ms <= time_ms:
            joined_ms = time_ms
        began_ms = joined_ms
        longest_ms = max((each.rebalance_timeout for each in after.members), default=0)
        is_initial = memory.created_ms is not None and not before.members
        longest_ms += COMING_MS
        if memory.created_ms is None or joined_ms - memory.created_ms > longest_ms:
            is_initial = False  # nobody waits longer: who had created the group did not come
        else:
            began_ms = min(memory.created_ms, joined_ms)
        events = list(self._events(group_id, before, after, joined_ms))
        why = self._why(group_id, before, after, events)
        yield from events
        event = why.event
        phases = [RebalancePhase("join", began_ms, joined_ms)]
        if after.members:
            phases.append(RebalancePhase("sync", joined_ms, time_ms))
        yield RebalanceEnded(
            group_id=group_id,
            trigger=why.trigger,
            outcome=RebalanceOutcome.STABLE if after.members else RebalanceOutcome.EMPTY,
            member_id="" if event is None else event.member_id,
            group_instance_id=None if event is None else event.group_instance_id,
            client_id="" if event is None else event.client_id,
            client_host="" if event is None else event.client_host,
            reason=None,
            generation_before=before.generation,
            generation_after=after.generation,
            protocol_type=after.protocol_type,
            protocol_name=after.protocol or "",
            leader_id=after.leader or "",
            phases=tuple(phases),
            assignments_before=_assignments(before),
            assignments_after=_assignments(after),
            members_before=before.members,
            members_after=after.members,
            is_initial=is_initial,
            inferred=why.inferred + _between(before.generation, after.generation),
        )
        memory.created_ms, memory.is_converted = None, False
        owned, owns = _owned(before), _owned(after)
        memory.taken = frozenset() if owned is None or owns is None else owned - owns
        self._hand_over(group_id, before, after)

    def _events(
        self, group_id: str, before: GroupMetadataValue, after: GroupMetadataValue, time_ms: int
    ) -> Iterator[MemberEvent]:
        """Return what happened to members between two generations: who came, came back, is gone."""
        had = {each.member_id for each in before.members}
        has = {each.member_id for each in after.members}
        back = _same_instance(before, after)
        returned = {new.member_id for _, new in back} | {old.member_id for old, _ in back}
        for member in before.members:
            if member.member_id not in has and member.member_id not in returned:
                yield self._gone(group_id, member, time_ms)
        for old, new in back:
            event = _event(group_id, new, MemberEventKind.REPLACED, time_ms)
            yield replace(event, previous_member_id=old.member_id)
        for member in after.members:
            if member.member_id not in had and member.member_id not in returned:
                yield _event(group_id, member, MemberEventKind.JOINED, time_ms)

    def _gone(self, group_id: str, member: MemberMetadata, time_ms: int) -> MemberEvent:
        partitions = decode_assignment(member.assignment) or ()
        last = self._outlook.committed.last(group_id, ((*each, 0) for each in partitions))
        silent_ms = None if last.time_ms is None else max(time_ms - last.time_ms, 0)
        signs = LastSigns(
            silent_ms=silent_ms,
            session_ms=member.session_timeout,
            is_assumed=False,
            is_anothers=last.is_anothers,
        )
        kind, inferred = conclude(signs)
        event = _event(group_id, member, kind, time_ms)
        return replace(event, silent_ms=silent_ms, inferred=inferred)

    def _hand_over(
        self, group_id: str, before: GroupMetadataValue, after: GroupMetadataValue
    ) -> None:
        """Note that what members have got was committed by others, if it was in the log by now."""
        had = _assignments(before)
        for name, assignment in _assignments(after).items():
            if assignment and assignment != had.get(name):
                has = decode_assignment(assignment) or ()
                old = decode_assignment(had[name]) if had.get(name) else ()
                self._outlook.committed.hand_over(group_id, {*has}.difference(old or ()))

    def _why(
        self,
        group_id: str,
        before: GroupMetadataValue,
        after: GroupMetadataValue,
        events: Sequence[MemberEvent],
    ) -> _Why:
        memory, generation = self._memories[group_id], after.generation
        joined = [each for each in events if each.kind is MemberEventKind.JOINED]
        back = [each for each in events if each.kind is MemberEventKind.REPLACED]
        gone = [each for each in events if each.kind in GONE]
        if joined:
            others = f" and {len(joined) - 1} more are" if len(joined) > 1 else " is"
            why = f"it{others} new in generation {generation}"
            if gone:
                why += f", {_are(len(gone))} gone"
            return _Why(RebalanceTrigger.MEMBER_JOINED, joined[0], why)
        if gone:
            trigger = GONE_TRIGGERS.get(gone[0].kind, RebalanceTrigger.MEMBER_GONE)
            others = f"; {_are(len(gone) - 1, 'more ')} gone" if len(gone) > 1 else ""
            return _Why(trigger, gone[0], gone[0].inferred + others)
        if memory.is_converted:
            why = "its members joined again for the first time since then"
            return _Why(RebalanceTrigger.DOWNGRADED, None, why)
        changed = _resubscribed(before, after)
        if back:
            trigger = (
                RebalanceTrigger.STATIC_SUBSCRIPTION_CHANGED
                if changed
                else RebalanceTrigger.STATIC_MEMBER_REPLACED
            )
            why = f"its instance id has another member id in generation {generation}"
            return _Why(trigger, back[0], why)
        if changed:
            event = _event(group_id, changed[0], MemberEventKind.REJOINED, 0)
            why = f"its subscription is another one in generation {generation}"
            return _Why(RebalanceTrigger.MEMBER_SUBSCRIBED, event, why)
        return self._without_members(memory, before, after)

    @staticmethod
    def _without_members(
        memory: _Memory, before: GroupMetadataValue, after: GroupMetadataValue
    ) -> _Why:
        """Conclude from assignments: the members and their subscriptions are the same."""
        if before.protocol != after.protocol:
            why = f"the assignor was {before.protocol}, and is {after.protocol} from then on"
            return _Why(RebalanceTrigger.MEMBER_REJOINED, None, why)
        owned, owns = _owned(before), _owned(after)
        if owned is not None and owns is not None:
            if again := owns & memory.taken:
                noun, verb = _partitions(len(again))
                why = f"{noun} that had been taken away {verb} assigned again"
                return _Why(RebalanceTrigger.GAVE_UP, None, why)
            if is_new := owns - owned:
                noun, verb = _partitions(len(is_new))
                why = f"{noun} {verb} assigned that nobody had before"
                return _Why(RebalanceTrigger.TOPICS_CHANGED, None, why)
            if owned - owns and not (owned & owns):
                why = "none of its partitions is assigned any more"
                return _Why(RebalanceTrigger.TOPICS_CHANGED, None, why)
        why = "the members and their subscriptions are those of the generation before"
        return _Why(RebalanceTrigger.NOT_RECORDED, None, why)


def _event(
    group_id: str, member: MemberMetadata, kind: MemberEventKind, time_ms: int
) -> MemberEvent:
    return MemberEvent(
        group_id=group_id,
        time_ms=time_ms,
        kind=kind,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
    )


def _same_instance(
    before: GroupMetadataValue, after: GroupMetadataValue
) -> list[tuple[MemberMetadata, MemberMetadata]]:
    """Return the static members that have another member id: before, after."""
    old = {each.group_instance_id: each for each in before.members if each.group_instance_id}
    return [
        (known, each)
        for each in after.members
        if (known := old.get(each.group_instance_id or "")) and known.member_id != each.member_id
    ]


def _resubscribed(before: GroupMetadataValue, after: GroupMetadataValue) -> list[MemberMetadata]:
    """Return the members that subscribe to other topics than before."""
    if after.protocol_type != CONSUMER:
        return []
    old = {_lasting_name(each): each.subscription for each in before.members}
    return [
        each
        for each in after.members
        if (known := old.get(_lasting_name(each))) is not None
        and known != each.subscription
        and _topics(known) != _topics(each.subscription)
    ]


def _topics(subscription: bytes) -> frozenset[str] | None:
    found = decode_subscription(subscription)
    return None if found is None else frozenset(found.topics)


def _assignments(value: GroupMetadataValue) -> Mapping[str, bytes]:
    return {_lasting_name(each): each.assignment for each in value.members}


def _lasting_name(member: MemberMetadata) -> str:
    return member.group_instance_id or member.member_id


def _owned(value: GroupMetadataValue) -> frozenset[tuple[str, int]] | None:
    """Return all assigned partitions; None if only the members know what they are."""
    found: set[tuple[str, int]] = set()
    for each in value.members:
        partitions: Iterable[tuple[str, int]] | None = ()
        if each.assignment:
            partitions = decode_assignment(each.assignment)
        if partitions is None:
            return None
        found.update(partitions)
    return frozenset(found)


def _between(before: int, after: int) -> str:
    missing = after - before - 1
    if missing <= 0:
        return ""
    noun = "generation " if missing == 1 else "generations "
    return f"; {_are(missing, noun + 'between ')} not in the log"


def _partitions(count: int) -> tuple[str, str]:
    return ("1 partition", "is") if count == 1 else (f"{count} partitions", "are")


def _are(count: int, noun: str = "") -> str:
    return f"{count} {noun}{'is' if count == 1 else 'are'}"
