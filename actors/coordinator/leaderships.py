"""Sees which partitions a coordinator begins or stops to lead; logs each with its reason.

A turn in which no leader has changed costs one comparison. Changes are gathered for a moment, so
that those of many partitions share lines.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from actors.clock import wall_ms
from actors.logs.leader_changes import ChangeReason, LeaderChange, leader_messages
from protocol.reasons import reason

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Mapping

    from actors.telemetry.leader_metrics import LeaderMetrics
    from failover.host import Host
    from failover.partitions.partition import Partition

_log = logging.getLogger("rollcall.coordinator")

GATHER_S: Final = 0.25
MOVE_MS: Final = 10_000
"""After this time the controller's request to hand a partition over no longer explains an end."""

NOBODY: Final = -1


class Leaderships:
    """What one host leads. ``linked`` returns the nodes that it can reach."""

    def __init__(
        self,
        host: Host,
        loop: asyncio.AbstractEventLoop,
        metrics: LeaderMetrics,
        linked: Callable[[], Collection[int]],
        clock: Callable[[], int] = wall_ms,
    ) -> None:
        self._host = host
        self._me = host.identity.node_id
        self._loop = loop
        self._metrics = metrics
        self._linked = linked
        self._clock = clock
        self._seen: Mapping[int, int] | None = None
        self._led: dict[int, int] = {}
        self._leaders: dict[int, int] = {}
        self._stands: set[int] = set()
        self._moves: dict[int, tuple[int, int]] = {}
        self._changes: list[LeaderChange] = []
        self._timer: asyncio.TimerHandle | None = None

    def advised(self, partition: int) -> None:
        """Note that the controller asked this node to stand for election."""
        self._stands.add(partition)

    def asked_to_move(self, partition: int, node_id: int) -> None:
        """Note that the controller asked this node to hand a partition over."""
        self._moves[partition] = node_id, self._clock()

    def look(self) -> None:
        """Look for changes, after each turn."""
        leaders = self._host.view.leaders  # another object once a leader has changed
        if leaders is self._seen:
            return
        self._seen = leaders
        try:
            self._compare()
        except Exception as error:
            _log.warning("a change of leaders could not be told: %s", reason(error))

    def close(self) -> None:
        """Log what is not logged yet, and that nothing is led any more."""
        for number, epoch in self._led.items():
            self._add(number, epoch, begins=False, why=ChangeReason.STOPPED)
        self._led = {}
        if self._timer is not None:
            self._timer.cancel()
        self._tell()

    def _compare(self) -> None:
        led = {}
        for partition in self._host.partitions:
            number = partition.number
            epoch, claimed = partition.leader
            leader = self._host.leader_of(number)
            before = self._led.get(number)
            if leader == claimed == self._me:
                led[number] = epoch
            if before is not None and led.get(number) != before:
                self._ended(partition, before)
            if number in led and led[number] != before:
                self._began(partition, epoch)
            if leader != NOBODY:
                self._leaders[number] = leader
                self._stands.discard(number)
        self._led = led

    def _began(self, partition: Partition, epoch: int) -> None:
        before = self._leaders.get(partition.number, NOBODY)
        self._metrics.began(partition.number)
        why = self._reason_of_election(partition, before)
        self._add(partition.number, epoch, begins=True, why=why, node=before)

    def _reason_of_election(self, partition: Partition, before: int) -> ChangeReason:
        if [voter.node_id for voter in partition.replica.voters] == [self._me]:
            return ChangeReason.ALONE
        if before == self._me:
            return ChangeReason.AGAIN
        if before != NOBODY and partition.replica.was_named:
            return ChangeReason.HANDED_OVER
        if before != NOBODY and before not in self._linked():
            return ChangeReason.UNREACHABLE
        if partition.number in self._stands:
            return ChangeReason.ADVISED
        return ChangeReason.NO_LEADER if before == NOBODY else ChangeReason.SILENT

    def _ended(self, partition: Partition, epoch: int) -> None:
        number = partition.number
        to, asked_ms = self._moves.pop(number, (NOBODY, 0))
        if self._clock() - asked_ms > MOVE_MS:
            to = NOBODY
        self._metrics.ended(number)
        why = self._reason_of_end(partition, epoch, to)
        self._add(number, epoch, begins=False, why=why, node=to)

    def _reason_of_end(self, partition: Partition, epoch: int, to: int) -> ChangeReason:
        if not partition.is_voter:
            return ChangeReason.NO_VOTER
        if self._host.draining:
            return ChangeReason.DRAINED
        if self._host.disk_is_full:
            return ChangeReason.DISK_FULL
        if to != NOBODY:
            return ChangeReason.MOVED
        return ChangeReason.NO_MAJORITY if partition.leader[0] == epoch else ChangeReason.SUPERSEDED

    def _add(
        self, partition: int, epoch: int, *, begins: bool, why: ChangeReason, node: int = NOBODY
    ) -> None:
        self._changes.append(
            LeaderChange(
                partition=partition,
                epoch=epoch,
                at_ms=self._clock(),
                begins=begins,
                reason=why,
                node=node,
            )
        )
        if self._timer is None:
            self._timer = self._loop.call_later(GATHER_S, self._tell)

    def _tell(self) -> None:
        self._timer = None
        changes, self._changes = self._changes, []
        for line, fields in leader_messages(map(self._with_leader, changes)):
            _log.info("%s", line, extra=dict(fields))

    def _with_leader(self, change: LeaderChange) -> LeaderChange:
        """Add to the end of a leadership who leads instead, if that is known by now."""
        leader = self._host.leader_of(change.partition)
        if change.begins or leader == self._me:
            return change
        return replace(change, leader=leader)
