"""One turn of a coordinator: take requests, write, send, answer, report and set the timer.

This is the only place that carries out what a host decides. The process
(``actors/coordinator/pump.py``), the simulator (``failover/simulation/nodes/process.py``) and the
tests all call it; they differ in the ports they pass in, never in the order.

A :class:`storage.log.LogError` other than a full disk propagates out of both halves of a turn:
memory and disk may then differ, and the process must restart from its log.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from failover.full_disk import Backlog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from failover.effects import Effects
    from failover.full_disk import TurnWrites
    from failover.host import Host
    from failover.ports import Ports
    from protocol.groups.effects import Request

ROOM_AGAIN: Final = "there is room on the disk again: everything is written"


class Turn:
    """Runs the turns of one host."""

    def __init__(self, host: Host, ports: Ports) -> None:
        self.host = host
        self._ports = ports
        self._backlog = Backlog(ports.log)
        self._written = -1
        self._unsynced: deque[int] = deque()
        self._is_syncing = False
        self._covers = -1
        self._persisted = -1

    def receive(self, request: Request) -> None:
        """Pass a client's request to the host, or refuse it when it needs space on a full disk."""
        refusal = self._backlog.refusal(request)
        if refusal is None:
            self.host.receive(request, self._ports.clock.now())
        else:
            self._ports.answers.answer(refusal)

    def synced(self) -> None:
        """Note that the sync in progress is done; the next turn continues from there."""
        self._is_syncing = False
        self.host.syncs.ended(self._ports.clock.now())
        while self._unsynced and self._unsynced[0] <= self._covers:
            self._unsynced.popleft()

    def take(self) -> bool:
        """Serve clients, then carry out what the host decided; True when requests still wait."""
        requests_wait = self.serve()
        self.carry_out()
        return requests_wait

    def serve(self) -> bool:
        """Serve clients for a limited time: the first half of a turn; True if others still wait.

        The driver may pass other events to the host, or answer repeated requests, before the second
        half. What was decided here is neither written nor answered until then.
        """
        return self._ports.answers.serve()

    def carry_out(self) -> None:
        """Carry out what the host decided, in this order: the second half of a turn.

        Send to peers and forward: none of that depends on data that is not on disk yet. Write.
        Queue answers, start tasks, report facts; repeat until the host has nothing more to do. Then
        start to sync what was written, unless a sync is in progress: the next one covers everything
        written until then. At the end flush the answers and set the timer.
        """
        ports = self._ports
        self._retry(ports.clock.now())
        now = self._drain()
        while self._begin_sync():
            now = self._drain()
        ports.answers.flush()
        ports.timer.arm(_first(self.host.next_deadline(), self._backlog.retry_ms), now)

    def _drain(self) -> int:
        """Carry out what the host decided, until there is nothing left; return the time."""
        host, clock = self.host, self._ports.clock
        now = clock.now()
        self._tell_persisted(now)
        while effects := host.drain(now):
            self._carry_out(effects, now)
            now = clock.now()
            self._tell_persisted(now)
        return now

    def _carry_out(self, effects: Effects, now: int) -> None:
        ports = self._ports
        for node_id, messages in effects.messages.items():
            ports.peers.send(node_id, messages)
        for forward in effects.forwards:
            ports.peers.forward(forward)
        if effects.writes:
            self._took(self._backlog.write(effects, now))
            self.host.disk_is_full = self._backlog.is_full
        for reply in effects.replies:
            ports.answers.answer(reply)
        for partition, task in effects.tasks:
            ports.tasks.submit(partition, task)
        for fact in effects.facts:
            ports.facts.observe(fact)
        for sentence in effects.notes:
            ports.facts.note(sentence)

    def _retry(self, now: int) -> None:
        """Retry the writes that wait for disk space, when the retry is due."""
        if units := self._backlog.retry(now):
            self._took(units)
            self._ports.facts.note(ROOM_AGAIN)
            self.host.disk_is_full = False

    def _took(self, units: Sequence[TurnWrites]) -> None:
        """Count units that are now in the log."""
        for unit in units:
            self._written = unit.number
            if unit.sync:
                self._unsynced.append(unit.number)

    def _tell_persisted(self, now: int) -> None:
        """Tell the host which units are on disk: all before the first that still needs a sync."""
        through = self._unsynced[0] - 1 if self._unsynced else self._written
        if through > self._persisted:
            self._persisted = through
            self.host.persisted(now, through)

    def _begin_sync(self) -> bool:
        """Start a sync if one is needed and none is in progress; True when it is already done."""
        if self._is_syncing or not self._unsynced:
            return False
        self._is_syncing, self._covers = True, self._written
        self.host.syncs.began(self._ports.clock.now())
        if self._ports.log.sync():
            self.synced()
            return True
        return False


def _first(*deadlines_ms: int | None) -> int | None:
    return min((deadline for deadline in deadlines_ms if deadline is not None), default=None)
