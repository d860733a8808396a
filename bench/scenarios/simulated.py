"""Run a scenario in virtual time, on the simulator's cluster: an hour takes seconds.

Coordinators, replicas and members are those of a real run; only the network, the disks and time are
simulated. The simulator's checkers watch every answer, too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from bench.scenarios.behaviours import RollingDeploy
from bench.scenarios.done_faults import FaultLog
from bench.scenarios.faults import (
    NODES,
    CutCoordinator,
    FreezeCoordinator,
    KillCoordinator,
    RestartCoordinator,
    word_of,
)
from bench.scenarios.members import (
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    LifeTimes,
    has_unowned,
    life_record,
    session_timeouts,
    settings_of,
)
from bench.scenarios.plan import Freeze, Leave, Life, Start, Subscribe, Thaw, Vanish
from bench.scenarios.reads import OffsetsRead, committed_in
from bench.scenarios.record import ScenarioRecord
from bench.scenarios.retries import retry
from bench.scenarios.simulated_reads import SimulatedReader
from bench.scenarios.values import Protocol
from failover.drills.checked import DrillError
from failover.routing import partition_for
from failover.simulation.clients.members import MemberSpec, SimulatedMember
from failover.simulation.cluster import SimulatedCluster
from failover.simulation.event_log import Violation
from failover.simulation.kinds import CONSUMER, MIXED, SHARE, STREAMS
from failover.simulation.one_seed import small_logs
from failover.simulation.settings import CALM
from failover.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.scenarios.faults import Fault
    from bench.scenarios.plan import MemberAction, ScenarioPlan
    from bench.scenarios.record import LifeRecord
    from bench.scenarios.scenario import Group, Scenario
    from failover.simulation.settings import Settings
    from protocol.wire.embedded import TopicPartition

FORM_MS: Final = 120_000
SETTLE_MS: Final = 120_000
"""How long the groups may take to be whole after the scenario."""
POLL_MS: Final = 500
RESTART_MS: Final = 1_500
DRAIN_MS: Final = 1_000
"""From the begin of a drain to the end of the node's process."""
READ_MS: Final = 50
READS_MAX: Final = 100

PREFIXES: Final[Mapping[Protocol, str]] = {
    Protocol.CLASSIC: "",
    Protocol.CONSUMER: CONSUMER,
    Protocol.SHARE: SHARE,
    Protocol.STREAMS: STREAMS,
}
"""What the simulator's checkers know the type of a group by."""


def _prefix(group: Group) -> str:
    """Return how the id of a group begins in the simulation."""
    deploys = (each for each in group.behaviours if isinstance(each, RollingDeploy))
    changes = any(each.protocol not in (None, group.protocol) for each in deploys)
    return MIXED if changes else PREFIXES[group.protocol]


def run(scenario: Scenario, plan: ScenarioPlan, say: Callable[[int, str], None]) -> ScenarioRecord:
    """Run a scenario's plan; ``say`` is told what happens, and how long after the start.

    Raises DrillError if it cannot be completed.
    """
    try:
        with small_logs():
            return _Play(scenario, plan, say).run()
    except Violation as found:
        raise DrillError(f"{found.subject}: {found.text}.") from None


def nodes_of(scenario: Scenario) -> int:
    """Return how many nodes a scenario's cluster has."""
    return scenario.nodes or (NODES if scenario.faults or scenario.racks else 1)


def replicas_of(scenario: Scenario) -> int:
    """Return how many replicas each partition has there."""
    return min(nodes_of(scenario), NODES)


def away_ms(fault: KillCoordinator | RestartCoordinator) -> int:
    """Return from the end of a node's process to the start of the next one."""
    return RESTART_MS if fault.lasts is None else fault.lasts


def _settings(scenario: Scenario) -> Settings:
    """Return the cluster of a scenario, in which chance does nothing."""
    sessions = [group.session_timeout_ms or SESSION_TIMEOUT_MS for group in scenario.groups]
    nodes = nodes_of(scenario)
    return replace(
        CALM,
        nodes=nodes,
        replication=replicas_of(scenario),
        members=0,
        groups=1,
        partitions=1,
        commit_interval_ms=scenario.commit_interval_ms,
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        session_timeout_ms=min(sessions),
        rebalance_timeout_ms=min(group.rebalance_timeout_ms for group in scenario.groups),
        replica_heartbeat_ms=50,
        replica_lease_ms=150,
        replica_election_ms=1_000,
        shuns_broken=True,
        configs=scenario.broker_configs(),
        racks=scenario.racks,
    )


class _Play:
    """One run of one scenario."""

    def __init__(
        self, scenario: Scenario, plan: ScenarioPlan, say: Callable[[int, str], None]
    ) -> None:
        self._scenario = scenario
        self._plan = plan
        self._told = say
        self._marks: list[tuple[int, str]] = []
        self._missed: list[str] = []
        self._faults = FaultLog()
        self._groups = {group.name: group for group in scenario.groups}
        self._ids = {name: _prefix(group) + name for name, group in self._groups.items()}
        self._world = World(scenario.seed, _settings(scenario))
        self._cluster = SimulatedCluster(self._world, [])
        self._clients = self._cluster.clients
        self._clients.partitions_of.update(scenario.partitions_of())
        self._lives: dict[Life, SimulatedMember] = {}
        self._times: dict[Life, LifeTimes] = {}
        self._cuts: Counter[tuple[int, int]] = Counter()
        self._freezes: Counter[tuple[int, int]] = Counter()

    def run(self) -> ScenarioRecord:
        world, scenario = self._world, self._scenario
        self._cluster.form()
        self._wait(self._cluster.unconverged, FORM_MS, "ready for the members")
        self._clients.drivers = []
        self._learn_topics()
        for step in self._plan.steps:
            world.after(step.due_ms, self._act, step.life, step.action)
        for due_ms, text in self._plan.marks:
            world.after(due_ms, self._say, due_ms, text)
        for fault in scenario.faults:
            world.after(fault.at, self._fault, fault, fault.at)
        began_ms = world.client_now
        self._reader = SimulatedReader(scenario, self._cluster, self._ids)
        world.run(world.now + scenario.duration)
        ended_ms = world.client_now
        self._settle()
        self._reader.end()
        lives = [self._record(life) for life in self._lives]  # the reads take some time
        last = self._last_reads()
        self._reader.kept.add_last(last)
        return ScenarioRecord(
            lives=lives,
            changed_ms=began_ms + self._plan.changed_ms,
            ended_ms=ended_ms,
            committed=committed_in(last),
            partitions=scenario.partitions_by_group(),
            sessions=session_timeouts(scenario),
            began_ms=began_ms,
            marks=tuple(self._marks),
            missed=tuple(self._missed),
            faults=self._faults.all(),
            reads=self._reader.kept.all(),
        )

    def _say(self, at_ms: int, text: str) -> None:
        self._marks.append((at_ms, text))
        self._told(at_ms, text)

    # --- steps

    def _act(self, life: Life, action: MemberAction) -> None:
        MEMBER_ACTIONS[type(action)](self, life, action)

    def start(self, life: Life, _action: Start) -> None:
        group = self._groups[life.group]
        config = settings_of(group, life, self._ids[life.group])
        spec = MemberSpec(config, commit_interval_ms=self._scenario.commit_ms(group))
        self._times[life] = LifeTimes(self._world.client_now)
        self._lives[life] = self._clients.another(spec, str(life))

    def leave(self, life: Life, action: Leave) -> None:
        self._times[life].ended_ms = self._world.client_now
        self._lives[life].leave(action.reason)

    def kill(self, life: Life, _action: Vanish) -> None:
        self._times[life].ended_ms = self._world.client_now
        self._lives[life].vanish()

    def freeze(self, life: Life, _action: Freeze) -> None:
        self._lives[life].freeze()

    def thaw(self, life: Life, _action: Thaw) -> None:
        self._lives[life].thaw()

    def subscribe(self, life: Life, action: Subscribe) -> None:
        self._times[life].subscribed_ms.append(self._world.client_now)
        self._lives[life].subscribe(action.topics)

    # --- faults

    def _fault(self, fault: Fault, due_ms: int) -> None:
        """Inflict a fault; if no node can suffer it now, try again for a while."""
        node = self._target(fault)
        if node is not None:
            number = self._faults.began(due_ms, word_of(fault), node)
            self._say(due_ms, self._faults.said(number))
            FAULTS[type(fault)](self, node, fault)
            if (lasts_ms := getattr(fault, "lasts", None)) is not None:
                self._world.after(lasts_ms, self._faults.ended, number, due_ms + lasts_ms)
            self._reader.hurry()
            return
        later = retry(fault, self._scenario, due_ms, due_ms)
        if later.sentence:
            self._say(due_ms, later.sentence)
        if later.again_ms is not None:
            self._world.after(later.again_ms - due_ms, self._fault, fault, later.again_ms)
        else:
            self._missed.append(later.sentence)

    def _target(self, fault: Fault) -> int | None:
        """Return the node that a fault hits: the coordinator of its group, or that it names."""
        if fault.node is not None:
            return fault.node if self._cluster.processes[fault.node].is_alive else None
        group_id = self._ids[fault.group or self._scenario.groups[0].name]
        number = partition_for(group_id, self._world.settings.partitions)
        return next((p.node_id for p in self._cluster.processes if p.leads(number)), None)

    def restart_coordinator(self, node_id: int, fault: RestartCoordinator) -> None:
        self._cluster.drain(node_id)
        self._world.after(DRAIN_MS, self._end_drained, node_id, away_ms(fault))

    def _end_drained(self, node_id: int, until_start_ms: int) -> None:
        self._cluster.stop(node_id)
        self._world.after(until_start_ms, self._cluster.start, node_id)

    def kill_coordinator(self, node_id: int, fault: KillCoordinator) -> None:
        process = self._cluster.processes[node_id]
        process.kill(process.log.unsynced, 1)
        self._world.after(away_ms(fault), self._cluster.start, node_id)

    def freeze_coordinator(self, node_id: int, fault: FreezeCoordinator) -> None:
        process = self._cluster.processes[node_id]
        frozen = (node_id, process.life)
        self._freezes[frozen] += 1
        process.pause(0)
        self._world.after(fault.lasts, self._end_freeze, *frozen)

    def _end_freeze(self, node_id: int, life: int) -> None:
        self._freezes[node_id, life] -= 1
        if not self._freezes[node_id, life]:
            self._cluster.processes[node_id].thaw(life)

    def cut_coordinator(self, node_id: int, fault: CutCoordinator) -> None:
        others = [p.node_id for p in self._cluster.processes if p.node_id != node_id]
        cuts = [(node_id, other) for other in others]
        cuts += [(other, node_id) for other in others]
        self._cuts.update(cuts)
        self._cluster.network.sever(cuts)
        self._world.after(fault.lasts, self._end_cut, cuts)

    def _end_cut(self, cuts: Sequence[tuple[int, int]]) -> None:
        self._cuts.subtract(cuts)
        self._cluster.network.mend([pair for pair in cuts if not self._cuts[pair]])

    # --- state

    def _learn_topics(self) -> None:
        """Tell the members the names of topic ids, which real clients ask for."""
        host = next(each.host for each in self._cluster.processes if each.host is not None)
        topics = host.view.catalog.topics
        for name in self._scenario.topics:
            topic = topics.by_name(name)
            assert topic is not None
            self._clients.topic_names[topic.topic_id] = name

    def _wait(self, unconverged: Callable[[], str], within_ms: int, what: str) -> None:
        deadline = self._world.now + within_ms
        while why := unconverged():
            if self._world.now >= deadline:
                raise DrillError(f"Not {what} after {within_ms} ms: {why}.")
            self._world.run(self._world.now + POLL_MS)

    def _settle(self) -> None:
        """Let the groups finish their rebalances; the verdict says what they never finish."""
        deadline = self._world.now + SETTLE_MS
        while self._world.now < deadline and self._unowned():
            self._world.run(self._world.now + POLL_MS)

    def _unowned(self) -> bool:
        present = ((life, d.member.partitions) for life, d in self._lives.items() if not d.is_gone)
        return has_unowned(self._scenario, present)

    def _record(self, life: Life) -> LifeRecord:
        driver, times = self._lives[life], self._times[life]
        is_here = times.ended_ms is None and not driver.is_gone
        seen_ms = self._world.client_now if is_here else None
        return life_record(life, driver.member, times, seen_ms)

    def _last_reads(self) -> list[OffsetsRead]:
        self._clients.commits = False
        self._world.run(self._world.now + POLL_MS * 10)
        names = {
            self._ids[name]: name
            for name, group in self._groups.items()
            if group.protocol is not Protocol.SHARE
        }
        administrator, asked_ms = self._cluster.administrator, self._world.client_now
        administrator.unread = set(names)
        for _ in range(READS_MAX):
            administrator.read_all()
            self._world.run(self._world.now + READ_MS)
            if not administrator.unread:
                by_group: dict[str, dict[TopicPartition, int]] = {id_: {} for id_ in names}
                for (group_id, topic, index), offset in administrator.offsets.items():
                    by_group[group_id][topic, index] = offset
                return [
                    OffsetsRead(names[group_id], asked_ms, self._world.client_now, offsets)
                    for group_id, offsets in by_group.items()
                ]
        raise DrillError("The committed offsets cannot be read.")


MEMBER_ACTIONS: Final[Mapping[type, Callable[[Any, Life, Any], None]]] = {
    Start: _Play.start,
    Leave: _Play.leave,
    Vanish: _Play.kill,
    Freeze: _Play.freeze,
    Thaw: _Play.thaw,
    Subscribe: _Play.subscribe,
}
"""How the simulator carries out each step of a plan."""

FAULTS: Final[Mapping[type, Callable[[Any, int, Any], None]]] = {
    KillCoordinator: _Play.kill_coordinator,
    RestartCoordinator: _Play.restart_coordinator,
    FreezeCoordinator: _Play.freeze_coordinator,
    CutCoordinator: _Play.cut_coordinator,
}
"""How the simulator carries out each fault."""
