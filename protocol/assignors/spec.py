"""The input and output of an assignor: flat arrays, no object per member.

Everything is an index into a sorted list that the caller keeps, so that the result is a function of
the group and never of the order in which members joined:

- *topics* are the subscribed topics that exist, sorted by topic id (as 16 bytes);
- *members* are sorted by member id (by UTF-16 code units, as Java sorts strings);
- *partitions* are numbered consecutively, topic by topic: partition ``p`` of topic ``t`` is
  ``partition_starts[t] + p``;
- *classes* are the different subscriptions in the group; members that subscribe to the same topics
  share one.

All arrays are ``int32``, one-dimensional and C-contiguous; "CSR" means that row ``i`` of ``values``
is ``values[starts[i]:starts[i + 1]]``. A function that receives arrays never writes to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Int32s: TypeAlias = NDArray[np.int32]
Bools: TypeAlias = NDArray[np.bool_]

NOBODY: Final = -1
"""The owner of a partition without one; also "no rack" and "not static"."""


class AssignorError(Exception):
    """An assignor failed or returned an invalid assignment; the message says how."""


def no_values() -> Int32s:
    """Return an empty array."""
    return np.zeros(0, np.int32)


def no_flags() -> Bools:
    """Return an empty array."""
    return np.zeros(0, np.bool_)


def whole_numbers(given: object, *names: str) -> list[Int32s] | None:
    """Return fields of what an assignor gave, if all are arrays of numbers that fit into int32.

    Nothing is rounded or cut off: None if anything is not a whole number, or too large. The fields
    of a custom assignor's result may raise whatever they like.
    """
    found = []
    for name in names:
        try:
            array = np.ascontiguousarray(getattr(given, name))
        except Exception:
            return None
        if array.size:
            limits = np.iinfo(np.int32)
            if array.dtype.kind not in "iu" or array.min() < limits.min or array.max() > limits.max:
                return None
        found.append(array.astype(np.int32, copy=False))
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupSpec:
    """A group as an assignor sees it: T topics, P partitions, M members, C classes.

    ``partition_starts``: T + 1 prefix sums of the topics' partition counts; the last one is P.
    ``class_starts`` (C + 1), ``class_topics``: CSR, the topics of each class, ascending.
    ``member_class`` (M): the class of each member.
    ``instance_rank`` (M): the place of a static member when static members are sorted by instance
    id, ``NOBODY`` for a dynamic member. Empty: there are no static members.
    ``previous_owner`` (P): the member that owns the partition in the previous target assignment, or
    ``NOBODY``. It may be a member that no longer subscribes to the topic. Where partitions are
    shared it has no meaning.
    ``member_rack`` (M): index of the member's rack or ``NOBODY``. Empty: racks do not matter.
    ``rack_starts`` (P + 1), ``partition_racks``: CSR, the racks of each partition's replicas,
    ascending. Empty: racks are not known. Racks are numbered as in ``member_rack``.
    ``is_assignable`` (P): whether members may get the partition. Empty: all of them.
    ``previous_starts`` (M + 1), ``previous_partitions``: CSR, where partitions are shared, the
    partitions of each member in the previous target assignment, ascending. Otherwise empty.
    """

    partition_starts: Int32s
    class_starts: Int32s
    class_topics: Int32s
    member_class: Int32s
    previous_owner: Int32s
    instance_rank: Int32s = field(default_factory=no_values)
    member_rack: Int32s = field(default_factory=no_values)
    rack_starts: Int32s = field(default_factory=no_values)
    partition_racks: Int32s = field(default_factory=no_values)
    is_assignable: Bools = field(default_factory=no_flags)
    previous_starts: Int32s = field(default_factory=no_values)
    previous_partitions: Int32s = field(default_factory=no_values)

    @property
    def topic_count(self) -> int:
        """T."""
        return len(self.partition_starts) - 1

    @property
    def partition_count(self) -> int:
        """P, of all topics together."""
        return int(self.partition_starts[-1])

    @property
    def member_count(self) -> int:
        """M."""
        return len(self.member_class)

    @property
    def class_count(self) -> int:
        """C; a class may have no members."""
        return len(self.class_starts) - 1

    @property
    def is_rack_aware(self) -> bool:
        """Whether any member's rack can match a replica's."""
        return bool(
            len(self.member_rack)
            and len(self.partition_racks)
            and (np.max(self.member_rack) > NOBODY)
        )


@dataclass(frozen=True, slots=True, eq=False)
class GroupAssignment:
    """``owner`` (P): the member that each partition belongs to, or ``NOBODY``.

    Each partition of a topic that some member subscribes to has exactly one owner, which subscribes
    to it; all others have no owner.
    """

    owner: Int32s


@dataclass(frozen=True, slots=True, eq=False)
class SharedAssignment:
    """An assignment in which a partition may belong to several members (KIP-932), or to none.

    ``member_starts`` (M + 1), ``partitions``: CSR, the partitions of each member, ascending. Each
    is assignable, and of a topic that the member subscribes to.
    """

    member_starts: Int32s
    partitions: Int32s


@runtime_checkable
class Assignor(Protocol):
    """An assignor; custom ones are entry points of the group ``rollcall.assignors``.

    ``assign`` is deterministic, and may take long: it runs in a worker process.
    """

    @property
    def name(self) -> str:
        """The name that members and configs use for it."""

    def assign(self, spec: GroupSpec) -> GroupAssignment | SharedAssignment:
        """Assign an owner to every partition; raise AssignorError when that is impossible."""
