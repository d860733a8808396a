"""The first target of a group waits for the instances that it expects (``fleet.expected``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.groups.fleet import expected
from protocol.groups.fleet.first_assignment import FirstAssignment

if TYPE_CHECKING:
    from protocol.groups.context import Context
    from protocol.groups.modern.runtime import ModernGroupRuntime


def begin(ctx: Context, runtime: ModernGroupRuntime, now: int) -> None:
    """Let the first target wait, if the group expects instances."""
    can_expect = runtime.group.kind.has_static_members
    is_due = can_expect and bool(expected.ids(ctx, runtime.group_id))
    runtime.first = FirstAssignment(now) if is_due else None


def joined(ctx: Context, runtime: ModernGroupRuntime, instance_id: str | None) -> None:
    """Note a member that joins while the first target waits."""
    if runtime.first is not None:
        expected.note(ctx, runtime.group_id, runtime.first, instance_id)


def due_ms(ctx: Context, runtime: ModernGroupRuntime, otherwise_ms: int) -> int:
    """Return when the target may be computed, if it may be at ``otherwise_ms`` without a wait."""
    first = runtime.first
    if first is None or not expected.missing(ctx, runtime.group_id, runtime.group.static_members):
        return otherwise_ms
    return max(otherwise_ms, first.since_ms + expected.wait_ms(ctx, runtime.group_id))
