"""Simple: the assignor of share groups (KIP-932), where a partition may have several owners.

Each partition gets as many members as the others, each member as many partitions as the others, and
a member keeps what it has if that is possible. With fewer partitions than members, a partition has
several members, so that no member is left without any.

If all members subscribe to the same topics, the partitions of all topics are balanced together.
Otherwise each topic is balanced on its own among the members that subscribe to it, as in Kafka;
what cannot be divided evenly goes to the members with the fewest partitions of all topics. What is
balanced together is a *unit*.
"""

from __future__ import annotations

import numpy as np

from protocol.assignors.kernels import check_spec, kernel, writable
from protocol.assignors.spec import NOBODY, Bools, GroupSpec, Int32s, SharedAssignment
from protocol.assignors.subscribers import populated_classes


class SimpleAssignor:
    """Kafka's ``simple``, the default assignor of share groups."""

    name = "simple"

    def assign(self, spec: GroupSpec) -> SharedAssignment:
        """Assign every assignable partition of a subscribed topic to at least one member."""
        check_spec(spec)
        populated = populated_classes(spec)
        starts = spec.class_starts
        if len(populated) == 1:
            (number,) = populated.tolist()
            units = [spec.class_topics[starts[number] : starts[number + 1]]]
            members = [np.arange(spec.member_count, dtype=np.int32)]
        else:
            topics, members = _subscribers(spec)
            units = list(topics.reshape(-1, 1))
        unit_starts, unit_topics = _rows(units)
        member_starts, unit_members = _rows(members)
        rows, partitions = _assign(
            (writable(spec.partition_starts), _assignable(spec)),
            (unit_starts, unit_topics),
            (member_starts, unit_members),
            (_previous_starts(spec), writable(spec.previous_partitions)),
        )
        return SharedAssignment(rows, partitions)


def _assignable(spec: GroupSpec) -> Bools:
    flags = spec.is_assignable
    return flags if len(flags) else np.ones(spec.partition_count, np.bool_)


def _previous_starts(spec: GroupSpec) -> Int32s:
    starts = spec.previous_starts
    return writable(starts) if len(starts) else np.zeros(spec.member_count + 1, np.int32)


def _subscribers(spec: GroupSpec) -> tuple[Int32s, list[Int32s]]:
    """Return the subscribed topics, ascending, and the members of each, ascending."""
    sizes = np.diff(spec.class_starts)[spec.member_class]
    member = np.repeat(np.arange(spec.member_count, dtype=np.int32), sizes)
    firsts = spec.class_starts[spec.member_class]
    ends = np.cumsum(sizes)
    offset = np.arange(len(member)) - np.repeat(ends - sizes, sizes)
    topic = spec.class_topics[np.repeat(firsts, sizes) + offset]
    order = np.argsort(topic, kind="stable")
    topics, starts = np.unique(topic[order], return_index=True)
    return topics.astype(np.int32), np.split(member[order], starts[1:]) if len(topics) else []


def _rows(rows: list[Int32s]) -> tuple[Int32s, Int32s]:
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    return starts, writable(np.concatenate(rows)) if rows else np.zeros(0, np.int32)


@kernel
def _assign(
    partitions: tuple[Int32s, Bools],
    units: tuple[Int32s, Int32s],
    subscribers: tuple[Int32s, Int32s],
    before: tuple[Int32s, Int32s],
) -> tuple[Int32s, Int32s]:
    """Balance unit after unit; return the partitions of each member, ascending (CSR)."""
    starts, assignable = partitions
    unit_starts, unit_topics = units
    member_starts, unit_members = subscribers
    members = len(before[0]) - 1
    place = np.full(starts[-1], NOBODY, np.int32)  # of each partition in its unit
    totals = _least_totals(partitions, units, subscribers, members)
    who = [np.empty(0, np.int32)]
    what = [np.empty(0, np.int32)]
    for unit in range(len(unit_starts) - 1):
        topics = unit_topics[unit_starts[unit] : unit_starts[unit + 1]]
        listed = _listed(starts, assignable, topics, place)
        of_unit = unit_members[member_starts[unit] : member_starts[unit + 1]]
        if len(listed) and len(of_unit):
            span = (starts[topics[0]], starts[topics[-1] + 1])
            order = np.argsort(totals[of_unit], kind="mergesort").astype(np.int32)
            given, ends = _balance(listed, (of_unit, order), before, place, span)
            _count_more(totals, of_unit, ends)
            who.append(_repeated(of_unit, ends))
            what.append(given)
        place[listed] = NOBODY
    return _by_member(who, what, members)


@kernel
def _least_totals(
    partitions: tuple[Int32s, Bools],
    units: tuple[Int32s, Int32s],
    subscribers: tuple[Int32s, Int32s],
    members: int,
) -> Int32s:
    """Return how many partitions of all units each member gets at least."""
    starts, assignable = partitions
    unit_starts, unit_topics = units
    member_starts, unit_members = subscribers
    totals = np.zeros(members, np.int32)
    for unit in range(len(unit_starts) - 1):
        count = 0
        for topic in unit_topics[unit_starts[unit] : unit_starts[unit + 1]]:
            for partition in range(starts[topic], starts[topic + 1]):
                count += assignable[partition]
        of_unit = unit_members[member_starts[unit] : member_starts[unit + 1]]
        if count and len(of_unit):
            sharing = (len(of_unit) + count - 1) // count
            totals[of_unit] += sharing * count // len(of_unit)
    return totals


@kernel
def _count_more(totals: Int32s, members: Int32s, ends: Int32s) -> None:
    """Add one to the total of each member that got more of a unit than others."""
    least = ends[-1] // len(members)
    first = 0
    for row in range(len(members)):
        totals[members[row]] += ends[row] - first > least
        first = ends[row]


@kernel
def _listed(starts: Int32s, assignable: Bools, topics: Int32s, place: Int32s) -> Int32s:
    """Return the assignable partitions of a unit, and note their places."""
    size = 0
    for topic in topics:
        size += starts[topic + 1] - starts[topic]
    listed = np.empty(size, np.int32)
    count = 0
    for topic in topics:
        for partition in range(starts[topic], starts[topic + 1]):
            if assignable[partition]:
                listed[count] = partition
                place[partition] = count
                count += 1
    return listed[:count]


@kernel
def _balance(
    listed: Int32s,
    rows_of: tuple[Int32s, Int32s],
    before: tuple[Int32s, Int32s],
    place: Int32s,
    span: tuple[int, int],
) -> tuple[Int32s, Int32s]:
    """Assign a unit's partitions; return them member by member, and where each member's end.

    ``rows_of``: the unit's members, and the order in which they get one more than others.
    """
    members, order = rows_of
    sharing = (len(members) + len(listed) - 1) // len(listed)
    first, end = _previous(before, members, span)
    wanted = _wanted(sharing * len(listed), order, (first, end), before[1], place)
    rows = np.zeros(len(members) + 1, np.int32)
    for row in range(len(members)):
        rows[row + 1] = rows[row] + wanted[row]
    given = np.empty(rows[-1], np.int32)
    filled = np.zeros(len(members), np.int32)
    owners = np.zeros(len(listed), np.int32)
    for row in range(len(members)):
        for at in range(first[row], end[row]):
            partition = before[1][at]
            index = place[partition]
            if index != NOBODY and owners[index] < sharing and filled[row] < wanted[row]:
                given[rows[row] + filled[row]] = partition
                filled[row] += 1
                owners[index] += 1
    _fill(listed, (rows, given, filled), owners, sharing)
    return _compacted(rows, given, filled)


@kernel
def _previous(
    before: tuple[Int32s, Int32s], members: Int32s, span: tuple[int, int]
) -> tuple[Int32s, Int32s]:
    """Return where each member's previous partitions of the unit begin and end."""
    first = np.empty(len(members), np.int32)
    end = np.empty(len(members), np.int32)
    for row in range(len(members)):
        start = before[0][members[row]]
        had = before[1][start : before[0][members[row] + 1]]
        first[row] = start + np.searchsorted(had, span[0])
        end[row] = start + np.searchsorted(had, span[1])
    return first, end


@kernel
def _wanted(
    total: int, order: Int32s, previous: tuple[Int32s, Int32s], had: Int32s, place: Int32s
) -> Int32s:
    """Return how many partitions each member should get.

    The sizes differ by one at most; the members that have more already stay the larger ones.
    """
    count = len(previous[0])
    size, larger = total // count, total % count
    wanted = np.full(count, size, np.int32)
    for row in order:
        has = 0
        for at in range(previous[0][row], previous[1][row]):
            if place[had[at]] != NOBODY:
                has += 1
        if has > size and larger > 0:
            wanted[row] += 1
            larger -= 1
    for row in order:
        if larger > 0 and wanted[row] == size:
            wanted[row] += 1
            larger -= 1
    return wanted


@kernel
def _fill(
    listed: Int32s, assigned: tuple[Int32s, Int32s, Int32s], owners: Int32s, sharing: int
) -> None:
    """Give partitions with too few members to the members with too few, in turn.

    A partition that all of these members have already stays with fewer members than others.
    """
    rows, given, filled = assigned
    unfilled = np.empty(len(filled), np.int32)
    waiting = 0
    for row in range(len(filled)):
        if filled[row] < rows[row + 1] - rows[row]:
            unfilled[waiting] = row
            waiting += 1
    at = 0
    for index in range(len(listed)):
        refused = 0
        while owners[index] < sharing and refused < waiting:
            if at >= waiting:
                at = 0
            row = unfilled[at]
            if sharing > 1 and _has(given, rows[row], filled[row], listed[index]):
                refused += 1
                at += 1
                continue
            given[rows[row] + filled[row]] = listed[index]
            filled[row] += 1
            owners[index] += 1
            if filled[row] == rows[row + 1] - rows[row]:
                waiting -= 1
                unfilled[at] = unfilled[waiting]
            else:
                at += 1
        if waiting == 0:
            break


@kernel
def _has(given: Int32s, first: int, count: int, partition: int) -> bool:
    found = False
    for at in range(first, first + count):  # at most two, where partitions are shared
        found |= given[at] == partition
    return found


@kernel
def _compacted(rows: Int32s, given: Int32s, filled: Int32s) -> tuple[Int32s, Int32s]:
    """Return the partitions without the slots that stayed empty, and where each row ends."""
    ends = np.empty(len(filled), np.int32)
    kept = np.empty(filled.sum(), np.int32)
    count = 0
    for row in range(len(filled)):
        kept[count : count + filled[row]] = given[rows[row] : rows[row] + filled[row]]
        count += filled[row]
        ends[row] = count
    return kept, ends


@kernel
def _repeated(members: Int32s, ends: Int32s) -> Int32s:
    """Return the member of each assigned partition."""
    who = np.empty(ends[-1], np.int32)
    first = 0
    for row in range(len(members)):
        who[first : ends[row]] = members[row]
        first = ends[row]
    return who


@kernel
def _by_member(who: list[Int32s], what: list[Int32s], members: int) -> tuple[Int32s, Int32s]:
    """Regroup the partitions of all units by member, ascending."""
    starts = np.zeros(members + 1, np.int32)
    for listed in who:
        for member in listed:
            starts[member + 1] += 1
    for member in range(members):
        starts[member + 1] += starts[member]
    partitions = np.empty(starts[-1], np.int32)
    cursor = starts[:-1].copy()
    for unit in range(len(who)):
        for at in range(len(who[unit])):
            member = who[unit][at]
            partitions[cursor[member]] = what[unit][at]
            cursor[member] += 1
    for member in range(members):
        partitions[starts[member] : starts[member + 1]].sort()
    return starts, partitions
