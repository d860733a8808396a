"""Faults right after a vote, a vote request, or a change of voters: chosen by the seed.

Election rules matter at moments that faults at random times seldom hit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from failover.simulation.faults.schedule import FaultSource

if TYPE_CHECKING:
    from failover.simulation.cluster import SimulatedCluster
    from failover.simulation.nodes.process import Process
    from storage.messages import Vote

STALLED_MS: Final = (500, 20_000)
"""How long a voter stands still: up to a little longer than its leader waits for a majority."""

AGAIN_MS: Final = (1, 3_000)
"""When a vote request is repeated."""

LEAST_VOTERS: Final = 3
ALONE_MS: Final = (8_000, 60_000)
GONE_MS: Final = (20, 4_000)
TRY_MS: Final = 500
TWO_AT_ONCE: Final = 0.5
TRIES: Final = 60


class TermInjector(FaultSource):
    """Injects faults at the changes of a term until :meth:`end`."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster, "term faults")
        self._rates = cluster.world.settings.term_faults
        self._can_be_undone = cluster.world.settings.replication > LEAST_VOTERS

    def begin(self) -> None:
        """Start every kind whose rate is not 0."""
        self._is_on = True
        replicated, rates = self._cluster.checkers.replicated, self._rates
        if rates.stall_voter:
            replicated.upon_vote.append(self._voted)
        if rates.repeat_question:
            replicated.upon_question.append(self._asked)
        if rates.lone_changer or self._can_be_undone:
            replicated.upon_change.append(self._changed)
        if self._can_be_undone:
            self._lose_early(TRIES)

    def end(self) -> None:
        """Stop injecting, and mend what is cut."""
        self._is_on = False
        self._mend_all()

    def _is_met(self, one_in: int) -> bool:
        return self._is_on and self._rng.random() < 1 / one_in

    # --- votes

    def _voted(self, voter: int, _candidate: int) -> None:
        """Freeze a voter right after its vote: the leader it elects is alone with learners.

        More often while a disk is missing: only then are there learners.
        """
        if not self._is_on:
            return
        one_in = 2 if self._cluster.incomplete() else self._rates.stall_voter
        if self._is_met(one_in):
            self._world.after(0, self._stall, voter)

    def _stall(self, node_id: int) -> None:
        duration_ms = self._draw(STALLED_MS)
        self._world.fault("voter stalls", f"node {node_id} after its vote, for {duration_ms} ms")
        self._cluster.processes[node_id].pause(duration_ms)

    def _asked(self, process: Process, node_id: int, vote: Vote) -> None:
        """Repeat a vote request, as happens when a link comes back."""
        if self._is_met(self._rates.repeat_question):
            self._world.after(self._draw(AGAIN_MS), self._ask_again, process, node_id, vote)

    def _ask_again(self, process: Process, node_id: int, vote: Vote) -> None:
        if process.is_alive:
            self._world.fault("vote asked again", f"node {process.node_id} asks node {node_id}")
            self._cluster.network.send(process, node_id, [vote])

    # --- voters

    def _changed(self, process: Process) -> None:
        """Isolate or kill a leader that has just started to change the voters.

        With three voters the others can elect no leader while one disk is missing; with five they
        can, and the change is undone.
        """
        if not self._is_met(2 if self._can_be_undone else self._rates.lone_changer):
            return
        if self._can_be_undone:
            self._world.after(0, self._isolate, process.node_id)
            return
        if self._rng.random() < 0.5:
            self._world.after(0, self._isolate, process.node_id)
        else:
            self._world.after(0, self._kill, process.node_id)

    def _lose_early(self, tries: int) -> None:
        """Lose one or two disks of five as soon as the cluster can afford it."""
        if not self._is_on or not tries:
            return
        if not self._cluster.may_lose_disk():
            self._world.after(TRY_MS, self._lose_early, tries - 1)
            return
        node_id = self._rng.choice(self._cluster.processes).node_id
        self._lose_disks(node_id, TWO_AT_ONCE, GONE_MS)

    def _isolate(self, node_id: int) -> None:
        duration_ms = self._draw(ALONE_MS)
        self._world.fault("change alone", f"node {node_id} is cut off, for {duration_ms} ms")
        self._sever(self._links_of(node_id), duration_ms)

    def _kill(self, node_id: int) -> None:
        process = self._cluster.processes[node_id]
        if process.is_alive:
            self._world.fault("change and death", f"node {node_id} dies as it changes the voters")
            process.kill(process.log.unsynced, 1)
            self._world.after(self._draw(GONE_MS), self._cluster.start, node_id)
