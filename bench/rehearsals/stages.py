"""What a scenario runs on in real time: a cluster of ours, Apache Kafka, or one that runs already.

A stage says where its brokers are, and inflicts faults on the nodes that it may hit.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.client.security import read_security
from bench.client.connection_settings import ConnectionSettings
from bench.rehearsals.disk_space import check_room
from bench.scenarios.faults import (
    CutCoordinator,
    FreezeCoordinator,
    KillCoordinator,
    RestartCoordinator,
    word_of,
)
from bench.scenarios.members import ClusterNames
from bench.scenarios.simulated import away_ms, nodes_of, replicas_of
from bench.servers.held_log import HeldLog
from failover.drills.checked import DrillError
from protocol.client.versions import newest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from bench.scenarios.faults import Fault
    from bench.scenarios.scenario import Scenario
    from bench.servers.kafka import Kafka
    from bench.servers.live_cluster import LiveCluster

Address = tuple[str, int]
Undo = tuple[int, "Callable[[], None]"]
"""What ends a fault, and how many milliseconds after its begin."""


class CrowdCluster(Protocol):
    """What the members of a scenario must know of their cluster."""

    bootstrap: tuple[Address, ...]
    versions: Mapping[int, int]
    """The version in which requests of each API are sent."""
    names: ClusterNames
    leaves: bool
    """Whether the members leave for good in the end: the cluster stays."""
    command_config: Path | None
    """The file with what makes connections safe, on every host with members; None: they are not."""


class Stage(CrowdCluster, Protocol):
    """A cluster in which a scenario's members live."""

    how: str
    """What the run is called: ``real``, ``kafka`` or the addresses of a cluster that ran before."""
    cannot: Mapping[type, str]
    """The faults that it does not inflict, and why."""
    no_racks: str
    """Why its nodes are not on the scenario's racks; "": they are."""

    def inflict(self, fault: Any, node: int) -> Undo | None:
        """Begin a fault of the node with this place in ``bootstrap``; from any thread.

        Raises DrillError or CommandError if the node cannot suffer it now.
        """

    def check(self) -> None:
        """Raise DrillError if the cluster cannot work, for a reason that is not of the scenario."""


def connections_to(stage: CrowdCluster) -> ConnectionSettings:
    """Return what connections to a stage have; raises BadInputError if its file is wrong."""
    security = read_security(stage.command_config)
    return ConnectionSettings(versions=stage.versions, security=security)


def notes_on(stage: Stage, scenario: Scenario) -> list[str]:
    """Return what of a scenario a stage leaves out, in a sentence each."""
    whys = (_why_not(stage, fault) for fault in scenario.faults)
    left_out = [f"{why}." for why in dict.fromkeys(whys) if why]
    count = len(stage.bootstrap)
    if scenario.nodes not in (None, count):
        nodes = "1 node" if count == 1 else f"{count} nodes"
        left_out.append(f"The cluster has {nodes}, and not {scenario.nodes} as the scenario wants.")
    if stage.leaves and scenario.configs:
        left_out.append("The scenario's configs are left out: the cluster keeps its own.")
    if stage.no_racks and scenario.racks:
        left_out.append(f"The racks of its nodes are left out: {stage.no_racks}.")
    return left_out


def faults_on(stage: Stage, scenario: Scenario) -> list[Fault]:
    """Return the faults of a scenario that a stage does not leave out."""
    return [fault for fault in scenario.faults if not _why_not(stage, fault)]


def _why_not(stage: Stage, fault: Fault) -> str:
    """Say that a stage leaves out a fault, and why; "" if it does not."""
    if type(fault) in stage.cannot:
        return f"{word_of(fault)} is left out: {stage.cannot[type(fault)]}"
    nodes = len(stage.bootstrap)
    if fault.node is not None and fault.node >= nodes:
        return f"{word_of(fault)} of node {fault.node} is left out: there are {nodes} nodes here"
    return ""


class OwnStage:
    """A cluster of ours that was started for the scenario; Ray restarts what is killed."""

    how = "real"
    leaves = False
    command_config: Path | None = None
    cannot: Mapping[type, str] = MappingProxyType({})
    no_racks = ""

    def __init__(self, live: LiveCluster) -> None:
        self._live = live
        self.bootstrap: tuple[Address, ...] = live.bootstrap
        self.versions: Mapping[int, int] = newest()
        self.names = ClusterNames()
        self._away: set[int] = set()

    def inflict(self, fault: Any, node: int) -> Undo | None:
        """Begin a fault, unless another one keeps the node away."""
        if node in self._away:
            raise DrillError(f"Node {node} is kept away.")
        undo = OWN_FAULTS[type(fault)](self._live, node, fault)
        if undo is None or not isinstance(fault, KillCoordinator | RestartCoordinator):
            return undo
        after_ms, end = undo
        self._away.add(node)

        def let_back() -> None:
            self._away.discard(node)
            end()

        return after_ms, let_back

    def check(self) -> None:
        """Raise DrillError if its disk is full."""
        check_room(self._live.data_dir)


def _kill(live: LiveCluster, node: int, fault: KillCoordinator) -> Undo | None:
    live.status()  # its process may be another one than before
    live.kill([node])
    return None if fault.lasts is None else _kept_away(live, node, fault.lasts)


def _restart(live: LiveCluster, node: int, fault: RestartCoordinator) -> Undo | None:
    live.restart(node)
    return None if fault.lasts is None else _kept_away(live, node, fault.lasts)


def _kept_away(live: LiveCluster, node: int, lasts_ms: int) -> Undo:
    """Keep a node away whose process has ended: Ray starts another one at once."""
    log = HeldLog(live.data_dir / f"node-{node}")
    log.hold()
    return lasts_ms, log.release


def _freeze(live: LiveCluster, node: int, fault: FreezeCoordinator) -> Undo:
    live.status()
    frozen = live.freeze([node])
    return fault.lasts, lambda: live.thaw(frozen)


def _cut(live: LiveCluster, node: int, fault: CutCoordinator) -> Undo:
    live.status()
    cuts = live.cut([node])
    return fault.lasts, lambda: live.mend(cuts)


OWN_FAULTS: Final[Mapping[type, Callable[[LiveCluster, int, Any], Undo | None]]] = {
    KillCoordinator: _kill,
    RestartCoordinator: _restart,
    FreezeCoordinator: _freeze,
    CutCoordinator: _cut,
}
"""How a cluster of ours suffers each fault."""


class KafkaStage:
    """Apache Kafka, started for the scenario."""

    how = "kafka"
    leaves = False
    command_config: Path | None = None
    cannot: Mapping[type, str] = MappingProxyType(
        {CutCoordinator: "on one machine, the brokers of Kafka cannot be cut off from each other"}
    )
    no_racks = "Kafka's assignors of consumer groups ignore racks"

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._locks = [threading.Lock() for _ in kafka.bootstrap]
        self.bootstrap: tuple[Address, ...] = kafka.bootstrap
        self.versions: Mapping[int, int] = newest()
        self.names = ClusterNames()

    def inflict(self, fault: Any, node: int) -> Undo | None:
        """Begin a fault."""
        with self._locks[node]:  # a broker that is restarted is killed when it is back
            return KAFKA_FAULTS[type(fault)](self._kafka, node, fault)

    def check(self) -> None:
        """Raise DrillError if its disk is full."""
        check_room(self._kafka.directory)


def _kill_broker(kafka: Kafka, node: int, fault: KillCoordinator) -> Undo:
    _need_broker(kafka, node)
    kafka.kill(node)
    return away_ms(fault), lambda: kafka.start_again(node)


def _restart_broker(kafka: Kafka, node: int, fault: RestartCoordinator) -> Undo | None:
    _need_broker(kafka, node)
    if fault.lasts is None:
        kafka.restart(node)
        return None
    kafka.shut_down(node)
    return fault.lasts, lambda: kafka.start_again(node)


def _freeze_broker(kafka: Kafka, node: int, fault: FreezeCoordinator) -> Undo:
    _need_broker(kafka, node)
    frozen = kafka.freeze(node)
    return fault.lasts, lambda: kafka.thaw(frozen)


def _need_broker(kafka: Kafka, node: int) -> None:
    if not kafka.runs(node):
        raise DrillError(f"Broker {node} is not there.")


KAFKA_FAULTS: Final[Mapping[type, Callable[[Kafka, int, Any], Undo | None]]] = {
    KillCoordinator: _kill_broker,
    RestartCoordinator: _restart_broker,
    FreezeCoordinator: _freeze_broker,
}
"""How Kafka suffers each fault."""


@contextmanager
def own_stage(scenario: Scenario) -> Iterator[OwnStage]:
    """Start a cluster of ours, of as many nodes as in the simulation, and stop it at the end."""
    from bench.servers.restartable_cluster import rollcall_cluster

    configs = {
        "offsets.topic.num.partitions": str(nodes_of(scenario)),
        "offsets.topic.replication.factor": str(replicas_of(scenario)),
        **scenario.broker_configs(),
    }
    with ExitStack() as stack:
        live = stack.enter_context(rollcall_cluster(configs, scenario.racks)).live
        stack.enter_context(live.left_whole())
        live.warm_up()
        yield OwnStage(live)


@contextmanager
def kafka_stage(scenario: Scenario) -> Iterator[KafkaStage]:
    """Start Apache Kafka, as many brokers as partitions have replicas, and stop it at the end."""
    from bench.servers.kafka import kafka_cluster
    from bench.servers.restartable_cluster import three_brokers

    nodes = replicas_of(scenario)
    share_state = {"num.partitions": nodes, "replication.factor": nodes, "min.isr": nodes // 2 + 1}
    configs = {
        **{f"share.coordinator.state.topic.{name}": str(n) for name, n in share_state.items()},
        **scenario.broker_configs(),
    }
    if nodes == 1:
        with kafka_cluster(1, configs) as kafka:
            yield KafkaStage(kafka)
    else:
        with three_brokers(configs) as brokers:
            yield KafkaStage(brokers.kafka)
