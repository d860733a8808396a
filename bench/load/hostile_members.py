"""Members of every group type as hostile conversations have them: requests with their real ids.

A member has the ids, epochs and assignments that the coordinator gave it, so its requests get as
far as a well-behaved client's. :mod:`bench.load.hostile_conversations` then changes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from protocol.members.assignors import ClassicAssignor, LastAssigned
from protocol.members.requests import (
    CLASSIC_MESSAGES,
    CONSUMER_GROUP_HEARTBEAT,
    CONSUMER_MESSAGES,
    JOIN_GROUP,
    HeartbeatFields,
)
from protocol.members.share import SHARE_GROUP_HEARTBEAT, SHARE_MESSAGES
from protocol.members.streams_requests import STREAMS_GROUP_HEARTBEAT, STREAMS_MESSAGES
from protocol.members.topology import subtopology
from protocol.wire.errors import ErrorCode
from protocol.wire.messages import (
    ApiVersionsRequest,
    DescribeGroupsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.wire.streams_messages import StreamsTopology

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

TOPIC: Final = "hostile-talk"
TOPIC_PARTITIONS: Final = 12
SESSION_MS: Final = 6_000
"""The shortest that Kafka permits: a member that a conversation left behind soon expires."""

REBALANCE_MS: Final = 500
LEAVES: Final = -1
TOPOLOGY: Final = StreamsTopology(epoch=0, subtopologies=(subtopology("0", [TOPIC]),))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileConfig:
    """The settings of a member of any type."""

    group_id: str
    instance_id: str | None
    topics: tuple[str, ...] = (TOPIC,)
    session_timeout_ms: int = SESSION_MS
    rebalance_timeout_ms: int = REBALANCE_MS
    topic_regex: str | None = None
    rack_id: str | None = None
    assignor: ClassicAssignor = ClassicAssignor.RANGE
    server_assignor: str | None = None
    topology: StreamsTopology = TOPOLOGY
    user_endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class HostileMember:
    """A member of any type: what it was told last."""

    config: HostileConfig
    member_id: str
    owned: Any
    generation: int = 0
    protocol: str = "range"
    joined: Any = None
    last_assigned: LastAssigned = field(default_factory=LastAssigned)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    partitions_of: Mapping[str, int] = field(default_factory=lambda: {TOPIC: TOPIC_PARTITIONS})
    process_id: str = "process"
    endpoint_epoch: int = 0
    shuts_down: bool = False
    reports_offsets: bool = False
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def learn(self, api_key: int, answer: Any) -> None:
        """Take ids, epochs and assignments from an answer without an error, and a new id."""
        if api_key == JOIN_GROUP:
            self.member_id = answer.member_id or self.member_id
        if answer.error_code is not ErrorCode.none:
            return
        if api_key == JOIN_GROUP:
            self.generation, self.joined = answer.generation_id, answer
        elif kind := HEARTBEATS.get(api_key):
            self.generation = max(answer.member_epoch, 0)
            if (owned := kind.assigned(answer)) is not None:
                self.owned = owned


def _member(draw: random.Random, group_id: str, nothing: Any, *, may_be_static: bool) -> Any:
    is_static = may_be_static and draw.random() < 0.3
    instance_id = f"hostile-{draw.randrange(5)}" if is_static else None
    member_id = str(UUID(int=draw.getrandbits(128), version=4))
    return HostileMember(
        HostileConfig(group_id=group_id, instance_id=instance_id), member_id, nothing
    )


def _classic(draw: random.Random, group_id: str) -> Any:
    member = _member(draw, group_id, (), may_be_static=True)
    member.member_id, member.generation = "", -1
    return member


def _consumer(draw: random.Random, group_id: str) -> Any:
    return _member(draw, group_id, CONSUMER_MESSAGES.nothing, may_be_static=True)


def _share(draw: random.Random, group_id: str) -> Any:
    return _member(draw, group_id, SHARE_MESSAGES.nothing, may_be_static=False)


def _streams(draw: random.Random, group_id: str) -> Any:
    return _member(draw, group_id, STREAMS_MESSAGES.nothing, may_be_static=False)


def _join(member: Any) -> Any:
    return CLASSIC_MESSAGES.join(member, "")


def _sync(member: Any) -> Any:
    leads = member.joined is not None and member.joined.leader == member.member_id
    shares = CLASSIC_MESSAGES.assignments(member, member.joined) if leads else ()
    return CLASSIC_MESSAGES.sync(member, member.protocol, shares)


def _commit(member: Any) -> Any:
    return CLASSIC_MESSAGES.commit(member, {(TOPIC, 0): 1, (TOPIC, 5): 2})


def _fetch(member: Any) -> Any:
    topics = (OffsetFetchRequestTopics(name=TOPIC, topic_id=None, partition_indexes=(0, 5)),)
    group = OffsetFetchRequestGroup(
        group_id=member.config.group_id,
        member_id=member.member_id,
        member_epoch=member.generation,
        topics=topics,
    )
    return OffsetFetchRequest(groups=(group,), require_stable=False)


def _leave(member: Any) -> Any:
    return CLASSIC_MESSAGES.leave(member, "")


def _hello(messages: Any) -> Callable[[Any], Any]:
    """Return the step that joins a group of a modern type; its epoch is 0."""

    def hello(member: Any) -> Any:
        member.generation = 0
        fields = HeartbeatFields(joins=True, everything=True, topics=(TOPIC,), owned=True)
        return messages.heartbeat(member, fields)

    return hello


def _beat(messages: Any, *, owned: bool) -> Callable[[Any], Any]:
    fields = HeartbeatFields(joins=False, everything=False, topics=None, owned=owned)
    return lambda member: messages.heartbeat(member, fields)


def _goodbye(messages: Any) -> Callable[[Any], Any]:
    return lambda member: messages.leave(member, LEAVES)


def _modern(messages: Any, *between: Callable[[Any], Any]) -> tuple[Callable[[Any], Any], ...]:
    told, beat = _beat(messages, owned=True), _beat(messages, owned=False)
    return (_hello(messages), told, beat, told, *between, beat, _goodbye(messages))


HEARTBEATS: Final[Mapping[int, Any]] = {
    CONSUMER_GROUP_HEARTBEAT: CONSUMER_MESSAGES,
    SHARE_GROUP_HEARTBEAT: SHARE_MESSAGES,
    STREAMS_GROUP_HEARTBEAT: STREAMS_MESSAGES,
}


@dataclass(frozen=True, slots=True)
class HostileKind:
    """The members of one group type: how one is made, and the steps of its life in their order."""

    make: Callable[[random.Random, str], Any]
    steps: tuple[Callable[[Any], Any], ...]


HOSTILE_KINDS: Final[Mapping[str, HostileKind]] = {
    "classic": HostileKind(
        _classic,
        (
            _join, _join, _sync, CLASSIC_MESSAGES.heartbeat, _commit, _fetch,
            CLASSIC_MESSAGES.heartbeat, _leave,
        ),
    ),
    "consumer": HostileKind(_consumer, _modern(CONSUMER_MESSAGES, _commit, _fetch)),
    "share": HostileKind(_share, _modern(SHARE_MESSAGES)),
    "streams": HostileKind(_streams, _modern(STREAMS_MESSAGES, _commit, _fetch)),
}  # fmt: skip
"""The kinds by the type of their groups."""

EACH: Final = (
    *((CLASSIC_MESSAGES.heartbeat,) * 10), _sync, _sync, _join, _join, _leave, _leave, _commit,
    _fetch,
)  # fmt: skip
"""The requests of a member, as often as they are to be drawn; and so many of others."""

OTHERS_EACH: Final = 2


def classic_member(group_id: str, member_id: str, generation: int, topic: str) -> Any:
    """Return a member of a classic group that has joined."""
    config = HostileConfig(group_id=group_id, instance_id=None, topics=(topic,))
    return HostileMember(config, member_id, (), generation)


def requests_of(draw: random.Random, member: Any, other_group_id: str) -> list[Any]:
    """Return valid requests of a member of a classic group, and of its administrators.

    Among them may be the first heartbeat of a member of another type, in another group.
    """
    groups = (member.config.group_id, other_group_id)
    others = [
        _hello(CONSUMER_MESSAGES)(_consumer(draw, other_group_id)),
        _hello(SHARE_MESSAGES)(_share(draw, other_group_id)),
        _hello(STREAMS_MESSAGES)(_streams(draw, other_group_id)),
        CLASSIC_MESSAGES.find_coordinator(member),
        DescribeGroupsRequest(groups=groups, include_authorized_operations=False),
        ApiVersionsRequest(client_software_name="hostile", client_software_version="0"),
        MetadataRequest(
            topics=(MetadataRequestTopic(topic_id=None, name=TOPIC),),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        ),
    ]
    return [*(make(member) for make in EACH), *draw.sample(others, OTHERS_EACH)]
