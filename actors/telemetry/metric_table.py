"""Every metric: one row with its help text, unit, labels and names.

A metric is shown in three places with the same value: ``rollcall status --json``, the console's
``/metrics`` (Prometheus) and OTLP. Each reads this table, and ``docs/metrics.md`` has its rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
    """The kind of a value: a gauge goes up and down, a counter only up while the process runs."""

    GAUGE = "gauge"
    COUNTER = "counter"


class MetricScope(StrEnum):
    """What a value describes; a coordinator or worker is a label of it."""

    COORDINATOR = "coordinator"
    WORKER = "worker"
    CLUSTER = "cluster"


Values: TypeAlias = "Iterable[tuple[tuple[str, ...], float]]"
"""Values with their labels, without the label of the scope."""


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
    def about(self) -> str:
        """Return the help text with the unit."""
        return f"{self.help} Unit: {self.unit}." if self.unit.isalpha() else self.help


def escaped(name: str) -> str:
    """Return a name in Prometheus' form."""
    return name.replace("-", "_").replace(".", "_")


def _counted(coordinator: Mapping[str, Any], name: str) -> Values:
    found = (coordinator.get("metrics") or {}).get(name)
    return [] if found is None else [((), found)]


def _by_label(coordinator: Mapping[str, Any], name: str) -> Values:
    found = (coordinator.get("metrics") or {}).get(name, {})
    return [((label,), count) for label, count in found.items()]


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
