"""A small network of replicas of one partition, with seeded faults and checks after every event."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import storage.snapshot
from storage.batch import Batch
from storage.log import AppendBatch, MemoryLog, Write
from storage.messages import Message, ReplicaKey
from storage.peer_frames import pack_messages, unpack_messages
from storage.replica import Ready, Replica, ReplicaOptions, Role
from storage.snapshot import Compactor
from storage.timing import Timing

TIMING = Timing()
SKEW = 0.05
"""How much a clock may be fast or slow."""


@dataclass
class Faults:
    """How unkind the network is; chances are per message, times in ms."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_ms: float = 2.0
    slow: float = 0.0  # the chance of a delay up to half a second
    write_ms: float = 1.0


@dataclass
class Node:
    """One process: its log, its replica while it lives, and its clock."""

    key: ReplicaKey
    log: MemoryLog
    rate: float
    offset_ms: float
    replica: Replica | None = None
    compactor: Compactor | None = None
    installing: bool = False
    incarnation: int = 0
    syncing: bool = False
    unit: int = 0
    applied: int = 0


class Network:
    """Replicas, the messages between them, and what must hold at every moment."""

    def __init__(self, seed: int, nodes: int, learners: int = 0) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.faults = Faults()
        self.voters = tuple(ReplicaKey(n, f"first-{n}") for n in range(nodes))
        self.wanted = frozenset(range(nodes))
        self.cut: set[frozenset[int]] = set()
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.count = 0
        self.leaders: dict[int, ReplicaKey] = {}
        self.committed: list[Batch] = []
        self.state: dict[bytes, bytes | None] = {}
        self.proposed = 0
        self.installed = 0
        self.disks_lost = 0
        self.handed_over = 0
        self.nodes = {
            n: Node(
                ReplicaKey(n, f"first-{n}"),
                MemoryLog(),
                1 + self.rng.uniform(-SKEW, SKEW),
                self.rng.uniform(0, 1_000_000),
            )
            for n in range(nodes + learners)
        }
        for node in self.nodes.values():
            self.start(node)

    # --- time

    def at(self, delay_ms: float, action: Callable[[], None]) -> None:
        self.count += 1
        heapq.heappush(self.events, (self.now + delay_ms, self.count, action))

    def clock(self, node: Node) -> int:
        return int(node.offset_ms + self.now * node.rate)

    def run(self, duration_ms: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass; return whether ``until`` came true."""
        end = self.now + duration_ms
        while self.events and self.events[0][0] <= end:
            if until():
                return True
            self.now, _, action = heapq.heappop(self.events)
            action()
            self.check_leases()
        self.now = end
        return until()

    # --- processes

    def start(self, node: Node) -> None:
        stored = node.log.stored(0)
        compactor = Compactor(0, stored)
        tail = []
        for batch in node.log.batches(0, 0):
            compactor.hold(batch)
            if batch.end_offset > stored.applied_offset:
                tail.append(batch)
        setting = ReplicaOptions(
            me=node.key,
            partition=0,
            voters=self.voters if node.key in self.voters else (),
            timing=TIMING,
            rng=random.Random(self.rng.random()),
            log=node.log,
            wanted=self.wanted,
        )
        node.incarnation += 1
        node.replica = Replica(setting, stored, tail, self.clock(node))
        node.compactor = compactor
        node.installing = node.syncing = False
        node.unit = 0
        node.applied = stored.applied_offset
        for batch in tail:
            if batch.end_offset <= node.replica.high_watermark:
                self.learn(node, batch)
                compactor.add(batch)
        for other in self.nodes.values():
            if other is not node and other.replica is not None and self.linked(node, other):
                self.tell_link(node, other, True)
                self.tell_link(other, node, True)
        self.tick(node, node.incarnation)

    def crash(self, node: Node) -> None:
        node.replica = node.compactor = None
        node.incarnation += 1
        node.log = node.log.crash(kept=self.rng.randint(0, node.log.unsynced))
        for other in self.nodes.values():
            if other.replica is not None and self.rng.random() < 0.8:
                self.tell_link(other, node, False)

    def lose_disk(self, node: Node) -> None:
        self.disks_lost += 1
        node.log = MemoryLog()
        node.key = ReplicaKey(node.key.node_id, f"again-{self.disks_lost}")

    def may_lose_disk(self) -> bool:
        """Whether all voters are up to date and known to all: then a majority survives a loss."""
        keys = {self.nodes[n].key for n in self.wanted}
        return len(keys) > 2 and all(
            node.replica is not None
            and (set(node.replica.voters) == keys or node.key not in keys)
            and node.replica.high_watermark >= self.end_offset - 2
            for node in self.nodes.values()
        )

    def linked(self, a: Node, b: Node) -> bool:
        return frozenset((a.key.node_id, b.key.node_id)) not in self.cut

    def tell_link(self, node: Node, other: Node, is_up: bool) -> None:
        def tell(incarnation: int = node.incarnation) -> None:
            if node.incarnation == incarnation and node.replica is not None:
                reachable = other.replica is not None and self.linked(node, other)
                if reachable != is_up and self.rng.random() < 0.9:
                    return  # old news; sometimes it comes all the same
                call = node.replica.peer_up if is_up else node.replica.peer_down
                call(other.key.node_id, self.clock(node))
                self.pump(node)

        self.at(self.rng.uniform(0, 5), tell)

    def cut_link(self, a: int, b: int) -> None:
        self.cut.add(frozenset((a, b)))
        if self.rng.random() < 0.5:
            self.tell_link(self.nodes[a], self.nodes[b], False)
            self.tell_link(self.nodes[b], self.nodes[a], False)

    def mend(self) -> None:
        for link in self.cut:
            a, b = sorted(link)
            self.tell_link(self.nodes[a], self.nodes[b], True)
            self.tell_link(self.nodes[b], self.nodes[a], True)
        self.cut.clear()

    # --- one process's turn

    def tick(self, node: Node, incarnation: int) -> None:
        if node.incarnation != incarnation or node.replica is None:
            return
        node.replica.tick(self.clock(node))
        self.pump(node)
        due = node.replica.next_deadline()
        wait = 20.0 if due is None else (due - self.clock(node)) / node.rate
        self.at(min(max(wait, 1.0), 20.0), lambda: self.tick(node, incarnation))

    def pump(self, node: Node) -> None:
        replica = node.replica
        while replica is not None and replica.is_ready:
            node.unit += 1
            ready = replica.ready(self.clock(node), node.unit)
            self.send(node, ready.messages)
            writes = list(ready.writes)
            if ready.elected:
                self.check_election(node)
            if ready.snapshot is not None:
                self.reload(node, ready, writes)
                writes = []
            compactor = node.compactor
            assert compactor is not None
            for write in writes:
                if isinstance(write, AppendBatch):
                    compactor.hold(write.batch)
            for batch in ready.committed:
                if batch.end_offset > node.applied:
                    self.learn(node, batch)
                    compactor.add(batch)
            if compactor.due() and not node.installing:
                compactor.keep_from = replica.needed_from
                writes += compactor.writes()
            if writes:
                node.log.write(writes, sync=False)
        self.sync(node)

    def sync(self, node: Node) -> None:
        """Begin a sync of everything written so far, unless one is under way."""
        if node.log.unsynced and not node.syncing and node.replica is not None:
            node.syncing = True
            synced = partial(self.synced, node, node.incarnation, node.unit, node.log.unsynced)
            self.at(self.rng.uniform(0, self.faults.write_ms), synced)

    def synced(self, node: Node, incarnation: int, unit: int, atomic_units: int) -> None:
        if node.incarnation != incarnation or node.replica is None:
            return
        node.log.sync(atomic_units)
        node.syncing = False
        node.replica.persisted(self.clock(node), unit)
        self.pump(node)

    def reload(self, node: Node, ready: Ready, writes: list[Write]) -> None:
        """A snapshot replaces the log: what was built from it is dropped or rebuilt."""
        assert ready.snapshot is not None
        assert node.replica is not None
        node.installing = not ready.snapshot.done
        node.log.write(writes, sync=False)
        stored = node.log.stored(0)
        node.compactor = Compactor(0, stored)
        for batch in node.log.batches(0, 0):
            node.compactor.hold(batch)
        node.applied = stored.applied_offset
        if ready.snapshot.done:
            self.installed += 1
            self.check_state(node)

    def send(self, node: Node, messages: list[tuple[int, Message]]) -> None:
        faults, rng = self.faults, self.rng
        for node_id, message in messages:
            frame = pack_messages([message])
            [copy] = unpack_messages(frame)
            assert copy == message
            times = 1 + (rng.random() < faults.duplication)
            for _ in range(times):
                if rng.random() < faults.loss:
                    continue
                delay = rng.uniform(0.1, faults.delay_ms)
                if rng.random() < faults.slow:
                    delay = rng.uniform(0, 500)
                self.at(delay, lambda m=copy, to=node_id: self.deliver(node.key.node_id, to, m))

    def deliver(self, from_node: int, to_node: int, message: Message) -> None:
        node = self.nodes.get(to_node)
        if node is None or node.replica is None or frozenset((from_node, to_node)) in self.cut:
            return
        node.replica.step(message, self.clock(node))
        self.pump(node)

    # --- what others do to it

    @property
    def leader(self) -> Node | None:
        """The node that leads the newest epoch."""
        leading = [
            node
            for node in self.nodes.values()
            if node.replica is not None and node.replica.role is Role.LEADER
        ]
        return max(leading, key=lambda node: node.replica.epoch, default=None)

    def propose(self, node: Node | None, records: int = 1) -> None:
        if node is None or node.replica is None or node.replica.role is not Role.LEADER:
            return
        self.proposed += 1
        key = b"%d" % self.rng.randrange(20)
        value = None if self.rng.random() < 0.1 else b"%d" % self.proposed
        node.replica.append([(key, value)] * records, self.clock(node))
        self.pump(node)

    @property
    def end_offset(self) -> int:
        """The end of everything that some replica reported as committed."""
        return self.committed[-1].end_offset if self.committed else 0

    @property
    def is_calm(self) -> bool:
        """Whether one leader is known to all, and all have everything and count as they should."""
        leader = self.leader
        if leader is None or leader.replica is None:
            return False
        voters = {self.nodes[n].key for n in self.wanted}
        return all(
            node.replica is not None
            and node.replica.leader_id == leader.key.node_id
            and node.replica.high_watermark == leader.replica.end_offset
            and (set(node.replica.voters) == voters or node.key not in voters)
            for node in self.nodes.values()
        )

    # --- what must hold

    def learn(self, node: Node, batch: Batch) -> None:
        """Take a batch that a replica says is committed; it must be the one everybody has."""
        assert batch.base_offset == node.applied, "committed batches come in order"
        node.applied = batch.end_offset
        if batch.base_offset >= self.end_offset:
            assert batch.base_offset == self.end_offset
            self.committed.append(batch)
            return
        index = next(i for i, b in enumerate(self.committed) if b.base_offset == batch.base_offset)
        assert self.committed[index] == batch, "committed prefix changed"

    def check_election(self, node: Node) -> None:
        assert node.replica is not None
        epoch = node.replica.epoch
        assert self.leaders.setdefault(epoch, node.key) == node.key, "one leader per epoch"
        assert node.replica.end_offset > self.end_offset, "a leader has everything committed"
        held = list(node.log.batches(0, 0))
        at = {batch.base_offset: batch for batch in held}
        for batch in self.committed:
            if batch.base_offset >= node.log.stored(0).applied_offset:
                assert at[batch.base_offset] == batch, "a leader has everything committed"

    def check_leases(self) -> None:
        holders = [
            node.key
            for node in self.nodes.values()
            if node.replica is not None
            and node.replica.role is Role.LEADER
            and self.clock(node) < node.replica.lease_until_ms
        ]
        assert len(holders) < 2, f"two leases at once: {holders}"

    def check_state(self, node: Node) -> None:
        """The state on disk is what the committed log says at that offset."""
        expected: dict[bytes, bytes] = {}
        applied = node.log.stored(0).applied_offset
        for batch in self.committed:
            if batch.end_offset <= applied and not batch.control:
                for key, value in batch.records:
                    if value is None:
                        expected.pop(key, None)
                    else:
                        expected[key] = value
        assert dict(node.log.state(0)) == expected


def shorten_logs(monkeypatch) -> None:
    """Let logs be compacted and dropped soon, so that snapshots are needed."""
    monkeypatch.setattr(storage.snapshot, "STEP_RECORDS", 4)
    monkeypatch.setattr(storage.snapshot, "KEPT_BATCHES", 6)
    monkeypatch.setattr("storage.tail.KEPT_BATCHES", 4)
    monkeypatch.setattr("storage.log.SLICE_BYTES", 16)


def torment(network: Network, steps: int) -> None:
    """Do unkind things, and propose records all the while."""
    rng = network.rng
    for _ in range(steps):
        network.run(rng.choice([1, 10, 50, 200, 600]))
        for _ in range(rng.randint(0, 6)):
            network.propose(network.leader, rng.randint(1, 3))
        _one_fault(network)


def _one_fault(network: Network) -> None:
    fault = network.rng.choice(FAULTS)
    fault(network, network.nodes[network.rng.choice(sorted(network.nodes))])


def _crash(network: Network, node: Node) -> None:
    if node.replica is not None:
        network.crash(node)


def _start(network: Network, node: Node) -> None:
    if node.replica is None:
        network.start(node)


def _cut_one(network: Network, node: Node) -> None:
    others = [n for n in network.nodes if n != node.key.node_id]
    if others:
        network.cut_link(node.key.node_id, network.rng.choice(others))


def _cut_off(network: Network, node: Node) -> None:
    for other in network.nodes:
        if other != node.key.node_id:
            network.cut_link(node.key.node_id, other)


def _mend(network: Network, node: Node) -> None:
    network.mend()


def _transfer(network: Network, node: Node) -> None:
    leader = network.leader
    if leader is not None and leader.replica is not None:
        network.handed_over += leader.replica.transfer_to(node.key.node_id, network.clock(leader))
        network.pump(leader)


def _lose_disk(network: Network, node: Node) -> None:
    if network.may_lose_disk():
        network.crash(node)
        network.lose_disk(node)


def _campaign(network: Network, node: Node) -> None:
    if node.replica is not None:
        node.replica.campaign(network.clock(node))
        network.pump(node)


def _weather(network: Network, node: Node) -> None:
    rng = network.rng
    network.faults = Faults(
        loss=rng.choice([0, 0, 0.05, 0.3]),
        duplication=rng.choice([0, 0, 0.2]),
        delay_ms=rng.choice([1, 5, 40]),
        slow=rng.choice([0, 0, 0.05]),
        write_ms=rng.choice([0.5, 5, 60]),
    )


FAULTS = (
    _crash, _crash, _start, _start, _start, _cut_one, _cut_off, _mend, _transfer, _lose_disk,
    _campaign, _weather,
)  # fmt: skip


def calm_down(network: Network, within_ms: float = 20_000) -> bool:
    """Stop all faults, start everybody, and wait until all agree."""
    network.faults = Faults()
    network.mend()
    for node in network.nodes.values():
        if node.replica is None:
            network.start(node)
    if not network.run(within_ms, lambda: network.is_calm):
        return False
    for node in network.nodes.values():
        network.check_state(node)
    return True
