"""The groups of a watched cluster as they are now, a row each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from protocol.groups.classic.group import ClassicGroup
from protocol.groups.modern.reconcile import MemberState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from protocol.groups.modern.hard_state import ModernGroup
    from protocol.watching.outlook import Outlook

    Ends = Callable[[str, int], int | None]

SIMPLE: Final = "simple"
"""What a group is called that has committed offsets and nothing else."""

EMPTY: Final = "Empty"
STABLE: Final = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A group; -1 and None: not known, or it has none.

    ``epoch`` is the generation of a classic group; ``behind`` members do not have their target yet.
    ``lag`` is the sum over the partitions whose end is known.
    """

    group_id: str
    group_type: str
    state: str
    members: int = 0
    epoch: int = -1
    target_epoch: int = -1
    behind: int | None = None
    offsets: int = 0
    lag: int | None = None
    last_commit_ms: int | None = None


def rows(outlook: Outlook, ends: Ends) -> Iterator[GroupRow]:
    """Return all groups, ordered by id; ``ends`` returns the end of a partition, if known."""
    for group_id in group_ids(outlook):
        found = row(outlook, group_id, ends)
        if found is not None:
            yield found


def group_ids(outlook: Outlook) -> list[str]:
    """Return the ids of all groups, in order."""
    return sorted({*outlook.ctx.groups, *outlook.committed.groups()})


def row(outlook: Outlook, group_id: str, ends: Ends) -> GroupRow | None:
    """Return one group; None if there is none."""
    group: Any = outlook.ctx.groups.get(group_id)
    lag, last_ms, count = _progress(outlook, group_id, ends)
    common: dict[str, Any] = {
        "group_id": group_id,
        "offsets": count,
        "lag": lag,
        "last_commit_ms": last_ms,
    }
    if group is None:
        return GroupRow(group_type=SIMPLE, state=EMPTY, **common) if count else None
    if group.type_name == ClassicGroup.type_name:
        members = len(group.metadata.members)
        return GroupRow(
            group_type=group.type_name,
            state=STABLE if members else EMPTY,
            members=members,
            epoch=group.metadata.generation,
            **common,
        )
    return GroupRow(
        group_type=group.type_name,
        state=group.state,
        members=len(group.members),
        epoch=group.epoch,
        target_epoch=group.assignment_epoch,
        behind=behind(group),
        **common,
    )


def behind(group: ModernGroup[Any]) -> int:
    """Return how many members do not have their target yet."""
    epoch = group.assignment_epoch
    return sum(
        1
        for member in group.members.values()
        if member.assignment.epoch != epoch or member.assignment.state is not MemberState.STABLE
    )


def _progress(outlook: Outlook, group_id: str, ends: Ends) -> tuple[int | None, int | None, int]:
    lag, last_ms, count = None, None, 0
    for topic, partition, committed in outlook.committed.of_group(group_id):
        count += 1
        last_ms = max(last_ms or 0, committed.time_ms)
        end = ends(topic, partition)
        if end is not None:
            lag = (lag or 0) + max(end - committed.offset, 0)
    return lag, last_ms, count
