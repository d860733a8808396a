"""The loops of the sticky task assignor, compiled: which member gets which task.

``loads`` are the tasks of each member and of each process so far, and each member's process.
``before`` is the previous target: the member with each active task, and the members with standbys
(CSR). ``quotas`` are the tasks that are left, the members that have room, and the room: a member
may keep a task while it has fewer than the quotient of the two, rounded up. There are those of
active tasks, then those of all tasks.

A *lane* is a row of processes (or members) that count alike: of one size and with the same tags (or
of one process). The least loaded one is found without a heap: ``ready`` holds those of a lane that
have as many tasks as its level, by number, from ``heads`` to ``ends``; when they are used up, the
lane is looked through for the next level. Those that got a task meanwhile for another reason are
passed over. So each choice takes constant time as long as the lanes are few.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol.assignors.kernels import kernel, uncounted
from protocol.assignors.spec import NOBODY, Bools, Int32s

Int64s: TypeAlias = NDArray[np.int64]
Loads: TypeAlias = tuple[Int32s, Int32s, Int32s]
Before: TypeAlias = tuple[Int32s, Int32s, Int32s]
Lanes: TypeAlias = tuple[Int32s, Int32s, Int32s, Int32s, Int32s, Int32s]
"""``starts`` and ``items`` (CSR), ``ready``, ``heads``, ``ends``, ``levels``."""
Queues: TypeAlias = tuple[Lanes, Int32s, Int32s, Lanes]
"""The lanes of processes, the lane of each process, the size of each lane's processes, and the
lanes of members, one for each process."""
Tasks: TypeAlias = tuple[Int32s, Int32s]
"""The member with each active task, and those with its standbys, row by row."""
State: TypeAlias = tuple[Tasks, Before, Queues, Loads]

ACTIVE = 0
ALL = 3
"""Where in the quotas those of active tasks begin, and those of all tasks."""


@kernel
def order_by_index(task_starts: Int32s) -> Int32s:
    """Return the tasks by index, those with the same index by subtopology."""
    subtopologies = len(task_starts) - 1
    most = 0
    for number in range(subtopologies):
        most = max(most, task_starts[number + 1] - task_starts[number])
    places = np.zeros(most + 1, np.int32)
    for number in range(subtopologies):
        for index in range(task_starts[number + 1] - task_starts[number]):
            places[index + 1] += 1
    for index in range(most):
        places[index + 1] += places[index]
    order = np.empty(task_starts[-1], np.int32)
    for number in range(subtopologies):
        first = task_starts[number]
        for index in range(task_starts[number + 1] - first):
            order[places[index]] = first + index
            places[index] += 1
    return order


@kernel
def place_active(order: Int32s, state: State, quotas: Int64s) -> None:
    """Place every active task; tasks stay first, in the given order."""
    tasks, (previous, standby_starts, standbys), queues, loads = state
    active = tasks[0]
    for task in order:
        member = previous[task]
        if member != NOBODY and loads[0][member] < quotas[ACTIVE + 2]:
            active[task] = member
            _add(member, loads, quotas, ACTIVE)
    for task in order:
        if active[task] != NOBODY or standby_starts[task] == standby_starts[task + 1]:
            continue
        member = standbys[standby_starts[task]]
        for place in range(standby_starts[task] + 1, standby_starts[task + 1]):
            if _is_less_loaded(standbys[place], member, queues, loads):
                member = standbys[place]
        if loads[0][member] < quotas[ACTIVE + 2]:
            active[task] = member
            _add(member, loads, quotas, ACTIVE)
    everywhere = np.ones(len(queues[2]), np.bool_)
    for task in range(len(active)):
        if active[task] == NOBODY:
            process = _least_process(task, tasks, everywhere, queues, loads)
            active[task] = member = _least_member(process, queues[3], loads)
            _add(member, loads, quotas, ACTIVE)


@kernel
def place_standbys(order: tuple[Int32s, Int32s], state: State, quotas: Int64s) -> None:
    """Place the standbys of stateful tasks: those that stay, in reverse order, then the others.

    ``order``: the order of active tasks, and whether each task is stateful.
    """
    by_index, is_stateful = order
    tasks, _, queues, loads = state
    everywhere = np.ones(len(queues[2]), np.bool_)
    for task in by_index[::-1]:
        if is_stateful[task]:
            for place in range(tasks[1].shape[1]):
                member = _former_holder(task, everywhere, state, quotas)
                if member == NOBODY:
                    break
                tasks[1][task, place] = member
                _add(member, loads, quotas, ALL)
    for task in range(len(is_stateful) - 1, -1, -1):
        if not is_stateful[task]:
            continue
        for place in range(tasks[1].shape[1]):
            if tasks[1][task, place] == NOBODY:
                process = _least_process(task, tasks, everywhere, queues, loads)
                if process == NOBODY:
                    break
                tasks[1][task, place] = member = _least_member(process, queues[3], loads)
                _add(member, loads, quotas, ALL)


@kernel
def place_by_tags(order: tuple[Int32s, Int32s], state: State, quotas: Int64s, tags: Int32s) -> None:
    """Place standbys on the processes that differ in the most tags from a task's holders."""
    by_index, is_stateful = order
    tasks, _, queues, loads = state
    scores = np.empty(len(queues[2]), np.int32)
    for task in by_index[::-1]:
        if not is_stateful[task]:
            continue
        for place in range(tasks[1].shape[1]):
            for lane in range(len(scores)):
                scores[lane] = _differences(lane, task, state, tags)
            chosen = NOBODY
            while chosen == NOBODY and scores.max() >= 0:
                allowed = scores == scores.max()
                chosen = _former_holder(task, allowed, state, quotas)
                if chosen == NOBODY:
                    process = _least_process(task, tasks, allowed, queues, loads)
                    if process != NOBODY:
                        chosen = _least_member(process, queues[3], loads)
                scores[allowed] = -1  # all of their processes have the task
            if chosen == NOBODY:
                break
            tasks[1][task, place] = chosen
            _add(chosen, loads, quotas, ALL)


@kernel
def rows_of(held: Int32s) -> tuple[Int32s, Int32s]:
    """Convert the standbys of each task, NOBODY where there are fewer, to rows without gaps."""
    starts = np.zeros(len(held) + 1, np.int32)
    standbys = np.empty(held.size, np.int32)
    count = 0
    for task in range(len(held)):
        for place in range(held.shape[1]):
            if held[task, place] != NOBODY:
                standbys[count] = held[task, place]
                count += 1
        starts[task + 1] = count
    return starts, standbys[:count].copy()


@uncounted
def _former_holder(task: int, allowed: Bools, state: State, quotas: Int64s) -> int:
    """Return the member that a standby stays with: the active one, or one with a standby.

    NOBODY if none of them has room, or their processes have the task, or are not in a lane that is
    allowed.
    """
    tasks, (previous, standby_starts, standbys), queues, loads = state
    chosen = NOBODY
    first = standby_starts[task]
    for place in range(first - 1, standby_starts[task + 1]):
        member = previous[task] if place < first else standbys[place]
        if member == NOBODY or loads[0][member] >= quotas[ALL + 2]:
            continue
        process = loads[2][member]
        if not allowed[queues[1][process]] or _has(process, task, tasks, loads):
            continue
        if place < first:
            return int(member)
        if chosen == NOBODY or _is_less_loaded(member, chosen, queues, loads):
            chosen = member
    return int(chosen)


@uncounted
def _differences(lane: int, task: int, state: State, tags: Int32s) -> int:
    """Count the tags of a lane's processes that none of a task's holders has the same value of."""
    tasks, _, queues, loads = state
    process = queues[0][1][queues[0][0][lane]]
    count = 0
    for tag in range(tags.shape[1]):
        value = tags[process, tag]
        is_other = value != NOBODY and value != tags[loads[2][tasks[0][task]], tag]
        for place in range(tasks[1].shape[1]):
            member = tasks[1][task, place]
            if member != NOBODY and tags[loads[2][member], tag] == value:
                is_other = False
        count += is_other
    return count


@uncounted
def _has(process: int, task: int, tasks: Tasks, loads: Loads) -> bool:
    """Whether a process has a task in any role."""
    active = tasks[0][task]
    if active != NOBODY and loads[2][active] == process:
        return True
    for place in range(tasks[1].shape[1]):
        member = tasks[1][task, place]
        if member != NOBODY and loads[2][member] == process:
            return True
    return False


# --- quotas and loads


@uncounted
def _add(member: int, loads: Loads, quotas: Int64s, kind: int) -> None:
    """Count one more task of a member; a member that is full takes its tasks out of the quotas."""
    loads[0][member] += 1
    loads[1][loads[2][member]] += 1
    tasks = loads[0][member]
    for each in range(kind, ALL + 1, 3):
        if tasks == quotas[each + 2]:
            quotas[each] -= tasks
            quotas[each + 1] -= 1
            left, members = quotas[each], quotas[each + 1]
            quotas[each + 2] = (left + members - 1) // members if members > 0 else 0


@uncounted
def _is_less_loaded(member: int, other: int, queues: Queues, loads: Loads) -> bool:
    process, others = loads[2][member], loads[2][other]
    if process == others:
        return bool(loads[0][member] < loads[0][other])
    return _comes_first(process, others, queues, loads)


@uncounted
def _comes_first(process: int, other: int, queues: Queues, loads: Loads) -> bool:
    """Whether a process has fewer tasks per member than another, or as many and a lower number."""
    lane_of, sizes = queues[1], queues[2]
    here = np.int64(loads[1][process]) * sizes[lane_of[other]]
    there = np.int64(loads[1][other]) * sizes[lane_of[process]]
    return bool(here < there or (here == there and process < other))


# --- lanes


@uncounted
def _least_process(task: int, tasks: Tasks, allowed: Bools, queues: Queues, loads: Loads) -> int:
    """Return the least loaded process of the allowed lanes without the task; NOBODY if all do."""
    lanes = queues[0]
    chosen, found_at = NOBODY, 0
    for lane in range(len(allowed)):
        if not allowed[lane]:
            continue
        at = _next_in_lane(lane, task, tasks, lanes, loads)
        if at == lanes[4][lane]:
            return _least_of_all(task, tasks, allowed, queues, loads)
        if chosen == NOBODY or _comes_first(lanes[2][at], chosen, queues, loads):
            chosen, found_at = lanes[2][at], at
    if chosen != NOBODY:
        lane = queues[1][chosen]
        for place in range(found_at, lanes[3][lane], -1):
            lanes[2][place] = lanes[2][place - 1]
        lanes[3][lane] += 1
    return chosen


@uncounted
def _next_in_lane(lane: int, task: int, tasks: Tasks, lanes: Lanes, loads: Loads) -> int:
    """Return the place of the first process of a lane that is ready and has not got the task.

    The lane's end, if all that are ready have it.
    """
    at = _first(lane, lanes, loads[1])
    ready, end, level = lanes[2], lanes[4][lane], lanes[5][lane]
    while at < end and (loads[1][ready[at]] != level or _has(ready[at], task, tasks, loads)):
        at += 1
    return at


@uncounted
def _least_of_all(task: int, tasks: Tasks, allowed: Bools, queues: Queues, loads: Loads) -> int:
    """Return what :func:`_least_process` does; look through all processes."""
    chosen = NOBODY
    for process in range(len(loads[1])):
        if (
            allowed[queues[1][process]]
            and (chosen == NOBODY or _comes_first(process, chosen, queues, loads))
            and not _has(process, task, tasks, loads)
        ):
            chosen = process
    return chosen


@uncounted
def _least_member(process: int, lanes: Lanes, loads: Loads) -> int:
    """Return the least loaded member of a process."""
    at = _first(process, lanes, loads[0])
    lanes[3][process] = at + 1
    return int(lanes[2][at])


@uncounted
def _first(lane: int, lanes: Lanes, counts: Int32s) -> int:
    """Return the place of the first item that is ready; at the lane's end, go on to a new level."""
    starts, items, ready, heads, ends, levels = lanes
    at = heads[lane]
    while at < ends[lane] and counts[ready[at]] != levels[lane]:
        at += 1
    if at == ends[lane]:
        at = starts[lane]
        level, end = counts[items[at]], at
        for place in range(at, starts[lane + 1]):
            count = counts[items[place]]
            if count < level:
                level, end = count, at
            if count == level:
                ready[end] = items[place]
                end += 1
        levels[lane], ends[lane] = level, end
    heads[lane] = at
    return int(at)
