"""A metric: one row with its help text, unit, labels, names, and where its values are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from actors.metrics.names import GROUP, PERCENTILES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


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


class MetricSource(StrEnum):
    """The process that exports a metric over OTLP.

    The controller knows what coordinators and workers say of themselves, and which are away. Only a
    watch of another cluster knows lag.
    """

    COORDINATOR = "coordinator"
    CONTROLLER = "controller"
    WATCH = "watch"


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
    otlp: str
    source: MetricSource = MetricSource.COORDINATOR
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


def parts_of(
    status: Mapping[str, Any], scope: MetricScope
) -> list[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Return what the rows of ``scope`` read of a status, each part with its label."""
    if scope is MetricScope.COORDINATOR:
        return [((str(row["node_id"]),), row) for row in status["coordinators"]]
    if scope is MetricScope.WORKER:
        return [((str(number),), row) for number, row in enumerate(status["workers"])]
    return [((), status)]
