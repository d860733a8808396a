"""Rules for single steps of a replica, checked even when a breach does no harm.

Most broken rules rarely do harm. So each rule of ``docs/replication.md`` about votes, followers,
leases and voters is checked at each step of a replica, against the state right before it, and not
only when two leaders answer or a record is lost. So a broken rule is found in the first history
that breaks it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from failover.partitions.partition import Partition, PartitionState
from failover.simulation.event_log import Violation
from failover.simulation.patches import Patch, patched
from storage.control import voters_in
from storage.election import Election
from storage.following import Following
from storage.messages import Voted
from storage.quorum import majority

if TYPE_CHECKING:
    from collections.abc import Iterator

    from failover.simulation.checkers.committed import CommittedLog
    from failover.simulation.nodes.process import Process
    from storage.core import Core
    from storage.messages import (
        Append,
        Appended,
        InstallSnapshot,
        ReplicaKey,
        SnapshotInstalled,
        Vote,
    )
    from storage.replica import Replica


class Rules:
    """Checks the rules of single steps.

    It keeps its own notes of what each follower has compared with its leader's log, of the last
    slice of the snapshot that it has installed, and of the leader's times that each replica has
    echoed.
    """

    def __init__(self) -> None:
        self._is_watching = False
        self._compared: dict[Core, tuple[int, int]] = {}
        self._finished: dict[Core, tuple[int, int, int]] = {}
        self._echoed: dict[tuple[int, int, ReplicaKey], int] = {}
        self._leases: dict[tuple[int, int], int] = {}
        self.truncated: dict[int, set[int]] = {}
        """The partitions whose log was truncated, by node, until they are checked."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch replicas while they take steps, within this context."""
        self._is_watching = True
        with patched((self._votes(), *self._followers(), self._demotions())):
            yield
        self._is_watching = False

    def _votes(self) -> Patch:
        on_vote = Election.on_vote

        def watched_on_vote(self: Election, vote: Vote) -> None:
            core = self.core
            why = _why_not(core, vote)
            promises, messages = len(core.out.promises), len(core.out.messages)
            on_vote(self, vote)
            remembered = self._voted_key
            if remembered is not None and remembered.node_id != core.voted_for:
                raise Violation(
                    f"node {core.me.node_id} remembers a vote for node {remembered.node_id} in"
                    f" epoch {core.epoch}, in which its vote is for {core.voted_for}",
                    f"partition {core.partition}",
                )
            if why:
                said = (*core.out.promises[promises:], *core.out.messages[messages:])
                if any(isinstance(each, Voted) and each.granted for _, each in said):
                    raise Violation(
                        f"node {core.me.node_id} votes for node {vote.candidate.node_id} in epoch"
                        f" {vote.epoch}{' (pre-vote)' if vote.pre_vote else ''}, though {why}",
                        f"partition {core.partition}",
                    )

        return (Election, "on_vote", watched_on_vote)

    def _followers(self) -> tuple[Patch, ...]:
        on_append, on_install, rules = Following.on_append, Following.on_install, self
        finish = Following._finish

        def watched_on_append(self: Following, message: Append) -> None:
            core = self.core
            before, previous = core.high_watermark, message.previous_offset
            if previous <= before or core.tail.epoch_before(previous) == message.previous_epoch:
                batches = message.batches
                end_offset = batches[-1].end_offset if batches else previous
                rules._has_compared(core, message.epoch, end_offset)
            _has_promised(core)
            on_append(self, message)
            if core.high_watermark > before:
                rules._may_commit(core, message)

        def watched_on_install(self: Following, message: InstallSnapshot) -> None:
            core, offset = self.core, message.offset
            before = core.high_watermark
            if offset <= before or core.tail.epoch_before(offset) == message.last_epoch:
                rules._has_compared(core, message.epoch, max(offset, before))
            _has_promised(core)
            on_install(self, message)

        def watched_finish(self: Following, message: InstallSnapshot) -> None:
            finish(self, message)
            rules._finished[self.core] = message.epoch, message.offset, message.position + 1

        return (
            (Following, "on_append", watched_on_append),
            (Following, "on_install", watched_on_install),
            (Following, "_finish", watched_finish),
        )

    def _demotions(self) -> Patch:
        demote = Partition._demote

        def watched_demote(self: Partition, *arguments: Any) -> None:
            is_ahead = self.state is PartitionState.LEADER and bool(self._turn)
            demote(self, *arguments)
            if is_ahead and self.state is not PartitionState.LOADING:
                raise Violation(
                    f"node {self._me.node_id} leads no more, and keeps a machine that has taken"
                    " what was never written",
                    f"partition {self.number}",
                )

        return (Partition, "_demote", watched_demote)

    # --- followers

    def _has_compared(self, core: Core, epoch: int, end_offset: int) -> None:
        known = self._compared.get(core)
        if known is None or known[0] < epoch or (known[0] == epoch and known[1] < end_offset):
            self._compared[core] = epoch, end_offset

    def _may_commit(self, core: Core, message: Append) -> None:
        """Check that a follower treats as committed only what it has compared in this epoch."""
        epoch, end_offset = self._compared.get(core, (-1, 0))
        if epoch != message.epoch or core.high_watermark > min(end_offset, message.high_watermark):
            raise Violation(
                f"node {core.me.node_id} takes what is before {core.high_watermark} for committed;"
                f" it has compared its log up to {end_offset} in epoch {epoch}",
                f"partition {core.partition}",
            )

    def acknowledges(self, process: Process, message: Appended) -> None:
        """Check that a follower acknowledges only what its leader's messages of this epoch name."""
        number, epoch = message.partition, message.epoch
        partition = process._partition(number)
        if partition is None or not self._is_watching:
            return
        compared = self._compared.get(partition.replica._core, (-1, 0))
        if compared[0] < epoch or (compared[0] == epoch and compared[1] < message.end_offset):
            raise Violation(
                f"node {process.node_id} acknowledges up to {message.end_offset} in epoch {epoch};"
                f" it has compared its log up to {compared[1]} in epoch {compared[0]}",
                f"partition {number}",
            )

    def has_installed(self, process: Process, message: SnapshotInstalled) -> None:
        """Check that a snapshot is on the disk when its last slice is acknowledged.

        Acknowledgements of earlier slices, also of an earlier snapshot, may be as late as a sync.
        """
        number = message.partition
        partition = process._partition(number)
        said = message.epoch, message.offset, message.next_position
        if partition is None or self._finished.get(partition.replica._core) != said:
            return
        if process.log.synced(number).end_offset < message.offset:
            raise Violation(
                f"node {process.node_id} acknowledges a snapshot at {message.offset}, its disk has"
                f" {process.log.synced(number).end_offset}",
                f"partition {number}",
            )

    # --- leases

    def echoes(self, number: int, epoch: int, replica: ReplicaKey, sent_ms: int) -> None:
        """Note that a replica echoes a time of its leader, and so promises not to vote."""
        key = (number, epoch, replica)
        if self._echoed.get(key, -1) < sent_ms:
            self._echoed[key] = sent_ms

    def is_renewed(self, process: Process, replica: Replica) -> None:
        """Check that a lease counts from a time that a majority of voters, and only voters, echoed.

        The time is after the last divergence of the node's clocks: earlier messages may have been
        sent long ago. A leader that was elected after it sends all its messages after it.
        """
        wall = process.wall
        voters, epoch, number = replica.voters, replica.epoch, replica.partition
        from_ms = replica.lease_until_ms - process.world.settings.replica_lease_ms
        me = process.identity.me
        echoed = sum(
            voter == me or self._echoed.get((number, epoch, voter), -1) >= from_ms
            for voter in voters
        )
        why = ""
        if echoed < majority(len(voters)):
            why = f"which {echoed} of {len(voters)} voters have echoed"
        elif from_ms < wall.noticed_ms or (
            from_ms == wall.noticed_ms and wall.led.get(number) == epoch
        ):
            why = f"though its clocks moved apart at {wall.noticed_ms} ms"
        if why:
            raise Violation(
                f"node {me.node_id} has a lease in epoch {epoch} from {from_ms} ms on, {why}",
                f"partition {number}",
            )

    def leads_until(self, node_id: int, number: int, until_ms: int) -> None:
        """Note until when a node may repeat answers for a partition; 0: it does not lead."""
        self._leases[node_id, number] = until_ms

    def may_repeat(self, node_id: int, number: int, now: int) -> bool:
        """Whether a node had a lease at the end of its last turn, and still has it."""
        return now < self._leases.get((node_id, number), 0)

    # --- voters

    def truncates(self, node_id: int, number: int) -> None:
        """Note that the end of a log is truncated: a change of voters in it is undone."""
        self.truncated.setdefault(node_id, set()).add(number)

    def has_its_voters(self, process: Process, replica: Replica, committed: CommittedLog) -> None:
        """Check that the voters of a replica with a truncated log are those of its last change."""
        number = replica.partition
        if process.has_backlog:
            return
        voters = None
        for batch in process.log.batches(number, 0):
            if batch.control:
                voters = voters_in(batch) or voters
        start = process.log.stored(number).applied_offset
        if voters is None:
            voters = committed.voters_before(start)
        voters = voters or process.identity.voters.get(number)
        if voters and replica.voters != voters:
            raise Violation(
                f"node {process.node_id} counts {_names(replica.voters)} after it truncated its"
                f" log, which says {_names(voters)}",
                f"partition {number}",
            )


def _has_promised(core: Core) -> None:
    """Check that a replica that accepts a leader's message promises it a time without rivals."""
    left_ms = core.promise_until - core.now
    if core.promise_epoch != core.epoch or left_ms < core.timing.promise_ms:
        raise Violation(
            f"node {core.me.node_id} takes what its leader of epoch {core.epoch} sends, and has"
            f" promised it {left_ms} ms without rivals, not {core.timing.promise_ms}",
            f"partition {core.partition}",
        )


def _why_not(core: Core, vote: Vote) -> str:
    """Return why a replica may not vote this way now; empty if it may."""
    if vote.epoch < core.epoch or (vote.pre_vote and vote.epoch == core.epoch):
        return f"its epoch is {core.epoch}"
    if vote.epoch == core.epoch:
        if core.voted_for == vote.candidate.node_id:
            return ""
        return f"its vote in that epoch is for {core.voted_for}"
    tail = core.tail
    if (vote.last_epoch, vote.end_offset) < (tail.last_epoch, tail.end_offset):
        return (
            f"that one's log ends at {vote.end_offset} in epoch {vote.last_epoch}, and its own at"
            f" {tail.end_offset} in epoch {tail.last_epoch}"
        )
    is_handed_over = vote.transfer and vote.epoch == core.promise_epoch + 1
    if core.now < core.promise_until and not is_handed_over:
        return f"it has promised not to for {core.promise_until - core.now} ms more"
    return ""


def _names(voters: tuple[ReplicaKey, ...]) -> str:
    return ", ".join(voter.directory_id for voter in voters)
