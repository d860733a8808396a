"""What members of each modern group type are like in a load: a row for each type."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from protocol.client.frames import CLIENT_ID, CORRELATION_AT
from protocol.members.consumer import ConsumerMember, ConsumerMemberConfig
from protocol.members.frames import ConsumerFrames, partitions_in
from protocol.members.modern_frames import ShareFrames, StreamsFrames
from protocol.members.share import ShareMember, ShareMemberConfig
from protocol.members.streams import StreamsMember, StreamsMemberConfig
from protocol.members.streams_answer import tasks_in
from protocol.members.topology import internal_topic, subtopology
from protocol.wire.streams_messages import StreamsTopology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Kernel = ConsumerMember | ShareMember | StreamsMember
Topics = tuple[str, ...]

VERSION_AT: Final = 6
"""The offset of a request's version: after length (4) and API key (2)."""

_RNG: Final = random.Random(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadKind:
    """One row.

    ``make`` creates a member of a group, that reads topics: it writes frames. ``owned`` are the
    partitions or active tasks in what the coordinator assigned. ``is_exclusive``: only one member
    owns each of them. ``is_even``: in the end, members with the same subscription own equally many.
    ``changes_topics``: a member may subscribe to other topics; another one leaves, and a new one
    takes its place. ``topics_for``: which topics must exist where a member reads this one.
    ``version``: that of its heartbeats, where Kafka 4.3.1 lacks the newest one.
    """

    make: Callable[[str, Topics], Kernel]
    owned: Callable[[bytes], Iterable[tuple[Any, int]]]
    is_exclusive: bool
    is_even: bool
    changes_topics: bool
    topics_for: Callable[[str], Topics] = lambda topic: (topic,)
    version: int | None = None

    def versioned(self, frame: bytes) -> bytes:
        """Return a heartbeat with its length in this version, whose fields are the same."""
        if self.version is None:
            return frame
        return frame[:VERSION_AT] + self.version.to_bytes(2) + frame[CORRELATION_AT:]


def _consumer(group_id: str, topics: Topics) -> Kernel:
    config = ConsumerMemberConfig(group_id=group_id, topics=topics, client_id=CLIENT_ID)
    return ConsumerMember(config, _RNG, {}, ConsumerFrames(CLIENT_ID))


def _share(group_id: str, topics: Topics) -> Kernel:
    config = ShareMemberConfig(group_id=group_id, topics=topics, client_id=CLIENT_ID)
    return ShareMember(config, _RNG, {}, ShareFrames(CLIENT_ID))


def _streams(group_id: str, topics: Topics) -> Kernel:
    config = _streams_config(group_id, topics)
    return StreamsMember(config, _RNG, {}, StreamsFrames(CLIENT_ID))


@lru_cache
def _streams_config(group_id: str, topics: Topics) -> StreamsMemberConfig:
    """Return the settings of an application with state: a subtopology for each topic.

    Its members are alone in their processes.
    """
    subtopologies = tuple(
        subtopology(f"{number:05}", [topic], changelogs=[internal_topic(changelog_topic(topic))])
        for number, topic in enumerate(topics)
    )
    topology = StreamsTopology(epoch=0, subtopologies=subtopologies)
    return StreamsMemberConfig(group_id=group_id, topology=topology, client_id=CLIENT_ID)


def changelog_topic(topic: str) -> str:
    """Return the changelog topic of the state of what reads a topic; groups share it."""
    return f"{topic}-changelog"


LOAD_KINDS: Final[Mapping[str, LoadKind]] = {
    "consumer": LoadKind(
        make=_consumer,
        owned=partitions_in,
        is_exclusive=True,
        is_even=True,
        changes_topics=True,
    ),
    "share": LoadKind(
        make=_share,
        owned=partitions_in,
        is_exclusive=False,
        is_even=True,
        changes_topics=True,
    ),
    "streams": LoadKind(
        make=_streams,
        owned=lambda told: tasks_in(told).active,
        is_exclusive=True,
        is_even=False,  # a sticky assignor need not be
        changes_topics=False,
        topics_for=lambda topic: (topic, changelog_topic(topic)),
        version=0,
    ),
}
"""The kinds by the type of their groups."""
