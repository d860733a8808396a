"""Carries out the steps of a drill on a running cluster, one after the other."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from actors.errors import CommandError
from actors.telemetry.run_traces import RunStep
from bench.load.driver import now_ms
from bench.load.live import LiveLoad
from bench.load.observed_rehearsal import ObservedRehearsal
from bench.load.rehearsal import STABLE_MS_MAX, Rehearsal
from bench.servers import cleanup
from failover.drills.checked import DrillError
from failover.drills.drill import FAULTS, UNTIL_WHOLE, Action, Condition, DrillStep, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.load.rehearsal import Members, RehearsalLog
    from bench.servers.live_cluster import LiveCluster
    from failover.drills.drill import Drill
    from failover.drills.verdict import Verdict


class DrillRun:
    """One run of one drill on one cluster, with members of its own or watching ``group_ids``."""

    def __init__(
        self,
        drill: Drill,
        live: LiveCluster,
        group_ids: Sequence[str] = (),
        log: RehearsalLog | None = None,
    ) -> None:
        self.drill = drill
        self.live = live
        self._rehearsal: Rehearsal = (
            ObservedRehearsal(drill, live, group_ids, log)
            if group_ids
            else Rehearsal(drill, live, log)
        )

    def play(self) -> Verdict:
        """Let the members join, carry out every step, and judge."""
        try:
            self.live.wait(self.live.is_replicated, STABLE_MS_MAX, "replicated")
        except DrillError:
            raise DrillError(
                f"Not all replicas were in sync within {STABLE_MS_MAX / 1000:g} s, so nothing was"
                " harmed: `rollcall status` says which are not."
            ) from None
        return self._rehearsal.play(self._carry_out)

    def clean_up(self) -> None:
        """Delete the drill's groups and topics from the cluster; log what could not be deleted."""
        try:
            left = cleanup.remove(
                self.live.bootstrap, self._rehearsal.group_ids, self._rehearsal.group_ids
            )
        except CommandError as error:
            print(
                f"rollcall: The drill's groups and topics could not be deleted: {error}",
                file=sys.stderr,
            )
            return
        if left:
            print(
                f"rollcall: Not deleted after the drill: {', '.join(left)}.",
                file=sys.stderr,
            )

    def _carry_out(self, members: Members) -> None:
        for step in self.drill.steps:
            self._run_step(step, members)

    def _run_step(self, step: DrillStep, members: Members) -> None:
        rehearsal = self._rehearsal
        time.sleep(step.after_ms / 1000)
        if step.do in FAULTS:
            rehearsal.fault_begins()
        began_ms = now_ms()
        done = ACTIONS[step.do](self, step, members)
        rehearsal.log.steps.append(RunStep(step.do, began_ms, now_ms(), f"{step}{done}"))
        if step.do in UNTIL_WHOLE:
            rehearsal.fault_ends()
        elif step.do is Action.WAIT and step.until is Condition.REPLICATED:
            rehearsal.is_replicated()
        rehearsal.say(f"{step}{done}")

    def kill(self, step: DrillStep, _members: Members) -> str:
        """End processes at once."""
        if step.target is Target.CONTROLLER:
            return f" (process {self.live.kill_controller()})"
        nodes = self._nodes(step)
        return _targets(nodes, self.live.kill(nodes))

    def start(self, step: DrillStep, _members: Members) -> str:
        """Wait until the killed processes are back; Ray restarts them."""
        self.live.wait(self.live.is_led, step.within_ms, "led by nodes that all serve")
        return ""

    def freeze(self, step: DrillStep, _members: Members) -> str:
        """Stop processes without ending them."""
        nodes = self._nodes(step)
        return _targets(nodes, self.live.freeze(nodes))

    def thaw(self, _step: DrillStep, _members: Members) -> str:
        """Resume them."""
        self.live.thaw()
        return ""

    def cut(self, step: DrillStep, _members: Members) -> str:
        """Cut nodes off from their peers."""
        nodes = self._nodes(step)
        self.live.cut(nodes)
        return _targets(nodes, ())

    def mend(self, _step: DrillStep, _members: Members) -> str:
        """Restore all links."""
        self.live.mend()
        return ""

    def lose_disk(self, step: DrillStep, _members: Members) -> str:
        """Kill nodes and delete their data."""
        nodes = self._nodes(step)
        return _targets(nodes, self.live.lose_disk(nodes))

    def roll(self, step: DrillStep, _members: Members) -> str:
        """Restart nodes one by one, as an operator does."""
        nodes = self._nodes(step)
        for node_id in nodes:
            self.live.roll(node_id, step.within_ms)
            self._rehearsal.say(f"node {node_id} was drained and is back")
        return ""

    def fill_disk(self, step: DrillStep, _members: Members) -> str:
        """Fill the disk."""
        nodes = self._nodes(step)
        return _targets(nodes, ()) + f", {self.live.fill_disk(nodes) >> 20} MiB filled"

    def free_disk(self, _step: DrillStep, _members: Members) -> str:
        """Free the disk."""
        self.live.free_disk()
        return ""

    def slow_disk(self, step: DrillStep, _members: Members) -> str:
        """Slow down syncs."""
        nodes = self._nodes(step)
        self.live.slow_disk(nodes, step.sync_ms)
        return _targets(nodes, ()) + f", {step.sync_ms} ms for each sync"

    def fast_disk(self, _step: DrillStep, _members: Members) -> str:
        """Restore the normal speed of syncs."""
        self.live.slow_disk(self.live.nodes, 0)
        return ""

    def restart_members(self, step: DrillStep, members: Members) -> str:
        """Restart static members."""
        count = _own(members).restart_static(step.share)
        if not count:
            raise DrillError("No member was restarted: none of them is static.")
        return f" ({count} static members)"

    def join_members(self, step: DrillStep, members: Members) -> str:
        """Let dynamic members join every group."""
        workload = self.drill.workload
        each = max(1, round(step.share * workload.members / workload.groups))
        _own(members).join(
            [
                workload.config(group_id, f"late-{number}", is_static=False)
                for number in range(each)
                for group_id in self._rehearsal.group_ids
            ]
        )
        return f" ({each} into each group)"

    def wait(self, step: DrillStep, members: Members) -> str:
        """Wait for a condition."""
        holds = {
            Condition.LED: self.live.is_led,
            Condition.REPLICATED: self.live.is_replicated,
            Condition.STABLE: members.is_stable,
        }[step.until]
        try:
            self.live.wait(holds, step.within_ms, step.until)
        except DrillError as error:
            raise DrillError(f"{error} Members by state: {members.counts()}.") from None
        return ""

    def _nodes(self, step: DrillStep) -> tuple[int, ...]:
        return self.live.find(step.target, self._rehearsal.group_ids[0])


ACTIONS: Final[Mapping[Action, Callable[[DrillRun, DrillStep, Members], str]]] = {
    Action.KILL: DrillRun.kill,
    Action.START: DrillRun.start,
    Action.FREEZE: DrillRun.freeze,
    Action.THAW: DrillRun.thaw,
    Action.CUT: DrillRun.cut,
    Action.MEND: DrillRun.mend,
    Action.LOSE_DISK: DrillRun.lose_disk,
    Action.ROLL: DrillRun.roll,
    Action.FILL_DISK: DrillRun.fill_disk,
    Action.FREE_DISK: DrillRun.free_disk,
    Action.SLOW_DISK: DrillRun.slow_disk,
    Action.FAST_DISK: DrillRun.fast_disk,
    Action.RESTART_MEMBERS: DrillRun.restart_members,
    Action.JOIN_MEMBERS: DrillRun.join_members,
    Action.WAIT: DrillRun.wait,
}
"""How a live cluster carries out each action; each returns further text for the report."""


def _own(members: Members) -> LiveLoad:
    if not isinstance(members, LiveLoad):
        raise DrillError("Members that are only watched are not started or stopped.")
    return members


def _targets(nodes: Sequence[int], pids: Sequence[int]) -> str:
    words = f" (node {', '.join(map(str, nodes))}"
    return words + (f", process {', '.join(map(str, pids))})" if pids else ")")
