"""Groups of whatever type, as offsets and the APIs about many groups see them."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.groups.classic import handlers as classic
from protocol.groups.classic import rebuild
from protocol.groups.classic.group import CONSUMER, ClassicGroup
from protocol.groups.consumer import describe as consumer_describe
from protocol.groups.consumer import offsets as consumer_offsets
from protocol.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from protocol.groups.modern import group as modern
from protocol.groups.timers import TimerKind
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import OffsetCommitRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Set

    from protocol.groups.context import Context
    from protocol.groups.effects import Request
    from protocol.groups.timers import TimerKey
    from protocol.groups.topics import Topic

CLASSIC_TYPE: Final = "classic"
CONSUMER_TYPE: Final = "consumer"

SLICE_MEMBERS: Final = 1000
"""Members built per REBUILD timer, give or take the last group of the slice."""


class Shown(NamedTuple):
    """A group from outside: its type, its state, its protocol type."""

    group_type: str
    state: str
    protocol_type: str


def check_commit(ctx: Context, request: Request, now: int) -> Callable[[Topic, int], None] | None:
    """Refuse a commit that the group does not allow; the result asks about each partition."""
    message = request.message
    assert isinstance(message, OffsetCommitRequest)
    group = ctx.groups.get(message.group_id)
    if isinstance(group, ConsumerGroup):
        return consumer_offsets.check_commit(ctx, group, request)
    classic.check_commit(ctx, request, now)
    return None


def check_offset_delete(ctx: Context, group_id: str) -> None:
    """Refuse to delete offsets of no group, or of one whose subscriptions nobody here can read."""
    if not isinstance(ctx.groups.get(group_id), ConsumerGroup):
        classic.check_offset_delete(ctx, group_id)


def has_subscribed(ctx: Context, group_id: str, topic: str) -> bool:
    """Whether a member is subscribed to the topic."""
    group = ctx.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return topic in group.topics
    return classic.has_subscribed(ctx, group_id, topic)


def subscribed_topics(ctx: Context, group_id: str) -> Set[str] | None:
    """Name the topics that the members are subscribed to; None if nobody can tell."""
    group = ctx.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group.topics.keys()
    return classic.subscribed_topics(ctx, group_id)


def shown(ctx: Context, group_id: str) -> Shown | None:
    """Say how a group looks; None if there is no such group."""
    group = ctx.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return Shown(CONSUMER_TYPE, group.state, CONSUMER)
    looks = classic.shown(ctx, group_id)
    return None if looks is None else Shown(CLASSIC_TYPE, looks.state, looks.protocol_type)


def check_delete(ctx: Context, group_id: str) -> None:
    """Refuse to delete a group that is not there or not Empty."""
    looks = shown(ctx, group_id)
    if looks is None:
        raise KafkaError(ErrorCode.group_id_not_found)
    if looks.state != ConsumerGroupState.EMPTY:  # classic groups call it the same
        raise KafkaError(ErrorCode.non_empty_group)


def delete(ctx: Context, group_id: str, now: int) -> None:
    """Delete an Empty group whose offsets are gone."""
    group = ctx.groups[group_id]
    if isinstance(group, ConsumerGroup):
        consumer_describe.delete(ctx, group, now)
    else:
        classic.delete(ctx, group_id, now)


def delete_if_empty(ctx: Context, group_id: str, now: int) -> None:
    """Delete a group that nobody is in or is about to join."""
    group = ctx.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        classic.delete_if_empty(ctx, group_id, now)
    elif isinstance(group, ConsumerGroup) and not group.members:
        consumer_describe.delete(ctx, group, now)


def rebuild_timeout(ctx: Context, _key: TimerKey, now: int) -> None:
    """Build the next slice of groups after an election."""
    built, unbuilt = 0, ctx.unbuilt
    while unbuilt and built < SLICE_MEMBERS:
        part = _Slice()
        has_failed = not ctx.contain(unbuilt[-1], "rebuild", _build, ctx, unbuilt[-1], part, now)
        built += part.members
        if has_failed or part.is_last:
            unbuilt.pop()
    if unbuilt:
        ctx.timers.set(TimerKind.REBUILD, "", "", now)


@dataclass(slots=True)
class _Slice:
    """What was built of a group: how much, and whether nothing of it is left."""

    members: int = 1
    is_last: bool = True


def _build(ctx: Context, group_id: str, built: _Slice, now: int) -> None:
    """Give a group its soft state, or a slice of it."""
    if not isinstance(ctx.groups.get(group_id), ConsumerGroup):
        group = rebuild.find(ctx, group_id, now)
        built.members += 0 if group is None else len(group.members)
        return
    live = modern.find(ctx, group_id, now)
    assert live is not None
    built.members += modern.arm_slice(ctx, live, now)
    built.is_last = not live.unarmed


TIMEOUTS: Final[Mapping[TimerKind, Callable[[Context, TimerKey, int], None]]] = MappingProxyType(
    {TimerKind.REBUILD: rebuild_timeout}
)
