"""One turn of a coordinator: what came in, what is written, sent, answered, told and waited for.

This is the only place that carries out what a host decides. The process (``actors/pump.py``), the
simulator (``failover/simulation/process.py``) and the tests all call it; they differ in the ports
they hand in, never in the order.

A :class:`storage.log.LogError` other
than a full disk leaves :meth:`Turn.take`: memory and disk may differ then, and the process must
start again from its log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from failover.full_disk import Backlog

if TYPE_CHECKING:
    from failover.effects import Effects
    from failover.host import Host
    from failover.ports import Ports
    from protocol.groups.effects import Reply, Request

ROOM_AGAIN: Final = "there is room on the disk again: everything is written"


class Turn:
    """Takes the turns of one host."""

    def __init__(self, host: Host, ports: Ports) -> None:
        self.host = host
        self._ports = ports
        self._backlog = Backlog(ports.log)

    def refusal(self, request: Request) -> Reply | None:
        """Return the answer to a request that the disk has no room for; None: ask the host."""
        return self._backlog.refusal(request)

    def take(self) -> bool:
        """Serve clients for a while, then carry out what the host decided, in this order.

        Write; then send, forward, answer, begin tasks, tell facts; again until the host has nothing
        more to do. At the end send the answers and set the timer. Return whether requests wait for
        the next turn.
        """
        host, ports = self.host, self._ports
        requests_wait = ports.answers.serve()
        now = ports.clock.now()
        self._retry(now)
        while effects := host.drain(now):
            self._write(effects, now)
            self._carry_out(effects)
        ports.answers.flush()
        ports.timer.arm(_first(host.next_deadline(), self._backlog.retry_ms), now)
        return requests_wait

    def _write(self, effects: Effects, now: int) -> None:
        if self._backlog.write(effects, now):
            self.host.persisted(now)
        else:
            self.host.disk_is_full = True

    def _retry(self, now: int) -> None:
        """Write what waits for room on a full disk, when it is time to try."""
        if self._backlog.retry(now):
            self._ports.facts.note(ROOM_AGAIN)
            self.host.disk_is_full = False
            self.host.persisted(now)

    def _carry_out(self, effects: Effects) -> None:
        ports = self._ports
        for node_id, messages in effects.messages.items():
            ports.peers.send(node_id, messages)
        for forward in effects.forwards:
            ports.peers.forward(forward)
        for reply in effects.replies:
            ports.answers.answer(reply)
        for partition, task in effects.tasks:
            ports.tasks.submit(partition, task)
        for fact in effects.facts:
            ports.facts.observe(fact)
        for sentence in effects.notes:
            ports.facts.note(sentence)


def _first(*deadlines_ms: int | None) -> int | None:
    return min((deadline for deadline in deadlines_ms if deadline is not None), default=None)
