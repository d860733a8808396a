"""Assignment forms: what a member is assigned, and what several members may hold at a time.

In every form a member holds *places*: integers whose upper bits identify a unit and whose lower 32
bits are an index in it (``topic_numbers``). A unit is a topic, or a subtopology in one role.

=============== ================== ========================= ===================== ===============
form            units              a place is held by        before a member gives an assignor gives
                                                             one up
=============== ================== ========================= ===================== ===============
``PARTITIONS``  topics             one member                it is waited for      an owner of each
``SHARED``      topics             any number                nobody waits          each member's
``TASKS``       role, subtopology  one active member, any    it is waited for      each member's
                                   number of others
=============== ================== ========================= ===================== ===============
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from protocol.groups.topic_numbers import TOPIC_SHIFT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Set

    from protocol.groups.topic_numbers import Partition

ROLE_SHIFT: Final = TOPIC_SHIFT + 28
"""A task's role is stored above the number of its subtopology."""


class TaskRole(IntEnum):
    """A member's role for a task (KIP-1071)."""

    ACTIVE = 0
    STANDBY = 1
    WARMUP = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AssignmentForm:
    """``exclusive`` selects the places that only one member may hold at a time.

    ``awaits_revocation``: a member keeps its epoch until it reports that it has revoked what it
    should no longer have. ``is_shared``: an assignor must return a ``SharedAssignment``, otherwise
    a ``GroupAssignment``. ``units_are_topics``: a member has only places of topics that exist and
    that it subscribes to. ``in_place``: the places that a holder of this one may get at once in its
    stead, as they are the same in another role; None: there are no roles. ``noun`` is what places
    are called.
    """

    name: str
    exclusive: Callable[[Set[Partition]], Iterable[Partition]]
    awaits_revocation: bool
    is_shared: bool
    units_are_topics: bool = True
    in_place: Callable[[Partition], Iterable[Partition]] | None = None
    noun: str = "partitions"


def task_unit(role: TaskRole, subtopology: int) -> int:
    """Return the unit of a subtopology, given by its number in the group, in one role."""
    return role << (ROLE_SHIFT - TOPIC_SHIFT) | subtopology


def role_of(place: Partition) -> TaskRole:
    """Return the member's role for a task."""
    return TaskRole(place >> ROLE_SHIFT)


def _all(places: Set[Partition]) -> Set[Partition]:
    return places


def _none(_places: Set[Partition]) -> Iterable[Partition]:
    return ()


def _active(places: Set[Partition]) -> Iterable[Partition]:
    return [place for place in places if not place >> ROLE_SHIFT]


def _other_roles(place: Partition) -> Iterable[Partition]:
    """Return the roles in which a replica's state is of use; an active task is given up first."""
    role = place >> ROLE_SHIFT
    if role == TaskRole.ACTIVE:
        return ()
    task = place & ((1 << ROLE_SHIFT) - 1)
    return task, (TaskRole.STANDBY + TaskRole.WARMUP - role) << ROLE_SHIFT | task


PARTITIONS: Final = AssignmentForm(
    name="partitions", exclusive=_all, awaits_revocation=True, is_shared=False
)
SHARED: Final = AssignmentForm(
    name="shared", exclusive=_none, awaits_revocation=False, is_shared=True
)
TASKS: Final = AssignmentForm(
    name="tasks",
    exclusive=_active,
    awaits_revocation=True,
    is_shared=True,
    units_are_topics=False,
    in_place=_other_roles,
    noun="tasks",
)
