"""A member's history, as values: tests, the load and the simulator read the same list."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.wire.embedded import TopicPartition


class MemberHistoryKind(StrEnum):
    """What happened to the member."""

    JOINED = "joined"  # JoinGroup was answered: a member id and a generation
    ASSIGNED = "assigned"  # SyncGroup was answered: the partitions of this generation
    HEARTBEAT = "heartbeat"  # a heartbeat was answered without error
    REBALANCING = "rebalancing"  # the coordinator asked the member to rejoin
    LOST = "lost"  # the coordinator no longer knows the member id or the generation
    RETRIED = "retried"  # the coordinator could not answer now; tried again after a back-off
    DISCONNECTED = "disconnected"  # a request's answer will never come
    COMMITTED = "committed"  # every offset of a commit was acknowledged
    COMMIT_FAILED = "commit-failed"  # an offset was refused, or the answer never came
    FAILED = "failed"  # an error that no retry can resolve, such as FENCED_INSTANCE_ID
    LEFT = "left"  # the member is out of the group, or (static) just stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberHistoryEvent:
    """One event of a member's history; ``time_ms`` is the driver's clock.

    ``partitions`` and ``generation`` are the member's right after the event. ``offsets`` is filled
    for commits, ``error`` for errors: Kafka's name in lower case. ``asked_ms``: when the request
    was sent that was answered, or stayed without an answer; None if there was no request.
    """

    time_ms: int
    kind: MemberHistoryKind
    member_id: str
    instance_id: str | None
    generation: int
    partitions: tuple[TopicPartition, ...] = ()
    error: str | None = None
    offsets: tuple[tuple[str, int, int], ...] = ()
    asked_ms: int | None = None
