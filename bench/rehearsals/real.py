"""Run a scenario in real time on a stage: members over sockets, faults of real processes."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from functools import partial
from heapq import heappop, heappush
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeAlias

from bench.client.cluster_client import ClusterClient
from bench.load.driver import now_ms
from bench.rehearsals.crowd import (
    ERRORS,
    HEARTBEATS,
    HELD_REQUESTS,
    LATE,
    LATE_REQUESTS,
    REQUESTS,
    PlannedCrowd,
)
from bench.rehearsals.live_faults import FaultClock, LiveFaults
from bench.rehearsals.offset_reader import GroupOffsets, OffsetReader
from bench.rehearsals.side_work import SideWork
from bench.rehearsals.stages import connections_to, faults_on
from bench.scenarios.members import session_timeouts
from bench.scenarios.reads import OffsetsRead, committed_in
from bench.scenarios.record import ScenarioRecord
from bench.scenarios.simulated import POLL_MS, SETTLE_MS
from bench.scenarios.values import Protocol as GroupProtocol
from failover.drills.checked import DrillError
from protocol.wire.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from bench.load.stability import GroupShare
    from bench.rehearsals.stages import Stage
    from bench.scenarios.faults import Fault
    from bench.scenarios.plan import ScenarioPlan
    from bench.scenarios.record import LifeRecord
    from bench.scenarios.scenario import Scenario

START_MS: Final = 500
"""From the first step of the plan's preparation to its beginning."""
PROGRESS_MS: Final = 10_000
FAULT_POLL_MS: Final = 20
"""How often to see what came of faults that are about to begin or to end."""


class ScenarioCrowd(Protocol):
    """All members of a scenario, in this process or in others, inside a ``with`` block."""

    def __enter__(self) -> Self:
        """Get ready to begin."""

    def __exit__(self, *_error: object) -> None:
        """End all members."""

    def begin(self, began_s: float) -> None:
        """Carry out the plan, which begins at this time of ``time.monotonic``."""

    def check(self) -> None:
        """Raise what went wrong."""

    def shares(self) -> Mapping[str, GroupShare]:
        """Return what the members that are there now hold of each group."""

    def counts(self) -> Counter[str]:
        """Return how many heartbeats, errors, steps, requests and late ones there were so far."""

    def has_unowned(self) -> bool:
        """Whether a group has members, and a partition without an owner."""

    def records(self) -> list[LifeRecord]:
        """Return the record of every life; the members do no more afterwards."""

    def stalled_ms(self) -> int:
        """Return the longest stall of a process with members."""

    def lost(self) -> list[str]:
        """Return a sentence for each process with members that was lost, so far."""

    def missing(self) -> int:
        """Return how many members were lost with them."""

    def clock_error_ms(self) -> int:
        """Return how far the clocks of the members' processes may differ."""


CrowdOf: TypeAlias = "Callable[[Scenario, ScenarioPlan, Stage, Mapping[UUID, str]], ScenarioCrowd]"


def run(
    scenario: Scenario,
    plan: ScenarioPlan,
    stage: Stage,
    say: Callable[[int, str], None],
    crowd_of: CrowdOf = PlannedCrowd,
) -> ScenarioRecord:
    """Run a scenario's plan; ``say`` is told what happens, and how long after the start.

    ``crowd_of`` makes its members. Raises DrillError if it cannot be completed.
    """
    return _Play(scenario, plan, stage, say).run(crowd_of)


class _Play:
    """One run of one scenario; what is due later is in a heap: when, and what to do."""

    def __init__(
        self,
        scenario: Scenario,
        plan: ScenarioPlan,
        stage: Stage,
        say: Callable[[int, str], None],
    ) -> None:
        self._scenario = scenario
        self._plan = plan
        connections = connections_to(stage)
        offsets = GroupOffsets(stage.bootstrap, connections)
        self._reader = OffsetReader(scenario, stage, offsets)
        self._stage = stage
        self._told = say
        self._marks: list[tuple[int, str]] = []
        self._client = ClusterClient(stage.bootstrap, connections)
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._began_s = 0.0
        self._counts: Counter[str] = Counter()
        self._counted_ms = 0
        self._lost: set[str] = set()
        self._work = SideWork()
        clock = FaultClock(
            now_ms=self._now_ms,
            later=self._later,
            coordinator=self._coordinator,
            say=self._say,
            inflicted=self._reader.hurry,
        )
        self._faults = LiveFaults(scenario, stage, clock, self._work)

    def run(self, crowd_of: CrowdOf) -> ScenarioRecord:
        scenario, stage = self._scenario, self._stage
        stage.check()
        topics = stage.names.all(scenario.topics)
        for name, partitions in scenario.partitions_of().items():
            self._client.create_topic(stage.names.of(name), partitions)
        topic_names = self._client.topic_names(topics)
        for group in scenario.groups:
            self._client.coordinator(stage.names.of(group.name))
        with crowd_of(scenario, self._plan, stage, topic_names) as crowd, self._reader:
            self._began_s = time.monotonic() + START_MS / 1000
            began_ms = now_ms() + START_MS
            crowd.begin(self._began_s)
            with self._work:
                self._follow(crowd)
            ended_ms = now_ms()
            self._settle(crowd)
            self._reader.end()
            lives, counts = crowd.records(), crowd.counts()
            last = self._last_reads()
            self._reader.kept.add_last(last)
            return ScenarioRecord(
                lives=lives,
                changed_ms=began_ms + self._plan.changed_ms,
                ended_ms=ended_ms,
                committed=committed_in(last),
                partitions=scenario.partitions_by_group(),
                sessions=session_timeouts(scenario),
                late=counts[LATE] + self._faults.late,
                requests=counts[REQUESTS],
                late_requests=counts[LATE_REQUESTS],
                held_requests=counts[HELD_REQUESTS],
                stalled_ms=crowd.stalled_ms(),
                began_ms=began_ms,
                lost=crowd.lost(),
                missing=crowd.missing(),
                missed=tuple(self._faults.missed),
                clock_error_ms=crowd.clock_error_ms(),
                marks=tuple(sorted(self._marks, key=itemgetter(0))),
                faults=self._faults.log.all(),
                reads=self._reader.kept.all(),
            )

    def _say(self, at_ms: int, text: str) -> None:
        self._marks.append((at_ms, text))
        self._told(at_ms, text)

    # --- what happens beside the members

    def _follow(self, crowd: ScenarioCrowd) -> None:
        """Inflict the faults and tell what happens, until the end of the scenario."""
        duration = self._scenario.duration
        faults = faults_on(self._stage, self._scenario)
        for due_ms, text in self._plan.marks:
            self._later(due_ms, partial(self._say, due_ms, text))
        for fault in faults:
            self._later(fault.at, partial(self._faults.begin, fault, fault.at))
        for at_ms in range(PROGRESS_MS, duration, PROGRESS_MS):
            self._later(at_ms, partial(self._progress, crowd))
        while self._now_ms() < duration:
            self._stage.check()
            crowd.check()
            self._tell_lost(crowd)
            self._faults.go_on()
            if self._due and self._due[0][0] <= self._now_ms():
                self._do_next()
                continue
            next_ms = min(self._due[0][0] if self._due else duration, duration)
            poll_ms = POLL_MS if self._faults.is_done else FAULT_POLL_MS
            time.sleep(min(max(next_ms - self._now_ms(), 0), poll_ms) / 1000)
        while self._due or not self._faults.is_done:  # faults end with the scenario
            if self._due:
                self._do_next()
            else:
                self._faults.go_on()
                time.sleep(FAULT_POLL_MS / 1000)

    def _later(self, due_ms: int, action: Callable[[], None]) -> None:
        heappush(self._due, (due_ms, next(self._order), action))

    def _do_next(self) -> None:
        _, _, action = heappop(self._due)
        action()

    def _now_ms(self) -> float:
        return (time.monotonic() - self._began_s) * 1000

    def _tell_lost(self, crowd: ScenarioCrowd) -> None:
        """Say once of each process that was lost, when it was seen."""
        for sentence in crowd.lost():
            if sentence not in self._lost:
                self._lost.add(sentence)
                self._say(int(self._now_ms()), sentence)

    def _progress(self, crowd: ScenarioCrowd) -> None:
        at_ms = int(self._now_ms())
        shares, counts = crowd.shares().values(), crowd.counts()
        members, joined, ready = (
            sum(getattr(each, name) for each in shares) for name in ("members", "joined", "ready")
        )
        beats = counts[HEARTBEATS] - self._counts[HEARTBEATS]
        per_s = beats * 1000 / max(at_ms - self._counted_ms, 1)
        self._counts, self._counted_ms = counts, at_ms
        missing = crowd.missing()
        self._told(
            at_ms,
            f"{members} members, {joined} joined, {ready} with partitions,"
            f" {per_s:.0f} heartbeats/s, {counts[ERRORS]} errors, {len(self._faults.log)} faults,"
            f" {counts[LATE_REQUESTS]} late"
            f"{f', {missing} missing' if missing else ''}",
        )

    def _coordinator(self, fault: Fault) -> int | None:
        """Return the node that coordinates the group of a fault, if one does."""
        group = fault.group or self._scenario.groups[0].name
        try:
            at = self._client.coordinator(self._stage.names.of(group))
        except (OSError, KafkaError):
            return None
        return self._stage.bootstrap.index(at)

    # --- the end

    def _settle(self, crowd: ScenarioCrowd) -> None:
        """Let the groups finish their rebalances; the verdict says what they never finish."""
        deadline_s = time.monotonic() + SETTLE_MS / 1000
        while time.monotonic() < deadline_s and crowd.has_unowned():
            self._stage.check()
            crowd.check()
            time.sleep(POLL_MS / 1000)

    def _last_reads(self) -> list[OffsetsRead]:
        """Read the committed offsets, under the scenario's names; share groups have none."""
        found = []
        for group in self._scenario.groups:
            if group.protocol is GroupProtocol.SHARE:
                continue
            asked_ms = now_ms()
            try:
                offsets = self._client.committed(self._stage.names.of(group.name))
            except (OSError, KafkaError) as error:
                raise DrillError(
                    f"The committed offsets of {group.name} cannot be read: {error}."
                ) from None
            named = dict(zip(self._stage.names.back(offsets), offsets.values(), strict=True))
            found.append(OffsetsRead(group.name, asked_ms, now_ms(), named))
        return found
