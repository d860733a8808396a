"""Drills in the simulator: the same TOML files that ``rollcall drill`` runs on a live cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from failover.control.leadership_planner import LOOK_MS
from failover.drills.checked import DrillError
from failover.drills.drill import FAULTS, Action, Condition, Drill, DrillStep, Target, named
from failover.drills.verdict import DrillRecord, MemberTimeline, Verdict, judge
from failover.routing import partition_for
from failover.simulation.cluster import SimulatedCluster
from failover.simulation.event_log import Violation
from failover.simulation.one_seed import small_logs
from failover.simulation.settings import CALM
from failover.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from failover.simulation.clients.members import MemberSpec, SimulatedMember
    from failover.simulation.event_log import EventLog

PREFIX: Final = "drill"
STABLE_MS: Final = 120_000
WARM_UP_MS: Final = 3_000
POLL_MS: Final = 50
RESTART_MS: Final = 1_500
"""How long a killed process is away by default: what a live cluster needs to start one."""

MEMBERS_MAX: Final = 120
"""A drill with more members is reduced to this many."""


@dataclass(frozen=True, slots=True)
class DrillReport:
    """The result of a drill: the verdict, or the violation that ended it."""

    verdict: Verdict | None
    violation: Violation | None
    story: EventLog

    @property
    def passed(self) -> bool:
        """Whether no rule is broken and no cost exceeds its limit."""
        return self.verdict is not None and self.verdict.is_clean

    def __str__(self) -> str:
        if self.violation is not None:
            return f"{self.violation.subject}: {self.violation.text}"
        assert self.verdict is not None
        return self.verdict.text()


def run_drill(
    drill: Drill | str, seed: int = 0, members: int | None = None, *, tells: bool = False
) -> DrillReport:
    """Run a drill in virtual time; raises DrillError when a step's condition never holds."""
    if isinstance(drill, str):
        drill = named(drill)
    drill = drill.of_size(members or min(drill.workload.members, MEMBERS_MAX))
    if drill.does(Action.FILL_DISK):
        raise DrillError("The simulator's disks are never full.")
    workload = drill.workload
    settings = replace(
        CALM,
        members=workload.members,
        groups=workload.groups,
        topic_partitions=workload.partitions_each,
        commit_interval_ms=workload.commit_interval_ms,
        heartbeat_interval_ms=workload.heartbeat_interval_ms,
        session_timeout_ms=workload.session_timeout_ms,
        replica_heartbeat_ms=50,
        replica_lease_ms=150,
        replica_election_ms=1_000,
        look_ms=LOOK_MS,
        shuns_broken=True,
    )
    world = World(seed, settings, tells=tells)
    violation = verdict = None
    try:
        with small_logs():
            verdict = judge(drill, _Play(drill, world).run())
    except Violation as found:
        violation = found
        world.tell("", f"VIOLATION {found.subject}: {found.text}")
    return DrillReport(verdict, violation, world.story)


class _Play:
    """One run of one drill."""

    def __init__(self, drill: Drill, world: World) -> None:
        self._drill = drill
        self._world = world
        self._cluster = SimulatedCluster(world, drill.workload.configs(PREFIX))
        self._cluster.clients.drivers = []
        self._frozen: list[int] = []
        self._cuts: list[tuple[int, int]] = []
        self._fault_ms = 0
        self._last_fault = 0
        self._replicated_ms: int | None = None

    def run(self) -> DrillRecord:
        world, cluster = self._world, self._cluster
        cluster.form()
        self._wait(cluster.unconverged, STABLE_MS, "stable before the drill")
        world.run(world.now + WARM_UP_MS)
        for step in self._drill.steps:
            world.run(world.now + step.after_ms)
            if step.do in FAULTS and not self._fault_ms:
                self._fault_ms = world.client_now
            world.tell("", f"STEP {step}")
            ACTIONS[step.do](self, step)
            if step.do is not Action.WAIT:
                self._last_fault = world.now
                self._replicated_ms = None
            elif step.until is Condition.REPLICATED:
                self._replicated_ms = world.now - self._last_fault
        world.run(world.now + self._drill.workload.settle_ms)
        return DrillRecord(
            stories=self._stories(),
            committed=self._committed(),
            fault_ms=self._fault_ms,
            replicated_ms=self._replicated_ms,
        )

    def _wait(self, unconverged: Callable[[], str], within_ms: int, what: str) -> None:
        deadline = self._world.now + within_ms
        while why := unconverged():
            if self._world.now >= deadline:
                raise DrillError(f"Not {what} after {within_ms} ms: {why}.")
            self._world.run(self._world.now + POLL_MS)

    # --- steps

    def kill(self, step: DrillStep) -> None:
        if step.target is Target.CONTROLLER:
            self._cluster.supervisor.kill(RESTART_MS)
            return
        for node_id in self._nodes(step):
            process = self._cluster.processes[node_id]
            process.kill(process.log.unsynced, 1)
            if not self._drill.does(Action.START):
                self._world.after(RESTART_MS, self._cluster.start, node_id)

    def start(self, step: DrillStep) -> None:
        for process in self._cluster.processes:
            self._cluster.start(process.node_id)
        self._wait(self._unled, step.within_ms, "led by nodes that all serve")

    def freeze(self, step: DrillStep) -> None:
        self._frozen = self._nodes(step)
        for node_id in self._frozen:
            self._cluster.processes[node_id].pause(0)

    def thaw(self, _step: DrillStep) -> None:
        for node_id in self._frozen:
            process = self._cluster.processes[node_id]
            process.thaw(process.life)

    def cut(self, step: DrillStep) -> None:
        nodes = self._nodes(step)
        others = [p.node_id for p in self._cluster.processes if p.node_id not in nodes]
        self._cuts = [(a, b) for a in nodes for b in others]
        self._cuts += [(b, a) for a, b in self._cuts]
        self._cluster.network.sever(self._cuts)

    def mend(self, _step: DrillStep) -> None:
        self._cluster.network.mend(self._cuts)

    def lose_disk(self, step: DrillStep) -> None:
        for node_id in self._nodes(step):
            self._cluster.lose_disk(node_id)
            if not self._drill.does(Action.START):
                self._world.after(RESTART_MS, self._cluster.start, node_id)

    def roll(self, step: DrillStep) -> None:
        for node_id in self._nodes(step):
            process = self._cluster.processes[node_id]
            self._cluster.drain(node_id)
            self._wait(
                lambda process=process: "it leads" if process.leading() else "",  # type: ignore[misc]
                step.within_ms,
                "drained",
            )
            self._cluster.stop(node_id)
            self._world.run(self._world.now + RESTART_MS)
            self._cluster.start(node_id)
            self._wait(self._cluster.unreplicated, step.within_ms, "replicated")

    def slow_disk(self, step: DrillStep) -> None:
        for node_id in self._nodes(step):
            self._cluster.processes[node_id].slow_disk_ms = step.sync_ms

    def fast_disk(self, _step: DrillStep) -> None:
        for process in self._cluster.processes:
            process.slow_disk_ms = 0

    def restart_members(self, step: DrillStep) -> None:
        clients = self._cluster.clients
        specs = [spec for spec in clients.specs if spec.config.instance_id is not None]
        for spec in specs[: round(len(specs) * step.share)]:
            if spec.driver is not None:
                spec.driver.vanish()
            clients.start(spec)

    def join_members(self, step: DrillStep) -> None:
        workload, clients = self._drill.workload, self._cluster.clients
        each = max(1, round(step.share * workload.members / workload.groups))
        for number in range(each):
            for group_id in clients.group_ids:
                clients.join(workload.config(group_id, f"late-{number}", is_static=False))

    def wait(self, step: DrillStep) -> None:
        conditions = {
            Condition.LED: self._unled,
            Condition.REPLICATED: self._cluster.unreplicated,
            Condition.STABLE: self._cluster.clients.at_rest,
        }
        self._wait(conditions[step.until], step.within_ms, str(step.until))

    # --- values for steps

    def _nodes(self, step: DrillStep) -> list[int]:
        nodes = list(range(len(self._cluster.processes)))
        if step.target is Target.ALL:
            return nodes
        group_id = self._cluster.clients.group_ids[0]
        number = partition_for(group_id, self._world.settings.partitions)
        leader = next((p.node_id for p in self._cluster.processes if p.leads(number)), 0)
        if step.target is Target.LEADER:
            return [leader]
        others = [node_id for node_id in nodes if node_id != leader]
        return [leader, *others[: len(nodes) // 2]]

    def _unled(self) -> str:
        for number in self._cluster.numbers:
            if self._cluster.leader_of(number) is None:
                return f"partition {number} has no leader"
        return ""

    # --- final state

    def _stories(self) -> Sequence[MemberTimeline]:
        drivers = self._cluster.clients.drivers
        assert drivers is not None
        return [self._story(spec, driver) for spec, driver in drivers]

    def _story(self, spec: MemberSpec, driver: SimulatedMember) -> MemberTimeline:
        is_here = spec.driver is driver and not driver.is_gone
        return MemberTimeline(
            group_id=spec.config.group_id,
            name=spec.config.client_id,
            is_static=spec.config.instance_id is not None,
            events=driver.member.history,
            seen_ms=self._world.client_now if is_here else None,
            holds=driver.member.partitions if is_here else (),
        )

    def _committed(self) -> dict[tuple[str, str, int], int]:
        self._cluster.clients.commits = False
        self._world.run(self._world.now + WARM_UP_MS)
        administrator = self._cluster.administrator
        administrator.unread = set(self._cluster.clients.group_ids)
        for _ in range(20):
            administrator.read_all()
            self._world.run(self._world.now + POLL_MS)
            if not administrator.unread:
                return administrator.offsets
        raise DrillError("The committed offsets cannot be read.")


ACTIONS: Final[Mapping[Action, Callable[[Any, DrillStep], None]]] = {
    Action.KILL: _Play.kill,
    Action.START: _Play.start,
    Action.FREEZE: _Play.freeze,
    Action.THAW: _Play.thaw,
    Action.CUT: _Play.cut,
    Action.MEND: _Play.mend,
    Action.LOSE_DISK: _Play.lose_disk,
    Action.ROLL: _Play.roll,
    Action.SLOW_DISK: _Play.slow_disk,
    Action.FAST_DISK: _Play.fast_disk,
    Action.RESTART_MEMBERS: _Play.restart_members,
    Action.JOIN_MEMBERS: _Play.join_members,
    Action.WAIT: _Play.wait,
}
"""How the simulator carries out each action."""
