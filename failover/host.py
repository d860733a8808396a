"""Every partition of one process behind one door: events in, :class:`Effects` out.

The driver's loop (``actors.pump.Pump`` and the simulator are the only two) is::

    while effects := host.drain(now):
        log.write(effects.writes, effects.sync)     # raises: stop answering, the process restarts
        host.persisted(now)
        ...send messages and replies, forward, begin tasks, observe facts, log notes...
    arm one timer for host.next_deadline()

``now`` is Unix time in milliseconds everywhere.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from failover.catalog import Catalog, ClusterFormed
from failover.cluster_view import ClusterView, Mutating, Parked, effective_configs
from failover.effects import Effects
from failover.fanout import Fanout
from failover.forwards import Forwards
from failover.identity import CATALOG_PARTITION, Identity
from failover.kinds import CATALOG_KIND, GROUPS_KIND, catalog_maker, shard_maker
from failover.leaders import NOBODY, Leaders
from failover.node_apis import NODE_HANDLERS
from failover.parked import ParkedReplies
from failover.partition import HandlerFailed, Partition, PartitionState
from failover.routing import partition_for
from failover.schedule import Schedule
from failover.seekers import Seekers
from failover.status import PartitionStatus, status_of
from protocol.groups.effects import Reply, Request, TimersDue, TopicsDeleted
from protocol.groups.shard import GroupShard
from protocol.wire import apis
from protocol.wire.apis import Route
from protocol.wire.errors import ErrorCode, KafkaError
from storage.log import (
    AppendBatch,
    BeginInstall,
    FinishInstall,
    SaveVote,
    SaveVoters,
    TruncateFrom,
)
from storage.messages import Leading
from storage.replica import Role, Setting
from storage.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kio.static.protocol import Entity

    from failover.catalog import NodeChanged
    from protocol.config import Configs
    from protocol.groups.effects import Event, Ticket
    from protocol.groups.facts import MemberEvent
    from protocol.groups.topics import Topics
    from storage.log import Log
    from storage.messages import Message
    from storage.replica import Replica

RELOAD_RECORDS: Final = 500
"""Records read per :meth:`Host.tick` by a partition that is loaded again: a few milliseconds."""

CATALOG_RECORDS: Final = 1_000

HAND_OVER_MS: Final = 200
"""How often a host that is to be stopped looks whether it still leads something."""


class Host:
    """All partitions of one process.

    Pure: no clock, no randomness of its own, no I/O but reading the log it was given.
    """

    def __init__(
        self, identity: Identity, configs: Configs, log: Log, rng: random.Random, now: int
    ) -> None:
        self.identity = identity
        self._static_configs = configs
        self._effects = Effects()
        self._fanout = Fanout()
        self._parked = ParkedReplies()
        self._forwards = Forwards()
        self._leaders = Leaders()
        self._seekers = Seekers(identity.partitions, now)
        self._unlinked: set[int] = set()
        self._unwritten: set[int] = set()
        self._is_draining = False
        self._disk_is_full = False
        self._hand_over_ms: int | None = None

        timing = _timing(configs)

        def setting(number: int, wanted: tuple[int, ...]) -> Setting:
            return Setting(
                me=identity.me,
                partition=number,
                voters=tuple(identity.voters.get(number, ())),
                timing=timing,
                rng=random.Random(rng.getrandbits(64)),
                log=log,
                wanted=frozenset(wanted),
            )

        self._catalog_partition = Partition(
            setting(CATALOG_PARTITION, identity.catalog_nodes),
            catalog_maker(configs, rng.getrandbits(64)),
            CATALOG_KIND,
            now,
        )
        self._catalog_partition.upon_election = lambda: (ClusterFormed(identity.placement),)
        while self._catalog_partition.load_slice(CATALOG_RECORDS):
            pass  # it is small: nodes and topics are known before any client comes
        self._view = self._view_now()
        self._partitions = {
            number: Partition(
                setting(number, identity.placement[number]),
                shard_maker(lambda: self._view, rng.getrandbits(64)),
                GROUPS_KIND,
                now,
            )
            for number in identity.holds
        }
        self._all = {CATALOG_PARTITION: self._catalog_partition, **self._partitions}
        self._schedule = Schedule(self._all)

    # --- events, in the order in which a client's request meets them

    def receive(self, request: Request, now: int) -> None:
        """Take a client's request; its reply comes out of a later :meth:`drain`."""
        ROUTES[apis.API[request.api_key].route](self, request, now)

    def forwarded(self, ticket: Ticket, response: Entity | None) -> None:
        """Take the catalogue leader's answer to a forward; None: it could not be reached."""
        request = self._forwards.answered(ticket)
        if request is None:
            return
        if response is None:
            self._refuse(request, ErrorCode.request_timed_out)
        else:
            self._effects.replies.append(Reply(ticket, response))

    def abandon(self, ticket: Ticket) -> None:
        """Forget a parked request whose client has gone away."""
        self._parked.abandon(ticket)
        self._seekers.abandon(ticket)

    def catalog_event(self, event: NodeChanged | ClusterFormed, now: int) -> bool:
        """Tell the catalogue about the nodes; False when another node leads it, or none yet."""
        partition = self._catalog_partition
        if partition.state is not PartitionState.LEADER or partition.is_paused:
            return False
        self._schedule.touch(CATALOG_PARTITION)
        partition.handle(event, now)
        return True

    def computed(self, partition: int, event: Event, now: int) -> None:
        """Take a task's result as an event; dropped when the partition is not led here."""
        held = self._partitions.get(partition)
        if held is not None and held.state is PartitionState.LEADER:
            self._schedule.touch(partition)
            held.handle(event, now)

    # --- time

    def tick(self, now: int, stalled_ms: int = 0) -> None:
        """Run what is due; ``stalled_ms`` is how long this process itself stood still."""
        schedule = self._schedule
        if stalled_ms:
            schedule.touch_all()
        for partition in self._all.values() if stalled_ms else schedule.due(now):
            if partition.is_reloading:
                partition.load_slice(RELOAD_RECORDS)
            partition.tick(now)
            if partition.state is PartitionState.LEADER and not partition.is_paused:
                if stalled_ms:
                    partition.machine.forgive(stalled_ms)
                due = partition.machine.next_deadline()
                if due is not None and due <= now:
                    partition.handle(TimersDue(), now)
        self._effects.replies += self._parked.due(now)
        for request in self._seekers.due(now):
            self._answer_here(request, now)
        for request in self._forwards.overdue(now):
            self._refuse(request, ErrorCode.not_controller)
        if self._hand_over_ms is not None and self._hand_over_ms <= now:
            self._hand_over(now)

    def next_deadline(self) -> int | None:
        """When :meth:`tick` is wanted next, if at all; 0 is at once."""
        first = self._hand_over_ms
        if self._parked:
            first = _earlier(first, self._parked.next_deadline())
        if self._forwards:
            first = _earlier(first, self._forwards.next_deadline())
        if self._seekers:
            first = _earlier(first, self._seekers.next_deadline())
        return _earlier(first, self._schedule.next_deadline())

    # --- replication

    def receive_peer(self, node_id: int, messages: Sequence[Message], now: int) -> None:  # noqa: ARG002
        """Take what another node said; what is meant for no partition of ours is left alone."""
        touch = self._schedule.touch
        for message in messages:
            if isinstance(message, Leading):
                self._heard(message.partition, message.epoch, message.node_id, now)
            partition = self._all.get(message.partition)
            if partition is not None:
                touch(message.partition)
                partition.replica.step(message, now)

    def peer_up(self, node_id: int, now: int) -> None:
        """Learn that the link to another node stands; tell it who leads what."""
        self._unlinked.discard(node_id)
        self._schedule.touch_all()
        for partition in self._all.values():
            partition.replica.peer_up(node_id, now)
        for number in self._leaders.led_by(node_id):
            self._answer_seekers(number, now)
        if node_id == self._leaders.of(CATALOG_PARTITION):
            self._carry_waiting(now)
        if told := list(self._leaders.told()):
            self._effects.messages.setdefault(node_id, []).extend(told)

    def peer_down(self, node_id: int, now: int) -> None:
        """Learn that the link to another node broke."""
        self._unlinked.add(node_id)
        self._schedule.touch_all()
        for partition in self._all.values():
            partition.replica.peer_down(node_id, now)
        for number in self._leaders.led_by(node_id):
            self._seekers.lost(number, now)

    def campaign(self, partition: int, now: int) -> None:
        """Stand for election, on the controller's advice."""
        held = self._all.get(partition)
        if held is not None and held.replica.role is not Role.LEADER:
            self._schedule.touch(partition)
            held.replica.campaign(now)

    def transfer(self, partition: int, node_id: int, now: int) -> None:
        """Hand a partition that is led here over to another node, once that has all of it."""
        held = self._all.get(partition)
        if held is not None and held.state is PartitionState.LEADER:
            self._schedule.touch(partition)
            held.replica.transfer_to(node_id, now)

    @property
    def draining(self) -> bool:
        """Whether this host is to be stopped: it hands over what it leads, again and again."""
        return self._is_draining

    @draining.setter
    def draining(self, draining: bool) -> None:
        self._is_draining = draining
        self._hand_over_ms = 0 if draining or self._disk_is_full else None

    @property
    def disk_is_full(self) -> bool:
        """Whether drained writes wait for room on the disk.

        As long as it is so, whoever waits for them is sent away with a retriable error, and what is
        led here is handed over to a replica with room, if there is one.
        """
        return self._disk_is_full

    @disk_is_full.setter
    def disk_is_full(self, is_full: bool) -> None:
        if is_full == self._disk_is_full:
            return
        self._disk_is_full = is_full
        self._hand_over_ms = 0 if is_full or self._is_draining else None
        for number, partition in self._all.items():
            code = ErrorCode.coordinator_not_available
            if number == CATALOG_PARTITION:
                code = ErrorCode.not_controller
            partition.stuck = code if is_full else None
            partition.replica.stuck = is_full
            partition.refuse_waiting(self._effects)

    def _hand_over(self, now: int) -> None:
        self._hand_over_ms = now + HAND_OVER_MS
        for partition in self._all.values():
            replica = partition.replica
            if replica.role is Role.LEADER:
                fit = self._with_room(replica) if self._disk_is_full else _near(replica)
                others = [node for node in self._preferred(partition.number) if node in fit]
                if others:
                    self._schedule.touch(partition.number)
                    replica.transfer_to(others[0], now)

    @staticmethod
    def _with_room(replica: Replica) -> Collection[int]:
        """Return who has room on its disk for what there is none on ours; see it next time."""
        replica.ask_for_room()
        return replica.roomier

    def _preferred(self, partition: int) -> tuple[int, ...]:
        if partition == CATALOG_PARTITION:
            return self.identity.catalog_nodes
        return self.identity.placement[partition]

    # --- the driver's loop

    def load_slice(self, max_records: int) -> bool:
        """Read on in the log; True when every partition is loaded. Call until then, then pump."""
        left = max_records
        for partition in self._all.values():
            if partition.state is PartitionState.LOADING:
                self._schedule.touch(partition.number)
                left -= partition.load_slice(left)
                if left <= 0:
                    return False
        return all(
            partition.state is not PartitionState.LOADING or partition.is_reloading
            for partition in self._all.values()
        )

    def drain(self, now: int) -> Effects:
        """End the turn: everything to be done now, falsy when there is nothing."""
        effects = self._effects
        while touched := self._schedule.take():
            for partition in touched:
                if partition.deferred:
                    self._resume(partition, now)
                has_moved = partition.drain(now, effects)
                if has_moved and partition is self._catalog_partition:
                    self._refresh(now)
                if partition.has_news:
                    self._note_leader(partition, effects, now)
        if self._fanout.under_way:
            effects.replies = [*self._merged(effects.replies)]
        if effects.writes:
            self._unwritten.update(write.partition for write in effects.writes)
            effects.sync = self._must_sync(effects)
        if effects:
            self._effects = Effects()
        return effects

    def _resume(self, partition: Partition, now: int) -> None:
        for request, waits in partition.resumed():
            self._handle(partition, request, now, waits)

    def persisted(self, now: int) -> None:
        """Take notice that the last drained writes are in the log (synced if it said so)."""
        for number in sorted(self._unwritten):
            self._schedule.touch(number)
            self._all[number].replica.persisted(now)
        self._unwritten.clear()

    def checkpoint(self) -> Effects:
        """Bring the compacted state on disk up to the last commit, before a clean stop."""
        effects = Effects(sync=True)
        for partition in self._all.values():
            effects.writes += partition.compact()
        return effects

    # --- what this node knows of the cluster

    @property
    def view(self) -> ClusterView:
        """What this node knows of the cluster: catalogue, leaders, effective configs."""
        return self._view

    def leader_of(self, partition: int) -> int:
        """Return the node that leads a partition (-1: the catalogue), -1 when none is known."""
        return self._leaders.of(partition)

    def _note_leader(self, partition: Partition, effects: Effects, now: int) -> None:
        """Take over what a replica knows about its leader; tell everybody when it is this one."""
        partition.has_news = False
        (epoch, leader), me, number = partition.leader, self.identity.node_id, partition.number
        if leader == NOBODY:
            self._seekers.lost(number, now)
            if self._leaders.of(number) == me:
                self._leaders.resigned(number)
                self._show_leaders(now)
            return
        is_news = self._heard(number, epoch, leader, now)
        self._answer_seekers(number, now)
        if is_news and leader == me:
            for node_id in self.identity.nodes:
                if node_id != me:
                    row = Leading(number, epoch, me)
                    effects.messages.setdefault(node_id, []).append(row)

    def _heard(self, partition: int, epoch: int, node_id: int, now: int) -> bool:
        is_news = self._leaders.learn(partition, epoch, node_id)
        if is_news:
            self._show_leaders(now)
            self._answer_seekers(partition, now)
        return is_news

    def _answer_seekers(self, partition: int, now: int) -> None:
        for request in self._seekers.found(partition):
            self._to_node(request, now)

    def _show_leaders(self, now: int) -> None:
        controller_id = self._leaders.of(CATALOG_PARTITION)
        leaders = self._leaders.by_partition()
        self._view = replace(self._view, leaders=leaders, controller_id=controller_id, described={})
        if controller_id != NOBODY:
            self._carry_waiting(now)

    def _carry_waiting(self, now: int) -> None:
        for request in self._forwards.take_waiting():
            self._to_catalog(request, now)

    # --- for people

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """Every partition of which this node has a replica, the catalogue's first."""
        return tuple(self._all.values())

    def status(self) -> list[PartitionStatus]:
        """Return one row per partition held here."""
        return [status_of(partition) for _, partition in sorted(self._all.items())]

    def events(self, group_id: str) -> list[MemberEvent]:
        """Return the diary of a group led here, oldest first."""
        partition = self._partitions.get(partition_for(group_id, self.identity.partitions))
        return [] if partition is None else _shard(partition).events(group_id)

    # --- routes

    def _to_node(self, request: Request, now: int) -> None:
        if not self._seekers.park(request, now):
            self._answer_here(request, now)

    def _answer_here(self, request: Request, now: int) -> None:
        try:
            answer = NODE_HANDLERS[request.api_key](self._view, request, now)
        except KafkaError as error:
            self._refuse(request, error.code, error.message)
        except Exception as error:
            self._failed(request, f"{type(error).__name__}: {error}")
        else:
            if isinstance(answer, Parked):
                self._parked.park(request.ticket, answer.response, answer.deadline_ms)
            elif isinstance(answer, Mutating):
                self._effects.replies.append(Reply(request.ticket, answer.response))
                self._mutate(request, answer.mutation, now)
            else:
                self._effects.replies.append(Reply(request.ticket, answer))

    def _to_group(self, request: Request, now: int) -> None:
        group_id = apis.group_id(request.message)
        if not group_id and request.api_key in NAMED_GROUP_ONLY:
            self._refuse(request, ErrorCode.invalid_group_id)
            return
        self._to_partition(partition_for(group_id, self.identity.partitions), request, now)

    def _to_groups(self, request: Request, now: int) -> None:
        parts = self._fanout.split(
            request, lambda group_id: partition_for(group_id, self.identity.partitions)
        )
        for part in parts:
            self._to_partition(part.partition, part.request, now, part.groups)
        if not parts:
            answer = apis.merge(request.api_key, request.message, ())
            self._effects.replies.append(Reply(request.ticket, answer))

    def _to_all(self, request: Request, now: int) -> None:
        """Ask every partition that is led here, or is about to be."""
        asked = [
            number
            for number, partition in self._partitions.items()
            if partition.state is PartitionState.LEADER or partition.is_coming
        ]
        if not asked:
            self._refuse(request, ErrorCode.none)
        for part in self._fanout.copy(request, asked):
            self._to_partition(part.partition, part.request, now, None)

    def _to_catalog(self, request: Request, now: int) -> None:
        """Change the catalogue here, where it is led, or as soon as it is led anywhere."""
        partition, leader = self._catalog_partition, self._leaders.of(CATALOG_PARTITION)
        if partition.state is PartitionState.LEADER:
            if partition.is_paused:
                partition.defer(request, ())
            else:
                self._handle(partition, request, now, ())
        elif leader in (NOBODY, self.identity.node_id) or leader in self._unlinked:
            self._forwards.wait(request, now)
        else:
            self._effects.forwards.append(self._forwards.carry(request, leader))

    def _to_partition(
        self, number: int, request: Request, now: int, waits: Sequence[str] | None = ()
    ) -> None:
        partition = self._partitions.get(number)
        if partition is None:
            self._refuse(request, ErrorCode.not_coordinator)
        elif partition.state is PartitionState.LEADER:
            if partition.is_paused:
                partition.defer(request, waits)
            else:
                self._handle(partition, request, now, waits)
        elif not partition.is_coming:
            self._refuse(request, ErrorCode.not_coordinator)
        elif request.api_key in BELIEVED and partition.is_believing(now):
            self._refuse(request, ErrorCode.none)
        else:
            self._refuse(request, ErrorCode.coordinator_load_in_progress)

    def _handle(
        self, partition: Partition, request: Request, now: int, waits: Sequence[str] | None
    ) -> None:
        self._schedule.touch(partition.number)
        try:
            partition.handle(request, now, waits)
        except HandlerFailed as error:
            self._failed(request, str(error))

    def _mutate(self, request: Request, mutation: Entity, now: int) -> None:
        """Change the catalogue on a client's behalf; nobody waits for the answer."""
        key = int(type(mutation).__api_key__)  # type: ignore[attr-defined]  # every payload has one
        own = replace(
            request,
            ticket=self._fanout.draw_ticket(),
            api_key=key,
            api_version=apis.API[key].max_version,
            message=mutation,
        )
        self._to_catalog(own, now)

    def _refuse(self, request: Request, code: ErrorCode, message: str | None = None) -> None:
        answer = apis.error_response(
            request.api_key, request.message, code, message, request.api_version
        )
        self._effects.replies.append(Reply(request.ticket, answer))

    def _failed(self, request: Request, why: str) -> None:
        name = apis.API[request.api_key].name
        self._effects.notes.append(
            f"{name} {request.api_version} from {request.client.client_id} failed: {why}"
        )
        self._refuse(request, ErrorCode.unknown_server_error)

    # --- the catalogue and what follows from it

    @property
    def _catalog(self) -> Catalog:
        machine = self._catalog_partition.machine
        assert isinstance(machine, Catalog)
        return machine

    def _view_now(self) -> ClusterView:
        image, node_id = self._catalog.image, self.identity.node_id
        return ClusterView(
            node_id=node_id,
            cluster_id=self.identity.cluster_id,
            catalog=image,
            static_configs=self._static_configs,
            configs=effective_configs(self._static_configs, image, node_id),
            leaders=self._leaders.by_partition(),
            controller_id=self._leaders.of(CATALOG_PARTITION),
        )

    def _refresh(self, now: int) -> None:
        """Show a changed catalogue to clients and shards, once all of it is committed."""
        if not self._catalog_partition.settled or self._catalog.image is self._view.catalog:
            return
        before = self._view.catalog.topics
        self._view = self._view_now()
        topics = self._view.catalog.topics
        self._catalog.configs = self._view.configs
        group_configs = self._view.catalog.group_configs()
        gone = [] if topics is before else _deleted(before, topics)
        self._schedule.touch_all()
        for partition in self._partitions.values():
            shard = _shard(partition)
            shard.topics = topics
            shard.configs = self._view.configs
            shard.group_configs = group_configs
            if gone and partition.state is PartitionState.LEADER:
                partition.handle(TopicsDeleted(gone), now)

    def _merged(self, replies: Sequence[Reply]) -> list[Reply]:
        """Replace the parts of split requests by whole answers, where all parts are there."""
        whole = []
        for reply in replies:
            if reply.ticket >= 0:
                whole.append(reply)
            elif (merged := self._fanout.merged(reply)) is not None:
                whole.append(merged)
        return whole

    def _must_sync(self, effects: Effects) -> bool:
        """Sync a promise always, and appended records unless ``log.flush`` is ``os``."""
        majority = self._view.configs.text("log.flush") == "majority"
        synced = SYNCED_BY_MAJORITY if majority else SYNCED
        return any(isinstance(write, synced) for write in effects.writes)


def _shard(partition: Partition) -> GroupShard:
    machine = partition.machine
    assert isinstance(machine, GroupShard)
    return machine


def _near(replica: Replica) -> set[int]:
    """Return the other voters that are nearly in sync with a leader."""
    voters = {voter.node_id for voter in replica.voters}
    return voters & set(replica.in_sync[1:])


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
    """Return the names under which a topic was deleted since ``before``."""
    return [name for name, ids in after.deleted.items() if ids != before.deleted.get(name)]


NAMED_GROUP_ONLY = frozenset({11, 12, 13, 14, 47})
"""JoinGroup, Heartbeat, LeaveGroup, SyncGroup and OffsetDelete refuse the empty group id."""

BELIEVED = frozenset({12})
"""A heartbeat while the log is read is believed, as Kafka does: nobody expires meanwhile."""

SYNCED = (SaveVote, SaveVoters, BeginInstall, FinishInstall)
SYNCED_BY_MAJORITY = (*SYNCED, AppendBatch, TruncateFrom)

ROUTES: Mapping[Route, Callable[[Host, Request, int], None]] = {
    Route.NODE: Host._to_node,
    Route.GROUP: Host._to_group,
    Route.GROUPS: Host._to_groups,
    Route.ALL_GROUPS: Host._to_all,
    Route.CATALOG: Host._to_catalog,
}
