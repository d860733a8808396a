"""Every metric of Kafka's coordinators is served under its name, or it is said why not."""

from pathlib import Path

from actors.metrics.names import GROUP, SHARE
from actors.metrics.table import ROWS
from actors.telemetry.kafka_metrics import NOT_SERVED, YAMMER

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"

HISTOGRAM = ("max", "p50", "p95", "p99", "p999")

RUNTIME = {
    "num-partitions": (),
    "partition-load-time-max": (),
    "partition-load-time-avg": (),
    "thread-idle-ratio-avg": (),
    "event-queue-size": (),
    "event-queue-time-ms": HISTOGRAM,
    "event-processing-time-ms": HISTOGRAM,
    "event-purgatory-time-ms": HISTOGRAM,
    "batch-linger-time-ms": HISTOGRAM,
    "batch-flush-time-ms": HISTOGRAM,
    "batch-flush-rate": (),
    "batch-buffer-cache-size-bytes": (),
    "batch-buffer-cache-discard-count": (),
}
"""What both coordinators have (CoordinatorRuntimeMetricsImpl)."""

KAFKA: dict[str, dict[str, tuple[str, ...]]] = {
    GROUP: {
        **RUNTIME,
        "background-thread-idle-ratio-avg": (),
        "background-queue-time-ms": HISTOGRAM,
        "background-processing-time-ms": HISTOGRAM,
        "group-count": (),
        "consumer-group-count": (),
        "share-group-count": (),
        "streams-group-count": (),
        "offset-commit-rate": (),
        "offset-commit-count": (),
        "offset-expiration-rate": (),
        "offset-expiration-count": (),
        "offset-deletion-rate": (),
        "offset-deletion-count": (),
        "group-completed-rebalance-rate": (),
        "group-completed-rebalance-count": (),
        "consumer-group-rebalance-rate": (),
        "consumer-group-rebalance-count": (),
        "share-group-rebalance-rate": (),
        "share-group-rebalance-count": (),
        "streams-group-rebalance-rate": (),
        "streams-group-rebalance-count": (),
    },
    SHARE: {
        **RUNTIME,
        "write-rate": (),
        "write-total": (),
        "write-latency": ("avg", "max"),
        "last-pruned-offset": (),
    },
    YAMMER: dict.fromkeys(
        (
            "NumGroups",
            "NumOffsets",
            "NumGroupsPreparingRebalance",
            "NumGroupsCompletingRebalance",
            "NumGroupsStable",
            "NumGroupsDead",
            "NumGroupsEmpty",
        ),
        (),
    ),
}
"""The names of Kafka 4.3.1 by group, with the suffixes of each."""


def test_every_metric_of_kafka_is_served_or_has_a_reason_why_not() -> None:
    known = {(group, name) for group, names in KAFKA.items() for name in names}
    served = {(row.kafka_group, row.kafka) for row in ROWS if row.kafka}
    assert served | NOT_SERVED.keys() == known
    assert not served & NOT_SERVED.keys()


def test_what_is_served_has_kafkas_suffixes_and_group() -> None:
    for row in ROWS:
        if row.kafka:
            suffixes = set(KAFKA[row.kafka_group][row.kafka])
            assert set(row.percentiles) == suffixes, row.key
            assert row.otlp == f"{row.kafka_group}.{row.kafka}"


def test_the_page_of_metrics_says_what_is_not_served() -> None:
    lines = "\n".join(
        f"| `{group}` | `{name}` | {why} |" for (group, name), why in NOT_SERVED.items()
    )
    assert lines in PAGE.read_text(), f"docs/metrics.md is to have:\n{lines}"
