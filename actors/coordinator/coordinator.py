"""A coordinator's life cycle: it opens its log, is formed, loads, serves, hands over and stops.

:class:`actors.coordinator.pump.Pump` serves requests; calls from peers, the controller and
operators come in here. This is a plain class; ``actors/deployment/actors.py`` makes it a Ray actor.
Every method runs on the event loop of its process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import operator
import os
import random
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from actors.clock import BEAT_MS, Clock
from actors.coordinator import formation, gc_tuning, log_opening
from actors.coordinator.binding import Binding
from actors.coordinator.disk_room import DiskRoom
from actors.coordinator.incidents import Incidents, Recorded
from actors.coordinator.log_opening import can_be_healed, may_pass, open_log
from actors.coordinator.loop_watch import INTERVAL, LoopWatch
from actors.coordinator.pump import Pump, PumpDependencies
from actors.coordinator.registration import Registration, has_every_leader
from actors.coordinator.state_copies import CopySlice, CopyStart, StateCopies
from actors.coordinator.thread_switches import favour_event_loop
from actors.installation import installed_version
from actors.peers.handshake import LocalNode
from actors.peers.peers import Peers
from actors.peers.tls import tls_settings
from actors.serving.admission import Limits, raise_open_files_limit
from actors.tasks import Tasks
from actors.telemetry.event_metrics import EventMetrics
from actors.telemetry.group_metrics import GroupMetrics
from actors.telemetry.leader_metrics import LeaderMetrics
from actors.waiting import poll_async
from actors.workers.dispatcher import DispatcherSettings, NoWorkers, WorkerDispatcher
from failover.catalogue import levels
from failover.catalogue.catalog import NodeChanged
from failover.catalogue.cluster_view import CatalogImage
from failover.host import Host
from failover.identity import CATALOG_PARTITION
from failover.partition_kinds import GROUPS, SHARE_STATE, kind_of, title_of
from failover.recording.dump import write_dump
from protocol.config import Configs
from protocol.groups.modern.target import TIME_LIMIT
from protocol.wire.frames import preparations
from storage.disk.directory import mark_stale, set_aside
from storage.disk.identity import LogIdentity
from storage.log import FullDiskError, LogError, StaleLogError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kio.static.protocol import Entity

    from actors.cluster.spec import ClusterSpec
    from actors.coordinator.pump import Observer
    from actors.coordinator.registration import ControlPlane
    from actors.telemetry.histograms import Histogram
    from actors.workers.dispatcher import Workers
    from failover.catalogue.cluster_view import Node
    from protocol.groups.effects import Event, Request
    from storage.disk.rocks import RocksLog
    from storage.messages import Message

_log = logging.getLogger("rollcall.coordinator")

LOAD_SLICE_RECORDS: Final = 5_000
"""Records to load before the event loop polls its sockets: a few milliseconds."""

PATIENCE: Final = "replica.election.timeout.ms"
"""The config for how long to wait for peers to vouch for our directory before sending anything."""

OFFLOAD: Final = "group.consumer.assignor.offload.enable"
RETRY_S: Final = 0.2

OBSERVER_S: Final = 2.0

HAND_OVER_S: Final = 3.0
HAND_OVER_LOOK_S: Final = 0.02
NO_ROOM: Final = "its disk is full"


class Coordinator:
    """Serves the groups of the ``__consumer_offsets`` partitions that are led here."""

    def __init__(  # noqa: PLR0913 - everything around it is handed in here
        self,
        spec: ClusterSpec,
        node_id: int,
        control_plane: ControlPlane,
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
        self.is_mistake = False
        self.is_new = False
        self.ready = asyncio.Event()
        self.opened = asyncio.Event()  # the log is open or has failed to open
        self.directory_id = ""
        self.directories: tuple[str, ...] = ()
        self._is_formed = asyncio.Event()
        self._control_plane = control_plane
        self._observer = observer
        self._clock = clock or Clock()
        self._clock.upon_jump = self._jumped
        self._loop = asyncio.get_running_loop()
        configs = Configs(spec.overrides)
        self._configs = configs
        self._binding = Binding()
        self._incidents = Incidents(spec.incidents_path(), spec.cluster_id, node_id)
        self._room = DiskRoom(spec.log_path(node_id), self._loop)
        self._limited_by: Configs | None = None
        self._seen = CatalogImage()
        self._disk: RocksLog | None = None
        self._pump: Pump | None = None
        self._tasks = Tasks(_log)
        self._registration = Registration(
            spec.node(node_id, up=True), control_plane, lambda: self.host, self.node_changed
        )
        setting = DispatcherSettings(
            name=f"coordinator-{node_id}",
            workers=spec.workers,
            time_limit_ms=configs.integer(TIME_LIMIT),
        )
        self._dispatcher = WorkerDispatcher(
            setting, workers or NoWorkers(), self._computed, observer.run_context
        )
        self.group_metrics = GroupMetrics()
        self._event_metrics = EventMetrics()
        self._leader_metrics = LeaderMetrics()
        self._watch = LoopWatch(self._loop, configs.integer(INTERVAL))
        self._copies = StateCopies(self._loop)
        self._is_draining = False
        self._beating: asyncio.TimerHandle | None = None
        self._starting: asyncio.Task[object] | None = None
        self._is_copy = False
        self._preparing: asyncio.Task[object] | None = None
        self._is_prepared = False

    # --- life

    def start(self) -> None:
        """Start; :attr:`ready` is set once clients can use every partition."""
        favour_event_loop()
        if self._preparing is None:
            self._preparing = self._tasks.spawn(self._prepare())
        self._starting = self._tasks.spawn(self._start())

    async def _prepare(self) -> None:
        """Prepare every API version before this node is ready, while the log is loaded.

        Otherwise the first client that uses a version would block the event loop while its modules
        are imported.
        """
        for _ in preparations():
            await asyncio.sleep(0)
        gc_tuning.freeze_heap()
        self._is_prepared = True
        self._look_around()

    async def _start(self) -> None:
        try:
            disk = self._disk = await self._open()
            self.opened.set()
            await self._wait_formed()
            pump = self._begin(disk)
            await self._listen(pump, disk)
            if self._beating is None:
                self._clock.beat()  # opening the log may have taken long
                self._beat()
                if not self._configs.boolean(OFFLOAD):
                    self._dispatcher.prepare_in_place()
            await self._load(pump)
        except (LogError, OSError) as error:
            self._fail(error)
            return
        except Exception as error:
            _log.exception("this coordinator cannot start")
            self._fail(error)
            return
        self._tasks.spawn(self._registration.announce())
        self._tasks.spawn(self._registration.register())
        self._stand()

    def _fail(self, error: Exception) -> None:
        """Stop serving and report why; retry if the failure may be temporary."""
        self.failure = str(error) or type(error).__name__
        self.is_damaged = can_be_healed(error, self.spec.replicas)
        self.is_mistake = isinstance(error, levels.UnsupportedLevelError)
        self._is_copy = isinstance(error, StaleLogError)
        self.state = "Failed"
        _log.critical("%s", self.failure)
        self._close()
        self.opened.set()
        self.ready.set()
        if may_pass(error):
            self._loop.call_later(log_opening.FAILED_S, self._try_again)

    def _try_again(self) -> None:
        if self.state == "Failed" and not self.is_damaged:
            self._start_again()

    def _start_again(self) -> None:
        self.failure, self.is_damaged, self.state = "", False, "Starting"
        self.opened.clear()
        self.ready.clear()
        self.start()

    async def _open(self) -> RocksLog:
        raise_open_files_limit()
        owner = LogIdentity(
            cluster_id=self.spec.cluster_id,
            node_id=self.node_id,
            partitions=self.spec.partitions,
            others=tuple(SHARE_STATE.numbers(self.spec.partitions)),
        )
        path = self.spec.log_path(self.node_id)
        disk = await open_log(path, owner, partial(_log.warning, "%s"))
        for note in disk.notes:
            _log.warning("%s", note)
        self.directory_id = disk.directory_id
        everything = (CATALOG_PARTITION, *GROUPS.numbers(self.spec.partitions))
        self.is_new = not any(disk.stored(partition).voters for partition in everything)
        self.directories = formation.agreed(path, self.spec.directories)
        return disk

    async def _wait_formed(self) -> None:
        """Wait until this node knows which directories the cluster was formed from."""
        self.state = "Forming"
        while not self.directories:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_formed.wait(), RETRY_S)
                return
            self.form(await self._control_plane.directories())

    def form(self, directories: Sequence[str]) -> None:
        """Store the directories that the cluster was formed from, unless they are known already."""
        if directories and not self.directories and self.directory_id:
            formation.save(self.spec.log_path(self.node_id), directories)
            self.directories = tuple(directories)
            self._is_formed.set()

    def start_empty(self) -> None:
        """Move a damaged log, or a copy, aside; start with an empty one, which the leaders fill."""
        if self.state != "Failed" or not self.is_damaged:
            return
        gc.collect()  # iterators over the old log keep it open
        why = "stale" if self._is_copy else "corrupt"
        aside = set_aside(self.spec.log_path(self.node_id), why)
        _log.warning("the %s log was moved to %s; this node starts empty", why, aside.name)
        self._start_again()

    def _begin(self, disk: RocksLog) -> Pump:
        identity = self.spec.identity(self.node_id, self.directory_id, self.directories)
        rng = random.Random(os.urandom(16))
        dependencies = PumpDependencies(
            limits=Limits.of(self._configs),
            dispatcher=self._dispatcher,
            group_metrics=self.group_metrics,
            event_metrics=self._event_metrics,
            leader_metrics=self._leader_metrics,
            observer=self._observer,
            forwarding=self._control_plane,
            clock=self._clock,
            incidents=self._incidents,
        )
        host = Host(identity, self._configs, disk, rng, self.now())
        host.clock_read(self._clock.wall(), self.now())
        host.led.rebalances = self.group_metrics.rebalances
        self._seen = host.view.catalog
        levels.check(self._seen.level)
        self._pump = Pump(host, disk, dependencies, self._look_around)
        self._pump.keep_stories(self.spec.stories_path(self.node_id))
        self.state = "Loading"
        return self._pump

    async def _listen(self, pump: Pump, disk: RocksLog) -> None:
        place = self.spec.places[self.node_id]
        me = LocalNode(
            cluster_id=self.spec.cluster_id,
            node_id=self.node_id,
            directory_id=self.directory_id,
            secret=self._control_plane.secret,
            incarnation=disk.incarnation,
        )
        links = pump.links = Peers(
            me,
            range(self.spec.partitions),
            self,
            self._control_plane.peer_address,
            vouch=disk.vouch,
            patience_ms=self._configs.integer(PATIENCE),
        )
        peer, address = place.peer, place.listener
        tls = tls_settings(self._configs)
        await self._binding.bind(partial(links.open, peer.host, peer.port, tls), str(peer))
        self._tasks.spawn(
            self._control_plane.announce_peer_address(self.node_id, peer.host, links.port)
        )
        opening = partial(pump.listener.open, address.host, address.port)
        await self._binding.bind(opening, str(address))

    async def _load(self, pump: Pump) -> None:
        began_ms = self.now()
        gc_tuning.freeze_heap()  # else it would scan all loaded objects repeatedly
        while not pump.host.load_slice(LOAD_SLICE_RECORDS):
            pump.schedule()
            await asyncio.sleep(0)
        self.state = "Running"
        pump.schedule()
        gc_tuning.freeze_heap()
        _log.info("loaded in %d ms", self.now() - began_ms)

    def _stand(self) -> None:
        """Campaign at once for partitions without a leader whose preferred leader is this node."""
        pump = self._pump
        if pump is None or self.state != "Running" or self._is_draining:
            return
        for partition in self.spec.preferred(self.node_id):
            if pump.host.leader_of(partition) < 0:
                pump.host.campaign(partition, self.now())
        pump.schedule()

    async def stop(self) -> None:
        """Stop cleanly: transfer leaderships, stop serving, and write everything to disk."""
        await self.hand_over()
        self.state = "Stopped"
        self._tasks.cancel()
        self._close()
        await self._loop.run_in_executor(None, self._observer.close, OBSERVER_S)

    def _close(self) -> None:
        self._dispatcher.close()
        self._watch.close()
        self._copies.close()
        if self._pump is not None:
            self._pump.close()
        if self._disk is not None:
            if self._pump is not None and self.state == "Stopped":
                with suppress(FullDiskError):
                    self._disk.write(self._pump.host.checkpoint().writes, sync=True)
            self._disk.close()
        self._pump = self._disk = None

    # --- incoming

    def now(self) -> int:
        """Return the current time in Unix milliseconds."""
        return self._clock.now()

    async def forwarded_here(self, request: Request) -> Entity | None:
        """Handle a request that another node forwarded because this node leads its partition."""
        if self._pump is None or self.state != "Running":
            return None
        return await self._pump.forwarded_here(request)

    def node_changed(self, node: Node) -> bool:
        """Record in the catalogue that a node is up or down; False if this node does not lead."""
        pump = self._pump
        if pump is None:
            return False
        pump.schedule()
        return pump.host.catalog_event(NodeChanged(node), self.now())

    # --- calls from peers

    def receive_peer(self, node_id: int, messages: Sequence[Message]) -> None:
        """Handle messages from a peer."""
        if self._pump is not None:
            self._pump.receive_peer(node_id, messages)

    def peer_up(self, node_id: int) -> None:
        """Handle a link to a peer that has opened."""
        if self._pump is not None:
            self._pump.host.peer_up(node_id, self.now())
            self._stand()
            self._pump.schedule()

    def peer_down(self, node_id: int) -> None:
        """Handle a link to a peer that has closed."""
        if self._pump is not None:
            self._pump.host.peer_down(node_id, self.now())
            self._pump.schedule()

    def found_stale(self, node_id: int) -> None:
        """Stop: a peer has seen a later state of our directory, so this one is an old copy.

        The directory is marked, so that the next start fails, too.
        """
        if self.state not in ("Failed", "Stopped"):
            why = f"node {node_id} has seen a later state of it"
            self._stop_serving(mark_stale(self.spec.log_path(self.node_id), why))

    def _stop_serving(self, error: Exception) -> None:
        """Fail after the start, or in the middle of it."""
        if self.state in ("Failed", "Stopped"):
            return
        if self._starting is not None:
            self._starting.cancel()
        self._fail(error)

    def peer_moved(self, node_id: int, host: str, port: int) -> None:
        """Store a peer's new address."""
        if self._links is not None:
            self._links.moved(node_id, host, port)

    def peer_address(self) -> tuple[str, int] | None:
        """Return the address of this node's peer listener, if it listens."""
        if self._links is None or not self._links.port:
            return None
        return self.spec.places[self.node_id].peer.host, self._links.port

    # --- calls from the controller and operators

    def campaign(self, partition: int) -> None:
        """Stand for election."""
        if self._pump is not None:
            self._pump.campaign(partition)

    def transfer(self, partition: int, node_id: int) -> None:
        """Transfer a partition's leadership to another node."""
        if self._pump is not None:
            self._pump.transfer(partition, node_id)

    async def record(self) -> Recorded:
        """Return the recent events of the groups that are led here, as a file."""
        host = self.host
        if host is None:
            return Recorded(b"", ())
        recordings = host.recorder.recordings("rollcall record")
        arguments = recordings, host.view.configs, self._incidents.about()
        data = await self._loop.run_in_executor(None, write_dump, *arguments)
        led = [number for number in self.leads() if kind_of(number) is GROUPS]
        return Recorded(data if recordings else b"", host.recorder.missing(led))

    def begin_copy(self, partition: int) -> CopyStart:
        """Begin to copy the committed state of a partition that is led here."""
        host, disk = self.host, self._disk
        rows = [] if host is None else host.status()
        for row in rows:
            if row.partition == partition and row.state == "Leader" and disk is not None:
                return self._copies.begin(disk, partition, row.high_watermark, row.epoch)
        return CopyStart(0, 0, 0, f"Node {self.node_id} does not lead {title_of(partition)}.")

    def read_copy(self, partition: int, copy_id: int) -> CopySlice:
        """Return the next records of a copy."""
        return self._copies.read(partition, copy_id)

    def leads(self) -> list[int]:
        """Return the partitions that this node leads, including the catalogue (-1)."""
        rows = [] if self._pump is None else self._pump.host.status()
        return [row.partition for row in rows if row.state == "Leader"]

    async def hand_over(self, wait_s: float = HAND_OVER_S) -> list[int]:
        """Transfer all leaderships; return the partitions that could not be moved in time."""
        pump = self._pump
        if pump is None or pump.links is None or not pump.links.linked:
            return self.leads()
        self._is_draining = True
        pump.begin_drain()

        def look() -> list[int]:
            left = self.leads()
            if left:
                pump.tick()
            return left

        left = await poll_async(look, wait_s, is_done=operator.not_, every_s=HAND_OVER_LOOK_S)
        pump.handed_over(left)
        return left

    def take_back(self) -> None:
        """Allow this node to lead again."""
        self._is_draining = False
        if self._pump is not None:
            self._pump.end_drain()

    def cut(self, node_ids: Sequence[int]) -> None:
        """Cut the links to these nodes (drills)."""
        if self._links is not None:
            self._links.cut(node_ids)

    def slow_disk(self, sync_ms: int) -> None:
        """Delay each sync of the log by ``sync_ms`` (drills); 0 ends the delay."""
        if self._pump is not None:
            self._pump.syncs.delay_ms = sync_ms

    def mend(self) -> None:
        """Restore all links (drills)."""
        if self._links is not None:
            self._links.mend()

    def status(self) -> dict[str, Any]:
        """Return this coordinator's status as plain values."""
        pump = self._pump
        host = None if pump is None else pump.host
        return {
            "pid": os.getpid(),
            "place": self.spec.places[self.node_id],
            "state": "Draining" if self._is_draining and host is not None else self.state,
            "failure": self.failure
            or self._binding.trouble
            or (NO_ROOM if host is not None and host.disk_is_full else ""),
            "is_damaged": self.is_damaged,
            "connections": 0 if pump is None else len(pump.listener.connections),
            "linked": [] if self._links is None else list(self._links.linked),
            "link_versions": {} if self._links is None else self._links.versions,
            "version": installed_version(),
            "levels": {"supported": list(levels.SUPPORTED), "finalized": self._seen.level},
            "partitions": [] if host is None else [asdict(row) for row in host.status(self.now())],
            "sync_ms": {} if pump is None else pump.syncs.status(),
            "disk": self._room.status(),
        }

    def metrics(self) -> dict[str, Any]:
        """Return this coordinator's metrics; any thread may call it."""
        groups, events = self.group_metrics.status(), self._event_metrics.status()
        counted = {**groups, **events, **self._leader_metrics.status()}
        return {**self._dispatcher.metrics.status(), **counted, **self._watch.gauges()}

    def histograms(self) -> dict[str, Histogram]:
        """Return what is counted in buckets, by its name in the metrics."""
        return {**self.group_metrics.histograms(), **self._event_metrics.histograms()}

    def _computed(self, partition: int, event: Event) -> None:
        """Handle the result of a task."""
        if self._pump is not None:
            self._pump.host.computed(partition, event, self.now())
            self._pump.schedule()

    # --- after turns, and timers

    @property
    def host(self) -> Host | None:
        """What this process hosts; None: nothing yet, or no longer."""
        return None if self._pump is None else self._pump.host

    @property
    def _links(self) -> Peers | None:
        return None if self._pump is None else self._pump.links

    def _look_around(self) -> None:
        """After each turn, apply changed limits and check whether this node is ready."""
        if self._pump is not None and self._seen is not self._pump.host.view.catalog:
            self._seen = self._pump.host.view.catalog
            if self._seen.level not in levels.SUPPORTED:
                self._loop.call_soon(self._refuse_level, self._seen.level)
        if self._pump is not None and self._limited_by is not self._pump.host.view.configs:
            self._limited_by = self._pump.host.view.configs
            self._pump.listener.limit(Limits.of(self._limited_by))
        if self.state != "Running" or self.ready.is_set() or self._pump is None:
            return
        if self._is_prepared and has_every_leader(self._pump.host.view, self.spec.partitions):
            self.ready.set()

    def _refuse_level(self, level: int) -> None:
        """Stop: the log says only now that the cluster has a level of a later version."""
        self._stop_serving(levels.UnsupportedLevelError(level))

    def _jumped(self, moved_ms: int) -> None:
        """Invalidate leases and clock readings after the machine's clock was set or stood still."""
        _log.warning("the machine's clock was set by %d ms, or stopped for as long", moved_ms)
        if self._pump is not None:
            self._pump.host.jumped(moved_ms, self._clock.wall(), self.now())
            self._pump.schedule()

    def _beat(self) -> None:
        stalled_ms, pump = self._clock.beat(), self._pump
        if pump is not None:
            pump.shift_deadlines(stalled_ms)
            pump.host.clock_read(self._clock.wall(), self.now())
            if self.state == "Running" and self._registration.is_missing:
                self._tasks.spawn(
                    self._registration.register()
                )  # another node has marked us as down
        self._beating = self._loop.call_later(BEAT_MS / 1000, self._beat)
        if pump is None:
            self.group_metrics.count([])
            self._event_metrics.look()
        else:
            shards, states = pump.host.led.shards(), pump.host.partition_states()
            shown_max = pump.host.view.configs.integer("metrics.groups.max")
            self.group_metrics.count(shards, shown_max)
            self._event_metrics.look(shards, states, len(pump.listener.inbox))
