"""A host driven by hand: what the actor's pump does, without actor, socket or clock."""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from failover.effects import Forward
from failover.host import Host, Identity
from failover.ports import Ports
from failover.turn import Turn
from protocol.config import Configs
from protocol.groups.effects import ClientInfo, Reply, Request, Task
from protocol.groups.facts import Fact
from storage.log import Log, MemoryLog, Write
from storage.messages import Message, ReplicaKey

CLIENT = ClientInfo("client", "/127.0.0.1")
T0 = 1_700_000_000_000


class NoPorts:
    """Ports that lead nowhere."""

    def send(self, node_id: int, messages: Sequence[Message]) -> None: ...
    def forward(self, forward: Forward) -> None: ...
    def serve(self) -> bool:
        return False

    def answer(self, reply: Reply) -> None: ...
    def flush(self) -> None: ...
    def submit(self, partition: int, task: Task) -> None: ...
    def observe(self, fact: Fact) -> None: ...
    def note(self, sentence: str) -> None: ...
    def arm(self, deadline_ms: int | None, now: int) -> None: ...


class Clock:
    """What a driver's clock shows."""

    def __init__(self, driver: "Driver") -> None:
        self._driver = driver

    def now(self) -> int:
        return self._driver.now


class Driver(NoPorts):
    """Feeds a host, takes its turns, and keeps what came out."""

    def __init__(
        self,
        log: Log,
        *,
        partitions: int = 1,
        leads: Iterable[int] = (0,),
        node_id: int = 0,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        led = frozenset(leads)
        other = 1 - node_id
        identity = Identity(
            node_id=node_id,
            directory_id=f"directory-{node_id}",
            cluster_id="cluster",
            nodes=(0, 1),
            placement=tuple((node_id if n in led else other,) for n in range(partitions)),
            voters={
                -1: (ReplicaKey(0, "directory-0"),),
                **{n: (ReplicaKey(node_id, f"directory-{node_id}"),) for n in led},
            },
        )
        overrides = {
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": str(partitions),
            **(configs or {}),
        }
        self.log = log
        self.now = T0
        self.tickets = 0
        self.replies: dict[int, Any] = {}
        self.written: list[Sequence[Write]] = []
        self.syncs = 0
        self.sent: list[tuple[int, Sequence[Message]]] = []
        self.notes: list[str] = []
        self.own(Host(identity, Configs(overrides), log, random.Random(7), T0))

    def own(self, host: Host) -> None:
        self.host = host
        clock = Clock(self)
        self.turn = Turn(
            host,
            Ports(
                log=self, clock=clock, peers=self, answers=self, tasks=self, facts=self, timer=self
            ),
        )

    def load(self, slice_size: int = 100) -> "Driver":
        while not self.host.load_slice(slice_size):
            pass
        self.pump()
        return self

    def give(self, api_key: int, api_version: int, message: Any) -> int:
        """Give a request to the host without pumping; return its ticket."""
        self.tickets += 1
        self.host.receive(
            Request(
                ticket=self.tickets,
                api_key=api_key,
                api_version=api_version,
                client=CLIENT,
                message=message,
            ),
            self.now,
        )
        return self.tickets

    def ask(self, api_key: int, api_version: int, message: Any) -> Any:
        """Send a request, pump, run what is due; return its answer, None while it is parked."""
        ticket = self.give(api_key, api_version, message)
        self.pump()
        self.wait(0)
        return self.replies.get(ticket)

    def pump(self) -> None:
        self.turn.take()

    def write(self, writes: Sequence[Write]) -> None:
        self.log.write(writes, sync=False)
        self.written.append(writes)

    def sync(self) -> bool:
        self.log.write((), sync=True)
        self.syncs += 1
        return True

    def send(self, node_id: int, messages: Sequence[Message]) -> None:
        self.sent.append((node_id, messages))

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def answer(self, reply: Reply) -> None:
        assert reply.ticket not in self.replies, "a ticket is answered at most once"
        self.replies[reply.ticket] = reply.message

    def wait(self, ms: int) -> None:
        """Let time pass in the steps that the host asks for."""
        until = self.now + ms
        while (due := self.host.next_deadline()) is not None and due <= until:
            self.now = max(due, self.now)
            self.host.tick(self.now)
            self.pump()
        self.now = until

    def restarted(self, log: Log | None = None) -> "Driver":
        """Start a new host of the same identity on ``log``, or on this one's."""
        again = Driver.__new__(Driver)
        again.__dict__.update(self.__dict__)
        again.log = log if log is not None else self.log
        again.replies, again.written, again.sent, again.notes = {}, [], [], []
        again.own(
            Host(
                self.host.identity,
                self.host.view.static_configs,
                again.log,
                random.Random(8),
                self.now,
            )
        )
        return again


def memory_driver(**arguments: Any) -> Driver:
    return Driver(MemoryLog(), **arguments).load()
