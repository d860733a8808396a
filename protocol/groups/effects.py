"""The inputs and outputs of a shard: every event and every result is a value.

A shard never calls out. Its driver (the Ray actor or the simulator) passes it events and carries
out the :class:`Result`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kio.static.protocol import Entity

    from protocol.groups.facts import Fact
    from protocol.groups.topic_row import TopicRow
    from protocol.records import Record

Ticket: TypeAlias = int
"""Identifies one parked request. The driver draws it; the shard answers it at most once."""


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """Who sent a request: its client id and its host as Kafka writes it (``/127.0.0.1``).

    ``software`` is the name and version that the connection told (KIP-511), "" if it told none.
    """

    client_id: str
    host: str
    software: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A client's request, converted to the newest version of its API.

    ``api_version`` is the version that the client used: a few rules depend on it (for example
    KIP-394's MEMBER_ID_REQUIRED from JoinGroup 4 on). ``following`` requests of the same group are
    queued right behind this one: a record that each of them rewrites is written once for many.
    ``frame`` is the frame that the request was read from, if it came from a client.
    """

    ticket: Ticket
    api_key: int
    api_version: int
    client: ClientInfo
    message: Entity
    following: int = 0
    frame: bytes = field(default=b"", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Elected:
    """This replica now leads the partition: re-arm the timers of every group."""


@dataclass(frozen=True, slots=True)
class Resigned:
    """This replica no longer leads the partition: answer parked requests and drop the soft state.

    The answers (NOT_COORDINATOR) are sent at once. Every HeartbeatLease granted ends.
    """


@dataclass(frozen=True, slots=True)
class TimersDue:
    """The deadline that the shard asked for has passed."""


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """These topics were deleted from the catalogue: delete their committed offsets."""

    names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentComputed:
    """An assignor run succeeded: an answer to :class:`ComputeAssignment`.

    ``run`` repeats the task's. ``members`` are the members whose target assignment changed, each
    with the bytes of its ``ConsumerGroupTargetAssignmentMemberValue`` (version included).
    ``partitions_moved`` counts partitions whose owner changed, ``assignor_ms`` is the time of the
    assignor itself, ``queue_ms`` the time that the run waited for its worker.
    """

    group_id: str
    run: int
    members: Sequence[tuple[str, bytes]]
    partitions_moved: int = 0
    assignor_ms: float = 0.0
    queue_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentFailed:
    """An assignor run failed: the other answer to :class:`ComputeAssignment`.

    ``needs_whole``: the worker does not have the group as of ``base_run``; send the whole group.
    ``retriable``: the worker died or was too slow; another may succeed. ``no_worker``: no worker is
    available, so run the assignor in place. None of them: the assignor itself failed (it raised, or
    returned an invalid assignment): the old target stays until the group changes again.
    """

    group_id: str
    run: int
    reason: str
    needs_whole: bool = False
    retriable: bool = False
    no_worker: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexesResolved:
    """The topics that match each regular expression: the answer to :class:`ResolveRegexes`.

    ``topics`` maps an expression to the names of the topics, sorted. It is None when no worker
    could resolve them; the shard then tries again later. ``version`` repeats the task's.
    """

    group_id: str
    version: int
    topics: Mapping[str, tuple[str, ...]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsCreated:
    """What became of each topic: the answer to :class:`CreateTopics`.

    ``errors`` maps each topic's name to why it was not created; None: it was.
    """

    group_id: str
    errors: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateAnswered:
    """The answer to :class:`CallShareState` with the same ``call``: one result per partition."""

    group_id: str
    call: int
    response: Entity


Event: TypeAlias = (
    Request
    | Elected
    | Resigned
    | TimersDue
    | TopicsDeleted
    | AssignmentComputed
    | AssignmentFailed
    | RegexesResolved
    | TopicsCreated
    | ShareStateAnswered
)


class MemberRow(NamedTuple):
    """A member as passed to an assignor run; ``subscription`` is a key of the subscriptions."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    subscription: int


class TaskMemberRow(NamedTuple):
    """A member of a streams group as passed to an assignor run: its process and its client tags."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    subscription: int
    process_id: str
    tags: tuple[tuple[str, str], ...] = ()


class SubtopologyRow(NamedTuple):
    """A subtopology as passed to an assignor run."""

    subtopology_id: str
    tasks: int
    is_stateful: bool


class TaskSettings(NamedTuple):
    """What a streams group's run needs besides the members.

    ``subtopologies`` are sorted by id; there are none while the topology is not ready.
    ``rack_tags`` are the names of the client tags that spread standbys.
    """

    subtopologies: tuple[SubtopologyRow, ...] = ()
    standby_replicas: int = 0
    rack_tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChanges:
    """The changes of a group since another run, or the whole group: plain values only.

    ``subscriptions`` maps numbers to topic names; ``dropped_subscriptions`` are no longer used.
    ``gone`` are the ids of removed members in order of removal, each with the id of the static
    member that replaced it and its target assignment, or None; ``members`` (rows) are new or
    changed after that. ``topics`` are all subscribed topics that exist, None when none has changed.
    ``targets`` are the members' present target assignments as record values; only a whole group has
    them. ``earlier`` is what members had that were gone for a while: they count as the owners of it
    again, whoever has it now. Apply the fields in order.
    """

    topics: tuple[TopicRow, ...] | None = None
    subscriptions: Mapping[int, frozenset[str]] = field(default_factory=dict)
    gone: tuple[tuple[str, str | None], ...] = ()
    members: tuple[Any, ...] = ()
    dropped_subscriptions: tuple[int, ...] = ()
    targets: tuple[tuple[str, bytes], ...] = ()
    earlier: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeAssignment:
    """Run an assignor for a group.

    ``run`` identifies this run: one group epoch may have several runs, for example when one
    answers late. At most one run per group is awaited. With ``base_run`` None, ``changes`` is the
    whole group; otherwise it is what changed since that run. The worker must still hold that run's
    group and result, or it answers AssignmentFailed with ``needs_whole``. The answer has the
    members whose target changed, or all of them if ``answer_whole``. ``is_shared``: a partition
    may have several owners, and the assignor must return a ``SharedAssignment``; otherwise a
    ``GroupAssignment``. The wrong class fails the run. ``tasks``: a task assignor runs, and the
    members are :class:`TaskMemberRow`; None: the group's members get partitions.
    """

    group_id: str
    run: int
    assignor: str
    base_run: int | None
    changes: GroupChanges
    answer_whole: bool = False
    is_shared: bool = False
    tasks: TaskSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveRegexes:
    """Find the topics whose whole name matches each regular expression (RE2 syntax).

    ``version`` is that of the topics image; ``topics`` are all topic names in it.
    """

    group_id: str
    version: int
    regexes: tuple[str, ...]
    topics: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAssignment:
    """Cancel the group's run: the group was deleted, converted, or has another leader now.

    A worker may still answer; the answer is ignored.
    """

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics:
    """Create a group's internal topics in the catalogue; ``request`` is a CreateTopicsRequest."""

    group_id: str
    request: Entity


@dataclass(frozen=True, slots=True, kw_only=True)
class CallShareState:
    """Send a request about a group's share state to the share coordinators (APIs 83 to 87).

    It is sent when the group's records so far are committed, as an answer would be. ``call``
    identifies it among those of the shard.
    """

    group_id: str
    call: int
    request: Entity


WorkerTask: TypeAlias = ComputeAssignment | ResolveRegexes | CancelAssignment
"""Work for an assignor worker."""

Task: TypeAlias = WorkerTask | CreateTopics | CallShareState
"""Work done elsewhere: by an assignor worker, by the catalogue, or by share coordinators."""


class SessionHolder(Protocol):
    """The soft state of a member as the heartbeat path sees it."""

    session_timeout_ms: int
    session_deadline_ms: int


class StampHolder(Protocol):
    """The soft state of a group as the heartbeat path sees it."""

    stamp: int


class LeaderLease:
    """How long a partition's leader may answer without hearing from a majority of its replicas.

    One object per partition, kept up to date by the shard's driver: Unix milliseconds.
    """

    __slots__ = ("lease_until_ms",)

    def __init__(self, lease_until_ms: int) -> None:
        self.lease_until_ms = lease_until_ms


PERMANENT_LEASE: Final = LeaderLease(1 << 62)
"""The lease of a shard that has no other replica to lead it."""


@dataclass(slots=True)
class HeartbeatLease:
    """Permission to repeat the answer to a heartbeat without calling the shard.

    While ``group.stamp`` is still ``stamp``, the same heartbeat gets the same answer. The caller
    that repeats it must move ``member.session_deadline_ms`` to now + ``member.session_timeout_ms``.
    Anything that could change the answer (a rebalance, a new generation, removal of the group, loss
    of leadership) bumps the group's stamp. While the lease ``leadership`` has run out, nothing is
    repeated. The driver fills in ``leadership``; the shard does not know it.
    """

    group: StampHolder
    stamp: int
    member: SessionHolder
    leadership: LeaderLease = PERMANENT_LEASE


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a ticket, in the newest version of its API.

    ``group_id`` is the group whose records must be committed before the answer is sent; None when
    the request determines that (for APIs about many groups, the router knows which).
    """

    ticket: Ticket
    message: Entity
    group_id: str | None = None
    lease: HeartbeatLease | None = None


class GroupFailed(NamedTuple):
    """An action on a single group raised: its memory may differ from the log.

    ``what`` describes the action; ``why`` names the exception. None of its effects are in a result.
    """

    group_id: str
    what: str
    why: str


@dataclass(slots=True)
class Result:
    """Everything that one event produced, in order.

    ``tasks`` run elsewhere (an assignor, a regular expression over all topics); each answer comes
    back as an event. ``ends_batch``: write these records before any later ones, which would replace
    those with the same keys. ``rewritten`` counts the members in a record that holds a whole group:
    the record is written once for all events of a turn.
    """

    records: list[Record] = field(default_factory=list)
    ends_batch: bool = False
    rewritten: int = 0
    replies: list[Reply] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
