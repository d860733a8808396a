"""Runtime state of a modern group: sessions, leases, the run under way.

It exists only on the leader. Only ``modern`` and ``target`` change it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from protocol.groups.event_log import MemberEventLog
from protocol.groups.fleet.kept_assignments import KeptAssignments
from protocol.groups.modern.target_feed import TargetFeed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kio.static.protocol import Entity

    from protocol.groups.effects import AssignmentComputed, HeartbeatLease
    from protocol.groups.facts import MemberEvent, TakenOver, TopicsCause
    from protocol.groups.fleet.first_assignment import FirstAssignment
    from protocol.groups.modern.hard_state import ModernGroup, ModernGroupMember
    from protocol.groups.topics import Topics


TAKEN_OVER_MAX: Final = 10
"""The members that took over a target last: so many are named."""

FREED_MAX: Final = 10_000
"""Members that are gone whose targets are kept until the next target."""


@dataclass(slots=True, eq=False, repr=False)
class Session:
    """A member on the leader: its session, and the answer that may be repeated.

    ``stamp`` is bumped by every change that could alter that answer.
    """

    member: ModernGroupMember
    session_timeout_ms: int
    session_deadline_ms: int = 0
    stamp: int = 0
    lease: HeartbeatLease | None = None
    answer: Entity | None = None

    def __repr__(self) -> str:
        return f"Session({self.member.member_id!r})"


@dataclass(frozen=True, slots=True)
class Change:
    """When (Unix ms) the target assignment became outdated, and why; None: not known."""

    since_ms: int
    cause: MemberEvent | TopicsCause | None


@dataclass(slots=True, eq=False)
class AssignorRun:
    """An assignor run under way: its epoch, its assignor, and its start (Unix ms).

    ``number`` identifies it in its task and its answer. ``successors`` maps members, as the run
    knows them, to the static members that have replaced them; ``_known`` is the reverse map.
    """

    number: int
    epoch: int
    assignor: str
    started_ms: int
    in_place: bool
    change: Change
    successors: dict[str, str] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)

    def replaced(self, old_id: str, new_id: str) -> None:
        """Note that a static member replaced another, which may itself be a replacement."""
        known = self._known.pop(old_id, old_id)
        self.successors[known] = new_id
        self._known[new_id] = known


@dataclass(slots=True, eq=False)
class TargetWrite:
    """A target assignment that is written slice by slice: ``written`` members so far.

    ``computed_ms``: when the run's answer came (Unix ms). ``left_out`` members have left since the
    run began. ``before`` are the old targets of those written, ``members`` their records' values.
    The ``withdrawn`` members have no target any more; they are written last.
    """

    run: AssignorRun
    result: AssignmentComputed
    computed_ms: int
    written: int = 0
    left_out: int = 0
    before: dict[str, bytes] = field(default_factory=dict)
    members: dict[str, Any] = field(default_factory=dict)
    withdrawn: Sequence[str] = ()

    @property
    def size(self) -> int:
        """How many members are to be written."""
        return len(self.result.members) + len(self.withdrawn)

    @property
    def is_whole(self) -> bool:
        """Whether all of them are written."""
        return self.written >= self.size


@dataclass(slots=True, eq=False)
class FreedTargets:
    """The targets, and the member records' values, of members that are gone; at most FREED_MAX.

    ``is_whole`` is False when there were more.
    """

    targets: dict[str, bytes] = field(default_factory=dict)
    members: dict[str, Any] = field(default_factory=dict)
    is_whole: bool = True

    def add(self, member_id: str, target: bytes | None, metadata: Any) -> None:
        """Add a member that is being removed."""
        if len(self.members) >= FREED_MAX:
            self.is_whole = False
            return
        self.members[member_id] = metadata
        if target is not None:
            self.targets[member_id] = target


@dataclass(frozen=True, slots=True, eq=False)
class KeptForOperators:
    """What only operators are told of a group, kept while its state is read again from the log.

    ``change`` is what the next target is for, ``epoch`` that of the target in force.
    """

    change: Change | None
    epoch: int
    assigned_ms: int | None
    taken_over: deque[TakenOver]
    event_log: MemberEventLog
    client_software: dict[str, str]


@dataclass(slots=True)
class UnsettledPeriod:
    """When members of a group were first found unsettled, and when last (Unix ms)."""

    since_ms: int = 0
    last_ms: int = -(1 << 62)

    def continues(self, now: int, pause_ms: int) -> int:
        """Note that a member is unsettled; return for how long the group has been so, in ms.

        A new period begins when no member was found unsettled for ``pause_ms``.
        """
        if now - self.last_ms > pause_ms:
            self.since_ms = now
        self.last_ms = now
        return now - self.since_ms


@dataclass(slots=True, eq=False, repr=False)
class ModernGroupRuntime:
    """Soft state of a consumer group, on the leader only.

    ``is_stale``: the topics may have changed since ``metadata_hash`` was last compared; the next
    heartbeat then compares it. ``image`` is the topics image that ``hash_sum`` was made from, with
    the partitions' racks if ``is_rack_aware``. ``change``: the first change of the group since the
    last run began. ``failed_epoch``: the assignor failed for the group at this epoch; ``retry_ms``:
    no run begins before. ``unarmed``: members that have no session yet after an election.
    ``resolving``: the topics version that regular expressions are being matched against, None when
    they are not; ``has_new_topics``: they may match topics that they were not matched against.
    ``must_bump``: the classic group that it was still owes a member a partition, so a new target is
    due whatever has changed since. ``hold_ms``: no run begins before, so that more members can join
    first. ``first``: the first target waits for expected instances. ``own``: what only the group's
    type keeps. ``assigned_ms``: when members began to move to the newest target, None when all have
    it. ``unsettled_period``: how long members have been told to come again soon. ``freed``: what
    members had that are gone since the last target. ``taken_over``: the last members that took over
    the newest target. ``emptied_epoch``: since which epoch the last member was gone, as told; 0:
    none was told. ``client_software``: of the members whose connections told it. ``kept``: what
    static members had whose sessions have expired.
    """

    group: ModernGroup[Any]
    group_id: str = field(init=False)
    sessions: dict[str, Session] = field(default_factory=dict)
    feed: TargetFeed = field(default_factory=TargetFeed)
    run: AssignorRun | None = None
    target_write: TargetWrite | None = None
    failures: int = 0
    failed_epoch: int = 0
    retry_ms: int = 0
    change: Change | None = None
    assigned_ms: int | None = None
    is_stale: bool = True
    image: Topics | None = None
    is_rack_aware: bool = False
    hash_sum: int = 0
    unarmed: list[str] = field(default_factory=list)
    resolving: int | None = None
    has_new_topics: bool = True
    must_bump: bool = False
    hold_ms: int = 0
    first: FirstAssignment | None = None
    own: Any = field(init=False)
    unsettled_period: UnsettledPeriod = field(default_factory=UnsettledPeriod)
    event_log: MemberEventLog = field(default_factory=MemberEventLog)
    freed: FreedTargets = field(default_factory=FreedTargets)
    taken_over: deque[TakenOver] = field(default_factory=lambda: deque(maxlen=TAKEN_OVER_MAX))
    emptied_epoch: int = 0
    client_software: dict[str, str] = field(default_factory=dict)
    kept: KeptAssignments = field(default_factory=KeptAssignments)

    def __post_init__(self) -> None:
        self.group_id = self.group.group_id
        self.own = self.group.kind.soft_state()

    def runs(self) -> Iterator[AssignorRun]:
        """Return the runs whose result is still to come, or to be written."""
        if self.run is not None:
            yield self.run
        if self.target_write is not None:
            yield self.target_write.run

    def for_operators(self) -> KeptForOperators:
        """Return what is to be kept if the group is read again."""
        changes = [self.change, *(run.change for run in self.runs())]
        return KeptForOperators(
            change=next((each for each in changes[::-1] if each is not None), None),
            epoch=self.group.assignment_epoch,
            assigned_ms=self.assigned_ms,
            taken_over=self.taken_over,
            event_log=self.event_log,
            client_software=self.client_software,
        )

    def keep(self, kept: KeptForOperators) -> None:
        """Take over what was kept, as far as it is still true."""
        group = self.group
        self.event_log, self.client_software = kept.event_log, kept.client_software
        if group.epoch > group.assignment_epoch and group.members:
            self.change = kept.change or self.change
        if group.assignment_epoch == kept.epoch:
            self.assigned_ms, self.taken_over = kept.assigned_ms, kept.taken_over

    def end_leases(self) -> None:
        """End the repetition of answers: the target has changed, or leadership is over."""
        for session in self.sessions.values():
            session.stamp += 1
