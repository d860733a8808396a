"""The members of a drill: they join, live through what the drill does, and are judged."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from actors.telemetry.run_traces import RunStep
from bench.load.driver import LoadSpec, now_ms
from bench.load.live import LiveLoad
from bench.load.observing import GroupObserver
from failover.drills.checked import DrillError
from failover.drills.verdict import DrillRecord, Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.client.cluster_client import ClusterClient
    from failover.drills.drill import Drill, Workload
    from failover.drills.observation import Observation

Members: TypeAlias = LiveLoad | GroupObserver
"""The members of a drill: its own, or those of others that it only watches."""

STABLE_MS_MAX: Final = 180_000
STABLE_MS_PER_MEMBER: Final = 15
"""How long members may take to join before a drill: nothing of that is judged.

Groups whose assignor worker gets no processor for a while are Stable only then.
"""
WARM_UP_S: Final = 3.0
"""The time from Stable to the first step: every member has had a heartbeat and a commit."""


@dataclass(slots=True)
class RehearsalLog:
    """What a report of a drill is made of: what was said and when, and what was recorded.

    Times are in milliseconds of the members' clock. ``types`` are those of the groups. There is no
    ``record`` of members that ran elsewhere, but of groups that were watched, what was ``seen`` of
    them. ``steps`` are those that were carried out.
    """

    told: list[tuple[int, str]] = field(default_factory=list)
    types: Mapping[str, str] = field(default_factory=dict)
    record: DrillRecord | None = None
    steps: list[RunStep] = field(default_factory=list)
    seen: Observation | None = None


class Rehearsal:
    """One run of a drill's members on a cluster; ``log`` gets what its report needs.

    Who carries out the drill calls :meth:`fault_begins` before each fault, :meth:`fault_ends` after
    what makes or ends one, and :meth:`is_replicated` once all replicas are in sync.
    """

    def __init__(
        self, drill: Drill, cluster: ClusterClient, log: RehearsalLog | None = None
    ) -> None:
        self.drill = drill
        self.log = log or RehearsalLog()
        self.cluster = cluster
        self.prefix = f"drill-{os.getpid()}-{now_ms() % 1_000_000}"
        self.group_ids = drill.workload.group_ids(self.prefix)
        self._begun = time.monotonic()
        self._fault_ms = 0
        self._last_fault_ms = 0
        self._replicated_ms: int | None = None

    def play(self, carry_out: Callable[[Members], None]) -> Verdict:
        """Let the members join, ``carry_out`` the drill, and judge."""
        drill, cluster, workload = self.drill, self.cluster, self.drill.workload
        self.create_topics()
        load = LoadSpec(
            bootstrap=cluster.bootstrap,
            members=workload.configs(self.prefix),
            partitions_of=dict.fromkeys(self.group_ids, workload.partitions_each),
            until_ms=0,
            commit_interval_ms=workload.commit_interval_ms,
        )
        types = self.log.types = workload.group_types(self.prefix)
        self.say(self.about())
        topic_names = cluster.topic_names(self.group_ids)
        begins_over_ms = workload.heartbeat_interval_ms
        with LiveLoad(load, types, topic_names, begins_over_ms) as crowd:
            try:
                cluster.wait(crowd.is_stable, patience_ms(workload), "Stable")
            except DrillError as error:
                raise DrillError(" ".join([str(error), *crowd.unstable_groups()])) from None
            self.say("every group is Stable")
            time.sleep(WARM_UP_S)
            carry_out(crowd)
            time.sleep(workload.settle_ms / 1000)
            record = DrillRecord(
                stories=crowd.stories(),
                stalled_ms=crowd.stalled_ms(self._fault_ms),
                committed=self._committed(crowd),
                fault_ms=self._fault_ms,
                replicated_ms=self._replicated_ms,
            )
            self.log.record = record
            self.say("the members leave")
        return judge(drill, record)

    def about(self) -> str:
        """Return what happens in words, and to how many members."""
        workload = self.drill.workload
        types = Counter(workload.group_types(self.prefix).values())
        groups = ", ".join(f"{count} {name}" for name, count in types.items())
        return f"{self.drill.about}; {workload.members} members, {workload.groups} groups: {groups}"

    def create_topics(self) -> None:
        """Create the topic of each group."""
        for group_id in self.group_ids:
            self.cluster.create_topic(group_id, self.drill.workload.partitions_each)

    def fault_begins(self) -> None:
        """Count costs from the first fault on."""
        self._fault_ms = self._fault_ms or now_ms()

    def fault_ends(self) -> None:
        """Count the time to full replication from now on."""
        self._last_fault_ms = now_ms()
        self._replicated_ms = None

    def is_replicated(self) -> None:
        """Note that all replicas are in sync."""
        self._replicated_ms = now_ms() - self._last_fault_ms

    def say(self, text: str) -> None:
        """Print and log what happens, and when."""
        self.log.told.append((now_ms(), text))
        print(f"{time.monotonic() - self._begun:7.1f} s  {text}", flush=True)

    def _committed(self, crowd: LiveLoad) -> dict[tuple[str, str, int], int]:
        committed = {}
        for group_id in crowd.committing():
            offsets = self.cluster.committed(group_id)
            committed.update({(group_id, *at): offset for at, offset in offsets.items()})
        return committed


def patience_ms(workload: Workload) -> int:
    """Return how long the members may take until all groups are Stable."""
    return STABLE_MS_MAX + STABLE_MS_PER_MEMBER * workload.members
