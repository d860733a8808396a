"""What a streams group allows with committed offsets, by member epoch (KIP-1071).

A commit in the member's current epoch is accepted. One of an earlier epoch is accepted for the
sources of active tasks that the member has had since then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups.group_type import OffsetPolicy
from protocol.groups.modern import offsets as modern
from protocol.groups.modern.form import TaskRole
from protocol.groups.streams.group import StreamsGroup
from protocol.groups.streams.task_numbers import places
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import OffsetCommitRequest

if TYPE_CHECKING:
    from collections.abc import Set

    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.group_type import CommitCheck
    from protocol.groups.streams.group import StreamsGroupMember
    from protocol.groups.topics import Topic


def check_commit(ctx: Context, request: Request, _now: int) -> CommitCheck | None:
    """Refuse a commit that the member's epoch does not allow.

    Return the check still to be made for each partition; None: no check.
    """
    message = request.message
    assert isinstance(message, OffsetCommitRequest)
    group = _group(ctx, message.group_id)
    epoch = message.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return None  # from an administrator, or a consumer without a group
    member = group.member(message.member_id)
    if request.api_version < modern.EPOCHS_SINCE:
        sentence = "OffsetCommit version 9 or above must be used by members of streams groups."
        raise KafkaError(ErrorCode.unsupported_version, sentence)
    known = member.assignment.epoch
    if epoch == known:
        return None
    if epoch > known or group.topology is None:
        raise KafkaError(ErrorCode.stale_member_epoch)
    return _since(group, member, epoch)


def _since(group: StreamsGroup, member: StreamsGroupMember, epoch: int) -> CommitCheck:
    topology, assignment = group.topology, member.assignment
    assert topology is not None

    def check(topic: Topic, index: int) -> None:
        subtopology_id = topology.readers.get(topic.name)
        number = None if subtopology_id is None else group.numbers.known(subtopology_id)
        since = None
        if number is not None:
            (place,) = places(TaskRole.ACTIVE, number, (index,))
            since = assignment.assigned.get(place, assignment.revoking.get(place))
        if since is None or epoch < since:
            raise KafkaError(ErrorCode.stale_member_epoch)

    return check


def _subscribed_topics(ctx: Context, group_id: str) -> Set[str]:
    """Return the sources of the topology; of a group without members none, so offsets expire."""
    group = _group(ctx, group_id)
    if not group.members or group.topology is None:
        return frozenset()
    return group.topology.readers.keys()


def _is_subscribed(ctx: Context, group_id: str, topic: str) -> bool:
    return topic in _subscribed_topics(ctx, group_id)


def _group(ctx: Context, group_id: str) -> StreamsGroup:
    group = ctx.groups[group_id]
    assert isinstance(group, StreamsGroup)
    return group


POLICY: Final = OffsetPolicy(
    check_commit=check_commit,
    check_fetch=modern.check_fetch,
    check_delete=modern.check_delete,
    subscribed_topics=_subscribed_topics,
    is_subscribed=_is_subscribed,
    retention_start=modern.retention_start,
)
