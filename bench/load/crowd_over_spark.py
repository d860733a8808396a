"""A crowd of members on a Spark cluster: each task drives its share, then groups are judged.

One Spark job does both. Its first stage runs for as long as the load does: each task drives members
of every group (:class:`bench.load.live.LiveLoad`) and is told over a connection when to end
(:mod:`bench.load.watching`). Its second stage has all histories of a group at one place, asks the
group's coordinator for the committed offsets, and returns what it finds. A task that is lost with
its host is not run again: its members' histories are gone, so its members are missing.
"""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Final

from actors.coordinator import gc_tuning
from bench.client.cluster_client import ClusterClient
from bench.load.driver import LoadSpec
from bench.load.live import LiveLoad
from bench.load.watching import Watched
from failover.drills.drill import Workload
from failover.drills.verdict import (
    DrillRecord,
    Findings,
    MemberTimeline,
    Verdict,
    VerdictRow,
    findings,
    verdict_on,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark import SparkContext

    from bench.client.cluster_client import Address
    from failover.drills.drill import Drill
    from protocol.members.classic import MemberConfig

TELL_S: Final = 2.0
"""How often a task tells what its members hold."""

GROUPS_MIN: Final = 8
JOINS_PER_S: Final = 200
"""Members of a large crowd start at this pace, group after group."""


def crowd_of(members: int, consumer_share: float = 0.0) -> Workload:
    """Return a crowd; the larger it is, the less often each member sends.

    All send about as much in a second, whatever the number. The other times follow the interval.
    ``consumer_share`` of the groups are consumer groups, the others are classic.
    """
    interval_ms = max(1_000, members // 2)
    return Workload(
        groups=min(members, max(GROUPS_MIN, members // 100)),
        members=members,
        consumer_share=consumer_share,
        heartbeat_interval_ms=interval_ms,
        commit_interval_ms=interval_ms,
        session_timeout_ms=max(30_000, 12 * interval_ms),
        request_timeout_ms=max(5_000, 2 * interval_ms),
        settle_ms=max(5_000, 3 * interval_ms),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLoad:
    """Who joins what, in how many tasks, and who watches them."""

    bootstrap: tuple[Address, ...]
    workload: Workload
    prefix: str
    tasks: int
    watcher: Address

    def share(self, task: int) -> tuple[MemberConfig, ...]:
        """Return the members of a task: some dynamic and some static ones of each group."""
        groups = self.workload.groups
        configs = self.workload.configs(self.prefix)
        return tuple(
            config
            for number, config in enumerate(configs)
            if number // groups // 2 % self.tasks == task
        )


def run(context: SparkContext, load: SparkLoad) -> Findings:
    """Drive the crowd until its watcher ends it, and return what its members' histories show."""
    numbers = context.parallelize(range(load.tasks), load.tasks)
    found = (
        numbers.mapPartitions(partial(drive_share, load))
        .groupByKey(load.tasks)
        .map(partial(_judge_group, load.bootstrap))
        .collect()
    )
    return reduce(add, found, Findings())


def drive_share(load: SparkLoad, numbers: Iterable[int]) -> Iterator[tuple[str, bytes]]:
    """Drive the members of a task; return each group's part of their histories, packed."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        return  # the first attempt was lost, and its members' histories with it
    gc_tuning.freeze_heap()
    for number in numbers:
        yield from _driven(load, number)


def _driven(load: SparkLoad, number: int) -> Iterator[tuple[str, bytes]]:
    workload = load.workload
    spec = LoadSpec(
        bootstrap=load.bootstrap,
        members=(),
        partitions_of=dict.fromkeys(workload.group_ids(load.prefix), workload.partitions_each),
        until_ms=0,
        commit_interval_ms=workload.commit_interval_ms,
        seed=number,
    )
    types = workload.group_types(load.prefix)
    topic_names = ClusterClient(load.bootstrap).topic_names([*types])
    over_ms = max(workload.heartbeat_interval_ms, workload.members * 1000 // JOINS_PER_S)
    with (
        Watched(load.watcher, number) as watched,
        LiveLoad(spec, types, topic_names) as crowd,
    ):
        crowd.begin(load.share(number), over_ms)  # and tell meanwhile how many there are
        while (fault_ms := watched.ends(TELL_S)) is None:
            watched.tell(crowd.shares())
        stalled_ms = crowd.stalled_ms(fault_ms)
        stories: dict[str, list[MemberTimeline]] = {}
        for story in crowd.stories():
            stories.setdefault(story.group_id, []).append(story)
        watched.has_taken()
    for group_id in [*stories]:
        yield group_id, packed(stories.pop(group_id), fault_ms, stalled_ms)


def packed(stories: Sequence[MemberTimeline], fault_ms: int, stalled_ms: int) -> bytes:
    """Pack a part of a group's histories: they are long and say the same thing often."""
    return zlib.compress(pickle.dumps((stories, fault_ms, stalled_ms)), 1)


def unpacked(data: bytes) -> tuple[list[MemberTimeline], int, int]:
    """Return what :func:`packed` was given."""
    part: tuple[list[MemberTimeline], int, int] = pickle.loads(zlib.decompress(data))
    return part


def _judge_group(bootstrap: Sequence[Address], group: tuple[str, Iterable[bytes]]) -> Findings:
    """Return what the histories of one group show; its coordinator knows what is committed."""
    group_id, parts = group
    committed = ClusterClient(bootstrap).committed(group_id)
    return found_in(group_id, [unpacked(part) for part in parts], committed)


def found_in(
    group_id: str,
    parts: Sequence[tuple[Sequence[MemberTimeline], int, int]],
    committed: Mapping[tuple[str, int], int],
) -> Findings:
    """Return what the parts of a group's histories show."""
    record = DrillRecord(
        stories=[story for stories, _, _ in parts for story in stories],
        committed={(group_id, *at): offset for at, offset in committed.items()},
        fault_ms=min(fault_ms for _, fault_ms, _ in parts),
        replicated_ms=None,
        stalled_ms=max(stalled_ms for _, _, stalled_ms in parts),
    )
    return findings(record)


def judged(drill: Drill, found: Findings, replicated_ms: int | None) -> Verdict:
    """Return the verdict on a crowd: members that are lost with their task are missing."""
    verdict = verdict_on(drill, found, replicated_ms)
    missing = drill.workload.members - found.members
    row = VerdictRow(name="members that are missing", value=missing, limit=0)
    return replace(verdict, rows=(*verdict.rows, row))
