"""What goes into a shard and what comes out of it: every event and every result is a value.

A shard never calls out. Whoever drives it (the Ray actor or the simulator) hands it events and
carries out the :class:`Result`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kio.static.protocol import Entity

    from protocol.groups.facts import Fact
    from protocol.records import Record

Ticket: TypeAlias = int
"""Names one parked request. Drawn by the driver, answered at most once."""


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """Who sent a request: its client id and its host as Kafka writes it (``/127.0.0.1``)."""

    client_id: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A client's request in the newest shape of its API.

    ``api_version`` is the version the client used: a few rules depend on it (KIP-394's
    MEMBER_ID_REQUIRED from JoinGroup 4 on, for one). ``following`` other requests of its group wait
    right behind it: a record that each of them rewrites is written once for many.
    ``frame`` is what a client's request was read from, if it came from one.
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
    """This replica no longer leads the partition: answer what is parked, drop the soft state.

    The answers (NOT_COORDINATOR) wait for nothing. Every HeartbeatLease given out ends.
    """


@dataclass(frozen=True, slots=True)
class TimersDue:
    """The deadline that the shard asked for has come."""


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """These topics are gone from the catalogue: their committed offsets go too."""

    names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentComputed:
    """A run of an assignor has ended well: the answer to :class:`ComputeAssignment`.

    ``run`` repeats the task's. ``members`` are the members whose target assignment changed, each
    with the bytes of its ``ConsumerGroupTargetAssignmentMemberValue`` (version included).
    ``partitions_moved`` counts partitions whose owner changed, ``assignor_ms`` what the assignor
    itself took, ``queue_ms`` how long the run waited for its worker.
    """

    group_id: str
    run: int
    members: Sequence[tuple[str, bytes]]
    partitions_moved: int = 0
    assignor_ms: float = 0.0
    queue_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentFailed:
    """A run of an assignor came to nothing: the other answer to :class:`ComputeAssignment`.

    ``needs_whole``: the worker does not hold the group as of ``base_run``; ask with all of it.
    ``retriable``: the worker died or was too slow; another may do. ``no_worker``: nobody is there
    to ask, so the run is to be done in place. None of them: the assignor itself failed (it raised,
    or its assignment was not one): the old target stays until the group changes again.
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

    ``topics`` maps an expression to the names of the topics, sorted; None is the answer when
    nobody could resolve them, which is tried again later. ``version`` repeats the task's.
    """

    group_id: str
    version: int
    topics: Mapping[str, tuple[str, ...]] | None


Event: TypeAlias = (
    Request
    | Elected
    | Resigned
    | TimersDue
    | TopicsDeleted
    | AssignmentComputed
    | AssignmentFailed
    | RegexesResolved
)


class TopicRow(NamedTuple):
    """A topic as an assignor's run is told of it.

    ``racks`` has one tuple per partition, the racks of its replicas, sorted; empty when racks do
    not matter to the group.
    """

    topic_id: bytes  # 16 bytes
    name: str
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


class MemberRow(NamedTuple):
    """A member as an assignor's run is told of it; ``subscription`` names an entry of the group."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    subscription: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChanges:
    """What is new in a group since another run, or all of it: all plain values.

    ``subscriptions`` maps numbers to topic names; ``dropped_subscriptions`` are used no more.
    ``gone`` are member ids in the order in which they went, each with the id of the static member
    that took its place and its target assignment, or None; ``members`` are new or changed after
    that. ``topics`` are all subscribed topics that exist, None when none has changed. ``targets``
    are the members' present target assignments as record values; only a whole group has them.
    Apply in the order of the fields.
    """

    topics: tuple[TopicRow, ...] | None = None
    subscriptions: Mapping[int, frozenset[str]] = field(default_factory=dict)
    gone: tuple[tuple[str, str | None], ...] = ()
    members: tuple[MemberRow, ...] = ()
    dropped_subscriptions: tuple[int, ...] = ()
    targets: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeAssignment:
    """Run an assignor for a group.

    ``run`` names this run: a group epoch may have several, one that answers late among them. At
    most one is waited for per group. With ``base_run`` None, ``changes`` is the whole group; else
    it is what changed since that run, which the worker must still hold, with the
    result that it gave then (else it answers AssignmentFailed with ``needs_whole``). The answer
    names the members whose target is another one; all of them if ``answer_whole``. ``is_shared``:
    a partition may have several owners, and the assignor must give a ``SharedAssignment``; else
    a ``GroupAssignment``. The other one fails the run.
    """

    group_id: str
    run: int
    assignor: str
    base_run: int | None
    changes: GroupChanges
    answer_whole: bool = False
    is_shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveRegexes:
    """Find the topics whose whole name matches each regular expression (RE2 syntax).

    ``version`` names the image of the topics; ``topics`` are all topic names of it.
    """

    group_id: str
    version: int
    regexes: tuple[str, ...]
    topics: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAssignment:
    """Nobody waits for the group's run any more: it was deleted or converted, or is led elsewhere.

    A worker may still answer; the answer is ignored.
    """

    group_id: str


Task: TypeAlias = ComputeAssignment | ResolveRegexes | CancelAssignment
"""Work for an assignor worker."""


class SessionHolder(Protocol):
    """The soft state of a member as the heartbeat path sees it."""

    session_timeout_ms: int
    session_deadline_ms: int


class StampHolder(Protocol):
    """The soft state of a group as the heartbeat path sees it."""

    stamp: int


class LeaderLease:
    """How long a partition's leader may answer without hearing from a majority of its replicas.

    One object per partition, kept up to date by whoever drives the shard: Unix milliseconds.
    """

    __slots__ = ("lease_until_ms",)

    def __init__(self, lease_until_ms: int) -> None:
        self.lease_until_ms = lease_until_ms


PERMANENT_LEASE: Final = LeaderLease(1 << 62)
"""The leadership of a shard that nobody else could lead."""


@dataclass(slots=True)
class HeartbeatLease:
    """Leave to repeat a heartbeat's answer without asking the shard again.

    While ``group.stamp`` is still ``stamp``, the same heartbeat gets the same answer; whoever
    repeats it must move ``member.session_deadline_ms`` to now + ``member.session_timeout_ms``.
    Anything that could change the answer (a rebalance, a new generation, removal of the group, loss
    of leadership) bumps the group's stamp. While ``leadership`` is out of its own lease nothing is
    repeated; whoever hands the lease out fills it in, the shard does not know it.
    """

    group: StampHolder
    stamp: int
    member: SessionHolder
    leadership: LeaderLease = PERMANENT_LEASE


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a ticket, in the newest shape of its API.

    ``group_id`` names the group whose records must be committed before the answer may leave; None
    where that is told by the request (APIs about many groups: whoever routes it knows which).
    """

    ticket: Ticket
    message: Entity
    group_id: str | None = None
    lease: HeartbeatLease | None = None


class GroupFailed(NamedTuple):
    """What was done for one group by itself has raised: its memory may differ from the log.

    ``what`` was to be done; ``why`` names the exception. Nothing of it is in a result.
    """

    group_id: str
    what: str
    why: str


@dataclass(slots=True)
class Result:
    """Everything one event led to, in the order in which it came about.

    ``tasks`` are to be run elsewhere (an assignor, a regular expression over all topics); each
    comes back as an event of its own. ``ends_batch``: the records are written before any later
    ones come, which would take the place of those with the same keys. ``rewritten`` counts the
    members in a record that holds a whole group: it is written once for all events of a turn.
    """

    records: list[Record] = field(default_factory=list)
    ends_batch: bool = False
    rewritten: int = 0
    replies: list[Reply] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
