"""Rebalances of many members, of members that are slow, and just after a failover, as facts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from protocol.groups.facts import NamedMember, TakenOver
from tests.actors.telemetry.facts import NOW, reconciled, target_assigned

if TYPE_CHECKING:
    from protocol.groups.facts import Fact


def named(client_id: str) -> NamedMember:
    metadata = SimpleNamespace(client_id=client_id, client_host="/127.0.0.1", instance_id=None)
    return NamedMember(f"id-of-{client_id}", metadata)


def awaited_twice() -> list[Fact]:
    """A target that the next one overtakes: one member has it, another is awaited."""
    after = target_assigned(
        epoch_before=5,
        epoch_after=6,
        changed_ms=NOW + 1_000,
        started_ms=NOW + 1_000,
        computed_ms=NOW + 1_010,
        ended_ms=NOW + 1_020,
        taken_over=(TakenOver(NOW + 400, named("quick")),),
        awaited=(named("slow"),),
        awaited_count=1,
    )
    return [target_assigned(), after, reconciled(epoch=6, time_ms=NOW + 1_500)]


def of_many(members: int) -> list[Fact]:
    """A group of many members, whose last ten are known."""
    last = [TakenOver(NOW + 200 + each, named(f"m-{each}")) for each in range(10)]
    return [target_assigned(members=members), reconciled(members=members, taken_over=last)]
