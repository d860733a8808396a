"""Which partitions and tasks have other owners after a rebalance, from the bytes of assignments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from protocol.groups.classic.partitions_moved import partitions_moved
from protocol.groups.facts import RebalanceOutcome
from protocol.groups.modern import assignment_records
from protocol.groups.modern.form import ROLE_SHIFT, TaskRole
from protocol.groups.streams import task_records
from protocol.groups.streams.task_numbers import SUBTOPOLOGY_MASK, SubtopologyNumbers
from protocol.groups.topic_numbers import INDEX_MASK, TOPIC_SHIFT, TopicNumbers
from protocol.wire.embedded import decode_assignment

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from typing import TypeAlias

    from protocol.groups.classic.partitions_moved import PartitionMovement
    from protocol.groups.facts import RebalanceEnded, TargetChange

    Unit: TypeAlias = tuple[str, int]
    Owners: TypeAlias = "Mapping[Unit, set[str]]"

BYTES_MAX: Final = 1 << 20
"""Bytes of assignments that are compared; of larger ones only the coordinator's count is known."""

NOT_COUNTED: Final = -1
"""How many units have moved, if nobody knows."""

UNITS_MAX: Final = 1_000_000
"""Units of assignments that are compared: more take gigabytes of memory."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A unit, and the members that lost and got it; None is nobody."""

    unit: Unit
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Movement:
    """``transfers`` are ordered by unit; ``held`` is what each member had before.

    Of the units, ``moved`` have an owner that they did not have, ``added`` had none before, and
    ``dropped`` have none now. In a share group a unit may have several owners. ``revoked`` counts
    how often a member that is still there had to give up one of them.
    """

    transfers: tuple[Transfer, ...]
    total: int
    held: Mapping[str, tuple[Unit, ...]] = field(default_factory=dict)
    moved: int = 0
    added: int = 0
    dropped: int = 0
    revoked: int = 0


def of_classic(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Movement | None:
    """Compare two assignments of a classic group, by the members' lasting names.

    Return None if they are too large, or in a form that only their members know.
    """
    if _size(before.values()) + _size(after.values()) > BYTES_MAX:
        return None
    held, got = _decoded(before), _decoded(after)
    return None if held is None or got is None else _compare(held, got)


def count_classic(fact: RebalanceEnded) -> PartitionMovement | None:
    """Count what a classic group's rebalance moved; None if it is not known.

    So it is if the assignments are too large, or in a form that only their members know.
    """
    before, after = fact.assignments_before, fact.assignments_after
    if fact.protocol_type != "consumer" or fact.outcome is not RebalanceOutcome.STABLE:
        return None
    if _size(before.values()) + _size(after.values()) > BYTES_MAX:
        return None
    return partitions_moved(before, after)


def of_target(
    group_type: str,
    change: TargetChange,
    bytes_max: int = BYTES_MAX,
    *,
    spares: Collection[str] = (),
) -> Movement | None:
    """Compare the targets of the members that got another one; None if they are too large.

    ``spares`` are members that have none any more and are still there.
    """
    size = 0
    for values in (change.before.values(), (value for _, value in change.after)):
        for value in values:
            size += len(value)
            if size > bytes_max:
                return None
    read = _task_reader() if group_type == "streams" else _partition_reader(change)
    held, got = _read(read, change.before.items()), _read(read, change.after)
    if held is None or got is None:
        return None
    got = {name: units for name, units in got.items() if name in change.members}
    return _compare(held, {**dict.fromkeys(spares, ()), **got})


def _read(
    read: Callable[[bytes], tuple[Unit, ...]], targets: Iterable[tuple[str, bytes]]
) -> dict[str, tuple[Unit, ...]] | None:
    """Read targets; return None if they have too many units."""
    found: dict[str, tuple[Unit, ...]] = {}
    count = 0
    for member, value in targets:
        found[member] = units = read(bytes(value))
        count += len(units)
        if count > UNITS_MAX:
            return None
    return found


def _compare(held: Mapping[str, tuple[Unit, ...]], got: Mapping[str, tuple[Unit, ...]]) -> Movement:
    """Pair, for each unit, the members that lost it with those that got it.

    Members that are not in ``got`` are gone.
    """
    before, after = _owners(held), _owners(got)
    transfers: list[Transfer] = []
    moved = added = dropped = revoked = 0
    for unit in sorted(before.keys() | after.keys()):
        had, has = before.get(unit, set()), after.get(unit, set())
        if had == has:
            continue
        moved += bool(had and has - had)
        added += not had
        dropped += not has
        revoked += sum(each in got for each in had - has)
        lost: list[str | None] = [*sorted(had - has)]
        gained: list[str | None] = [*sorted(has - had)]
        count = max(len(lost), len(gained))
        lost += [None] * (count - len(lost))
        gained += [None] * (count - len(gained))
        transfers += map(Transfer, [unit] * count, lost, gained)
    return Movement(tuple(transfers), len(after), held, moved, added, dropped, revoked)


def _owners(units: Mapping[str, tuple[Unit, ...]]) -> dict[Unit, set[str]]:
    owners: dict[Unit, set[str]] = {}
    for member, those in units.items():
        for unit in those:
            owners.setdefault(unit, set()).add(member)
    return owners


def _size(values: Iterable[bytes]) -> int:
    return sum(map(len, values))


def _decoded(assignments: Mapping[str, bytes]) -> dict[str, tuple[Unit, ...]] | None:
    decoded: dict[str, tuple[Unit, ...]] = {}
    for member, data in assignments.items():
        partitions = decode_assignment(data) if data else ()
        if partitions is None:
            return None
        decoded[member] = tuple(partitions)
    return decoded


def _partition_reader(change: TargetChange) -> Callable[[bytes], tuple[Unit, ...]]:
    """Return a function that reads targets of consumer and share groups: topics by name."""
    numbers = TopicNumbers()

    def read(target: bytes) -> tuple[Unit, ...]:
        """Return the partitions of a target."""
        return tuple(
            (
                numbers.name(place >> TOPIC_SHIFT, change.topics)
                or str(numbers.uuids[place >> TOPIC_SHIFT]),
                place & INDEX_MASK,
            )
            for place in assignment_records.read_target(target, numbers)
        )

    return read


def _task_reader() -> Callable[[bytes], tuple[Unit, ...]]:
    """Return a function that reads targets of streams groups: active tasks by subtopology."""
    numbers = SubtopologyNumbers()

    def read(target: bytes) -> tuple[Unit, ...]:
        """Return the active tasks of a target."""
        return tuple(
            (numbers.ids[(place >> TOPIC_SHIFT) & SUBTOPOLOGY_MASK], place & INDEX_MASK)
            for place in task_records.read_target(target, numbers)
            if place >> ROLE_SHIFT == TaskRole.ACTIVE
        )

    return read
