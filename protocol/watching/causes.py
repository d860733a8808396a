"""Why a group that is not classic has a new epoch: what its coordinator wrote with it.

A coordinator writes all records of one change at once, and gives all of them one time. So a change
of a member is the cause of an epoch only if both have the same time. Two things come before it: the
join of a member whose regular expression is resolved later, and the share state of a topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from protocol.groups.facts import TopicsCause
from protocol.groups.streams.group import StreamsGroup
from protocol.groups.topic_numbers import INDEX_MASK, TOPIC_SHIFT
from protocol.watching.memory import Waiting

if TYPE_CHECKING:
    from uuid import UUID

    from protocol.groups.facts import MemberEvent
    from protocol.groups.modern.hard_state import ModernGroup
    from protocol.groups.share.group import ShareGroup
    from protocol.watching.memory import ModernMemory
    from protocol.watching.outlook import Outlook

NOTHING_CHANGED: Final = "neither a member nor the hash of the topics changed"
RECORDS_GONE: Final = "older records of a member are gone"
OTHER_HASH: Final = "their hash is another one, and no member changed"


def note_member(
    group: ModernGroup[Any], memory: ModernMemory, event: MemberEvent, before: Any, after: Any
) -> None:
    """Note an event of a member, with its records' values (``before`` is None if it is new).

    An epoch follows a new subscription: not one by a regular expression that is not resolved yet,
    and none of a member that joins and subscribes to nothing. Of a streams group it always does.
    """
    member_id = event.member_id
    names, regex = group.subscribed(after)
    had: tuple[Any, str] = ((), "") if before is None else group.subscribed(before)
    is_changed = regex != had[1]
    if is_changed:
        memory.waiting.pop(member_id, None)
    if regex and is_changed and regex not in group.regexes:
        memory.waiting[member_id] = Waiting(regex, event)
        is_changed = False
    if is_changed or set(names) != set(had[0]) or group.kind.every_change_bumps:
        memory.candidates.append(event)


def note_regex(
    group: ModernGroup[Any] | None, memory: ModernMemory, regex: str, value: Any
) -> None:
    """Note the matches of a regular expression, which are written again when it is looked at."""
    waited = memory.take_resolved(regex)
    known = None if group is None else group.regexes.get(regex)
    if set(value.topics) != (frozenset() if known is None else known.topics):
        memory.candidates += waited
        memory.hints[TopicsCause.REGEX_RESOLVED] = None


def note_share_state(group: Any, memory: ModernMemory, value: Any) -> None:
    """Note the share state of a group's topics: partitions with it may be assigned."""
    known = {} if group is None else group.state_topics.initialized
    for each in value.initialized_topics:
        had = known.get(each.topic_id)
        if had is None or not had.partitions.issuperset(each.partitions):
            memory.hints[TopicsCause.SHARE_STATE_INITIALIZED] = None


def cause_of(
    outlook: Outlook, group: Any, memory: ModernMemory, value: Any
) -> tuple[MemberEvent | TopicsCause, str]:
    """Return why a group has a new epoch, by what came before its record; and how that is known."""
    if memory.candidates:
        event = memory.candidates[0]
        return event, event.inferred
    for hint in memory.hints:
        if hint is not TopicsCause.SHARE_STATE_INITIALIZED or _awaits_state(outlook, group):
            return hint, ""
    if isinstance(group, StreamsGroup) and not memory.is_unclear:
        own = _of_streams(group, value)
        if own is not None:
            return own, ""
    if group is not None and value.metadata_hash != group.metadata_hash:
        return TopicsCause.TOPICS_CHANGED, OTHER_HASH
    return TopicsCause.NOT_RECORDED, RECORDS_GONE if memory.is_unclear else NOTHING_CHANGED


def _awaits_state(outlook: Outlook, group: ShareGroup | None) -> bool:
    """Whether partitions that members subscribe to have share state, and are not in the target.

    Their coordinator begins an epoch for these alone: a topic that nobody wants any more may have
    got its share state, too.
    """
    if group is None:
        return False
    codec, numbers = group.kind.codec, outlook.ctx.numbers
    assigned: dict[UUID, set[int]] = {}
    for target in group.targets.values():
        for place in codec.read_target(target, numbers):
            topic_id = numbers.uuids[place >> TOPIC_SHIFT]
            assigned.setdefault(topic_id, set()).add(place & INDEX_MASK)
    return any(
        state.name in group.topics and set(state.partitions) != assigned.get(topic_id, set())
        for topic_id, state in group.state_topics.initialized.items()
    )


def _of_streams(group: StreamsGroup, value: Any) -> TopicsCause | None:
    """Return what the record of an epoch has of a streams group's topology and configs."""
    validated, topology = value.validated_topology_epoch, group.topology
    if validated != group.validated_topology_epoch:
        is_ready = topology is not None and validated == topology.epoch
        return TopicsCause.TOPOLOGY_READY if is_ready else TopicsCause.TOPOLOGY_NOT_READY
    configs = {each.key: each.value for each in value.last_assignment_configs or ()}
    return TopicsCause.CONFIGS_CHANGED if configs != group.last_assignment_configs else None
