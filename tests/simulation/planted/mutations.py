"""Planted bugs: each breaks one promise of the shipped code, and the checkers must find it.

A mutation is a set of patches that hold for a while; ``groups`` is where it shows. ``seed`` is the
first of a few seeds that find it quickly, so that a short run is enough to see that the checkers
bite.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from failover.host import Host
from failover.partitions.gate import CommitGate
from failover.partitions.partition import Partition, PartitionState
from failover.simulation.patches import Patch, patched
from failover.simulation.settings import GroupMix
from failover.turn import Turn
from protocol.groups.effects import Elected, Reply
from protocol.groups.group_types import TABLES
from protocol.groups.shard import GroupShard
from protocol.records import GroupMetadataKey, Record
from storage.core import FOREVER_MS, Core, Role
from storage.election import Election
from storage.following import Following
from storage.leadership import Leadership
from storage.log import NOBODY, AppendBatch, SaveVote
from storage.messages import Append, InstallSnapshot
from storage.replica import Replica


@dataclass(frozen=True)
class Mutation:
    """One planted bug: what it is, how it is planted, and where to look for it."""

    about: str
    patches: Callable[[], list[Patch]]
    seed: int = 0
    groups: GroupMix = GroupMix.ANY

    @contextmanager
    def planted(self) -> Iterator[None]:
        with patched(self.patches()):
            yield


def vote_not_persisted() -> list[Patch]:
    def save_vote(self: Core) -> None:
        self.out.writes.append(SaveVote(self.partition, 0, NOBODY, self.high_watermark))

    return [(Core, "save_vote", save_vote)]


def commit_without_own_epoch() -> list[Patch]:
    original = Leadership.__init__

    def init(self: Leadership, core: Core) -> None:
        original(self, core)
        self.epoch_start = -1

    return [(Leadership, "__init__", init), (Leadership, "begin", lambda self: None)]


def reply_before_commit() -> list[Patch]:
    return [(CommitGate, "pass_or_hold", lambda self, reply, groups: reply)]


def static_replacement_not_replayed() -> list[Patch]:
    original = GroupShard.replay

    def replay(self: GroupShard, record: Record) -> None:
        value = record.value
        known = self._context.groups.get(getattr(record.key, "group", ""))
        if isinstance(record.key, GroupMetadataKey) and value is not None and known is not None:
            old = {m.group_instance_id: m for m in known.metadata.members if m.group_instance_id}
            kept = tuple(old.get(m.group_instance_id, m) for m in value.members)
            record = replace(record, value=replace(value, members=kept))
        original(self, record)

    return [(GroupShard, "replay", replay)]


def learner_counts() -> list[Patch]:
    original = Leadership._recount

    def recount(self: Leadership) -> None:
        original(self)
        self._voters = [
            self.peers.get(voter.node_id)
            for voter in self.core.voters.current
            if voter != self.core.me
        ]

    return [(Leadership, "_recount", recount)]


def lease_ignored() -> list[Patch]:
    def lease_until_ms(self: Replica) -> int:
        return FOREVER_MS if self._core.role is Role.LEADER else 0

    return [(Replica, "lease_until_ms", property(lease_until_ms))]


def truncation_not_written() -> list[Patch]:
    original = Core.truncate

    def truncate(self: Core, offset: int) -> None:
        original(self, offset)
        self.out.writes.pop()

    return [(Core, "truncate", truncate)]


def promise_forgotten_by_restart() -> list[Patch]:
    original = Core.__init__

    def init(self: Core, *arguments: Any) -> None:
        original(self, *arguments)
        self.promise_until = self.now

    return [(Core, "__init__", init)]


def promise_not_kept() -> list[Patch]:
    return [(Election, "_is_bound", lambda self, vote: False)]


def floor_ignored() -> list[Patch]:
    return [(CommitGate, "raise_floor", lambda self, end_offset: None)]


def acknowledged_before_sync() -> list[Patch]:
    return [(Host, "_must_sync", lambda self, effects: False)]


def uncommitted_applied_by_standby() -> list[Patch]:
    original = Partition._take_writes

    def take_writes(self: Partition, ready: Any, effects: Any) -> None:
        original(self, ready, effects)
        if self.state is PartitionState.FOLLOWER:
            for write in ready.writes:
                if isinstance(write, AppendBatch) and not write.batch.control:
                    for key, value in write.batch.records:
                        self.machine.replay(self._adapter.decode(key, value))

    return [(Partition, "_take_writes", take_writes)]


def dirty_machine_kept() -> list[Patch]:
    def truncate(self: Partition, offset: int) -> None:
        self._loading.truncated(offset)
        self._replayed = min(self._replayed, offset)

    return [(Partition, "_truncate", truncate)]


def last_slice_dropped() -> list[Patch]:
    original = Following.on_install

    def on_install(self: Following, message: InstallSnapshot) -> None:
        original(self, replace(message, records=()) if message.is_last else message)

    return [(Following, "on_install", on_install)]


def epoch_not_bumped() -> list[Patch]:
    original = Core.join_epoch

    def join_epoch(self: Core, epoch: int, voted_for: int = NOBODY) -> None:
        if voted_for == self.me.node_id and self.epoch > 1:
            self.step_down()
            self.voted_for = voted_for
            self.save_vote()
        else:
            original(self, epoch, voted_for)

    return [(Core, "join_epoch", join_epoch)]


def incomplete_candidate_elected() -> list[Patch]:
    return [(Election, "_is_complete", lambda self, vote: True)]


def logs_not_matched() -> list[Patch]:
    original = Following.on_append

    def on_append(self: Following, message: Append) -> None:
        epoch = self.core.tail.epoch_before(message.previous_offset)
        original(self, message if epoch is None else replace(message, previous_epoch=epoch))

    return [(Following, "on_append", on_append)]


def lease_kept_while_handing_over() -> list[Patch]:
    original = Leadership._hand_over

    def hand_over(self: Leadership) -> None:
        lease_until_ms = self.core.lease_until_ms
        original(self)
        self.core.lease_until_ms = lease_until_ms

    return [(Leadership, "_hand_over", hand_over)]


def waiting_answered_after_demotion() -> list[Patch]:
    def demote(self: Partition, now: int, effects: Any) -> None:
        self._is_elected = False
        if self.state is PartitionState.LEADER:
            self.state = PartitionState.FOLLOWER
            self.leadership.lease_until_ms = 0
            replies = self.replies
            waiting = replies.gate.waiting()
            answers = [each for each in waiting if isinstance(each, Reply)]
            effects.replies += [each for each in answers if replies.open.pop(each.ticket, None)]
            replies.gate.clear()
            if self._turn:
                self._reload()

    return [(Partition, "_demote", demote)]


def sessions_not_renewed() -> list[Patch]:
    original = TABLES.events[Elected]

    def elected(ctx: Any, event: Elected, now: int) -> None:
        original(ctx, event, now)
        ctx.elected_ms = now - 40_000

    return [(TABLES, "events", {**TABLES.events, Elected: elected})]


def unsynced_records_acknowledged() -> list[Patch]:
    def flush(self: Following) -> None:
        if self._matched is not None:
            (epoch, end_offset, sent_ms), self._matched = self._matched, None
            if epoch == self.core.epoch:
                self.core.send(self.core.leader_id, self._appended(True, end_offset, sent_ms))

    owes_answer = property(lambda self: self._matched is not None)
    return [(Following, "flush", flush), (Following, "owes_answer", owes_answer)]


def vote_sent_before_its_sync() -> list[Patch]:
    return [(Core, "promise", Core.send)]


def own_copy_counts_unsynced() -> list[Patch]:
    original = Leadership.advance

    def advance(self: Leadership) -> None:
        durable, self.core.durable = self.core.durable, self.core.tail.end_offset
        original(self)
        self.core.durable = durable

    return [(Leadership, "advance", advance)]


def sync_covers_later_writes() -> list[Patch]:
    original = Turn.synced

    def synced(self: Turn) -> None:
        self._covers = self._written
        original(self)

    return [(Turn, "synced", synced)]


MUTATIONS: Mapping[str, Mutation] = {
    function.__name__: Mutation(about, function, seed)
    for function, seed, about in (
        (vote_not_persisted, 0, "a vote is given and not written"),
        (commit_without_own_epoch, 0, "older epochs' records are committed by counting them"),
        (reply_before_commit, 0, "an answer leaves before its records are committed"),
        (static_replacement_not_replayed, 1, "a standby keeps a static member's old id"),
        (learner_counts, 14, "a node's new empty replica counts as its lost one"),
        (lease_ignored, 0, "a leader answers though its lease is out"),
        (truncation_not_written, 7, "the end of a log is truncated in memory only"),
        (promise_forgotten_by_restart, 40, "a promise to a leader does not outlive a restart"),
        (promise_not_kept, 8, "a follower votes while the leader has its promise"),
        (floor_ignored, 1, "a new leader answers before its epoch has a committed record"),
        (acknowledged_before_sync, 0, "a follower acknowledges what is not synced"),
        (unsynced_records_acknowledged, 0, "an acknowledgement does not wait for its sync"),
        (vote_sent_before_its_sync, 0, "a vote does not wait for its sync"),
        (own_copy_counts_unsynced, 0, "a leader counts its own copy before it is synced"),
        (sync_covers_later_writes, 0, "a sync covers what was written after it began"),
        (uncommitted_applied_by_standby, 1, "a standby applies what is not committed"),
        (dirty_machine_kept, 32, "a demoted leader keeps what was truncated"),
        (last_slice_dropped, 8, "the last slice of a snapshot is lost"),
        (epoch_not_bumped, 0, "a candidate stands in the old epoch"),
        (incomplete_candidate_elected, 4, "a vote goes to a candidate that lacks records"),
        (logs_not_matched, 50, "a follower appends where the logs differ"),
        (lease_kept_while_handing_over, 2, "a leader that hands over keeps its lease"),
        (waiting_answered_after_demotion, 7, "who waits is answered by a leader of the past"),
        (sessions_not_renewed, 8, "sessions go on counting through a failover"),
    )
}
"""Planted in the replicas, and in what classic groups rely on."""
