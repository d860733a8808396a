"""Every partition of one process behind one door: events in, :class:`Effects` out.

The driver's loop (the actor's ``pump`` and the simulator are the only two) is::

    while effects := host.drain(now):
        log.write(effects.writes, effects.sync)     # raises: stop answering, the process restarts
        host.persisted(now)
        ...publish, forward, send replies, observe facts, log notes...
    arm one timer for host.next_deadline()

``now`` is Unix time in milliseconds everywhere.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from failover import catalog_records
from failover.catalog import CATALOG_GROUP, Catalog
from failover.catalog_copy import CatalogCopy
from failover.cluster_view import ClusterView, Mutating, Parked, effective_configs
from failover.effects import Effects, Forward, Published
from failover.fanout import Fanout
from failover.identity import CATALOG_PARTITION, Identity
from failover.node_apis import NODE_HANDLERS
from failover.parked import ParkedReplies
from failover.partition import HandlerFailed, Kind, Partition, PartitionState
from failover.routing import partition_for
from protocol import records
from protocol.groups.effects import Reply, Request, TimersDue, TopicsDeleted
from protocol.groups.shard import GroupShard
from protocol.groups.topics import Topics
from protocol.wire import apis
from protocol.wire.apis import Route
from protocol.wire.errors import ErrorCode, KafkaError
from storage.log import AppendBatch, SaveVote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kio.static.protocol import Entity

    from failover.catalog import ClusterFormed, NodeChanged
    from protocol.config import Configs
    from protocol.groups.effects import Ticket
    from protocol.groups.facts import MemberEvent
    from storage.batch import Batch
    from storage.log import Log
    from storage.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One partition as ``rollcall status`` shows it; the catalogue is partition -1."""

    partition: int
    state: str  # Loading, Follower, Leader
    epoch: int
    log_start_offset: int
    applied_offset: int
    high_watermark: int
    end_offset: int


class Host:
    """All partitions of one process.

    Pure: no clock, no randomness of its own, no I/O but reading the log it was given. ``draining``
    is set before a planned stop: leadership goes to the other replicas, as far as there are any.
    """

    def __init__(
        self,
        identity: Identity,
        configs: Configs,
        log: Log,
        rng: random.Random,
        now: int,  # noqa: ARG002 - a replica's first election timeout counts from it
    ) -> None:
        self.identity = identity
        self._static_configs = configs
        self._effects = Effects()
        self._fanout = Fanout()
        self._parked = ParkedReplies()
        self.draining = False
        self._forwards: dict[Ticket, Request] = {}
        self._catalog_partition: Partition | None = None
        self._catalog_copy: CatalogCopy | None = None
        catalog_seed, *seeds = (rng.getrandbits(64) for _ in range(1 + len(identity.holds)))
        self._open_catalog(log, lambda: Catalog(configs, random.Random(catalog_seed)))
        self._view = self._view_of({})
        self._shards: dict[int, GroupShard] = {}
        self._partitions: dict[int, Partition] = {}
        for number, seed in zip(identity.holds, seeds, strict=True):
            topics = self._view.catalog.topics
            shard = GroupShard(self._view.configs, topics, random.Random(seed))
            self._shards[number] = shard
            self._partitions[number] = Partition(number, identity.node_id, shard, GROUPS_KIND, log)
        self._all = [*self._partitions.values()]
        if self._catalog_partition is not None:
            self._all.append(self._catalog_partition)

    # --- events, in the order in which a client's request meets them

    def receive(self, request: Request, now: int) -> None:
        """Take a client's request; its reply comes out of a later :meth:`drain`."""
        ROUTES[apis.API[request.api_key].route](self, request, now)

    def forwarded(self, ticket: Ticket, response: Entity | None) -> None:
        """Take the catalogue leader's answer to a forward; None: it could not be reached."""
        request = self._forwards.pop(ticket, None)
        if request is None:
            return
        if response is None:
            self._refuse(request, ErrorCode.request_timed_out)
        else:
            self._effects.replies.append(Reply(ticket, response))

    def abandon(self, ticket: Ticket) -> None:
        """Forget a parked fetch whose client has gone away."""
        self._parked.abandon(ticket)

    def catalog_event(self, event: NodeChanged | ClusterFormed, now: int) -> bool:
        """Tell the catalogue about the nodes; False when another node leads it."""
        if self._catalog_partition is None:
            return False
        self._catalog_partition.handle_when_leading(event, now)
        return True

    def tick(self, now: int, stalled_ms: int = 0) -> None:
        """Run what is due; ``stalled_ms`` is how long this process itself stood still."""
        for number, shard in self._shards.items():
            if stalled_ms:
                shard.forgive(stalled_ms)
            due = shard.next_deadline()
            if due is not None and due <= now:
                partition = self._partitions[number]
                if partition.state is PartitionState.LEADER:
                    partition.handle(TimersDue(), now)
        self._effects.replies += self._parked.due(now)

    def next_deadline(self) -> int | None:
        """When :meth:`tick` is wanted next, if at all."""
        deadlines = [shard.next_deadline() for shard in self._shards.values()]
        deadlines.append(self._parked.next_deadline())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # --- the driver's loop

    def load_slice(self, max_records: int) -> bool:
        """Read on in the log; True when every partition is loaded. Call until then, then pump."""
        left = max_records
        for partition in self._all:
            if partition.state is PartitionState.LOADING:
                left -= partition.load_slice(left)
                if left <= 0:
                    return False
        return all(partition.state is not PartitionState.LOADING for partition in self._all)

    def drain(self, now: int) -> Effects:
        """End the turn: everything to be done now, falsy when there is nothing."""
        effects, self._effects = self._effects, Effects()
        if self._catalog_partition is not None:
            committed = self._catalog_partition.drain(now, effects)
            effects.published += _publications(committed)
            self._refresh(now)
        elif self._catalog_copy is not None:
            effects.writes += self._catalog_copy.take_writes()
        for partition in self._partitions.values():
            partition.drain(now, effects)
        if self._fanout.under_way:
            effects.replies = [*self._merged(effects.replies)]
        if effects.writes:
            effects.sync = self._must_sync(effects)
        return effects

    def persisted(self, now: int) -> None:
        """Take notice that the last drained writes are in the log (synced if it said so)."""
        for partition in self._all:
            partition.replica.persisted(now)

    def checkpoint(self) -> Effects:
        """Bring the compacted state on disk up to the last commit, before a clean stop."""
        effects = Effects(sync=True)
        for partition in self._all:
            effects.writes += partition.compact()
        return effects

    # --- replication

    def receive_peer(self, node_id: int, messages: Sequence[Message], now: int) -> None:
        """Take what another node's replicas said; each partition has one replica for now."""

    def peer_up(self, node_id: int, now: int) -> None:
        """Learn that the link to another node stands."""

    def peer_down(self, node_id: int, now: int) -> None:
        """Learn that the link to another node broke."""

    def campaign(self, partition: int, now: int) -> None:
        """Stand for election, on the controller's advice."""

    def transfer(self, partition: int, node_id: int, now: int) -> None:
        """Hand a partition that is led here over to another node."""

    def computed(self, partition: int, event: object, now: int) -> None:
        """Take a task's result as an event; dropped when the partition is not led here."""
        held = self._partitions.get(partition)
        if held is not None and held.state is PartitionState.LEADER:
            held.handle(event, now)

    # --- what this node knows of the cluster

    @property
    def view(self) -> ClusterView:
        """What this node knows of the cluster: catalogue, leaders, effective configs."""
        return self._view

    def set_leaders(self, leaders: Mapping[int, int]) -> None:
        """Learn which node leads which ``__consumer_offsets`` partition (down nodes left out)."""
        if dict(leaders) != self._view.leaders:
            self._view = replace(self._view, leaders=dict(leaders))

    @property
    def catalog_offset(self) -> int:
        """The offset of the next catalogue record wanted by :meth:`apply_catalog`."""
        if self._catalog_copy is not None:
            return self._catalog_copy.offset
        assert self._catalog_partition is not None
        return self._catalog_partition.replica.high_watermark

    def apply_catalog(self, published: Published, now: int) -> bool:
        """Apply what the catalogue's leader published; False: a gap, ask it for a snapshot."""
        if self._catalog_copy is None:
            return True
        if not self._catalog_copy.apply(published):
            return False
        self._refresh(now)
        return True

    def catalog_snapshot(self) -> Published | None:
        """Return the committed catalogue whole; None when not led here or in motion: ask again."""
        partition = self._catalog_partition
        if partition is None or partition.state is not PartitionState.LEADER:
            return None
        if not partition.settled:
            return None
        rows = tuple(catalog_records.encode(record) for record in self._catalog.snapshot())
        return Published(0, partition.replica.high_watermark, rows, snapshot=True)

    # --- for people

    def status(self) -> list[PartitionStatus]:
        """Return one row per partition held here."""
        return [
            PartitionStatus(
                partition=partition.number,
                state=partition.state,
                epoch=partition.replica.epoch,
                log_start_offset=partition.start_offset,
                applied_offset=partition.applied_offset,
                high_watermark=partition.replica.high_watermark,
                end_offset=partition.replica.end_offset,
            )
            for partition in sorted(self._all, key=lambda partition: partition.number)
        ]

    def events(self, group_id: str) -> list[MemberEvent]:
        """Return the diary of a group led here, oldest first."""
        shard = self._shards.get(partition_for(group_id, self.identity.partitions))
        return [] if shard is None else shard.events(group_id)

    # --- routes

    def _to_node(self, request: Request, now: int) -> None:
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
        if not self._partitions:
            self._refuse(request, ErrorCode.none)
        for part in self._fanout.copy(request, list(self._partitions)):
            self._to_partition(part.partition, part.request, now, None)

    def _to_catalog(self, request: Request, now: int) -> None:
        partition = self._catalog_partition
        if partition is None:
            self._forwards[request.ticket] = request
            self._effects.forwards.append(Forward(self.identity.catalog_node, request))
        elif partition.state is not PartitionState.LEADER:
            self._refuse(request, ErrorCode.not_controller)
        else:
            self._handle(partition, request, now, ())

    def _to_partition(
        self, number: int, request: Request, now: int, waits: Sequence[str] | None = ()
    ) -> None:
        partition = self._partitions.get(number)
        if partition is None:
            self._refuse(request, ErrorCode.not_coordinator)
        elif partition.state is not PartitionState.LEADER:
            loading = ErrorCode.coordinator_load_in_progress
            self._refuse(request, WHILE_LOADING.get(request.api_key, loading))
        else:
            self._handle(partition, request, now, waits)

    def _handle(
        self, partition: Partition, request: Request, now: int, waits: Sequence[str] | None
    ) -> None:
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
        if self._catalog_copy is not None:
            return self._catalog_copy.catalog
        assert self._catalog_partition is not None
        assert isinstance(self._catalog_partition.machine, Catalog)
        return self._catalog_partition.machine

    def _open_catalog(self, log: Log, new_catalog: Callable[[], Catalog]) -> None:
        """Read the catalogue whole (it is small): nodes and topics are known before any client."""
        if self.identity.node_id != self.identity.catalog_node:
            self._catalog_copy = CatalogCopy(new_catalog, log)
            return
        self._catalog_partition = Partition(
            CATALOG_PARTITION, self.identity.node_id, new_catalog(), CATALOG_KIND, log
        )
        while self._catalog_partition.load_slice(1_000):
            pass

    def _view_of(self, leaders: Mapping[int, int]) -> ClusterView:
        image, node_id = self._catalog.image, self.identity.node_id
        return ClusterView(
            node_id=node_id,
            cluster_id=self.identity.cluster_id,
            catalog=image,
            static_configs=self._static_configs,
            configs=effective_configs(self._static_configs, image, node_id),
            leaders=leaders,
            controller_id=self.identity.catalog_node,
        )

    def _refresh(self, now: int) -> None:
        """Show a changed catalogue to clients and shards, once all of it is committed."""
        partition = self._catalog_partition
        if self._catalog.image is self._view.catalog or (partition and not partition.settled):
            return
        before = self._view.catalog.topics
        self._view = self._view_of(self._view.leaders)
        topics = self._view.catalog.topics
        self._catalog.configs = self._view.configs
        gone = [] if topics is before else _deleted(before, topics)
        for number, shard in self._shards.items():
            shard.topics = topics
            shard.configs = self._view.configs
            if gone:
                self._partitions[number].handle_when_leading(TopicsDeleted(gone), now)

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
        """Sync a vote always, and appended records unless ``log.flush`` is ``os``."""
        majority = self._view.configs.text("log.flush") == "majority"
        return any(
            isinstance(write, SaveVote) or (majority and isinstance(write, AppendBatch))
            for write in effects.writes
        )


def _publications(committed: Sequence[Batch]) -> list[Published]:
    return [
        Published(batch.base_offset, batch.end_offset, () if batch.control else batch.records)
        for batch in committed
    ]


def _deleted(before: Topics, after: Topics) -> list[str]:
    """Return the names of topics that are gone, or that are other topics of the same name now."""
    gone = []
    for topic in before:
        successor = after.by_name(topic.name)
        if successor is None or successor.topic_id != topic.topic_id:
            gone.append(topic.name)
    return gone


def _group_of(key: Entity) -> str:
    group: str = key.group if hasattr(key, "group") else key.group_id  # type: ignore[attr-defined]
    return group


GROUPS_KIND = Kind(
    encode=records.encode,
    decode=records.decode,
    group_of=_group_of,
)
CATALOG_KIND = Kind(
    encode=catalog_records.encode,
    decode=catalog_records.decode,
    group_of=lambda _: CATALOG_GROUP,
)

NAMED_GROUP_ONLY = frozenset({11, 12, 13, 14, 47})
"""JoinGroup, Heartbeat, LeaveGroup, SyncGroup and OffsetDelete refuse the empty group id."""

WHILE_LOADING: Mapping[int, ErrorCode] = {12: ErrorCode.none}
"""A heartbeat while the log is read is believed, as Kafka does: nobody expires meanwhile."""

ROUTES: Mapping[Route, Callable[[Host, Request, int], None]] = {
    Route.NODE: Host._to_node,
    Route.GROUP: Host._to_group,
    Route.GROUPS: Host._to_groups,
    Route.ALL_GROUPS: Host._to_all,
    Route.CATALOG: Host._to_catalog,
}
