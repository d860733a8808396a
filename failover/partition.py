"""One partition: a state machine (group shard or catalogue), its replica and its gate.

Within one turn the records of all events are gathered, the last value per key in the order of the
last write; :meth:`Partition.drain` ends the turn by encoding each once and appending one batch.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol

from failover.gate import Gate
from protocol.groups.effects import Elected, Request
from protocol.records import BadRecord, UnknownRecordType
from storage.log import AppendBatch, CorruptLogError
from storage.messages import ReplicaKey
from storage.replica import Replica, Setting
from storage.snapshot import Compactor
from storage.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from failover.effects import Effects
    from protocol.groups.effects import Reply, Result, Task
    from protocol.groups.facts import Fact
    from protocol.records import Record
    from storage.batch import Batch, RawRecord
    from storage.log import Log, Write


class Machine(Protocol):
    """What is replicated: a :class:`GroupShard` or the :class:`Catalog`."""

    def handle(self, event: Any, now: int, /) -> Result:
        """Take one event; the records in the result are already applied."""

    def replay(self, record: Record) -> None:
        """Apply one record of the log."""

    @property
    def has_emitted(self) -> bool:
        """Whether the event in hand has changed hard state already."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a partition must know about its machine.

    ``group_of`` names the group whose answers wait for a record, given its key.
    """

    encode: Callable[[Record], RawRecord]
    decode: Callable[[bytes, bytes | None], Record]
    group_of: Callable[[Any], str]


class PartitionState(StrEnum):
    """Where a partition stands on its way to serving.

    LOADING reads the log; FOLLOWER has applied it; LEADER answers.
    """

    LOADING = "Loading"
    FOLLOWER = "Follower"
    LEADER = "Leader"


class HandlerFailed(Exception):  # noqa: N818 - the event failed, the partition did not
    """A request's handler failed before it changed anything: the partition goes on."""


class PartitionFailed(Exception):  # noqa: N818 - Kafka's form of name
    """A handler failed half-way: this memory is not to be trusted, the log is."""


class Partition:
    """One replica's state machine, log and waiting replies."""

    def __init__(self, number: int, node_id: int, machine: Machine, kind: Kind, log: Log) -> None:
        stored = log.stored(number)
        tail = []
        compactor = Compactor(number, stored)
        for batch in log.batches(number, 0):
            compactor.hold(batch)
            if batch.end_offset > stored.applied_offset:
                tail.append(batch)
        self.number = number
        self.machine = machine
        self.state = PartitionState.LOADING
        self.skipped = 0
        self.gate = Gate()
        me = ReplicaKey(node_id, "")
        setting = Setting(
            me=me, partition=number, voters=(me,), timing=Timing(), rng=random.Random(0), log=log
        )
        self.replica = Replica(setting, stored, tail)
        self._kind = kind
        self._compactor = compactor
        self._replayed = stored.applied_offset
        self._unread = chain(
            log.state(number), self._records(tail, up_to=self.replica.high_watermark)
        )
        self._turn: dict[Any, Record] = {}
        self._replies: list[tuple[Reply, Sequence[str] | None]] = []
        self._facts: list[Fact] = []
        self._tasks: list[Task] = []
        self._owed: list[Any] = []
        self._failure: PartitionFailed | None = None

    @property
    def settled(self) -> bool:
        """Whether everything the machine shows is committed."""
        return not self._turn and self.replica.high_watermark == self.replica.end_offset

    @property
    def applied_offset(self) -> int:
        """Where the compacted state on disk stands."""
        return self._compactor.applied_offset

    @property
    def start_offset(self) -> int:
        """The first offset still in the log."""
        return self._compactor.start_offset

    def load_slice(self, records: int) -> int:
        """Replay at most so many committed records of the log; return how many there were."""
        if self.state is not PartitionState.LOADING:
            return 0
        replayed, replay = 0, self._replay
        for key, value in islice(self._unread, records):
            replay(key, value)
            replayed += 1
        if replayed < records:
            self.state = PartitionState.FOLLOWER
        return replayed

    def handle(self, event: Any, now: int, waits: Sequence[str] | None = ()) -> None:
        """Give an event to the machine and gather what it led to, for :meth:`drain`.

        A request's own reply waits for the groups ``waits`` (all when None) beside its own.
        """
        self._raise_failure()
        try:
            result = self.machine.handle(event, now)
        except Exception as error:
            if isinstance(event, Request) and not self.machine.has_emitted:
                raise HandlerFailed(f"{type(error).__name__}: {error}") from error
            self._failure = PartitionFailed(
                f"partition {self.number} failed on {type(event).__name__} and must be reloaded"
            )
            raise self._failure from error
        turn = self._turn
        for record in result.records:
            turn.pop(record.key, None)
            turn[record.key] = record
        asked = event.ticket if waits != () else None
        for reply in result.replies:
            if reply.ticket == asked:
                groups = waits
            else:
                groups = () if reply.group_id is None else (reply.group_id,)
            self._replies.append((reply, groups))
        self._facts += result.facts
        self._tasks += result.tasks

    def handle_when_leading(self, event: Any, now: int) -> None:
        """Give an event to the machine now, or right after the election that is to come."""
        if self.state is PartitionState.LEADER:
            self.handle(event, now)
        else:
            self._owed.append(event)

    def drain(self, now: int, effects: Effects) -> Sequence[Batch]:
        """End the turn: add what is to be written and answered; return newly committed batches."""
        self._raise_failure()
        replica, compactor = self.replica, self._compactor
        if self.state is PartitionState.FOLLOWER:
            replica.tick(now)
        elif self._turn:
            self._append_turn(now)
        if not replica.is_ready:
            self._answer(effects)
            return ()
        ready = replica.ready()
        if ready.elected:
            self._promote(now)
            ready.writes += replica.ready().writes
        for write in ready.writes:
            if isinstance(write, AppendBatch):
                compactor.hold(write.batch)
        effects.writes += ready.writes
        for batch in ready.committed:
            self._replay_batch(batch)
            compactor.add(batch)
        if compactor.due():
            effects.writes += compactor.writes()
        self._answer(effects)
        effects.replies += self.gate.release(replica.high_watermark)
        return ready.committed

    def compact(self) -> list[Write]:
        """Return the writes that bring the state on disk up to the last commit (a clean stop)."""
        return self._compactor.writes()

    def _raise_failure(self) -> None:
        """Refuse to go on after a failure, wherever the first report of it went."""
        if self._failure is not None:
            raise self._failure

    def _answer(self, effects: Effects) -> None:
        if self._replies:
            gate = self.gate
            for reply, groups in self._replies:
                if (free := gate.pass_or_hold(reply, groups)) is not None:
                    effects.replies.append(free)
            self._replies.clear()
        if self._facts:
            effects.facts += self._facts
            self._facts.clear()
        if self._tasks:
            effects.tasks += [(self.number, task) for task in self._tasks]
            self._tasks.clear()

    def _append_turn(self, now: int) -> None:
        records = self._turn
        encode, group_of = self._kind.encode, self._kind.group_of
        end_offset = self.replica.append([encode(record) for record in records.values()], now)
        self.gate.wrote(end_offset, dict.fromkeys(group_of(key) for key in records))
        self._replayed = end_offset
        records.clear()

    def _promote(self, now: int) -> None:
        """Lead: apply the rest of the log, and let nothing out before LeaderChange is committed."""
        for batch in self.replica.uncommitted:
            self._replay_batch(batch)
        self.state = PartitionState.LEADER
        self.gate.raise_floor(self.replica.end_offset)
        for event in (Elected(), *self._owed):
            self.handle(event, now)
        self._owed.clear()
        if self._turn:
            self._append_turn(now)

    def _replay_batch(self, batch: Batch) -> None:
        if batch.end_offset <= self._replayed:
            return
        self._replayed = batch.end_offset
        if not batch.control:
            for key, value in batch.records:
                self._replay(key, value)

    def _records(self, tail: Sequence[Batch], up_to: int) -> Iterator[RawRecord]:
        for batch in tail:
            if batch.end_offset <= up_to:
                self._replayed = batch.end_offset
                if not batch.control:
                    yield from batch.records

    def _replay(self, key: bytes, value: bytes | None) -> None:
        try:
            record = self._kind.decode(key, value)
        except UnknownRecordType:
            self.skipped += 1  # written by a newer version: Kafka skips it too
            return
        except BadRecord as error:
            raise CorruptLogError(
                f"partition {self.number}: {error}; restore the data directory from a copy."
            ) from error
        self.machine.replay(record)
