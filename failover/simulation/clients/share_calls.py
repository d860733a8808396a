"""Calls about share groups: members that come and go, offsets, share state.

Only these calls use the *share* groups. A member that joins keeps no state here: it joins again
under the same id, heartbeats with an epoch that may be right, and leaves.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from protocol.wire import apis
from protocol.wire import messages as m
from protocol.wire.convert import blank

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from kio.static.protocol import Entity

IN_USE, OFFSETS_ONLY = SHARE_GROUPS = ("share-0", "share-1")
"""A group with members, and one whose offsets are altered and deleted."""

TOPIC: Final = "spare-topic-0"
"""What most calls are about: each call needs what others have made."""

MEMBERS: Final = ("first", "second", "third")
JOINS: Final = 0.8
LEAVES: Final = 0.1
EPOCHS: Final = 40

FETCH, ACKNOWLEDGE = 78, 79
INITIALIZE, READ, WRITE, DELETE, SUMMARIZE = range(83, 88)


class ShareCaller(Protocol):
    """What these calls need of the callers."""

    rng: random.Random

    def topic(self) -> str:
        """Return a random topic, most often one that exists."""

    def index(self) -> int:
        """Return a random partition."""

    def topic_id(self, name: str) -> Any:
        """Return the id of a topic, None if it is not known."""


def _topic(caller: ShareCaller) -> str:
    return TOPIC if caller.rng.random() < 0.8 else caller.topic()


def heartbeat(caller: ShareCaller) -> Entity:
    """Join, heartbeat or leave."""
    rng = caller.rng
    is_joining, is_leaving = rng.random() < JOINS, rng.random() < LEAVES
    epoch = 0 if is_joining else -1 if is_leaving else rng.randint(1, EPOCHS)
    return m.ShareGroupHeartbeatRequest(
        group_id=IN_USE,
        member_id=rng.choice(MEMBERS),
        member_epoch=epoch,
        rack_id=None,
        subscribed_topic_names=(TOPIC, caller.topic()) if is_joining else None,
    )


def describe(_caller: ShareCaller) -> Entity:
    """Describe share groups."""
    return m.ShareGroupDescribeRequest(group_ids=SHARE_GROUPS, include_authorized_operations=False)


def describe_offsets(caller: ShareCaller) -> Entity:
    """Describe all offsets of a share group."""
    group_id = caller.rng.choice(SHARE_GROUPS)
    group = m.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
    return m.DescribeShareGroupOffsetsRequest(groups=(group,))


def _part(request: type[Entity], field: str, **values: object) -> Any:
    """Build an element of an array of a request: all its fields, by the name of the array."""
    (kind,) = [each for each in request.__dataclass_fields__.values() if each.name == field]
    return blank(kind.type.__args__[0], **values)  # type: ignore[union-attr]


def alter_offsets(caller: ShareCaller) -> Entity:
    """Alter one offset of a share group."""
    request = m.AlterShareGroupOffsetsRequest
    topic = _part(request, "topics")
    row = _part(type(topic), "partitions", partition_index=caller.index(), start_offset=7)
    named = _part(request, "topics", topic_name=_topic(caller), partitions=(row,))
    return request(group_id=OFFSETS_ONLY, topics=(named,))


def delete_offsets(caller: ShareCaller) -> Entity:
    """Delete the offsets of a topic."""
    request = m.DeleteShareGroupOffsetsRequest
    topic = _part(request, "topics", topic_name=_topic(caller))
    return request(group_id=OFFSETS_ONLY, topics=(topic,))


def fetch(caller: ShareCaller) -> Entity:
    """Fetch from one partition as a member."""
    return _of_session(caller, apis.API[FETCH].request, max_wait=timedelta(milliseconds=100))


def acknowledge(caller: ShareCaller) -> Entity:
    """Close the share session of a member."""
    return _of_session(caller, apis.API[ACKNOWLEDGE].request)


def _of_session(caller: ShareCaller, request: Any, **values: object) -> Entity:
    topic_id = caller.topic_id(_topic(caller))
    row = _part(type(_part(request, "topics")), "partitions", partition_index=caller.index())
    topic = _part(request, "topics", topic_id=topic_id, partitions=(row,))
    given = {"group_id": IN_USE, "member_id": caller.rng.choice(MEMBERS), "topics": (topic,)}
    message: Entity = blank(request, **given, share_session_epoch=-1, **values)
    return message


def _state(key: int) -> Callable[[ShareCaller], Entity]:
    """Return a call of the share coordinator about one partition."""

    def call(caller: ShareCaller) -> Entity:
        request: Any = apis.API[key].request
        topic_kind = type(_part(request, "topics"))
        row = _part(topic_kind, "partitions", partition=caller.index())
        unchecked = {"state_epoch", "leader_epoch"} & row.__dataclass_fields__.keys()
        row = replace(row, **dict.fromkeys(sorted(unchecked), -1))
        topic_id = caller.topic_id(_topic(caller))
        named = _part(request, "topics", topic_id=topic_id, partitions=(row,))
        message: Entity = request(group_id=IN_USE, topics=(named,))
        return message

    return call


CALLS: Final[Mapping[int, Callable[[Any], Entity]]] = MappingProxyType(
    {
        76: heartbeat,
        77: describe,
        FETCH: fetch,
        ACKNOWLEDGE: acknowledge,
        **{key: _state(key) for key in (INITIALIZE, READ, WRITE, DELETE, SUMMARIZE)},
        90: describe_offsets,
        91: alter_offsets,
        92: delete_offsets,
    }
)

OFTEN: Final = (
    *(76,) * 8,
    *(77, 77),
    *(INITIALIZE, INITIALIZE, READ, READ, WRITE, WRITE, DELETE, SUMMARIZE, SUMMARIZE),
    *(91, 91, 91, 92, 92),
)
"""Calls that change share groups, and that need what others have made, are chosen more often."""
