"""Check, when an answer is sent, that everything it depends on is committed.

Nothing here depends on an API. Every answer of a partition's machine is noted when it is created,
with the end of the batch of the records that it depends on: those of the groups that the request
names, of all groups when it names none. When the answer is sent, all of that must be on the disks
of a majority, the node must still lead in the epoch of the answer, and no other node may be able to
lead.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from failover.host import Host
from failover.identity import CATALOG_PARTITION
from failover.partitions.partition import Partition
from failover.requests.router import Requests
from failover.requests.share_calls import ShareCalls
from failover.simulation.event_log import Violation
from failover.simulation.patches import Patch, patched
from protocol.groups.context import Context
from protocol.groups.effects import CallShareState
from protocol.groups.effects import Request as HandledRequest
from protocol.groups.shard import GroupShard
from protocol.groups.share_state.context import ShareStateContext
from protocol.groups.share_state.shard import ShareStateShard
from protocol.wire import apis
from protocol.wire.apis import Route
from storage.election import Election
from storage.log import NOBODY
from storage.messages import Voted
from storage.quorum import majority
from storage.replica import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from failover.requests.share_calls import CallerTerm
    from failover.simulation.checkers.replicated import Replicated
    from failover.simulation.nodes.process import Process
    from failover.simulation.world import World
    from protocol.groups.effects import Reply, Request
    from storage.batch import RawRecord
    from storage.messages import Vote

NOT_WRITTEN: Final = 1 << 60
"""The end offset of a batch that is not appended yet."""


class PoisonError(RuntimeError):
    """A handler raised because it was made to."""


@dataclass(slots=True, eq=False)
class Need:
    """What one answer depends on: everything before ``end_offset``, as led in ``epoch``."""

    partition: Partition
    epoch: int
    end_offset: int
    message: Any


def _noting(ends: dict[str, int]) -> Callable[..., None]:
    """Return ``Partition._append``, extended to note for each group where its batch ends."""
    append = Partition._append

    def watched_batch(
        self: Partition, rows: Sequence[RawRecord], groups: Iterable[str], now: int
    ) -> None:
        names = list(groups)
        append(self, rows, names, now)
        ends.update(dict.fromkeys(names, self.replica.end_offset))

    return watched_batch


@dataclass(slots=True, eq=False)
class Term:
    """One replica's time as leader: where its own first record ends, and each group's last one."""

    epoch: int
    floor: int
    ends: dict[str, int] = field(default_factory=dict)
    last_end: int = 0
    unwritten: list[tuple[Need, frozenset[str]]] = field(default_factory=list)


class Evidence:
    """Notes what answers depend on, and checks that it is committed when they are sent.

    While clocks break the assumptions of leases (:attr:`World.is_lawless`) only commits are
    checked. ``upon_restore`` is called with each group that is rebuilt from the log.
    """

    def __init__(self, world: World, replicated: Replicated) -> None:
        self._world = world
        self._replicated = replicated
        self._terms: dict[Partition, Term] = {}
        self._needs: dict[tuple[int, int], Need] = {}
        self._calls_made: dict[tuple[int, int, int], Need] = {}
        self._answered: dict[int, int] = {}
        self._bound: dict[Partition, tuple[Any, ...]] = {}
        self.upon_restore: Callable[[str], None] = lambda _group_id: None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch hosts while they run, within this context."""
        handle, append_turn = Partition.handle, Partition._append_turn
        merge, refresh, on_vote = Requests.merge, Host._refresh, Election.on_vote
        evidence = self
        ends: dict[str, int] = {}  # of this turn's batches

        def watched_handle(self: Partition, event: Any, *arguments: Any) -> None:
            before = len(self.replies.new)
            handle(self, event, *arguments)
            if len(self.replies.new) > before:
                evidence._answers(self, before)

        def watched_append(self: Partition, *arguments: Any) -> None:
            ends.clear()
            append_turn(self, *arguments)
            left = {self._adapter.group_of(key) for key in self._turn}
            evidence._wrote(self, ends, left)

        def watched_merge(self: Requests, replies: list[Reply]) -> list[Reply]:
            if replies:
                evidence._leave(self._state.identity.node_id, replies)
            return merge(self, replies)

        def watched_refresh(self: Host, *arguments: Any) -> None:
            before = self.view.catalog
            refresh(self, *arguments)
            if self.view.catalog is not before:
                evidence._shows(self)

        def watched_on_vote(self: Election, vote: Vote) -> None:
            had_lease = self.core.role is Role.LEADER and self.core.lease_until_ms > self.core.now
            on_vote(self, vote)
            if had_lease:
                evidence._keeps_lease(self, vote)

        patches = (
            (Election, "on_vote", watched_on_vote),
            (Partition, "handle", watched_handle),
            (Partition, "_append_turn", watched_append),
            (Partition, "_append", _noting(ends)),
            (Partition, "_restore", self._restoring()),
            (Requests, "merge", watched_merge),
            (ShareCalls, "begin", self._beginning()),
            (Host, "_refresh", watched_refresh),
        )
        with patched(patches), patched(_poisoned(self._world)):
            yield

    def _restoring(self) -> Callable[..., None]:
        """Return ``Partition._restore``, extended to tell of the group."""
        restore, evidence = Partition._restore, self

        def watched_restore(self: Partition, group_id: str, now: int) -> None:
            restore(self, group_id, now)
            evidence.upon_restore(group_id)

        return watched_restore

    def _beginning(self) -> Callable[..., None]:
        """Return ``ShareCalls.begin``, extended to check what the call depends on."""
        begin, evidence = ShareCalls.begin, self

        def watched_begin(self: ShareCalls, call: CallShareState, term: CallerTerm) -> None:
            evidence._call_leaves(term.partition._me.node_id, term.partition, call)
            begin(self, call, term)

        return watched_begin

    def _keeps_lease(self, election: Election, vote: Vote) -> None:
        """Check that a leader with a lease does not vote: the candidate just cannot hear it."""
        core = election.core
        votes = (each for _, each in core.out.messages[-1:] if isinstance(each, Voted))
        if core.voted_for == vote.candidate.node_id or any(each.granted for each in votes):
            raise Violation(
                f"node {core.me.node_id} has a lease, and votes for node {vote.candidate.node_id}",
                f"partition {core.partition}",
            )

    # --- answers when they are created

    def _answers(self, partition: Partition, first: int) -> None:
        """Note what the newest answers of a partition depend on."""
        term = self._term(partition)
        unwritten = {partition._adapter.group_of(key) for key in partition._turn}
        for reply, _ in partition.replies.new[first:]:
            if isinstance(reply, CallShareState):
                self._calls(partition, term, reply, unwritten)
                continue
            request = partition.replies.open.get(reply.ticket)
            if request is None:
                continue
            groups = _groups(request)
            if groups is None:
                is_written, end_offset = not unwritten, term.last_end
            else:
                is_written = unwritten.isdisjoint(groups)
                end_offset = max((term.ends.get(group, 0) for group in groups), default=0)
            need = Need(partition, term.epoch, max(end_offset, term.floor), reply.message)
            if not is_written:
                need.end_offset = NOT_WRITTEN
                term.unwritten.append((need, frozenset(groups or ())))
            self._needs[partition._me.node_id, reply.ticket] = need

    def _calls(
        self, partition: Partition, term: Term, call: CallShareState, unwritten: Collection[str]
    ) -> None:
        """Note what a group's call of share coordinators depends on: the group's records."""
        end_offset = max(term.ends.get(call.group_id, 0), term.floor)
        need = Need(partition, term.epoch, end_offset, call)
        if call.group_id in unwritten:
            need.end_offset = NOT_WRITTEN
            term.unwritten.append((need, frozenset((call.group_id,))))
        self._calls_made[partition._me.node_id, partition.number, call.call] = need

    def _term(self, partition: Partition) -> Term:
        term = self._terms.get(partition)
        epoch = partition._led_epoch
        if term is None or term.epoch != epoch:
            leadership = partition.replica._leadership
            floor = 0 if leadership is None else leadership.epoch_start + 1
            term = self._terms[partition] = Term(epoch, floor)
        return term

    def _wrote(self, partition: Partition, ends: Mapping[str, int], left: set[str]) -> None:
        """Note where each group's records end: a large turn is written in several batches."""
        if not ends:
            return
        term = self._term(partition)
        term.ends |= ends
        term.last_end = partition.replica.end_offset
        unwritten, term.unwritten = term.unwritten, []
        for need, of in unwritten:
            if left.isdisjoint(of):
                written = [ends[group] for group in of if group in ends]
                need.end_offset = max(written, default=term.last_end)
            else:
                term.unwritten.append((need, of))

    # --- answers when they are sent

    def _leave(self, node_id: int, replies: Sequence[Reply]) -> None:
        for reply in replies:
            need = self._needs.pop((node_id, reply.ticket), None)
            if need is not None and need.message is reply.message:
                self._may_leave(self._replicated.processes[node_id], need)

    def _call_leaves(self, node_id: int, partition: Partition, call: CallShareState) -> None:
        need = self._calls_made.pop((node_id, partition.number, call.call), None)
        if need is not None and need.message is call:
            self._may_leave(self._replicated.processes[node_id], need)

    def _may_leave(self, process: Process, need: Need) -> None:
        partition = need.partition
        number, what = partition.number, type(need.message).__name__
        subject = f"partition {number}"
        if need.end_offset > self._committed(process, number):
            raise Violation(
                f"node {process.node_id} lets out {what}, which rests on records"
                f" {'that are not written' if need.end_offset == NOT_WRITTEN else ''}"
                f" up to {need.end_offset}; committed is what is before"
                f" {self._committed(process, number)}",
                subject,
            )
        if self._world.is_lawless:
            return
        if process.leads(number) != need.epoch:
            raise Violation(
                f"node {process.node_id} lets out {what} of epoch {need.epoch}, in which it does"
                " not lead any more",
                subject,
            )
        newest = self._answered.get(number, -1)
        if need.epoch < newest:
            raise Violation(
                f"node {process.node_id} lets out {what} of epoch {need.epoch}, after answers of"
                f" epoch {newest}",
                subject,
            )
        self._answered[number] = need.epoch
        self.has_lease(process, partition, what)

    def _committed(self, process: Process, number: int) -> int:
        committed = self._replicated.committed.get(number)
        end_offset = 0 if committed is None else committed.end_offset
        replica = process._partition(number)
        if replica is not None and end_offset < replica.replica.high_watermark:
            self._replicated.note_commits(process)
            end_offset = self._replicated.committed[number].end_offset
        return end_offset

    def has_lease(self, process: Process, partition: Partition, what: str) -> None:
        """Check that no other node can be elected while a leader answers.

        A voter cannot vote while it is bound by a promise, or is down: it restarts with a promise.
        """
        if self._world.is_lawless:
            return
        if partition.replica.lease_until_ms <= process.local_now():
            raise Violation(
                f"node {process.node_id} lets out {what} without a lease",
                f"partition {partition.number}",
            )
        self.is_bound(process, partition)

    def is_bound(self, process: Process, partition: Partition) -> None:
        """Check that no other node can be elected as long as a leader's lease lasts.

        This must hold at every moment, whatever happens until then: most voters are bound by their
        promises for at least as long, in true time. Checked again when the lease changes, when its
        clock was changed, or when any replica has another epoch, role or process.
        """
        replica, number = partition.replica, partition.number
        until_ms, voters = replica.lease_until_ms, replica.voters
        if self._world.is_lawless or len(voters) == 1 or until_ms <= process.local_now():
            return
        looked_at = (until_ms, voters, process.clock.changes, self._replicated.changes)
        if self._bound.get(partition) == looked_at:
            return
        self._bound[partition] = looked_at
        self._replicated.rules.is_renewed(process, replica)
        ends = process.clock.true(until_ms)
        free = [
            voter.node_id
            for voter in voters
            if voter.node_id != process.node_id
            and self._is_free(voter, number, replica.epoch, ends)
        ]
        if len(free) >= majority(len(voters)):
            raise Violation(
                f"node {process.node_id} has a lease in epoch {replica.epoch} until {ends} ms,"
                f" before which nodes {free} may elect another leader",
                f"partition {number}",
            )

    def _is_free(self, voter: Any, number: int, epoch: int, true_ms: int) -> bool:
        """Return whether a voter may vote for a leader other than this epoch's, before then."""
        process = self._replicated.processes[voter.node_id]
        if process.directory_id != voter.directory_id:
            return False
        partition = process._partition(number)
        if partition is None:
            return False
        core = partition.replica._core
        if core.epoch > epoch and core.voted_for != NOBODY:
            return True
        return process.clock.local(true_ms) > core.promise_until + 1

    def _shows(self, host: Host) -> None:
        """Check that what a node shows of the catalogue is committed."""
        node_id, catalog = host.identity.node_id, host._state.catalog
        committed = self._committed(self._replicated.processes[node_id], CATALOG_PARTITION)
        if catalog._replayed > committed or catalog._turn:
            raise Violation(
                f"node {node_id} shows the catalogue up to {catalog._replayed}, of which"
                f" {committed} are committed",
                f"partition {CATALOG_PARTITION}",
            )

    def repeated(self, process: Process, number: int) -> None:
        """Check that a cached answer is repeated only by a leader that no node can replace.

        A lease that is given up in this turn still holds: no message about it was sent yet.
        """
        partition = process._partition(number)
        if partition is None or self._world.is_lawless:
            return
        why = ""
        now = process.local_now()
        rules = self._replicated.rules
        if not rules.may_repeat(process.node_id, number, now) and len(partition.replica.voters) > 1:
            why = "without a lease"
        elif any(
            (other.leads(number) or -1) > partition._led_epoch
            for other in self._replicated.processes.values()
        ):
            why = "after another leader was elected"
        if why:
            raise Violation(
                f"node {process.node_id} lets out what it said before, {why}",
                f"partition {number}",
            )


def _groups(request: Request) -> tuple[str, ...] | None:
    """Return the groups whose records an answer may depend on; None: any records at all."""
    route = apis.API[request.api_key].route
    if route in (Route.GROUP, Route.SHARE_STATE):
        return (apis.group_id(request.message),)
    if route is Route.GROUPS:
        return apis.group_ids(request.api_key, request.message)
    return None


def _poisoned(world: World) -> tuple[Patch, ...]:
    """Let handlers raise when the world requires it, before a record or after some."""
    left = [-1]

    def fire(when: str) -> None:
        world.poison = left[0] = -1
        world.fault("handler raises", when)
        raise PoisonError(f"the simulation says so, {when}")

    def patches(machine: type[Any], context: type[Any]) -> tuple[Patch, Patch]:
        emit, machine_handle = context.emit, machine.handle

        def poisoned_handle(self: Any, event: Any, now: int) -> Any:
            if world.poison >= 0 and isinstance(event, HandledRequest):
                left[0] = world.poison
                if not left[0]:
                    fire("before the first record")
            try:
                return machine_handle(self, event, now)
            finally:
                left[0] = -1

        def poisoned_emit(self: Any, record: Any) -> None:
            emit(self, record)
            if left[0] > 0:
                left[0] -= 1
                if not left[0]:
                    fire("after some records")

        return (machine, "handle", poisoned_handle), (context, "emit", poisoned_emit)

    return (*patches(GroupShard, Context), *patches(ShareStateShard, ShareStateContext))
