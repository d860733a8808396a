"""A drill seen by somebody's own groups: it is carried out, and they are watched and judged."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from bench.load.observing import GroupObserver
from bench.load.rehearsal import WARM_UP_S, Rehearsal
from failover.drills.checked import DrillError
from failover.drills.observation import Observation, judge_observed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.client.cluster_client import ClusterClient
    from bench.load.rehearsal import Members, RehearsalLog
    from failover.drills.drill import Drill
    from failover.drills.verdict import Verdict

CALM_MS_MAX: Final = 15_000
"""How long groups that rebalance may take to be Stable before the first step."""


class ObservedRehearsal(Rehearsal):
    """One run of a drill on a cluster whose groups ``group_ids`` have members of their own."""

    def __init__(
        self,
        drill: Drill,
        cluster: ClusterClient,
        group_ids: Sequence[str],
        log: RehearsalLog | None = None,
    ) -> None:
        super().__init__(drill, cluster, log)
        self.group_ids = tuple(group_ids)

    def play(self, carry_out: Callable[[Members], None]) -> Verdict:
        """Wait until the groups are Stable, ``carry_out`` the drill, and judge what was seen."""
        drill, cluster = self.drill, self.cluster
        self.say(f"{drill.about}; watching {', '.join(self.group_ids)}")
        with GroupObserver(cluster.bootstrap, self.group_ids) as observer:
            try:
                cluster.wait(observer.is_stable, CALM_MS_MAX, "calm")
            except DrillError:
                why = " ".join(observer.unstable_groups())
                raise DrillError(f"{why} A drill starts when its groups are Stable.") from None
            time.sleep(WARM_UP_S)
            carry_out(observer)
            time.sleep(drill.workload.settle_ms / 1000)
            seen = self.log.seen = self._observation(observer)
        return judge_observed(drill, seen)

    def _observation(self, observer: GroupObserver) -> Observation:
        return Observation(
            sights=observer.sights(),
            fault_ms=self._fault_ms,
            replicated_ms=self._replicated_ms,
        )
