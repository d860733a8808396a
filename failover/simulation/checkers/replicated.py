"""Check at every write, message and turn that replicas keep Raft's guarantees.

The checker is all-knowing: it sees every disk at once, and remembers what was ever committed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from failover.simulation.checkers.committed import CommittedLogs
from failover.simulation.checkers.rules import Rules
from failover.simulation.checkers.voter_changes import VoterChanges
from failover.simulation.event_log import Violation
from storage.control import voters_in
from storage.log import (
    AppendBatch,
    ApplyState,
    BeginInstall,
    DropBefore,
    SaveVoters,
    TruncateFrom,
)
from storage.messages import Append, Appended, SnapshotInstalled, Vote, Voted
from storage.quorum import majority
from storage.replica import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from failover.partitions.partition import Partition
    from failover.simulation.checkers.client_history import ClientHistoryChecker
    from failover.simulation.nodes.process import Process
    from failover.simulation.world import World
    from storage.batch import Batch
    from storage.log import MemoryLog, Write
    from storage.messages import Message, ReplicaKey


def _before(log: MemoryLog, number: int, offset: int) -> Batch | None:
    """Return the batch with the record before an offset, if it is already in the log."""
    batch = next(log.batches(number, offset - 1), None)
    return None if batch is None or batch.base_offset >= offset else batch


@dataclass(slots=True)
class SeenReplica:
    """One replica in one life of its process, as of the end of its last turn."""

    epoch: int = -1
    role: Role | None = None
    high_watermark: int = 0
    checked: int = 0
    voters: tuple[ReplicaKey, ...] = ()


class Replicated:
    """Checks votes, leaders, acknowledgements and commits of all replicas.

    ``first_written``: when its leader wrote each batch (partition, base offset, leader epoch).
    ``changes`` counts new epochs, roles and processes of any replica.
    """

    def __init__(self, world: World, client_history: ClientHistoryChecker) -> None:
        self._world = world
        self._visible = client_history
        self.processes: dict[int, Process] = {}
        self.upon_leader: Callable[[Process, Partition], None] = lambda _process, _partition: None
        self.upon_vote: list[Callable[[int, int], None]] = []
        self.upon_question: list[Callable[[Process, int, Vote], None]] = []
        self.upon_change: list[Callable[[Process], None]] = []
        self.upon_append: dict[int, Callable[[Process], None]] = {}
        self.rules = Rules()
        self.committed = CommittedLogs()
        self.voters = VoterChanges(self.committed, self.processes)
        self.first_written: dict[tuple[int, int, int], int] = {}
        self._watched: dict[int, tuple[int, tuple[tuple[Partition, SeenReplica], ...]]] = {}
        self._leaders: dict[tuple[int, int], tuple[int, int]] = {}
        self._serving: dict[int, int] = {}
        self._votes: dict[tuple[int, int, ReplicaKey], int] = {}
        self.changes = 0

    def writes(self, process: Process, writes: Sequence[Write]) -> None:
        """Note what is about to be written: committed data is never truncated."""
        for write in writes:
            if isinstance(write, TruncateFrom):
                self._may_truncate(process, write)
                self.rules.truncates(process.node_id, write.partition)
            elif isinstance(write, AppendBatch):
                batch = write.batch
                place = (write.partition, batch.base_offset, batch.leader_epoch)
                if place not in self.first_written:
                    self.first_written[place] = self._world.now
                    if batch.control and voters_in(batch) is not None:
                        self.note_commits(process)
                        self.voters.may_change(process, write.partition, batch)
                        for hook in self.upon_change:
                            hook(process)
            elif isinstance(write, DropBefore | ApplyState):
                self.note_commits(process)  # what was just committed may be dropped at once
                if write.offset > self.committed[write.partition].end_offset:
                    raise Violation(
                        f"node {process.node_id} applies or drops up to {write.offset}, which is"
                        " not committed",
                        f"partition {write.partition}",
                    )
            elif isinstance(write, BeginInstall | SaveVoters):
                self._may_replace(process, write)

    def _may_replace(self, process: Process, write: BeginInstall | SaveVoters) -> None:
        if isinstance(write, BeginInstall):
            self._may_wipe(process, write)
        else:
            self.note_commits(process)
            self.voters.may_save(process, write)

    def _may_wipe(self, process: Process, write: BeginInstall) -> None:
        """Check that a snapshot does not replace committed data that it lacks."""
        committed = self.committed[write.partition].batches
        for batch in process.log.batches(write.partition, write.offset):
            if committed.get(batch.base_offset) == batch:
                raise Violation(
                    f"node {process.node_id} drops what is committed for a snapshot at"
                    f" {write.offset}",
                    f"partition {write.partition}",
                )

    def _may_truncate(self, process: Process, write: TruncateFrom) -> None:
        committed = self.committed[write.partition]
        for batch in process.log.batches(write.partition, write.offset):
            if batch.base_offset < write.offset:
                continue
            if committed.batches.get(batch.base_offset) == batch:
                raise Violation(
                    f"node {process.node_id} truncates at {write.offset} what is committed",
                    f"partition {write.partition}",
                )

    def sent(self, process: Process, node_id: int, messages: Sequence[Message]) -> None:
        """Check promises when they are sent."""
        if process.node_id in self.upon_append and Append in map(type, messages):
            self.upon_append.pop(process.node_id)(process)
        if process.directory.is_old:
            raise Violation(f"node {process.node_id} speaks, though its directory is an older copy")
        for message in messages:
            if (check := _SENT.get(type(message))) is not None:
                check(self, process, node_id, message)

    def _appended(self, process: Process, _node_id: int, message: Appended) -> None:
        self.rules.echoes(message.partition, message.epoch, message.replica, message.sent_ms)
        if message.accepted:
            self._has(process, message)
            self.rules.acknowledges(process, message)

    def _installed(self, process: Process, _node_id: int, message: SnapshotInstalled) -> None:
        self.rules.has_installed(process, message)
        self.rules.echoes(message.partition, message.epoch, message.replica, message.sent_ms)

    def _voted(self, process: Process, node_id: int, message: Voted) -> None:
        if message.granted and not message.pre_vote:
            self._is_on_disk(process, message, node_id)
            for hook in self.upon_vote:
                hook(process.node_id, node_id)
            self._votes_once(message.partition, message.epoch, message.voter, node_id)

    def _asks(self, process: Process, node_id: int, message: Vote) -> None:
        if not message.pre_vote:
            voter = message.candidate
            self._votes_once(message.partition, message.epoch, voter, voter.node_id)
            for hook in self.upon_question:
                hook(process, node_id, message)

    def _has(self, process: Process, message: Appended) -> None:
        number, epoch = message.partition, message.epoch
        stored = process.log.synced(number)
        end_offset = stored.end_offset
        leader = self._leaders.get((number, epoch))
        if leader is not None and message.end_offset > stored.applied_offset:
            node_id, life = leader
            other = self.processes[node_id]
            if other.life == life and other.leads(number) == epoch and other is not process:
                theirs = _before(other.log, number, message.end_offset)
                mine = _before(process.log, number, message.end_offset)
                if theirs is not None and mine is not None and mine != theirs:
                    raise Violation(
                        f"node {process.node_id} acknowledges up to {message.end_offset} in epoch"
                        f" {epoch}, where its log is not node {node_id}'s",
                        f"partition {number}",
                    )
        if end_offset < message.end_offset:
            raise Violation(
                f"node {process.node_id} acknowledges up to {message.end_offset}, its disk has"
                f" {end_offset}",
                f"partition {message.partition}",
            )

    def _is_on_disk(self, process: Process, message: Voted, candidate: int) -> None:
        stored = process.log.synced(message.partition)
        if stored.epoch <= message.epoch and (
            (stored.epoch, stored.voted_for) != (message.epoch, candidate)
        ):
            raise Violation(
                f"node {process.node_id} votes for node {candidate} in epoch {message.epoch}; its"
                f" disk has a vote for {stored.voted_for} in epoch {stored.epoch}",
                f"partition {message.partition}",
            )

    def _votes_once(self, partition: int, epoch: int, voter: ReplicaKey, candidate: int) -> None:
        before = self._votes.setdefault((partition, epoch, voter), candidate)
        if before != candidate:
            raise Violation(
                f"node {voter.node_id} votes for node {before} and for node {candidate} in epoch"
                f" {epoch}",
                f"partition {partition}",
            )

    def note_commits(self, process: Process) -> None:
        """Note what a process committed as leader, in the middle of a turn."""
        for partition, seen in self._watch(process):
            if partition.replica.role is Role.LEADER:
                self._commits(process, partition, seen, True)
            elif seen.role is Role.LEADER:
                self._deposed(process, partition, seen)

    def turned(self, process: Process) -> None:
        """Check every replica of a process after a turn."""
        for partition, seen in self._watch(process):
            replica = partition.replica
            role, epoch, offset = replica.role, replica.epoch, replica.high_watermark
            has_led = role is Role.LEADER or seen.role is Role.LEADER
            if epoch != seen.epoch or role is not seen.role:
                self._in_new_role(process, partition, seen)
            if offset != seen.high_watermark or seen.checked < offset:
                self._moved(process, partition, seen, has_led)
                seen.high_watermark = offset
            if has_led:
                seen.voters = replica.voters
            if role is Role.LEADER:
                self.upon_leader(process, partition)
                self.rules.leads_until(process.node_id, partition.number, replica.lease_until_ms)
        truncated = self.rules.truncated.pop(process.node_id, ())
        for partition in process.partitions() if truncated else ():
            if partition.number in truncated:
                committed = self.committed[partition.number]
                self.rules.has_its_voters(process, partition.replica, committed)

    def _watch(self, process: Process) -> tuple[tuple[Partition, SeenReplica], ...]:
        """Return a process's replicas, the same until it ends, and the last seen state of each."""
        life, watched = self._watched.get(process.node_id, (-1, ()))
        if life != process.life:
            watched = tuple((partition, SeenReplica()) for partition in process.partitions())
            self._watched[process.node_id] = process.life, watched
            self.changes += 1
        return watched

    def _moved(
        self, process: Process, partition: Partition, seen: SeenReplica, has_led: bool
    ) -> None:
        replica = partition.replica
        if not replica.end_offset:
            return  # a snapshot is on its way, and the log was wiped for it
        if replica.high_watermark < seen.high_watermark:
            raise Violation(
                f"the high watermark of node {process.node_id} falls from"
                f" {seen.high_watermark} to {replica.high_watermark}",
                f"partition {partition.number}",
            )
        self._commits(process, partition, seen, has_led)

    def _in_new_role(self, process: Process, partition: Partition, seen: SeenReplica) -> None:
        replica, number = partition.replica, partition.number
        subject = f"partition {number}"
        if replica.epoch < seen.epoch:
            raise Violation(
                f"the epoch of node {process.node_id} falls from {seen.epoch} to {replica.epoch}",
                subject,
            )
        if self._world.tells:
            text = f"node {process.node_id} is {replica.role} in epoch {replica.epoch}"
            self._world.tell(subject, f"{text}, log ends at {replica.end_offset}")
        seen.epoch, seen.role = replica.epoch, replica.role
        self.changes += 1
        self.rules.leads_until(process.node_id, number, 0)
        if replica.role is Role.LEADER:
            me = (process.node_id, process.life)
            leader = self._leaders.setdefault((number, replica.epoch), me)
            if leader != me:
                raise Violation(
                    f"nodes {leader[0]} and {process.node_id} both lead epoch {replica.epoch}",
                    subject,
                )
            self._was_elected(process, partition)
            self._visible.leader_since.setdefault(number, []).append(self._world.now)

    def _was_elected(self, process: Process, partition: Partition) -> None:
        """Check that a new leader has most votes, and everything committed before its epoch.

        A replica that stood still while it was elected may lead when a later epoch already has
        commits.
        """
        replica, number = partition.replica, partition.number
        voters, epoch = replica.voters, replica.epoch
        votes = sum(self._votes.get((number, epoch, key)) == process.node_id for key in voters)
        if len(voters) > 1 and votes < majority(len(voters)):
            raise Violation(
                f"node {process.node_id} leads epoch {epoch} with {votes} votes of {len(voters)}",
                f"partition {number}",
            )
        last = self.committed[number].last_before(epoch)
        if last is not None and process.log.stored(number).applied_offset < last.end_offset:
            own = _before(process.log, number, last.end_offset)
            if own != last:
                raise Violation(
                    f"node {process.node_id} leads epoch {epoch} without what was committed up to"
                    f" {last.end_offset}",
                    f"partition {number}",
                )

    def _commits(
        self, process: Process, partition: Partition, seen: SeenReplica, has_led: bool
    ) -> None:
        """Check newly committed batches: identical everywhere, and on a majority's disks.

        A follower hears of commits before it has written the batches: those are checked later. So
        are batches that a deposed leader with a full disk has not written yet.
        """
        number, replica = partition.number, partition.replica
        committed, end = self.committed[number], replica.high_watermark
        subject = f"partition {number}"
        if replica.role is Role.LEADER:
            self._is_of_own_epoch(process, partition, end)
            can_answer = replica.lease_until_ms > process.local_now()
            if can_answer and self._serving.get(number, -1) < replica.epoch:
                self._serving[number] = replica.epoch
                self._serves_alone(process, partition)
        if end > committed.end_offset:
            if has_led:
                self._is_on_majority(process, partition, seen, end)
            else:
                raise Violation(
                    f"node {process.node_id} takes {end} for committed, no leader has got beyond"
                    f" {committed.end_offset}",
                    subject,
                )
        if replica.role is Role.LEADER or not process.has_backlog:
            self._add_commits(process, partition, seen, has_led)
        elif has_led:
            self._deposed(process, partition, seen)

    def _add_commits(
        self, process: Process, partition: Partition, seen: SeenReplica, has_led: bool
    ) -> None:
        number, end = partition.number, partition.replica.high_watermark
        committed, subject = self.committed[number], f"partition {number}"
        log = self._log_up_to(process, partition) if has_led else process.log
        for batch in log.batches(number, seen.checked):
            if batch.end_offset > end:
                break
            seen.checked = batch.end_offset
            if has_led and batch.base_offset not in committed.batches:
                self._is_kept(process, partition, seen, batch)
            if not committed.add(batch, partition.replica.epoch):
                raise Violation(
                    f"node {process.node_id} has another committed batch at {batch.base_offset}",
                    subject,
                )

    def _deposed(self, process: Process, partition: Partition, seen: SeenReplica) -> None:
        """Note what a leader committed before it heard, in this turn, of its successor."""
        number, end = partition.number, partition.replica.high_watermark
        for each in (process, *self.processes.values()):
            for batch in each.log.batches(number, seen.checked):
                if batch.end_offset > end or not self._is_stored(number, seen.voters, batch):
                    break
                self.committed[number].add(batch, seen.epoch)

    def _log_up_to(self, process: Process, partition: Partition) -> MemoryLog:
        """Return a leader's log, or a peer's if the leader's disk is too full for its commits.

        A peer's log is the same up to a record of the same epoch at the same offset.
        """
        number, replica = partition.number, partition.replica
        end = replica.high_watermark
        if process.log.stored(number).end_offset >= end:
            return process.log
        epoch = replica._core.tail.epoch_before(end)
        for other in self.processes.values():
            last = _before(other.log, number, end)
            is_there = other.log.synced(number).end_offset >= end
            if is_there and last is not None and last.leader_epoch == epoch:
                return other.log
        return process.log

    def _is_kept(
        self, process: Process, partition: Partition, seen: SeenReplica, batch: Batch
    ) -> None:
        """Check that a batch that is being committed is itself on a majority's disks."""
        number, voters = partition.number, partition.replica.voters
        if not self._is_stored(number, voters, batch) and not (
            seen.voters and self._is_stored(number, seen.voters, batch)
        ):
            raise Violation(
                f"node {process.node_id} commits {batch.base_offset} to {batch.end_offset}, of"
                " which most voters have another one, or none",
                f"partition {number}",
            )

    def _is_stored(self, number: int, voters: tuple[ReplicaKey, ...], batch: Batch) -> bool:
        """Return whether this very batch is on the disks of a majority."""
        return self._have_most(
            voters,
            lambda log: (
                log.synced(number).applied_offset >= batch.end_offset
                or (
                    log.synced(number).end_offset >= batch.end_offset
                    and next(iter(log.batches(number, batch.base_offset)), None) == batch
                )
            ),
        )

    def _serves_alone(self, process: Process, partition: Partition) -> None:
        """Check that once a leader can start to answer, no earlier one can answer any more."""
        if self._world.is_lawless:
            return
        for other in self.processes.values():
            for rival in other.partitions():
                if rival.number != partition.number or other is process or other.clock.is_frozen:
                    continue  # a frozen leader trusts no lease when it resumes
                left_ms = rival.replica.lease_until_ms - other.local_now()
                if rival.replica.role is Role.LEADER and left_ms > 0:
                    raise Violation(
                        f"node {process.node_id} can answer in epoch {partition.replica.epoch}, and"
                        f" so can node {other.node_id} in epoch {rival.replica.epoch}, for"
                        f" {left_ms} ms",
                        f"partition {partition.number}",
                    )

    def _is_of_own_epoch(self, process: Process, partition: Partition, end: int) -> None:
        """Check that a leader does not commit by counting copies of an older epoch's records."""
        replica, number = partition.replica, partition.number
        last = next(process.log.batches(number, end - 1), None)
        if (
            last is not None
            and last.leader_epoch != replica.epoch
            and end > self.committed[number].end_offset
        ):
            raise Violation(
                f"node {process.node_id} commits up to {end} in epoch {replica.epoch}, the last of"
                f" it is of epoch {last.leader_epoch}",
                f"partition {number}",
            )

    def committed_epoch(self, process: Process, number: int) -> int:
        """Return the epoch of the last committed record, as far as a leader knows now."""
        self.note_commits(process)
        last = self.committed[number].last
        return -1 if last is None else last.leader_epoch

    def deletions(self, process: Process, number: int, group_id: str) -> int:
        """Return how often a classic group was deleted, as far as a leader knows now."""
        self.note_commits(process)
        return self.committed[number].deletions[group_id]

    def _is_on_majority(
        self, process: Process, partition: Partition, seen: SeenReplica, end: int
    ) -> None:
        """Check that committed data is on a majority's disks.

        The voters may have changed right after the commit, in the same turn.
        """
        number, voters = partition.number, partition.replica.voters
        if not self._is_on_most(number, voters, end) and not (
            seen.voters and self._is_on_most(number, seen.voters, end)
        ):
            raise Violation(
                f"node {process.node_id} commits up to {end}, which is not on the disks of most of"
                f" {', '.join(voter.directory_id for voter in voters)}",
                f"partition {number}",
            )

    def _is_on_most(self, number: int, voters: tuple[ReplicaKey, ...], end: int) -> bool:
        return self._have_most(voters, lambda log: log.synced(number).end_offset >= end)

    def _have_most(
        self, voters: tuple[ReplicaKey, ...], holds: Callable[[MemoryLog], bool]
    ) -> bool:
        """Return whether a condition holds for the disks of a majority of the voters."""
        disks = (self.processes[key.node_id].disks.get(key.directory_id) for key in voters)
        return sum(log is not None and holds(log) for log in disks) >= majority(len(voters))


_SENT: Final[Mapping[type, Callable[[Replicated, Process, int, Any], None]]] = {
    Appended: Replicated._appended,
    SnapshotInstalled: Replicated._installed,
    Voted: Replicated._voted,
    Vote: Replicated._asks,
}
