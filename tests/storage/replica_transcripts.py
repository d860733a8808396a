"""Golden transcripts of a replicated log: what replicas of one partition tell each other and write.

A block is one command per line, a line of dashes, and what came of them. See
``tests/storage/transcripts/README.md`` for the commands and the lines.
"""

import random
import shlex
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from storage.batch import Batch
from storage.control import LEADER_CHANGE_KEY, VOTERS_CHANGE_KEY
from storage.log import (
    AppendBatch,
    ApplyState,
    BeginInstall,
    DropBefore,
    FinishInstall,
    InstallSlice,
    MemoryLog,
    SaveVote,
    SaveVoters,
    TruncateFrom,
    Write,
)
from storage.messages import (
    Append,
    Appended,
    InstallSnapshot,
    Joining,
    Message,
    ReplicaKey,
    SnapshotInstalled,
    TransferLeadership,
    Vote,
    Voted,
)
from storage.replica import Replica, ReplicaOptions
from storage.timing import Timing
from tests.transcript_player import milliseconds

TIMING = Timing()


@dataclass
class Node:
    """One process: its log, what became of its disk, and its replica while it lives."""

    key: ReplicaKey
    log: MemoryLog
    replica: Replica | None = None
    is_held: bool = False  # its syncs do not come to their end
    unit: int = 0
    applied: int = 0


class ReplicaStage:
    """Replicas, links that deliver in order and at once, and one clock."""

    def __init__(self) -> None:
        self.now = 100_000
        self.nodes: dict[int, Node] = {}
        self.wanted: frozenset[int] = frozenset()
        self.voters: tuple[ReplicaKey, ...] = ()
        self.cuts: set[frozenset[int]] = set()
        self.wire: deque[tuple[int, int, Message]] = deque()
        self.lines: list[str] = []

    def run(self, line: str) -> list[str]:
        """Run one command; what comes of it, one line each."""
        words = shlex.split(line)
        self.lines = []
        COMMANDS[words[0]](self, *words[1:])
        self.settle()
        return self.lines or ["nothing"]

    # -- commands

    def replicas(self, count: str, leader: str = "") -> None:
        """Start voters on empty disks; ``leader=0`` has one elected, which is not told."""
        self.wanted = frozenset(range(int(count)))
        self.voters = tuple(ReplicaKey(node, f"d{node}") for node in sorted(self.wanted))
        for key in self.voters:
            self.nodes[key.node_id] = Node(key, MemoryLog())
        for node in self.nodes.values():
            self.start(node)
        self.now += TIMING.promise_ms  # what may have been promised before the start binds no more
        if leader:
            self.campaign(leader.removeprefix("leader="))
            self.settle()
            self.advance("1s")
            self.lines.clear()

    def want(self, *node_ids: str) -> None:
        """Place the partition on other nodes; a new one starts with an empty disk."""
        self.wanted = frozenset(map(int, node_ids))
        for node_id in sorted(self.wanted - self.nodes.keys()):
            self.nodes[node_id] = Node(ReplicaKey(node_id, f"d{node_id}"), MemoryLog())
        for node in self.nodes.values():
            self.start(node)
        for node in self.nodes.values():
            self.connect(node)

    def campaign(self, node_id: str) -> None:
        self.of(node_id).campaign(self.now)

    def append(self, node_id: str, *pairs: str) -> None:
        records = [(key.encode(), value.encode()) for key, value in (p.split("=") for p in pairs)]
        self.of(node_id).append(records, self.now)

    def transfer(self, node_id: str, to: str) -> None:
        if not self.of(node_id).transfer_to(int(to), self.now):
            self.lines.append(f"{node_id} does not hand over")

    def advance(self, duration: str) -> None:
        """Let time pass; signs of life without news are not told."""
        end = self.now + milliseconds(duration)
        while True:
            due = [
                (deadline, node_id)
                for node_id, node in self.nodes.items()
                if node.replica is not None
                and (deadline := node.replica.next_deadline()) is not None
                and deadline <= end
            ]
            if not due:
                break
            deadline, node_id = min(due)
            self.now = max(self.now + (deadline <= self.now), deadline)
            self.of(str(node_id)).tick(self.now)
            self.settle()
        self.now = end

    def cut(self, *node_ids: str) -> None:
        """Cut a link, or with one node all of its links; both ends learn of it."""
        for one, other in self.links(*node_ids):
            self.cuts.add(frozenset((one, other)))
            self.tell_link(one, other, is_up=False)

    def mend(self, *node_ids: str) -> None:
        for one, other in self.links(*node_ids):
            self.cuts.discard(frozenset((one, other)))
            self.tell_link(one, other, is_up=True)

    def kill(self, node_id: str) -> None:
        """``kill -9`` and a power cut: what was not synced is lost."""
        node = self.nodes[int(node_id)]
        node.replica, node.log = None, node.log.crash(kept=0)
        for other in self.nodes:
            if other != node.key.node_id:
                self.tell_link(other, node.key.node_id, is_up=False)

    def restart(self, node_id: str) -> None:
        node = self.nodes[int(node_id)]
        node.is_held = False
        self.start(node)
        self.connect(node)

    def replace_disk(self, node_id: str) -> None:
        """The node comes back with an empty directory: another replica (KIP-853)."""
        node = self.nodes[int(node_id)]
        node.log, node.key = MemoryLog(), ReplicaKey(node.key.node_id, f"{node.key.directory_id}'")
        self.restart(node_id)

    def hold(self, node_id: str) -> None:
        """A disk that syncs nothing more: frozen, or so full that nothing can be written."""
        self.nodes[int(node_id)].is_held = True

    def release(self, node_id: str) -> None:
        self.nodes[int(node_id)].is_held = False

    def compact(self, node_id: str) -> None:
        """Bring the compacted state to the high watermark and drop the batches before it."""
        node = self.nodes[int(node_id)]
        batches = [b for b in node.log.batches(0, 0) if b.end_offset <= node.applied]
        state = {k: v for b in batches for k, v in b.records}
        applied = ApplyState(0, node.applied, batches[-1].leader_epoch, tuple(state.items()))
        self.write(node, [applied, DropBefore(0, node.applied)])
        self.start(node)
        self.connect(node)

    def show(self, *_: str) -> None:
        """One line for each node: role, epoch, end of the log, high watermark and voters."""
        for node_id, node in self.nodes.items():
            replica = node.replica
            if replica is None:
                self.lines.append(f"{node_id} is dead")
                continue
            voters = ",".join(f"{k.node_id}/{k.directory_id}" for k in replica.voters)
            self.lines.append(
                f"{node_id} {replica.role.name.lower()} epoch={replica.epoch} "
                f"end={replica.end_offset} committed={replica.high_watermark} voters={voters}"
            )

    # -- processes

    def of(self, node_id: str) -> Replica:
        replica = self.nodes[int(node_id)].replica
        assert replica is not None, f"node {node_id} is dead"
        return replica

    def links(self, *node_ids: str) -> list[tuple[int, int]]:
        ids = [int(each) for each in node_ids]
        others = ids[1:] or [each for each in self.nodes if each != ids[0]]
        return [pair for other in others for pair in ((ids[0], other), (other, ids[0]))]

    def tell_link(self, node_id: int, other_id: int, *, is_up: bool) -> None:
        replica, other = self.nodes[node_id].replica, self.nodes[other_id].replica
        if replica is None or (is_up and other is None):
            return
        (replica.peer_up if is_up else replica.peer_down)(other_id, self.now)
        if is_up and other is not None:
            other.peer_up(node_id, self.now)

    def connect(self, node: Node) -> None:
        for other in self.nodes:
            if other != node.key.node_id:
                self.tell_link(node.key.node_id, other, is_up=True)

    def start(self, node: Node) -> None:
        stored = node.log.stored(0)
        setting = ReplicaOptions(
            me=node.key,
            partition=0,
            voters=self.voters if node.key in self.voters else (),
            timing=TIMING,
            rng=random.Random(node.key.node_id),
            log=node.log,
            wanted=self.wanted,
        )
        tail = list(node.log.batches(0, stored.applied_offset))
        node.replica = Replica(setting, stored, tail, self.now)
        node.applied = max(stored.applied_offset, node.replica.high_watermark)
        node.unit = 0

    # -- turns

    def settle(self) -> None:
        """Take turns and deliver messages until nothing moves."""
        while True:
            for node in self.nodes.values():
                self.turn(node)
            if not self.wire:
                return
            sender, receiver, message = self.wire.popleft()
            target = self.nodes.get(receiver)
            if frozenset((sender, receiver)) in self.cuts or target is None:
                continue
            if target.replica is not None:
                target.replica.step(message, self.now)

    def turn(self, node: Node) -> None:
        replica, me = node.replica, node.key.node_id
        while replica is not None:
            if not node.is_held and node.log.unsynced:
                node.log.sync(node.log.unsynced)
                replica.persisted(self.now, node.unit)
            if not replica.is_ready:
                return
            node.unit += 1
            ready = replica.ready(self.now, node.unit)
            for to, message in ready.messages:
                self.tell_message(me, to, message)
                self.wire.append((me, to, message))
            self.write(node, ready.writes)
            if ready.elected:
                self.lines.append(f"{me} leads epoch {replica.epoch}")
            if ready.resigned:
                self.lines.append(f"{me} resigns")
            if ready.snapshot is not None and ready.snapshot.done:
                node.applied = ready.snapshot.offset
                self.lines.append(f"{me} has the snapshot at {ready.snapshot.offset}")
            for batch in ready.committed:
                node.applied = max(node.applied, batch.end_offset)
                self.lines.append(f"{me} committed {told_batch(batch)}")

    def write(self, node: Node, writes: list[Write]) -> None:
        if writes:
            node.log.write(writes, sync=False)
            self.lines += [f"  {node.key.node_id} writes {told_write(write)}" for write in writes]

    def tell_message(self, sender: int, receiver: int, message: Message) -> None:
        is_lost = frozenset((sender, receiver)) in self.cuts or (
            receiver not in self.nodes or self.nodes[receiver].replica is None
        )
        is_routine = (isinstance(message, Append) and not message.batches) or (
            isinstance(message, Appended) and message.accepted
        )
        if not is_routine:
            lost = " (lost)" if is_lost else ""
            self.lines.append(f"{sender} -> {receiver} {told_message(message)}{lost}")


def told_batch(batch: Batch) -> str:
    records = " ".join(told_record(key, value) for key, value in batch.records)
    return f"{batch.base_offset}..{batch.end_offset} epoch={batch.leader_epoch} {records}"


def told_record(key: bytes, value: bytes | None) -> str:
    if key == LEADER_CHANGE_KEY:
        return "LeaderChange"
    if key == VOTERS_CHANGE_KEY:
        return "VotersChange"
    return f"{key.decode()}={'' if value is None else value.decode()}"


def told_write(write: Any) -> str:
    name = type(write).__name__
    return f"{name} {WRITES[type(write)](write)}".rstrip()


def told_message(message: Any) -> str:
    name = type(message).__name__
    return f"{name} epoch={message.epoch} {MESSAGES[type(message)](message)}".rstrip()


WRITES: Mapping[type, Callable[[Any], str]] = {
    AppendBatch: lambda w: told_batch(w.batch),
    ApplyState: lambda w: f"to={w.offset} " + " ".join(told_record(k, v) for k, v in w.records),
    BeginInstall: lambda w: f"at={w.offset}",
    DropBefore: lambda w: f"{w.offset}",
    FinishInstall: lambda w: f"at={w.offset}",
    InstallSlice: lambda w: " ".join(told_record(k, v) for k, v in w.records),
    SaveVote: lambda w: f"epoch={w.epoch} for={w.voted_for} committed={w.high_watermark}",
    SaveVoters: lambda w: ",".join(f"{k.node_id}/{k.directory_id}" for k in w.voters),
    TruncateFrom: lambda w: f"{w.offset}",
}
MESSAGES: Mapping[type, Callable[[Any], str]] = {
    Append: lambda m: (
        f"after={m.previous_offset}/{m.previous_epoch} "
        + ", ".join(told_batch(batch) for batch in m.batches)
    ),
    Appended: lambda m: f"refused end={m.end_offset}/{m.last_epoch}",
    InstallSnapshot: lambda m: (
        f"at={m.offset} slice={m.position} "
        + " ".join(told_record(k, v) for k, v in m.records)
        + (" last" if m.is_last else "")
    ),
    Joining: lambda m: f"{m.replica.node_id}/{m.replica.directory_id}",
    SnapshotInstalled: lambda m: f"at={m.offset} next={m.next_position}",
    TransferLeadership: lambda _: "",
    Vote: lambda m: (
        f"end={m.end_offset}/{m.last_epoch}"
        + (" pre-vote" if m.pre_vote else "")
        + (" transfer" if m.transfer else "")
    ),
    Voted: lambda m: ("granted" if m.granted else "refused") + (" pre-vote" if m.pre_vote else ""),
}
COMMANDS: Mapping[str, Callable[..., None]] = {
    "advance": ReplicaStage.advance,
    "append": ReplicaStage.append,
    "campaign": ReplicaStage.campaign,
    "compact": ReplicaStage.compact,
    "cut": ReplicaStage.cut,
    "hold": ReplicaStage.hold,
    "kill": ReplicaStage.kill,
    "mend": ReplicaStage.mend,
    "release": ReplicaStage.release,
    "replace-disk": ReplicaStage.replace_disk,
    "replicas": ReplicaStage.replicas,
    "restart": ReplicaStage.restart,
    "show": ReplicaStage.show,
    "transfer": ReplicaStage.transfer,
    "want": ReplicaStage.want,
}
