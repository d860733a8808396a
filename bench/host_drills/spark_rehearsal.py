"""The members of a drill on further hosts, driven and judged by a standalone Spark there."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from actors.cli.client import shown
from actors.waiting import poll
from bench.hosts.host import TMP
from bench.hosts.waiting import patient
from bench.load import submit
from bench.load.crowd_over_spark import crowd_of, judged
from bench.load.rehearsal import WARM_UP_S, Rehearsal
from bench.load.submit import ENDS_S, wait_until_stable
from bench.load.watching import LoadWatcher
from failover.drills.checked import DrillError
from failover.drills.verdict import Findings

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.client.cluster_client import ClusterClient
    from bench.hosts.host import Running
    from bench.hosts.spark_hosts import SparkOnHosts
    from bench.load.rehearsal import RehearsalLog
    from failover.drills.drill import Drill, Workload
    from failover.drills.verdict import Verdict

FINDINGS: Final = TMP / "findings.json"
JUDGE_S: Final = patient(180)
JUDGE_S_PER_MEMBER: Final = patient(0.02)
"""How long Spark may take to judge. It notices after a minute that a host has vanished."""


def over_spark(drill: Drill, members: int | None) -> Drill:
    """Return a drill with a crowd in place of its members (None: as many members).

    Who heartbeats and gives up requests less often may be unheard of for so much longer.
    """
    usual = drill.workload
    crowd = crowd_of(members or usual.members, usual.consumer_share)
    limit = drill.expect.unheard_p99_ms_max + _unheard_ms(crowd) - _unheard_ms(usual)
    return replace(
        drill, workload=crowd, expect=replace(drill.expect, unheard_p99_ms_max=max(limit, 1))
    )


def _unheard_ms(workload: Workload) -> int:
    """Return how long a member is unheard of that meets a silent host twice."""
    return workload.heartbeat_interval_ms + 2 * workload.request_timeout_ms


class SparkRehearsal(Rehearsal):
    """One run of a drill whose members are driven by Spark; the drill only watches them."""

    def __init__(
        self,
        drill: Drill,
        cluster: ClusterClient,
        spark: SparkOnHosts,
        log: RehearsalLog | None = None,
    ) -> None:
        super().__init__(drill, cluster, log)
        self._spark = spark

    def ride(self, carry_out: Callable[[], None]) -> Verdict:
        """Let the members join, ``carry_out`` the drill, and judge."""
        drill, workload = self.drill, self.drill.workload
        self.create_topics()
        hosts = self._spark.workers
        self.say(f"{self.about()}; driven by Spark on {len(hosts)} further hosts")
        with LoadWatcher(self._spark.master.ip, len(hosts)) as watcher:
            running = self._submitted(watcher)

            def has_ended() -> bool:
                self._spark.check()
                return running.process.poll() is not None

            wait_until_stable(watcher, workload, has_ended)
            self.say(f"every group is Stable; members are on {', '.join(sorted(watcher.hosts))}")
            time.sleep(WARM_UP_S + workload.heartbeat_interval_ms / 1000)
            carry_out()
            time.sleep(workload.settle_ms / 1000)
            for sentence in watcher.lost():
                self.say(sentence)
            watcher.end(self._fault_ms, ENDS_S)
            self.say("the members leave, and Spark judges")
        found = self._found(running)
        self.say("Spark has judged")
        return judged(drill, found, self._replicated_ms)

    def _submitted(self, watcher: LoadWatcher) -> Running:
        bootstrap = ",".join(map(shown, self.cluster.bootstrap))
        return self._spark.submit(
            Path(submit.__file__),
            "--bootstrap", bootstrap,
            "--members", str(self.drill.workload.members),
            "--consumer-share", str(self.drill.workload.consumer_share),
            "--tasks", str(len(self._spark.workers)),
            "--prefix", self.prefix,
            "--watched-by", shown(watcher.address),
            "--findings", str(FINDINGS),
        )  # fmt: skip

    def _found(self, running: Running) -> Findings:
        """Wait until Spark has judged; raises DrillError if it fails, or takes too long."""
        within_s = JUDGE_S + JUDGE_S_PER_MEMBER * self.drill.workload.members
        code = poll(running.process.poll, within_s, is_done=lambda code: code is not None)
        if code is None:
            raise DrillError(f"Spark has not judged within {within_s:g} s.")
        if code:
            said = f"{running.said()}{running.stderr.read_text()}".strip().splitlines()
            why = [line for line in said if line.startswith("The load could not")] or said[-1:]
            raise DrillError(f"The load on Spark failed: {''.join(why)}")
        return Findings(**json.loads((self._spark.master.disk / FINDINGS.name).read_text()))
