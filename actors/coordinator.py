"""A coordinator: one event loop, one host, one log. ``pump`` is the only place with side effects.

This is a plain class; ``actors/cluster.py`` makes it a Ray actor. Every method runs on the event
loop of its process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors import formation
from actors.background import Background, NoWorkers
from actors.clock import BEAT_MS, Clock
from actors.listener import Limits, Listener, raise_open_files_limit
from actors.log_opening import give_up, open_log
from failover.full_disk import Backlog
from failover.host import Host
from protocol.config import Configs
from storage.identity import LogIdentity
from storage.log import CorruptLogError, FullDiskError, LogError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from kio.static.protocol import Entity

    from actors.background import Workers
    from actors.spec import ClusterSpec
    from failover.catalog import ClusterFormed, NodeChanged
    from failover.cluster_view import Node
    from failover.effects import Effects, Forward
    from protocol.groups.effects import Reply, Request, Ticket
    from protocol.groups.facts import Fact, MemberEvent
    from storage.messages import Message
    from storage.rocks import RocksLog

_log = logging.getLogger("rollcall.coordinator")

LOAD_SLICE_RECORDS: Final = 2_000
"""Records read between two looks at the sockets: a few milliseconds."""

FORWARD_S: Final = 30.0
RETRY_S: Final = 0.2
BIND_TRIES: Final = 25

COLLECTOR_THRESHOLDS: Final = (100_000, 50, 1_000)
"""Nearly nothing here is cyclic; by default, looking for it takes a sixth of a large join."""
OBSERVER_S: Final = 2.0


class Peers(Protocol):
    """The other processes of the cluster, as far as they can be reached. Never the data path."""

    async def send(self, node_id: int, messages: Sequence[Message]) -> None:
        """Hand another coordinator what our replicas say to its own; losses are allowed."""

    async def forward(self, node_id: int, request: Request) -> Entity | None:
        """Carry a request to a node that may answer it; None when it was not reached."""

    async def register(self, node: Node) -> bool:
        """Tell the catalogue's leader that a node is up or down; False when it was not reached."""

    async def directories(self) -> tuple[str, ...]:
        """Ask the others which directories the cluster was formed of; nothing: none knows."""

    async def announce(self, node_id: int, pid: int) -> Mapping[int, int] | None:
        """Tell the controller that we serve; it says who leads what, if it is there."""


class Observer(Protocol):
    """Whoever tells people what happened (:class:`actors.telemetry.Telemetry`)."""

    def observe(self, fact: Fact) -> None:
        """Take a fact; must neither block nor raise."""

    def close(self, timeout_s: float = ...) -> None:
        """Deliver what is left; may block for about so long."""


class Coordinator:
    """Serves the groups of one ``__consumer_offsets`` partition to Kafka clients."""

    def __init__(  # noqa: PLR0913 - everything around it is handed in here
        self,
        spec: ClusterSpec,
        node_id: int,
        peers: Peers,
        observer: Observer,
        clock: Clock | None = None,
        *,
        workers: Workers | None = None,
    ) -> None:
        self.spec = spec
        self.node_id = node_id
        self.state = "Starting"  # then Loading, Running; or Failed, Stopped
        self.failure = ""
        self.ready = asyncio.Event()
        self.opened = asyncio.Event()  # the log is open, or can not be
        self.directory_id = ""
        self.directories: tuple[str, ...] = ()
        self._is_formed = asyncio.Event()
        self._peers = peers
        self._observer = observer
        self._clock = clock or Clock()
        self._loop = asyncio.get_running_loop()
        configs = Configs(spec.overrides)
        limits = Limits(
            request_bytes_max=configs.integer("socket.request.max.bytes"),
            idle_ms_max=configs.integer("connections.max.idle.ms"),
        )
        self._configs = configs
        self._listener = Listener(self, limits)
        self._host: Host | None = None
        self._disk: RocksLog | None = None
        self._backlog: Backlog | None = None
        self._background = Background(
            f"coordinator-{node_id}", workers or NoWorkers(), spec.workers, self._computed
        )
        self._waiting: dict[Ticket, asyncio.Future[Entity]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_scheduled = False
        self._armed_ms: int | None = None
        self._timer: asyncio.TimerHandle | None = None

    # --- life

    def start(self) -> None:
        """Begin to serve; :attr:`ready` is set once clients find everything."""
        self._spawn(self._start())

    async def _start(self) -> None:
        try:
            disk = self._disk = await self._open()
            self.opened.set()
            await self._wait_formed()
            self._begin(disk)
            await self._listen()
            self._beat()
            await self._load()
        except CorruptLogError as error:
            self._begin_anew(error)
            return
        except (LogError, OSError) as error:
            self._fail(error)
            return
        await self._join_cluster()

    def _fail(self, error: Exception) -> None:
        self.failure = str(error)
        self.state = "Failed"
        _log.critical("%s", error)
        self.opened.set()
        self.ready.set()

    def _begin_anew(self, error: CorruptLogError) -> None:
        """Leave a log that proved damaged when it was read; Ray restarts the process."""
        try:
            said = give_up(self.spec.log_path(self.node_id), error, self.spec.replicas)
        except CorruptLogError:
            self._fail(error)
            return
        _log.critical("%s", said)
        logging.shutdown()
        os._exit(1)

    async def _open(self) -> RocksLog:
        raise_open_files_limit()
        owner = LogIdentity(
            cluster_id=self.spec.cluster_id,
            node_id=self.node_id,
            partitions=self.spec.partitions,
        )
        path = self.spec.log_path(self.node_id)
        disk = await open_log(path, owner, self.spec.replicas, partial(_log.warning, "%s"))
        self._backlog = Backlog(disk)
        for note in disk.notes:
            _log.warning("%s", note)
        self.directory_id = disk.directory_id
        self.directories = formation.load(path) or self.spec.directories
        return disk

    async def _wait_formed(self) -> None:
        """Wait until somebody tells which directories the cluster was formed of."""
        self.state = "Forming"
        while not self.directories:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_formed.wait(), RETRY_S)
                return
            self.form(await self._peers.directories())

    def form(self, directories: Sequence[str]) -> None:
        """Learn which directories the cluster was formed of; what was known before stands."""
        if directories and not self.directories and self.directory_id:
            formation.save(self.spec.log_path(self.node_id), directories)
            self.directories = tuple(directories)
            self._is_formed.set()

    def _begin(self, disk: RocksLog) -> None:
        identity = self.spec.identity(self.node_id, self.directory_id, self.directories)
        rng = random.Random(os.urandom(16))
        self._host = Host(identity, self._configs, disk, rng, self.now())
        self.state = "Loading"

    async def _listen(self) -> None:
        address = self.spec.listeners[self.node_id]
        for tries_left in reversed(range(BIND_TRIES)):
            try:
                await self._listener.open(address.host, address.port)
            except OSError:
                if not tries_left:
                    raise
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def _load(self) -> None:
        assert self._host is not None
        began_ms = self.now()
        while not self._host.load_slice(LOAD_SLICE_RECORDS):
            self._schedule()
            await asyncio.sleep(0)
        self.state = "Running"
        self._schedule()
        _spare_the_collector()
        _log.info("loaded in %d ms", self.now() - began_ms)

    async def _join_cluster(self) -> None:
        """Make ourselves known: to the catalogue, so that clients find us, and the controller."""
        self._spawn(self._announce())
        node = self.spec.node(self.node_id, up=True)
        while not await self._peers.register(node):
            await asyncio.sleep(RETRY_S)

    async def _announce(self) -> None:
        while (leaders := await self._peers.announce(self.node_id, os.getpid())) is None:
            await asyncio.sleep(RETRY_S)
        while not self.ready.is_set():
            self.set_leaders(leaders)
            await asyncio.sleep(RETRY_S)
        self.set_leaders(leaders)

    async def stop(self) -> None:
        """End cleanly: nothing more is answered, everything is on disk."""
        self.state = "Stopped"
        self._listener.close()
        self._background.close()
        for task in self._tasks:
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._host is not None and self._disk is not None:
            with suppress(FullDiskError):  # the log says again what the state lacks
                self._disk.write(self._host.checkpoint().writes, sync=True)
            self._disk.close()
            self._host = self._disk = None
        await self._loop.run_in_executor(None, self._observer.close, OBSERVER_S)

    # --- what comes in

    def now(self) -> int:
        """Return the Unix time in milliseconds."""
        return self._clock.now()

    def receive(self, request: Request) -> None:
        """Take a client's request; all requests of one look at the sockets share one turn."""
        if self._host is None:
            return
        if not self._is_scheduled:
            self._forgive_stall()
            self._schedule()
        refusal = None if self._backlog is None else self._backlog.refusal(request)
        if refusal is None:
            self._host.receive(request, self.now())
        else:
            self._send_reply(refusal)

    def abandon(self, ticket: Ticket) -> None:
        """Forget a request whose client has gone away."""
        if self._host is not None:
            self._host.abandon(ticket)

    async def forwarded_here(self, request: Request) -> Entity | None:
        """Answer a request that another node's client made and that only we may answer."""
        if self._host is None or self.state != "Running":
            return None
        ticket = self._listener.draw_ticket()
        answer: asyncio.Future[Entity] = self._loop.create_future()
        self._waiting[ticket] = answer
        try:
            self.receive(replace(request, ticket=ticket))
            return await asyncio.wait_for(answer, FORWARD_S)
        except TimeoutError:
            return None
        finally:
            self._waiting.pop(ticket, None)

    def catalog_event(self, event: NodeChanged | ClusterFormed) -> bool:
        """Tell the catalogue, if we lead it."""
        if self._host is None or not self._host.catalog_event(event, self.now()):
            return False
        self._schedule()
        return True

    def receive_peer(self, node_id: int, messages: Sequence[Message]) -> None:
        """Take what another coordinator's replicas said."""
        if self._host is not None:
            self._host.receive_peer(node_id, messages, self.now())
            self._schedule()

    def _computed(self, partition: int, answer: Any) -> None:
        """Take an assignor worker's answer."""
        if self._host is not None:
            self._host.computed(partition, answer, self.now())
            self._schedule()

    def set_leaders(self, leaders: Mapping[int, int]) -> None:
        """Learn which nodes serve: tell them what we lead."""
        if self._host is not None:
            for node_id in leaders:
                if node_id != self.node_id:
                    self._host.peer_up(node_id, self.now())
            self._schedule()

    def events(self, group_id: str) -> list[MemberEvent]:
        """Return the diary of a group."""
        return [] if self._host is None else self._host.events(group_id)

    def status(self) -> dict[str, Any]:
        """Return what this coordinator knows of itself, as plain values."""
        return {
            "pid": os.getpid(),
            "state": self.state,
            "failure": self.failure,
            "connections": len(self._listener.connections),
            "partitions": [] if self._host is None else [asdict(p) for p in self._host.status()],
        }

    # --- what goes out

    def _schedule(self) -> None:
        """Pump after the sockets that are ready now were read, once for all of them."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        try:
            self.pump()
        except Exception:
            # Memory and disk may differ now. Begin anew from the log: Ray restarts the process.
            _log.critical("the coordinator can not go on and restarts", exc_info=True)
            logging.shutdown()
            os._exit(1)

    def pump(self) -> None:
        """Carry out what the host decided: disk, peers, answers, tasks, facts, timer."""
        self._is_scheduled = False
        host, backlog = self._host, self._backlog
        if host is None or backlog is None:
            return
        now = self.now()
        if backlog.retry(now):
            _log.warning("there is room on the disk again: everything is written")
            host.disk_is_full = False
            host.persisted(now)
        while effects := host.drain(now):
            if backlog.write(effects, now):
                host.persisted(now)
            else:
                host.disk_is_full = True
            self._send_to_peers(effects)
            self._send_replies(effects)
            for partition, task in effects.tasks:
                self._background.submit(partition, task)
            for fact in effects.facts:
                self._observer.observe(fact)
            for note in effects.notes:
                _log.warning("%s", note)
        self._listener.flush()
        self._arm(_earlier(host.next_deadline(), backlog.retry_ms), now)
        if not self.ready.is_set() and self.state == "Running":
            self._note_readiness(host)

    def _send_to_peers(self, effects: Effects) -> None:
        for node_id, messages in effects.messages.items():
            self._spawn(self._peers.send(node_id, messages))
        for forward in effects.forwards:
            self._spawn(self._forward(forward))

    async def _forward(self, forward: Forward) -> None:
        response = await self._peers.forward(forward.node_id, forward.request)
        if self._host is not None:
            self._host.forwarded(forward.request.ticket, response)
            self._schedule()

    def _send_replies(self, effects: Effects) -> None:
        for reply in effects.replies:
            self._send_reply(reply)

    def _send_reply(self, reply: Reply) -> None:
        try:
            known = self._listener.answer(reply)
        except Exception:
            _log.exception("an answer can not be written")
            self._listener.fail(reply.ticket, "its answer can not be written")
            return
        if not known:
            waiting = self._waiting.pop(reply.ticket, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(reply.message)

    def _arm(self, deadline_ms: int | None, now: int) -> None:
        if deadline_ms == self._armed_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._armed_ms = deadline_ms
        if deadline_ms is not None:
            wait_s = max(deadline_ms - now, 0) / 1000
            self._timer = self._loop.call_later(wait_s, self._tick)

    def _note_readiness(self, host: Host) -> None:
        nodes, count = host.view.catalog.nodes, self.spec.partitions
        if sum(node.up for node in nodes.values()) == len(host.view.leaders) == count:
            self.ready.set()

    # --- time

    def _tick(self) -> None:
        self._timer, self._armed_ms = None, None
        if self._host is not None:
            self._host.tick(self.now(), self._clock.stalled_ms())
            self._schedule()

    def _beat(self) -> None:
        self._forgive(self._clock.beat())
        self._loop.call_later(BEAT_MS / 1000, self._beat)

    def _forgive_stall(self) -> None:
        self._forgive(self._clock.stalled_ms())

    def _forgive(self, stalled_ms: int) -> None:
        if stalled_ms and self._host is not None:
            _log.warning(
                "this process stood still for %d ms; its groups' deadlines move by that", stalled_ms
            )
            self._host.tick(self.now(), stalled_ms)
            self._schedule()

    # --- tasks

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        with suppress(asyncio.CancelledError):
            if error := task.exception():
                _log.error("a background task failed", exc_info=error)


def _spare_the_collector() -> None:
    """Keep what the log brought out of the garbage collector's rounds, and make them rare."""
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


def _earlier(one: int | None, other: int | None) -> int | None:
    return min((time for time in (one, other) if time is not None), default=None)
