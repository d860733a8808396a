"""The faults of a simulation: chosen by the seed, each kind at its own rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from failover.simulation.faults.schedule import FaultSchedule, Kinds, Pairs
from failover.simulation.kinds import STREAMS, allows_takeover, is_modern

if TYPE_CHECKING:
    from failover.simulation.clients.members import MemberSpec
    from failover.simulation.cluster import SimulatedCluster

GONE_MS = (300, 60_000)
PAUSED_MS = (50, 40_000)
CUT_MS = (500, 75_000)
TWO_AT_ONCE = 0.9
"""How often a second disk of five is lost with the first."""
ZOMBIE_MS = 5_000
"""A static member that may have been replaced commits once more within this time."""
LATE_NOTICE_MS = 30_000
"""How long peers take to notice that a whole machine is gone: its sockets are not closed."""


class Injector(FaultSchedule):
    """Injects faults from :meth:`begin` to :meth:`end`; then everything is repaired."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster, "faults", cluster.world.settings.faults)

    def begin(self) -> None:
        """Start every kind whose rate is not 0."""
        self._world.faulty = True
        self._cluster.checkers.replicated.upon_vote.append(self._voted)
        self._begin()

    def end(self) -> None:
        """Stop injecting; start what is dead, thaw what is frozen, mend what is cut."""
        self._is_on = False
        self._world.faulty = False
        network = self._cluster.network
        self._mend_all()
        network.cut_from_clients.clear()
        for process in self._cluster.processes:
            process.doom = 0
            process.thaw(process.life)
            self._cluster.start(process.node_id)
        self._cluster.supervisor.restore()

    def _victim(self) -> int:
        """Return a random node; half of the time one that leads a partition."""
        nodes = range(len(self._cluster.processes))
        leading = self._cluster.leading_nodes()
        if leading and self._rng.random() < 0.5:
            return self._rng.choice(leading)
        return self._rng.choice(nodes)

    def _voted(self, voter: int, candidate: int) -> None:
        """Kill the replica that just voted, and perhaps the candidate, so both must restart."""
        one_in = self._world.settings.faults.kill_voter
        if self._is_on and one_in and self._rng.random() < 1 / one_in:
            self._world.after(0, self._kill_shortly, voter)
            if self._rng.random() < 0.5:
                self._world.after(0, self._kill_one, candidate)

    def _kill_shortly(self, node_id: int) -> None:
        process = self._cluster.processes[node_id]
        if process.is_alive:
            self._world.fault("kill voter", f"node {node_id} dies right after its vote")
            process.kill(self._rng.randint(0, process.log.unsynced), 1)
            self._world.after(self._draw((20, 2_000)), self._cluster.start, node_id)

    # --- kinds

    def _kill(self) -> None:
        self._kill_one(self._victim())

    def _kill_one(self, node_id: int) -> None:
        process = self._cluster.processes[node_id]
        if not process.is_alive:
            return
        kept = self._rng.randint(0, process.log.unsynced)
        is_machine = self._rng.random() < 0.3
        gone_ms = self._draw(GONE_MS)
        self._world.fault("kill", f"node {node_id} dies, for {gone_ms} ms")
        process.kill(kept, self._draw((1, LATE_NOTICE_MS)) if is_machine else 1)
        self._world.after(gone_ms, self._cluster.start, node_id)

    def _kill_mid_turn(self) -> None:
        process = self._cluster.processes[self._victim()]
        if process.is_alive:
            process.doom = self._rng.randint(1, 12)
            process.died_mid_turn = self._start_later

    def _start_later(self, node_id: int) -> None:
        self._world.after(self._draw(GONE_MS), self._cluster.start, node_id)

    def _kill_all(self) -> None:
        for process in self._cluster.processes:
            self._kill_one(process.node_id)

    def _lose_disk(self, tries: int = 120) -> None:
        """Lose a disk once the cluster can afford that, which is rarely and briefly the case."""
        node_id = self._victim()
        if not self._is_on:
            return
        if not self._cluster.may_lose_disk():
            if tries:
                self._world.after(500, self._lose_disk, tries - 1)
        else:
            self._lose_disks(node_id, TWO_AT_ONCE, GONE_MS)

    def _pause(self) -> None:
        node_id, duration_ms = self._victim(), self._draw(PAUSED_MS)
        self._world.fault("pause", f"node {node_id} stands still for {duration_ms} ms")
        self._cluster.processes[node_id].pause(duration_ms)

    def _cut_node(self) -> None:
        node_id = self._victim()
        self._cut("cut", f"node {node_id} is cut off from its peers", self._links_of(node_id))

    def _cut_pair(self) -> None:
        one = self._victim()
        other = self._rng.choice([p.node_id for p in self._cluster.processes if p.node_id != one])
        text = f"nodes {one} and {other} are cut off from each other"
        self._cut("cut pair", text, [(one, other), (other, one)])

    def _cut_one_way(self) -> None:
        node_id = self._victim()
        others = [process.node_id for process in self._cluster.processes]
        others.remove(node_id)
        if self._rng.random() < 0.5:
            others = [self._rng.choice(others)]
        is_deaf = self._rng.random() < 0.5
        pairs = [(other, node_id) if is_deaf else (node_id, other) for other in others]
        text = ", ".join(f"{one} to {other}" for one, other in pairs)
        self._cut("cut one way", f"nothing passes from {text}", pairs)

    def _cut(self, kind: str, text: str, pairs: Pairs) -> None:
        duration_ms = self._draw(CUT_MS)
        self._world.fault(kind, f"{text}, for {duration_ms} ms")
        self._sever(pairs, duration_ms)

    def _cut_clients(self) -> None:
        node_id, duration_ms = self._victim(), self._draw(CUT_MS)
        self._world.fault("cut from clients", f"node {node_id}, for {duration_ms} ms")
        cut = self._cluster.network.cut_from_clients
        cut.add(node_id)
        self._world.after(duration_ms, cut.discard, node_id)

    def _link_reset(self) -> None:
        one, other = self._rng.sample(range(len(self._cluster.processes)), 2)
        self._world.fault("link reset", f"between nodes {one} and {other}")
        self._cluster.network.reset(one, other)

    def _controller(self) -> None:
        self._cluster.supervisor.trouble(self._draw(GONE_MS))

    def _admin(self) -> None:
        administrator = self._cluster.administrator
        if self._rng.random() < 0.3:
            administrator.create_another()
        else:
            administrator.read(self._rng.choice(self._cluster.clients.group_ids))

    def _call(self) -> None:
        self._cluster.callers.call()

    # --- members

    def _member(self) -> None:
        spec = self._rng.choice(self._cluster.clients.specs)
        driver = spec.driver
        if driver is None or driver.is_gone:
            return
        self._rng.choice(MEMBER_FAULTS)(self, spec)

    def _restart_member(self, spec: MemberSpec) -> None:
        """Restart its process: static members return with their id, before they expire.

        In a streams group nobody may take the place of one that has not left for a while.
        """
        assert spec.driver is not None
        self._world.fault("member restarts", spec.driver.name)
        if spec.config.group_id.startswith(STREAMS) and spec.config.instance_id is not None:
            spec.driver.leave()  # it returns when it has left
            return
        spec.driver.vanish()
        wait_ms = int(self._rng.random() * 6_000)
        self._world.after(wait_ms, self._cluster.clients.start_if_free, spec)

    def _crash_member(self, spec: MemberSpec) -> None:
        assert spec.driver is not None
        self._world.fault("member crashes", spec.driver.name)
        spec.driver.vanish()
        wait_ms = int(self._rng.random() * 2 * self._world.settings.session_timeout_ms)
        self._world.after(wait_ms, self._cluster.clients.start_if_free, spec)

    def _leave(self, spec: MemberSpec) -> None:
        assert spec.driver is not None
        self._world.fault("member leaves", spec.driver.name)
        spec.driver.leave()

    def _double_member(self, spec: MemberSpec) -> None:
        """Start a second member with the same instance id: the first is fenced.

        A member of the consumer protocol is not fenced, unless its group allows it. So the first
        ends after a while, and the second waits for that.
        """
        if spec.config.instance_id is not None:
            assert spec.driver is not None
            self._world.fault("member doubled", spec.driver.name)
            if is_modern(spec.config.group_id):
                self._world.after(int(self._rng.random() * ZOMBIE_MS), spec.driver.commit)
                takeover = self._world.settings.takeover and allows_takeover(spec.config.group_id)
                if not takeover:
                    wait_ms = int(self._rng.random() * self._world.settings.session_timeout_ms)
                    self._world.after(wait_ms, spec.driver.vanish)
            self._cluster.clients.start(spec)

    KINDS: ClassVar[Kinds] = {
        "kill": _kill,
        "kill_mid_turn": _kill_mid_turn,
        "kill_all": _kill_all,
        "lose_disk": _lose_disk,
        "pause": _pause,
        "cut_node": _cut_node,
        "cut_pair": _cut_pair,
        "cut_one_way": _cut_one_way,
        "cut_clients": _cut_clients,
        "link_reset": _link_reset,
        "controller": _controller,
        "member": _member,
        "admin": _admin,
        "call": _call,
    }


MEMBER_FAULTS = (
    Injector._restart_member,
    Injector._restart_member,
    Injector._crash_member,
    Injector._leave,
    Injector._double_member,
)
