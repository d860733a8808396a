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
import time
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors import formation
from actors.background import Background, NoWorkers, Setting
from actors.clock import BEAT_MS, Clock
from actors.listener import Limits, Listener, raise_open_files_limit
from actors.log_opening import can_be_healed, open_log
from actors.loop_watch import INTERVAL, LoopWatch
from actors.peer_handshake import Myself
from actors.peers import Peers
from failover.catalog import NodeChanged
from failover.full_disk import Backlog
from failover.host import Host
from failover.identity import CATALOG_PARTITION
from protocol.config import Configs
from protocol.groups.target import TIME_LIMIT
from storage.directory import set_aside
from storage.identity import LogIdentity
from storage.log import FullDiskError, LogError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from kio.static.protocol import Entity

    from actors.background import Workers
    from actors.spec import ClusterSpec
    from failover.cluster_view import Node
    from failover.effects import Effects, Forward
    from protocol.groups.effects import Event, Reply, Request, Ticket
    from protocol.groups.facts import Fact, MemberEvent
    from storage.messages import Message
    from storage.rocks import RocksLog

_log = logging.getLogger("rollcall.coordinator")

LOAD_SLICE_RECORDS: Final = 2_000
"""Records read between two looks at the sockets: a few milliseconds."""

SERVE_S: Final = 0.001
"""For so long clients' requests are handled between two looks at the sockets; to write and answer
them takes about as long again."""

SERVE_S_MAX: Final = 0.02
"""Where it takes longer to write (a disk that syncs slowly), so much longer they are handled: what
many ask at once must not wait for a sync each. But no longer than this."""

OFFLOAD: Final = "group.consumer.assignor.offload.enable"
FORWARD_S: Final = 30.0
RETRY_S: Final = 0.2
BIND_TRIES: Final = 25

COLLECTOR_THRESHOLDS: Final = (2_000, 2_500, 1_000)
"""Nearly nothing here is cyclic; by default, looking for it takes a sixth of a large join. A round
begins after few new objects: it takes a microsecond for each, in which nobody is answered."""
OBSERVER_S: Final = 2.0

HAND_OVER_S: Final = 3.0
HAND_OVER_LOOK_S: Final = 0.02
NO_ROOM: Final = "there is no room on its disk"


class Others(Protocol):
    """The other processes of the cluster, for the control path; replicas have their own links."""

    async def forward(self, node_id: int, request: Request) -> Entity | None:
        """Carry a request to a node that may answer it; None when it was not reached."""

    async def node_changed(self, leader: int, node: Node) -> bool:
        """Tell ``leader`` that a node is up or down; False when it does not lead the catalogue."""

    async def directories(self) -> tuple[str, ...]:
        """Ask the others which directories the cluster was formed of; nothing: none knows."""

    async def peer_address(self, node_id: int) -> tuple[str, int] | None:
        """Ask a coordinator where it listens for its peers; None when it was not reached."""

    async def greet(self, node_id: int, host: str, port: int) -> None:
        """Tell the others that they find this node's replicas there."""

    async def announce(self, node_id: int, pid: int) -> bool:
        """Tell the controller that we serve; False when it was not reached."""


class Observer(Protocol):
    """Whoever tells people what happened (:class:`actors.telemetry.Telemetry`)."""

    def observe(self, fact: Fact) -> None:
        """Take a fact; must neither block nor raise."""

    def close(self, timeout_s: float = ...) -> None:
        """Deliver what is left; may block for about so long."""


class Coordinator:
    """Serves the groups of the ``__consumer_offsets`` partitions that are led here."""

    def __init__(  # noqa: PLR0913 - everything around it is handed in here
        self,
        spec: ClusterSpec,
        node_id: int,
        others: Others,
        observer: Observer,
        clock: Clock | None = None,
        *,
        workers: Workers | None = None,
    ) -> None:
        self.spec = spec
        self.node_id = node_id
        self.state = "Starting"  # then Forming, Loading, Running; or Failed, Stopped
        self.failure = ""
        self.is_damaged = False
        self.is_new = False
        self.ready = asyncio.Event()
        self.opened = asyncio.Event()  # the log is open, or can not be
        self.directory_id = ""
        self.directories: tuple[str, ...] = ()
        self._is_formed = asyncio.Event()
        self._others = others
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
        self._links: Peers | None = None
        self._host: Host | None = None
        self._disk: RocksLog | None = None
        self._backlog: Backlog | None = None
        setting = Setting(
            name=f"coordinator-{node_id}",
            workers=spec.workers,
            time_limit_ms=configs.integer(TIME_LIMIT),
        )
        self._background = Background(setting, workers or NoWorkers(), self._computed)
        self._watch = LoopWatch(self._loop, configs.integer(INTERVAL))
        self._is_draining = False
        self._waiting: dict[Ticket, asyncio.Future[Entity]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_scheduled = False
        self._written_s = 0.0
        self._is_registering = False
        self._armed_ms: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._beating: asyncio.TimerHandle | None = None

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
            if self._beating is None:
                self._clock.beat()  # to open a log takes what it takes
                self._beat()
                if not self._configs.boolean(OFFLOAD):
                    self._background.prepare_here()
            await self._load()
        except (LogError, OSError) as error:
            self._fail(error)
            return
        self._spawn(self._announce())
        self._spawn(self._register())
        self._stand()

    def _fail(self, error: Exception) -> None:
        """Serve nothing, but say why to whoever asks."""
        self.failure = str(error)
        self.is_damaged = can_be_healed(error, self.spec.replicas)
        self.state = "Failed"
        _log.critical("%s", self.failure)
        self._close()
        self.opened.set()
        self.ready.set()

    async def _open(self) -> RocksLog:
        raise_open_files_limit()
        owner = LogIdentity(
            cluster_id=self.spec.cluster_id,
            node_id=self.node_id,
            partitions=self.spec.partitions,
        )
        path = self.spec.log_path(self.node_id)
        disk = await open_log(path, owner, partial(_log.warning, "%s"))
        for note in disk.notes:
            _log.warning("%s", note)
        self.directory_id = disk.directory_id
        everything = range(CATALOG_PARTITION, self.spec.partitions)
        self.is_new = not any(disk.stored(partition).voters for partition in everything)
        self.directories = formation.load(path) or self.spec.directories
        return disk

    async def _wait_formed(self) -> None:
        """Wait until somebody tells which directories the cluster was formed of."""
        self.state = "Forming"
        while not self.directories:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_formed.wait(), RETRY_S)
                return
            self.form(await self._others.directories())

    def form(self, directories: Sequence[str]) -> None:
        """Learn which directories the cluster was formed of; what was known before stands."""
        if directories and not self.directories and self.directory_id:
            formation.save(self.spec.log_path(self.node_id), directories)
            self.directories = tuple(directories)
            self._is_formed.set()

    def start_anew(self) -> None:
        """Set a damaged log aside and begin with an empty one, which the leaders will fill."""
        if self.state != "Failed" or not self.is_damaged:
            return
        gc.collect()  # what still iterates over the old log keeps it open
        aside = set_aside(self.spec.log_path(self.node_id))
        _log.warning("the damaged log was moved to %s; this node begins empty", aside.name)
        self.failure, self.is_damaged = "", False
        self.opened.clear()
        self.ready.clear()
        self.start()

    def _begin(self, disk: RocksLog) -> None:
        identity = self.spec.identity(self.node_id, self.directory_id, self.directories)
        rng = random.Random(os.urandom(16))
        self._host = Host(identity, self._configs, disk, rng, self.now())
        self._backlog = Backlog(disk)
        self.state = "Loading"

    async def _listen(self) -> None:
        address = self.spec.listeners[self.node_id]
        me = Myself(
            cluster_id=self.spec.cluster_id,
            node_id=self.node_id,
            directory_id=self.directory_id,
            secret=self.spec.secret,
        )
        others = range(self.spec.partitions)
        self._links = Peers(me, others, self, self._others.peer_address)
        await self._links.open(address.host)
        self._spawn(self._others.greet(self.node_id, address.host, self._links.port))
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

    async def _announce(self) -> None:
        while not await self._others.announce(self.node_id, os.getpid()):
            await asyncio.sleep(RETRY_S)

    async def _register(self) -> None:
        """Tell the catalogue where clients find us, until it shows that."""
        self._is_registering = True
        node = self.spec.node(self.node_id, up=True)
        while self._host is not None and not self._is_registered(self._host):
            leader = self._host.view.controller_id
            if leader == self.node_id:
                self.node_changed(node)
            elif leader >= 0:
                await self._others.node_changed(leader, node)
            await asyncio.sleep(RETRY_S)
        self._is_registering = False

    def _is_registered(self, host: Host) -> bool:
        node = self.spec.node(self.node_id, up=True)
        return host.view.catalog.nodes.get(self.node_id) == node

    def _stand(self) -> None:
        """Stand for what we are preferred for, where nobody leads: there is no need to wait."""
        host = self._host
        if host is None or self.state != "Running" or self._is_draining:
            return
        first = [nodes[0] for nodes in self.spec.placement()]
        preferred = [number for number, node_id in enumerate(first) if node_id == self.node_id]
        if self.spec.catalog_voters()[0] == self.node_id:
            preferred.append(CATALOG_PARTITION)
        for partition in preferred:
            if host.leader_of(partition) < 0:
                host.campaign(partition, self.now())
        self._schedule()

    async def stop(self) -> None:
        """End cleanly: others lead, nothing more is answered, everything is on disk."""
        await self.hand_over()
        self.state = "Stopped"
        for task in self._tasks:
            task.cancel()
        self._close()
        await self._loop.run_in_executor(None, self._observer.close, OBSERVER_S)

    def _close(self) -> None:
        self._listener.close()
        self._background.close()
        self._watch.close()
        if self._links is not None:
            self._links.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._disk is not None:
            if self._host is not None and self.state == "Stopped":
                with suppress(FullDiskError):
                    self._disk.write(self._host.checkpoint().writes, sync=True)
            self._disk.close()
        self._host = self._disk = None

    # --- what comes in

    def now(self) -> int:
        """Return the Unix time in milliseconds."""
        return self._clock.now()

    def wake(self) -> None:
        """Have a turn: clients' requests wait."""
        if self._host is not None and not self._is_scheduled:
            self._forgive_stall()
            self._schedule()

    def receive(self, request: Request) -> None:
        """Take a client's request; all that are handled in one turn are answered together."""
        if self._host is None:
            return
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
            self.wake()
            self.receive(replace(request, ticket=ticket))
            return await asyncio.wait_for(answer, FORWARD_S)
        except TimeoutError:
            return None
        finally:
            self._waiting.pop(ticket, None)

    def node_changed(self, node: Node) -> bool:
        """Tell the catalogue that a node is up or down; False when it is not led here."""
        host = self._host
        if host is None:
            return False
        self._schedule()
        return host.catalog_event(NodeChanged(node), self.now())

    # --- what peers say

    def receive_peer(self, node_id: int, messages: Sequence[Message]) -> None:
        """Take what a peer said; all frames of one look at the sockets share one turn."""
        if self._host is not None:
            self._schedule()
            self._host.receive_peer(node_id, messages, self.now())

    def peer_up(self, node_id: int) -> None:
        """Take notice that a peer can be reached."""
        if self._host is not None:
            self._host.peer_up(node_id, self.now())
            self._stand()
            self._schedule()

    def peer_down(self, node_id: int) -> None:
        """Take notice that a peer can not be reached any more."""
        if self._host is not None:
            self._host.peer_down(node_id, self.now())
            self._schedule()

    def greeted(self, node_id: int, host: str, port: int) -> None:
        """Learn where a peer is now."""
        if self._links is not None:
            self._links.moved(node_id, host, port)

    def peer_address(self) -> tuple[str, int] | None:
        """Tell where peers find us, if they do."""
        if self._links is None or not self._links.port:
            return None
        return self.spec.listeners[self.node_id].host, self._links.port

    # --- what the controller and operators say

    def campaign(self, partition: int) -> None:
        """Stand for election."""
        if self._host is not None:
            self._host.campaign(partition, self.now())
            self._schedule()

    def transfer(self, partition: int, node_id: int) -> None:
        """Hand a partition over to another node."""
        if self._host is not None:
            self._host.transfer(partition, node_id, self.now())
            self._schedule()

    def leads(self) -> list[int]:
        """Return the partitions led here, the catalogue's -1 included."""
        rows = [] if self._host is None else self._host.status()
        return [row.partition for row in rows if row.state == "Leader"]

    async def hand_over(self, wait_s: float = HAND_OVER_S) -> list[int]:
        """Let others lead all that is led here; return what could not be moved in that time."""
        if self._host is None or self._links is None or not self._links.linked:
            return self.leads()
        self._is_draining = self._host.draining = True
        deadline_s = self._loop.time() + wait_s
        while (left := self.leads()) and self._loop.time() < deadline_s:
            self._tick()
            await asyncio.sleep(HAND_OVER_LOOK_S)
        return left

    def take_back(self) -> None:
        """Be ready to lead again."""
        self._is_draining = False
        if self._host is not None:
            self._host.draining = False

    def cut(self, node_ids: Sequence[int]) -> None:
        """Lose the links to these nodes, as a drill has it."""
        if self._links is not None:
            self._links.cut(node_ids)

    def mend(self) -> None:
        """Have all links again."""
        if self._links is not None:
            self._links.mend()

    def events(self, group_id: str) -> list[MemberEvent]:
        """Return the diary of a group."""
        return [] if self._host is None else self._host.events(group_id)

    def status(self) -> dict[str, Any]:
        """Return what this coordinator knows of itself, as plain values."""
        host = self._host
        return {
            "pid": os.getpid(),
            "state": "Draining" if self._is_draining and host is not None else self.state,
            "failure": self.failure or (NO_ROOM if host is not None and host.disk_is_full else ""),
            "is_damaged": self.is_damaged,
            "connections": len(self._listener.connections),
            "linked": [] if self._links is None else list(self._links.linked),
            "partitions": [] if host is None else [asdict(row) for row in host.status()],
        }

    def metrics(self) -> dict[str, Any]:
        """Return what this coordinator measures of itself; any thread may ask."""
        return {**self._background.metrics.status(), **self._watch.gauges()}

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
        """Carry out what the host decided: disk, peers, answers, tasks, facts, timer, in order."""
        self._is_scheduled = False
        host, backlog, links = self._host, self._backlog, self._links
        if host is None or backlog is None or links is None:
            return
        if self._listener.serve(serve_s(self._written_s)):
            self._schedule()  # the others after another look at the sockets: memo hits go first
        now = self.now()
        self._retry(host, backlog, now)
        self._written_s = 0.0
        while effects := host.drain(now):
            self._write(host, backlog, effects, now)
            for node_id, messages in effects.messages.items():
                links.send(node_id, messages)
            for forward in effects.forwards:
                self._spawn(self._forward(forward))
            self._send_replies(effects)
            for partition, task in effects.tasks:
                self._background.submit(partition, task)
            for fact in effects.facts:
                self._background.metrics.observe(fact)
                self._observer.observe(fact)
            for note in effects.notes:
                _log.warning("%s", note)
        self._listener.flush()
        self._arm(_first(host.next_deadline(), backlog.retry_ms), now)
        self._look_around(host)

    def _write(self, host: Host, backlog: Backlog, effects: Effects, now: int) -> None:
        began_s = time.perf_counter()
        is_written = backlog.write(effects, now)
        self._written_s += time.perf_counter() - began_s
        if is_written:
            host.persisted(now)
        else:
            host.disk_is_full = True

    def _retry(self, host: Host, backlog: Backlog, now: int) -> None:
        """Write what waits for room on a full disk, when it is time to try."""
        if backlog.retry(now):
            _log.warning("there is room on the disk again: everything is written")
            host.disk_is_full = False
            host.persisted(now)

    async def _forward(self, forward: Forward) -> None:
        response = await self._others.forward(forward.node_id, forward.request)
        if self._host is not None:
            self._host.forwarded(forward.request.ticket, response)
            self._schedule()

    def _computed(self, partition: int, event: Event) -> None:
        """Take the result of a task."""
        if self._host is not None:
            self._host.computed(partition, event, self.now())
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

    def _look_around(self, host: Host) -> None:
        """Notice what follows from this turn for the process as a whole."""
        if self.state != "Running":
            return
        if not self.ready.is_set() and self._sees_everything(host):
            self.ready.set()

    def _sees_everything(self, host: Host) -> bool:
        """Say whether a client that asks here finds every partition's leader."""
        nodes, leaders = host.view.catalog.nodes, host.view.leaders
        return len(leaders) == self.spec.partitions and all(
            (node := nodes.get(leader)) is not None and node.up
            for leader in (self.node_id, *leaders.values())
        )

    # --- time

    def _tick(self) -> None:
        self._timer, self._armed_ms = None, None
        if self._host is not None:
            self._host.tick(self.now(), self._clock.stalled_ms())
            self._schedule()

    def _beat(self) -> None:
        self._forgive(self._clock.beat())
        if (
            self._host is not None
            and self.state == "Running"
            and not self._is_registering
            and not self._is_registered(self._host)
        ):
            self._spawn(self._register())  # somebody has taken us for dead
        self._beating = self._loop.call_later(BEAT_MS / 1000, self._beat)

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


def serve_s(written_s: float) -> float:
    """Return for how long to handle requests after a turn in which so much was spent on writing."""
    return min(max(SERVE_S, written_s), SERVE_S_MAX)


def _first(*deadlines_ms: int | None) -> int | None:
    return min((deadline for deadline in deadlines_ms if deadline is not None), default=None)


def _spare_the_collector() -> None:
    """Keep what the log brought out of the garbage collector's rounds, and make them rare."""
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
