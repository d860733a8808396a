"""One coordinator's process: a host, its log, its clock, and the ports of its turns.

The turn is the one used in production (:mod:`failover.turn`). The process can die between any two
of its steps, stand still, lose unsynced data, or lose its whole disk.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from failover.host import Host
from failover.ports import Ports
from failover.routing import partition_for
from failover.simulation.event_log import Violation
from failover.simulation.nodes import events
from failover.simulation.nodes.clocks import BEAT_MS, STALL_MS, WALL_MS, SimulatedWallClock
from failover.simulation.nodes.directory_check import DirectoryCheck
from failover.simulation.nodes.disks import Directory, Disk, FaultyLog
from failover.simulation.nodes.halves import Halves
from failover.simulation.nodes.requests import FORWARD_MS, ForwardedFrom, RequestQueue, SentAnswer
from failover.simulation.nodes.slow_writes import SlowWrites
from failover.turn import Turn
from storage.disk.incarnation import Incarnation
from storage.log import CorruptLogError, LogError, MemoryLog, StaleLogError
from storage.replica import Role

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from kio.static.protocol import Entity

    from failover.effects import Forward
    from failover.identity import Identity
    from failover.partitions.partition import Partition
    from failover.simulation.nodes.clocks import NodeClock
    from failover.simulation.nodes.requests import AcceptedConnection
    from failover.simulation.world import World
    from protocol.config import Configs
    from protocol.groups.effects import Reply, WorkerTask
    from protocol.groups.facts import Fact
    from storage.log import Write
    from storage.messages import Message

LOAD_SLICE_RECORDS: Final = 40


class Killed(Exception):  # noqa: N818 - nothing went wrong, it was meant to die here
    """The process died in the middle of a turn."""


class Watcher(Protocol):
    """Checks what a process does (:mod:`failover.simulation.checkers.checkers`)."""

    def asked(self, process: Process, message: Entity) -> None:
        """Note that a request reached the process."""

    def answered(self, process: Process, answer: SentAnswer) -> None:
        """Note that the process sent an answer."""

    def repeated(self, process: Process, answer: SentAnswer) -> None:
        """Note that the process repeated an earlier answer without passing on the request."""

    def writes(self, process: Process, writes: Sequence[Write]) -> None:
        """Note that the process is about to write its log."""

    def sent(self, process: Process, node_id: int, messages: Sequence[Message]) -> None:
        """Note that the process sent messages to a peer."""

    def turned(self, process: Process) -> None:
        """Note that the process ended a turn."""

    def dies(self, process: Process) -> None:
        """Note that the process ends here, perhaps within a turn."""


class TaskTaker(Protocol):
    """Passes tasks to the assignor workers (:mod:`failover.simulation.nodes.workers`)."""

    def submit(self, process: Process, partition: int, task: WorkerTask) -> None:
        """Take a task; its answer returns as an event, if the process is still alive then."""


class NodeLinks(Protocol):
    """The links of all nodes (:mod:`failover.simulation.nodes.network`)."""

    processes: dict[int, Process]

    def connect(self, node_id: int) -> None:
        """Bring up the links of a process that has started."""

    def disconnect(self, node_id: int, notice_ms: int) -> None:
        """End the links of a process that has died; the others notice after a delay."""

    def send(self, sender: Process, node_id: int, messages: Sequence[Message]) -> None:
        """Send one turn's messages."""

    def client_delay(self) -> int:
        """Return a random delay for one message between a client and a node."""


class Process:
    """A node: its disk outlives its process, ``life`` counts the processes."""

    def __init__(self, world: World, network: NodeLinks, watcher: Watcher, node_id: int) -> None:
        self.world = world
        self.network = network
        self.watcher = watcher
        self.node_id = node_id
        self.log = MemoryLog()
        self.directory_id = ""
        self.disks: dict[str, MemoryLog] = {}
        self.host: Host | None = None
        self._turn: Turn | None = None
        self.is_alive = False
        self.is_paused = False
        self.is_loading = False
        self.slow_disk_ms = 0
        self.wall = SimulatedWallClock()
        self.disk = Disk()
        self.directory = Directory("", self.log, Incarnation(""))
        self.is_waiting = False
        self.patience_ms = 0
        self._judged = DirectoryCheck()
        self.life = 0
        self.doom = 0
        self.workers: TaskTaker | None = None
        self._sync_rng = world.random(f"disk {node_id}")
        self._slow_writes = SlowWrites(world, node_id)
        self.died: Callable[[int], None] = lambda _: None
        self.died_mid_turn: Callable[[int], None] = lambda _: None
        self._inbox: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.requests = RequestQueue()
        self._is_scheduled = False
        self._halves = Halves(world.random(f"polls {node_id}"), world.settings.turn_ms > 0)
        self._armed_true: int | None = None
        self._paused_at = self._paused_local = 0

    def begin(
        self, identity: Identity, configs: Configs, rng: random.Random, clock: NodeClock
    ) -> None:
        """Start a process on the contents of the disk."""
        self.identity = identity
        self.clock = clock
        self.clock.process_started(self.wall.process_started())
        self.life += 1
        try:
            self.disk.open(self.directory, f"{self.world.seed}-{self.node_id}-{self.life}")
        except (CorruptLogError, StaleLogError) as error:
            self.world.tell("", f"node {self.node_id} waits: {error}")
            self.is_waiting = True
            return
        self.is_waiting = False
        peers = [other for other in self.network.processes if other != self.node_id]
        self._judged = DirectoryCheck(peers, self.world.now, self.patience_ms)
        self.world.after(self.patience_ms, self._may_speak, self.life)
        self.is_alive, self.is_paused, self.is_loading, self.doom = True, False, True, 0
        self._inbox.clear()
        self.requests.begin()
        self._halves.is_first_done = False
        self._is_scheduled, self._armed_true = False, None
        self._slow_writes.begin()
        log = FaultyLog(self.log, self.disk)
        if not self._survives(self._begin_host, identity, configs, log, rng):
            return
        self.network.connect(self.node_id)
        self._load(self.life)
        self.world.after(1, self._read_wall, self.life)

    def _begin_host(
        self, identity: Identity, configs: Configs, log: FaultyLog, rng: random.Random
    ) -> None:
        self.host = Host(identity, configs, log, rng, self.local_now())
        ports = Ports(
            log=self, clock=self, peers=self, answers=self, tasks=self, facts=self, timer=self
        )
        self._turn = Turn(self.host, ports)

    def local_now(self) -> int:
        """Return the reading of this node's clock; it never goes back."""
        return self._slow_writes.at_least(self.clock.local(self.world.now))

    now = local_now

    def _read_wall(self, life: int) -> None:
        """Tell the host the reading of the machine's wall clock, which may be wrong."""
        if life != self.life or not self.is_alive:
            return
        is_able = not self.is_paused and not self.is_loading
        self.world.after(WALL_MS if is_able else BEAT_MS, self._read_wall, life)
        if is_able:
            self.event(Host.clock_read, self.world.client_now + self.wall.error_ms)

    def set_wall(self, error_ms: int) -> None:
        """Set the error of the machine's wall clock from now on; a process sees it being set."""
        self.wall.set(error_ms)
        if self.is_alive and not self.is_paused:
            self._see_wall(0)

    def _see_wall(self, frozen_ms: int) -> None:
        """Tell the host, before anything else, how the wall clock moved against the steady one."""
        moved_ms, now = self.wall.moved_ms(frozen_ms), self.local_now()
        if moved_ms and self.host is not None and not self.is_loading:
            self.wall.noticed(now, {number: self.leads(number) for number in self.leading()})
            self.host.jumped(moved_ms, self.world.client_now + self.wall.error_ms, now)
            self._soon()

    def _load(self, life: int) -> None:
        if life != self.life or self.host is None:
            return
        if self.is_paused:
            self._inbox.append((self._load, (life,)))
            return
        if not self._survives(self._load_slice):
            return
        self._take_turn()
        if self.is_loading:
            self.world.after(1, self._load, life)

    def _load_slice(self) -> None:
        assert self.host is not None
        self.is_loading = not self.host.load_slice(LOAD_SLICE_RECORDS)

    def _survives(self, action: Callable[..., Any], *arguments: Any) -> bool:
        """Run something between turns; the process ends if it was to, or cannot read its disk."""
        try:
            action(*arguments)
        except (Killed, LogError) as error:
            self.world.tell("", f"node {self.node_id} ends: {error}")
            self.kill(self.log.unsynced // 2, 1)
            self.died_mid_turn(self.node_id)
            return False
        return True

    def new_disk(self, directory_id: str) -> None:
        """Start with an empty disk; only checkers remember what was on the old one."""
        assert not self.is_alive
        self.disk.replaced()
        self.put(Directory(directory_id, MemoryLog(), Incarnation(directory_id)))

    def put(self, directory: Directory) -> None:
        """Put a directory where the process will look for one."""
        self.directory, self.directory_id = directory, directory.directory_id
        self.log = self.disks[directory.directory_id] = directory.log

    # --- for checkers

    @property
    def has_backlog(self) -> bool:
        """Whether the disk lacks data that memory has: it was full, and will be retried."""
        return self._turn is not None and self._turn._backlog.is_full

    @property
    def is_damaged(self) -> bool:
        """Whether the directory cannot be opened, or its damage will be found."""
        disk = self.disk
        return self.is_waiting or disk.is_rotten or bool(disk.misdirected) or self.directory.is_old

    @property
    def is_mid_turn(self) -> bool:
        """Whether events were taken in a turn that has not ended yet."""
        return self._is_scheduled

    def partitions(self) -> Sequence[Partition]:
        """Return every partition of which this process has a replica, including the catalogue's."""
        return () if self.host is None else self.host.partitions

    def leads(self, number: int) -> int | None:
        """Return the epoch in which this process leads a partition; None: it does not."""
        partition = self._partition(number)
        if partition is None or partition.replica.role is not Role.LEADER:
            return None
        return partition.replica.epoch

    def leading(self) -> list[int]:
        """Return the partitions that this process leads."""
        return [
            partition.number
            for partition in self.partitions()
            if partition.replica.role is Role.LEADER
        ]

    def leader_known(self, group_id: str) -> int:
        """Return the node that this one believes to lead a group, itself when it knows none."""
        if self.host is None:
            return self.node_id
        number = partition_for(group_id, self.identity.partitions)
        return self.host.view.leaders.get(number, self.node_id)

    def group(self, group_id: str) -> Any:
        """Return this process's hard state of a group; None if there is none."""
        partition = self._partition(partition_for(group_id, self.identity.partitions))
        if partition is None:
            return None
        return partition.machine._context.groups.get(group_id)  # type: ignore[attr-defined]

    def _partition(self, number: int) -> Partition | None:
        return None if self.host is None else self.host._state.all.get(number)

    # --- death and pauses

    def kill(self, kept: int, notice_ms: int) -> None:
        """End the process; ``kept`` units of its unsynced writes survive.

        Peers and clients notice after ``notice_ms``: at once when the machine survives and closes
        its sockets, late when the machine is gone too.
        """
        if not self.is_alive:
            return
        self.watcher.dies(self)
        self.is_alive, self.host, self._turn = False, None, None
        self.life += 1
        self.log = self.disks[self.directory_id] = self.directory.log = self.log.crash(kept)
        self.died(self.node_id)
        self.network.disconnect(self.node_id, notice_ms)
        self.requests.end(
            lambda connection: self.world.after(
                notice_ms + self.network.client_delay(), connection.close
            )
        )
        self.clock.go_on(self.world.now)
        self._inbox.clear()
        self.is_paused = False

    def pause(self, duration_ms: int, *, freezes_clock: bool = False) -> None:
        """Stand still, as on SIGSTOP; ``freezes_clock``: as the steady clock of a VM does too."""
        if self.is_alive and not self.is_paused:
            self.is_paused = True
            if freezes_clock:
                self.clock.freeze(self.world.now)
            self._paused_at, self._paused_local = self.world.now, self.local_now()
            if duration_ms:
                self.world.after(duration_ms, self.thaw, self.life)

    def thaw(self, life: int) -> None:
        """Resume; what arrived meanwhile waits in the sockets."""
        if life != self.life or not self.is_paused or self._slow_writes.is_busy:
            return
        self.is_paused = self._is_scheduled = False
        self._armed_true = None
        frozen_ms = 0
        if self.clock.is_frozen:
            self.clock.go_on(self.world.now)
            frozen_ms = self.world.now - self._paused_at  # the wall clock kept running
        self._see_wall(frozen_ms)
        late_ms = self.local_now() - self._paused_local - BEAT_MS
        if not frozen_ms and (
            late_ms >= STALL_MS
            and self.host is not None
            and not self._survives(self.host.tick, self.local_now(), late_ms)
        ):
            return
        inbox, self._inbox = self._inbox, []
        for action, arguments in inbox:
            if life == self.life:
                action(*arguments)
        self._soon()

    # --- incoming

    def from_client(self, connection: AcceptedConnection, token: Any, message: Entity) -> None:
        """Take a client's request."""
        if self.is_paused:
            self._inbox.append((self.from_client, (connection, token, message)))
            return
        assert self.host is not None
        self.watcher.asked(self, message)
        known = self.requests.recall(message, self.local_now)
        if known is None:
            self.requests.push(connection, token, message, self.world.now)
            self._soon()
        elif not self._is_outdated():
            self.watcher.repeated(self, SentAnswer(message, known, self.world.now))
            connection.answer(token, known)

    def abandoned(self, connection: AcceptedConnection) -> None:
        """Note that a client has closed its connection."""
        for ticket in self.requests.abandoned(connection):
            self.event(events.abandon, ticket)

    def from_peer(self, node_id: int, messages: Sequence[Message]) -> None:
        """Take messages from another node's replicas."""
        if self.may_speak:
            self.event(Host.receive_peer, node_id, messages)

    def link_changed(self, node_id: int, is_up: bool) -> None:
        """Note that a link came up or broke."""
        self._judged.link_changed(node_id, is_up)
        if self.is_alive and self.may_speak:
            self.event(Host.peer_up if is_up else Host.peer_down, node_id)

    @property
    def may_speak(self) -> bool:
        """Whether replicas may send and receive: the peers have checked the directory."""
        return self._judged.may_speak(self.world.now)

    def judges(self, peer: Process) -> bool:
        """Check a peer's directory in the handshake; tell a peer whose directory is a copy."""
        claim = peer.directory.incarnation
        if not self.directory.memory.judge(claim):
            peer.is_refused()
            return False
        self.directory.memory.learn(claim)
        return True

    def is_refused(self) -> None:
        """Note that this process's directory is a copy: end, and have it checked."""
        self.kill(self.log.unsynced, 1)
        self.disk.is_rotten = True
        self.is_waiting = True

    def accepted(self, node_id: int) -> None:
        """Note that a peer accepts this directory as its newest state."""
        if not self.may_speak:
            self._judged.accepted(node_id)
            self._may_speak(self.life)

    def _may_speak(self, life: int) -> None:
        if life == self.life and self.is_alive:
            for node_id in self._judged.begin_to_speak(self.world.now):
                self.event(Host.peer_up, node_id)

    def event(self, method: Callable[..., Any], *arguments: Any) -> None:
        """Call a method of the host that takes the time last, now or when thawed."""
        if self.is_paused:
            self._inbox.append((self.event, (method, *arguments)))
        elif self.host is not None and self._survives(
            method, self.host, *arguments, self.local_now()
        ):
            self._soon()

    # --- the driver's loop

    def _soon(self) -> None:
        turn_ms = self.world.settings.turn_ms
        if not turn_ms:
            self._take_turn()
        elif not self._is_scheduled:
            self._is_scheduled = True
            self.world.after(turn_ms, self._scheduled, self.life)

    def _scheduled(self, life: int) -> None:
        if life == self.life and not self.is_paused:  # a missed turn is taken on resuming
            self._is_scheduled = False
            self._take_turn()

    def _take_turn(self) -> None:
        if self._turn is None:
            return
        try:
            wait_ms = self._halves.run(self._turn, self.requests)
        except (Killed, LogError):
            self.world.come_back()
            self.kill(self.log.unsynced // 2, 1)
            self.died_mid_turn(self.node_id)
        else:
            if wait_ms is not None:
                self.world.after(wait_ms, self._scheduled, self.life)
            if self._halves.is_first_done:
                self._is_scheduled = True
            else:
                self.watcher.turned(self)
                self._slow_writes.end_turn(self)

    def _step(self) -> None:
        """Die here if this is the step to die at."""
        if self.doom:
            self.doom -= 1
            if not self.doom:
                self.world.fault("kill mid turn", f"node {self.node_id} dies within a turn")
                raise Killed

    # --- the ports of a turn

    def write(self, writes: Sequence[Write]) -> None:
        """Write to the disk, unless the process dies before."""
        self._step()
        self.disk.write()
        self.watcher.writes(self, writes)
        self.log.write(writes, sync=False)
        self._slow_writes.write(self.disk)
        self._step()

    def sync(self) -> bool:
        """Sync the disk; the settings determine how long it takes."""
        usual_ms = self.world.settings.sync_ms
        sync_ms = self.disk.sync(usual_ms, self.slow_disk_ms, self._sync_rng)
        if sync_ms is None:
            self.log.sync()
            self._step()
            return True
        self.world.after(sync_ms, self._synced, self.life, self.log.unsynced)
        return False

    def _synced(self, life: int, units: int) -> None:
        """Let the disk finish a sync, even while the process stands still."""
        if life == self.life and self._turn is not None:
            self.log.sync(units)
            self.event(events.synced, self._turn)

    def send(self, node_id: int, messages: Sequence[Message]) -> None:
        """Send messages to a peer, unless the process dies before."""
        self._step()
        if not self.may_speak:
            return
        self.watcher.sent(self, node_id, messages)
        self._slow_writes.leave(self, self.network.send, self, node_id, messages)

    def forward(self, forward: Forward) -> None:
        """Carry a request to another node, in 2 ms."""
        self._slow_writes.leave(self, self.world.after, FORWARD_MS, self._forward, forward)

    def serve(self) -> bool:
        """Pass waiting requests to the host, as many as a live process has time for."""
        assert self._turn is not None
        return self.requests.serve(self._turn.receive)

    def answer(self, reply: Reply) -> None:
        """Answer a client, unless the process dies before."""
        self._step()
        asked = self.requests.open.pop(reply.ticket, None)
        if asked is None:
            raise Violation(f"node {self.node_id} answers ticket {reply.ticket} a second time")
        if self._is_outdated():
            self.requests.fail(asked)
            return
        self.world.mark(reply.ticket)
        self.watcher.answered(self, SentAnswer(asked.message, reply.message, asked.at))
        self._slow_writes.leave(
            self, self.requests.answer, asked, reply, otherwise=partial(self.requests.fail, asked)
        )

    def _is_outdated(self) -> bool:
        """Return whether this node believes that it leads but has a successor.

        Only while clocks break the assumptions of leases: then its answers are dropped, as nothing
        is guaranteed for them.
        """
        return self.world.is_lawless and any(
            (other.leads(number) or -1) > epoch
            for number in self.leading()
            if (epoch := self.leads(number)) is not None
            for other in self.network.processes.values()
        )

    def flush(self) -> None:
        """Do nothing: each answer was already sent."""

    def submit(self, partition: int, task: WorkerTask) -> None:
        """Hand a task to the workers."""
        if self.workers is not None:
            self._slow_writes.leave(self, self.workers.submit, self, partition, task)

    def observe(self, fact: Fact) -> None:
        """Ignore a fact: no metrics are read here."""

    def note(self, sentence: str) -> None:
        """Add a sentence to the event log."""
        if self.world.tells:
            self.world.tell("", f"node {self.node_id} notes: {sentence}")

    def arm(self, deadline_ms: int | None, now: int) -> None:  # noqa: ARG002 - true time counts here
        """Set the one timer for the host's next deadline; one that fires too early does no harm."""
        if deadline_ms is None:
            return
        due = max(self.clock.true(deadline_ms), self.world.now + 1)
        if self._armed_true is None or due < self._armed_true:
            self._armed_true = due
            self.world.after(due - self.world.now, self._timer, self.life, due)

    def _forward(self, forward: Forward) -> None:
        target = self.network.processes.get(forward.node_id)
        back = ForwardedFrom(self, self.world)
        if target is None or not target.is_alive or target.is_paused or target.host is None:
            back.answer(forward.request.ticket, None)
            return
        request = target.requests.push_forwarded(forward, back, self.world.now)
        target.event(events.receive, target._turn, request)

    # --- time

    def clock_changed(self) -> None:
        """Reset the timer: its clock runs at another speed."""
        if self.host is not None and not self.is_paused:
            self._armed_true = None
            self.arm(self.host.next_deadline(), self.local_now())

    def _timer(self, life: int, due: int) -> None:
        if life != self.life or due != self._armed_true or self.is_paused:
            return
        assert self.host is not None
        self._armed_true = None
        now = self.local_now()
        deadline_ms = self.host.next_deadline()
        if deadline_ms is not None and deadline_ms <= now:
            if self._survives(self.host.tick, now):
                self._soon()
        else:
            self.arm(deadline_ms, now)
