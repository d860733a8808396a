"""The format of scenario files (``docs/scenarios.md``).

What Kubernetes names has its spelling (``maxSurge``), and so have Kafka's settings
(``session_timeout_ms``). :mod:`bench.scenarios.checks` checks what several settings say together.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from bench.scenarios.behaviours import Behaviour
from bench.scenarios.faults import Fault
from bench.scenarios.values import Amount, Duration, Protocol
from protocol.members.assignors import ClassicAssignor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from protocol.wire.embedded import TopicPartition

Text = Annotated[str, Meta(min_length=1, max_length=1_000)]
BASE: Final = "base"
"""The variant that is the scenario as its file has it."""
NAME: Final = r"^[a-zA-Z0-9._-]{1,100}\Z"
Name = Annotated[str, Meta(pattern=NAME)]
Partitions = Annotated[int, Meta(ge=1, le=10_000)]
Replicas = Annotated[int, Meta(ge=1, le=100_000)]
Milliseconds = Annotated[int, Meta(ge=1, le=86_400_000)]
CommitInterval = Annotated[int, Meta(ge=0, le=86_400_000)]
"""0: never."""
Seconds = Annotated[int, Meta(ge=0, le=86_400)]
REBALANCE_TIMEOUT_MS: Final = 300_000
Limit = Annotated[float, Meta(ge=0, le=10**9)]
Count = Annotated[int, Meta(ge=0, le=10**9)]


class WorkloadKind(StrEnum):
    """What manages the pods: a Deployment gives each a new name, a StatefulSet keeps the names."""

    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet"


class ScenarioTopic(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic that groups read."""

    partitions: Partitions


class GroupLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the scenario must and may cost a group; what is not given is reported, not judged."""

    members_min: Count | None = None
    members_max: Count | None = None
    rebalances_min: Count | None = None
    rebalances_max: Count | None = None
    unavailable_member_seconds_min: Limit | None = None
    unavailable_member_seconds_max: Limit | None = None
    unowned_seconds_min: Limit | None = None
    unowned_seconds_max: Limit | None = None
    partitions_moved_min: Count | None = None
    partitions_moved_max: Count | None = None
    failed_members_min: Count | None = None
    failed_members_max: Count | None = None
    survivor_revocations_min: Count | None = None
    survivor_revocations_max: Count | None = None
    most_partitions_min: Count | None = None
    most_partitions_max: Count | None = None


NO_LIMITS: Final = GroupLimits()


class Group(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True,
    rename={
        "max_surge": "maxSurge",
        "max_unavailable": "maxUnavailable",
        "min_ready_seconds": "minReadySeconds",
        "termination_grace_seconds": "terminationGracePeriodSeconds",
    },
):  # fmt: skip
    """A group: one application, whose pods have one member each."""

    name: Name
    topics: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=100)]
    protocol: Protocol = Protocol.CLASSIC
    assignor: ClassicAssignor | None = None
    """Of classic members only, usually ``range``: others' coordinators assign."""
    static: bool = False
    """Whether each member's instance id is the name of its pod."""
    workload: WorkloadKind = WorkloadKind.DEPLOYMENT
    replicas: Replicas = 3
    copies: Annotated[int, Meta(ge=1, le=1_000)] = 1
    """How many such applications there are; their groups are numbered: ``name-0`` and so on."""
    racks: Annotated[tuple[Name, ...], Meta(max_length=1_000)] = ()
    """The racks of the pods, in turn; members of groups that are not classic tell theirs."""
    max_surge: Amount | None = None
    """How many pods there may be beyond ``replicas`` in a rolling deploy; usually 25%."""
    max_unavailable: Amount | None = None
    """How many pods may be unavailable in a rolling deploy; usually 25%, of a StatefulSet 1."""
    min_ready_seconds: Seconds = 0
    """How long a pod must be ready before it counts as available."""
    termination_grace_seconds: Seconds = 30
    """A pod that needs longer to stop is killed."""
    start_time: Duration = Duration(5_000)
    """From the creation of a pod to its first request to the coordinator."""
    ready_time: Duration = Duration(0)
    """From that request until its readiness probe succeeds: only then does the pod count."""
    stop_time: Duration = Duration(1_000)
    """From the signal to stop to the moment when the member leaves."""
    revoke_time: Duration = Duration(0)
    """What a member needs to give partitions up in a rebalance."""
    slow_pods: Amount | None = None
    """How many pods need the ``revoke_time``, usually all; others give partitions up at once."""
    commit_interval_ms: CommitInterval | None = None
    """How often each member commits its offsets, usually as often as the scenario says."""
    session_timeout_ms: Milliseconds | None = None
    """Of classic members only: the others' is a config of the coordinator."""
    heartbeat_interval_ms: Milliseconds | None = None
    """Of classic members only."""
    rebalance_timeout_ms: Milliseconds = REBALANCE_TIMEOUT_MS
    """Kafka's clients use ``max.poll.interval.ms`` for it."""
    behaviours: Annotated[tuple[Behaviour, ...], Meta(max_length=1_000)] = ()
    expect: GroupLimits = NO_LIMITS
    expect_kafka: GroupLimits | None = None
    """What it may cost on Apache Kafka instead, which cannot do what the scenario is about."""

    def copied(self) -> Iterator[str]:
        """Yield the ids of the groups of all copies of a group in the file."""
        if self.copies == 1:
            yield self.name
        else:
            yield from (f"{self.name}-{number}" for number in range(self.copies))

    @property
    def application(self) -> str:
        """The name in the file: that of a copy without its number."""
        return self.name.rpartition("-")[0] if self.copies > 1 else self.name

    def surge(self, replicas: int) -> int:
        """Return how many of so many pods there may be in addition."""
        if self.workload is WorkloadKind.STATEFUL_SET:
            return 0
        return (self.max_surge or QUARTER).of(replicas, rounds_up=True)

    def unavailable(self, replicas: int) -> int:
        """Return how many of so many pods may be unavailable: at least one without a surge."""
        usual = ONE if self.workload is WorkloadKind.STATEFUL_SET else QUARTER
        number = (self.max_unavailable or usual).of(replicas, rounds_up=False)
        return number if self.surge(replicas) else max(number, 1)


QUARTER: Final = Amount(25, is_percent=True)
ONE: Final = Amount(1)


class Variant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same scenario with other settings of its groups and brokers, or other faults."""

    name: Name
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Other settings of some groups, by the group's name."""
    configs: dict[str, str] = field(default_factory=dict)
    faults: Annotated[tuple[Fault, ...], Meta(max_length=1_000)] | None = None
    """What happens to the cluster instead, if it is given."""


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Applications, what happens to them, and for how long."""

    name: str
    about: Text
    duration: Duration
    joins_over: Duration = Duration(0)
    """Over how long a time the members join in the beginning, group after group."""
    nodes: Annotated[int, Meta(ge=3, le=50)] | None = None
    """How many nodes its cluster has; usually three, or one if nothing happens to it."""
    racks: Annotated[tuple[Name, ...], Meta(max_length=50)] = ()
    """The racks of its nodes, in turn; with racks it usually has three nodes, too."""
    topics: Annotated[dict[str, ScenarioTopic], Meta(min_length=1, max_length=1_000)]
    groups: Annotated[tuple[Group, ...], Meta(min_length=1, max_length=1_000)]
    faults: Annotated[tuple[Fault, ...], Meta(max_length=1_000)] = ()
    configs: dict[str, str] = field(default_factory=dict)
    """Configs of the brokers, under Kafka's names."""
    variants: Annotated[tuple[Variant, ...], Meta(max_length=20)] = ()
    commit_interval_ms: CommitInterval = 5_000
    members_per_connection: Annotated[int, Meta(ge=1, le=1_000)] = 1
    """How many members of a process share a connection for what is answered at once."""
    seed: Annotated[int, Meta(ge=0, le=2**31)] = 0
    """What chance decides (pods that crash, names): the same seed, the same plan."""

    def commit_ms(self, group: Group) -> int:
        """Return how often each member of a group commits its offsets; 0: never."""
        own = group.commit_interval_ms
        return self.commit_interval_ms if own is None else own

    @property
    def members(self) -> int:
        """How many members all groups have in the beginning."""
        return sum(group.replicas for group in self.groups)

    def broker_configs(self) -> dict[str, str]:
        """Return the configs of the brokers: Kafka's default where benchmarks have another one."""
        return {"group.initial.rebalance.delay.ms": "3000", **self.configs}

    def on_kafka(self) -> Scenario:
        """Return the scenario with what its groups may cost on Apache Kafka."""
        groups = [
            group if group.expect_kafka is None else replace(group, expect=group.expect_kafka)
            for group in self.groups
        ]
        return replace(self, groups=tuple(groups))

    def partitions_of(self) -> dict[str, int]:
        """Return how many partitions each topic has."""
        return {name: topic.partitions for name, topic in self.topics.items()}

    def partitions_by_group(self) -> dict[str, list[TopicPartition]]:
        """Return the partitions that the members of each group subscribe to."""
        return {
            group.name: [
                (topic, index)
                for topic in dict.fromkeys(group.topics)
                for index in range(self.topics[topic].partitions)
            ]
            for group in self.groups
        }

    def other_partitions_by_group(self) -> dict[str, list[TopicPartition]]:
        """Return the partitions that some members of each group subscribe to for a time."""
        return {
            group.name: [
                (topic, index)
                for topic in dict.fromkeys(
                    topic
                    for behaviour in group.behaviours
                    for topic in getattr(behaviour, "topics", ())
                )
                if topic not in group.topics
                for index in range(self.topics[topic].partitions)
            ]
            for group in self.groups
        }
