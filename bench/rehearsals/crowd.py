"""The members of a scenario over sockets: each step of the plan at its time, in a thread.

The load is open: a step is carried out when it is due, whatever the cluster does meanwhile. Steps
and requests that this machine carries out or sends late are counted.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec.structs import replace

from actors.waiting import poll_async
from bench.client.due_times import SendCounts, is_late
from bench.client.loop_lag import LoopLag
from bench.client.loop_thread import LoopThread
from bench.load.driver import (
    FAREWELL_SECONDS,
    CoordinatorLookups,
    MemberDriver,
    now_ms,
)
from bench.load.stability import share_of
from bench.rehearsals.stages import connections_to
from bench.scenarios.members import LifeTimes, has_unowned, life_record, settings_of
from bench.scenarios.plan import CLOSED, Freeze, Leave, Life, Start, Subscribe, Thaw, Vanish
from protocol.members.history import MemberHistoryKind
from protocol.members.kinds import TopicMetadata, member_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from uuid import UUID

    from bench.load.stability import GroupShare
    from bench.rehearsals.stages import CrowdCluster
    from bench.scenarios.plan import ScenarioPlan
    from bench.scenarios.record import LifeRecord
    from bench.scenarios.scenario import Scenario
    from protocol.members.kinds import Member
    from protocol.wire.embedded import TopicPartition

HEARTBEATS, ERRORS, STEPS, LATE = "heartbeats", "errors", "steps", "late steps"
REQUESTS, LATE_REQUESTS, HELD_REQUESTS = "requests", "late requests", "held requests"
COUNTED: Final[Mapping[MemberHistoryKind, str]] = MappingProxyType(
    {
        MemberHistoryKind.HEARTBEAT: HEARTBEATS,
        MemberHistoryKind.LOST: ERRORS,
        MemberHistoryKind.RETRIED: ERRORS,
        MemberHistoryKind.DISCONNECTED: ERRORS,
        MemberHistoryKind.COMMIT_FAILED: ERRORS,
        MemberHistoryKind.FAILED: ERRORS,
    }
)
"""What is told of a load while it runs."""
STEPS_PER_TURN: Final = 20
"""Steps that are carried out before the sockets get a turn."""
LIVES_PER_TURN: Final = 500
"""Lives that are looked at before the sockets get a turn: a millisecond or two."""


class PlannedCrowd:
    """All members of a scenario, inside a ``with`` block; they begin with :meth:`begin`.

    ``stage`` is the cluster they live in, and ``topic_names`` has the names of its topics by their
    ids. Members in different processes, each with another ``task``, have different ids. At the end
    of the block all members leave for good if the cluster stays, and else just end.
    """

    def __init__(
        self,
        scenario: Scenario,
        plan: ScenarioPlan,
        stage: CrowdCluster,
        topic_names: Mapping[UUID, str],
        task: int = 0,
    ) -> None:
        self._scenario = scenario
        self._steps = plan.steps
        self._stage = stage
        self._names = names = stage.names
        partitions_of = {names.of(name): n for name, n in scenario.partitions_of().items()}
        self._topics = TopicMetadata(partitions_of=partitions_of, names=topic_names)
        self._groups = {
            group.name: replace(group, topics=names.all(group.topics)) for group in scenario.groups
        }
        self._rng = random.Random(f"{scenario.seed} {task}")
        self._thread = LoopThread("crowd")
        self._drivers: dict[Life, MemberDriver] = {}
        self._times: dict[Life, LifeTimes] = {}
        self._lookups: CoordinatorLookups | None = None
        self._lag: LoopLag | None = None
        self._began_s = 0.0
        self._next = 0
        self._due_ms = 0  # when the current step was due
        self._late = 0
        self._sends = SendCounts()
        self._failure: Exception | None = None
        self._counted: dict[Life, int] = {}
        self._counts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._thread.run(self._end())
        self._thread.end()

    def begin(self, began_s: float) -> None:
        """Carry out the plan, which begins at this time of ``time.monotonic``."""

        def begin() -> None:
            stage, each = self._stage, self._scenario.members_per_connection
            self._lookups = CoordinatorLookups(stage.bootstrap, connections_to(stage), each)
            self._lag = LoopLag(self._thread.loop)
            self._began_s = began_s
            self._turn()

        self._thread.ask(begin)

    def check(self) -> None:
        """Raise what went wrong in the thread."""
        if self._failure is not None:
            raise self._failure

    def shares(self) -> dict[str, GroupShare]:
        """Return what the members that are there now hold of each group."""

        async def look() -> dict[str, GroupShare]:
            members: dict[str, list[Member]] = {name: [] for name in self._groups}
            async for some in self._in_turns():
                for life, driver in some:
                    if self._is_here(life):
                        members[life.group].append(driver.member)
            found = {}
            for name, each in members.items():
                if each:
                    found[name] = share_of(each)
                    await asyncio.sleep(0)
            return found

        return self._thread.run(look())

    def counts(self) -> Counter[str]:
        """Return how many heartbeats, errors, steps, requests and late ones there were so far."""

        async def count() -> Counter[str]:
            async for some in self._in_turns():
                for life, driver in some:
                    history, known = driver.member.history, self._counted.get(life, 0)
                    for event in history[known:]:
                        if (word := COUNTED.get(event.kind)) is not None:
                            self._counts[word] += 1
                    self._counted[life] = len(history)
            self._counts[STEPS], self._counts[LATE] = self._next, self._late
            sends = self._sends
            self._counts[REQUESTS], self._counts[LATE_REQUESTS] = sends.sent, sends.late
            self._counts[HELD_REQUESTS] = sends.held
            return Counter(self._counts)

        return self._thread.run(count())

    async def _in_turns(self) -> AsyncIterator[list[tuple[Life, MemberDriver]]]:
        """Yield all lives, some at a time; members send and receive in between."""
        everyone = list(self._drivers.items())
        for at in range(0, len(everyone), LIVES_PER_TURN):
            yield everyone[at : at + LIVES_PER_TURN]
            await asyncio.sleep(0)

    def has_unowned(self) -> bool:
        """Whether a group has members, and a partition without an owner."""
        return has_unowned(self._scenario, self._present())

    def _present(self) -> list[tuple[Life, tuple[TopicPartition, ...]]]:
        """Return the members that are there now, and what each owns."""

        def look() -> list[tuple[Life, tuple[TopicPartition, ...]]]:
            return [
                (life, self._names.back(driver.member.partitions))
                for life, driver in self._drivers.items()
                if self._is_here(life)
            ]

        return self._thread.ask(look)

    def records(self) -> list[LifeRecord]:
        """Return the record of every life so far."""

        def look() -> list[LifeRecord]:
            return [self._record(life, now_ms()) for life in self._drivers]

        return [self._names.recorded(each) for each in self._thread.ask(look)]

    def lost(self) -> list[str]:
        """Return nothing: all members are in this process."""
        return []

    def missing(self) -> int:
        """Return that no member was lost."""
        return 0

    def clock_error_ms(self) -> int:
        """Return that all members have one clock."""
        return 0

    def stalled_ms(self) -> int:
        """Return the longest stall of this process."""
        return self._thread.ask(lambda: self._lag.longest_ms(0) if self._lag else 0)

    # --- the plan

    def _turn(self) -> None:
        """Carry out the steps that are due, and return when the next one is."""
        try:
            for _ in range(STEPS_PER_TURN):
                if self._next == len(self._steps):
                    return
                step = self._steps[self._next]
                left_s = self._began_s + step.due_ms / 1000 - time.monotonic()
                if left_s > 0:
                    self._thread.loop.call_later(left_s, self._turn)
                    return
                self._late += is_late(left_s * 1000, 0)
                self._due_ms = now_ms() + int(left_s * 1000)
                self._next += 1
                MEMBER_ACTIONS[type(step.action)](self, step.life, step.action)
        except Exception as error:
            self._failure = error
        else:
            self._thread.loop.call_soon(self._turn)

    def start(self, life: Life, _action: Start) -> None:
        """Start a member."""
        assert self._lookups is not None
        group = self._groups[life.group]
        config = settings_of(group, life, self._names.of(life.group))
        member = member_of(config, random.Random(self._rng.random()), self._topics)
        commits_ms = self._scenario.commit_ms(group)
        driver = MemberDriver(member, self._lookups, commits_ms, self._sends)
        self._drivers[life] = driver
        self._times[life] = LifeTimes(now_ms())
        driver.step(self._due_ms)

    def leave(self, life: Life, action: Leave) -> None:
        """Close a member."""
        self._times[life].ended_ms = now_ms()
        self._drivers[life].leave(action.reason)

    def vanish(self, life: Life, _action: Vanish) -> None:
        """End a member without a word."""
        self._times[life].ended_ms = now_ms()
        self._drivers[life].end()

    def freeze(self, life: Life, _action: Freeze) -> None:
        """Let a member stand still."""
        self._drivers[life].freeze()

    def thaw(self, life: Life, _action: Thaw) -> None:
        """Let it go on."""
        self._drivers[life].thaw()

    def subscribe(self, life: Life, action: Subscribe) -> None:
        """Change a member's subscription."""
        self._times[life].subscribed_ms.append(now_ms())
        self._drivers[life].subscribe(self._names.all(action.topics))

    # --- its members

    def _is_here(self, life: Life) -> bool:
        return self._times[life].ended_ms is None and not self._drivers[life].member.is_done

    def _record(self, life: Life, at_ms: int) -> LifeRecord:
        seen_ms = at_ms if self._is_here(life) else None
        return life_record(life, self._drivers[life].member, self._times[life], seen_ms)

    async def _end(self) -> None:
        self._next = len(self._steps)
        here = [driver for life, driver in self._drivers.items() if self._is_here(life)]
        if self._stage.leaves:
            for driver in here:
                driver.thaw()
                driver.stop(CLOSED)
            within_s = FAREWELL_SECONDS
            await poll_async(lambda: all(driver.member.is_done for driver in here), within_s)
        for driver in self._drivers.values():
            driver.end()
        if self._lookups is not None:
            self._lookups.close()


MEMBER_ACTIONS: Final[Mapping[type, Callable[[Any, Life, Any], None]]] = MappingProxyType(
    {
        Start: PlannedCrowd.start,
        Leave: PlannedCrowd.leave,
        Vanish: PlannedCrowd.vanish,
        Freeze: PlannedCrowd.freeze,
        Thaw: PlannedCrowd.thaw,
        Subscribe: PlannedCrowd.subscribe,
    }
)
"""How each step of a plan is carried out over sockets."""
