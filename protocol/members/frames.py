"""The requests of members as frames, for load generators with thousands of members.

A generator shares its machine with the server that it measures, so it must be far cheaper. Requests
of a group's members are filled in from a few templates, and of an answer only the fields that the
member needs are read. Answers are given without their length.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from protocol.client import codec
from protocol.client.frames import AFTER_ERROR, INT32, LENGTH, Template, error_in, frame_of
from protocol.client.versions import newest
from protocol.members.assignor import Subscriber
from protocol.members.heartbeating import NOTHING_NEW
from protocol.members.requests import (
    CLASSIC_MESSAGES,
    CONSUMER_GROUP_HEARTBEAT,
    CONSUMER_MESSAGES,
    HEARTBEAT,
    JOIN_GROUP,
    SYNC_GROUP,
    ClassicMessages,
    ConsumerMessages,
    HeartbeatFields,
)
from protocol.members.share import SHARE_GROUP_HEARTBEAT
from protocol.members.streams_answer import read_streams
from protocol.members.streams_requests import STREAMS_GROUP_HEARTBEAT
from protocol.wire import compact
from protocol.wire.errors import ErrorCode
from protocol.wire.frames import BadFrame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from protocol.members.requests import AnyClassicMember, AnyConsumerMember, AnyMember
    from protocol.wire.embedded import TopicPartition

MEMBER_MARK, INSTANCE_MARK, GENERATION_MARK = "\x01member\x01", "\x01instance\x01", 0x0BAD_F00D
MARKED_MEMBER: Final = compact.string(MEMBER_MARK)
MARKED_INSTANCE: Final = compact.string(INSTANCE_MARK)
MARKED_GENERATION: Final = INT32.pack(GENERATION_MARK)
UUID_BYTES: Final = 16
NULL_OWNED: Final = 2
"""A heartbeat's last two bytes when it has no partitions: null, and no tagged fields."""
VERSIONS: Final = newest()
TEMPLATES_MAX: Final = 4_096
"""Number of cached templates: one for each group, and one for each of its subscriptions."""
_EPOCHS: Final = struct.Struct(">ii")
_NULL_ASSIGNMENT: Final = 0xFF


class Framed:
    """A request with its length."""

    __slots__ = ("__api_key__", "frame")

    def __init__(self, api_key: int, frame: bytes) -> None:
        self.__api_key__ = api_key
        self.frame = frame


def framed(message: Any, client_id: str) -> Framed:
    """Encode a message that needs no template."""
    return Framed(message.__api_key__, bytes(frame_of(message, client_id)))


# --- classic groups


class Named(NamedTuple):
    """A stand-in for a member, with marks in its fields, to make a template."""

    config: Any
    member_id: str = MEMBER_MARK
    generation: int = GENERATION_MARK


class GroupFrames:
    """The templates of one group, whose members share their settings.

    ``shares`` are the assignments that its leader sends, in range order, as compact bytes.
    """

    def __init__(self, config: Any, shares: Sequence[bytes]) -> None:
        self.shares = shares
        self.client_id: str = config.client_id
        self._config = replace(config, instance_id=INSTANCE_MARK)
        self._joins: dict[str, Template] = {}
        named: Any = Named(self._config)
        marks = MARKED_GENERATION, MARKED_MEMBER, MARKED_INSTANCE
        sync = CLASSIC_MESSAGES.sync(named, "range", ())
        self.sync = Template(sync, *marks, client_id=self.client_id)
        beat = CLASSIC_MESSAGES.heartbeat(named)
        self.heartbeat = Template(beat, *marks, client_id=self.client_id)

    def join(self, reason: str) -> Template:
        """Return the JoinGroup with this reason; there are only a few reasons."""
        template = self._joins.get(reason)
        if template is None:
            named: Any = Named(self._config)
            join = CLASSIC_MESSAGES.join(named, reason)
            marks = MARKED_MEMBER, MARKED_INSTANCE
            template = self._joins[reason] = Template(join, *marks, client_id=self.client_id)
        return template


class ClassicFrames(ClassicMessages):
    """One member's requests; it reads a :class:`JoinAnswer`, but no assignment."""

    def __init__(self, group: GroupFrames, instance_id: str | None) -> None:
        self._group = group
        self._instance = compact.string(instance_id)
        self._steady = Framed(HEARTBEAT, b"")
        self._steady_for: tuple[int, str] = (-1, "")

    def find_coordinator(self, member: AnyMember) -> Framed:
        """Ask any node for the coordinator of the member's group."""
        return framed(super().find_coordinator(member), self._group.client_id)

    def commit(self, member: AnyMember, offsets: Mapping[TopicPartition, int]) -> Framed:
        """Commit ``offsets`` in the member's generation."""
        return framed(super().commit(member, offsets), self._group.client_id)

    def join(self, member: AnyClassicMember, reason: str) -> Framed:
        """Join under the present member id."""
        template = self._group.join(reason)
        return Framed(JOIN_GROUP, template.fill(compact.string(member.member_id), self._instance))

    def sync(self, member: AnyClassicMember, protocol_name: str, assignments: Any) -> Framed:  # noqa: ARG002 - the template says it
        """Fetch the assignment; the leader sends the assignments of all members."""
        frame = self._group.sync.fill(
            INT32.pack(member.generation), compact.string(member.member_id), self._instance
        )
        if assignments:  # the empty list and the tags are the last two bytes
            size = len(frame) - 2 - LENGTH.size + len(assignments) + 1
            frame = b"".join((LENGTH.pack(size), frame[LENGTH.size : -2], assignments, b"\0"))
        return Framed(SYNC_GROUP, frame)

    def heartbeat(self, member: AnyClassicMember) -> Framed:
        """Keep the member's session alive."""
        steady = member.generation, member.member_id
        if self._steady_for != steady:
            self._steady_for = steady
            frame = self._group.heartbeat.fill(
                INT32.pack(member.generation), compact.string(member.member_id), self._instance
            )
            self._steady = Framed(HEARTBEAT, frame)
        return self._steady

    def leave(self, member: AnyClassicMember, reason: str) -> Framed:
        """Leave with a reason."""
        return framed(super().leave(member, reason), self._group.client_id)

    def subscribed(self, joined: JoinAnswer) -> frozenset[str]:  # noqa: ARG002
        """Return nothing: the topics of the load do not change."""
        return frozenset()

    def assignments(self, member: AnyClassicMember, joined: JoinAnswer) -> bytes:  # noqa: ARG002 - the group's shares are ready
        """Return every member's share, in range order; the last members may have none."""
        answer = codec.decode(JOIN_GROUP, VERSIONS[JOIN_GROUP], joined.frame)
        ranked = sorted(
            (Subscriber(each.member_id, each.group_instance_id, ()) for each in answer.members),
            key=Subscriber.rank,
        )
        rows = [
            compact.string(subscriber.member_id) + share + b"\0"
            for subscriber, share in zip(ranked, self._group.shares, strict=False)
        ]
        return compact.uvarint(len(rows) + 1) + b"".join(rows)

    def assigned(self, synced: Any) -> tuple[TopicPartition, ...]:  # noqa: ARG002
        """Return nothing: the load does not need a member's partitions."""
        return ()


class JoinAnswer(NamedTuple):
    """The fields of a JoinGroup answer that a member reads; ``frame`` is all of it, for leaders."""

    error_code: ErrorCode
    generation_id: int
    protocol_name: str
    leader: str
    skip_assignment: bool
    member_id: str
    frame: bytes


class ErrorAnswer(NamedTuple):
    """The error of an answer from which a member reads nothing else."""

    error_code: ErrorCode


FINE: Final = ErrorAnswer(ErrorCode.none)


def _read_error(frame: bytes) -> ErrorAnswer:
    error = error_in(frame)
    return ErrorAnswer(ErrorCode(error)) if error else FINE


def _read_join(frame: bytes) -> JoinAnswer:
    generation = INT32.unpack_from(frame, AFTER_ERROR)[0]
    _, at = compact.read_string(frame, AFTER_ERROR + INT32.size)  # protocol type
    protocol_name, at = compact.read_string(frame, at)
    leader, at = compact.read_string(frame, at)
    skips = bool(frame[at])
    member_id, _ = compact.read_string(frame, at + 1)
    error = ErrorCode(error_in(frame))
    return JoinAnswer(error, generation, protocol_name, leader, skips, member_id, frame)


# --- consumer groups


class ConsumerFrames(ConsumerMessages):
    """One member's requests; its owned partitions are kept as the bytes that the coordinator sent.

    The member sends the same bytes back. Partitions are not named: :func:`partitions_in` reads
    their topics' ids.
    """

    nothing: Any = b"\x01"

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._template: Template | None = None
        self._steady = Framed(CONSUMER_GROUP_HEARTBEAT, b"")
        self._steady_epoch = -1

    def find_coordinator(self, member: AnyMember) -> Framed:
        """Ask any node for the coordinator of the member's group."""
        return framed(super().find_coordinator(member), self._client_id)

    def commit(self, member: AnyMember, offsets: Mapping[TopicPartition, int]) -> Framed:
        """Commit ``offsets`` in the member's epoch."""
        return framed(super().commit(member, offsets), self._client_id)

    def heartbeat(self, member: AnyConsumerMember, tells: HeartbeatFields) -> Framed:
        """Report what has changed since the last answered heartbeat: usually nothing."""
        if tells.joins:
            config: Any = member.config
            join = _consumer_join(config, tells.topics, self._client_id)
            return Framed(CONSUMER_GROUP_HEARTBEAT, join.fill(compact.string(member.member_id)))
        if tells.everything or tells.topics is not None:
            message = super().heartbeat(member, replace(tells, owned=False))
            said = framed(message, self._client_id)
        else:
            said = self.steady(member)
        if not tells.owned:
            return said
        frame = said.frame
        size = len(frame) - LENGTH.size - NULL_OWNED + len(member.owned) + 1
        parts = LENGTH.pack(size), frame[LENGTH.size : -NULL_OWNED], member.owned, b"\0"
        return Framed(CONSUMER_GROUP_HEARTBEAT, b"".join(parts))

    def steady(self, member: AnyConsumerMember) -> Framed:
        """Return the heartbeat that has nothing new."""
        if self._steady_epoch != member.generation:
            if self._template is None:
                config: Any = member.config
                self._template = _consumer_steady(config, self._client_id)
            self._steady_epoch = member.generation
            frame = self._template.fill(
                compact.string(member.member_id), INT32.pack(member.generation)
            )
            self._steady = Framed(CONSUMER_GROUP_HEARTBEAT, frame)
        return self._steady

    def leave(self, member: AnyConsumerMember, epoch: int) -> Framed:
        """Leave, permanently or (a static member) temporarily."""
        return framed(super().leave(member, epoch), self._client_id)

    def interval_ms(self, answer: ConsumerAnswer) -> int:
        """Return the coordinator's heartbeat interval."""
        return answer.interval_ms

    def assigned(self, answer: ConsumerAnswer) -> bytes | None:
        """Return the assignment in an answer; None: nothing new."""
        return answer.assignment

    def partitions(self, member: AnyConsumerMember, owned: bytes) -> tuple[TopicPartition, ...]:  # noqa: ARG002
        """Return nothing: topics have no names here."""
        return ()


@lru_cache(maxsize=TEMPLATES_MAX)
def _consumer_join(config: Any, topics: tuple[str, ...] | None, client_id: str) -> Template:
    """Make the template of a joining heartbeat, for members with the same settings."""
    named: Any = Named(config, generation=0)
    tells = HeartbeatFields(joins=True, everything=True, topics=topics, owned=True)
    message = CONSUMER_MESSAGES.heartbeat(named, tells)
    return Template(message, MARKED_MEMBER, client_id=client_id)


@lru_cache(maxsize=TEMPLATES_MAX)
def _consumer_steady(config: Any, client_id: str) -> Template:
    """Make the template of a heartbeat that has nothing new."""
    message = CONSUMER_MESSAGES.heartbeat(cast("Any", Named(config)), NOTHING_NEW)
    return Template(message, MARKED_MEMBER, MARKED_GENERATION, client_id=client_id)


class ConsumerAnswer(NamedTuple):
    """The fields of an answer that a member of a consumer or share group reads."""

    error_code: ErrorCode
    member_epoch: int
    interval_ms: int
    assignment: bytes | None


def _read_consumer(frame: bytes) -> ConsumerAnswer:
    """Read a ConsumerGroupHeartbeat answer; a ShareGroupHeartbeat answer has the same fields."""
    error = error_in(frame)
    at = AFTER_ERROR
    for _ in range(2):  # error message, member id
        size, at = compact.read_uvarint(frame, at)
        at += max(size - 1, 0)
    epoch, interval_ms = _EPOCHS.unpack_from(frame, at)
    at += _EPOCHS.size
    assigned = None if frame[at] == _NULL_ASSIGNMENT else frame[at + 1 : -2]  # -2: two empty tags
    code = ErrorCode(error) if error else ErrorCode.none
    return ConsumerAnswer(code, epoch, interval_ms, assigned)


def partitions_in(owned: bytes) -> Iterator[tuple[bytes, int]]:
    """Decode partitions from wire format: topic id and index."""
    topics, at = compact.read_uvarint(owned, 0)
    for _ in range(topics - 1):
        topic_id = owned[at : at + UUID_BYTES]
        size, at = compact.read_uvarint(owned, at + UUID_BYTES)
        for index in struct.unpack_from(f">{size - 1}i", owned, at):
            yield topic_id, index
        at += 4 * (size - 1) + 1  # and no tagged fields


# --- answers


_READERS: Final[Mapping[int, Callable[[bytes], Any]]] = {
    JOIN_GROUP: _read_join,
    SYNC_GROUP: _read_error,
    HEARTBEAT: _read_error,
    CONSUMER_GROUP_HEARTBEAT: _read_consumer,
    SHARE_GROUP_HEARTBEAT: _read_consumer,
    STREAMS_GROUP_HEARTBEAT: read_streams,
}


def read_answer(api_key: int, frame: bytes) -> Any:
    """Decode the answer to a :class:`Framed` request; raises ``BadFrame``."""
    reader = _READERS.get(api_key)
    if reader is not None:
        try:
            return reader(frame)
        except (IndexError, ValueError, struct.error) as error:
            raise BadFrame(f"an answer to API {api_key} cannot be read: {error}") from None
    return codec.decode(api_key, VERSIONS[api_key], frame)
