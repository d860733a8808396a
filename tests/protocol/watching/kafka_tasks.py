"""Tasks of streams groups in Kafka: who is to have which, and how a member comes to its target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.protocol.watching.streams_records import Task

STABLE, UNREVOKED, UNRELEASED = range(3)


@dataclass(frozen=True)
class Held:
    """A member's current assignment."""

    epoch: int = 0
    state: int = STABLE
    tasks: frozenset[Task] = frozenset()
    revoking: frozenset[Task] = frozenset()


def assign(
    names: list[str],
    processes: Mapping[str, str],
    tasks: list[tuple[str, int]],
    standbys: int,
) -> dict[str, frozenset[Task]]:
    """Deal out active tasks in turn; standby and warm-up tasks go to other processes."""
    found: dict[str, set[Task]] = {each: set() for each in names}
    for at, task in enumerate(tasks):
        owner = names[at % len(names)]
        found[owner].add(("active", *task))
        others = [each for each in names if processes[each] != processes[owner]]
        if standbys and others:
            found[others[at % len(others)]].add(("standby", *task))
        elif others and at == 0:
            found[others[0]].add(("warmup", *task))
    return {each: frozenset(those) for each, those in found.items()}


def reconciled(
    held: Held,
    target: tuple[int, frozenset[Task]],
    around: tuple[str, Iterable[tuple[str, Held]]],
    *,
    has_revoked: bool,
) -> Held:
    """Return what a member has after a heartbeat: ``around`` are its process and the others'."""
    epoch, wanted = target
    if held.state == UNREVOKED and not has_revoked:
        return held
    if held.state == STABLE and held.epoch == epoch:
        return held
    at_epoch = held.epoch + (held.state == UNREVOKED)
    kept = held.tasks & wanted
    revoking = held.tasks - kept
    if revoking:
        return Held(at_epoch, UNREVOKED, kept, revoking)
    process, others = around
    free = {each for each in wanted - kept if _is_free(each, process, others)}
    state = STABLE if kept | free == wanted else UNRELEASED
    return Held(epoch, state, kept | free)


def _is_free(task: Task, process: str, others: Iterable[tuple[str, Held]]) -> bool:
    for its_process, held in others:
        has = held.tasks | held.revoking
        if task[0] == "active" and task in has:
            return False
        if its_process == process and any(each[1:] == task[1:] for each in has):
            return False
    return True
