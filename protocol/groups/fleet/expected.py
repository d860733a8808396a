"""The instances that a group expects: its first assignment waits for them, up to a limit.

Both are configs of the group. The wait takes the place of an initial rebalance delay: the first
assignment comes as soon as all of them have joined. It is soft state: after a change of leader a
group that has no assignment yet waits again, for the whole limit at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.groups import settings as group_settings
from protocol.groups.facts import ExpectedWait

if TYPE_CHECKING:
    from collections.abc import Container

    from protocol.groups.context import Context
    from protocol.groups.fleet.first_assignment import FirstAssignment

IDS: Final = "group.expected.instance.ids"
WAIT_MS: Final = "group.expected.instance.wait.ms"

NAMED_MAX: Final = 5
"""Instances that did not come which a report names."""


def ids(ctx: Context, group_id: str) -> tuple[str, ...]:
    """Return the instances that the group expects; none if it expects nobody."""
    return group_settings.own_strings(ctx, group_id, IDS)


def missing(ctx: Context, group_id: str, present: Container[str]) -> list[str]:
    """Return the expected instances that are not among those present."""
    return [each for each in dict.fromkeys(ids(ctx, group_id)) if each not in present]


def wait_ms(ctx: Context, group_id: str) -> int:
    """Return the longest wait."""
    return group_settings.own_integer(ctx, group_id, WAIT_MS)


def note(ctx: Context, group_id: str, first: FirstAssignment, instance_id: str | None) -> None:
    """Note an instance that joins during the wait."""
    if instance_id is not None and instance_id in ids(ctx, group_id):
        first.last = instance_id


def report(
    ctx: Context, group_id: str, first: FirstAssignment | None, present: Container[str]
) -> ExpectedWait | None:
    """Return what is told of a wait that is over; None: the group expected nobody."""
    if first is None:
        return None
    late = missing(ctx, group_id, present)
    named = tuple(late[:NAMED_MAX])
    return ExpectedWait(first.last, named, len(late) - len(named))
