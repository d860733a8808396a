"""Fills a partition of ``__consumer_offsets`` with a given number of committed offsets.

Every record is an offset with its own key, committed by groups without members, so that the
coordinator's state, and not only its log, has the requested size.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from actors.waiting import is_answered, poll
from bench.client.blocking_client import BlockingClient
from bench.client.pipelines import AnswerError
from bench.client.reactor import Reactor
from failover.routing import partition_for
from protocol.client import codec
from protocol.client.frames import MARK, MARKED, Template, by_frame
from protocol.wire import compact
from protocol.wire.errors import ErrorCode, KafkaError
from protocol.wire.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC: Final = "bench-offsets"
PARTITIONS: Final = 100
"""Offsets in one commit, and partitions of the topic."""
IN_FLIGHT: Final = 8
LOAD_SECONDS_MAX: Final = 60.0
"""How long the partition's coordinator may load it before the first commit."""
OFFSET_COMMIT, VERSION = 8, 9

Address = tuple[str, int]


def groups_on(partition: int, partitions: int, prefix: str) -> Iterator[str]:
    """Return an endless iterator of group ids that belong to one partition of ``partitions``."""
    return (
        name
        for name in (f"{prefix}-{number}" for number in itertools.count())
        if partition_for(name, partitions) == partition
    )


def fill(bootstrap: Address, group_ids: Iterator[str], records: int) -> None:
    """Commit ``records`` offsets, rounded up to whole commits, in groups taken from the iterator.

    All groups must belong to one partition.
    """
    first = next(group_ids)
    with BlockingClient(bootstrap) as connection:
        connection.create_topic(TOPIC, PARTITIONS)
        address = connection.coordinator(first)
    with BlockingClient(address) as connection:
        poll(
            lambda: connection.committed_offsets(first),
            LOAD_SECONDS_MAX,
            is_done=is_answered,
            retry=(KafkaError,),
        )
    commits = -(-records // PARTITIONS)
    _Filler(itertools.chain([first], group_ids), commits).run(address)


class _Filler:
    """One connection with a few commits in flight."""

    def __init__(self, group_ids: Iterator[str], commits: int) -> None:
        self._template = Template(_commit(), MARKED)
        self._group_ids = group_ids
        self._unsent = commits
        self._unanswered = commits
        self._reactor = Reactor()
        self._answer = b""

    def run(self, address: Address) -> None:
        """Commit everything; raises when a commit is refused or not answered."""
        try:
            (self._channel,) = self._reactor.open(address, 1)
            self._channel.received = by_frame(self._answered)
            for _ in range(min(IN_FLIGHT, self._unsent)):
                self._send()
            while self._unanswered:
                before = self._unanswered
                self._reactor.turn(30)
                if self._unanswered == before:
                    raise AnswerError("a commit was not answered within 30 s")
        finally:
            self._reactor.close()

    def _send(self) -> None:
        self._unsent -= 1
        self._channel.send(self._template.fill(compact.string(next(self._group_ids))))

    def _answered(self, frame: bytes) -> None:
        self._unanswered -= 1
        if frame != self._answer:
            _check(frame)
            self._answer = frame
        if self._unsent:
            self._send()


def _check(frame: bytes) -> None:
    answer = codec.decode(OFFSET_COMMIT, VERSION, frame)
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.error_code is not ErrorCode.none:
                raise AnswerError(f"a commit was answered {partition.error_code.name}")


def _commit() -> OffsetCommitRequest:
    partitions = tuple(
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=1_000_000 + index, committed_metadata=""
        )
        for index in range(PARTITIONS)
    )
    return OffsetCommitRequest(
        group_id=MARK,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=(OffsetCommitRequestTopic(name=TOPIC, topic_id=None, partitions=partitions),),
    )
