"""Facts for operators: they become traces, log messages, metrics and the event list.

The core writes facts and telemetry reads them; nothing in the core reads one back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from protocol.groups.topics import Topics
    from protocol.records import MemberMetadata


class MemberEventKind(StrEnum):
    """What happened to a member."""

    JOINED = "joined"
    REJOINED = "rejoined"
    REPLACED = "replaced"  # a static member returned under a new member id (KIP-345)
    FENCED = "fenced"
    LEFT = "left"
    EXPIRED = "expired"  # no heartbeat within the session timeout
    NOT_REJOINED = "not-rejoined"  # missed the rebalance timeout
    REFUSED = "refused"  # rejoined a group that is now larger than group.max.size
    NOT_SYNCED = "not-synced"  # joined, but did not fetch its assignment within the same time
    SUBSCRIBED = "subscribed"  # to other topics, or by another regular expression (KIP-848)
    UPDATED = "updated"  # of a streams group: its process, endpoint or tags are others (KIP-1071)
    WENT = "went"  # a static member that intends to return within its session (KIP-848)
    NOT_REVOKED = "not-revoked"  # did not give up partitions within the rebalance timeout
    NOT_ASSIGNED = "not-assigned"  # of no member: the group's assignor failed
    GONE = "gone"  # of a watched cluster: its records do not say why


GONE: Final = frozenset(
    {
        MemberEventKind.LEFT,
        MemberEventKind.EXPIRED,
        MemberEventKind.NOT_REJOINED,
        MemberEventKind.REFUSED,
        MemberEventKind.NOT_SYNCED,
        MemberEventKind.NOT_REVOKED,
        MemberEventKind.GONE,
    }
)
"""What ends a membership."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEvent:
    """One entry of a group's event log: the member, the event, its reason (KIP-800), its time.

    ``reason`` is the client's own, at most 255 characters; ``previous_member_id`` is set when a
    static member was replaced: it is the id that is fenced from now on. ``client_software`` is the
    name and version that the client's connection told (KIP-511), "" if it is not known here.
    ``silent_ms``: how long a member that is gone had sent nothing. ``changes_nothing``: nothing in
    the group but the member's id changes. ``inferred``: from what the kind was concluded, if only
    the records of another cluster are known; "" where it was seen.
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
    client_software: str = ""
    silent_ms: int | None = None
    changes_nothing: bool = False
    inferred: str = ""


class NamedMember(NamedTuple):
    """A member of a group that is not classic: its id, and the value of its member record."""

    member_id: str
    metadata: Any


class TakenOver(NamedTuple):
    """A member of a group that is not classic, and when it had its target (Unix ms)."""

    time_ms: int
    member: NamedMember


class ExpectedWait(NamedTuple):
    """A first assignment waited for expected instances (``fleet.expected``).

    ``last`` joined last, "" if none had to be waited for; of those that did not come, some are
    ``missing`` and ``more`` are not named.
    """

    last: str
    missing: tuple[str, ...] = ()
    more: int = 0


class RebalanceTrigger(StrEnum):
    """Why a rebalance began."""

    MEMBER_JOINED = "member-joined"
    MEMBER_REJOINED = "member-rejoined"  # changed its protocols, or what it says of itself
    MEMBER_SUBSCRIBED = "member-subscribed"  # joined again with other topics
    LEADER_REJOINED = "leader-rejoined"  # unchanged: it asks for a rebalance
    MEMBER_LEFT = "member-left"
    MEMBER_EXPIRED = "member-expired"
    STATIC_PROTOCOL_CHANGED = "static-member-changed-protocol"
    STATIC_SUBSCRIPTION_CHANGED = "static-member-changed-subscription"
    STATIC_MEMBER_REPLACED = "static-member-replaced"  # while the group awaited an assignment
    SYNC_TIMEOUT = "sync-timeout"
    DOWNGRADED = "downgraded"  # the last member of the consumer protocol is gone
    OVER_CAPACITY = "over-capacity"  # a loaded group is larger than group.max.size allows
    # of a watched cluster, whose records show only the result:
    MEMBER_GONE = "member-gone"
    GAVE_UP = "gave-up-partitions"  # what a cooperative assignor took away is assigned again
    TOPICS_CHANGED = "topics-changed"
    NOT_RECORDED = "not-recorded"


class RebalanceOutcome(StrEnum):
    """How a rebalance ended."""

    STABLE = "stable"
    EMPTY = "empty"
    RESTARTED = "restarted"  # another rebalance began before every member had its assignment


@dataclass(frozen=True, slots=True)
class RebalancePhase:
    """One phase of a rebalance; both ends in Unix milliseconds."""

    name: str
    started_ms: int
    ended_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceEnded:
    """A complete rebalance: enough for one trace and one log message.

    ``phases`` are "join" (PreparingRebalance) and, when it was reached, "sync"
    (CompletingRebalance). ``member_id`` to ``reason`` describe the member that caused it.

    ``assignments_before`` and ``assignments_after`` map each member's lasting name (instance id,
    otherwise member id) to its assignment bytes as the leader sent them. ``members_before`` and
    ``members_after`` are the members of these generations. ``is_initial``: the group was Empty and
    waited for more members. ``last_joined`` is the event of the member that joined last, if others
    joined after the first. ``elected_ms``: since when this coordinator leads the group (None: not
    known). ``expected``: for whom the first rebalance waited. ``inferred``: from what the trigger
    was concluded; "" where it was seen.
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
    members_before: Sequence[MemberMetadata] = ()
    members_after: Sequence[MemberMetadata] = ()
    is_initial: bool = False
    last_joined: MemberEvent | None = None
    elected_ms: int | None = None
    client_software: str = ""
    expected: ExpectedWait | None = None
    inferred: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeleted:
    """A group was deleted: by request, or because it was Empty and its last offset expired."""

    group_id: str
    time_ms: int


class TopicsCause(StrEnum):
    """Why a group has a new epoch that no event of a member explains."""

    TOPICS_CHANGED = "topics-changed"  # created, deleted or grown, or its replicas' racks changed
    REGEX_RESOLVED = "regex-resolved"  # a regular expression matches other topics
    SHARE_STATE_INITIALIZED = "share-state-initialized"  # more partitions may be assigned
    TOPOLOGY_READY = "topology-ready"  # all topics of a streams group's topology exist now
    TOPOLOGY_NOT_READY = "topology-not-ready"  # some of them do not exist any more
    CONFIGS_CHANGED = "configs-changed"  # such as its active members or standbys
    NOT_RECORDED = "not-recorded"  # of a watched cluster: its records do not say why


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChange:
    """What a new target changes: only references, to be read outside the event loop.

    ``before`` and ``after`` have the targets of the members that got another one, as the values of
    their records; ``before`` also those of members that are gone since the last target.
    ``members`` has the member records' values of all of them, by member id. ``topics`` are those
    that exist, ``total`` is the number of partitions that can be assigned (None: not known).
    ``is_whole`` is False when members left that are not in ``before``.
    """

    before: Mapping[str, bytes]
    after: Sequence[tuple[str, bytes]]
    members: Mapping[str, Any]
    topics: Topics
    total: int | None
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssigned:
    """A consumer, share or streams group has a new target, or no member any more.

    Times are in Unix milliseconds. Without ``members`` no assignor ran, and no record was written.

    ``group_type`` is its type, ``units`` are what is assigned: partitions or tasks.
    ``changed_ms``: when the group first changed since the last target. ``cause``: the event of a
    member or the change of the topics that did it; None: not known, or a change of the group's
    type. The assignor ran from ``started_ms``; the result was written from ``computed_ms`` and took
    effect at ``ended_ms``. Of the run, the worker's queue took ``queue_ms`` and the assignor itself
    ``assignor_ms``; these, ``in_place`` and ``fix_ups`` are None where only the records of another
    cluster are known, and ``started_ms`` is then ``changed_ms``.
    ``members`` counts the group, ``members_changed`` those whose target changed.
    ``fix_ups`` counts the members that left or were replaced while the assignor ran. ``awaited``
    has some of the members that had not taken over the previous target, ``awaited_count`` is the
    number of all; ``taken_over`` has the last ones that had. ``elected_ms``: since when this
    coordinator leads the group. ``run``: the number of the run. ``expected``: for whom the first
    target waited. ``inferred``: from what the cause was concluded; "" where it was seen.
    ``partitions_moved`` is -1 where nobody has counted it.
    """

    group_id: str
    group_type: str
    units: str
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
    queue_ms: float | None
    assignor_ms: float | None
    in_place: bool | None
    change: TargetChange | None = None
    fix_ups: int | None = 0
    awaited: Sequence[NamedMember] = ()
    awaited_count: int = 0
    taken_over: Sequence[TakenOver] = ()
    elected_ms: int | None = None
    run: int = 0
    expected: ExpectedWait | None = None
    inferred: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsChanged:
    """A group that is not classic has a new group epoch because of no member."""

    group_id: str
    time_ms: int
    cause: TopicsCause
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReconciled:
    """Every member of a group has its target assignment of ``epoch``, or no member is left.

    Classic groups have none. ``assigned_ms``: when that target took effect (Unix milliseconds).
    ``last`` is the member that was awaited last, if it is still there. ``taken_over`` has the last
    members that took the target over.
    """

    group_id: str
    time_ms: int
    epoch: int
    assigned_ms: int
    members: int
    last: NamedMember | None = None
    taken_over: Sequence[TakenOver] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignmentFailed:
    """An assignor run failed; ``is_final``: it is not retried until the group changes."""

    group_id: str
    group_type: str
    epoch: int
    time_ms: int
    reason: str
    is_final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConverted:
    """A group changed to another type, with these members (online migration).

    ``group_type`` is the new type, ``epoch`` the group epoch or generation.
    """

    group_id: str
    time_ms: int
    group_type: str
    epoch: int
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReplicated:
    """The records of a rebalance's result are on the disks of a majority.

    ``number`` is the generation, or the epoch of the target; ``partition`` is that of
    __consumer_offsets, ``end_offset`` the offset after the batch with the last of the records. They
    were appended at ``appended_ms``, and committed at ``time_ms`` (Unix ms).
    """

    group_id: str
    number: int
    partition: int
    end_offset: int
    appended_ms: int
    time_ms: int


Fact: TypeAlias = (
    MemberEvent
    | RebalanceEnded
    | GroupDeleted
    | GroupConverted
    | TopicsChanged
    | TargetAssigned
    | TargetAssignmentFailed
    | GroupReconciled
    | ResultReplicated
)
