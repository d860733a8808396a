"""An operator's client: changes topics, and checks that no committed offset is lost."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from failover.catalogue.cluster_view import GROUP
from failover.simulation.event_log import Violation
from failover.simulation.nodes.connection import SimulatedConnection
from protocol.wire import messages as m
from protocol.wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from kio.static.protocol import Entity

    from failover.simulation.checkers.values import Values
    from failover.simulation.nodes.network import Network
    from failover.simulation.world import World

PATIENCE_MS = 3_000
RETRY_MS = 300
LATE_MS = 15_000
"""So long after nobody waits for its answer any more a request may still be carried out."""
TIMEOUT = timedelta(seconds=10)
SET = 0
"""The operations of IncrementalAlterConfigs."""


class AdminCall:
    """One request to one node; ``then`` takes its answer, or None when none came."""

    def __init__(
        self, world: World, network: Network, node_id: int, then: Callable[[Any], None]
    ) -> None:
        self._then: Callable[[Any], None] | None = then
        self._connection = SimulatedConnection(world, network, self, network.processes[node_id])
        self._world = world

    def send(self, message: Entity) -> None:
        """Send the request; the answer, or its absence, comes within :data:`PATIENCE_MS`."""
        self._connection.send(self, message)
        self._world.after(PATIENCE_MS, self._over)

    def answered(self, _token: Any, response: Entity) -> None:
        """Take the answer."""
        self._finish(response)

    def disconnected(self, _connection: SimulatedConnection) -> None:
        """Note that no answer will come."""
        self._finish(None)

    def _over(self) -> None:
        self._connection.abandon()
        self._finish(None)

    def _finish(self, response: Entity | None) -> None:
        then, self._then = self._then, None
        if then is not None:
            then(response)


class Administrator:
    """Asks any node, repeatedly, until the change is acknowledged.

    The creation of ``topics`` was acknowledged, as was the deletion of those in ``deleted``; those
    in ``busy`` are being changed; ``partitions_of`` is how many partitions each has (the caller
    fills it in beforehand). ``unread`` are the groups whose offsets are still to be read by
    :meth:`read_all`, ``offsets`` the last values read. ``expired`` groups have no offsets any more.
    """

    def __init__(self, world: World, network: Network, values: Values) -> None:
        self._world = world
        self._network = network
        self._values = values
        self._rng = world.random("administrator")
        self._created = 0
        self.topics: set[str] = set()
        self.deleted: set[str] = set()
        self.busy: set[str] = set()
        self._late_until: dict[str, int] = {}
        self.partitions_of: dict[str, int] = {}
        self.unread: set[str] = set()
        self.expired: Container[str] = ()
        self.offsets: dict[tuple[str, str, int], int] = {}

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic; retry as long as it takes."""
        topic = m.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=-1, assignments=(), configs=()
        )
        request = m.CreateTopicsRequest(topics=(topic,))

        def done() -> None:
            self.topics.add(name)
            self.deleted.discard(name)
            self.partitions_of[name] = partitions
            self._world.tell("", f"topic {name} was created")

        good = (ErrorCode.none, ErrorCode.topic_already_exists)
        self._change(name, request, lambda response: response.topics[0].error_code in good, done)

    def grow_topic(self, name: str, partitions: int) -> None:
        """Add partitions to a topic; retry as long as it takes."""
        topic = m.CreatePartitionsTopic(name=name, count=partitions, assignments=None)
        request = m.CreatePartitionsRequest(topics=(topic,), timeout=TIMEOUT, validate_only=False)

        def done() -> None:
            self.partitions_of[name] = partitions
            self._world.tell("", f"topic {name} has {partitions} partitions now")

        good = (ErrorCode.none, ErrorCode.invalid_partitions)  # the latter: it already has them
        self._change(name, request, lambda response: response.results[0].error_code in good, done)

    def delete_topic(self, name: str) -> None:
        """Delete a topic; retry as long as it takes. Its committed offsets go some time later."""
        topic = m.DeleteTopicState(name=name, topic_id=None)
        request = m.DeleteTopicsRequest(topics=(topic,), timeout=TIMEOUT)
        self._values.topic_deleted(name)

        def done() -> None:
            self.topics.discard(name)
            self.deleted.add(name)
            del self.partitions_of[name]
            self._world.tell("", f"topic {name} was deleted")

        good = (ErrorCode.none, ErrorCode.unknown_topic_or_partition)
        self._change(name, request, lambda got: got.responses[0].error_code in good, done)

    def configure_group(self, group_id: str, name: str, value: str) -> None:
        """Set a dynamic config of a group; retry as long as it takes."""
        config = m.AlterableConfig(name=name, config_operation=SET, value=value)
        resource = m.AlterConfigsResource(
            resource_type=GROUP, resource_name=group_id, configs=(config,)
        )
        request = m.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)

        def done() -> None:
            self._world.tell(group_id, f"{name} is {value}")

        good = (ErrorCode.none,)
        self._change(
            f"{group_id}'s config", request, lambda got: got.responses[0].error_code in good, done
        )

    def _change(
        self,
        name: str,
        request: Entity,
        is_done: Callable[[Any], bool],
        done: Callable[[], None],
    ) -> None:
        """Retry until it is done; a topic, for instance, has one change in progress at a time."""
        self.busy.add(name)

        def ask() -> None:
            AdminCall(self._world, self._network, self._any_node(), take).send(request)

        def take(response: Any) -> None:
            if response is not None and is_done(response):
                self.busy.discard(name)
                done()
                return
            if response is None:
                self._late_until[name] = self._world.now + LATE_MS
            self._world.after(RETRY_MS, ask)

        ask()

    def may_change(self, name: str) -> bool:
        """Return whether an earlier change of a topic is over, and no request for it on its way."""
        return name not in self.busy and self._late_until.get(name, 0) < self._world.now

    def create_another(self) -> None:
        """Create one more topic, which no member reads."""
        self._created += 1
        self.create_topic(f"extra-{self._created}", 1)

    def read(self, group_id: str) -> None:
        """Read a group's offsets from its leader, and check that they are explained."""
        began = self._world.now
        group = m.OffsetFetchRequestGroup(group_id=group_id, topics=None)

        def take(response: Any) -> None:
            if response is not None and response.groups[0].error_code is ErrorCode.none:
                self._check(response.groups[0], began)

        node_id = self._leader_of(group_id)
        AdminCall(self._world, self._network, node_id, take).send(
            m.OffsetFetchRequest(groups=(group,))
        )

    def read_all(self) -> None:
        """Read every group in ``unread`` once; retry until ``unread`` is empty."""
        for group_id in sorted(self.unread):
            self.read(group_id)

    def _check(self, group: Any, began: int) -> None:
        read = {
            (group.group_id, topic.name, row.partition_index): row.committed_offset
            for topic in group.topics
            for row in topic.partitions
        }
        self.offsets.update(read)
        kept = {place: value for place, value in read.items() if value >= 0}
        has_expired = group.group_id in self.expired
        if has_expired and kept and group.group_id not in self._values.late:
            raise Violation(f"{kept} is past its retention and did not expire", group.group_id)
        for place in () if has_expired else self._values.places():
            if place[0] == group.group_id:
                why = self._values.explain(place, read.get(place, -1), began, self._world.now)
                if why:
                    raise Violation(f"{place[1]}-{place[2]}: {why}", group.group_id)
        self.unread.discard(group.group_id)

    def _any_node(self) -> int:
        return int(self._rng.random() * len(self._network.processes))

    def _leader_of(self, group_id: str) -> int:
        """Find the leader as a client would, but without a request: any node's view will do."""
        process = self._network.processes[self._any_node()]
        return process.leader_known(group_id)
