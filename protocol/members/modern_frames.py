"""The requests of members of share groups and streams groups as frames, for large loads.

See :mod:`protocol.members.frames`, which has those of classic and consumer groups.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from protocol.client.frames import INT32, LENGTH, Template
from protocol.members.frames import (
    GENERATION_MARK,
    MARKED_GENERATION,
    MARKED_MEMBER,
    MEMBER_MARK,
    TEMPLATES_MAX,
    Framed,
    Named,
    framed,
)
from protocol.members.heartbeating import NOTHING_NEW
from protocol.members.requests import HeartbeatFields
from protocol.members.share import SHARE_GROUP_HEARTBEAT, SHARE_MESSAGES, ShareMessages
from protocol.members.streams_requests import (
    NO_TASKS,
    STREAMS_GROUP_HEARTBEAT,
    STREAMS_MESSAGES,
    StreamsMessages,
)
from protocol.wire import compact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from protocol.members.frames import ConsumerAnswer
    from protocol.members.requests import AnyMember
    from protocol.members.share import ShareMember
    from protocol.members.streams_answer import StreamsAnswer
    from protocol.members.streams_requests import AnyStreamsMember
    from protocol.wire.embedded import TopicPartition

AFTER_TASKS: Final = 7
"""A heartbeat's bytes after its tasks, when nothing else is new; its tasks are three bytes then."""
NO_TASK_LISTS: Final = 3
ENDPOINT_MARK: Final = GENERATION_MARK + 1
MARKED_ENDPOINT: Final = INT32.pack(ENDPOINT_MARK)
PROCESS_MARK: Final = "\x01process\x01"
MARKED_PROCESS: Final = compact.string(PROCESS_MARK)


class ShareFrames(ShareMessages):
    """One member's requests; its partitions are kept as the bytes that the coordinator sent."""

    nothing: Any = b"\x01"

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._template: Template | None = None
        self._steady = Framed(SHARE_GROUP_HEARTBEAT, b"")
        self._steady_epoch = -1

    def find_coordinator(self, member: AnyMember) -> Framed:
        """Ask any node for the coordinator of the member's group."""
        return framed(super().find_coordinator(member), self._client_id)

    def heartbeat(self, member: ShareMember, tells: HeartbeatFields) -> Framed:
        """Report what has changed since the last answered heartbeat: usually nothing."""
        if tells.joins:
            join = _share_join(member.config, tells.topics, self._client_id)
            return Framed(SHARE_GROUP_HEARTBEAT, join.fill(compact.string(member.member_id)))
        if tells.everything or tells.topics is not None:
            return framed(super().heartbeat(member, tells), self._client_id)
        return self.steady(member)

    def steady(self, member: ShareMember) -> Framed:
        """Return the heartbeat that has nothing new."""
        if self._steady_epoch != member.generation:
            if self._template is None:
                self._template = _share_steady(member.config, self._client_id)
            self._steady_epoch = member.generation
            member_id = compact.string(member.member_id)
            frame = self._template.fill(member_id, INT32.pack(member.generation))
            self._steady = Framed(SHARE_GROUP_HEARTBEAT, frame)
        return self._steady

    def leave(self, member: ShareMember, epoch: int) -> Framed:
        """Leave permanently."""
        return framed(super().leave(member, epoch), self._client_id)

    def interval_ms(self, answer: ConsumerAnswer) -> int:
        """Return the coordinator's heartbeat interval."""
        return answer.interval_ms

    def assigned(self, answer: ConsumerAnswer) -> Any:
        """Return the assignment in an answer; None: nothing new."""
        return answer.assignment

    def partitions(self, member: ShareMember, owned: Any) -> tuple[TopicPartition, ...]:  # noqa: ARG002
        """Return nothing: topics have no names here."""
        return ()


@lru_cache(maxsize=TEMPLATES_MAX)
def _share_join(config: Any, topics: tuple[str, ...] | None, client_id: str) -> Template:
    """Make the template of a joining heartbeat, for members with the same settings."""
    named: Any = Named(config, generation=0)
    tells = HeartbeatFields(joins=True, everything=True, topics=topics, owned=True)
    message = SHARE_MESSAGES.heartbeat(named, tells)
    return Template(message, MARKED_MEMBER, client_id=client_id)


@lru_cache(maxsize=TEMPLATES_MAX)
def _share_steady(config: Any, client_id: str) -> Template:
    """Make the template of a heartbeat that has nothing new."""
    named: Any = Named(config)
    message = SHARE_MESSAGES.heartbeat(named, NOTHING_NEW)
    return Template(message, MARKED_MEMBER, MARKED_GENERATION, client_id=client_id)


class StreamsFrames(StreamsMessages):
    """One member's requests; its tasks are kept as the bytes that the coordinator sent.

    The member sends the same bytes back; :func:`protocol.members.streams_answer.tasks_in` reads
    them.
    """

    nothing: Any = b"\x01" * NO_TASK_LISTS

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._template: Template | None = None
        self._steady = Framed(STREAMS_GROUP_HEARTBEAT, b"")
        self._steady_for = (-1, -1)

    def find_coordinator(self, member: AnyMember) -> Framed:
        """Ask any node for the coordinator of the member's group."""
        return framed(super().find_coordinator(member), self._client_id)

    def commit(self, member: AnyMember, offsets: Mapping[TopicPartition, int]) -> Framed:
        """Commit ``offsets`` in the member's epoch."""
        return framed(super().commit(member, offsets), self._client_id)

    def heartbeat(self, member: AnyStreamsMember, tells: HeartbeatFields) -> Framed:
        """Join with everything; otherwise report the tasks if they have changed."""
        if tells.joins:
            config: Any = member.config
            join = _streams_join(config, self._client_id)
            member_id, epoch = compact.string(member.member_id), INT32.pack(member.endpoint_epoch)
            frame = join.fill(member_id, epoch, compact.string(member.process_id))
            return Framed(STREAMS_GROUP_HEARTBEAT, frame)
        if member.shuts_down:
            tells = replace(tells, owned=False)
            return framed(super().heartbeat(member, tells), self._client_id)
        said = self.steady(member)
        if not tells.owned:
            return said
        frame, owned = said.frame, member.owned
        size = len(frame) - LENGTH.size - NO_TASK_LISTS + len(owned)
        before = frame[LENGTH.size : -AFTER_TASKS - NO_TASK_LISTS]
        parts = LENGTH.pack(size), before, owned, frame[-AFTER_TASKS:]
        return Framed(STREAMS_GROUP_HEARTBEAT, b"".join(parts))

    def steady(self, member: AnyStreamsMember) -> Framed:
        """Return the heartbeat that has nothing new."""
        epochs = member.generation, member.endpoint_epoch
        if self._steady_for != epochs:
            if self._template is None:
                config: Any = member.config
                self._template = _streams_steady(config, self._client_id)
            self._steady_for = epochs
            frame = self._template.fill(compact.string(member.member_id), *map(INT32.pack, epochs))
            self._steady = Framed(STREAMS_GROUP_HEARTBEAT, frame)
        return self._steady

    def leave(self, member: AnyStreamsMember, epoch: int) -> Framed:
        """Leave, permanently or (a static member) temporarily."""
        return framed(super().leave(member, epoch), self._client_id)

    def interval_ms(self, answer: StreamsAnswer) -> int:
        """Return the coordinator's heartbeat interval."""
        return answer.interval_ms

    def assigned(self, answer: StreamsAnswer) -> Any:
        """Return the tasks in an answer; None: nothing new."""
        return answer.tasks

    def partitions(self, member: AnyStreamsMember, owned: Any) -> tuple[TopicPartition, ...]:  # noqa: ARG002
        """Return nothing: the load does not need a member's partitions."""
        return ()


class _NamedStreams:
    """A stand-in for a member, with marks in its fields, to make a template."""

    member_id = MEMBER_MARK
    endpoint_epoch = ENDPOINT_MARK
    process_id = PROCESS_MARK
    shuts_down = False
    reports_offsets = False
    owned = NO_TASKS

    def __init__(self, config: Any, generation: int) -> None:
        self.config = config
        self.generation = generation


@lru_cache(maxsize=TEMPLATES_MAX)
def _streams_join(config: Any, client_id: str) -> Template:
    """Make the template of a joining heartbeat, for members with the same settings."""
    named: Any = _NamedStreams(config, generation=0)
    tells = HeartbeatFields(joins=True, everything=True, topics=(), owned=True)
    message = STREAMS_MESSAGES.heartbeat(named, tells)
    marks = MARKED_MEMBER, MARKED_ENDPOINT, MARKED_PROCESS
    return Template(message, *marks, client_id=client_id)


@lru_cache(maxsize=TEMPLATES_MAX)
def _streams_steady(config: Any, client_id: str) -> Template:
    """Make the template of a heartbeat that has nothing new."""
    named: Any = _NamedStreams(config, GENERATION_MARK)
    message = STREAMS_MESSAGES.heartbeat(named, NOTHING_NEW)
    marks = MARKED_MEMBER, MARKED_GENERATION, MARKED_ENDPOINT
    return Template(message, *marks, client_id=client_id)
