"""Every metric: one row with its help text, unit, labels and names.

A metric is shown in three places with the same value: ``rollcall status --json``, the console's
``/metrics`` (Prometheus) and OTLP. Each reads this table, and ``docs/metrics.md`` has its rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from failover.partition_kinds import title_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

GROUP: Final = "group-coordinator-metrics"
SHARE: Final = "share-coordinator-metrics"
"""The groups that Kafka's metrics are in."""

PERCENTILES: Final[Mapping[str, float]] = {
    "p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0,
}  # fmt: skip

RUNS: Final = "assignor-runs"
RUNS_IN_PLACE: Final = "assignor-runs-in-place"
RUNS_RETRIED: Final = "assignor-runs-retried"
FAILURES: Final = "assignor-failures"
IDLE_RATIO: Final = "background-thread-idle-ratio-avg"
QUEUE_TIME_MS: Final = "background-queue-time-ms"
PROCESSING_TIME_MS: Final = "background-processing-time-ms"
HELD_TIME_MS: Final = "event-loop-held-time-ms"


GROUP_COUNT: Final = "group-count"

THREAD_IDLE_RATIO: Final = "thread-idle-ratio-avg"
EVENT_QUEUE_SIZE: Final = "event-queue-size"
EVENT_QUEUE_TIME_MS: Final = "event-queue-time-ms"
EVENT_PROCESSING_TIME_MS: Final = "event-processing-time-ms"
FLUSH_TIME_MS: Final = "batch-flush-time-ms"
FLUSH_RATE: Final = "batch-flush-rate"
PARTITIONS: Final = "num-partitions"
SHARE_WRITES: Final = "share-state-write-total"
SHARE_WRITE_RATE: Final = "share-state-write-rate"
SHARE_WRITE_LATENCY_MS: Final = "share-state-write-latency-ms"

REBALANCE_DURATION: Final = "rebalance-duration"
COMMIT_LATENCY: Final = "offset-commit-latency"
SYNC_TIME: Final = "log-sync-time"

ELECTIONS: Final = "leader-elections"
RESIGNATIONS: Final = "leader-resignations"

GROUP_MEMBERS: Final = "consumergroup-members"
GROUP_STATE: Final = "consumergroup-state"
GROUP_REBALANCING: Final = "consumergroup-rebalancing"
GROUP_REBALANCES: Final = "consumergroup-rebalances"
GROUPS_LEFT_OUT: Final = "consumergroups-left-out"
MEMBERS_LEFT_OUT: Final = "consumergroups-left-out-members"
GROUP_LABEL: Final = "consumergroup"
"""The label with the name of a group, as in widely used exporters for Kafka."""

OFFSET_COUNTS: Final[Mapping[str, str]] = {
    "offset-commit": "committed",
    "offset-expiration": "expired",
    "offset-deletion": "deleted",
}
"""What happens to offsets, and its field in ``OffsetCounts`` of the core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTypeMetrics:
    """The metrics of one type of group.

    ``states`` are those that ListGroups tells. ``count`` has the groups by state; ``rebalance``
    and "-count" or "-rate" are how often they rebalance. ``is_count_kafkas``: Kafka has ``count``.
    """

    group_type: str
    states: tuple[str, ...]
    rebalance: str
    is_count_kafkas: bool = True

    @property
    def count_key(self) -> str:
        """The name of the number of groups by state."""
        return f"{self.group_type}-group-count"

    @property
    def rebalances_key(self) -> str:
        """The name of the number of rebalances."""
        return f"{self.rebalance}-count"

    @property
    def rebalance_rate_key(self) -> str:
        """The name of the rebalances per second."""
        return f"{self.rebalance}-rate"


_RECONCILED: Final = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")

GROUP_TYPES: Final = (
    GroupTypeMetrics(
        group_type="classic",
        states=("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"),
        rebalance="group-completed-rebalance",
        is_count_kafkas=False,
    ),
    GroupTypeMetrics(
        group_type="consumer", states=_RECONCILED, rebalance="consumer-group-rebalance"
    ),
    GroupTypeMetrics(
        group_type="share",
        states=("Empty", "Stable", "Dead"),
        rebalance="share-group-rebalance",
    ),
    GroupTypeMetrics(
        group_type="streams",
        states=(*_RECONCILED, "NotReady"),
        rebalance="streams-group-rebalance",
    ),
)
"""One row for each type of group, with Kafka's names: a new type is a row here."""


class MetricKind(StrEnum):
    """The kind of a value: a gauge goes up and down, a counter only up while the process runs.

    A histogram counts durations in buckets (:mod:`actors.telemetry.histograms`).
    """

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class MetricScope(StrEnum):
    """What a value describes; a coordinator or worker is a label of it."""

    COORDINATOR = "coordinator"
    WORKER = "worker"
    CLUSTER = "cluster"


Values: TypeAlias = "Iterable[tuple[tuple[str, ...], Any]]"
"""Values with their labels, without the label of the scope: numbers, or series of a histogram."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """One metric, or one for each of ``percentiles``.

    ``key`` is its name in the status. ``unit`` is in UCUM, as in OTLP: ``ms``, ``1`` for a
    ratio, ``{run}`` for a count of runs. ``read`` takes the status of one coordinator, of one
    worker, or the whole one, by ``scope``, and the full name.
    """

    key: str
    kind: MetricKind
    scope: MetricScope
    unit: str
    help: str
    prometheus: str
    otlp: str = ""
    """Its name in OTLP; empty: coordinators do not export it."""
    kafka: str = ""
    """Kafka's name without suffix; empty: Kafka does not have it."""
    kafka_group: str = GROUP
    """The group that Kafka has it in."""
    labels: tuple[str, ...] = ()
    """Labels in addition to that of the scope."""
    percentiles: tuple[str, ...] = ()
    read: Callable[[Mapping[str, Any], str], Values]

    @property
    def names(self) -> Mapping[str, str]:
        """Return the names in the status, each with its suffix: ``-p50`` and so on, or ""."""
        ends = [f"-{each}" for each in self.percentiles] or [""]
        return {f"{self.key}{end}": end for end in ends}

    @property
    def all_labels(self) -> tuple[str, ...]:
        """Return every label, that of the scope first."""
        own = () if self.scope is MetricScope.CLUSTER else (str(self.scope),)
        return (*own, *self.labels)

    @property
    def is_by_percentile(self) -> bool:
        """Whether Prometheus has the percentiles as one metric, with a label for each."""
        return bool(self.percentiles) and PERCENTILES.keys() >= set(self.percentiles)

    @property
    def families(self) -> Mapping[str, Sequence[str]]:
        """Return the names in Prometheus, and which names in the status each of them has."""
        if self.is_by_percentile:
            return {self.prometheus: tuple(self.names)}
        return {self.prometheus + escaped(end): (name,) for name, end in self.names.items()}

    @property
    def factor(self) -> float:
        """Return what a value is multiplied by for Prometheus, which has seconds."""
        return 0.001 if self.unit == "ms" else 1.0


def escaped(name: str) -> str:
    """Return a name in Prometheus' form: in seconds, and without the end that histograms use."""
    name = name.replace("-", "_").replace(".", "_")
    return re.sub("_ms$", "_seconds", re.sub("_count$", "s", name))


def _counted(coordinator: Mapping[str, Any], name: str) -> Values:
    found = (coordinator.get("metrics") or {}).get(name)
    return [] if found is None else [((), found)]


def _by_label(coordinator: Mapping[str, Any], name: str) -> Values:
    found = (coordinator.get("metrics") or {}).get(name, {})
    return [((label,), count) for label, count in found.items()]


def _by_group(coordinator: Mapping[str, Any], name: str) -> Values:
    found = (coordinator.get("metrics") or {}).get(name, [])
    return [(tuple(labels), value) for *labels, value in found]


def _series(coordinator: Mapping[str, Any], name: str) -> Values:
    found = (coordinator.get("metrics") or {}).get(name, [])
    return [(tuple(each["labels"]), each) for each in found]


def _of_leader(status: Mapping[str, Any], name: str) -> Values:
    rows = [status[each] for each in ("catalog",) if each in status]
    rows += [*status.get("partitions", []), *status.get("share_state", [])]
    return [((title_of(row["partition"]),), row[name]) for row in rows if name in row]


def _is_up(coordinator: Mapping[str, Any], _: str) -> Values:
    return [((), coordinator["state"] in ("Running", "Draining"))]


def _led(coordinator: Mapping[str, Any], _: str) -> Values:
    return [((), len(coordinator["leads"]))]


def _of_worker(worker: Mapping[str, Any], name: str) -> Values:
    return [((), worker[name])] if name in worker else []


def _under_replicated(status: Mapping[str, Any], name: str) -> Values:
    return [((), len(status[name]))]


def _kafkas(key: str, unit: str, about: str, percentiles: Iterable[str] = ()) -> MetricRow:
    """Return a gauge that Kafka has under the same name."""
    return MetricRow(
        key=key,
        kind=MetricKind.GAUGE,
        scope=MetricScope.COORDINATOR,
        unit=unit,
        help=about,
        prometheus=escaped(f"{GROUP}.{key}"),
        otlp=f"{GROUP}.{key}",
        kafka=key,
        percentiles=tuple(percentiles),
        read=_counted,
    )


def _of_offsets(key: str, done: str) -> Iterable[MetricRow]:
    """Return the rows of what happens to offsets."""
    about = f"Offsets of groups led here that were {done}"
    total = _kafkas(f"{key}-count", "{offset}", f"{about}.")
    yield replace(total, kind=MetricKind.COUNTER)
    yield _kafkas(f"{key}-rate", "{offset}/s", f"{about}, per second of the last minute.")


def _of_share_state(
    key: str, kafka: str, unit: str, about: str, percentiles: tuple[str, ...] = ()
) -> MetricRow:
    """Return a row of the share coordinator; ``key`` says of what, as Kafka's name does not."""
    row = _kafkas(key, unit, about, percentiles)
    name = f"{SHARE}.{kafka}"
    prometheus = escaped(name.removesuffix("-total"))  # it adds that itself
    prometheus += "_seconds" if unit == "ms" else ""
    return replace(row, kafka=kafka, kafka_group=SHARE, prometheus=prometheus, otlp=name)


def _of_groups(row: GroupTypeMetrics) -> Iterable[MetricRow]:
    """Return the rows of one type of group."""
    count = _kafkas(
        row.count_key, "{group}", f"Groups of type {row.group_type} led here, by state."
    )
    yield replace(
        count,
        kafka=row.count_key if row.is_count_kafkas else "",
        labels=("state",),
        read=_by_label,
    )
    what = (
        "Rebalances that ended with all members"
        if row.group_type == "classic"
        else "Group epochs that got a target assignment"
    )
    about = f"{what}, of groups of type {row.group_type}"
    total = _kafkas(row.rebalances_key, "{rebalance}", f"{about}.")
    yield replace(total, kind=MetricKind.COUNTER)
    yield _kafkas(
        row.rebalance_rate_key, "{rebalance}/s", f"{about}, per second of the last minute."
    )


def _durations(key: str, about: str, labels: tuple[str, ...] = ()) -> MetricRow:
    """Return a histogram of seconds."""
    return MetricRow(
        key=key,
        kind=MetricKind.HISTOGRAM,
        scope=MetricScope.COORDINATOR,
        unit="s",
        help=about,
        prometheus=escaped(f"rollcall_{key}") + "_seconds",
        otlp=f"rollcall.{key}",
        labels=labels,
        read=_series,
    )


def _of_group(key: str, prometheus: str, otlp: str, about: str, *labels: str) -> MetricRow:
    """Return a gauge of single groups: the most active ones."""
    return MetricRow(
        key=key,
        kind=MetricKind.GAUGE,
        scope=MetricScope.COORDINATOR,
        unit="{member}" if key == GROUP_MEMBERS else "1",
        help=about,
        prometheus=prometheus,
        otlp=otlp,
        labels=(GROUP_LABEL, *labels),
        read=_by_group,
    )


def _left_out(key: str, unit: str, about: str) -> MetricRow:
    """Return a gauge of the groups that are not shown one by one."""
    return MetricRow(
        key=key,
        kind=MetricKind.GAUGE,
        scope=MetricScope.COORDINATOR,
        unit=unit,
        help=about,
        prometheus=escaped(f"rollcall_{key}"),
        otlp=f"rollcall.{key}",
        read=_counted,
    )


def _runs(key: str, about: str, labels: tuple[str, ...] = ()) -> MetricRow:
    """Return a counter of runs of assignors."""
    name = key.removeprefix("assignor-")
    return MetricRow(
        key=key,
        kind=MetricKind.COUNTER,
        scope=MetricScope.COORDINATOR,
        unit="{run}",
        help=about,
        prometheus=escaped(f"rollcall_assignor_{name}"),
        otlp=f"rollcall.assignor.{name}",
        labels=labels,
        read=_by_label if labels else _counted,
    )


ROWS: Final = (
    _kafkas(
        IDLE_RATIO,
        "1",
        "Share of the workers' time that this coordinator did not use in the last minute.",
    ),
    _kafkas(
        QUEUE_TIME_MS,
        "ms",
        "Time that tasks waited for an assignor worker in the last minute.",
        PERCENTILES,
    ),
    _kafkas(
        PROCESSING_TIME_MS,
        "ms",
        "Time that assignor workers took to run a task in the last minute.",
        PERCENTILES,
    ),
    _runs(RUNS, "Target assignments computed."),
    _runs(RUNS_IN_PLACE, "Target assignments that the coordinator computed itself."),
    _runs(RUNS_RETRIED, "Assignor runs that failed and were retried."),
    _runs(FAILURES, "Assignor runs that failed and were not retried.", ("group_type",)),
    replace(
        _kafkas(GROUP_COUNT, "{group}", "Groups led here, by type."),
        labels=("protocol",),
        read=_by_label,
    ),
    *(row for each in GROUP_TYPES for row in _of_groups(each)),
    *(row for key, done in OFFSET_COUNTS.items() for row in _of_offsets(key, done)),
    replace(
        _kafkas(PARTITIONS, "{partition}", "Partitions of groups here that load, or are led."),
        labels=("state",),
        read=_by_label,
    ),
    _kafkas(
        THREAD_IDLE_RATIO,
        "1",
        "Share of the last minute in which the event loop used no CPU.",
    ),
    _kafkas(EVENT_QUEUE_SIZE, "{request}", "Requests that wait for the event loop."),
    _kafkas(
        EVENT_QUEUE_TIME_MS,
        "ms",
        "Time that requests waited in the last minute, of one request at a time.",
        PERCENTILES,
    ),
    _kafkas(
        EVENT_PROCESSING_TIME_MS,
        "ms",
        "Time that the event loop took to handle the same requests.",
        PERCENTILES,
    ),
    _kafkas(
        FLUSH_TIME_MS,
        "ms",
        "Time that it took to write a turn's records to the log, without the sync.",
        PERCENTILES,
    ),
    _kafkas(FLUSH_RATE, "{batch}/s", "Batches of records written, per second of the last minute."),
    replace(
        _of_share_state(
            SHARE_WRITES,
            "write-total",
            "{partition}",
            "Share partitions whose state clients initialized or wrote here.",
        ),
        kind=MetricKind.COUNTER,
    ),
    _of_share_state(
        SHARE_WRITE_RATE,
        "write-rate",
        "{partition}/s",
        "Share partitions whose state clients initialized or wrote here, per second of the last"
        " minute.",
    ),
    _of_share_state(
        SHARE_WRITE_LATENCY_MS,
        "write-latency",
        "ms",
        "Time until a write of share state was answered, in the last minute.",
        ("avg", "max"),
    ),
    MetricRow(
        key=HELD_TIME_MS,
        kind=MetricKind.GAUGE,
        scope=MetricScope.COORDINATOR,
        unit="ms",
        help=(
            "Time that the event loop was blocked when its timer was due, in the last ten seconds. "
            "Measured only if event.loop.watch.interval.ms is set; 1 is a good value."
        ),
        prometheus=escaped(f"{GROUP}.{HELD_TIME_MS}"),
        otlp=f"{GROUP}.{HELD_TIME_MS}",
        percentiles=tuple(PERCENTILES),
        read=_counted,
    ),
    _durations(
        REBALANCE_DURATION,
        "Time from the first change of a group until every member had its assignment.",
        ("group_type", "trigger"),
    ),
    _durations(
        COMMIT_LATENCY, "Time until an OffsetCommit was answered, of one request at a time."
    ),
    _durations(SYNC_TIME, "Time of a sync of the log to the disk."),
    _of_group(
        GROUP_MEMBERS,
        "kafka_consumergroup_members",
        "kafka.consumer_group.members",
        "Members of a group, of the most active groups led here.",
    ),
    _of_group(
        GROUP_STATE,
        "kafka_consumergroup_group_state",
        "kafka.consumer_group.state",
        "1 for the type and state of a group, of the same groups.",
        "type",
        "state",
    ),
    _of_group(
        GROUP_REBALANCING,
        "kafka_consumergroup_rebalancing",
        "kafka.consumer_group.rebalancing",
        "1 while members of a group do not have their assignment, else 0; of the same groups.",
    ),
    replace(
        _of_group(
            GROUP_REBALANCES,
            "rollcall_consumergroup_rebalances",
            "rollcall.consumergroup.rebalances",
            "Rebalances of a group since the coordinator started, of the same groups.",
        ),
        kind=MetricKind.COUNTER,
        unit="{rebalance}",
    ),
    _left_out(
        GROUPS_LEFT_OUT,
        "{group}",
        "Groups led here that are not shown one by one (metrics.groups.max).",
    ),
    _left_out(MEMBERS_LEFT_OUT, "{member}", "Members of the groups that are not shown one by one."),
    MetricRow(
        key="lease_ms",
        kind=MetricKind.GAUGE,
        scope=MetricScope.CLUSTER,
        unit="ms",
        help="Time for which the leader of a partition may still answer, 0 if it is at rest.",
        prometheus="rollcall_partition_lease_seconds",
        labels=("partition",),
        read=_of_leader,
    ),
    MetricRow(
        key="waiting_ms",
        kind=MetricKind.GAUGE,
        scope=MetricScope.CLUSTER,
        unit="ms",
        help="Time for which committed answers of a partition have waited for its leader's lease.",
        prometheus="rollcall_partition_lease_wait_seconds",
        labels=("partition",),
        read=_of_leader,
    ),
    MetricRow(
        key="up",
        kind=MetricKind.GAUGE,
        scope=MetricScope.COORDINATOR,
        unit="1",
        help="1 if the coordinator serves clients, else 0.",
        prometheus="rollcall_coordinator_up",
        read=_is_up,
    ),
    MetricRow(
        key="leads",
        kind=MetricKind.GAUGE,
        scope=MetricScope.COORDINATOR,
        unit="{partition}",
        help="Partitions of __consumer_offsets that the coordinator leads.",
        prometheus="rollcall_partitions_led",
        read=_led,
    ),
    MetricRow(
        key="under_replicated",
        kind=MetricKind.GAUGE,
        scope=MetricScope.CLUSTER,
        unit="{partition}",
        help="Partitions, including the catalogue, with fewer in-sync replicas than replicas.",
        prometheus="rollcall_under_replicated_partitions",
        read=_under_replicated,
    ),
    MetricRow(
        key="waiting",
        kind=MetricKind.GAUGE,
        scope=MetricScope.WORKER,
        unit="{task}",
        help="Tasks waiting for the assignor worker.",
        prometheus="rollcall_assignor_waiting",
        read=_of_worker,
    ),
    MetricRow(
        key="idle_ratio",
        kind=MetricKind.GAUGE,
        scope=MetricScope.WORKER,
        unit="1",
        help="Share of the time that the assignor worker was idle.",
        prometheus="rollcall_assignor_idle_ratio",
        read=_of_worker,
    ),
)
"""Every metric. A new one is a row here and a line of ``docs/metrics.md``."""
