"""Every metric: one row with its help text, unit, labels and names.

A metric is shown in three places with the same value: ``rollcall status --json``, the console's
``/metrics`` (Prometheus) and OTLP. Each reads this table, and ``docs/metrics.md`` has its rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from actors.metrics import readers
from actors.metrics.names import (
    COMMIT_LATENCY,
    ELECTIONS,
    EPOCH,
    EVENT_PROCESSING_TIME_MS,
    EVENT_QUEUE_SIZE,
    EVENT_QUEUE_TIME_MS,
    FAILURES,
    FLUSH_RATE,
    FLUSH_TIME_MS,
    GROUP,
    GROUP_COUNT,
    GROUP_LABEL,
    GROUP_MEMBERS,
    GROUP_REBALANCES,
    GROUP_REBALANCING,
    GROUP_STATE,
    GROUP_TYPES,
    GROUPS_LEFT_OUT,
    HELD_TIME_MS,
    IDLE_RATIO,
    LAG,
    LAG_LEFT_OUT,
    LEASE_MS,
    MEMBERS_LEFT_OUT,
    OFFSET,
    OFFSET_COUNTS,
    OFFSETS_LEFT_OUT,
    PARTITION_LABELS,
    PARTITIONS,
    PERCENTILES,
    PROCESSING_TIME_MS,
    QUEUE_TIME_MS,
    REBALANCE_DURATION,
    RESIGNATIONS,
    RUNS,
    RUNS_IN_PLACE,
    RUNS_RETRIED,
    SHARE,
    SHARE_WRITE_LATENCY_MS,
    SHARE_WRITE_RATE,
    SHARE_WRITES,
    SYNC_TIME,
    THREAD_IDLE_RATIO,
    WAITING_MS,
)
from actors.metrics.row import MetricKind, MetricRow, MetricScope, MetricSource, escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from actors.metrics.names import GroupTypeMetrics
    from actors.metrics.row import Values


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
        read=readers.counted,
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
        read=readers.by_label,
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
        read=readers.series,
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
        read=readers.by_group,
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
        read=readers.counted,
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
        read=readers.by_label if labels else readers.counted,
    )


def _of_leaders(key: str, otlp: str, about: str) -> MetricRow:
    """Return a counter of changes of who leads, by the kind of the partition."""
    return MetricRow(
        key=key,
        kind=MetricKind.COUNTER,
        scope=MetricScope.COORDINATOR,
        unit="{change}",
        help=about,
        prometheus=escaped(otlp),
        otlp=otlp,
        labels=("kind",),
        read=readers.by_label,
    )


def _known_to_controller(
    key: str,
    unit: str,
    names: tuple[str, str],
    about: str,
    reading: tuple[MetricScope, Callable[[Mapping[str, Any], str], Values]],
) -> MetricRow:
    """Return a gauge that the controller exports; ``names`` are those in Prometheus and OTLP.

    ``reading`` is its scope, and how it is read.
    """
    return MetricRow(
        key=key,
        kind=MetricKind.GAUGE,
        scope=reading[0],
        unit=unit,
        help=about,
        prometheus=names[0],
        otlp=names[1],
        source=MetricSource.CONTROLLER,
        read=reading[1],
    )


def _of_partition(key: str, unit: str, names: tuple[str, str], about: str) -> MetricRow:
    """Return a gauge of the leader of each partition."""
    row = _known_to_controller(key, unit, names, about, (MetricScope.CLUSTER, readers.of_leader))
    return replace(row, labels=("partition",))


def _of_lag(
    key: str, unit: str, names: tuple[str, str], about: str, labels: tuple[str, ...] = ()
) -> MetricRow:
    """Return a gauge of a watched cluster; ``names`` are those in Prometheus and OTLP."""
    row = _known_to_controller(key, unit, names, about, (MetricScope.CLUSTER, readers.of_lag))
    return replace(row, source=MetricSource.WATCH, labels=labels)


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
        read=readers.by_label,
    ),
    *(row for each in GROUP_TYPES for row in _of_groups(each)),
    *(row for key, done in OFFSET_COUNTS.items() for row in _of_offsets(key, done)),
    replace(
        _kafkas(PARTITIONS, "{partition}", "Partitions of groups here that load, or are led."),
        labels=("state",),
        read=readers.by_label,
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
        read=readers.counted,
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
    _of_leaders(
        ELECTIONS,
        "rollcall.leader.elections",
        "Times that the coordinator began to lead a partition, each in a new epoch, by kind.",
    ),
    _of_leaders(
        RESIGNATIONS,
        "rollcall.leader.resignations",
        "Times that the coordinator stopped leading a partition while it ran, by kind.",
    ),
    _of_partition(
        LEASE_MS,
        "ms",
        ("rollcall_partition_lease_seconds", "rollcall.partition.lease"),
        "Time for which the leader of a partition may still answer, 0 if it is at rest.",
    ),
    _of_partition(
        WAITING_MS,
        "ms",
        ("rollcall_partition_lease_wait_seconds", "rollcall.partition.lease-wait"),
        "Time for which committed answers of a partition have waited for its leader's lease.",
    ),
    _of_partition(
        EPOCH,
        "{epoch}",
        ("rollcall_partition_leader_epoch", "rollcall.partition.leader-epoch"),
        "Epoch of the leader of a partition: each election makes it larger.",
    ),
    _known_to_controller(
        "up",
        "1",
        ("rollcall_coordinator_up", "rollcall.coordinator.up"),
        "1 if the coordinator serves clients, else 0.",
        (MetricScope.COORDINATOR, readers.is_up),
    ),
    _known_to_controller(
        "leads",
        "{partition}",
        ("rollcall_partitions_led", "rollcall.partitions.led"),
        "Partitions of __consumer_offsets that the coordinator leads.",
        (MetricScope.COORDINATOR, readers.led),
    ),
    _known_to_controller(
        "under_replicated",
        "{partition}",
        ("rollcall_under_replicated_partitions", "rollcall.partitions.under-replicated"),
        "Partitions, including the catalogue, with fewer in-sync replicas than replicas.",
        (MetricScope.CLUSTER, readers.under_replicated),
    ),
    _known_to_controller(
        "waiting",
        "{task}",
        ("rollcall_assignor_waiting", "rollcall.assignor.waiting"),
        "Tasks waiting for the assignor worker.",
        (MetricScope.WORKER, readers.of_worker),
    ),
    _known_to_controller(
        "idle_ratio",
        "1",
        ("rollcall_assignor_idle_ratio", "rollcall.assignor.idle-ratio"),
        "Share of the time that the assignor worker was idle.",
        (MetricScope.WORKER, readers.of_worker),
    ),
    _of_lag(
        LAG,
        "{record}",
        ("kafka_consumergroup_lag", "kafka.consumer_group.lag"),
        "Records between a committed offset and the end of its partition, in a watched cluster.",
        (GROUP_LABEL, *PARTITION_LABELS),
    ),
    _of_lag(
        OFFSET,
        "{offset}",
        ("kafka_consumergroup_current_offset", "kafka.consumer_group.current_offset"),
        "Offset that a group has committed, in a watched cluster.",
        (GROUP_LABEL, *PARTITION_LABELS),
    ),
    _of_lag(
        LAG_LEFT_OUT,
        "{record}",
        ("kafka_consumergroup_lag_left_out", "rollcall.consumergroup.lag-left-out"),
        "Sum of the known lag in a watched cluster of groups that are not shown one by one.",
    ),
    _of_lag(
        OFFSETS_LEFT_OUT,
        "{offset}",
        ("kafka_consumergroup_offsets_left_out", "rollcall.consumergroup.offsets-left-out"),
        "Committed offsets in a watched cluster of groups that are not shown one by one.",
    ),
)
"""Every metric. A new one is a row here and a line of ``docs/metrics.md``."""
