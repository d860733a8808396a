"""One partition: a state machine, its replica and its gate.

During a turn the records of all events are gathered: the last value per key, in order of the last
write. :meth:`Partition.drain` ends the turn: it encodes each once and appends one batch.

A standby applies committed batches as they arrive, so that it can lead at once. A leader has also
applied uncommitted records. When it loses the leadership, and then those records, its machine is
dropped and rebuilt from the log, in slices.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from failover.partition_kinds import title_of
from failover.partitions.coalescing import Runs
from failover.partitions.containment import (
    HandlerFailed,
    PartitionFailed,
    asked,
    cut,
    encoded,
    rows_of,
    shared_out,
)
from failover.partitions.loading import Loading
from failover.partitions.replaying import replay
from failover.partitions.replies import Replies
from failover.partitions.results import UnreplicatedResults
from failover.partitions.turn_output import TurnOutput
from protocol.groups.effects import Elected, LeaderLease, Request, Resigned
from protocol.reasons import reason, shown
from protocol.wire.errors import ErrorCode
from storage.log import AppendBatch, LogError, TruncateFrom
from storage.replica import Replica, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from failover.effects import Effects
    from failover.partitions.machine import MachineAdapter, StateMachine
    from protocol.groups.effects import Result, Ticket
    from protocol.records import Record
    from storage.batch import Batch, RawRecord
    from storage.log import Write
    from storage.replica import Ready, ReplicaOptions


class PartitionState(StrEnum):
    """A partition's stage on its way to serving.

    LOADING reads the log; FOLLOWER has applied what is committed; LEADER answers.
    """

    LOADING = "Loading"
    FOLLOWER = "Follower"
    LEADER = "Leader"


NewMachine: TypeAlias = "Callable[[], StateMachine]"


def _nothing() -> Sequence[Any]:
    return ()


class Partition:
    """One replica's state machine, log and waiting replies.

    ``upon_election`` returns events for the machine right after ``Elected``. A reload replaces
    ``machine`` by another object. ``leader`` is the epoch and its leader (-1: unknown);
    ``has_news`` is set when it has changed. ``stuck`` is set while nothing can be written: a
    request that would wait for a write gets this error at once, and the writes stay pending.
    """

    def __init__(
        self, options: ReplicaOptions, new_machine: NewMachine, adapter: MachineAdapter, now: int
    ) -> None:
        log, self.number = options.log, options.partition
        stored = log.stored(self.number)
        tail = log.batches(self.number, stored.applied_offset)
        self.replica = Replica(options, stored, tail, now)
        self.machine = new_machine()
        self.state = PartitionState.LOADING
        self.is_reloading = False
        self.leader = (-1, -1)
        self.has_news = False
        self.stuck: ErrorCode | None = None
        self.skipped = 0
        self.replies = Replies(options.timing.election_min_ms)
        self.leadership = LeaderLease(0)
        self.upon_election: Callable[[], Sequence[Any]] = _nothing
        self._me = options.me
        self._log = log
        self._new_machine = new_machine
        self._adapter = adapter
        self._loading = Loading(self.number, log)
        self._replayed = 0
        self._applied = 0
        self._has_loaded = False
        self._may_lead = True
        self._be_electable()
        self._is_elected = False
        self._led_epoch = -1
        self._turn: dict[Any, Record] = {}
        self.deferred: deque[tuple[Request, Sequence[str] | None]] = deque()
        self._again: list[tuple[Request, Sequence[str]]] = []
        self._runs = Runs()
        self._output = TurnOutput(self.number)
        self._results = UnreplicatedResults(self.number)
        self._failure: PartitionFailed | None = None

    @property
    def settled(self) -> bool:
        """Whether everything in the machine is committed, and everything committed is in it."""
        if self.state is PartitionState.LOADING or self._turn:
            return False
        return self._replayed <= self.replica.high_watermark

    @property
    def lacks_lease(self) -> bool:
        """Whether this leader has no lease: the first has not arrived, or leadership is moving.

        What it did now might be lost; requests should wait the few milliseconds.
        """
        return self.leadership.lease_until_ms == 0

    @property
    def is_coming(self) -> bool:
        """Whether this replica is about to lead: requests should wait for it."""
        return self._is_elected or self._is_alone

    def is_believing(self, now: int) -> bool:
        """Whether a cached heartbeat answer may be sent: no other node can lead meanwhile."""
        return self._is_alone or (self._is_elected and now < self.replica.lease_until_ms)

    @property
    def applied_offset(self) -> int:
        """The offset up to which the compacted state on disk is written."""
        return self._loading.compactor.applied_offset

    @property
    def start_offset(self) -> int:
        """The first offset still in the log."""
        return self._loading.compactor.start_offset

    @property
    def is_voter(self) -> bool:
        """Whether this very replica, not only its node, is one of the voters that it knows."""
        return self._me in self.replica.voters

    def may_lead(self, may_lead: bool) -> None:
        """Set whether this replica may stand for election, once it is loaded."""
        self._may_lead = may_lead
        self._be_electable()

    def _be_electable(self) -> None:
        self.replica.electable = self._may_lead and self.state is not PartitionState.LOADING

    @property
    def _is_alone(self) -> bool:
        voters = self.replica.voters
        return len(voters) == 1 and voters[0] == self._me

    # --- reading the log

    def load_slice(self, records: int) -> int:
        """Replay at most this many committed records of the log; return how many there were.

        None until the log has truncated what the replica gave up: by offset alone that would look
        committed. On a full disk this lasts until there is space.
        """
        loading = self._loading
        if self.state is not PartitionState.LOADING or loading.is_blocked:
            return 0
        if self.stuck is not None:
            self.is_reloading = True  # as soon as there is space, while the process continues
            return 0
        if self.replica.is_rewriting:
            return 0
        replayed = self._replay(islice(loading.records(self.replica), records))
        if replayed < records and loading.has_all(self.replica):
            self.state = PartitionState.FOLLOWER
            self.is_reloading = False
            self._has_loaded = True
            self._replayed = self._applied = loading.offset
            self._be_electable()
        return replayed

    def _reload(self) -> None:
        """Drop the machine; rebuild it from the log."""
        self.machine = self._new_machine()
        self.state = PartitionState.LOADING
        self.is_reloading = True
        self._be_electable()
        self._turn.clear()
        self._loading.begin()

    # --- events

    def handle(self, event: Any, now: int, depends_on: Sequence[str] | None = ()) -> None:
        """Pass an event to the machine and gather its results for :meth:`drain`.

        A request's own reply also waits for the groups ``depends_on`` (None: all). Raises
        :class:`HandlerFailed` when a request failed: answer it; its group was restored.
        """
        if self._failure is not None:
            raise self._failure  # where the first report of it went
        try:
            result = self.machine.handle(event, now)
        except Exception as error:
            self._contain(event, error, now)
            return
        if isinstance(event, Request):
            self.replies.open[event.ticket] = event
            self._gather(result, now, event.ticket if depends_on != () else None, depends_on)
            self._run_on(event, result, now, depends_on)
        else:
            self._runs.end()
            self._gather(result, now)
        self._mend(now)

    def _run_on(
        self, request: Request, result: Result, now: int, depends_on: Sequence[str] | None
    ) -> None:
        """Delay a large record for the requests next in the queue, unless this one waits for it."""
        if depends_on == ():
            group_id = getattr(request.message, "group_id", None) or ""
            self._runs.served(group_id, result.rewritten, request.following, now)
        else:
            self._runs.end()

    def _gather(
        self,
        result: Result,
        now: int,
        asked: Ticket | None = None,
        depends_on: Sequence[str] | None = (),
    ) -> None:
        """Keep an event's results for the end of the turn."""
        turn = self._turn
        self._output.facts += result.facts
        for record in result.records:
            turn.pop(record.key, None)
            turn[record.key] = record
        if result.ends_batch and turn and self._leads:
            self._runs.end()
            self._append_turn(now)
        if result.replies or asked is not None:
            self.replies.add(result.replies, asked, depends_on)
        if result.tasks:
            self._output.tasks += self.replies.hold_calls(result.tasks)

    # --- recovery after a handler raised

    def _contain(self, event: Any, error: Exception, now: int) -> None:
        """Rebuild the groups that an event left in doubt; a request has failed then."""
        if isinstance(event, Request):
            self.replies.open.pop(event.ticket, None)  # parked or not, it is answered as failed
        groups = self.machine.groups_of(event)
        if groups is None:
            name = type(event).__name__
            self._failure = PartitionFailed(
                f"{title_of(self.number)} failed on {name} and must be reloaded"
            )
            raise self._failure from error
        for group_id in groups:
            self._restore(group_id, now)
        if isinstance(event, Request):
            raise HandlerFailed(reason(error)) from error
        for group_id in groups:
            self._output.note_restored(type(event).__name__, group_id, reason(error))

    def _mend(self, now: int) -> None:
        """Rebuild the groups that failed on their own."""
        for group_id, what, why in self.machine.take_failures():
            self._restore(group_id, now)
            self._output.note_restored(what, group_id, why)

    def _restore(self, group_id: str, now: int) -> None:
        """Restore a group from the log; requests that wait in it are refused as retriable."""
        try:
            self.machine.forget(group_id)
            others = (request for request, _ in (*self.deferred, *self._again))
            self.replies.refuse_parked(group_id, self._adapter.not_leader, others)
            prefixes = self._adapter.prefixes_of(group_id)
            self._replay(rows_of(self.number, self._log, self.replica, self._loading, prefixes))
            group_of = self._adapter.group_of
            for key, record in self._turn.items():
                if group_of(key) == group_id:
                    self.machine.replay(record)
            self._gather(self.machine.restored(group_id, now), now)
        except LogError:
            raise
        except Exception as error:
            self._failure = PartitionFailed(
                f"{title_of(self.number)}: group {shown(group_id)} cannot be built again"
            )
            raise self._failure from error

    def defer(self, request: Request, depends_on: Sequence[str] | None) -> None:
        """Keep a request of a paused leader for :meth:`resumed`."""
        self.replies.open[request.ticket] = request
        self.deferred.append((request, depends_on))

    def resumed(self) -> Iterator[tuple[Request, Sequence[str] | None]]:
        """Remove the requests that waited, one after the other, if this leader resumes.

        Those that are still to come wait here, in case the one before ends the group's memory, or
        this leadership.
        """
        if self.state is not PartitionState.LEADER:
            return
        self.leadership.lease_until_ms = self.replica.lease_until_ms
        if self.lacks_lease:
            return
        for _ in range(len(self.deferred)):
            if self.deferred:
                yield self.deferred.popleft()

    def tick(self, now: int) -> None:
        """Advance the replica's time; a replica without peers waits until its log is read."""
        if self.state is not PartitionState.LOADING or not self._is_alone:
            self.replica.tick(now)

    def next_deadline(self) -> int | None:
        """Return when :meth:`tick`, :meth:`load_slice` or the machine's timers are due; 0: now."""
        due = self.replica.next_deadline()
        if self.state is PartitionState.LEADER:
            if self.leadership.lease_until_ms:
                own = self.machine.next_deadline()
                if own is not None and (due is None or own < due):
                    due = own
            run_ms = self._runs.next_deadline()
            if run_ms is not None and (due is None or run_ms < due):
                due = run_ms
            silent_at_ms = self.replies.silent_at_ms
            if silent_at_ms is not None and (due is None or silent_at_ms < due):
                return silent_at_ms
        elif self.state is PartitionState.LOADING:
            if self.is_reloading and not self._loading.is_blocked and self.stuck is None:
                return 0
            if self._is_alone:
                return None
        return due

    def doubt(self, now: int) -> None:
        """Trust no lease from before ``now``: see :meth:`failover.host.Host.doubt`."""
        self.replica.doubt(now)
        if self.state is PartitionState.LEADER:
            self.leadership.lease_until_ms = self.replica.lease_until_ms

    # --- the end of a turn

    def drain(self, now: int, effects: Effects) -> bool:
        """End the turn: add the writes, messages and answers.

        Return whether something may have been committed or loaded since the last time.
        """
        if self._failure is not None:
            raise self._failure
        self._mend(now)
        replica, has_moved = self.replica, self._has_loaded
        self._has_loaded = False
        if self.state is PartitionState.LEADER:
            self._runs.settle(now)
            if self.replies.new or self.replies.committed:
                replica.need_lease(now)
            if self._leads and (self._turn or self._again):
                self._append_turn(now)
                self._handle_again(now)
        elif self.state is PartitionState.FOLLOWER:
            self._follow(now)
        while replica.is_ready:
            has_moved = True
            self._take(replica.ready(now, effects.number), now, effects)
        if self.replies.new or self._output:
            self._answer(effects)
        self.refuse_waiting(effects)
        if self.state is PartitionState.LEADER:
            self.leadership.lease_until_ms = replica.lease_until_ms
            self.replies.use_lease(now, self.leadership, effects.replies)
            if self.replies.calls:
                effects.add_tasks(self.number, self.replies.take_calls())
        return has_moved

    def refuse_waiting(self, effects: Effects) -> None:
        """If stuck, refuse the requests in the gate now; their later replies are dropped."""
        if self.stuck is not None:
            self.replies.refuse_gate(self.stuck, effects.replies)

    def compact(self) -> list[Write]:
        """Return the writes that update the state on disk to the last commit (a clean stop)."""
        return self._loading.writes()

    @property
    def _leads(self) -> bool:
        """Whether the machine's epoch is still the one in which this replica leads."""
        replica = self.replica
        return replica.role is Role.LEADER and replica.epoch == self._led_epoch

    def _take(self, ready: Ready, now: int, effects: Effects) -> None:
        """Apply the replica's results in this order: what it lost, what is new, what it won."""
        leader = (self.replica.epoch, self.replica.leader_id)
        if leader != self.leader:
            self.leader, self.has_news = leader, True
        if ready.resigned:
            self._demote(now, effects)
        self._take_writes(ready, effects)
        loading = self._loading
        if self.state is not PartitionState.LOADING:
            for batch in ready.committed:
                self._replay_batch(batch)
                loading.committed(batch)
        loading.compactor.keep_from = self.replica.needed_from
        if loading.compactor.due() or (ready.committed and self._adapter.tells_commits):
            effects.writes += loading.writes()
        if ready.elected and self.replica.role is Role.LEADER:
            self._is_elected = True
            if self.state is PartitionState.FOLLOWER:
                self._promote(now)
        if ready.committed:
            if self._adapter.tells_commits:
                self.replica.tell()
            self.replies.release(self.replica.high_watermark)
            self._output.facts += self._results.committed(self.replica.high_watermark, now)

    def _take_writes(self, ready: Ready, effects: Effects) -> None:
        """Pass on what to write and send; follow what it does to the log."""
        loading = self._loading
        if ready.snapshot is not None:
            loading.is_blocked = not ready.snapshot.done
            self._reload()
        for write in ready.writes:
            if isinstance(write, AppendBatch):
                loading.appended(write.batch)
            elif isinstance(write, TruncateFrom):
                self._truncate(write.offset)
        effects.writes += ready.writes
        for node_id, message in ready.messages:
            effects.messages.setdefault(node_id, []).append(message)

    def _truncate(self, offset: int) -> None:
        """Truncate the end of the log; a machine that has applied some of it is discarded."""
        self._loading.truncated(offset)
        self._replayed = min(self._replayed, offset)
        if offset < self._applied and self.state is not PartitionState.LOADING:
            self._reload()

    def _answer(self, effects: Effects) -> None:
        """Let each new reply pass the gate, or wait there."""
        self.replies.pass_gate(self._runs.groups)
        self._output.flush(effects)

    def _append_turn(self, now: int) -> None:
        """Append the turn's records, except those of groups that wait for more."""
        encode, group_of = self._adapter.encode, self._adapter.group_of
        waiting: dict[Any, Record] = {}
        if self._runs:
            running = self._runs.groups
            waiting = {key: one for key, one in self._turn.items() if group_of(key) in running}
            for key in waiting:
                del self._turn[key]
        records = self._turn
        rows = encoded(records.values(), encode)
        if rows is None:
            self._append_by_groups(now)
        elif rows:
            self._append(rows, dict.fromkeys(group_of(key) for key in records), now)
            records.clear()
        if waiting:
            self._turn = waiting | self._turn

    def _append(self, rows: Sequence[RawRecord], groups: Collection[str], now: int) -> None:
        end_offset = self.replica.append(rows, now)
        self.replies.gate.wrote(end_offset, groups)
        self._results.appended(self._output.take_unseen(), groups, end_offset, now)
        self._replayed = self._applied = end_offset

    def _append_by_groups(self, now: int) -> None:
        """Append a large or partly unwritable turn in batches; a group that fails, fails alone."""
        batches, failed = cut(self._turn, self._adapter.encode, self._adapter.group_of)
        self._turn.clear()
        for rows, groups in batches:
            self._append(rows, groups, now)
        for group_id, error in failed:
            self._take_back(group_id, error)
            self._restore(group_id, now)

    def _take_back(self, group_id: str, error: Exception) -> None:
        """Fail the turn's answers for a group; handle again those that are too large together."""
        failed, again = shared_out(self.replies.take_back(group_id), error)
        for request, code in failed:
            self.replies.refuse(request, code)
            self._output.note_restored(asked(request), group_id, reason(error))
        if not failed and not again:
            self._output.note_restored("A timer or a result", group_id, reason(error))
        self._again += [(request, (group_id,)) for request in again]
        self._output.take_back(group_id)

    def _handle_again(self, now: int) -> None:
        """Handle and write, one by one, the requests that were too large together."""
        for _ in range(len(self._again)):
            request, depends_on = self._again.pop(0)
            try:
                self.handle(request, now, depends_on)
            except HandlerFailed as error:
                self.replies.refuse(request, ErrorCode.unknown_server_error)
                self._output.note_restored(asked(request), depends_on[0], str(error))
            self._append_turn(now)
            self.replies.pass_gate(self._runs.groups)  # so that the next one does not take it back

    # --- changes of leadership

    def _follow(self, now: int) -> None:
        if self._is_alone:
            self.replica.tick(now)
        if self._is_elected:
            self._promote(now)

    def _promote(self, now: int) -> None:
        """Lead: apply the rest of the log, and hold all replies until LeaderChange is committed."""
        replica = self.replica
        self._is_elected = False
        self._led_epoch = replica.epoch
        for batch in replica.uncommitted:
            self._replay_batch(batch)
        self.state = PartitionState.LEADER
        self.replies.gate.raise_floor(replica.end_offset)
        for event in (Elected(), *self.upon_election()):
            self.handle(event, now)
        if self._turn:
            self._append_turn(now)

    def _demote(self, now: int, effects: Effects) -> None:
        """Stop leading: refuse all waiting requests at once, and repeat no cached answer."""
        self._is_elected = False
        self._results.clear()
        if self.state is not PartitionState.LEADER:
            return
        self.leadership.lease_until_ms = 0
        is_sound = self._resign(now, effects)
        self.state = PartitionState.FOLLOWER
        self.replies.refuse_all(self._adapter.not_leader, effects.replies)
        self.deferred.clear()
        self._again.clear()
        self._output.drop_tasks()
        self._runs.end()
        if self._turn or not is_sound:
            self._reload()

    def _resign(self, now: int, effects: Effects) -> bool:
        """Let the machine drop its soft state; False when it raised and must be discarded."""
        try:
            farewell = self.machine.handle(Resigned(), now)
        except Exception as error:
            self._output.note(f"{title_of(self.number)} is read again: {reason(error)}")
            return False
        effects.facts += farewell.facts
        effects.add_tasks(self.number, farewell.tasks)
        return not self.machine.take_failures()

    # --- replay

    def _replay_batch(self, batch: Batch) -> None:
        if batch.end_offset <= self._replayed:
            return
        self._replayed = batch.end_offset
        if not batch.control:
            self._applied = batch.end_offset
            self._replay(batch.records)

    def _replay(self, rows: Iterable[RawRecord]) -> int:
        """Replay records; return how many there were."""
        replayed, skipped = replay(self.number, self.machine, self._adapter, rows)
        self.skipped += skipped
        return replayed
