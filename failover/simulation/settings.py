"""The settings of a simulated cluster in one value: size, clock speeds and fault rates.

Replicas are slower here than in production (their heartbeats dominate the cost of an idle minute),
and so are faults: all timeouts are longer in the same proportion, and networks are quick in
comparison, as in production, so the possible orders of events stay the same. Only where replicas
send more often than that do idle leaders, which then send less, differ from others.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

EPOCH_MS: Final = 1_700_000_000_000
"""The Unix time at which every simulation starts."""


class Quiet(StrEnum):
    """How a cluster spends hours in which nothing, or little, happens."""

    NEVER = "never"
    OFF = "off"
    ASLEEP = "asleep"
    IDLE = "idle"
    ATTENDED = "attended"
    """Members stay, and little happens."""


RETENTION_MINUTES: Final = {
    Quiet.NEVER: 60, Quiet.OFF: 60, Quiet.ASLEEP: 60, Quiet.IDLE: 10, Quiet.ATTENDED: 60,
}  # fmt: skip
"""How long offsets are kept; the quiet hours last half as long, or two and a half times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Mean milliseconds between two faults of one kind while faults are on; 0: never.

    ``kill_voter`` is no time: after one vote in this many, its voter is killed right after sending
    it.
    """

    kill: int = 32_000
    kill_mid_turn: int = 32_000
    lose_disk: int = 50_000
    pause: int = 50_000
    cut_node: int = 50_000
    cut_pair: int = 50_000
    cut_one_way: int = 50_000
    cut_clients: int = 75_000
    link_reset: int = 40_000
    controller: int = 50_000
    kill_voter: int = 4
    kill_all: int = 0
    member: int = 10_000
    admin: int = 30_000
    call: int = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFaults:
    """Mean milliseconds between two faults of disks, clocks, handlers, requests and links."""

    slow_disk: int = 50_000
    full_disk: int = 70_000
    failed_write: int = 80_000
    failed_sync: int = 80_000
    rot: int = 120_000
    database: int = 120_000
    stale_copy: int = 40_000
    drift: int = 30_000
    wall_clock: int = 40_000
    handler: int = 30_000
    failed_read: int = 60_000
    wild_clock: int = 120_000
    freeze: int = 50_000
    oversize: int = 15_000
    slow_link: int = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFaults:
    """Mean milliseconds between two faults of wall clocks that start wrong, or of two at once."""

    wrong_start: int = 60_000
    two_wrong: int = 90_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SectorFaults:
    """Mean milliseconds between two faults of single writes and sectors."""

    slow_write: int = 60_000
    misdirected: int = 12_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFaults:
    """Faults of consumer groups and assignor workers while faults are on.

    The first four are mean milliseconds between two of a kind, as in :class:`Faults`. The others
    are shares of the runs: ``slow_run`` ones take seconds to minutes, ``twice`` ones are answered a
    second time, ``lost_run`` ones never, ``failed_run`` ones fail in the assignor itself.
    """

    subscription: int = 14_000
    migration: int = 18_000
    topic: int = 20_000
    worker: int = 18_000
    slow_run: float = 0.2
    twice: float = 0.3
    lost_run: float = 0.08
    failed_run: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class TermFaults:
    """Faults at the changes of a term: each hits one vote, question or change in this many."""

    stall_voter: int = 12
    repeat_question: int = 2
    lone_changer: int = 3


NO_TERM_FAULTS: Final = TermFaults(**dict.fromkeys(TermFaults.__dataclass_fields__, 0))
NO_DISK_FAULTS: Final = DiskFaults(**dict.fromkeys(DiskFaults.__dataclass_fields__, 0))
NO_CLOCK_FAULTS: Final = ClockFaults(wrong_start=0, two_wrong=0)
NO_SECTOR_FAULTS: Final = SectorFaults(slow_write=0, misdirected=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One simulation. Times are simulated milliseconds.

    ``loss``, ``duplication`` and ``reordering`` are the share of peer messages affected while
    faults are on. Whatever arrives within ``turn_ms`` goes into one turn of a host; ``look_ms`` is
    how often the controller gets a report of every node. ``clock_skew`` is how much faster or
    slower than true time a node's clock may run; the margin that replicas allow each other must be
    larger than that on both sides. ``members`` are spread over ``groups`` classic groups,
    ``consumer_groups``, ``mixed_groups``, whose members change between both protocols,
    ``share_groups`` and ``streams_groups``, whose tasks with state have ``standby_tasks`` each.
    ``takeover``: in consumer and mixed groups a static member's successor need not wait for it.
    ``fleet``: groups get configs of KIP-345's future works, which change.
    With ``shuns_broken`` a client does not ask the node to which its connection just broke, as
    Kafka's clients do; without, it asks any node, which finds more bugs. The nodes are on
    ``racks``, in turn; none: on no rack.
    """

    nodes: int = 3
    replication: int = 3
    partitions: int = 3
    groups: int = 4
    consumer_groups: int = 0
    mixed_groups: int = 0
    share_groups: int = 0
    streams_groups: int = 0
    standby_tasks: int = 0
    members: int = 20
    topic_partitions: int = 6
    faulty_ms: int = 180_000
    settle_ms: int = 600_000
    heartbeat_interval_ms: int = 10_000
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 60_000
    request_timeout_ms: int = 12_000
    commit_interval_ms: int = 60_000
    replica_heartbeat_ms: int = 3_000
    replica_lease_ms: int = 9_000
    replica_election_ms: int = 15_000
    delay_ms: tuple[int, int] = (1, 6)
    client_delay_ms: tuple[int, int] = (1, 6)
    loss: float = 0.01
    duplication: float = 0.01
    reordering: float = 0.02
    turn_ms: int = 0
    sync_ms: tuple[int, int] = (0, 0)
    look_ms: int = 5_000
    clock_skew: float = 0.05
    controller: bool = True
    takeover: bool = False
    fleet: bool = False
    shuns_broken: bool = False
    faults: Faults = field(default_factory=Faults)
    group_faults: GroupFaults = field(default_factory=GroupFaults)
    disk_faults: DiskFaults = field(default_factory=lambda: NO_DISK_FAULTS)
    clock_faults: ClockFaults = field(default_factory=lambda: NO_CLOCK_FAULTS)
    sector_faults: SectorFaults = field(default_factory=lambda: NO_SECTOR_FAULTS)
    term_faults: TermFaults = field(default_factory=lambda: NO_TERM_FAULTS)
    configs: Mapping[str, str] = field(default_factory=dict)
    racks: tuple[str, ...] = ()
    quiet: Quiet = Quiet.NEVER
    retention_minutes: int = 60

    def rack_of(self, node_id: int) -> str | None:
        """Return the rack of a node, if nodes have racks."""
        return self.racks[node_id % len(self.racks)] if self.racks else None

    @property
    def all_groups(self) -> int:
        """How many groups have members."""
        return (
            self.groups
            + self.consumer_groups
            + self.mixed_groups
            + self.share_groups
            + self.streams_groups
        )


CALM: Final = Settings(
    faults=Faults(**dict.fromkeys(Faults.__dataclass_fields__, 0)),
    loss=0.0,
    duplication=0.0,
    reordering=0.0,
)
"""No faults, and no members join or leave: the cost of an idle minute."""


class GroupMix(StrEnum):
    """The groups of a simulation."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    MIXED = "mixed"
    SHARE = "share"
    STREAMS = "streams"
    ALL = "all"
    ANY = "any"


def groups_of(seed: int, groups: GroupMix = GroupMix.ANY) -> GroupMix:
    """Return a seed's groups, where the seed decides that."""
    if groups is not GroupMix.ANY:
        return groups
    return MIX[seed % len(MIX)]


def settings_for(seed: int, groups: GroupMix = GroupMix.ANY) -> Settings:
    """Return a seed's random settings: each seed has other faults."""
    settings = _settings_for(seed)
    groups = groups_of(seed, groups)
    if groups is GroupMix.CLASSIC:
        return settings
    rng = random.Random(f"group settings {seed}")
    rough = rng.choice((0.5, 1.0, 2.0))
    faults = GroupFaults()
    rates = {}
    for name in ("subscription", "migration", "topic", "worker"):
        rates[name] = 0 if rng.random() < 0.2 else int(getattr(faults, name) * rough)
    for name in ("slow_run", "twice", "lost_run", "failed_run"):
        rates[name] = 0 if rng.random() < 0.3 else getattr(faults, name)
    sizes = SIZES[groups]
    settings = replace(
        settings,
        groups=sizes.classic,
        consumer_groups=sizes.consumer,
        mixed_groups=sizes.mixed,
        share_groups=sizes.share,
        streams_groups=sizes.streams,
        members=sizes.members,
        group_faults=GroupFaults(**rates),
        configs={
            **settings.configs,
            "group.consumer.migration.policy": "bidirectional",
            "group.consumer.heartbeat.interval.ms": str(settings.heartbeat_interval_ms),
            "group.consumer.session.timeout.ms": str(settings.session_timeout_ms),
            "group.consumer.assignment.interval.ms": rng.choice(("0", "1000", "5000")),
            "group.consumer.assignor.offload.enable": rng.choice(("true", "true", "false")),
            "group.consumer.regex.refresh.interval.ms": rng.choice(("10000", "600000")),
        },
        takeover=rng.random() < 0.3,
    )
    return _with_tasks(_with_shares(settings, rng), rng)


def _with_shares(settings: Settings, rng: random.Random) -> Settings:
    """Add the configs of share groups, if there are any."""
    if not settings.share_groups:
        return settings
    configs = {
        "group.share.heartbeat.interval.ms": str(settings.heartbeat_interval_ms),
        "group.share.session.timeout.ms": str(settings.session_timeout_ms),
        "group.share.assignment.interval.ms": rng.choice(("0", "1000", "5000")),
        "group.share.assignor.offload.enable": rng.choice(("true", "true", "false")),
        "group.share.initialize.retry.interval.ms": rng.choice(("5000", "30000")),
        "share.coordinator.snapshot.update.records.per.snapshot": rng.choice(("0", "3", "10")),
    }
    return replace(settings, configs={**settings.configs, **configs})


def _with_tasks(settings: Settings, rng: random.Random) -> Settings:
    """Add the configs of streams groups, if there are any."""
    if not settings.streams_groups:
        return settings
    standbys = rng.choice((0, 1, 1, 2))
    configs = {
        "group.streams.heartbeat.interval.ms": str(settings.heartbeat_interval_ms),
        "group.streams.session.timeout.ms": str(settings.session_timeout_ms),
        "group.streams.assignment.interval.ms": rng.choice(("0", "1000", "5000")),
        "group.streams.initial.rebalance.delay.ms": rng.choice(("0", "3000")),
        "group.streams.assignor.offload.enable": rng.choice(("true", "true", "false")),
        "group.streams.num.standby.replicas": str(standbys),
    }
    return replace(settings, standby_tasks=standbys, configs={**settings.configs, **configs})


class Sizes(NamedTuple):
    """How many groups of each type there are, and how many members in total."""

    members: int
    classic: int = 0
    consumer: int = 0
    mixed: int = 0
    share: int = 0
    streams: int = 0


SIZES: Final[Mapping[GroupMix, Sizes]] = {
    GroupMix.CONSUMER: Sizes(members=10, consumer=2),
    GroupMix.MIXED: Sizes(members=10, mixed=2),
    GroupMix.SHARE: Sizes(members=8, share=2),
    GroupMix.STREAMS: Sizes(members=8, streams=2),
    GroupMix.ALL: Sizes(members=15, classic=1, consumer=1, mixed=1, share=1, streams=1),
}


def _disk_faults(seed: int, rough: float) -> DiskFaults:
    rng = random.Random(f"disk settings {seed}")
    faults, rates = DiskFaults(), {}
    for name in DiskFaults.__dataclass_fields__:
        rates[name] = 0 if rng.random() < 0.4 else int(getattr(faults, name) * rough)
    return DiskFaults(**rates)


def _clock_faults(seed: int, rough: float) -> ClockFaults:
    rng = random.Random(f"clock settings {seed}")
    faults, rates = ClockFaults(), {}
    for name in ClockFaults.__dataclass_fields__:
        rates[name] = 0 if rng.random() < 0.5 else int(getattr(faults, name) * rough)
    return ClockFaults(**rates)


def _sector_faults(seed: int, rough: float) -> SectorFaults:
    rng = random.Random(f"sector settings {seed}")
    faults, rates = SectorFaults(), {}
    for name in SectorFaults.__dataclass_fields__:
        rates[name] = 0 if rng.random() < 0.6 else int(getattr(faults, name) * rough)
    return SectorFaults(**rates)


def _term_faults(seed: int) -> TermFaults:
    rng = random.Random(f"term settings {seed}")
    faults, rates = TermFaults(), {}
    for name in TermFaults.__dataclass_fields__:
        rates[name] = 0 if rng.random() < 0.4 else getattr(faults, name)
    return TermFaults(**rates)


MIX: Final = (
    GroupMix.ALL, GroupMix.CLASSIC, GroupMix.CONSUMER, GroupMix.MIXED, GroupMix.SHARE,
    GroupMix.ALL, GroupMix.CLASSIC, GroupMix.CONSUMER, GroupMix.MIXED, GroupMix.STREAMS,
)  # fmt: skip
"""The groups of consecutive seeds, unless given by the caller."""


QUIET: Final = {
    0: Quiet.OFF, 4: Quiet.ASLEEP, 8: Quiet.OFF, 12: Quiet.IDLE, 16: Quiet.ASLEEP, 21: Quiet.OFF,
}  # fmt: skip
"""Which of fifty seeds, counted in twos, have quiet hours without members."""

ATTENDED: Final = frozenset({5, 163, 307, 454, 709})
"""Which of a thousand seeds have hours with members: one of each mix except the classic groups."""


def _quiet(seed: int) -> Quiet:
    if seed % 1_000 in ATTENDED:
        return Quiet.ATTENDED
    return QUIET.get(seed % 50 // 2 if seed % 2 else -1, Quiet.NEVER)


SLOW_TURNS: Final = 0.15
SLOW_TURN_MS: Final = 100
"""In this share of the seeds processes are busy: much arrives at once, and is one batch."""


def _turn_ms(seed: int, usual_ms: int) -> int:
    is_slow = random.Random(f"slow turns {seed}").random() < SLOW_TURNS
    return SLOW_TURN_MS if is_slow else usual_ms


def _settings_for(seed: int) -> Settings:
    rng = random.Random(f"settings {seed}")
    rough = rng.choice((0.4, 1.0, 1.0, 2.5))
    spared = rng.choice((0.25, 0.25, 0.0))
    faults = Faults()
    rates = {}
    for name in Faults.__dataclass_fields__:
        mean_ms = getattr(faults, name)
        rates[name] = 0 if rng.random() < spared else max(int(mean_ms * rough), mean_ms and 1)
    rates["kill_voter"] = rates["kill_voter"] and max(rates["kill_voter"], 3)
    if rng.random() < 0.2:
        rates["kill_all"] = 60_000
    is_datagram = rng.random() < 0.5
    nodes = rng.choice((3, 3, 3, 3, 5))
    replication = 5 if nodes == 5 and rng.random() < 0.5 else 3
    if replication == 5:
        rates["lose_disk"] = faults.lose_disk // 2
    quiet = _quiet(seed)
    return Settings(
        faults=Faults(**rates),
        disk_faults=_disk_faults(seed, rough),
        clock_faults=_clock_faults(seed, rough),
        sector_faults=_sector_faults(seed, rough),
        term_faults=_term_faults(seed),
        nodes=nodes,
        replication=replication,
        partitions=rng.choice((2, 3)),
        groups=3,
        members=12,
        faulty_ms=rng.choice((40_000, 70_000, 110_000)),
        loss=rng.choice((0.0, 0.01, 0.1)),
        duplication=rng.choice((0.01, 0.05)) if is_datagram else 0.0,
        reordering=rng.choice((0.02, 0.1)) if is_datagram else 0.0,
        turn_ms=_turn_ms(seed, rng.choice((0, 3))),
        delay_ms=rng.choice(((0, 2), (1, 6), (1, 200))),
        commit_interval_ms=rng.choice((4_000, 15_000)),
        controller=rng.random() < 0.75,
        replica_heartbeat_ms=rng.choice((3_000, 3_000, 3_000, 750)),
        sync_ms=rng.choice(((0, 0), (0, 3), (1, 20), (1, 500))),
        quiet=quiet,
        retention_minutes=rng.choice((60, 60, 1))
        if quiet is Quiet.NEVER
        else RETENTION_MINUTES[quiet],
    )
