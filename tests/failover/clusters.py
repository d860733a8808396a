"""Several hosts on a network in memory: one clock, messages that take a millisecond, no threads."""

import random
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

from failover.catalogue.catalog import NodeChanged
from failover.catalogue.cluster_view import Node
from failover.effects import Forward
from failover.host import Host
from failover.identity import CATALOG_PARTITION, Identity
from failover.ports import Ports
from failover.routing import partition_for
from failover.turn import Turn
from protocol.config import Configs
from protocol.groups.effects import ClientInfo, Reply, Request, Task
from storage.log import MemoryLog, Write
from storage.messages import Message, ReplicaKey
from tests.failover.hosts import NoPorts

CLIENT = ClientInfo("client", "/127.0.0.1")
T0 = 1_700_000_000_000
LATENCY_MS = 1
"""How long a message takes, unless a host's wires are slow (:attr:`Cluster.slow_ms`)."""


class Member:
    """One host of the cluster: its disk, and what it answered."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.directory = f"directory-{node_id}"
        self.log = MemoryLog()
        self.host: Host = None  # type: ignore[assignment]  # made by Cluster.start
        self.turn: Turn = None  # type: ignore[assignment]
        self.is_up = False
        self.is_frozen = False
        self.replies: dict[int, Any] = {}
        self.answers: list[tuple[int, Any]] = []
        self.notes: list[str] = []
        self.tasks: list[tuple[int, Any]] = []


class Wires(NoPorts):
    """The ports of one host's turns."""

    def __init__(self, cluster: "Cluster", member: Member) -> None:
        self._cluster = cluster
        self._member = member

    def now(self) -> int:
        return self._cluster.now

    def write(self, writes: Sequence[Write]) -> None:
        self._member.log.write(writes, sync=False)

    def sync(self) -> bool:
        self._member.log.sync()
        return True

    def send(self, node_id: int, messages: Sequence[Message]) -> None:
        self._cluster.carry(self._member, node_id, messages)

    def forward(self, forward: Forward) -> None:
        self._cluster.carry_forward(self._member, forward)

    def answer(self, reply: Reply) -> None:
        self._cluster.take_answer(self._member, reply)

    def submit(self, partition: int, task: Task) -> None:
        self._member.tasks.append((partition, task))

    def note(self, sentence: str) -> None:
        self._member.notes.append(sentence)


class Cluster:
    """``count`` hosts; partition *i* prefers node *i*, and has ``replicas`` of them."""

    def __init__(
        self,
        count: int = 3,
        *,
        partitions: int = 1,
        replicas: int = 3,
        configs: Mapping[str, str] | None = None,
        seed: int = 1,
    ) -> None:
        self.now = T0
        self.rng = random.Random(seed)
        self.members = [Member(node_id) for node_id in range(count)]
        self.placement = tuple(
            tuple((number + n) % count for n in range(replicas)) for number in range(partitions)
        )
        self.configs = Configs(
            {
                "group.initial.rebalance.delay.ms": "0",
                "offsets.topic.num.partitions": str(partitions),
                **(configs or {}),
            }
        )
        keys = [ReplicaKey(each.node_id, each.directory) for each in self.members]
        self.voters = {
            CATALOG_PARTITION: tuple(keys[:replicas]),
            **{n: tuple(keys[one] for one in nodes) for n, nodes in enumerate(self.placement)},
        }
        self.cuts: set[frozenset[int]] = set()
        self.slow_ms: dict[int, int] = {}
        self.said: list[tuple[int, Sequence[Message]]] = []
        self.tickets = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._linked: set[frozenset[int]] = set()
        self._forwarded: dict[tuple[int, int], tuple[int, int]] = {}
        for member in self.members:
            self.start(member.node_id, formed=True)

    # --- life of the hosts

    def start(self, node_id: int, *, formed: bool = False) -> None:
        """Start a host on its disk; ``formed`` when it is one of the cluster's first."""
        member = self.members[node_id]
        voters = self.voters if formed or member.directory == f"directory-{node_id}" else {}
        identity = Identity(
            node_id=node_id,
            directory_id=member.directory,
            cluster_id="cluster",
            nodes=tuple(each.node_id for each in self.members),
            placement=self.placement,
            voters=voters,
        )
        rng = random.Random(self.rng.getrandbits(64))
        member.host = Host(identity, self.configs, member.log, rng, self.now)
        wires = Wires(self, member)
        ports = Ports(
            log=wires,
            clock=wires,
            peers=wires,
            answers=wires,
            tasks=wires,
            facts=wires,
            timer=wires,
        )
        member.turn = Turn(member.host, ports)
        member.is_up, member.is_frozen = True, False
        while not member.host.load_slice(100):
            pass
        self.pump(member)
        self._relink()

    def kill(self, node_id: int, kept: int = 0) -> None:
        """End a host's process; its unsynced writes are lost."""
        member = self.members[node_id]
        member.is_up = False
        member.log = member.log.crash(kept)
        self._relink()

    def lose_disk(self, node_id: int) -> None:
        """Give a host that is down an empty directory."""
        member = self.members[node_id]
        member.log, member.directory = MemoryLog(), f"{member.directory}+"

    def cut(self, node_id: int) -> None:
        """Cut a host off from all others, but not from its clients."""
        for other in self.members:
            if other.node_id != node_id:
                self.cuts.add(frozenset((node_id, other.node_id)))
        self._relink()

    def mend(self) -> None:
        """Mend every link."""
        self.cuts.clear()
        self._relink()

    def register(self) -> None:
        """Let every host that is up be known to the catalogue."""
        for member in self.members:
            node = Node(member.node_id, f"host{member.node_id}", 9092, up=member.is_up)
            self.until(lambda node=node: self._tell(node), "the catalogue knows")  # type: ignore[misc]
        self.run(100)

    def _tell(self, node: Node) -> bool:
        leader = self.leader(CATALOG_PARTITION)
        taken = leader.host.catalog_event(NodeChanged(node), self.now)
        self.pump(leader)
        return taken

    # --- who leads

    def leaders(self, partition: int = 0) -> list[Member]:
        """Return the hosts that take themselves for the leader."""
        return [
            member
            for member in self.members
            if member.is_up
            and any(r.partition == partition and r.state == "Leader" for r in member.host.status())
        ]

    def leader(self, partition: int = 0) -> Member:
        """Return the host that leads in the highest epoch; waits until there is one."""
        self.until(lambda: bool(self.leaders(partition)), "a leader")
        return max(self.leaders(partition), key=lambda member: self.row(member, partition).epoch)

    def row(self, member: Member, partition: int = 0) -> Any:
        [row] = [row for row in member.host.status() if row.partition == partition]
        return row

    # --- clients

    def send(self, member: Member, api_key: int, api_version: int, message: Any) -> int:
        """Give a request to a host; return its ticket."""
        self.tickets += 1
        request = Request(
            ticket=self.tickets,
            api_key=api_key,
            api_version=api_version,
            client=CLIENT,
            message=message,
        )
        member.host.receive(request, self.now)
        self.pump(member)
        return self.tickets

    def ask(self, member: Member, api_key: int, api_version: int, message: Any) -> Any:
        """Send a request and let time pass until it is answered."""
        ticket = self.send(member, api_key, api_version, message)
        self.until(lambda: ticket in member.replies, f"an answer of node {member.node_id}")
        return member.replies[ticket]

    def group_in(self, partition: int) -> str:
        names = (f"g{n}" for n in range(1_000))
        return next(n for n in names if partition_for(n, len(self.placement)) == partition)

    # --- time

    def until(self, is_so: Callable[[], bool], what: str, within_ms: int = 20_000) -> int:
        """Let time pass until something is so; return how long it took."""
        began, end = self.now, self.now + within_ms
        while not is_so():
            assert self._step(end), f"no {what} within {within_ms} ms"
        return self.now - began

    def run(self, ms: int) -> None:
        """Let time pass."""
        end = self.now + ms
        while self._step(end):
            pass
        self.now = end

    def _step(self, end: int) -> bool:
        """Do the next thing that is due; False when there is nothing before ``end``."""
        deadlines = [
            (max(due, self.now), member)
            for member in self.members
            if member.is_up
            and not member.is_frozen
            and (due := member.host.next_deadline()) is not None
        ]
        due, member = min(deadlines, key=lambda one: one[0], default=(end + 1, None))
        if self._events and self._events[0][0] <= due:
            due = max(self._events[0][0], self.now)
            if due > end:
                return False
            self.now = due
            heappop(self._events)[2]()
            return True
        if due > end or member is None:
            return False
        self.now = due
        if due == self.now:
            member.host.tick(self.now)
            self.pump(member)
            if member.host.next_deadline() == due:
                self.now += 1  # nothing to do that can be done now
        return True

    def _after(self, ms: int, what: Callable[[], None]) -> None:
        self._sequence += 1
        heappush(self._events, (self.now + ms, self._sequence, what))

    # --- turns

    def pump(self, member: Member) -> None:
        """Take a host's turn."""
        member.turn.take()

    def carry(self, member: Member, node_id: int, messages: Sequence[Message]) -> None:
        """Deliver messages a little later."""
        self.said.append((member.node_id, messages))
        slow_ms = max(self.slow_ms.get(node, 0) for node in (member.node_id, node_id))
        self._after(
            LATENCY_MS + slow_ms, lambda: self._deliver(member, self.members[node_id], messages)
        )

    def carry_forward(self, member: Member, forward: Forward) -> None:
        """Deliver a request that one host forwards to another."""
        self._after(LATENCY_MS, lambda: self._forward(member, forward))

    def take_answer(self, member: Member, reply: Reply) -> None:
        """Keep an answer, or carry it back to the host that forwarded the request."""
        origin = self._forwarded.pop((member.node_id, reply.ticket), None)
        if origin is not None:
            asker = self.members[origin[0]]
            asker.host.forwarded(origin[1], reply.message)
            self._after(LATENCY_MS, lambda: self.pump(asker))
            return
        assert reply.ticket not in member.replies, "a ticket is answered at most once"
        member.replies[reply.ticket] = reply.message
        member.answers.append((self.now, reply.message))

    def _deliver(self, sender: Member, to: Member, messages: Sequence[Message]) -> None:
        if not to.is_up or frozenset((sender.node_id, to.node_id)) in self.cuts:
            return
        if to.is_frozen:
            self._after(LATENCY_MS, lambda: self._deliver(sender, to, messages))
            return
        to.host.receive_peer(sender.node_id, messages, self.now)
        self.pump(to)

    def _forward(self, member: Member, forward: Forward) -> None:
        to = self.members[forward.node_id]
        if not to.is_up:
            member.host.forwarded(forward.request.ticket, None)
            self.pump(member)
            return
        self.tickets += 1
        self._forwarded[to.node_id, self.tickets] = (member.node_id, forward.request.ticket)
        request = forward.request
        own = Request(
            ticket=self.tickets,
            api_key=request.api_key,
            api_version=request.api_version,
            client=request.client,
            message=request.message,
        )
        to.host.receive(own, self.now)
        self.pump(to)

    def _relink(self) -> None:
        """Tell the hosts which links came up and which broke."""
        for one in self.members:
            for other in self.members[one.node_id + 1 :]:
                pair = frozenset((one.node_id, other.node_id))
                stands = one.is_up and other.is_up and pair not in self.cuts
                if stands == (pair in self._linked):
                    continue
                (self._linked.add if stands else self._linked.discard)(pair)
                for at, to in ((one, other), (other, one)):
                    if at.is_up:
                        notice = at.host.peer_up if stands else at.host.peer_down
                        notice(to.node_id, self.now)
                        self.pump(at)
