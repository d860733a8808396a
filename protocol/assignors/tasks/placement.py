"""The loops of the sticky task assignor, compiled: which member gets which task.

``loads`` are the tasks of each member and of each process so far, each member's process, and the
members process by process (CSR). ``before`` is the previous target: the member with each active
task, and the members with standbys (CSR). ``quotas`` are the tasks that are left and the members
that have room, of active tasks and of all tasks: a member has room for a task that stays while it
has fewer than their quotient, rounded up. ``state`` is ``before`` and ``loads``; ``limits`` are the
quotas and the tags of each process.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol.assignors.kernels import kernel, uncounted
from protocol.assignors.spec import NOBODY, Int32s

Int64s: TypeAlias = NDArray[np.int64]
Loads: TypeAlias = tuple[Int32s, Int32s, Int32s, Int32s, Int32s]
Before: TypeAlias = tuple[Int32s, Int32s, Int32s]
State: TypeAlias = tuple[Before, Loads]
Holders: TypeAlias = tuple[int, Int32s]
Limits: TypeAlias = tuple[Int64s, Int32s]

ACTIVE = 0
ALL = 2
"""Where in the quotas those of active tasks begin, and those of all tasks."""


@kernel
def place_active(
    active: Int32s, by_index: Int32s, before: Before, loads: Loads, quotas: Int64s
) -> None:
    """Place every active task; tasks stay first in the order ``by_index``."""
    previous, standby_starts, standbys = before
    for task in by_index:
        member = previous[task]
        if member != NOBODY and loads[0][member] < _quota(quotas, ACTIVE):
            active[task] = member
            _add(member, loads, quotas, ACTIVE)
    for task in by_index:
        if active[task] != NOBODY:
            continue
        first, end = standby_starts[task], standby_starts[task + 1]
        member = _least_loaded(standbys[first:end], loads)
        if member != NOBODY and loads[0][member] < _quota(quotas, ACTIVE):
            active[task] = member
            _add(member, loads, quotas, ACTIVE)
    heap = _process_heap(loads)
    members = _member_heaps(loads)
    for task in range(len(active)):
        if active[task] == NOBODY:
            active[task] = _add_to_process(heap[0], members, loads, quotas, ACTIVE)
            _sift_process(heap, 0, len(heap), loads)


@kernel
def place_standbys(
    held: Int32s, active: Int32s, orders: tuple[Int32s, Int32s], state: State, limits: Limits
) -> None:
    """Fill the rows of ``held`` with the members that have each task's standbys.

    ``orders``: the order in which tasks stay, and whether each task is stateful.
    """
    order, is_stateful = orders
    if limits[1].shape[1]:
        for task in order:
            if is_stateful[task]:
                _place_by_tags(task, held[task], active[task], state, limits)
        return
    for task in order:
        if is_stateful[task]:
            _keep_standbys(task, held[task], active[task], state, limits)
    heaps = _process_heap(state[1]), _member_heaps(state[1])
    for task in range(len(active) - 1, -1, -1):
        if is_stateful[task]:
            _fill_row(held[task], active[task], heaps, state[1], limits)


@kernel
def _fill_row(
    row: Int32s, active: int, heaps: tuple[Int32s, Int32s], loads: Loads, limits: Limits
) -> None:
    """Give what is left of a task's standbys to the least loaded processes without the task."""
    heap, members = heaps
    skipped = np.empty(len(heap), np.int32)
    for place in range(len(row)):
        if row[place] != NOBODY:
            continue
        size, passed = len(heap), 0
        while size and _has(heap[0], active, row, loads):
            skipped[passed] = heap[0]
            passed += 1
            size -= 1
            heap[0] = heap[size]
            _sift_process(heap, 0, size, loads)
        if size:
            row[place] = _add_to_process(heap[0], members, loads, limits[0], ALL)
            _sift_process(heap, 0, size, loads)
        for each in range(passed):
            heap[size] = skipped[each]
            _rise_process(heap, size, loads)
            size += 1


@kernel
def _keep_standbys(task: int, row: Int32s, active: int, state: State, limits: Limits) -> None:
    """Give standbys to the members that had the task, in whatever role, while they have room."""
    anywhere = np.empty(0, np.bool_)
    for place in range(len(row)):
        member = _former_holder(task, (active, row), anywhere, state, limits[0])
        if member == NOBODY:
            return
        row[place] = member
        _add(member, state[1], limits[0], ALL)


@kernel
def _former_holder(
    task: int, holders: Holders, allowed: NDArray[np.bool_], state: State, quotas: Int64s
) -> int:
    """Return the member that a standby stays with: the active one, or one with a standby.

    NOBODY if none of them has room, or their processes have the task, or are not allowed it.
    """
    (previous, standby_starts, standbys), loads = state
    active, row = holders
    room = _quota(quotas, ALL)
    chosen = NOBODY
    first, end = standby_starts[task], standby_starts[task + 1]
    for place in range(first - 1, end):
        member = previous[task] if place < first else standbys[place]
        if member == NOBODY or loads[0][member] >= room:
            continue
        process = loads[2][member]
        if (len(allowed) and not allowed[process]) or _has(process, active, row, loads):
            continue
        if place < first:
            return int(member)
        if chosen == NOBODY or _is_less_loaded(member, chosen, loads):
            chosen = member
    return int(chosen)


@kernel
def _place_by_tags(task: int, row: Int32s, active: int, state: State, limits: Limits) -> None:
    """Place a task's standbys on the processes that differ in the most tags from its holders."""
    loads, (quotas, tags) = state[1], limits
    scores = np.empty(len(tags), np.int32)
    for place in range(len(row)):
        for process in range(len(tags)):
            scores[process] = -1
            if not _has(process, active, row, loads):
                scores[process] = _differences(process, active, row, loads, tags)
        best = scores.max()
        if best < 0:
            return
        allowed = scores == best
        chosen = _former_holder(task, (active, row), allowed, state, quotas)
        if chosen == NOBODY:
            least = NOBODY
            for process in range(len(tags)):
                if allowed[process] and (least == NOBODY or _comes_first(process, least, loads)):
                    least = process
            chosen = _least_loaded(loads[3][loads[4][least] : loads[4][least + 1]], loads)
        row[place] = chosen
        _add(chosen, loads, quotas, ALL)


@uncounted
def _differences(process: int, active: int, row: Int32s, loads: Loads, tags: Int32s) -> int:
    """Count the tags of a process that none of a task's holders has the same value of."""
    count = 0
    for tag in range(tags.shape[1]):
        value = tags[process, tag]
        is_other = value != NOBODY and value != tags[loads[2][active], tag]
        for member in row:
            if member != NOBODY and tags[loads[2][member], tag] == value:
                is_other = False
        count += is_other
    return count


@uncounted
def _has(process: int, active: int, row: Int32s, loads: Loads) -> bool:
    """Whether a process has the task of this active member and these standbys."""
    if loads[2][active] == process:
        return True
    found = False
    for member in row:
        found |= member != NOBODY and loads[2][member] == process
    return found


# --- quotas and loads


@uncounted
def _quota(quotas: Int64s, kind: int) -> int:
    tasks, members = quotas[kind], quotas[kind + 1]
    return (tasks + members - 1) // members if members > 0 else 0


@uncounted
def _add(member: int, loads: Loads, quotas: Int64s, kind: int) -> None:
    """Count one more task of a member; a member that is full takes its tasks out of the quotas."""
    loads[0][member] += 1
    loads[1][loads[2][member]] += 1
    tasks = loads[0][member]
    for each in range(kind, ALL + 1, 2):
        if tasks == _quota(quotas, each):
            quotas[each + 1] -= 1
            quotas[each] -= tasks


@uncounted
def _is_less_loaded(member: int, other: int, loads: Loads) -> bool:
    process, others = loads[2][member], loads[2][other]
    if process != others:
        return bool(_comes_first(process, others, loads))
    return bool(loads[0][member] < loads[0][other])


@kernel
def _least_loaded(members: Int32s, loads: Loads) -> int:
    least = NOBODY
    for member in members:
        if least == NOBODY or _is_less_loaded(member, least, loads):
            least = member
    return least


@uncounted
def _comes_first(process: int, other: int, loads: Loads) -> bool:
    """Whether a process has fewer tasks per member than another, or as many and a lower number."""
    starts = loads[4]
    here = np.int64(loads[1][process]) * (starts[other + 1] - starts[other])
    there = np.int64(loads[1][other]) * (starts[process + 1] - starts[process])
    return bool(here < there or (here == there and process < other))


# --- heaps: the least loaded process, and the least loaded member of each process


@kernel
def _process_heap(loads: Loads) -> Int32s:
    heap = np.arange(len(loads[1])).astype(np.int32)
    for place in range(len(heap) // 2 - 1, -1, -1):
        _sift_process(heap, place, len(heap), loads)
    return heap


@uncounted
def _sift_process(heap: Int32s, place: int, size: int, loads: Loads) -> None:
    """Move the process at a place down until none below it is less loaded."""
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _comes_first(heap[child + 1], heap[child], loads):
            child += 1
        if not _comes_first(heap[child], heap[place], loads):
            return
        heap[child], heap[place] = heap[place], heap[child]
        place = child


@uncounted
def _rise_process(heap: Int32s, place: int, loads: Loads) -> None:
    """Move the process at a place up until the one above it is less loaded."""
    while place:
        above = (place - 1) // 2
        if not _comes_first(heap[place], heap[above], loads):
            return
        heap[above], heap[place] = heap[place], heap[above]
        place = above


@kernel
def _member_heaps(loads: Loads) -> Int32s:
    members = loads[3].copy()
    for process in range(len(loads[1])):
        first, end = loads[4][process], loads[4][process + 1]
        for place in range((end - first) // 2 - 1, -1, -1):
            _sift_member(members[first:end], place, loads)
    return members


@kernel
def _sift_member(heap: Int32s, place: int, loads: Loads) -> None:
    tasks = loads[0]
    while 2 * place + 1 < len(heap):
        child = 2 * place + 1
        if child + 1 < len(heap) and _has_fewer(heap[child + 1], heap[child], tasks):
            child += 1
        if not _has_fewer(heap[child], heap[place], tasks):
            return
        heap[child], heap[place] = heap[place], heap[child]
        place = child


@uncounted
def _has_fewer(member: int, other: int, tasks: Int32s) -> bool:
    return bool(tasks[member] < tasks[other] or (tasks[member] == tasks[other] and member < other))


@kernel
def _add_to_process(process: int, members: Int32s, loads: Loads, quotas: Int64s, kind: int) -> int:
    """Give a task to the least loaded member of a process; return the member."""
    heap = members[loads[4][process] : loads[4][process + 1]]
    member = heap[0]
    _add(member, loads, quotas, kind)
    _sift_member(heap, 0, loads)
    return int(member)
