"""What happened, for people: facts become traces, log sentences, metrics and the event list.

A fact is written by the core and read by telemetry; nothing in the core reads one back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


class MemberEventKind(StrEnum):
    """What became of a member."""

    JOINED = "joined"
    REJOINED = "rejoined"
    REPLACED = "replaced"  # a static member returned under a new member id (KIP-345)
    FENCED = "fenced"
    LEFT = "left"
    EXPIRED = "expired"  # no heartbeat within the session timeout
    NOT_REJOINED = "not-rejoined"  # missed the rebalance timeout
    REFUSED = "refused"  # rejoined a group that group.max.size has become too small for
    NOT_SYNCED = "not-synced"  # joined, and did not fetch its assignment within the same time
    SUBSCRIBED = "subscribed"  # to other topics, or by another regular expression (KIP-848)
    WENT = "went"  # a static member that will be back within its session (KIP-848)
    NOT_REVOKED = "not-revoked"  # did not give up partitions within the rebalance timeout
    NOT_ASSIGNED = "not-assigned"  # told of no member: the group's assignor failed


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEvent:
    """One line of a group's diary: who, what, why (KIP-800), when.

    ``reason`` is the client's own, at most 255 characters; ``previous_member_id`` is set when a
    static member was replaced: the id that is fenced from now on.
    """

    group_id: str
    time_ms: int
    kind: MemberEventKind
    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    reason: str | None = None
    previous_member_id: str | None = None


class RebalanceTrigger(StrEnum):
    """Why a group began to rebalance."""

    MEMBER_JOINED = "member-joined"
    MEMBER_REJOINED = "member-rejoined"  # changed its protocols, or the leader joined again
    MEMBER_LEFT = "member-left"
    MEMBER_EXPIRED = "member-expired"
    STATIC_PROTOCOL_CHANGED = "static-member-changed-protocol"
    STATIC_SUBSCRIPTION_CHANGED = "static-member-changed-subscription"
    STATIC_MEMBER_REPLACED = "static-member-replaced"  # while an assignment was awaited
    SYNC_TIMEOUT = "sync-timeout"
    DOWNGRADED = "downgraded"  # the last member of the consumer protocol is gone
    OVER_CAPACITY = "over-capacity"  # a loaded group is larger than group.max.size allows


class RebalanceOutcome(StrEnum):
    """How a rebalance ended."""

    STABLE = "stable"
    EMPTY = "empty"
    RESTARTED = "restarted"  # another rebalance began before every member had its assignment


@dataclass(frozen=True, slots=True)
class RebalancePhase:
    """One stretch of a rebalance; both ends in Unix milliseconds."""

    name: str
    started_ms: int
    ended_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceEnded:
    """A finished rebalance, whole: enough for one trace and one log sentence.

    ``phases`` are "join" (PreparingRebalance) and, when it was reached, "sync"
    (CompletingRebalance). ``member_id`` to ``reason`` tell of the member that set it off.

    ``assignments_before`` and ``assignments_after`` map each member's lasting name (instance id,
    else member id) to its assignment bytes as the leader sent them.
    """

    group_id: str
    trigger: RebalanceTrigger
    outcome: RebalanceOutcome
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    reason: str | None
    generation_before: int
    generation_after: int
    protocol_type: str
    protocol_name: str
    leader_id: str
    phases: tuple[RebalancePhase, ...]
    assignments_before: Mapping[str, bytes]
    assignments_after: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeleted:
    """A group is gone: deleted by request, or empty with its last offset expired."""

    group_id: str
    time_ms: int


class TopicsCause(StrEnum):
    """Why the topics of a consumer group are not what they were."""

    TOPICS_CHANGED = "topics-changed"  # one came, went or grew, or its replicas have other racks
    REGEX_RESOLVED = "regex-resolved"  # a regular expression matches others


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssigned:
    """A consumer group has a new target assignment; times in Unix milliseconds.

    ``changed_ms``: when the group changed for the first time since the last one, for ``cause``:
    what became of a member, or of the topics; None is not known, or a change of type. From
    ``started_ms`` on the assignor ran, from ``computed_ms`` on its result was written, which came
    into force at ``ended_ms``. Of the run the worker's queue took ``queue_ms``, the assignor itself
    ``assignor_ms``. ``members`` counts the group, ``members_changed`` those with another target
    than before.
    """

    group_id: str
    assignor: str
    epoch_before: int
    epoch_after: int
    cause: MemberEvent | TopicsCause | None
    changed_ms: int
    started_ms: int
    computed_ms: int
    ended_ms: int
    members: int
    members_changed: int
    partitions_moved: int
    queue_ms: float
    assignor_ms: float
    in_place: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsChanged:
    """A consumer group has a new group epoch for the sake of its topics, not of a member."""

    group_id: str
    time_ms: int
    cause: TopicsCause
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReconciled:
    """Every member of a consumer group has its target assignment of ``epoch``, or none is left.

    ``assigned_ms``: when that target came into force (Unix milliseconds).
    """

    group_id: str
    time_ms: int
    epoch: int
    assigned_ms: int
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignmentFailed:
    """A run of a group's assignor failed; ``is_final``: not tried again until the group changes."""

    group_id: str
    epoch: int
    time_ms: int
    reason: str
    is_final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConverted:
    """A group has become one of another type, with these members (online migration).

    ``group_type`` is what it is now, ``epoch`` its group epoch or generation.
    """

    group_id: str
    time_ms: int
    group_type: str
    epoch: int
    members: int


Fact: TypeAlias = (
    MemberEvent
    | RebalanceEnded
    | GroupDeleted
    | GroupConverted
    | TopicsChanged
    | TargetAssigned
    | TargetAssignmentFailed
    | GroupReconciled
)
