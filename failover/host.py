"""The host of all partitions of one process: events in, :class:`Effects` out.

Only :class:`failover.turn.Turn` runs its turns: drain, write, persisted, carry out, repeat.

``now`` is the time of this process in milliseconds: it starts from the Unix time that the machine
showed and advances evenly, even when the machine's wall clock is changed. Records hold the Unix
time of :class:`failover.common_time.CommonTime`.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from failover.catalogue.catalog import Catalog, ClusterFormed
from failover.catalogue.cluster_view import ClusterView, effective_configs
from failover.catalogue.described_topics import DescribedTopics
from failover.catalogue.known import CatalogKnowledge
from failover.common_time import CommonTime
from failover.effects import Effects
from failover.host_state import HostState
from failover.identity import CATALOG_PARTITION, Identity
from failover.leaders import Leaders
from failover.leadership_drain import LeadershipDrain
from failover.led_groups import LedGroups
from failover.machine_adapters import CATALOG_ADAPTER, MACHINES, Surroundings, catalog_maker
from failover.partition_kinds import kind_of
from failover.partitions.partition import Partition, PartitionState
from failover.partitions.status import PartitionStatus, status_of
from failover.recording.recorder import BYTES_MAX, Recorder
from failover.requests.fanout import RequestPart
from failover.requests.router import Requests
from failover.sync_times import SyncTimes
from failover.told_stories import ToldStories
from protocol.config import out_of_bounds
from protocol.groups.effects import TimersDue, TopicsDeleted
from protocol.groups.wall import WallClock
from protocol.reasons import shown
from storage.log import (
    NOBODY,
    AppendBatch,
    BeginInstall,
    FinishInstall,
    SaveVote,
    SaveVoters,
    TruncateFrom,
)
from storage.messages import ClockShows, Leading, SoftStateTold
from storage.replica import ReplicaOptions, Role
from storage.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kio.static.protocol import Entity

    from failover.catalogue.catalog import NodeChanged
    from protocol.config import Configs
    from protocol.groups.effects import Event, Ticket
    from protocol.groups.topics import Topics
    from protocol.stories.history import StoryEntry
    from storage.log import Log
    from storage.messages import Message

RELOAD_RECORDS: Final = 500
"""Records read per :meth:`Host.tick` by a partition that is being reloaded: a few milliseconds."""

CATALOG_RECORDS: Final = 1_000

SYNCED: Final = (SaveVote, SaveVoters, BeginInstall, FinishInstall)
SYNCED_BY_MAJORITY: Final = (*SYNCED, AppendBatch, TruncateFrom)


class Host:
    """All partitions of one process.

    Pure: no clock, no randomness of its own, no I/O except reading the log it was given.
    ``receive`` takes a client's request; a later :meth:`drain` returns its reply.
    """

    def __init__(
        self, identity: Identity, configs: Configs, log: Log, rng: random.Random, now: int
    ) -> None:
        self.identity = identity
        self._static_configs = configs
        self._units: deque[tuple[int, frozenset[int]]] = deque()
        self._time = CommonTime(len(identity.nodes))
        self.wall = WallClock()
        self.recorder = Recorder()
        timing = _timing(configs)

        def setting(number: int) -> ReplicaOptions:
            return ReplicaOptions(
                me=identity.me,
                partition=number,
                voters=identity.first_voters(number),
                timing=timing,
                rng=random.Random(rng.getrandbits(64)),
                log=log,
                wanted=frozenset(identity.nodes_of(number)),
            )

        catalog = Partition(
            setting(CATALOG_PARTITION),
            catalog_maker(configs, rng.getrandbits(64)),
            CATALOG_ADAPTER,
            now,
        )
        catalog.upon_election = lambda: (ClusterFormed(identity.placement),)
        while catalog.load_slice(CATALOG_RECORDS):
            pass  # it is small: nodes and topics are known before the first client connects
        leaders = Leaders()
        self.stories = ToldStories(identity, now)
        self.led = LedGroups(identity.partitions, lambda: self._state.groups)
        self._described = DescribedTopics()
        view = self._view(configs, catalog, leaders)
        self._state = state = HostState(identity, catalog, leaders, view)
        around = Surroundings(view=lambda: state.view, wall=self.wall, recorder=self.recorder)
        placed: dict[int, Partition] = {}
        for number in identity.holds:  # those with groups first
            machine = MACHINES[kind_of(number)]
            placed[number] = Partition(
                setting(number),
                machine.maker(around, rng.getrandbits(64), number),
                machine.adapter,
                now,
            )
        state.set_placed(placed)
        self.syncs = SyncTimes(timing.election_min_ms)
        self._known = CatalogKnowledge(catalog, timing.election_max_ms, now)
        for number, partition in state.placed.items():
            partition.may_lead(not kind_of(number).awaits_catalog)
        self._requests = Requests(state, now)
        self.receive = self._requests.receive
        self._leadership_drain = LeadershipDrain(state)
        self._clamped: frozenset[str] = frozenset()
        self._note_clamped()
        self.recorder.limit(view.configs.integer(BYTES_MAX))

    # --- events, in the order in which a client's request reaches them

    def forwarded(self, ticket: Ticket, response: Entity | None) -> None:
        """Take the catalogue leader's answer to a forward; None: the leader was not reached."""
        self._requests.forwarded(ticket, response)

    def add_stories(self, entries: Iterable[StoryEntry]) -> None:
        """Add the stories of rebalances that this node has told; tell them to other nodes."""
        for node_id, message in self.stories.add(entries):
            self._state.effects.messages.setdefault(node_id, []).append(message)

    def abandon(self, ticket: Ticket) -> None:
        """Forget a parked request whose client has disconnected."""
        self._requests.abandon(ticket)

    def catalog_event(self, event: NodeChanged | ClusterFormed, now: int) -> bool:
        """Tell the catalogue about the nodes; False when this node cannot change it."""
        partition = self._state.catalog
        if partition.state is not PartitionState.LEADER or partition.lacks_lease:
            return False
        self._state.schedule.touch(CATALOG_PARTITION)
        partition.handle(event, now)
        return True

    def computed(self, partition: int, event: Event, now: int) -> None:
        """Take a task's result as an event; drop it when the partition is not led here."""
        led = self._state.groups.get(partition)
        if led is not None and led.state is PartitionState.LEADER:
            self._state.schedule.touch(partition)
            led.handle(event, now)

    # --- time

    def tick(self, now: int, stalled_ms: int = 0) -> None:
        """Run what is due; ``stalled_ms`` is how long this process was stalled."""
        schedule, partitions = self._state.schedule, self._state.all
        if stalled_ms:
            schedule.touch_all()
        for partition in partitions.values() if stalled_ms else schedule.due(now):
            if partition.is_reloading:
                partition.load_slice(RELOAD_RECORDS)
            partition.tick(now)
            if partition.state is PartitionState.LEADER and not partition.lacks_lease:
                if stalled_ms:
                    partition.machine.shift_deadlines(stalled_ms)
                due = partition.machine.next_deadline()
                if due is not None and due <= now:
                    partition.handle(TimersDue(), now)
            silent_at_ms = partition.replies.silent_at_ms
            if silent_at_ms is not None and silent_at_ms <= now:
                self._leadership_drain.transfer_unleased(partition, now)
        self._requests.tick(now)
        self._leadership_drain.tick(now)
        if (due_ms := self._known.due_ms) is not None and due_ms <= now:
            schedule.touch(CATALOG_PARTITION)

    def clock_read(self, wall_ms: int, now: int) -> None:
        """Take a reading of the machine's wall clock; the driver does this about twice a second."""
        self._time.read(wall_ms, now)
        self._set_wall(now)
        if self._time.is_to_be_told(now):
            for node_id in self.identity.nodes:
                if node_id != self.identity.node_id:
                    self._show_clock(node_id, now)
                    self._show_own_leadership(node_id)

    def jumped(self, moved_ms: int, wall_ms: int, now: int) -> None:
        """Take the reading of the wall clock after it moved by ``moved_ms`` against ``now``.

        The clock was set, or the machine stood still. The driver calls this before anything else.
        """
        self.doubt(now)
        self._time.jumped(moved_ms, wall_ms, now)
        self._set_wall(now)

    def doubt(self, now: int) -> None:
        """Answer nothing more under an earlier lease: the machine may have stood still.

        Its clocks may have stopped as well, so that a lease only seems to be valid. Ask a majority
        before the next answer.
        """
        self._state.schedule.touch_all()
        for partition in self._state.all.values():
            partition.doubt(now)

    def _show_clock(self, node_id: int, now: int) -> None:
        """Send this node's wall clock reading to another node, if there is one."""
        wall_ms = self._time.shown(now)
        if wall_ms is not None:
            shows = ClockShows(CATALOG_PARTITION, 0, self.identity.node_id, wall_ms)
            self._state.effects.messages.setdefault(node_id, []).append(shows)

    def _show_own_leadership(self, node_id: int) -> None:
        """Tell another node again what this one leads: it may have no replica to hear of it."""
        me = self.identity.node_id
        rows = [row for row in self._state.leaders.told() if row.node_id == me]
        if rows:
            self._state.effects.messages.setdefault(node_id, []).extend(rows)

    def _clock_told(self, message: ClockShows, now: int) -> None:
        if self._time.told(message.node_id, message.wall_ms, now):
            self.doubt(now)
        self._set_wall(now)

    def _set_wall(self, now: int) -> None:
        self.wall.offset_ms = self._time.offset_ms
        self.wall.is_settled = self._time.is_settled(now)

    def next_deadline(self) -> int | None:
        """Return when to call :meth:`tick` next; None: not at all, 0: at once."""
        first = _earlier(self._leadership_drain.due_ms, self._requests.next_deadline())
        first = _earlier(first, self._known.due_ms)
        return _earlier(first, self._state.schedule.next_deadline())

    # --- replication

    def receive_peer(self, node_id: int, messages: Sequence[Message], now: int) -> None:  # noqa: ARG002
        """Take a message from another node; ignore one for a partition that is not held here."""
        touch, partitions = self._state.schedule.touch, self._state.all
        for message in messages:
            if isinstance(message, ClockShows):
                self._clock_told(message, now)
                continue
            if isinstance(message, SoftStateTold):
                self.stories.receive(message)
                continue
            if isinstance(message, Leading):
                self._heard(message.partition, message.epoch, message.node_id, now)
            partition = partitions.get(message.partition)
            if partition is not None:
                touch(message.partition)
                partition.replica.step(message, now)

    def peer_up(self, node_id: int, now: int) -> None:
        """Note that the link to another node is up; send it the known leaders and the time.

        It may become leader at any moment. It must not write with its own wrong clock before the
        others next send their time.
        """
        state = self._state
        state.unlinked.discard(node_id)
        state.schedule.touch_all()
        for partition in state.all.values():
            partition.replica.peer_up(node_id, now)
        for number in state.leaders.led_by(node_id):
            self._requests.leader_found(number, now)
        if node_id == state.leaders.of(CATALOG_PARTITION):
            self._requests.catalog_found(now)
        if told := list(state.leaders.told()):
            state.effects.messages.setdefault(node_id, []).extend(told)
        if again := list(self.stories.tell_again(node_id)):
            state.effects.messages.setdefault(node_id, []).extend(again)
        self._show_clock(node_id, now)

    def peer_down(self, node_id: int, now: int) -> None:
        """Note that the link to another node broke."""
        state = self._state
        state.unlinked.add(node_id)
        state.schedule.touch_all()
        for partition in state.all.values():
            partition.replica.peer_down(node_id, now)
        for number in state.leaders.led_by(node_id):
            self._requests.leader_lost(number, now)

    def campaign(self, partition: int, now: int) -> None:
        """Stand for election, on the controller's advice."""
        replicated = self._state.all.get(partition)
        if replicated is not None and replicated.replica.role is not Role.LEADER:
            self._state.schedule.touch(partition)
            replicated.replica.campaign(now)

    def transfer(self, partition: int, node_id: int, now: int) -> None:
        """Transfer a partition led here to another node, once that node has the whole log."""
        led = self._state.all.get(partition)
        if led is not None and led.state is PartitionState.LEADER:
            self._state.schedule.touch(partition)
            led.replica.transfer_to(node_id, now)

    @property
    def draining(self) -> bool:
        """Whether this host is stopping: it keeps handing over what it leads."""
        return self._leadership_drain.draining

    @draining.setter
    def draining(self, draining: bool) -> None:
        self._leadership_drain.draining = draining

    @property
    def disk_is_full(self) -> bool:
        """Whether drained writes wait for disk space (see :class:`LeadershipDrain`)."""
        return self._leadership_drain.disk_is_full

    @disk_is_full.setter
    def disk_is_full(self, is_full: bool) -> None:
        self._leadership_drain.disk_is_full = is_full

    # --- turns

    def load_slice(self, max_records: int) -> bool:
        """Read more of the log; return True when every partition is loaded. Call until then."""
        left, partitions = max_records, self._state.all.values()
        for partition in partitions:
            if partition.state is PartitionState.LOADING:
                self._state.schedule.touch(partition.number)
                left -= partition.load_slice(left)
                if left <= 0:
                    return False
        return all(
            partition.state is not PartitionState.LOADING or partition.is_reloading
            for partition in partitions
        )

    def drain(self, now: int) -> Effects:
        """End the turn: return everything to be done now, falsy when there is nothing."""
        state = self._state
        effects = state.effects
        is_first = True
        while (touched := state.schedule.take()) or is_first or self._requests.has_news:
            is_first = False
            for partition in touched:
                if partition.deferred:
                    self._resume(partition, now)
                has_moved = partition.drain(now, effects)
                if has_moved and partition is state.catalog:
                    self._refresh(now)
                if partition is state.catalog and self._known.look(now):
                    self._let_lead()
                if partition.has_news:
                    self._note_leader(partition, effects, now)
            for number, event in self._requests.ask_others(now):
                self.computed(number, event, now)
            effects.replies = self._requests.merge(effects.replies)
        if effects.writes:
            partitions = frozenset(write.partition for write in effects.writes)
            self._units.append((effects.number, partitions))
            effects.sync = self._must_sync(effects)
        if effects:
            state.effects = Effects(number=effects.number + 1)
        return effects

    def _let_lead(self) -> None:
        """Allow groups and share state to be led here: their topics are known."""
        for partition in self._state.placed.values():
            partition.may_lead(True)
        self._state.schedule.touch_all()

    def _resume(self, partition: Partition, now: int) -> None:
        for request, depends_on in partition.resumed():
            self._requests.ask(RequestPart(partition.number, request, depends_on), now)

    def persisted(self, now: int, through: int | None = None) -> None:
        """Note that the units up to number ``through`` are on disk (None: all that were drained).

        On disk means written, and also synced if they required it (:attr:`Effects.sync`).
        """
        units, touched = self._units, set[int]()
        while units and (through is None or units[0][0] <= through):
            number, partitions = units.popleft()
            touched |= partitions
        for partition in sorted(touched):
            self._state.schedule.touch(partition)
            self._state.all[partition].replica.persisted(now, number)

    def checkpoint(self) -> Effects:
        """Update the compacted state on disk to the last commit, before a clean stop.

        Not while writes wait for disk space: the state depends on them.
        """
        effects = Effects(sync=True)
        if self.disk_is_full:
            return effects
        for partition in self._state.all.values():
            effects.writes += partition.compact()
        return effects

    # --- what this node knows about the cluster

    @property
    def view(self) -> ClusterView:
        """What this node knows about the cluster: catalogue, leaders, effective configs."""
        return self._state.view

    def leader_of(self, partition: int) -> int:
        """Return the node that leads a partition (-1: the catalogue), -1 when none is known."""
        return self._state.leaders.of(partition)

    def _note_leader(self, partition: Partition, effects: Effects, now: int) -> None:
        """Adopt what a replica knows about its leader; tell all nodes when it is this one."""
        partition.has_news = False
        (epoch, leader), me, number = partition.leader, self.identity.node_id, partition.number
        leaders = self._state.leaders
        if leader == NOBODY:
            self._requests.leader_lost(number, now)
            if leaders.of(number) == me:
                leaders.resigned(number)
                self._show_leaders(now)
            return
        is_news = self._heard(number, epoch, leader, now)
        self._requests.leader_found(number, now)
        if is_news and leader == me:
            for node_id in self.identity.nodes:
                if node_id != me:
                    row = Leading(number, epoch, me)
                    effects.messages.setdefault(node_id, []).append(row)

    def _heard(self, partition: int, epoch: int, node_id: int, now: int) -> bool:
        is_news = self._state.leaders.learn(partition, epoch, node_id)
        if is_news:
            self._show_leaders(now)
            self._requests.leader_found(partition, now)
        return is_news

    def _show_leaders(self, now: int) -> None:
        state = self._state
        controller_id = state.leaders.of(CATALOG_PARTITION)
        leaders = state.leaders.by_partition()
        state.view = replace(state.view, leaders=leaders, controller_id=controller_id)
        if controller_id != NOBODY:
            self._requests.catalog_found(now)

    def _refresh(self, now: int) -> None:
        """Show a changed catalogue to clients and shards, once it is completely committed."""
        state = self._state
        catalog = _catalog(state.catalog)
        if not state.catalog.settled or catalog.image is state.view.catalog:
            return
        before = state.view.catalog.topics
        state.view = self._view(self._static_configs, state.catalog, state.leaders)
        topics = state.view.catalog.topics
        catalog.configs = state.view.configs
        self._note_clamped()
        self.recorder.limit(state.view.configs.integer(BYTES_MAX))
        gone = [] if topics is before else _deleted(before, topics)
        state.schedule.touch_all()
        for number, partition in state.placed.items():
            MACHINES[kind_of(number)].show(partition.machine, state.view)
            if gone and partition.state is PartitionState.LEADER:
                partition.handle(TopicsDeleted(gone), now)

    def _note_clamped(self) -> None:
        """Log once, for each group config outside the broker's bounds, the value used instead.

        The config was within the bounds when it was set.
        """
        view = self._state.view
        clamped = [
            f"group {shown(group_id)}: {sentence}"
            for group_id, own in view.catalog.group_configs().items()
            for sentence in out_of_bounds(own, view.configs)
        ]
        told, self._clamped = self._clamped, frozenset(clamped)
        self._state.effects.notes += [sentence for sentence in clamped if sentence not in told]

    def _must_sync(self, effects: Effects) -> bool:
        """Return whether to sync: promises always, appends unless ``log.flush`` is ``os``."""
        majority = self._state.view.configs.text("log.flush") == "majority"
        synced = SYNCED_BY_MAJORITY if majority else SYNCED
        return any(isinstance(write, synced) for write in effects.writes)

    def _view(self, configs: Configs, catalog: Partition, leaders: Leaders) -> ClusterView:
        identity, image = self.identity, _catalog(catalog).image
        return ClusterView(
            node_id=identity.node_id,
            cluster_id=identity.cluster_id,
            catalog=image,
            static_configs=configs,
            configs=effective_configs(configs, image, identity.node_id),
            leaders=leaders.by_partition(),
            controller_id=leaders.of(CATALOG_PARTITION),
            described=self._described,
            history=self.stories.history,
            led=self.led,
        )

    # --- for operators

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """Every partition of which this node has a replica, the catalogue's first."""
        return tuple(self._state.all.values())

    def status(self, now: int = 0) -> list[PartitionStatus]:
        """Return one row per partition held here; its times are correct for ``now``."""
        is_slow = self.syncs.are_slow(now)
        rows = sorted(self._state.all.items())
        return [status_of(partition, now, is_slow=is_slow) for _, partition in rows]

    def partition_states(self) -> Counter[PartitionState]:
        """Return how many partitions with groups are in each state."""
        return Counter(each.state for each in self._state.groups.values())


def _catalog(partition: Partition) -> Catalog:
    machine = partition.machine
    assert isinstance(machine, Catalog)
    return machine


def _earlier(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _timing(configs: Configs) -> Timing:
    election_ms = configs.integer("replica.election.timeout.ms")
    return Timing(
        heartbeat_ms=configs.integer("replica.heartbeat.interval.ms"),
        lease_ms=configs.integer("replica.lease.ms"),
        election_min_ms=election_ms,
        election_max_ms=2 * election_ms,
    )


def _deleted(before: Topics, after: Topics) -> list[str]:
    """Return the names of topics that were deleted since ``before``."""
    return [name for name, ids in after.deleted.items() if ids != before.deleted.get(name)]
