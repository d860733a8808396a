"""A whole simulated cluster: nodes, network, members, operator, controller and checkers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from failover.catalogue.catalog import NodeChanged
from failover.catalogue.cluster_view import Node
from failover.catalogue.levels import SUPPORTED
from failover.control.healing import may_set_aside
from failover.host import Host
from failover.identity import CATALOG_PARTITION, Identity
from failover.partition_kinds import replicas
from failover.simulation.checkers.checkers import Checkers
from failover.simulation.checkers.values import Values
from failover.simulation.clients.administrator import Administrator
from failover.simulation.clients.callers import Callers
from failover.simulation.clients.members import Clients, member_configs
from failover.simulation.clients.share_state_client import ShareStateClient
from failover.simulation.event_log import Violation
from failover.simulation.kinds import allows_takeover
from failover.simulation.nodes.clocks import NodeClock
from failover.simulation.nodes.network import Network
from failover.simulation.nodes.process import Process
from failover.simulation.nodes.supervisor import Supervisor
from failover.simulation.nodes.workers import SimulatedWorkers
from protocol.config import Configs
from protocol.groups.consumer.members import TAKEOVER
from storage.messages import ReplicaKey
from storage.quorum import majority
from storage.replica import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from failover.partitions.partition import Partition
    from failover.simulation.world import World
    from protocol.members.classic import MemberConfig

REGISTER_MS = 1_000
CHECK_MS = 20_000
"""How often expired offsets are searched for."""
NEAR_OFFSETS = 500


class SimulatedCluster:
    """Everything in one world. :meth:`form` brings the cluster up for the first time."""

    def __init__(self, world: World, members: Sequence[MemberConfig] | None = None) -> None:
        settings = world.settings
        if members is None:
            members = member_configs(settings)
        self.world = world
        self.network = Network(world)
        self.values = Values(settings.retention_minutes * 60_000)
        self.checkers = Checkers(world, self.values)
        self.clients = Clients(world, self.network, self.values, members)
        self.checkers.ownership.owners.topic_names = self.clients.topic_names
        self.administrator = Administrator(world, self.network, self.values)
        self.administrator.partitions_of = self.clients.partitions_of
        self.callers = Callers(self)
        self.workers = SimulatedWorkers(world)
        self.supervisor = Supervisor(self)
        self._rng = world.random("cluster")
        self._disks = 0
        self.processes: list[Process] = []
        self._clocks: list[NodeClock] = []
        for node_id in range(settings.nodes):
            process = Process(world, self.network, self.checkers, node_id)
            process.died = self.supervisor.died
            process.workers = self.workers
            process.patience_ms = settings.replica_election_ms
            process.new_disk(self._directory_id(node_id))
            self.processes.append(process)
            self.network.add(process)
            self.checkers.replicated.processes[node_id] = process
            speed = 1 + settings.clock_skew * self._rng.uniform(-1, 1)
            self._clocks.append(NodeClock(self._rng.randint(-5_000, 5_000), speed))
        self.placement = tuple(
            tuple((number + place) % settings.nodes for place in range(settings.replication))
            for number in range(settings.partitions)
        )
        self.configs = Configs(_configs(world))
        self._first_voters = self.checkers.replicated.voters.first = self._voters()

    def _directory_id(self, node_id: int) -> str:
        self._disks += 1
        return f"disk-{node_id}-{self._disks}"

    def _voters(self) -> Mapping[int, tuple[ReplicaKey, ...]]:
        keys = [ReplicaKey(process.node_id, process.directory_id) for process in self.processes]
        replication = self.world.settings.replication
        voters = {CATALOG_PARTITION: tuple(keys[:replication])}
        for number, nodes in replicas(self.placement).items():
            voters[number] = tuple(keys[node_id] for node_id in nodes)
        return voters

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of all partitions, of every kind."""
        return (CATALOG_PARTITION, *replicas(self.placement))

    def form(self) -> None:
        """Start every node and the controller; create the members' topics; start the members."""
        for process in self.processes:
            self.start(process.node_id)
        self.supervisor.begin()
        for name, partitions in list(self.clients.partitions_of.items()):
            self.administrator.create_topic(name, partitions)
        self.callers.begin()
        if self.world.settings.share_groups:
            topic_id, clients = self.callers.topic_id, self.clients
            ShareStateClient(self.world, self.network, topic_id, lambda: clients.commits).begin()
        if self.world.settings.takeover:
            for group_id in filter(allows_takeover, self.clients.group_ids):
                self.administrator.configure_group(group_id, TAKEOVER, "true")
        self.world.after(REGISTER_MS, self._register)
        self.clients.start_all()

    # --- nodes

    def start(self, node_id: int) -> None:
        """Start a node's process, unless it runs."""
        process = self.processes[node_id]
        if process.is_alive:
            return
        first = self._first_voters
        is_first_disk = (
            any(
                key == ReplicaKey(node_id, process.directory_id)
                for keys in first.values()
                for key in keys
            )
            or node_id >= self.world.settings.replication
        )
        identity = Identity(
            node_id=node_id,
            directory_id=process.directory_id,
            cluster_id="simulated",
            nodes=tuple(range(len(self.processes))),
            placement=self.placement,
            voters=first if is_first_disk else {},
        )
        if self.world.tells:
            self.world.tell("", f"node {node_id} starts on {process.directory_id}")
        rng = random.Random(f"{self.world.seed} host {node_id} {process.life}")
        process.begin(identity, self.configs, rng, self._clocks[node_id])

    def set_speed(self, node_id: int, speed: float) -> None:
        """Set the speed of a node's clock from now on."""
        self._clocks[node_id].run_at(speed, self.world.now)
        self.processes[node_id].clock_changed()

    def drain(self, node_id: int) -> None:
        """Let a node hand over what it leads, before it stops."""
        self.supervisor.drain(node_id, True)
        self.processes[node_id].event(_drain)

    def stop(self, node_id: int) -> None:
        """End a node's process cleanly: all its data is on disk."""
        process = self.processes[node_id]
        if process.host is not None:
            process.log.write(process.host.checkpoint().writes, True)
        process.kill(process.log.unsynced, 1)
        self.supervisor.drain(node_id, False)

    def lose_disk(self, node_id: int) -> None:
        """Kill a node and replace its disk by an empty one."""
        process = self.processes[node_id]
        process.kill(0, 1)
        process.new_disk(self._directory_id(node_id))

    def heal(self) -> None:
        """Set aside logs that cannot be opened, once the others have everything."""
        for process in self.processes:
            if process.is_waiting and not process.is_alive and self._may_set_aside(process):
                self.world.fault("log set aside", f"node {process.node_id} begins empty")
                self._loses_nothing(process)
                process.new_disk(self._directory_id(process.node_id))
                self.start(process.node_id)

    def _loses_nothing(self, process: Process) -> None:
        """Check that most voters have all committed data, without counting a node's disk."""
        for number, committed in sorted(self.checkers.replicated.committed.items()):
            voters = self._voters_of(number)
            sound = [
                other
                for key in voters
                if (other := self.processes[key.node_id]) is not process
                and other.directory_id == key.directory_id
                and not other.is_damaged
                and other.log.synced(number).end_offset >= committed.end_offset
            ]
            is_held = any(key.node_id == process.node_id for key in voters)
            if is_held and len(sound) < majority(len(voters)):
                raise Violation(
                    f"node {process.node_id}'s log is set aside, and {len(sound)} others have all"
                    f" that is committed up to {committed.end_offset}",
                    f"partition {number}",
                )

    def _voters_of(self, number: int) -> tuple[ReplicaKey, ...]:
        """Return a partition's voters as last committed, or the initial ones."""
        committed = self.checkers.replicated.committed.get(number)
        return (committed and committed.voters) or self._first_voters[number]

    def _may_set_aside(self, process: Process) -> bool:
        reports = {
            other.node_id: other.host.status() for other in self.processes if other.host is not None
        }
        return may_set_aside(process.node_id, self.placement, reports)

    def may_lose_disk(self) -> bool:
        """Whether the cluster can lose a disk: all voters of all partitions are existing disks.

        The voters that the leaders have committed count, so that at most one disk is ever missing.
        """
        if any(process.is_damaged or process.is_mid_turn for process in self.processes):
            return False  # in the middle of a turn more may be committed than checkers know about
        existing = {process.directory_id for process in self.processes}
        settings = self.world.settings
        for number in self.numbers:
            leader = self.leader_of(number)
            if leader is None:
                return False
            replica = leader.replica
            voters = replica.voters
            if replica.high_watermark < replica.end_offset:
                return False
            if len(voters) < settings.replication:
                return False
            if any(voter.directory_id not in existing for voter in voters):
                return False
        return True

    def incomplete(self) -> list[Process]:
        """Return the nodes whose directory is damaged, or does not vote where it should.

        While there is one, a majority needs all the other nodes.
        """
        lists = [self._voters_of(number) for number in self._first_voters]
        existing = {process.directory_id for process in self.processes}
        return [
            process
            for process in self.processes
            if process.is_damaged
            or any(
                key.node_id == process.node_id and key.directory_id not in existing
                for voters in lists
                for key in voters
            )
        ]

    def leader_of(self, number: int) -> Partition | None:
        """Return a partition's leading replica, the newest if several believe that they lead."""
        leaders = [
            partition
            for process in self.processes
            for partition in process.partitions()
            if partition.number == number and partition.replica.role is Role.LEADER
        ]
        return max(leaders, key=lambda partition: partition.replica.epoch, default=None)

    def leading_nodes(self) -> list[int]:
        """Return the nodes that lead any partition."""
        return [process.node_id for process in self.processes if process.leading()]

    # --- which nodes are up, as the catalogue tells clients

    def _register(self) -> None:
        """Let each node register itself until it finds itself in the catalogue."""
        self.world.after(REGISTER_MS, self._register)
        self.heal()
        for process in self.processes:
            if process.host is None or process.is_paused:
                continue
            rack = self.world.settings.rack_of(process.node_id)
            node = Node(process.node_id, f"node{process.node_id}", 9092, rack=rack)
            node = node.with_levels(SUPPORTED)
            nodes = process.host.view.catalog.nodes
            if nodes.get(process.node_id) != node:
                self.tell_catalog(NodeChanged(node))

    def tell_catalog(self, event: NodeChanged) -> None:
        """Pass an event to every node; the one that leads the catalogue takes it."""
        for process in self.processes:
            if process.host is not None and not process.is_paused:
                process.event(_catalog_event, event)

    # --- convergence

    def unconverged(self) -> str:
        """Return what has not converged although no faults are active; empty when all has."""
        if self.administrator.busy:
            return f"topics are being changed: {', '.join(sorted(self.administrator.busy))}"
        return self.unreplicated() or self._uncatalogued() or self.clients.at_rest()

    def unreplicated(self) -> str:
        """Return which replica is missing or behind; empty when none is.

        While members commit, followers are always behind by the records of one heartbeat interval.
        """
        allowed = NEAR_OFFSETS if self.clients.commits else 0
        settings = self.world.settings
        existing = {process.directory_id for process in self.processes}
        for number in self.numbers:
            leader = self.leader_of(number)
            if leader is None:
                return f"partition {number} has no leader"
            voters = leader.replica.voters
            if len(voters) != settings.replication:
                return f"partition {number} has {len(voters)} voters"
            if any(voter.directory_id not in existing for voter in voters):
                return f"partition {number} has a voter whose disk is gone"
            for process in self.processes:
                for partition in process.partitions():
                    if partition.number == number:
                        behind = leader.replica.end_offset - partition.replica.high_watermark
                        if behind > allowed:
                            return f"partition {number} is behind on node {process.node_id}"
        return ""

    def _uncatalogued(self) -> str:
        for process in self.processes:
            if process.host is None or process.is_loading:
                return f"node {process.node_id} does not serve"
            catalog = process.host.view.catalog
            for other in self.processes:
                node = catalog.nodes.get(other.node_id)
                if node is None or not node.up:
                    return f"node {process.node_id} does not see node {other.node_id} up"
            for name in sorted(self.administrator.topics):
                if catalog.topics.by_name(name) is None:
                    return f"node {process.node_id} does not know topic {name}"
            for name in sorted(self.administrator.deleted):
                if catalog.topics.by_name(name) is not None:
                    return f"node {process.node_id} still knows topic {name}"
        return ""


def _drain(host: Host, _now: int) -> None:
    host.draining = True


def _catalog_event(host: Host, event: NodeChanged, now: int) -> None:
    host.catalog_event(event, now)


def _configs(world: World) -> dict[str, str]:
    settings = world.settings
    return {
        "group.initial.rebalance.delay.ms": "500",
        "group.min.session.timeout.ms": "1000",
        "offsets.retention.minutes": str(settings.retention_minutes),
        "offsets.retention.check.interval.ms": str(CHECK_MS),
        "offsets.topic.num.partitions": str(settings.partitions),
        "offsets.topic.replication.factor": str(settings.replication),
        "replica.heartbeat.interval.ms": str(settings.replica_heartbeat_ms),
        "replica.lease.ms": str(settings.replica_lease_ms),
        "replica.election.timeout.ms": str(settings.replica_election_ms),
        **settings.configs,
    }
