"""Check after every committed batch that no process of a streams group has a task twice.

A standby or warm-up task is of use only on another process than the active task (KIP-1071).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from failover.simulation.event_log import Violation
from protocol.groups.modern.form import role_of
from protocol.groups.streams.task_numbers import task_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.groups.topic_numbers import Partition, TopicNumbers


def check_processes(numbers: TopicNumbers, group: Any) -> None:
    """Check the effective target of a streams group, and what its members have."""
    is_whole = group.pending_target is None and group.targets.keys() <= group.members.keys()
    target: list[tuple[str, str, Iterable[Partition]]] = []
    current: list[tuple[str, str, Iterable[Partition]]] = []
    assigned: list[tuple[str, str, Iterable[Partition]]] = []
    for member_id, member in group.members.items():
        process = member.metadata.process_id
        assignment = member.assignment
        current.append((process, member_id, (*assignment.assigned, *assignment.revoking)))
        assigned.append((process, member_id, assignment.assigned))
        if is_whole and member_id in group.targets:
            codec = group.kind.codec
            places = codec.read_target(group.targets[member_id], group.unit_numbers(numbers))
            target.append((process, member_id, sorted(places)))
    _is_spread(group.group_id, "the target", target, or_moves=False)
    _is_spread(group.group_id, "the current assignment", current, or_moves=True)
    _is_spread(group.group_id, "what is assigned", assigned, or_moves=False)


def _is_spread(
    group_id: str,
    what: str,
    held: Iterable[tuple[str, str, Iterable[Partition]]],
    *,
    or_moves: bool,
) -> None:
    """Check that a task has one place in a process; ``or_moves``: it may change its role."""
    places: dict[tuple[str, Partition], tuple[str, Partition]] = {}
    for process, member_id, tasks in held:
        for place in tasks:
            key = (process, task_of(place))
            other = places.setdefault(key, (member_id, place))
            if other != (member_id, place) and not (or_moves and other[0] == member_id):
                raise Violation(
                    f"{what} gives process {process} a task as {role_of(other[1]).name.lower()} of"
                    f" {other[0]} and as {role_of(place).name.lower()} of {member_id}",
                    group_id,
                )
