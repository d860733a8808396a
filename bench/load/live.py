"""A load that can be changed while it runs: members that join later, static ones that restart.

The members run in a thread with its own event loop; a drill calls from another thread. The members'
driver is that of :mod:`bench.load.driver`.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from concurrent.futures import Future
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from actors.waiting import poll_async
from bench.client.loop_lag import LoopLag
from bench.client.loop_thread import LoopThread
from bench.load.driver import FAREWELL_SECONDS, CoordinatorLookups, MemberDriver, now_ms
from bench.load.stability import share_of
from failover.drills.verdict import MemberTimeline
from protocol.members.consumer import ConsumerMemberConfig
from protocol.members.kinds import TopicMetadata, kind_of, member_of
from protocol.members.share import ShareMemberConfig
from protocol.members.streams import StreamsMemberConfig
from protocol.members.topology import subtopology
from protocol.wire.streams_messages import StreamsTopology

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from bench.load.driver import LoadSpec
    from bench.load.stability import GroupShare
    from protocol.members.classic import MemberConfig
    from protocol.members.client import State
    from protocol.members.kinds import AnyConfig, Member

CLASSIC: Final = "classic"
STARTS_PER_TURN = 50
"""Members that start at once before other members and the sockets get a turn."""


class LiveLoad:
    """Runs the members of ``load`` inside a ``with`` block; its ``until_ms`` is ignored.

    ``types`` has the type of each group that is not classic, and ``topic_names`` returns the name
    of a topic id, as used in assignments. The groups start
    one after the other within ``begins_over_ms``: spread over a heartbeat interval, heartbeats come
    evenly, as from members that joined at different times, and not in one burst of ten thousand.
    """

    def __init__(
        self,
        load: LoadSpec,
        types: Mapping[str, str] = MappingProxyType({}),
        topic_names: Mapping[UUID, str] = MappingProxyType({}),
        begins_over_ms: int = 0,
    ) -> None:
        self._load = load
        self._begins_over_ms = begins_over_ms
        self._types = types
        self._topics = TopicMetadata(partitions_of=load.partitions_of, names=topic_names)
        self._rng = random.Random(load.seed)
        self._thread = LoopThread("load")
        self._lookups: CoordinatorLookups | None = None
        self._lag: LoopLag | None = None
        self._drivers: list[MemberDriver] = []
        self._ended: list[MemberDriver] = []
        self._configs: dict[str, MemberConfig] = {}
        self._beginning: Future[None] | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        by_group = sorted(self._load.members, key=lambda config: config.group_id)
        self._thread.run(self._start(by_group, self._begins_over_ms))
        return self

    def __exit__(self, *_error: object) -> None:
        if self._beginning is not None:
            self._beginning.cancel()
        self._thread.run(self._stop())
        self._thread.end()

    def begin(self, configs: Sequence[MemberConfig], over_ms: int) -> None:
        """Start more members, evenly within so long and group after group; returns at once."""
        by_group = sorted(configs, key=lambda config: config.group_id)
        self._beginning = self._thread.begin(self._start(by_group, over_ms))

    def join(self, configs: Sequence[MemberConfig]) -> None:
        """Start more members; returns when all have started, not when they have joined."""
        self._thread.run(self._start(configs))

    def restart_static(self, share: float) -> int:
        """Restart this share of the static members; return how many.

        They are chosen evenly from all groups; share groups have none. Members of classic groups
        are killed. Those of others say that they will return, as an application does that is closed
        (KIP-848, KIP-1071): the protocol lets no one replace a member that has not left.
        """
        configs = self._thread.run(self._end_static(share))
        self.join(configs)
        return len(configs)

    async def _end_static(self, share: float) -> list[MemberConfig]:
        static = [each for each in self._drivers if each.member.config.instance_id is not None]
        count = round(len(static) * share)
        chosen = [static[number * len(static) // count] for number in range(count)]
        leaving = [each for each in chosen if not kind_of(each.member.config).replaces_silent]
        for number, driver in enumerate(leaving, 1):
            driver.leave("the member restarts")
            if number % STARTS_PER_TURN == 0:
                await asyncio.sleep(0)
        await poll_async(lambda: all(driver.member.is_done for driver in leaving), FAREWELL_SECONDS)
        for driver in chosen:
            driver.end()
            self._ended.append(driver)
        gone = set(map(id, chosen))
        self._drivers = [each for each in self._drivers if id(each) not in gone]
        return [self._configs[each.member.config.client_id] for each in chosen]

    def is_stable(self) -> bool:
        """Whether all groups are Stable (:class:`bench.load.stability.GroupShare`)."""
        return not self.unstable_groups()

    def unstable_groups(self) -> list[str]:
        """Return, for each group that is not Stable, a sentence that says why."""
        there = self._load.partitions_of
        reasons = (
            (group_id, share.why_unstable(there[group_id]))
            for group_id, share in self.shares().items()
        )
        return [f"{group_id}: {why}." for group_id, why in reasons if why]

    def shares(self) -> dict[str, GroupShare]:
        """Return what the members hold of each group."""

        def look() -> dict[str, GroupShare]:
            members: dict[str, list[Member]] = defaultdict(list)
            for driver in self._drivers:
                members[driver.member.config.group_id].append(driver.member)
            return {group_id: share_of(each) for group_id, each in members.items()}

        return self._thread.ask(look)

    def committing(self) -> list[str]:
        """Return the groups whose members commit offsets: share groups have none."""
        members = (driver.member for driver in self._drivers)
        groups = [each.config.group_id for each in members if kind_of(each.config).commits]
        return list(dict.fromkeys(groups))

    def counts(self) -> dict[State, int]:
        """Count the members by their state."""

        def look() -> dict[State, int]:
            found: dict[State, int] = defaultdict(int)
            for driver in self._drivers:
                found[driver.member.state] += 1
            return dict(found)

        return self._thread.ask(look)

    def stories(self) -> list[MemberTimeline]:
        """Return every member's history so far, ended lives first."""

        def look() -> list[MemberTimeline]:
            seen_ms = now_ms()
            ended = [story_of(driver.member, None) for driver in self._ended]
            return ended + [story_of(driver.member, seen_ms) for driver in self._drivers]

        return self._thread.ask(look)

    def stalled_ms(self, since_ms: int) -> int:
        """Return the longest stall of the load itself after a time (Unix)."""
        return self._thread.ask(lambda: self._lag.longest_ms(since_ms) if self._lag else 0)

    async def _start(self, configs: Sequence[MemberConfig], over_ms: int = 0) -> None:
        if self._lookups is None:
            self._lookups = CoordinatorLookups(self._load.bootstrap)
            self._lag = LoopLag(self._thread.loop)
        began = self._thread.loop.time()
        for number, config in enumerate(configs, 1):
            self._configs[config.client_id] = config
            driver = MemberDriver(
                self._member(config), self._lookups, self._load.commit_interval_ms
            )
            self._drivers.append(driver)
            driver.step()
            if number % STARTS_PER_TURN == 0:
                due = began + over_ms / 1000 * number / len(configs)
                await asyncio.sleep(max(0, due - self._thread.loop.time()))

    def _member(self, config: MemberConfig) -> Member:
        rng = random.Random(self._rng.random())
        return member_of(self._settings(config), rng, self._topics)

    def _settings(self, config: MemberConfig) -> AnyConfig:
        return SETTINGS[self._types.get(config.group_id, CLASSIC)](config)

    async def _stop(self) -> None:
        for number, driver in enumerate(self._drivers, 1):
            driver.stop("the load is over")
            if number % STARTS_PER_TURN == 0:
                await asyncio.sleep(0)
        await poll_async(
            lambda: all(driver.member.is_done for driver in self._drivers), FAREWELL_SECONDS
        )
        for driver in self._drivers:
            driver.end()
        if self._lookups is not None:
            self._lookups.close()


def story_of(member: Member, seen_ms: int | None) -> MemberTimeline:
    """Return a member's history; ``seen_ms`` is now, or None for a life that has ended."""
    config = member.config
    return MemberTimeline(
        group_id=config.group_id,
        name=config.instance_id or config.client_id,
        is_static=config.instance_id is not None,
        is_exclusive=kind_of(config).is_exclusive,
        is_cooperative=member.is_cooperative,
        events=tuple(member.history),
        seen_ms=seen_ms,
        holds=member.partitions,
        open_commits=member.open_commits,
    )


def _consumer(config: MemberConfig) -> AnyConfig:
    return ConsumerMemberConfig(
        group_id=config.group_id,
        topics=config.topics,
        client_id=config.client_id,
        instance_id=config.instance_id,
        rebalance_timeout_ms=config.rebalance_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        request_timeout_ms=config.request_timeout_ms,
    )


def _share(config: MemberConfig) -> AnyConfig:
    return ShareMemberConfig(
        group_id=config.group_id,
        topics=config.topics,
        client_id=config.client_id,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        request_timeout_ms=config.request_timeout_ms,
    )


def _streams(config: MemberConfig) -> AnyConfig:
    """Return the settings of a member that is alone in its process and has no state."""
    return StreamsMemberConfig(
        group_id=config.group_id,
        topology=StreamsTopology(epoch=0, subtopologies=(subtopology("0", config.topics),)),
        client_id=config.client_id,
        instance_id=config.instance_id,
        process_id=config.instance_id or "",
        rebalance_timeout_ms=config.rebalance_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        request_timeout_ms=config.request_timeout_ms,
    )


SETTINGS: Final[Mapping[str, Callable[[MemberConfig], AnyConfig]]] = MappingProxyType(
    {
        CLASSIC: lambda config: config,
        "consumer": _consumer,
        "share": _share,
        "streams": _streams,
    }
)
"""The settings of a member of each type of group, from those of a classic one."""
